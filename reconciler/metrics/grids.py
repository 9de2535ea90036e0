"""The regular grid of moments that a history is asked and told on."""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.domain.measured.answers import Query

OFF_GRID = 0.01
"""By so much of a step a point may miss its moment; farther off it says nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`count` moments `step_s` apart from `start_s` (Unix seconds), all of them multiples of the step."""

    start_s: float
    step_s: float
    count: int

    @property
    def end_s(self) -> float:
        """The last moment."""
        return self.start_s + (self.count - 1) * self.step_s

    @property
    def times_s(self) -> "array[float]":
        """All moments."""
        return array("d", (self.start_s + index * self.step_s for index in range(self.count)))

    def index_of(self, at_s: float) -> int | None:
        """The moment that a point of `at_s` is of, None beside all of them."""
        if not self.start_s - self.step_s < at_s < self.end_s + self.step_s:  # nor is NaN
            return None
        index = round((at_s - self.start_s) / self.step_s)
        is_near = abs(at_s - (self.start_s + index * self.step_s)) <= OFF_GRID * self.step_s
        return index if is_near and 0 <= index < self.count else None

    def parts(self, most: int) -> Iterator["Grid"]:
        """The same moments in grids of at most `most`."""
        for first in range(0, self.count, most):
            start_s = self.start_s + first * self.step_s
            yield Grid(start_s=start_s, step_s=self.step_s, count=min(most, self.count - first))


def grid_of(start_s: float, end_s: float, step_s: float) -> Grid:
    """The moments from `start_s` to `end_s`; none when the end comes first.

    Servers that cache ranges move them to multiples of the step; where they stand there already, nothing moves.
    """
    first = math.ceil(start_s / step_s)
    return Grid(start_s=first * step_s, step_s=step_s, count=max(0, math.floor(end_s / step_s) - first + 1))


def grid_over(queries: Sequence[Query]) -> Grid | None:
    """The moments that range queries of one step asked about together, None without any."""
    step_s = queries[0].step_s if queries else None
    if not step_s:
        return None
    return grid_of(min(query.start_s for query in queries), max(query.end_s for query in queries), step_s)
