"""Every quantity that is asked for, as data: its unit, its labels, and PromQL candidates, first hit wins.

In a candidate `$by` stands for the labels of the quantity, `$each` for those of a pod, and `$where` for the matchers of
the cluster. Candidates are coalesced with `or`: a pod that exports the old and the new name of a metric is counted
once, by the first.
"""

from dataclasses import dataclass
from enum import StrEnum

WINDOW_S = 300.0
"""Of every rate and mean: long enough for a scrape every minute, short enough to see a load that moves."""

VARIANT_LABEL = "llm_d_ai_variant"
POD_LABEL_OF_VARIANT = f"label_{VARIANT_LABEL}"
PICKER_MODEL = "model_name"
PICKER_TARGET_MODEL = "target_model_name"


class Name(StrEnum):
    """Canonical names of quantities, as they stand in `Query.quantity`."""

    COMPLETIONS = "completions"
    QUEUE_GROWTH = "queue_growth"
    ARRIVALS_CONFIGURED = "arrivals_configured"
    ARRIVALS_ENDPOINT_PICKER = "arrivals_endpoint_picker"
    OUTPUT_TOKENS = "output_tokens"
    INPUT_TOKENS = "input_tokens"
    ITL = "itl"
    WAIT = "wait"
    TTFT = "ttft"
    RUNNING = "running"
    WAITING = "waiting"
    LAST_SEEN = "last_seen"
    POD_LABELS = "pod_labels"
    POD_OWNER = "pod_owner"
    REPLICASET_OWNER = "replicaset_owner"
    CLUSTER_LABEL = "cluster_label"


CONFIGURABLE_QUANTITIES = {"arrivalRate": Name.ARRIVALS_CONFIGURED}
"""Keys of `clusters[].prometheus.queries`, with the quantity that each is asked as."""

