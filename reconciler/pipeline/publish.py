"""Publish: one commit and one pull request per part of a group: created, updated, merged or withdrawn."""

import logging
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.decision.limits import recent, why_not_pushed
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Severity
from reconciler.domain.plan import Decision, GroupPlan, MergeTerms, Outcome, Plan
from reconciler.domain.proposals import (
    STOP_LABEL,
    Draft,
    MergedOutcome,
    Part,
    Proposal,
    ProposalState,
    branches_of,
    collected_groups,
)
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Identity, PullRequestSettings
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.forge.marker import (
    MarkerState,
    asking,
    decision_of_commit,
    has_same_words,
    is_of_newer_version,
    proposal_of,
    read_marker,
    stranger_of,
    with_marker,
    with_outcome,
    with_pushes,
    withdrawn,
)
from reconciler.forge.pull_requests import NO_ASSIGNMENT, Assignment, Forge, MergeState, PullRequest
from reconciler.git.clone import Clone
from reconciler.git.repository import CommitRecord
from reconciler.pipeline.draft import DAY_S, says_the_same
from reconciler.pipeline.observe import CLOSED_WINDOW_S, ForgeView, ObservedRun
from reconciler.pipeline.session import Doors
from reconciler.report.formatting import one_line
from reconciler.report.pull_request import outcome_view


