"""The best plan of a formulation: by prices and whole configurations, or by one direct programme."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.fleet.configurations import Worth, configurations_from, worth
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.generation import EXCESS, generate
from reconciler.optimizer.fleet.mixed_integer import solve_mixed_integer
from reconciler.optimizer.fleet.rounding import GAP, round_shares
from reconciler.optimizer.fleet.sparse import Floats, Integers, sums

_NODES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Replicas by choice, their value, the bound on any plan's value, and a price of each shared row."""

    counts: Integers
    value: float
    bound: float
    prices: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """No plan keeps all rows: by how much each shared row is exceeded at least, and blocks without configuration."""

    excess: Floats
    blocks: Integers


Planned = FleetPlan | Infeasible | None
"""A plan, why there is none, or None where the limits were reached before any was found."""

Planner = Callable[[Formulation], Planned]


def plan_by_columns(formulation: Formulation) -> Planned:
    """The best plan found by prices and whole configurations."""
    if not formulation.choices.keys:
        return _empty(formulation)
    generated = generate(formulation)
    if len(generated.infeasible) or generated.excess.max(initial=0.0) > EXCESS:
        return Infeasible(excess=generated.excess, blocks=generated.infeasible)
    rounded = round_shares(formulation, generated)
    if rounded is None:
        return None
    counts = np.rint(sums(rounded.configurations.counts)).astype(np.int64)
    return FleetPlan(counts=counts, value=rounded.value, bound=rounded.bound, prices=generated.prices)


def plan_directly(formulation: Formulation) -> Planned:
    """The best plan that one programme over all replicas finds within its limit; it knows no prices."""
    if not formulation.choices.keys:
        return _empty(formulation)
    found = solve_mixed_integer(formulation, gap=GAP, nodes=_NODES)
    counts = formulation.known_counts if found.counts is None else found.counts
    if counts is None:
        nothing = np.zeros(len(formulation.shared))
        return Infeasible(excess=nothing, blocks=np.zeros(0, dtype=np.int64)) if found.bound == np.inf else None
    value = value_of(formulation, counts)
    prices = np.zeros(len(formulation.shared))
    return FleetPlan(counts=counts, value=value, bound=min(found.bound, value), prices=prices)


def in_order(formulation: Formulation, plan: FleetPlan, planner: Planner) -> tuple[Formulation, FleetPlan]:
    """The cheapest plan that keeps the accelerators which the plan takes for variants in order, without their penalty.

    The penalty is so large that what all others cost would be float noise beside it, in the proof as well.
    """
    choices = formulation.choices
    is_late = (plan.counts > 0) & (choices.fixed > 0)
    if not is_late.any():
        return formulation, plan
    is_ordered = np.bincount(choices.variant, choices.fixed > 0)[choices.variant] > 0
    is_idle = np.bincount(choices.variant, plan.counts)[choices.variant] == 0
    is_open = ~is_ordered | (plan.counts > 0) | (is_idle & (choices.fixed == 0))
    decided = replace(
        formulation,
        choices=replace(choices, fixed=np.zeros_like(choices.fixed), highest=np.where(is_open, choices.highest, 0)),
        known_counts=plan.counts,
    )
    again = planner(decided)
    return (decided, again) if isinstance(again, FleetPlan) else (formulation, plan)


def _empty(formulation: Formulation) -> FleetPlan:
    nothing = np.zeros(0, dtype=np.int64)
    value = value_of(formulation, nothing)
    return FleetPlan(counts=nothing, value=value, bound=value, prices=np.zeros(len(formulation.shared)))


def value_of(formulation: Formulation, counts: Integers) -> float:
    """The objective's value of a whole plan, in the formulation's unit."""
    return float(_worth(formulation, counts).value.sum())


def use_of(formulation: Formulation, counts: Integers) -> Floats:
    """What a whole plan takes of each shared row."""
    return sums(_worth(formulation, counts).use)


def covered_by(formulation: Formulation, counts: Integers) -> Floats:
    """What a whole plan carries, by row, in shares of its demand."""
    amounts = formulation.choices.carried * counts
    rows = len(formulation.rows.requirements)
    return np.bincount(formulation.choices.row, amounts, minlength=rows).astype(np.float64)


def _worth(formulation: Formulation, counts: Integers) -> Worth:
    choices, blocks = np.arange(len(counts)), np.arange(formulation.blocks)
    return worth(formulation, configurations_from(formulation, choices, counts, blocks))
