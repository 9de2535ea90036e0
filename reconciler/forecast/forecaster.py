"""Learn from all series of a fleet together what their loads do next, and say it as quantiles.

Formulas and defaults: rules/forecast.md#the-quantiles.
"""

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.forecast.quantiles import BinnedQuantiles, LinearQuantiles
from reconciler.forecast.series import (
    DAY_S,
    FEATURES,
    Bools,
    Floats,
    Integers,
    Rates,
    States,
    Window,
    largest_within,
    states_at,
)

MOST_ROWS = 40_000
ROWS_OF_SERIES = 20
"""So many rows at least each series gives that is learned from."""
FEWEST_ROWS = 2_000
"""Of fewer no quantile of a rare load can be learned."""
LEARNS_WEEKS_S = 9 * DAY_S
"""Of a shorter past no row has a week before it that others could be learned from."""
MOST_OF_PEAK = 1.25
"""No forecast goes further above the largest rate of seven days."""
SEEN_OF_WEEK = 14
"""A weekday was learned from if it has half of its share of the rows."""
WEYL = 0.6180339887498949
"""Multiples of it, without their whole part, are spread evenly: rows are the same in every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Quantiles of each series' largest rate within the window (series x levels), in requests a second.

    A series that is not `known` has too little behind it, and its quantiles are NaN. `parts` is what each feature adds
    to the logarithm of each quantile (series x levels x features).
    """

    per_s: Floats
    known: Bools
    parts: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """What was learned of a fleet for one window, from what was known at `until_s`."""

    window: Window
    levels: tuple[float, ...]
    until_s: float
    rows: int
    knows_weeks: bool
    weekdays: Bools
    """Those that were learned from (7,), as `States.weekday` counts them."""
    linear: LinearQuantiles
    binned: BinnedQuantiles
    shifts: Floats
    """What is added to the mean of both (by level): two rules that err differently err less together."""

    def forecast(self, rates: Rates, series: Integers, now_s: float) -> Forecast:
        """The quantiles of some series, ascending, as of `now_s`."""
        moments = np.full(len(series), rates.moments_until(now_s) - 1)
        states = states_at(rates, series, moments, self.window, knows_weeks=self.knows_weeks)
        return Forecast(
            per_s=np.where(states.known[:, np.newaxis], self.quantiles(states), np.nan),
            known=states.known,
            parts=self.linear.parts(states.values),
        )

    def quantiles(self, states: States) -> Floats:
        """The quantiles of rows (rows x levels), never less at a higher level."""
        ratios = _together(self.linear, self.binned, states.values)
        is_new = ~self.weekdays[states.weekday]
        if is_new.any():
            # A Monday after the first weekend is not above other days by chance, and does not fall back to them.
            level = _together(self.linear, self.binned, states.as_if_level[is_new])
            ratios[is_new] = np.maximum(ratios[is_new], level)
        ratios += self.shifts
        most = np.maximum(MOST_OF_PEAK * states.most_per_s, states.now_per_s)[:, np.newaxis]
        return np.asarray(np.maximum.accumulate(np.minimum(states.rates(ratios), most), axis=1))


def fit(
    rates: Rates, window: Window, levels: tuple[float, ...], until_s: float, most_rows: int = MOST_ROWS
) -> Forecaster | None:
    """What can be learned of what was known at `until_s`; None where that is too little.

    In a large fleet some of the series are learned from, evenly spread: sums over the past of all would take longer
    than all else.
    """
    rates = replace(rates, per_s=rates.per_s[:: max(len(rates.per_s) * ROWS_OF_SERIES // most_rows, 1)])
    series, moments = sampled_rows(rates, window, until_s, most_rows)
    if len(series) < FEWEST_ROWS:
        return None
    targets = largest_within(rates, series, moments, window)
    knows_weeks = until_s - rates.start_s >= LEARNS_WEEKS_S
    states = states_at(rates, series, moments, window, knows_weeks=knows_weeks)
    usable = states.known & np.isfinite(targets)
    if usable.sum() < FEWEST_ROWS:
        return None
    values, wanted = states.values[usable], states.ratios(targets)[usable]
    at = np.array(levels)
    linear, binned = LinearQuantiles.fit(values, wanted, at), BinnedQuantiles.fit(values, wanted, at)
    left = wanted[:, np.newaxis] - _together(linear, binned, values)
    return Forecaster(
        window=window,
        levels=levels,
        until_s=until_s,
        rows=int(usable.sum()),
        knows_weeks=knows_weeks,
        weekdays=np.bincount(states.weekday[usable], minlength=7) * SEEN_OF_WEEK >= usable.sum(),
        linear=linear,
        binned=binned,
        shifts=np.array([np.quantile(left[:, place], level) for place, level in enumerate(levels)]),
    )


def _together(linear: LinearQuantiles, binned: BinnedQuantiles, values: Floats) -> Floats:
    return np.asarray((linear.predict(values) + binned.predict(values)) / 2)


def sampled_rows(rates: Rates, window: Window, until_s: float, most_rows: int = MOST_ROWS) -> tuple[Integers, Integers]:
    """Series and moments to learn from: a day is known before each, and its whole window was by `until_s`."""
    _, last = window.offsets(rates.step_s)
    first, end = rates.steps(DAY_S), rates.moments_until(until_s) - last
    count = max(end - first, 0) * len(rates.per_s)
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if count <= most_rows:
        places = np.arange(count)
    else:
        places = np.unique((np.arange(most_rows) * WEYL % 1.0 * count).astype(np.int64))
    series, moments = np.divmod(places, end - first)
    return series, moments + first


def told_features(forecast: Forecast, series: int, level: int, count: int = 3) -> tuple[tuple[str, float], ...]:
    """What moved a quantile most: features with the factor by which each multiplies it."""
    parts = forecast.parts[series, level]
    order = np.argsort(-np.abs(parts), kind="stable")[:count]
    return tuple((FEATURES[each], float(np.exp(parts[each]))) for each in order)
