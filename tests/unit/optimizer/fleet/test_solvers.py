"""What every solver of the fleet answers, whatever it is given."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.requirements import Budget, Problem, Ratio
from reconciler.optimizer import fleet as solvers
from reconciler.optimizer import mixed_integer, planning, pricing, rounding
from reconciler.optimizer.device_use import violations
from reconciler.optimizer.formulation import Formulation, formulate
from reconciler.optimizer.planning import plan_greedily, value_of
from tests.bench.problems import Instance, draw

Build = Callable[..., Any]
Draw = Callable[[int], Problem]
NAMES = ("auto", "columns", "milp")


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_without_anything_has_an_empty_answer(name: str, fleet: Build) -> None:
    assert SOLVERS[name].solve(fleet([], {})).allocations == {}
    assert SOLVERS[name].solve(fleet([], {"H100": 4})).allocations == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_candidates_is_left_alone(name: str, model: Build, fleet: Build) -> None:
    problem = fleet([model(name="a", wanted=2), model(name="b", wanted=2)], {"H100": 9})
    offered = tuple(each for each in problem.candidates if each.key.variant.name == "a-H100")
    solution = SOLVERS[name].solve(replace(problem, candidates=offered))
    assert {key.name: each.replicas for key, each in solution.allocations.items()} == {"a-H100": 2}


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_pool_leaves_its_models_without_replicas_and_says_so(name: str, model: Build, fleet: Build) -> None:
    solution = SOLVERS[name].solve(fleet([model(name="a", wanted=2), model(name="b", wanted=1)], {"H100": 0}))
    assert {each.replicas for each in solution.allocations.values()} == {0}
    assert {each.model.model_id for each in solution.shortfalls} == {"a", "b"}
    assert "H100 has no room for one more replica" in solution.shortfalls[0].reason


@pytest.mark.parametrize("name", ["auto", "columns"])
def test_a_variant_in_order_takes_the_next_accelerator_where_the_first_is_full(
    name: str, model: Build, fleet: Build
) -> None:
    either = model(name="a", wanted=3, on=("H100",), weight=9.0)
    problem = fleet([either, model(name="b", wanted=2.0, on=("L4",), weight=0.001)], {"H100": 2, "L4": 9})
    later = replace(
        problem.candidates[0],
        key=replace(problem.candidates[0].key, accelerator="L4"),
        devices={"L4": 1},
        weight=1.0,
        order=1,
    )
    row = problem.requirements[0]
    problem = replace(
        problem,
        candidates=(*problem.candidates, later),
        requirements=(replace(row, per_replica={**row.per_replica, later.key: 1.0}), problem.requirements[1]),
        in_order=frozenset({later.key.variant}),
    )
    roomy = replace(problem, pools=tuple(replace(each, devices=9) for each in problem.pools))
    assert SOLVERS[name].solve(roomy).allocations[later.key.variant].accelerator == "H100"
    solution = SOLVERS[name].solve(problem)
    assert solution.allocations[later.key.variant].accelerator == "L4"
    assert solution.value == pytest.approx(3 * 1.0 + 2 * 0.001)
    assert solution.lower_bound == pytest.approx(solution.value)


def test_each_model_alone_and_all_together_reach_the_same_value_where_nothing_binds(draw_fleet: Draw) -> None:
    compared = 0
    for seed in range(80):
        drawn = draw_fleet(seed)
        problem = replace(
            drawn,
            requirements=tuple(replace(each, active_limit=None) for each in drawn.requirements),
            pools=(),
            budgets=(),
            change_limits=(),
            ratios=(),
        )
        alone, together = SOLVERS["auto"].solve(problem), SOLVERS["columns"].solve(problem)
        if alone.solver == "separable" and not alone.shortfalls:
            compared += 1
            assert alone.value == pytest.approx(together.value), seed
    assert compared >= 20


def test_a_large_fleet_is_decided_together_at_the_same_value(
    model: Build, fleet: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = fleet([model(name=f"m{number}", wanted=1 + number % 5, on=("H100", "L4")) for number in range(9)], {})
    alone = SOLVERS["auto"].solve(problem)
    monkeypatch.setattr(solvers, "FEW", 8)
    together = SOLVERS["auto"].solve(problem)
    assert (alone.solver, together.solver) == ("separable", "columns")
    assert together.value == pytest.approx(alone.value)


def test_the_order_of_the_input_decides_nothing(draw_varied_fleet: Draw) -> None:
    draw = random.Random(5)  # noqa: S311 - the same orders in every run
    for seed in range(12):
        problem = draw_varied_fleet(seed)

        def shuffled(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(draw.sample(values, len(values)))

        other = replace(
            problem,
            requirements=tuple(
                replace(each, per_replica=dict(shuffled(tuple(each.per_replica.items()))))
                for each in shuffled(problem.requirements)
            ),
            candidates=shuffled(problem.candidates),
            pools=shuffled(problem.pools),
            budgets=shuffled(problem.budgets),
            change_limits=shuffled(problem.change_limits),
            ratios=shuffled(problem.ratios),
            current=dict(shuffled(tuple(problem.current.items()))),
        )
        assert SOLVERS["auto"].solve(problem) == SOLVERS["auto"].solve(other), seed


@pytest.fixture
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that are over before they began."""
    monkeypatch.setattr(planning, "_NODES", 1)
    monkeypatch.setattr(rounding, "MOST_DIRECT", 0)
    monkeypatch.setattr(rounding, "SMALL", 0)
    monkeypatch.setattr(rounding, "NODES", 1)
    monkeypatch.setattr(rounding, "LARGEST", 1)
    monkeypatch.setattr(pricing, "_NODES", 1)
    monkeypatch.setattr(pricing, "_TOGETHER", 2)
    monkeypatch.setattr(pricing, "LARGEST_GRID", 1)


