"""What is asked for metric targets: one query for each metric and cluster, however many targets follow it.

Metrics of a policy are exported by pods (`PodMetric`) or answered by a query of its own (`PrometheusMetric`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from string import Template
from typing import TypeAlias, TypeVar

from reconciler.domain.answers import Query
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import LabelRequirement, LabelSelector, PodMetric, PrometheusMetric, TrackedTarget
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.answers import Grid, grid_for
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
from reconciler.metrics.tracked_pods import ENDPOINT_LABELS, EXPIRY_S

SAMPLE_BUDGET = 1_000_000
"""Points that one query may be expected to answer with: about 25 MB."""
BUCKETS = 20
"""How many series of a histogram a pod is expected to have."""
MOST_PODS = 20_000
"""With more expected pods than this a query is cut no finer: nobody runs as many."""
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
    """What separates the series of one source from those of another, whichever pods they are from."""
    return source.name, source.port, source.uri


def pod_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PodMetric]]:
    """Each metric of a target's policy that pods export, with the position of their backend."""
    return _metrics(target, PodMetric)


def external_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PrometheusMetric]]:
    """Each metric of a target's policy that has a query of its own, with the position of its backend."""
    return _metrics(target, PrometheusMetric)


def _metrics(target: TrackedTarget, kind: type[Source]) -> Iterator[tuple[str, int, Source]]:
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
"""What shows that a pod is idle, whatever its engine."""
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
    """All that is asked of one cluster for its targets, on a grid of 15 s that ends at `now_s` (Unix seconds).

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
        for metric, _, source in external_metrics(target):
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
    for _, _, source in pod_metrics(target):
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
        for _, _, source in pod_metrics(target):
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
    """The series of each namespace, by the replicas in Git."""
    expected: dict[str, int] = {}
    for target in targets:
        for backend in target.backends:
            pods = max(backend.replicas or 0, 1) * max(backend.pods_per_replica, 1)
            namespace = backend.scale_target.namespace
            expected[namespace] = min(expected.get(namespace, 0) + pods * of_pod, MOST_PODS * of_pod)
    return expected
