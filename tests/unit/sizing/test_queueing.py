"""Invariants of the queue, and its corners."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.sizing.arrays import Floats
from reconciler.sizing.queueing_chain import (
    QueueState,
    _solve_by_beta_function,
    _solve_by_recursion,
    analyze,
    solve_tail,
)
from reconciler.sizing.queueing_laws import Binding, ServiceCurves, Targets, decode_only, mean_limit_s
from reconciler.sizing.queueing_rates import largest_rate, rate_range

batches = st.integers(1, 600)
alphas_s = st.floats(1e-4, 1.0)
slopes = st.one_of(st.just(0.0), st.floats(1e-12, 10.0))
tokens = st.integers(1, 4096)
loads = st.floats(1e-6, 20.0)


def one(alpha_s: float, slope: float, output_tokens: int, max_batch: int) -> ServiceCurves:
    return decode_only(
        alpha_s=alpha_s, beta_s=alpha_s * slope, output_tokens=float(output_tokens), max_batch=float(max_batch)
    )


def state_at(curves: ServiceCurves, load: float) -> QueueState:
    """The state at a multiple of the full batch's rate."""
    return analyze(curves, load * curves.service_rate_per_s(curves.max_batch))


def sum_states(curves: ServiceCurves, rate_per_s: float) -> dict[str, float]:
    """The chain of one candidate state by state, in logarithms: slow and plain."""
    top, limit = int(curves.max_batch[0]), int(curves.occupancy_limit[0])
    n = np.arange(1, limit + 1)
    served = np.minimum(n, top)
    departures = served / (curves.base_s[0] + curves.per_request_s[0] * served)
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


@settings(deadline=None)
@given(alphas_s, slopes, tokens, batches, loads)
def test_state_is_that_of_the_chain_summed_state_by_state(
    alpha_s: float, slope: float, output_tokens: int, max_batch: int, load: float
) -> None:
    curves = one(alpha_s, slope, output_tokens, max_batch)
    rate_per_s = load * float(curves.service_rate_per_s(curves.max_batch)[0])
    state = analyze(curves, np.array([rate_per_s]))

    for name, expected in sum_states(curves, rate_per_s).items():
        assert getattr(state, name)[0] == pytest.approx(expected, rel=1e-8, abs=1e-290), name


@settings(deadline=None)
@given(alphas_s, slopes, tokens, batches, loads)
def test_littles_law_holds_and_probabilities_are_probabilities(
    alpha_s: float, slope: float, output_tokens: int, max_batch: int, load: float
) -> None:
    curves = one(alpha_s, slope, output_tokens, max_batch)
    state = state_at(curves, load)

    assert state.mean_in_system == pytest.approx(state.throughput_per_s * state.response_s)
    assert state.mean_in_service[0] <= max_batch * (1 + 1e-12)
    assert state.mean_in_system[0] <= curves.occupancy_limit[0] * (1 + 1e-12)
    assert curves.service_s(1.0)[0] <= state.service_s[0] * (1 + 1e-12)
    assert state.service_s[0] <= curves.service_s(curves.max_batch)[0] * (1 + 1e-12)
    for probability in (state.p_empty, state.p_full, state.busy_probability):
        assert 0 <= probability[0] <= 1


@settings(deadline=None)
@given(alphas_s, slopes, tokens, batches, loads, st.floats(1.0001, 10.0))
def test_more_load_is_never_faster(
    alpha_s: float, slope: float, output_tokens: int, max_batch: int, load: float, factor: float
) -> None:
    curves = one(alpha_s, slope, output_tokens, max_batch)
    less, more = state_at(curves, load), state_at(curves, load * factor)

    for name in ("service_s", "wait_s", "throughput_per_s", "p_full", "busy_probability"):
        assert getattr(more, name)[0] >= getattr(less, name)[0] * (1 - 1e-11), name


@settings(deadline=None)
@given(alphas_s, slopes, tokens, batches, loads, st.floats(1e-3, 1e3))
def test_a_slower_clock_changes_times_and_nothing_else(
    alpha_s: float, slope: float, output_tokens: int, max_batch: int, load: float, clock: float
) -> None:
    state = state_at(one(alpha_s, slope, output_tokens, max_batch), load)
    scaled = state_at(one(alpha_s * clock, slope, output_tokens, max_batch), load)

    assert scaled.response_s == pytest.approx(clock * state.response_s, rel=1e-9)
    assert scaled.p_full == pytest.approx(state.p_full, rel=1e-7, abs=1e-290)


