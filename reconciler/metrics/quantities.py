"""The quantities of a run: name, labels, window, and the PromQL for each, from the records in `engines`.

`QUANTITIES` are queried in every run, `SATURATION_QUANTITIES` for sizing by saturation; `HISTORY`, `PAST`, `USUAL`,
`OBJECTS` and `OWNERS` over time.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from reconciler.domain.records import dataclass, replace
from reconciler.metrics.engines import SOURCES, offered
from reconciler.metrics.engines.serving_engine import CounterRatio, ServingEngine
from reconciler.metrics.routers import MODEL as ROUTED_MODEL
from reconciler.metrics.routers import ROUTERS

WINDOW_S = 300.0
"""The window of rates and means: long enough for a scrape every minute, short enough to see a changing load."""
PEAK_WINDOW_S = 60.0
OWNERSHIP_WINDOW_S = 600.0
"""A deleted pod still counts in rates over their window, so its owner is remembered longer."""
LIVE_WINDOW_S = 120.0
"""How old a sample of the present may be: two scrapes a minute apart, of which one may fail."""
RETENTION_S = 600.0
"""How long requests are counted before a model may go to zero."""
STORED_WINDOW_S = 86_400.0
"""How long the capacity of deleted pods is remembered."""
LEARNING_WINDOW_S = 120.0
"""One window for all samples that are learned from together: just two scrapes a minute apart."""

VARIANT_LABEL = "llm_d_ai_variant"
POD_LABEL_OF_VARIANT = f"label_{VARIANT_LABEL}"
CLUSTER = "cluster"
BOUND = "le"
ALTERNATIVE = "alternative"
"""The label with the number of the candidate that a series is from, counted from 0."""
PICKER_MODEL = "model_name"
PICKER_TARGET_MODEL = "target_model_name"
HPA = "horizontalpodautoscaler"
WORKLOAD_LABELS = {"Deployment": "deployment", "StatefulSet": "statefulset"}
"""The kinds whose replicas kube-state-metrics exports, with the label that names the object."""


class Name(StrEnum):
    """Canonical names of quantities: `Query.quantity`, and the keys of `Trace.series`."""

    COMPLETIONS = "completions"  # req/s that finished
    QUEUE_GROWTH = "queue_growth"  # req/s that arrived and have not finished
    ARRIVALS_CONFIGURED = "arrivals_configured"  # req/s, by a query of the configuration
    ARRIVALS_ENDPOINT_PICKER = "arrivals_endpoint_picker"  # req/s offered, counted before any queue
    OUTPUT_TOKENS = "output_tokens"  # mean tokens generated for a request
    INPUT_TOKENS = "input_tokens"  # mean tokens of a prompt
    INPUT_BUCKETS = "input_buckets"  # req/s by length of prompt: how much lengths vary
    ITL = "itl"  # s, mean gap between output tokens
    WAIT = "wait"  # s, mean time in the queue
    TTFT = "ttft"  # s, mean time from arrival to the first token
    RUNNING = "running"  # requests in the batch
    MOST_RUNNING = "most_running"  # their maximum: a replica cannot finish more than its batch allows
    CHANGES = "changes"  # of running and waiting: metrics that are scraped and never change are stale
    WAITING = "waiting"  # requests that wait for a place in the batch
    LAST_SEEN = "last_seen"  # Unix seconds of the newest sample
    POD_LABELS = "pod_labels"
    POD_OWNER = "pod_owner"
    REPLICASET_OWNER = "replicaset_owner"
    CLUSTER_LABEL = "cluster_label"  # whether one server holds several clusters, when none is configured
    KV_CACHE_USAGE = "kv_cache_usage"  # fraction, the highest of the last minute
    NUM_WAITING = "num_waiting"  # requests, the longest queue of the last minute
    KV_TOKENS = "kv_tokens"  # tokens that the KV cache holds
    PREFIX_HIT_RATE = "prefix_hit_rate"  # fraction of prompts that needs no new room
    FLOW_CONTROL_QUEUE_SIZE = "flow_control_queue_size"  # requests that wait before any replica
    FLOW_CONTROL_QUEUE_BYTES = "flow_control_queue_bytes"  # bytes of their prompts
    REQUESTS_IN_RETENTION = "requests_in_retention"  # requests that finished
    READY_REPLICAS = "ready_replicas"
    UNSCHEDULABLE = "unschedulable"  # pods without a node: further ones would find none either
    QUOTAS = "quotas"  # devices that a namespace may still request
    STORED_KV_TOKENS = "stored_kv_tokens"  # the KV cache of a variant that has no replica now
    LIVE_REPLICAS = "live_replicas"  # `spec.replicas` in the cluster, compared with Git
    MERGED_REPLICAS = "merged_replicas"  # the same around our merges
    RAN_REPLICAS = "ran_replicas"  # the same over the days that a backtest replays
    STARTED_REPLICAS = "started_replicas"  # those that were ready then
    SCALER_METRIC = "scaler_metric"  # what autoscalers go by, each by its own query
    SCALER_DESIRED = "scaler_desired"  # replicas that they ask for
    SCALER_CURRENT = "scaler_current"  # replicas that they find
    NODES = "nodes"
    DEVICE_REQUESTS = "device_requests"
    PAST_COMPLETIONS = "past_completions"
    PAST_QUEUE_GROWTH = "past_queue_growth"
    PAST_ENDPOINT_PICKER = "past_arrivals_endpoint_picker"
    PAST_CONFIGURED = "past_arrivals_configured"
    PAST_OUTPUT_TOKENS = "past_output_tokens"  # tokens/s, as are the other three of the past
    PAST_INPUT_TOKENS = "past_input_tokens"
    DEMAND_COMPLETIONS = "demand_completions"  # req/s over two weeks, which forecasts learn from
    DEMAND_ENDPOINT_PICKER = "demand_endpoint_picker"
    DEMAND_CONFIGURED = "demand_configured"
    FINE_COMPLETIONS = "fine_completions"  # the same minute by minute, which autoscalers are tuned on
    FINE_ENDPOINT_PICKER = "fine_endpoint_picker"
    FINE_CONFIGURED = "fine_configured"
    USUAL_COMPLETIONS = "usual_completions"
    USUAL_OUTPUT_TOKENS = "usual_output_tokens"
    USUAL_INPUT_TOKENS = "usual_input_tokens"


PER_POD = ("namespace", "pod", "model", VARIANT_LABEL)
_PER_PICKED_MODEL = ("namespace", PICKER_MODEL, PICKER_TARGET_MODEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One query to a cluster; its candidates are joined with `or`: the first one that has a series counts.

    `by` are the labels of the answer: namespace, pod and model by the server's names, others literally. In a candidate
    `$by` stands for them, `$unnamed` for them without a label `model`, `$place` for namespace and pod, `$served` for
    namespace and model, `$namespace`, `$pod` and `$model` for one alone, `$where` for the matchers of the cluster,
    `$window` for the duration of `window_s`. Without an answer to an `essential` quantity nothing is decided in the
    cluster. Series that `may_lack_namespace` are queried together with those of the namespaces. With
    `is_numbered` each series has a label with the number of its candidate.
    """

    name: Name
    candidates: tuple[str, ...]
    by: tuple[str, ...] = PER_POD
    essential: bool = False
    may_lack_namespace: bool = False
    is_numbered: bool = False
    window_s: float = WINDOW_S


