"""Configurations (the replicas of one model by choice): their value, their use of shared rows, and their neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import (
    Flags,
    Floats,
    Indices,
    Integers,
    Numbers,
    by_cells,
    by_rows,
    owners,
    plain,
    stacked,
    sums,
)

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

# --- was reconciler/optimizer/fleet/configurations.py:
# Configurations: what one model may run, as integer replicas by choice, with what each is worth and uses. A *block*
# is a model with all its roles, or whatever else only ratios join: the unit that is decided alone once what is shared
# has a price.


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """By configuration: its block and its replicas by choice (sparse, configurations x choices)."""

    block: Integers
    counts: "Matrix"

    def __len__(self) -> int:
        return len(self.block)

    def at(self, chosen: Integers | Flags) -> "Configurations":
        """Those of an index or a mask."""
        return Configurations(block=self.block[chosen], counts=self.counts[chosen])


def joined(parts: Sequence[Configurations]) -> Configurations:
    """All of several."""
    return Configurations(
        block=np.concatenate([part.block for part in parts]), counts=stacked([part.counts for part in parts])
    )


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
class Worth:
    """What configurations are worth and use: the objective's value, and the shared rows (configurations x rows)."""

    value: Floats
    use: "Matrix"


def worth(formulation: Formulation, configurations: Configurations) -> Worth:
    """The value of each configuration under the formulation's own costs, shortage of priced segments included."""
    choices, variants, shared = formulation.choices, formulation.variants, formulation.shared
    counts = configurations.counts
    chosen, numbers = counts.indices, counts.data
    entry = choice_value(formulation, chosen, numbers)
    value = np.bincount(owners(counts), entry, minlength=len(configurations)).astype(np.float64)
    idle_by_block = np.bincount(formulation.block_of_row, idle_value(formulation), minlength=formulation.blocks)
    value += idle_by_block[configurations.block] + _shortage(formulation, configurations)
    use = counts @ shared.use.T
    if shared.use_touching.nnz:
        changed = touched(formulation, chosen, numbers)
        changes = by_rows(changed, choices.variant[chosen], counts.indptr, (len(configurations), len(variants.keys)))
        idle = plain(_was_active(formulation) @ shared.use_touching.T)[configurations.block]
        use = use + changes @ shared.use_touching.T + idle
    return Worth(value=value, use=plain(use))


def _was_active(formulation: Formulation) -> "Matrix":
    """Which variants of a block were active (blocks x variants)."""
    variants = formulation.variants
    block = formulation.block_of_row[variants.row]
    shape = (formulation.blocks, len(variants.keys))
    return by_cells(variants.was_active.astype(np.float64), block, np.arange(len(variants.keys)), shape)


def _shortage(formulation: Formulation, configurations: Configurations) -> Floats:
    """What the uncovered parts of priced segments cost; a row's segments are filled by falling price."""
    choices = formulation.choices
    total = np.zeros(len(configurations))
    if not formulation.rows.amounts.size:
        return total
    members = formulation.rows_of_block
    for position in range(members.shape[1]):
        row = members[configurations.block, position]
        covered = _covered(configurations, choices.carried, choices.row, row)
        total += np.where(row >= 0, shortage(formulation, row, covered), 0.0)
    return total


def _covered(configurations: Configurations, carried: Floats, row_of_choice: Integers, row: Integers) -> Floats:
    counts = configurations.counts
    owner = owners(counts)
    is_of_row = row_of_choice[counts.indices] == row[owner]
    amounts = counts.data * carried[counts.indices] * is_of_row
    return np.bincount(owner, amounts, minlength=len(configurations)).astype(np.float64)


def replicas_for(amount: Floats, carried: Floats) -> Integers:
    """The fewest replicas that carry an amount; one more than any fleet has where it is beyond all."""
    with np.errstate(over="ignore"):
        needed = np.ceil(amount / carried - TOLERANCE)
    return np.clip(needed, 0, UNBOUNDED + 1).astype(np.int64)


def shortage_cost(must: Floats, amounts: Floats, prices: Floats, covered: Floats) -> Floats:
    """What is not covered of the segments above `must`, at their prices; one more axis holds the segments."""
    left = covered - must
    cost = np.zeros_like(covered)
    for column in range(amounts.shape[-1]):
        amount = amounts[..., column]
        short = np.clip(amount - left, 0.0, amount)
        cost += prices[..., column] * np.where(short > TOLERANCE * amount, short, 0.0)
        left = left - amount
    return cost


