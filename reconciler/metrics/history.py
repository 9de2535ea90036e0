"""What answers over time say: traces of replicas, past arrivals of models, live counts of scale targets."""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.answers import Absence, Answer, NoAnswer
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ArrivalSource, LiveReplicas, Load, PastArrivals, Trace, UsualLoad
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
    grouped,
    picked_model,
    rank_of,
    series_of,
    written_model,
)

# --- was reconciler/metrics/reading/traces.py:
# Histories of replicas, from the answers to range queries: every series on one grid, NaN where nothing is known.

CONTESTED = math.inf
"""Marks a moment with two different values while reading; in the trace it is NaN."""

Traces = Mapping[ResourceKey, tuple[Trace, ...]]


@dataclass(slots=True, kw_only=True)
class Histories:
    """One cluster's values by quantity and replica on one grid, with the answers that failed."""

    grid: Grid
    asked: set[Name] = field(default_factory=set)
    values: dict[Name, dict[Instance, "array[float]"]] = field(default_factory=dict)
    pods: dict[ObjectName, set[ReplicaSeries]] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)

    @property
    def tells_fullness(self) -> bool:
        """Whether it was asked how full replicas were."""
        return Name.KV_CACHE_USAGE in self.asked


def read_histories(answers: Iterable[Answer], names: LabelNames, grid: Grid) -> Histories:
    """What one cluster's answers with the step of `grid` told, one answer in memory at a time."""
    histories = Histories(grid=grid)
    times_s = grid.times_s
    for answer in answers:
        if answer.query.step_s == grid.step_s and answer.query.quantity in HISTORY:
            name = Name(answer.query.quantity)
            histories.asked.add(name)
            histories.values.setdefault(name, {})
            matrix = decode_matrix(answer)
            if isinstance(matrix, NoAnswer):
                histories.failed.append(matrix)
                continue
            histories.warnings.update(dict.fromkeys(matrix.warnings))
            for row in matrix.rows:
                _add(row, name, names, histories, times_s)
    return histories


def histories_by_grid(answers: Iterable[Answer], names: LabelNames) -> tuple[Histories, ...]:
    """One cluster's histories, one for each step that was asked for, the finest first."""
    asked = [answer for answer in answers if answer.query.quantity in HISTORY]
    steps = grouped((answer.query.step_s, answer) for answer in asked)
    return tuple(
        read_histories(members, names, grid)
        for _, members in sorted((step_s, steps[step_s]) for step_s in steps if step_s)
        if (grid := grid_over([answer.query for answer in members])) is not None
    )


def trace(histories: Histories, attribution: Attribution) -> Traces:
    """The histories of one cluster's variants; empties `histories` to save memory."""
    unknown = (math.nan,) * histories.grid.count
    told: dict[ObjectName, dict[str, dict[str, tuple[float, ...]]]] = {}
    for name, of_instances in histories.values.items():
        while of_instances:
            instance, values = of_instances.popitem()
            ranks = told.setdefault(ObjectName(instance.namespace, instance.pod), {})
            ranks.setdefault(instance.rank, {})[str(name)] = tuple(map(_believed, values))
    asked = dict.fromkeys(map(str, histories.values), unknown)
    found: dict[ResourceKey, list[Trace]] = {}
    for pod, ranks in sorted(told.items()):
        variant = _variant_of(histories.pods[pod], attribution)
        if variant is not None:
            found.setdefault(variant, []).extend(_traces_of(pod, variant, ranks, asked, histories.grid))
    return {variant: tuple(traces) for variant, traces in found.items()}


def _add(row: MatrixRow, name: Name, names: LabelNames, histories: Histories, times_s: "array[float]") -> None:
    series = series_of(row.labels, names)
    histories.pods.setdefault(ObjectName(series.namespace, series.pod), set()).add(series)
    of_instances = histories.values[name]
    instance = Instance(series.namespace, series.pod, rank_of(row.labels))
    places = _places(row.times_s, times_s, histories.grid)
    values = _believable(row, name)
    held = of_instances.get(instance)
    if held is None:
        held = of_instances[instance] = array("d", (math.nan,)) * len(times_s)
        if isinstance(places, range):
            held[places.start : places.stop] = values
            return
    for index, value in zip(places, values, strict=True):
        if index is not None and not math.isnan(value):
            held[index] = value if math.isnan(held[index]) or held[index] == value else CONTESTED


def _believable(row: MatrixRow, name: Name) -> "array[float]":
    values = row.values
    if name is Name.KV_TOKENS:
        values = array("d", (capacity_of(row.labels, value).tokens or math.nan for value in values))
    return array("d", [value if 0 <= value < ABSURD else math.nan for value in values])


