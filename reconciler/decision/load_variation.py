"""How much the load of a model varies, and the demand that this variation moves least.

Formulas and defaults: rules/demand.md.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from reconciler.decision.variant_states import ago, span
from reconciler.domain.history import Bools, Floats, Integers, LoadHistory, stacked
from reconciler.domain.plan import ExpectedLoad
from reconciler.domain.records import dataclass
from reconciler.forecast.series import Window
from reconciler.simulation.fluid import FEWEST_MANY, MANY_OF
from reconciler.simulation.rehearsal import HOLD_S, LEVEL, LEVELS, lingering

Owner = TypeVar("Owner", bound=Hashable)
MARGIN = 5.0
"""Standard deviations above the mean that noise hardly ever reaches. An hour has a dozen windows: by Student's t with
ten degrees of freedom 3e-4 of them exceed five, one in two weeks. By a normal law it would be 3e-7."""
WIDEST_MARGIN = 0.2
"""Of the mean: a load that varies more is followed, not waited out, or a restless model would keep twice what it
needs. As much as the built-in headroom."""
DEAD_BAND = 2.0
"""Margins that must be free before any replica goes; then all go that one margin does not need. Means and deviations of
an hour differ from those of the next, by up to this factor: with a single margin they would move replicas."""
OUTLIER = 4.5
"""Median absolute deviations, three standard deviations of a normal law. So far below the line, replicas started or
were not scraped: no reason to keep one. So far above it is a burst, which the peak stands for."""
SHORT_GAP_S = 300.0
"""So long nothing may have been told: a target or Prometheus was started anew, and nobody looks away for that."""
FEWEST_RATES = 5
"""Below so many known rates nothing is said of a deviation: there is a peak and a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadVariation:
    """The rates of the last `payback_s`, all in requests a second: `peak_per_s` was seen `peak_age_s` ago.

    `deviation_per_s` is the standard deviation about a straight line, so that a load which falls all the time is not
    called noisy, without dips and bursts, and never less than that of requests which come independently of each other.
    """

    peak_per_s: float
    peak_age_s: float
    mean_per_s: float
    deviation_per_s: float
    payback_s: float

    @property
    def margin_per_s(self) -> float:
        """How far from the mean noise hardly ever goes."""
        return min(MARGIN * self.deviation_per_s, WIDEST_MARGIN * self.mean_per_s)

    def highest(self, margins: float) -> float:
        """What is to be expected at most: the peak, or `margins` above the mean."""
        return max(self.peak_per_s, self.mean_per_s + margins * self.margin_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadForecast:
    """What a model must be able to carry, in requests a second: replicas grow up to `grow_per_s`.

    None of those that are there goes that `keep_per_s` needs. `quantiles` are of the largest rate within the window (by
    level), without the `margin` that its service class needs to attain its `goal`. `at_s` is when it was made (Unix
    seconds), `moved_by` are the features that moved it most. `added_s` is when replicas were added last, while only
    many go for that. `waiting_per_s` of both is what drains the requests that wait. `covered` and `covered_of_all` are
    the shares of its and of all models' loads of the last days that were at most their 90 % quantile; None where a
    model was not among those that were replayed.
    """

    grow_per_s: float
    keep_per_s: float
    quantiles: Mapping[float, float]
    window: Window
    margin: float
    goal: float
    at_s: float
    days: float
    moved_by: tuple[tuple[str, float], ...]
    why: str
    covered: float | None
    covered_of_all: float
    added_s: float | None = None
    waiting_per_s: float = 0.0

    @property
    def told_window(self) -> str:
        """When the change serves: `between 14:11 and 14:33 UTC`."""
        return self.expected.told_window

    @property
    def expected(self) -> ExpectedLoad:
        """As a plan shows it."""
        since_s, until_s = self.at_s + self.window.from_s, self.at_s + self.window.until_s
        return ExpectedLoad(since_s=since_s, until_s=until_s, per_s=self.quantiles)

    @property
    def why_kept(self) -> str:
        """Why no replica goes that the window does not need."""
        if self.added_s is not None:
            few = f"fewer than {MANY_OF:.0%} of all, or than {FEWEST_MANY:.0f}, do not go for {span(HOLD_S)}"
            return f"kept: replicas were added {ago(self.at_s - self.added_s)}: {few}"
        ends = span(lingering(self.window).until_s)
        return f"kept: up to {self.keep_per_s:.4g} req/s are forecast within {ends}"

    @property
    def words(self) -> str:
        """How the demand came about, in one sentence."""
        low, high, _, most = (self.quantiles[level] for level in LEVELS)
        moved = ", ".join(f"{name} x {factor:.2f}" for name, factor in self.moved_by)
        return (
            f"load expected {self.told_window}: at most {self.quantiles[LEVEL]:.4g} req/s nine times in ten "
            f"(half of the time {low:.4g}-{high:.4g}; one in a hundred above {most:.4g}), from {self.days:.0f} days; "
            f"times {self.margin:.3g} for {self.goal * 100:.4g} % inside the targets; moved by {moved}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEvent:
    """How many times as much as without it must be carried when a change serves, and until replicas may go."""

    grow: float
    keep: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilizedDemand:
    """What a model must be able to carry: `amount_per_s`, of which `kept_per_s` is what was really asked for.

    Both are at least the demand of now. Beyond it they are at most what is allocated already; where that is less than
    the demand of now, `amount_per_s` is what noise reaches.
    """

    amount_per_s: float
    kept_per_s: float


def why_not_whole(past: LoadHistory, now_s: float, payback_s: float, what: str = "how much arrived") -> str:
    """What of the last `payback_s` is not known, neither `what` was nor how long it was; empty when all is.

    The oldest moment speaks of the window before it. A length that is missing is that of before, where there is one:
    who finishes nothing for a while tells none.
    """
    first_s = now_s - payback_s
    if payback_s <= past.window_s + past.step_s:
        return ""
    first = int(np.searchsorted(past.times_s - first_s, past.window_s, side="right"))
    last = int(np.searchsorted(past.times_s, now_s, side="right"))
    at_s, rates = past.times_s[first:last], past.rates_per_s[first:last]
    if not len(at_s) or past.times_s[0] - first_s > past.window_s + past.step_s:
        return _unknown(what, now_s - (past.times_s[0] if len(at_s) else first_s), past)
    is_missing = ~np.isfinite(rates)
    if is_missing.any() and (is_missing := _in_gap(is_missing, past)).any():
        return _unknown(what, now_s - at_s[is_missing][-1], past)
    for told, lengths in (("outputs were", past.output_tokens), ("prompts were", past.input_tokens)):
        if not len(lengths) or np.isfinite(lengths[0]):
            continue
        known = np.flatnonzero(np.isfinite(lengths))
        begun = max(known[0] if known.size else last, first) - first
        before = (rates[:begun] > 0) & (at_s[:begun] - first_s > 2 * past.window_s)
        if before.any():
            return _unknown(f"how long {told}", now_s - at_s[:begun][before][-1], past)
    return ""


def _unknown(what: str, age_s: float, past: LoadHistory) -> str:
    return f"{what} {ago(age_s)} is not known" + (f": {past.reason}" if past.reason else "")


def _in_gap(is_missing: Bools, past: LoadHistory) -> Bools:
    """The missing moments that are not just a scrape or two which failed."""
    starts = np.flatnonzero(np.diff(is_missing.astype(int), prepend=0) == 1)
    ends = np.flatnonzero(np.diff(is_missing.astype(int), append=0) == -1) + 1
    in_gap = np.zeros(len(is_missing), dtype=np.bool_)
    for start, end in zip(starts, ends, strict=True):
        in_gap[start:end] = (end - start) * past.step_s + past.window_s > SHORT_GAP_S
    return in_gap


def load_variation(
    past: LoadHistory | None, now_s: float, payback_s: float, *, counts_requests: bool = True
) -> LoadVariation | None:
    """What is known of the last `payback_s` of one history; None without any rate."""
    asked = {} if past is None else {0: (past, payback_s)}
    return load_variations(asked, now_s, counts_requests=counts_requests).get(0)


def load_variations(
    pasts: Mapping[Owner, tuple[LoadHistory, float]], now_s: float, *, counts_requests: bool = True
) -> dict[Owner, LoadVariation]:
    """The same for many histories at once, each with its `payback_s`; those without any rate are left out.

    What is not known is left out, and of the mean and deviation also the rates whose window reaches into it: they are
    of a part of it, after a start or a gap. What counts no requests has no chance of its own.
    """
    found: dict[Owner, LoadVariation] = {}
    for payback_s in sorted({payback_s for _, payback_s in pasts.values()}):
        chosen = {owner: past for owner, (past, its_s) in pasts.items() if its_s == payback_s}
        for owners, past, rates in stacked(chosen):
            window_s = past.window_s if counts_requests else math.inf
            of_rows = _variations(rates, past, now_s, payback_s, window_s)
            found.update((owners[row], variation) for row, variation in of_rows)
    return {owner: found[owner] for owner in pasts if owner in found}


def _variations(
    rates: Floats, past: LoadHistory, now_s: float, payback_s: float, window_s: float
) -> Iterator[tuple[int, LoadVariation]]:
    """By row of `rates`, shape (rows, moments); its moments are those of `past`."""
    ages_s = now_s - past.times_s
    is_finite = np.isfinite(rates)
    is_known = is_finite & (ages_s >= 0) & (ages_s <= payback_s)
    peaks = np.max(rates, where=is_known, initial=-math.inf, axis=1)
    peak_ages_s = np.min(
        np.broadcast_to(ages_s, rates.shape), where=is_known & (rates == peaks[:, None]), initial=math.inf, axis=1
    )
    is_whole = is_known & ~_touched(~is_finite, math.ceil(past.window_s / past.step_s))
    is_told = np.count_nonzero(is_whole, axis=1) >= FEWEST_RATES
    means, deviations = np.full(len(rates), math.nan), np.zeros(len(rates))
    for rows, columns in _alike(np.where(is_told[:, None], is_whole, is_known)):
        inner = rates[np.ix_(rows, columns)]
        means[rows] = inner.mean(axis=1)
        told = is_told[rows]
        if told.any():
            deviations[rows[told]] = _deviations(ages_s[columns], inner[told], window_s)
    for row in np.flatnonzero(is_known.any(axis=1)).tolist():
        yield (
            row,
            LoadVariation(
                peak_per_s=float(peaks[row]),
                peak_age_s=float(peak_ages_s[row]),
                mean_per_s=float(means[row]),
                deviation_per_s=float(deviations[row]),
                payback_s=payback_s,
            ),
        )


def steady(
    now_per_s: float, headroom: float, variation: LoadVariation | None, carried_per_s: float, least_per_s: float
) -> StabilizedDemand:
    """The amount for a demand `now_per_s` (headroom included), where `carried_per_s` is allocated.

    `least_per_s` is what the smallest replica carries that might go; 0 when none may.
    """
    if variation is None:
        return StabilizedDemand(amount_per_s=now_per_s, kept_per_s=now_per_s)
    if now_per_s > carried_per_s:
        is_noise = now_per_s >= (1 + headroom) * (variation.mean_per_s - variation.margin_per_s)
        reached = (1 + headroom) * (variation.mean_per_s + variation.margin_per_s) if is_noise else 0.0
        return StabilizedDemand(amount_per_s=max(now_per_s, reached), kept_per_s=now_per_s)
    narrow, wide = ((1 + headroom) * variation.highest(margins) for margins in (1.0, DEAD_BAND))
    may_go = least_per_s > 0 and wide <= carried_per_s - least_per_s
    return StabilizedDemand(
        amount_per_s=max(now_per_s, min(narrow if may_go else wide, carried_per_s)),
        kept_per_s=max(now_per_s, min((1 + headroom) * variation.peak_per_s, carried_per_s)),
    )


def reach_of(rate_per_s: float, variation: LoadVariation | None, window_s: float) -> float:
    """Up to which rate noise may go again: as for replicas that are there, see `DEAD_BAND`.

    Of a rate that fell out of its noise, one margin; where nothing is known of the past, as far as chance goes within
    a window.
    """
    if variation is None:
        return rate_per_s + min(MARGIN * math.sqrt(rate_per_s / window_s), WIDEST_MARGIN * rate_per_s)
    margin = variation.margin_per_s
    is_noise = rate_per_s >= variation.mean_per_s - margin
    return max(rate_per_s, variation.mean_per_s) + DEAD_BAND * margin if is_noise else rate_per_s + margin


def _touched(is_unknown: Bools, windows: int) -> Bools:
    """The moments within so many steps after one that is unknown, and those themselves, row by row."""
    before = np.pad(np.cumsum(is_unknown, axis=1), ((0, 0), (windows + 1, 0)))
    return np.asarray(before[:, windows + 1 :] > before[:, : -windows - 1])


def _alike(masks: Bools) -> Iterator[tuple[Integers, Integers]]:
    """Rows with the same mask and the columns that are in it, none for an empty mask: mostly all rows are alike."""
    _, kinds = np.unique(np.packbits(masks, axis=1), axis=0, return_inverse=True)
    order = np.argsort(kinds.ravel(), kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(kinds.ravel()))[:-1]):
        if len(rows) and masks[rows[0]].any():
            yield rows, np.flatnonzero(masks[rows[0]])


def _deviations(ages_s: Floats, rates: Floats, window_s: float) -> Floats:
    """The standard deviation of each row about the straight line through its rates, without those far out of it."""
    beside = np.abs(_beside_line(ages_s, rates))
    is_noise = beside <= OUTLIER * np.median(beside, axis=1, keepdims=True)
    variances = np.zeros(len(rates))
    for rows, columns in _alike(is_noise):
        inner = _beside_line(ages_s[columns], rates[np.ix_(rows, columns)])
        variances[rows] = [row @ row for row in inner]
        variances[rows] /= max(len(columns) - 1, 1)
    return np.asarray(np.sqrt(np.maximum(variances, rates.mean(axis=1) / window_s)))


def _beside_line(ages_s: Floats, rates: Floats) -> Floats:
    ages_s, rates = ages_s - ages_s.mean(), rates - rates.mean(axis=1, keepdims=True)
    spread = ages_s @ ages_s
    slopes = np.array([ages_s @ row for row in rates])
    return rates - ages_s * (slopes / spread)[:, None] if spread > 0 else rates
