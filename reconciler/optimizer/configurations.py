"""Configurations (the replicas of one model by choice): their value, their use of shared rows, and their neighbours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.optimizer.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import (
    Arrays,
    Flags,
    Floats,
    Indices,
    Integers,
    Numbers,
    by_cells,
    by_rows,
    owners,
    plain,
    spread,
    sums,
)

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations(Arrays):
    """By configuration: its block and its replicas by choice (sparse, configurations x choices).

    A *block* is a model with all its roles, or whatever else ratios join: what is decided alone once shared rows have a
    price.
    """

    block: Integers
    counts: "Matrix"

    def __len__(self) -> int:
        return len(self.block)


def configurations_of(
    block: Integers, choices: Sequence[Integers], counts: Sequence[Integers], width: int
) -> Configurations:
    """Configurations with at most one entry for each pair of `choices` and `counts`; a choice of -1 is none."""
    chosen, numbers = np.stack(choices, axis=1), np.stack(counts, axis=1)
    is_taken = (chosen >= 0) & (numbers > 0)
    begins = np.concatenate([[0], np.cumsum(is_taken.sum(axis=1))])
    return Configurations(block=block, counts=by_rows(numbers[is_taken], chosen[is_taken], begins, (len(block), width)))


def configurations_from(
    formulation: Formulation, choices: Integers, counts: Integers, blocks: Integers
) -> Configurations:
    """A plan of some blocks (in rising order) as the configuration of each: replicas of these choices."""
    taken = counts > 0
    chosen = choices[taken]
    place = np.searchsorted(blocks, formulation.block_of_row[formulation.choices.row[chosen]])
    shape = (len(blocks), len(formulation.choices.keys))
    return Configurations(block=blocks, counts=by_cells(counts[taken], place, chosen, shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth(Arrays):
    """By configuration the objective's value, and what it uses of shared rows (configurations x rows)."""

    value: Floats
    use: "Matrix"


def worth(formulation: Formulation, configurations: Configurations) -> Worth:
    """The value of each configuration under the formulation's own costs, shortage of priced segments included."""
    choices, variants, shared = formulation.choices, formulation.variants, formulation.shared
    counts, size = configurations.counts, len(configurations)
    owner, chosen, numbers = owners(counts), counts.indices, counts.data
    value = np.bincount(owner, choice_value(formulation, chosen, numbers), minlength=size).astype(np.float64)
    idle_by_block = np.bincount(formulation.block_of_row, idle_value(formulation), minlength=formulation.blocks)
    short = np.zeros(size)
    if formulation.rows.amounts.size:
        for row in formulation.rows_of_block[configurations.block].T:
            amounts = numbers * choices.carried[chosen] * (choices.row[chosen] == row[owner])
            covered = np.bincount(owner, amounts, minlength=size).astype(np.float64)
            short += np.where(row >= 0, shortage(formulation, row, covered), 0.0)
    value += idle_by_block[configurations.block] + short
    use = counts @ shared.use.T
    if shared.use_touching.nnz:
        changed = touched(formulation, chosen, numbers)
        changes = by_rows(changed, choices.variant[chosen], counts.indptr, (size, len(variants.keys)))
        shape = (formulation.blocks, len(variants.keys))
        columns = np.arange(len(variants.keys))
        was_active = by_cells(variants.was_active, formulation.block_of_row[variants.row], columns, shape)
        idle = plain(was_active @ shared.use_touching.T)[configurations.block]
        use = use + changes @ shared.use_touching.T + idle
    return Worth(value=value, use=plain(use))


def replicas_for(amount: Floats, carried: Floats) -> Integers:
    """The fewest replicas that carry an amount; one more than any fleet has where it is beyond all."""
    with np.errstate(over="ignore"):
        needed = np.ceil(amount / carried - TOLERANCE)
    return np.clip(needed, 0, UNBOUNDED + 1).astype(np.int64)


def choice_value(priced: Formulation, choice: Indices, count: Numbers) -> Floats:
    """A choice's value with `count` > 0 replicas, in addition to the value of an idle variant."""
    choices, variants = priced.choices, priced.variants
    value: Floats = choices.fixed[choice] + choices.cost[choice] * count
    value += choices.start[choice] * np.maximum(count - choices.standing[choice], 0)
    if variants.touch.any():
        value += variants.touch[choices.variant[choice]] * touched(priced, choice, count)
    return value


def touched(priced: Formulation, choice: Indices, count: Numbers) -> Floats:
    """Whether `count` > 0 replicas of a choice change its variant: 1 or 0, less 1 where going idle would as well."""
    choices = priced.choices
    is_changed = (count != choices.standing[choice]) | ~choices.is_standing[choice]
    changes: Floats = is_changed.astype(np.float64) - priced.variants.was_active[choices.variant[choice]]
    return changes


def idle_value(priced: Formulation) -> Floats:
    """By row what it costs to touch every variant that was active, as if all became idle."""
    variants = priced.variants
    weights = variants.touch * variants.was_active
    return np.bincount(variants.row, weights, minlength=len(priced.rows.requirements)).astype(np.float64)


