"""One history for each metric target, read from the answers about them, with reasons for what is missing.

`_read_cluster` decodes the answers of a cluster once for all targets, `_series` adds pods up to backends, `_Target`
turns that into histories and sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np

from reconciler.domain.answers import Answer, NoAnswer, no_prometheus
from reconciler.domain.history import Floats, Grid, Integers
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
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PrometheusSettings, Settings
from reconciler.metrics.answers import Table, decode, grid_for, lone_values, printable, tabulate
from reconciler.metrics.quantities import WORKLOAD_LABELS
from reconciler.metrics.queries import LabelNames, label_names
from reconciler.metrics.readings import ObjectName, grouped
from reconciler.metrics.tracked_queries import (
    ACTIVITY,
    REPLICAS_OF,
    BackendPods,
    Bucket,
    ChosenSeries,
    Endpoint,
    Exported,
    PodLabels,
    Scraped,
    TrackedQuantity,
    choose_endpoint,
    endpoint_of,
    exported_at,
    find_pods,
    foreign_origin,
    is_askable,
    is_counter,
    is_selected,
    percentiles_of,
    policy_metrics,
    read_pod_labels,
    unexported,
)

_Elements: TypeAlias = Table[tuple[tuple[str, str], ...]]
"""The series of a query of a policy, by all of their labels."""
_BackendMetric: TypeAlias = tuple[int, str]
"""A backend of the cluster, by index, and a metric of its policy."""


def read_tracked(
    targets: Sequence[TrackedTarget], answers: Sequence[Answer], now_s: float, settings: Settings
) -> dict[ResourceKey, TrackedHistory]:
    """The history of every target up to `now_s`, by its key; what is not known is NaN in it, with the reason."""
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    clusters = {cluster.name: cluster for cluster in settings.clusters}
    histories: dict[ResourceKey, TrackedHistory] = {}
    for name, members in sorted(grouped((target.key.cluster, target) for target in targets).items()):
        cluster = clusters.get(name)
        prometheus = cluster.prometheus if cluster else None
        if name in answers_of:
            reading = _read_cluster(members, answers_of[name], now_s, prometheus)
            series = _series(members, reading, prometheus)
            for first, target in _with_first(members):
                seen = _Target(target=target, first=first, cluster=reading, series=series, settings=prometheus)
                histories[target.key] = seen.history()
        else:
            reason = f"the Prometheus of cluster {name} was not queried about metric targets"
            grid = grid_for(members, now_s)
            unknown = BackendHistory(replicas=(np.nan,) * grid.count, unready=(np.nan,) * grid.count)
            for target in members:
                histories[target.key] = TrackedHistory(
                    start_s=grid.start_s,
                    step_s=grid.step_s,
                    backends=(unknown,) * len(target.backends),
                    reasons=(reason if prometheus else no_prometheus(name),),
                )
    return histories


def _with_first(targets: Sequence[TrackedTarget]) -> Iterator[tuple[int, TrackedTarget]]:
    first = 0
    for target in targets:
        yield first, target
        first += len(target.backends)


# ---- one cluster's answers, decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricRows:
    """One metric at one endpoint, by pod: as exported (of a histogram the percentile), and as a rate if a counter.

    `label_sets` counts those of a pod where it has several.
    """

    values: Table[ObjectName]
    rates: Table[ObjectName] | None
    label_sets: Mapping[ObjectName, int]
    quantity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterReading:
    """All that was decoded, on one grid; `replicas` and `unready` pods have shape (backends, ticks), NaN if unknown.

    `workloads` are the replicas of workloads by kind. `external` are the answers to queries of policies by their text,
    with the `quantities` of those queries.
    """

    grid: Grid
    backends: tuple[TrackedBackend, ...]
    labels: PodLabels
    ready: Table[ObjectName]
    backend_pods: BackendPods
    replicas: Floats
    unready: Floats
    workloads: Mapping[str, Table[ObjectName]]
    metrics: Mapping[Exported, _MetricRows]
    activity: tuple[Table[ObjectName], ...]
    external: Mapping[str, _Elements]
    quantities: Mapping[str, str]


def _read_cluster(
    targets: Sequence[TrackedTarget], answers: Sequence[Answer], now_s: float, settings: PrometheusSettings | None
) -> _ClusterReading:
    asked = grouped((answer.query.quantity, answer) for answer in answers)
    grid, names = grid_for(targets, now_s), label_names(settings) if settings else LabelNames()
    reader = _Reader(asked=asked, grid=grid, names=names)
    backends = tuple(backend for target in targets for backend in target.backends)
    ready = reader.by_name(TrackedQuantity.READY, names.pod)
    sources = [source for target in targets for _, _, source in policy_metrics(target, PodMetric)]
    metrics = {exported_at(each): each for each in sources if is_askable(each.name)}
    readings = {key: reader.metric(source) for key, source in metrics.items()}
    activity = tuple(reader.by_name(quantity, names.pod) for quantity in ACTIVITY.values() if quantity in asked)
    labels = read_pod_labels(asked.get(TrackedQuantity.POD_LABELS, ()), names)
    tables = (ready, *activity, *(metric.values for metric in readings.values()))
    found = find_pods(backends, {pod for table in tables for pod in table.rows}, labels)
    pods = {pod: index for index, pod in enumerate(sorted({pod for each in found for pod in each}))}
    backend_pods = BackendPods(
        pods=pods,
        members=tuple(np.array([pods[pod] for pod in each], dtype=np.int64) for each in found),
        ready=np.full((len(pods), grid.count), np.nan),
        expected=np.full((len(found), grid.count), np.nan),
    )
    backend_pods = replace(backend_pods, ready=backend_pods.rows(ready.rows))
    workloads = {kind: reader.by_name(quantity, WORKLOAD_LABELS[kind]) for kind, quantity in REPLICAS_OF.items()}
    counted = reader.elements(() if ready.failed else asked.get(TrackedQuantity.COUNTED, ()))
    replicas = _replicas(backends, backend_pods, workloads, counted)
    pods_each = np.array([max(backend.pods_per_replica, 1) for backend in backends], dtype=np.float64)
    own = [answer for answer in answers if answer.query.quantity.startswith(TrackedQuantity.EXTERNAL)]
    external = grouped((answer.query.text, answer) for answer in own)
    return _ClusterReading(
        grid=grid,
        backends=backends,
        labels=labels,
        ready=ready,
        backend_pods=replace(backend_pods, expected=replicas * pods_each[:, None]),
        replicas=replicas,
        unready=backend_pods.add_up(backend_pods.ready == 0),
        workloads=workloads,
        metrics=readings,
        activity=activity,
        external={text: reader.elements(members) for text, members in external.items()},
        quantities={text: members[0].query.quantity for text, members in external.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Decodes answers by quantity."""

    asked: Mapping[str, Sequence[Answer]]
    grid: Grid
    names: LabelNames

    def by_name(self, quantity: str, label: str) -> Table[ObjectName]:
        """Rows by namespace and the name in `label`."""
        return tabulate(self.asked.get(quantity, ()), self.grid, lambda labels: self._object(labels, label))

    def elements(self, answers: Sequence[Answer]) -> _Elements:
        return tabulate(answers, self.grid, lambda labels: tuple(sorted(labels.items())))

    def metric(self, source: PodMetric) -> _MetricRows:
        name = source.name
        chosen = self._chosen(TrackedQuantity.METRIC.of(name), source, self.grid)
        values, is_histogram = chosen.by_pod, False
        if not chosen.endpoints:
            percentiles, buckets = self._percentiles(source)
            is_histogram = not values.rows and bool(percentiles.rows or percentiles.failed)
            values, chosen = (percentiles, buckets) if is_histogram else (values, chosen)
        unusable = {pod: int(np.count_nonzero((row < 0) | np.isinf(row))) for pod, row in values.rows.items()}
        notes = {
            pod: f"{count} readings are negative or infinite, and missing" for pod, count in unusable.items() if count
        }
        rates = self._chosen(TrackedQuantity.RATE.of(name), source, self.grid).by_pod if is_counter(name) else None
        label_sets: dict[ObjectName, int] = {}
        for answer in self.asked.get(TrackedQuantity.LABEL_SETS.of(name), ()):
            samples = decode(answer)
            for sample in () if isinstance(samples, NoAnswer) else samples:
                pod = self._object(sample.labels, self.names.pod)
                is_read = chosen.endpoints.get(pod, Endpoint()) == endpoint_of(sample.labels)
                if is_read and 1 < sample.value < 1e9:
                    label_sets[pod] = int(sample.value)
        return _MetricRows(
            values=replace(values, oddities={**notes, **values.oddities}),
            rates=rates,
            label_sets=label_sets,
            quantity=(TrackedQuantity.BUCKETS if is_histogram else TrackedQuantity.METRIC).of(name),
        )

    def _percentiles(self, source: PodMetric) -> tuple[Table[ObjectName], ChosenSeries]:
        quantity = TrackedQuantity.BUCKETS.of(source.name)
        since_s = min((answer.query.start_s for answer in self.asked.get(quantity, ())), default=self.grid.start_s)
        ticks = self.grid.count + max(round((self.grid.start_s - since_s) / self.grid.step_s), 0)
        longer = Grid(start_s=self.grid.end_s - (ticks - 1) * self.grid.step_s, step_s=self.grid.step_s, count=ticks)
        chosen = self._chosen(quantity, source, longer)
        table = percentiles_of(chosen.table, longer)
        return replace(table, rows={pod: values[-self.grid.count :] for pod, values in table.rows.items()}), chosen

    def _chosen(self, quantity: str, source: PodMetric, grid: Grid) -> ChosenSeries:
        def key_of(labels: Mapping[str, str]) -> Scraped:
            bucket = Bucket(pod=self._object(labels, self.names.pod), bound=labels.get("le", ""))
            return bucket, endpoint_of(labels)

        return choose_endpoint(tabulate(self.asked.get(quantity, ()), grid, key_of), source)

    def _object(self, labels: Mapping[str, str], label: str) -> ObjectName:
        return ObjectName(labels.get(self.names.namespace, ""), labels.get(label, ""))


