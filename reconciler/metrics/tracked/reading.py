"""One cluster's answers about metric targets, decoded: its pods and whose they are, its replicas, its metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from reconciler.domain.declared.tracking import PodMetric, TrackedBackend, TrackedTarget
from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.metrics.grids import Grid
from reconciler.metrics.quantities.kubernetes import WORKLOAD_LABELS
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.decoding import decode
from reconciler.metrics.reading.readings import ObjectName, grouped
from reconciler.metrics.tracked.endpoints import ChosenSeries, Endpoint, Scraped, by_pod, choose_endpoint, endpoint_of
from reconciler.metrics.tracked.grid import Floats, Table, grid_for, tabulate
from reconciler.metrics.tracked.histograms import Bucket, percentiles_of
from reconciler.metrics.tracked.pods import PodLabels, find_pods, read_pod_labels
from reconciler.metrics.tracked.queries import ACTIVITY, REPLICAS_OF, TrackedQuantity
from reconciler.metrics.tracked.sources import Exported, exported_at, is_askable, is_counter, pod_metrics
from reconciler.metrics.tracked.totals import BackendPods

Elements: TypeAlias = Table[tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRows:
    """One metric at one endpoint, by pod: as exported (of a histogram the percentile), as a rate where it only grows.

    `label_sets` counts those of a pod where it has several.
    """

    values: Table[ObjectName]
    rates: Table[ObjectName] | None
    label_sets: Mapping[ObjectName, int]
    quantity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """All that was decoded, on one grid; `replicas` and pods `unready` have shape (backends, ticks), NaN: unknown."""

    grid: Grid
    backends: tuple[TrackedBackend, ...]
    labels: PodLabels
    ready: Table[ObjectName]
    backend_pods: BackendPods
    replicas: Floats
    unready: Floats
    told: Mapping[str, Table[ObjectName]]
    metrics: Mapping[Exported, MetricRows]
    activity: tuple[Table[ObjectName], ...]
    external: Mapping[str, Elements]
    """By the text of the query."""
    quantities: Mapping[str, str]
    """The quantity that each text was asked as."""

    @property
    def obstacle(self) -> NoAnswer | None:
        """Why nothing is known about pods."""
        return self.ready.failed


def read_cluster(
    targets: Sequence[TrackedTarget], answers: Sequence[Answer], now_s: float, names: LabelNames
) -> ClusterReading:
    """Everything that `answers` say about the targets of one cluster."""
    grid = grid_for(targets, now_s)
    asked = grouped((answer.query.quantity, answer) for answer in answers)
    reader = _Reader(asked=asked, grid=grid, names=names)
    backends = tuple(backend for target in targets for backend in target.backends)
    ready = reader.pods(TrackedQuantity.READY)
    metrics = {exported_at(source): reader.metric(source) for source in _metrics(targets)}
    activity = tuple(reader.pods(quantity) for quantity in ACTIVITY.values() if quantity in asked)
    labels = read_pod_labels(asked.get(TrackedQuantity.POD_LABELS, ()), names)
    tables = (ready, *activity, *(metric.values for metric in metrics.values()))
    backend_pods = _backend_pods(
        find_pods(backends, {pod for table in tables for pod in table.rows}, labels), ready, grid
    )
    told = {kind: reader.workloads(kind) for kind in REPLICAS_OF}
    counted = reader.elements(() if ready.failed else asked.get(TrackedQuantity.COUNTED, ()))
    replicas = _replicas(backends, backend_pods, told, counted)
    pods_each = np.array([max(backend.pods_per_replica, 1) for backend in backends], dtype=np.float64)
    own = (answer for answer in answers if answer.query.quantity.startswith(TrackedQuantity.EXTERNAL))
    texts = grouped((answer.query.text, answer) for answer in own)
    return ClusterReading(
        grid=grid,
        backends=backends,
        labels=labels,
        ready=ready,
        backend_pods=replace(backend_pods, expected=replicas * pods_each[:, None]),
        replicas=replicas,
        unready=backend_pods.unready(),
        told=told,
        metrics=metrics,
        activity=activity,
        external={text: reader.elements(found) for text, found in texts.items()},
        quantities={text: found[0].query.quantity for text, found in texts.items()},
    )


def _metrics(targets: Sequence[TrackedTarget]) -> list[PodMetric]:
    """One source of each name, port and path that is asked for."""
    sources = [source for target in targets for _, _, source in pod_metrics(target) if is_askable(source.name)]
    return list({exported_at(source): source for source in sources}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Decodes answers by what was asked."""

    asked: Mapping[str, Sequence[Answer]]
    grid: Grid
    names: LabelNames

    def pods(self, quantity: str) -> Table[ObjectName]:
        return tabulate(self.asked.get(quantity, ()), self.grid, self._pod)

    def workloads(self, kind: str) -> Table[ObjectName]:
        label = WORKLOAD_LABELS[kind]
        return tabulate(
            self.asked.get(REPLICAS_OF[kind], ()),
            self.grid,
            lambda labels: ObjectName(labels.get(self.names.namespace, ""), labels.get(label, "")),
        )

    def elements(self, answers: Sequence[Answer]) -> Elements:
        return tabulate(answers, self.grid, lambda labels: tuple(sorted(labels.items())))

    def metric(self, source: PodMetric) -> MetricRows:
        name = source.name
        chosen = choose_endpoint(self._scraped(TrackedQuantity.METRIC.of(name), self.grid), source)
        values = by_pod(chosen.table)
        percentiles, buckets = self._percentiles(source) if not chosen.endpoints else (values, chosen)
        is_histogram = not values.rows and bool(percentiles.rows or percentiles.failed)
        values, chosen = (percentiles, buckets) if is_histogram else (values, chosen)
        return MetricRows(
            values=_with_unusable(values),
            rates=self._rates(source) if is_counter(name) else None,
            label_sets=self._label_sets(self.asked.get(TrackedQuantity.LABEL_SETS.of(name), ()), chosen.endpoints),
            quantity=(TrackedQuantity.BUCKETS if is_histogram else TrackedQuantity.METRIC).of(name),
        )

    def _rates(self, source: PodMetric) -> Table[ObjectName]:
        scraped = self._scraped(TrackedQuantity.RATE.of(source.name), self.grid)
        return by_pod(choose_endpoint(scraped, source).table)

    def _percentiles(self, source: PodMetric) -> tuple[Table[ObjectName], ChosenSeries]:
        quantity = TrackedQuantity.BUCKETS.of(source.name)
        answers = self.asked.get(quantity, ())
        since_s = min((answer.query.start_s for answer in answers), default=self.grid.start_s)
        ticks = self.grid.count + max(round((self.grid.start_s - since_s) / self.grid.step_s), 0)
        longer = Grid(start_s=self.grid.end_s - (ticks - 1) * self.grid.step_s, step_s=self.grid.step_s, count=ticks)
        chosen = choose_endpoint(self._scraped(quantity, longer), source)
        table = percentiles_of(chosen.table, longer)
        return replace(table, rows={pod: values[-self.grid.count :] for pod, values in table.rows.items()}), chosen

    def _label_sets(self, answers: Sequence[Answer], endpoints: Mapping[ObjectName, Endpoint]) -> dict[ObjectName, int]:
        decoded = [decode(answer) for answer in answers]
        samples = [sample for found in decoded if not isinstance(found, NoAnswer) for sample in found]
        return {
            pod: int(sample.value)
            for sample in samples
            if 1 < sample.value < 1e9
            and endpoints.get(pod := self._pod(sample.labels), Endpoint()) == endpoint_of(sample.labels)
        }

    def _scraped(self, quantity: str, grid: Grid) -> Table[Scraped]:
        def key_of(labels: Mapping[str, str]) -> Scraped:
            bucket = Bucket(pod=self._pod(labels), bound=labels.get("le", ""))
            return Scraped(bucket=bucket, endpoint=endpoint_of(labels))

        return tabulate(self.asked.get(quantity, ()), grid, key_of)

    def _pod(self, labels: Mapping[str, str]) -> ObjectName:
        return ObjectName(labels.get(self.names.namespace, ""), labels.get(self.names.pod, ""))


