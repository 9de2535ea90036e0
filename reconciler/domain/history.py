"""What was observed over time, as arrays: a row for each series, a column for each moment, NaN where nothing is known.

Whatever asks about the past asks these arrays; nothing walks over points one by one.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.identity import ModelKey
from reconciler.domain.records import dataclass

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Owner = TypeVar("Owner", bound=Hashable)

ABSURD = 1e12
"""Values from here up are ignored: real rates, counts, lengths and times are far smaller."""
OFF_GRID = 0.01
"""The fraction of a step by which a point may miss its moment; a point that is farther off is ignored."""
CONTRADICTED = math.inf
"""Marks a moment with two different values, and one with a value that is no number: it is known and of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`count` moments, `step_s` apart from `start_s` (Unix seconds)."""

    start_s: float
    step_s: float
    count: int

    @property
    def end_s(self) -> float:
        """The last moment."""
        return self.start_s + (self.count - 1) * self.step_s

    @property
    def times_s(self) -> Floats:
        """All moments, shape (moments,)."""
        return self.start_s + self.step_s * np.arange(self.count, dtype=np.float64)

    def places(self, times_s: Floats) -> Integers:
        """The index of the moment at each time, -1 where there is none; shape (times,)."""
        inside = (times_s > self.start_s - self.step_s) & (times_s < self.end_s + self.step_s)  # NaN is not
        known_s = np.where(inside, times_s, self.start_s)
        index = np.rint((known_s - self.start_s) / self.step_s).astype(np.int64)
        is_near = np.abs(known_s - (self.start_s + index * self.step_s)) <= OFF_GRID * self.step_s
        return np.where(inside & is_near & (index >= 0) & (index < self.count), index, -1)

    def parts(self, most: int) -> Iterator["Grid"]:
        """The same moments in grids of at most `most`."""
        for first in range(0, self.count, most):
            start_s = self.start_s + first * self.step_s
            yield Grid(start_s=start_s, step_s=self.step_s, count=min(most, self.count - first))

    def reach_back(self, length_s: float) -> "Grid":
        """The same grid, begun at least `length_s` earlier."""
        more = math.ceil(length_s / self.step_s)
        return Grid(start_s=self.start_s - more * self.step_s, step_s=self.step_s, count=self.count + more)


def grid_of(start_s: float, end_s: float, step_s: float) -> Grid:
    """The multiples of the step from `start_s` to `end_s`; none when the end comes first.

    Servers that cache ranges move them to such multiples, so nothing moves.
    """
    first = math.ceil(start_s / step_s)
    return Grid(start_s=first * step_s, step_s=step_s, count=max(0, math.floor(end_s / step_s) - first + 1))


@dataclass(slots=True, kw_only=True, eq=False)
class History(Generic[Owner]):
    """One quantity over time: `values` of shape (series, moments), `rows` says which row is whose.

    `times_s` are the moments, Unix seconds ascending; they need not be evenly spaced. NaN is not known, infinity is
    known to be of no use.
    """

    times_s: Floats
    rows: dict[Owner, int] = field(default_factory=dict)
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if not self.rows:
            self.values = np.empty((0, len(self.times_s)))

    def add(
        self, owners: Sequence[Owner | None], block: Floats, first: int, join: Callable[[Floats, Floats], Floats]
    ) -> None:
        """Add a block of shape (owners, moments) whose first column is the moment `first`; rows of None are left out.

        `join` says what becomes of values that are there already and those that come to them.
        """
        numbers = [-1 if owner is None else self.rows.setdefault(owner, len(self.rows)) for owner in owners]
        rows = np.array(numbers, dtype=np.int64)
        if len(self.rows) > len(self.values):
            fresh = np.full((len(self.rows) - len(self.values), len(self.times_s)), math.nan)
            self.values = np.concatenate((self.values, fresh)) if len(self.values) else fresh
        held = self.values[:, first : first + block.shape[1]]
        for chosen in _once_each(rows):
            whose = rows[chosen]
            there = held[whose]
            held[whose] = block[chosen] if np.isnan(there).all() else join(there, block[chosen])

    def of(self, owner: Owner) -> Floats | None:
        """The values of one series, shape (moments,); None without it."""
        row = self.rows.get(owner)
        return None if row is None else self.values[row]

    def summed(self, groups: Iterable[Sequence[Owner]], *, is_net: bool = False) -> tuple[Floats, Bools]:
        """The sum of each group's series, shape (groups, moments), and which groups have any.

        NaN where a part is missing or of no use. Before its first value a series is not born yet, which is no gap.
        With `is_net` values may be negative.
        """
        members = [[self.rows[owner] for owner in group if owner in self.rows] for group in groups]
        sums = np.full((len(members), len(self.times_s)), math.nan)
        alone = [(at, rows[0]) for at, rows in enumerate(members) if len(rows) == 1]
        if alone:
            at, rows = np.array(alone).T
            sums[at] = _usable(self.values[rows], is_net=is_net)
        for number, several in enumerate(members):
            if len(several) > 1:
                sums[number] = _sum_of_born(self.values[several], is_net=is_net)
        return sums, np.array([bool(rows) for rows in members], dtype=np.bool_)


def _once_each(rows: Integers) -> Iterator[Integers]:
    """The places of all rows that are not negative, in parts that have each row at most once; mostly one part."""
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    turns = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    for turn in np.split(order[np.argsort(turns, kind="stable")], np.cumsum(np.bincount(turns))[:-1]):
        yield np.sort(turn)


def _usable(values: Floats, *, is_net: bool) -> Floats:
    sizes = np.abs(values) if is_net else values
    return np.where((sizes >= 0) & (sizes < ABSURD), values, math.nan)


def _sum_of_born(parts: Floats, *, is_net: bool) -> Floats:
    is_born = np.maximum.accumulate(~np.isnan(parts), axis=1)
    known = np.where(is_born, _usable(parts, is_net=is_net), 0.0)
    total, lost = np.zeros(parts.shape[1]), np.zeros(parts.shape[1])
    for part in known:
        # what rounding takes from a sum is added up apart and given back (Neumaier)
        longer = total + part
        lost += np.where(np.abs(total) >= np.abs(part), (total - longer) + part, (part - longer) + total)
        total = longer
    return np.where(is_born.any(axis=0), total + lost, math.nan)


def added(held: Floats, more: Floats) -> Floats:
    """Values that add up, for `History.add`."""
    return np.where(np.isnan(more), held, np.where(np.isnan(held), more, held + more))


def agreed(held: Floats, more: Floats) -> Floats:
    """Values that must be the same, for `History.add`: two different ones for one moment contradict each other."""
    found = np.where(np.isnan(held) | (held == more), more, CONTRADICTED)
    return np.where(np.isnan(more), held, found)


def ratio(parts: Floats, wholes: Floats) -> Floats:
    """The quotients, NaN where the divisor is not above zero or one of both is not known."""
    quotients = np.full(wholes.shape, math.nan)
    np.divide(parts, wholes, out=quotients, where=wholes > 0)
    return quotients


def moments_of(grids: Sequence[Grid]) -> Floats:
    """The moments of all these grids of one step, each once."""
    if not grids:
        return np.empty(0)
    times_s = np.sort(np.concatenate([grid.times_s for grid in grids]))
    return times_s[np.diff(times_s, prepend=-math.inf) > 0]  # np.unique imports numpy.ma: a hundredth of a small plan


NOTHING: Floats = np.empty(0)
"""Values that were not queried."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadHistory:
    """A model's requests over time: rows of arrays that all models of a cluster share, each of shape (moments,).

    At `times_s` (Unix seconds, ascending, mostly `step_s` apart) `rates_per_s` is the rate over the `window_s` before;
    NaN is not known, which is not zero. `output_tokens` and `input_tokens` are of a request then, NaN where none was
    finished; empty where they were not queried. `reason` says why a part is missing, where that is known.
    """

    times_s: Floats
    step_s: float
    window_s: float
    rates_per_s: Floats
    output_tokens: Floats = field(default_factory=lambda: NOTHING)
    input_tokens: Floats = field(default_factory=lambda: NOTHING)
    reason: str = ""


