"""The quantities behind every model's load and every variant's observation, asked of each cluster in each run."""

from reconciler.metrics.quantities.candidates import (
    RUNNING,
    WAITING,
    Gauge,
    exists,
    finished,
    growth,
    last_seen,
    mean,
    now,
    rate,
    ratio,
    sglang,
    triton_requests,
    triton_wait,
    vllm,
)
from reconciler.metrics.quantities.quantity import PER_PICKED_MODEL, PER_POD, POD_LABEL_OF_VARIANT, Name, Quantity

OWNERSHIP_WINDOW_S = 600.0
"""A pod that is gone still counts in rates over their window, so whose it was is remembered for longer than that."""

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.RUNNING,
        unit="requests",
        reason="which replicas report, and how busy they are",
        by=PER_POD,
        candidates=now(RUNNING),
        essential=True,
    ),
    Quantity(
        name=Name.LAST_SEEN,
        unit="Unix seconds",
        reason="tells fresh from stale, and stale from missing",
        by=PER_POD,
        candidates=last_seen(RUNNING),
        essential=True,
    ),
    Quantity(
        name=Name.COMPLETIONS,
        unit="req/s",
        reason="finished requests: what was served",
        by=PER_POD,
        candidates=finished(),
        essential=True,
    ),
    Quantity(
        name=Name.OUTPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens generated for a request",
        by=PER_POD,
        candidates=(
            mean("vllm:request_generation_tokens"),
            ratio("vllm:generation_tokens_total", "vllm:request_success_total"),
            ratio("sglang:generation_tokens_total", "sglang:num_requests_total"),
            ratio("trtllm_generation_tokens_total", "trtllm_request_success_total"),
            mean("tgi_request_generated_tokens"),
        ),
        essential=True,
    ),
    Quantity(
        name=Name.QUEUE_GROWTH,
        unit="req/s",
        reason="requests that arrived and are not finished: a saturated variant completes no more than it can",
        by=PER_POD,
        candidates=(
            growth(vllm("num_requests_running"), vllm("num_requests_waiting")),
            growth(sglang("num_running_reqs"), sglang("num_queue_reqs")),
            growth(Gauge(metric="trtllm_num_requests_running"), Gauge(metric="trtllm_num_requests_waiting")),
            growth(triton_requests("scheduled"), triton_requests("waiting")),
            growth(Gauge(metric="tgi_batch_current_size"), Gauge(metric="tgi_queue_size")),
        ),
    ),
    Quantity(
        name=Name.ARRIVALS_ENDPOINT_PICKER,
        unit="req/s",
        reason="offered requests, counted before any queue",
        by=PER_PICKED_MODEL,
        candidates=(
            rate("llm_d_epp_request_total"),
            rate("inference_objective_request_total"),
            rate("inference_model_request_total"),
        ),
    ),
    Quantity(
        name=Name.INPUT_TOKENS,
        unit="tokens/request",
        reason="mean tokens of a prompt",
        by=PER_POD,
        candidates=(
            mean("vllm:request_prompt_tokens"),
            ratio("vllm:prompt_tokens_total", "vllm:request_success_total"),
            ratio("sglang:prompt_tokens_total", "sglang:num_requests_total"),
            ratio("trtllm_prompt_tokens_total", "trtllm_request_success_total"),
            mean("tgi_request_input_length"),
        ),
    ),
    Quantity(
        name=Name.WAITING,
        unit="requests",
        reason="requests that wait for a place in a batch",
        by=PER_POD,
        candidates=now(WAITING),
    ),
    Quantity(
        name=Name.ITL,
        unit="s",
        reason="mean gap between output tokens",
        by=PER_POD,
        candidates=(
            mean("vllm:inter_token_latency_seconds"),
            mean("vllm:time_per_output_token_seconds"),
            mean("sglang:inter_token_latency_seconds"),
            mean("sglang:time_per_output_token_seconds"),
            mean("trtllm_time_per_output_token_seconds"),
            mean("tgi_request_mean_time_per_token_duration"),
        ),
    ),
    Quantity(
        name=Name.WAIT,
        unit="s",
        reason="mean time in the queue",
        by=PER_POD,
        candidates=(
            mean("vllm:request_queue_time_seconds"),
            mean("sglang:queue_time_seconds"),
            mean("trtllm_request_queue_time_seconds"),
            mean("tgi_request_queue_duration"),
            triton_wait(),
        ),
    ),
    Quantity(
        name=Name.TTFT,
        unit="s",
        reason="mean time from arrival to the first token",
        by=PER_POD,
        candidates=(
            mean("vllm:time_to_first_token_seconds"),
            mean("sglang:time_to_first_token_seconds"),
            mean("trtllm_time_to_first_token_seconds"),
        ),
    ),
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
"""In the order they are asked: a run that is cut short has the essential ones first."""

IN_A_CLUSTER = 'cluster!=""'
CLUSTER_LABEL = Quantity(
    name=Name.CLUSTER_LABEL,
    unit="exists",
    reason="whether one server holds several clusters, when none is configured",
    by=("cluster",),
    candidates=tuple(
        f"group by ($by) ({gauge.selector})" for gauge in (each.narrowed(IN_A_CLUSTER) for each in RUNNING)
    ),
)

ESSENTIAL = frozenset(quantity.name for quantity in QUANTITIES if quantity.essential)
