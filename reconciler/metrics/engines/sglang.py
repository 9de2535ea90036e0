"""SGLang: every tensor-parallel rank may export a gauge, all with the same value."""

from reconciler.metrics.engines.serving_engine import BlockLabels, Counter, Gauge, ServingEngine, mean, ratio

RANK = "dp_rank"


def _gauge(metric: str) -> Gauge:
    return Gauge(metric=f"sglang:{metric}", rank=RANK)


ENGINE = ServingEngine(
    name="sglang",
    port=30000,
    enabled_by="--enable-metrics",
    rank=RANK,
    names_model=True,
    running=(_gauge("num_running_reqs"),),
    waiting=(_gauge("num_queue_reqs"),),
    finished=(Counter(metric="sglang:num_requests_total", apart=f"{RANK}, engine_type"),),
    input_tokens=(ratio("sglang:prompt_tokens_total", "sglang:num_requests_total"),),
    # only with --collect-tokens-histogram
    input_buckets=(Counter(metric="sglang:prompt_tokens_histogram_bucket"),),
    output_tokens=(ratio("sglang:generation_tokens_total", "sglang:num_requests_total"),),
    itl=(mean("sglang:inter_token_latency_seconds"), mean("sglang:time_per_output_token_seconds")),
    ttft=(mean("sglang:time_to_first_token_seconds"),),
    wait=(mean("sglang:queue_time_seconds"),),
    kv_cache_usage=(_gauge("token_usage"),),
    kv_tokens=(
        BlockLabels(gauge=_gauge("cache_config_info"), num_blocks="num_pages", block_tokens="page_size"),
        _gauge("max_total_num_tokens"),
    ),
    prefix_hit_rate=(ratio("sglang:cached_tokens_total", "sglang:prompt_tokens_total", RANK),),
)
