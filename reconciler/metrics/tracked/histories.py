"""Metric targets over time: what to ask of each cluster, and the answers as one history for each target."""

from collections.abc import Iterator, Sequence

import numpy as np

from reconciler.domain.declared.tracking import BackendHistory, TrackedHistory, TrackedTarget
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.answers import Answer
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.metrics.grids import Grid
from reconciler.metrics.queries.expressions import LabelNames, label_names
from reconciler.metrics.reading.readings import grouped
from reconciler.metrics.tracked.grid import grid_for
from reconciler.metrics.tracked.reading import read_cluster
from reconciler.metrics.tracked.reasons import TargetReading, unasked
from reconciler.metrics.tracked.series import read_activity, read_series, series_of
from reconciler.metrics.tracked.sources import exported_at, external_metrics, pod_metrics


def read_tracked(
    targets: Sequence[TrackedTarget], answers: Sequence[Answer], now_s: float, settings: Settings
) -> dict[ResourceKey, TrackedHistory]:
    """The history of every target up to `now_s`, by its key; what is not known is NaN in it, with the reason."""
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    clusters = {cluster.name: cluster for cluster in settings.clusters}
    histories: dict[ResourceKey, TrackedHistory] = {}
    for name, members in sorted(grouped((target.key.cluster, target) for target in targets).items()):
        if name in answers_of:
            histories |= _read_cluster(members, answers_of[name], now_s, clusters.get(name))
        else:
            blank = grid_for(members, now_s)
            histories |= {each.key: _blank(each, blank, unasked(name, clusters.get(name))) for each in members}
    return histories


def _blank(target: TrackedTarget, grid: Grid, reason: str) -> TrackedHistory:
    unknown = (np.nan,) * grid.count
    return TrackedHistory(
        start_s=grid.start_s,
        step_s=grid.step_s,
        backends=tuple(BackendHistory(replicas=unknown, unready=unknown) for _ in target.backends),
        reasons=(reason,),
    )


def _read_cluster(
    targets: Sequence[TrackedTarget], answers: Sequence[Answer], now_s: float, cluster: ClusterSettings | None
) -> dict[ResourceKey, TrackedHistory]:
    settings = cluster.prometheus if cluster else None
    reading = read_cluster(targets, answers, now_s, label_names(settings) if settings else LabelNames())
    series = read_series(targets, reading, settings)
    histories: dict[ResourceKey, TrackedHistory] = {}
    first = 0
    for target in targets:
        seen = TargetReading(target=target, first=first, cluster=reading, series=series, settings=settings)
        histories[target.key] = _history(seen)
        first += len(target.backends)
    return histories


def _history(seen: TargetReading) -> TrackedHistory:
    target, reading = seen.target, seen.cluster
    members = range(seen.first, seen.first + len(target.backends))
    return TrackedHistory(
        start_s=reading.grid.start_s,
        step_s=reading.grid.step_s,
        backends=tuple(_backend(target, index, seen) for index in members),
        activity=read_activity(members, reading) if target.grace_s > 0 else None,
        label_sets=dict(_label_sets(seen)),
        queries=dict(_queries(seen)),
        reasons=seen.reasons(),
        notes=seen.notes(),
    )


def _backend(target: TrackedTarget, index: int, seen: TargetReading) -> BackendHistory:
    series, places = seen.series, [(metric.name, (index, metric.name)) for metric in target.policy.metrics]
    return BackendHistory(
        replicas=series_of(seen.cluster.replicas[index]),
        unready=series_of(seen.cluster.unready[index]),
        pods={name: series.pods[place] for name, place in places if place in series.pods},
        rates={name: series.rates[place] for name, place in places if place in series.rates},
        external={name: series.external[place] for name, place in places if place in series.external},
    )


def _label_sets(seen: TargetReading) -> Iterator[tuple[str, int]]:
    """The most label sets that a pod has of a metric, where any pod has several."""
    for metric, position, source in pod_metrics(seen.target):
        found = seen.cluster.metrics.get(exported_at(source))
        if found is not None and found.label_sets:
            pods = list(seen.cluster.backend_pods.pods)
            rows = seen.series.followers[seen.first + position, metric].rows.tolist()
            several = max((found.label_sets.get(pods[row], 1) for row in rows), default=1)
            if several > 1:
                yield metric, several


def _queries(seen: TargetReading) -> Iterator[tuple[str, str]]:
    for metric, _, source in pod_metrics(seen.target):
        if exported_at(source) in seen.cluster.metrics:
            yield metric, seen.cluster.metrics[exported_at(source)].quantity
    for metric, _, external in external_metrics(seen.target):
        if external.query in seen.cluster.quantities:
            yield metric, seen.cluster.quantities[external.query]
