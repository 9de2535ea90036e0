"""History that is faked, metrics that are misread, autoscalers changed by hand: nothing is chosen from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    MetricSetting,
    RatePolicy,
    ScalingRules,
    Signal,
)
from reconciler.forecast.series import Floats
from reconciler.tuning.choice import Goal, Unchanged, Unmoved, choose, score
from reconciler.tuning.groups import Group, TargetHistory, TunedTarget
from reconciler.tuning.reproduction import reproduce
from tests.unit.tuning.conftest import RATE, daily, target, with_desired
from tests.unit.tuning.test_reproduction import SETTING, recorded

HISTORY = recorded()
MOMENTS = HISTORY.desired.size
GOAL = Goal(attainment=0.99)


def totals(change: Callable[[Floats], Floats]) -> TargetHistory:
    return replace(HISTORY, totals=change(HISTORY.totals))


def desired(change: Callable[[Floats], Floats]) -> TargetHistory:
    return replace(HISTORY, desired=change(HISTORY.desired))


def changed_half_way(number: float) -> TargetHistory:
    """By hand to another number at noon, and held there."""
    return desired(lambda each: np.where(np.arange(MOMENTS) < MOMENTS // 2, each, number))


def changed_target() -> TargetHistory:
    """By hand to another target at noon: what was asked for then is of the other one."""
    other = recorded(replace(SETTING, behavior=SLOW)).desired * 0.7
    return desired(lambda each: np.where(np.arange(MOMENTS) < MOMENTS // 2, each, np.round(other)))


SLOW = Behavior(down=ScalingRules(window_s=1800.0, policies=(RatePolicy(value=10.0, period_s=60.0, is_percent=True),)))

NOT_REPRODUCED = {
    "the metric is a minute's": totals(lambda each: 60 * each),
    "the metric is a mean over pods": totals(lambda each: each / HISTORY.desired),
    "the metric is of all models": totals(lambda each: 3 * each),
    "the metric is of another model": totals(lambda each: each[:, ::-1]),
    "the metric lags by hours": totals(lambda each: np.roll(each, 180, axis=1)),
    "the metric is frozen": totals(lambda each: np.full(each.shape, each[0, 0])),
    "the metric is zero": totals(lambda each: 0 * each),
    "the metric is negative": totals(lambda each: -each),
    "the metric is infinite": totals(lambda each: np.full(each.shape, np.inf)),
    "the metric has no series": totals(lambda each: np.full(each.shape, np.nan)),
    "the metric is noise": totals(lambda each: each * np.random.default_rng(1).uniform(0.2, 3, each.shape)),  # noqa: TID251
    "the numbers never moved": desired(lambda each: np.full(each.shape, 12.0)),
    "the numbers are of nobody": desired(lambda each: np.full(each.shape, np.nan)),
    "the numbers are of another target": desired(lambda each: each[::-1]),
    "somebody set the number": changed_half_way(30.0),
    "somebody set another target": changed_target(),
}


@pytest.mark.parametrize("history", NOT_REPRODUCED.values(), ids=NOT_REPRODUCED.keys())
def test_what_did_not_ask_for_these_numbers_is_held(history: TargetHistory) -> None:
    assert reproduce([(SETTING, HISTORY)])[0].holds
    (found,) = reproduce([(SETTING, history)])
    assert not found.holds
    assert found.reason


@pytest.mark.parametrize(
    "other",
    [
        replace(SETTING, metrics=(replace(RATE, target=0.8),)),
        AutoscalerSetting(
            controller=Controller.HPA,
            metrics=(MetricSetting(kind=MetricKind.EXTERNAL_VALUE, signal=Signal.ARRIVALS, target=1.2),),
            most=1000,
        ),
    ],
    ids=["target", "a total"],
)
def test_a_setting_that_git_does_not_have_is_held(other: AutoscalerSetting) -> None:
    assert not reproduce([(other, HISTORY)])[0].holds


def group(**changes: Any) -> Group:
    load = daily(8.0)
    return Group(targets=(target(load, **changes),))


CONTRADICTED = {
    "a full replica shows half of it": group(at_capacity=(4.0,)),
    "loads are of a part": with_desired(group(), 2.0),
    "loads are of more": with_desired(group(), 0.5),
    "numbers are not known": with_desired(group(), float("nan")),
}


@pytest.mark.parametrize("case", CONTRADICTED.values(), ids=CONTRADICTED.keys())
def test_loads_that_are_not_what_replicas_carried_are_held(case: Group) -> None:
    (found,) = choose([(case, GOAL)])
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.CONTRADICTED


def merged(before: TunedTarget, share: float) -> TunedTarget:
    setting = replace(before.setting, metrics=(replace(RATE, target=2.0 * share),))
    desired = np.ceil(before.history.offered_per_s / (2.0 * share))
    return replace(before, setting=setting, history=replace(before.history, desired=desired))


def test_a_promise_that_breaks_is_taken_back() -> None:
    before = group()
    (found,) = score([(before, Group(targets=(merged(before.targets[0], 1.0),)), Goal(attainment=0.9999))])
    assert not isinstance(found, Unchanged)
    assert "kept their targets" in found.broken


def test_a_promise_that_holds_is_kept() -> None:
    before = group()
    (found,) = score([(before, Group(targets=(merged(before.targets[0], 0.7),)), GOAL)])
    assert not isinstance(found, Unchanged)
    assert not found.broken
    assert found.after.cost_per_hour < found.before.cost_per_hour


def test_a_number_set_by_hand_after_the_merge_is_taken_back() -> None:
    before = group()
    by_hand = with_desired(Group(targets=(merged(before.targets[0], 0.7),)), 2.0)
    (found,) = score([(before, by_hand, GOAL)])
    assert not isinstance(found, Unchanged)
    assert "times the replicas that ran" in found.broken
