"""Rates on one grid of moments, the window that is forecast, and what of the past a forecast looks at."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

DAY_S, WEEK_S, HOUR_S, RECENT_S = 86_400.0, 604_800.0, 3600.0, 600.0
LOOKS_BACK_S = WEEK_S + DAY_S
"""What is known of a moment lies in the time so long before it: at most a week, and the windows that end then."""
LEAST_KNOWN = 0.5
"""Of a window: with less its mean is not known."""
SERIES_AT_ONCE = 256
"""So many are in memory a second time."""
FEW_MOMENTS = 16
"""Of so few the largest rate before each is looked up where it is asked for, not at every moment."""
FLOOR_OF_MEAN, FLOOR_PER_S = 0.03, 0.001
"""What is added to rates before they are compared, of the mean and in requests a second: zero has no logarithm."""
WIDEST = 5.0
"""Logarithms of ratios beyond say no more."""

FEATURE_DIGITS = 9
FEATURES = (
    *("last 5 minutes", "last hour", "peak of the last hour", "mean of the day", "mean of the week"),
    *("peak of the day", "same time yesterday", "rise yesterday", "same time last week", "rise last week"),
    *("usual rise at this time", "variation of the hour", "variation of 6 hours", "last change", "change before"),
    *("peak far above now", "day far above now", "varying peak", "varying yesterday", "varying day"),
)
"""In the order of the columns, as `explain` names them."""
OF_HOUR, OF_DAY, OF_PEAK, OF_YESTERDAY, OF_VARIATION = 2, 3, 5, 6, 12
"""Columns that define a state, and the peak of the day."""
OF_OTHER_DAYS = (3, 4, 5, 6, 8)
"""Columns that compare the levels of other days with now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From when to when after now a change serves, in seconds: it must carry the largest rate in between."""

    from_s: float
    until_s: float

    def offsets(self, step_s: float) -> tuple[int, int]:
        """The first and the last moment of it, counted in steps from now: each ends a step that it touches."""
        last = max(math.ceil(self.until_s / step_s), 1)
        first = math.floor(self.from_s / step_s) + 1
        return min(first, last), last


@dataclass(frozen=True, kw_only=True, eq=False)
class Rates:
    """Arrivals of series by moment: `per_s[i, j]` is the mean rate over the `step_s` before `start_s + j * step_s`.

    In requests a second; NaN is not known. Times are Unix seconds. They are compared by identity, and without slots,
    so that what was learned of them can be kept as long as they are.
    """

    start_s: float
    step_s: float
    per_s: Floats

    def moments_until(self, at_s: float) -> int:
        """How many moments are not after `at_s`."""
        count = math.floor((at_s - self.start_s) / self.step_s) + 1
        return int(min(max(count, 0), self.per_s.shape[1]))

    def since(self, at_s: float) -> "Rates":
        """The same rates from `at_s` on, beginning with the last moment that is not after it."""
        first = max(self.moments_until(at_s) - 1, 0)
        return Rates(start_s=self.start_s + first * self.step_s, step_s=self.step_s, per_s=self.per_s[:, first:])

    def steps(self, span_s: float) -> int:
        """How many steps a time has, at least one."""
        return max(round(span_s / self.step_s), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """What is known at (series, moment) pairs, a row each: `values` (rows x features), and what undoes the ratios.

    `now_per_s` is the mean of the last 10 minutes, `floor_per_s` what is added before comparing, `most_per_s` the
    largest rate of seven days, `raised` the logarithm of now over the same time yesterday, `weekday` counts from
    Thursday (UTC). A row that is not `known` has too little behind it.
    """

    values: Floats
    now_per_s: Floats
    floor_per_s: Floats
    most_per_s: Floats
    raised: Floats
    known: Bools
    weekday: Integers

    @property
    def as_if_level(self) -> Floats:
        """The values as if the days before had been as high as today."""
        values = self.values.copy()
        values[:, OF_OTHER_DAYS] = np.clip(values[:, OF_OTHER_DAYS] + self.raised[:, np.newaxis], -WIDEST, WIDEST)
        return with_products(values)

    def rates(self, ratios: Floats) -> Floats:
        """The rates (rows x levels) of logarithms of ratios to now."""
        floor = self.floor_per_s[:, np.newaxis]
        return np.asarray(np.maximum(np.exp(ratios) * (self.now_per_s[:, np.newaxis] + floor) - floor, 0.0))

    def ratios(self, per_s: Floats) -> Floats:
        """The logarithm of each row's rate over that of now."""
        return _ratio(per_s, self.now_per_s, self.floor_per_s)


