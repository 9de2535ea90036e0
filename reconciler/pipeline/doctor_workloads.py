"""What doctor checks of serving workloads: what each reports, the scrape that is missing, and what is not managed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.answers import Absence
from reconciler.domain.identity import ResourceKey
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import Check, Level, warning, well
from reconciler.domain.snapshot import Form, Snapshot, Variant
from reconciler.domain.workloads import Workload
from reconciler.metrics.engines import ENGINES
from reconciler.metrics.engines.serving_engine import ServingEngine
from reconciler.rendering.renderer import Renderer
from reconciler.report.formatting import count, one_line

TEMPLATE = "doctor/pod-monitor.yaml.j2"
RULE, UNMANAGED, AUTOSCALERS = "workload-metrics", "unmanaged-workloads", "autoscalers"
NAMED = 3
_COMMON_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "app")
"""By which label pods of several workloads are selected, if all have one of these."""
_INSTANCE_FIELDS: Mapping[str, str] = {
    "kv_cache_usage": "KV cache usage",
    "kv_tokens": "KV cache size",
    "num_waiting": "waiting requests",
    "num_running": "running requests",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}
_NEEDED = frozenset({"KV cache usage", "KV cache size", "waiting requests"})
"""Without these a variant without a profile is not sized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMonitorView:
    """A PodMonitor for the pods of some workloads; `port` is a name, else `number` is the port that is declared."""

    target_namespace: str
    name: str
    key: str
    values: tuple[str, ...]
    path: str
    port: str = ""
    number: str = ""
    note: str = ""


def check_workloads(snapshot: Snapshot, broken: Iterable[str], renderer: Renderer) -> Iterator[Check]:
    """Every managed workload by what its replicas report, and one line for those that are not managed.

    `broken` are clusters whose Prometheus is said to fail already.
    """
    measured = {each.name for each in snapshot.settings.clusters if each.prometheus is not None} - {*broken}
    adopted = [each for each in snapshot.variants if each.form is Form.ADOPTED and each.key.cluster in measured]
    silent = [each for each in adopted if _is_silent(snapshot, each.key)]
    yield from _reports(snapshot, [each for each in adopted if each not in silent])
    yield from _monitors(silent, renderer)
    for cluster in snapshot.settings.clusters:
        found = [each.key for each in snapshot.unmanaged if each.key.cluster == cluster.name]
        if found:
            names = ", ".join(one_line(key.label) for key in found[:NAMED])
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            words = f"{count(len(found), 'serving workload')} not managed: {names}{more}: `reconciler init --adopt`"
            yield well(cluster.name, UNMANAGED, words)
    yield from _autoscalers(snapshot)


def _autoscalers(snapshot: Snapshot) -> Iterator[Check]:
    """What each autoscaler that is tuned goes by; and that others could be, where people merge."""
    for key, tuned in sorted(snapshot.tuned.items()):
        if tuned.metric is not None:
            words = f"{one_line(key.label)}: its autoscaler goes by {tuned.metric.signal}, by {tuned.metric.source}"
            yield well(key.cluster, AUTOSCALERS, words)
        elif tuned.hold is None:
            words = f"{one_line(key.label)}: only bounds are proposed of its autoscaler: {tuned.scaler.bounds_only}"
            yield well(key.cluster, AUTOSCALERS, words)
    if snapshot.settings.pull_requests.auto_merge:
        return
    for cluster in snapshot.settings.clusters:
        bounded = [each for each in snapshot.variants if each.is_autoscaled and each.key.cluster == cluster.name]
        untuned = sum(each.tuned is None for each in bounded)
        if untuned:
            words = (
                f"{count(untuned, 'autoscaler')} with bounds from pull requests: where a person merges, "
                "whenAutoscaled: tune proposes targets and windows, which change seldom"
            )
            yield well(cluster.name, AUTOSCALERS, words)


def _is_silent(snapshot: Snapshot, variant: ResourceKey) -> bool:
    found = snapshot.observed.observations.get(variant)
    return found is not None and found.absence is not None and found.absence.absence is Absence.MISSING


