"""Configurations of models of which more than two variants may serve at once, of many models together.

Variant by variant, every count is tried that may still lead to a cost below a known limit: a bound by the price of
demand says which. Where only the best is asked for, a beginning that covers no more than another of its model and
costs no less is dropped, and the last variant's best count is known in closed form.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import (
    Configurations,
    choice_value,
    configurations_of,
    idle_value,
    replicas_for,
    shortage,
)
from reconciler.optimizer.fleet.formulation import TOLERANCE, Formulation
from reconciler.optimizer.fleet.narrowing import Narrowing
from reconciler.optimizer.fleet.pairs import fill
from reconciler.optimizer.sparse import Flags, Floats, Integers

MOST, MOST_LISTED = 20_000, 100_000
"""Beginnings of one model that are looked at for its best, and for all; one with more is left to others."""

_LIMITS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
"""Above the least that a model can cost, as a fraction of it: up to where its best is looked for, one after the other,
where nothing is known of it or too much may be better than that."""

_TOGETHER = 500
"""Models that are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Configurations with their row and value, and the rows that have too many to look at: of these there is none."""

    configurations: Configurations
    row: Integers
    value: Floats
    lost: Integers


def best_mixes(priced: Formulation, known: Floats, rows: Integers) -> Iterator[Mixed]:
    """The cheapest configuration of each of these rows, where it costs at most what is known of it (infinite: nothing).

    Rows that are in no answer have too many to look at, or none.
    """
    bound = Narrowing.of(priced, known).bound(priced)
    left = rows[np.isfinite(bound[rows])]
    for above in (0.0, *_LIMITS):
        limit = np.minimum(known, bound + above * np.abs(bound)) if above else known
        for mixed in _mixes(priced, limit, left[np.isfinite(limit[left])], is_best=True):
            left = np.setdiff1d(left, np.concatenate([mixed.row, mixed.lost]) if above else mixed.row)
            yield mixed


def all_mixes(priced: Formulation, limit: Floats, rows: Integers) -> Iterator[Mixed]:
    """All configurations of these rows that cost at most the `limit` of the row and hold no replica in vain."""
    return _mixes(priced, limit, rows, is_best=False)


def _mixes(priced: Formulation, limit: Floats, rows: Integers, *, is_best: bool) -> Iterator[Mixed]:
    if not len(rows):
        return
    walk = _Walk(priced, limit, is_best=is_best)
    for begin in range(0, len(rows), _TOGETHER):
        yield walk.over(rows[begin : begin + _TOGETHER])


@dataclass(frozen=True, slots=True)
class _Begun:
    """Beginnings: their row, what they cover and cost, how many variants serve, and how much may still be lost."""

    row: Integers
    covered: Floats
    cost: Floats
    active: Integers
    left: Floats

    def at(self, chosen: Integers | Flags) -> "_Begun":
        return _Begun(self.row[chosen], self.covered[chosen], self.cost[chosen], self.active[chosen], self.left[chosen])


@dataclass(frozen=True, slots=True)
class _Step:
    """Of each beginning the one that it continues, and the choice (-1 is none) and count by which."""

    before: Integers
    choice: Integers
    count: Integers

    def at(self, chosen: Integers | Flags) -> "_Step":
        return _Step(self.before[chosen], self.choice[chosen], self.count[chosen])


class _Walk:
    """From the first variant of each model to its last."""

    def __init__(self, priced: Formulation, limit: Floats, *, is_best: bool) -> None:
        variants, choices = priced.variants, priced.choices
        self._priced, self._limit, self._is_best = priced, limit, is_best
        self._narrowing = Narrowing.of(priced, limit)
        self._least = self._narrowing.least(priced)
        self._bound = self._narrowing.bound(priced)
        self._variants = np.searchsorted(variants.row, np.arange(len(limit) + 1))
        self._choices = np.searchsorted(choices.variant, np.arange(len(variants.keys) + 1))
        self._idle = idle_value(priced)
        members = np.diff(self._variants)
        self._is_limited = priced.rows.active_limit < members

    def over(self, rows: Integers) -> Mixed:
        """What there is of these rows."""
        variants = self._by_width(rows)
        place = np.full(len(self._limit), -1)
        place[rows] = np.arange(len(rows))
        nothing = np.zeros(len(rows))
        left = self._limit[rows] - self._bound[rows]
        left = left + TOLERANCE * np.abs(self._limit[rows])
        begun = _Begun(rows, nothing, self._idle[rows], np.zeros(len(rows), dtype=np.int64), left)
        is_lost = np.zeros(len(self._limit), dtype=np.bool_)
        steps: list[_Step] = []
        for column in range(variants.shape[1] - self._is_best):
            step, begun = self._continued(begun, variants[place[begun.row], column], is_lost)
            if self._is_best:
                kept = self._undominated(begun)
                step, begun = step.at(kept), begun.at(kept)
            steps.append(step)
        if self._is_best:
            step, value = self._closed(begun, variants[place[begun.row], -1])
            row = begun.row[step.before]
            order = np.lexsort((value, row))
            found = order[np.searchsorted(row[order], np.unique(row))]
            found = found[value[found] <= self._limit[row[found]]]
            steps.append(step.at(found))
            row, value = row[found], value[found]
        else:
            row, value = begun.row, self._value(begun)
            found = np.flatnonzero((value <= self._limit[row]) & ~self._is_in_vain(begun, steps))
            steps.append(_Step(found, np.full(len(found), -1), np.zeros(len(found), dtype=np.int64)))
            row, value = row[found], value[found]
        return Mixed(
            configurations=self._configurations(row, steps), row=row, value=value, lost=np.flatnonzero(is_lost)
        )

    def _by_width(self, rows: Integers) -> Integers:
        """By row its variants (-1 is none), the one with most counts that may be worth it at the end."""
        choices, rows_of = self._priced.choices, self._priced.rows
        useful = replicas_for(rows_of.demand[choices.row], choices.carried)
        left = (self._limit - self._bound)[choices.row] + self._least[choices.variant]
        first, last = self._narrowing.within(np.arange(len(choices.keys)), left, np.maximum(useful, 1))
        width = np.bincount(choices.variant, np.maximum(last - first + 1, 0), minlength=len(self._least))
        begins, sizes = self._variants[rows], self._variants[rows + 1] - self._variants[rows]
        found = np.full((len(rows), int(sizes.max(initial=0))), -1)
        owner = np.repeat(np.arange(len(rows)), sizes)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        variant = begins[owner] + offset
        order = np.lexsort((variant, width[variant], owner))
        found[owner, found.shape[1] - sizes[owner] + offset] = variant[order]
        return found

    def _continued(self, begun: _Begun, variant: Integers, is_lost: Flags) -> tuple[_Step, _Begun]:
        """Each beginning with none of a variant, and with every count of every choice that may be worth it."""
        choices = self._priced.choices
        left = begun.left + np.where(variant >= 0, self._least[variant], 0.0)
        may_idle = (variant < 0) | ~self._priced.variants.is_forced[variant]
        idle = np.flatnonzero(may_idle & (left >= 0))
        owner, choice = self._offered(begun, variant)
        rest = np.maximum(self._priced.rows.demand[begun.row[owner]] - begun.covered[owner], 0.0)
        needed = replicas_for(rest, choices.carried[choice])
        most = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
        first, last = self._narrowing.within(choice, left[owner], np.minimum(most, choices.highest[choice]))
        first = np.maximum(first, choices.lowest[choice])
        counts = np.maximum(last - first + 1, 0)
        size = np.bincount(begun.row[owner], counts, minlength=len(is_lost))
        is_lost |= size > (MOST if self._is_best else MOST_LISTED)
        counts[is_lost[begun.row[owner]]] = 0
        idle = idle[~is_lost[begun.row[idle]]]
        entry = np.repeat(np.arange(len(owner)), counts)
        count = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts) + first[entry]
        owner, choice = owner[entry], choice[entry]
        step = _Step(
            np.concatenate([idle, owner]),
            np.concatenate([np.full(len(idle), -1), choice]),
            np.concatenate([np.zeros(len(idle), dtype=np.int64), count]),
        )
        before, none = begun.at(step.before), np.zeros(len(idle))
        return step, _Begun(
            before.row,
            before.covered + np.concatenate([none, choices.carried[choice] * count]),
            before.cost + np.concatenate([none, choice_value(self._priced, choice, count)]),
            before.active + (step.choice >= 0),
            left[step.before] - np.concatenate([none, self._narrowing.lost(choice, count)]),
        )

    def _offered(self, begun: _Begun, variant: Integers) -> tuple[Integers, Integers]:
        """By beginning the choices of a variant, where one more may serve."""
        is_open = (variant >= 0) & (begun.active < self._priced.rows.active_limit[begun.row])
        begins = self._choices[variant]
        sizes = np.where(is_open, self._choices[variant + 1] - begins, 0)
        owner = np.repeat(np.arange(len(variant)), sizes)
        return owner, begins[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def _undominated(self, begun: _Begun) -> Integers:
        """Beginnings that cover more than all cheaper ones of their model, of as many variants where that counts."""
        rows = self._priced.rows
        covered = np.minimum(begun.covered, rows.demand[begun.row])
        group = begun.row * (len(self._least) + 1) + np.where(self._is_limited[begun.row], begun.active, 0)
        order = np.lexsort((begun.cost, -covered, group))
        rank = np.empty(len(order), dtype=np.int64)
        rank[np.argsort(begun.cost[order], kind="stable")] = np.arange(len(order))
        # A later group's ranks are all below those of the groups before it.
        rank -= group[order] * len(order)
        kept: Integers = np.sort(order[rank == np.minimum.accumulate(rank)])
        return kept

    def _closed(self, begun: _Begun, variant: Integers) -> tuple[_Step, Floats]:
        """With the best count of each choice of the last variant, and none of it, and what that is worth."""
        owner, choice = self._offered(begun, variant)
        count, value = fill(self._priced, choice, begun.covered[owner])
        idle = np.flatnonzero((variant < 0) | ~self._priced.variants.is_forced[variant])
        step = _Step(
            np.concatenate([idle, owner]),
            np.concatenate([np.full(len(idle), -1), choice]),
            np.concatenate([np.zeros(len(idle), dtype=np.int64), count]),
        )
        return step, np.concatenate([self._value(begun.at(idle)), begun.cost[owner] + value])

    def _value(self, begun: _Begun) -> Floats:
        """What whole configurations cost; infinite where they cover less than they must."""
        rows = self._priced.rows
        value = begun.cost + shortage(self._priced, begun.row, begun.covered)
        return np.where(begun.covered < rows.must[begun.row] * (1 - TOLERANCE), np.inf, value)

    def _is_in_vain(self, begun: _Begun, steps: list[_Step]) -> Flags:
        """Whether one replica less of some choice covers as much: that costs no more and takes no more of anything."""
        choices = self._priced.choices
        spare = begun.covered - self._priced.rows.demand[begun.row]
        found = np.zeros(len(spare), dtype=np.bool_)
        for choice, count in zip(*_history(np.arange(len(spare)), steps), strict=True):
            # The standing count may be worth it all the same: it changes nothing.
            is_free = (count > np.maximum(choices.lowest[choice], 1)) & (count != choices.standing[choice])
            found |= (choice >= 0) & is_free & (choices.carried[choice] <= spare)
        return found

    def _configurations(self, row: Integers, steps: list[_Step]) -> Configurations:
        chosen, counts = _history(np.arange(len(row)), steps)
        block = self._priced.block_of_row[row]
        return configurations_of(block, chosen, counts, len(self._priced.choices.keys))


def _history(found: Integers, steps: list[_Step]) -> tuple[list[Integers], list[Integers]]:
    """By step the choices and counts that led to what was found in the last."""
    chosen, counts = [], []
    for step in reversed(steps):
        chosen.append(step.choice[found])
        counts.append(step.count[found])
        found = step.before[found]
    return chosen, counts
