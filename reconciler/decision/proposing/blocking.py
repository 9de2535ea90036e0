"""Why nothing is published of a part of a group although it may have changes: a pull request stands against it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import AllocationChange, decision_fingerprint
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange

CLOSED_BAND = 0.1
"""A closed value returns only when the new one leaves it by more than this fraction, and by more than one."""


def why_declined(situation: Situation, group: str, changes: Sequence[AllocationChange]) -> Hold | None:
    """That a person closed a pull request of the group that said the same, or reverted it; None where nobody did.

    A person's word against a change is held against its verdict, too.
    """
    for proposal in situation.proposals[group] if changes else ():
        if _is_rejection(proposal, situation) and _is_like(changes, proposal):
            did = "closed" if proposal.state is ProposalState.CLOSED else "reverted the merge of"
            words = f"a person {did} pull request #{proposal.number} for this decision"
            return Hold(kind=HoldKind.DECLINED, words=words)
    return None


def why_kept(situation: Situation, proposals: Iterable[Proposal], kept: Mapping[str, Hold]) -> Hold | None:
    """Why an open one of these pull requests stays as it is; None where none has to. `kept` is by resource."""
    for proposal in proposals:
        if not _is_in_git(proposal, situation):
            holds = [kept[change.resource] for change in proposal.changes if change.resource in kept]
            if holds:
                words = f"open pull request #{proposal.number} stays as it is: {holds[0].words}"
                return replace(holds[0], words=words)
    return None


def kept_resources(situation: Situation, staged: StagedPlan) -> dict[str, Hold]:
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
    """Whether a person said no not long ago, before the merge or after it; at an unknown time counts as now."""
    is_closed = proposal.state is ProposalState.CLOSED
    if not is_closed and proposal.reverted_at_s is None:
        return False
    reopen_after_s = situation.snapshot.settings.pull_requests.reopen_after_s
    at_s = proposal.closed_at_s if is_closed else proposal.reverted_at_s
    return at_s is None or situation.snapshot.now_s - at_s < reopen_after_s


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
