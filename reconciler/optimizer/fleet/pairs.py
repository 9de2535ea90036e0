"""The best configurations of many models at once, where at most two variants of a model serve: exact enumeration.

With one variant the best count is known in closed form: value is convex in it, so the integers next to where the
marginal cost meets the marginal price of the demand, besides the standing count, where touching costs something. With
two, every useful count of the one that needs fewer is tried, and the other is known again. All models are evaluated
together, as flat arrays of (model, pair, count).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import choice_value, idle_value, replicas_for, shortage
from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.fleet.narrowing import Narrowing
from reconciler.optimizer.sparse import Flags, Floats, Integers

LONGEST = 4096
"""Counts that are tried of a pair's smaller side; a model that needs more is looked at as one of many variants."""

_CHUNK = 400_000
"""Entries evaluated at once: some 100 MB of arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCounts:
    """The best configuration of each single choice and each pair, in row order; `second` is -1 for a single.

    `value` is infinite where none is feasible. A row's configuration without replicas has both choices -1.
    """

    row: Integers
    first: Integers
    first_count: Integers
    second: Integers
    second_count: Integers
    value: Floats

    def at(self, chosen: Integers | Flags) -> "BestCounts":
        """Those of an index or a mask."""
        return BestCounts(
            row=self.row[chosen],
            first=self.first[chosen],
            first_count=self.first_count[chosen],
            second=self.second[chosen],
            second_count=self.second_count[chosen],
            value=self.value[chosen],
        )


def merged(parts: list[BestCounts]) -> BestCounts:
    """All of several."""
    return BestCounts(
        row=np.concatenate([each.row for each in parts]),
        first=np.concatenate([each.first for each in parts]),
        first_count=np.concatenate([each.first_count for each in parts]),
        second=np.concatenate([each.second for each in parts]),
        second_count=np.concatenate([each.second_count for each in parts]),
        value=np.concatenate([each.value for each in parts]),
    )


class Pairs:
    """What does not depend on prices: which singles and pairs there are, and which counts are worth trying.

    Of the rows of `is_paired` these are all configurations. Of those of `is_mixed` more variants may serve, and these
    are most of what is any good; all others belong to the general search.
    """

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        self.is_paired, self._is_lone = _is_paired(formulation)
        choices, variants = formulation.choices, formulation.variants
        count = len(formulation.rows.requirements)
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
        """Rows of which no configuration needs the general search, unless there are too many of them."""
        return self.is_paired | self.is_mixed

    def best(self, priced: Formulation, *, near: float = 0.0, regret: float = 0.0) -> BestCounts:
        """The best of each single and pair under the costs of `priced`, which is this fleet with prices added.

        Pairs that are worse than the best of their row by more than the fraction `near` and `regret` may be missing.
        """
        parts = [self._idle(priced), self._alone(priced)]
        tried = self._tried(priced, _limit(least_by_row(priced, merged(parts)), near, regret))
        parts += [_together(priced, part) for part in tried.parts()]
        return merged(parts)

    def _pairs_of(self, formulation: Formulation) -> "_Sides":
        """Choices of two variants of one row, and how many counts of each are of any use."""
        choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
        allowed = self._is_lone & (rows.active_limit >= 2)
        left, right = _within_rows(formulation, allowed)
        is_apart = choices.variant[left] != choices.variant[right]
        forced = variants.is_forced[choices.variant[left]].astype(np.int64)
        forced += variants.is_forced[choices.variant[right]]
        is_usable = (choices.highest[left] > 0) & (choices.highest[right] > 0)
        keep = is_apart & is_usable & (forced == self._forced[choices.row[left]])
        left, right = left[keep], right[keep]
        return _Sides(left, right, self._useful(left, right), self._useful(right, left))

    def _tried(self, priced: Formulation, limit: Floats) -> "_Tried":
        """The counts to try of one side of each pair: of the side that has fewer."""
        pairs, narrowing = self._pairs, Narrowing.of(priced, limit)
        first_left, last_left = narrowing.counts(pairs.left, pairs.right, pairs.most_left)
        first_right, last_right = narrowing.counts(pairs.right, pairs.left, pairs.most_right)
        swap = last_right - first_right < last_left - first_left
        one, other = np.where(swap, pairs.right, pairs.left), np.where(swap, pairs.left, pairs.right)
        begin, end = np.where(swap, first_right, first_left), np.where(swap, last_right, last_left) + 1
        is_open = begin < end
        return _Tried(one[is_open], other[is_open], begin[is_open], (end - begin)[is_open])

    def _useful(self, choice: Integers, other: Integers) -> Integers:
        """The largest count worth trying beside at least one replica of the other."""
        choices, demand = self._formulation.choices, self._formulation.rows.demand
        rest = np.maximum(demand[choices.row[choice]] - choices.carried[other], 0.0)
        needed = replicas_for(rest, choices.carried[choice])
        needed = np.maximum.reduce([needed, choices.lowest[choice], choices.standing[choice], np.ones_like(needed)])
        return np.minimum(needed, choices.highest[choice])

    def _idle(self, priced: Formulation) -> BestCounts:
        """No replicas at all, where nothing is forced or must be covered."""
        rows = priced.rows
        is_allowed = self._is_lone & (self._forced == 0) & (rows.must <= 0)
        row = np.flatnonzero(is_allowed)
        none = np.full(len(row), -1)
        value = idle_value(priced)[row] + shortage(priced, row, np.zeros(len(row)))
        zero = np.zeros(len(row), dtype=np.int64)
        return BestCounts(row=row, first=none, first_count=zero, second=none, second_count=zero, value=value)

    def _alone(self, priced: Formulation) -> BestCounts:
        choice = self._singles
        row = priced.choices.row[choice]
        nothing = np.zeros(len(choice))
        count, value = fill(priced, choice, nothing)
        value = value + idle_value(priced)[row]
        return BestCounts(
            row=row,
            first=choice,
            first_count=count,
            second=np.full(len(choice), -1),
            second_count=np.zeros(len(choice), dtype=np.int64),
            value=value,
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Pairs of choices, with the largest count of each side that is of use beside the other."""

    left: Integers
    right: Integers
    most_left: Integers
    most_right: Integers

    def at(self, chosen: Flags) -> "_Sides":
        return _Sides(self.left[chosen], self.right[chosen], self.most_left[chosen], self.most_right[chosen])


