"""What is asked for metric targets: one query for each metric and cluster, however many targets follow it."""

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
from reconciler.metrics.answers import Grid, grid_for, reach_back
from reconciler.metrics.quantities import QUANTITIES, Name
from reconciler.metrics.queries import LabelNames, batches_of, duration, exported_label, label_names, matchers, render
from reconciler.metrics.tracked_pods import ENDPOINT_LABELS, EXPIRY_S

# --- was reconciler/metrics/tracked/sources.py:
# Where the metrics of policies come from, and how their pods are told apart by labels.

Source = TypeVar("Source", PodMetric, PrometheusMetric)
Exported: TypeAlias = tuple[str, int | None, str | None]
"""A metric's name with the port and path that a policy names, if any."""
METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
COUNTER = "_total"
ORIGIN = re.compile(r"(https?)://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^:/?#@]*)(?::([0-9]*))?(?=[/?#]|$)", re.IGNORECASE)
PORTS = {"http": "80", "https": "443"}


def is_counter(metric: str) -> bool:
    """Whether a metric's name says that it only ever grows."""
    return metric.endswith(COUNTER)


def is_askable(metric: str) -> bool:
    """Whether any series could have that name."""
    return METRIC_NAME.fullmatch(metric) is not None


def exported_at(source: PodMetric) -> Exported:
    """What tells the series of one source from those of another, whichever pods it is about."""
    return source.name, source.port, source.uri


def pod_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PodMetric]]:
    """Each metric of a target's policy that pods export, with the position of their backend."""
    return _metrics(target, PodMetric)


def external_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PrometheusMetric]]:
    """Each metric of a target's policy that a query of its own answers, with the position of its backend."""
    return _metrics(target, PrometheusMetric)


def _metrics(target: TrackedTarget, kind: type[Source]) -> Iterator[tuple[str, int, Source]]:
    for metric in target.policy.metrics:
        for position, backend in enumerate(target.backends):
            source = backend.source_of(metric.name)
            if isinstance(source, kind):
                yield metric.name, position, source


def foreign_origin(source: PrometheusMetric, settings: PrometheusSettings) -> str:
    """The origin that a policy's query is meant for, when it is not this Prometheus; else empty."""
    theirs, ours = _origin(source.server_url), _origin(settings.url)
    return theirs if source.server_url and theirs != ours else ""


def selected_labels(targets: Iterable[TrackedTarget]) -> tuple[str, ...]:
    """The labels, as kube-state-metrics spells them, that tell the targets' pods apart."""
    return tuple(sorted({exported_label(each.key) for target in targets for each in _requirements(target)}))


def _requirements(target: TrackedTarget) -> Iterator[LabelRequirement]:
    for backend in target.backends:
        yield from LabelSelector(match_labels=backend.pod_labels).requirements
    for _, _, source in pod_metrics(target):
        yield from source.selector.requirements


def _origin(url: str) -> str:
    found = ORIGIN.match(url)
    if not found:
        return url
    scheme = found[1].lower()
    return f"{scheme}://{found[2].lower()}:{found[3] or PORTS[scheme]}"


# --- was reconciler/metrics/tracked/queries.py:
# What is asked for metric targets: one query a metric and cluster, however many targets follow it.

SAMPLE_BUDGET = 1_000_000
"""Points that one query may be expected to answer with: about 25 MB."""
BUCKETS = 20
"""How many series of a histogram a pod is expected to have."""
MOST_PODS = 20_000
"""Beyond so many expected pods a query is cut no finer: nobody runs them."""
RATE_WINDOW_S = 120.0
"""Over which counters are read as rates: two scrapes a minute apart are in it."""


class TrackedQuantity(StrEnum):
    """What a query is for; for a metric its name follows after a space, for a policy's own that of the policy, too."""

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
"""What tells an idle pod, whatever its engine."""
REPLICAS_OF = {"Deployment": TrackedQuantity.DEPLOYMENTS, "StatefulSet": TrackedQuantity.STATEFUL_SETS}
"""Which series tells the replicas of a kind; of any other its pods are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQuery:
    """A query before it is cut: `text` with `$where` for the matchers, asked about the pods of `targets`.

    `grid` None asks about now. Each pod is expected to answer with so many `series`. Without `named` namespaces it is
    asked about the whole cluster.
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
    grid = grid_for(ours, now_s)
    names = label_names(settings)
    questions = [
        *_about_pods(ours, grid, names),
        *_about_replicas(ours, grid, names),
        *_about_metrics(ours, grid, names),
        *_about_activity(ours, grid, names),
    ]
    cut = (query for each in questions for query in _cut(each, cluster.name, settings, grid, sample_budget))
    return (*cut, *_external(ours, cluster.name, settings, grid))


