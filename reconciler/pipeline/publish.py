"""Publish: one commit and one pull request per part of a group, created, updated or withdrawn; nothing without change.

Killing it anywhere and running again leads to the same pull requests: each step looks at what stands before it writes.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.decision.proposing.limits import recent, why_not_pushed
from reconciler.decision.staging.branches import branches_of
from reconciler.domain.identity import Severity
from reconciler.domain.plan import GroupPlan, Outcome, Plan
from reconciler.domain.proposals import Draft, ProposalState
from reconciler.domain.settings import PullRequestSettings
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.forge.marker import withdrawn
from reconciler.forge.proposals import proposal_of, with_pushes
from reconciler.forge.pull_requests import Forge, PullRequest
from reconciler.git.clone import Clone
from reconciler.pipeline.group_states import GroupState, Operation, Published
from reconciler.pipeline.merging import Merger, ordered_before
from reconciler.pipeline.observe import ObservedRun
from reconciler.pipeline.session import Doors

logger = logging.getLogger(__name__)

__all__ = ["Operation", "Published", "publish"]


def publish(
    doors: Doors, clone: Clone, observed: ObservedRun, plan: Plan, drafts: Iterable[Draft]
) -> tuple[Published, ...]:
    """Bring every group's pull requests in line with the plan; the failure of one does not stop the others."""
    press = _Press(
        doors=doors,
        clone=clone,
        observed=observed,
        date_s=int(plan.now_s),
        settings=observed.recording.settings.pull_requests,
        unseen=_unseen(plan, observed),
    )
    press.note_merges()
    by_branch = {draft.change_set.head_branch: draft for draft in drafts}
    states = [
        *(press.state(group.name, group.head_branch, group, by_branch.get(group.head_branch)) for group in plan.groups),
        *(press.state(name, branch, None, None) for name, branch in _without_plan(plan, observed)),
        *(press.state(name, branch, None, None) for name, branch in _vanished(plan, observed)),
    ]
    outcomes = []
    for number, state in enumerate(states, start=1):
        outcomes.append(press.attempt(state))
        doors.progress("publishing", number, len(states))
    merger = press.merger(states)
    return tuple(merger.merge(state, each) for state, each in zip(states, outcomes, strict=True))


def _without_plan(plan: Plan, observed: ObservedRun) -> list[tuple[str, str]]:
    """Branches of the plan's groups for parts that neither change anything nor are open: a killed run left them."""
    known = {group.head_branch for group in plan.groups}
    prefix = observed.recording.settings.git.branch_prefix
    branches = {branch: group.name for group in plan.groups for branch in branches_of(prefix, group.name)}
    return [(branches[each], each) for each in observed.forge.branches if each in branches and each not in known]


def _vanished(plan: Plan, observed: ObservedRun) -> list[tuple[str, str]]:
    """Groups of open pull requests that the plan no longer knows; with partial inputs they may only seem to be gone."""
    prefix = observed.recording.settings.git.branch_prefix
    known = {branch for group in plan.groups for branch in (group.head_branch, *branches_of(prefix, group.name))}
    return [
        (proposal.group or proposal.head_branch, proposal.head_branch)
        for proposal in observed.recording.proposals
        if proposal.state is ProposalState.OPEN
        and proposal.decision  # else it is a person's, under our prefix
        and proposal.head_branch not in known
        and not _is_partial(plan, observed)
    ]


def _unseen(plan: Plan, observed: ObservedRun) -> frozenset[str]:
    """Resources of open pull requests that are gone or held, perhaps only because something cannot be read."""
    if not _is_partial(plan, observed):
        return frozenset()
    judged = {str(decision.variant) for decision in plan.decisions if decision.outcome is not Outcome.HELD}
    named = {change.resource for proposal in observed.recording.proposals for change in proposal.changes}
    return frozenset(named - judged)


def _is_partial(plan: Plan, observed: ObservedRun) -> bool:
    """Whether a part of the inputs cannot be read or was not looked at."""
    is_broken = any(finding.severity is Severity.ERROR for finding in plan.findings)
    return is_broken or bool(observed.recording.settings.other_clusters)


