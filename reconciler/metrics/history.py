"""Range answers as arrays: traces of replicas, past arrivals of models, live counts of scale targets."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from reconciler.domain.answers import Absence, Answer, NoAnswer
from reconciler.domain.history import (
    ABSURD,
    CONTRADICTED,
    NOTHING,
    Bools,
    DemandHistory,
    Floats,
    Grid,
    History,
    LoadHistory,
    added,
    agreed,
    grid_of,
    moments_of,
    ratio,
)
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ArrivalSource, LiveReplicas, Load, Trace
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import Matrix, decode_matrix, grid_over, printable
from reconciler.metrics.loads import Lengths, Model
from reconciler.metrics.quantities import HISTORY, UNNAMED_POD, WINDOW_S, WORKLOAD_LABELS, Name
from reconciler.metrics.queries import LabelNames
from reconciler.metrics.readings import (
    Attribution,
    Instance,
    ObjectName,
    ReplicaSeries,
    Served,
    Target,
    capacity_of,
    configured_model,
    grouped,
    picked_model,
    rank_of,
    reported_model,
    series_of,
)

# ---- traces of replicas


@dataclass(slots=True, kw_only=True)
class Histories:
    """One cluster's values by quantity and replica on one grid, and failed answers."""

    grid: Grid
    values: dict[Name, History[Instance]] = field(default_factory=dict)
    pods: dict[ObjectName, set[ReplicaSeries]] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)

    @property
    def has_fullness(self) -> bool:
        """Whether the fullness of replicas was queried."""
        return Name.KV_CACHE_USAGE in self.values


def read_histories(answers: Iterable[Answer], names: LabelNames, grid: Grid) -> Histories:
    """One cluster's answers with the step of `grid`, one in memory at a time."""
    histories = Histories(grid=grid)
    for answer in answers:
        if answer.query.step_s != grid.step_s or answer.query.quantity not in HISTORY:
            continue
        name = Name(answer.query.quantity)
        history = histories.values.setdefault(name, History(times_s=grid.times_s))
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            histories.failed.append(matrix)
            continue
        histories.warnings.update(dict.fromkeys(matrix.warnings))
        instances = []
        for labels in matrix.labels:
            series = series_of(labels, names)
            histories.pods.setdefault(ObjectName(series.namespace, series.pod), set()).add(series)
            instances.append(Instance(series.namespace, series.pod, rank_of(labels)))
        values = _kv_tokens(matrix) if name is Name.KV_TOKENS else matrix.values
        values = np.where((values >= 0) & (values < ABSURD), values, math.nan)
        history.add(instances, matrix.on(grid, values), 0, agreed)
    return histories


def _kv_tokens(matrix: Matrix) -> Floats:
    """The size of a KV cache at each point, NaN where that is no size; labels that say it count for all of a series."""
    values = np.where(matrix.values > 0, matrix.values, math.nan)
    at = 0
    for row in matrix.rows:
        stated = capacity_of(row.labels, 1.0)
        if stated.total is None:
            values[at : at + len(row.values)] = stated.tokens or math.nan
        at += len(row.values)
    return values


def histories_by_grid(answers: Iterable[Answer], names: LabelNames) -> tuple[Histories, ...]:
    """One cluster's histories, one for each queried step, the finest first."""
    steps = grouped((answer.query.step_s, answer) for answer in answers if answer.query.quantity in HISTORY)
    return tuple(
        read_histories(members, names, grid)
        for _, members in sorted((step_s, steps[step_s]) for step_s in steps if step_s)
        if (grid := grid_over([answer.query for answer in members])) is not None
    )


def trace(histories: Histories, attribution: Attribution) -> Mapping[ResourceKey, tuple[Trace, ...]]:
    """The histories of one cluster's variants, by data-parallel rank."""
    by_rank: dict[ObjectName, dict[str, dict[str, Floats]]] = {}
    for name, history in histories.values.items():
        known = np.where(np.isfinite(history.values), history.values, math.nan)
        for instance, row in history.rows.items():
            ranks = by_rank.setdefault(ObjectName(instance.namespace, instance.pod), {})
            ranks.setdefault(instance.rank, {})[str(name)] = known[row]
    unknown = dict.fromkeys(map(str, histories.values), np.full(histories.grid.count, math.nan))
    found: dict[ResourceKey, list[Trace]] = {}
    for pod, ranks in sorted(by_rank.items()):
        # only some series of a pod may have a label of the variant, or name the model
        variants = (attribution.variant_of(series) for series in sorted(histories.pods[pod]))
        variant = next(filter(None, variants), None)
        if variant is None:
            continue
        instances = [rank for rank in sorted(ranks) if rank] or [""]
        for rank in instances:
            one = Trace(
                pod=pod.name,
                instance=rank if len(instances) > 1 else "",
                variant=variant,
                start_s=histories.grid.start_s,
                step_s=histories.grid.step_s,
                series={**unknown, **ranks.get("", {}), **ranks[rank]},  # series without a rank are in all of them
            )
            found.setdefault(variant, []).append(one)
    return {variant: tuple(traces) for variant, traces in found.items()}


