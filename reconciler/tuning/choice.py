"""The setting of a group: found on the first part of its days, proven on the rest. Formulas: rules/tuning.md."""

import math
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import numpy as np

from reconciler.domain.backtests import Interval
from reconciler.domain.metric_targets import LONGEST_WINDOW_S
from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    MetricSetting,
    RatePolicy,
    Signal,
)
from reconciler.forecast.series import Floats
from reconciler.simulation.draws import random_generator
from reconciler.simulation.fluid import USUAL_SHARE
from reconciler.tuning.groups import BURSTY, STEP_S, Group, TunedTarget, restlessness, two_digits
from reconciler.tuning.trial import CHANNEL, WARM_UP, Days, Request, Trial, recorded_days, run, synced

SHARES, FINE = (0.2, 0.4, 0.6, 0.8, 1.0), 0.05
"""Of what a replica carries inside its targets, what each is to get: first coarsely, then finely where it pays."""
MOST_SWEPT, REFINED = 16, 3
"""So many targets of a group are swept coarsely, and so many windows and ways down are then swept finely on all."""
DOMINATED = 1.1
"""A window and way down that costs so many times as much as the best where both reach the aim is not swept finely."""
WINDOWS_S = (300.0, 900.0, 1800.0, 3600.0)
SLOW = RatePolicy(value=10.0, period_s=60.0, is_percent=True)
"""How a metric that saturates shrinks: faster, and it cycles."""
TOLERANCES = (0.05,)
FLOOR, ROOM = 2.0, 1.25
"""Floors above are lowered to this where they cost; a ceiling that is raised has so much room over the largest load."""
AIMED_MISSES = 0.5
"""Of those that the goal allows: a setting that just met a goal misses it the next week."""
LASTING = 0.9
"""Of draws of the days to choose on, which all are to keep that: bursts come on some days and not on others."""
FEWEST_DAYS, LEFT_OUT = 6, 0.3
"""Fewer days prove nothing; of all, the last part is not chosen on."""
LEAST_SAVING = 0.05
HALF = 0.5
"""Of what the present setting is short of the goal on the days left out: a repair leaves no more."""
ABOUT = 0.03
"""Settings on a bursty load whose costs differ by less cost about the same."""
LEAST_GAIN_OF_KNOB = 0.01
"""Of the cost: a knob that saves less is left as it is."""
FURTHEST = 0.25
"""So far the simulated replicas of the present setting may be from the recorded ones, in the mean."""
MARGIN = 0.1
"""So much more misses than allowed, and than before, break a promise: a few days differ by chance."""
LEAST_MISS = 1e-6
DRAWS, TENTHS = 1000, (0.05, 0.95)
COURSE_STEPS = 10

_Answer = TypeVar("_Answer")


