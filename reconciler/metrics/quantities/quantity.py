"""What a quantity is: its name, its unit, its labels, and the PromQL candidates for it."""

from dataclasses import dataclass
from enum import StrEnum

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