class Operation(StrEnum):
    """What happened to a group's pull request."""

    CREATED = "created"
    UPDATED = "updated"
    CLOSED = "closed"
    NONE = "none"
    MERGED = "merged"
    SCHEDULED = "merge scheduled"
    WAITING = "waits to merge"
    PUSHED = "pushed, open it"
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
    unseen: str = ""
    """A resource of the open proposal that the plan cannot judge, for which it stays as it is."""

    @property
    def part(self) -> Part | None:
        """Which part of its group it is; None where the plan does not know it."""
        return None if self.group is None else self.group.part

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose changes it holds."""
        return (self.name,) if self.group is None else self.group.groups

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
    def has_current_body(self) -> bool:
        """Whether the body is about this decision, part and merge, and is not marked as withdrawn by a killed run."""
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
                return f"pull request #{proposal.number} is in the merge queue, or to be merged for somebody else"
            if self.pull_request is not None and self.pull_request.opened_by:
                opener = self.pull_request.opened_by
                return f"{opener} opened pull request #{proposal.number} from this branch: merge or close it yourself"
            if self.pull_request is not None and is_of_newer_version(self.pull_request.body):
                return f"a newer version wrote pull request #{proposal.number}: it is left to that one"
            if STOP_LABEL in proposal.labels:
                return f"pull request #{proposal.number} is labelled {STOP_LABEL}"
            if self.unseen:
                return (
                    f"open pull request #{proposal.number} stays as it is: not all that {self.unseen} needs can be read"
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
        """Why conditions are not written now: at most once a day, and not for a while after a refusal."""
        if self.draft is None or not self.draft.change_set.flips:
            return ""
        recording, proposal = self.observed.recording, self.proposal
        if proposal is not None:
            is_new = self.tip is not None and not self.is_pushed and recording.now_s - self.tip.committed_s < DAY_S
            return f"conditions are published once a day, and #{proposal.number} is not a day old" if is_new else ""
        for each in self._proposals:
            age_s = 0.0 if each.closed_at_s is None else recording.now_s - each.closed_at_s
            if each.state is ProposalState.WITHDRAWN and age_s < DAY_S:
                return f"conditions are published once a day, and #{each.number} was"
            if each.state is ProposalState.CLOSED and age_s < recording.settings.pull_requests.reopen_after_s:
                return f"a person closed pull request #{each.number}, which published conditions"
        return ""

    @property
    def _proposals(self) -> tuple[Proposal, ...]:
        return tuple(each for each in self.observed.recording.proposals if each.head_branch == self.branch)

    def _strangers_work(self) -> str:
        """Whose commit is the newest of the branch, open or not; empty when it is ours or the branch is gone."""
        stranger = stranger_of(self.tip, self.ours) if self.tip is not None else ""
        if not stranger:
            return ""
        if not self._proposals:
            return f"{self.branch} exists and is not ours: delete it, or choose another git.branchPrefix"
        return f"{stranger} pushed commits to {self.branch}: they are never overwritten"


logger = logging.getLogger(__name__)

LEAST_AGE_S = 300.0
"""Checks need a while to begin, and people to look; a later run has then decided the same."""
WORKPLACE = "-commit"
"""Ends the name of the branch on which the forge writes a commit, before ours points to it: an open pull request whose
branch went through the base would be closed by the forge."""
OPERATIONS = {MergeState.SCHEDULED: Operation.SCHEDULED, MergeState.WAITING: Operation.WAITING}


def known_error(error: ReconcilerError | ValueError) -> ReconcilerError:
    """The error of one branch, which a person can have made anything of."""
    return error if isinstance(error, ReconcilerError) else TransientError(str(error))


def take_back(forge: Forge, view: ForgeView) -> None:
    """Cancel the merges that we scheduled on the forge: a pause stops those, too."""
    for each in (*view.pull_requests.values(), *view.retargeted):
        if each.is_open and each.is_scheduled:
            try:
                forge.unschedule(each.number)
            except ReconcilerError as error:
                logger.warning("pull request %d may be merged by the forge although we pause: %s", each.number, error)


@dataclass(slots=True, kw_only=True)
class Merger:
    """Merges part by part; each merge counts against what is left of the hour, and one of a group is enough.

    `base` is the commit that the run decided from, `clone` the same after merges of this run. `ordered` are merges of
    this run and those that the forge still has to do: the groups of each branch.
    """

    forge: Forge
    base: str
    clone: Clone
    now_s: float
    method: str
    ordered: dict[str, tuple[str, ...]]
    taken_back: Container[str]
    """Branches that the forge was to merge, and is not any more."""
    behind: set[str] = field(default_factory=set)
    """Branches that the forge does not merge because their base has moved on."""

    def merge(self, state: GroupState, published: Published) -> Published:
        """What becomes of a part that stands as this run drafts it; a failure becomes its outcome."""
        pull_request, terms = state.pull_request, None if state.group is None else state.group.merges
        tip = state.tip if self.forge.keeps_pull_requests else None
        if published.operation is not Operation.NONE or pull_request is None or terms is None or tip is None:
            return published
        is_scheduled = pull_request.is_scheduled and state.branch not in self.taken_back
        try:
            waits = "" if is_scheduled else self._why_wait(state, pull_request, terms, tip)
            waits = waits or self._why_unproven(state, tip)
            if not waits:
                return self._order(state, pull_request, tip, published)
            if is_scheduled:
                self.forge.unschedule(pull_request.number)
            return replace(published, operation=Operation.WAITING, reason=waits)
        except (ReconcilerError, ValueError) as error:
            return replace(published, operation=Operation.FAILED, reason=str(error), error=known_error(error))

    def _why_wait(self, state: GroupState, pull_request: PullRequest, terms: MergeTerms, tip: CommitRecord) -> str:
        marker = read_marker(pull_request.body)
        if pull_request.head_commit not in ("", tip.oid) or marker is None or not marker.merges:
            return "the forge shows another state of it"
        if any(not set(groups).isdisjoint(state.groups) for groups in self.ordered.values()):
            return "another pull request of its group is being merged"
        if len(self.ordered) >= terms.left:
            return terms.limit
        return terms.waits

    def _why_unproven(self, state: GroupState, tip: CommitRecord) -> str:
        """What the forge does not show of the push: who signed a commit and when is only what its author says."""
        since_s = max(tip.committed_s, self.now_s - CLOSED_WINDOW_S)
        pushed_s = self.forge.pushed_s(state.branch, tip.oid, since_s=since_s)
        if pushed_s is None:
            return "the forge shows no push of its commit by our account: delete its branch to have it written anew"
        is_old = self.now_s - pushed_s >= LEAST_AGE_S
        return "" if is_old else f"it was pushed less than {LEAST_AGE_S / 60:.0f} minutes ago"

    def _order(
        self, state: GroupState, pull_request: PullRequest, tip: CommitRecord, published: Published
    ) -> Published:
        if state.draft is None:
            return published
        wanted = pull_request  # its words become those of the merge: they are written anew if somebody edited them
        if wanted.title != state.draft.title or not has_same_words(wanted.body, state.draft.body):
            wanted = self.forge.update(pull_request.number, title=state.draft.title, body=state.draft.body)
        wanted = replace(wanted, head_commit=tip.oid, base_branch=self.clone.branch)
        answer = self.forge.merge(wanted, method=self.method)
        if answer.state is MergeState.WAITING and pull_request.is_scheduled:
            self.forge.unschedule(pull_request.number)
        if answer.state is MergeState.LEFT_TO_GIT:
            title = one_line(wanted.title)
            self.clone = self.clone.merge(
                state.branch,
                tip.oid,
                files=state.draft.change_set.files,
                since=self.base,
                message=f"Merge pull request #{pull_request.number} from {state.branch}\n\n{title}\n",
                author=state.ours,
                date_s=int(self.now_s),
            )
            self.forge.note_merge(pull_request.number)
        if answer.state is not MergeState.WAITING and not pull_request.is_scheduled:
            self.ordered[state.branch] = state.groups
        if answer.is_behind and tip.parents != (self.base,):
            self.behind.add(state.branch)
        operation = OPERATIONS.get(answer.state, Operation.MERGED)
        return replace(published, operation=operation, reason=answer.words)


def tell_outcomes(doors: Doors, forge_view: ForgeView, outcomes: Iterable[MergedOutcome]) -> Iterator[MergedOutcome]:
    """Write each outcome that its pull request does not show yet, and yield those; the next run retries a failure."""
    for outcome in outcomes if doors.forge is not None and doors.forge.keeps_pull_requests else ():
        pull_request = forge_view.pull_requests.get(outcome.number)
        marker = None if pull_request is None else read_marker(pull_request.body)
        if doors.forge is None or pull_request is None or marker is None or marker.state is MarkerState.REPORTED:
            continue
        body = with_outcome(
            pull_request.body, doors.renderer.render("pull_request/outcome.md.j2", outcome_view(outcome))
        )
        if len(body) > doors.forge.body_limit:
            logger.info("pull request %d has no room for what became of it", outcome.number)
            continue
        try:
            doors.forge.amend_merged(outcome.number, body=body)
        except (TransientError, ConfigurationError) as error:
            logger.warning("pull request %d: its outcome was not reported: %s", outcome.number, error)
            continue
        yield outcome


# Killing publish anywhere and running it again leads to the same pull requests: each step looks before it writes.


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
    press.clear_workplaces(plan)
    press.take_back_retargeted(plan)
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
    for index, state in sorted(enumerate(states), key=lambda each: each[1].part is not Part.URGENT):
        outcomes[index] = merger.merge(state, outcomes[index])  # repairs first: merges of an hour are limited
        if state.branch in merger.behind:
            outcomes[index] = press.rebuild(state)
    return tuple(outcomes)


def _without_plan(plan: Plan, observed: ObservedRun) -> list[tuple[str, str]]:
    """Branches of groups for parts that neither change anything nor are open: a killed run left them."""
    known = {group.head_branch for group in plan.groups}
    prefix = observed.recording.settings.git.branch_prefix
    of_several = _collected_branches(plan, prefix, observed.split)
    known |= {  # of these the inputs must be whole
        each.head_branch
        for each in observed.recording.proposals
        if each.state is ProposalState.OPEN and each.head_branch in of_several
    }
    branches = of_several | _own_branches(plan, prefix)
    return [(branches[each], each) for each in observed.forge.branches if each in branches and each not in known]


def _own_branches(plan: Plan, prefix: str) -> dict[str, str]:
    """Every branch that may be of a group of the plan, with the group's name."""
    groups = sorted({name for group in plan.groups for name in (group.name, *group.groups)})
    return {branch: name for name in groups for branch in branches_of(prefix, name)}