# ---- past arrivals, from the same source as the load, and lengths of requests


@dataclass(slots=True, kw_only=True)
class PastReadings:
    """One cluster's rates by quantity and served model, all at `times_s`; `step_s` is 0 when nothing was queried."""

    step_s: float = 0.0
    times_s: Floats = field(default_factory=lambda: NOTHING)
    rates: dict[Name, History[Served]] = field(default_factory=dict)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def was_asked(self, name: Name) -> bool:
        """Whether a quantity was queried."""
        return name in self.rates or name in self.failed

    def summed(self, name: Name, models: Sequence[Model], *, is_net: bool = False) -> tuple[Floats, Bools]:
        """The sums over the served names of each model, shape (models, moments), and which models have a series."""
        history = self.rates.get(name) or History[Served](times_s=self.times_s)
        return history.summed((model.served for model in models), is_net=is_net)


def read_past(
    answers: Iterable[Answer],
    names: LabelNames,
    attribution: Attribution,
    first_names: Mapping[ResourceKey, Served],
    quantities: Container[str],
) -> PastReadings:
    """The answers of one cluster about some `quantities` of the past, at the moments that were queried.

    A pod's series without a model count for the first served name of its variant, from `first_names`.
    """
    of_past = [answer for answer in answers if answer.query.quantity in quantities]
    step_s = next((answer.query.step_s for answer in of_past if answer.query.step_s), None)
    if step_s is None:
        return PastReadings()
    asked = [answer for answer in of_past if answer.query.step_s == step_s]
    grids = [grid_of(answer.query.start_s, answer.query.end_s, step_s) for answer in asked]
    readings = PastReadings(step_s=step_s, times_s=moments_of(grids))
    model_of = {
        **dict.fromkeys(
            (Name.PAST_ENDPOINT_PICKER, Name.DEMAND_ENDPOINT_PICKER, Name.FINE_ENDPOINT_PICKER), picked_model
        ),
        **dict.fromkeys((Name.PAST_CONFIGURED, Name.DEMAND_CONFIGURED, Name.FINE_CONFIGURED), configured_model),
    }

    def counted_for(served: Served, pod: str) -> Served | None:
        if served.model or not pod:
            return served
        variant = attribution.variant_of(ReplicaSeries(served.namespace, pod, "", ""))
        return None if variant is None else first_names[variant]

    for answer, grid in zip(asked, grids, strict=True):
        matrix, name = decode_matrix(answer), Name(answer.query.quantity)
        if isinstance(matrix, NoAnswer):
            readings.failed.setdefault(name, matrix)
            continue
        readings.warnings.update(dict.fromkeys(matrix.warnings))
        served_of = model_of.get(name, reported_model)
        served = [counted_for(served_of(each, names), each.get(UNNAMED_POD, "")) for each in matrix.labels]
        matrix.values[~np.isfinite(matrix.values)] = CONTRADICTED  # what is no number makes any sum of it none
        block = matrix.on(grid, matrix.values)
        rates = readings.rates.setdefault(name, History(times_s=readings.times_s))
        rates.add(served, block, int(np.searchsorted(readings.times_s, grid.start_s)), added)
    return readings


