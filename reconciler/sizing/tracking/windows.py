"""Sliding windows over counts, one per target: what was recommended, and what was set.

Windows live inside one replay. Times are milliseconds and must not fall; an entry is alive while its time plus the
window's length is not before now. A window of length 0 has no answer.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers

# Upstream's largest count: what an infinite need is cut to before bounds apply.
MOST_REPLICAS = 1_000_000_000
# Before every tick, without ever overflowing when a window length is added.
NEVER_MS = -(2**62)


def milliseconds(seconds: Floats | float) -> Integers:
    """Return finite times as whole milliseconds: windows end on equality, which binary fractions of a second miss."""
    return np.asarray(np.rint(np.asarray(seconds, dtype=np.float64) * 1000.0), dtype=np.int64)


def whole_replicas(need: Floats) -> Floats:
    """Return the need rounded up: NaN and less are 0, more than a billion is a billion; shape kept."""
    return np.clip(np.ceil(np.where(np.isnan(need), 0.0, need)), 0.0, float(MOST_REPLICAS))


class Extreme(Enum):
    """Which of the alive values a window answers with; the value is what stands for none of them."""

    LARGEST = -(2**62)
    SMALLEST = 2**62

    def of(self, left: Integers, right: Integers) -> Integers:
        """Return the better of each pair."""
        return np.maximum(left, right) if self is Extreme.LARGEST else np.minimum(left, right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A window's answers, shape (targets,); `value` means something where `known`."""

    value: Integers
    known: Bools


class RecordWindow:
    """The largest or smallest of the values recorded within each target's length.

    Keeps, for every moment of recording, the best value since: an answer is one look-up, whatever the lengths.
    """

    def __init__(self, extreme: Extreme, length_ms: Integers, capacity: int) -> None:
        self._extreme = extreme
        self._length_ms = length_ms
        self._longest_ms = int(length_ms.max(initial=0))
        self._targets = np.arange(length_ms.size)
        self._times_ms = np.zeros(capacity + 1, dtype=np.int64)
        # One row more than there is room for: where nothing is alive, the look-up lands on an empty row.
        self._best_since = np.full((capacity + 1, length_ms.size), extreme.value, dtype=np.int64)
        self._count = 0

    def append(self, now_ms: int, values: Integers, recorded: Bools) -> None:
        """Record the values of those targets that have one now."""
        end = self._count + 1
        self._times_ms[self._count] = now_ms
        alive = int(np.searchsorted(self._times_ms[: self._count], now_ms - self._longest_ms))
        rows = self._best_since[alive:end]
        rows[...] = self._extreme.of(rows, np.where(recorded, values, self._extreme.value))
        self._count = end

    def best(self, now_ms: int) -> Best:
        """Return the best of what is alive now."""
        first = np.searchsorted(self._times_ms[: self._count], now_ms - self._length_ms)
        value = self._best_since[first, self._targets]
        return Best(value=value, known=(self._length_ms > 0) & (value != self._extreme.value))


class LineWindow:
    """The largest or smallest height of a step function within each target's length.

    A value is recorded with the time at which the next one replaces it, the end of its reign; the last one counts
    for twice the length and is then forgotten.
    """

    def __init__(self, extreme: Extreme, length_ms: Integers, capacity: int) -> None:
        self._extreme = extreme
        self._length_ms = length_ms
        self._ended = RecordWindow(extreme, length_ms, capacity)
        self._last = np.full(length_ms.size, extreme.value, dtype=np.int64)
        self._last_ms = np.full(length_ms.size, NEVER_MS, dtype=np.int64)

    def append(self, now_ms: int, values: Integers, recorded: Bools) -> None:
        """Record the heights of those targets that have one now."""
        self._ended.append(now_ms, self._last, recorded & self._lasts(now_ms))
        self._last = np.where(recorded, values, self._last)
        self._last_ms = np.where(recorded, now_ms, self._last_ms)

    def best(self, now_ms: int, current: Integers) -> Best:
        """Return the best of what is alive now, the current height included."""
        value = np.where(self._lasts(now_ms), self._extreme.of(current, self._last), current)
        ended = self._ended.best(now_ms)
        value = np.where(ended.known, self._extreme.of(value, ended.value), value)
        return Best(value=value, known=self._length_ms > 0)

    def _lasts(self, now_ms: int) -> Bools:
        return self._last_ms + 2 * self._length_ms >= now_ms
