"""Our open pull requests: one that still serves and costs nearly as little as the new optimum is kept as it is."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.load_variation import reach_of
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Load
from reconciler.domain.proposals import Proposal
from reconciler.domain.requirements import Problem

KEEP_BELOW = 0.05
"""A new plan must save this fraction of an open proposal's cost to replace it: load noise never pushes.

Nor does it where one replica is more than that: see `_is_noise`."""


def keep_open_proposals(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Keep what an open pull request says of a model while it meets the model's need and costs nearly as little.

    Before any pass that changes what the optimizer aims at: that is what the pull request is compared with.
    """
    formulated, optimum = situation.formulated, staged.allocations
    allocations = dict(optimum)
    kept: dict[ResourceKey, int] = {}
    reasons: dict[ResourceKey, str] = {}
    weights = _weights(formulated.problem)
    for model, keys in formulated.needs.variants_of.items():
        groups = {situation.group_of[key] for key in keys}
        proposal = _proposal_of(situation, min(groups), keys) if len(groups) == 1 else None
        if proposal is None:
            continue
        free = {key: situation.current[key] for key in keys if key not in formulated.problem.pinned}
        proposed = proposal.merged(free)
        merged = {**situation.current, **proposed}
        if not _differs(proposed, optimum) or not _serves(model, merged, optimum, formulated):
            continue
        saving = _saving(proposed, optimum, weights)
        is_noise = _is_noise(model, proposed, optimum, situation)
        if saving is None or (saving >= KEEP_BELOW and not is_noise):
            continue
        allocations.update(proposed)
        kept.update(dict.fromkeys(proposed, proposal.number))
        reasons.update(dict.fromkeys(proposed, _words(proposal, proposed, saving)))
    return replace(staged, allocations=allocations, kept=kept, reasons=reasons)


def _proposal_of(situation: Situation, group: str, keys: Collection[ResourceKey]) -> Proposal | None:
    """The group's open pull request that names one of the variants, else any: what noise adds is pushed to none."""
    names = {str(key) for key in keys}
    proposals = tuple(situation.open_proposals(group).values())
    naming = (each for each in proposals if any(change.resource in names for change in each.changes))
    return next(naming, proposals[0] if proposals else None)


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


def _serves(model: ModelKey, allocations: Allocations, optimum: Allocations, formulated: FormulatedProblem) -> bool:
    """Whether what is needed is met, or as much of it as the optimum meets, and every bound is kept."""
    bounds = formulated.problem.bounds
    bounded = (key for key in formulated.needs.variants_of[model] if key in bounds)
    is_within = all(bounds[key].admits(allocations[key].replicas) for key in bounded)
    return is_within and formulated.needs.is_met(model, allocations, formulated.least(model), like=optimum)


def _is_noise(
    model: ModelKey, proposed: Mapping[ResourceKey, Allocation], optimum: Allocations, situation: Situation
) -> bool:
    """Whether the optimum only lacks replicas each of which the load of now, as noisy as it is, may need again.

    What was to grow and need not any more goes with its demand.
    """
    needs, reached = situation.formulated.needs, _reach(model, situation)
    if needs.requirements[model].fixed is not None:
        return False
    differing = {key: each for key, each in proposed.items() if optimum[key] != each}
    is_fewer = all(_is_fewer(optimum[key], each) for key, each in differing.items())
    is_over = all(optimum[key] == situation.current[key] for key in differing)
    merged = {**situation.current, **proposed}
    return (
        is_fewer
        and not is_over
        and all(
            needs.total(model, {**merged, key: replace(each, replicas=each.replicas - 1)}) < reached
            for key, each in differing.items()
        )
    )


def _reach(model: ModelKey, situation: Situation) -> float:
    """What noise may have the model need again, in the unit of its requirement; 0 where nobody knows."""
    demand, load = situation.formulated.demands.get(model), situation.snapshot.observed.loads.get(model)
    filling = situation.formulated.needs.fillings.get(model)
    if demand is None or not isinstance(load, Load):
        return 0.0 if filling is None else filling.reach
    rate_per_s = demand.rate_per_s / (1 + demand.headroom)
    return (1 + demand.headroom) * reach_of(rate_per_s, demand.variation, load.window_s)


def _is_fewer(allocation: Allocation, than: Allocation) -> bool:
    return allocation.accelerator == than.accelerator and allocation.replicas < than.replicas


def _differs(proposed: Mapping[ResourceKey, Allocation], optimum: Allocations) -> bool:
    return any(optimum[key] != allocation for key, allocation in proposed.items())


def _words(proposal: Proposal, proposed: Mapping[ResourceKey, Allocation], saving: float) -> str:
    told = {change.resource for change in proposal.changes}
    stands = "as in" if any(str(variant) in told for variant in proposed) else "as now, beside"
    why = f"under {KEEP_BELOW * 100:.0f} %" if saving < KEEP_BELOW else "which noise may need again"
    return (
        f"{stands} open pull request #{proposal.number}: the new optimum would save "
        f"{max(saving, 0.0) * 100:.1f} %, {why}"
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
