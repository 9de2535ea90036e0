"""The terms of a configuration's value, by flat arrays of choices and counts."""

import numpy as np

from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.fleet.sparse import Floats, Indices, Integers, Numbers


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
