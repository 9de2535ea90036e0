"""Many settings of a group on many of its days at once: the days stand side by side, as the targets do."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate

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
from reconciler.simulation.draws import Arrivals, random_generator
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
WARM_UP = round(WARM_UP_S / STEP_S)
MOST_CELLS, CELLS_OF_LANE = 30_000, 3
"""Settings times targets and days that are simulated at once: more are no faster. What is drawn and kept of one target
and day takes as long as so many settings of it."""
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
    `asked` (settings x targets x steps) are the replicas asked for on the last day, where they were to be kept.
    """

    offered: Floats
    kept: Floats
    cost: Floats
    starts: Floats
    asked: Floats | None = None

    def of(self, rows: Sequence[int] | slice) -> "Trial":
        """The same of some settings, in this order."""
        asked = None if self.asked is None else self.asked[rows]
        offered, kept, cost, starts = (each[rows] for each in (self.offered, self.kept, self.cost, self.starts))
        return Trial(offered=offered, kept=kept, cost=cost, starts=starts, asked=asked)

    def joined(self, more: "Trial") -> "Trial":
        """The same, and then other settings."""

        def both(name: str) -> Floats:
            return np.concatenate((getattr(self, name), getattr(more, name)))

        asked = None if self.asked is None or more.asked is None else both("asked")
        offered, kept, cost, starts = map(both, ("offered", "kept", "cost", "starts"))
        return Trial(offered=offered, kept=kept, cost=cost, starts=starts, asked=asked)

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """Settings (settings x targets) to be simulated on some days; metric targets are shares of what a replica carries.

    How long replicas take to start and which requests come is drawn by `seed`, target and day, the same for all
    settings. What was asked for on the last day is kept where `keeps_asked`.
    """

    days: Days
    settings: Sequence[Sequence[AutoscalerSetting]]
    seed: int
    keeps_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """Settings of one structure and targets of a request, by number."""

    request: Request
    kind: Hashable
    rows: list[int]
    members: list[int]

    @property
    def count(self) -> int:
        """How many targets and days it has."""
        return len(self.members) * len(self.request.days.begin_s)

    @property
    def drawn_for(self) -> Hashable:
        """What is drawn is the same for parts of which this is the same."""
        return id(self.request), *self.members

    @property
    def offered_per_s(self) -> Floats:
        """What arrives (targets and days x steps)."""
        per_s = self.request.days.offered_per_s[self.members]
        return per_s.reshape(self.count, per_s.shape[2])

    def of_targets(self, name: str) -> Floats:
        """A number of each target, for each of its days."""
        targets = self.request.days.group.targets
        return np.repeat([float(getattr(targets[row], name)) for row in self.members], len(self.request.days.begin_s))

    def starts(self) -> Integers:
        """After how many steps a replica serves that starts then (targets and days x steps)."""
        targets, steps = self.request.days.group.targets, self.request.days.offered_per_s.shape[2]
        drawn = [targets[row].start.draw(generator, (steps,)) for row, generator in self._generators("start")]
        return np.rint(np.reshape(drawn, (-1, steps)) / STEP_S).astype(np.int64)

    def arrivals(self) -> list[Arrivals]:
        """What comes (steps,) to each target on each day."""
        loads = zip(self._generators("requests"), self.offered_per_s, strict=True)
        return [Arrivals.drawn(generator, load, STEP_S) for (_, generator), load in loads]

    def _generators(self, purpose: str) -> Iterator[tuple[int, np.random.Generator]]:  # noqa: TID251 - a type
        """Of each target and day, with the number of the target."""
        days = self.request.days
        for row in self.members:
            for day_s in days.begin_s:
                yield row, random_generator(self.request.seed, purpose, str(days.group.targets[row].name), day_s)


def run(requests: Sequence[Request]) -> list[Trial]:
    """Simulate what is asked for, all of as many steps at once, whosever it is."""
    lots: dict[int, list[_Part]] = {}
    for request in requests:
        lots.setdefault(request.days.offered_per_s.shape[2], []).extend(_parts(request))
    found = {id(each): _empty(each) for each in requests}
    for parts in lots.values():
        for some in _portions(parts):
            _simulate(some, found)
    return [found[id(each)] for each in requests]


