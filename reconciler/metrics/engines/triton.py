"""TensorRT-LLM under Triton, whose series name a model of Triton's own (`model="tensorrt_llm"`).

That label is dropped, and the series get the model of the variant they belong to. In an ensemble each request passes
one model before the engine and one after it, and each counts the request: only the engine's own counters are used.
"""

from reconciler.metrics.engines.serving_engine import Blocks, Counter, CounterRatio, Gauge, ServingEngine

MICROSECONDS = 1_000_000
APART = "model, version"


def _requests(kind: str) -> Gauge:
    return Gauge(metric="nv_trt_llm_request_metrics", only=f'request_type="{kind}"', by="$unnamed", apart=APART)


def _kv_cache(kind: str) -> Gauge:
    return Gauge(metric="nv_trt_llm_kv_cache_block_metrics", only=f'kv_cache_block_type="{kind}"', by="$unnamed")


def _of_the_engine(counter: str) -> Counter:
    return Counter(metric=counter, by="$unnamed", apart=APART, only_with=_requests("waiting").selector)


FINISHED = _of_the_engine("nv_inference_request_success")

ENGINE = ServingEngine(
    name="triton",
    port=8002,
    running=(_requests("scheduled"), _requests("active")),
    waiting=(_requests("waiting"),),
    finished=(FINISHED,),
    # in Triton's own queue, without the time inside TensorRT-LLM
    wait=(
        CounterRatio(
            numerator=_of_the_engine("nv_inference_queue_duration_us"), denominator=FINISHED, divisor=MICROSECONDS
        ),
    ),
    kv_cache_usage=(_kv_cache("fraction"),),
    kv_tokens=(Blocks(num_blocks=_kv_cache("max"), block_tokens=_kv_cache("tokens_per")),),
)
