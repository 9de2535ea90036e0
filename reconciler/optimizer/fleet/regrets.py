"""Every configuration that a model would regret by at most so much, at given prices.

The regret of a configuration is how much worse than the model's best it is. A plan that is better than a known one
holds no configuration whose regret exceeds the distance from the bound to the known plan's value: whoever has all
others has the optimum among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.fleet.configurations import (
    Configurations,
    choice_value,
    configurations_of,
    idle_value,
    joined,
    replicas_for,
    shortage,
)
from reconciler.optimizer.fleet.formulation import TOLERANCE, Formulation
from reconciler.optimizer.fleet.mixes import all_mixes
from reconciler.optimizer.fleet.narrowing import Narrowing
from reconciler.optimizer.fleet.pairs import BestCounts, Pairs, merged, slices
from reconciler.optimizer.sparse import Flags, Floats, Integers

LARGEST_GRID = 300_000
"""Pairs of counts that are looked at of all pairs of choices, the smallest first; of the rest only the best enters."""

_REACH = 2.0
"""Up to which regret one single or pair a row is looked for, in what a row is worth on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Configurations, and by block whether these are all that were asked for."""

    configurations: Configurations
    is_complete: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Singles and pairs of at most this regret at their best; others may be among them."""

    regret: float
    best: BestCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrets:
    """The models of which at most two variants serve, at prices of the shared rows.

    `least` is what each row is worth at best, infinite for others.
    """

    priced: Formulation
    pairs: Pairs
    least: Floats

    def within(self, regret: float) -> Near:
        """Those of at most this regret."""
        return Near(regret=regret, best=self.pairs.best(self.priced, regret=regret))

    def beside(self, count: int) -> Near:
        """So many singles and pairs beside the best of each row, or somewhat fewer: those of least regret."""
        known = self.least[np.isfinite(self.least)]
        if not len(known):
            return self.within(0.0)
        near = self.within(_REACH * float(np.abs(known).mean()) * count / len(known))
        regret = near.best.value - self.least[near.best.row]
        regret = np.sort(regret[np.isfinite(regret)])
        return replace(near, regret=min(near.regret, float(regret[min(len(known) + count, len(regret)) - 1])))

    def listed(self, near: Near) -> Listed:
        """Every configuration with at most this regret, by whole counts of one or two choices."""
        limit = self.least + near.regret
        mixes = list(all_mixes(self.priced, limit, np.flatnonzero(self.pairs.is_mixed & np.isfinite(limit))))
        is_mixed = self.pairs.is_mixed.copy()
        for mixed in mixes:
            is_mixed[mixed.lost] = False
        best = near.best.at((near.best.value <= limit[near.best.row]) & ~is_mixed[near.best.row])
        grids = self._grids(best, limit)
        is_large = _is_beyond(grids.cells, LARGEST_GRID)
        found = merged([best.at(is_large), *(self._within(part, limit) for part in grids.at(~is_large).parts())])
        block = self.priced.block_of_row
        counts = [found.first_count, found.second_count]
        is_complete = np.ones(self.priced.blocks, dtype=np.bool_)
        is_complete[block[~self.pairs.is_paired & ~is_mixed]] = False
        is_complete[block[best.row[is_large]]] = False
        own = configurations_of(block[found.row], [found.first, found.second], counts, len(self.priced.choices.keys))
        return Listed(
            configurations=joined([own, *(mixed.configurations for mixed in mixes)]),
            is_complete=is_complete,
        )

    def _grids(self, best: BestCounts, limit: Floats) -> "_Grids":
        """The counts of both sides of singles and pairs that may stay below the limit."""
        narrowing = Narrowing.of(self.priced, limit)

        def side(choice: Integers, other: Integers) -> tuple[Integers, Integers]:
            first, last = narrowing.counts(choice, other, _useful(self.priced, choice))
            return np.where(choice >= 0, first, 0), np.where(choice >= 0, np.maximum(last - first + 1, 0), 1)

        return _Grids(best, *side(best.first, best.second), *side(best.second, best.first))

    def _within(self, grids: "_Grids", limit: Floats) -> BestCounts:
        """All counts of both sides that stay below the limit."""
        best, cells = grids.best, grids.cells
        pair = np.repeat(np.arange(len(cells)), cells)
        offset = np.arange(len(pair)) - np.repeat(np.cumsum(cells) - cells, cells)
        width = grids.second_counts[pair]
        grid = BestCounts(
            row=best.row[pair],
            first=best.first[pair],
            first_count=grids.first_lowest[pair] + offset // width,
            second=best.second[pair],
            second_count=grids.second_lowest[pair] + offset % width,
            value=np.zeros(len(pair)),
        )
        return grid.at(self._value(grid) <= limit[grid.row])

    def _value(self, grid: BestCounts) -> Floats:
        """What each is worth at the prices; infinite where bounds or demand forbid it."""
        choices, rows = self.priced.choices, self.priced.rows
        value = idle_value(self.priced)[grid.row]
        covered = np.zeros(len(value))
        for choice, count in ((grid.first, grid.first_count), (grid.second, grid.second_count)):
            is_used = choice >= 0
            value = value + np.where(is_used, choice_value(self.priced, choice, count), 0.0)
            covered += np.where(is_used, choices.carried[choice] * count, 0.0)
            value[is_used & ((count < choices.lowest[choice]) | (count > choices.highest[choice]))] = np.inf
        value = value + shortage(self.priced, grid.row, covered)
        value[covered < rows.must[grid.row] * (1 - TOLERANCE)] = np.inf
        return value


@dataclass(frozen=True, slots=True)
class _Grids:
    """Singles and pairs, and of each side so many counts from the lowest; of a side that is none the count 0."""

    best: BestCounts
    first_lowest: Integers
    first_counts: Integers
    second_lowest: Integers
    second_counts: Integers

    @property
    def cells(self) -> Integers:
        """How many configurations each has."""
        return self.first_counts * self.second_counts

    def at(self, chosen: Flags | Integers) -> "_Grids":
        """Those of an index or a mask."""
        return _Grids(
            self.best.at(chosen),
            self.first_lowest[chosen],
            self.first_counts[chosen],
            self.second_lowest[chosen],
            self.second_counts[chosen],
        )

    def parts(self) -> Iterator["_Grids"]:
        """Slices that fit into memory."""
        for part in slices(self.cells):
            yield self.at(np.arange(part.start, part.stop))


def _is_beyond(cells: Integers, most: int) -> Flags:
    """Whether a grid, taken by size, brings the cells of all to more than `most`."""
    order = np.argsort(cells, kind="stable")
    found = np.zeros(len(cells), dtype=np.bool_)
    found[order] = np.cumsum(cells[order]) > most
    return found


def _useful(priced: Formulation, choice: Integers) -> Integers:
    """The largest count worth trying: the whole demand, or what stands or must stand."""
    choices = priced.choices
    needed = replicas_for(priced.rows.demand[choices.row[choice]], choices.carried[choice])
    needed = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
    return np.minimum(needed, choices.highest[choice])
