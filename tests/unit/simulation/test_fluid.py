"""A fluid fleet against numbers that can be worked out by hand."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.simulation.draws import Arrivals, random_generator
from reconciler.simulation.fluid import FULL_BATCH, Batching, Delay, follow, serve

NOW = Delay(sync=0, start=0)
TWO = np.array([2.0])


def attained(offered: list[float], replicas: list[float], delay: Delay = NOW, step_s: float = 60.0) -> float:
    """Of one model whose replicas carry 2 req/s each."""
    served = serve(np.array([offered]), np.array([[replicas]]), TWO, delay, step_s)
    return float(served.attainment[0])


@pytest.mark.parametrize(("load", "kept"), [(2.0, 1.0), (4.0, 0.5), (5.0, 0.0), (0.0, 1.0)])
def test_of_a_load_of_just_the_capacity_half_of_the_minutes_keep_their_targets(load: float, kept: float) -> None:
    assert attained([load] * 4, [2.0] * 4) == pytest.approx(kept, abs=2e-3)


def test_chance_counts_less_with_more_replicas() -> None:
    """At a load of 95 % of the capacity, of 2 req/s a replica, and of what `allowed` says."""
    found = [attained([0.95 * 2.0 * each] * 4, [each] * 4) for each in (2.0, 8.0, 32.0)]
    assert found == sorted(found)
    assert found[0] < 0.8 < 0.9 < found[-1]
    unknown = np.array([np.nan])
    for replicas in (1.0, 4.0, 100.0):
        allowed = Batching(TWO, unknown, unknown, unknown, 60.0).allowed(np.array([replicas])).item()
        assert attained([allowed * 2.0 * replicas] * 4, [replicas] * 4) == pytest.approx(0.99, abs=1e-4)


def test_what_exceeds_full_batches_waits_and_those_behind_it_wait_too() -> None:
    offered, replicas = [6.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]
    # 5 req/s are worked on: 60 requests wait after the first minute, 12 s long, and are served within the next
    assert attained(offered, replicas) == pytest.approx(4.0 / 12.0, abs=1e-5)


def test_a_new_replica_is_paid_for_from_its_sync_and_serves_after_its_start() -> None:
    offered, replicas = np.full((1, 10), 400.0), np.array([[[100.0] + [250.0] * 9]])
    served = serve(offered, replicas, TWO, Delay(sync=1, start=3), 60.0)
    assert served.cost[0] == pytest.approx((2 * 100.0 + 8 * 250.0) / 10)
    assert served.attainment[0] == pytest.approx(0.4, abs=1e-4)  # what waited is gone in step 6


def test_one_that_goes_serves_until_its_sync() -> None:
    served = serve(np.full((1, 6), 400.0), np.array([[[250.0] * 2 + [100.0] * 4]]), TWO, Delay(sync=2, start=3), 60.0)
    assert served.attainment[0] == pytest.approx(4 / 6, abs=1e-4)


def test_all_settings_and_models_are_served_at_once_as_each_alone() -> None:
    offered = np.array([[1.0, 5.0, 9.0, 3.0], [4.0, 4.0, 2.0, 8.0]])
    replicas = np.array([[[1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 2.0, 2.0]], [[4.0] * 4, [1.0] * 4]])
    capacity, delay = np.array([2.0, 3.0]), Delay(sync=1, start=1)
    together = serve(offered, replicas, capacity, delay, 60.0)
    for setting in range(2):
        for model in range(2):
            alone = serve(offered[[model]], replicas[[setting]][:, [model]], capacity[[model]], delay, 60.0)
            assert alone.kept[0, 0] == together.kept[setting, model]
            assert alone.replicas[0, 0] == together.replicas[setting, model]


def test_replicas_follow_what_must_be_carried_and_keep_what_may_be_needed() -> None:
    grow = np.array([[3.0, 7.0, 3.0, 1.0, 1.0]])
    keep = np.array([[4.0, 8.0, 7.5, 5.0, 1.0]])
    assert follow(grow, keep, TWO).tolist() == [[2.0, 4.0, 4.0, 3.0, 1.0]]


def test_after_some_were_added_few_do_not_go_and_many_do() -> None:
    grow = np.array([[20.0, 22.0, 20.0, 20.0, 20.0], [20.0, 22.0, 16.0, 16.0, 16.0]])
    decided = follow(grow, grow, np.array([2.0, 2.0]), hold=3)
    assert decided.tolist() == [[10.0, 11.0, 11.0, 11.0, 10.0], [10.0, 11.0, 8.0, 8.0, 8.0]]


MANY = np.array([[1e12]])
"""Of so many replicas chance adds nothing."""


@given(
    st.floats(0.02, 0.95),
    st.floats(1.0, 4.0),
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
    st.floats(0.2, 20.0),
)
@example(0.95, 4.0, 0.9, 0.3, 20.0)  # beyond the table of the law
@example(0.95, 4.0, 1.0, 1.0, 20.0)
def test_a_step_ends_where_the_law_of_a_batch_leads_to(
    share: float, full: float, held: float, load: float, time_s: float
) -> None:
    """Against the same law in two thousand steps: batches that fill, queues that begin and end, loads without end."""
    one = np.array([[1.0]])
    batching = Batching(20.0 * one[0], 20.0 * time_s * one[0], share * one[0], full * one[0], 60.0)
    held, most = held * full, full / (1.0 - share + share * full)
    load = load * most
    lived = batching.after(held * one, 60.0 / time_s * load * one, MANY)
    end, ran, part = held, 0.0, 60.0 / time_s / 2000

    def slope(runs: float) -> float:
        return load - min(runs, full) / (1.0 - share + share * min(runs, full))

    for _ in range(2000):
        ahead = max(end + part * slope(end), 0.0)
        after = max(end + part / 2 * (slope(end) + slope(ahead)), 0.0)
        ran += (min(end, full) + min(after, full)) / 4000
        end = after
    longest = full + 30.0 / time_s * max(load, most)
    assert lived.held.item() == pytest.approx(min(end, longest), rel=5e-3, abs=5e-3)
    assert lived.running.item() == pytest.approx(ran, rel=1e-2, abs=1e-2)


@given(st.floats(0.01, 0.99), st.floats(0.0, 0.9), st.floats(1.0, 600.0), st.floats(1.0, 4.0))
def test_a_load_that_lasts_settles_and_all_requests_are_answered_or_counted(
    load: float, share: float, step_s: float, full: float
) -> None:
    one = np.array([[1.0]])
    batching = Batching(2.0 * one[0], 20.0 * one[0], share * one[0], full * one[0], step_s)
    settled = batching.settled(load * one)
    assert batching.answered(settled) == pytest.approx(load)
    lasting = batching.after(settled, step_s / 10.0 * load * one, MANY)
    assert lasting.held == pytest.approx(settled)
    assert lasting.running == pytest.approx(settled)
    come = step_s / 10.0 * 9.0
    lived = batching.after(settled, come * one, MANY)
    left = 0.0 if lived.left is None else lived.left
    assert lived.held + left + lived.answered == pytest.approx(settled + come)
    assert lived.answered.item() <= step_s / 10.0 * batching.answered(full * one).item() + 1e-6


def test_who_waits_too_long_leaves_so_that_a_queue_is_what_came_lately() -> None:
    one = np.array([[1.0]])
    batching = Batching(2.0 * one[0], 20.0 * one[0], 0.5 * one[0], 2.0 * one[0], 60.0)
    held = 2.0 * one
    for _ in range(3):
        held = batching.after(held, 6.0 * 2.0 * one, MANY).held
    assert held.item() == pytest.approx(2.0 + 2.0 * 6.0 / 2)


@pytest.mark.parametrize("replicas", [1.0, 8.0])
def test_chance_adds_to_what_runs_as_a_negative_binomial_has_it(replicas: float) -> None:
    """Of requests that begin and end one by one at rates that the law gives: the mean of their stationary number."""
    requests, share, load = 34.0, 0.68, 0.7
    counts = np.arange(4000)
    per_s = counts / (1.0 - share + share * counts / (replicas * requests))
    weights = np.concatenate(([0.0], np.cumsum(np.log(load * replicas * requests / per_s[1:]))))
    likely = np.exp(weights - weights.max())
    mean = float((likely * counts).sum() / likely.sum()) / (replicas * requests)
    one = np.array([[1.0]])
    batching = Batching(9.0 * one[0], requests * one[0], share * one[0], 9.0 * one[0], 0.01)  # nothing evens out
    law = batching.settled(load * one)
    assert mean > law.item() * 1.005
    lived = batching.after(law, 0.01 * 9.0 / requests * load * one, replicas * one)
    assert lived.running.item() == pytest.approx(law.item(), rel=1e-3), "what is drawn of a short step brings it"
    batching = Batching(9.0 * one[0], requests * one[0], share * one[0], 9.0 * one[0], 1e5)  # all is evened out
    lived = batching.after(law, 1e5 * 9.0 / requests * load * one, replicas * one)
    assert lived.running.item() == pytest.approx(mean, rel=1e-3)


def test_a_replica_without_a_profile_answers_a_quarter_more_with_a_full_batch() -> None:
    unknown = Batching(np.array([2.0]), np.array([np.inf]), np.array([np.nan]), np.array([np.nan]), 60.0)
    assert unknown.answered(unknown.full) == pytest.approx(FULL_BATCH)


def test_where_the_largest_batch_is_the_bound_targets_are_lost_by_waiting() -> None:
    bounded = Batching(np.array([100.0]), np.array([1000.0]), np.array([0.5]), np.array([1.0]), 60.0)
    held, come = np.array([[1.0], [1.05], [1.1], [1.15], [1.2]]), np.full((5, 1), 6.0)
    kept = bounded.kept(bounded.after(held, come, MANY))[:, 0].tolist()
    assert kept == [True, True, True, False, False]


@pytest.mark.parametrize("replicas", [4.0, 25.0, 400.0])
def test_the_load_that_is_allowed_keeps_targets_in_99_of_100_steps(replicas: float) -> None:
    """Of requests that are drawn for an hour of each of a thousand days."""
    batching = Batching(np.array([2.0]), np.array([20.0]), np.array([0.5]), np.array([2.0]), 60.0)
    allowed = batching.allowed(np.array([replicas]))
    assert 0.5 < allowed < 1.0
    offered = np.full((1000, 60), 2.0 * replicas * allowed.item())
    work = Arrivals.drawn(random_generator(1, "allowed"), offered, 60.0).work_per_s
    held, kept = np.tile(batching.settled(allowed), (1000, 1)), 0.0
    for step in range(60):
        lived = batching.after(held, work[:, [step]] * 60.0 / 20.0 / replicas, np.full((1000, 1), replicas))
        held = lived.held
        kept += float(batching.kept(lived).mean()) / 60
    assert 0.99 < kept < 0.999


def test_as_many_requests_and_as_much_work_come_as_are_offered_in_the_mean() -> None:
    offered = np.array([[0.0] * 20_000, [0.01] * 20_000, [30.0] * 20_000])
    drawn = Arrivals.drawn(random_generator(1, "drawn"), offered, 60.0)
    assert not drawn.per_s[0].any()
    assert not drawn.work_per_s[0].any()
    for per_s, variance in ((drawn.per_s, 1.0), (drawn.work_per_s, 2.0)):
        assert per_s[1:].mean(axis=1) == pytest.approx(offered[1:, 0], rel=0.02)
        assert per_s[1:].var(axis=1) * 60.0 == pytest.approx(variance * offered[1:, 0], rel=0.05)


def test_serving_makes_few_arrays_of_all_settings_models_and_steps() -> None:
    draw = random_generator(7)
    offered, replicas = draw.uniform(0, 30, (20, 300)), draw.integers(1, 5, (6, 20, 300)).astype(float)
    serve(offered, replicas, np.full(20, 9.0), Delay(sync=2, start=3), 300.0)
    tracemalloc.start()
    try:
        serve(offered, replicas, np.full(20, 9.0), Delay(sync=2, start=3), 300.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * replicas.nbytes


@given(st.floats(0.02, 0.95), st.floats(0.05, 2.0), st.floats(1.0, 20.0))
def test_requests_in_replicas_that_go_take_as_long_as_their_law_says(share: float, held: float, time_s: float) -> None:
    """Two of five replicas go: against the law of their batches in two thousand steps, without more that come."""
    one = np.array([1.0])
    batching = Batching(20.0 * one, 20.0 * time_s * one, share * one, 2.0 * one, 60.0)
    left, part, sum_ = held, 60.0 / time_s / 2000, 0.0
    for _ in range(2000):
        ahead = max(left - part * left / (1.0 - share + share * left), 0.0)
        after = max(left - part / 2 * sum(each / (1.0 - share + share * each) for each in (left, ahead)), 0.0)
        sum_ += part * (left + after) / 2
        left = after
    spared = batching.spared(np.array([[5.0 * held]]), np.array([[5.0]]), np.array([[0.6]]), np.array([[3.0]]))
    assert 3.0 * spared.item() == pytest.approx(2.0 * (held - left - sum_), rel=1e-2, abs=1e-2)


def test_a_step_that_is_just_too_slow_keeps_its_targets_where_others_finish_alone() -> None:
    batching, three = Batching(TWO, 20.0 * TWO / TWO, np.array([0.5]), np.array([2.0]), 60.0), np.array([[3.0]])
    lived = batching.after(np.array([[1.0]]), np.array([[6.2]]), three)
    spared = batching.spared(np.array([[8.0]]), np.array([[8.0]]), np.array([[3.0 / 8.0]]), three)
    assert spared.item() > 0
    assert [bool(batching.kept(lived, each)) for each in (0.0, spared)] == [False, True]