PER_POD = ("namespace", "pod", "model", VARIANT_LABEL)
PER_MODEL = ("namespace", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is asked for once a cluster.

    `by` are the labels that answers carry: namespace, pod and model as the server spells them, others literally.
    Without an answer to an `essential` quantity nothing about the cluster can be trusted.
    """

    name: Name
    unit: str
    reason: str
    by: tuple[str, ...]
    candidates: tuple[str, ...]
    essential: bool = False


def _rate(metric: str) -> str:
    return f"sum by ($by) (rate({metric}{{$where}}[5m]))"


def _mean(histogram: str) -> str:
    # 0/0 is NaN: idle for the whole window, which is neither zero nor missing
    return f"{_rate(f'{histogram}_sum')} / {_rate(f'{histogram}_count')}"


def _gauge(metric: str) -> str:
    return f"sum by ($by) ({metric}{{$where}})"


def _gauge_of_ranks(metric: str) -> str:
    # SGLang may export each tensor-parallel rank, which all show the same requests; data-parallel ranks do not
    return f"sum by ($by) (max by ($by, dp_rank) ({metric}{{$where}}))"


def _over_pods(*candidates: str) -> str:
    # coalesced pod by pod before they are added up: one model may be served by two engines or versions
    each = " or ".join(candidate.replace("$by", "$each") for candidate in candidates)
    return f"sum by ($by) ({each})"


def _mean_over_pods(*pairs: tuple[str, str]) -> str:
    numerators, denominators = zip(*pairs, strict=True)
    return f"{_over_pods(*map(_rate, numerators))} / {_over_pods(*map(_rate, denominators))}"


def _growth(metric: str) -> str:
    return f"sum by ($by) (deriv({metric}{{$where}}[5m]))"


def _growth_of_ranks(metric: str) -> str:
    return f"sum by ($by) (max by ($by, dp_rank) (deriv({metric}{{$where}}[5m])))"


def _last_seen(metric: str) -> tuple[str, str]:
    # the subquery finds a series that ended within the hour, so that stale is told from missing
    seen = f"timestamp({metric}{{$where}})"
    return f"max by ($by) ({seen})", f"max by ($by) (max_over_time({seen}[1h:1m]))"


def _exists(metric: str, extra: str) -> str:
    # a pod that is gone still counts in rates over the window, so whose it was is remembered for longer than that
    return f"group by ($by) (last_over_time({metric}{{{extra},$where}}[10m]))"


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.RUNNING,
        unit="requests",
        reason="which replicas report, and how busy they are",
        by=PER_POD,
        candidates=(
            _gauge("vllm:num_requests_running"),
            _gauge_of_ranks("sglang:num_running_reqs"),
            _gauge("trtllm_num_requests_running"),
        ),
        essential=True,
    ),
    Quantity(
        name=Name.LAST_SEEN,
        unit="Unix seconds",
        reason="tells fresh from stale, and stale from missing",
        by=PER_POD,
        candidates=(
            *_last_seen("vllm:num_requests_running"),
            *_last_seen("sglang:num_running_reqs"),
            *_last_seen("trtllm_num_requests_running"),
        ),
        essential=True,
    ),
    Quantity(
        name=Name.COMPLETIONS,
        unit="req/s",
        reason="finished requests: what was served",
        by=PER_POD,
        candidates=(
            _rate("vllm:request_success_total"),
            _rate("vllm:request_success"),
            _rate("sglang:num_requests_total"),
            _rate("trtllm_request_success_total"),
        ),
        essential=True,
    ),
    Quantity(
        name=Name.OUTPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens generated for a request",
        by=PER_MODEL,
        candidates=(
            _mean_over_pods(
                ("vllm:request_generation_tokens_sum", "vllm:request_generation_tokens_count"),
                ("vllm:generation_tokens_total", "vllm:request_success_total"),
                ("sglang:generation_tokens_total", "sglang:num_requests_total"),
                ("trtllm_generation_tokens_total", "trtllm_request_success_total"),
            ),
        ),
        essential=True,
    ),
    Quantity(
        name=Name.QUEUE_GROWTH,
        unit="req/s",
        reason="requests that arrived and are not finished: a saturated variant completes no more than it can",
        by=PER_MODEL,
        candidates=(
            _over_pods(
                _growth("vllm:num_requests_running"),
                _growth_of_ranks("sglang:num_running_reqs"),
                _growth("trtllm_num_requests_running"),
            )
            + " + "
            + _over_pods(
                _growth("vllm:num_requests_waiting"),
                _growth_of_ranks("sglang:num_queue_reqs"),
                _growth("trtllm_num_requests_waiting"),
            ),
        ),
    ),
    Quantity(
        name=Name.ARRIVALS_ENDPOINT_PICKER,
        unit="req/s",
        reason="offered requests, counted before any queue",
        by=("namespace", PICKER_MODEL, PICKER_TARGET_MODEL),
        candidates=(
            _rate("llm_d_epp_request_total"),
            _rate("inference_objective_request_total"),
            _rate("inference_model_request_total"),
        ),
    ),
    Quantity(
        name=Name.INPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens of a prompt",
        by=PER_MODEL,
        candidates=(
            _mean_over_pods(
                ("vllm:request_prompt_tokens_sum", "vllm:request_prompt_tokens_count"),
                ("vllm:prompt_tokens_total", "vllm:request_success_total"),
                ("sglang:prompt_tokens_total", "sglang:num_requests_total"),
                ("trtllm_prompt_tokens_total", "trtllm_request_success_total"),
            ),
        ),
    ),
    Quantity(
        name=Name.WAITING,
        unit="requests",
        reason="requests that wait for a place in a batch",
        by=PER_POD,
        candidates=(
            _gauge("vllm:num_requests_waiting"),
            _gauge_of_ranks("sglang:num_queue_reqs"),
            _gauge("trtllm_num_requests_waiting"),
        ),
    ),
    Quantity(
        name=Name.ITL,
        unit="s",
        reason="mean gap between output tokens",
        by=PER_POD,
        candidates=(
            _mean("vllm:inter_token_latency_seconds"),
            _mean("vllm:time_per_output_token_seconds"),
            _mean("sglang:inter_token_latency_seconds"),
            _mean("sglang:time_per_output_token_seconds"),
            _mean("trtllm_time_per_output_token_seconds"),
        ),
    ),
    Quantity(
        name=Name.WAIT,
        unit="s",
        reason="mean time in the queue",
        by=PER_POD,
        candidates=(
            _mean("vllm:request_queue_time_seconds"),
            _mean("sglang:queue_time_seconds"),
            _mean("trtllm_request_queue_time_seconds"),
        ),
    ),
    Quantity(
        name=Name.TTFT,
        unit="s",
        reason="mean time from arrival to the first token",
        by=PER_POD,
        candidates=(
            _mean("vllm:time_to_first_token_seconds"),
            _mean("sglang:time_to_first_token_seconds"),
            _mean("trtllm_time_to_first_token_seconds"),
        ),
    ),
    Quantity(
        name=Name.POD_LABELS,
        unit="exists",
        reason="the variant that a pod's label names",
        by=("namespace", "pod", POD_LABEL_OF_VARIANT),
        candidates=(_exists("kube_pod_labels", f'{POD_LABEL_OF_VARIANT}!=""'),),
    ),
    Quantity(
        name=Name.POD_OWNER,
        unit="exists",
        reason="the ReplicaSet of a pod",
        by=("namespace", "pod", "owner_name"),
        candidates=(_exists("kube_pod_owner", 'owner_kind="ReplicaSet"'),),
    ),
    Quantity(
        name=Name.REPLICASET_OWNER,
        unit="exists",
        reason="the Deployment of a ReplicaSet",
        by=("namespace", "replicaset", "owner_name"),
        candidates=(_exists("kube_replicaset_owner", 'owner_kind="Deployment"'),),
    ),
)
"""In the order they are asked: a run that is cut short has the essential ones first."""

CLUSTER_LABEL = Quantity(
    name=Name.CLUSTER_LABEL,
    unit="exists",
    reason="whether one server holds several clusters, when none is configured",
    by=("cluster",),
    candidates=tuple(
        f'group by ($by) ({metric}{{cluster!="",$where}})'
        for metric in ("vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running")
    ),
)

ESSENTIAL = frozenset(quantity.name for quantity in QUANTITIES if quantity.essential)
