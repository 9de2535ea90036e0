"""Roles that must keep a ratio: prefill replicas to decode replicas."""

import math
from dataclasses import dataclass
from fractions import Fraction

from reconciler.domain.metric_targets import RatioRange

# The schema's largest replica count: ratios beyond it or its inverse cannot be.
MOST_OF_A_ROLE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCounts:
    """The replicas of both roles; `adjusted` when the ratio moved them, `reason` when it could not be met."""

    numerator: int
    denominator: int
    adjusted: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBounds:
    """The smallest and largest replica counts of the two roles."""

    numerator: tuple[int, int]
    denominator: tuple[int, int]

    def clip(self, numerator: int, denominator: int) -> RoleCounts:
        """Return the counts cut to the bounds."""
        return RoleCounts(numerator=_clip(numerator, self.numerator), denominator=_clip(denominator, self.denominator))


def ratio_fault(ratio: RatioRange) -> str:
    """Return what is wrong with a range, empty when it can be met by some numbers."""
    ends = (ratio.minimum, ratio.maximum)
    if not all(math.isfinite(end) for end in ends) or ratio.minimum < 0 or ratio.maximum <= 0:
        return f"a ratio must be finite, at least 0 and at most something above 0, got {ends[0]} to {ends[1]}"
    if ratio.minimum > ratio.maximum:
        return f"the least ratio {ends[0]} is above the largest {ends[1]}"
    if ratio.minimum > MOST_OF_A_ROLE or ratio.maximum < 1 / MOST_OF_A_ROLE:
        return f"no replica counts up to {MOST_OF_A_ROLE} have a ratio from {ends[0]} to {ends[1]}"
    return ""


def repair_upstream(numerator: int, denominator: int, bounds: RoleBounds, ratio: RatioRange) -> RoleCounts:
    """Return the counts as upstream brings them into a range, in one pass.

    Rounding may leave the range at its other end; that is upstream's answer too.
    """
    n, d, woken = _awake(numerator, denominator, bounds)
    if n == d == 0:
        return RoleCounts(numerator=0, denominator=0)
    quotient = n / d if d else math.inf
    adjusted = woken
    if quotient < ratio.minimum:
        n, d, adjusted = *_raised(d, bounds, ratio), True
    elif quotient > ratio.maximum:
        n, d, adjusted = *_lowered(n, bounds, ratio), True
    return RoleCounts(numerator=_clip(n, bounds.numerator), denominator=_clip(d, bounds.denominator), adjusted=adjusted)


def _raised(d: int, bounds: RoleBounds, ratio: RatioRange) -> tuple[int, int]:
    wanted = math.ceil(ratio.minimum * d)
    if wanted <= bounds.numerator[1]:
        return max(wanted, bounds.numerator[0]), d
    n = bounds.numerator[1]
    return n, _clip(math.floor(n / ratio.minimum), bounds.denominator)


def _lowered(n: int, bounds: RoleBounds, ratio: RatioRange) -> tuple[int, int]:
    wanted = math.ceil(n / ratio.maximum)
    if wanted <= bounds.denominator[1]:
        return n, max(wanted, bounds.denominator[0])
    d = bounds.denominator[1]
    return _clip(math.floor(ratio.maximum * d), bounds.numerator), d


def repair_exactly(numerator: int, denominator: int, bounds: RoleBounds, ratio: RatioRange) -> RoleCounts:
    """Return the whole numbers within bounds and range that take least from either role, then add least.

    Where no pair exists the counts stay, with the reason.
    """
    n, d, woken = _awake(numerator, denominator, bounds)
    if n == d == 0:
        return RoleCounts(numerator=0, denominator=0)
    low, high = _exact(ratio.minimum), _exact(ratio.maximum)
    if n and d and low * d <= n <= high * d:
        return RoleCounts(numerator=n, denominator=d, adjusted=woken)
    pair = _nearest(n, d, bounds, (low, high))
    if pair is None:
        reason = f"no whole numbers of replicas have a ratio from {ratio.minimum} to {ratio.maximum} within the bounds"
        return RoleCounts(numerator=n, denominator=d, adjusted=woken, reason=reason)
    return RoleCounts(numerator=pair[0], denominator=pair[1], adjusted=True)


def _nearest(n: int, d: int, bounds: RoleBounds, ends: tuple[Fraction, Fraction]) -> tuple[int, int] | None:
    """Walk away from `d` in both directions until the distance alone is more than the best pair takes or adds.

    Neither role is left with nothing: one alone serves nobody.
    """
    best: tuple[int, int] | None = None
    best_price: tuple[int, int, int] | None = None
    (least, most), (low, high) = bounds.denominator, ends
    for walk in (range(max(d, least, 1), most + 1), range(min(d - 1, most), max(least, 1) - 1, -1)):
        for candidate in walk:
            nearest_price = (max(d - candidate, 0), max(candidate - d, 0), 0)
            if best_price is not None and nearest_price > best_price:
                break
            lowest = max(-(-low.numerator * candidate // low.denominator), bounds.numerator[0], 1)
            highest = min(high.numerator * candidate // high.denominator, bounds.numerator[1])
            if lowest > highest:
                continue
            other = min(max(n, lowest), highest)
            price = (
                max(n - other, 0) + max(d - candidate, 0),
                max(other - n, 0) + max(candidate - d, 0),
                candidate,
            )
            if best_price is None or price < best_price:
                best, best_price = (other, candidate), price
    return best


def _awake(numerator: int, denominator: int, bounds: RoleBounds) -> tuple[int, int, bool]:
    """Return the counts within bounds; one role alone serves nobody, so that a lone zero becomes one."""
    n, d = _clip(numerator, bounds.numerator), _clip(denominator, bounds.denominator)
    if (n == 0) == (d == 0):
        return n, d, False
    return (
        _clip(max(n, 1), bounds.numerator),
        _clip(max(d, 1), bounds.denominator),
        True,
    )


def _exact(ratio: float) -> Fraction:
    # A resource writes decimals: 0.1 is a tenth, not the double next to it.
    return Fraction(repr(ratio))


def _clip(count: int, bounds: tuple[int, int]) -> int:
    return min(max(count, bounds[0]), bounds[1])