def _latest(ratios: Callable[[ServingEngine], Iterable[CounterRatio]]) -> tuple[str, ...]:
    return tuple(ratio.latest() for ratio in offered(ratios))


# ---- what counts requests before any queue: routers, and the queues of endpoint pickers

_ARRIVALS = Quantity(
    name=Name.ARRIVALS_ENDPOINT_PICKER,
    by=("namespace", ROUTED_MODEL),
    candidates=tuple(text for router in ROUTERS for text in router.arrivals()),
)


def _flow_control(name: Name) -> Quantity:
    metrics = (f"{prefix}_{name}{{$where}}" for prefix in ("llm_d_epp", "inference_extension"))
    candidates = tuple(f"sum by ($by) ({metric})" for metric in metrics)
    return Quantity(name=name, by=_PER_PICKED_MODEL, candidates=candidates, may_lack_namespace=True)


# ---- kube-state-metrics: owners of pods, replicas, quotas


def _exists(name: Name, metric: str, only: str, *by: str) -> Quantity:
    """Series of `metric` that were there within the window."""
    text = f"group by ($by) (last_over_time({metric}{{{only},$where}}[$window]))"
    return Quantity(name=name, by=("namespace", *by), candidates=(text,), window_s=OWNERSHIP_WINDOW_S)


def _agreed(metric: str, label: str) -> str:
    """The value on which all recent series of an object agree; NaN agrees with nothing."""
    recent = f"last_over_time({metric}{{$where}}[$window])"
    return f"max by ($namespace, {label}) ({recent}) == min by ($namespace, {label}) ({recent})"


