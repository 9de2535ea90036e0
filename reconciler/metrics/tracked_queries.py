"""The queries for metric targets, and the pods and endpoints that the answers belong to."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from string import Template
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from reconciler.domain.answers import Answer, NoAnswer, Query
from reconciler.domain.history import Bools, Floats, Grid, Integers
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_PORT,
    DEFAULT_URI,
    LabelOperator,
    LabelRequirement,
    LabelSelector,
    PodMetric,
    PodTotals,
    PrometheusMetric,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.answers import Table, decode, grid_for, printable
from reconciler.metrics.quantities import QUANTITIES, Name
from reconciler.metrics.queries import (
    LabelNames,
    batches_of,
    duration,
    exported_label,
    instant_query,
    label_names,
    matchers,
    range_query,
    render,
)
from reconciler.metrics.readings import ANY_ROLE, LONGEST_NAME, ObjectName, bound_of, grouped
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS

# The pods of metric targets. `choose_endpoint` picks the series of a pod by the port and path of its policy,
# `percentiles_of` reads histograms, `find_pods` assigns pods to backends by their labels, or by their names where
# labels are not exported, and `BackendPods` adds pods up.


class Bucket(NamedTuple):
    """One bucket of a pod's histogram: `bound` as the label `le` spells it, empty for a metric without buckets."""

    pod: ObjectName
    bound: str


# ---- percentiles of recent observations in cumulative histograms, for all pods and ticks at once. The buckets of each
# tick are compared with the newest sample that is between one and five minutes older; without one they count from the
# start of the pod (rules/upstream.md#histograms)

PERCENTILE = 95
FRESH_S = 60.0
EXPIRY_S = 300.0
_MOST = 2.0**53
"""Larger counts are ignored: float64 is no longer exact."""
_HISTOGRAMS_AT_ONCE = 64


def percentiles_of(buckets: Table[Bucket], grid: Grid) -> Table[ObjectName]:
    """The 95th percentile of each pod's recent observations, from the counts of its buckets."""
    pods: dict[ObjectName, dict[float, Floats]] = {}
    for bucket in sorted(buckets.rows):
        bound = bound_of(bucket.bound)
        if not math.isnan(bound):
            pods.setdefault(bucket.pod, {})[bound] = buckets.rows[bucket]
    # a new image may count in other buckets: a pod has one histogram, of shape (ticks, buckets), for each set of bounds
    histograms: dict[tuple[float, ...], list[tuple[ObjectName, Floats]]] = {}
    for pod, found in pods.items():
        bounds = np.array(sorted(found))
        counts = np.array([found[bound] for bound in bounds.tolist()]).T
        known = np.isfinite(counts)
        for pattern in np.unique(known[known.any(axis=1)], axis=0):
            has_pattern = (known == pattern).all(axis=1)[:, None]
            of_pattern = np.where(has_pattern, counts[:, pattern], np.nan)
            histograms.setdefault(tuple(bounds[pattern].tolist()), []).append((pod, of_pattern))
    times_ms = np.asarray(np.arange(grid.count) * round(grid.step_s * 1000), dtype=np.int64)
    rows: dict[ObjectName, Floats] = {}
    oddities: dict[ObjectName, str] = {}
    for of_bounds, alike in histograms.items():
        for first in range(0, len(alike), _HISTOGRAMS_AT_ONCE):  # as many as fit into little memory
            part = alike[first : first + _HISTOGRAMS_AT_ONCE]
            recent = recent_percentiles(times_ms, np.array(of_bounds), np.array([counts for _, counts in part]))
            for (pod, _), values, reset in zip(part, *recent, strict=True):
                if pod in rows:
                    oddities[pod] = "the bounds of its buckets changed"
                elif math.isfinite(of_bounds[-1]):
                    oddities[pod] = "its histogram has no bucket for +Inf"
                elif reset.any():
                    oddities[pod] = "its counters were reset"
                earlier = rows.get(pod, values)
                rows[pod] = np.where(np.isnan(earlier), values, earlier)
    oddities |= {bucket.pod: oddity for bucket, oddity in buckets.oddities.items()}
    return Table(rows=rows, oddities=oddities, failed=buckets.failed, asked=buckets.asked)