def _replicas(
    backends: Sequence[TrackedBackend],
    backend_pods: BackendPods,
    workloads: Mapping[str, Table[ObjectName]],
    counted: _Elements,
) -> Floats:
    """The replicas over time: exported counts where there are any, else counts of pods.

    Zero pods are trusted only while pods are counted at all, and only for a workload that has had pods, or has zero
    replicas in Git: pods that cannot be found may still be there.
    """
    present = backend_pods.present()
    is_counting = np.zeros(present.shape[1], dtype=np.bool_)
    for row in counted.rows.values():
        is_counting |= ~np.isnan(row)
    replicas = np.full(present.shape, np.nan)
    for index, backend in enumerate(backends):
        target = backend.scale_target
        if target.kind in workloads:
            replicas[index] = workloads[target.kind].rows.get(ObjectName(target.namespace, target.name), np.nan)
        elif present[index].any() or backend.replicas == 0:
            count = np.ceil(present[index] / max(backend.pods_per_replica, 1))
            replicas[index] = np.where(is_counting | (count > 0), count, np.nan)
    return replicas


# ---- the series of each backend


@dataclass(slots=True, kw_only=True)
class _ClusterSeries:
    """The metrics of every backend, as `BackendHistory` has them; `rows` are the pods that a metric is about."""

    rows: dict[_BackendMetric, Integers] = field(default_factory=dict)
    pods: dict[_BackendMetric, PodTotals] = field(default_factory=dict)
    rates: dict[_BackendMetric, PodTotals] = field(default_factory=dict)
    external: dict[_BackendMetric, Series] = field(default_factory=dict)