def _about_pods(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[WholeQuery]:
    place = f"{names.namespace}, {names.pod}"
    ready = f'max by ({place}) (kube_pod_status_ready{{condition="true",$where}})'
    # a pod that was evicted, or is done, stays for a while and never comes back
    over = 'kube_pod_status_phase{phase=~"Failed|Succeeded",$where} == 1'
    yield WholeQuery(
        quantity=TrackedQuantity.READY, text=f"{ready} unless on ({place}) ({over})", targets=targets, grid=grid
    )
    if any(each.scale_target.kind not in REPLICAS_OF for target in targets for each in target.backends):
        text = 'count(kube_pod_status_ready{condition="true",$where})'
        yield WholeQuery(quantity=TrackedQuantity.COUNTED, text=text, targets=targets, grid=grid, named=False)
    labels = selected_labels(targets)
    if labels:
        window = duration(max(grid.end_s - grid.start_s, grid.step_s))
        has_one = " or ".join(f'last_over_time(kube_pod_labels{{{label}!="",$where}}[{window}])' for label in labels)
        text = f"group by ({place}, {', '.join(labels)}) ({has_one})"
        yield WholeQuery(quantity=TrackedQuantity.POD_LABELS, text=text, targets=targets, grid=None)


def _about_replicas(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[WholeQuery]:
    kinds = {each.scale_target.kind for target in targets for each in target.backends}
    for kind, label, candidates in (
        ("Deployment", "deployment", ("kube_deployment_spec_replicas", "kube_deployment_status_replicas")),
        ("StatefulSet", "statefulset", ("kube_statefulset_replicas", "kube_statefulset_status_replicas")),
    ):
        if kind in kinds:
            text = " or ".join(f"max by ({names.namespace}, {label}) ({each}{{$where}})" for each in candidates)
            yield WholeQuery(quantity=REPLICAS_OF[kind], text=text, targets=_scaling(targets, kind), grid=grid)


def _scaling(targets: tuple[TrackedTarget, ...], kind: str) -> tuple[TrackedTarget, ...]:
    return tuple(each for each in targets if any(backend.scale_target.kind == kind for backend in each.backends))


def _about_metrics(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[WholeQuery]:
    following: dict[str, dict[ResourceKey, TrackedTarget]] = {}
    # where a pod exports one name at several ports, or two jobs scrape it, its series are told apart
    place = ", ".join((names.namespace, names.pod, *ENDPOINT_LABELS))
    for target in targets:
        for _, _, source in pod_metrics(target):
            following.setdefault(source.name, {})[target.key] = target
    for metric in sorted(filter(is_askable, following)):
        concerned = tuple(following[metric].values())
        series = f"{metric}{{$where}}"
        several = f"count by ({place}) ({series}) > 1"
        yield WholeQuery(
            quantity=TrackedQuantity.METRIC.of(metric),
            text=f"sum by ({place}) ({series})",
            targets=concerned,
            grid=grid,
        )
        if is_counter(metric):
            text = f"sum by ({place}) (rate({series}[{duration(RATE_WINDOW_S)}]))"
            yield WholeQuery(quantity=TrackedQuantity.RATE.of(metric), text=text, targets=concerned, grid=grid)
        else:
            yield WholeQuery(
                quantity=TrackedQuantity.BUCKETS.of(metric),
                text=f"sum by ({place}, le) ({metric}_bucket{{$where}})",
                targets=concerned,
                grid=reach_back(grid, EXPIRY_S),
                series=BUCKETS,
            )
            several += f' or count by ({place}) ({metric}_bucket{{le="+Inf",$where}}) > 1'
        yield WholeQuery(quantity=TrackedQuantity.LABEL_SETS.of(metric), text=several, targets=concerned, grid=None)


def _about_activity(targets: tuple[TrackedTarget, ...], grid: Grid, names: LabelNames) -> Iterator[WholeQuery]:
    waiting = tuple(target for target in targets if target.grace_s > 0)
    for quantity in QUANTITIES if waiting else ():
        if quantity.name in ACTIVITY:
            by_pod = replace(quantity, by=("namespace", "pod"))
            text = render(by_pod, names, "$where", RATE_WINDOW_S)
            yield WholeQuery(quantity=ACTIVITY[quantity.name], text=text, targets=waiting, grid=grid)


def _external(
    targets: Iterable[TrackedTarget], cluster: str, settings: PrometheusSettings, grid: Grid
) -> Iterator[Query]:
    """The policies' own queries as they are written, each once; what is meant for another server is not asked here."""
    texts: dict[str, str] = {}
    for target in targets:
        for metric, _, source in external_metrics(target):
            if not foreign_origin(source, settings):
                texts.setdefault(source.query, TrackedQuantity.EXTERNAL.of(f"{target.key.label} {metric}"))
    for text, quantity in texts.items():
        yield Query(
            cluster=cluster,
            quantity=quantity,
            text=text,
            start_s=grid.start_s,
            end_s=grid.end_s,
            step_s=grid.step_s,
        )


def _cut(
    question: WholeQuery, cluster: str, settings: PrometheusSettings, grid: Grid, sample_budget: int
) -> Iterator[Query]:
    """The question as queries, none of which is expected to answer with more than `sample_budget` points."""
    expected = _expected_series(question)
    ticks = question.grid.count if question.grid else 1
    budget = max(sample_budget // ticks, 1)
    for batch in batches_of(expected, budget) if question.named else [[]]:
        text = Template(question.text).substitute(where=matchers(settings, batch))
        series = sum(expected[name] for name in batch) if batch else sum(expected.values())
        if question.grid is None:
            yield Query(cluster=cluster, quantity=question.quantity, text=text, start_s=grid.end_s, end_s=grid.end_s)
            continue
        for part in question.grid.parts(max(sample_budget // series, 1) if question.named else ticks):
            yield Query(
                cluster=cluster,
                quantity=question.quantity,
                text=text,
                start_s=part.start_s,
                end_s=part.end_s,
                step_s=part.step_s,
            )


def _expected_series(question: WholeQuery) -> Mapping[str, int]:
    """The series of each namespace, by the replicas that Git has."""
    expected: dict[str, int] = {}
    for target in question.targets:
        for backend in target.backends:
            pods = max(backend.replicas or 0, 1) * max(backend.pods_per_replica, 1)
            namespace = backend.scale_target.namespace
            expected[namespace] = min(expected.get(namespace, 0) + pods * question.series, MOST_PODS * question.series)
    return expected