def recent_percentiles(
    times_ms: Integers, bounds: Floats, counts: Floats, percentile: int = PERCENTILE
) -> tuple[Floats, Bools]:
    """The percentile at every tick, NaN where there is none, and where a counter was reset; both (pods, ticks).

    `counts` are cumulative, of shape (pods, ticks, buckets).
    """
    present = np.asarray(((counts >= 0) & (counts <= _MOST)).all(axis=2), dtype=np.bool_)  # NaN is neither
    reference = references(times_ms, present, fresh_ms=round(FRESH_S * 1000), expiry_ms=round(EXPIRY_S * 1000))
    # how often any counter of a pod has fallen up to each tick
    last = np.maximum.accumulate(np.where(present, np.arange(counts.shape[1]), -1), axis=1)
    before = np.concatenate((np.full((counts.shape[0], 1), -1), last[:, :-1]), axis=1)
    known = np.take_along_axis(counts, np.maximum(before, 0)[..., None], axis=1)
    with np.errstate(invalid="ignore"):
        resets = np.cumsum((counts < known).any(axis=2) & present & (before >= 0), axis=1)
    at = np.maximum(reference, 0)
    referred = reference >= 0
    past = np.where(referred[..., None], np.take_along_axis(counts, at[..., None], axis=1), 0.0)
    reset = np.asarray(present & referred & (resets != np.take_along_axis(resets, at, axis=1)), dtype=np.bool_)
    values = percentile_since(bounds, counts, past, percentile)
    return np.where(present & ~reset, values, np.nan), reset


def references(times_ms: Integers, present: Bools, *, fresh_ms: int, expiry_ms: int) -> Integers:
    """The older tick that each is compared with, no longer fresh and not expired; shape (pods, ticks), -1 for none."""
    ticks = np.arange(times_ms.size)
    last = np.maximum.accumulate(np.where(present, ticks, -1), axis=1)
    youngest = np.searchsorted(times_ms, times_ms - fresh_ms) - 1
    found = np.where(youngest >= 0, last[:, np.maximum(youngest, 0)], -1)
    alive = times_ms <= times_ms[np.maximum(found, 0)] + expiry_ms
    return np.asarray(np.where((found >= 0) & alive & (fresh_ms > 0), found, -1), dtype=np.int64)


def percentile_since(bounds: Floats, now: Floats, past: Floats, percentile: int = PERCENTILE) -> Floats:
    """The percentile of the observations between two samples of shape (..., buckets), NaN where a count fell.

    Interpolated inside a bucket from its lower bound, the first from 0; the infinite bucket ends at twice the last
    finite bound. It is 0 if nothing was observed, and NaN without an infinite bucket, which has the total.
    """
    with np.errstate(all="ignore"):  # missing counts are NaN, and so are the results
        cumulative = now - past
        count = cumulative[..., -1]
        rank = np.minimum(np.ceil(count * percentile / 100), count)  # a recording rule may count in fractions
        steps = np.diff(cumulative, axis=-1, prepend=0.0)
        at = np.argmax(cumulative >= rank[..., None], axis=-1)[..., None]
        low = np.concatenate(([0.0], bounds[:-1]))[at]
        high = np.where(np.isinf(bounds[at]), 2 * low, bounds[at])
        upto, inside = (np.take_along_axis(each, at, axis=-1) for each in (cumulative, steps))
        value = (high - (upto - rank[..., None]) * (high - low) / inside)[..., 0]
    sound = np.isfinite(cumulative).all(axis=-1) & (steps >= 0).all(axis=-1) & np.isinf(bounds[-1])
    return np.where(sound, np.where(rank > 0, value, 0.0), np.nan)


# ---- which series of a pod a metric means