def choice_value(priced: Formulation, choice: Indices, count: Numbers) -> Floats:
    """A choice's value with `count` > 0 replicas, beside the value of an idle variant."""
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
    """What is not covered of the rows' priced segments, at their prices."""
    rows = priced.rows
    if not rows.amounts.size:
        return np.zeros(len(row))
    return shortage_cost(rows.must[row], rows.amounts[row], rows.prices[row], covered)


# --- was reconciler/optimizer/fleet/exchanges.py:
# Configurations next to those of a plan: fewer replicas of one choice of a model, more of another, or one of both.

_FEWER = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024])
"""How many replicas of a choice go at once, besides all of them."""


@dataclass(frozen=True, slots=True)
class _Exchanges:
    """By exchange: the row, the choice that loses replicas and how many, the one that gains and how many (-1: none)."""

    row: Integers
    left: Integers
    fewer: Integers
    right: Integers
    more: Integers

    def at(self, chosen: Integers | Flags) -> "_Exchanges":
        return _Exchanges(
            self.row[chosen], self.left[chosen], self.fewer[chosen], self.right[chosen], self.more[chosen]
        )


def exchanged(formulation: Formulation, plan: Configurations) -> Configurations:
    """Every configuration that one exchange makes of a plan's (one a block), of blocks of one row.

    A gain covers what the loss did, one replica less or more than that, all that is asked for, or is one replica.
    """
    counts = sums(plan.counts).astype(np.int64)
    losses = _losses(formulation, counts)
    exchanges = _joined([losses, *_gains(formulation, counts, losses)])
    block = formulation.block_of_row[exchanges.row]
    found = plain(plan.counts[np.argsort(plan.block)][block] + _changes(exchanges, len(counts)))
    found.eliminate_zeros()
    kept = np.flatnonzero(_is_allowed(formulation, exchanges.row, found))
    return Configurations(block=block[kept], counts=found[kept])


def _losses(formulation: Formulation, counts: Integers) -> _Exchanges:
    """Fewer replicas of each choice, and of each row nothing fewer."""
    is_alone = np.bincount(formulation.block_of_row)[formulation.block_of_row] == 1
    used = np.flatnonzero((counts > 0) & is_alone[formulation.choices.row])
    entry, place = np.nonzero(_FEWER[None, :] < counts[used][:, None])
    left, fewer = np.concatenate([used[entry], used]), np.concatenate([_FEWER[place], counts[used]])
    rows = np.flatnonzero(is_alone)
    none, nothing = np.full(len(rows), -1), np.zeros(len(rows), dtype=np.int64)
    row = np.concatenate([formulation.choices.row[left], rows])
    return _Exchanges(
        row,
        np.concatenate([left, none]),
        np.concatenate([fewer, nothing]),
        np.full(len(row), -1),
        np.zeros(len(row), dtype=np.int64),
    )


def _gains(formulation: Formulation, counts: Integers, losses: _Exchanges) -> list[_Exchanges]:
    """After each loss more replicas of each other choice of the row."""
    choices, rows, starts = formulation.choices, formulation.rows, formulation.choice_starts
    sizes = starts[losses.row + 1] - starts[losses.row]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    right = starts[losses.row[owner]] + np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
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


def _joined(parts: list[_Exchanges]) -> _Exchanges:
    names = ("row", "left", "fewer", "right", "more")
    row, left, fewer, right, more = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _Exchanges(row, left, fewer, right, more)


def _changes(exchanges: _Exchanges, width: int) -> "Matrix":
    """By exchange what it adds to each choice."""
    every = np.arange(len(exchanges.row))
    loses, gains = exchanges.left >= 0, exchanges.right >= 0
    values = np.concatenate([-exchanges.fewer[loses], exchanges.more[gains]])
    columns = np.concatenate([exchanges.left[loses], exchanges.right[gains]])
    return by_cells(values, np.concatenate([every[loses], every[gains]]), columns, (len(every), width))


def _is_allowed(formulation: Formulation, row: Integers, counts: "Matrix") -> Flags:
    """Whether configurations of these rows keep bounds, cover what they must, and let as many variants serve as may."""
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
