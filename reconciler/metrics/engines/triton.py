"""TensorRT-LLM under Triton, which names a model of its own (`model="tensorrt_llm"`) that nobody asks for.

Its series are left without a model, and get that of the variant they belong to. In an ensemble each request passes a
model before the engine and one after, and each of them counts it: only those of the engine do.
"""

from reconciler.metrics.engines.serving_engine import Blocks, Counter, CounterRatio, Gauge, ServingEngine

MICROSECONDS = 1_000_000
APART = "model, version"


def _requests(kind: str) -> Gauge:
    return Gauge(metric="nv_trt_llm_request_metrics", only=f'request_type="{kind}"', by="$unnamed", apart=APART)


def _kv_cache(kind: str) -> Gauge:
    return Gauge(metric="nv_trt_llm_kv_cache_block_metrics", only=f'kv_cache_block_type="{kind}"', by="$unnamed")


def _of_the_engine(counter: str) -> Counter:
    return Counter(metric=counter, by="$unnamed", apart=APART, beside=_requests("waiting").selector)


FINISHED = _of_the_engine("nv_inference_request_success")

TRITON = ServingEngine(
    name="triton",
    running=(_requests("scheduled"), _requests("active")),
    waiting=(_requests("waiting"),),
    finished=(FINISHED,),
    # in Triton's own queue: what waits inside TensorRT-LLM is not in it
    wait=(
        CounterRatio(
            numerator=_of_the_engine("nv_inference_queue_duration_us"), denominator=FINISHED, divisor=MICROSECONDS
        ),
    ),
    kv_cache_usage=(_kv_cache("fraction"),),
    kv_tokens=(Blocks(num_blocks=_kv_cache("max"), block_tokens=_kv_cache("tokens_per")),),
)
