"""The best configurations of many models at once, by exact enumeration: one, two or more variants of a model.

With one variant the best count is known in closed form. The value is convex in it, so the best is an integer next to
where the marginal cost meets the marginal price of demand, or the standing count, which costs no change. With two
variants every useful count of one is tried, and the best of the other is known again. With more, variants are tried one
after the other. All models are evaluated together, as flat arrays.
"""

from collections.abc import Iterator

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.optimizer.configurations import (
    Configurations,
    choice_value,
    configurations_of,
    idle_value,
    replicas_for,
    shortage,
)
from reconciler.optimizer.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import Arrays, Flags, Floats, Integers, spread

LONGEST = 4096
"""Counts that are tried of a pair's smaller side; a model that needs more is treated as one of many variants."""

_CHUNK = 400_000
"""Entries evaluated at once: about 100 MB of arrays."""

MOST, MOST_LISTED = 20_000, 100_000
"""Partial configurations of one model that are kept for its best, and for all; a model with more is left to others."""

_LIMITS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
"""How far above a model's bound, as a fraction, its best is looked for, one limit after the other."""

_TOGETHER = 500
"""Models that are walked together."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which counts of a choice can be in a configuration below a limit: a bound by the price of demand.

    For any price x >= 0 of a unit of demand, a configuration of a row costs at least

        idle + x * must + sum of amounts * min(price, x) + sum over its choices of d(n)
        with d(n) = cost * n + start * max(n - standing, 0) + fixed and touching costs - x * carried * n

    d is convex, so only an interval of counts keeps the sum below a limit. The best x is where supply meets demand when
    replicas are divisible; the bound is then off by about one replica. By choice: the constant of d, its slopes up to
    the standing count and beyond, its least value, and `left`, what all d of its row may sum up to.
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
        """By row the least that any configuration costs."""
        served = np.bincount(priced.variants.row, self.least(priced), minlength=len(self._covered))
        total: Floats = self._covered + idle_value(priced) + served
        return np.where(np.isfinite(total), total - TOLERANCE * np.abs(total), -np.inf)

    def least(self, priced: Formulation) -> Floats:
        """By variant the least d of its choices, or 0 where it may be idle."""
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
        """The first and last of 1 to `most` of `choice` worth trying together with `other`; none where last < first.

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
        # Where each further replica is better the interval has no end.
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
    # The first price at which demand is met, else the highest one.
    for chosen in (np.arange(len(row)), np.flatnonzero(is_met)[::-1]):
        found[row[chosen]] = price[chosen]
    return np.where(np.isfinite(found * rows.demand), found, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCounts(Arrays):
    """The best counts of single choices and pairs; `second` is -1 for a single, and both are -1 for no replicas.

    `value` is infinite where nothing is feasible.
    """

    row: Integers
    first: Integers
    first_count: Integers
    second: Integers
    second_count: Integers
    value: Floats


class Pairs:
    """Which singles and pairs of choices there are, and which counts are worth trying; independent of prices.

    For rows in `is_paired` these are all configurations. In rows of `is_mixed` more variants may serve. All other rows
    belong to the general search.
    """

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
        count = len(rows.requirements)
        self._is_lone = (
            np.bincount(formulation.block_of_row, minlength=formulation.blocks)[formulation.block_of_row] == 1
        )
        serving = np.minimum(np.bincount(variants.row, minlength=count), rows.active_limit)
        self.is_paired: Flags = self._is_lone & (serving <= 2)
        self._forced = np.bincount(variants.row, variants.is_forced, minlength=count).astype(np.int64)
        is_alone_allowed = self._forced[choices.row] - variants.is_forced[choices.variant] == 0
        self._singles = np.flatnonzero(self._is_lone[choices.row] & is_alone_allowed)
        pairs = self._pairs_of(formulation)
        is_long = np.minimum(pairs.most_left, pairs.most_right) > LONGEST
        self.is_paired[choices.row[pairs.left[is_long]]] = False
        self._pairs = pairs.at(~is_long)
        self.is_mixed: Flags = self._is_lone & ~self.is_paired

    @property
    def is_listed(self) -> Flags:
        """Rows whose configurations need no general search, unless there are too many of them."""
        return self.is_paired | self.is_mixed

    def best(self, priced: Formulation, *, near: float = 0.0, regret: float = 0.0) -> BestCounts:
        """The best of each single and pair under the costs of `priced`, which is this fleet with prices added.

        Pairs that are worse than the best of their row by more than the fraction `near` and `regret` may be missing.
        """
        parts = [self._idle(priced), self._alone(priced)]
        least = least_by_row(priced, BestCounts.joined(parts))
        limit = least + near * np.where(np.isfinite(least), np.abs(least), 0.0) + regret
        tried = self._tried(priced, limit)
        parts += [_together(priced, tried.at(np.arange(part.start, part.stop))) for part in slices(tried.counts)]
        return BestCounts.joined(parts)

    def _pairs_of(self, formulation: Formulation) -> "_Sides":
        """Pairs of choices of two variants of one row, the earlier on the left, with the useful counts of each."""
        choices, variants, starts = formulation.choices, formulation.variants, formulation.choice_starts
        sizes = np.where(self._is_lone & (formulation.rows.active_limit >= 2), np.diff(starts), 0)
        row, place = spread(sizes)
        one, ahead = spread(sizes[row] - place - 1)
        left = (starts[row] + place)[one]
        right = left + ahead + 1
        is_apart = choices.variant[left] != choices.variant[right]
        forced = variants.is_forced[choices.variant[left]].astype(np.int64)
        forced += variants.is_forced[choices.variant[right]]
        is_usable = (choices.highest[left] > 0) & (choices.highest[right] > 0)
        keep = is_apart & is_usable & (forced == self._forced[choices.row[left]])
        left, right = left[keep], right[keep]
        return _Sides(left, right, self._useful(left, right), self._useful(right, left))

    def _tried(self, priced: Formulation, limit: Floats) -> "_Tried":
        """The counts to try of one side of each pair: the side with fewer counts."""
        pairs, narrowing = self._pairs, Narrowing.of(priced, limit)
        first_left, last_left = narrowing.counts(pairs.left, pairs.right, pairs.most_left)
        first_right, last_right = narrowing.counts(pairs.right, pairs.left, pairs.most_right)
        swap = last_right - first_right < last_left - first_left
        one, other = np.where(swap, pairs.right, pairs.left), np.where(swap, pairs.left, pairs.right)
        begin, end = np.where(swap, first_right, first_left), np.where(swap, last_right, last_left) + 1
        is_open = begin < end
        return _Tried(one[is_open], other[is_open], begin[is_open], (end - begin)[is_open])

    def _useful(self, choice: Integers, other: Integers) -> Integers:
        """The largest count worth trying together with at least one replica of the other."""
        choices, demand = self._formulation.choices, self._formulation.rows.demand
        rest = np.maximum(demand[choices.row[choice]] - choices.carried[other], 0.0)
        needed = replicas_for(rest, choices.carried[choice])
        needed = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
        return np.minimum(needed, choices.highest[choice])

    def _idle(self, priced: Formulation) -> BestCounts:
        """No replicas at all, where nothing is forced or must be covered."""
        row = np.flatnonzero(self._is_lone & (self._forced == 0) & (priced.rows.must <= 0))
        none = np.full(len(row), -1)
        value = idle_value(priced)[row] + shortage(priced, row, np.zeros(len(row)))
        zero = np.zeros(len(row), dtype=np.int64)
        return BestCounts(row=row, first=none, first_count=zero, second=none, second_count=zero, value=value)

    def _alone(self, priced: Formulation) -> BestCounts:
        choice = self._singles
        row, none = priced.choices.row[choice], np.full(len(choice), -1)
        count, value = fill(priced, choice, np.zeros(len(choice)))
        return BestCounts(
            row=row,
            first=choice,
            first_count=count,
            second=none,
            second_count=np.zeros(len(choice), dtype=np.int64),
            value=value + idle_value(priced)[row],
        )


@dataclass(frozen=True, slots=True)
class _Sides(Arrays):
    """Pairs of choices, with the largest useful count of each side."""

    left: Integers
    right: Integers
    most_left: Integers
    most_right: Integers


@dataclass(frozen=True, slots=True)
class _Tried(Arrays):
    """Pairs of choices, and the counts to try of the first: so many from the lowest."""

    first: Integers
    second: Integers
    lowest: Integers
    counts: Integers


def slices(sizes: Integers) -> Iterator[slice]:
    """Neighbours that together fit into memory: about as many entries as are evaluated at once."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, before + _CHUNK, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _together(priced: Formulation, tried: _Tried) -> BestCounts:
    """The best count of both sides of each pair."""
    choices = priced.choices
    pair, place = spread(tried.counts)
    number = place + tried.lowest[pair]
    one, other = tried.first[pair], tried.second[pair]
    count, value = fill(priced, other, choices.carried[one] * number)
    value = value + choice_value(priced, one, number)
    value[number < choices.lowest[one]] = np.inf
    least = np.minimum.reduceat(value, np.cumsum(tried.counts) - tried.counts)
    found = np.flatnonzero(value == least[pair])
    winner = found[np.searchsorted(pair[found], np.arange(len(least)))]
    row = choices.row[tried.first]
    return BestCounts(
        row=row,
        first=tried.first,
        first_count=number[winner],
        second=tried.second,
        second_count=count[winner],
        value=least + idle_value(priced)[row],
    )


def least_by_row(priced: Formulation, best: BestCounts) -> Floats:
    """The least value of each row; infinite where it has none."""
    least = np.full(len(priced.rows.requirements), np.inf)
    np.minimum.at(least, best.row, best.value)
    return least


def fill(priced: Formulation, choice: Integers, covered: Floats) -> tuple[Integers, Floats]:
    """The best count of `choice`, at least one, where `covered` is covered already, and its value with the shortage's.

    The value is infinite where the bounds leave no count.
    """
    choices, rows = priced.choices, priced.rows
    row, carried = choices.row[choice], choices.carried[choice]
    needed = replicas_for(rows.must[row] - covered, carried)
    least = np.maximum(needed, np.maximum(choices.lowest[choice], 1))
    most = choices.highest[choice]
    is_open = least <= most
    best, value = least, np.full(len(choice), np.inf)
    for count in _counts(priced, choice, covered, least, most):
        worth = choice_value(priced, choice, count) + shortage(priced, row, covered + carried * count)
        is_better = is_open & (worth < value)
        best, value = np.where(is_better, count, best), np.where(is_better, worth, value)
    return best, value


def _counts(
    priced: Formulation, choice: Integers, covered: Floats, least: Integers, most: Integers
) -> Iterator[Integers]:
    """The counts that may be best: the standing one, and those next to where marginal cost meets marginal price."""
    choices, rows = priced.choices, priced.rows
    highest = np.maximum(most, least)
    yield np.clip(choices.standing[choice], least, highest)
    if not rows.amounts.size:
        yield least
        return
    # The demand that is worth its running cost, and the demand that is worth starting a replica too.
    gain, cost = rows.prices[choices.row] * choices.carried[:, None], choices.cost
    running, starting = (
        rows.must[choices.row] + (rows.amounts[choices.row] * (gain > each[:, None])).sum(axis=1)
        for each in (cost, cost + choices.start)
    )
    carried = choices.carried[choice]
    kept = np.minimum((running[choice] - covered) / carried, choices.standing[choice])
    ideal = np.clip(np.maximum(kept, (starting[choice] - covered) / carried), 0, UNBOUNDED)
    for count in (np.floor(ideal + TOLERANCE), np.ceil(ideal - TOLERANCE)):
        yield np.clip(count.astype(np.int64), least, highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Configurations with their row and value, and the rows that have too many to enumerate."""

    configurations: Configurations
    row: Integers
    value: Floats
    lost: Integers


def best_mixes(priced: Formulation, known: Floats, rows: Integers) -> Iterator[Mixed]:
    """The cheapest configuration of each of these rows, where it costs at most the `known` value (infinite: none).

    Rows in no answer have no configuration, or too many to enumerate.
    """
    bound = Narrowing.of(priced, known).bound(priced)
    left = rows[np.isfinite(bound[rows])]
    for above in (0.0, *_LIMITS):
        limit = np.minimum(known, bound + above * np.abs(bound)) if above else known
        for mixed in _mixes(priced, limit, left[np.isfinite(limit[left])], is_best=True):
            left = np.setdiff1d(left, np.concatenate([mixed.row, mixed.lost]) if above else mixed.row)
            yield mixed


def all_mixes(priced: Formulation, limit: Floats, rows: Integers) -> Iterator[Mixed]:
    """All configurations of these rows that cost at most the `limit` of the row, without superfluous replicas."""
    return _mixes(priced, limit, rows, is_best=False)


def _mixes(priced: Formulation, limit: Floats, rows: Integers, *, is_best: bool) -> Iterator[Mixed]:
    if not len(rows):
        return
    walk = _Walk(priced, limit, is_best=is_best)
    for begin in range(0, len(rows), _TOGETHER):
        yield walk.over(rows[begin : begin + _TOGETHER])


@dataclass(frozen=True, slots=True)
class _Begun(Arrays):
    """Partial configurations: row, covered demand, cost, active variants, and how much of the limit is left."""

    row: Integers
    covered: Floats
    cost: Floats
    active: Integers
    left: Floats


@dataclass(frozen=True, slots=True)
class _Step(Arrays):
    """For each partial configuration the one that it continues, and the choice (-1: none) and count added to it."""

    before: Integers
    choice: Integers
    count: Integers


class _Walk:
    """Tries every useful count, variant by variant, for many models at once.

    Where only the best is wanted, a partial configuration that covers no more than another and costs no less is
    dropped, and the best count of the last variant is known in closed form.
    """

    def __init__(self, priced: Formulation, limit: Floats, *, is_best: bool) -> None:
        variants, choices = priced.variants, priced.choices
        self._priced, self._limit, self._is_best = priced, limit, is_best
        self._narrowing = Narrowing.of(priced, limit)
        self._least = self._narrowing.least(priced)
        self._bound = self._narrowing.bound(priced)
        self._variants = np.searchsorted(variants.row, np.arange(len(limit) + 1))
        self._choices = np.searchsorted(choices.variant, np.arange(len(variants.keys) + 1))
        self._idle = idle_value(priced)
        self._is_limited = priced.rows.active_limit < np.diff(self._variants)

    def over(self, rows: Integers) -> Mixed:
        """The configurations of these rows."""
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
        """By row its variants (-1: none), the one with most useful counts last."""
        choices, rows_of = self._priced.choices, self._priced.rows
        useful = replicas_for(rows_of.demand[choices.row], choices.carried)
        left = (self._limit - self._bound)[choices.row] + self._least[choices.variant]
        first, last = self._narrowing.within(np.arange(len(choices.keys)), left, np.maximum(useful, 1))
        width = np.bincount(choices.variant, np.maximum(last - first + 1, 0), minlength=len(self._least))
        begins, sizes = self._variants[rows], self._variants[rows + 1] - self._variants[rows]
        found = np.full((len(rows), int(sizes.max(initial=0))), -1)
        owner, offset = spread(sizes)
        variant = begins[owner] + offset
        order = np.lexsort((variant, width[variant], owner))
        found[owner, found.shape[1] - sizes[owner] + offset] = variant[order]
        return found

    def _continued(self, begun: _Begun, variant: Integers, is_lost: Flags) -> tuple[_Step, _Begun]:
        """Each partial configuration with the variant idle, and with every useful count of each of its choices."""
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
        entry, place = spread(counts)
        count, owner, choice = place + first[entry], owner[entry], choice[entry]
        step = _idle_or(idle, owner, choice, count)
        before, none = begun.at(step.before), np.zeros(len(idle))
        return step, _Begun(
            before.row,
            before.covered + np.concatenate([none, choices.carried[choice] * count]),
            before.cost + np.concatenate([none, choice_value(self._priced, choice, count)]),
            before.active + (step.choice >= 0),
            left[step.before] - np.concatenate([none, self._narrowing.lost(choice, count)]),
        )

    def _offered(self, begun: _Begun, variant: Integers) -> tuple[Integers, Integers]:
        """The choices of a variant for each partial configuration that may have one more active variant."""
        is_open = (variant >= 0) & (begun.active < self._priced.rows.active_limit[begun.row])
        begins = self._choices[variant]
        sizes = np.where(is_open, self._choices[variant + 1] - begins, 0)
        owner, place = spread(sizes)
        return owner, begins[owner] + place

    def _undominated(self, begun: _Begun) -> Integers:
        """Those that cover more than all cheaper ones of their model (of as many variants, if those are limited)."""
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
        """With the last variant idle, and with the best count of each of its choices; and their values."""
        owner, choice = self._offered(begun, variant)
        count, value = fill(self._priced, choice, begun.covered[owner])
        idle = np.flatnonzero((variant < 0) | ~self._priced.variants.is_forced[variant])
        return _idle_or(idle, owner, choice, count), np.concatenate(
            [self._value(begun.at(idle)), begun.cost[owner] + value]
        )

    def _value(self, begun: _Begun) -> Floats:
        """The value of whole configurations, infinite where they cover less than they must."""
        rows = self._priced.rows
        value = begun.cost + shortage(self._priced, begun.row, begun.covered)
        return np.where(begun.covered < rows.must[begun.row] * (1 - TOLERANCE), np.inf, value)

    def _is_in_vain(self, begun: _Begun, steps: list[_Step]) -> Flags:
        """Whether one replica less of some choice still covers all demand."""
        choices = self._priced.choices
        spare = begun.covered - self._priced.rows.demand[begun.row]
        found = np.zeros(len(spare), dtype=np.bool_)
        for choice, count in zip(*_history(np.arange(len(spare)), steps), strict=True):
            # The standing count may still be worth it, because it changes nothing.
            is_free = (count > np.maximum(choices.lowest[choice], 1)) & (count != choices.standing[choice])
            found |= (choice >= 0) & is_free & (choices.carried[choice] <= spare)
        return found

    def _configurations(self, row: Integers, steps: list[_Step]) -> Configurations:
        chosen, counts = _history(np.arange(len(row)), steps)
        block = self._priced.block_of_row[row]
        return configurations_of(block, chosen, counts, len(self._priced.choices.keys))


def _idle_or(idle: Integers, owner: Integers, choice: Integers, count: Integers) -> _Step:
    """The step that leaves the variant idle for some, and adds counts of choices to others."""
    return _Step(
        np.concatenate([idle, owner]),
        np.concatenate([np.full(len(idle), -1), choice]),
        np.concatenate([np.zeros(len(idle), dtype=np.int64), count]),
    )


def _history(found: Integers, steps: list[_Step]) -> tuple[list[Integers], list[Integers]]:
    """By step, the last first, the choices and counts that led to these partial configurations."""
    chosen, counts = [], []
    for step in reversed(steps):
        chosen.append(step.choice[found])
        counts.append(step.count[found])
        found = step.before[found]
    return chosen, counts
