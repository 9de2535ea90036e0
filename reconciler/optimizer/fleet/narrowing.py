"""Which counts of a choice can be in a configuration that is worth looking at: a bound by the price of demand.

Whatever x >= 0 a unit of covered demand is worth, a configuration of a row costs at least

    idle + x * must + sum of amounts * min(price, x) + sum over its choices of d(n)
    with d(n) = cost * n + start * max(n - standing, 0) + what else it costs at least - x * carried * n

and d is convex: of one choice only an interval of counts keeps the sum below a limit. The best x is where supply meets
demand when replicas are divisible; the bound is then off by about one replica.
"""

from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import idle_value
from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.sparse import Floats, Integers


@dataclass(frozen=True, slots=True)
class Narrowing:
    """By choice d: its constant, its slope up to the standing count and beyond, and its least; by row what is left.

    `left` is how much the d of a row's choices may sum up to.
    """

    _standing: Floats
    _constant: Floats
    _running: Floats
    _starting: Floats
    _least: Floats
    _left: Floats
    _covered: Floats

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, priced: Formulation, limit: Floats) -> "Narrowing":
        """For configurations that cost at most `limit`, by row."""
        choices, variants, rows = priced.choices, priced.variants, priced.rows
        price = _clearing(priced)
        covered = price * rows.must + (rows.amounts * np.minimum(rows.prices, price[:, None])).sum(axis=1)
        standing = choices.standing.astype(np.float64)
        running = choices.cost - price[choices.row] * choices.carried
        starting = running + choices.start
        spared = (~choices.is_standing).astype(np.float64) - variants.was_active[choices.variant]
        constant = choices.fixed + variants.touch[choices.variant] * spared
        fewest = np.maximum(choices.lowest, 1).astype(np.float64)
        kink = np.clip(standing, fewest, np.maximum(choices.highest, fewest))
        ends = [
            constant + running * count + choices.start * np.maximum(count - standing, 0.0)
            for count in (fewest, kink, np.maximum(choices.highest, fewest))
        ]
        room = TOLERANCE * (np.abs(limit) + covered)
        return cls(
            _standing=standing,
            _constant=constant,
            _running=running,
            _starting=starting,
            _least=np.minimum.reduce(ends),
            _left=(limit - covered - idle_value(priced) + room)[choices.row],
            _covered=covered,
        )

    def bound(self, priced: Formulation) -> Floats:
        """By row what any configuration costs at least, whichever variants serve."""
        served = np.bincount(priced.variants.row, self.least(priced), minlength=len(self._covered))
        total: Floats = self._covered + idle_value(priced) + served
        return np.where(np.isfinite(total), total - TOLERANCE * np.abs(total), -np.inf)

    def least(self, priced: Formulation) -> Floats:
        """By variant the least d of its choices, or of none of them."""
        choices, variants = priced.choices, priced.variants
        least = np.full(len(variants.keys), np.inf)
        is_open = choices.highest >= np.maximum(choices.lowest, 1)
        np.minimum.at(least, choices.variant, np.where(is_open, self._least, np.inf))
        return np.where(variants.is_forced, least, np.minimum(least, 0.0))

    def lost(self, choice: Integers, count: Integers) -> Floats:
        """The d of so many replicas, at least one."""
        started = np.maximum(count - self._standing[choice], 0.0)
        running = self._constant[choice] + self._running[choice] * count
        total: Floats = running + (self._starting[choice] - self._running[choice]) * started
        return total

    def counts(self, choice: Integers, other: Integers, most: Integers) -> tuple[Integers, Integers]:
        """The first and last of 1 to `most` of `choice` worth trying beside `other`; none where last < first.

        `other` -1 is none.
        """
        return self.within(choice, self._left[choice] - np.where(other >= 0, self._least[other], 0.0), most)

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def within(self, choice: Integers, left: Floats, most: Integers) -> tuple[Integers, Integers]:
        """The first and last of 1 to `most` of `choice` whose d is at most `left`; none where last < first."""
        left = left - self._constant[choice]
        running, starting, standing = self._running[choice], self._starting[choice], self._standing[choice]
        spare = left - running * standing  # at the standing count
        by_running, by_starting = left / running, standing + spare / starting
        is_kept = spare >= 0
        last = np.where(is_kept, np.where(starting > 0, by_starting, UNBOUNDED), np.where(running > 0, by_running, 0.0))
        first = np.where(running < 0, by_running, 1.0)
        # Ever more replicas are ever better: then nothing is known.
        first, last = np.where(starting < 0, 1.0, first), np.where(starting < 0, UNBOUNDED, last)
        first, last = first - TOLERANCE * np.abs(first), last + TOLERANCE * np.abs(last)
        first, last = np.where(np.isnan(first), 1.0, first), np.where(np.isnan(last), UNBOUNDED, last)
        return np.clip(np.ceil(first), 1, UNBOUNDED).astype(np.int64), np.clip(np.floor(last), 0, most).astype(np.int64)


def _clearing(priced: Formulation) -> Floats:
    """By row the price of demand at which divisible replicas would cover just what is worth it."""
    choices, rows = priced.choices, priced.rows
    width = rows.amounts.shape[1]
    row = np.concatenate([choices.row, choices.row, np.repeat(np.arange(len(rows.must)), width)])
    starting = np.maximum(choices.highest - choices.standing, 0)
    running, started = choices.cost / choices.carried, (choices.cost + choices.start) / choices.carried
    price = np.concatenate([running, started, rows.prices.ravel()])
    supplied = [choices.carried * choices.standing, choices.carried * starting]
    amount = np.minimum(np.concatenate([*supplied, rows.amounts.ravel()]), rows.demand[row])
    order = np.lexsort((price, row))
    row, price, total = row[order], price[order], np.cumsum(amount[order])
    begins = np.searchsorted(row, np.arange(len(rows.must)))
    before = np.concatenate([[0.0], total])[begins]
    is_met = total - before[row] >= rows.demand[row] * (1 - TOLERANCE)
    found = np.zeros(len(rows.must))
    # The first price at which it is met, else the highest there is.
    for chosen in (np.arange(len(row)), np.flatnonzero(is_met)[::-1]):
        found[row[chosen]] = price[chosen]
    return np.where(np.isfinite(found * rows.demand), found, 0.0)
