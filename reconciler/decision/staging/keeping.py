"""What only a doubt keeps, told: replicas that the load of now does not need, of a model that nobody is sure of."""

from dataclasses import replace

from reconciler.decision.problem.terms import written_minimum
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import VariantState


def tell_what_is_kept(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Let what may not shrink say so, where it would have; after all passes that change allocations."""
    kept = {
        state.variant.key: state.kept
        for state in situation.states
        if state.kept is not None and _would_shrink(situation, staged, state)
    }
    return replace(staged, waiting={**kept, **staged.waiting})


def _would_shrink(situation: Situation, staged: StagedPlan, state: VariantState) -> bool:
    key, needs = state.variant.key, situation.formulated.needs
    before, after = situation.current[key], staged.allocations[key]
    model = needs.owner_of.get(key)
    if key in staged.holds or after != before or model is None or before.replicas <= written_minimum(state.variant):
        return False
    each = (needs.carried(key, before) or 0.0) / before.replicas if before.replicas else 0.0
    return before.replicas > 1 and needs.total(model, staged.allocations) - each >= needs.asked(model)