def _collected_branches(plan: Plan, prefix: str, split: Container[str]) -> dict[str, str]:
    """Every branch that may be of several groups of the plan, with their common name; none of `split` clusters."""
    clusters = sorted({each.variant.cluster for each in plan.decisions if each.variant.cluster not in split})
    names = (name for cluster in clusters for name in collected_groups(cluster))
    return {branch: name for name in names for branch in branches_of(prefix, name)}


def _vanished(plan: Plan, observed: ObservedRun) -> list[tuple[str, str]]:
    """Groups of open pull requests that the plan no longer knows; with partial inputs they may only seem to be gone.

    So is one of several groups that none of them is in any more.
    """
    prefix, share = observed.recording.settings.git.branch_prefix, observed.share
    of_several = _collected_branches(plan, prefix, observed.split)
    known = {group.head_branch for group in plan.groups} | (_own_branches(plan, prefix).keys() - of_several.keys())
    return [
        (proposal.group or of_several.get(proposal.head_branch, proposal.head_branch), proposal.head_branch)
        for proposal in observed.recording.proposals
        if proposal.state is ProposalState.OPEN
        # Without a decision it is a person's, under our prefix, unless its commit is ours and a person edited its text.
        and (proposal.decision or (proposal.branch_decision and proposal.head_branch in of_several))
        and proposal.head_branch not in known
        and (share is None or share.owns(proposal))
        and not _is_partial(plan, observed)
    ]