class Unmoved(StrEnum):
    """Why a group keeps its setting."""

    FEW_DAYS = "too few days"
    UNKNOWN = "not simulated"
    CONTRADICTED = "not what ran"
    NO_SETTING = "no setting reaches the goal"
    LITTLE_GAIN = "too little gain"
    NOT_KEPT = "not kept on the days left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is asked of a group: the share of requests inside their targets, and what may be changed.

    `seed` draws starts and blocks of days. `has_tolerance`: the cluster's HPAs have a tolerance of their own.
    """

    attainment: float
    seed: int = 1
    has_tolerance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a setting comes to: money an hour in the unit of prices, share of requests inside targets, starts a day."""

    words: str
    cost_per_hour: float
    attainment: float
    starts_per_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One day of the group, every ten minutes from `start_s` (Unix seconds).

    `needed` are replicas that the load fills, `before` and `after` those asked for under both settings.
    """

    start_s: float
    needed: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A setting for each target, and what it came to before and after over all days and over those left out.

    `most_wanted` are the replicas that each would have at most if nothing limited them. `saving` is the share of cost
    saved on the days left out, and between which values in nine of ten draws of these days. `steps` apply one knob
    after the other, the present setting first; `frontier` are settings that none beats in both cost and attainment on
    the days it was chosen on, of which `fitted_before` and `fitted_after` are too. `repairs` says that the present
    setting misses the goal on the days left out, and that at least half of what it is short of is gained.
    `reaches_goal` is whether the goal is kept on the days it was chosen on and on those left out; where no setting
    does, this one keeps more requests inside their targets for no more money.
    """

    settings: Mapping[Hashable, AutoscalerSetting]
    most_wanted: Mapping[Hashable, float]
    before: Outcome
    after: Outcome
    left_out_before: Outcome
    left_out_after: Outcome
    fitted_before: Outcome
    fitted_after: Outcome
    days: int
    left_out: int
    saving: Interval
    repairs: bool
    reaches_goal: bool
    steps: tuple[Outcome, ...]
    frontier: tuple[Outcome, ...]
    course: Course


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Why a group keeps its setting; `frontier` as far as settings were tried."""

    reason: Unmoved
    words: str
    frontier: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Variant:
    """A setting of the whole group; None is what each target has now.

    `shares` has the shape (metrics x targets), `least` and `most` (targets,).
    """

    words: str
    shares: Floats
    window_s: float | None = None
    is_slow: bool = False
    is_linear: bool = False
    tolerance: float | None = None
    least: Floats | None = None
    most: Floats | None = None


def choose(cases: Sequence[tuple[Group, Goal]]) -> list[Choice | Unchanged]:
    """The setting that each group is to have from now on, or why it keeps the one it has."""
    return _together([_choosing(group, goal) for group, goal in cases])


def _choosing(group: Group, goal: Goal) -> Generator[Request, Trial, Choice | Unchanged]:
    unknown = _unknown(group)
    if unknown:
        return Unchanged(reason=Unmoved.UNKNOWN, words=unknown)
    days = recorded_days(group)
    if len(days.begin_s) < FEWEST_DAYS:
        words = f"{len(days.begin_s)} whole days are known, of which {FEWEST_DAYS} are needed"
        return Unchanged(reason=Unmoved.FEW_DAYS, words=words)
    first = len(days.begin_s) - max(round(LEFT_OUT * len(days.begin_s)), 2)
    return (yield from _Search(group, days, first, goal).chosen())


def _together(searches: Sequence[Generator[Request, Trial, _Answer]]) -> list[_Answer]:
    """What searches come to that each ask for one simulation after another: those of all at once."""
    answers: dict[int, _Answer] = {}
    trials: dict[int, Trial | None] = dict.fromkeys(range(len(searches)))
    while trials:
        requests: dict[int, Request] = {}
        for number, trial in trials.items():
            search = searches[number]
            try:
                requests[number] = next(search) if trial is None else search.send(trial)
            except StopIteration as ended:
                answers[number] = ended.value
        trials = dict(zip(requests, run(list(requests.values())), strict=True))
    return [answers[number] for number in range(len(searches))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a merged setting came to since: `before` is what the setting before it would have come to on these days.

    `broken` says why it is to be taken back, empty where its promise holds.
    """

    before: Outcome
    after: Outcome
    days: int
    broken: str = ""


def score(cases: Sequence[tuple[Group, Group, Goal]]) -> list[Score | Unchanged]:
    """Compare two settings of the same targets on the days since one was merged, which is history of both groups.

    Each case has the group with the setting before, then with the one after.
    """
    return _together([_scoring(before, after, goal) for before, after, goal in cases])


