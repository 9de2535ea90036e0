"""Tells one variant's decision: its numbers, its verdict and the steps that led to it."""

from reconciler.decision.context import DecisionContext
from reconciler.decision.engines.registry import ENGINES
from reconciler.decision.explanation.steps import steps_of
from reconciler.decision.law_targets import slo_projections, targets_under
from reconciler.decision.projection import cost_of
from reconciler.decision.variant_states import VariantState
from reconciler.domain.allocations import Allocation
from reconciler.domain.holds import Hold
from reconciler.domain.loads import Observation
from reconciler.domain.plan import RATE, Decision, Fullness, Outcome, SloProjection, Verdict, VerdictKind
from reconciler.domain.variant_settings import GROUP
from reconciler.domain.variants import Variant


def decision_for(context: DecisionContext, state: VariantState) -> Decision:
    """The decision of one variant, numbers rounded before they enter the plan."""
    variant = state.variant
    desired = context.staged.allocations[variant.key]
    hold = state.hold or context.held.get(variant.key)
    outcome = _outcome(variant, desired, hold)
    need = context.formulated.needs.of_variant(variant.key)
    observation = context.snapshot.observed.observations.get(variant.key)
    key = variant.key.on(variant.current.accelerator)
    return Decision(
        variant=variant.key,
        model=variant.model,
        group=variant.settings[GROUP].value,
        outcome=outcome,
        current=variant.current,
        desired=desired,
        verdict=_verdict(outcome, hold),
        steps=steps_of(context, state, desired, outcome, hold),
        hold=hold,
        place=str(variant.place),
        written_at=_written_at(variant, desired),
        bounds_of=variant.workload.bounds_of if variant.workload is not None else "",
        load=state.load,
        engine="" if state.choice.conflict else str(state.engine),
        engine_reason=state.choice.reason,
        unit=need.unit if need is not None else RATE,
        demand=_rounded(context.after.demand(variant)),
        capacity_before=_rounded(context.before.capacity(variant)),
        capacity_after=_rounded(context.after.capacity(variant)),
        slos=_slos(context, variant, desired),
        fullness=_fullness(context, variant),
        cost_before_per_hour=_rounded(cost_of(variant, variant.current)),
        cost_after_per_hour=_rounded(cost_of(variant, desired)),
        expected=context.after.performance(variant),
        observed=observation.performance if observation is not None else None,
        max_batch_size=context.answers[state.engine].max_batch_size(key),
        status_shape=variant.status_shape,
        metrics_available=_has_metrics(state, observation),
        waiting=context.staged.waiting.get(variant.key) if hold is None else None,
        caution=_caution(variant, outcome),
    )


def _caution(variant: Variant, outcome: Outcome) -> str:
    """What a person should know who is about to merge its change."""
    return variant.workload.caution if variant.workload is not None and outcome is Outcome.CHANGE else ""


def _written_at(variant: Variant, desired: Allocation) -> tuple[str, ...]:
    """The fields that get the number; none while it stays."""
    if variant.workload is None or desired.replicas == variant.current.replicas:
        return ()
    fields = (written for written in variant.workload.written_at if written.takes(desired.replicas))
    return tuple(f"{each.place} {each.place.field}".rstrip() for each in fields)


def _has_metrics(state: VariantState, observation: Observation | None) -> bool:
    """Whether everything that its engine looks at was there."""
    is_seen = observation is not None and observation.absence is None
    return is_seen and (state.load is not None or not ENGINES[state.engine].needs_load)


def _slos(context: DecisionContext, variant: Variant, desired: Allocation) -> tuple[SloProjection, ...]:
    """The class's targets as the law of what is desired keeps them; a queue that answered nothing expects nothing."""
    if variant.service_class is None:
        return ()
    law = next((option.profile.law for option in variant.options if option.accelerator == desired.accelerator), "")
    targets = targets_under(law, variant.service_class.value)
    return slo_projections(targets, context.before.performance(variant), context.after.performance(variant))


def _fullness(context: DecisionContext, variant: Variant) -> Fullness | None:
    """How full the replicas behind its need are together: requests go wherever there is room."""
    needs = context.formulated.needs
    model = needs.owner_of.get(variant.key)
    if model is None or model not in needs.fillings:
        return None
    return Fullness(
        before=_rounded(needs.fullness(model, context.formulated.problem.current)),
        after=_rounded(needs.fullness(model, context.staged.allocations)),
        limit=needs.fillings[model].full,
    )


def _outcome(variant: Variant, desired: Allocation, hold: Hold | None) -> Outcome:
    if hold is not None:
        return Outcome.HELD
    return Outcome.UNCHANGED if desired == variant.current else Outcome.CHANGE


def _verdict(outcome: Outcome, hold: Hold | None) -> Verdict:
    """Until policies say otherwise nothing merges itself."""
    if hold is not None:
        return Verdict(kind=VerdictKind.HOLD, reason=hold.words)
    if outcome is Outcome.UNCHANGED:
        return Verdict(kind=VerdictKind.ALLOW)
    return Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")


def _rounded(value: float | None) -> float | None:
    """Ten significant digits: float noise of a platform must not reach the plan."""
    return None if value is None else float(f"{value:.10g}")
