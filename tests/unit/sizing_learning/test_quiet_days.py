"""Learned from quiet days, in which a few requests run of the 256 that may: what is said of a load many times as large.

The larger a batch that was never seen, the more the fitted line has to be sure of; where it is not, the profile says so
(`reach`) and somebody else must answer.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.sizing.learning import Fit, fit_profile
from reconciler.sizing.learning_lines import EngineLimits, samples_of
from reconciler.sizing.queueing_laws import ServiceCurves, Targets, prefill_decode, serial_prefill
from reconciler.sizing.queueing_rates import largest_rate
from tests.histories import arrays
from tests.servers.chunked_engine import WINDOW_S, ChunkedEngine, Requests, Series

VARIANT = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
MOST = 256
HOURS, PERIOD_S = 6.0, 7200.0
CLOSE, NEVER = 0.15, 1.3
ENGINES = {
    # prefill is a twentieth, a third, two thirds and nine tenths of the work
    "chat": (
        ChunkedEngine(alpha_s=0.016, beta_s=1e-4, prompt_s=3e-5, token_budget=4096, max_batch=MOST),
        (100.0, 400.0),
    ),
    "code": (
        ChunkedEngine(alpha_s=0.012, beta_s=8e-5, prompt_s=5e-5, token_budget=8192, max_batch=MOST),
        (600.0, 480.0),
    ),
    "search": (
        ChunkedEngine(alpha_s=0.02, beta_s=2e-4, prompt_s=1e-4, token_budget=2048, max_batch=MOST),
        (1200.0, 220.0),
    ),
    "papers": (
        ChunkedEngine(alpha_s=0.014, beta_s=1e-4, prompt_s=9e-5, token_budget=2048, max_batch=MOST),
        (6000.0, 400.0),
    ),
}


@cache
def quiet(name: str, shape: str, running: float) -> tuple[Series, float]:
    """Hours in which that many run at the peak, and that rate."""
    engine, (inputs, outputs) = ENGINES[name]
    peak_per_s = float(curves_of(engine, engine, name).service_rate_per_s(np.array([running]))[0])
    requests = Requests(input_tokens=inputs, output_tokens=outputs, shape=shape)
    series = engine.play(
        lambda time_s: peak_per_s * (0.5 - 0.4 * math.cos(2 * math.pi * time_s / PERIOD_S)), requests, hours=HOURS
    )
    return series, peak_per_s


def curves_of(known: ChunkedEngine | Fit, engine: ChunkedEngine, name: str) -> ServiceCurves:
    inputs, outputs = ENGINES[name][1]
    if isinstance(known, Fit) and known.prompt_s is None:
        return prefill_decode(
            alpha_s=known.alpha_s,
            beta_s=known.beta_s,
            gamma_s=known.gamma_s or 0.0,
            delta_s=known.delta_s or 0.0,
            input_tokens=inputs,
            output_tokens=outputs,
            max_batch=engine.max_batch,
        )
    return serial_prefill(
        alpha_s=known.alpha_s,
        beta_s=known.beta_s,
        prompt_s=known.prompt_s or 0.0,
        input_tokens=inputs,
        output_tokens=outputs,
        max_batch=engine.max_batch,
        token_budget=known.token_budget or engine.token_budget,
    )


def capacity(known: ChunkedEngine | Fit, engine: ChunkedEngine, name: str) -> float:
    """What is carried inside an inter-token latency and a percentile of the time to first token."""
    inputs, _ = ENGINES[name][1]
    busy_s = engine.alpha_s + engine.beta_s * 64
    targets = Targets(
        itl_s=np.array([2.5 * busy_s]),
        wait_s=np.array([np.inf]),
        tokens_per_s=np.zeros(1),
        ttft_s=np.array([8 * inputs * engine.prompt_s + 20 * busy_s]),
        ttft_percentile=95.0,
    )
    return float(largest_rate(curves_of(known, engine, name), targets).rate_per_s[0])


@pytest.mark.parametrize("is_budget_known", [True, False])
@pytest.mark.parametrize("running", [2.0, 5.0])
@pytest.mark.parametrize("shape", ["even", "exponential"])
@pytest.mark.parametrize("name", sorted(ENGINES))
def test_a_load_that_grows_gets_what_the_true_profile_would_give_it(
    name: str, shape: str, running: float, is_budget_known: bool
) -> None:
    engine, _ = ENGINES[name]
    series, peak_per_s = quiet(name, shape, running)
    trace = Trace(pod="llama-0", variant=VARIANT, start_s=0.0, step_s=WINDOW_S, series=arrays(series))
    limits = EngineLimits(max_batch_size=MOST, token_budget=engine.token_budget if is_budget_known else None)
    fit = fit_profile(samples_of([trace]), limits)
    if not isinstance(fit, Fit):
        return  # no profile: saturation answers
    true_per_s = capacity(engine, engine, name)
    sized_per_s = capacity(replace(fit, max_batch_size=MOST), engine, name)
    sure_per_s = float(curves_of(fit, engine, name).service_rate_per_s(np.array([float(fit.reach)]))[0])
    if sure_per_s < sized_per_s:
        return  # the profile does not reach: saturation answers
    for times in (2, 10):
        answer, true = (math.ceil(times * peak_per_s / each) for each in (sized_per_s, true_per_s))
        assert answer <= NEVER * true + 1e-9 or answer == true + 1 == 2
    assert 1 / (1 + CLOSE) <= true_per_s / sized_per_s <= 1 + CLOSE
