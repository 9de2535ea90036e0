"""TensorRT-LLM served by itself (`trtllm-serve`)."""

from reconciler.metrics.engines.serving_engine import Blocks, Counter, Gauge, ServingEngine, mean, ratio

FINISHED = "trtllm_request_success_total"

ENGINE = ServingEngine(
    name="trtllm",
    path="/prometheus/metrics",
    enabled_by="return_perf_metrics in its options file",
    running=(Gauge(metric="trtllm_num_requests_running"),),
    waiting=(Gauge(metric="trtllm_num_requests_waiting"),),
    finished=(Counter(metric=FINISHED, apart="finished_reason, engine_type"),),
    input_tokens=(ratio("trtllm_prompt_tokens_total", FINISHED),),
    output_tokens=(ratio("trtllm_generation_tokens_total", FINISHED),),
    itl=(mean("trtllm_time_per_output_token_seconds"),),
    ttft=(mean("trtllm_time_to_first_token_seconds"),),
    wait=(mean("trtllm_request_queue_time_seconds"),),
    kv_cache_usage=(Gauge(metric="trtllm_kv_cache_utilization"),),
    kv_tokens=(
        Blocks(
            num_blocks=Gauge(metric="trtllm_kv_cache_max_blocks"),
            block_tokens=Gauge(metric="trtllm_kv_cache_tokens_per_block"),
        ),
    ),
    prefix_hit_rate=(Gauge(metric="trtllm_kv_cache_hit_rate"),),
)
