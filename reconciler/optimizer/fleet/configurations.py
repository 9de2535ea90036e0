"""Configurations: what one model may run, as integer replicas by choice, with what each is worth and uses.

A *block* is a model with all its roles, or whatever else only ratios join: the unit that is decided alone once what is
shared has a price.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.sparse import (
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
)

if TYPE_CHECKING:
    from reconciler.optimizer.sparse import Matrix


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
