"""Invariants of the law with prefill, and its corners."""

import math
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.sizing.arrays import Floats
from reconciler.sizing.queueing_chain import QueueState, analyze
from reconciler.sizing.queueing_laws import Binding, ServiceCurves, Targets, decode_only, prefill_decode
from reconciler.sizing.queueing_rates import RateLimits, largest_rate, largest_throughput, rate_range

batches = st.integers(1, 300)
prompts = st.one_of(st.just(0), st.integers(1, 12000))
outputs = st.one_of(st.just(1), st.integers(2, 1024))
SUBNORMAL = sys.float_info.min
alphas_s = st.floats(1e-3, 0.3)
slopes = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
loads = st.floats(1e-3, 3.0)
waiting = st.sampled_from([0, 1, 10])


def curves_of(
    alpha_s: float, slope: float, input_tokens: int, output_tokens: int, max_batch: int, queued_batches: int
) -> ServiceCurves:
    beta_s = alpha_s * slope
    return prefill_decode(
        alpha_s=alpha_s,
        beta_s=beta_s,
        gamma_s=8 * alpha_s,
        delta_s=beta_s / 32,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        max_batch=float(max_batch),
        occupancy_limit=float(max_batch * (1 + queued_batches)),
    )


def state_at(curves: ServiceCurves, load: float) -> QueueState:
    return analyze(curves, load * curves.service_rate_per_s(curves.max_batch))


def bound_to(
    curves: ServiceCurves,
    *,
    itl_s: Floats | float = np.inf,
    ttft_s: Floats | float = np.inf,
) -> RateLimits:
    whole = np.zeros_like(curves.max_batch)
    return largest_rate(
        curves,
        Targets(
            itl_s=whole + itl_s,
            wait_s=whole + np.inf,
            tokens_per_s=whole,
            ttft_s=whole + ttft_s,
        ),
    )


def sum_states(curves: ServiceCurves, rate_per_s: float) -> dict[str, float]:
    """The chain of one candidate state by state, in logarithms: slow and plain."""
    top, limit = int(curves.max_batch[0]), int(curves.occupancy_limit[0])
    n = np.arange(1, limit + 1)
    served = np.minimum(n, top)
    departures = np.array([float(curves.service_rate_per_s(float(each))[0]) for each in range(1, top + 1)])[served - 1]
    log_weights = np.concatenate([[0.0], np.cumsum(math.log(rate_per_s) - np.log(departures))])
    weights = np.exp(log_weights - log_weights.max())
    p = weights / weights.sum()
    throughput = float((departures * p[1:]).sum())
    return {
        "throughput_per_s": throughput,
        "service_s": float((served * p[1:]).sum()) / throughput,
        "wait_s": float(((n - served) * p[1:]).sum()) / throughput,
        "p_empty": float(p[0]),
        "p_full": float(p[-1]),
    }


@settings(deadline=None, max_examples=60)
@given(alphas_s, slopes, prompts, outputs, batches, waiting, loads)
def test_state_is_that_of_the_chain_summed_state_by_state(
    alpha_s: float, slope: float, prompt: int, output: int, max_batch: int, queued_batches: int, load: float
) -> None:
    curves = curves_of(alpha_s, slope, prompt, output, max_batch, queued_batches)
    rate_per_s = load * curves.service_rate_per_s(curves.max_batch)
    state = analyze(curves, rate_per_s)
    for name, expected in sum_states(curves, float(rate_per_s[0])).items():
        assert getattr(state, name)[0] == pytest.approx(expected, rel=1e-8, abs=1e-290), name


@settings(deadline=None)
@given(alphas_s, slopes, prompts, outputs, batches, waiting, loads)
def test_littles_law_holds(
    alpha_s: float, slope: float, prompt: int, output: int, max_batch: int, queued_batches: int, load: float
) -> None:
    curves = curves_of(alpha_s, slope, prompt, output, max_batch, queued_batches)
    state = state_at(curves, load)
    assert state.mean_in_system == pytest.approx(state.throughput_per_s * state.response_s)
    assert state.mean_in_service[0] <= max_batch * (1 + 1e-12)
    assert state.mean_in_system[0] <= curves.occupancy_limit[0] * (1 + 1e-12)
    assert state.ttft_s[0] >= state.wait_s[0]


@settings(deadline=None)
@given(alphas_s, slopes, prompts, outputs, batches, waiting, loads, st.floats(1.0001, 10.0))
def test_more_load_is_never_faster(
    alpha_s: float,
    slope: float,
    prompt: int,
    output: int,
    max_batch: int,
    queued_batches: int,
    load: float,
    more: float,
) -> None:
    curves = curves_of(alpha_s, slope, prompt, output, max_batch, queued_batches)
    before, after = state_at(curves, load), state_at(curves, load * more)
    for name in ("service_s", "wait_s", "p_full", "throughput_per_s", "itl_s", "ttft_s"):
        # Numbers below the normal ones have a digit or two: no order can be expected of them.
        assert getattr(after, name)[0] >= getattr(before, name)[0] * (1 - 1e-11) - SUBNORMAL, name


