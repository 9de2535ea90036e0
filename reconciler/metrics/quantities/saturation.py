"""What sizing by saturation needs beside loads: how full replicas are, how much they hold, what waits before them."""

from reconciler.metrics.quantities.candidates import (
    SGLANG_RANK,
    VLLM_RANK,
    WAITING,
    Gauge,
    finished,
    latest_of_ranks,
    peak_of_ranks,
    ratio_of_ranks,
    sglang,
    triton_kv_cache,
    vllm,
)
from reconciler.metrics.quantities.quantity import PER_PICKED_MODEL, PER_POD, Name, Quantity

PEAK_WINDOW_S = 60.0
RETENTION_S = 600.0
"""Over so long a time requests are counted before a model may go to zero."""
STORED_WINDOW_S = 86_400.0
"""So long the capacity of pods that are gone is remembered."""

BLOCK_LABELS = (("num_gpu_blocks", "block_size"), ("num_pages", "page_size"))
"""Where vLLM and SGLang say how many blocks the KV cache has and how many tokens one takes: in values of labels."""

TGI_IN_USE = Gauge(metric="tgi_batch_current_max_tokens")
TGI_CAPACITY = Gauge(metric="tgi_batch_max_total_tokens")
VLLM_HITS = (
    ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
    ("vllm:prefix_cache_hits", "vllm:prefix_cache_queries"),
    ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"),
    ("vllm:gpu_prefix_cache_hits", "vllm:gpu_prefix_cache_queries"),
)


def _kv_tokens(function: str = "") -> tuple[str, ...]:
    sums = (sglang("max_total_num_tokens"), TGI_CAPACITY)
    products = (
        (Gauge(metric="trtllm_kv_cache_max_blocks"), Gauge(metric="trtllm_kv_cache_tokens_per_block")),
        (triton_kv_cache("max"), triton_kv_cache("tokens_per")),
    )
    infos = zip((vllm("cache_config_info"), sglang("cache_config_info")), BLOCK_LABELS, strict=True)
    return (
        *(latest_of_ranks(gauge, *labels, function=function) for gauge, labels in infos),
        *(latest_of_ranks(gauge, function=function) for gauge in sums),
        *(" * ".join(latest_of_ranks(gauge, function=function) for gauge in pair) for pair in products),
    )


SATURATION_QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name=Name.KV_CACHE_USAGE,
        unit="fraction",
        reason="how full a replica was within the last minute",
        by=PER_POD,
        candidates=(
            *peak_of_ranks(
                (
                    vllm("kv_cache_usage_perc"),
                    vllm("gpu_cache_usage_perc"),
                    sglang("token_usage"),
                    Gauge(metric="trtllm_kv_cache_utilization"),
                    triton_kv_cache("fraction"),
                )
            ),
            f"{peak_of_ranks((TGI_IN_USE,))[0]} / {latest_of_ranks(TGI_CAPACITY)}",
        ),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.NUM_WAITING,
        unit="requests",
        reason="the longest queue of a replica within the last minute",
        by=PER_POD,
        candidates=peak_of_ranks(WAITING),
        window_s=PEAK_WINDOW_S,
    ),
    Quantity(
        name=Name.KV_TOKENS,
        unit="tokens",
        reason="how much the KV cache of a replica holds",
        by=PER_POD,
        candidates=_kv_tokens(),
    ),
    Quantity(
        name=Name.PREFIX_HIT_RATE,
        unit="fraction",
        reason="the part of prompts that needs no new room",
        by=PER_POD,
        candidates=(
            *(ratio_of_ranks(VLLM_RANK, *pair) for pair in VLLM_HITS),
            latest_of_ranks(vllm("gpu_prefix_cache_hit_rate")),
            ratio_of_ranks(SGLANG_RANK, "sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
            latest_of_ranks(Gauge(metric="trtllm_kv_cache_hit_rate")),
        ),
    ),
    Quantity(
        name=Name.FLOW_CONTROL_QUEUE_SIZE,
        unit="requests",
        reason="what waits before any replica has it",
        by=PER_PICKED_MODEL,
        candidates=(
            "sum by ($by) (llm_d_epp_flow_control_queue_size{$where})",
            "sum by ($by) (inference_extension_flow_control_queue_size{$where})",
        ),
        may_lack_namespace=True,
    ),
    Quantity(
        name=Name.FLOW_CONTROL_QUEUE_BYTES,
        unit="bytes",
        reason="how long the prompts are that wait before any replica has them",
        by=PER_PICKED_MODEL,
        candidates=(
            "sum by ($by) (llm_d_epp_flow_control_queue_bytes{$where})",
            "sum by ($by) (inference_extension_flow_control_queue_bytes{$where})",
        ),
        may_lack_namespace=True,
    ),
    Quantity(
        name=Name.REQUESTS_IN_RETENTION,
        unit="requests",
        reason="whether a model may go to zero",
        by=PER_POD,
        candidates=finished("increase"),
        window_s=RETENTION_S,
    ),
    Quantity(
        name=Name.READY_REPLICAS,
        unit="replicas",
        reason="how many of the replicas in Git serve",
        by=("namespace",),
        candidates=(
            "max by ($namespace, deployment) (kube_deployment_status_replicas_ready{$where})",
            "max by ($namespace, statefulset) (kube_statefulset_status_replicas_ready{$where})",
        ),
    ),
    Quantity(
        name=Name.STORED_KV_TOKENS,
        unit="tokens",
        reason="how much a replica would hold of a variant that has none now",
        by=PER_POD,
        candidates=_kv_tokens("last_over_time"),
        window_s=STORED_WINDOW_S,
    ),
)
"""Asked in namespaces where somebody sizes by saturation."""
