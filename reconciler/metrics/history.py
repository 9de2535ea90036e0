"""Range answers: traces of replicas, past arrivals of models, live counts of scale targets; each kind on one grid."""

import math
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

from reconciler.domain.answers import Absence, Answer, NoAnswer
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ArrivalSource, LiveReplicas, Load, PastArrivals, Trace, UsualLoad
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import ABSURD, Grid, MatrixRow, decode_matrix, grid_over, is_usable, printable
from reconciler.metrics.loads import Lengths, Model
from reconciler.metrics.quantities import HISTORY, UNNAMED_POD, WORKLOAD_LABELS, Name
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
    total,
)

_CONTRADICTED = math.inf
"""While reading, marks a moment with two different values; NaN in the result."""


def _blank(grid: Grid) -> "array[float]":
    return array("d", (math.nan,)) * grid.count


def _set(held: "array[float]", points: Iterable[tuple[int | None, float]]) -> None:
    """Set values; two different ones for one moment contradict each other, and neither is kept."""
    for index, value in points:
        if index is not None:
            held[index] = value if math.isnan(held[index]) or held[index] == value else _CONTRADICTED


# ---- traces of replicas


@dataclass(slots=True, kw_only=True)
class Histories:
    """One cluster's values by quantity and replica on one grid, and failed answers."""

    grid: Grid
    asked: set[Name] = field(default_factory=set)
    values: dict[Name, dict[Instance, "array[float]"]] = field(default_factory=dict)
    pods: dict[ObjectName, set[ReplicaSeries]] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)

    @property
    def has_fullness(self) -> bool:
        """Whether the fullness of replicas was queried."""
        return Name.KV_CACHE_USAGE in self.asked


def read_histories(answers: Iterable[Answer], names: LabelNames, grid: Grid) -> Histories:
    """One cluster's answers with the step of `grid`, one in memory at a time."""
    histories = Histories(grid=grid)
    times_s = grid.times_s
    for answer in answers:
        if answer.query.step_s != grid.step_s or answer.query.quantity not in HISTORY:
            continue
        name = Name(answer.query.quantity)
        histories.asked.add(name)
        histories.values.setdefault(name, {})
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            histories.failed.append(matrix)
            continue
        histories.warnings.update(dict.fromkeys(matrix.warnings))
        for row in matrix.rows:
            _add_to_trace(row, name, names, histories, times_s)
    return histories


def _add_to_trace(row: MatrixRow, name: Name, names: LabelNames, histories: Histories, times_s: "array[float]") -> None:
    grid, values = histories.grid, row.values
    series = series_of(row.labels, names)
    histories.pods.setdefault(ObjectName(series.namespace, series.pod), set()).add(series)
    if name is Name.KV_TOKENS:
        values = array("d", (capacity_of(row.labels, value).tokens or math.nan for value in values))
    values = array("d", [value if 0 <= value < ABSURD else math.nan for value in values])
    of_instances, instance = histories.values[name], Instance(series.namespace, series.pod, rank_of(row.labels))
    held = of_instances.get(instance)
    is_new = held is None
    if held is None:
        held = of_instances[instance] = _blank(grid)
    first = grid.index_of(row.times_s[0]) if row.times_s else None
    if is_new and first is not None and row.times_s == times_s[first : first + len(values)]:  # without a gap
        held[first : first + len(values)] = values
        return
    points = zip(map(grid.index_of, row.times_s), values, strict=True)
    _set(held, ((index, value) for index, value in points if not math.isnan(value)))


def histories_by_grid(answers: Iterable[Answer], names: LabelNames) -> tuple[Histories, ...]:
    """One cluster's histories, one for each queried step, the finest first."""
    steps = grouped((answer.query.step_s, answer) for answer in answers if answer.query.quantity in HISTORY)
    return tuple(
        read_histories(members, names, grid)
        for _, members in sorted((step_s, steps[step_s]) for step_s in steps if step_s)
        if (grid := grid_over([answer.query for answer in members])) is not None
    )


def trace(histories: Histories, attribution: Attribution) -> Mapping[ResourceKey, tuple[Trace, ...]]:
    """The histories of one cluster's variants, by data-parallel rank; empties `histories` to save memory."""
    by_rank: dict[ObjectName, dict[str, dict[str, tuple[float, ...]]]] = {}
    for name, of_instances in histories.values.items():
        while of_instances:
            instance, values = of_instances.popitem()
            ranks = by_rank.setdefault(ObjectName(instance.namespace, instance.pod), {})
            of_rank = ranks.setdefault(instance.rank, {})
            of_rank[str(name)] = tuple(value if math.isfinite(value) else math.nan for value in values)
    unknown = dict.fromkeys(map(str, histories.values), (math.nan,) * histories.grid.count)
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
    """One cluster's rates by quantity and served model on one grid, NaN where unknown."""

    grid: Grid | None = None
    rates: dict[Name, dict[Served, "array[float]"]] = field(default_factory=dict)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)