def known_lengths(
    histories: Mapping[Owner, LoadHistory],
    lengths_of: Callable[[LoadHistory], Floats],
    is_meant: Callable[[Floats, Sequence[Owner]], Bools],
) -> dict[Owner, tuple[float, float]]:
    """The least and the largest length of each owner's requests at the moments that are meant, where any is known.

    `is_meant` says of moments (Unix seconds) and owners which count, shape (owners, moments).
    """
    alike: dict[int, list[Owner]] = {}
    for owner, each in histories.items():
        if len(lengths_of(each)):
            alike.setdefault(id(each.times_s), []).append(owner)
    found: dict[Owner, tuple[float, float]] = {}
    for owners in alike.values():
        lengths = np.stack([lengths_of(histories[owner]) for owner in owners])
        known = is_meant(histories[owners[0]].times_s, owners) & np.isfinite(lengths) & (lengths > 0)
        least = np.where(known, lengths, math.inf).min(axis=1).tolist()
        most = np.where(known, lengths, -math.inf).max(axis=1).tolist()
        found |= {owner: (low, high) for owner, low, high in zip(owners, least, most, strict=True) if low <= high}
    return found


def stacked(histories: Mapping[Owner, LoadHistory]) -> Iterator[tuple[list[Owner], LoadHistory, Floats]]:
    """The owners of histories of the same moments and windows, one of these histories, and the rates of all.

    The rates have the shape (owners, moments).
    """
    alike: dict[tuple[int, float, float], list[Owner]] = {}
    for owner, each in histories.items():
        alike.setdefault((id(each.times_s), each.step_s, each.window_s), []).append(owner)
    for owners in alike.values():
        yield owners, histories[owners[0]], np.stack([histories[owner].rates_per_s for owner in owners])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemandHistory:
    """What arrived for models over weeks: `per_s[i, j]` is the mean rate of `models[i]` until a moment.

    It is over the `step_s` before `start_s + j * step_s`; NaN is not known. Compared by identity.
    """

    models: tuple[ModelKey, ...]
    start_s: float
    step_s: float
    per_s: Floats
