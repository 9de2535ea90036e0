"""The quantities a run asks for: name, unit, labels and the PromQL that engines offer for each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.metrics.engines import SOURCES, ServingEngine, offered
from reconciler.metrics.engines.serving_engine import CounterRatio

# --- was reconciler/metrics/quantities/quantity.py:
# What a quantity is: its name, its unit, its labels, and the PromQL candidates for it.

WINDOW_S = 300.0
"""Of every rate and mean: long enough for a scrape every minute, short enough to see a load that moves."""

VARIANT_LABEL = "llm_d_ai_variant"
POD_LABEL_OF_VARIANT = f"label_{VARIANT_LABEL}"
CLUSTER = "cluster"
BOUND = "le"
ALTERNATIVE = "alternative"
"""The label that tells which candidate of a quantity a series is of, counted from 0."""
PICKER_MODEL = "model_name"
PICKER_TARGET_MODEL = "target_model_name"


class Name(StrEnum):
    """Canonical names of quantities, as they stand in `Query.quantity` and as keys of `Trace.series`."""

    COMPLETIONS = "completions"
    QUEUE_GROWTH = "queue_growth"
    ARRIVALS_CONFIGURED = "arrivals_configured"
    ARRIVALS_ENDPOINT_PICKER = "arrivals_endpoint_picker"
    OUTPUT_TOKENS = "output_tokens"
    INPUT_TOKENS = "input_tokens"
    INPUT_BUCKETS = "input_buckets"
    ITL = "itl"
    WAIT = "wait"
    TTFT = "ttft"
    RUNNING = "running"
    MOST_RUNNING = "most_running"
    CHANGES = "changes"
    WAITING = "waiting"
    LAST_SEEN = "last_seen"
    POD_LABELS = "pod_labels"
    POD_OWNER = "pod_owner"
    REPLICASET_OWNER = "replicaset_owner"
    CLUSTER_LABEL = "cluster_label"
    KV_CACHE_USAGE = "kv_cache_usage"
    NUM_WAITING = "num_waiting"
    KV_TOKENS = "kv_tokens"
    PREFIX_HIT_RATE = "prefix_hit_rate"
    FLOW_CONTROL_QUEUE_SIZE = "flow_control_queue_size"
    FLOW_CONTROL_QUEUE_BYTES = "flow_control_queue_bytes"
    REQUESTS_IN_RETENTION = "requests_in_retention"
    READY_REPLICAS = "ready_replicas"
    UNSCHEDULABLE = "unschedulable"
    QUOTAS = "quotas"
    STORED_KV_TOKENS = "stored_kv_tokens"
    LIVE_REPLICAS = "live_replicas"
    NODES = "nodes"
    DEVICE_REQUESTS = "device_requests"
    PAST_COMPLETIONS = "past_completions"
    PAST_QUEUE_GROWTH = "past_queue_growth"
    PAST_ENDPOINT_PICKER = "past_arrivals_endpoint_picker"
    PAST_CONFIGURED = "past_arrivals_configured"
    PAST_OUTPUT_TOKENS = "past_output_tokens"
    PAST_INPUT_TOKENS = "past_input_tokens"
    USUAL_COMPLETIONS = "usual_completions"
    USUAL_OUTPUT_TOKENS = "usual_output_tokens"
    USUAL_INPUT_TOKENS = "usual_input_tokens"


REPLACEABLE = (
    *(Name.COMPLETIONS, Name.QUEUE_GROWTH, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS, Name.ITL, Name.WAIT, Name.TTFT),
    *(Name.INPUT_BUCKETS, Name.RUNNING, Name.MOST_RUNNING, Name.CHANGES, Name.WAITING, Name.LAST_SEEN),
    *(Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.KV_TOKENS, Name.PREFIX_HIT_RATE, Name.STORED_KV_TOKENS),
    *(Name.FLOW_CONTROL_QUEUE_SIZE, Name.FLOW_CONTROL_QUEUE_BYTES, Name.REQUESTS_IN_RETENTION),
    *(Name.POD_LABELS, Name.POD_OWNER, Name.REPLICASET_OWNER, Name.READY_REPLICAS, Name.UNSCHEDULABLE, Name.QUOTAS),
)
"""Quantities that are asked in a person's words first, then in ours."""