def _places(found_s: "array[float]", times_s: "array[float]", grid: Grid) -> Sequence[int | None]:
    """Where points stand on the grid, None beside it; a range when they follow one another without a gap."""
    first = grid.index_of(found_s[0]) if found_s else None
    if first is not None and found_s == times_s[first : first + len(found_s)]:
        return range(first, first + len(found_s))
    return [grid.index_of(at_s) for at_s in found_s]


def _believed(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _variant_of(pod: Iterable[ReplicaSeries], attribution: Attribution) -> ResourceKey | None:
    # some series of a pod tell more of it than others: a label of the variant, or the model
    return next((variant for series in sorted(pod) if (variant := attribution.variant_of(series))), None)


def _traces_of(
    pod: ObjectName,
    variant: ResourceKey,
    ranks: Mapping[str, Mapping[str, tuple[float, ...]]],
    asked: Mapping[str, tuple[float, ...]],
    grid: Grid,
) -> Iterator[Trace]:
    """One trace for each data-parallel rank; series without a rank are in all of them."""
    shared = ranks.get("", {})
    instances = [rank for rank in sorted(ranks) if rank] or [""]
    for rank in instances:
        series = {**asked, **shared, **ranks[rank]}
        instance = rank if len(instances) > 1 else ""
        yield Trace(
            pod=pod.name,
            instance=instance,
            variant=variant,
            start_s=grid.start_s,
            step_s=grid.step_s,
            series=series,
        )


# --- was reconciler/metrics/reading/past_arrivals.py:
# Each model's arrivals before now, from the source that its load is taken from, and how long requests were.

Rates = dict[Served, "array[float]"]
ServedOf = Callable[[Mapping[str, str], LabelNames], Served]
FirstNames = Mapping[ResourceKey, Served]
"""The name that a variant's model is served under, where its series tell none."""


@dataclass(slots=True, kw_only=True)
class PastReadings:
    """One cluster's rates by quantity and served model on one grid, NaN where nothing is known."""

    grid: Grid | None = None
    rates: dict[Name, Rates] = field(default_factory=dict)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def is_asked(self, name: Name) -> bool:
        """Whether there is any answer, be it that it failed."""
        return name in self.rates or name in self.failed


def read_past(
    answers: Iterable[Answer],
    names: LabelNames,
    attribution: Attribution,
    first_names: FirstNames,
    served_of: Mapping[str, ServedOf],
) -> PastReadings:
    """The answers of one cluster to the quantities of `served_of`, put together on one grid; what failed is left out.

    What a pod tells without a model is of the first served name of its variant.
    """
    asked = [answer for answer in answers if answer.query.quantity in served_of and answer.query.step_s is not None]
    readings = PastReadings(grid=grid_over([answer.query for answer in asked]))

    def owner_of(labels: Mapping[str, str], name: Name) -> Served | None:
        served = served_of[name](labels, names)
        pod = labels.get(UNNAMED_POD, "")
        if served.model or not pod:
            return served
        variant = attribution.variant_of(ReplicaSeries(served.namespace, pod, "", ""))
        return None if variant is None else first_names[variant]

    for answer in asked:
        _read_one(answer, owner_of, readings)
    return readings


def past_of(
    models: Iterable[Model], loads: Mapping[ModelKey, Load | NoAnswer], readings: PastReadings
) -> dict[ModelKey, PastArrivals | NoAnswer]:
    """The arrivals of each model whose load is known, or why they are not; no key where nobody asked for them."""
    found: dict[ModelKey, PastArrivals | NoAnswer] = {}
    for model in models:
        load = loads[model.key]
        if isinstance(load, Load) and readings.grid is not None:
            found[model.key] = _past_of(model, load, readings, readings.grid)
    return found


def lengths_in(model: Model, readings: PastReadings) -> Lengths:
    """How long the requests of a model were that were finished in all this time."""
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings, is_usable) or ()
    return Lengths(
        output_tokens=_mean_length(Name.PAST_OUTPUT_TOKENS, finished, model.served, readings),
        input_tokens=_mean_length(Name.PAST_INPUT_TOKENS, finished, model.served, readings),
    )


def _mean_length(
    name: Name, finished: Sequence[float], served: Sequence[Served], readings: PastReadings
) -> float | None:
    tokens = _summed(name, served, readings, is_usable) or ()
    known = [pair for pair in zip(tokens, finished, strict=False) if all(map(is_usable, pair))]
    count = math.fsum(each for _, each in known)
    return math.fsum(told for told, _ in known) / count if count > 0 else None


