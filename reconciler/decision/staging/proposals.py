"""What our own pull requests do to a new plan: an open one that still serves is kept, a closed one is remembered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.groups import head_branch
from reconciler.decision.variant_states import VariantState
from reconciler.domain.allocations import Allocation
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.plan import Decision, decision_fingerprint
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.requirements import Problem
from reconciler.domain.variant_settings import GROUP
from reconciler.domain.variants import Variant

KEEP_BELOW = 0.05
"""A new plan must save this fraction of an open proposal's cost to replace it: load noise never pushes."""

CLOSED_BAND = 0.1
"""A closed value returns only when the new one leaves it by more than this fraction, and by more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPlan:
    """Allocations after the open proposals had their say, and why they differ from the optimum."""

    allocations: Allocations
    kept: Mapping[str, int] = field(default_factory=dict)
    """Group -> number of the open pull request whose values stand."""
    reasons: Mapping[ResourceKey, str] = field(default_factory=dict)
    waiting: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    """What must happen before the rest of a variant's change may be proposed."""


def settle_with_open(
    states: Sequence[VariantState],
    formulated: FormulatedProblem,
    optimum: Allocations,
    proposals: Mapping[str, Proposal],
) -> StagedPlan:
    """Keeps open proposals (by group) need by need, while they meet it and cost nearly as little."""
    allocations = dict(optimum)
    kept: dict[str, int] = {}
    reasons: dict[ResourceKey, str] = {}
    weights = _weights(formulated.problem)
    variants = {state.variant.key: state.variant for state in states}
    for model, keys in formulated.needs.variants_of.items():
        groups = {variants[key].settings[GROUP].value for key in keys}
        proposal = proposals.get(min(groups)) if len(groups) == 1 else None
        if proposal is None:
            continue
        proposed = _proposed([variants[key] for key in keys], proposal, formulated.problem)
        merged = {**formulated.problem.current, **proposed}
        if not _differs(proposed, optimum) or not _serves(model, merged, optimum, formulated):
            continue
        saving = _saving(proposed, optimum, weights)
        if saving is None or saving >= KEEP_BELOW:
            continue
        allocations.update(proposed)
        kept[min(groups)] = proposal.number
        reasons.update(dict.fromkeys(proposed, _words(proposal, proposed, saving)))
    return StagedPlan(allocations=allocations, kept=kept, reasons=reasons)


def open_by_group(proposals: Iterable[Proposal], groups: Iterable[str], prefix: str) -> dict[str, Proposal]:
    """The open proposal of each group, found by its head branch: what a body says of its group anybody can edit."""
    by_branch = {each.head_branch: each for each in proposals if each.state is ProposalState.OPEN}
    branches = {group: head_branch(prefix, group) for group in groups}
    return {group: by_branch[branch] for group, branch in branches.items() if branch in by_branch}


def blocked_group(
    decisions: Sequence[Decision],
    proposals: Iterable[Proposal],
    lacking: Mapping[str, Hold],
    now_s: float,
    reopen_after_s: float,
) -> Hold | None:
    """Why nothing may be published for a group; None when something may.

    `lacking` says by resource (str of its key) why what an open pull request says of it stays as it is.
    """
    proposals = list(proposals)
    for proposal in proposals:
        if proposal.state is ProposalState.OPEN:
            holds = [lacking[change.resource] for change in proposal.changes if change.resource in lacking]
            if holds:
                words = f"open pull request #{proposal.number} stays as it is: {holds[0].words}"
                return replace(holds[0], words=words)
    changes = [proposed_change(decision) for decision in decisions]
    for proposal in proposals:
        is_like = proposal.decision == decision_fingerprint(decisions) or _is_like(changes, proposal)
        if changes and is_like and _is_rejection(proposal, now_s, reopen_after_s):
            words = f"a person closed pull request #{proposal.number} for this decision"
            return Hold(kind=HoldKind.DECLINED, words=words)
    return None


def proposed_change(decision: Decision) -> ProposedChange:
    """A decision's change as a proposal carries it."""
    return ProposedChange(
        resource=str(decision.variant),
        replicas_before=decision.current.replicas,
        replicas_after=decision.desired.replicas,
        accelerator_before=decision.current.accelerator,
        accelerator_after=decision.desired.accelerator,
    )


