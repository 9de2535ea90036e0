"""Profiles held against simulated replicas: right ones are believed at any load, wrong ones are not for long."""

from dataclasses import replace

import numpy as np
import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.sizing.arrays import Floats
from reconciler.sizing.profile_checks import (
    Contradiction,
    Forecast,
    Measure,
    find_contradiction,
    loads_beside,
    stretches_of,
)
from reconciler.sizing.queueing_chain import analyze
from reconciler.sizing.queueing_laws import ServiceCurves, Targets, serial_prefill
from reconciler.sizing.queueing_rates import largest_rate
from tests.histories import arrays
from tests.servers.chunked_engine import WINDOW_S, ChunkedEngine, Requests, Series

VARIANT = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
ENGINES = (
    (ChunkedEngine(alpha_s=0.007, beta_s=5e-5, prompt_s=4e-5, token_budget=8192, max_batch=256), (500.0, 200.0)),
    (ChunkedEngine(alpha_s=0.02, beta_s=4e-4, prompt_s=1e-4, token_budget=2048, max_batch=32), (2000.0, 150.0)),
    (ChunkedEngine(alpha_s=0.012, beta_s=1e-4, prompt_s=6e-5, token_budget=4096, max_batch=64), (4000.0, 60.0)),
    (ChunkedEngine(alpha_s=0.015, beta_s=2e-4, prompt_s=1e-6, token_budget=8192, max_batch=16), (50.0, 300.0)),
)


def curves_of(engine: ChunkedEngine, inputs: object, outputs: object) -> ServiceCurves:
    return serial_prefill(
        alpha_s=engine.alpha_s,
        beta_s=engine.beta_s,
        prompt_s=engine.prompt_s,
        input_tokens=np.asarray(inputs),
        output_tokens=np.asarray(outputs),
        max_batch=engine.max_batch,
        token_budget=engine.token_budget,
        spread=1 / 12,
    )


def carried(engine: ChunkedEngine, lengths: tuple[float, float]) -> float:
    """What it carries with a mean time to first token of five iterations and prompts, at most."""
    one, infinite = np.ones(1), np.full(1, np.inf)
    ttft_s = 5 * (engine.alpha_s + engine.beta_s * engine.max_batch + engine.prompt_s * lengths[0]) * one
    targets = Targets(itl_s=infinite, wait_s=infinite, tokens_per_s=0 * one, ttft_s=ttft_s)
    return float(largest_rate(curves_of(engine, *lengths), targets).rate_per_s[0])


def played(engine: ChunkedEngine, lengths: tuple[float, float], per_s: float, replicas: int = 2) -> tuple[Trace, ...]:
    """An hour of replicas, after a quarter of one in which they filled."""
    skipped = round(900 / WINDOW_S)
    found = []
    for number in range(replicas):
        requests = Requests(input_tokens=lengths[0], output_tokens=lengths[1], seed=number + 1)
        series: Series = engine.play(lambda _: per_s, requests, hours=1.25)
        kept = {name: values[skipped:] for name, values in series.items()}
        found.append(Trace(pod=f"llama-{number}", variant=VARIANT, start_s=0.0, step_s=WINDOW_S, series=arrays(kept)))
    return tuple(found)


def compared(believed: ChunkedEngine, traces: tuple[Trace, ...]) -> Contradiction | None:
    stretches = stretches_of(traces)
    curves = curves_of(believed, [each.input_tokens for each in stretches], [each.output_tokens for each in stretches])

    def forecast(rates: Floats) -> Forecast:
        state, most = analyze(curves, rates), curves.service_rate_per_s(curves.max_batch)
        wait_s, ttft_s = (np.where(rates >= most, np.inf, each) for each in (state.wait_s, state.ttft_s))
        return Forecast(itl_s=state.itl_s, ttft_s=ttft_s, wait_s=wait_s, most_per_s=most)

    rates = np.array([each.rate_per_s for each in stretches])
    slow, fast = (forecast(each) for each in loads_beside(rates)[::-1])
    return find_contradiction(stretches, forecast(rates), fast, slow, limits_first_token=True)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.95])
@pytest.mark.parametrize(("engine", "lengths"), ENGINES)
def test_a_right_profile_is_believed_at_any_load(
    engine: ChunkedEngine, lengths: tuple[float, float], share: float
) -> None:
    assert compared(engine, played(engine, lengths, share * carried(engine, lengths))) is None


@pytest.mark.parametrize(("engine", "lengths"), ENGINES)
def test_a_load_that_outgrows_a_replica_contradicts_nothing(
    engine: ChunkedEngine, lengths: tuple[float, float]
) -> None:
    """What it cannot carry waits longer and longer; what it completes is what the profile says."""
    most = curves_of(engine, *lengths)
    per_s = 1.3 * float(most.service_rate_per_s(most.max_batch)[0])
    assert compared(engine, played(engine, lengths, per_s, replicas=1)) is None


@pytest.mark.parametrize("speed", [0.45, 2.3])
@pytest.mark.parametrize(("engine", "lengths"), ENGINES)
def test_a_profile_of_another_speed_is_contradicted(
    engine: ChunkedEngine, lengths: tuple[float, float], speed: float
) -> None:
    """A time that is twice as long, or half, in all that takes time."""
    wrong = replace(
        engine, alpha_s=engine.alpha_s / speed, beta_s=engine.beta_s / speed, prompt_s=engine.prompt_s / speed
    )
    found = compared(wrong, played(engine, lengths, 0.5 * carried(engine, lengths)))
    assert found is not None
    assert (found.expected > found.measured) == (speed < 1) or found.measure is Measure.RATE


@pytest.mark.parametrize(("engine", "lengths"), ENGINES[:2])
def test_a_batch_that_was_never_full_is_contradicted_once_more_run(
    engine: ChunkedEngine, lengths: tuple[float, float]
) -> None:
    """Two quiet days saw five at once, the engine takes far more."""
    found = compared(replace(engine, max_batch=5), played(engine, lengths, 0.5 * carried(engine, lengths)))
    assert found is not None
    assert found.stretches >= 4


def test_too_little_history_contradicts_nothing() -> None:
    engine, lengths = ENGINES[0]
    (trace,) = played(engine, lengths, 0.5 * carried(engine, lengths), replicas=1)
    short = replace(trace, series={name: values[-35:] for name, values in trace.series.items()})
    assert compared(replace(engine, max_batch=2), (trace,)) is not None
    assert compared(replace(engine, max_batch=2), (short,)) is None


def test_who_completes_nothing_says_nothing() -> None:
    nothing = dict.fromkeys(("completions", "itl", "ttft", "wait"), (0.0,) * 60)
    trace = Trace(pod="llama-0", variant=VARIANT, start_s=0.0, step_s=60.0, series=arrays(nothing))
    assert stretches_of([trace]) == ()