def _series(
    targets: Sequence[TrackedTarget], reading: _ClusterReading, settings: PrometheusSettings | None
) -> _ClusterSeries:
    pods, backend_pods = list(reading.backend_pods.pods), reading.backend_pods
    unknown = (np.nan,) * reading.grid.count
    lone = {text: _lone(elements, reading.grid.count)[0] for text, elements in reading.external.items()}
    answered = {text: tuple(values.tolist()) for text, values in lone.items()}
    series = _ClusterSeries()
    following: dict[Exported, list[_BackendMetric]] = {}
    for first, target in _with_first(targets):
        for metric, position, source in policy_metrics(target, PodMetric):
            place, members = (first + position, metric), backend_pods.members[first + position]
            if source.selector != EVERY_POD:
                requirements = source.selector.requirements
                chosen = [row for row in members.tolist() if is_selected(requirements, pods[row], reading.labels)]
                members = np.array(chosen, dtype=np.int64)
            series.rows[place] = members
            following.setdefault(exported_at(source), []).append(place)
        for metric, position, written in policy_metrics(target, PrometheusMetric):
            is_ours = settings is not None and not foreign_origin(written, settings)
            series.external[first + position, metric] = answered.get(written.query, unknown) if is_ours else unknown
    for exported, places in following.items():
        found = reading.metrics.get(exported)
        if found is not None:
            followed = backend_pods.following([index for index, _ in places], [series.rows[place] for place in places])
            series.pods.update(zip(places, followed.totals(found.values.rows), strict=True))
            if found.rates is not None:
                series.rates.update(zip(places, followed.totals(found.rates.rows), strict=True))
    return series