def _as_key(name: Name) -> str:
    first, *rest = name.value.split("_")
    return first + "".join(map(str.capitalize, rest))


CONFIGURABLE_QUANTITIES = {"arrivalRate": Name.ARRIVALS_CONFIGURED, **{_as_key(name): name for name in REPLACEABLE}}
"""Keys of `clusters[].prometheus.queries`, with the quantity that each is asked as."""

PER_POD = ("namespace", "pod", "model", VARIANT_LABEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is asked for once a cluster; candidates are coalesced with `or`, so each series counts once, by the first.

    `by` are the labels that answers carry: namespace, pod and model as the server spells them, others literally.
    In a candidate `$by` stands for them, `$unnamed` for them without a label `model`, `$place` for namespace and pod,
    `$served` for namespace and model, `$namespace`, `$pod` and `$model` for one alone, `$where` for the matchers of the
    cluster, `$window` for the duration of `window_s`. Without an answer to an `essential` quantity nothing about the
    cluster can be trusted. Series of one that `may_lack_namespace` are asked for beside those of the namespaces.
    Those of one that `tells_alternative` carry the number of their candidate.
    """

    name: Name
    unit: str
    reason: str
    by: tuple[str, ...]
    candidates: tuple[str, ...]
    essential: bool = False
    may_lack_namespace: bool = False
    tells_alternative: bool = False
    window_s: float = WINDOW_S


# --- was reconciler/metrics/quantities/endpoint_picker.py:
# What an endpoint picker of llm-d tells of the models it routes to, under its new name and older ones. It may lack a
# namespace, and stands before all engines: it counts what is offered, and what waits before any replica.

PER_PICKED_MODEL = ("namespace", PICKER_MODEL, PICKER_TARGET_MODEL)

SCRAPED = "job, endpoint, service, container, prometheus, prometheus_replica, replica"
"""Labels that scrapes add: series of one instance that differ in nothing else were scraped twice."""


def counted(metric: str) -> str:
    """What all pickers together counted a second, each once however often it was scraped."""
    return f"sum by ($by) (max without ({SCRAPED}) (rate({metric}{{$where}}[$window])))"


ARRIVALS = Quantity(
    name=Name.ARRIVALS_ENDPOINT_PICKER,
    unit="req/s",
    reason="offered requests, counted before any queue",
    by=PER_PICKED_MODEL,
    candidates=(
        counted("llm_d_epp_request_total"),
        counted("inference_objective_request_total"),
        counted("inference_model_request_total"),
    ),
)

QUEUE_SIZE = Quantity(
    name=Name.FLOW_CONTROL_QUEUE_SIZE,
    unit="requests",
    reason="what waits before any replica has it",
    by=PER_PICKED_MODEL,
    candidates=(
        "sum by ($by) (llm_d_epp_flow_control_queue_size{$where})",
        "sum by ($by) (inference_extension_flow_control_queue_size{$where})",
    ),
    may_lack_namespace=True,
)

QUEUE_BYTES = Quantity(
    name=Name.FLOW_CONTROL_QUEUE_BYTES,
    unit="bytes",
    reason="how long the prompts are that wait before any replica has them",
    by=PER_PICKED_MODEL,
    candidates=(
        "sum by ($by) (llm_d_epp_flow_control_queue_bytes{$where})",
        "sum by ($by) (inference_extension_flow_control_queue_bytes{$where})",
    ),
    may_lack_namespace=True,
)


# --- was reconciler/metrics/quantities/kubernetes.py:
# What kube-state-metrics tells of pods and scale targets: whose a pod is, and how many replicas there are to be.

WORKLOAD_LABELS = {"Deployment": "deployment", "StatefulSet": "statefulset"}
"""The kinds whose replicas it tells, with the label that names the object."""
OWNERSHIP_WINDOW_S = 600.0
"""A pod that is gone still counts in rates over their window, so whose it was is remembered for longer than that."""
LIVE_WINDOW_S = 120.0
"""So old may a sample be that says what is now: two scrapes a minute apart, of which one may fail."""


def exists(metric: str, only: str) -> str:
    """Whether a series was there within the window."""
    return f"group by ($by) (last_over_time({metric}{{{only},$where}}[$window]))"


def asked_for(metric: str, label: str) -> str:
    """What each object asks for, where all who lately told it agree; NaN agrees with nothing."""
    told = f"last_over_time({metric}{{$where}}[$window])"
    return f"max by ($namespace, {label}) ({told}) == min by ($namespace, {label}) ({told})"


POD_OWNERS = (
    Quantity(
        name=Name.POD_LABELS,
        unit="exists",
        reason="the variant that a pod's label names",
        by=("namespace", "pod", POD_LABEL_OF_VARIANT),
        candidates=(exists("kube_pod_labels", f'{POD_LABEL_OF_VARIANT}!=""'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
    Quantity(
        name=Name.POD_OWNER,
        unit="exists",
        reason="the ReplicaSet of a pod",
        by=("namespace", "pod", "owner_name"),
        candidates=(exists("kube_pod_owner", 'owner_kind="ReplicaSet"'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
    Quantity(
        name=Name.REPLICASET_OWNER,
        unit="exists",
        reason="the Deployment of a ReplicaSet",
        by=("namespace", "replicaset", "owner_name"),
        candidates=(exists("kube_replicaset_owner", 'owner_kind="Deployment"'),),
        window_s=OWNERSHIP_WINDOW_S,
    ),
)
"""Whose a pod is, beyond what its name says."""
OWNERSHIP = tuple(quantity.name for quantity in POD_OWNERS)

UNSCHEDULABLE = Quantity(
    name=Name.UNSCHEDULABLE,
    unit="exists",
    reason="pods that find no node: more of them would find none either",
    by=("namespace", "pod"),
    candidates=("max by ($by) (kube_pod_status_unschedulable{$where}) > 0",),
)

ON_DEVICES = 'resource=~"requests[.].+/.+"'
QUOTAS = Quantity(
    name=Name.QUOTAS,
    unit="devices",
    reason="what a namespace may still ask for",
    by=("namespace", "resourcequota", "resource"),
    candidates=(
        " - ".join(
            f"max by ($by) (kube_resourcequota{{{ON_DEVICES},type={of},$where}})" for of in ('"hard"', '"used"')
        ),
    ),
)

READY_REPLICAS = Quantity(
    name=Name.READY_REPLICAS,
    unit="replicas",
    reason="how many of the replicas in Git serve",
    by=("namespace",),
    candidates=(
        "max by ($namespace, deployment) (kube_deployment_status_replicas_ready{$where})",
        "max by ($namespace, statefulset) (kube_statefulset_status_replicas_ready{$where})",
    ),
)

LIVE_REPLICAS = Quantity(
    name=Name.LIVE_REPLICAS,
    unit="replicas",
    reason="whether somebody whom Git does not show sets them",
    by=("namespace",),
    candidates=(
        asked_for("kube_deployment_spec_replicas", "deployment"),
        asked_for("kube_statefulset_replicas", "statefulset"),
    ),
    window_s=LIVE_WINDOW_S,
)


# --- was reconciler/metrics/quantities/loads.py:
# The quantities behind every model's load and every variant's observation, asked of each cluster in each run.

RUNNING = offered(lambda engine: engine.running)
WAITING = offered(lambda engine: engine.waiting)
FINISHED = offered(lambda engine: engine.finished)

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.RUNNING,
        unit="requests",
        reason="which replicas report, and how busy they are",
        by=PER_POD,
        candidates=tuple(gauge.now() for gauge in RUNNING),
        essential=True,
    ),
    Quantity(
        name=Name.LAST_SEEN,
        unit="Unix seconds",
        reason="tells fresh from stale, and stale from missing",
        by=PER_POD,
        candidates=tuple(text for gauge in RUNNING for text in gauge.last_seen()),
        essential=True,
    ),
    Quantity(
        name=Name.COMPLETIONS,
        unit="req/s",
        reason="finished requests: what was served",
        by=PER_POD,
        candidates=tuple(counter.gain() for counter in FINISHED),
        essential=True,
        tells_alternative=True,
    ),
    Quantity(
        name=Name.OUTPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens generated for a request",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.output_tokens)),
        essential=True,
    ),
    Quantity(
        name=Name.QUEUE_GROWTH,
        unit="req/s",
        reason="requests that arrived and are not finished: a saturated variant completes no more than it can",
        by=PER_POD,
        candidates=tuple(
            f"{engine.running[0].growth()} + {engine.waiting[0].growth()}"
            for engine in SOURCES
            if engine.running and engine.waiting
        ),
    ),
    ARRIVALS,
    Quantity(
        name=Name.CHANGES,
        unit="changes",
        reason="tells what is scraped and stands still: it says nothing of now",
        by=PER_POD,
        candidates=tuple(
            f"{engine.running[0].changes()} + {engine.waiting[0].changes()}"
            for engine in SOURCES
            if engine.running and engine.waiting
        ),
    ),
    Quantity(
        name=Name.INPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens of a prompt",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.input_tokens)),
    ),
    Quantity(
        name=Name.INPUT_BUCKETS,
        unit="req/s",
        reason="how far the lengths of prompts differ: who has a long one waits for it, and others behind it",
        by=("namespace", "model", BOUND),
        candidates=tuple(counter.gain() for counter in offered(lambda engine: engine.input_buckets)),
    ),
    Quantity(
        name=Name.WAITING,
        unit="requests",
        reason="requests that wait for a place in a batch",
        by=PER_POD,
        candidates=tuple(gauge.now() for gauge in WAITING),
    ),
    Quantity(
        name=Name.MOST_RUNNING,
        unit="requests",
        reason="the most that a replica had in its batch: it cannot do more than they take",
        by=PER_POD,
        candidates=tuple(gauge.most() for gauge in RUNNING),
    ),
    Quantity(
        name=Name.ITL,
        unit="s",
        reason="mean gap between output tokens",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.itl)),
    ),
    Quantity(
        name=Name.WAIT,
        unit="s",
        reason="mean time in the queue",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.wait)),
    ),
    Quantity(
        name=Name.TTFT,
        unit="s",
        reason="mean time from arrival to the first token",
        by=PER_POD,
        candidates=tuple(ratio.latest() for ratio in offered(lambda engine: engine.ttft)),
    ),
    *POD_OWNERS,
    UNSCHEDULABLE,
    QUOTAS,
)
"""In the order they are asked: a run that is cut short has the essential ones first."""

IN_A_CLUSTER = f'{CLUSTER}!=""'
CLUSTER_LABEL = Quantity(
    name=Name.CLUSTER_LABEL,
    unit="exists",
    reason="whether one server holds several clusters, when none is configured",
    by=("namespace", CLUSTER),
    candidates=tuple(
        f"group by ($by) ({gauge.selector})" for gauge in (each.narrowed(IN_A_CLUSTER) for each in RUNNING)
    ),
)

ESSENTIAL = frozenset(quantity.name for quantity in QUANTITIES if quantity.essential)


# --- was reconciler/metrics/quantities/saturation.py:
# What sizing by saturation needs beside loads: how full replicas are, how much they hold, what waits before them.

PEAK_WINDOW_S = 60.0
RETENTION_S = 600.0
"""Over so long a time requests are counted before a model may go to zero."""
STORED_WINDOW_S = 86_400.0
"""So long the capacity of pods that are gone is remembered."""

KV_TOKENS = offered(lambda engine: engine.kv_tokens)

SATURATION_QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.KV_CACHE_USAGE,
        unit="fraction",
        reason="how full a replica was within the last minute",
        by=PER_POD,
        candidates=tuple(each.peak() for each in offered(lambda engine: engine.kv_cache_usage)),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.NUM_WAITING,
        unit="requests",
        reason="the longest queue of a replica within the last minute",
        by=PER_POD,
        candidates=tuple(gauge.peak() for gauge in WAITING),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.KV_TOKENS,
        unit="tokens",
        reason="how much the KV cache of a replica holds",
        by=PER_POD,
        candidates=tuple(each.latest() for each in KV_TOKENS),
    ),
    Quantity(
        name=Name.PREFIX_HIT_RATE,
        unit="fraction",
        reason="the part of prompts that needs no new room",
        by=PER_POD,
        candidates=tuple(each.latest() for each in offered(lambda engine: engine.prefix_hit_rate)),
    ),
    QUEUE_SIZE,
    QUEUE_BYTES,
    Quantity(
        name=Name.REQUESTS_IN_RETENTION,
        unit="requests",
        reason="whether a model may go to zero",
        by=PER_POD,
        candidates=tuple(counter.gain("increase") for counter in FINISHED),
        window_s=RETENTION_S,
    ),
    READY_REPLICAS,
    Quantity(
        name=Name.STORED_KV_TOKENS,
        unit="tokens",
        reason="how much a replica would hold of a variant that has none now",
        by=PER_POD,
        candidates=tuple(each.latest("last_over_time") for each in KV_TOKENS),
        window_s=STORED_WINDOW_S,
    ),
)
"""Asked in namespaces where somebody sizes by saturation."""


# --- was reconciler/metrics/quantities/history.py:
# What is asked over time, by range queries: the same candidates as for the present, gauges as means of the window.

SATURATION_HISTORY = (Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS)
"""What replicas reported when they were full: it tells how much they can hold at work."""
LEARNING_HISTORY = (
    *(Name.RUNNING, Name.WAITING, Name.ITL, Name.TTFT, Name.WAIT),
    *(Name.INPUT_TOKENS, Name.OUTPUT_TOKENS),
)
"""What a performance profile is learned from, and corrected by."""
TRACED_HISTORY = (*LEARNING_HISTORY, Name.COMPLETIONS)
"""What a run looks at of the last hour: for that correction, and as the samples of upstream's throughput analyzer."""
LEARNING_WINDOW_S = 120.0
"""One window for all that is learned from together: two scrapes a minute apart are in it, and little else."""

_PRESENT: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in (*QUANTITIES, *SATURATION_QUANTITIES)}
_UNCHANGED = (
    *(Name.COMPLETIONS, Name.ITL, Name.TTFT, Name.WAIT, Name.INPUT_TOKENS, Name.OUTPUT_TOKENS),
    *(Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.KV_TOKENS),
)

