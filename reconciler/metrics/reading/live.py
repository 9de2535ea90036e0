"""How many replicas scale targets ask for in their clusters, by kube-state-metrics.

Deployments and StatefulSets alone: kube-state-metrics knows of no other kind unless somebody describes it to it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.answers import Absence, Answer, NoAnswer
from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.snapshot import Variant
from reconciler.metrics.grids import Grid, grid_over
from reconciler.metrics.quantities.kubernetes import WORKLOAD_LABELS
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.decoding import is_usable
from reconciler.metrics.reading.matrices import MatrixRow, decode_matrix
from reconciler.metrics.reading.readings import Target

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
            _add(row, names, readings)
    return readings


def live_of(variants: Iterable[Variant], readings: LiveReadings) -> Live:
    """What is known of each watched variant; nothing of any when nothing was asked."""
    targets = {variant.key: target for variant in variants if (target := watched_target(variant)) is not None}
    grid = readings.grid
    return {} if grid is None else {key: _told(target, grid, readings) for key, target in targets.items()}


def _told(target: Target, grid: Grid, readings: LiveReadings) -> LiveReplicas | NoAnswer:
    counts = readings.counts.get(target)
    if counts is not None:
        return LiveReplicas(start_s=grid.start_s, step_s=grid.step_s, counts=tuple(map(_believed, counts)))
    if readings.failed:
        return readings.failed[0]
    namespace, kind, name = target
    reason = f"no kube-state-metrics tells what {kind} {namespace}/{name} asks for: it is not held against Git"
    return NoAnswer(absence=Absence.MISSING, reason=reason)


def _add(row: MatrixRow, names: LabelNames, readings: LiveReadings) -> None:
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


def _believed(count: float) -> float:
    return count if is_usable(count) and count.is_integer() else math.nan
