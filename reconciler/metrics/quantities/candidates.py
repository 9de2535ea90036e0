"""The metrics of the engines (vLLM, SGLang, trtllm-serve, Triton, TGI), and the PromQL that a candidate is built of.

TGI names no model. Triton names its own (`model="tensorrt_llm"`), which nobody asks for: both are left without a model,
and get that of the variant they belong to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

VLLM_RANK = "engine"
SGLANG_RANK = "dp_rank"
RANKS = (VLLM_RANK, SGLANG_RANK)
"""Labels that tell the data-parallel ranks of a pod apart."""
MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A gauge of one engine: `only` narrows its series, `by` are the labels to keep, `rank` tells its ranks apart.

    `is_repeated`: SGLang may export each tensor-parallel rank, which all show the same; data-parallel ranks do not.
    """

    metric: str
    only: str = ""
    by: str = "$by"
    rank: str = ""
    is_repeated: bool = False

    @property
    def selector(self) -> str:
        """The series of the cluster."""
        return f"{self.metric}{{{self.only},$where}}" if self.only else f"{self.metric}{{$where}}"

    def narrowed(self, only: str) -> "Gauge":
        """The same of fewer series."""
        return replace(self, only=f"{self.only},{only}" if self.only else only)

    @property
    def by_rank(self) -> str:
        """The labels to keep, with that of the rank."""
        return f"{self.by}, {self.rank}" if self.rank else self.by


def vllm(metric: str) -> Gauge:
    """A gauge of vLLM; `engine` came with V1."""
    return Gauge(metric=f"vllm:{metric}", rank=VLLM_RANK)


def sglang(metric: str) -> Gauge:
    """A gauge of SGLang."""
    return Gauge(metric=f"sglang:{metric}", rank=SGLANG_RANK, is_repeated=True)


def triton_requests(kind: str) -> Gauge:
    """Requests of TensorRT-LLM under Triton that are waiting, scheduled or active."""
    return Gauge(metric="nv_trt_llm_request_metrics", only=f'request_type="{kind}"', by="$unnamed")


def triton_kv_cache(kind: str) -> Gauge:
    """The KV cache of TensorRT-LLM under Triton: its fraction in use, its blocks (max), the tokens of one."""
    return Gauge(metric="nv_trt_llm_kv_cache_block_metrics", only=f'kv_cache_block_type="{kind}"', by="$unnamed")


RUNNING = (
    vllm("num_requests_running"),
    sglang("num_running_reqs"),
    Gauge(metric="trtllm_num_requests_running"),
    triton_requests("scheduled"),
    triton_requests("active"),
    Gauge(metric="tgi_batch_current_size"),
)
WAITING = (
    vllm("num_requests_waiting"),
    sglang("num_queue_reqs"),
    Gauge(metric="trtllm_num_requests_waiting"),
    triton_requests("waiting"),
    Gauge(metric="tgi_queue_size"),
)
FINISHED = (
    "vllm:request_success_total",
    "vllm:request_success",
    "sglang:num_requests_total",
    "trtllm_request_success_total",
)
TGI_FINISHED = "tgi_request_success"
TRITON_FINISHED = "nv_inference_request_success"


def rate(counter: str) -> str:
    """What a counter gains in a second."""
    return f"sum by ($by) (rate({counter}{{$where}}[$window]))"


def ratio(numerator: str, denominator: str) -> str:
    """The gain of one counter by that of another."""
    # 0/0 is NaN: idle for the whole window, which is neither zero nor missing
    return f"{rate(numerator)} / {rate(denominator)}"


def mean(histogram: str) -> str:
    """What a histogram observed on average."""
    return ratio(f"{histogram}_sum", f"{histogram}_count")


def ratio_of_ranks(rank: str, numerator: str, denominator: str) -> str:
    """The gain of one counter by that of another, rank by rank."""
    parts = (f"sum by ($by, {rank}) (rate({metric}{{$where}}[$window]))" for metric in (numerator, denominator))
    return " / ".join(parts)


def finished(function: str = "rate") -> tuple[str, ...]:
    """Requests that engines finished within the window, by `rate` or `increase`."""
    counted = (f"sum by ($by) ({function}({counter}{{$where}}[$window]))" for counter in (*FINISHED, TGI_FINISHED))
    return (*counted, triton_counter(TRITON_FINISHED, function))


def triton_counter(counter: str, function: str = "rate") -> str:
    """What a counter of Triton gained over its TensorRT-LLM models alone.

    In an ensemble each request passes a model before and one after, and each of them counts it.
    """
    is_engine = 'last_over_time(nv_trt_llm_request_metrics{request_type="waiting",$where}[$window])'
    counted = f"{function}({counter}{{$where}}[$window]) and on ($place, model) {is_engine}"
    return f"sum by ($unnamed) ({counted})"


def triton_wait() -> str:
    """Mean time in Triton's own queue, in seconds; what waits inside TensorRT-LLM is not in it."""
    waited = triton_counter("nv_inference_queue_duration_us")
    return f"{waited} / {triton_counter(TRITON_FINISHED)} / {MICROSECONDS:.0f}"


def now(gauges: Sequence[Gauge]) -> tuple[str, ...]:
    """The present values."""
    return tuple(_total(gauge, gauge.selector) for gauge in gauges)


def average(gauges: Sequence[Gauge]) -> tuple[str, ...]:
    """The means over the window."""
    return tuple(_total(gauge, f"avg_over_time({gauge.selector}[$window])") for gauge in gauges)


def growth(running: Gauge, waiting: Gauge) -> str:
    """By how many a second the requests of a pod become more."""
    return " + ".join(_total(gauge, f"deriv({gauge.selector}[$window])") for gauge in (running, waiting))


def last_seen(gauges: Sequence[Gauge]) -> tuple[str, ...]:
    """The times of the newest samples, while they live and then for an hour, so that stale is told from missing."""
    return tuple(text for gauge in gauges for text in _last_seen(gauge))


def peak_of_ranks(gauges: Sequence[Gauge]) -> tuple[str, ...]:
    """The largest values within the window, rank by rank."""
    return tuple(f"max by ({gauge.by_rank}) (max_over_time({gauge.selector}[$window]))" for gauge in gauges)


def latest_of_ranks(gauge: Gauge, *labels: str, function: str = "") -> str:
    """The newest value, rank by rank, apart by `labels` whose values say something; `function` may look back."""
    selected = f"{function}({gauge.selector}[$window])" if function else gauge.selector
    return f"max by ({', '.join((gauge.by_rank, *labels))}) ({selected})"


def exists(metric: str, only: str) -> str:
    """Whether a series was there within the window."""
    return f"group by ($by) (last_over_time({metric}{{{only},$where}}[$window]))"


def asked_for(metric: str, label: str) -> str:
    """What each object asks for, where all who lately told it agree; NaN agrees with nothing."""
    told = f"last_over_time({metric}{{$where}}[$window])"
    return f"max by ($namespace, {label}) ({told}) == min by ($namespace, {label}) ({told})"


def _total(gauge: Gauge, expression: str) -> str:
    if gauge.is_repeated:
        expression = f"max by ({gauge.by_rank}) ({expression})"
    return f"sum by ({gauge.by}) ({expression})"


def _last_seen(gauge: Gauge) -> tuple[str, str]:
    seen = f"timestamp({gauge.selector})"
    return f"max by ({gauge.by}) ({seen})", f"max by ({gauge.by}) (max_over_time({seen}[1h:1m]))"