def _scoring(before: Group, after: Group, goal: Goal) -> Generator[Request, Trial, Score | Unchanged]:
    days = recorded_days(after)
    unknown = _unknown(before) or _unknown(after)
    if unknown or not days.begin_s:
        reason = Unmoved.UNKNOWN if unknown else Unmoved.FEW_DAYS
        return Unchanged(reason=reason, words=unknown or "no whole day since the merge is known")
    if not all(np.isfinite(each.history.desired).any() for each in after.targets):
        return Unchanged(reason=Unmoved.UNKNOWN, words="how many replicas ran is not known")
    new, old = _Search(after, days, 0, goal), _Search(before, recorded_days(before), 0, goal)
    old_ran, new_ran = (yield old.present), (yield new.present)
    was, now = _outcome(old_ran, 0, "before"), _outcome(new_ran, 0, "after")
    contradiction = new.contradiction(new_ran)
    missed = (1 - now.attainment) / (1 + MARGIN)
    broken = ""
    if contradiction:
        broken = contradiction
    elif missed > 1 - goal.attainment and missed > 1 - was.attainment:
        broken = f"{now.attainment:.2%} of requests kept their targets, before it would have been {was.attainment:.2%}"
    elif now.cost_per_hour > (1 + LEAST_GAIN_OF_KNOB) * was.cost_per_hour and now.attainment <= was.attainment:
        broken = f"it costs {now.cost_per_hour / was.cost_per_hour - 1:.1%} more and keeps no more requests in targets"
    return Score(before=was, after=now, days=len(days.begin_s), broken=broken)


def _unknown(group: Group) -> str:
    """Why a group cannot be simulated; empty where it can."""
    for target in group.targets:
        setting = target.setting
        for metric, whole in zip(setting.metrics, target.at_capacity, strict=True):
            if metric.signal not in CHANNEL:
                return f"{target.name} goes by a metric that is not known to follow its load"
            if metric.kind in (MetricKind.UTILIZATION, MetricKind.OBJECT_VALUE, MetricKind.EXTERNAL_VALUE):
                return f"{target.name} has a target that is not of one replica"
            if not (whole > 0 or metric.signal is Signal.WAITING):
                return f"what a replica of {target.name} shows of its metric when it is full is not known"
        if not setting.metrics:
            return f"{target.name} has no metric"
        if not (target.capacity_per_s > 0 and math.isfinite(target.capacity_per_s)):
            return f"what a replica of {target.name} carries inside its targets is not known"
    return ""


