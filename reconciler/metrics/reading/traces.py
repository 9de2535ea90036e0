"""Histories of replicas, from the answers to range queries: every series on one grid, NaN where nothing is known."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.domain.measured.replicas import Trace
from reconciler.metrics.grids import Grid, grid_over
from reconciler.metrics.quantities.history import HISTORY
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.attribution import Attribution
from reconciler.metrics.reading.decoding import ABSURD
from reconciler.metrics.reading.matrices import MatrixRow, decode_matrix
from reconciler.metrics.reading.readings import (
    Instance,
    ObjectName,
    ReplicaSeries,
    capacity_of,
    grouped,
    rank_of,
    series_of,
)

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