def read_past(
    answers: Iterable[Answer],
    names: LabelNames,
    attribution: Attribution,
    first_names: Mapping[ResourceKey, Served],
    quantities: Container[str],
) -> PastReadings:
    """The answers of one cluster about some `quantities` of the past, on one grid.

    A pod's series without a model count for the first served name of its variant, from `first_names`.
    """
    asked = [answer for answer in answers if answer.query.quantity in quantities and answer.query.step_s is not None]
    readings = PastReadings(grid=grid_over([answer.query for answer in asked]))
    model_of = {Name.PAST_ENDPOINT_PICKER: picked_model, Name.PAST_CONFIGURED: configured_model}

    for answer in asked:
        matrix, name, grid = decode_matrix(answer), Name(answer.query.quantity), readings.grid
        if isinstance(matrix, NoAnswer) or grid is None:
            if isinstance(matrix, NoAnswer):
                readings.failed.setdefault(name, matrix)
            continue
        readings.warnings.update(dict.fromkeys(matrix.warnings))
        rates = readings.rates.setdefault(name, {})
        for row in matrix.rows:
            served = model_of.get(name, reported_model)(row.labels, names)
            pod = row.labels.get(UNNAMED_POD, "")
            if pod and not served.model:
                variant = attribution.variant_of(ReplicaSeries(served.namespace, pod, "", ""))
                if variant is None:
                    continue
                served = first_names[variant]
            held = rates.setdefault(served, _blank(grid))
            for index, value in zip(map(grid.index_of, row.times_s), row.values, strict=True):
                if index is not None:
                    known = value if math.isfinite(value) else math.inf  # it stays infinite when more is added
                    held[index] = known if math.isnan(held[index]) else held[index] + known
    return readings


def past_of(
    models: Iterable[Model], loads: Mapping[ModelKey, Load | NoAnswer], readings: PastReadings
) -> dict[ModelKey, PastArrivals | NoAnswer]:
    """The arrivals of each model whose load is known, or why they are not; empty when they were not queried."""
    return {
        model.key: _past_of(model, load, readings, readings.grid)
        for model in models
        if isinstance(load := loads[model.key], Load) and readings.grid is not None
    }


def _past_of(model: Model, load: Load, readings: PastReadings, grid: Grid) -> PastArrivals | NoAnswer:
    names: tuple[Name, ...] = (Name.PAST_ENDPOINT_PICKER,)
    if load.is_by_replicas:
        names = Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH
    elif load.arrivals_from is ArrivalSource.CONFIGURED:
        names = (Name.PAST_CONFIGURED,)
    needed = (*names, Name.PAST_COMPLETIONS, Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
    failed = next((readings.failed[name] for name in needed if name in readings.failed), None)
    rates = _summed(names[0], model.served, readings)
    growth = _summed(names[1], model.served, readings, is_net=True) if len(names) > 1 else None
    if rates is None or (growth is None and len(names) > 1):
        named = " or ".join(f'"{printable(one.model)}"' for one in model.served)
        missing = NoAnswer(Absence.MISSING, f"no series counts the past arrivals of model {named}")
        return failed or missing
    if growth is not None:
        pairs = zip(rates, growth, strict=True)
        rates = [math.nan if math.isnan(more) else rate + max(0.0, more) for rate, more in pairs]
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings) or [math.nan] * grid.count
    inputs = _lengths(Name.PAST_INPUT_TOKENS, finished, model.served, readings)
    return PastArrivals(
        start_s=grid.start_s,
        step_s=grid.step_s,
        window_s=load.window_s,
        rates_per_s=tuple(rate * model.share for rate in rates),
        output_tokens=_lengths(Name.PAST_OUTPUT_TOKENS, finished, model.served, readings),
        input_tokens=() if load.input_tokens is None else inputs,
        reason="" if failed is None else failed.reason,
    )


def usual_of(models: Iterable[Model], readings: PastReadings) -> dict[ModelKey, UsualLoad]:
    """A usual day of each model; one that finished nothing in all of it is left out."""
    found: dict[ModelKey, UsualLoad] = {}
    grid = readings.grid
    for model in models:
        finished = _summed(Name.USUAL_COMPLETIONS, model.served, readings)
        if finished is None or grid is None:
            continue
        found[model.key] = UsualLoad(
            start_s=grid.start_s,
            step_s=grid.step_s,
            rates_per_s=tuple(rate * model.share for rate in finished),
            output_tokens=_lengths(Name.USUAL_OUTPUT_TOKENS, finished, model.served, readings),
            input_tokens=_lengths(Name.USUAL_INPUT_TOKENS, finished, model.served, readings),
        )
    return found


