"""Answers to range queries as rows of one regular grid that ends now; what does not fit is left out, with a reason."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.declared.tracking import SYNC_PERIOD_S, TrackedTarget
from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.metrics.grids import Grid
from reconciler.metrics.reading.matrices import MatrixRow, decode_matrix

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)

OFF_S = 0.1
"""How far a sample may be from its tick: servers round to milliseconds."""
LAST_S = 1e13
"""Larger times are ignored."""


def grid_for(targets: Iterable[TrackedTarget], now_s: float) -> Grid:
    """The ticks that end at `now_s` and reach back as far as any of the targets needs."""
    longest_s = max((target.history_s for target in targets), default=0.0)
    # to the millisecond, as a query says it: else the first tick may be rounded another way than the last
    return reach_back(Grid(start_s=round(now_s, 3), step_s=SYNC_PERIOD_S, count=1), longest_s)


def reach_back(grid: Grid, length_s: float) -> Grid:
    """The same grid begun at least `length_s` earlier."""
    more = math.ceil(length_s / grid.step_s)
    return Grid(start_s=grid.start_s - more * grid.step_s, step_s=grid.step_s, count=grid.count + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Key]):
    """The answers to one quantity: a row of shape (ticks,) by key, NaN where there is no sample.

    `oddities` say what was left out of a row, `failed` why there is less than all. Not `asked`: nobody did.
    """

    rows: Mapping[Key, Floats]
    oddities: Mapping[Key, str]
    failed: NoAnswer | None = None
    asked: bool = True


def tabulate(answers: Sequence[Answer], grid: Grid, key_of: Callable[[Mapping[str, str]], Key]) -> Table[Key]:
    """All answers to one quantity put together, its time or its namespaces split or not.

    Two values of one key at one tick contradict each other: neither is believed.
    """
    parts: dict[Key, list[_Placed]] = {}
    failed: NoAnswer | None = None
    for answer in answers:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            failed = failed or matrix
            continue
        places: dict[bytes, _Places] = {}  # nearly all series of an answer have the same times
        for row in matrix.rows:
            times = row.times_s.tobytes()
            if times not in places:
                places[times] = _places_of(row, grid)
            parts.setdefault(key_of(row.labels), []).append(places[times].put(row, grid))
    joined = {key: _joined(placed) for key, placed in parts.items()}
    return Table(
        rows={key: placed.values for key, placed in joined.items()},
        oddities={key: placed.oddity for key, placed in joined.items() if placed.oddity},
        failed=failed,
        asked=bool(answers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    values: Floats
    oddity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Which samples of a series are used, and at which ticks."""

    ticks: Integers
    kept: Bools
    oddity: str

    def put(self, row: MatrixRow, grid: Grid) -> _Placed:
        values = np.full(grid.count, np.nan)
        values[self.ticks] = np.array(row.values)[self.kept]
        return _Placed(values=values, oddity=self.oddity)


def _places_of(row: MatrixRow, grid: Grid) -> _Places:
    """Samples that go back, share a tick or lie beside all of them are not believed."""
    told = np.abs(row.times_s) <= LAST_S  # NaN is not
    times_s = np.where(told, row.times_s, -LAST_S)
    ticks = np.rint((times_s - grid.start_s) / grid.step_s).astype(np.int64)
    beside = ~told | (np.abs(times_s - (grid.start_s + ticks * grid.step_s)) > OFF_S)
    beside |= (ticks < 0) | (ticks >= grid.count)
    before = np.concatenate(([-np.inf], np.maximum.accumulate(times_s)[:-1]))[: times_s.size]
    ticks = np.where(beside, 0, ticks)
    shared = np.bincount(ticks, weights=~beside, minlength=grid.count)[ticks]
    kept = ~beside & (times_s > before) & (shared == 1)
    dropped = times_s.size - np.count_nonzero(kept)
    oddity = f"{dropped} samples repeat a time, go back in time or lie beside the ticks" if dropped else ""
    return _Places(ticks=ticks[kept], kept=kept, oddity=oddity)


def _joined(placed: Sequence[_Placed]) -> _Placed:
    if len(placed) == 1:
        return placed[0]
    values, count = lone_values(np.stack([each.values for each in placed]))
    several = int(np.count_nonzero(count > 1))
    oddities = [each.oddity for each in placed if each.oddity]
    return _Placed(
        values=values,
        oddity=f"{several} ticks have several samples" if several else "".join(oddities[:1]),
    )


def lone_values(rows: Floats) -> tuple[Floats, Integers]:
    """The value of each tick that only one row has, else NaN, and how many have one; (rows, ticks) to (ticks,)."""
    known = ~np.isnan(rows)
    count = np.count_nonzero(known, axis=0)
    values = np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(count == 1, values, np.nan), np.asarray(count, dtype=np.int64)
