"""What a Prometheus has: metrics by name, missing labels, models by name, and how far back."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.answers import Answer, NoAnswer, Query, Sample
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.answers import decode
from reconciler.metrics.engines import SOURCES, ServingEngine
from reconciler.metrics.quantities import LIVE_REPLICAS, POD_OWNERS, UNSCHEDULABLE, Quantity
from reconciler.metrics.queries import LabelNames, label_names, matchers
from reconciler.metrics.readings import Served

# --- was reconciler/metrics/queries/survey.py:
# What is asked to see what a Prometheus has: metrics by name, labels that lack, models by name, how far back.

METRICS, LABELS, MODELS, OLDEST = "metrics", "labels", "models", "oldest"
"""The questions, as they stand in `Query.quantity`."""
LACKS, HAS = "lacks", "has"
"""Labels of the answer about labels: what is not there, and what is there in its place."""
EXPORTED = "exported_"
"""What a scrape without `honorLabels` puts before labels that its target has too."""
NODES, REQUESTS = "kube_node_status_allocatable", "kube_pod_container_resource_requests"
_NAMING = ("vllm:", "vllm_", "sglang:", "sglang_")
_SELECTED = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{")

_QUANTITIES: Mapping[str, Callable[[ServingEngine], Iterable[str]]] = {
    "running requests": lambda engine: (each.now() for each in engine.running),
    "waiting requests": lambda engine: (each.now() for each in engine.waiting),
    "finished requests": lambda engine: (each.gain() for each in engine.finished),
    "input tokens": lambda engine: (each.latest() for each in engine.input_tokens),
    "output tokens": lambda engine: (each.latest() for each in engine.output_tokens),
    "time between tokens": lambda engine: (each.latest() for each in engine.itl),
    "time to first token": lambda engine: (each.latest() for each in engine.ttft),
    "time in the queue": lambda engine: (each.latest() for each in engine.wait),
    "KV cache usage": lambda engine: (each.peak() for each in engine.kv_cache_usage),
}
ESSENTIAL = frozenset({"running requests", "finished requests", "output tokens"})
"""Without these nothing of a model is decided."""


def metrics_of(engine: ServingEngine) -> Mapping[str, tuple[str, ...]]:
    """Quantity -> the metrics that the engine tells it by, the best first; what it does not tell has no key."""
    told = {quantity: _named(texts(engine)) for quantity, texts in _QUANTITIES.items()}
    return {quantity: names for quantity, names in told.items() if names}


def metrics_in(quantity: Quantity) -> tuple[str, ...]:
    """The metrics that a quantity is made of."""
    return _named(quantity.candidates)


def owner_metrics() -> tuple[str, ...]:
    """What tells whose a pod is."""
    return tuple(name for quantity in POD_OWNERS for name in metrics_in(quantity))


def survey_queries(cluster: ClusterSettings, now_s: float, oldest_s: float) -> tuple[Query, ...]:
    """Four instant queries; `oldest_s` (Unix seconds) is as far back as a run asks. Empty without a Prometheus."""
    settings = cluster.prometheus
    if settings is None:
        return ()
    where, names = matchers(settings), label_names(settings)
    everything = _any_of(_known_metrics(), where)
    reporting = _any_of(_running(), where)
    texts = (
        (METRICS, f"count by (__name__) ({everything})", now_s),
        (LABELS, " or ".join(_labels(settings, where)), now_s),
        (MODELS, f"count by ({names.namespace}, {names.model}) ({reporting})", now_s),
        (OLDEST, f"count({everything})", oldest_s),
    )
    return tuple(
        Query(cluster=cluster.name, quantity=name, text=text, start_s=at_s, end_s=at_s) for name, text, at_s in texts
    )


def _labels(settings: PrometheusSettings, where: str) -> Iterator[str]:
    names = label_names(settings)
    for label in (names.namespace, names.pod, names.model):
        metrics = _running(names_model=True) if label == names.model else _running()
        lacking = _any_of(metrics, ",".join(filter(None, (f'{label}=""', where))))
        yield f'label_replace(count({lacking}), "{LACKS}", "{label}", "", "")'
    for label in (names.namespace, names.pod):
        having = _any_of(_running(), ",".join(filter(None, (f'{EXPORTED}{label}!=""', where))))
        yield f'label_replace(count({having}), "{HAS}", "{EXPORTED}{label}", "", "")'


def _running(*, names_model: bool = False) -> tuple[str, ...]:
    """The metric of each engine that says that a replica runs; of those that name their model, if that is asked."""
    gauges = (gauge for engine in SOURCES for gauge in engine.running)
    return tuple(
        gauge.metric
        for gauge in gauges
        if not names_model or gauge.metric.startswith(("vllm:", "vllm_", "sglang:", "sglang_"))
    )


def _known_metrics() -> tuple[str, ...]:
    told = [name for engine in SOURCES for names in metrics_of(engine).values() for name in names]
    kubernetes = [*owner_metrics(), *metrics_in(LIVE_REPLICAS), *metrics_in(UNSCHEDULABLE), NODES, REQUESTS]
    return tuple(dict.fromkeys([*told, *kubernetes]))


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in _SELECTED.findall(text)))


def _any_of(metrics: Iterable[str], where: str) -> str:
    matcher = f'__name__=~"{"|".join(metrics)}"'
    return f"{{{matcher},{where}}}" if where else f"{{{matcher}}}"


# --- was reconciler/metrics/reading/survey.py:
# What the answers of a survey say: which metrics there are, which labels lack, which models report.


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one Prometheus has now; a question without an answer found nothing.

    `metrics` are known metrics with their series, `lacking` the labels that series of replicas do without and
    `exported` those that stand in their place, each with the series that do; `models` report. `reaches_back` says
    whether there is anything as old as what a run asks for.
    """

    metrics: Mapping[str, int] = field(default_factory=dict)
    lacking: Mapping[str, int] = field(default_factory=dict)
    exported: Mapping[str, int] = field(default_factory=dict)
    models: frozenset[Served] = frozenset()
    reaches_back: bool = False


def read_survey(answers: Iterable[Answer], names: LabelNames) -> Survey:
    """The survey of one cluster, whose labels are spelled as `names`."""
    found = {answer.query.quantity: _samples(answer) for answer in answers}
    labels = found.get(LABELS, ())
    return Survey(
        metrics=_counted(found.get(METRICS, ()), "__name__"),
        lacking=_counted(labels, LACKS),
        exported=_counted(labels, HAS),
        models=frozenset(
            Served(sample.labels.get(names.namespace, ""), sample.labels.get(names.model, ""))
            for sample in found.get(MODELS, ())
        ),
        reaches_back=bool(found.get(OLDEST)),
    )


def _samples(answer: Answer) -> tuple[Sample, ...]:
    decoded = decode(answer)
    return () if isinstance(decoded, NoAnswer) else decoded


def _counted(samples: Iterable[Sample], label: str) -> dict[str, int]:
    return {sample.labels[label]: int(sample.value) for sample in samples if label in sample.labels}