def _lone(elements: _Elements, ticks: int) -> tuple[Floats, Integers]:
    """The value of each tick at which a query answered with one element, and how many it had, shapes (ticks,)."""
    return lone_values(np.array(list(elements.rows.values())).reshape(-1, ticks))


# ---- the history of a target; reasons say what is missing in it, why, and what to do about it

_SHOWN_PODS = 3
_ALLOW = "kube-state-metrics must be started with --metric-labels-allowlist=pods=[{labels}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A target with what was read of its `cluster`; its first backend has the index `first`."""

    target: TrackedTarget
    first: int
    cluster: _ClusterReading
    series: _ClusterSeries
    settings: PrometheusSettings | None

    def history(self) -> TrackedHistory:
        reading, series, policy = self.cluster, self.series, self.target.policy
        members = range(self.first, self.first + len(self.target.backends))
        backends = []
        for index in members:
            places = [(metric.name, (index, metric.name)) for metric in policy.metrics]
            backends.append(
                BackendHistory(
                    replicas=tuple(reading.replicas[index].tolist()),
                    unready=tuple(reading.unready[index].tolist()),
                    pods={name: series.pods[place] for name, place in places if place in series.pods},
                    rates={name: series.rates[place] for name, place in places if place in series.rates},
                    external={name: series.external[place] for name, place in places if place in series.external},
                )
            )
        queries = {
            metric: reading.metrics[exported_at(source)].quantity
            for metric, _, source in policy_metrics(self.target, PodMetric)
            if exported_at(source) in reading.metrics
        }
        queries |= {
            metric: reading.quantities[external.query]
            for metric, _, external in policy_metrics(self.target, PrometheusMetric)
            if external.query in reading.quantities
        }
        return TrackedHistory(
            start_s=reading.grid.start_s,
            step_s=reading.grid.step_s,
            backends=tuple(backends),
            activity=self._activity(members) if self.target.grace_s > 0 else None,
            label_sets=dict(self._label_sets()),
            queries=queries,
            reasons=tuple(dict.fromkeys(self._reasons())),
            notes=tuple(dict.fromkeys(self._notes())),
        )

    def _activity(self, members: Sequence[int]) -> Series | None:
        """Requests that ready pods finish in a second, and those in them; None if no engine reports it."""
        reading, pods = self.cluster, self.cluster.backend_pods
        rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(pods.members[each] for each in members)]))
        ready = pods.ready[rows] == 1
        found = np.array([pods.rows(table.rows)[rows] for table in reading.activity])
        found = np.where(np.isfinite(found) & (found >= 0), found, np.nan)
        if not reading.activity or np.isnan(found).all():
            return None
        with np.errstate(over="ignore"):  # infinitely many requests are requests
            working = found.sum(axis=0)  # one unknown value makes the sum unknown: a request may be in progress there
            active = np.where(ready, working, 0.0).sum(axis=0)
        asleep = (reading.replicas[list(members)] == 0).all(axis=0)
        activity: Floats = np.where(ready.any(axis=0), active, np.where(asleep, 0.0, np.nan))
        return tuple(activity.tolist())

    def _label_sets(self) -> Iterator[tuple[str, int]]:
        """The most label sets that a pod has of a metric, where any pod has several."""
        pods = list(self.cluster.backend_pods.pods)
        for metric, position, source in policy_metrics(self.target, PodMetric):
            found = self.cluster.metrics.get(exported_at(source))
            if found is not None and found.label_sets:
                rows = self.series.rows[self.first + position, metric].tolist()
                several = max((found.label_sets.get(pods[row], 1) for row in rows), default=1)
                if several > 1:
                    yield metric, several

    def _notes(self) -> Iterator[str]:
        for metric, position, source in policy_metrics(self.target, PodMetric):
            absent = unexported(source.selector.requirements, self.cluster.labels)
            if absent and self.series.rows[self.first + position, metric].size:
                yield f"no pod is exported with the label {', '.join(absent)}, so every pod counts as without it"

    def _reasons(self) -> Iterator[str]:
        for position, backend in enumerate(self.target.backends):
            yield from self._about_replicas(backend, self.first + position)
        for metric, position, source in policy_metrics(self.target, PodMetric):
            yield from self._about_pods(metric, self.first + position, source)
        for metric, position, external in policy_metrics(self.target, PrometheusMetric):
            yield from self._about_query(metric, self.first + position, external)

    def _about_replicas(self, backend: TrackedBackend, index: int) -> Iterator[str]:
        """Why the present replicas are not known."""
        if not np.isnan(self.cluster.replicas[index, -1]):
            return
        kind, named = backend.scale_target.kind, _named(backend)
        table = self.cluster.workloads.get(kind, self.cluster.ready)
        if table.failed:
            yield table.failed.reason
        elif kind in self.cluster.workloads or self.cluster.backend_pods.members[index].size:
            yield f"no series reports the replicas of {named}: is kube-state-metrics scraped?"
        else:
            yield self._unfound(backend)

    def _unfound(self, backend: TrackedBackend) -> str:
        """Why no pod is known of a workload that should have some."""
        required = LabelSelector(match_labels=backend.pod_labels).requirements
        absent = unexported(required, self.cluster.labels)
        if self.cluster.labels.failed:
            return self.cluster.labels.failed.reason
        if absent:
            return f"no pod of {_named(backend)} is known: {_ALLOW.format(labels=','.join(absent))}"
        labels = ",".join(f"{key}={value}" for key, value in sorted(backend.pod_labels.items()))
        return f"no pod of {_named(backend)} is known: none has the labels {printable(labels)}, or its name"

    def _about_pods(self, metric: str, index: int, source: PodMetric) -> Iterator[str]:
        """Why a metric of pods is not read, or not of all of them."""
        name, backend = printable(source.name), self.cluster.backends[index]
        rows, totals = self.series.rows[index, metric], self.series.pods.get((index, metric))
        found = self.cluster.metrics.get(exported_at(source))
        if found is None or totals is None:
            yield f"metric {name}: no series can have that name"
        elif found.values.failed:
            yield found.values.failed.reason
        elif not found.values.asked:
            yield f"Prometheus was not queried for {name}"
        elif rows.size:
            odd = tuple(self._oddities(name, rows, found.values.oddities))
            if not any(totals.reporting) and not odd:
                where = f"is {printable(source.uri or DEFAULT_URI)} at port {source.port or DEFAULT_PORT} scraped"
                yield f"no pod of {_named(backend)} reports {name}: is that its name, and {where}?"
            elif totals.missing[-1] > 0:
                yield f"{totals.missing[-1]:g} ready pods of {_named(backend)} do not report {name} now"
            yield from odd
        elif self.cluster.backend_pods.members[index].size:
            absent = unexported(source.selector.requirements, self.cluster.labels)
            why = _ALLOW.format(labels=",".join(absent)) if absent else "is the selector right?"
            yield f"no pod of {_named(backend)} is selected for {name}: {why}"
        elif self.cluster.replicas[index, -1] == 0:
            yield f"{_named(backend)} has no pods: at zero replicas nothing reports {name}"
        else:
            yield self._unfound(backend)

    def _oddities(self, name: str, rows: Integers, oddities: Mapping[ObjectName, str]) -> Iterator[str]:
        pods = list(self.cluster.backend_pods.pods) if oddities else []
        odd = [pods[row] for row in rows.tolist() if pods[row] in oddities] if oddities else []
        yield from (f"{name} of pod {printable(pod.name)}: {oddities[pod]}" for pod in odd[:_SHOWN_PODS])
        if len(odd) > _SHOWN_PODS:
            yield f"{name}: the same for {len(odd) - _SHOWN_PODS} more pods"

    def _about_query(self, metric: str, index: int, source: PrometheusMetric) -> Iterator[str]:
        """Why a policy's own query has no number now, or had none for a while."""
        name = printable(metric)
        origin = foreign_origin(source, self.settings) if self.settings else ""
        answered = self.cluster.external.get(source.query)
        if origin:
            yield f"metric {name} is meant for {printable(origin)}, another server than this cluster's: not queried"
        elif answered is None:
            yield f"Prometheus was not sent the query of metric {name}"
        elif answered.failed:
            yield f"metric {name}: {answered.failed.reason}"
        else:
            values = self.series.external[index, metric]
            _, count = _lone(answered, len(values))
            if count[-1] != 1:
                yield f"the query of metric {name} returned {count[-1]} elements now, expected one"
            elif not 0 <= values[-1] < np.inf:
                yield f"the query of metric {name} returned {values[-1]} now, expected a finite number of 0 or more"
            before = int(np.count_nonzero(count[:-1] != 1))
            if before:
                yield f"the query of metric {name} did not return one element at {before} earlier ticks"


def _named(backend: TrackedBackend) -> str:
    return f"{printable(backend.scale_target.kind)} {printable(backend.scale_target.label)}"
