"""Whether what an autoscaler asked for is what its simulation asks for."""

import numpy as np
import pytest

from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    RatePolicy,
    ScalingRules,
)
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.port import Seen
from reconciler.tuning.groups import TargetHistory
from reconciler.tuning.reproduction import reproduce
from tests.unit.tuning.conftest import RATE, START_S, daily

SETTING = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), most=1000)


def recorded(setting: AutoscalerSetting = SETTING, days: float = 1.0, every: int = 4) -> TargetHistory:
    """What an HPA does that syncs every 15 s, seen every minute."""
    load = daily(days, step_s=15.0, noise=0.02)
    scaler = HorizontalPodAutoscaler(
        metrics=[Metric(signal="load", kind=MetricKind.EXTERNAL_AVERAGE, target=1.2)],
        least=setting.least,
        most=setting.most,
        behavior=setting.behavior if isinstance(setting.behavior, Behavior) else None,
    )
    current, asked = np.array([[10.0]]), []
    for step, total in enumerate(load.tolist()):
        seen = Seen(
            at_s=START_S + 15.0 * step,
            replicas=current,
            ready=current,
            load=np.array([[total]]),
            running=np.array([[np.nan]]),
            waiting=np.array([[np.nan]]),
        )
        current = np.asarray(scaler.decide(seen))
        asked.append(float(current[0, 0]))
    desired = np.array(asked)[every - 1 :: every]
    return TargetHistory(
        start_s=START_S + 15.0 * every,
        step_s=15.0 * every,
        offered_per_s=load[every - 1 :: every],
        totals=load[None, every - 1 :: every],
        desired=desired,
        ready=desired,
    )


SLOWLY = Behavior(down=ScalingRules(window_s=600.0, policies=(RatePolicy(value=10.0, period_s=60.0, is_percent=True),)))


@pytest.mark.parametrize("setting", [SETTING, replace(SETTING, behavior=SLOWLY)], ids=["default", "slow"])
def test_an_autoscaler_that_syncs_four_times_a_step_is_reproduced(setting: AutoscalerSetting) -> None:
    (found,) = reproduce([(setting, recorded(setting))])
    assert found.holds, found.reason
    assert found.share > 0.97


def test_another_target_is_not_reproduced() -> None:
    (found,) = reproduce([(replace(SETTING, metrics=(replace(RATE, target=1.6),)), recorded())])
    assert not found.holds
    assert "90% are needed" in found.reason


def test_bounded_time_is_not_counted() -> None:
    history = recorded()
    (found,) = reproduce([(replace(SETTING, most=float(np.median(history.desired))), history)])
    assert found.unbounded_s < 86_400 * 0.7
    assert np.isnan(found.simulated[history.desired >= np.median(history.desired)]).all()


def test_a_gap_is_not_counted_and_does_no_harm() -> None:
    history = recorded()
    totals = history.totals.copy()
    totals[0, 300:420] = np.nan
    (found,) = reproduce([(SETTING, replace(history, totals=totals))])
    assert found.holds, found.reason
    assert np.isnan(found.simulated[300:420]).all()


def test_a_number_that_never_moved_shows_no_rule() -> None:
    history = recorded()
    flat = np.full(history.desired.shape, 12.0)
    (found,) = reproduce([(SETTING, replace(history, totals=flat[None] * 1.2, desired=flat, ready=flat))])
    assert not found.holds
    assert "changed its number 0 times" in found.reason


def test_autoscalers_replayed_together_are_as_each_alone() -> None:
    history = recorded()
    gap = np.where(np.arange(history.desired.size) % 97 < 5, np.nan, history.totals)
    keda = replace(SETTING, controller=Controller.SCALED_OBJECT, least=0.0)
    cases = [
        (SETTING, history),
        (replace(SETTING, metrics=(replace(RATE, target=1.5),)), history),
        (replace(SETTING, behavior=SLOWLY), recorded(replace(SETTING, behavior=SLOWLY))),
        (replace(SETTING, most=20.0), replace(history, totals=gap)),
        (keda, replace(history, totals=gap)),
        (keda, history),
    ]
    together = reproduce(cases)
    for case, found in zip(cases, together, strict=True):
        (alone,) = reproduce([case])
        assert found.reason == alone.reason
        np.testing.assert_array_equal(found.simulated, alone.simulated)
    assert [each.holds for each in together] == [True, False, True, True, True, True]
