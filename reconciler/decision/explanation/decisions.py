"""Tells the decision of one resource: its numbers, its verdict and the steps that led to it."""

from collections.abc import Iterable
from dataclasses import fields

from reconciler.decision.context import DecisionContext
from reconciler.decision.costs import cost_of
from reconciler.decision.engines.registry import ENGINES, EXPECTED
from reconciler.decision.law_targets import slo_projections, targets_under
from reconciler.decision.shrinking import why_outage
from reconciler.decision.staging.verdicts import verdict_of
from reconciler.decision.variant_states import VariantState, is_counted
from reconciler.domain.holds import BrokenResource, Hold
from reconciler.domain.identity import ModelKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Observation, Performance
from reconciler.domain.plan import RATE, Decision, Fullness, Outcome, SloProjection, Step, VerdictKind
from reconciler.domain.snapshot import Variant
from reconciler.domain.units import significant


def steps_of(context: DecisionContext, state: VariantState, outcome: Outcome) -> tuple[Step, ...]:
    """The steps of one variant, first what its engine saw; a held one ends with its hold."""
    variant, staged = state.variant, context.staged
    desired, hold = staged.allocations[variant.key], staged.holds.get(variant.key)
    steps = _choice_steps(state)
    for answer in context.answers.values():
        steps += answer.steps(state, context.formulated)
    notes = context.formulated.notes.get(variant.key, ())
    steps += [Step(stage="options", before="", after="", reason=note) for note in notes]
    current = _words(variant.current)
    if hold is not None:
        known = current if is_counted(variant) else ""
        steps.append(Step(stage="hold", before=known, after=known, reason=hold.words))
        return tuple(steps)
    steps += _device_steps(variant, desired)
    steps.append(Step(stage="allocation", before=current, after=_words(desired), reason=_why(context, state, desired)))
    if outcome is Outcome.CHANGE:
        words = _words(desired)
        said = [f"{each.kind}: rule {each.rule}: {each.words}" for each in staged.said.get(variant.key, ())]
        told = said or [str(staged.verdicts[variant.key].kind)]
        steps += [Step(stage="policy", before=words, after=words, reason=reason) for reason in told]
    return tuple(steps)


def _choice_steps(state: VariantState) -> list[Step]:
    """Whose rule it is, where it is not the one that everybody expects."""
    if state.engine is EXPECTED.name:
        return []
    return [Step(stage="engine", before="", after=str(state.engine), reason=state.choice.reason)]


def _device_steps(variant: Variant, desired: Allocation) -> list[Step]:
    """How many devices a replica gets that moves, where that is another number than before."""
    option = next((each for each in variant.options if each.accelerator == desired.accelerator), None)
    if option is None or variant.workload is None or variant.current.accelerator == desired.accelerator:
        return []
    before, after = variant.workload.devices.get(option.resource), option.devices_per_replica
    if before in (None, after):
        return []
    return [Step(stage="devices", before=str(before), after=str(after), reason=f"{option.resource} of one replica")]


def _why(context: DecisionContext, state: VariantState, desired: Allocation) -> str:
    variant, answer = state.variant, context.answers[state.engine]
    if variant.key in context.staged.waiting:
        return context.staged.waiting[variant.key].words
    if variant.key in context.staged.reasons:
        return context.staged.reasons[variant.key]
    need = context.formulated.needs.of_variant(variant.key)
    shortfall = context.shortfalls.get(need.model) if need is not None else None
    if need is not None and shortfall is not None:
        short = f"covers {shortfall.covered:.4g} of {shortfall.wanted:.4g} {need.unit}"
        return f"{short}: {_ruled_out(context, variant) or shortfall.reason}"
    kept = answer.why_kept(variant, desired, context.formulated, context.staged.allocations)
    if kept:
        return kept
    ended = context.staged.clamped.get(variant.key)
    end = "" if ended is None else f", ended by rule {ended.rule.name} at {desired.replicas}"
    return (context.solution.reasons.get(variant.key) or answer.why(variant, desired)) + end


