"""What a Prometheus has: known metrics, missing labels, models by name, and how far back. Queries and answers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from reconciler.domain.answers import Answer, NoAnswer, Query, Sample
from reconciler.domain.records import dataclass
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.answers import decode
from reconciler.metrics.engines import SOURCES
from reconciler.metrics.engines.serving_engine import ServingEngine
from reconciler.metrics.quantities import LIVE_REPLICAS, POD_OWNERS, UNSCHEDULABLE, Quantity
from reconciler.metrics.queries import LabelNames, instant_query, label_names, matchers
from reconciler.metrics.readings import Served, reported_model

METRICS, LABELS, MODELS, OLDEST = "metrics", "labels", "models", "oldest"
"""The questions, as `Query.quantity` has them."""
LACKS, HAS = "lacks", "has"
"""Labels of the answer about labels: what is missing, and what is there in its place."""
EXPORTED = "exported_"
"""The prefix that a scrape without `honorLabels` gives to labels that its target has too."""
NODES, REQUESTS = "kube_node_status_allocatable", "kube_pod_container_resource_requests"
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
"""Without these nothing is decided about a model."""


def metrics_of(engine: ServingEngine) -> Mapping[str, tuple[str, ...]]:
    """Quantity -> the metrics that the engine exports for it, the best first; quantities without any are left out."""
    found = {quantity: _named(texts(engine)) for quantity, texts in _QUANTITIES.items()}
    return {quantity: names for quantity, names in found.items() if names}


def metrics_in(*quantities: Quantity) -> tuple[str, ...]:
    """The metrics that quantities are made of."""
    return _named(text for quantity in quantities for text in quantity.candidates)


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in _SELECTED.findall(text)))


def survey_queries(cluster: ClusterSettings, now_s: float, oldest_s: float) -> tuple[Query, ...]:
    """Four instant queries; `oldest_s` (Unix seconds) is as far back as a run asks. Empty without a Prometheus."""
    settings = cluster.prometheus
    if settings is None:
        return ()
    where, names = matchers(settings), label_names(settings)
    of_engines = (name for engine in SOURCES for found in metrics_of(engine).values() for name in found)
    of_kubernetes = (*metrics_in(*POD_OWNERS, LIVE_REPLICAS, UNSCHEDULABLE), NODES, REQUESTS)
    everything = _any_of(dict.fromkeys((*of_engines, *of_kubernetes)), where)
    running = [gauge.metric for engine in SOURCES for gauge in engine.running]
    return (
        instant_query(cluster.name, METRICS, f"count by (__name__) ({everything})", now_s),
        instant_query(cluster.name, LABELS, " or ".join(_labels(names, running, where)), now_s),
        instant_query(
            cluster.name, MODELS, f"count by ({names.namespace}, {names.model}) ({_any_of(running, where)})", now_s
        ),
        instant_query(cluster.name, OLDEST, f"count({everything})", oldest_s),
    )


def _labels(names: LabelNames, running: Iterable[str], where: str) -> Iterator[str]:
    naming = [gauge.metric for engine in SOURCES if engine.names_model for gauge in engine.running]
    for label in (names.namespace, names.pod, names.model):
        lacking = _any_of(naming if label == names.model else running, f'{label}=""', where)
        yield f'label_replace(count({lacking}), "{LACKS}", "{label}", "", "")'
    for label in (names.namespace, names.pod):
        having = _any_of(running, f'{EXPORTED}{label}!=""', where)
        yield f'label_replace(count({having}), "{HAS}", "{EXPORTED}{label}", "", "")'


def _any_of(metrics: Iterable[str], *where: str) -> str:
    return "{" + ",".join(filter(None, (f'__name__=~"{"|".join(metrics)}"', *where))) + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one Prometheus has now; a question without an answer found nothing.

    `metrics` are known metrics with their number of series, `lacking` the labels missing on series of replicas and
    `exported` those in their place, each with the series concerned; `models` report. `reaches_back` says whether there
    is anything as old as what a run asks for.
    """

    metrics: Mapping[str, int] = field(default_factory=dict)
    lacking: Mapping[str, int] = field(default_factory=dict)
    exported: Mapping[str, int] = field(default_factory=dict)
    models: frozenset[Served] = frozenset()
    reaches_back: bool = False


def read_survey(answers: Iterable[Answer], names: LabelNames) -> Survey:
    """The survey of one cluster, whose labels are spelled as `names`."""
    found: dict[str, tuple[Sample, ...]] = {}
    for answer in answers:
        decoded = decode(answer)
        found[answer.query.quantity] = () if isinstance(decoded, NoAnswer) else decoded

    def counted(question: str, label: str) -> dict[str, int]:
        samples = found.get(question, ())
        return {sample.labels[label]: int(sample.value) for sample in samples if label in sample.labels}

    return Survey(
        metrics=counted(METRICS, "__name__"),
        lacking=counted(LABELS, LACKS),
        exported=counted(LABELS, HAS),
        models=frozenset(reported_model(sample.labels, names) for sample in found.get(MODELS, ())),
        reaches_back=bool(found.get(OLDEST)),
    )