@settings(deadline=None)
@given(
    alphas_s,
    slopes,
    prompts,
    outputs,
    batches,
    waiting,
    st.floats(0.5, 1.5),
    st.floats(0.5, 5.0),
)
def test_largest_rate_meets_the_targets_and_a_little_more_does_not(
    alpha_s: float,
    slope: float,
    prompt: int,
    output: int,
    max_batch: int,
    queued_batches: int,
    itl_share: float,
    ttft_share: float,
) -> None:
    curves = curves_of(alpha_s, slope, prompt, output, max_batch, queued_batches)
    busy = state_at(curves, 0.9)
    itl_s = busy.itl_s * itl_share
    ttft_s = (busy.ttft_s - busy.wait_s) * ttft_share + alpha_s
    limits = bound_to(curves, itl_s=itl_s, ttft_s=ttft_s)

    def excess(rate_per_s: Floats) -> float:
        state = analyze(curves, rate_per_s)
        return float(max(state.itl_s[0] / itl_s[0], state.ttft_s[0] / ttft_s[0])) - 1

    lowest, highest = rate_range(curves)
    if not limits.feasible[0]:
        assert excess(lowest) > -1e-11
        return
    assert excess(limits.rate_per_s) <= 1e-8
    if limits.binding[0] == Binding.CAPACITY:
        assert limits.rate_per_s[0] == pytest.approx(highest[0], rel=1e-14)
    else:
        assert excess(limits.rate_per_s * 1.001) > (0.0 if slope else -1e-9)


def mixed() -> ServiceCurves:
    """Short and long batches in turn, which are solved in two ways."""
    return prefill_decode(
        alpha_s=0.02,
        beta_s=0.001,
        gamma_s=0.05,
        delta_s=2e-6,
        input_tokens=np.array([12000.0, 100.0, 4000.0, 12000.0, 0.0, 12000.0]),
        output_tokens=64.0,
        max_batch=np.array([12.0, 300.0, 20.0, 1.0, 64.0, 250.0]),
        occupancy_limit=np.array([120.0, 300.0, 40.0, 10.0, 64.0, 2500.0]),
    )


def test_neighbours_do_not_change_a_candidates_answer() -> None:
    curves = mixed()
    itl_s = state_at(curves, 0.7).itl_s
    together = bound_to(curves, itl_s=itl_s, ttft_s=1.0)

    for i in range(6):
        alone = bound_to(curves.take(np.array([i])), itl_s=itl_s[i], ttft_s=1.0)
        assert alone.binding[0] == together.binding[i]
        assert alone.rate_per_s[0] == pytest.approx(together.rate_per_s[i], rel=1e-12)


@pytest.mark.parametrize("load", [1e-200, 1e-9, 1.0, 1e6, 1e100])
def test_no_load_and_overload_are_finite(load: float) -> None:
    curves = mixed()
    state = state_at(curves, load)

    assert np.isfinite(np.stack([state.service_s, state.wait_s, state.itl_s, state.ttft_s])).all()
    if load < 1e-8:
        np.testing.assert_allclose(state.service_s, curves.service_s(1.0), rtol=1e-6)
    if load > 1e5:
        np.testing.assert_allclose(state.mean_in_system, curves.occupancy_limit, rtol=1e-4)


def test_prefill_adds_to_the_steps_of_a_request() -> None:
    curves = prefill_decode(
        alpha_s=0.02, beta_s=0.001, gamma_s=0.05, delta_s=1e-5, input_tokens=1000, output_tokens=101, max_batch=8
    )

    assert curves.occupancy_limit[0] == 88
    assert curves.service_s(4.0)[0] == pytest.approx(0.05 + 1e-5 * 1000 * 4 + 100 * (0.02 + 0.001 * 4))


def test_without_prompt_and_prefill_the_first_token_is_no_step() -> None:
    prefill = prefill_decode(
        alpha_s=0.02, beta_s=0.001, gamma_s=0, delta_s=0, input_tokens=0, output_tokens=101, max_batch=8
    )
    decode = decode_only(alpha_s=0.02, beta_s=0.001, output_tokens=100, max_batch=8, occupancy_limit=88)

    for load in (0.1, 0.9, 1.5):
        one, other = state_at(prefill, load), state_at(decode, load)
        assert one.itl_s == pytest.approx(other.itl_s)
        assert one.ttft_s == pytest.approx(other.ttft_s)