ENDPOINT_LABELS = ("instance", "metrics_path", "job")
"""Labels that separate the scrapes of one pod; the path is there only if a relabeling adds it."""
_PORT = re.compile(r":([0-9]{1,5})$")
_AGREEING_SHARE, _AGREEING = 0.2, 0.5
"""How far the means of two scrapes of one endpoint may be apart: of the larger, and in the metric's own unit."""
_SHOWN = 3


class Endpoint(NamedTuple):
    """Where a series was scraped; fields that its labels lack are empty."""

    port: str = ""
    path: str = ""
    job: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (f"port {self.port}" if self.port else "", self.path)))


Scraped: TypeAlias = tuple[Bucket, Endpoint]
"""A series of a pod: what it counts, and where it was scraped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSeries:
    """The rows of one metric, and the endpoint of each pod that they are from."""

    table: Table[Bucket]
    endpoints: Mapping[ObjectName, Endpoint]

    @property
    def by_pod(self) -> Table[ObjectName]:
        """The rows of a metric without buckets, by their pods."""
        return Table(
            rows={bucket.pod: values for bucket, values in self.table.rows.items()},
            oddities={bucket.pod: why for bucket, why in self.table.oddities.items()},
            failed=self.table.failed,
            asked=self.table.asked,
        )


def endpoint_of(labels: Mapping[str, str]) -> Endpoint:
    """The endpoint of a series by its labels; only the port of an address, which changes while the pod stays."""
    instance, path, job = (labels.get(name, "") for name in ENDPOINT_LABELS)
    port = _PORT.search(instance)
    return Endpoint(port=port[1] if port else "", path=path, job=job)


def choose_endpoint(table: Table[Scraped], source: PodMetric) -> ChosenSeries:
    """The series of every pod at the endpoint that `source` means; a pod without one has an oddity that says why."""
    pods: dict[ObjectName, dict[Endpoint, dict[Bucket, Floats]]] = {}
    for (bucket, scraped_at), values in table.rows.items():
        pods.setdefault(bucket.pod, {}).setdefault(scraped_at, {})[bucket] = values
    rows: dict[Bucket, Floats] = {}
    endpoints: dict[ObjectName, Endpoint] = {}
    oddities: dict[Bucket, str] = {}
    for pod, found in pods.items():
        meant = _meant(sorted(found), source)
        endpoint = meant if isinstance(meant, str) else _only_one(meant, found)
        if isinstance(endpoint, str):
            oddities[Bucket(pod=pod, bound="")] = endpoint
        else:
            rows |= found[endpoint]
            endpoints[pod] = endpoint
    for (bucket, scraped_at), why in table.oddities.items():
        if scraped_at == endpoints.get(bucket.pod):
            oddities[bucket] = why
    chosen = Table(rows=rows, oddities=oddities, failed=table.failed, asked=table.asked)
    return ChosenSeries(table=chosen, endpoints=endpoints)


def _meant(found: Sequence[Endpoint], source: PodMetric) -> Sequence[Endpoint] | str:
    """The endpoints at the port and path of a source; where it names none, the default one, else the only one."""
    ports = _at(found, [each.port for each in found], source.port, DEFAULT_PORT)
    paths = _at(ports, [each.path for each in ports], source.uri, DEFAULT_URI)
    if paths:
        return paths
    seen = list(dict.fromkeys(printable(str(each)) for each in ports or found))
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    port, uri = source.port or DEFAULT_PORT, source.uri or DEFAULT_URI
    return f"it is scraped at {', '.join(seen[:_SHOWN])}{more}, and not at port {port} {printable(uri)}"


def _at(
    found: Sequence[Endpoint], texts: Sequence[str], written: int | str | None, default: int | str
) -> Sequence[Endpoint]:
    """The endpoints with the `written` port or path, or all of them where that leaves no choice."""
    if not any(texts) or (written is None and len(set(texts)) == 1):
        return found
    wanted = str(default if written is None else written)
    return [each for each, text in zip(found, texts, strict=True) if text == wanted]


def _only_one(endpoints: Sequence[Endpoint], found: Mapping[Endpoint, Mapping[Bucket, Floats]]) -> Endpoint | str:
    """The one with most samples of several jobs that scrape one endpoint; a reason if they disagree."""

    def samples(endpoint: Endpoint) -> int:
        return sum(int(np.count_nonzero(~np.isnan(values))) for values in found[endpoint].values())

    best, *others = sorted(endpoints, key=lambda each: (-samples(each), each))
    for bucket, values in found[best].items():
        for other in others:
            both = np.isfinite(values) & np.isfinite(found[other].get(bucket, np.nan))
            if not both.any():
                continue
            low, high = sorted((float(values[both].mean()), float(found[other][bucket][both].mean())))
            if high - low > _AGREEING_SHARE * high + _AGREEING:
                jobs = ", ".join(printable(each.job) or "one without a name" for each in sorted(endpoints)[:_SHOWN])
                return f"the jobs {jobs} scrape it and disagree: which of them is meant?"
    return best


# ---- which backend a pod belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLabels:
    """The labels of pods as kube-state-metrics exports them, and which it `exports` at all.

    A pod whose labels changed is in `changed`: the time of the change is not known.
    """

    of_pod: Mapping[ObjectName, Mapping[str, str]]
    exports: frozenset[str]
    changed: frozenset[ObjectName]
    failed: NoAnswer | None = None


def read_pod_labels(answers: Sequence[Answer], names: LabelNames) -> PodLabels:
    """The labels of every pod that existed within the queried time."""
    of_pod: dict[ObjectName, Mapping[str, str]] = {}
    changed: set[ObjectName] = set()
    failed: NoAnswer | None = None
    for answer in answers:
        samples = decode(answer)
        if isinstance(samples, NoAnswer):
            failed = failed or samples
            continue
        for sample in samples:
            pod = ObjectName(sample.labels.get(names.namespace, ""), sample.labels.get(names.pod, ""))
            labels = {name: value for name, value in sample.labels.items() if name.startswith("label_")}
            if of_pod.setdefault(pod, labels) != labels:
                changed.add(pod)
    exports = frozenset(name for labels in of_pod.values() for name in labels)
    return PodLabels(of_pod=of_pod, exports=exports, changed=frozenset(changed), failed=failed)


def is_selected(requirements: Iterable[LabelRequirement], pod: ObjectName, known: PodLabels) -> bool | None:
    """Whether a pod has the required labels; None where that is not known."""
    verdicts = [_holds(requirement, pod, known) for requirement in requirements]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _holds(requirement: LabelRequirement, pod: ObjectName, known: PodLabels) -> bool | None:
    label = exported_label(requirement.key)
    wants_absence = requirement.operator in (LabelOperator.NOT_IN, LabelOperator.DOES_NOT_EXIST)
    if pod in known.changed or (label not in known.exports and not wants_absence):
        return None
    value = known.of_pod.get(pod, {}).get(label)
    if requirement.operator is LabelOperator.EXISTS:
        return value is not None
    if requirement.operator is LabelOperator.DOES_NOT_EXIST:
        return value is None
    return (value in requirement.values) is (requirement.operator is LabelOperator.IN)


def unexported(requirements: Iterable[LabelRequirement], known: PodLabels) -> tuple[str, ...]:
    """The required labels that no pod of the cluster is exported with."""
    return tuple(sorted({each.key for each in requirements if exported_label(each.key) not in known.exports}))


def find_pods(
    backends: Sequence[TrackedBackend], pods: Iterable[ObjectName], known: PodLabels
) -> list[list[ObjectName]]:
    """The pods of each backend, in order; a pod may count for several backends, where their labels overlap."""
    found: list[list[ObjectName]] = [[] for _ in backends]
    by_label, by_name = _by_rarest_label(backends), _ByName(backends)
    for pod in sorted(pods):
        named = set(by_name.find(pod))
        labels = known.of_pod.get(pod, {}).items()
        labelled = {index for label, value in labels for index in by_label.get((pod.namespace, label, value), ())}
        for index in sorted(named | labelled):
            selector = LabelSelector(match_labels=backends[index].pod_labels)
            verdict = is_selected(selector.requirements, pod, known)
            if verdict or (verdict is None and index in named):
                found[index].append(pod)
    return found


def _by_rarest_label(backends: Sequence[TrackedBackend]) -> dict[tuple[str, str, str], list[int]]:
    """Backends by the label value that fewest of them require: one look-up for each label of a pod."""
    required = [
        [(each.scale_target.namespace, exported_label(key), value) for key, value in sorted(each.pod_labels.items())]
        for each in backends
    ]
    count = Counter(label for labels in required for label in labels)
    return grouped(
        (min(labels, key=lambda label: (count[label], label)), index) for index, labels in enumerate(required) if labels
    )


class _ByName:
    """Backends by the name of their scale target, which the names of its pods begin with; the longest one wins."""

    def __init__(self, backends: Sequence[TrackedBackend]) -> None:
        self._backends: dict[ObjectName, list[int]] = {}
        self._endings: list[re.Pattern[str] | None] = []
        for index, backend in enumerate(backends):
            target = backend.scale_target
            self._backends.setdefault(ObjectName(target.namespace, target.name), []).append(index)
            ending = KINDS[target.kind].pod_names if target.kind in KINDS else ""
            role = re.escape(target.part) if target.part else ANY_ROLE
            self._endings.append(re.compile(ending.replace(ROLE, role)) if ending else None)

    def find(self, pod: ObjectName) -> list[int]:
        end = pod.name.rfind("-") if len(pod.name) <= LONGEST_NAME else -1
        while end > 0:
            named = self._backends.get(ObjectName(pod.namespace, pod.name[:end]), ())
            found = [index for index in named if (ending := self._endings[index]) and ending.fullmatch(pod.name, end)]
            if found:
                return found
            end = pod.name.rfind("-", 0, end)
        return []


# ---- pods added up to backends, tick by tick, for all backends at once


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPods:
    """The pods of each backend, and where each of them was ready (1), was not (0), or was not seen (NaN).

    `ready` has shape (pods, ticks). `expected`, shape (backends, ticks), are the pods that there should have been by
    the replicas of the time, NaN where unknown.
    """

    pods: Mapping[ObjectName, int]
    members: tuple[Integers, ...]
    ready: Floats
    expected: Floats

    def rows(self, found: Mapping[ObjectName, Floats]) -> Floats:
        """The series of pods as one array of shape (pods, ticks); other pods are left out."""
        rows = np.full(self.ready.shape, np.nan)
        for pod, values in found.items():
            if pod in self.pods:
                rows[self.pods[pod]] = values
        return rows

    def following(self, backends: Sequence[int], members: Sequence[Integers]) -> "BackendPods":
        """Some of the backends with some of their pods; where those are not all, how many to expect is not known."""
        fewer = [rows.size < self.members[index].size for index, rows in zip(backends, members, strict=True)]
        expected = np.where(np.array(fewer, dtype=np.bool_)[:, None], np.nan, self.expected[list(backends)])
        return replace(self, members=tuple(members), expected=expected)

    def present(self) -> Floats:
        """The number of pods of each backend, shape (backends, ticks)."""
        return self.add_up(~np.isnan(self.ready))

    def totals(self, found: Mapping[ObjectName, Floats]) -> Iterator[PodTotals]:
        """The sum of a metric over ready pods of each backend; over those that report, where readiness is not known."""
        values = self.rows(found)
        known = np.isfinite(values) & (values >= 0)
        unknown = self.present() == 0
        reads = known & (self.ready == 1)
        reporting = np.where(unknown, self.add_up(known), self.add_up(reads))
        all_known, all_read = (self.add_up(np.where(which, values, 0.0)) for which in (known, reads))
        silent = self.add_up((self.ready == 1) & ~known)
        lacking = np.fmax(self.expected - reporting, 0.0)
        total = np.where(reporting > 0, np.where(unknown, all_known, all_read), np.nan)
        missing = np.where(unknown & ~np.isnan(lacking), lacking, silent)
        for row in zip(total.tolist(), reporting.tolist(), missing.tolist(), strict=True):
            yield PodTotals(total=tuple(row[0]), reporting=tuple(row[1]), missing=tuple(row[2]))

    def add_up(self, values: Floats | Bools) -> Floats:
        """The sum over each backend's rows of `values`, shape (pods, ticks) to (backends, ticks); nothing is 0."""
        sums = np.zeros((len(self.members), values.shape[1]))
        manned = [index for index, rows in enumerate(self.members) if rows.size]
        if manned:
            rows = np.concatenate([self.members[index] for index in manned])
            starts = np.cumsum([0, *(self.members[index].size for index in manned[:-1])])
            with np.errstate(over="ignore"):  # an infinite sum counts as missing, as any infinite value
                sums[manned] = np.add.reduceat(values[rows].astype(np.float64), starts, axis=0)
        return sums


