"""The series of each backend, from what its pods and its policy's queries answered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from reconciler.domain.declared.tracking import EVERY_POD, PodMetric, PodTotals, Series, TrackedTarget
from reconciler.domain.settings import PrometheusSettings
from reconciler.metrics.reading.readings import ObjectName, grouped
from reconciler.metrics.tracked.grid import Floats, Integers, Table, lone_values
from reconciler.metrics.tracked.pods import is_selected
from reconciler.metrics.tracked.reading import ClusterReading, Elements
from reconciler.metrics.tracked.sources import exported_at, external_metrics, foreign_origin, pod_metrics

BackendMetric: TypeAlias = tuple[int, str]
"""A backend of the cluster, by index, and a metric of its policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A backend that follows a metric of pods; `rows` are the pods of `BackendPods` that the metric is about."""

    place: BackendMetric
    source: PodMetric
    rows: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeries:
    """What is known of every backend's metrics, as `BackendHistory` has them."""

    followers: Mapping[BackendMetric, Follower]
    pods: Mapping[BackendMetric, PodTotals]
    rates: Mapping[BackendMetric, PodTotals]
    external: Mapping[BackendMetric, Series]


def read_series(
    targets: Sequence[TrackedTarget], reading: ClusterReading, settings: PrometheusSettings | None
) -> ClusterSeries:
    """All metrics of all backends of a cluster, metric by metric."""
    followers = list(_followers(targets, reading))
    pods: dict[BackendMetric, PodTotals] = {}
    rates: dict[BackendMetric, PodTotals] = {}
    for exported, following in grouped((exported_at(each.source), each) for each in followers).items():
        metric = reading.metrics.get(exported)
        if metric is not None:
            pods |= dict(_totals(following, metric.values, reading))
        if metric is not None and metric.rates is not None:
            rates |= dict(_totals(following, metric.rates, reading))
    return ClusterSeries(
        followers={each.place: each for each in followers},
        pods=pods,
        rates=rates,
        external=dict(_external(targets, reading, settings)),
    )


def series_of(values: Floats) -> Series:
    """A row as a tuple of floats."""
    return tuple(values.tolist())


def only_elements(elements: Elements, ticks: int) -> tuple[Floats, Integers]:
    """The value of each tick at which a query answered with one element, and how many it had, shapes (ticks,)."""
    return lone_values(np.array(list(elements.rows.values())).reshape(-1, ticks))


def read_activity(members: Sequence[int], reading: ClusterReading) -> Series | None:
    """What the ready pods of these backends finish in a second and have under way, None when no engine tells."""
    rows = np.unique(
        np.concatenate([np.zeros(0, dtype=np.int64), *(reading.backend_pods.members[each] for each in members)])
    )
    ready = reading.backend_pods.ready[rows] == 1
    told = np.array([reading.backend_pods.rows(table.rows)[rows] for table in reading.activity])
    told = np.where(np.isfinite(told) & (told >= 0), told, np.nan)
    if not reading.activity or np.isnan(told).all():
        return None
    with np.errstate(over="ignore"):  # infinitely many requests are requests
        working = told.sum(axis=0)  # one that is unknown makes all unknown: one may be under way that nobody saw
        active = np.where(ready, working, 0.0).sum(axis=0)
    asleep = (reading.replicas[list(members)] == 0).all(axis=0)
    return series_of(np.where(ready.any(axis=0), active, np.where(asleep, 0.0, np.nan)))


def _followers(targets: Sequence[TrackedTarget], reading: ClusterReading) -> Iterator[Follower]:
    pods = list(reading.backend_pods.pods)
    first = 0
    for target in targets:
        for metric, position, source in pod_metrics(target):
            rows = reading.backend_pods.members[first + position]
            if source.selector != EVERY_POD:
                rows = _selected(source, rows, pods, reading)
            yield Follower(place=(first + position, metric), source=source, rows=rows)
        first += len(target.backends)


def _selected(source: PodMetric, rows: Integers, pods: Sequence[ObjectName], reading: ClusterReading) -> Integers:
    chosen = [row for row in rows.tolist() if is_selected(source.selector.requirements, pods[row], reading.labels)]
    return np.array(chosen, dtype=np.int64)


def _totals(
    followers: Sequence[Follower], table: Table[ObjectName], reading: ClusterReading
) -> Iterator[tuple[BackendMetric, PodTotals]]:
    backend_pods = reading.backend_pods.following(
        [each.place[0] for each in followers], [each.rows for each in followers]
    )
    totals = backend_pods.totals(table.rows)
    columns = zip(followers, totals.total, totals.reporting, totals.missing, strict=True)
    for follower, total, reporting, missing in columns:
        yield (
            follower.place,
            PodTotals(total=series_of(total), reporting=series_of(reporting), missing=series_of(missing)),
        )


def _external(
    targets: Sequence[TrackedTarget], reading: ClusterReading, settings: PrometheusSettings | None
) -> Iterator[tuple[BackendMetric, Series]]:
    answered = {
        text: series_of(only_elements(elements, reading.grid.count)[0]) for text, elements in reading.external.items()
    }
    unknown = (np.nan,) * reading.grid.count
    first = 0
    for target in targets:
        for metric, position, source in external_metrics(target):
            is_ours = settings is not None and not foreign_origin(source, settings)
            yield (first + position, metric), answered.get(source.query, unknown) if is_ours else unknown
        first += len(target.backends)