def _reports(snapshot: Snapshot, variants: Sequence[Variant]) -> Iterator[Check]:
    """What replicas report, once for all workloads of which the same is there and missing."""
    same: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for variant in variants:
        there, missing = _quantities(snapshot, variant.key)
        if there:
            same.setdefault((variant.key.cluster, there, missing), []).append(variant.key.label)
    for (cluster, there, missing), labels in same.items():
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        words = f"{one_line(labels[0])}{others}: replicas report {', '.join(there)}"
        needed = [each for each in missing if each in _NEEDED]
        if not missing:
            yield well(cluster, RULE, words)
        elif not needed:
            yield well(cluster, RULE, f"{words}; not {', '.join(missing)}")
        else:
            cure = "look at what the scrape drops (metricRelabelings), and whether the engine exports it"
            yield warning(cluster, RULE, f"{words}; not {', '.join(missing)}", cure)


def _quantities(snapshot: Snapshot, variant: ResourceKey) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The quantities that a replica reports, and the others."""
    replicas = snapshot.observed.replicas.get(variant, ())
    observed = snapshot.observed.observations.get(variant)
    values: dict[str, bool] = {
        words: any(getattr(each, field) is not None for each in replicas) for field, words in _INSTANCE_FIELDS.items()
    }
    if observed is not None:
        performance = observed.performance
        values["time between tokens"] = performance.itl_s is not None
        values["time to first token"] = performance.ttft_s is not None
        values["time in the queue"] = performance.wait_s is not None
    there = tuple(words for words, is_there in values.items() if is_there)
    return there, tuple(words for words in values if words not in there)


def _monitors(variants: Sequence[Variant], renderer: Renderer) -> Iterator[Check]:
    """What no series is there of, with the PodMonitor that scrapes it: one for each namespace, engine and port."""
    groups: dict[tuple[str, str, str, str], list[Workload]] = {}
    for variant in variants:
        workload = variant.workload
        if workload is not None and workload.engine in ENGINES and workload.template_labels:
            key = variant.key
            groups.setdefault((key.cluster, key.namespace, workload.engine, workload.port), []).append(workload)
    for (cluster, _, name, _), workloads in groups.items():
        engine = ENGINES[name]
        first = workloads[0].key.label
        others = f" and {len(workloads) - 1} more" if len(workloads) > 1 else ""
        views = _views(workloads, engine)
        cure = "add what is below to the scrape of your Prometheus" + (
            f"; {name} exports metrics only with {engine.enabled_by}" if engine.enabled_by else ""
        )
        yield Check(
            level=Level.WARN,
            subject=cluster,
            rule=RULE,
            words=f"{one_line(first)}{others}: no series of {name} at all",
            cure=cure,
            manifest="---\n".join(renderer.render(TEMPLATE, view) for view in views),
        )


def _views(workloads: Sequence[Workload], engine: ServingEngine) -> Iterator[PodMonitorView]:
    """One monitor where all pods have one label in common, else one for each workload."""
    common = [key for key in _COMMON_LABELS if all(key in each.template_labels for each in workloads)]
    if common:
        yield _view(workloads, common[0], engine)
        return
    for workload in workloads:
        yield _view((workload,), min(workload.template_labels), engine)


def _view(workloads: Sequence[Workload], key: str, engine: ServingEngine) -> PodMonitorView:
    first = workloads[0]
    view = PodMonitorView(
        target_namespace=first.key.namespace,
        name=f"{engine.name}-metrics" if len(workloads) > 1 else first.key.name,
        key=key,
        values=tuple(sorted({each.template_labels[key] for each in workloads})),
        path=engine.path,
    )
    if first.port and not first.port.isdigit():
        return replace(view, port=first.port)
    number = first.port or str(engine.port)
    note = "" if first.port else f"the container must declare containerPort {number}, which it does not"
    return replace(view, number=number, note=note)