# The queries for metric targets: one for each metric and cluster, shared by all targets. Metrics of a policy are
# exported by pods (`PodMetric`) or answered by a query of its own (`PrometheusMetric`).

SAMPLE_BUDGET = 1_000_000
"""Points that one query may be expected to answer with: about 25 MB."""
BUCKETS = 20
"""How many series of a histogram a pod is expected to have."""
MOST_PODS = 20_000
"""Larger counts of pods in Git do not split a query further."""
RATE_WINDOW_S = 120.0
"""Of counters that are read as rates: two scrapes a minute apart."""
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ORIGIN = re.compile(r"(https?)://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^:/?#@]*)(?::([0-9]*))?(?=[/?#]|$)", re.IGNORECASE)
_PORTS = {"http": "80", "https": "443"}

# ---- where the metrics of policies come from

Source = TypeVar("Source", PodMetric, PrometheusMetric)
Exported: TypeAlias = tuple[str, int | None, str | None]
"""A metric's name with the port and path that a policy names, if any."""


def is_counter(metric: str) -> bool:
    """Whether a metric is a counter by its name."""
    return metric.endswith("_total")


def is_askable(metric: str) -> bool:
    """Whether any series could have that name."""
    return _METRIC_NAME.fullmatch(metric) is not None


def exported_at(source: PodMetric) -> Exported:
    """What identifies the series of a source."""
    return source.name, source.port, source.uri


