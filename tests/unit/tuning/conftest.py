"""Recorded pasts of fleets whose autoscalers are simulated second by second, apart from what is tested."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Controller,
    MetricKind,
    MetricSetting,
    Signal,
)
from reconciler.forecast.series import DAY_S, Floats
from reconciler.simulation.draws import Spread
from reconciler.tuning.groups import Group, TargetHistory, TunedTarget

START_S = 1_800_230_400.0  # a Monday at midnight, UTC
STEP_S = 600.0
CAPACITY_PER_S = 2.0
RATE = MetricSetting(kind=MetricKind.EXTERNAL_AVERAGE, signal=Signal.ARRIVALS, target=1.2)
RUNNING = MetricSetting(kind=MetricKind.PODS, signal=Signal.RUNNING, target=24.0)
WAITING = MetricSetting(kind=MetricKind.EXTERNAL_AVERAGE, signal=Signal.WAITING, target=5.0)


def daily(days: float, mean_per_s: float = 12.0, noise: float = 0.03, seed: int = 1, step_s: float = STEP_S) -> Floats:
    """A load with a daily cycle, from a midnight on (moments,)."""
    draw = np.random.default_rng(seed)  # noqa: TID251 - made data
    at_s = np.arange(round(days * DAY_S / step_s)) * step_s
    shape = 1 + 0.5 * np.cos(2 * np.pi * (at_s - 14 * 3600) / DAY_S)
    return np.asarray(mean_per_s * shape * np.exp(draw.normal(0.0, noise, at_s.size)))


def target(load: Floats, metric: MetricSetting = RATE, **changes: Any) -> TunedTarget:
    """A target that its autoscaler keeps at 60 % of what it carries, with as many replicas recorded as that takes."""
    whole = {Signal.ARRIVALS: CAPACITY_PER_S, Signal.RUNNING: 32.0}.get(metric.signal, math.nan)
    desired = np.ceil(load / 1.2)
    fields: dict[str, Any] = {
        "name": "m0",
        "setting": AutoscalerSetting(controller=Controller.HPA, metrics=(metric,), most=1000),
        "history": TargetHistory(
            start_s=START_S + STEP_S,
            step_s=STEP_S,
            offered_per_s=load,
            totals=load[None],
            desired=desired,
            ready=desired,
        ),
        "capacity_per_s": CAPACITY_PER_S,
        "at_capacity": (whole,),
        "in_batches": 32.0,
        "batch_share": 0.6,
        "start": Spread.always(240.0),
    }
    return TunedTarget(**{**fields, **changes})


@pytest.fixture
def group() -> Callable[..., Group]:
    """A group of two targets with a week of a smooth load."""

    def build(metric: MetricSetting = RATE, days: float = 7.0, **changes: Any) -> Group:
        loads = [daily(days, mean_per_s=mean, seed=seed) for seed, mean in enumerate((12.0, 20.0))]
        return Group(targets=tuple(target(load, metric, name=f"m{row}", **changes) for row, load in enumerate(loads)))

    return build


def with_desired(group: Group, times: float) -> Group:
    """The same group, of which other numbers of replicas were recorded."""
    return Group(
        targets=tuple(
            replace(each, history=replace(each.history, desired=each.history.desired * times)) for each in group.targets
        )
    )
