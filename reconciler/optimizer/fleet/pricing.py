"""What every model would run if the shared rows had a price, and what that proves: the Lagrangian bound."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import Configurations, configurations_from, configurations_of, joined
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.mixed_integer import solve_mixed_integer
from reconciler.optimizer.fleet.mixes import best_mixes
from reconciler.optimizer.fleet.narrowing import Narrowing
from reconciler.optimizer.fleet.pairs import BestCounts, Pairs, least_by_row
from reconciler.optimizer.fleet.parts import part_of
from reconciler.optimizer.sparse import Flags, Floats, Integers

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