def policy_metrics(target: TrackedTarget, kind: type[Source]) -> Iterator[tuple[str, int, Source]]:
    """Each metric of a target's policy with that kind of source, with the position of its backend."""
    for metric in target.policy.metrics:
        for position, backend in enumerate(target.backends):
            source = backend.source_of(metric.name)
            if isinstance(source, kind):
                yield metric.name, position, source


def foreign_origin(source: PrometheusMetric, settings: PrometheusSettings) -> str:
    """The origin of the server that a policy's query is meant for, when it is not this Prometheus; else empty."""
    theirs, ours = _origin(source.server_url), _origin(settings.url)
    return theirs if source.server_url and theirs != ours else ""


def _origin(url: str) -> str:
    found = _ORIGIN.match(url)
    if not found:
        return url
    scheme = found[1].lower()
    return f"{scheme}://{found[2].lower()}:{found[3] or _PORTS[scheme]}"


# ---- the queries


class TrackedQuantity(StrEnum):
    """What a query is for; a metric's name follows after a space, for a policy's own query that of the policy, too."""

    READY = "tracked_ready"
    COUNTED = "tracked_pods_counted"
    POD_LABELS = "tracked_pod_labels"
    DEPLOYMENTS = "tracked_deployment_replicas"
    STATEFUL_SETS = "tracked_statefulset_replicas"
    FINISHED = "tracked_finished"
    RUNNING = "tracked_running"
    WAITING = "tracked_waiting"
    METRIC = "tracked_metric"
    RATE = "tracked_rate"
    BUCKETS = "tracked_buckets"
    LABEL_SETS = "tracked_label_sets"
    EXTERNAL = "tracked_query"

    def of(self, metric: str) -> str:
        """The quantity of a query about one metric."""
        return f"{self} {metric}"


