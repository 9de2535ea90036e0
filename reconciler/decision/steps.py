"""The steps that led to one variant's decision, in the words that explain and the pull request print."""

from reconciler.decision.capacities import Capacity
from reconciler.decision.case import Case
from reconciler.decision.demands import ModelDemand
from reconciler.decision.floors import idle_replicas
from reconciler.decision.standing import Standing, is_counted
from reconciler.decision.steadiness import Swing
from reconciler.domain.allocations import Allocation
from reconciler.domain.engines import Engine
from reconciler.domain.figures import Figure
from reconciler.domain.identity import ModelKey
from reconciler.domain.plan import Outcome, Step, VerdictKind
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variants import Option, Variant


def steps_of(case: Case, standing: Standing, desired: Allocation, outcome: Outcome, reason: str) -> tuple[Step, ...]:
    variant = standing.variant
    steps = [*_engine_steps(standing), *_load_steps(case, standing), *_capacity_steps(case, standing)]
    steps += [*_saturation_steps(case, variant), *_tracking_steps(case, variant)]
    notes = case.posed.notes.get(variant.key, ())
    steps += [Step(stage="options", before="", after="", reason=note) for note in notes]
    current = _words(variant.current)
    if reason:
        known = current if is_counted(variant) else ""
        steps.append(Step(stage="hold", before=known, after=known, reason=reason))
        return tuple(steps)
    steps += _device_steps(variant, desired)
    steps.append(Step(stage="allocation", before=current, after=_words(desired), reason=_why(case, variant, desired)))
    if outcome is Outcome.CHANGE:
        steps.append(
            Step(stage="policy", before=_words(desired), after=_words(desired), reason=str(VerdictKind.NEEDS_APPROVAL))
        )
    return tuple(steps)


def _engine_steps(standing: Standing) -> list[Step]:
    """Whose rule it is, where it is not the one that everybody expects."""
    if standing.engine is Engine.QUEUEING or standing.choice.conflict:
        return []
    return [Step(stage="engine", before="", after=str(standing.engine), reason=standing.choice.reason)]


def _saturation_steps(case: Case, variant: Variant) -> list[Step]:
    """What saturation saw of the variant, and what it makes of that for all of its model."""
    answer = case.posed.answers.saturation.get(variant.model)
    if answer is None:
        return []
    own = [figure for figure in answer.figures if figure.subject == variant.key.label and figure.value is not None]
    steps = [
        Step(stage=figure.name, before="", after=_value(figure), reason=figure.reason or "over its replicas")
        for figure in own
    ]
    role = case.posed.needs.owner_of.get(variant.key, variant.model)
    if role in answer.reasons:
        steps.append(Step(stage="need", before="", after=_need(case, role), reason=answer.reasons[role]))
    return steps


def _tracking_steps(case: Case, variant: Variant) -> tuple[Step, ...]:
    """From votes to a count, as the loop of its policy took it; what slowed the answer is among them."""
    tracked = case.posed.answers.tracking.get(variant.key)
    return () if tracked is None else tracked.steps


def _need(case: Case, role: ModelKey) -> str:
    requirement = case.posed.needs.requirements.get(role)
    return "" if requirement is None else f"{requirement.amount:.6g} {requirement.unit}"


def _value(figure: Figure) -> str:
    value = f"{figure.value:.6g}" if isinstance(figure.value, float | int) else str(figure.value)
    return f"{value} {figure.unit}" if figure.unit not in ("", "fraction") else value


def _load_steps(case: Case, standing: Standing) -> list[Step]:
    load = standing.load
    demand = case.posed.demands.get(standing.variant.model)
    if load is None or demand is None:
        return []
    observed, share = f"{load.arrival_rate_per_s:.4g} req/s", standing.variant.share
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
        *_settled_steps(demand),
    ]


def _settled_steps(demand: ModelDemand) -> list[Step]:
    """What must be carried beyond the demand of now, for what the load did before; none where nobody knows that."""
    swing = demand.swing
    if swing is None:
        return []
    words = (
        f"peak {swing.peak_per_s:.4g} req/s {_ago(swing.peak_age_s)} in the last {_span(swing.payback_s)}; "
        f"mean {swing.mean_per_s:.4g}, standard deviation {swing.deviation_per_s:.2g}"
    )
    before, after = f"{demand.rate_per_s:.4g} req/s", f"{demand.steadied.amount_per_s:.4g} req/s"
    return [Step(stage="settled", before=before, after=after, reason=words)]