def _with_unusable(table: Table[ObjectName]) -> Table[ObjectName]:
    """The table with a note for each pod that reported negative or infinite values."""
    unusable = {pod: int(np.count_nonzero((values < 0) | np.isinf(values))) for pod, values in table.rows.items()}
    words = {pod: f"{count} readings are negative or infinite, and missing" for pod, count in unusable.items() if count}
    return replace(table, oddities={**words, **table.oddities}) if words else table


def _backend_pods(found: Sequence[Sequence[ObjectName]], ready: Table[ObjectName], grid: Grid) -> BackendPods:
    pods = {pod: index for index, pod in enumerate(sorted({pod for each in found for pod in each}))}
    members = tuple(np.array([pods[pod] for pod in each], dtype=np.int64) for each in found)
    unknown = np.full((len(found), grid.count), np.nan)
    backend_pods = BackendPods(
        pods=pods, members=members, ready=np.full((len(pods), grid.count), np.nan), expected=unknown
    )
    return replace(backend_pods, ready=backend_pods.rows(ready.rows))


def _replicas(
    backends: Sequence[TrackedBackend],
    backend_pods: BackendPods,
    told: Mapping[str, Table[ObjectName]],
    counted: Elements,
) -> Floats:
    """The replicas of the time: those set where a series tells them, else the pods there were.

    That there were none is known only while pods are counted at all, and only of a workload whose pods have been
    found before, or that has none in Git: pods that are not found are not gone.
    """
    present = backend_pods.present()
    is_counting = np.zeros(present.shape[1], dtype=np.bool_)
    for row in counted.rows.values():
        is_counting |= ~np.isnan(row)
    replicas = np.full(present.shape, np.nan)
    for index, backend in enumerate(backends):
        target = backend.scale_target
        if target.kind in told:
            known = told[target.kind].rows.get(ObjectName(target.namespace, target.name))
            replicas[index] = np.nan if known is None else known
        elif present[index].any() or backend.replicas == 0:
            count = np.ceil(present[index] / max(backend.pods_per_replica, 1))
            replicas[index] = np.where(is_counting | (count > 0), count, np.nan)
    return replicas