HISTORY: Mapping[Name, Quantity] = {
    Name.RUNNING: replace(_PRESENT[Name.RUNNING], candidates=tuple(gauge.average() for gauge in RUNNING)),
    Name.WAITING: replace(_PRESENT[Name.WAITING], candidates=tuple(gauge.average() for gauge in WAITING)),
    **{name: replace(_PRESENT[name], tells_alternative=False) for name in _UNCHANGED},
}
"""Every quantity that has a history."""

OWNERS: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in POD_OWNERS}
"""Whose the pods are; asked once, over all the time that a history covers."""


UNNAMED_POD = "unnamed_pod"
"""The label of a sum over pods that tells the pod where its series name no model; empty where they do."""


def _added_up(text: str) -> str:
    """What pods tell, added up by model; of those that name none, pod by pod."""
    each = f'label_replace({text}, "{UNNAMED_POD}", "$$1", "$pod", "(.*)")'
    told = f'label_replace({each}, "{UNNAMED_POD}", "", "$model", ".+")'
    return f"sum by ($served, {UNNAMED_POD}) ({told})"


def _tokens(ratios: Callable[[ServingEngine], Iterable[CounterRatio]]) -> str:
    """Tokens in a second: by what was finished then, they are those of a request; both count each series once."""
    counters = (
        replace(ratio.numerator, apart=engine.finished[0].apart) for engine in SOURCES for ratio in ratios(engine)
    )
    return " or ".join(counter.gain() for counter in counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summed:
    """What is asked of the past as a sum over pods: which present quantity it is the past of, and what pods tell."""

    present: Name
    unit: str
    told: str

    def quantity(self, name: Name) -> Quantity:
        reason = f"what it was before: {_PRESENT[self.present].reason}"
        return Quantity(name=name, unit=self.unit, reason=reason, by=PER_POD, candidates=(_added_up(self.told),))


def _same(present: Name) -> _Summed:
    return _Summed(present=present, unit=_PRESENT[present].unit, told=" or ".join(_PRESENT[present].candidates))


_FINISHED = _same(Name.COMPLETIONS)
_OUTPUT = _Summed(present=Name.OUTPUT_TOKENS, unit="tokens/s", told=_tokens(lambda engine: engine.output_tokens))
_INPUT = _Summed(present=Name.INPUT_TOKENS, unit="tokens/s", told=_tokens(lambda engine: engine.input_tokens))
_SUMS_OF_PAST = {
    Name.PAST_COMPLETIONS: _FINISHED,
    Name.PAST_QUEUE_GROWTH: _same(Name.QUEUE_GROWTH),
    Name.PAST_OUTPUT_TOKENS: _OUTPUT,
    Name.PAST_INPUT_TOKENS: _INPUT,
}
_SUMS_OF_DAYS = {
    Name.USUAL_COMPLETIONS: _FINISHED,
    Name.USUAL_OUTPUT_TOKENS: _OUTPUT,
    Name.USUAL_INPUT_TOKENS: _INPUT,
}

PAST: Mapping[Name, Quantity] = {
    Name.PAST_ENDPOINT_PICKER: replace(_PRESENT[Name.ARRIVALS_ENDPOINT_PICKER], name=Name.PAST_ENDPOINT_PICKER),
    **{name: each.quantity(name) for name, each in _SUMS_OF_PAST.items()},
}
"""What the arrivals of models were, by each of those who may have counted their load, and how long they were."""
USUAL: Mapping[Name, Quantity] = {name: each.quantity(name) for name, each in _SUMS_OF_DAYS.items()}
"""The same of a whole day: what now is held against, where it looks like no other hour."""


def in_own_words(quantity: Quantity, own: Mapping[Name, str]) -> Quantity:
    """A sum over pods of the past where a person says what it is the past of, in these words first; else unchanged.

    `own` are PromQL by quantity. Who says how long a request is, is asked for tokens by what was finished.
    """
    past = (_SUMS_OF_PAST | _SUMS_OF_DAYS).get(quantity.name)
    if past is None or past.present not in own:
        return quantity
    words = {name: f"({text})".replace("$", "$$") for name, text in own.items()}
    said = words[past.present]
    if past in (_OUTPUT, _INPUT):
        finished = [words[Name.COMPLETIONS]] if Name.COMPLETIONS in words else []
        said = f"{said} * on ($by) ({' or on ($by) '.join((*finished, _FINISHED.told))})"
    return replace(quantity, candidates=(_added_up(f"{said} or on ($by) {past.told}"),))


OBJECTS: Mapping[Name, Quantity] = {Name.LIVE_REPLICAS: LIVE_REPLICAS}
"""What Kubernetes' objects say over time; no replica reports it."""