@settings(deadline=None)
@given(alphas_s, slopes, tokens, batches, st.floats(0.5, 1.5), st.floats(1e-6, 100.0))
def test_largest_rate_meets_the_targets_and_a_little_more_does_not(
    alpha_s: float, slope: float, output_tokens: int, max_batch: int, itl_share: float, wait_s: float
) -> None:
    curves = one(alpha_s, slope, output_tokens, max_batch)
    slowest = curves.service_s(curves.max_batch) / output_tokens
    targets = Targets(itl_s=slowest * itl_share, wait_s=np.array([wait_s]), tokens_per_s=np.zeros(1))
    limits = largest_rate(curves, targets)

    def excess(rate_per_s: Floats) -> float:
        state = analyze(curves, rate_per_s)
        return float(max(state.itl_s[0] / targets.itl_s[0], state.wait_s[0] / wait_s)) - 1

    lowest, highest = rate_range(curves)
    if not limits.feasible[0]:
        assert excess(lowest) > -1e-11
        return
    assert excess(limits.rate_per_s) <= 1e-8
    if limits.binding[0] == Binding.CAPACITY:
        assert limits.rate_per_s[0] == pytest.approx(highest[0], rel=1e-14)
    else:
        # On a curve flatter than float64 resolves, a little more load is no slower.
        assert excess(limits.rate_per_s * 1.001) > (0.0 if slope > 1e-8 else -1e-11)


@pytest.mark.parametrize("load", [0.3, 1 - 1e-12, 1.0, 1 + 1e-12, 3.0])
def test_a_batch_of_one_is_the_textbook_queue_with_finite_room(load: float) -> None:
    curves = decode_only(alpha_s=0.02, beta_s=0.005, output_tokens=100.0, max_batch=1.0, occupancy_limit=7.0)
    weights = load ** np.arange(8)
    p = weights / weights.sum()
    state = state_at(curves, load)

    assert state.p_full[0] == pytest.approx(p[-1], rel=1e-9)
    assert state.mean_in_system[0] == pytest.approx((np.arange(8) * p).sum(), rel=1e-9)
    assert state.service_s[0] == pytest.approx(2.5)