def _parts(request: Request) -> Iterator[_Part]:
    """A request by what one autoscaler may stand for: settings of one structure."""
    kinds = [
        [structure_of(synced(each, STEP_S, has_window=True)) for each in settings] for settings in request.settings
    ]
    columns: dict[tuple[Hashable, ...], list[int]] = {}
    for member in range(len(request.days.group.targets)):
        columns.setdefault(tuple(of_targets[member] for of_targets in kinds), []).append(member)
    for of_members, members in columns.items():
        rows: dict[Hashable, list[int]] = {}
        for row, kind in enumerate(of_members):
            rows.setdefault(kind, []).append(row)
        for kind, own in rows.items():
            yield _Part(request=request, kind=kind, rows=own, members=members)


def _portions(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Pieces of parts that stand side by side, those of one structure next to each other.

    A part's settings are cut into pieces of so many rows as cost least: all of a portion have as many, and what a piece
    leaves empty is computed too.
    """
    first_of = {kind: number for number, kind in enumerate(dict.fromkeys(each.kind for each in parts))}
    height = min(range(1, max((len(each.rows) for each in parts), default=1) + 1), key=lambda each: _cells(parts, each))
    portion: list[_Part] = []
    lanes = 0
    for part in sorted(parts, key=lambda each: first_of[each.kind]):
        days = max(len(part.request.days.begin_s), 1)
        most = max(MOST_CELLS // (height * days), 1)
        for begin in range(0, len(part.members), most):
            members = part.members[begin : begin + most]
            for first in range(0, len(part.rows), height):
                piece = replace(part, rows=part.rows[first : first + height], members=members)
                if portion and (lanes + piece.count) * height > MOST_CELLS:
                    yield portion
                    portion, lanes = [], 0
                portion.append(piece)
                lanes += piece.count
    if portion:
        yield portion


def _cells(parts: Sequence[_Part], height: int) -> int:
    """What is computed where parts are cut into pieces of so many rows; each lane takes as long as some cells more."""
    return (height + CELLS_OF_LANE) * sum(math.ceil(len(each.rows) / height) * each.count for each in parts)


def _empty(request: Request) -> Trial:
    """The trial of a request before anything is simulated."""
    days = request.days
    rows, (targets, count, steps) = len(request.settings), days.offered_per_s.shape
    offered, kept, cost, starts = (np.zeros((rows, targets, count)) for _ in range(4))
    asked = np.zeros((rows, targets, steps - WARM_UP)) if request.keeps_asked else None
    return Trial(offered=offered, kept=kept, cost=cost, starts=starts, asked=asked)


def _simulate(parts: Sequence[_Part], found: Mapping[int, Trial]) -> None:
    """Simulate parts side by side, and write down what becomes of them.

    Rows that a part leaves empty have its first setting.
    """
    height = max(len(each.rows) for each in parts)
    scalers = []
    for kind in dict.fromkeys(each.kind for each in parts):
        alike = [each for each in parts if each.kind == kind]
        scalers.append((_autoscaler_of_parts(alike, height), sum(each.count for each in alike)))
    scaler = _SideBySide(scalers, parts)
    offered = np.concatenate([each.offered_per_s for each in parts])
    # pieces of a part have other settings on the same days
    drawn = {key: (part.starts(), part.arrivals()) for key, part in {each.drawn_for: each for each in parts}.items()}
    arrivals = [each for part in parts for each in drawn[part.drawn_for][1]]
    lanes, steps = offered.shape

    def of_targets(name: str) -> Floats:
        return np.concatenate([each.of_targets(name) for each in parts])

    capacity = of_targets("capacity_per_s")
    fleet = Fleet(
        start_s=next((each.request.days.begin_s[0] - WARM_UP_S for each in parts if each.count), 0.0),
        step_s=STEP_S,
        offered_per_s=offered,
        model_of=np.arange(lanes),
        capacity_per_s=capacity,
        weight=of_targets("price_per_hour"),
        # what is read of one step stands together
        start_steps=np.asfortranarray(np.concatenate([drawn[each.drawn_for][0] for each in parts])),
        arrivals=Arrivals(
            per_s=np.stack([each.per_s for each in arrivals], axis=1).T,
            work_per_s=np.stack([each.work_per_s for each in arrivals], axis=1).T,
        ),
        in_batches=of_targets("in_batches"),
        batch_share=of_targets("batch_share"),
    )
    begun = np.maximum(np.ceil(1.2 * offered[:, 0] / capacity), 1.0)
    ledger = simulate(fleet, scaler, np.tile(begun, (height, 1)), np.where(np.arange(steps) >= WARM_UP, 0, -1))
    first = 0
    for part in parts:
        trial, shape = found[id(part.request)], (len(part.rows), len(part.members), -1)
        own = np.ix_(part.rows, part.members)
        place = slice(len(part.rows)), slice(first, first + part.count), 0
        for name in ("offered", "kept", "cost", "starts"):
            getattr(trial, name)[own] = getattr(ledger, name)[place].reshape(shape)
        if trial.asked is not None:
            trial.asked[own] = scaler.asked_of(part)[: len(part.rows)]
        first += part.count


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
            scrapes=metric.kind is MetricKind.PODS,
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
    rules: Hashable
    match setting.behavior:
        case Behavior(up=up, down=down):
            policies = (
                tuple((each.period_s, each.is_percent) for each in direction.policies) for direction in (up, down)
            )
            rules = (up.select, down.select, *policies)
        case PolicyBehavior(down=rate) as behavior:
            rules = replace(behavior, down=replace(rate, stabilization_s=0.0))
        case None:
            rules = None
    metrics = tuple((each.kind, each.signal) for each in setting.metrics)
    return setting.controller, metrics, rules, setting.sync_s, setting.cooldown_s, setting.idle


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


def _autoscaler_of_parts(parts: Sequence[_Part], height: int) -> Autoscaler:
    """One autoscaler for all settings and targets of parts of one structure (rows x lanes)."""

    def joined(values: Sequence[Value]) -> Value:
        """A number of every setting and target of every part, in this order, as one array (rows x lanes)."""
        if all(each == values[0] for each in values):
            return values[0]
        arrays, first = [], 0
        for part in parts:
            shape = len(part.rows), len(part.members)
            own = np.reshape(np.array(values[first : first + math.prod(shape)], dtype=np.float64), shape)
            whole = np.concatenate((own, np.repeat(own[:1], height - len(own), axis=0)))
            arrays.append(np.repeat(whole, len(part.request.days.begin_s), axis=1))
            first += math.prod(shape)
        return np.concatenate(arrays, axis=1)

    cells = [part.request.settings[row][member] for part in parts for row in part.rows for member in part.members]
    setting = _merged([synced(each, STEP_S, has_window=True) for each in cells], joined)
    channels = [CHANNEL[each.signal] for each in setting.metrics]
    return autoscaler_of(setting, channels, STEP_S, window_s=joined([each.window_s for each in cells]))


class _SideBySide:
    """Autoscalers of so many lanes each, as one; what they ask for on the last day of some parts is kept."""

    def __init__(self, scalers: Sequence[tuple[Autoscaler, int]], parts: Sequence[_Part]) -> None:
        ends = list(accumulate(count for _, count in scalers))
        self._scalers = [(scaler, slice(end - count, end)) for (scaler, count), end in zip(scalers, ends, strict=True)]
        self._lanes: dict[int, slice] = {}
        lanes: list[int] = []
        first = self._steps = 0
        for part in parts:
            days = len(part.request.days.begin_s)
            if part.request.keeps_asked:
                self._lanes[id(part)] = slice(len(lanes), len(lanes) + len(part.members))
                lanes += range(first + days - 1, first + part.count, days)
            first += part.count
        self._kept, self._asked = np.array(lanes, dtype=np.int64), list[Floats]()

    @property
    def reproduces(self) -> str:
        """What they are."""
        return ", ".join(dict.fromkeys(each.reproduces for each, _ in self._scalers))

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        if len(self._scalers) == 1:
            asked = self._scalers[0][0].decide(seen)
        else:
            asked = np.concatenate([each.decide(_of_lanes(seen, lanes)) for each, lanes in self._scalers], axis=1)
        if self._kept.size and self._steps >= WARM_UP:
            self._asked.append(asked[:, self._kept])
        self._steps += 1
        return asked

    def asked_of(self, part: _Part) -> Floats:
        """What was asked for in a part (rows x targets x steps)."""
        return np.stack([each[:, self._lanes[id(part)]] for each in self._asked], axis=-1)


def _of_lanes(seen: Seen, lanes: slice) -> Seen:
    """What some lanes see."""
    return Seen(
        at_s=seen.at_s,
        answers=seen.answers,
        **{name: getattr(seen, name)[..., lanes]
           for name in ("replicas", "ready", "load", "running", "waiting", "in_flight")},
    )  # fmt: skip


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
