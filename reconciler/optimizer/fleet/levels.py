"""Who gets what there is not enough of: strictly by level of priority, max-min fair inside a level.

The bounds of everybody come first. Then, from the highest level down, as much of the level's demand is covered as
what is shared admits while the levels above keep what they got; the least covered model of a level first, in steps of
an eighth of its demand, and then whoever can still use what is left. What came out is what must be covered, and the
cheapest plan that does is the answer. Where nothing is scarce none of this runs: then priority changes nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.fleet.formulating import widest
from reconciler.optimizer.fleet.formulation import GAP, TOLERANCE, Formulation, Rows
from reconciler.optimizer.fleet.greedy import plan_greedily
from reconciler.optimizer.fleet.planning import FleetPlan, Planned, Planner, covered_by
from reconciler.optimizer.sparse import Floats, owners

STEPS = 8
"""Parts of a model's demand that are told apart where it cannot all be covered."""

_STEEPNESS = 4.0
"""How much more the next eighth of a model is worth than any further one of another."""

_COST_SHARE = 1e-3
"""What all costs together count beside one part of one model's demand: they only decide between equals."""

_LEAST_SPENT = 1e-100
"""What costs less than this costs nothing."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shed:
    """A plan for less than was wanted, and the formulation of what it must cover instead."""

    plan: Planned
    formulation: Formulation


def shed(formulation: Formulation, planner: Planner) -> Shed:
    """The cheapest plan that covers, level by level, as much as can be covered."""
    rows = formulation.rows
    granted = np.zeros_like(rows.must)
    reach = np.minimum(rows.must, _reach(formulation))
    # The usual rule serves the urgent first: levels that it serves whole need no search.
    formulation = replace(formulation, known_counts=plan_greedily(formulation, is_partial=True))
    for level in sorted(set(rows.priority[reach > 0].tolist()), reverse=True):
        is_level = (rows.priority == level) & (reach > 0)
        asking = np.where(is_level, reach, 0.0)
        for steepness in () if _missing(rows, asking, _served(formulation)) <= 0 else (_STEEPNESS, 1.0):
            plan = planner(_sharing(formulation, granted, asking, steepness))
            if not isinstance(plan, FleetPlan):
                return Shed(plan=plan, formulation=formulation)
            formulation = replace(formulation, known_counts=plan.counts)
            granted = np.where(is_level, _served(formulation), granted)
            # Nobody gains more in equal steps than this plan may be from the best in steps of falling worth. Where that
            # proves that somebody must go short they are not asked: never did they find what is worth their time.
            missing = _missing(rows, asking, granted)
            if missing <= 0 or plan.value - plan.bound <= GAP * missing or plan.bound > _COST_SHARE:
                break
        granted = np.where(is_level, _served(formulation), granted)
    lowered = formulation.with_demand(granted, rows.amounts, rows.prices)
    return Shed(plan=planner(lowered), formulation=lowered)


def _served(formulation: Formulation) -> Floats:
    """What the known plan covers of what must be, by row, with room for float noise; nothing where none is known."""
    counts = formulation.known_counts
    if counts is None:
        return np.zeros_like(formulation.rows.must)
    return np.minimum(covered_by(formulation, counts), formulation.rows.must) * (1 - _SLACK)


def _missing(rows: Rows, asking: Floats, served: Floats) -> float:
    """What is left to cover of those who ask, in parts of a model's demand; 0 where that is float noise."""
    missing = np.where(served < asking * (1 - 2 * _SLACK), asking - served, 0.0)
    return float((missing * STEPS / np.where(rows.must > 0, rows.must, 1.0)).sum())


def _reach(formulation: Formulation) -> Floats:
    """What each row could have at most if nobody else took anything of what is shared.

    What nobody can give is not asked for: it would be most of the value, and drown what the gap of a plan must show.
    Of a variant in order every accelerator counts: an order is no reason to serve less.
    """
    choices, shared = formulation.choices, formulation.shared
    most = choices.highest.astype(np.float64)
    fitting = shared.limits[owners(shared.use)] / shared.use.data
    np.minimum.at(most, shared.use.indices, np.floor(fitting + TOLERANCE))
    fitted = replace(choices, highest=most.astype(np.int64), fixed=np.zeros(len(most)))
    return widest(fitted, formulation.variants, formulation.rows.active_limit)


def _sharing(formulation: Formulation, granted: Floats, asking: Floats, steepness: float) -> Formulation:
    """Only the coverage of those who ask counts, in steps whose worth falls; what was granted must stay covered."""
    choices, variants = formulation.choices, formulation.variants
    weights = steepness ** np.arange(STEPS - 1, -1, -1)
    step = formulation.rows.must[:, None] / STEPS
    left = np.maximum(asking - granted, 0.0)[:, None]
    begins = np.maximum(granted[:, None], np.arange(STEPS) * step)
    amounts = np.clip(np.minimum(asking[:, None], np.arange(1, STEPS + 1) * step) - begins, 0.0, left)
    prices = np.where(amounts > 0, weights / np.where(step > 0, step, 1.0), 0.0)
    spent = _spent(formulation)
    scale = _COST_SHARE / spent if _LEAST_SPENT < spent < np.inf else 0.0
    cheap = replace(
        formulation,
        choices=replace(choices, fixed=choices.fixed * scale, cost=choices.cost * scale, start=choices.start * scale),
        variants=replace(variants, touch=variants.touch * scale),
    )
    return replace(cheap.with_demand(granted, amounts, prices), sharing=_COST_SHARE)


def _spent(formulation: Formulation) -> float:
    """More than any useful plan costs: every demand covered by its dearest choice, everything touched."""
    choices, rows = formulation.choices, formulation.rows
    counts = np.maximum(np.ceil(rows.demand[choices.row] / choices.carried), choices.lowest)
    each = np.abs(choices.fixed) + (choices.cost + choices.start) * counts
    dearest = np.zeros(len(rows.requirements))
    np.maximum.at(dearest, choices.row, each)
    return float(dearest.sum() + formulation.variants.touch.sum())