@pytest.mark.usefixtures("tiny_limits")
@pytest.mark.parametrize("name", NAMES)
def test_limits_of_the_search_never_break_a_rule(name: str, draw_varied_fleet: Draw) -> None:
    planned = 0
    for seed in range(24):
        problem = draw_varied_fleet(seed)
        solution = SOLVERS[name].solve(problem)
        planned += not solution.is_unsolved
        if solution.is_unsolved:
            assert all(each == problem.current[key] for key, each in solution.allocations.items()), seed
        elif not solution.conflicts:
            assert not violations(problem, solution.allocations), seed
    assert planned >= 23


@pytest.mark.parametrize("name", ["columns", "milp"])
def test_a_search_without_any_answer_leaves_a_plan_of_which_nothing_is_proven(
    name: str, model: Build, fleet: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SOLVERS[name], "_planner", lambda _: None)
    models = [model(name=name, wanted=4, now=1, bounds=(1, None)) for name in "ab"]
    problem = fleet(models, {"H100": 6})
    solution = SOLVERS[name].solve(problem)
    assert not solution.is_unsolved
    assert not violations(problem, solution.allocations)
    assert sum(each.replicas for each in solution.allocations.values()) == 6
    assert solution.gap == math.inf
    assert [each.model.model_id for each in solution.shortfalls] == ["b"]


@pytest.mark.parametrize("name", ["columns", "milp"])
def test_where_there_is_no_plan_at_all_nothing_is_said_to_be_proven(
    name: str, model: Build, fleet: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SOLVERS[name], "_planner", lambda _: None)
    problem = fleet([model(name="a", wanted=4, now=1, bounds=(9, None))], {"H100": 6})
    solution = SOLVERS[name].solve(problem)
    assert solution.is_unsolved or solution.conflicts
    assert solution.gap == math.inf or solution.conflicts


