"""The answers about metric targets as one history for each target; what is missing has a reason."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from reconciler.domain.answers import Answer, NoAnswer, no_prometheus
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_PORT,
    DEFAULT_URI,
    EVERY_POD,
    BackendHistory,
    LabelSelector,
    PodMetric,
    PodTotals,
    PrometheusMetric,
    Series,
    TrackedBackend,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.answers import Floats, Grid, Integers, Table, decode, grid_for, lone_values, printable, tabulate
from reconciler.metrics.quantities import WORKLOAD_LABELS
from reconciler.metrics.queries import LabelNames, label_names
from reconciler.metrics.readings import ObjectName, grouped
from reconciler.metrics.tracked_pods import (
    BackendPods,
    Bucket,
    ChosenSeries,
    Endpoint,
    PodLabels,
    Scraped,
    by_pod,
    choose_endpoint,
    endpoint_of,
    find_pods,
    is_selected,
    percentiles_of,
    read_pod_labels,
    unexported,
)
from reconciler.metrics.tracked_queries import (
    ACTIVITY,
    REPLICAS_OF,
    Exported,
    TrackedQuantity,
    exported_at,
    external_metrics,
    foreign_origin,
    is_askable,
    is_counter,
    pod_metrics,
)

# --- was reconciler/metrics/tracked/reading.py:
# One cluster's answers about metric targets, decoded: its pods and whose they are, its replicas, its metrics.

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


# --- was reconciler/metrics/tracked/series.py:
# The series of each backend, from what its pods and its policy's queries answered.

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


# --- was reconciler/metrics/tracked/reasons.py:
# In words for a person: what of a target's history is missing, why, and what to do about it.

SHOWN_PODS = 3
ALLOWED = "kube-state-metrics must be started with --metric-labels-allowlist=pods=[{labels}]"


def unasked(name: str, cluster: ClusterSettings | None) -> str:
    """Why there is no answer at all from a cluster."""
    if cluster is None or cluster.prometheus is None:
        return no_prometheus(name)
    return f"the Prometheus of cluster {name} was not asked about metric targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReading:
    """A target with what was read of its `cluster`, where its first backend has the index `first`."""

    target: TrackedTarget
    first: int
    cluster: ClusterReading
    series: ClusterSeries
    settings: PrometheusSettings | None

    def reasons(self) -> tuple[str, ...]:
        """What is missing, each sentence once."""
        return tuple(dict.fromkeys(self._reasons()))

    def notes(self) -> tuple[str, ...]:
        """What a reader should know although nothing is missing."""
        return tuple(dict.fromkeys(self._notes()))

    def _reasons(self) -> Iterator[str]:
        for position, backend in enumerate(self.target.backends):
            yield from self._about_replicas(backend, self.first + position)
        for metric, position, source in pod_metrics(self.target):
            yield from self._about_pods(metric, self.first + position, source)
        for metric, position, external in external_metrics(self.target):
            yield from self._about_query(metric, self.first + position, external)

    def _notes(self) -> Iterator[str]:
        for metric, position, source in pod_metrics(self.target):
            absent = unexported(source.selector.requirements, self.cluster.labels)
            if absent and self.series.followers[self.first + position, metric].rows.size:
                yield f"no pod is said to have the label {', '.join(absent)}, and so every pod counts as without it"

    def _about_replicas(self, backend: TrackedBackend, index: int) -> Iterator[str]:
        """Why the replicas of now are not known."""
        if not np.isnan(self.cluster.replicas[index, -1]):
            return
        target, named = backend.scale_target, _named(backend)
        table = self.cluster.told.get(target.kind, self.cluster.ready)
        if table.failed:
            yield table.failed.reason
        elif target.kind in self.cluster.told or self.cluster.backend_pods.members[index].size:
            yield f"no series tells how many replicas {named} has now: is kube-state-metrics scraped?"
        else:
            yield self._unfound(backend)

    def _unfound(self, backend: TrackedBackend) -> str:
        """Why a workload that should have pods has none that we know of."""
        asked = LabelSelector(match_labels=backend.pod_labels).requirements
        absent = unexported(asked, self.cluster.labels)
        if self.cluster.labels.failed:
            return self.cluster.labels.failed.reason
        if absent:
            return f"no pod of {_named(backend)} is known: {ALLOWED.format(labels=','.join(absent))}"
        labels = ",".join(f"{key}={value}" for key, value in sorted(backend.pod_labels.items()))
        return f"no pod of {_named(backend)} is known: none has the labels {printable(labels)}, or its name"

    def _about_pods(self, metric: str, index: int, source: PodMetric) -> Iterator[str]:
        """Why a metric of pods is not read, or not of all of them."""
        name, backend = printable(source.name), self.cluster.backends[index]
        rows, totals = self.series.followers[index, metric].rows, self.series.pods.get((index, metric))
        found = self.cluster.metrics.get(exported_at(source))
        if found is None or totals is None:
            yield f"metric {name}: no series can have that name"
        elif found.values.failed or not found.values.asked:
            yield found.values.failed.reason if found.values.failed else f"Prometheus was not asked for {name}"
        elif not rows.size:
            yield self._nobody_to_ask(backend, index, source)
        else:
            odd = tuple(self._oddities(name, rows, found.values.oddities))
            if not any(totals.reporting) and not odd:
                where = f"is {printable(source.uri or DEFAULT_URI)} at port {source.port or DEFAULT_PORT} scraped"
                yield f"no pod of {_named(backend)} reports {name}: is that its name, and {where}?"
            elif totals.missing[-1] > 0:
                yield f"{totals.missing[-1]:g} ready pods of {_named(backend)} do not report {name} now"
            yield from odd

    def _nobody_to_ask(self, backend: TrackedBackend, index: int, source: PodMetric) -> str:
        if self.cluster.backend_pods.members[index].size:
            absent = unexported(source.selector.requirements, self.cluster.labels)
            why = ALLOWED.format(labels=",".join(absent)) if absent else "is the selector right?"
            return f"no pod of {_named(backend)} is selected for {printable(source.name)}: {why}"
        if self.cluster.replicas[index, -1] == 0:
            return f"{_named(backend)} has no pods: at zero replicas nothing reports {printable(source.name)}"
        return self._unfound(backend)

    def _oddities(self, name: str, rows: Integers, oddities: Mapping[ObjectName, str]) -> Iterator[str]:
        if not oddities:
            return
        pods = list(self.cluster.backend_pods.pods)
        odd = [pods[row] for row in rows.tolist() if pods[row] in oddities]
        for pod in odd[:SHOWN_PODS]:
            yield f"{name} of pod {printable(pod.name)}: {oddities[pod]}"
        if len(odd) > SHOWN_PODS:
            yield f"{name}: likewise {len(odd) - SHOWN_PODS} more pods"

    def _about_query(self, metric: str, index: int, source: PrometheusMetric) -> Iterator[str]:
        """Why a policy's own query has no number now, or had none for a while."""
        name = printable(metric)
        origin = foreign_origin(source, self.settings) if self.settings else ""
        answered = self.cluster.external.get(source.query)
        if origin:
            yield f"metric {name} is meant for {printable(origin)}, another server than this cluster's: not asked"
        elif answered is None:
            yield f"Prometheus was not asked the query of metric {name}"
        elif answered.failed:
            yield f"metric {name}: {answered.failed.reason}"
        else:
            yield from self._elements(name, self.series.external[index, metric], answered)

    def _elements(self, name: str, values: Series, answered: Elements) -> Iterator[str]:
        _, count = only_elements(answered, len(values))
        if count[-1] != 1:
            yield f"the query of metric {name} returned {count[-1]} elements now, expected one"
        elif not 0 <= values[-1] < np.inf:
            yield f"the query of metric {name} returned {values[-1]} now, expected a finite number of 0 or more"
        before = int(np.count_nonzero(count[:-1] != 1))
        if before:
            yield f"the query of metric {name} did not return one element at {before} earlier ticks"


def _named(backend: TrackedBackend) -> str:
    return f"{printable(backend.scale_target.kind)} {printable(backend.scale_target.label)}"


# --- was reconciler/metrics/tracked/histories.py:
# Metric targets over time: what to ask of each cluster, and the answers as one history for each target.


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
