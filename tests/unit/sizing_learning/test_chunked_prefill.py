"""Engines with chunked prefill, over all shares of prefill: learned from history, sized, and held against the truth."""

import math
import random

import numpy as np
import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.profiles import SERIAL_PREFILL
from reconciler.sizing.learning import Fit, fit_profile
from reconciler.sizing.learning_lines import EngineLimits, samples_of
from reconciler.sizing.queueing_laws import Binding, Targets, serial_prefill
from reconciler.sizing.queueing_rates import RateLimits, largest_rate
from tests.histories import arrays
from tests.servers.chunked_engine import WINDOW_S, ChunkedEngine, Requests, Series

VARIANT = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
SPREAD_OF_EVEN = 1 / 12
PERIOD_S = 7200.0
Draw = tuple[ChunkedEngine, Requests, float, float]


def drawn(number: int) -> Draw:
    """An engine, its requests, and targets (ITL, TTFT p95); prefill is (number + 1) / 21 of its work."""
    draw = random.Random(number)  # noqa: S311 - the same engines in every run
    share = (number + 1) / 21
    alpha_s = draw.uniform(0.005, 0.025)
    engine = ChunkedEngine(
        alpha_s=alpha_s,
        beta_s=alpha_s * draw.uniform(0.003, 0.02),
        prompt_s=draw.uniform(2e-5, 1.2e-4),
        token_budget=draw.choice([2048, 4096, 8192]),
        max_batch=draw.choice([32, 64, 128, 256]),
    )
    output = draw.uniform(80, 600)
    each_s = engine.alpha_s / engine.max_batch + engine.beta_s
    prompt = share / (1 - share) * output * each_s / engine.prompt_s
    kept = min(max(prompt, 30.0), 12_000.0)
    requests = Requests(input_tokens=kept, output_tokens=output * kept / prompt, seed=number)
    busy_s = engine.alpha_s + engine.beta_s * engine.max_batch
    ttft_s = max(kept * engine.prompt_s * draw.uniform(2, 8) + 4 * busy_s, 0.3) * draw.uniform(1, 3)
    return engine, requests, busy_s * draw.uniform(1.1, 3) * (1 + share), ttft_s


def history(engine: ChunkedEngine, requests: Requests, capacity_per_s: float) -> Series:
    """Four hours between 15 and 85 % of what is carried."""
    return engine.play(
        lambda time_s: capacity_per_s * (0.5 - 0.35 * math.cos(2 * math.pi * time_s / PERIOD_S)), requests, hours=4
    )


def learned(engine: ChunkedEngine, series: Series) -> Fit:
    trace = Trace(pod="llama-0", variant=VARIANT, start_s=0.0, step_s=WINDOW_S, series=arrays(series))
    limits = EngineLimits(max_batch_size=engine.max_batch, token_budget=engine.token_budget)
    fit = fit_profile(samples_of([trace]), limits)
    assert isinstance(fit, Fit), fit.reason
    return fit


def sized(
    known: Fit | ChunkedEngine, engine: ChunkedEngine, requests: Requests, itl_s: float, ttft_s: float
) -> RateLimits:
    assert known.prompt_s is not None
    curves = serial_prefill(
        alpha_s=known.alpha_s,
        beta_s=known.beta_s,
        prompt_s=known.prompt_s,
        input_tokens=requests.input_tokens,
        output_tokens=requests.output_tokens,
        max_batch=engine.max_batch,
        token_budget=engine.token_budget,
        spread=SPREAD_OF_EVEN,
    )
    none = np.zeros(1)
    return largest_rate(
        curves,
        Targets(
            itl_s=none + itl_s, wait_s=none + np.inf, tokens_per_s=none, ttft_s=none + ttft_s, ttft_percentile=95.0
        ),
    )


@pytest.mark.parametrize("number", range(20))
def test_what_is_learned_carries_what_the_engine_carries(number: int) -> None:
    """Within 0.85 and 1.05 of it, at every share of prefill: a prompt token takes at least what longer ones show."""
    engine, requests, itl_s, ttft_s = drawn(number)
    about_per_s = float(sized(engine, engine, requests, itl_s, ttft_s).rate_per_s[0])
    fit = learned(engine, history(engine, requests, about_per_s))

    assert fit.profile("H100", "2026-11-22").law == SERIAL_PREFILL
    limits = sized(fit, engine, requests, itl_s, ttft_s)
    assert limits.binding[0] in {Binding.TTFT, Binding.ITL, Binding.CAPACITY}
    rate_per_s = float(limits.rate_per_s[0])
    assert engine.keeps(rate_per_s / 1.05, requests, itl_s=itl_s, ttft_s=ttft_s, percentile=95)
    assert not engine.keeps(rate_per_s / 0.85, requests, itl_s=itl_s, ttft_s=ttft_s, percentile=95)