@dataclass(frozen=True, slots=True)
class _Tried:
    """Pairs of choices, and the counts to try of the first: so many from the lowest."""

    first: Integers
    second: Integers
    lowest: Integers
    counts: Integers

    def parts(self) -> Iterator["_Tried"]:
        """Slices that fit into memory."""
        for part in slices(self.counts):
            yield _Tried(self.first[part], self.second[part], self.lowest[part], self.counts[part])


def slices(sizes: Integers) -> Iterator[slice]:
    """Neighbours that together have not many more entries than are evaluated at once."""
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
    pair = np.repeat(np.arange(len(tried.first)), tried.counts)
    begins = np.cumsum(tried.counts) - tried.counts
    number = np.arange(len(pair)) + (tried.lowest - begins)[pair]
    one, other = tried.first[pair], tried.second[pair]
    count, value = fill(priced, other, choices.carried[one] * number)
    value = value + choice_value(priced, one, number)
    value[number < choices.lowest[one]] = np.inf
    least = np.minimum.reduceat(value, begins)
    found = np.flatnonzero(value == least[pair])
    winner = found[np.searchsorted(pair[found], np.arange(len(begins)))]
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


def _limit(least: Floats, near: float, regret: float) -> Floats:
    """What is near enough to be looked at: all where nothing is known."""
    magnitude = np.where(np.isfinite(least), np.abs(least), 0.0)
    limit: Floats = least + near * magnitude + regret
    return limit


def _is_paired(formulation: Formulation) -> tuple[Flags, Flags]:
    """Rows that no ratio joins to others, of which at most two variants serve at once; and without that condition."""
    rows, variants = formulation.rows, formulation.variants
    count = len(rows.requirements)
    is_lone = np.bincount(formulation.block_of_row, minlength=formulation.blocks)[formulation.block_of_row] == 1
    members = np.bincount(variants.row, minlength=count)
    return is_lone & (np.minimum(members, rows.active_limit) <= 2), is_lone


def _within_rows(formulation: Formulation, allowed: Flags) -> tuple[Integers, Integers]:
    """Every two choices of one row, the earlier on the left, for the rows that are allowed."""
    starts = formulation.choice_starts
    size = np.where(allowed, np.diff(starts), 0)
    later = np.repeat(starts[1:], size)
    left = np.concatenate([np.arange(a, a + n) for a, n in zip(starts[:-1], size, strict=True)] or [np.zeros(0, int)])
    partners = later - left - 1
    one = np.repeat(left, partners)
    begins = np.cumsum(partners) - partners
    other = np.arange(len(one)) - np.repeat(begins, partners) + one + 1
    return one.astype(np.int64), other.astype(np.int64)


def fill(priced: Formulation, choice: Integers, covered: Floats) -> tuple[Integers, Floats]:
    """The best count of `choice`, at least one, beside what is covered already, and what both are worth from there.

    The value is the choice's own and the shortage's; infinite where the bounds leave no count.
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
    choices, rows = priced.choices, priced.rows
    standing = np.clip(choices.standing[choice], least, np.maximum(most, least))
    yield standing
    if not rows.amounts.size:
        yield least
        return
    carried = choices.carried[choice]
    running, starting = _wanted(priced)
    kept = np.minimum((running[choice] - covered) / carried, choices.standing[choice])
    ideal = np.clip(np.maximum(kept, (starting[choice] - covered) / carried), 0, UNBOUNDED)
    for count in (np.floor(ideal + TOLERANCE), np.ceil(ideal - TOLERANCE)):
        yield np.clip(count.astype(np.int64), least, np.maximum(most, least))


def _wanted(priced: Formulation) -> tuple[Floats, Floats]:
    """By choice how much demand is worth its running cost, and how much is worth starting a replica too."""
    choices, rows = priced.choices, priced.rows
    amounts, prices = rows.amounts[choices.row], rows.prices[choices.row]
    gain = prices * choices.carried[:, None]
    running = rows.must[choices.row] + (amounts * (gain > choices.cost[:, None])).sum(axis=1)
    starting = rows.must[choices.row] + (amounts * (gain > (choices.cost + choices.start)[:, None])).sum(axis=1)
    return running, starting