def usual_of(models: Iterable[Model], readings: PastReadings) -> dict[ModelKey, UsualLoad]:
    """What a day of each model was like; one of which nothing was finished in all of it has no key."""
    found: dict[ModelKey, UsualLoad] = {}
    grid = readings.grid
    for model in models if grid is not None else ():
        finished = _summed(Name.USUAL_COMPLETIONS, model.served, readings, is_usable)
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


def _past_of(model: Model, load: Load, readings: PastReadings, grid: Grid) -> PastArrivals | NoAnswer:
    names = _counting(load)
    needed = (*names, Name.PAST_COMPLETIONS, Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
    failed = next((readings.failed[name] for name in needed if name in readings.failed), None)
    rates = _rates_of(names, model.served, readings)
    if rates is None:
        named = " or ".join(f'"{printable(one.model)}"' for one in model.served)
        missing = NoAnswer(absence=Absence.MISSING, reason=f"no series tells what arrived for model {named} before")
        return failed or missing
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings, is_usable) or [math.nan] * grid.count
    outputs, inputs = (
        _lengths(name, finished, model.served, readings) for name in (Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
    )
    return PastArrivals(
        start_s=grid.start_s,
        step_s=grid.step_s,
        window_s=load.window_s,
        rates_per_s=tuple(rate * model.share for rate in rates),
        output_tokens=outputs,
        input_tokens=() if load.input_tokens is None else inputs,
        reason="" if failed is None else failed.reason,
    )


def _counting(load: Load) -> tuple[Name, ...]:
    """What the arrivals of before are counted by: whoever counts those of now."""
    if load.is_by_replicas:
        return Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH
    is_configured = load.arrivals_from is ArrivalSource.CONFIGURED
    return (Name.PAST_CONFIGURED if is_configured else Name.PAST_ENDPOINT_PICKER,)


def _rates_of(names: Sequence[Name], served: Sequence[Served], readings: PastReadings) -> list[float] | None:
    """The rates by the source of the load, None without any series of it."""
    rates = _summed(names[0], served, readings, is_usable)
    if len(names) == 1 or rates is None:
        return rates
    growth = _summed(names[1], served, readings, _is_usable_growth)
    if growth is None:
        return None
    pairs = zip(rates, growth, strict=True)
    return [math.nan if math.isnan(more) else rate + max(0.0, more) for rate, more in pairs]


def _lengths(
    name: Name, finished: Sequence[float], served: Sequence[Served], readings: PastReadings
) -> tuple[float, ...]:
    """Tokens of a request; NaN where none was finished or nothing is known, nothing where nobody asked."""
    if not readings.is_asked(name):
        return ()
    tokens = _summed(name, served, readings, is_usable)
    if tokens is None:
        return tuple(math.nan for _ in finished)
    return tuple(told / count if count > 0 else math.nan for told, count in zip(tokens, finished, strict=True))


def _summed(
    name: Name, served: Sequence[Served], readings: PastReadings, is_known: Callable[[float], bool]
) -> list[float] | None:
    """The sum over served names that have series, NaN where one of them has a gap.

    A name that nobody had asked for yet, while others were, is no gap: its counter begins with its first request.
    """
    told = [rates for one in served if (rates := readings.rates.get(name, {}).get(one)) is not None]
    if len(told) < 2:
        return [rate if is_known(rate) else math.nan for rate in told[0]] if told else None
    firsts = [next((at for at, rate in enumerate(rates) if not math.isnan(rate)), len(rates)) for rates in told]
    sums = []
    for at, parts in enumerate(zip(*told, strict=True)):
        begun = [part for part, first in zip(parts, firsts, strict=True) if at >= first]
        sums.append(math.fsum(begun) if begun and all(map(is_known, begun)) else math.nan)
    return sums


def _is_usable_growth(rate: float) -> bool:
    return is_usable(abs(rate))


def _read_one(
    answer: Answer, owner_of: Callable[[Mapping[str, str], Name], Served | None], readings: PastReadings
) -> None:
    matrix = decode_matrix(answer)
    name, grid = Name(answer.query.quantity), readings.grid
    if isinstance(matrix, NoAnswer):
        readings.failed.setdefault(name, matrix)
        return
    readings.warnings.update(dict.fromkeys(matrix.warnings))
    rates = readings.rates.setdefault(name, {})
    for row in matrix.rows:
        served = owner_of(row.labels, name)
        if grid is not None and served is not None:
            _add_up(rates.setdefault(served, array("d", [math.nan]) * grid.count), row.times_s, row.values, grid)


def _add_up(held: "array[float]", times_s: "array[float]", values: "array[float]", grid: Grid) -> None:
    for time_s, value in zip(times_s, values, strict=True):
        index = grid.index_of(time_s)
        if index is not None:
            known = value if math.isfinite(value) else math.inf  # infinite it stays, whatever is added
            held[index] = known if math.isnan(held[index]) else held[index] + known


def _reported_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    return Served(labels.get(names.namespace, ""), labels.get(names.model, ""))


PAST_SERVED: Mapping[str, ServedOf] = {
    Name.PAST_COMPLETIONS: _reported_model,
    Name.PAST_QUEUE_GROWTH: _reported_model,
    Name.PAST_OUTPUT_TOKENS: _reported_model,
    Name.PAST_INPUT_TOKENS: _reported_model,
    Name.PAST_ENDPOINT_PICKER: picked_model,
    Name.PAST_CONFIGURED: written_model,
}
"""Whose a series of the past is, by quantity."""
USUAL_SERVED: Mapping[str, ServedOf] = {
    Name.USUAL_COMPLETIONS: _reported_model,
    Name.USUAL_OUTPUT_TOKENS: _reported_model,
    Name.USUAL_INPUT_TOKENS: _reported_model,
}
"""The same of a whole day."""


# --- was reconciler/metrics/reading/live.py:
# How many replicas scale targets ask for in their clusters, by kube-state-metrics. Deployments and StatefulSets
# alone: kube-state-metrics knows of no other kind unless somebody describes it to it.

Live = Mapping[ResourceKey, LiveReplicas | NoAnswer]


@dataclass(slots=True, kw_only=True)
class LiveReadings:
    """One cluster's counts by scale target, and why some answers told nothing; no grid when nothing was asked."""

    grid: Grid | None = None
    counts: dict[Target, list[float]] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)


