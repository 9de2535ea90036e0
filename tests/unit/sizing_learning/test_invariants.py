"""What holds for all samples: order and units make no difference, and nothing makes learning fall over."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.profiles import PerformanceProfile
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning import Fit, Unfit, fit_profile
from reconciler.sizing.learning_lines import Samples, samples_of
from reconciler.sizing.profile_checks import correct
from tests.histories import arrays

NAMES = ("itl", "ttft", "wait", "running", "waiting", "input_tokens", "output_tokens")
HOSTILE = [math.nan, math.inf, -math.inf, -1.0, -0.0, 0.0, 5e-324, 1e-12, 1.0, 64.0, 1e9, 1e300, 1.7e308]
numbers = st.one_of(st.sampled_from(HOSTILE), st.floats(), st.floats(0.001, 100.0))


@st.composite
def noisy_samples(draw: st.DrawFn) -> Samples:
    """A replica that follows some law more or less; unlike the law, readings are of all sizes and holes."""
    seed = draw(st.integers(1, 10_000))
    size = draw(st.integers(30, 200))
    noise = draw(st.sampled_from([0.0, 0.05, 0.2]))
    running = 1 + draw(st.floats(5.0, 300.0)) * spread(size, 2, seed)
    prompt = 50 + 200 * spread(size, 3, seed)
    wait_s = np.where(spread(size, 5, seed) < 0.2, np.nan, 0.01 * spread(size, 6, seed))
    itl_s = (0.02 + draw(st.floats(0.0, 0.001)) * running) * (1 + noise * (2 * spread(size, 7, seed) - 1))
    prefill_s = (0.1 + 1e-5 * prompt * running) * (1 + noise * (2 * spread(size, 11, seed) - 1))
    return Samples(
        itl_s=np.where(spread(size, 13, seed) < 0.1, 10 * itl_s, itl_s),
        ttft_s=prefill_s + np.nan_to_num(wait_s),
        wait_s=wait_s,
        num_running=running,
        num_waiting=np.where(running > 100, 5.0, 0.0),
        input_tokens=prompt,
        output_tokens=np.full(size, 200.0),
        kv_cache_usage=np.full(size, np.nan),
        completions=np.full(size, np.nan),
        prefix_hit_rate=np.full(size, np.nan),
    )


def spread(count: int, prime: int, seed: int) -> Floats:
    """Return numbers that fill [0, 1) evenly (Weyl's sequence)."""
    return np.arange(seed, seed + count, dtype=np.float64) * math.sqrt(prime) % 1.0


def told(fit: Fit | Unfit) -> tuple[float, ...]:
    if isinstance(fit, Unfit):
        return (float(fit.samples),)
    return (
        fit.alpha_s,
        fit.beta_s,
        fit.gamma_s or 0.0,
        fit.delta_s or 0.0,
        fit.max_batch_size,
        fit.error,
        *fit.batch,
        *fit.input_tokens,
    )


@settings(max_examples=50, deadline=None)
@given(samples=noisy_samples(), seed=st.integers(1, 1000))
def test_the_order_of_samples_makes_no_difference(samples: Samples, seed: int) -> None:
    order = np.argsort(spread(samples.itl_s.size, 17, seed))
    assert told(fit_profile(samples.chosen(order))) == told(fit_profile(samples))


@settings(max_examples=50, deadline=None)
@given(samples=noisy_samples(), factor=st.floats(1e-3, 1e3))
def test_times_in_another_unit_give_the_same_parameters_in_it(samples: Samples, factor: float) -> None:
    scaled = replace(
        samples, itl_s=samples.itl_s * factor, ttft_s=samples.ttft_s * factor, wait_s=samples.wait_s * factor
    )
    before, after = fit_profile(samples), fit_profile(scaled)
    assert type(before) is type(after)
    if isinstance(before, Fit) and isinstance(after, Fit):
        assert after.alpha_s == pytest.approx(before.alpha_s * factor, rel=1e-7)
        assert after.beta_s == pytest.approx(before.beta_s * factor, rel=1e-7, abs=1e-12 * factor)
        assert (after.gamma_s or 0) == pytest.approx((before.gamma_s or 0) * factor, rel=1e-7)
        assert (after.delta_s or 0) == pytest.approx((before.delta_s or 0) * factor, rel=1e-7, abs=1e-15 * factor)
        assert after.max_batch_size == before.max_batch_size


@settings(max_examples=50, deadline=None)
@given(samples=noisy_samples())
def test_a_fit_never_claims_more_than_was_seen(samples: Samples) -> None:
    fit = fit_profile(samples)
    if isinstance(fit, Fit):
        assert min(fit.alpha_s, fit.beta_s, fit.gamma_s or 0.0, fit.delta_s or 0.0) >= 0
        assert 1 <= fit.reach <= min(fit.max_batch_size, samples.num_running.max() + 0.5)
        assert fit.error <= 0.25
        assert (fit.gamma_s is None) == (fit.delta_s is None) == (fit.prefill_error is None)


@st.composite
def hostile_samples(draw: st.DrawFn) -> Samples:
    size = draw(st.sampled_from([0, 1, 29, 30, 47]))
    pool = draw(st.lists(numbers, min_size=1, max_size=12))
    columns = [
        np.array([pool[int(place * len(pool))] for place in spread(size, prime, draw(st.integers(1, 50)))])
        for prime in (2, 3, 5, 7, 11, 13, 17)
    ]
    itl_s, ttft_s, wait_s, num_running, num_waiting, input_tokens, output_tokens = columns
    return Samples(
        itl_s=itl_s,
        ttft_s=ttft_s,
        wait_s=wait_s,
        num_running=num_running,
        num_waiting=num_waiting,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        kv_cache_usage=np.full(itl_s.size, np.nan),
        completions=np.full(itl_s.size, np.nan),
        prefix_hit_rate=np.full(itl_s.size, np.nan),
    )


@settings(max_examples=150, deadline=None)
@given(samples=hostile_samples())
def test_nothing_that_is_reported_makes_learning_fall_over(samples: Samples) -> None:
    fit = fit_profile(samples)
    if isinstance(fit, Unfit):
        assert fit.reason
    else:
        assert all(math.isfinite(number) for number in told(fit))


def trace(start_s: float, step_s: float, series: dict[str, tuple[float, ...]]) -> Trace:
    variant = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
    return Trace(pod="llama-0", variant=variant, start_s=start_s, step_s=step_s, series=arrays(series))


hostile_traces = st.lists(
    st.builds(
        trace,
        numbers,
        numbers,
        st.dictionaries(st.sampled_from(NAMES), st.lists(numbers, max_size=8).map(tuple)),
    ),
    max_size=4,
)
profiles = st.builds(
    PerformanceProfile,
    accelerator=st.just("A100"),
    alpha_s=numbers,
    beta_s=numbers,
    max_batch_size=st.one_of(st.integers(-1, 512), st.just(10**400)),
)


@settings(max_examples=150, deadline=None)
@given(traces=hostile_traces, profile=profiles)
def test_nothing_that_is_reported_makes_a_correction_fall_over(
    traces: list[Trace], profile: PerformanceProfile
) -> None:
    correction = correct(traces, profile)
    assert 0.7 <= correction.factor <= 1.2
    assert correction.reason
    assert samples_of(traces).itl_s.ndim == 1


@given(traces=hostile_traces)
def test_the_order_of_pods_makes_no_difference(traces: list[Trace]) -> None:
    profile = PerformanceProfile(accelerator="A100", alpha_s=1.0, beta_s=0.5, max_batch_size=4)
    assert correct(traces[::-1], profile) == correct(traces, profile)