def past_of(
    models: Iterable[Model], loads: Mapping[ModelKey, Load | NoAnswer], readings: PastReadings
) -> dict[ModelKey, LoadHistory | NoAnswer]:
    """The arrivals of each model whose load is known, or why they are not; empty when they were not queried."""
    pairs = [(model, load) for model in models if isinstance(load := loads[model.key], Load)]
    if not readings.step_s or not pairs:
        return {}
    known = [model for model, _ in pairs]
    shares = np.array([[model.share] for model in known])
    finished, _ = readings.summed(Name.PAST_COMPLETIONS, known)
    outputs = _lengths(Name.PAST_OUTPUT_TOKENS, known, finished, readings)
    inputs = _lengths(Name.PAST_INPUT_TOKENS, known, finished, readings)
    sources = {source: _arrivals(source, known, readings) for source in {load.arrivals_from for _, load in pairs}}
    found: dict[ModelKey, LoadHistory | NoAnswer] = {}
    for number, (model, load) in enumerate(pairs):
        names, rates, is_counted = sources[load.arrivals_from]
        needed = (*names, Name.PAST_COMPLETIONS, Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
        failed = next((readings.failed[name] for name in needed if name in readings.failed), None)
        if not is_counted[number]:
            named = " or ".join(f'"{printable(one.model)}"' for one in model.served)
            missing = NoAnswer(Absence.MISSING, f"no series counts the past arrivals of model {named}")
            found[model.key] = failed or missing
            continue
        found[model.key] = LoadHistory(
            times_s=readings.times_s,
            step_s=readings.step_s,
            window_s=load.window_s,
            rates_per_s=rates[number] * shares[number],
            output_tokens=NOTHING if outputs is None else outputs[number],
            input_tokens=NOTHING if inputs is None or load.input_tokens is None else inputs[number],
            reason="" if failed is None else failed.reason,
        )
    return found


def _arrivals(
    source: ArrivalSource, models: Sequence[Model], readings: PastReadings
) -> tuple[tuple[Name, ...], Floats, Bools]:
    """What arrived by a source's count: the quantities it takes, rates (models, moments), and whose are counted."""
    if source is not ArrivalSource.REPLICAS:
        name = Name.PAST_CONFIGURED if source is ArrivalSource.CONFIGURED else Name.PAST_ENDPOINT_PICKER
        return ((name,), *readings.summed(name, models))
    names = Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH
    finished, is_finishing = readings.summed(names[0], models)
    growth, is_growing = readings.summed(names[1], models, is_net=True)
    return names, finished + np.maximum(growth, 0.0), is_finishing & is_growing


def _lengths(name: Name, models: Sequence[Model], finished: Floats, readings: PastReadings) -> Floats | None:
    """Tokens of a request, NaN where none finished or they are unknown; None when they were not queried."""
    return ratio(readings.summed(name, models)[0], finished) if readings.was_asked(name) else None


def usual_of(models: Iterable[Model], readings: PastReadings) -> dict[ModelKey, LoadHistory]:
    """A usual day of each model; one of which no series counts what was finished is left out."""
    known = list(models)
    if not readings.step_s or not known:
        return {}
    finished, is_counted = readings.summed(Name.USUAL_COMPLETIONS, known)
    outputs = _lengths(Name.USUAL_OUTPUT_TOKENS, known, finished, readings)
    inputs = _lengths(Name.USUAL_INPUT_TOKENS, known, finished, readings)
    rates = finished * np.array([[model.share] for model in known])
    return {
        model.key: LoadHistory(
            times_s=readings.times_s,
            step_s=readings.step_s,
            window_s=WINDOW_S,
            rates_per_s=rates[number],
            output_tokens=NOTHING if outputs is None else outputs[number],
            input_tokens=NOTHING if inputs is None else inputs[number],
        )
        for number, model in enumerate(known)
        if is_counted[number]
    }


_DEMAND = {
    ArrivalSource.CONFIGURED: Name.DEMAND_CONFIGURED,
    ArrivalSource.ENDPOINT_PICKER: Name.DEMAND_ENDPOINT_PICKER,
    ArrivalSource.REPLICAS: Name.DEMAND_COMPLETIONS,
}
"""What counts arrivals over weeks, by what counts them now: in ten minutes a queue hardly grows."""
FINE_SOURCES = {
    ArrivalSource.CONFIGURED: Name.FINE_CONFIGURED,
    ArrivalSource.ENDPOINT_PICKER: Name.FINE_ENDPOINT_PICKER,
    ArrivalSource.REPLICAS: Name.FINE_COMPLETIONS,
}
"""The same minute by minute."""


def demand_of(
    models: Iterable[Model],
    loads: Mapping[ModelKey, Load | NoAnswer],
    readings: PastReadings,
    sources: Mapping[ArrivalSource, Name] = _DEMAND,
) -> tuple[DemandHistory, ...]:
    """What arrived over weeks for the models whose load is known; none where it was not queried, or failed."""
    known = [(model, load.arrivals_from) for model in models if isinstance(load := loads[model.key], Load)]
    rows: list[Floats] = []
    owners: list[ModelKey] = []
    for source in dict.fromkeys(source for _, source in known):
        history = readings.rates.get(sources[source], History[Served](times_s=readings.times_s))
        # weeks of every model take a hundred megabytes: only of those that have a series
        counted = [
            model for model, each in known if each is source and not history.rows.keys().isdisjoint(model.served)
        ]
        if not counted:
            continue
        rates, _ = history.summed(model.served for model in counted)
        rows.append(rates * np.array([[model.share] for model in counted]))
        owners += [model.key for model in counted]
    if not owners:
        return ()
    start_s = float(readings.times_s[0])
    per_s = rows[0] if len(rows) == 1 else np.concatenate(rows)
    return (DemandHistory(models=tuple(owners), start_s=start_s, step_s=readings.step_s, per_s=per_s),)


def lengths_in(model: Model, readings: PastReadings) -> Lengths:
    """The mean lengths of a model's past requests."""
    finished = readings.summed(Name.PAST_COMPLETIONS, (model,))[0][0]

    def mean(name: Name) -> float | None:
        tokens = readings.summed(name, (model,))[0][0]
        known = np.isfinite(tokens) & np.isfinite(finished)
        count = math.fsum(finished[known])
        return math.fsum(tokens[known]) / count if count > 0 else None

    return Lengths(output_tokens=mean(Name.PAST_OUTPUT_TOKENS), input_tokens=mean(Name.PAST_INPUT_TOKENS))


# ---- live counts of Deployments and StatefulSets, which kube-state-metrics exports by default


@dataclass(slots=True, kw_only=True)
class LiveReadings:
    """One cluster's counts by scale target, and failed answers; no grid and no counts when nothing was queried."""

    grid: Grid | None = None
    counts: History[Target] | None = None
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)


