"""Who gets how much where there is not enough, against one programme over all replicas, which proves what it finds."""

import pytest

from reconciler.optimizer.formulation import Formulation, formulate
from reconciler.optimizer.mixed_integer import solve_mixed_integer
from reconciler.optimizer.planning import FleetPlan, Planned, plan_by_columns, value_of
from reconciler.optimizer.scarcity import shed
from tests.bench.problems import Instance, draw

PARTS = 0.01
"""How much may be missing at most, in eighths of one model's demand and as a fraction of what must be missing."""


def shared_out(instance: Instance) -> list[tuple[Formulation, FleetPlan]]:
    """Every question of who gets how much, with its answer."""
    asked = []

    def planner(formulation: Formulation) -> Planned:
        plan = plan_by_columns(formulation)
        if formulation.sharing is not None:
            assert isinstance(plan, FleetPlan)
            asked.append((formulation, plan))
        return plan

    _, _, gap = shed(formulate(draw(instance)), planner)
    proven = [1 - plan.bound / plan.value for _, plan in asked if plan.value > 1e-3]
    assert gap == pytest.approx(max([0.0, *proven]), abs=1e-12)
    return asked


@pytest.mark.parametrize("is_routed", [False, True])
@pytest.mark.parametrize(("pools_at", "seed"), [(0.5, 1), (0.5, 6), (0.7, 3), (0.7, 4), (0.85, 5)])
def test_nobody_is_left_with_less_than_there_is(pools_at: float, seed: int, is_routed: bool) -> None:
    instance = Instance(models=14, pools_at=pools_at, seed=seed, is_priced=False, is_routed=is_routed)

    asked = shared_out(instance)

    assert asked
    for formulation, plan in asked:
        found = solve_mixed_integer(formulation, gap=1e-3, nodes=2_000)
        assert found.counts is not None
        assert plan.bound <= value_of(formulation, found.counts) * (1 + 1e-9)
        assert plan.value <= value_of(formulation, found.counts) * (1 + PARTS) + PARTS


def test_of_thirty_models_none_is_left_without_where_all_but_a_hundredth_of_one_fits() -> None:
    asked = shared_out(Instance(models=30, pools_at=0.9, seed=1, is_priced=False))

    assert asked[-1][1].value == pytest.approx(0.0783, abs=0.01)