class _Search:
    """The days of a group, and settings simulated on them."""

    def __init__(self, group: Group, days: Days, first: int, goal: Goal) -> None:
        self._group, self._days, self._first, self._goal = group, days, first, goal
        signals = [each.signal for each in group.targets[0].setting.metrics]
        self._waits_only = signals == [Signal.WAITING]
        self._saturates = any(each.saturates for each in signals) and not any(
            each in (Signal.ARRIVALS, Signal.IN_FLIGHT) for each in signals
        )
        self._present = _Variant(words="as it is", shares=np.array([_present(each) for each in group.targets]).T)

    @property
    def present(self) -> Request:
        """The present setting on all days."""
        return self._request(self._days, [self._present], keeps_asked=True)

    def chosen(self) -> Generator[Request, Trial, Choice | Unchanged]:
        """As `choose` says."""
        fit = slice(0, self._first)
        aim = 1 - AIMED_MISSES * (1 - self._goal.attainment)
        tried, swept = yield from self._swept(aim)
        attained, cost, starts = swept.attainment(), swept.cost_per_hour(), swept.starts_per_day()
        frontier = _frontier(tried, attained, cost, starts)
        lasting = self._lasting(swept)
        if not (lasting >= aim).any():
            aim = self._goal.attainment
        reaches = bool((lasting >= aim).any())
        if reaches:
            row = self._cheapest(tried, np.where(lasting >= aim, cost, math.inf))
        else:
            present = yield self.present
            affordable = cost <= float(present.cost_per_hour(fit)[0])
            if not affordable.any():
                return self._no_setting(frontier, float(attained.max()))
            row = int(np.where(affordable, attained, -1.0).argmax())
        # the present setting together with others takes as long as those alone
        steps = [self._present, *self._steps(tried[row])]
        trial = yield self._request(self._days, steps, keeps_asked=True)
        contradiction = self.contradiction(trial)
        if contradiction:
            return Unchanged(reason=Unmoved.CONTRADICTED, words=contradiction)
        if reaches and float(self._lasting(trial)[-1]) < aim:  # two digits took too much: more replicas
            steps = [self._present, *self._steps(tried[row], rounds_down=True)]
            trial = yield self._request(self._days, steps, keeps_asked=True)
        if steps[-1].least is not None and not self._needs_no_floor(trial, reaches=reaches):
            steps, trial = steps[:-1], trial.of(slice(-1))
        for candidate in self._refinements(steps[-1]) if reaches else ():
            more = yield self._request(self._days, [candidate], keeps_asked=True)
            paid, most_paid = float(more.cost_per_hour(fit)[0]), float(trial.cost_per_hour(fit)[-1])
            if float(self._lasting(more)[0]) >= aim and paid <= (1 - LEAST_GAIN_OF_KNOB) * most_paid:
                steps, trial = [*steps, candidate], trial.joined(more)
                break
        return self._judged(steps, trial, frontier, reaches=reaches)

    def _judged(
        self,
        steps: Sequence[_Variant],
        trial: Trial,
        frontier: tuple[Outcome, ...],
        *,
        reaches: bool,
    ) -> Choice | Unchanged:
        """The last of some steps against the present setting, which is the first, on the days left out."""
        goal, rest = self._goal.attainment, slice(self._first, None)
        left_before, left_after = _outcome(trial, 0, "before", rest), _outcome(trial, -1, "after", rest)
        saving, gained = self._drawn(trial)
        short_before, short_after = (max(goal - each.attainment, 0.0) for each in (left_before, left_after))
        repairs = short_before > 0 and short_after <= HALF * short_before and gained.low > 0
        keeps = left_after.attainment >= min(goal, left_before.attainment)
        saves = saving.value >= LEAST_SAVING and saving.low > 0 and keeps
        improves = not reaches and gained.low > 0 and saving.low > -LEAST_GAIN_OF_KNOB
        if not (repairs or saves or improves):
            if not reaches:
                return self._no_setting(frontier, max(each.attainment for each in frontier))
            if not keeps:
                words = f"on {self._left_out} days left out {left_after.attainment:.2%} of requests kept their targets"
                return Unchanged(reason=Unmoved.NOT_KEPT, words=words, frontier=frontier)
            words = f"the best setting would have saved {saving.value:.1%} on {self._left_out} days left out"
            return Unchanged(reason=Unmoved.LITTLE_GAIN, words=words, frontier=frontier)
        settings = {each.name: self._setting(each, steps[-1], row) for row, each in enumerate(self._group.targets)}
        return Choice(
            settings=settings,
            most_wanted=dict(zip(settings, self._most_wanted(steps[-1]), strict=True)),
            before=_outcome(trial, 0, "before"),
            after=_outcome(trial, -1, "after"),
            left_out_before=left_before,
            left_out_after=left_after,
            fitted_before=_outcome(trial, 0, "before", slice(0, self._first)),
            fitted_after=_outcome(trial, -1, "after", slice(0, self._first)),
            days=len(self._days.begin_s),
            left_out=self._left_out,
            saving=saving,
            repairs=repairs,
            reaches_goal=reaches and not short_after,
            steps=tuple(_outcome(trial, row, each.words) for row, each in enumerate(steps)),
            frontier=frontier,
            course=self._course(trial),
        )

    def _cheapest(self, tried: Sequence[_Variant], cost: Floats) -> int:
        """The cheapest setting; on a bursty load, of those that cost about as much, the one with the longest window.

        How much more than this week's bursts another week has, it feels least: replicas are there when one comes back.
        """
        best = int(cost.argmin())
        if restlessness(self._group.targets[0].history) < BURSTY:
            return best
        about = np.flatnonzero(cost <= (1 + ABOUT) * cost[best]).tolist()
        return min(about, key=lambda row: (-(tried[row].window_s or 0.0), cost[row]))

    def _needs_no_floor(self, trial: Trial, *, reaches: bool) -> bool:
        """Whether the last setting of a trial, which lowers floors, keeps the goal on the days left out too."""
        return reaches and float(trial.attainment(slice(self._first, None))[-1]) >= self._goal.attainment

    @property
    def _left_out(self) -> int:
        return len(self._days.begin_s) - self._first

    def _no_setting(self, frontier: tuple[Outcome, ...], best: float) -> Unchanged:
        words = (
            f"the goal is {self._goal.attainment:.2%} of requests inside their targets; "
            f"no setting that was tried keeps that on most days, the best kept {best:.2%} in the mean"
        )
        return Unchanged(reason=Unmoved.NO_SETTING, words=words, frontier=frontier)

    def contradiction(self, present: Trial) -> str:
        """Why the simulated fleet is not the one that ran; empty where it is alike."""
        desired = [each.history.desired for each in self._group.targets]
        recorded = np.array([np.nanmean(each) if np.isfinite(each).any() else math.nan for each in desired])
        if not np.isfinite(recorded).all():
            return "how many replicas ran is not known"
        prices = np.array([each.price_per_hour for each in self._group.targets])
        ratio = float(present.cost_per_hour()[0]) / max(float(recorded @ prices), 1e-9)
        if abs(ratio - 1) <= FURTHEST:
            return ""
        return f"simulated with its present setting the group has {ratio:.2f} times the replicas that ran"

    def _swept(self, aim: float) -> Generator[Request, Trial, tuple[list[_Variant], Trial]]:
        """Targets with windows, and both ways down where the metric saturates, on the days to choose on.

        First coarsely, on some targets; then around where the cheapest of these reach what is aimed at.
        """
        days = self._days.part(slice(0, self._first))
        some = list(range(0, len(self._group.targets), max(math.ceil(len(self._group.targets) / MOST_SWEPT), 1)))
        is_policy = self._group.targets[0].setting.controller is Controller.POLICY
        ways = [
            (window_s, is_slow)
            for is_slow in ((False, True) if self._saturates else (False,))
            for window_s in WINDOWS_S
            if not is_policy or window_s <= LONGEST_WINDOW_S
        ]
        points = [(share, *way) for way in ways for share in SHARES]
        coarse = yield self._request(days, [self._variant(*each) for each in points], some)
        shape = len(ways), len(SHARES)
        attained, cost = self._lasting(coarse).reshape(shape), coarse.cost_per_hour().reshape(shape)
        reached = [_reached(attained[row], cost[row], aim) for row in range(len(ways))]
        best = sorted(range(len(ways)), key=lambda row: (reached[row], row))[:REFINED]
        best = [row for row in best if reached[row] <= DOMINATED * reached[best[0]]]
        near = []
        for row in best:
            enough = np.flatnonzero(attained[row] >= aim)
            last = int(enough.max()) if enough.size else 0
            until = SHARES[min(last + 1, len(SHARES) - 1)]
            shares = np.arange(SHARES[last], max(until - FINE / 2, SHARES[last] + FINE / 2), FINE)
            near += [(round(float(share), 2), *ways[row]) for share in shares]
        fine = [self._variant(*each) for each in near]
        unfloored = [] if self._floors() is None else [replace(each, least=None) for each in fine]
        is_whole = len(some) == len(self._group.targets)  # then what was tried coarsely is known already
        fresh = [variant for each, variant in zip(near, fine, strict=True) if not (is_whole and each in points)]
        found = yield self._request(days, unfloored + fresh)
        if is_whole:
            new = iter(range(len(points) + len(unfloored), len(points) + len(unfloored) + len(fresh)))
            rows = [points.index(each) if each in points else next(new) for each in near]
            found = coarse.joined(found).of([*range(len(points), len(points) + len(unfloored)), *rows])
        return unfloored + fine, found

    def _lasting(self, trial: Trial) -> Floats:
        """The share of requests inside their targets that nine of ten draws of the days to choose on exceed."""
        blocks = random_generator(self._goal.seed, "choosing").integers(0, self._first, (DRAWS, self._first))
        kept, offered = (each.sum(axis=1)[:, : self._first] for each in (trial.kept, trial.offered))
        drawn = kept[:, blocks].sum(axis=2) / np.maximum(offered[:, blocks].sum(axis=2), 1e-12)
        return np.asarray(np.quantile(drawn, 1 - LASTING, axis=1))

    def _variant(self, share: float, window_s: float, is_slow: bool) -> _Variant:
        """A setting of the sweep; targets of several metrics move together, from what they are at 80 %."""
        present = self._present.shares
        return _Variant(
            words=f"target {share:.2f} of capacity, window {window_s / 60:.0f} min"
            + (", down 10 % a minute" if is_slow else ""),
            shares=np.full(present.shape, share) if len(present) == 1 else present * (share / 0.8),
            window_s=window_s,
            is_slow=is_slow,
            is_linear=self._waits_only,
            least=self._floors(),
            most=np.array([max(float(each.setting.most), each.most_allowed) for each in self._group.targets]),
        )

    def _steps(self, chosen: _Variant, *, rounds_down: bool = False) -> list[_Variant]:
        """From the present setting to the chosen one, knob by knob in the order of what each is worth."""
        exact = np.array([self._rounded(each, chosen, row, rounds_down=rounds_down)
                          for row, each in enumerate(self._group.targets)]).T  # fmt: skip
        step = self._present
        steps: list[_Variant] = []
        if chosen.is_linear:
            step = replace(step, words="scaled by arrival rate", is_linear=True, shares=exact)
            steps.append(step)
        if chosen.is_slow:
            before, step = step, replace(step, words="scaled down by at most 10 % a minute", is_slow=True)
            steps += [step] if self._is_other(before, step) else []
        words = f"scale-down window {(chosen.window_s or 0) / 60:.0f} min"
        before, step = step, replace(step, words=words, window_s=chosen.window_s)
        steps += [step] if self._is_other(before, step) else []
        if not chosen.is_linear:
            step = replace(step, words="target", shares=exact)
            steps.append(step)
        ceilings = self._ceilings(step)
        if any(most > each.setting.most for most, each in zip(ceilings.tolist(), self._group.targets, strict=True)):
            step = replace(step, words="more replicas at most", most=ceilings)
            steps.append(step)
        if chosen.least is not None:
            steps.append(replace(step, words="lower floors", least=chosen.least))
        return steps

    def _is_other(self, before: _Variant, after: _Variant) -> bool:
        """Whether a step does something of any target: some may have it so already."""
        return any(
            synced(_simulated(target.setting, before, row), STEP_S, has_window=True)
            != synced(_simulated(target.setting, after, row), STEP_S, has_window=True)
            for row, target in enumerate(self._group.targets)
        )

    def _refinements(self, step: _Variant) -> Iterator[_Variant]:
        """The same setting with what is worth little: a tolerance, where the cluster has it."""
        if self._goal.has_tolerance and self._group.targets[0].setting.controller is not Controller.POLICY:
            yield from (replace(step, words=f"tolerance {each:g}", tolerance=each) for each in TOLERANCES)

    def _floors(self) -> Floats | None:
        """The least replicas of each target where those above two are lowered as far as allowed; None where none are.

        A floor of two or less is for what fails, not for the load.
        """
        present, allowed = (
            np.array(each, dtype=np.float64)
            for each in zip(*((each.setting.least, each.least_allowed) for each in self._group.targets), strict=True)
        )
        lowered = np.minimum(present, np.maximum(allowed, FLOOR))
        return lowered if (lowered < present).any() else None

    def _ceilings(self, variant: _Variant) -> Floats:
        """The most replicas of each target: as wanted, as far as allowed, and never fewer than now."""
        limits = [(float(each.setting.most), each.most_allowed) for each in self._group.targets]
        wanted = self._most_wanted(variant)
        return np.array([max(now, min(allowed, each)) for (now, allowed), each in zip(limits, wanted, strict=True)])

    def _most_wanted(self, variant: _Variant) -> list[float]:
        """As now, but what the largest load takes and a quarter more where a ceiling was reached or would be passed."""
        found = []
        for row, target in enumerate(self._group.targets):
            most = float(target.setting.most)
            share = min(float(variant.shares[0, row]), 1.0)
            if not variant.is_linear and target.setting.metrics[0].signal is not Signal.ARRIVALS:
                grows = USUAL_SHARE if math.isnan(target.batch_share) else target.batch_share
                share = share / (1 - grows + share * grows)
            taken = float(self._days.offered_per_s[row].max()) / (target.capacity_per_s * max(share, FINE))
            is_bound = bool((target.history.desired >= most).any()) or math.ceil(taken) > most
            found.append(max(float(math.ceil(ROOM * taken)), most) if is_bound else most)
        return found

    def _rounded(self, target: TunedTarget, chosen: _Variant, row: int, *, rounds_down: bool) -> list[float]:
        """The shares of a target whose own numbers have two significant digits."""
        wholes = [target.capacity_per_s] if chosen.is_linear else target.at_capacity
        metrics = [ARRIVALS] if chosen.is_linear else target.setting.metrics
        found = []
        for metric, share, whole in zip(metrics, chosen.shares[:, row], wholes, strict=True):
            unit = whole if whole > 0 else 1.0
            amount = two_digits(float(share) * unit, rounds_down=rounds_down, is_whole=metric.is_whole)
            found.append(amount / unit)
        return found

    def _setting(self, target: TunedTarget, variant: _Variant, row: int) -> AutoscalerSetting:
        """The setting of one target that a variant means."""
        setting = target.setting
        wholes = [target.capacity_per_s] if variant.is_linear else target.at_capacity
        metrics = [ARRIVALS] if variant.is_linear else setting.metrics
        return replace(
            setting,
            metrics=tuple(
                replace(each, target=two_digits(float(share) * (whole if whole > 0 else 1.0), is_whole=each.is_whole))
                for each, share, whole in zip(metrics, variant.shares[:, row], wholes, strict=True)
            ),
            behavior=_behavior(setting.behavior, variant),
            least=setting.least if variant.least is None else float(variant.least[row]),
            most=setting.most if variant.most is None else float(variant.most[row]),
            tolerance_up=setting.tolerance_up if variant.tolerance is None else variant.tolerance,
            tolerance_down=setting.tolerance_down if variant.tolerance is None else variant.tolerance,
        )

    def _request(
        self,
        days: Days,
        variants: Sequence[_Variant],
        members: Sequence[int] | None = None,
        *,
        keeps_asked: bool = False,
    ) -> Request:
        """Variants, for all targets or some."""
        rows = range(len(self._group.targets)) if members is None else members
        targets = [self._group.targets[row] for row in rows]
        return Request(
            days=Days(
                group=Group(targets=tuple(targets)), begin_s=days.begin_s, offered_per_s=days.offered_per_s[rows]
            ),
            settings=[
                [_simulated(target.setting, variant, row) for row, target in zip(rows, targets, strict=True)]
                for variant in variants
            ],
            seed=self._goal.seed,
            keeps_asked=keeps_asked,
        )

    def _drawn(self, trial: Trial) -> tuple[Interval, Interval]:
        """The share of cost that is saved on the days left out and the attainment that is gained, by blocks of days."""
        count = self._left_out
        blocks = random_generator(self._goal.seed, "tuning").integers(0, count, (DRAWS, count))

        def days_of(values: Floats, row: int) -> Floats:
            return np.asarray(values[row].sum(axis=0)[self._first :])

        before, after = days_of(trial.cost, 0), days_of(trial.cost, -1)
        saved = 1 - after[blocks].sum(axis=1) / np.maximum(before[blocks].sum(axis=1), 1e-12)
        offered = days_of(trial.offered, 0)
        more = days_of(trial.kept, -1) - days_of(trial.kept, 0)
        gained = more[blocks].sum(axis=1) / np.maximum(offered[blocks].sum(axis=1), 1e-12)
        value = 1 - float(after.sum()) / max(float(before.sum()), 1e-12)
        return _interval(value, saved), _interval(float(more.sum()) / max(float(offered.sum()), 1e-12), gained)

    def _course(self, trial: Trial) -> Course:
        """The last day under the first setting of a trial, which is the present one, and under the last."""
        capacity = np.array([each.capacity_per_s for each in self._group.targets])
        needed = (self._days.offered_per_s[:, -1, WARM_UP:] / capacity[:, None]).sum(axis=0)

        def thinned(values: Floats) -> tuple[float, ...]:
            return tuple(np.round(values.reshape(-1, COURSE_STEPS).mean(axis=1), 2).tolist())

        before, after = (() if trial.asked is None else thinned(trial.asked[row].sum(axis=0)) for row in (0, -1))
        return Course(start_s=self._days.begin_s[-1], needed=thinned(needed), before=before, after=after)


