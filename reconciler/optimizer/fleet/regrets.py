"""Every configuration that a model would regret by at most so much, at given prices.

The regret of a configuration is how much worse than the model's best it is. A plan that is better than a known one
holds no configuration whose regret exceeds the distance from the bound to the known plan's value: whoever has all
others has the optimum among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import Configurations, configurations_of
from reconciler.optimizer.fleet.formulation import TOLERANCE, Formulation
from reconciler.optimizer.fleet.pairs import Best, Pairs, least_by_row, merged
from reconciler.optimizer.fleet.sparse import Flags, Floats, Integers
from reconciler.optimizer.fleet.terms import choice_value, idle_value, replicas_for, served, shortage

LARGEST_GRID = 2_000_000
"""Pairs of counts that are looked at of one pair of choices; of a larger one only its best enters."""

_CHUNK = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrets:
    """The models of which at most two variants serve, and what each single and pair of choices is worth at best."""

    priced: Formulation
    best: Best
    least: Floats
    is_listed: Flags
    """By block whether all its configurations can be listed: not of the general search, and no grid too large."""

    @classmethod
    def of(cls, formulation: Formulation, pairs: Pairs, prices: Floats) -> "Regrets":
        """At prices of the shared rows."""
        priced = formulation.priced(prices)
        best = pairs.best(priced)
        least = least_by_row(priced, best)
        first, second = _sides(priced, best)
        is_listed = np.ones(priced.blocks, dtype=np.bool_)
        is_listed[priced.block_of_row[~pairs.is_paired]] = False
        is_listed[priced.block_of_row[best.row[first * second > LARGEST_GRID]]] = False
        return cls(priced=priced, best=best, least=least, is_listed=is_listed)

    def within(self, count: int) -> float:
        """The regret that `count` singles and pairs have at most; what is infeasible has none."""
        regret = self.best.value - self.least[self.best.row]
        regret = np.sort(regret[np.isfinite(regret)])
        return float(regret[min(count, len(regret)) - 1]) if len(regret) else 0.0

    def configurations(self, regret: float) -> Configurations:
        """Every configuration with at most this regret, by whole counts of one or two choices."""
        found = merged(list(self._found(regret)))
        block = self.priced.block_of_row[found.row]
        counts = [found.first_count, found.second_count]
        return configurations_of(block, [found.first, found.second], counts, len(self.priced.choices.keys))

    def _found(self, regret: float) -> Iterator[Best]:
        best = self.best.at(self.best.value <= self.least[self.best.row] + regret)
        first, second = _sides(self.priced, best)
        is_grid = (best.first >= 0) & (first * second <= LARGEST_GRID)
        yield best.at(~is_grid)
        used, first, second = best.at(is_grid), first[is_grid], second[is_grid]
        cells = np.cumsum(first * second)
        begin = 0
        while begin < len(cells):
            before = cells[begin - 1] if begin else 0
            end = max(int(np.searchsorted(cells, before + _CHUNK, side="right")), begin + 1)
            part = slice(begin, end)
            yield self._grid(used.at(np.arange(begin, end)), first[part], second[part], regret)
            begin = end

    def _grid(self, best: Best, most_first: Integers, most_second: Integers, regret: float) -> Best:
        """All counts of both choices that stay within the regret."""
        cells = most_first * most_second
        pair = np.repeat(np.arange(len(cells)), cells)
        offset = np.arange(len(pair)) - np.repeat(np.cumsum(cells) - cells, cells)
        second = best.second[pair]
        grid = Best(
            row=best.row[pair],
            first=best.first[pair],
            first_count=offset // most_second[pair] + 1,
            second=second,
            second_count=np.where(second >= 0, offset % most_second[pair] + 1, 0),
            value=np.zeros(len(pair)),
        )
        return grid.at(self._value(grid) <= self.least[grid.row] + regret)

    def _value(self, grid: Best) -> Floats:
        """What each is worth at the prices; infinite where bounds, demand or what must serve meanwhile forbid it."""
        choices, rows = self.priced.choices, self.priced.rows
        value = idle_value(self.priced)[grid.row]
        covered, kept = np.zeros(len(value)), np.zeros(len(value))
        for choice, count in ((grid.first, grid.first_count), (grid.second, grid.second_count)):
            is_used = choice >= 0
            value = value + np.where(is_used, choice_value(self.priced, choice, count), 0.0)
            covered += np.where(is_used, choices.carried[choice] * count, 0.0)
            kept += np.where(is_used, served(self.priced, choice, count), 0.0)
            value[is_used & ((count < choices.lowest[choice]) | (count > choices.highest[choice]))] = np.inf
        value = value + shortage(self.priced, grid.row, covered)
        is_short = covered < rows.must[grid.row] * (1 - TOLERANCE)
        value[is_short | (kept < rows.near[grid.row] * (1 - TOLERANCE))] = np.inf
        return value


def _sides(priced: Formulation, best: Best) -> tuple[Integers, Integers]:
    """How many counts are worth trying of the first and the second choice; one where there is none."""
    first = np.where(best.first >= 0, _useful(priced, best.first), 1)
    return first, np.where(best.second >= 0, _useful(priced, best.second), 1)


def _useful(priced: Formulation, choice: Integers) -> Integers:
    """The largest count worth trying: the whole demand, or what stands or must stand."""
    choices = priced.choices
    needed = replicas_for(priced.rows.demand[choices.row[choice]], choices.carried[choice])
    needed = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
    return np.minimum(needed, choices.highest[choice])
