"""Published measurements of engines: what a profile through two of them sizes for the one between.

Measured points of github.com/ai-dynamo/aiconfigurator (Apache-2.0), `silicon_sample.csv` at 095f58a: of each benchmark
the configuration nearest to 1024 input and output tokens on the fewest devices, with 16, 32 and 64 requests at once.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from reconciler.sizing.queueing_laws import Targets, serial_prefill
from reconciler.sizing.queueing_rates import largest_rate

LOW, MIDDLE, HIGH = 16, 32, 64
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Mean times to first token and between tokens (ms), with few requests and with 16, 32 and 64 at once."""

    name: str
    output_tokens: int = 1024
    few_ttft_ms: float
    low: Point
    middle: Point
    high: Point


BENCHMARKS = (
    Benchmark(
        name="Llama-3.1-8B, H100, TensorRT-LLM 1.0.0rc3",
        output_tokens=512,
        few_ttft_ms=550.0,
        low=(308.4, 8.354),
        middle=(225.6, 9.877),
        high=(229.9, 13.10),
    ),
    Benchmark(
        name="Qwen3-32B FP8, H100, TensorRT-LLM 1.0.0rc3",
        output_tokens=512,
        few_ttft_ms=263.5,
        low=(287.5, 18.05),
        middle=(345.1, 23.04),
        high=(485.9, 29.16),
    ),
    Benchmark(
        name="Qwen3-32B, 2xH100, vLLM 0.12.0",
        few_ttft_ms=154.3,
        low=(187.4, 17.38),
        middle=(236.8, 20.06),
        high=(380.7, 26.09),
    ),
    Benchmark(
        name="Llama-3.1-70B FP8, H200, TensorRT-LLM",
        few_ttft_ms=562.2,
        low=(710.9, 22.99),
        middle=(924.1, 25.80),
        high=(1345.0, 32.34),
    ),
    Benchmark(
        name="Kimi-K2.5 FP4, 4xB200, vLLM 0.17.0",
        few_ttft_ms=81.5,
        low=(108.8, 12.73),
        middle=(151.4, 16.77),
        high=(232.1, 22.87),
    ),
    Benchmark(
        name="gpt-oss-120b FP4, H200, vLLM",
        few_ttft_ms=105.9,
        low=(133.2, 12.65),
        middle=(182.6, 17.64),
        high=(272.7, 24.76),
    ),
    Benchmark(
        name="DeepSeek-R1 FP8, 8xH200, SGLang 0.5.9",
        few_ttft_ms=259.9,
        low=(285.9, 16.63),
        middle=(337.5, 23.31),
        high=(418.7, 32.99),
    ),
    Benchmark(
        name="MiniMax-M2.5 FP8, 4xH100, vLLM 0.18.0",
        few_ttft_ms=82.5,
        low=(113.8, 15.54),
        middle=(141.4, 20.02),
        high=(191.2, 25.66),
    ),
)


def per_s(benchmark: Benchmark, at_once: int, point: Point) -> float:
    """Requests a second of a benchmark that keeps so many at once."""
    return 1000 * at_once / (point[0] + (benchmark.output_tokens - 1) * point[1])


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_a_profile_sizes_the_throughput_at_a_latency_within_15_percent(benchmark: Benchmark) -> None:
    steps, inputs = benchmark.output_tokens - 1, 1024
    low, high = (
        per_s(benchmark, at_once, point) * steps * point[1] / 1000
        for at_once, point in ((LOW, benchmark.low), (HIGH, benchmark.high))
    )
    slope_s = (benchmark.high[1] - benchmark.low[1]) / (high - low) / 1000
    alpha_s = benchmark.low[1] / 1000 - slope_s * low
    most_s = slope_s * benchmark.output_tokens / inputs
    prompt_s = min((benchmark.few_ttft_ms / 1000 - alpha_s) / inputs, most_s)
    curves = serial_prefill(
        alpha_s=alpha_s,
        beta_s=slope_s - prompt_s * inputs / benchmark.output_tokens,
        prompt_s=prompt_s,
        input_tokens=inputs,
        output_tokens=benchmark.output_tokens,
        max_batch=HIGH,
        spread=0.0,
    )
    none = np.zeros(1)
    limits = largest_rate(
        curves, Targets(itl_s=none + benchmark.middle[1] / 1000, wait_s=none + np.inf, tokens_per_s=none)
    )

    assert float(limits.rate_per_s[0]) == pytest.approx(per_s(benchmark, MIDDLE, benchmark.middle), rel=0.15)
