"""What replicas of each engine export, straight lines all of it."""

from collections.abc import Mapping

from tests.servers.prometheus import History

Labels = Mapping[str, str]


def vllm_cache(
    history: History,
    labels: Labels,
    *,
    usage: float,
    blocks: str = "1000",
    usage_metric: str = "vllm:kv_cache_usage_perc",
    since_s: float = 1200.0,
    until_s: float = 0.0,
) -> None:
    """The KV cache of a vLLM rank; what it holds is told in labels, without a model."""
    history.gauge(usage_metric, labels, usage, since_s=since_s, until_s=until_s)
    config = {name: value for name, value in labels.items() if name != "model_name"}
    config |= {"num_gpu_blocks": blocks, "block_size": "16", "cache_dtype": "auto"}
    history.gauge("vllm:cache_config_info", config, 1.0, since_s=since_s, until_s=until_s)


def sglang_rank(history: History, labels: Labels, *, usage: float = 0.25, waiting: float = 1.0) -> None:
    """One data-parallel rank of SGLang, exported by both of its tensor-parallel ranks."""
    for tp_rank in ("0", "1"):
        rank = {**labels, "tp_rank": tp_rank}
        history.gauge("sglang:num_running_reqs", rank, 6.0)
        history.gauge("sglang:num_queue_reqs", rank, waiting)
        history.gauge("sglang:token_usage", rank, usage)
        history.gauge("sglang:max_total_num_tokens", rank, 40_000.0)
        history.counter("sglang:cached_tokens_total", {**rank, "cache_source": "device"}, 50.0)
        history.counter("sglang:prompt_tokens_total", rank, 200.0)


def trtllm_replica(history: History, labels: Labels) -> None:
    """trtllm-serve."""
    history.counter("trtllm_request_success_total", {**labels, "finished_reason": "stop"}, 2.0)
    history.counter("trtllm_generation_tokens_total", labels, 300.0)
    history.counter("trtllm_prompt_tokens_total", labels, 500.0)
    for metric, value in (
        *(("num_requests_running", 5.0), ("num_requests_waiting", 2.0), ("kv_cache_utilization", 0.75)),
        *(("kv_cache_max_blocks", 500.0), ("kv_cache_tokens_per_block", 32.0), ("kv_cache_hit_rate", 0.1)),
    ):
        history.gauge(f"trtllm_{metric}", labels, value)
    for metric, mean_s in (
        *(("time_per_output_token", 0.025), ("request_queue_time", 0.15), ("time_to_first_token", 0.35)),
    ):
        history.histogram(f"trtllm_{metric}_seconds", labels, mean_s, 2.0)


def triton_replica(history: History, labels: Labels) -> None:
    """Triton with the TensorRT-LLM backend, in an ensemble of which every step counts the same requests."""
    engine = {**labels, "model": "tensorrt_llm", "version": "1"}
    for kind, value, per_s in (("scheduled", 30.0, 0.1), ("active", 40.0, 0.0), ("waiting", 2.0, 0.0)):
        history.gauge("nv_trt_llm_request_metrics", {**engine, "request_type": kind}, value, per_s=per_s)
    for kind, value in (("fraction", 0.5), ("tokens_per", 64.0), ("max", 1000.0), ("used", 500.0)):
        history.gauge("nv_trt_llm_kv_cache_block_metrics", {**engine, "kv_cache_block_type": kind}, value)
    for model in ("ensemble", "preprocessing", "tensorrt_llm"):
        counted = {**labels, "model": model, "version": "1"}
        _untyped_counter(history, "nv_inference_request_success", counted, 2.0)
        _untyped_counter(history, "nv_inference_queue_duration_us", counted, 100_000.0)


def tgi_replica(history: History, labels: Labels) -> None:
    """TGI, which names no model."""
    _untyped_counter(history, "tgi_request_success", {**labels, "method": "generate"}, 2.0)
    for metric, value in (
        *(("batch_current_size", 5.0), ("queue_size", 3.0)),
        *(("batch_current_max_tokens", 3_000.0), ("batch_max_total_tokens", 12_000.0)),
    ):
        history.gauge(f"tgi_{metric}", labels, value)
    for metric, mean in (
        *(("generated_tokens", 120.0), ("input_length", 300.0)),
        *(("mean_time_per_token_duration", 0.03), ("queue_duration", 0.2)),
    ):
        history.histogram(f"tgi_request_{metric}", labels, mean, 2.0)


def _untyped_counter(history: History, metric: str, labels: Labels, per_s: float) -> None:
    """A counter whose name has no `_total`, as these engines spell theirs."""
    history.gauge(metric, labels, per_s * 1200.0, per_s=per_s)
