"""Many settings of a group on many of its days at once: the days stand side by side, as the targets do."""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    RatePolicy,
    ScalingRules,
    Signal,
    Value,
)
from reconciler.forecast.series import DAY_S, Floats, Integers
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric, Tolerance
from reconciler.simulation.autoscalers.keda import PrometheusTrigger, ScaledObject
from reconciler.simulation.autoscalers.kthena import AutoscalingPolicy
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import random_generator
from reconciler.simulation.fleet import Fleet, simulate
from reconciler.tuning.groups import STEP_S, WARM_UP_S, Group

CHANNEL = {
    Signal.ARRIVALS: "load",
    Signal.RUNNING: "running",
    Signal.KV_CACHE: "running",
    Signal.WAITING: "waiting",
    Signal.IN_FLIGHT: "in_flight",
}
"""What of a simulated fleet stands for each signal."""
LEAST_KNOWN = 0.9
"""Of a day's moments, of every target: a day with fewer is not simulated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Days:
    """Recorded days of a group: `offered_per_s` (targets x days x steps) begins `WARM_UP_S` before each day.

    What is not known of it is as before.
    """

    group: Group
    begin_s: tuple[float, ...]
    offered_per_s: Floats

    def part(self, chosen: slice) -> "Days":
        """Some of these days."""
        return Days(group=self.group, begin_s=self.begin_s[chosen], offered_per_s=self.offered_per_s[:, chosen])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """What became of each setting: `offered`, `kept`, `cost` and `starts` of shape (settings x targets x days).

    Requests offered and kept inside their targets, money (the unit of the targets' prices), replicas that started.
    `asked` (settings x targets x days x steps) are replicas, where they were asked for, without the warm-up.
    """

    offered: Floats
    kept: Floats
    cost: Floats
    starts: Floats
    asked: Floats | None = None

    def taken(self, order: Integers, axis: int) -> "Trial":
        """Settings (axis 0) or targets (axis 1) in another order."""
        return Trial(
            offered=self.offered.take(order, axis),
            kept=self.kept.take(order, axis),
            cost=self.cost.take(order, axis),
            starts=self.starts.take(order, axis),
            asked=None if self.asked is None else self.asked.take(order, axis),
        )

    def attainment(self, days: slice = slice(None)) -> Floats:
        """The share of the group's requests inside their targets, by setting, over some days."""
        kept, offered = self.kept[..., days].sum(axis=(1, 2)), self.offered[..., days].sum(axis=(1, 2))
        return np.asarray(np.divide(kept, offered, out=np.ones(offered.shape), where=offered > 0))

    def cost_per_hour(self, days: slice = slice(None)) -> Floats:
        """What the group costs, by setting, over some days."""
        some = self.cost[..., days]
        return np.asarray(some.sum(axis=(1, 2)) / (24.0 * max(some.shape[2], 1)))

    def starts_per_day(self, days: slice = slice(None)) -> Floats:
        """How many of the group's replicas start, by setting, over some days."""
        return np.asarray(self.starts[..., days].sum(axis=1).mean(axis=1))


def recorded_days(group: Group) -> Days:
    """All days of a group of which enough is known, the oldest first."""
    steps = round((WARM_UP_S + DAY_S) / STEP_S)
    begin_s, loads = [], []
    for day_s in group.days():
        offered = group.offered(day_s - WARM_UP_S, steps)
        known = np.isfinite(offered)
        if (known.mean(axis=1) >= LEAST_KNOWN).all():
            last = np.maximum.accumulate(np.where(known, np.arange(steps), -1), axis=1)
            filled = np.where(last >= 0, last, known.argmax(axis=1)[:, None])
            begin_s.append(day_s)
            loads.append(np.take_along_axis(offered, filled, axis=1))
    shape = len(group.targets), 0, steps
    return Days(
        group=group, begin_s=tuple(begin_s), offered_per_s=np.stack(loads, axis=1) if loads else np.empty(shape)
    )


def run(
    days: Days, setting: AutoscalerSetting, seed: int, *, window_s: Value | None = None, keep_asked: bool = False
) -> Trial:
    """Simulate settings: the numbers of `setting` may be arrays (settings x targets), metric targets are shares.

    `window_s`, the scale-down window in place of its own, differs by setting alone (settings x 1). How long replicas
    take to start is drawn by target and day, the same for all settings.
    """
    group, (targets, count, steps) = days.group, days.offered_per_s.shape

    def lanes(values: Value) -> Value:
        """A value of each target for each of its days."""
        return np.repeat(values, count, axis=1) if np.ndim(values) == 2 and np.shape(values)[1] > 1 else values

    def of_targets(name: str) -> Floats:
        return np.repeat([float(getattr(each, name)) for each in group.targets], count)

    spread = _merged([setting], lambda values: lanes(values[0]))
    channels = [CHANNEL[each.signal] for each in setting.metrics]
    scaler = autoscaler_of(spread, channels, STEP_S, window_s=window_s)
    recorder = _Recorder(scaler)
    capacity = of_targets("capacity_per_s")
    offered = days.offered_per_s.reshape(targets * count, steps)
    fleet = Fleet(
        start_s=0.0 if not days.begin_s else days.begin_s[0] - WARM_UP_S,
        step_s=STEP_S,
        offered_per_s=offered,
        model_of=np.arange(targets * count),
        capacity_per_s=capacity,
        weight=of_targets("price_per_hour"),
        start_steps=_starts(days, steps, seed),
        in_batches=of_targets("in_batches"),
        batch_share=of_targets("batch_share"),
    )
    numbers = (*_values(spread), 0.0 if window_s is None else window_s)
    rows = max(len(np.atleast_2d(each)) for each in numbers)
    begun = np.maximum(np.ceil(1.2 * offered[:, 0] / capacity), 1.0)
    warm = round(WARM_UP_S / STEP_S)
    ledger = simulate(
        fleet,
        recorder if keep_asked else scaler,
        np.tile(begun, (rows, 1)),
        np.where(np.arange(steps) >= warm, 0, -1),
    )

    def by_day(values: Floats) -> Floats:
        return np.asarray(values[..., 0].reshape(rows, targets, count))

    asked = None
    if keep_asked:
        asked = np.stack(recorder.asked[warm:], axis=-1).reshape(rows, targets, count, steps - warm)
    return Trial(
        offered=by_day(ledger.offered),
        kept=by_day(ledger.kept),
        cost=by_day(ledger.cost),
        starts=by_day(ledger.starts),
        asked=asked,
    )


def autoscaler_of(
    setting: AutoscalerSetting, channels: Sequence[str], step_s: float, *, window_s: Value | None = None
) -> Autoscaler:
    """A simulated autoscaler that syncs every `step_s`; `channels` name what of `Seen` each metric reads."""
    setting = synced(setting, step_s, has_window=window_s is not None)
    tolerance = Tolerance(up=setting.tolerance_up, down=setting.tolerance_down)
    behavior = setting.behavior
    if isinstance(behavior, PolicyBehavior):
        metric = setting.metrics[0]
        return AutoscalingPolicy(
            signal=channels[0],
            target=metric.target,
            stabilization_s=window_s,
            least=setting.least,
            most=setting.most,
            behavior=behavior,
            tolerance=setting.tolerance_up,
            sync_s=step_s,
        )
    if behavior is not None and window_s is not None:
        behavior = replace(behavior, down=replace(behavior.down, window_s=window_s))
    if setting.controller is Controller.SCALED_OBJECT:
        return ScaledObject(
            triggers=[
                PrometheusTrigger(
                    signal=channel,
                    threshold=each.target,
                    activation=each.activation,
                    is_average=each.kind is MetricKind.EXTERNAL_AVERAGE,
                )
                for each, channel in zip(setting.metrics, channels, strict=True)
            ],
            least=setting.least,
            most=setting.most,
            idle=setting.idle,
            cooldown_s=setting.cooldown_s,
            behavior=behavior,
            tolerance=tolerance,
            sync_s=step_s,
        )
    return HorizontalPodAutoscaler(
        metrics=[
            Metric(signal=channel, kind=each.kind, target=each.target)
            for each, channel in zip(setting.metrics, channels, strict=True)
        ],
        least=setting.least,
        most=setting.most,
        behavior=behavior,
        tolerance=tolerance,
        sync_s=step_s,
    )


def synced(setting: AutoscalerSetting, step_s: float, *, has_window: bool = False) -> AutoscalerSetting:
    """The same autoscaler where it syncs every `step_s`; `has_window`: with a behavior even if none is written.

    Where a step is longer than its own sync, what may come and go in the syncs of a step comes and goes at once.
    """
    behavior = setting.behavior
    if behavior is None and (has_window or step_s > setting.sync_s):
        behavior = Behavior()
    if not isinstance(behavior, Behavior):
        return setting
    up, down = _at_step(behavior.up, step_s, is_up=True), _at_step(behavior.down, step_s, is_up=False)
    return replace(setting, behavior=Behavior(up=up, down=down))


def structure_of(setting: AutoscalerSetting) -> Hashable:
    """What settings have in common that are simulated at once: everything but numbers that may be arrays."""
    behavior: Hashable = setting.behavior
    if isinstance(behavior, Behavior):
        behavior = tuple(
            (rules.select, tuple((each.period_s, each.is_percent) for each in rules.policies))
            for rules in (behavior.up, behavior.down)
        )
    metrics = tuple((each.kind, each.signal) for each in setting.metrics)
    return setting.controller, metrics, behavior, setting.sync_s, setting.cooldown_s, setting.idle


def stacked(settings: Sequence[AutoscalerSetting]) -> AutoscalerSetting:
    """Settings of one structure as one, whose numbers are arrays (settings x 1)."""
    return _merged(settings, lambda values: np.array([[float(each)] for each in values]))


def _at_step(rules: ScalingRules, step_s: float, *, is_up: bool) -> ScalingRules:
    """The same rules for a controller that syncs less often: periods shorter than a step are added up to one."""

    def longer(policy: RatePolicy) -> RatePolicy:
        times = step_s / policy.period_s
        if times <= 1:
            return policy
        if not policy.is_percent:
            return replace(policy, value=policy.value * times, period_s=step_s)
        share = np.asarray(policy.value) / 100.0
        value = (1 + share) ** times - 1 if is_up else 1 - (1 - np.minimum(share, 1.0)) ** times
        return replace(policy, value=100.0 * value, period_s=step_s)

    return replace(rules, policies=tuple(longer(each) for each in rules.policies))


class _Recorder:
    """An autoscaler of which every number is kept."""

    def __init__(self, scaler: Autoscaler) -> None:
        self._scaler = scaler
        self.asked: list[Floats] = []

    @property
    def reproduces(self) -> str:
        """What it records."""
        return self._scaler.reproduces

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        self.asked.append(self._scaler.decide(seen))
        return self.asked[-1]


def _starts(days: Days, steps: int, seed: int) -> Integers:
    """After how many steps a replica serves that starts then (lanes x steps)."""
    drawn = [
        each.start.draw(random_generator(seed, "start", str(each.name), day_s), (steps,))
        for each in days.group.targets
        for day_s in days.begin_s
    ]
    return np.rint(np.reshape(drawn, (-1, steps)) / STEP_S).astype(np.int64)


def _values(setting: AutoscalerSetting) -> list[Value]:
    """All numbers of a setting that may be arrays."""
    found: list[Value] = []

    def noted(values: Sequence[Value]) -> Value:
        found.append(values[0])
        return values[0]

    _merged([setting], noted)
    return found


def _merged(settings: Sequence[AutoscalerSetting], join: Callable[[Sequence[Value]], Value]) -> AutoscalerSetting:
    """Settings of one structure as one: each number that may be an array is joined from those of all."""
    first, behavior = settings[0], settings[0].behavior
    if isinstance(behavior, Behavior):
        both = [each.behavior for each in settings if isinstance(each.behavior, Behavior)]

        def rules(every: Sequence[ScalingRules]) -> ScalingRules:
            columns = zip(*(each.policies for each in every), strict=True)
            return replace(
                every[0],
                window_s=join([each.window_s for each in every]),
                policies=tuple(replace(column[0], value=join([each.value for each in column])) for column in columns),
            )

        behavior = Behavior(up=rules([each.up for each in both]), down=rules([each.down for each in both]))
    return replace(
        first,
        metrics=tuple(
            replace(
                column[0],
                target=join([each.target for each in column]),
                activation=join([each.activation for each in column]),
            )
            for column in zip(*(each.metrics for each in settings), strict=True)
        ),
        least=join([each.least for each in settings]),
        most=join([each.most for each in settings]),
        tolerance_up=join([each.tolerance_up for each in settings]),
        tolerance_down=join([each.tolerance_down for each in settings]),
        behavior=behavior,
    )