def test_bounds_stay_proven_where_the_search_is_cut_short(tiny_limits: None, draw_fleet: Draw) -> None:
    del tiny_limits
    for seed in range(40):
        problem = draw_fleet(seed)
        solution = SOLVERS["columns"].solve(problem)
        if not solution.conflicts and not solution.shortfalls:
            exact = mixed_integer.solve_mixed_integer(formulate(problem), gap=0.0, nodes=100_000)
            if exact.counts is not None:
                best = value_of(formulate(problem), exact.counts) * formulate(problem).unit
                assert solution.lower_bound - 1e-6 <= best <= solution.value + 1e-6, seed


def test_the_usual_rule_never_looks_better_than_the_optimum(draw_varied_fleet: Draw) -> None:
    compared = 0
    for seed in range(50):
        solution = SOLVERS["columns"].solve(draw_varied_fleet(seed))
        if solution.greedy_value is not None:
            compared += 1
            assert solution.greedy_value >= solution.lower_bound - 1e-6, seed
    assert compared >= 8


def test_the_usual_rule_serves_the_most_urgent_by_its_cheapest_capacity(model: Build, fleet: Build) -> None:
    models = [
        model(name="a", wanted=2, on=("H100", "L4"), price=100.0),
        model(name="b", wanted=2, on=("H100", "L4"), priority=9),
    ]
    formulation = formulate(fleet(models, {"H100": 3, "L4": 9}))
    counts = plan_greedily(formulation)
    assert counts is not None
    named = {key.variant.name: int(count) for key, count in zip(formulation.choices.keys, counts, strict=True)}
    assert named == {"a-H100": 1, "a-L4": 1, "b-H100": 2, "b-L4": 0}


def test_what_the_usual_rule_cannot_serve_has_no_value(model: Build, fleet: Build) -> None:
    formulation = formulate(fleet([model(name="a", wanted=2), model(name="b", wanted=2)], {"H100": 3}))
    assert plan_greedily(formulation) is None


def test_parts_of_one_object_are_told_apart_whatever_their_order(model: Build, fleet: Build) -> None:
    problem = fleet([model(name="a", wanted=2, on=("H100", "L4"))], {"H100": 4, "L4": 4})
    named = {
        each.key.variant: replace(each.key.variant, name="a", part=each.key.accelerator) for each in problem.candidates
    }
    candidates = tuple(
        replace(each, key=replace(each.key, variant=named[each.key.variant])) for each in problem.candidates
    )
    row = problem.requirements[0]
    carried = [(replace(key, variant=named[key.variant]), amount) for key, amount in row.per_replica.items()]
    orders = []
    for entries in (carried, carried[::-1]):
        told = replace(
            problem,
            candidates=candidates,
            requirements=(replace(row, per_replica=dict(entries)),),
            current={named[key]: each for key, each in problem.current.items()},
            bounds={named[key]: each for key, each in problem.bounds.items()},
        )
        orders.append([key.part for key in formulate(told).variants.keys])
    assert orders == [["H100", "L4"], ["H100", "L4"]]


@pytest.mark.parametrize("factor", [5e-324, 1e-30, 1e30, 1e300])
def test_prices_beyond_all_measure_break_nothing(factor: float, model: Build, fleet: Build) -> None:
    models = [model(name=f"m{number}", wanted=1 + number, on=("H100", "L4"), weight=1.0) for number in range(4)]
    problem = fleet(models, {"H100": 3, "L4": 2})
    candidates = tuple(replace(each, weight=each.weight * factor) for each in problem.candidates)
    budget = Budget(name="team", variants=frozenset(problem.current), amount=2 * factor)
    solution = SOLVERS["columns"].solve(replace(problem, candidates=candidates, budgets=(budget,)))
    assert solution.is_unsolved or not violations(problem, solution.allocations)


def test_what_can_meet_no_target_is_no_surprise(model: Build, fleet: Build) -> None:
    problem = fleet([model(name="a", wanted=2), model(name="b", wanted=2)], {"H100": 9})
    hopeless = problem.requirements[1]
    rows = (problem.requirements[0], replace(hopeless, per_replica=dict.fromkeys(hopeless.per_replica, 0.0)))
    solution = SOLVERS["auto"].solve(replace(problem, requirements=rows))
    assert [each.worst.model_id for each in solution.sensitivity if each.worst] == ["a", "a", "a"]
    assert {each.short for each in solution.sensitivity} == {1}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [0.0, 1e-9])
