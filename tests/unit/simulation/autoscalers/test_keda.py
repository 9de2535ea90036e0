"""KEDA from and to zero, with and without answers."""

from typing import Any

import numpy as np
import pytest

from reconciler.simulation.autoscalers.keda import CronTrigger, Fallback, PrometheusTrigger, ScaledObject
from reconciler.simulation.autoscalers.port import Seen


def course(scaled: ScaledObject, loads: list[float | None], replicas: float) -> list[float]:
    """Replicas each 15 s; None is a Prometheus that does not answer."""
    found = []
    for step, load in enumerate(loads):
        value = np.array([np.nan if load is None else load])
        seen = Seen(
            at_s=15.0 * step,
            replicas=np.array([replicas]),
            ready=np.array([replicas]),
            load=value,
            running=value,
            waiting=value,
            answers=load is not None,
        )
        replicas = float(scaled.decide(seen)[0])
        found.append(replicas)
    return found


def scaled(**fields: Any) -> ScaledObject:
    trigger = PrometheusTrigger(signal="load", threshold=2.0, activation=fields.pop("activation", 0.0))
    return ScaledObject(triggers=fields.pop("triggers", (trigger,)), **fields)


def test_it_wakes_at_its_next_poll_and_grows_as_an_hpa() -> None:
    assert course(scaled(), [0.0, 6.0, 6.0, 6.0], 0.0) == [0.0, 0.0, 3.0, 3.0]


def test_activity_is_strictly_above_its_threshold() -> None:
    assert course(scaled(activation=6.0), [6.0] * 4, 0.0) == [0.0] * 4


def test_the_last_replica_goes_after_the_cooldown() -> None:
    found = course(scaled(cooldown_s=120.0), [1.0, *[0.0] * 11], 1.0)
    assert found.index(0.0) == 10  # active at 0 s, polls each 30 s: 150 s is the first one later than 120


def test_with_a_minimum_it_never_rests() -> None:
    assert course(scaled(least=2.0, cooldown_s=30.0), [0.0] * 30, 2.0)[-1] == 2.0


def test_an_absent_series_is_zero_unless_nulls_are_errors() -> None:
    assert course(scaled(least=1.0), [np.nan] * 22, 5.0)[-1] == 1.0
    strict = PrometheusTrigger(signal="load", threshold=2.0, ignores_nulls=False)
    assert course(scaled(least=1.0, triggers=(strict,)), [np.nan] * 22, 5.0)[-1] == 5.0


def test_without_answers_nothing_changes_until_the_fallback() -> None:
    assert course(scaled(least=1.0), [None] * 12, 5.0) == [5.0] * 12
    found = course(scaled(least=1.0, fallback=Fallback(failure_threshold=2, replicas=7.0)), [None] * 8, 5.0)
    assert found == [5.0] * 4 + [7.0] * 4  # the third poll that fails


def test_a_schedule_is_a_floor_in_its_hours() -> None:
    cron = CronTrigger(start_s=30.0, end_s=600.0, desired=4.0)
    trigger = PrometheusTrigger(signal="load", threshold=2.0)
    assert course(scaled(least=1.0, triggers=(trigger, cron)), [2.0] * 6, 1.0) == [1.0, 1.0, 4.0, 4.0, 4.0, 4.0]
    night = CronTrigger(start_s=80_000.0, end_s=60.0, desired=4.0)
    assert [float(night.replicas(at_s)) for at_s in (0.0, 60.0, 79_999.0, 80_000.0)] == [4.0, 1.0, 1.0, 4.0]


@pytest.mark.parametrize("replicas", [0.0, 3.0])
def test_what_is_idle_rests_at_its_own_count(replicas: float) -> None:
    found = course(scaled(least=2.0, idle=0.0, cooldown_s=30.0), [0.0] * 30, replicas)
    assert found[-1] == 0.0
