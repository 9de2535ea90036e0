"""Rules that no plan can keep together, named as the fewest that are enough; their models are held.

What is looked at are bounds, ratios and what is pinned against pools, budgets and limits, without any demand: that
demand does not fit is no conflict, it is scarcity. The proof of a conflict are prices of the shared rows at which the
least that some models must take costs more than all there is (Farkas): those models and the priced rows contradict
each other, and the models that take most are enough of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reconciler.domain.identity import ModelKey
from reconciler.domain.requirements import Problem
from reconciler.domain.solutions import Conflict
from reconciler.optimizer.fleet.formulating import formulate
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.generation import EXCESS, Generated, best_by_block, generate
from reconciler.optimizer.fleet.planning import FleetPlan, Planner
from reconciler.optimizer.fleet.sparse import Flags, Floats, Integers

_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentProblem:
    """A problem whose rules some plan keeps, as arrays, and what was held to get there."""

    formulation: Formulation
    conflicts: tuple[Conflict, ...]
    is_changed: bool
    """Whether something was held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contradiction:
    """Blocks that cannot keep their own rules, or not beside the shared rows of which they take too much.

    `taken` is the least that they take of the one shared row that is short; None where more than one is.
    """

    blocks: Integers
    rows: Integers
    taken: float | None = None


def settle(formulation: Formulation, planner: Planner) -> ConsistentProblem:
    """The problem with the models of every conflict held, so that a plan exists that keeps all rules."""
    conflicts: list[Conflict] = []
    while True:
        found = _contradiction(_without_demand(formulation), planner)
        if found is None or not len(found.blocks):
            break
        conflicts.append(_conflict(formulation, found))
        held = formulation.block_of_row[formulation.variants.row]
        keys = [key for key, block in zip(formulation.variants.keys, held, strict=True) if block in found.blocks]
        problem = formulation.problem
        formulation = formulate(
            replace(problem, pinned={**problem.pinned, **{key: problem.current[key] for key in keys}})
        )
    return ConsistentProblem(formulation=formulation, conflicts=tuple(conflicts), is_changed=bool(conflicts))


def _without_demand(formulation: Formulation) -> Formulation:
    rows = formulation.rows
    return formulation.with_demand(np.zeros_like(rows.must), rows.amounts[:, :0], rows.prices[:, :0])


def _contradiction(formulation: Formulation, planner: Planner) -> _Contradiction | None:
    """What no plan of the formulation can keep; None where there is one, or nobody is left to hold."""
    if not formulation.choices.keys:
        return None
    generated = generate(_without_costs(formulation))
    if len(generated.infeasible):
        return _Contradiction(blocks=generated.infeasible, rows=np.zeros(0, dtype=np.int64))
    if generated.excess.max(initial=0.0) > EXCESS:
        return _beside_shared(formulation, generated)
    if isinstance(planner(formulation), FleetPlan):
        return None
    return _between(formulation, generate(formulation))


def _without_costs(formulation: Formulation) -> Formulation:
    """Of the same rules, where only what exceeds a shared row counts."""
    choices, variants = formulation.choices, formulation.variants
    free = np.zeros(len(choices.keys))
    return replace(
        formulation,
        choices=replace(choices, fixed=free, cost=free, start=free),
        variants=replace(variants, touch=np.zeros(len(variants.keys))),
    )


def _beside_shared(formulation: Formulation, generated: Generated) -> _Contradiction:
    """The fewest blocks that take more of the priced rows, at these prices, than there is."""
    known, prices = generated.known, generated.prices
    least = known.at(best_by_block(formulation.blocks, known.configurations.block, known.reduced(prices)))
    needed = least.reduced(prices)
    order = np.argsort(-needed, kind="stable")
    order = order[needed[order] > _NOISE]
    limit = float(prices @ formulation.shared.limits)
    enough = int(np.searchsorted(np.cumsum(needed[order]), limit + _NOISE * max(limit, 1.0), side="right")) + 1
    blocks, rows = np.sort(order[:enough]), np.flatnonzero(prices > _NOISE)
    if not len(blocks) or enough > len(order):
        # The rounds were over before the prices proved anything: whoever uses what is exceeded is held.
        rows = np.flatnonzero(generated.excess > EXCESS)
        taken_by_block: Floats = np.zeros(len(least)) + least.worth.use @ (generated.excess > EXCESS).astype(np.float64)
        return _Contradiction(blocks=np.flatnonzero(taken_by_block > _NOISE), rows=rows)
    taken = (
        float(needed[blocks].sum() / prices[rows[0]] * formulation.shared.units[rows[0]]) if len(rows) == 1 else None
    )
    return _Contradiction(blocks=blocks, rows=rows, taken=taken)


def _between(formulation: Formulation, generated: Generated) -> _Contradiction | None:
    """Where only fractions of configurations fit: the blocks that the programme splits, and the rows that are full."""
    split = (generated.share > EXCESS) & (generated.share < 1 - EXCESS)
    blocks = np.unique(generated.known.configurations.block[split])
    left: Floats = formulation.shared.limits - generated.known.worth.use.T @ generated.share
    rows = np.flatnonzero(left <= EXCESS)
    return _Contradiction(blocks=blocks, rows=rows) if len(blocks) else None


def _conflict(formulation: Formulation, found: _Contradiction) -> Conflict:
    is_meant: Flags = np.isin(formulation.block_of_row, found.blocks)
    models = _models(formulation, is_meant)
    shared = formulation.shared
    left = f"the {found.taken:g} that they take" if found.taken is not None else "them"
    rules = [*_bounds_words(formulation, is_meant, every=not len(found.rows)), *_ratio_words(formulation, models)]
    rules += [
        f"{shared.names[row]} with {shared.limits[row] * shared.units[row]:g} left for {left}" for row in found.rows
    ]
    return Conflict(rules=tuple(rules), models=models)


def _bounds_words(formulation: Formulation, is_meant: Flags, *, every: bool) -> Iterator[str]:
    """The bounds that ask for something; those of every variant where they are all there is to name."""
    problem: Problem = formulation.problem
    for key, row in zip(formulation.variants.keys, formulation.variants.row, strict=True):
        bounds = problem.bounds[key]
        is_asking = bounds.minimum > 0 or not bounds.admits(problem.current[key].replicas)
        if is_meant[row] and (every or is_asking):
            most = "" if bounds.maximum is None else f" and maxReplicas {bounds.maximum}"
            yield f"minReplicas {bounds.minimum}{most} of {key.label}"


def _ratio_words(formulation: Formulation, models: tuple[ModelKey, ...]) -> Iterator[str]:
    for ratio in formulation.problem.ratios:
        if not set(models).isdisjoint(ratio.sides):
            between = f"{ratio.over or 'one role'} to {ratio.under or 'another'}"
            yield f"the ratio of {between} of {ratio.model.model_id}"


def _models(formulation: Formulation, rows: Flags) -> tuple[ModelKey, ...]:
    named = zip(formulation.rows.requirements, rows, strict=True)
    return tuple(dict.fromkeys(each.model for each, is_meant in named if is_meant))
