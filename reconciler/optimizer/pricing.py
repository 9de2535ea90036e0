"""What each model would choose if shared rows had a price, the bound that this proves, and every configuration close
to the best.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.configurations import (
    Configurations,
    choice_value,
    configurations_from,
    configurations_of,
    idle_value,
    joined,
    replicas_for,
    shortage,
)
from reconciler.optimizer.enumeration import (
    BestCounts,
    Narrowing,
    Pairs,
    all_mixes,
    best_mixes,
    least_by_row,
    merged,
    slices,
)
from reconciler.optimizer.formulation import TOLERANCE, Formulation, part_of
from reconciler.optimizer.highs import Flags, Floats, Integers
from reconciler.optimizer.mixed_integer import solve_mixed_integer

# --- was reconciler/optimizer/fleet/regrets.py:
# Every configuration that a model would regret by at most so much, at given prices. The regret of a configuration is
# how much worse than the model's best it is. A plan that is better than a known one holds no configuration whose
# regret exceeds the distance from the bound to the known plan's value: whoever has all others has the optimum among
# them.

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


# --- was reconciler/optimizer/fleet/pricing.py:
# What every model would run if the shared rows had a price, and what that proves: the Lagrangian bound.

NEAR = 0.02
"""Configurations this close to a model's best, as a fraction of its value, are named beside it: they may be needed."""

_TOGETHER = 200
"""Blocks that one programme of the general search decides together."""

_NODES = 2_000

_NODES_ALONE = 100_000
"""A block by itself is small, and without any answer of it there is no plan at all."""

_GAP = 1e-6
"""How exact the general search is; the bound that it proves is used, so it costs only sharpness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceAnswer:
    """The best configuration of every block and some beside it, and a bound on any plan's value.

    `infeasible` are the blocks without any configuration; the bound is that of the others. `least` is what each row is
    worth at best of what was looked at, infinite where that is nothing. `is_rough`: the general search was left out.
    """

    configurations: Configurations
    bound: float
    infeasible: Integers
    least: Floats
    is_rough: bool


class Pricing:
    """Answers prices of shared rows with what each block would choose; exact, block by block."""

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        self.pairs = Pairs(formulation)

    def answer(self, prices: Floats, *, is_rough: bool = False) -> PriceAnswer:
        """What each block chooses at `prices` (>= 0, one a shared row), and the bound that these prices prove.

        A rough answer leaves out the general search for blocks of which a single or pair is known: that takes far
        longer and seldom finds better, so their bound is one that needs no search.
        """
        priced, pairs = self._formulation.priced(prices), self.pairs
        best = pairs.best(priced, near=NEAR)
        least, is_known = least_by_row(priced, best), pairs.is_paired.copy()
        mixes = list(best_mixes(priced, least, np.flatnonzero(pairs.is_mixed)))
        for mixed in mixes:
            least[mixed.row] = mixed.value
            is_known[mixed.row] = True
        is_close = np.isfinite(best.value) & (best.value <= (least + NEAR * np.abs(least))[best.row])
        found = [_configurations(priced, best.at(is_close)), *(mixed.configurations for mixed in mixes)]
        infeasible = [priced.block_of_row[is_known & ~np.isfinite(least)]]
        bound = float(least[is_known & np.isfinite(least)].sum()) - float(prices @ self._formulation.shared.limits)
        is_passed = ~is_known & np.isfinite(least) & is_rough
        if is_passed.any():
            bound += float(np.minimum(Narrowing.of(priced, least).bound(priced), least)[is_passed].sum())
        for searched in _search_all(priced, np.unique(priced.block_of_row[~is_known & ~is_passed])):
            if searched.configurations is None:
                infeasible.append(searched.blocks)
            else:
                found.append(searched.configurations)
                bound += searched.bound
        return PriceAnswer(
            configurations=joined(found),
            bound=bound,
            infeasible=np.concatenate(infeasible),
            least=least,
            is_rough=bool(is_passed.any()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Searched:
    """What the general search found for some blocks: none where one of them has no configuration."""

    blocks: Integers
    configurations: Configurations | None
    bound: float


def _search_all(priced: Formulation, blocks: Integers) -> Iterator[_Searched]:
    """Some blocks in each programme."""
    for begin in range(0, len(blocks), _TOGETHER):
        yield from _search(priced, blocks[begin : begin + _TOGETHER])


def _search(priced: Formulation, blocks: Integers) -> Iterator[_Searched]:
    """All blocks in one programme; where that finds nothing each alone, for most of them have an answer."""
    is_meant: Flags = np.isin(priced.block_of_row, blocks)
    part = part_of(priced, is_meant)
    found = solve_mixed_integer(part.formulation, gap=_GAP, nodes=_NODES if len(blocks) > 1 else _NODES_ALONE)
    if found.counts is None and len(blocks) > 1:
        for block in blocks:
            yield from _search(priced, np.array([block]))
        return
    configurations = None if found.counts is None else configurations_from(priced, part.choices, found.counts, blocks)
    yield _Searched(blocks=blocks, configurations=configurations, bound=found.bound)


def _configurations(priced: Formulation, best: BestCounts) -> Configurations:
    block = priced.block_of_row[best.row]
    counts = [best.first_count, best.second_count]
    return configurations_of(block, [best.first, best.second], counts, len(priced.choices.keys))
