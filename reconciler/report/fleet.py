"""What the plan shows of the fleet as a whole: what is full, what more of it would save, how it bears surprises."""

from collections.abc import Iterator

from reconciler.domain.plan import Plan
from reconciler.domain.solutions import Sensitivity, SharedUse
from reconciler.report.numbers import COST_UNITS, cost, percentage

WORTH_NAMING = 0.005
"""Below half a cent an hour a price is not worth a sentence."""

_NAMED = 3


def prices(plan: Plan) -> str:
    """`One more of us-east/H100 saves 1.90 USD/h.`; empty where nothing that is shared is full."""
    priced = (each for each in plan.shared if each.price >= WORTH_NAMING)
    dearest = sorted(priced, key=lambda each: (-each.price, each.name))[:_NAMED]
    sentences = (f"One more of {each.name} saves {cost(each.price)} {_unit(plan)}/h." for each in dearest)
    return " ".join(sentences)


def fleet_lines(plan: Plan) -> tuple[str, ...]:
    """What is shared and how much of it is taken, what the usual rule would cost, and what a surprise would do."""
    return (*_uses(plan), *_greedy(plan), *_surprises(plan))


def _unit(plan: Plan) -> str:
    known = None not in (plan.totals.cost_before_per_hour, plan.totals.cost_after_per_hour)
    return plan.currency if known and plan.objective == "cost" else COST_UNITS


def _uses(plan: Plan) -> Iterator[str]:
    for each in plan.shared:
        worth = f", one more saves {cost(each.price)} {_unit(plan)}/h" if each.price >= WORTH_NAMING else ""
        yield f"{each.name}: {each.used:g} of {each.limit:g} taken{worth}{_full(each)}"


def _full(each: SharedUse) -> str:
    return " (full)" if each.used >= each.limit and each.price < WORTH_NAMING else ""


def _greedy(plan: Plan) -> Iterator[str]:
    """Beside the plan's own value, for both count what starts cost."""
    if plan.greedy_value is not None:
        yield (
            f"Serving the most urgent first, each by its cheapest capacity, would come to {cost(plan.greedy_value)} "
            f"{_unit(plan)}/h with its starts, this plan to {cost(plan.value)}"
        )


def _surprises(plan: Plan) -> Iterator[str]:
    for each in plan.sensitivity:
        yield f"{_scenario(each)}: {_outcome(each)}"


def _scenario(each: Sensitivity) -> str:
    if each.capacity_factor != 1:
        return f"With {percentage(each.capacity_factor)} of the capacity"
    return f"At {each.demand_factor:g} times the demand"


def _outcome(each: Sensitivity) -> str:
    if each.worst is None:
        return "every model is still served"
    models = "1 model falls short" if each.short == 1 else f"{each.short} models fall short"
    return f"{models}, {each.worst.model_id} most: {percentage(each.worst_covered)} of it is carried"
