"""Dynamo's planner against figures of its own unit tests and a Kalman filter written as matrices."""

from collections.abc import Sequence

import numpy as np
import pytest

from reconciler.simulation.autoscalers.dynamo import (
    CachePlanner,
    Forecasts,
    LatencyPlanner,
    Predictor,
    ThroughputPlanner,
)
from reconciler.simulation.autoscalers.port import Seen


def seen(
    replicas: float,
    running: float,
    *,
    queued: float = 0.0,
    ready: float | None = None,
    at_s: float = 0.0,
    **more: float,
) -> Seen:
    return Seen(
        at_s=at_s,
        replicas=np.array([[replicas]]),
        ready=np.array([[replicas if ready is None else ready]]),
        load=np.array([[more.get("load", running)]]),
        running=np.array([[running]]),
        waiting=np.array([[more.get("waiting", queued)]]),
        in_flight=np.array([[running + queued]]),
        answers=bool(more.get("answers", True)),
    )


@pytest.mark.parametrize(
    ("replicas", "each", "queued", "expected"),
    [
        (1, 0.8, 0.3, 2),  # 110 % of a cache
        (2, 0.4, 0.0, 1),
        (2, 0.7, 0.0, 2),
        (1, 0.4, 0.0, 1),  # the last one stays
        (2, 0.6, 0.0, 2),  # strictly below
        (2, 1.0, 0.0, 2),  # strictly above
    ],
)
def test_caches_move_one_replica(replicas: float, each: float, queued: float, expected: float) -> None:
    planner = CachePlanner(full=1.0)
    assert planner.decide(seen(replicas, each * replicas, queued=queued * replicas))[0, 0] == expected


@pytest.mark.parametrize(("each", "expected"), [(0.45, 3), (0.05, 1), (0.3, 2)])
def test_for_latency_caches_are_kept_emptier(each: float, expected: float) -> None:
    planner = CachePlanner(full=1.0, up=0.4, down=0.1)
    assert planner.decide(seen(2, each * 2))[0, 0] == expected


def test_while_a_replica_starts_or_nothing_answers_nothing_is_decided() -> None:
    planner = CachePlanner(full=1.0)
    assert planner.decide(seen(3, 9.0, ready=2))[0, 0] == 3
    assert planner.decide(seen(3, 9.0, answers=False))[0, 0] == 3


def kalman(values: Sequence[float], q_level: float, q_trend: float, r: float) -> list[float]:
    """What a local linear trend says after each value, with matrices."""
    step, shown = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    noise, state, variance = np.diag([q_level, q_trend]), np.zeros((2, 1)), 1000.0 * np.eye(2)
    found, has_begun = [], False
    for value in values:
        if not has_begun and value == 0:
            found.append(0.0)
            continue
        if not has_begun:
            state, has_begun = np.array([[value], [0.0]]), True
        else:
            gain = variance @ shown.T / float((shown @ variance @ shown.T)[0, 0] + r)
            state = state + gain * (value - state[0, 0])
            variance = (np.eye(2) - gain @ shown) @ variance
        state, variance = step @ state, step @ variance @ step.T + noise
        found.append(float(state[0, 0]))
    return found


def test_a_trend_is_followed_as_a_filter_follows_it() -> None:
    values = np.array([[0.0, 0.0, 10.0, 12.0, 15.0, 0.0, 30.0, 31.0], [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]])
    forecasts = Forecasts(Predictor.KALMAN, q_level=1.0, q_trend=0.1, r=10.0)
    found = np.array([forecasts.next_of(column) for column in values.T]).T
    for row, expected in zip(found, values, strict=True):
        assert row == pytest.approx(kalman(expected.tolist(), 1.0, 0.1, 10.0))


def test_the_constant_predictor_says_the_last_value_and_zero_for_none() -> None:
    assert Forecasts(Predictor.CONSTANT).next_of(np.array([30.0, np.nan])).tolist() == [30.0, 0.0]


def test_throughput_asks_every_three_minutes_for_what_the_next_ones_bring() -> None:
    planner = ThroughputPlanner(capacity_per_s=2.0, predictor=Predictor.CONSTANT, step_s=60.0)
    planner.decide(seen(4, 0.0, at_s=0.0))
    replicas = [float(planner.decide(seen(4, 6.2, at_s=60.0 * step))[0, 0]) for step in (1, 2, 3)]
    assert replicas == [4.0, 4.0, 7.0]
    half = ThroughputPlanner(capacity_per_s=2.0, predictor=Predictor.CONSTANT, target=0.5, step_s=180.0)
    assert half.decide(seen(4, 6.2, at_s=180.0))[0, 0] == 13.0
    assert half.decide(seen(13, 6.2, at_s=360.0, answers=False))[0, 0] == 13.0


def latency(target: float = 1.0) -> LatencyPlanner:
    throughput = ThroughputPlanner(capacity_per_s=2.0, predictor=Predictor.CONSTANT, step_s=180.0)
    return LatencyPlanner(throughput, capacity_per_s=2.0, batch_share=0.6, full=1.4, target=target)


@pytest.mark.parametrize(
    ("replicas", "running", "waiting", "expected"),
    [
        (2, 2.2, 0.0, 3),  # tokens come slower than at capacity
        (2, 1.6, 0.0, 2),
        (2, 1.6, 8.0, 3),  # 4 requests each take longer than a second
        (4, 1.0, 0.0, 3),  # 0.33 each of three: 0.6 of the time, 0.8 is allowed
        (2, 0.9, 0.0, 2),  # one alone would need 0.94 of the time
    ],
)
def test_latencies_move_one_replica_and_survivors_must_keep_them(
    replicas: float, running: float, waiting: float, expected: float
) -> None:
    assert latency().decide(seen(replicas, running, waiting=waiting, load=0.0))[0, 0] == expected


def test_latencies_never_go_below_what_throughput_asks_for() -> None:
    assert latency().decide(seen(4, 1.0, load=4.5))[0, 0] == 5.0
