"""Decisions with their numbers, verdicts, and the steps and figures behind them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields

import numpy as np

from reconciler.decision.actuation import ActuationDelays, delay_figures
from reconciler.decision.assessment import live_figures, why_outage
from reconciler.decision.canaries import told_measures
from reconciler.decision.devices import pool_figures
from reconciler.decision.engines.port import Basis, EngineAnswer
from reconciler.decision.engines.registry import ENGINES, EXPECTED
from reconciler.decision.formulation import FormulatedProblem
from reconciler.decision.load_variation import LoadVariation
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import Allocations, Needs, VariantState
from reconciler.decision.verdicts import verdict_of
from reconciler.domain.history import Bools, LoadHistory
from reconciler.domain.holds import BrokenResource, Hold
from reconciler.domain.identity import CandidateKey, Figure, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import ArrivalSource, Load, Observation, Performance, is_usual_churn
from reconciler.domain.plan import (
    RATE,
    AskedPrometheus,
    Decision,
    Evidence,
    Fullness,
    Outcome,
    SloProjection,
    Step,
    VerdictKind,
    written_in,
)
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import Shortfall, Solution
from reconciler.domain.scalers import ScalerSetting
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import significant
from reconciler.domain.variant_settings import Engine
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import alternatives_in
from reconciler.sizing.queueing_laws import slo_projections, targets_under
from reconciler.snapshot.canaries import is_canary


class Projection:
    """The expected performance of the variants of `models` under one set of allocations of all variants."""

    def __init__(
        self, needs: Needs, answers: Iterable[EngineAnswer], allocations: Allocations, models: Collection[ModelKey]
    ) -> None:
        self._needs = needs
        self._allocations = allocations
        asked = (model for model in needs.requirements if model in models)
        self._shares = {key: share for model in asked for key, share in self._replica_shares(model)}
        self._performance: dict[CandidateKey, Performance] = {}
        for answer in answers:
            self._performance |= answer.expect(self._shares.items())

    def demand(self, variant: Variant) -> float | None:
        """The variant's share of what is needed, by what its replicas carry; None when it is unknown."""
        allocation = self._allocations[variant.key]
        share = self._shares.get(_key(variant, allocation))
        return None if share is None else share * allocation.replicas

    def capacity(self, variant: Variant) -> float | None:
        """What the variant's replicas carry together inside its SLO; None when it is unknown."""
        return self._needs.carried(variant.key, self._allocations[variant.key])

    def performance(self, variant: Variant) -> Performance | None:
        """The expected means at the variant's share of the demand; None when they are unknown."""
        allocation = self._allocations[variant.key]
        return self._performance.get(_key(variant, allocation)) if allocation.replicas else None

    def _replica_shares(self, model: ModelKey) -> Iterable[tuple[CandidateKey, float]]:
        """A replica's share of what is needed: by what it carries, or evenly where nothing carries anything."""
        requirement, variants = self._needs.requirements[model], self._needs.variants_of[model]
        demand, whole = self._needs.demand(model), self._needs.total(model, self._allocations)
        replicas = sum(self._allocations[variant].replicas for variant in variants)
        for variant in variants:
            key = variant.on(self._allocations[variant].accelerator)
            each = requirement.per_replica.get(key)
            if each is None or not replicas:
                continue
            yield key, demand * each / whole if whole > 0 else demand / replicas


