"""vLLM: its metrics were renamed with V1, where a data-parallel rank is called `engine`."""

from reconciler.metrics.engines.serving_engine import BlockLabels, Counter, Gauge, ServingEngine, mean, ratio

RANK = "engine"
APART = f"{RANK}, finished_reason"


def _gauge(metric: str) -> Gauge:
    return Gauge(metric=f"vllm:{metric}", rank=RANK)


ENGINE = ServingEngine(
    name="vllm",
    rank=RANK,
    names_model=True,
    running=(_gauge("num_requests_running"),),
    waiting=(_gauge("num_requests_waiting"),),
    finished=(
        Counter(metric="vllm:request_success_total", apart=APART),
        Counter(metric="vllm:request_success", apart=APART),
    ),
    input_tokens=(
        mean("vllm:request_prompt_tokens"),
        ratio("vllm:prompt_tokens_total", "vllm:request_success_total"),
    ),
    input_buckets=(Counter(metric="vllm:request_prompt_tokens_bucket"),),
    output_tokens=(
        mean("vllm:request_generation_tokens"),
        ratio("vllm:generation_tokens_total", "vllm:request_success_total"),
    ),
    itl=(mean("vllm:inter_token_latency_seconds"), mean("vllm:time_per_output_token_seconds")),
    ttft=(mean("vllm:time_to_first_token_seconds"),),
    wait=(mean("vllm:request_queue_time_seconds"),),
    kv_cache_usage=(_gauge("kv_cache_usage_perc"), _gauge("gpu_cache_usage_perc")),
    kv_tokens=(BlockLabels(gauge=_gauge("cache_config_info"), num_blocks="num_gpu_blocks", block_tokens="block_size"),),
    prefix_hit_rate=(
        ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", RANK),
        ratio("vllm:prefix_cache_hits", "vllm:prefix_cache_queries", RANK),
        ratio("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total", RANK),
        ratio("vllm:gpu_prefix_cache_hits", "vllm:gpu_prefix_cache_queries", RANK),
        _gauge("gpu_prefix_cache_hit_rate"),
    ),
)
