"""One part of a group of the plan beside its pull request on the forge, and why nothing may be written to it."""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import STOP_LABEL, Draft, Part, Proposal, ProposalState
from reconciler.domain.settings import Identity
from reconciler.errors import ReconcilerError
from reconciler.forge.marker import MarkerState, read_marker
from reconciler.forge.proposals import decision_of_commit, stranger_of
from reconciler.forge.pull_requests import PullRequest
from reconciler.git.commits import CommitRecord
from reconciler.pipeline.drafting.conditions import DAY_S
from reconciler.pipeline.observe import ObservedRun


class Operation(StrEnum):
    """What happened to a group's pull request."""

    CREATED = "created"
    UPDATED = "updated"
    CLOSED = "closed"
    NONE = "none"
    MERGED = "merged"
    SCHEDULED = "merge scheduled"
    WAITING = "waits to merge"
    LEFT = "left alone"
    PUT_BACK = "put back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The outcome for one part of a group; `reason` says why something was left alone, was put back or failed.

    `part` is None for a branch that the plan knows nothing of.
    """

    group: str
    operation: Operation
    head_branch: str
    part: Part | None = None
    number: int | None = None
    url: str = ""
    head_commit: str = ""
    reason: str = ""
    error: ReconcilerError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One part of a group: its draft, if something is to be proposed, its head branch and pull request as observed."""

    name: str
    branch: str
    group: GroupPlan | None
    draft: Draft | None
    observed: ObservedRun
    ours: Identity
    unseen: Container[str] = frozenset()
    """Resources that the plan cannot judge, as the proposal names them."""

    @property
    def part(self) -> Part | None:
        """Which part of its group it is; None where the plan does not know it."""
        return None if self.group is None else self.group.part

    @property
    def proposal(self) -> Proposal | None:
        """The open one of this head branch."""
        return next((each for each in self._proposals if each.state is ProposalState.OPEN), None)

    @property
    def pull_request(self) -> PullRequest | None:
        """The open proposal as the forge showed it."""
        return None if self.proposal is None else self.observed.forge.pull_requests.get(self.proposal.number)

    @property
    def is_put_back(self) -> bool:
        """Whether limits alone keep it from being opened or pushed now."""
        return self.group is not None and bool(self.group.put_back)

    @property
    def tip_oid(self) -> str:
        """Where the head branch pointed; empty when there was none."""
        return self.observed.forge.branches.get(self.branch, "")

    @property
    def tip(self) -> CommitRecord | None:
        """The newest commit of the head branch."""
        return self.observed.forge.tips.get(self.branch)

    @property
    def is_pushed(self) -> bool:
        """Whether the head branch carries this decision already."""
        return (
            self.draft is not None
            and self.tip is not None
            and (decision_of_commit(self.tip.message) == self.draft.change_set.decision)
        )

    @property
    def tells_all(self) -> bool:
        """Whether the body speaks of this decision, part and merge, and not as of what a killed run would withdraw."""
        marker = None if self.pull_request is None else read_marker(self.pull_request.body)
        return (
            marker is not None
            and self.draft is not None
            and marker.decision == self.draft.change_set.decision
            and marker.part == self.draft.change_set.part
            and marker.merges == self.draft.merges
            and marker.state is not MarkerState.WITHDRAWN
        )

    @property
    def is_abandoned_branch(self) -> bool:
        """Whether the branch is what a killed run of ours left behind: withdrawn, or never proposed."""
        if not self.tip_oid or self.proposal is not None:
            return False
        latest = max(self._proposals, key=lambda each: each.number, default=None)
        return latest is None or latest.state is ProposalState.WITHDRAWN

    def reason_to_leave(self) -> str:
        """Why nothing is written for this group, mostly what a person did; empty when something may be."""
        if self.group is not None and self.group.blocked is not None:
            return self.group.blocked.words
        proposal = self.proposal
        if proposal is not None:
            if proposal.in_merge_queue:
                return f"pull request #{proposal.number} is in the merge queue"
            if STOP_LABEL in proposal.labels:
                return f"pull request #{proposal.number} is labelled {STOP_LABEL}"
            unseen = [change.resource for change in proposal.changes if change.resource in self.unseen]
            if unseen:
                return (
                    f"open pull request #{proposal.number} stays as it is: not all that {unseen[0]} needs can be read"
                )
        would_write = proposal is not None or self.draft is not None or self.is_abandoned_branch
        stranger = self._strangers_work() if would_write else ""
        return stranger or self._too_early()

    def outcome(
        self,
        operation: Operation,
        *,
        pull_request: PullRequest | None = None,
        head_commit: str = "",
        reason: str = "",
    ) -> Published:
        """What became of this group."""
        return Published(
            group=self.name,
            operation=operation,
            head_branch=self.branch,
            part=self.part,
            number=pull_request.number if pull_request else None,
            url=pull_request.url if pull_request else "",
            head_commit=head_commit,
            reason=reason,
        )

    def _too_early(self) -> str:
        """Why conditions are not told now: a group is told once a day, and not at all for a while after a refusal."""
        if self.draft is None or not self.draft.change_set.flips:
            return ""
        recording, proposal = self.observed.recording, self.proposal
        if proposal is not None:
            tip = self.observed.forge.tips.get(self.branch)
            is_new = tip is not None and not self.is_pushed and recording.now_s - tip.committed_s < DAY_S
            return f"conditions are told once a day, and #{proposal.number} is not a day old" if is_new else ""
        for each in self._proposals:
            age_s = 0.0 if each.closed_at_s is None else recording.now_s - each.closed_at_s
            if each.state is ProposalState.WITHDRAWN and age_s < DAY_S:
                return f"conditions are told once a day, and #{each.number} was"
            if each.state is ProposalState.CLOSED and age_s < recording.settings.pull_requests.reopen_after_s:
                return f"a person closed pull request #{each.number}, which told of conditions"
        return ""

    @property
    def _proposals(self) -> tuple[Proposal, ...]:
        return tuple(each for each in self.observed.recording.proposals if each.head_branch == self.branch)

    def _strangers_work(self) -> str:
        """Whose commit stands on the branch, whatever became of its pull request; empty when it is ours or gone."""
        stranger = stranger_of(self.tip, self.ours) if self.tip is not None else ""
        if not stranger:
            return ""
        if not self._proposals:
            return f"{self.branch} exists and is not ours: delete it, or choose another git.branchPrefix"
        return f"{stranger} pushed commits to {self.branch}: they are never overwritten"