@pytest.mark.parametrize(("gamma_s", "delta_s", "input_tokens"), [(0.1, 1e-4, 0), (0.0, 0.0, 500)])
def test_a_request_that_would_take_no_time_takes_one_step(gamma_s: float, delta_s: float, input_tokens: int) -> None:
    curves = prefill_decode(
        alpha_s=0.02,
        beta_s=0.001,
        gamma_s=gamma_s,
        delta_s=delta_s,
        input_tokens=input_tokens,
        output_tokens=1,
        max_batch=4,
    )
    state = state_at(curves, 1e-9)

    assert state.service_s[0] == pytest.approx(0.021)
    assert state.itl_s[0] == pytest.approx(0.021)
    assert state.ttft_s[0] == pytest.approx(0.0, abs=1e-9)


def test_one_token_is_all_prefill() -> None:
    curves = prefill_decode(
        alpha_s=0.02, beta_s=0.001, gamma_s=0.1, delta_s=1e-5, input_tokens=1000, output_tokens=1, max_batch=4
    )
    state = state_at(curves, 0.5)

    assert state.ttft_s == pytest.approx(state.response_s)


@pytest.mark.parametrize("prompt", [0, 500])
def test_a_batch_of_one_has_one_inter_token_latency(prompt: int) -> None:
    curves = curves_of(0.02, 0.05, prompt, 100, 1, 10)
    lone_s = analyze(curves, rate_range(curves)[0]).itl_s

    met, missed = bound_to(curves, itl_s=lone_s), bound_to(curves, itl_s=lone_s * (1 - 1e-6))
    assert met.binding[0] == Binding.CAPACITY
    assert met.rate_per_s[0] == pytest.approx(rate_range(curves)[1][0])
    assert not missed.feasible[0]
    assert missed.binding[0] == Binding.ITL


def test_a_flat_curve_is_decided_by_the_curve_not_by_rounding() -> None:
    curves = curves_of(0.02, 0.0, 500, 100, 64, 0)
    assert bound_to(curves, itl_s=0.02).binding[0] == Binding.CAPACITY
    assert not bound_to(curves, itl_s=0.02 * (1 - 1e-9)).feasible[0]
    first_token_s = analyze(curves, rate_range(curves)[0]).ttft_s
    assert bound_to(curves, ttft_s=first_token_s).binding[0] == Binding.CAPACITY
    missed = bound_to(curves, ttft_s=first_token_s * (1 - 1e-9))
    assert not missed.feasible[0]
    assert missed.binding[0] == Binding.TTFT


@pytest.mark.parametrize("max_batch", [1, 5, 8, 24, 139, 257])
@pytest.mark.parametrize("share", [0.9, 0.99, 1 - 1e-9])
def test_a_first_token_that_no_load_makes_faster_is_out_of_reach(max_batch: int, share: float) -> None:
    curves = curves_of(0.017, 0.0, 500, 100, max_batch, 10)
    first_token_s = analyze(curves, np.zeros(1)).ttft_s
    limits = bound_to(curves, ttft_s=first_token_s * share)
    assert not limits.feasible[0]
    assert limits.binding[0] == Binding.TTFT


def test_a_target_of_zero_is_out_of_reach_and_no_division_by_zero() -> None:
    curves = curves_of(0.02, 0.05, 500, 100, 8, 10)
    assert not bound_to(curves, ttft_s=0.0).feasible[0]
    assert not bound_to(curves, itl_s=0.0).feasible[0]
    none = np.array([np.inf])
    assert not largest_rate(curves, Targets(itl_s=none, wait_s=np.zeros(1), tokens_per_s=np.zeros(1))).feasible[0]


def test_the_throughput_at_the_largest_rate_lacks_those_turned_away() -> None:
    curves = curves_of(0.02, 0.05, 500, 100, 8, 0)
    limits = bound_to(curves)

    assert largest_throughput(curves, limits)[0] < 0.9 * limits.rate_per_s[0]
    assert largest_throughput(curves, bound_to(curves, itl_s=1e-3))[0] == 0.0


@settings(deadline=None)
@given(alphas_s, slopes, prompts, outputs, batches, st.floats(0.01, 1.0))
def test_a_looser_target_never_allows_less(
    alpha_s: float, slope: float, prompt: int, output: int, max_batch: int, load: float
) -> None:
    curves = curves_of(alpha_s, slope, prompt, output, max_batch, 10)
    assume(slope > 0)
    ttft_s = state_at(curves, load).ttft_s
    tight, loose = bound_to(curves, ttft_s=ttft_s), bound_to(curves, ttft_s=ttft_s * 1.1)

    assert loose.rate_per_s[0] >= tight.rate_per_s[0] * (1 - 1e-10)
