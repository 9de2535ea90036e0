"""Who gets what there is not enough of: strictly by level of priority, max-min fair inside a level.

The bounds of everybody come first. Then, from the highest level down, as much of the level's demand is covered as
what is shared admits while the levels above keep what they got; the least covered model of a level first, in steps of
an eighth of its demand. What came out is what must be covered, and the cheapest plan that does is the answer. Where
nothing is scarce none of this runs: then priority changes nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.planning import FleetPlan, Planned, Planner, covered_by
from reconciler.optimizer.fleet.sparse import Floats

STEPS = 8
"""Parts of a model's demand that are told apart where it cannot all be covered."""

_STEEPNESS = 4.0
"""How much more the next eighth of a model is worth than any further one of another."""

_COST_SHARE = 1e-3
"""What all costs together count beside one part of one model's demand: they only decide between equals."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shed:
    """A plan for less than was wanted, and the formulation of what it must cover instead."""

    plan: Planned
    formulation: Formulation


def shed(formulation: Formulation, planner: Planner) -> Shed:
    """The cheapest plan that covers, level by level, as much as can be covered."""
    wanted = formulation.rows.must
    granted = np.zeros_like(wanted)
    plan: Planned = None
    for level in sorted(set(formulation.rows.priority[wanted > 0].tolist()), reverse=True):
        is_level = (formulation.rows.priority == level) & (wanted > 0)
        plan = planner(_sharing(formulation, granted, np.where(is_level, wanted, 0.0)))
        if not isinstance(plan, FleetPlan):
            return Shed(plan=plan, formulation=formulation)
        covered = np.minimum(covered_by(formulation, plan.counts), wanted)
        granted = np.where(is_level, covered * (1 - _SLACK), granted)
    rows = formulation.rows
    lowered = formulation.with_demand(granted, rows.amounts, rows.prices)
    cheapest = planner(lowered)
    return Shed(plan=cheapest if isinstance(cheapest, FleetPlan) else plan, formulation=lowered)


def _sharing(formulation: Formulation, granted: Floats, asking: Floats) -> Formulation:
    """Only the coverage of those who ask counts, in falling steps; what was granted must stay covered."""
    choices, variants = formulation.choices, formulation.variants
    weights = _STEEPNESS ** np.arange(STEPS - 1, -1, -1)
    amounts = np.repeat((asking / STEPS)[:, None], STEPS, axis=1)
    prices = np.where(amounts > 0, weights / np.where(amounts > 0, amounts, 1.0), 0.0)
    spent = _spent(formulation)
    scale = _COST_SHARE / spent if spent > 0 else 0.0
    cheap = replace(
        formulation,
        choices=replace(choices, fixed=choices.fixed * scale, cost=choices.cost * scale, start=choices.start * scale),
        variants=replace(variants, touch=variants.touch * scale),
    )
    return cheap.with_demand(granted, amounts, prices)


def _spent(formulation: Formulation) -> float:
    """More than any useful plan costs: every demand covered by its dearest choice, everything touched."""
    choices, rows = formulation.choices, formulation.rows
    counts = np.maximum(np.ceil(rows.demand[choices.row] / choices.carried), choices.lowest)
    each = np.abs(choices.fixed) + (choices.cost + choices.start) * counts
    dearest = np.zeros(len(rows.requirements))
    np.maximum.at(dearest, choices.row, each)
    return float(dearest.sum() + formulation.variants.touch.sum())