def shortage(priced: Formulation, row: Integers, covered: Floats) -> Floats:
    """What is not covered of the rows' priced segments, at their prices; the dearest segments are filled first."""
    rows, cost = priced.rows, np.zeros(len(row))
    if not rows.amounts.size:
        return cost
    left = covered - rows.must[row]
    for amount, price in zip(rows.amounts[row].T, rows.prices[row].T, strict=True):
        short = np.clip(amount - left, 0.0, amount)
        cost += price * np.where(short > TOLERANCE * amount, short, 0.0)
        left = left - amount
    return cost


_FEWER = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024])
"""How many replicas of a choice an exchange may take, besides all of them."""


@dataclass(frozen=True, slots=True)
class _Exchanges(Arrays):
    """The row, the choice that loses replicas and how many, the one that gains and how many (-1: none)."""

    row: Integers
    left: Integers
    fewer: Integers
    right: Integers
    more: Integers


def exchanged(formulation: Formulation, plan: Configurations) -> Configurations:
    """Every configuration that one exchange makes of a plan's (one a block), for blocks of one row.

    An exchange takes replicas of one choice of a model, adds replicas of another, or does both. What is added covers
    what was taken, one replica less or more than that, the whole demand, or is one replica.
    """
    counts = sums(plan.counts).astype(np.int64)
    losses = _losses(formulation, counts)
    exchanges = _Exchanges.joined([losses, *_gains(formulation, counts, losses)])
    every, loses, gains = np.arange(len(exchanges.row)), exchanges.left >= 0, exchanges.right >= 0
    changes = by_cells(
        np.concatenate([-exchanges.fewer[loses], exchanges.more[gains]]),
        np.concatenate([every[loses], every[gains]]),
        np.concatenate([exchanges.left[loses], exchanges.right[gains]]),
        (len(every), len(counts)),
    )
    block = formulation.block_of_row[exchanges.row]
    found = plain(plan.counts[np.argsort(plan.block)][block] + changes)
    found.eliminate_zeros()
    return Configurations(block=block, counts=found).at(np.flatnonzero(_is_allowed(formulation, exchanges.row, found)))


def _losses(formulation: Formulation, counts: Integers) -> _Exchanges:
    """Fewer replicas of each choice, and for each row a loss of nothing."""
    is_alone = np.bincount(formulation.block_of_row)[formulation.block_of_row] == 1
    used = np.flatnonzero((counts > 0) & is_alone[formulation.choices.row])
    entry, place = np.nonzero(_FEWER[None, :] < counts[used][:, None])
    left, fewer = np.concatenate([used[entry], used]), np.concatenate([_FEWER[place], counts[used]])
    rows = np.flatnonzero(is_alone)
    row = np.concatenate([formulation.choices.row[left], rows])
    return _Exchanges(
        row,
        np.concatenate([left, np.full(len(rows), -1)]),
        np.concatenate([fewer, np.zeros(len(rows), dtype=np.int64)]),
        np.full(len(row), -1),
        np.zeros(len(row), dtype=np.int64),
    )


def _gains(formulation: Formulation, counts: Integers, losses: _Exchanges) -> list[_Exchanges]:
    """After each loss more replicas of each other choice of the row."""
    choices, rows, starts = formulation.choices, formulation.rows, formulation.choice_starts
    owner, place = spread(starts[losses.row + 1] - starts[losses.row])
    right = starts[losses.row[owner]] + place
    after = losses.at(owner)
    covered = np.bincount(choices.row, choices.carried * counts, minlength=len(rows.requirements))
    rest = covered[after.row] - np.where(after.left >= 0, choices.carried[after.left] * after.fewer, 0.0)
    demand, each = rows.demand[after.row], choices.carried[right]
    same = replicas_for(np.maximum(np.minimum(covered[after.row], demand) - rest, 0.0), each)
    full = replicas_for(np.maximum(demand - rest, 0.0), each)
    is_useful = (right != after.left) & (counts[right] < choices.highest[right])
    most = np.minimum(full, choices.highest[right] - counts[right])
    return [
        _Exchanges(after.row, after.left, after.fewer, right, more).at(is_useful & (more >= 1) & (more <= most))
        for more in (same, same - 1, same + 1, full, np.ones_like(same))
    ]


def _is_allowed(formulation: Formulation, row: Integers, counts: "Matrix") -> Flags:
    """Whether configurations of these rows keep bounds, cover what they must, and have few enough active variants."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    owner, chosen, size = owners(counts), counts.indices, len(row)

    def total(values: Floats | Flags) -> Floats:
        return np.bincount(owner, values, minlength=size).astype(np.float64)

    variant = choices.variant[chosen]
    active = np.bincount(owner, minlength=size)
    pairs = np.unique(np.stack([owner, variant]), axis=1)[0]
    forced = np.bincount(variants.row, variants.is_forced, minlength=len(rows.requirements))[row]
    is_bounded = total((counts.data < choices.lowest[chosen]) | (counts.data > choices.highest[chosen])) == 0
    is_single = (np.bincount(pairs, minlength=size) == active) & (active <= rows.active_limit[row])
    is_covered = total(choices.carried[chosen] * counts.data) >= rows.must[row] * (1 - TOLERANCE)
    result: Flags = is_bounded & is_single & is_covered & (total(variants.is_forced[variant]) == forced)
    return result
