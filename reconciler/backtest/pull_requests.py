"""The pull requests of a simulated repository: opened, pushed, closed and merged as a run and people do."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field

from reconciler.aftermerge import promise_of
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import Part, Proposal, ProposalState
from reconciler.domain.records import dataclass, replace

PUSHES_S = 3600.0
REMEMBERED_S = 86_400.0
"""What was merged before is known as merged, but no longer what it changed."""


@dataclass(slots=True, kw_only=True)
class PullRequests:
    """Pull requests and when they are merged; `proposals` is what a snapshot shows, `opened` and `pushed` are counts.

    `merged_by_people` says when (Unix seconds) people merge one that is opened as the n-th, at the moment given, with
    this plan: infinity is never. One that merges by itself is merged by the first run that finds it as it was, where
    its terms let that; people take those that are stuck.
    """

    merged_by_people: Callable[[GroupPlan, int, float], float]
    proposals: list[Proposal] = field(default_factory=list)
    opened: int = 0
    pushed: int = 0
    _due_s: dict[int, float] = field(default_factory=dict)

    def publish(self, plans: Iterable[GroupPlan], now_s: float) -> None:
        """Write what limits let through, and schedule for now what merges by itself."""
        ready: list[tuple[bool, int, int]] = []
        for plan in plans:
            if plan.blocked is not None:
                continue
            standing = self._open_on(plan.head_branch)
            is_same = standing is not None and standing.branch_decision == plan.fingerprint
            number = standing.number if standing is not None and is_same else self._write(plan, standing, now_s)
            if plan.merges is None or plan.merges.is_stuck:
                if number and number not in self._due_s:
                    self._due_s[number] = self.merged_by_people(plan, number, now_s)
                continue
            self._due_s.pop(number, None)
            if is_same and not plan.merges.waits:
                ready.append((plan.part is not Part.URGENT, number, plan.merges.left))
        left = min((each for _, _, each in ready), default=0)
        ordered = sorted(ready, key=lambda each: each[0])
        self._due_s |= {number: now_s for _, number, _ in ordered[:left]}

    def merge(self, now_s: float) -> Iterator[Proposal]:
        """Merge what is due; each with its time as `closed_at_s`."""
        for index, each in enumerate(self.proposals):
            due_s = self._due_s.get(each.number, math.inf)
            if each.state is ProposalState.OPEN and due_s <= now_s:
                self.proposals[index] = merged = replace(each, state=ProposalState.MERGED, closed_at_s=due_s)
                del self._due_s[each.number]
                yield merged
            elif each.changes and each.closed_at_s is not None and now_s - each.closed_at_s >= REMEMBERED_S:
                self.proposals[index] = replace(each, changes=(), promises=())

    def _open_on(self, branch: str) -> Proposal | None:
        ours = (each for each in self.proposals if each.head_branch == branch and each.state is ProposalState.OPEN)
        return next(ours, None)

    def _write(self, plan: GroupPlan, standing: Proposal | None, now_s: float) -> int:
        """Open, push or close a pull request; its number, or 0 where none is open now."""
        changes = plan.changes
        if standing is not None:
            self.proposals.remove(standing)
            self.pushed += bool(changes)
        if not changes:
            if standing is not None:
                self._due_s.pop(standing.number, None)
            return 0
        self.opened += standing is None
        pushes_s = () if standing is None else tuple(each for each in standing.pushes_s if now_s - each < PUSHES_S)
        proposal = Proposal(
            group=plan.name,
            number=self.opened if standing is None else standing.number,
            state=ProposalState.OPEN,
            head_branch=plan.head_branch,
            decision=plan.fingerprint,
            branch_decision=plan.fingerprint,
            changes=tuple(each.change.proposed for each in changes),
            promises=tuple(map(promise_of, changes)),
            opened_at_s=now_s if standing is None else standing.opened_at_s,
            pushes_s=(*pushes_s, now_s),
            merges=plan.merges is not None,
        )
        self.proposals.append(proposal)
        return proposal.number