POD_OWNERS = (
    _exists(Name.POD_LABELS, "kube_pod_labels", f'{POD_LABEL_OF_VARIANT}!=""', "pod", POD_LABEL_OF_VARIANT),
    _exists(Name.POD_OWNER, "kube_pod_owner", 'owner_kind="ReplicaSet"', "pod", "owner_name"),
    _exists(Name.REPLICASET_OWNER, "kube_replicaset_owner", 'owner_kind="Deployment"', "replicaset", "owner_name"),
)
"""The variant label of a pod, the ReplicaSet of a pod, the Deployment of a ReplicaSet."""
OWNERSHIP = tuple(quantity.name for quantity in POD_OWNERS)
UNSCHEDULABLE = Quantity(
    name=Name.UNSCHEDULABLE,
    by=("namespace", "pod"),
    candidates=("max by ($by) (kube_pod_status_unschedulable{$where}) > 0",),
)
_QUOTA = 'max by ($by) (kube_resourcequota{{resource=~"requests[.].+/.+",type="{}",$where}})'
LIVE_REPLICAS = Quantity(
    name=Name.LIVE_REPLICAS,
    by=("namespace",),
    candidates=(
        _agreed("kube_deployment_spec_replicas", "deployment"),
        _agreed("kube_statefulset_replicas", "statefulset"),
    ),
    window_s=LIVE_WINDOW_S,
)

# ---- the load of every model and the observation of every variant

_RUNNING = offered(lambda engine: engine.running)
_WAITING = offered(lambda engine: engine.waiting)
_FINISHED = offered(lambda engine: engine.finished)
_KV_TOKENS = offered(lambda engine: engine.kv_tokens)
_QUEUEING = [(engine.running[0], engine.waiting[0]) for engine in SOURCES if engine.running and engine.waiting]

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(name=Name.RUNNING, candidates=tuple(gauge.now() for gauge in _RUNNING), essential=True),
    Quantity(
        name=Name.LAST_SEEN, candidates=tuple(text for gauge in _RUNNING for text in gauge.last_seen()), essential=True
    ),
    Quantity(
        name=Name.COMPLETIONS,
        candidates=tuple(counter.gain() for counter in _FINISHED),
        essential=True,
        is_numbered=True,
    ),
    Quantity(name=Name.OUTPUT_TOKENS, candidates=_latest(lambda engine: engine.output_tokens), essential=True),
    Quantity(
        name=Name.QUEUE_GROWTH,
        candidates=tuple(f"{running.growth()} + {waiting.growth()}" for running, waiting in _QUEUEING),
    ),
    _ARRIVALS,
    Quantity(
        name=Name.CHANGES,
        candidates=tuple(f"{running.changes()} + {waiting.changes()}" for running, waiting in _QUEUEING),
    ),
    Quantity(name=Name.INPUT_TOKENS, candidates=_latest(lambda engine: engine.input_tokens)),
    Quantity(
        name=Name.INPUT_BUCKETS,
        by=("namespace", "model", BOUND),
        candidates=tuple(counter.gain() for counter in offered(lambda engine: engine.input_buckets)),
    ),
    Quantity(name=Name.WAITING, candidates=tuple(gauge.now() for gauge in _WAITING)),
    Quantity(name=Name.MOST_RUNNING, candidates=tuple(gauge.most() for gauge in _RUNNING)),
    Quantity(name=Name.ITL, candidates=_latest(lambda engine: engine.itl)),
    Quantity(name=Name.WAIT, candidates=_latest(lambda engine: engine.wait)),
    Quantity(name=Name.TTFT, candidates=_latest(lambda engine: engine.ttft)),
    *POD_OWNERS,
    UNSCHEDULABLE,
    Quantity(
        name=Name.QUOTAS,
        by=("namespace", "resourcequota", "resource"),
        candidates=(f"{_QUOTA.format('hard')} - {_QUOTA.format('used')}",),
    ),
)
"""Queried in each cluster in each run, the essential ones first: a run may be cut short."""
ESSENTIAL = frozenset(quantity.name for quantity in QUANTITIES if quantity.essential)
_IN_A_CLUSTER = f'{CLUSTER}!=""'
CLUSTER_LABEL = Quantity(
    name=Name.CLUSTER_LABEL,
    by=("namespace", CLUSTER),
    candidates=tuple(
        f"group by ($by) ({each.selector})" for each in (gauge.narrowed(_IN_A_CLUSTER) for gauge in _RUNNING)
    ),
)