def _ago(age_s: float) -> str:
    minutes = round(age_s / 60)
    return "just now" if minutes < 1 else f"{_span(minutes * 60.0)} ago"


def _span(span_s: float) -> str:
    hours, minutes = divmod(round(span_s / 60), 60)
    return f"{hours}h" if hours and not minutes else f"{hours}h {minutes}m" if hours else f"{minutes}m"


def _capacity_steps(case: Case, standing: Standing) -> list[Step]:
    steps, variant = [], standing.variant
    for option in variant.options:
        capacity = case.capacities.of.get(CandidateKey(variant=variant.key, accelerator=option.accelerator))
        if capacity is None:
            continue
        words = f"one replica on {_taken(option)}: {capacity.words} ({_parameters(option.profile, capacity)})"
        steps.append(Step(stage="capacity", before="", after=f"{capacity.rate_per_s:.4g} req/s", reason=words))
        steps += _learned_steps(option)
    if standing.correction is not None and case.capacities.of:
        factor = f"x {standing.correction.factor:.2f}"
        steps.append(Step(stage="correction", before="", after=factor, reason=standing.correction.reason))
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


def _why(case: Case, variant: Variant, desired: Allocation) -> str:
    if variant.key in case.settled.waiting:
        return case.settled.waiting[variant.key]
    if variant.key in case.settled.reasons:
        return case.settled.reasons[variant.key]
    need = case.posed.needs.of_variant(variant.key)
    shortfall = case.shortfalls.get(need.model) if need is not None else None
    if need is not None and shortfall is not None:
        return f"covers {shortfall.covered:.4g} of {shortfall.wanted:.4g} {need.unit}: {shortfall.reason}"
    kept = _why_kept(case, variant, desired)
    if kept:
        return kept
    if variant.key in case.solution.reasons:
        return case.solution.reasons[variant.key]
    tracked = case.posed.answers.tracking.get(variant.key)
    if tracked is not None:
        return "; ".join(tracked.reasons) or f"as its metric targets ask, by {tracked.rule}"
    answer = case.posed.answers.saturation.get(variant.model)
    if answer is not None:
        return "; ".join(dict.fromkeys(answer.reasons.values()))
    if desired.replicas:
        return "no arrivals: the fewest replicas allowed"
    return "no arrivals, and none run"


def _why_kept(case: Case, variant: Variant, desired: Allocation) -> str:
    """What keeps a replica that the demand of now does not need; empty when that is not what does."""
    demand, needs = case.posed.demands.get(variant.model), case.posed.needs
    if demand is None or demand.swing is None or desired != variant.current or not desired.replicas:
        return ""
    swing, requirement = demand.swing, needs.of_variant(variant.key)
    if requirement is None or requirement.fixed is not None:
        is_paused = requirement is not None and swing.peak_per_s > 0 and desired.replicas > idle_replicas(variant)
        return _was_asked(swing) if is_paused else ""
    each = (needs.carried(variant.key, desired) or 0.0) / desired.replicas
    rest = needs.total(variant.model, case.settled.allocations) - each
    minimum = case.posed.problem.bounds[variant.key].minimum if variant.key in case.posed.problem.bounds else 0
    if each <= 0 or rest < demand.rate_per_s or rest >= demand.steadied.amount_per_s or desired.replicas <= minimum:
        return ""
    return (
        _was_asked(swing) if rest < demand.steadied.kept_per_s else _may_come_back(swing, rest / (1 + demand.headroom))
    )


def _was_asked(swing: Swing) -> str:
    return (
        f"kept: {swing.peak_per_s:.4g} req/s were asked for {_ago(swing.peak_age_s)}; payback {_span(swing.payback_s)}"
    )


def _may_come_back(swing: Swing, rest_per_s: float) -> str:
    return (
        f"kept: without it {rest_per_s:.4g} req/s would be carried, too near to the mean of {swing.mean_per_s:.4g} "
        f"for a standard deviation of {swing.deviation_per_s:.2g}; payback {_span(swing.payback_s)}"
    )


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"
