"""Who gets what there is not enough of."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem, Solution
from reconciler.optimizer import scarcity as levels
from reconciler.optimizer.device_use import violations
from reconciler.optimizer.formulation import Formulation
from reconciler.optimizer.highs import Floats

Build = Callable[..., Any]
SHARING = levels._sharing


def solved(problem: Problem) -> Solution:
    solution = SOLVERS["auto"].solve(problem)
    assert not violations(problem, solution.allocations)
    return solution


def replicas(solution: Solution) -> dict[str, int]:
    return {key.name: each.replicas for key, each in sorted(solution.allocations.items())}


def test_a_higher_level_is_served_before_a_lower_one(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=6, priority=0), model(name="b", wanted=6, priority=10)]
    assert replicas(solved(fleet(models, {"H100": 8}))) == {"a-H100": 2, "b-H100": 6}


def test_bounds_come_before_any_priority(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=6, bounds=(3, None)), model(name="b", wanted=6, priority=10)]
    assert replicas(solved(fleet(models, {"H100": 8}))) == {"a-H100": 3, "b-H100": 5}


def test_who_is_expendable_and_has_no_floor_gets_nothing_where_devices_are_scarce(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=4, priority=-5, now=4), model(name="b", wanted=6), model(name="c", wanted=6)]
    solution = solved(fleet(models, {"H100": 10}))
    assert replicas(solution) == {"a-H100": 0, "b-H100": 5, "c-H100": 5}
    assert {each.model.model_id for each in solution.shortfalls} == {"a", "b", "c"}


def test_levels_that_the_usual_rule_serves_whole_are_not_searched(
    model: Build, fleet: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Formulation] = []

    def sharing(formulation: Formulation, granted: Floats, asking: Floats, steepness: float) -> Formulation:
        asked.append(SHARING(formulation, granted, asking, steepness))
        return asked[-1]

    monkeypatch.setattr(levels, "_sharing", sharing)
    models = [model(name=name, wanted=4, priority=level) for name, level in zip("abc", (20, 10, 0), strict=True)]
    assert replicas(solved(fleet(models, {"H100": 10}))) == {"a-H100": 4, "b-H100": 4, "c-H100": 2}
    # Of the last level alone, and once: nobody can have more in equal parts either.
    assert [each.rows.priority[each.rows.amounts.any(axis=1)].tolist() for each in asked] == [[0]]


def test_models_of_a_level_share_by_the_fraction_of_what_they_want(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=4), model(name="b", wanted=8), model(name="c", wanted=12)]
    assert replicas(solved(fleet(models, {"H100": 12}))) == {"a-H100": 2, "b-H100": 4, "c-H100": 6}


def test_a_model_that_nobody_can_serve_takes_no_fairness_from_others(model: Build, fleet: Build) -> None:
    stuck = [model(name=f"s{index:02}", wanted=8, on=("L4",)) for index in range(60)]
    models = [model(name=f"m{index:02}", wanted=8) for index in range(12)]
    found = replicas(solved(fleet([*stuck, *models], {"H100": 48, "L4": 0})))
    assert {count for name, count in found.items() if name.startswith("m")} == {4}


def test_what_a_large_replica_leaves_is_used_by_a_lower_level(model: Build, fleet: Build) -> None:
    models = [model(name="a", wanted=8, takes=4, carried=4, priority=10), model(name="b", wanted=8)]
    assert replicas(solved(fleet(models, {"H100": 7}))) == {"a-H100": 1, "b-H100": 3}


@pytest.mark.parametrize("priorities", list(itertools.permutations((-10, 0, 10))))
def test_priority_changes_nothing_where_there_is_room(model: Build, fleet: Build, priorities: tuple[int, ...]) -> None:
    models = [
        model(name=name, wanted=6, on=("H100", "L4"), priority=priority)
        for name, priority in zip("abc", priorities, strict=True)
    ]
    problem = fleet(models, {"H100": 10, "L4": 30})
    level = replace(problem, requirements=tuple(replace(each, priority=0) for each in problem.requirements))
    assert solved(problem).allocations == solved(level).allocations


def coverage(problem: Problem, plan: Mapping[ResourceKey, Allocation]) -> tuple[tuple[float, ...], ...]:
    """By falling level the sorted fractions of their demand that models have covered."""
    found: dict[int, list[float]] = {}
    for row in problem.requirements:
        carried = sum(each * plan[key.variant].replicas for key, each in row.per_replica.items())
        found.setdefault(row.priority, []).append(min(carried / row.amount, 1.0))
    return tuple(tuple(sorted(found[level])) for level in sorted(found, reverse=True))


def fairest(problem: Problem) -> tuple[tuple[float, ...], ...]:
    """The best coverage of all plans: the highest level first, and in it the least covered."""
    keys = [each.key for each in problem.candidates]
    best: tuple[tuple[float, ...], ...] = ()
    for counts in itertools.product(range(5), repeat=len(keys)):
        plan = {
            key.variant: Allocation(accelerator=key.accelerator, replicas=count)
            for key, count in zip(keys, counts, strict=True)
        }
        if not violations(problem, plan):
            best = max(best, coverage(problem, plan))
    return best


def test_no_plan_is_fairer_by_more_than_an_eighth(model: Build, fleet: Build) -> None:
    scarce = 0
    for wanted, devices, priorities, takes in itertools.product(
        ((2, 4, 4), (4, 3, 1)), (1, 4, 6), ((0, 0, 0), (0, 0, 9), (5, 0, -5)), ((1, 1, 1), (2, 1, 3))
    ):
        models = [
            model(name=name, wanted=each, priority=level, takes=size, now=2)
            for name, each, level, size in zip("abc", wanted, priorities, takes, strict=True)
        ]
        problem = fleet(models, {"H100": devices})
        reached, best = coverage(problem, solved(problem).allocations), fairest(problem)
        scarce += best[-1][-1] < 1
        for got, possible in zip(itertools.chain(*reached), itertools.chain(*best), strict=True):
            if got > possible + 1e-9:
                break
            assert got >= possible - 0.125, (wanted, devices, priorities, takes, reached, best)
            if got < possible - 1e-9:
                break
    assert scarce >= 20


@pytest.mark.parametrize("priority", [0, 10])
def test_an_order_of_accelerators_is_no_reason_to_serve_less(model: Build, fleet: Build, priority: int) -> None:
    models = [
        model(name="a", wanted=5, on=("H100",), now=5, priority=priority),
        model(name="b", wanted=6, on=("A100",)),
    ]
    problem = fleet(models, {"H100": 1, "L4": 20, "A100": 5})
    first, row = problem.candidates[0], problem.requirements[0]
    second = replace(first, key=replace(first.key, accelerator="L4"), devices={"L4": 1}, weight=2.0, order=1)
    problem = replace(
        problem,
        candidates=(*problem.candidates, second),
        requirements=(replace(row, per_replica={**row.per_replica, second.key: 1.0}), problem.requirements[1]),
        in_order=frozenset({first.key.variant}),
    )
    solution = solved(problem)
    assert solution.allocations[first.key.variant] == Allocation(accelerator="L4", replicas=5)
    assert replicas(solution)["b-A100"] == 5


def test_who_is_short_is_told_of_what_by_whom_and_at_which_level(model: Build, fleet: Build) -> None:
    models = [
        model(name="a", wanted=4, priority=10),
        model(name="b", wanted=6),
        model(name="c", wanted=6),
        model(name="d", wanted=2, priority=-5),
        model(name="e", wanted=3, on=("L4",)),
    ]
    solution = solved(fleet(models, {"H100": 10, "L4": 3}))
    found = {each.model.model_id: each for each in solution.coverages}
    assert {name: (each.needed, each.given, each.unserved) for name, each in found.items()} == {
        "a": (4, 4, 0),
        "b": (6, 3, 3),
        "c": (6, 3, 3),
        "d": (2, 0, 2),
        "e": (3, 3, 0),
    }
    assert found["e"].competes_for == found["a"].competes_for == ()
    assert found["d"].competes_for == ("H100",)
    assert [each.model_id for each in found["d"].rivals] == ["a", "b", "c"]
    assert [each.model_id for each in found["b"].rivals] == ["a", "c"]
    assert (found["a"].decided_at, found["b"].decided_at, found["d"].decided_at) == (None, 0, 0)


def test_who_needs_no_more_than_there_is_competes_for_nothing(model: Build, fleet: Build) -> None:
    solution = solved(fleet([model(name="a", wanted=4, bounds=(0, 3))], {"H100": 10}))
    assert [(each.given, each.unserved, each.competes_for) for each in solution.coverages] == [(3, 1, ())]