ARRIVALS = MetricSetting(kind=MetricKind.EXTERNAL_AVERAGE, signal=Signal.ARRIVALS, target=math.nan)
"""The linear metric that stands for one that says too little."""


def _present(target: TunedTarget) -> list[float]:
    """The present targets as the simulation takes them: shares of capacity, waiting requests as they are."""
    return [
        float(metric.target) if metric.signal is Signal.WAITING else share
        for metric, share in zip(target.setting.metrics, target.shares, strict=True)
    ]


def _simulated(setting: AutoscalerSetting, variant: _Variant, row: int) -> AutoscalerSetting:
    """The setting of one target that a variant means, as the simulation takes it: targets are shares of capacity."""
    metrics = (ARRIVALS,) if variant.is_linear else setting.metrics
    return replace(
        setting,
        metrics=tuple(
            replace(each, target=float(share), activation=0.0)
            for each, share in zip(metrics, variant.shares[:, row], strict=True)
        ),
        behavior=_behavior(setting.behavior, variant),
        least=setting.least if variant.least is None else float(variant.least[row]),
        most=setting.most if variant.most is None else float(variant.most[row]),
        tolerance_up=setting.tolerance_up if variant.tolerance is None else variant.tolerance,
        tolerance_down=setting.tolerance_down if variant.tolerance is None else variant.tolerance,
    )


