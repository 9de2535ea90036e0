"""The steps that led to one variant's decision, in the words that explain and the pull request print."""

from reconciler.decision.context import DecisionContext
from reconciler.decision.engines.capacities import Capacity
from reconciler.decision.problem.demands import ModelDemand
from reconciler.decision.problem.floors import idle_replicas
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.variant_states import VariantState, is_counted
from reconciler.domain.allocations import Allocation
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.plan import Outcome, Step, VerdictKind
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variants import Option, Variant


def steps_of(
    context: DecisionContext, state: VariantState, desired: Allocation, outcome: Outcome, reason: str
) -> tuple[Step, ...]:
    variant = state.variant
    steps = [*_engine_steps(state), *_load_steps(context, state), *_capacity_steps(context, state)]
    steps += [*_saturation_steps(context, variant), *_tracking_steps(context, variant)]
    notes = context.formulated.notes.get(variant.key, ())
    steps += [Step(stage="options", before="", after="", reason=note) for note in notes]
    current = _words(variant.current)
    if reason:
        known = current if is_counted(variant) else ""
        steps.append(Step(stage="hold", before=known, after=known, reason=reason))
        return tuple(steps)
    steps += _device_steps(variant, desired)
    steps.append(
        Step(stage="allocation", before=current, after=_words(desired), reason=_why(context, variant, desired))
    )
    if outcome is Outcome.CHANGE:
        steps.append(
            Step(stage="policy", before=_words(desired), after=_words(desired), reason=str(VerdictKind.NEEDS_APPROVAL))
        )
    return tuple(steps)


def _engine_steps(state: VariantState) -> list[Step]:
    """Whose rule it is, where it is not the one that everybody expects."""
    if state.engine is Engine.QUEUEING or state.choice.conflict:
        return []
    return [Step(stage="engine", before="", after=str(state.engine), reason=state.choice.reason)]


def _saturation_steps(context: DecisionContext, variant: Variant) -> list[Step]:
    """What saturation saw of the variant, and what it makes of that for all of its model."""
    answer = context.formulated.answers.saturation.get(variant.model)
    if answer is None:
        return []
    own = [figure for figure in answer.figures if figure.subject == variant.key.label and figure.value is not None]
    steps = [
        Step(stage=figure.name, before="", after=_value(figure), reason=figure.reason or "over its replicas")
        for figure in own
    ]
    role = context.formulated.needs.owner_of.get(variant.key, variant.model)
    if role in answer.reasons:
        steps.append(Step(stage="need", before="", after=_need(context, role), reason=answer.reasons[role]))
    return steps


def _tracking_steps(context: DecisionContext, variant: Variant) -> tuple[Step, ...]:
    """From votes to a count, as the loop of its policy took it; what slowed the answer is among them."""
    tracked = context.formulated.answers.tracking.get(variant.key)
    return () if tracked is None else tracked.steps


def _need(context: DecisionContext, role: ModelKey) -> str:
    requirement = context.formulated.needs.requirements.get(role)
    return "" if requirement is None else f"{requirement.amount:.6g} {requirement.unit}"


def _value(figure: Figure) -> str:
    value = f"{figure.value:.6g}" if isinstance(figure.value, float | int) else str(figure.value)
    return f"{value} {figure.unit}" if figure.unit not in ("", "fraction") else value


def _load_steps(context: DecisionContext, state: VariantState) -> list[Step]:
    load = state.load
    demand = context.formulated.demands.get(state.variant.model)
    if load is None or demand is None:
        return []
    observed, share = f"{load.arrival_rate_per_s:.4g} req/s", state.variant.share
    routed = "" if share is None else f"; {share * 100:.4g} % of its model's, by route weight"
    return [
        Step(
            stage="load",
            before="",
            after=observed,
            reason=f"arrivals from {load.arrivals_from}, {load.window_s / 60:g}m window; "
            f"{load.output_tokens:.4g} output tokens a request{routed}",
        ),
        Step(
            stage="demand",
            before=observed,
            after=f"{demand.rate_per_s:.4g} req/s",
            reason=f"load and {demand.headroom * 100:g} % headroom",
        ),
        *_staged_steps(demand),
    ]


def _staged_steps(demand: ModelDemand) -> list[Step]:
    """What must be carried beyond the demand of now, for what the load did before; none where nobody knows that."""
    variation = demand.variation
    if variation is None:
        return []
    words = (
        f"peak {variation.peak_per_s:.4g} req/s {_ago(variation.peak_age_s)} in the last {_span(variation.payback_s)}; "
        f"mean {variation.mean_per_s:.4g}, standard deviation {variation.deviation_per_s:.2g}"
    )
    before, after = f"{demand.rate_per_s:.4g} req/s", f"{demand.stabilized.amount_per_s:.4g} req/s"
    return [Step(stage="settled", before=before, after=after, reason=words)]


def _ago(age_s: float) -> str:
    minutes = round(age_s / 60)
    return "just now" if minutes < 1 else f"{_span(minutes * 60.0)} ago"


def _span(span_s: float) -> str:
    hours, minutes = divmod(round(span_s / 60), 60)
    return f"{hours}h" if hours and not minutes else f"{hours}h {minutes}m" if hours else f"{minutes}m"


