"""How much the load of a model varies, and the demand that this variation moves least."""

import math

import numpy as np

from reconciler.decision.variant_states import ago
from reconciler.domain.history import LoadHistory
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Bools, Floats

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
    rates, at_s, first_s = past.rates_per_s, past.times_s, now_s - payback_s
    is_asked = (at_s - first_s > past.window_s) & (at_s <= now_s)
    if payback_s <= past.window_s + past.step_s:
        return ""
    if not is_asked.any() or at_s[0] - first_s > past.window_s + past.step_s:
        return _unknown(what, now_s - (at_s[0] if is_asked.any() else first_s), past)
    is_missing = _in_gap(is_asked & ~np.isfinite(rates), past)
    if is_missing.any():
        return _unknown(what, now_s - at_s[is_missing][-1], past)
    for told, lengths in (("outputs were", past.output_tokens), ("prompts were", past.input_tokens)):
        known = np.flatnonzero(np.isfinite(lengths))
        begun = known[0] if known.size else len(rates)
        before = is_asked & (rates > 0) & (np.arange(len(rates)) < begun) & (at_s - first_s > 2 * past.window_s)
        if len(lengths) and before.any():
            return _unknown(f"how long {told}", now_s - at_s[before][-1], past)
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
    """What is known of the last `payback_s`; None without any rate. What counts no requests has no chance of its own.

    What is not known is left out, and of the mean and deviation also the rates whose window reaches into it: they are
    of a part of it, after a start or a gap.
    """
    if past is None:
        return None
    rates, ages_s = past.rates_per_s, now_s - past.times_s
    is_known = np.isfinite(rates) & (ages_s >= 0) & (ages_s <= payback_s)
    if not is_known.any():
        return None
    peak = float(rates[is_known].max())
    is_whole = is_known & ~_touched(~np.isfinite(rates), math.ceil(past.window_s / past.step_s))
    is_told = int(is_whole.sum()) >= FEWEST_RATES
    mean = float(rates[is_whole if is_told else is_known].mean())
    return LoadVariation(
        peak_per_s=peak,
        peak_age_s=float(ages_s[is_known & (rates == peak)].min()),
        mean_per_s=mean,
        deviation_per_s=(
            _deviation(ages_s[is_whole], rates[is_whole], past.window_s if counts_requests else math.inf)
            if is_told
            else 0.0
        ),
        payback_s=payback_s,
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
    """The moments within so many steps after one that is unknown, and those themselves."""
    return np.asarray(np.convolve(is_unknown, np.ones(windows + 1))[: len(is_unknown)] > 0)


def _deviation(ages_s: Floats, rates: Floats, window_s: float) -> float:
    """The standard deviation about the straight line through the rates, without those far out of it."""
    beside = _beside_line(ages_s, rates)
    is_noise = np.abs(beside) <= OUTLIER * np.median(np.abs(beside))
    inner = _beside_line(ages_s[is_noise], rates[is_noise])
    by_chance = float(rates.mean()) / window_s
    return math.sqrt(max(float(inner @ inner) / max(len(inner) - 1, 1), by_chance))


def _beside_line(ages_s: Floats, rates: Floats) -> Floats:
    ages_s, rates = ages_s - ages_s.mean(), rates - rates.mean()
    spread = ages_s @ ages_s
    return rates - ages_s * ((ages_s @ rates) / spread) if spread > 0 else rates