def watched_target(variant: Variant) -> Target | None:
    """The scale target whose live count is compared with Git's; None where Git has no count or an autoscaler sets it.

    Between the bounds of an autoscaler replicas move as they like.
    """
    workload = variant.workload
    if workload is None or workload.replicas is None or variant.is_autoscaled:
        return None
    key = workload.key
    return (key.namespace, key.kind, key.name) if key.kind in WORKLOAD_LABELS else None


def read_live(answers: Iterable[Answer], names: LabelNames) -> LiveReadings:
    """The answers of one cluster to `live_queries`, put together on one grid."""
    asked = [answer for answer in answers if answer.query.quantity == Name.LIVE_REPLICAS and answer.query.step_s]
    readings = LiveReadings(grid=grid_over([answer.query for answer in asked]))
    for answer in asked:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            readings.failed.append(matrix)
            continue
        readings.warnings.update(dict.fromkeys(matrix.warnings))
        for row in matrix.rows:
            _add_of_live(row, names, readings)
    return readings


def live_of(variants: Iterable[Variant], readings: LiveReadings) -> Live:
    """What is known of each watched variant; nothing of any when nothing was asked."""
    targets = {variant.key: target for variant in variants if (target := watched_target(variant)) is not None}
    grid = readings.grid
    return {} if grid is None else {key: _told(target, grid, readings) for key, target in targets.items()}


def _told(target: Target, grid: Grid, readings: LiveReadings) -> LiveReplicas | NoAnswer:
    counts = readings.counts.get(target)
    if counts is not None:
        return LiveReplicas(start_s=grid.start_s, step_s=grid.step_s, counts=tuple(map(_believed_of_live, counts)))
    if readings.failed:
        return readings.failed[0]
    namespace, kind, name = target
    reason = f"no kube-state-metrics tells what {kind} {namespace}/{name} asks for: it is not held against Git"
    return NoAnswer(absence=Absence.MISSING, reason=reason)


def _add_of_live(row: MatrixRow, names: LabelNames, readings: LiveReadings) -> None:
    target, grid = _target_of(row.labels, names), readings.grid
    if target is None or grid is None:
        return
    counts = readings.counts.setdefault(target, [math.nan] * grid.count)
    for time_s, value in zip(row.times_s, row.values, strict=True):
        index = grid.index_of(time_s)
        if index is not None:
            # told twice and differently, neither is believed
            counts[index] = value if math.isnan(counts[index]) or counts[index] == value else math.inf


def _target_of(labels: Mapping[str, str], names: LabelNames) -> Target | None:
    found = ((kind, labels[label]) for kind, label in WORKLOAD_LABELS.items() if labels.get(label))
    kind, name = next(found, ("", ""))
    return (labels.get(names.namespace, ""), kind, name) if name else None


def _believed_of_live(count: float) -> float:
    return count if is_usable(count) and count.is_integer() else math.nan
