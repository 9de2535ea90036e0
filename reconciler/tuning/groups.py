"""What is tuned: autoscalers with their targets' recorded past, in groups that get one setting.

A setting of its own for each model costs more on days it was not chosen on: rules/tuning.md#groups.
"""

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import AutoscalerSetting, Behavior
from reconciler.forecast.series import DAY_S, Floats
from reconciler.simulation.draws import Spread

STEP_S = 60.0
"""Of a simulation; a history may be coarser."""
BURSTY = 0.15
"""Mean change of the logarithm of ten-minute means, from which on a load is bursty."""
RESTLESS_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetHistory:
    """What was recorded of one scale target: arrays of shape (moments,) from `start_s` (Unix seconds), NaN unknown.

    `offered_per_s` are arrivals, each the mean over the `step_s` before its moment. `totals` (metrics x moments) are
    the autoscaler's metrics, each summed over all replicas in its own unit; `desired` are the replicas that it asked
    for, `ready` those that served.
    """

    start_s: float
    step_s: float
    offered_per_s: Floats
    totals: Floats
    desired: Floats
    ready: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunedTarget:
    """One scale target and the autoscaler that acts on it.

    A replica carries `capacity_per_s` requests inside the targets of its service class, shows then `at_capacity` of
    each metric of the setting, in the metric's own unit (NaN not known), and has `in_batches` requests running, whose
    tokens then take `batch_share` of their time by the size of the batch: beta n / (alpha + beta n) of its profile
    (infinite and NaN are not known). It costs `price_per_hour` (any unit, the same in all) and serves `start` after it
    was asked for. Its least replicas may be lowered to `least_allowed` if that is less, its most be raised to
    `most_allowed` if that is more.
    """

    name: Hashable
    setting: AutoscalerSetting
    history: TargetHistory
    capacity_per_s: float
    at_capacity: tuple[float, ...]
    in_batches: float = math.inf
    batch_share: float = math.nan
    price_per_hour: float = 1.0
    start: Spread
    least_allowed: float = math.inf
    most_allowed: float = 0.0

    @property
    def shares(self) -> tuple[float, ...]:
        """The target of each metric as a share of what a replica shows of it when it carries its capacity."""
        return tuple(
            float(each.target) / whole if whole > 0 else math.nan
            for each, whole in zip(self.setting.metrics, self.at_capacity, strict=True)
        )


def two_digits(number: float, *, rounds_down: bool = False, is_whole: bool = False) -> float:
    """The nearest number of two significant digits, or the next one below; a whole one of at least 1."""
    if number <= 0 or not math.isfinite(number):
        return number
    digits = 1 - math.floor(math.log10(number))
    digits = min(digits, 0) if is_whole else digits
    rounded = round(number, digits)
    rounded = round(rounded - 10.0**-digits, digits) if rounds_down and rounded > number else rounded
    return max(rounded, 1.0) if is_whole else rounded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Targets that get one setting, in the same share of what each carries; histories are on one grid."""

    targets: tuple[TunedTarget, ...]

    def days(self) -> tuple[float, ...]:
        """The beginnings of the whole UTC days that the history has, the oldest first (Unix seconds)."""
        history = self.targets[0].history
        begun_s = history.start_s - history.step_s
        ends_s = history.start_s + (history.offered_per_s.size - 1) * history.step_s
        first, last = math.ceil((begun_s + WARM_UP_S) / DAY_S), math.floor(ends_s / DAY_S)
        return tuple(day * DAY_S for day in range(first, last))

    def offered(self, from_s: float, steps: int) -> Floats:
        """What arrives in each step of `STEP_S` from a moment on (targets x steps), NaN where it is not known."""
        history = self.targets[0].history
        times_s = from_s + (np.arange(steps, dtype=np.float64) + 0.5) * STEP_S
        columns = np.ceil((times_s - history.start_s) / history.step_s - 1e-9).astype(np.int64)
        inside = (columns >= 0) & (columns < history.offered_per_s.size)
        per_s = np.stack([each.history.offered_per_s for each in self.targets])
        return np.where(inside, per_s[:, np.where(inside, columns, 0)], np.nan)


WARM_UP_S = 3 * 3600.0
"""Before each day: what it begins with is forgotten by then, so days are simulated at the same time."""


def alike(targets: Sequence[TunedTarget], classes: Sequence[str]) -> Iterator[Group]:
    """Groups of targets that behave alike: of one service class, one kind of metric, one way up, bursty or not.

    `classes` names the service class of each target. Order is kept.
    """
    groups: dict[object, list[TunedTarget]] = {}
    for target, name in zip(targets, classes, strict=True):
        setting, history = target.setting, target.history
        behavior = setting.behavior
        key = (
            name,
            setting.controller,
            tuple((each.kind, each.signal) for each in setting.metrics),
            behavior.up if isinstance(behavior, Behavior) else behavior,
            setting.sync_s,
            (setting.least == 0, setting.idle),
            (history.start_s, history.step_s, history.offered_per_s.size),
            restlessness(history) >= BURSTY,
        )
        groups.setdefault(key, []).append(target)
    for members in groups.values():
        yield Group(targets=tuple(members))


def restlessness(history: TargetHistory) -> float:
    """The mean change of the logarithm of the load from ten minutes to the next ten; 0 for a load that is not known."""
    size = max(round(RESTLESS_S / history.step_s), 1)
    whole = history.offered_per_s[: history.offered_per_s.size // size * size].reshape(-1, size)
    known = np.asarray(np.isfinite(whole))
    means = np.where(known, whole, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    floor = 0.03 * float(means.mean() if means.size else 0.0) + 0.001
    is_known = np.asarray(known.any(axis=1))
    changes = np.abs(np.diff(np.log(means + floor)))[is_known[1:] & is_known[:-1]]
    return float(changes.mean()) if changes.size else 0.0
