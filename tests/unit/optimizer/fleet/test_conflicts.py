"""Rules that no plan can keep together, and what that does to everybody else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reconciler.decision.decide import SOLVERS
from reconciler.domain.requirements import Bounds, Budget, ChangeLimit, Problem, Ratio, Solution

Build = Callable[..., Any]


def solved(problem: Problem) -> Solution:
    solution = SOLVERS["auto"].solve(problem)
    assert not solution.is_unsolved
    return solution


def held(solution: Solution) -> list[list[str]]:
    return [[each.model_id for each in conflict.models] for conflict in solution.conflicts]


def replicas(solution: Solution, name: str) -> int:
    return next(each.replicas for key, each in solution.allocations.items() if key.name == name)


def test_a_minimum_beyond_its_pool_holds_its_model_alone(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=1, bounds=(5, None), now=1), model(name="b", wanted=2)]
    solution = solved(fleet(models, {"H100": 4}))
    assert held(solution) == [["a"]]
    assert solution.conflicts[0].reason == (
        "minReplicas 5 of llm/a-H100 and H100 with 4 left for the 5 that they take cannot all hold"
    )
    assert (replicas(solution, "a-H100"), replicas(solution, "b-H100")) == (1, 2)


def test_the_fewest_that_take_too_much_are_named(model: Build, fleet: Build) -> None:
    floors = {"a": 4, "b": 3, "c": 1, "d": 0}
    models = [model(name=name, wanted=1, bounds=(least, None)) for name, least in floors.items()]
    solution = solved(fleet(models, {"H100": 6}))
    assert held(solution) == [["a", "b"]]
    assert (replicas(solution, "c-H100"), replicas(solution, "d-H100")) == (1, 1)


def test_a_variant_that_may_choose_between_full_pools_is_held_and_nobody_else(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=1, bounds=(1, None), on=("H100",)), model(name="b", wanted=2, on=("L4",))]
    problem = fleet(models, {"H100": 0, "A100": 0, "L4": 5})
    solution = solved(problem)
    assert held(solution) == [["a"]]
    assert replicas(solution, "b-L4") == 2


def test_a_budget_below_a_floor_is_named(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=1, bounds=(3, None), weight=2.0, now=1), model(name="b", wanted=2)]
    problem = fleet(models, {"H100": 9})
    key = models[0].keys[0]
    solution = solved(fleet(models, {"H100": 9}, budgets=(Budget(name="team", variants=frozenset({key}), amount=5.0),)))
    assert not solved(problem).conflicts
    assert held(solution) == [["a"]]
    assert "team with 5 left for the 6 that they take" in solution.conflicts[0].reason
    assert replicas(solution, "b-H100") == 2


def test_pins_that_contradict_a_pool_hold_who_must_have_more(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=1, now=4), model(name="b", wanted=1, bounds=(1, None))]
    problem = fleet(models, {"H100": 3})
    pinned = {models[0].keys[0]: problem.current[models[0].keys[0]]}
    solution = solved(fleet(models, {"H100": 3}, pinned=pinned))
    assert held(solution) == [["b"]]
    assert solution.allocations[models[0].keys[0]].replicas == 4


def test_more_changes_than_one_request_may_hold_are_named(model: Build, fleet: Build) -> None:
    models = [model(name=name, wanted=2, bounds=(2, None)) for name in "abc"]
    limit = ChangeLimit(name="one request", variants=frozenset(each.keys[0] for each in models), changes=2)
    solution = solved(fleet([*models, model(name="d", wanted=3)], {"H100": 20}, change_limits=(limit,)))
    assert len(solution.conflicts) == 1
    assert "one request with 2 left for the 3 that they take" in solution.conflicts[0].reason
    assert replicas(solution, "d-H100") == 3


def test_bounds_that_no_count_keeps_hold_their_model_beside_ratios(model: Build, fleet: Build) -> None:
    roles = [model(name="a", wanted=2, role=role) for role in ("decode", "prefill")]
    models = [*roles, model(name="b", wanted=2), model(name="c", wanted=2, bounds=(3, 1))]
    ratio = Ratio(model=roles[0].requirement().model.whole, over="prefill", under="decode", least=1.0)
    solution = solved(fleet(models, {"H100": 20}, ratios=(ratio,)))
    assert held(solution) == [["c"]]
    assert solution.conflicts[0].rules == ("minReplicas 3 and maxReplicas 1 of llm/c-H100",)
    assert replicas(solution, "b-H100") == 2


def test_a_ratio_that_bounds_forbid_holds_its_model_and_not_another_with_a_ratio(model: Build, fleet: Build) -> None:
    models = [
        model(name=name, wanted=2, role=role, bounds=bounds)
        for name, role, bounds in (
            ("a", "decode", (4, None)),
            ("a", "prefill", (0, 1)),
            ("b", "decode", (0, None)),
            ("b", "prefill", (0, None)),
        )
    ]
    ratios = tuple(
        Ratio(model=each.requirement().model.whole, over="prefill", under="decode", least=1.0) for each in models[::2]
    )
    solution = solved(fleet(models, {"H100": 20}, ratios=ratios))
    assert held(solution) == [["a", "a"]]
    assert "the ratio of prefill to decode of a" in solution.conflicts[0].reason
    assert replicas(solution, "bprefill-H100") == 2


def test_where_only_fractions_fit_all_who_contradict_are_held(model: Build, fleet: Build) -> None:
    # A replica takes two devices, of one pool or the other: three are left in each, for one replica and a half.
    models = [model(name=name, wanted=2, takes=2, bounds=(1, None)) for name in "abc"]
    problem = fleet([*models, model(name="d", wanted=2, on=("A100",))], {"H100": 3, "L4": 3, "A100": 9})
    moved = tuple(
        replace(each, key=replace(each.key, accelerator="L4"), devices={"L4": 2}) for each in problem.candidates[:3]
    )
    either = tuple(
        replace(row, per_replica={**row.per_replica, candidate.key: 1.0})
        for row, candidate in zip(problem.requirements[:3], moved, strict=True)
    )
    solution = solved(
        replace(
            problem,
            candidates=(*problem.candidates, *moved),
            requirements=(*either, problem.requirements[3]),
        )
    )
    assert len(solution.conflicts) == 1
    # Any two of them fit, one into each pool: none of the three is superfluous.
    assert held(solution) == [["a", "b", "c"]]
    assert replicas(solution, "d-A100") == 2


def test_bounds_of_a_pinned_model_are_not_looked_at(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=1, now=1, bounds=(9, None)), model(name="b", wanted=2)]
    problem = fleet(models, {"H100": 4})
    pinned = {models[0].keys[0]: problem.current[models[0].keys[0]]}
    assert problem.bounds[models[0].keys[0]] == Bounds(minimum=9)
    assert not solved(fleet(models, {"H100": 4}, pinned=pinned)).conflicts