def test_a_ratio_that_admits_nothing_leaves_its_role_without_replicas(
    name: str, most: float, model: Build, fleet: Build
) -> None:
    roles = [model(name="a", wanted=2, role=role, now=1) for role in ("decode", "prefill")]
    ratio = Ratio(model=roles[0].requirement().model.whole, over="prefill", under="decode", most=most)
    solution = SOLVERS[name].solve(fleet([*roles, model(name="b", wanted=2)], {"H100": 9}, ratios=(ratio,)))
    counts = {key.name: each.replicas for key, each in solution.allocations.items()}
    assert counts == {"adecode-H100": 2, "aprefill-H100": 0, "b-H100": 2}
    assert [each.model.role for each in solution.shortfalls] == ["prefill"]


@pytest.mark.parametrize("factor", [1e-9, 1e8])
def test_a_plan_does_not_depend_on_what_demand_is_counted_in(factor: float, draw_varied_fleet: Draw) -> None:
    for seed in range(40):
        problem = draw_varied_fleet(seed)
        told = replace(
            problem,
            requirements=tuple(
                replace(
                    each,
                    segments=tuple(
                        replace(step, amount=step.amount * factor, price=step.price and step.price / factor)
                        for step in each.segments
                    ),
                    per_replica={key: carried * factor for key, carried in each.per_replica.items()},
                )
                for each in problem.requirements
            ),
        )
        solution = SOLVERS["columns"].solve(told)
        assert solution.allocations == SOLVERS["columns"].solve(problem).allocations, seed


def test_no_plan_costs_more_than_the_usual_rule_that_stands_beside_it(draw_varied_fleet: Draw) -> None:
    compared = 0
    for seed in range(100, 150):
        solution = SOLVERS["columns"].solve(draw_varied_fleet(seed))
        if solution.greedy_value is not None:
            compared += 1
            assert solution.value <= solution.greedy_value * (1 + 1e-9), seed
    assert compared >= 8


@pytest.mark.parametrize("is_routed", [False, True])
def test_fractions_of_many_replicas_prove_a_plan_of_whole_ones(is_routed: bool) -> None:
    instance = Instance(models=12, pools_at=0.8, is_routed=is_routed, times=100)
    formulation = formulate(draw(instance))
    planned = planning._plan_divisible(formulation)
    assert isinstance(planned, planning.FleetPlan)
    assert planned.value == pytest.approx(value_of(formulation, planned.counts))
    exact = planning.plan_directly(formulation)
    assert isinstance(exact, planning.FleetPlan)
    assert planned.bound <= exact.value * (1 + 1e-6)
    assert planned.value - planned.bound <= planning.ROUGH * planned.value


def test_few_replicas_are_not_taken_for_divisible() -> None:
    assert planning._plan_divisible(formulate(draw(Instance(models=12, pools_at=0.8)))) is None


def test_shared_rows_that_save_nothing_are_planned_once_together() -> None:
    """Twelve budgets and eight pools: a plan for each pool and one for all budgets, which are said to save nothing."""
    problem, plans = draw(Instance(models=12, pools_at=0.7, seed=2)), []

    def plan(formulation: Formulation) -> planning.Planned:
        plans.append(formulation)
        return planning.plan_by_columns(formulation)

    solution = solvers.FleetSolver("counted", plan).solve(problem)
    prices = {use.name: use.price for use in solution.shared}
    budgets = [prices[each.name] for each in problem.budgets]
    assert len(plans) <= 1 + len(problem.pools) + 1
    assert len(budgets) == 12
    assert budgets.count(0.0) == 11
    assert sum((prices[each.name] or 0.0) > 0 for each in problem.pools) == 7