def _ruled_out(context: DecisionContext, variant: Variant) -> str:
    """The rule that leaves no more replicas; empty where it is the variant's own bound, or the devices."""
    said = context.staged.said.get(variant.key, ())
    clamp = next((each.rule.name for each in said if each.kind is VerdictKind.CLAMP), "")
    return f"rule {clamp} leaves no more" if clamp else ""


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"


def decision_for(context: DecisionContext, state: VariantState) -> Decision:
    """The decision of one variant, numbers rounded before they enter the plan."""
    variant = state.variant
    staged = context.staged
    desired, hold = staged.allocations[variant.key], staged.holds.get(variant.key)
    outcome = staged.outcome(context.situation, variant.key)
    need = context.formulated.needs.of_variant(variant.key)
    observation = context.snapshot.observed.observations.get(variant.key)
    key = variant.key.on(variant.current.accelerator)
    return Decision(
        variant=variant.key,
        model=variant.model,
        group=context.situation.group_of[variant.key],
        outcome=outcome,
        current=variant.current,
        desired=desired,
        verdict=staged.verdicts[variant.key],
        steps=steps_of(context, state, outcome),
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
        expected=_rounded_performance(context.after.performance(variant)),
        observed=observation.performance if observation is not None else None,
        max_batch_size=context.answers[state.engine].max_batch_size(key),
        status_shape=variant.status_shape,
        metrics_available=_has_metrics(state, observation, hold),
        waiting=staged.waiting.get(variant.key) if hold is None else None,
        caution=_caution(context, variant, desired),
        reverts=staged.reverts.get(variant.key) if outcome is Outcome.CHANGE else None,
        labels=_joined(each.labels for each in staged.said.get(variant.key, ())),
        reviewers=_joined(each.reviewers for each in staged.said.get(variant.key, ())),
    )


def _joined(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))


def broken_decision(context: DecisionContext, broken: BrokenResource) -> Decision:
    """A resource that could not be read is shown as held, in the group that its key suggests."""
    key, nothing = broken.key, Allocation(accelerator="", replicas=0)
    return Decision(
        variant=key,
        model=ModelKey(cluster=key.cluster, namespace=key.namespace, model_id=""),
        group=context.situation.group_of[key],
        outcome=Outcome.HELD,
        current=nothing,
        desired=nothing,
        verdict=verdict_of(broken.hold),
        steps=(),
        hold=broken.hold,
        place=str(broken.place),
    )


def _caution(context: DecisionContext, variant: Variant, desired: Allocation) -> str:
    """What a person should know who is about to merge its change."""
    if context.staged.outcome(context.situation, variant.key) is not Outcome.CHANGE:
        return ""
    takes_back = context.staged.reasons[variant.key] if variant.key in context.staged.reverts else ""
    outage = why_outage(context.snapshot, variant.model) if desired.replicas < variant.current.replicas else ""
    written = variant.workload.caution if variant.workload is not None else ""
    told = (f"{variant.key.label}: {words}" for words in (takes_back, outage) if words)
    return "; ".join(filter(None, (*told, written)))


def _written_at(variant: Variant, desired: Allocation) -> tuple[str, ...]:
    """The fields that get the number; none while it stays."""
    if variant.workload is None or desired.replicas == variant.current.replicas:
        return ()
    fields = (written for written in variant.workload.written_at if written.takes(desired.replicas))
    return tuple(f"{each.place} {each.place.field}".rstrip() for each in fields)


def _has_metrics(state: VariantState, observation: Observation | None, hold: Hold | None) -> bool:
    """Whether everything that its engine looks at was there."""
    is_seen = observation is not None and observation.absence is None and not (hold and hold.kind.is_without_metrics)
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


def _rounded(value: float | None) -> float | None:
    """Float noise of a platform must not reach the plan."""
    return None if value is None else significant(value)


def _rounded_performance(expected: Performance | None) -> Performance | None:
    if expected is None:
        return None
    return Performance(**{each.name: _rounded(getattr(expected, each.name)) for each in fields(expected)})