UNCOUNTED = frozenset(
    {
        HoldKind.RESOURCE_UNREADABLE,
        HoldKind.SCALE_TARGET_MISSING,
        HoldKind.SCALE_TARGET_UNREADABLE,
        HoldKind.REPLICAS_UNWRITTEN,
    }
)
"""Holds of variants of which it is not known how many replicas Git asks for."""


def _unseen(plan: Plan, observed: ObservedRun) -> dict[str, str]:
    """By the branch of an open pull request that stays for it, a resource that perhaps only seems to be gone or held.

    Not what a person has written over since.
    """
    if not _is_partial(plan, observed):
        return {}
    decisions = {str(each.variant): each for each in plan.decisions}
    plans = {each.head_branch: each for each in plan.groups}
    collected = _collected_branches(plan, observed.recording.settings.git.branch_prefix, observed.split)
    found = {}
    for proposal in observed.recording.proposals:
        unseen = [
            change.resource
            for change in proposal.changes
            if (decision := decisions.get(change.resource)) is None
            or (decision.outcome is Outcome.HELD and (not _is_counted(decision) or change.begins_at(decision.current)))
        ]
        group = plans.get(proposal.head_branch) if proposal.head_branch in collected else None
        is_kept = group is None or _others_still_say(decisions, proposal, group, unseen)
        if unseen and is_kept and proposal.state is ProposalState.OPEN:
            found[proposal.head_branch] = unseen[0]
    return found


def _is_counted(decision: Decision) -> bool:
    """Whether Git says how many replicas a held variant has: not where its scale target is not there to be read."""
    return decision.hold is None or decision.hold.kind not in UNCOUNTED


def _others_still_say(
    decisions: Mapping[str, Decision], proposal: Proposal, plan: GroupPlan, unseen: Collection[str]
) -> bool:
    """Whether a pull request of several groups says what is decided now of those that can be judged."""
    groups = {decisions[each].group for each in unseen if each in decisions}
    others = {name: each for name, each in decisions.items() if each.group not in groups and name not in unseen}
    said = replace(proposal, changes=tuple(each for each in proposal.changes if each.resource in others))
    desired = {each.variant: each.desired for each in plan.changes if each.group not in groups}
    return said.says(desired, {each.variant: each.current for each in others.values()})