ACTIVITY = {
    Name.COMPLETIONS: TrackedQuantity.FINISHED,
    Name.RUNNING: TrackedQuantity.RUNNING,
    Name.WAITING: TrackedQuantity.WAITING,
}
"""What shows that a pod of any engine is idle."""
REPLICAS_OF = {"Deployment": TrackedQuantity.DEPLOYMENTS, "StatefulSet": TrackedQuantity.STATEFUL_SETS}
"""The kinds whose replicas are exported; for any other kind pods are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A query before it is cut: `text` with `$where` for the matchers, about the pods of `targets`.

    `grid` None asks about now. Each pod is expected to answer with so many `series`. A question that is not `named` is
    about the whole cluster instead of namespaces.
    """

    quantity: str
    text: str
    targets: tuple[TrackedTarget, ...]
    grid: Grid | None
    series: int = 1
    named: bool = True


def tracking_queries(
    cluster: ClusterSettings,
    targets: Sequence[TrackedTarget],
    now_s: float,
    *,
    sample_budget: int = SAMPLE_BUDGET,
) -> tuple[Query, ...]:
    """All queries of one cluster for its targets, on a grid of 15 s that ends at `now_s` (Unix seconds).

    It reaches back as far as the longest windows need. Beyond `sample_budget` points a query is split by namespace,
    then by time. Empty without targets or without a Prometheus; ConfigurationError for wrong labels.
    """
    settings = cluster.prometheus
    ours = tuple(target for target in targets if target.key.cluster == cluster.name)
    if settings is None or not ours:
        return ()
    grid, names = grid_for(ours, now_s), label_names(settings)
    questions = [
        *_about_pods(ours, grid, names),
        *_about_replicas(ours, grid, names),
        *_about_metrics(ours, grid, names),
        *_about_activity(ours, grid, names),
    ]
    cut = (query for each in questions for query in _cut(each, cluster.name, settings, grid, sample_budget))
    external: dict[str, str] = {}  # each query of a policy once, unless it is meant for another server
    for target in ours:
        for metric, _, source in policy_metrics(target, PrometheusMetric):
            if not foreign_origin(source, settings):
                external.setdefault(source.query, TrackedQuantity.EXTERNAL.of(f"{target.key.label} {metric}"))
    return (*cut, *(range_query(cluster.name, quantity, text, grid) for text, quantity in external.items()))


