"""Random problems of every family: each claim of each solution holds."""

import os

import pytest

from reconciler.decision.decide import SOLVERS
from tests.attack.claims import complaints
from tests.attack.families import FAMILIES, draw_problem, scaled

PROBLEMS = int(os.environ.get("ATTACK_PROBLEMS", "400"))
BATCH = 9
FOUND = (
    ("zero capacities", 114),  # who is held keeps devices of models that share nothing else with it
    ("huge counts", 167),  # one replica is less than a programme's tolerance
    ("priced segments", 116),  # a budget's price is what one more of its unit saves
    ("ratios", 272),  # a role that a ratio bars made a programme's numbers so large that the other got nothing
)
"""What only a long attack had found."""

TIES = {"many equal costs": (17,)}
"""Where plans that cost the same were told apart by the last digits of demand."""

UNITS = max(PROBLEMS // (10 * len(FAMILIES)), 1)


@pytest.mark.parametrize("batch", range(-(-PROBLEMS // (BATCH * len(FAMILIES)))))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_solution_is_what_it_claims(family: str, batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        problem = draw_problem(family, seed)
        found = list(complaints(problem, SOLVERS["auto"].solve(problem)))
        assert not found, (seed, found)


@pytest.mark.parametrize(("family", "seed"), FOUND)
def test_what_was_found_once_does_not_return(family: str, seed: int) -> None:
    problem = draw_problem(family, seed)
    assert not list(complaints(problem, SOLVERS["auto"].solve(problem)))


@pytest.mark.parametrize("factor", [1e-9, 1e8])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_does_not_depend_on_what_demand_is_counted_in(family: str, factor: float) -> None:
    for seed in (*range(UNITS), *TIES.get(family, ())):
        problem = draw_problem(family, seed)
        plan = SOLVERS["columns"].solve(problem).allocations
        assert SOLVERS["columns"].solve(scaled(problem, factor)).allocations == plan, seed
