"""Kthena's autoscaler in a simulated fleet does what its exact reproduction does with the same readings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    Behavior,
    MetricTarget,
    Panic,
    Policy,
    Rate,
    Select,
)
from reconciler.simulation.autoscalers.kthena import AutoscalingPolicy
from reconciler.simulation.autoscalers.port import Seen
from reconciler.sizing.tracking_loads import KTHENA_V1, PodHistory, Target, TargetHistory
from reconciler.sizing.tracking_replay import read_clock, run_replay

SYNC_S = 15.0


def exact(totals: list[float], start: int, behavior: Behavior, target: float) -> int:
    """What the reproduction ends with."""
    ticks = len(totals)
    history = TargetHistory(
        replicas=np.full((ticks, 1), float(start)),
        unready=np.zeros((ticks, 1)),
        external={"load": np.array([[each] for each in totals])},
    )
    policy = Policy(metrics=(MetricTarget(name="load", per_replica=target),), behavior=behavior)
    backend = Backend(name="m", min_replicas=1, max_replicas=40)
    subject = Target(name="m", policy=policy, backends=(backend,), history=history)
    run = run_replay([subject], read_clock(np.arange(ticks, dtype=np.float64) * SYNC_S), KTHENA_V1, ())
    assert run.last is not None
    return int(run.last.replicas[0])


def simulated(totals: list[float], start: int, behavior: Behavior, target: float) -> int:
    policy = AutoscalingPolicy(signal="load", target=target, least=1, most=40, behavior=behavior)
    replicas = np.array([[float(start)]])
    for step, total in enumerate(totals):
        value = np.array([[total]])
        seen = Seen(
            at_s=SYNC_S * step, replicas=replicas, ready=replicas, load=value, running=value, waiting=np.zeros((1, 1))
        )
        replicas = policy.decide(seen)
    return int(replicas[0, 0])


def rates() -> st.SearchStrategy[Rate]:
    return st.builds(
        Rate,
        instances=st.integers(0, 4),
        percent=st.integers(0, 150),
        period_s=st.sampled_from((0.0, 15.0, 40.0, 60.0)),
        stabilization_s=st.sampled_from((0.0, 15.0, 50.0, 120.0)),
        select=st.sampled_from(Select),
    )


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40),
    st.integers(1, 40),
    st.builds(
        Behavior,
        down=rates(),
        up=rates(),
        panic=st.builds(
            Panic,
            percent=st.integers(0, 300),
            period_s=st.sampled_from((0.0, 30.0)),
            threshold_percent=st.sampled_from((None, 150, 200)),
            hold_s=st.sampled_from((0.0, 45.0)),
        ),
    ),
)
def test_it_ends_where_the_exact_reproduction_does(totals: list[int], start: int, behavior: Behavior) -> None:
    loads = [float(each) for each in totals]
    assert simulated(loads, start, behavior, 1.5) == exact(loads, start, behavior, 1.5)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(1, 20),
    st.builds(
        Behavior, down=rates(), up=rates(), panic=st.just(Panic(percent=0, period_s=0, threshold_percent=200, hold_s=0))
    ),
)
def test_what_it_scrapes_is_one_unit_beside_pods_that_are_not_ready(
    ticks: list[tuple[int, int]], start: int, behavior: Behavior
) -> None:
    """Its tolerance is of the target of one replica, and in growth unready pods are idle: as in the exact one."""
    totals, starting = ([float(each) for each in column] for column in zip(*ticks, strict=True))
    policy = AutoscalingPolicy(signal="running", target=1.5, least=1, most=40, behavior=behavior, scrapes=True)
    replicas, unready = np.array([[float(start)]]), []
    for step, (total, late) in enumerate(zip(totals, starting, strict=True)):
        ready = np.maximum(replicas - late, 1.0)
        unready.append(float((replicas - ready)[0, 0]))
        value = np.array([[total]])
        replicas = policy.decide(
            Seen(at_s=SYNC_S * step, replicas=replicas, ready=ready, load=0 * value, running=value, waiting=0 * value)
        )
    column = np.array([[each] for each in totals])
    ones = np.ones(column.shape)
    history = TargetHistory(
        replicas=np.full(column.shape, float(start)),
        unready=np.array([[each] for each in unready]),
        pods={"load": PodHistory(total=column, reporting=ones, missing=0 * ones)},
    )
    metrics = (MetricTarget(name="load", per_replica=1.5),)
    subject = Target(
        name="m",
        policy=Policy(metrics=metrics, behavior=behavior),
        backends=(Backend(name="m", min_replicas=1, max_replicas=40),),
        history=history,
    )
    run = run_replay([subject], read_clock(np.arange(len(ticks), dtype=np.float64) * SYNC_S), KTHENA_V1, ())
    assert run.last is not None
    assert int(replicas[0, 0]) == int(run.last.replicas[0])


@pytest.mark.parametrize("lacking", [np.nan, np.inf])
def test_a_metric_that_is_not_read_changes_nothing(lacking: float) -> None:
    assert simulated([lacking] * 5, 7, DEFAULT_BEHAVIOR, 1.5) == 7