def _capacity_steps(context: DecisionContext, state: VariantState) -> list[Step]:
    steps, variant = [], state.variant
    for option in variant.options:
        capacity = context.capacities.of.get(CandidateKey(variant=variant.key, accelerator=option.accelerator))
        if capacity is None:
            continue
        words = f"one replica on {_taken(option)}: {capacity.words} ({_parameters(option.profile, capacity)})"
        steps.append(Step(stage="capacity", before="", after=f"{capacity.rate_per_s:.4g} req/s", reason=words))
        steps += _learned_steps(option)
    if state.correction is not None and context.capacities.of:
        factor = f"x {state.correction.factor:.2f}"
        steps.append(Step(stage="correction", before="", after=factor, reason=state.correction.reason))
    return steps


def _taken(option: Option) -> str:
    """`H100`, or `2 x H100` where a replica takes several."""
    several = option.accelerators_per_replica > 1
    return f"{option.accelerators_per_replica} x {option.accelerator}" if several else option.accelerator


def _device_steps(variant: Variant, desired: Allocation) -> list[Step]:
    """How many devices a replica gets that moves, where that is another number than before."""
    option = next((each for each in variant.options if each.accelerator == desired.accelerator), None)
    if option is None or variant.workload is None or variant.current.accelerator == desired.accelerator:
        return []
    before, after = variant.workload.devices.get(option.resource), option.devices_per_replica
    if before in (None, after):
        return []
    return [Step(stage="devices", before=str(before), after=str(after), reason=f"{option.resource} of one replica")]


def _parameters(profile: PerformanceProfile, capacity: Capacity) -> str:
    values = [("alpha", profile.alpha_s), ("beta", profile.beta_s), ("gamma", profile.gamma_s)]
    known = [f"{name} {ms_from_seconds(value):.4g} ms" for name, value in values if value is not None]
    if profile.delta_s is not None:
        known.append(f"delta {ms_from_seconds(profile.delta_s):.4g} ms a token")
    return ", ".join((*known, f"batch {capacity.max_batch_size}"))


def _learned_steps(option: Option) -> list[Step]:
    """How good a learned profile is, and what it covers."""
    learning = option.profile.learning
    if learning is None:
        return []
    ranges = (
        f"batch {_range(learning.batch)}, {_range(learning.input_tokens)} input and "
        f"{_range(learning.output_tokens)} output tokens"
    )
    words = f"from {learning.samples} samples, median error {learning.error * 100:.3g} %, {ranges}"
    return [Step(stage="learned", before="", after=learning.on, reason=words)]


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _why(context: DecisionContext, variant: Variant, desired: Allocation) -> str:
    if variant.key in context.staged.waiting:
        return context.staged.waiting[variant.key]
    if variant.key in context.staged.reasons:
        return context.staged.reasons[variant.key]
    need = context.formulated.needs.of_variant(variant.key)
    shortfall = context.shortfalls.get(need.model) if need is not None else None
    if need is not None and shortfall is not None:
        return f"covers {shortfall.covered:.4g} of {shortfall.wanted:.4g} {need.unit}: {shortfall.reason}"
    kept = _why_kept(context, variant, desired)
    if kept:
        return kept
    if variant.key in context.solution.reasons:
        return context.solution.reasons[variant.key]
    tracked = context.formulated.answers.tracking.get(variant.key)
    if tracked is not None:
        return "; ".join(tracked.reasons) or f"as its metric targets ask, by {tracked.rule}"
    answer = context.formulated.answers.saturation.get(variant.model)
    if answer is not None:
        return "; ".join(dict.fromkeys(answer.reasons.values()))
    if desired.replicas:
        return "no arrivals: the fewest replicas allowed"
    return "no arrivals, and none run"


def _why_kept(context: DecisionContext, variant: Variant, desired: Allocation) -> str:
    """What keeps a replica that the demand of now does not need; empty when that is not what does."""
    demand, needs = context.formulated.demands.get(variant.model), context.formulated.needs
    if demand is None or demand.variation is None or desired != variant.current or not desired.replicas:
        return ""
    variation, requirement = demand.variation, needs.of_variant(variant.key)
    if requirement is None or requirement.fixed is not None:
        is_paused = requirement is not None and variation.peak_per_s > 0 and desired.replicas > idle_replicas(variant)
        return _was_asked(variation) if is_paused else ""
    each = (needs.carried(variant.key, desired) or 0.0) / desired.replicas
    rest = needs.total(variant.model, context.staged.allocations) - each
    minimum = (
        context.formulated.problem.bounds[variant.key].minimum
        if variant.key in context.formulated.problem.bounds
        else 0
    )
    if each <= 0 or rest < demand.rate_per_s or rest >= demand.stabilized.amount_per_s or desired.replicas <= minimum:
        return ""
    return (
        _was_asked(variation)
        if rest < demand.stabilized.kept_per_s
        else _may_come_back(variation, rest / (1 + demand.headroom))
    )


def _was_asked(variation: LoadVariation) -> str:
    asked = f"{variation.peak_per_s:.4g} req/s were asked for {_ago(variation.peak_age_s)}"
    return f"kept: {asked}; payback {_span(variation.payback_s)}"


def _may_come_back(variation: LoadVariation, rest_per_s: float) -> str:
    return (
        f"kept: without it {rest_per_s:.4g} req/s would be carried, too near to the mean of {variation.mean_per_s:.4g} "
        f"for a standard deviation of {variation.deviation_per_s:.2g}; payback {_span(variation.payback_s)}"
    )


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"