def watched_target(variant: Variant) -> Target | None:
    """The scale target whose live count is compared with Git; None if Git has no count or an autoscaler sets it."""
    workload = variant.workload
    return None if workload is None or workload.replicas is None or variant.is_autoscaled else scale_target(variant)


def scale_target(variant: Variant) -> Target | None:
    """What is scaled, whoever sets its count; None where nothing reports the count."""
    key = None if variant.workload is None else variant.workload.key
    return None if key is None or key.kind not in WORKLOAD_LABELS else (key.namespace, key.kind, key.name)


def read_live(answers: Iterable[Answer], names: LabelNames, quantity: Name = Name.LIVE_REPLICAS) -> LiveReadings:
    """The answers of one cluster to `live_queries`, or about one `quantity` of `delay_queries`, on one grid."""
    asked = [answer for answer in answers if answer.query.quantity == quantity and answer.query.step_s]
    grid = grid_over([answer.query for answer in asked])
    if grid is None:
        return LiveReadings()
    counts = History[Target](times_s=grid.times_s)
    readings = LiveReadings(grid=grid, counts=counts)
    for answer in asked:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            readings.failed.append(matrix)
            continue
        readings.warnings.update(dict.fromkeys(matrix.warnings))
        targets = [_target_of(labels, names) for labels in matrix.labels]
        # a count that is no number contradicts one that is
        values = np.where(np.isnan(matrix.values), CONTRADICTED, matrix.values)
        counts.add(targets, matrix.on(grid, values), 0, agreed)
    known = (counts.values >= 0) & (counts.values < ABSURD) & (counts.values == np.floor(counts.values))
    counts.values = np.where(known, counts.values, math.nan)
    return readings


def _target_of(labels: Mapping[str, str], names: LabelNames) -> Target | None:
    """The scale target that a series is about."""
    objects = ((kind, labels[label]) for kind, label in WORKLOAD_LABELS.items() if labels.get(label))
    return next(((labels.get(names.namespace, ""), kind, name) for kind, name in objects), None)


def ran_of(variants: Iterable[Variant], readings: LiveReadings) -> Mapping[ResourceKey, LiveReplicas]:
    """The counts of every variant's scale target that are known, also where an autoscaler sets them."""
    grid, live = readings.grid, readings.counts
    if grid is None or live is None:
        return {}
    counts = ((variant.key, live.of(target)) for variant in variants if (target := scale_target(variant)) is not None)
    return {
        key: LiveReplicas(start_s=grid.start_s, step_s=grid.step_s, counts=each)
        for key, each in counts
        if each is not None
    }


def live_of(variants: Iterable[Variant], readings: LiveReadings) -> Mapping[ResourceKey, LiveReplicas | NoAnswer]:
    """The live count of each watched variant; empty when nothing was queried."""
    grid, live = readings.grid, readings.counts
    if grid is None or live is None:
        return {}
    found: dict[ResourceKey, LiveReplicas | NoAnswer] = {}
    for variant in variants:
        target = watched_target(variant)
        if target is None:
            continue
        counts = live.of(target)
        if counts is not None:
            found[variant.key] = LiveReplicas(start_s=grid.start_s, step_s=grid.step_s, counts=counts)
        elif readings.failed:
            found[variant.key] = readings.failed[0]
        else:
            namespace, kind, name = target
            reason = f"no kube-state-metrics reports the replicas of {kind} {namespace}/{name} to compare with Git"
            found[variant.key] = NoAnswer(Absence.MISSING, reason)
    return found
