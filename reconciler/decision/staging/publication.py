"""What is said of each change, and groups of which nothing is published although they may have changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import AllocationChange, Outcome, Verdict, VerdictKind, decision_fingerprint
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange

CLOSED_BAND = 0.1
"""A closed value returns only when the new one leaves it by more than this fraction, and by more than one."""


def block_groups(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Publish nothing that an open or a closed pull request stands against; last, since it compares what is proposed.

    A person's word against a change is held against its verdict, too.
    """
    changes: dict[str, list[AllocationChange]] = {}
    for change in staged.changes(situation):
        changes.setdefault(situation.group_of[change.variant], []).append(change)
    kept = _kept_resources(situation, staged)
    found = {group: _block(situation, changes.get(group, ()), group, kept) for group in situation.proposals}
    return replace(staged, blocked={group: hold for group, hold in found.items() if hold is not None})


def _block(
    situation: Situation, changes: Sequence[AllocationChange], group: str, kept: Mapping[str, Hold]
) -> Hold | None:
    proposals = situation.proposals[group]
    for proposal in proposals:
        if proposal.state is ProposalState.OPEN and not _is_in_git(proposal, situation):
            holds = [kept[change.resource] for change in proposal.changes if change.resource in kept]
            if holds:
                words = f"open pull request #{proposal.number} stays as it is: {holds[0].words}"
                return replace(holds[0], words=words)
    for proposal in proposals if changes else ():
        if _is_rejection(proposal, situation) and _is_like(changes, proposal):
            words = f"a person closed pull request #{proposal.number} for this decision"
            return Hold(kind=HoldKind.DECLINED, words=words)
    return None


def _kept_resources(situation: Situation, staged: StagedPlan) -> dict[str, Hold]:
    """Why an open pull request keeps what it says of a resource, by str of the resource's key.

    Its metrics are missing, its live replicas stay away from Git, or those it has do not serve yet. Where only a part
    of its load was seen, only a pull request that asks for more than the part does is kept.
    """
    snapshot = situation.snapshot
    proposed = {
        change.resource: change.replicas_after
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for change in proposal.changes
    }
    holds = {
        key: hold
        for key, hold in situation.formulated.partial.items()
        if hold.kind.keeps_proposals and staged.allocations[key].replicas < proposed.get(str(key), 0)
    }
    holds |= {key: hold for key, hold in staged.holds.items() if hold.kind is HoldKind.GROWTH_UNPROVEN}
    holds |= {broken.key: broken.hold for broken in snapshot.broken}
    for state in situation.states:
        keeping = next((hold for hold in state.holds if hold.kind.keeps_proposals), None)
        if keeping is not None:
            holds[state.variant.key] = keeping
    return {str(key): replace(hold, words=_in_short(key, hold)) for key, hold in holds.items()}


def _is_in_git(proposal: Proposal, situation: Situation) -> bool:
    """Whether Git says all that it says: merged by hand, it holds nothing that could be lost."""
    told = {change.resource for change in proposal.changes}
    named = {key: now for key, now in situation.current.items() if str(key) in told}
    return len(named) == len(told) and proposal.merged(named) == named


def _in_short(key: ResourceKey, hold: Hold) -> str:
    if hold.kind is HoldKind.GROWTH_UNPROVEN:
        return hold.words
    is_drifted = hold.kind is HoldKind.DRIFTED
    return f"live replicas of {key} stay away from Git" if is_drifted else f"metrics of {key} are missing"


def _is_rejection(proposal: Proposal, situation: Situation) -> bool:
    """Whether a person said no not long ago; at an unknown time counts as now."""
    if proposal.state is not ProposalState.CLOSED:
        return False
    reopen_after_s = situation.snapshot.settings.pull_requests.reopen_after_s
    return proposal.closed_at_s is None or situation.snapshot.now_s - proposal.closed_at_s < reopen_after_s


def _is_like(changes: Sequence[AllocationChange], closed: Proposal) -> bool:
    """Whether every change is one that a person declined: same direction and accelerator, a value in its band."""
    if closed.decision == decision_fingerprint(changes):
        return True
    declined = {change.resource: change for change in closed.changes}
    proposed = (change.proposed for change in changes)
    return all(each.resource in declined and _is_in_band(each, declined[each.resource]) for each in proposed)


def _is_in_band(change: ProposedChange, declined: ProposedChange) -> bool:
    band = max(1.0, CLOSED_BAND * declined.replicas_after)
    return (
        abs(change.replicas_after - declined.replicas_after) <= band
        and _direction(change) == _direction(declined)
        and change.accelerator_after == declined.accelerator_after
    )


def _direction(change: ProposedChange) -> int:
    difference = change.replicas_after - change.replicas_before
    return (difference > 0) - (difference < 0)


def give_verdicts(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Give every resource its verdict; after all passes that change what one gets."""
    verdicts = {key: _verdict(situation, staged, key) for key in situation.group_of}
    return replace(staged, verdicts=verdicts)


def verdict_of(hold: Hold) -> Verdict:
    """What is said of a resource that is held."""
    return Verdict(kind=VerdictKind.HOLD, reason=hold.words)


def _verdict(situation: Situation, staged: StagedPlan, key: ResourceKey) -> Verdict:
    if key in staged.holds:
        return verdict_of(staged.holds[key])
    if staged.outcome(situation, key) is Outcome.UNCHANGED:
        return Verdict(kind=VerdictKind.ALLOW)
    return Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")