def states_at(rates: Rates, series: Integers, moments: Integers, window: Window, *, knows_weeks: bool = True) -> States:
    """What is known of each series at its moment: nothing that comes later is looked at.

    `series` ascend. Without `knows_weeks` the week before is not looked at, as where none was to learn from.
    """
    parts = []
    for first in range(0, max(len(rates.per_s), 1), SERIES_AT_ONCE):
        here = slice(*np.searchsorted(series, (first, first + SERIES_AT_ONCE)))
        block = _Past.of(rates, slice(first, first + SERIES_AT_ONCE), window)
        parts.append(_states(block, series[here] - first, moments[here], knows_weeks=knows_weeks))
    values, now, floor, most, raised, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    weekday = ((rates.start_s + moments * rates.step_s) // DAY_S % 7).astype(np.int64)
    return States(
        values=values,
        now_per_s=now,
        floor_per_s=floor,
        most_per_s=most,
        raised=raised,
        known=known,
        weekday=weekday,
    )


def largest_within(rates: Rates, series: Integers, moments: Integers, window: Window) -> Floats:
    """The largest rate of each series within the window after its moment; NaN where a part of it is not known."""
    first, last = window.offsets(rates.step_s)
    columns = moments[:, np.newaxis] + np.arange(first, last + 1)
    inside = columns < rates.per_s.shape[1]
    found = rates.per_s[series[:, np.newaxis], np.where(inside, columns, 0)]
    return np.asarray(np.where(inside, found, np.nan).max(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """Rates of some series with their sums, from which a mean over any time before a moment is one difference.

    `unknown` and `counts` are None where all is known, as mostly.
    """

    rates: Rates
    filled: Floats
    unknown: Floats | None
    sums: Floats
    counts: Floats | None
    first: int
    last: int
    """How many steps after a moment its window begins and ends."""

    @classmethod
    def of(cls, rates: Rates, rows: slice, window: Window) -> "_Past":
        per_s = rates.per_s[rows]
        is_known = np.isfinite(per_s)
        is_whole = bool(is_known.all())
        filled = per_s if is_whole else np.where(is_known, per_s, 0.0)
        first, last = window.offsets(rates.step_s)
        return cls(
            rates=rates,
            filled=filled,
            unknown=None if is_whole else 1.0 - is_known,
            sums=_sums(filled),
            counts=None if is_whole else _sums(is_known),
            first=first,
            last=last,
        )

    def mean(self, series: Integers, ends: Integers, steps: int) -> Floats:
        """The mean over so many steps until each moment; NaN where half of them is not known."""
        rows = series * self.sums.shape[1]
        until, since = rows + np.maximum(ends + 1, 0), rows + np.maximum(ends + 1 - steps, 0)
        count = until - since if self.counts is None else self.counts.take(until) - self.counts.take(since)
        total = self.sums.take(until) - self.sums.take(since)
        return np.asarray(np.where(count >= max(LEAST_KNOWN * steps, 1), total / np.maximum(count, 1), np.nan))

    def windows_ago(self, series: Integers, moments: Integers, days: Integers) -> Floats:
        """The largest rate of the window so many steps ago (rows x days), no later than each moment.

        NaN where a part of it is not known, or before all that is.
        """
        ends = np.minimum(moments[:, np.newaxis] - days + self.last, moments[:, np.newaxis])
        rows, size = series[:, np.newaxis], self.last - self.first + 1
        is_past = ends >= 0
        ends = np.maximum(ends, 0)
        if self.unknown is not None:
            is_past &= _largest_before(self.unknown, rows, ends, size) <= 0
        return np.asarray(np.where(is_past, _largest_before(self.filled, rows, ends, size), np.nan))


def _sums(values: Floats | Bools) -> Floats:
    """The sum of each row before each place, and of all."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, dtype=np.float64, out=sums[:, 1:])
    return sums


def _largest_before(values: Floats, series: Integers, ends: Integers, steps: int) -> Floats:
    """The largest of the last so many of some series' values (none below 0) until each moment."""
    is_asked = np.zeros(values.shape[1], dtype=np.bool_)
    is_asked[ends] = True
    distinct, places = np.flatnonzero(is_asked), np.cumsum(is_asked) - 1
    if len(distinct) > FEW_MOMENTS * math.prod(ends.shape[1:]):
        from scipy.ndimage import maximum_filter1d  # loaded where there is a history alone: it takes longer than a plan

        origin = (steps - 1) // 2
        every = maximum_filter1d(values, steps, axis=1, mode="constant", cval=0.0, origin=origin)
        return np.asarray(every[series, ends], dtype=np.float64)
    found = [values[:, max(end + 1 - steps, 0) : end + 1].max(axis=1, initial=0.0) for end in distinct.tolist()]
    return np.asarray(np.stack(found, axis=1)[series, places[ends]])


def _states(
    past: _Past, series: Integers, moments: Integers, *, knows_weeks: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats, Bools]:
    steps = past.rates.steps
    day, recent = steps(DAY_S), steps(RECENT_S)
    now, of_day = past.mean(series, moments, recent), past.mean(series, moments, day)
    weekly = past.mean(series, moments, steps(WEEK_S))
    of_week = np.where(np.isfinite(weekly), weekly, of_day)
    floor = FLOOR_OF_MEAN * np.maximum(np.nan_to_num(of_day), np.nan_to_num(of_week)) + FLOOR_PER_S
    known = np.isfinite(now) & np.isfinite(of_day) & (moments >= day)

    ago = np.arange(1, 8) * day
    largest = past.windows_ago(series, moments, ago).T
    before = past.mean(series[:, np.newaxis], moments[:, np.newaxis] - ago, recent).T
    # the largest rate of the same window so many days ago, over now and over the rate of then
    rises = [(_ratio(each, now, floor), _ratio(each, then, floor)) for each, then in zip(largest, before, strict=True)]
    yesterday, rise = (np.nan_to_num(each) for each in rises[0])
    last_week, last_rise = (
        np.where(np.isfinite(each) & knows_weeks, each, other)
        for each, other in zip(rises[-1], (yesterday, rise), strict=True)
    )
    all_rises = np.stack([each for _, each in rises])
    counted = np.isfinite(all_rises)
    usual = np.where(counted, all_rises, 0.0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
    ends = moments[:, np.newaxis] + np.arange(-36, 1) * recent
    levels = np.log(past.mean(series[:, np.newaxis], ends, recent) + floor[:, np.newaxis])
    changes = np.nan_to_num(np.diff(levels, axis=1))
    hourly, varied = np.abs(changes[:, -6:]).mean(axis=1), np.abs(changes).mean(axis=1)
    five, sixty = (past.mean(series, moments, steps(span_s)) for span_s in (RECENT_S / 2, HOUR_S))
    of_hours, of_days, of_weeks = (
        _largest_before(past.filled, series, moments, steps(span_s)) for span_s in (HOUR_S, DAY_S, WEEK_S)
    )
    peak, high = _ratio(of_hours, now, floor), _ratio(of_days, now, floor)
    daily = _ratio(of_day, now, floor)
    columns = (
        *(_ratio(five, now, floor), _ratio(sixty, now, floor), peak, daily, _ratio(of_week, now, floor), high),
        *(yesterday, rise, last_week, last_rise, usual, hourly, varied, changes[:, -1], changes[:, -2]),
        *([np.zeros(len(now))] * 5),
    )
    values = with_products(np.clip(np.nan_to_num(np.stack(columns, axis=1)), -WIDEST, WIDEST))
    return values, np.nan_to_num(now), floor, of_weeks, rise - yesterday, known


def with_products(values: Floats) -> Floats:
    """The same rows, rounded, with the hinges and products in the last columns made of the others.

    Without that, a feature that is exactly 0 (now is the largest rate of the hour) would be 1e-13 above or below it,
    by how sums were rounded, and so in one cell of the table or in the next.
    """
    np.round(values, FEATURE_DIGITS, out=values)
    peak, daily, high, yesterday, varied = (
        values[:, each] for each in (OF_HOUR, OF_DAY, OF_PEAK, OF_YESTERDAY, OF_VARIATION)
    )
    products = (
        *(np.maximum(peak - 0.3, 0.0), np.maximum(daily - 1.0, 0.0)),
        *(varied * peak, varied * np.clip(yesterday, -2.0, 2.0), varied * np.clip(high, 0.0, 3.0)),
    )
    values[:, -len(products) :] = np.stack(products, axis=1)
    return values


def _ratio(per_s: Floats, now_per_s: Floats, floor_per_s: Floats) -> Floats:
    return np.asarray(np.log((per_s + floor_per_s) / (now_per_s + floor_per_s)))
