"""Rules that no plan can keep together, named as the fewest that are enough; their models are held.

What is looked at are bounds, ratios and what is pinned against pools, budgets and limits, without any demand: that
demand does not fit is no conflict, it is scarcity. The proof of a conflict are prices of the shared rows at which the
least that some models must take costs more than all there is (Farkas): those models and the priced rows contradict
each other, and the models that take most are enough of them. What of all that is superfluous is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reconciler.domain.identity import ModelKey
from reconciler.domain.solutions import Conflict
from reconciler.optimizer.fleet.formulating import formulate, members
from reconciler.optimizer.fleet.formulation import UNBOUNDED, Formulation
from reconciler.optimizer.fleet.generation import EXCESS, Generated, best_by_block, generate
from reconciler.optimizer.fleet.minimal import Rules, fewest, least_taken
from reconciler.optimizer.fleet.planning import FleetPlan, Planner
from reconciler.optimizer.sparse import Floats, Integers

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
    """Blocks that cannot keep their own rules, or not beside the shared rows of which they take too much."""

    blocks: Integers
    rows: Integers


def settle(formulation: Formulation, planner: Planner) -> ConsistentProblem:
    """The problem with the models of every conflict held, so that a plan exists that keeps all rules."""
    conflicts: list[Conflict] = []
    while True:
        bare = _without_demand(formulation)
        found = _contradiction(bare, planner)
        if found is None or not len(found.blocks):
            break
        rules = fewest(bare, found.blocks, found.rows)
        conflicts.append(_conflict(bare, rules))
        is_held = np.isin(formulation.block_of_row, rules.blocks)
        held = [each for each, is_meant in zip(formulation.rows.requirements, is_held, strict=True) if is_meant]
        problem = formulation.problem
        # What none of its choices could serve with stays as well, and takes what it takes.
        kept = {key: problem.current[key] for each in held for key in members(each) if key not in problem.pinned}
        formulation = formulate(replace(problem, pinned={**problem.pinned, **kept}))
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
    return _Contradiction(blocks=blocks, rows=rows)


def _between(formulation: Formulation, generated: Generated) -> _Contradiction | None:
    """Where only fractions of configurations fit: the blocks that the programme splits, and the rows that are full."""
    split = (generated.share > EXCESS) & (generated.share < 1 - EXCESS)
    blocks = np.unique(generated.known.configurations.block[split])
    left: Floats = formulation.shared.limits - generated.known.worth.use.T @ generated.share
    rows = np.flatnonzero(left <= EXCESS)
    return _Contradiction(blocks=blocks, rows=rows) if len(blocks) else None


def _conflict(formulation: Formulation, rules: Rules) -> Conflict:
    shared = formulation.shared
    limits = shared.limits * shared.units
    taken = "them"
    if len(rules.rows) == 1:
        taken = f"the {least_taken(formulation, rules) * shared.units[rules.rows[0]]:g} that they take"
    words = [*_bounds_words(formulation, rules), *_ratio_words(formulation, rules)]
    words += [f"{shared.names[row]} with {limits[row]:g} left for {taken}" for row in rules.rows]
    return Conflict(rules=tuple(words), models=_models(formulation, rules))


def _bounds_words(formulation: Formulation, rules: Rules) -> Iterator[str]:
    """The bounds that are needed for the contradiction, the variants in their order."""
    problem, requirements = formulation.problem, formulation.rows.requirements
    for index in sorted({*rules.lower.tolist(), *rules.upper.tolist()}):
        key = formulation.variants.keys[index]
        bounds, fixed = problem.bounds[key], requirements[formulation.variants.row[index]].fixed
        most = bounds.maximum if fixed is None else fixed[key]
        words = [f"minReplicas {bounds.minimum}"] * (index in rules.lower)
        words += [f"maxReplicas {most}"] * (index in rules.upper and most is not None)
        if words:
            yield f"{' and '.join(words)} of {key.label}"


def _ratio_words(formulation: Formulation, rules: Rules) -> Iterator[str]:
    """The proportions that are needed: as rows, or because they bar a role."""
    ratios, requirements = formulation.ratios, formulation.rows.requirements
    barred = {int(formulation.variants.row[index]) for index in rules.upper}
    rows = {int(row) for side in (ratios.greater, ratios.smaller) for row in side[rules.ratios]}
    named = {requirements[row].model for row in rows}
    named |= {requirements[row].model for row in barred & set(ratios.smaller[ratios.factor >= UNBOUNDED].tolist())}
    for ratio in formulation.problem.ratios:
        if not named.isdisjoint(ratio.sides):
            between = f"{ratio.over or 'one role'} to {ratio.under or 'another'}"
            yield f"the ratio of {between} of {ratio.model.model_id}"


def _models(formulation: Formulation, rules: Rules) -> tuple[ModelKey, ...]:
    is_meant = np.isin(formulation.block_of_row, rules.blocks)
    named = zip(formulation.rows.requirements, is_meant, strict=True)
    return tuple(dict.fromkeys(each.model for each, is_named in named if is_named))
