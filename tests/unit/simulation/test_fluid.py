"""A fluid fleet against numbers that can be worked out by hand."""

import numpy as np
import pytest

from reconciler.simulation.fluid import Delay, follow, serve

NOW = Delay(sync=0, start=0)
TWO = np.array([2.0])


def attained(offered: list[float], replicas: list[float], delay: Delay = NOW, step_s: float = 60.0) -> float:
    """Of one model whose replicas carry 2 req/s each."""
    served = serve(np.array([offered]), np.array([[replicas]]), TWO, delay, step_s)
    return float(served.attainment[0])


@pytest.mark.parametrize(("load", "kept"), [(4.0, 1.0), (4.3, 0.5), (4.6, 0.0), (0.0, 1.0)])
def test_targets_are_kept_less_the_further_a_load_exceeds_the_capacity(load: float, kept: float) -> None:
    assert attained([load] * 4, [2.0] * 4) == pytest.approx(kept)


def test_what_exceeds_full_batches_waits_and_those_behind_it_wait_too() -> None:
    offered, replicas = [6.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]
    # 5 req/s are worked on: 60 requests wait after the first minute, 12 s long, and are served within the next
    assert attained(offered, replicas) == pytest.approx(4.0 / 12.0)


def test_a_new_replica_is_paid_for_from_its_sync_and_serves_after_its_start() -> None:
    offered, replicas = np.full((1, 10), 4.0), np.array([[[1.0] + [2.0] * 9]])
    served = serve(offered, replicas, TWO, Delay(sync=1, start=3), 60.0)
    assert served.cost[0] == pytest.approx((2 * 1.0 + 8 * 2.0) / 10)
    assert served.attainment[0] == pytest.approx(0.3)  # what waited is gone in step 7


def test_one_that_goes_serves_until_its_sync() -> None:
    served = serve(
        np.full((1, 6), 4.0), np.array([[[2.0, 2.0, 1.0, 1.0, 1.0, 1.0]]]), TWO, Delay(sync=2, start=3), 60.0
    )
    assert served.attainment[0] == pytest.approx(4 / 6)


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