SATURATION_QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.KV_CACHE_USAGE,
        candidates=tuple(each.peak() for each in offered(lambda engine: engine.kv_cache_usage)),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(name=Name.NUM_WAITING, candidates=tuple(gauge.peak() for gauge in _WAITING), window_s=PEAK_WINDOW_S),
    Quantity(name=Name.KV_TOKENS, candidates=tuple(each.latest() for each in _KV_TOKENS)),
    Quantity(
        name=Name.PREFIX_HIT_RATE,
        candidates=tuple(each.latest() for each in offered(lambda engine: engine.prefix_hit_rate)),
    ),
    _flow_control(Name.FLOW_CONTROL_QUEUE_SIZE),
    _flow_control(Name.FLOW_CONTROL_QUEUE_BYTES),
    Quantity(
        name=Name.REQUESTS_IN_RETENTION,
        candidates=tuple(counter.gain("increase") for counter in _FINISHED),
        window_s=RETENTION_S,
    ),
    Quantity(
        name=Name.READY_REPLICAS,
        by=("namespace",),
        candidates=tuple(
            f"max by ($namespace, {kind}) (kube_{kind}_status_replicas_ready{{$where}})"
            for kind in ("deployment", "statefulset")
        ),
    ),
    Quantity(
        name=Name.STORED_KV_TOKENS,
        candidates=tuple(each.latest("last_over_time") for each in _KV_TOKENS),
        window_s=STORED_WINDOW_S,
    ),
)
"""Queried in namespaces with a variant that is sized by saturation."""


def _as_key(name: Name) -> str:
    first, *rest = name.value.split("_")
    return first + "".join(map(str.capitalize, rest))


CONFIGURABLE_QUANTITIES = {
    "arrivalRate": Name.ARRIVALS_CONFIGURED,
    **{_as_key(each.name): each.name for each in (*QUANTITIES, *SATURATION_QUANTITIES) if each is not _ARRIVALS},
}
"""Keys of `clusters[].prometheus.queries` and their quantities: such a query is tried before ours."""

# ---- over time, by range queries

SATURATION_HISTORY = (Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS)
"""How full replicas were, which shows their capacity."""
_MEANS = (Name.ITL, Name.TTFT, Name.WAIT, Name.INPUT_TOKENS, Name.OUTPUT_TOKENS)
LEARNING_HISTORY = (Name.RUNNING, Name.WAITING, *_MEANS)
"""What performance profiles are corrected by."""
FIT_HISTORY = (*LEARNING_HISTORY, Name.COMPLETIONS, Name.KV_CACHE_USAGE, Name.PREFIX_HIT_RATE)
"""What `fit` learns performance profiles from."""
TRACED_HISTORY = (*LEARNING_HISTORY, Name.COMPLETIONS)
"""The last hour in a run: for that correction, and for upstream's throughput analyzer."""

_PRESENT: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in (*QUANTITIES, *SATURATION_QUANTITIES)}
HISTORY: Mapping[Name, Quantity] = {
    Name.RUNNING: replace(_PRESENT[Name.RUNNING], candidates=tuple(gauge.average() for gauge in _RUNNING)),
    Name.WAITING: replace(_PRESENT[Name.WAITING], candidates=tuple(gauge.average() for gauge in _WAITING)),
    **{
        name: replace(_PRESENT[name], is_numbered=False)
        for name in (
            Name.COMPLETIONS,
            *_MEANS,
            Name.KV_CACHE_USAGE,
            Name.NUM_WAITING,
            Name.KV_TOKENS,
            Name.PREFIX_HIT_RATE,
        )
    },
}
"""Quantities of replicas over time: the candidates of the present, gauges as means over the window."""
OWNERS: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in POD_OWNERS}
"""Owners of pods, queried once over the whole time of a history."""
OBJECTS: Mapping[Name, Quantity] = {
    Name.LIVE_REPLICAS: LIVE_REPLICAS,
    Name.MERGED_REPLICAS: replace(LIVE_REPLICAS, name=Name.MERGED_REPLICAS),
    Name.RAN_REPLICAS: replace(LIVE_REPLICAS, name=Name.RAN_REPLICAS),
    Name.STARTED_REPLICAS: Quantity(
        name=Name.STARTED_REPLICAS,
        by=("namespace",),
        candidates=tuple(_agreed(f"kube_{kind}_status_replicas_ready", kind) for kind in ("deployment", "statefulset")),
        window_s=LIVE_WINDOW_S,
    ),
    **{
        name: Quantity(
            name=name,
            by=("namespace", HPA),
            candidates=(f"max by ($by) (kube_{HPA}_status_{field}_replicas{{$where}})",),
        )
        for name, field in ((Name.SCALER_DESIRED, "desired"), (Name.SCALER_CURRENT, "current"))
    },
}
"""Fields of Kubernetes objects over time, which no replica reports."""

