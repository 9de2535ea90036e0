"""What each model would choose if shared rows had a price, the bound that proves, and everything close to the best.

The regret of a configuration is how much worse it is than the model's best. A plan better than a known one holds no
configuration whose regret exceeds the distance from the bound to the known plan's value, so all others are enough.
"""

from collections.abc import Iterator

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.optimizer.configurations import (
    Configurations,
    choice_value,
    configurations_from,
    configurations_of,
    idle_value,
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
    slices,
)
from reconciler.optimizer.formulation import TOLERANCE, Formulation, part_of
from reconciler.optimizer.highs import Arrays, Flags, Floats, Integers, spread
from reconciler.optimizer.mixed_integer import solve_mixed_integer

LARGEST_GRID = 300_000
"""Pairs of counts that are listed, of the smallest pairs of choices first; of the rest only the best is."""

NEAR = 0.02
"""Configurations within this fraction of a model's best are returned with it: the next programme may need them."""

_REACH = 2.0
"""The largest regret that is looked for, in the average value of a row."""

_TOGETHER = 200
"""Blocks that one programme of the general search decides together."""

_NODES, _NODES_ALONE = 2_000, 100_000
"""Nodes of the general search; a block alone is small, and without its answer there is no plan at all."""

_GAP = 1e-6
"""How exact the general search is; only the bound that it proves is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Configurations, and for each block whether these are all that were asked for."""

    configurations: Configurations
    is_complete: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The best counts of singles and pairs of at most this regret; there may be others among them."""

    regret: float
    best: BestCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrets:
    """The models whose configurations can be listed, at prices of the shared rows.

    `least` is the best value of each row, infinite for others.
    """

    priced: Formulation
    pairs: Pairs
    least: Floats

    def within(self, regret: float) -> Near:
        """Singles and pairs of at most this regret."""
        return Near(regret=regret, best=self.pairs.best(self.priced, regret=regret))

    def nearest(self, count: int) -> Near:
        """About so many singles and pairs in addition to the best of each row: those of least regret."""
        finite = self.least[np.isfinite(self.least)]
        if not len(finite):
            return self.within(0.0)
        near = self.within(_REACH * float(np.abs(finite).mean()) * count / len(finite))
        regret = near.best.value - self.least[near.best.row]
        regret = np.sort(regret[np.isfinite(regret)])
        return replace(near, regret=min(near.regret, float(regret[min(len(finite) + count, len(regret)) - 1])))

    def listed(self, near: Near) -> Listed:
        """Every configuration of at most this regret, by whole counts of its choices."""
        limit = self.least + near.regret
        mixes = list(all_mixes(self.priced, limit, np.flatnonzero(self.pairs.is_mixed & np.isfinite(limit))))
        is_mixed = self.pairs.is_mixed.copy()
        for mixed in mixes:
            is_mixed[mixed.lost] = False
        best = near.best.at((near.best.value <= limit[near.best.row]) & ~is_mixed[near.best.row])
        grids = self._grids(best, limit)
        order = np.argsort(grids.cells, kind="stable")
        is_large = np.zeros(len(order), dtype=np.bool_)
        is_large[order] = np.cumsum(grids.cells[order]) > LARGEST_GRID
        small = grids.at(~is_large)
        within = [self._within(small.at(np.arange(part.start, part.stop)), limit) for part in slices(small.cells)]
        found = BestCounts.joined([best.at(is_large), *within])
        block = self.priced.block_of_row
        is_complete = np.ones(self.priced.blocks, dtype=np.bool_)
        is_complete[block[~self.pairs.is_paired & ~is_mixed]] = False
        is_complete[block[best.row[is_large]]] = False
        return Listed(
            configurations=Configurations.joined(
                [_configurations(self.priced, found), *(mixed.configurations for mixed in mixes)]
            ),
            is_complete=is_complete,
        )

    def _grids(self, best: BestCounts, limit: Floats) -> "_Grids":
        """The counts of both sides of singles and pairs that may stay below the limit."""
        narrowing, choices = Narrowing.of(self.priced, limit), self.priced.choices

        def side(choice: Integers, other: Integers) -> tuple[Integers, Integers]:
            needed = replicas_for(self.priced.rows.demand[choices.row[choice]], choices.carried[choice])
            needed = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
            first, last = narrowing.counts(choice, other, np.minimum(needed, choices.highest[choice]))
            return np.where(choice >= 0, first, 0), np.where(choice >= 0, np.maximum(last - first + 1, 0), 1)

        return _Grids(best, *side(best.first, best.second), *side(best.second, best.first))

    def _within(self, grids: "_Grids", limit: Floats) -> BestCounts:
        """All counts of both sides that stay below the limit, bounds and demand respected."""
        best, (pair, offset) = grids.best, spread(grids.cells)
        width = grids.second_counts[pair]
        row = best.row[pair]
        sides = (
            (best.first[pair], grids.first_lowest[pair] + offset // width),
            (best.second[pair], grids.second_lowest[pair] + offset % width),
        )
        choices, rows = self.priced.choices, self.priced.rows
        value, covered = idle_value(self.priced)[row], np.zeros(len(row))
        for choice, count in sides:
            is_used = choice >= 0
            value = value + np.where(is_used, choice_value(self.priced, choice, count), 0.0)
            covered += np.where(is_used, choices.carried[choice] * count, 0.0)
            value[is_used & ((count < choices.lowest[choice]) | (count > choices.highest[choice]))] = np.inf
        value = value + shortage(self.priced, row, covered)
        value[covered < rows.must[row] * (1 - TOLERANCE)] = np.inf
        (first, first_count), (second, second_count) = sides
        grid = BestCounts(
            row=row, first=first, first_count=first_count, second=second, second_count=second_count, value=value
        )
        return grid.at(value <= limit[row])


@dataclass(frozen=True, slots=True)
class _Grids(Arrays):
    """Singles and pairs, and for each side so many counts from the lowest; a missing side has only the count 0."""

    best: BestCounts
    first_lowest: Integers
    first_counts: Integers
    second_lowest: Integers
    second_counts: Integers

    @property
    def cells(self) -> Integers:
        """The number of configurations of each."""
        return self.first_counts * self.second_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedBest:
    """The best configuration of each block and others close to it, and a bound on any plan's value.

    `infeasible` are the blocks without any configuration; the bound is that of the others. `least` is the best value
    found for each row, infinite where there is none. `is_rough`: the general search was left out.
    """

    configurations: Configurations
    bound: float
    infeasible: Integers
    least: Floats
    is_rough: bool


class Pricing:
    """What each block chooses at prices of the shared rows; exact, block by block."""

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        self.pairs = Pairs(formulation)

    def best_at(self, prices: Floats, *, is_rough: bool = False) -> PricedBest:
        """The best of each block at `prices` (>= 0, one for each shared row), and the bound that these prices prove.

        A rough answer leaves out the general search for blocks with a known single or pair: the search takes far longer
        and seldom finds better, so their bound is one that needs no search.
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
        rest = np.unique(priced.block_of_row[~is_known & ~is_passed])
        for begin in range(0, len(rest), _TOGETHER):
            for blocks, configurations, proven in _search(priced, rest[begin : begin + _TOGETHER]):
                if configurations is None:
                    infeasible.append(blocks)
                else:
                    found.append(configurations)
                    bound += proven
        return PricedBest(
            configurations=Configurations.joined(found),
            bound=bound,
            infeasible=np.concatenate(infeasible),
            least=least,
            is_rough=bool(is_passed.any()),
        )


def _search(priced: Formulation, blocks: Integers) -> Iterator[tuple[Integers, Configurations | None, float]]:
    """The best configurations of blocks and their bound by one programme, None for a block that has none.

    Where the programme finds nothing each block is searched alone, because most of them have a configuration.
    """
    part = part_of(priced, np.isin(priced.block_of_row, blocks))
    found = solve_mixed_integer(part.formulation, gap=_GAP, nodes=_NODES if len(blocks) > 1 else _NODES_ALONE)
    if found.counts is not None:
        yield blocks, configurations_from(priced, part.choices, found.counts, blocks), found.bound
    elif len(blocks) == 1:
        yield blocks, None, found.bound
    else:
        for block in blocks:
            yield from _search(priced, np.array([block]))


def _configurations(priced: Formulation, best: BestCounts) -> Configurations:
    block, counts = priced.block_of_row[best.row], [best.first_count, best.second_count]
    return configurations_of(block, [best.first, best.second], counts, len(priced.choices.keys))