def _about_pods(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[_Question]:
    place = f"{names.namespace}, {names.pod}"
    ready = f'max by ({place}) (kube_pod_status_ready{{condition="true",$where}})'
    # a pod that was evicted or has finished stays for a while and never comes back
    over = 'kube_pod_status_phase{phase=~"Failed|Succeeded",$where} == 1'
    text = f"{ready} unless on ({place}) ({over})"
    yield _Question(quantity=TrackedQuantity.READY, text=text, targets=targets, grid=grid)
    if any(each.scale_target.kind not in REPLICAS_OF for target in targets for each in target.backends):
        text = 'count(kube_pod_status_ready{condition="true",$where})'
        yield _Question(quantity=TrackedQuantity.COUNTED, text=text, targets=targets, grid=grid, named=False)
    labels = sorted({exported_label(each.key) for target in targets for each in _requirements(target)})
    if labels:
        window = duration(max(grid.end_s - grid.start_s, grid.step_s))
        has_one = " or ".join(f'last_over_time(kube_pod_labels{{{label}!="",$where}}[{window}])' for label in labels)
        text = f"group by ({place}, {', '.join(labels)}) ({has_one})"
        yield _Question(quantity=TrackedQuantity.POD_LABELS, text=text, targets=targets, grid=None)


def _requirements(target: TrackedTarget) -> Iterator[LabelRequirement]:
    for backend in target.backends:
        yield from LabelSelector(match_labels=backend.pod_labels).requirements
    for _, _, source in policy_metrics(target, PodMetric):
        yield from source.selector.requirements


def _about_replicas(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[_Question]:
    for kind, label, candidates in (
        ("Deployment", "deployment", ("kube_deployment_spec_replicas", "kube_deployment_status_replicas")),
        ("StatefulSet", "statefulset", ("kube_statefulset_replicas", "kube_statefulset_status_replicas")),
    ):
        scaling = tuple(each for each in targets if any(kind == backend.scale_target.kind for backend in each.backends))
        if scaling:
            text = " or ".join(f"max by ({names.namespace}, {label}) ({each}{{$where}})" for each in candidates)
            yield _Question(quantity=REPLICAS_OF[kind], text=text, targets=scaling, grid=grid)


def _about_metrics(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[_Question]:
    following: dict[str, dict[ResourceKey, TrackedTarget]] = {}
    # one pod may export a name at several ports, and two jobs may scrape it: their series stay apart
    place = ", ".join((names.namespace, names.pod, *ENDPOINT_LABELS))
    for target in targets:
        for _, _, source in policy_metrics(target, PodMetric):
            following.setdefault(source.name, {})[target.key] = target
    for metric in sorted(filter(is_askable, following)):
        concerned = tuple(following[metric].values())
        series = f"{metric}{{$where}}"
        several = f"count by ({place}) ({series}) > 1"
        text = f"sum by ({place}) ({series})"
        yield _Question(quantity=TrackedQuantity.METRIC.of(metric), text=text, targets=concerned, grid=grid)
        if is_counter(metric):
            text = f"sum by ({place}) (rate({series}[{duration(RATE_WINDOW_S)}]))"
            yield _Question(quantity=TrackedQuantity.RATE.of(metric), text=text, targets=concerned, grid=grid)
        else:
            yield _Question(
                quantity=TrackedQuantity.BUCKETS.of(metric),
                text=f"sum by ({place}, le) ({metric}_bucket{{$where}})",
                targets=concerned,
                grid=grid.reach_back(EXPIRY_S),
                series=BUCKETS,
            )
            several += f' or count by ({place}) ({metric}_bucket{{le="+Inf",$where}}) > 1'
        yield _Question(quantity=TrackedQuantity.LABEL_SETS.of(metric), text=several, targets=concerned, grid=None)


def _about_activity(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[_Question]:
    waiting = tuple(target for target in targets if target.grace_s > 0)
    for quantity in QUANTITIES if waiting else ():
        if quantity.name in ACTIVITY:
            text = render(replace(quantity, by=("namespace", "pod")), names, "$where", RATE_WINDOW_S)
            yield _Question(quantity=ACTIVITY[quantity.name], text=text, targets=waiting, grid=grid)


def _cut(
    question: _Question, cluster: str, settings: PrometheusSettings, grid: Grid, sample_budget: int
) -> Iterator[Query]:
    """The question as queries, each expected to answer with at most `sample_budget` points."""
    expected = _expected_series(question.targets, question.series)
    ticks = question.grid.count if question.grid else 1
    for batch in batches_of(expected, max(sample_budget // ticks, 1)) if question.named else [[]]:
        text = Template(question.text).substitute(where=matchers(settings, batch))
        if question.grid is None:
            yield instant_query(cluster, question.quantity, text, grid.end_s)
            continue
        series = sum(expected[name] for name in batch) if batch else sum(expected.values())
        for part in question.grid.parts(max(sample_budget // series, 1) if question.named else ticks):
            yield range_query(cluster, question.quantity, text, part)


def _expected_series(targets: Iterable[TrackedTarget], of_pod: int) -> Mapping[str, int]:
    expected: dict[str, int] = {}
    for target in targets:
        for backend in target.backends:
            pods = max(backend.replicas or 0, 1) * max(backend.pods_per_replica, 1)
            namespace = backend.scale_target.namespace
            expected[namespace] = min(expected.get(namespace, 0) + pods * of_pod, MOST_PODS * of_pod)
    return expected