def _behavior(behavior: Behavior | PolicyBehavior | None, variant: _Variant) -> Behavior | PolicyBehavior | None:
    """A behavior with what a variant changes of it."""
    if not variant.is_slow and variant.window_s is None:
        return behavior
    if isinstance(behavior, PolicyBehavior):
        down = behavior.down
        if variant.is_slow:
            down = replace(down, instances=1, percent=round(float(SLOW.value)), period_s=SLOW.period_s)
        if variant.window_s is not None:
            down = replace(down, stabilization_s=variant.window_s)
        return replace(behavior, down=down)
    behavior = behavior or Behavior()
    rules = replace(behavior.down, policies=(SLOW,)) if variant.is_slow else behavior.down
    return replace(behavior, down=rules if variant.window_s is None else replace(rules, window_s=variant.window_s))


def _reached(attained: Floats, cost: Floats, aim: float) -> float:
    """What targets along one way cost where they attain what is aimed at, infinity where none does.

    Between two of them the logarithm of misses is nearly straight in the cost.
    """
    enough = np.flatnonzero(attained >= aim)
    if not enough.size:
        return math.inf
    last = int(enough.max())
    if last + 1 == len(attained):
        return float(cost[last])
    misses = -np.log(np.maximum(1 - attained[[last + 1, last]], LEAST_MISS))
    return float(np.interp(-math.log(max(1 - aim, LEAST_MISS)), misses, cost[[last + 1, last]]))


def _outcome(trial: Trial, row: int, words: str, days: slice = slice(None)) -> Outcome:
    return Outcome(
        words=words,
        cost_per_hour=float(trial.cost_per_hour(days)[row]),
        attainment=float(trial.attainment(days)[row]),
        starts_per_day=float(trial.starts_per_day(days)[row]),
    )


def _frontier(tried: Sequence[_Variant], attained: Floats, cost: Floats, starts: Floats) -> tuple[Outcome, ...]:
    """The settings that none beats in both, by cost."""
    order = np.lexsort((-attained, cost))
    best = np.maximum.accumulate(attained[order])
    is_better = np.concatenate(([True], best[1:] > best[:-1]))
    return tuple(
        Outcome(
            words=tried[row].words,
            cost_per_hour=float(cost[row]),
            attainment=float(attained[row]),
            starts_per_day=float(starts[row]),
        )
        for row in order[is_better].tolist()
    )


def _interval(value: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, TENTHS)
    return Interval(value=value, low=float(low), high=float(high))