def _weights(problem: Problem) -> dict[CandidateKey, float]:
    """What a replica of everything that may be chosen now weighs; without load replicas are counted."""
    weights = {
        variant.on(problem.current[variant].accelerator): 1.0
        for requirement in problem.requirements
        for variant in requirement.fixed or ()
    }
    first: dict[ResourceKey, int] = {}
    for candidate in problem.candidates:
        variant = candidate.key.variant
        first[variant] = min(candidate.order, first.get(variant, candidate.order))
    for candidate in problem.candidates:
        variant = candidate.key.variant
        if variant not in problem.in_order or candidate.order == first[variant]:
            weights[candidate.key] = candidate.weight
    return weights


def _proposed(members: Iterable[Variant], proposal: Proposal, problem: Problem) -> dict[ResourceKey, Allocation]:
    """The allocations of the variants that may change, were the proposal merged."""
    changes = {change.resource: change for change in proposal.changes}
    proposed = {}
    for variant in members:
        if variant.key in problem.pinned:
            continue
        change = changes.get(str(variant.key))
        proposed[variant.key] = (
            variant.current
            if change is None
            else Allocation(accelerator=change.accelerator_after, replicas=change.replicas_after)
        )
    return proposed


def _serves(model: ModelKey, allocations: Allocations, optimum: Allocations, formulated: FormulatedProblem) -> bool:
    """Whether what is needed is met, or as much of it as the optimum meets, and every bound is kept."""
    bounds = formulated.problem.bounds
    bounded = (key for key in formulated.needs.variants_of[model] if key in bounds)
    is_within = all(bounds[key].admits(allocations[key].replicas) for key in bounded)
    return is_within and formulated.needs.is_met(model, allocations, formulated.least(model), like=optimum)


def _differs(proposed: Mapping[ResourceKey, Allocation], optimum: Allocations) -> bool:
    return any(optimum[key] != allocation for key, allocation in proposed.items())


def _words(proposal: Proposal, proposed: Mapping[ResourceKey, Allocation], saving: float) -> str:
    told = {change.resource for change in proposal.changes}
    stands = "as in" if any(str(variant) in told for variant in proposed) else "as now, beside"
    return (
        f"{stands} open pull request #{proposal.number}: the new optimum would save "
        f"{max(saving, 0.0) * 100:.1f} %, under {KEEP_BELOW * 100:.0f} %"
    )


def _saving(
    proposed: Mapping[ResourceKey, Allocation], optimum: Allocations, weights: Mapping[CandidateKey, float]
) -> float | None:
    """What the optimum saves of the proposal, as a fraction of what decides between them; free replicas by count.

    None when the proposal holds an accelerator that may not be chosen any more.
    """
    keys = {variant: _candidate_key(variant, allocation) for variant, allocation in proposed.items()}
    if any(key not in weights for key in keys.values()):
        return None
    before = sum(weights[keys[variant]] * allocation.replicas for variant, allocation in proposed.items())
    after = sum(weights[_candidate_key(variant, optimum[variant])] * optimum[variant].replicas for variant in proposed)
    if before <= 0 and after <= 0:
        before = sum(allocation.replicas for allocation in proposed.values())
        after = sum(optimum[variant].replicas for variant in proposed)
    return (before - after) / before if before > 0 else 0.0


def _candidate_key(variant: ResourceKey, allocation: Allocation) -> CandidateKey:
    return variant.on(allocation.accelerator)


def _is_rejection(proposal: Proposal, now_s: float, reopen_after_s: float) -> bool:
    """Whether a person said no not long ago; at an unknown time counts as now."""
    if proposal.state is not ProposalState.CLOSED:
        return False
    return proposal.closed_at_s is None or now_s - proposal.closed_at_s < reopen_after_s


def _is_like(changes: Iterable[ProposedChange], closed: Proposal) -> bool:
    """Whether every change is one that a person declined: same direction and accelerator, a value in its band."""
    declined = {change.resource: change for change in closed.changes}
    return all(change.resource in declined and _is_in_band(change, declined[change.resource]) for change in changes)


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