@dataclass(slots=True, kw_only=True)
class _Press:
    """Publishes part by part; knows how things stood when they were observed."""

    doors: Doors
    clone: Clone
    observed: ObservedRun
    date_s: int
    settings: PullRequestSettings
    unseen: frozenset[str]
    is_access_checked: bool = False
    taken_back: set[str] = field(default_factory=set)
    """Branches that the forge was to merge, and is not any more."""

    def state(self, name: str, branch: str, group: GroupPlan | None, draft: Draft | None) -> GroupState:
        """A part of a group with its draft and what was observed of it."""
        return GroupState(
            name=name,
            branch=branch,
            group=group,
            draft=draft,
            observed=self.observed,
            ours=self.doors.author,
            unseen=self.unseen,
        )

    def note_merges(self) -> None:
        """Tell the forge of what git merged; what fails is told again by the next run."""
        for number in self.observed.forge.merged_in_git:
            try:
                self._forge.note_merge(number)
            except ReconcilerError as error:
                logger.warning("pull request %d was merged, which the forge does not learn: %s", number, error)

    def attempt(self, state: GroupState) -> Published:
        """Publish one part; an expected failure becomes its outcome."""
        try:
            return self._publish(state)
        except (TransientError, ConfigurationError) as error:
            return Published(
                group=state.name,
                operation=Operation.FAILED,
                head_branch=state.branch,
                part=state.part,
                reason=str(error),
                error=error,
            )

    def merger(self, states: Iterable[GroupState]) -> Merger:
        """Who merges at the end what this run left as it was."""
        return Merger(
            forge=self._forge,
            base=self.clone,
            clone=self.clone,
            now_s=self.observed.recording.now_s,
            method=self.settings.merge_method,
            ordered=ordered_before(each for each in states if each.branch not in self.taken_back),
        )

    def _publish(self, state: GroupState) -> Published:
        reason = state.reason_to_leave()
        self._take_back(state, reason)
        if reason:
            return state.outcome(Operation.PUT_BACK if state.is_put_back else Operation.LEFT, reason=reason)
        if state.draft is None:
            return self._withdraw(state)
        if state.is_pushed and self._still_merges(state):
            return self._write_body(state, state.draft, pushed=False)
        if state.proposal is not None and (late := why_not_pushed(state.proposal, self.settings, self.date_s)):
            return state.outcome(Operation.PUT_BACK, reason=late)
        commit = self._push(state, state.draft)
        return self._write_body(state, state.draft, pushed=True, commit=commit)

    def _take_back(self, state: GroupState, reason: str) -> None:
        """Before anything else: the forge would merge what is pushed now, or what a rule has come to object to."""
        pull_request, terms = state.pull_request, None if state.group is None else state.group.merges
        if pull_request is None or not pull_request.is_scheduled:
            return
        is_same = not reason and state.is_pushed and state.tells_all and self._still_merges(state)
        if not is_same or terms is None or terms.waits:
            self._forge.unschedule(pull_request.number)
            self.taken_back.add(state.branch)

    def _withdraw(self, state: GroupState) -> Published:
        """Mark, close, delete: in this order each step can be resumed after a crash."""
        pull_request = state.pull_request
        operation = Operation.NONE
        if state.proposal is not None and pull_request is not None:
            self._check_access()
            number = self._forge.update(pull_request.number, body=withdrawn(pull_request.body)).number
            self._forge.update(number, close=True)
            operation = Operation.CLOSED
        if state.tip_oid and (state.is_abandoned_branch or operation is Operation.CLOSED):
            self._check_access()
            self.clone.delete_branch(state.branch, expected=state.tip_oid)
        return state.outcome(operation, pull_request=pull_request)

    def _still_merges(self, state: GroupState) -> bool:
        tip = state.tip
        if tip is None or len(tip.parents) != 1 or state.branch in self.observed.forge.stale:
            return False
        return self.clone.merges_cleanly(head=tip.oid, onto=self.clone.commit, parent=tip.parents[0])

    def _push(self, state: GroupState, draft: Draft) -> str:
        self._check_access()
        pushes_s = state.proposal.pushes_s if state.proposal is not None and self.settings.pushes_per_hour else ()
        commit = self.clone.write_commit(
            parent=self.clone.commit,
            files=draft.change_set.files,
            message=with_pushes(draft.commit_message, recent(pushes_s, self.date_s)),
            author=self.doors.author,
            date_s=self.date_s,
        )
        self.clone.push(state.branch, commit, expected=state.tip_oid or None)
        return commit

    def _write_body(self, state: GroupState, draft: Draft, *, pushed: bool, commit: str = "") -> Published:
        """Create the pull request, or write its texts when they speak of another decision."""
        pull_request = state.pull_request if state.proposal is not None else None
        if pull_request is None:
            return self._create(state, draft, commit or state.tip_oid)
        if not pushed and state.tells_all and not _is_unfinished(pull_request, draft):
            return state.outcome(Operation.NONE, pull_request=pull_request)
        self._check_access()
        updated = self._forge.update(
            pull_request.number,
            title=draft.title,
            body=draft.body,
            labels=draft.labels,
            unlabel=draft.unfit_labels,
            reviewers=self._reviewers(draft) if _is_unfinished(pull_request, draft) else (),
        )
        return state.outcome(Operation.UPDATED, pull_request=updated, head_commit=commit)

    def _create(self, state: GroupState, draft: Draft, commit: str) -> Published:
        self._check_access()
        created = self._forge.create(
            head=state.branch,
            base=self.clone.branch,
            title=draft.title,
            body=draft.body,
            draft=self.settings.draft,
            labels=draft.labels,
            reviewers=self._reviewers(draft),
        )
        if created is None:
            return state.outcome(Operation.NONE, reason="the forge sees nothing to propose")
        found = proposal_of(created, None, self.doors.author)
        if found.decision != draft.change_set.decision:
            # Somebody else's create came first: its body speaks of another decision than the branch.
            created = self._forge.update(created.number, title=draft.title, body=draft.body)
        return state.outcome(Operation.CREATED, pull_request=created, head_commit=commit)

    def _reviewers(self, draft: Draft) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.settings.reviewers, *draft.reviewers)))

    def _check_access(self) -> None:
        """Before the first write, so that no branch is pushed that nobody can open a pull request for."""
        if not self.is_access_checked:
            self._forge.check_access()
            self.is_access_checked = True

    @property
    def _forge(self) -> Forge:
        if self.doors.forge is None:
            raise ConfigurationError("nothing can be published without a forge: set forge.kind")
        return self.doors.forge


def _is_unfinished(pull_request: PullRequest, draft: Draft) -> bool:
    """Whether it was made and then nothing more: a killed run, or a forge that refused, left it without a label.

    Who removes one of several labels keeps that; who removes all of them gets them again.
    """
    return bool(draft.labels) and not set(draft.labels) & set(pull_request.labels)