def lengths_in(model: Model, readings: PastReadings) -> Lengths:
    """The mean lengths of a model's past requests."""
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings) or ()

    def mean(name: Name) -> float | None:
        tokens = _summed(name, model.served, readings) or ()
        known = [pair for pair in zip(tokens, finished, strict=False) if all(map(is_usable, pair))]
        count = math.fsum(each for _, each in known)
        return math.fsum(each for each, _ in known) / count if count > 0 else None

    return Lengths(output_tokens=mean(Name.PAST_OUTPUT_TOKENS), input_tokens=mean(Name.PAST_INPUT_TOKENS))


def _lengths(
    name: Name, finished: Sequence[float], served: Sequence[Served], readings: PastReadings
) -> tuple[float, ...]:
    """Tokens of a request; NaN where none finished or they are unknown, empty when they were not queried."""
    if name not in readings.rates and name not in readings.failed:
        return ()
    tokens = _summed(name, served, readings)
    if tokens is None:
        return tuple(math.nan for _ in finished)
    return tuple(each / count if count > 0 else math.nan for each, count in zip(tokens, finished, strict=True))


def _summed(
    name: Name, served: Sequence[Served], readings: PastReadings, *, is_net: bool = False
) -> list[float] | None:
    """The sum over served names that have series, NaN where one of them has a gap; with `is_net` rates may be negative.

    Before its first request the counter of a name does not exist yet, which is no gap.
    """
    series = [rates for one in served if (rates := readings.rates.get(name, {}).get(one)) is not None]
    if not series:
        return None
    if len(series) == 1:
        return [rate if is_usable(abs(rate) if is_net else rate) else math.nan for rate in series[0]]
    firsts = [next((at for at, rate in enumerate(rates) if not math.isnan(rate)), len(rates)) for rates in series]
    sums = []
    for at, parts in enumerate(zip(*series, strict=True)):
        begun = [part for part, first in zip(parts, firsts, strict=True) if at >= first]
        sums.append(total(begun, is_net=is_net) if begun else math.nan)
    return sums


# ---- live counts of Deployments and StatefulSets, which kube-state-metrics exports by default


@dataclass(slots=True, kw_only=True)
class LiveReadings:
    """One cluster's counts by scale target, and failed answers; no grid when nothing was queried."""

    grid: Grid | None = None
    counts: dict[Target, "array[float]"] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)


def watched_target(variant: Variant) -> Target | None:
    """The scale target whose live count is compared with Git; None if Git has no count or an autoscaler sets it."""
    workload = variant.workload
    if workload is None or workload.replicas is None or variant.is_autoscaled:
        return None
    key = workload.key
    return (key.namespace, key.kind, key.name) if key.kind in WORKLOAD_LABELS else None


def read_live(answers: Iterable[Answer], names: LabelNames) -> LiveReadings:
    """The answers of one cluster to `live_queries`, on one grid."""
    asked = [answer for answer in answers if answer.query.quantity == Name.LIVE_REPLICAS and answer.query.step_s]
    grid = grid_over([answer.query for answer in asked])
    readings = LiveReadings(grid=grid)
    for answer in asked:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            readings.failed.append(matrix)
            continue
        readings.warnings.update(dict.fromkeys(matrix.warnings))
        for row in matrix.rows:
            objects = ((kind, row.labels[label]) for kind, label in WORKLOAD_LABELS.items() if row.labels.get(label))
            kind, name = next(objects, ("", ""))
            if name and grid is not None:
                target = row.labels.get(names.namespace, ""), kind, name
                counts = readings.counts.setdefault(target, _blank(grid))
                _set(counts, zip(map(grid.index_of, row.times_s), row.values, strict=True))
    return readings


def live_of(variants: Iterable[Variant], readings: LiveReadings) -> Mapping[ResourceKey, LiveReplicas | NoAnswer]:
    """The live count of each watched variant; empty when nothing was queried."""
    grid = readings.grid
    if grid is None:
        return {}
    found: dict[ResourceKey, LiveReplicas | NoAnswer] = {}
    for variant in variants:
        target = watched_target(variant)
        if target is None:
            continue
        counts = readings.counts.get(target)
        if counts is not None:
            whole = tuple(each if is_usable(each) and each.is_integer() else math.nan for each in counts)
            found[variant.key] = LiveReplicas(start_s=grid.start_s, step_s=grid.step_s, counts=whole)
        elif readings.failed:
            found[variant.key] = readings.failed[0]
        else:
            namespace, kind, name = target
            reason = f"no kube-state-metrics reports the replicas of {kind} {namespace}/{name} to compare with Git"
            found[variant.key] = NoAnswer(Absence.MISSING, reason)
    return found
