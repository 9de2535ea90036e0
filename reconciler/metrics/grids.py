"""The regular grid of moments that a history is asked and told on."""

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass


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