def _key(variant: Variant, allocation: Allocation) -> CandidateKey:
    return variant.key.on(allocation.accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The snapshot, what was asked of the optimizer and answered, and what is expected before and after."""

    situation: Situation
    answers: Mapping[Engine, EngineAnswer]
    variations: Mapping[ModelKey, LoadVariation]
    solution: Solution
    staged: StagedPlan
    before: Projection
    after: Projection
    shortfalls: Mapping[ModelKey, Shortfall]

    @property
    def snapshot(self) -> Snapshot:
        """What is decided from."""
        return self.situation.snapshot

    @property
    def formulated(self) -> FormulatedProblem:
        """What the optimizer was asked."""
        return self.situation.formulated


_ARRIVALS = {
    ArrivalSource.CONFIGURED: (Name.ARRIVALS_CONFIGURED,),
    ArrivalSource.ENDPOINT_PICKER: (Name.ARRIVALS_ENDPOINT_PICKER,),
    ArrivalSource.REPLICAS: (Name.COMPLETIONS, Name.QUEUE_GROWTH),
}
_PAST_ARRIVALS = {
    ArrivalSource.CONFIGURED: (Name.PAST_CONFIGURED,),
    ArrivalSource.ENDPOINT_PICKER: (Name.PAST_ENDPOINT_PICKER,),
    ArrivalSource.REPLICAS: (Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH),
}


class FiguresOnDemand(Mapping[ResourceKey, tuple[Figure, ...]]):
    """Every figure behind each variant's decision, inputs first, put together when it is read."""

    def __init__(self, context: DecisionContext, states: Iterable[VariantState]) -> None:
        self._context = context
        self._states = {state.variant.key: state for state in states}

    def __getitem__(self, key: ResourceKey) -> tuple[Figure, ...]:
        state, snapshot = self._states[key], self._context.snapshot
        variant = state.variant
        return (
            *_load_figures(snapshot, variant, self._context.variations.get(variant.model)),
            *_observed_figures(snapshot, variant),
            *live_figures(snapshot, variant),
            *delay_figures(ActuationDelays(snapshot), variant),
            *self._context.answers[state.engine].figures(variant),
            *pool_figures(snapshot, variant),
        )

    def __iter__(self) -> Iterator[ResourceKey]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


def asked_queries(snapshot: Snapshot, decision: Decision, figures: tuple[Figure, ...]) -> Mapping[str, tuple[str, ...]]:
    """The PromQL of every quantity that the figures name, in the order they name them, by its alternatives.

    Of the queries for finished requests just those that had the model's series.
    """
    asked = snapshot.observed.queries.get(decision.variant.cluster, {})
    names = dict.fromkeys(name for figure in figures for name in figure.queries)
    load = snapshot.observed.loads.get(decision.model)
    told = load.alternatives if isinstance(load, Load) else ()
    return {name: _narrowed(asked[name], told if name == Name.COMPLETIONS else ()) for name in names if name in asked}


def _narrowed(text: str, told: Iterable[str]) -> tuple[str, ...]:
    alternatives = tuple(alternatives_in(text))
    answered = tuple(query for number, query in alternatives if number in told)
    return answered or tuple(query for _, query in alternatives)


def _load_figures(snapshot: Snapshot, variant: Variant, variation: LoadVariation | None) -> Iterator[Figure]:
    load, subject = snapshot.observed.loads.get(variant.model), variant.model.model_id
    if not isinstance(load, Load):
        reason = "not asked for" if load is None else load.reason
        yield Figure(subject=subject, name="arrivals", value=None, unit="req/s", reason=reason)
        return
    yield Figure(
        subject=subject,
        name="arrivals",
        value=load.arrival_rate_per_s,
        unit="req/s",
        reason=str(load.arrivals_from),
        queries=tuple(map(str, _ARRIVALS[load.arrivals_from])),
    )
    if variation is not None:
        yield from _past_figures(variant, load, variation)
    lengths = (
        ("input tokens", load.input_tokens, Name.INPUT_TOKENS),
        ("output tokens", load.output_tokens, Name.OUTPUT_TOKENS),
    )
    for name, value, quantity in lengths:
        reason = load.lengths_from if value is not None else "no series has it"
        yield Figure(
            subject=subject, name=name, value=value, unit="tokens/request", reason=reason, queries=(str(quantity),)
        )

    if load.input_spread is not None:
        yield Figure(
            subject=subject,
            name="spread of input tokens",
            value=load.input_spread,
            unit="variance by squared mean",
            queries=(str(Name.INPUT_BUCKETS),),
        )


def _past_figures(variant: Variant, load: Load, variation: LoadVariation) -> Iterator[Figure]:
    names = _PAST_ARRIVALS[load.arrivals_from]
    for name, value in (
        ("peak of arrivals", variation.peak_per_s),
        ("mean of arrivals", variation.mean_per_s),
        ("standard deviation of arrivals", variation.deviation_per_s),
    ):
        reason = f"in the last {variation.payback_s / 60:g}m"
        yield Figure(
            subject=variant.model.model_id,
            name=name,
            value=value,
            unit="req/s",
            reason=reason,
            queries=tuple(map(str, names)),
        )


def _observed_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    observation, subject = snapshot.observed.observations.get(variant.key), variant.key.label
    if observation is None:
        return
    if observation.absence is not None:
        yield Figure(subject=subject, name="replicas", value=None, reason=observation.absence.reason)
        return
    seen = observation.performance
    values = (
        ("replicas reporting", observation.replicas_reporting, "replicas", Name.LAST_SEEN),
        ("running", observation.num_running, "requests", Name.RUNNING),
        ("waiting", observation.num_waiting, "requests", Name.WAITING),
        ("ITL", seen.itl_s, "s", Name.ITL),
        ("TTFT", seen.ttft_s, "s", Name.TTFT),
        ("wait", seen.wait_s, "s", Name.WAIT),
    )
    for name, value, unit, quantity in values:
        reason = "" if value is not None else "not measured"
        yield Figure(subject=subject, name=name, value=value, unit=unit, reason=reason, queries=(str(quantity),))


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
        known = current if variant.is_counted else ""
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


def brief_decision(context: DecisionContext, state: VariantState) -> Decision:
    """The decision of one variant without its steps; one that changes nothing has no numbers but replicas."""
    variant, staged = state.variant, context.staged
    outcome = staged.outcome(context.situation, variant.key)
    if outcome is Outcome.CHANGE:
        return decision_for(context, state, is_explained=False)
    return Decision(
        variant=variant.key,
        model=variant.model,
        group=context.situation.group_of[variant.key],
        outcome=outcome,
        current=variant.current,
        desired=staged.allocations[variant.key],
        verdict=staged.verdicts[variant.key],
        steps=(),
        hold=staged.holds.get(variant.key),
        place="",
    )


def decision_for(context: DecisionContext, state: VariantState, *, is_explained: bool = True) -> Decision:
    """The decision of one variant, numbers rounded before they enter the plan."""
    variant = state.variant
    staged = context.staged
    desired, hold = staged.allocations[variant.key], staged.holds.get(variant.key)
    outcome = staged.outcome(context.situation, variant.key)
    need = context.formulated.needs.of_variant(variant.key)
    observation = context.snapshot.observed.observations.get(variant.key)
    key = variant.key.on(variant.current.accelerator)
    measured = context.snapshot.tried.get(variant.key)
    is_trying = is_canary(variant)  # what it carries is what it is to find out
    return Decision(
        variant=variant.key,
        model=variant.model,
        group=context.situation.group_of[variant.key],
        outcome=outcome,
        current=variant.current,
        desired=desired,
        verdict=staged.verdicts[variant.key],
        steps=steps_of(context, state, outcome) if is_explained else (),
        hold=hold,
        place=str(variant.place),
        written_at=_written_at(variant, desired),
        bounds_of=variant.workload.bounds_of if variant.workload is not None else "",
        load=state.load,
        engine="" if state.choice.conflict else str(state.engine),
        engine_reason=state.choice.reason,
        unit=need.unit if need is not None else RATE,
        demand=None if is_trying else _rounded(context.after.demand(variant)),
        capacity_before=None if is_trying else _rounded(context.before.capacity(variant)),
        capacity_after=None if is_trying else _rounded(context.after.capacity(variant)),
        slos=() if is_trying else _slos(context, variant, desired),
        fullness=_fullness(context, variant),
        cost_before_per_hour=_rounded(variant.cost_of(variant.current)),
        cost_after_per_hour=_rounded(variant.cost_of(desired)),
        expected=_rounded_performance(context.after.performance(variant)),
        observed=observation.performance if observation is not None else None,
        max_batch_size=context.answers[state.engine].max_batch_size(key),
        status_shape=variant.status_shape,
        metrics_available=_has_metrics(state, observation, hold),
        evidence=_evidence(context.snapshot, state),
        is_applied=_is_applied(context.snapshot, state, desired),
        waiting=staged.waiting.get(variant.key) if hold is None else None,
        caution=_caution(context, variant, desired),
        reverts=staged.reverts.get(variant.key) if outcome is Outcome.CHANGE else None,
        labels=_joined(each.labels for each in staged.said.get(variant.key, ())),
        reviewers=_joined(each.reviewers for each in staged.said.get(variant.key, ())),
        tuning=staged.tunings.get(variant.key),
        canary=context.snapshot.canaries.get(variant.key) if outcome is Outcome.CHANGE else None,
        tried=tuple(told_measures(measured)) if measured is not None and not is_trying else (),
        scored=staged.scores.get(variant.key),
        metric="" if variant.tuned is None else variant.tuned.scaler.metric_name,
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
    annotated = _why_annotated(variant, desired)
    told = (f"{variant.key.label}: {words}" for words in (takes_back, outage, annotated) if words)
    return "; ".join(filter(None, (*told, written)))


def _why_annotated(variant: Variant, desired: Allocation) -> str:
    """Which annotations say another behavior, where a controller makes it of some; empty where it stays."""
    names = None if variant.tuned is None else variant.tuned.scaler.annotations
    settings = [ScalerSetting.parse(each.scaling) for each in (variant.current, desired)]
    if names is None or len({str(each.behavior) for each in settings if each is not None}) < 2:
        return ""
    return (
        f"its behavior is written as annotations: {names.window} is the window, {names.factor} the factor by which "
        "replicas may shrink in a minute"
    )


def _written_at(variant: Variant, desired: Allocation) -> tuple[str, ...]:
    """The fields that get a number; none while all stay."""
    fields = () if variant.workload is None else variant.workload.written_at
    changed = (each for each in fields if written_in(each, variant.current, desired) is not None)
    return tuple(f"{each.place} {each.place.field}".rstrip() for each in changed)


def _has_metrics(state: VariantState, observation: Observation | None, hold: Hold | None) -> bool:
    """Whether everything that its engine looks at was there."""
    is_seen = observation is not None and observation.absence is None and not (hold and hold.kind.is_without_metrics)
    return is_seen and (state.load is not None or ENGINES[state.engine].basis is not Basis.LOAD)


def _evidence(snapshot: Snapshot, state: VariantState) -> Evidence | None:
    """The metrics that its engine sizes it from; None where there are none."""
    observed, variant = snapshot.observed, state.variant
    queue = observed.queues.get(variant.model)
    if queue is not None and queue.num_waiting and not variant.current.replicas:
        return Evidence.PENDING
    if ENGINES[state.engine].basis is not Basis.FULLNESS:
        return Evidence.LOAD if state.load is not None else None
    replicas = observed.replicas.get(variant.key, ())
    if any(each.kv_cache_usage is not None for each in replicas):
        return Evidence.SATURATION
    waiting = [each.num_waiting for each in replicas] + [None if queue is None else queue.num_waiting]
    return None if waiting.count(None) == len(waiting) else Evidence.QUEUE


def _is_applied(snapshot: Snapshot, state: VariantState, desired: Allocation) -> bool | None:
    """Whether the cluster asks for the desired replicas and has them ready, but for the usual churn."""
    asked, ready = state.replicas_live, snapshot.observed.ready.get(state.variant.key)
    if desired.accelerator != state.variant.current.accelerator or asked not in (None, desired.replicas):
        return False
    if ready is None:
        return None if asked is None else True
    return ready == desired.replicas if asked is None else is_usual_churn(desired.replicas - ready, desired.replicas)


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


LONGEST_S = 86_400.0

Points = tuple[tuple[float, float], ...]


class HistoriesOnDemand(Mapping[ModelKey, Points]):
    """The load of each model in the last day, as far as it was asked for, put together when it is read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._models = {variant.model: None for variant in snapshot.variants}

    def __getitem__(self, model: ModelKey) -> Points:
        if model not in self._models:
            raise KeyError(model)
        return tuple(sorted(_points(self._snapshot, model), reverse=True))

    def __iter__(self) -> Iterator[ModelKey]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def asked_prometheus(snapshot: Snapshot) -> dict[str, AskedPrometheus]:
    """By cluster the queries of this run, where its Prometheus has an address for people."""
    return {
        cluster.name: AskedPrometheus(
            address=cluster.prometheus.external_url, queries=snapshot.observed.queries.get(cluster.name, {})
        )
        for cluster in snapshot.settings.clusters
        if cluster.prometheus is not None and cluster.prometheus.external_url
    }


def _points(snapshot: Snapshot, model: ModelKey) -> Iterator[tuple[float, float]]:
    """What arrived, and before that what was finished: how long ago, and how much."""
    observed, now_s = snapshot.observed, snapshot.now_s
    load, past, usual = observed.loads.get(model), observed.past.get(model), observed.usual.get(model)
    first_s = now_s
    if isinstance(load, Load):
        yield 0.0, load.arrival_rate_per_s
    if isinstance(past, LoadHistory):
        yield from _known(past, past.times_s < now_s, now_s)
        first_s = past.times_s[0] if len(past.times_s) else now_s
    if usual is not None:
        yield from _known(usual, (usual.times_s < first_s) & (usual.times_s >= now_s - LONGEST_S), now_s)


def _known(history: LoadHistory, is_asked: Bools, now_s: float) -> Iterator[tuple[float, float]]:
    chosen = is_asked & ~np.isnan(history.rates_per_s)
    return zip((now_s - history.times_s[chosen]).tolist(), history.rates_per_s[chosen].tolist(), strict=True)