def _is_partial(plan: Plan, observed: ObservedRun) -> bool:
    """Whether a part of the inputs cannot be read or was not looked at."""
    is_broken = any(finding.severity is Severity.ERROR for finding in plan.findings)
    return is_broken or bool(observed.recording.settings.other_clusters)


@dataclass(slots=True, kw_only=True)
class _Press:
    """Publishes part by part, from what was observed."""

    doors: Doors
    clone: Clone
    observed: ObservedRun
    date_s: int
    settings: PullRequestSettings
    unseen: Mapping[str, str]
    is_access_checked: bool = False
    strict: bool | None = None
    standing: dict[str, bool] = field(default_factory=dict)
    """Whether each branch can stay as it is."""
    taken_back: set[str] = field(default_factory=set)
    """Branches that the forge was to merge, and is not any more."""
    not_taken_back: dict[str, ReconcilerError] = field(default_factory=dict)
    """Branches that the forge may still merge into another one than the base, and why: nothing is pushed to them."""

    def state(self, name: str, branch: str, group: GroupPlan | None, draft: Draft | None) -> GroupState:
        """A part of a group with its draft and what was observed of it."""
        return GroupState(
            name=name,
            branch=branch,
            group=group,
            draft=draft,
            observed=self.observed,
            ours=self.doors.author,
            unseen=self.unseen.get(branch, ""),
        )

    def note_merges(self) -> None:
        """Report to the forge what git merged; the next run repeats what fails."""
        for number in self.observed.forge.merged_in_git:
            try:
                self._forge.note_merge(number)
            except ReconcilerError as error:
                logger.warning("pull request %d was merged, which the forge does not learn: %s", number, error)

    def clear_workplaces(self, plan: Plan) -> None:
        """Delete the branches on which a killed run had the forge write commits."""
        left = {name: oid for name, oid in self.observed.forge.branches.items() if name.endswith(WORKPLACE)}
        prefix = self.observed.recording.settings.git.branch_prefix
        ours = _own_branches(plan, prefix) | _collected_branches(plan, prefix, self.observed.split) if left else {}
        for branch in (each for each in left if each.removesuffix(WORKPLACE) in ours):
            try:
                self.clone.delete_branch(branch, expected=left[branch])
            except ReconcilerError as error:
                logger.warning("%s, left by another run, was not deleted: %s", branch, error)

    def take_back_retargeted(self, plan: Plan) -> None:
        """Cancel merges into another branch, which a person has chosen since: what is pushed now would go there."""
        prefix = self.observed.recording.settings.git.branch_prefix
        ours = _own_branches(plan, prefix).keys() | _collected_branches(plan, prefix, self.observed.split).keys()
        for each in self.observed.forge.retargeted:
            if each.is_open and each.head_branch in ours:
                logger.warning("pull request %d goes to %s now: we do not merge it", each.number, each.base_branch)
                try:
                    self._forge.unschedule(each.number)
                except ReconcilerError as error:
                    logger.warning("pull request %d may be merged into %s: %s", each.number, each.base_branch, error)
                    self.not_taken_back[each.head_branch] = error

    def attempt(self, state: GroupState) -> Published:
        """Publish one part; whatever its branch makes fail becomes its outcome, and concerns it alone."""
        if state.branch in self.not_taken_back:
            return self._failed(state, self.not_taken_back[state.branch])
        try:
            return self._publish(state)
        except (ReconcilerError, ValueError) as error:
            return self._failed(state, error)

    def _failed(self, state: GroupState, error: ReconcilerError | ValueError) -> Published:
        return replace(state.outcome(Operation.FAILED, reason=str(error)), error=known_error(error))

    def merger(self, states: Iterable[GroupState]) -> Merger:
        """Merges at the end what this run left as it was."""
        ordered = {
            state.branch: state.groups
            for state in states
            if state.pull_request is not None
            and state.pull_request.is_scheduled
            and state.branch not in self.taken_back
        }
        return Merger(
            forge=self._forge,
            base=self.clone.commit,
            clone=self.clone,
            now_s=self.observed.recording.now_s,
            method=self.settings.merge_method,
            ordered=ordered,
            taken_back=self.taken_back,
        )

    def _publish(self, state: GroupState) -> Published:
        reason = state.reason_to_leave()
        self._take_back(state, reason)
        if reason:
            return state.outcome(Operation.PUT_BACK if state.is_put_back else Operation.LEFT, reason=reason)
        if state.draft is None:
            return self._withdraw(state)
        if self._stands(state, state.draft):
            return self._write_body(state, state.draft, pushed=False)
        if late := self._why_late(state, state.draft):
            return state.outcome(Operation.PUT_BACK, reason=late)
        commit = self._push(state, state.draft)
        return self._write_body(state, state.draft, pushed=True, commit=commit)

    def _why_late(self, state: GroupState, draft: Draft) -> str:
        """Why nothing is pushed to an open pull request now; a repair never waits."""
        if state.proposal is None or draft.change_set.part is Part.URGENT:
            return ""
        return why_not_pushed(state.proposal, self.settings, self.date_s)

    def _take_back(self, state: GroupState, reason: str) -> None:
        """Before anything else: the forge would merge what is pushed now, or what a rule has come to object to."""
        pull_request, terms = state.pull_request, None if state.group is None else state.group.merges
        if pull_request is None or not pull_request.is_scheduled:
            return
        draft = None if reason else state.draft
        is_same = draft is not None and state.has_current_body and self._stands(state, draft)
        if not is_same or terms is None or terms.waits:
            self._forge.unschedule(pull_request.number)
            self.taken_back.add(state.branch)

    def _withdraw(self, state: GroupState) -> Published:
        """Mark, close, delete: in this order each step can be resumed after a crash."""
        pull_request = state.pull_request
        operation = Operation.NONE
        if state.proposal is not None and pull_request is not None and not self._forge.keeps_pull_requests:
            operation = Operation.CLOSED
        elif state.proposal is not None and pull_request is not None:
            self._check_access()
            number = self._forge.update(pull_request.number, body=withdrawn(pull_request.body)).number
            self._forge.update(number, close=True)
            operation = Operation.CLOSED
        if state.tip_oid and (state.is_abandoned_branch or operation is Operation.CLOSED):
            self._check_access()
            self.clone.delete_branch(state.branch, expected=state.tip_oid)
        return state.outcome(operation, pull_request=pull_request)

    def _stands(self, state: GroupState, draft: Draft) -> bool:
        """Whether a branch can stay as it is: it has this decision, merges, and has what we merge to the byte."""
        if state.branch not in self.standing:
            self.standing[state.branch] = state.is_pushed and self._still_merges(state, draft)
        return self.standing[state.branch]

    def _still_merges(self, state: GroupState, draft: Draft) -> bool:
        tip = state.tip
        if tip is None or len(tip.parents) != 1 or state.branch in self.observed.forge.stale:
            return False
        if tip.oid != state.tip_oid:  # a person merged the base into it
            return False
        if tip.parents[0] != self.clone.commit and self.is_strict:
            return False
        if (
            self.clone.signer is not None or self.is_by_forge
        ) and not tip.is_signed:  # opened before git.signing was set
            return False
        try:
            merges = self.clone.merges_cleanly(head=tip.oid, onto=self.clone.commit, parent=tip.parents[0])
            if not merges or not draft.merges or self._is_as_drafted(tip, draft.change_set.files):
                return merges
            words = "it does not hold what this run would write"
        except (ReconcilerError, ValueError) as error:
            words = str(error)
        logger.warning("%s is written anew: %s", state.branch, words)
        return False

    def _is_as_drafted(self, tip: CommitRecord, drafted: Mapping[str, bytes]) -> bool:
        """Whether merging a commit gives the tree of this run: names, trailers and dates in it are anybody's."""
        merged = self.clone.merged(tip.oid, parent=tip.parents[0]) if self.clone.changes_only(tip, drafted) else None
        if merged is None:
            return False
        found = {path: merged.get(path, self.clone.read_file_at(self.clone.commit, path)) for path in drafted}
        return all(
            content is not None and says_the_same(path, content, drafted[path]) for path, content in found.items()
        )

    def _push(self, state: GroupState, draft: Draft) -> str:
        self._check_access()
        pushes_s = state.proposal.pushes_s if state.proposal is not None and self.settings.pushes_per_hour else ()
        message = with_pushes(draft.commit_message, recent(pushes_s, self.date_s))
        commit = self.clone.write_commit(
            parent=self.clone.commit,
            files=draft.change_set.files,
            message=message if self._forge.keeps_pull_requests else with_marker(message, draft.body),
            author=self.doors.author,
            date_s=self.date_s,
        )
        if not self.is_by_forge:
            self.clone.push(state.branch, commit, expected=state.tip_oid or None)
            return commit
        workplace = f"{state.branch}{WORKPLACE}"
        commit = self._written_by_forge(workplace, self.clone.read_commit(commit), draft.change_set.files)
        self.clone.push(state.branch, commit, expected=state.tip_oid or None)
        self.clone.delete_branch(workplace, expected=commit)
        return commit

    def _written_by_forge(self, branch: str, drafted: CommitRecord, files: Mapping[str, bytes]) -> str:
        """What was drafted as a commit that the forge wrote and signed, which is compared: it chooses author and modes.

        ConfigurationError where it writes other commits than ours.
        """
        base = self.clone.commit
        error: ReconcilerError = TransientError(f"commit to {branch}: the forge wrote nothing")
        created = {path for path in files if self.clone.read_file_at(base, path) is None}
        try:
            self._forge.write_commit(branch, parent=base, files=files, created=created, message=drafted.message)
        except ReconcilerError as raised:  # its answer may have been lost
            error = raised
        if self.clone.remote_branches(branch).get(branch, base) == base:
            raise error
        made = self.clone.fetch_branches((branch,))[branch]
        if (made.parents, made.tree) != (drafted.parents, drafted.tree):
            raise ConfigurationError(f"git.signing: the forge wrote other files to {branch} than were drafted")
        if decision_of_commit(made.message) != decision_of_commit(drafted.message):
            raise ConfigurationError(f"git.signing: the forge wrote other words to {branch} than were drafted")
        if not made.is_signed:
            raise ConfigurationError("git.signing: the forge does not sign what it commits: sign by ssh or gpg")
        if stranger := stranger_of(made, self.doors.author):
            raise ConfigurationError(f"git.author: the forge commits for {stranger}, not {self.doors.author.email}")
        return made.oid

    @property
    def is_by_forge(self) -> bool:
        """Whether the forge writes and signs our commits."""
        signing = self.observed.recording.settings.git.signing
        return signing is not None and signing.is_by_forge

    def _write_body(self, state: GroupState, draft: Draft, *, pushed: bool, commit: str = "") -> Published:
        """Create the pull request, or write its texts when they speak of another decision."""
        if not self._forge.keeps_pull_requests:
            outcome = state.outcome(Operation.PUSHED if pushed else Operation.NONE, head_commit=commit)
            return replace(outcome, url=self._forge.opening_address(head=state.branch, base=self.clone.branch))
        pull_request = state.pull_request if state.proposal is not None else None
        if pull_request is None:
            return self._create(state, draft, commit or state.tip_oid)
        if not pushed and state.has_current_body and not _is_unfinished(pull_request, draft):
            return state.outcome(Operation.NONE, pull_request=pull_request)
        self._check_access()
        assignment = self._assignment(draft) if _is_unfinished(pull_request, draft) else NO_ASSIGNMENT
        updated = self._forge.update(
            pull_request.number,
            title=draft.title,
            body=_first_body(draft, assignment),
            labels=draft.labels,
            unlabel=draft.unfit_labels,
            assignment=assignment,
        )
        updated = self._finish(updated, draft, assignment)
        return state.outcome(Operation.UPDATED, pull_request=updated, head_commit=commit)

    def _create(self, state: GroupState, draft: Draft, commit: str) -> Published:
        self._check_access()
        assignment = self._assignment(draft)
        body = _first_body(draft, assignment)
        created = self._forge.create(
            head=state.branch,
            base=self.clone.branch,
            title=draft.title,
            body=body,
            draft=self.settings.draft,
            labels=draft.labels,
            assignment=assignment,
        )
        if created is None:
            return state.outcome(Operation.NONE, reason="the forge sees nothing to propose")
        found = proposal_of(created, None, self.doors.author)
        if found.decision != draft.change_set.decision:
            # Another run created it first: its body is about another decision than the branch.
            asked = created.is_asked
            created = replace(self._forge.update(created.number, title=draft.title, body=body), is_asked=asked)
        created = self._finish(created, draft, assignment)
        return state.outcome(Operation.CREATED, pull_request=created, head_commit=commit)

    def _finish(self, shown: PullRequest, draft: Draft, assignment: Assignment) -> PullRequest:
        """Take the remark that it is still to be assigned out of a text, once it is."""
        is_remarked = _first_body(draft, assignment) != draft.body
        return self._forge.update(shown.number, body=draft.body) if is_remarked and shown.is_asked else shown

    def _assignment(self, draft: Draft) -> Assignment:
        return Assignment(
            reviewers=tuple(dict.fromkeys((*self.settings.reviewers, *draft.reviewers))),
            assignees=self.settings.assignees,
            milestone=self.settings.milestone,
        )

    def _check_access(self) -> None:
        """Before the first write, so that no branch is pushed without the right to open its pull request."""
        if not self.is_access_checked:
            self._forge.check_access()
            self.is_access_checked = True

    @property
    def is_strict(self) -> bool:
        """Whether the forge merges only branches that have the newest commit of the base; asked once, when needed."""
        if self.strict is None:
            try:
                self.strict = self._forge.is_strict(self.clone.branch)
            except ReconcilerError as error:
                logger.debug("it is not known whether branches must be up to date: %s", error)
                self.strict = False
        return self.strict

    def rebuild(self, state: GroupState) -> Published:
        """Write a branch anew on the newest commit of the base, which the forge asks for."""
        try:
            if state.draft is None:
                return state.outcome(Operation.NONE, pull_request=state.pull_request)
            if late := self._why_late(state, state.draft):
                return state.outcome(Operation.PUT_BACK, pull_request=state.pull_request, reason=late)
            commit = self._push(state, state.draft)
            return self._write_body(state, state.draft, pushed=True, commit=commit)
        except (ReconcilerError, ValueError) as error:
            return self._failed(state, error)

    @property
    def _forge(self) -> Forge:
        if self.doors.forge is None:
            raise ConfigurationError("nothing can be published without a forge: set forge.kind")
        return self.doors.forge


def _first_body(draft: Draft, assignment: Assignment) -> str:
    """The text until it is assigned: where labels are set last, these say whether that was done."""
    return asking(draft.body) if assignment and not draft.labels else draft.body


def _is_unfinished(pull_request: PullRequest, draft: Draft) -> bool:
    """Whether a killed run or a refusal left it without labels, reviewers or assignees; the next run tries again."""
    if draft.labels:
        return not set(draft.labels) & set(pull_request.labels)
    marker = read_marker(pull_request.body)
    return marker is not None and marker.asks