@pytest.mark.parametrize("max_batch", [1, 4, 24, 25, 300, 4096])
@pytest.mark.parametrize("slope", [0.0, 1e-14, 1e-9, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("load", [1e-3, 0.5, 0.999, 1.0, 1.001, 50.0])
def test_corners_are_exact(max_batch: int, slope: float, load: float) -> None:
    curves = one(0.01, slope, 256, max_batch)
    rate_per_s = load * float(curves.service_rate_per_s(curves.max_batch)[0])
    state = analyze(curves, np.array([rate_per_s]))

    for name, expected in sum_states(curves, rate_per_s).items():
        assert getattr(state, name)[0] == pytest.approx(expected, rel=2e-8, abs=1e-290), name


@pytest.mark.parametrize("rate_per_s", [0.0, 5e-324, 1e-300, 1e-30])
@pytest.mark.parametrize("max_batch", [1, 8, 512])
def test_next_to_no_load_is_a_lone_request(rate_per_s: float, max_batch: int) -> None:
    state = analyze(one(0.02, 0.05, 100, max_batch), np.array([rate_per_s]))

    assert state.itl_s[0] == pytest.approx(0.021)
    assert state.wait_s[0] == pytest.approx(0.0, abs=1e-25)
    assert state.throughput_per_s[0] == rate_per_s
    assert state.p_empty[0] == pytest.approx(1.0)


@pytest.mark.parametrize("rate_per_s", [1e9, 1e100, 1e250])
@pytest.mark.parametrize("max_batch", [1, 8, 512])
def test_absurd_overload_is_a_full_system(rate_per_s: float, max_batch: int) -> None:
    curves = one(0.02, 0.05, 100, max_batch)
    state = analyze(curves, np.array([rate_per_s]))

    assert state.throughput_per_s == pytest.approx(curves.service_rate_per_s(curves.max_batch))
    assert state.mean_in_system[0] == pytest.approx(10 * max_batch)
    assert state.busy_probability[0] == 1.0


@settings(deadline=None)
@given(st.floats(1e-4, 1.0), st.floats(1e-14, 1e4), st.integers(10, 600), st.floats(0.01, 1.0))
def test_both_ways_to_the_head_agree(alpha_s: float, slope: float, max_batch: int, load: float) -> None:
    curves = one(alpha_s, slope, 1, max_batch)
    rate_per_s = load * curves.service_rate_per_s(curves.max_batch)
    if rate_per_s[0] * curves.per_request_s[0] > 0.999:
        return
    closed, recursive = _solve_by_beta_function(curves, rate_per_s), _solve_by_recursion(curves, rate_per_s)

    for name in ("full", "below", "empty", "mean"):
        assert getattr(closed, name)[0] == pytest.approx(getattr(recursive, name)[0], rel=1e-9, abs=1e-290), name


@pytest.mark.parametrize("places", [0, 1, 2, 9, 1000, 36864])
@pytest.mark.parametrize("ratio", [1e-9, 0.5, 0.99, 1 - 1e-6, 1 - 1e-13, 1.0, 1 + 1e-13, 1 + 1e-6, 1.01, 30.0])
def test_tail_sums_are_the_sums_term_by_term(ratio: float, places: int) -> None:
    tail = solve_tail(np.array([ratio]), np.array([float(places)]))
    # Multiplied by ratio^-places in overload, as the tail's scale says.
    powers = np.arange(places + 1) - (places if ratio > 1 and tail.top[0] == 1.0 else 0)
    terms = np.exp(powers * math.log(ratio))

    assert tail.top[0] == pytest.approx(terms[-1], rel=1e-10)
    assert tail.room[0] == pytest.approx(terms[:-1].sum(), rel=1e-10)
    assert tail.queued[0] == pytest.approx((np.arange(places + 1) * terms).sum(), rel=1e-9)


@pytest.mark.parametrize(("max_batch", "slope"), [(1, 0.2), (16, 0.0), (256, 0.0)])
def test_a_flat_curve_is_decided_by_the_curve_not_by_rounding(max_batch: int, slope: float) -> None:
    curves = one(0.020, slope, 777, max_batch)
    lone_s = 0.020 * (1 + slope)
    absent = np.array([np.inf])

    met = largest_rate(curves, Targets(itl_s=np.array([lone_s]), wait_s=absent, tokens_per_s=np.zeros(1)))
    missed = largest_rate(curves, Targets(itl_s=np.array([lone_s - 1e-9]), wait_s=absent, tokens_per_s=np.zeros(1)))

    assert met.feasible[0]
    assert met.binding[0] == Binding.CAPACITY
    assert not missed.feasible[0]
    assert missed.binding[0] == Binding.ITL
    assert missed.rate_per_s[0] == 0.0


def test_a_throughput_floor_leaves_a_tenth_of_the_largest_rate() -> None:
    curves = one(0.02, 0.05, 100, 32)
    absent = np.array([np.inf])
    limits = largest_rate(curves, Targets(itl_s=absent, wait_s=absent, tokens_per_s=np.array([500.0])))

    assert limits.rate_per_s == pytest.approx(0.9 * rate_range(curves)[1])
    assert limits.binding[0] == Binding.THROUGHPUT


def test_the_smallest_of_both_targets_rates_wins() -> None:
    curves = one(0.02, 0.05, 100, 32)
    absent, itl_s, wait_s = np.array([np.inf]), np.array([0.04]), np.array([0.01])
    itl = largest_rate(curves, Targets(itl_s=itl_s, wait_s=absent, tokens_per_s=np.zeros(1)))
    wait = largest_rate(curves, Targets(itl_s=absent, wait_s=wait_s, tokens_per_s=np.zeros(1)))
    both = largest_rate(curves, Targets(itl_s=itl_s, wait_s=wait_s, tokens_per_s=np.zeros(1)))

    assert both.rate_per_s == pytest.approx(np.minimum(itl.rate_per_s, wait.rate_per_s), rel=1e-10)
    assert both.binding[0] == (Binding.ITL if itl.rate_per_s[0] < wait.rate_per_s[0] else Binding.WAIT)


def test_a_system_without_a_queue_never_waits() -> None:
    curves = decode_only(alpha_s=0.02, beta_s=0.001, output_tokens=100.0, max_batch=64.0, occupancy_limit=64.0)
    limits = largest_rate(curves, Targets(itl_s=np.array([np.inf]), wait_s=np.array([1e-6]), tokens_per_s=np.zeros(1)))

    assert limits.binding[0] == Binding.CAPACITY
    assert state_at(curves, 2.0).wait_s[0] == 0.0


def test_neighbours_do_not_change_a_candidates_answer() -> None:
    batch = np.array([1.0, 300.0, 8.0, 4096.0, 64.0, 25.0])
    curves = decode_only(alpha_s=0.02, beta_s=0.0005, output_tokens=200.0, max_batch=batch)
    targets = Targets(itl_s=np.full(6, 0.03), wait_s=np.full(6, 0.1), tokens_per_s=np.zeros(6))
    together = largest_rate(curves, targets)

    for i in range(6):
        alone = largest_rate(
            curves.take(np.array([i])),
            Targets(itl_s=np.array([0.03]), wait_s=np.array([0.1]), tokens_per_s=np.zeros(1)),
        )
        assert alone.rate_per_s[0] == pytest.approx(together.rate_per_s[i], rel=1e-13)


def test_a_percentile_target_becomes_the_mean_of_an_exponential_tail() -> None:
    assert mean_limit_s(0.5, 95) == pytest.approx(0.5 / 2.995732, rel=1e-6)
    assert mean_limit_s(0.5, None) == 0.5
    assert mean_limit_s(math.inf, 95) == math.inf
    with pytest.raises(ValueError, match="between 0 and 100"):
        mean_limit_s(0.5, 100)
