"""Percentiles of what cumulative histograms observed since an older look at them, for all pods and ticks at once.

At each tick the buckets of a pod are held against the youngest look that is older than a minute and younger than five;
without one they count from the pod's start (kthena.md 2.6).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.metrics.grids import Grid
from reconciler.metrics.reading.readings import ObjectName
from reconciler.metrics.tracked.grid import Bools, Floats, Integers, Table

PERCENTILE = 95
FRESH_S = 60.0
EXPIRY_S = 300.0
MOST = 2.0**53
"""Larger counts are ignored: float64 is no longer exact."""
_LOOKS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Bucket:
    """One bucket of a pod's histogram: `bound` as the label `le` spells it."""

    pod: ObjectName
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """The percentile by pod and tick, shape (pods, ticks), NaN without one; `reset` where a counter began anew."""

    values: Floats
    reset: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A pod's histogram while it had these bounds: `counts` of shape (ticks, buckets), NaN at all other ticks."""

    pod: ObjectName
    bounds: tuple[float, ...]
    counts: Floats


def percentiles_of(buckets: Table[Bucket], grid: Grid) -> Table[ObjectName]:
    """The 95th percentile of each pod's recent observations, from the counts of its buckets."""
    looks = [look for pod, found in _by_pod(buckets).items() for look in _looks(pod, found)]
    rows: dict[ObjectName, Floats] = {}
    oddities: dict[ObjectName, str] = {}
    for part in _alike(looks):
        found = recent_percentiles(_times_ms(grid), np.array(part[0].bounds), np.array([each.counts for each in part]))
        for look, values, reset in zip(part, found.values, found.reset, strict=True):
            if look.pod in rows:
                oddities[look.pod] = "the bounds of its buckets changed"
            elif math.isfinite(look.bounds[-1]):
                oddities[look.pod] = "its histogram has no bucket for +Inf"
            elif reset.any():
                oddities[look.pod] = "its counters were reset"
            known = rows.get(look.pod, values)
            rows[look.pod] = np.where(np.isnan(known), values, known)
    oddities |= {bucket.pod: oddity for bucket, oddity in buckets.oddities.items()}
    return Table(rows=rows, oddities=oddities, failed=buckets.failed, asked=buckets.asked)


def _by_pod(buckets: Table[Bucket]) -> dict[ObjectName, dict[float, Floats]]:
    pods: dict[ObjectName, dict[float, Floats]] = {}
    for bucket in sorted(buckets.rows):
        bound = bound_of(bucket.bound)
        if not math.isnan(bound):
            pods.setdefault(bucket.pod, {})[bound] = buckets.rows[bucket]
    return pods


def bound_of(text: str) -> float:
    """What a label `le` says; NaN for what is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _looks(pod: ObjectName, found: Mapping[float, Floats]) -> Iterator[_Look]:
    """One look, or one for each set of bounds that a pod had: another image of it may count in other buckets."""
    bounds = sorted(found)
    counts = np.array([found[bound] for bound in bounds]).T
    known = np.isfinite(counts)
    for pattern in np.unique(known[known.any(axis=1)], axis=0):
        having = (known == pattern).all(axis=1)
        yield _Look(
            pod=pod,
            bounds=tuple(np.array(bounds)[pattern].tolist()),
            counts=np.where(having[:, None], counts[:, pattern], np.nan),
        )


def _alike(looks: Sequence[_Look]) -> Iterator[list[_Look]]:
    """Looks with the same bounds, as many as fit into little memory."""
    groups: dict[tuple[float, ...], list[_Look]] = {}
    for look in looks:
        groups.setdefault(look.bounds, []).append(look)
    for alike in groups.values():
        yield from (alike[first : first + _LOOKS_AT_ONCE] for first in range(0, len(alike), _LOOKS_AT_ONCE))


def _times_ms(grid: Grid) -> Integers:
    return np.asarray(np.arange(grid.count) * round(grid.step_s * 1000), dtype=np.int64)


def recent_percentiles(times_ms: Integers, bounds: Floats, counts: Floats, percentile: int = PERCENTILE) -> Percentiles:
    """Percentiles at every tick, each since its reference; `counts` has shape (pods, ticks, buckets), cumulative."""
    present = np.asarray(((counts >= 0) & (counts <= MOST)).all(axis=2), dtype=np.bool_)  # NaN is neither
    reference = references(times_ms, present, fresh_ms=round(FRESH_S * 1000), expiry_ms=round(EXPIRY_S * 1000))
    resets = _resets(counts, present)
    at = np.maximum(reference, 0)
    referred = reference >= 0
    past = np.where(referred[..., None], np.take_along_axis(counts, at[..., None], axis=1), 0.0)
    reset = present & referred & (resets != np.take_along_axis(resets, at, axis=1))
    values = percentile_since(bounds, counts, past, percentile)
    return Percentiles(values=np.where(present & ~reset, values, np.nan), reset=reset)


def references(times_ms: Integers, present: Bools, *, fresh_ms: int, expiry_ms: int) -> Integers:
    """The tick each tick is held against, shape (pods, ticks), -1 for none: no longer fresh, and not expired."""
    ticks = np.arange(times_ms.size)
    last = np.maximum.accumulate(np.where(present, ticks, -1), axis=1)
    youngest = np.searchsorted(times_ms, times_ms - fresh_ms) - 1
    found = np.where(youngest >= 0, last[:, np.maximum(youngest, 0)], -1)
    alive = times_ms <= times_ms[np.maximum(found, 0)] + expiry_ms
    return np.asarray(np.where((found >= 0) & alive & (fresh_ms > 0), found, -1), dtype=np.int64)


def _resets(counts: Floats, present: Bools) -> Integers:
    """How often any counter of a pod has fallen up to each tick."""
    last = np.maximum.accumulate(np.where(present, np.arange(counts.shape[1]), -1), axis=1)
    before = np.concatenate((np.full((counts.shape[0], 1), -1), last[:, :-1]), axis=1)
    known = np.take_along_axis(counts, np.maximum(before, 0)[..., None], axis=1)
    with np.errstate(invalid="ignore"):
        fell = (counts < known).any(axis=2) & present & (before >= 0)
    return np.asarray(np.cumsum(fell, axis=1), dtype=np.int64)


def percentile_since(bounds: Floats, now: Floats, past: Floats, percentile: int = PERCENTILE) -> Floats:
    """The percentile of the observations between two looks of shape (..., buckets), NaN where a count fell.

    Interpolated inside a bucket from its lower bound, the first from 0; the infinite bucket ends at twice the last
    finite bound. Nothing observed is 0; without an infinite bucket nobody knows how many were observed.
    """
    with np.errstate(all="ignore"):  # what is not there is NaN, and so is what comes of it
        cumulative = now - past
        count = cumulative[..., -1]
        rank = np.minimum(np.ceil(count * percentile / 100), count)  # a recording rule may count in fractions
        steps = np.diff(cumulative, axis=-1, prepend=0.0)
        at = np.argmax(cumulative >= rank[..., None], axis=-1)[..., None]
        low = np.concatenate(([0.0], bounds[:-1]))[at]
        high = np.where(np.isinf(bounds[at]), 2 * low, bounds[at])
        upto, inside = (np.take_along_axis(each, at, axis=-1) for each in (cumulative, steps))
        value = (high - (upto - rank[..., None]) * (high - low) / inside)[..., 0]
    sound = np.isfinite(cumulative).all(axis=-1) & (steps >= 0).all(axis=-1) & np.isinf(bounds[-1])
    return np.where(sound, np.where(rank > 0, value, 0.0), np.nan)
