"""What a forecast and the rule of now would have made of the last days: which decides, and with which margin.

Formulas and defaults: rules/forecast.md#the-replicas.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.forecast.forecaster import Forecaster, fit
from reconciler.forecast.series import DAY_S, HOUR_S, Bools, Floats, Integers, Rates, Window, largest_within, states_at
from reconciler.simulation.fluid import Delay, follow, serve

LEVEL = 0.9
"""The quantile that the margin multiplies: feeding back what was attained replaces tuning it."""
LEVELS = (0.25, 0.75, LEVEL, 0.99)
"""Those that are shown: between the first two lies half of what comes."""
LINGER_S = 45 * 60.0
"""A replica goes only if the window and so much more would not need it: else it comes back soon."""
HOLD_S = 3 * 3600.0
"""Nor for so long after some were added, unless many may go at once (`fluid.are_many`): else all that the day's peak
called for would stay until long after it."""
FEWEST_DAYS, TRIAL_DAYS = 3.0, 5
TRIAL_ROWS = 10_000
"""What each day of a trial is learned from: the margin is the same as of four times as many."""
MOST_UNKNOWN = 0.1
"""Of the days looked at: with more gaps it is not known what a forecast would have missed."""
MOST_MODELS = 100
AIMED_MISSES = 0.6
"""Of those that the goal allows: a replay knows no late merge and no pull request that waits until it is worth it."""
MARGINS = np.geomspace(0.9, 1.6, 14)
FINEST_STEP_S = 300.0
DRIFT = 0.05
"""So far the share of loads below their quantile may be from its level over the days of a trial."""
LEAST_GAIN = 0.03
"""Of the cost of the rule of now, at what both attain: for less nothing is changed."""
NOISE_DEVIATIONS, WIDEST_NOISE = 5.0, 0.2
"""As the rule of now has them: `MARGIN` and `WIDEST_MARGIN` of `decision.load_variation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What the last days would have been like: `margin` None where the rule of now decides, and why in `words`.

    Costs are mean replicas at what both rules attain; `coverage` is the share of loads that were below their quantile,
    `covered` the same of each series that was replayed.
    """

    margin: float | None
    words: str
    days: float = 0.0
    coverage: float = math.nan
    covered: Mapping[int, float] = field(default_factory=dict)
    attainment: float = math.nan
    gain: float = math.nan


Asked = ParamSpec("Asked")
Result = TypeVar("Result")


def _kept_with_rates(
    function: Callable[Concatenate[Rates, Asked], Result],
) -> Callable[Concatenate[Rates, Asked], Result]:
    """Remember what was found as long as the rates live: a plan that is made again, with a change pinned, learns
    nothing anew. A count of results would keep the weeks of all models of as many decisions in memory.
    """
    found: WeakKeyDictionary[Rates, dict[object, Result]] = WeakKeyDictionary()

    @wraps(function)
    def remembered(rates: Rates, /, *asked: Asked.args, **named: Asked.kwargs) -> Result:
        of_rates, key = found.setdefault(rates, {}), (asked, tuple(named.items()))
        if key not in of_rates:
            of_rates[key] = function(rates, *asked, **named)
        return of_rates[key]

    return remembered


def learn(rates: Rates, window: Window, until_s: float) -> tuple[Forecaster | None, Forecaster | None]:
    """The forecasters of a window, and of the same with `LINGER_S` more: what may be asked for, what must stay."""
    return _learned(rates, window, LEVELS, until_s), _learned(rates, lingering(window), (LEVEL,), until_s)


def lingering(window: Window) -> Window:
    """The window within which a replica that goes must not be needed."""
    return Window(from_s=window.from_s, until_s=window.until_s + LINGER_S)


@_kept_with_rates
def _learned(rates: Rates, window: Window, levels: tuple[float, ...], until_s: float) -> Forecaster | None:
    return fit(rates, window, levels, until_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is compared: the share of requests that must keep their targets, and the headroom of the rule of now."""

    goal: float
    headroom: float


@_kept_with_rates
def rehearse(
    rates: Rates,
    series: tuple[int, ...],
    capacity_per_s: tuple[float, ...],
    window: Window,
    delay_s: tuple[float, float],
    rules: Rules,
    until_s: float,
) -> Rehearsal:
    """Replay the last days until a midnight on some `series`, a replica of which carries `capacity_per_s`.

    `delay_s` is how long a decision takes to reach its cluster, and a replica from there to serve. Each day is forecast
    as it was to be: by what was known at the midnight before it.
    """
    end = rates.moments_until(until_s)
    days = end * rates.step_s / DAY_S
    if days < FEWEST_DAYS:
        return Rehearsal(margin=None, words=f"{days:.1f} days of history, fewer than {FEWEST_DAYS:.0f}", days=days)
    trial = min(TRIAL_DAYS, int(days // 2))
    first = end - round(trial * DAY_S / rates.step_s)
    chosen = np.array(series)[:: max(math.ceil(len(series) / MOST_MODELS), 1)]
    capacity = np.array(capacity_per_s)[:: max(math.ceil(len(series) / MOST_MODELS), 1)]
    looked_at = rates.per_s[chosen, :end]
    unknown = 1 - float(np.isfinite(looked_at).mean())
    if unknown > MOST_UNKNOWN:
        return Rehearsal(margin=None, words=f"{unknown:.0%} of the last {days:.0f} days are not known", days=days)
    names, moments = tuple(chosen.tolist()), np.arange(first - 1, end - 1)
    days_of = np.array_split(moments, trial)
    by_day = [_forecast_day(rates, names, (int(each[0]), int(each[-1]) + 1), window) for each in days_of]
    learned = [each for each in by_day if each is not None]
    if len(learned) < trial:
        return Rehearsal(margin=None, words="too few series and days to learn from", days=days)
    grow, keep, known = (np.concatenate(each, axis=1) for each in zip(*learned, strict=True))
    rates, chosen = replace(rates, per_s=rates.per_s[chosen]), np.arange(len(chosen))
    rows, at = np.repeat(chosen, len(moments)), np.tile(moments, len(chosen))
    targets = largest_within(rates, rows, at, window).reshape(grow.shape)
    judged = np.isfinite(targets) & known & (moments + window.offsets(rates.step_s)[1] < end)
    below, counted = ((each & judged).sum(axis=1) for each in (targets <= grow, judged))
    coverage = float(below.sum() / counted.sum()) if counted.any() else math.nan
    grow_now, keep_now = present_rule(rates, chosen, moments, rules.headroom)
    by_margin = MARGINS[:, np.newaxis, np.newaxis] * grow
    forecast = follow(by_margin, np.broadcast_to(keep, by_margin.shape), capacity, hold=rates.steps(HOLD_S))
    decided = np.concatenate((forecast, follow(grow_now, keep_now, capacity)[None]))
    times = max(round(rates.step_s / FINEST_STEP_S), 1)
    step_s = rates.step_s / times
    offered = np.nan_to_num(rates.per_s[chosen, first:end])
    served = serve(
        np.repeat(offered, times, axis=1),
        np.repeat(decided, times, axis=2),
        capacity,
        Delay(sync=round(delay_s[0] / step_s), start=round(delay_s[1] / step_s)),
        step_s,
    )
    found = _chosen(served.attainment, served.cost, rules.goal, coverage, days)
    covered = zip(names, (below / np.maximum(counted, 1)).tolist(), counted.tolist(), strict=True)
    return replace(found, covered={row: share for row, share, count in covered if count})


@_kept_with_rates
def _forecast_day(
    rates: Rates, names: tuple[int, ...], span: tuple[int, int], window: Window
) -> tuple[Floats, Floats, Bools] | None:
    """What is asked for without a margin, what must stay, and whether the past is known (series x moments of a span).

    The next day's trial has all but one of the days of this one.
    """
    series, moments = np.array(names), np.arange(*span)
    until_s = rates.start_s + float(moments[0]) * rates.step_s
    grow_by, keep_by = (fit(rates, each, (LEVEL,), until_s, TRIAL_ROWS) for each in (window, lingering(window)))
    if grow_by is None or keep_by is None:
        return None
    rates, series = replace(rates, per_s=rates.per_s[series]), np.arange(len(series))
    rows, at = np.repeat(series, len(moments)), np.tile(moments, len(series))
    shape = len(series), len(moments)
    states = states_at(rates, rows, at, window, knows_weeks=grow_by.knows_weeks)
    lasting = keep_by.quantiles(states_at(rates, rows, at, keep_by.window, knows_weeks=keep_by.knows_weeks))
    grow, keep = grow_by.quantiles(states)[:, 0], np.maximum(lasting[:, 0], states.now_per_s)
    return grow.reshape(shape), keep.reshape(shape), states.known.reshape(shape)


def _chosen(attained: Floats, cost: Floats, goal: float, coverage: float, days: float) -> Rehearsal:
    """Compare at what both attain: the goal, or what the rule of now reaches of it. The rule of now is the last row.

    The margin is that of the goal, and none that would have cost more than the rule of now did.
    """
    by_margin, kept, paid = np.maximum.accumulate(attained[:-1]), float(attained[-1]), float(cost[-1])
    misses = np.log(np.maximum(1 - by_margin, 1e-6))
    level = min(goal, kept)
    equal = _margin_for(misses, level)
    gain = 1 - float(np.interp(equal, MARGINS, cost[:-1])) / paid if paid > 0 else 0.0
    affordable = float(np.interp(paid, cost[:-1], MARGINS))
    margin = None
    told = f"the load of now with headroom kept {kept:.1%} of requests inside their targets in the last days"
    if not abs(coverage - LEVEL) <= DRIFT:
        words = f"forecasts drifted: {coverage:.0%} of loads were below the quantile of {LEVEL:.0%}"
    elif by_margin[-1] < level:
        words = f"{told}, and no forecast did"
    elif gain < LEAST_GAIN:
        words = f"{told}, and a forecast would have needed {_fewer(gain)} for that"
    else:
        words = f"{told}, and a forecast would have needed {_fewer(gain)} for that"
        margin = max(equal, min(_margin_for(misses, 1 - AIMED_MISSES * (1 - goal)), affordable))
    return Rehearsal(margin=margin, words=words, days=days, coverage=coverage, attainment=kept, gain=gain)


def _fewer(gain: float) -> str:
    return f"{abs(gain):.0%} {'fewer' if gain >= 0 else 'more'} replicas"


def _margin_for(log_misses: Floats, goal: float) -> float:
    """The margin that attains a goal, between those tried: the logarithm of misses is nearly straight in it."""
    wanted = math.log(max(1 - goal, 1e-6))
    return float(np.exp(np.interp(-wanted, -log_misses, np.log(MARGINS))))


def present_rule(rates: Rates, series: Integers, moments: Integers, headroom: float) -> tuple[Floats, Floats]:
    """What the rule of now asks for and what it keeps (series x moments), on the grid of the history.

    As `decision.load_variation`: the load of now or the mean and its noise, the peak of the last hour.
    """
    steps = rates.steps(HOUR_S)
    ages = np.arange(steps)
    hour = np.nan_to_num(rates.per_s[np.asarray(series)[:, None, None], (moments[:, None] - ages)[None, :, :]])
    mean = hour.mean(axis=2)
    centred = ages - ages.mean()
    slope = (hour @ centred) / max(float(centred @ centred), 1.0)
    beside = hour - mean[..., None] - slope[..., None] * centred
    deviation = np.sqrt(np.maximum((beside**2).sum(axis=2) / max(steps - 1, 1), mean / FINEST_STEP_S))
    margin = np.minimum(NOISE_DEVIATIONS * deviation, WIDEST_NOISE * mean)
    grow = (1 + headroom) * np.maximum(hour[..., 0], mean + margin)
    return grow, (1 + headroom) * np.maximum(hour.max(axis=2), mean + 2 * margin)