UNNAMED_POD = "unnamed_pod"
"""The label with the pod of a series that names no model, in sums over pods; empty for all others."""
_SUM_OF = {
    Name(f"{when}_{present}"): present
    for when in ("past", "usual")
    for present in (Name.COMPLETIONS, Name.QUEUE_GROWTH, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS)
    if (when, present) != ("usual", Name.QUEUE_GROWTH)
} | dict.fromkeys((Name.DEMAND_COMPLETIONS, Name.FINE_COMPLETIONS), Name.COMPLETIONS)
"""Past sums over pods, with their present quantities."""


def _tokens(ratios: Callable[[ServingEngine], Iterable[CounterRatio]]) -> str:
    """Tokens per second, without duplicates as in finished requests: their ratio is the tokens of a request."""
    counters = (
        replace(ratio.numerator, apart=engine.finished[0].apart) for engine in SOURCES for ratio in ratios(engine)
    )
    return " or ".join(counter.gain() for counter in counters)


_BY_POD = {
    Name.COMPLETIONS: " or ".join(_PRESENT[Name.COMPLETIONS].candidates),
    Name.QUEUE_GROWTH: " or ".join(_PRESENT[Name.QUEUE_GROWTH].candidates),
    Name.OUTPUT_TOKENS: _tokens(lambda engine: engine.output_tokens),
    Name.INPUT_TOKENS: _tokens(lambda engine: engine.input_tokens),
}
"""The terms of those sums: per second, by pod."""


def _summed(by_pod: str) -> tuple[str]:
    """The sum over pods by model; pods that name no model stay apart, by `UNNAMED_POD`."""
    each = f'label_replace({by_pod}, "{UNNAMED_POD}", "$$1", "$pod", "(.*)")'
    return (f'sum by ($served, {UNNAMED_POD}) (label_replace({each}, "{UNNAMED_POD}", "", "$model", ".+"))',)


_SUMS = {name: Quantity(name=name, candidates=_summed(_BY_POD[present])) for name, present in _SUM_OF.items()}
PAST: Mapping[Name, Quantity] = {
    Name.PAST_ENDPOINT_PICKER: replace(_ARRIVALS, name=Name.PAST_ENDPOINT_PICKER),
    **{name: quantity for name, quantity in _SUMS.items() if name.startswith("past")},
}
"""Past arrivals of models by source, and the lengths of past requests."""
USUAL: Mapping[Name, Quantity] = {name: quantity for name, quantity in _SUMS.items() if name.startswith("usual")}
"""The same over a whole day, to compare the present with."""
DEMAND: Mapping[Name, Quantity] = {
    Name.DEMAND_ENDPOINT_PICKER: replace(_ARRIVALS, name=Name.DEMAND_ENDPOINT_PICKER),
    Name.DEMAND_COMPLETIONS: _SUMS[Name.DEMAND_COMPLETIONS],
}
"""Arrivals of models over two weeks."""
FINE: Mapping[Name, Quantity] = {
    Name.FINE_ENDPOINT_PICKER: replace(_ARRIVALS, name=Name.FINE_ENDPOINT_PICKER),
    Name.FINE_COMPLETIONS: _SUMS[Name.FINE_COMPLETIONS],
}
"""The same minute by minute."""


def with_configured(quantity: Quantity, own: Mapping[Name, str]) -> Quantity:
    """A past sum that tries the configured query of its present quantity first; other quantities unchanged.

    `own` maps quantities to configured PromQL. A configured length of requests is multiplied by finished requests.
    """
    present = _SUM_OF.get(quantity.name)
    if present is None or present not in own:
        return quantity
    texts = {name: f"({text})".replace("$", "$$") for name, text in own.items()}
    configured = texts[present]
    if present in (Name.OUTPUT_TOKENS, Name.INPUT_TOKENS):
        finished = [texts[Name.COMPLETIONS]] if Name.COMPLETIONS in texts else []
        configured = f"{configured} * on ($by) ({' or on ($by) '.join((*finished, _BY_POD[Name.COMPLETIONS]))})"
    return replace(quantity, candidates=_summed(f"{configured} or on ($by) {_BY_POD[present]}"))
