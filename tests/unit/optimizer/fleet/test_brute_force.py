"""Every solver of the fleet against every plan there is."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem
from reconciler.optimizer.device_use import violations


class Reached(Protocol):
    value: float


Force = Callable[[Problem, Callable[[Mapping[ResourceKey, Allocation]], bool]], Reached]


def is_allowed(problem: Problem, plan: Mapping[ResourceKey, Allocation]) -> bool:
    return not violations(problem, plan)


@pytest.mark.parametrize("batch", range(20))
def test_a_plan_costs_what_the_best_of_all_plans_costs(
    batch: int, draw_fleet: Callable[[int], Problem], force: Force
) -> None:
    compared = 0
    for seed in range(batch * 32, batch * 32 + 32):
        problem = draw_fleet(seed)
        best = force(problem, partial(is_allowed, problem))
        for name in ("columns", "milp"):
            solution = SOLVERS[name].solve(problem)
            if math.isinf(best.value):
                assert solution.conflicts or solution.shortfalls, seed
                continue
            compared += 1
            assert not solution.conflicts, (seed, name)
            assert not violations(problem, solution.allocations), (seed, name)
            assert math.isclose(solution.value, best.value, rel_tol=1e-6, abs_tol=1e-6), (seed, name)
            assert solution.lower_bound <= best.value + 1e-6, (seed, name)
    assert compared >= 2 * 20
