"""The separable solver against every answer there is, and sentence by sentence."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Problem, SolveStatus
from reconciler.optimizer import separable as cover
from reconciler.optimizer.separable import SeparableSolver

SOLVER = SeparableSolver()
ENOUGH = 1 - 1e-9

Make = Callable[..., Problem]
Short = Callable[..., dict[str, str]]


def test_a_solver_is_found_by_its_name() -> None:
    assert SOLVERS["separable"].name == "separable"


@pytest.mark.parametrize("objective", ["cost", "inferno"])
@pytest.mark.parametrize("block", range(10))
def test_no_other_allocation_is_worth_less_or_as_much_with_fewer_changes(
    block: int, objective: str, draw_problem: Make, try_all: Callable[[Problem], list[Any]]
) -> None:
    for seed in range(block * 30, block * 30 + 30):
        problem = draw_problem(seed, objective)
        (requirement,) = problem.requirements
        answers = try_all(problem)
        solution = SOLVER.solve(problem)
        chosen = next(each for each in answers if each.allocations == solution.allocations)
        covering = [each for each in answers if each.carried >= requirement.amount * ENOUGH]
        if not covering:
            assert solution.shortfalls, seed
            assert chosen.carried == pytest.approx(max(each.carried for each in answers)), seed
            continue
        assert chosen in covering, seed
        least = min(each.value for each in covering)
        assert solution.value == pytest.approx(least, abs=1e-9), seed
        assert chosen.value == pytest.approx(least, abs=1e-9), seed
        tied = [each for each in covering if each.value <= least + 1e-9]
        fewest = min((each.accelerators_changed, each.changed) for each in tied)
        assert (chosen.accelerators_changed, chosen.changed) == fewest, seed
        assert solution.status is SolveStatus.OPTIMAL, seed
        assert solution.gap == 0.0


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_does_not_depend_on_the_order_of_the_input(seed: int, draw_problem: Make) -> None:
    problem = draw_problem(seed, "cost")
    (requirement,) = problem.requirements
    mirrored = replace(
        problem,
        candidates=problem.candidates[::-1],
        requirements=(replace(requirement, per_replica=dict(sorted(requirement.per_replica.items(), reverse=True))),),
        bounds=dict(sorted(problem.bounds.items(), reverse=True)),
    )
    assert SOLVER.solve(mirrored) == SOLVER.solve(problem)


def test_the_cheapest_cover_may_mix_variants(pose: Make, runs: Make, short: Short) -> None:
    variants = {"big": runs(offers={"H100": (6.0, 10.0)}), "small": runs(offers={"L4": (1.0, 1.0)})}
    assert short(SOLVER.solve(pose(12.0, variants))) == {"big": "1 x H100", "small": "2 x L4"}


def test_float_noise_above_a_whole_number_takes_no_replica(pose: Make, runs: Make, short: Short) -> None:
    problem = pose(3 * 0.1 * (1 + 1e-15), {"a": runs(offers={"H100": (1.0, 0.1)})})
    assert short(SOLVER.solve(problem)) == {"a": "3 x H100"}


@pytest.mark.parametrize("demand", [5e-324, 1e-310, 1e-300])
def test_a_demand_beyond_the_reach_of_floats_gets_an_answer_all_the_same(
    demand: float, pose: Make, runs: Make, short: Short
) -> None:
    capped = runs(current=("H100", 1), offers={"H100": (1.0, 3.0)}, bounds=(0, 0))
    free = runs(current=("H100", 0), offers={"H100": (1.0, 3.0)}, bounds=(0, None))
    answered = short(SOLVER.solve(pose(demand, {"a": capped, "b": free})))
    assert answered["a"] == "0 x H100"
    assert set(answered) == {"a", "b"}


@pytest.mark.parametrize("excess", [0.0, 0.5e-9, 0.999999999e-9, 1e-9, 1.000000001e-9, 1.5e-9, 3e-9])
def test_demand_at_the_edge_of_the_tolerance_is_decided(excess: float, pose: Make, runs: Make) -> None:
    capped = runs(offers={"H100": (1.0, 1.0)}, bounds=(0, 3))
    for names in (("a",), ("a", "b"), ("a", "b", "c")):
        demand = 3.0 * len(names) * (1 + excess)
        solution = SOLVER.solve(pose(demand, dict.fromkeys(names, capped)))
        assert {allocation.replicas for allocation in solution.allocations.values()} == {3}
        if not 0.9e-9 < excess < 1.1e-9:
            assert bool(solution.shortfalls) == (excess > 1e-9), names


def test_equal_values_keep_the_accelerator(pose: Make, runs: Make, short: Short) -> None:
    offers = {"2xMI300X": (130.0, 2.0), "MI300X": (65.0, 1.0)}
    for current in offers:
        problem = pose(2.0, {"a": runs(offers=offers, current=(current, 1))})
        assert short(SOLVER.solve(problem)) == {"a": {"2xMI300X": "1 x 2xMI300X", "MI300X": "2 x MI300X"}[current]}


def test_equal_values_change_the_fewest_variants(pose: Make, runs: Make, short: Short) -> None:
    variants = {
        "a": runs(offers={"H100": (1.0, 1.0)}, current=("H100", 1)),
        "b": runs(offers={"H100": (1.0, 1.0)}, current=("H100", 2)),
        "c": runs(offers={"H100": (1.0, 1.0)}, current=("H100", 3)),
    }
    assert short(SOLVER.solve(pose(3.0, variants))) == {"a": "1 x H100", "b": "2 x H100", "c": "0 x H100"}


def test_equal_values_and_changes_are_decided_by_name(pose: Make, runs: Make, short: Short) -> None:
    offers = {"L4": (1.0, 1.0), "A100": (1.0, 1.0)}
    assert short(SOLVER.solve(pose(2.0, {"a": runs(offers=offers)}))) == {"a": "2 x A100"}


def test_a_free_accelerator_is_still_sized_to_the_demand(pose: Make, runs: Make, short: Short) -> None:
    variants = {"a": runs(offers={"H100": (0.0, 1.0)}, current=("H100", 7))}
    assert short(SOLVER.solve(pose(2.5, variants))) == {"a": "3 x H100"}


def test_a_cover_of_free_replicas_holds_none_that_it_could_lose(pose: Make, runs: Make, short: Short) -> None:
    free = runs(offers={"H100": (0.0, 1.0)}, current=("H100", 3))
    assert short(SOLVER.solve(pose(4.0, {"a": free, "b": free}))) in (
        {"a": "1 x H100", "b": "3 x H100"},
        {"a": "3 x H100", "b": "1 x H100"},
    )


def test_bounds_that_forbid_a_cover_give_the_widest_one_and_say_so(pose: Make, runs: Make, short: Short) -> None:
    variants = {
        "a": runs(offers={"H100": (5.0, 10.0), "A100": (1.0, 4.0)}, bounds=(1, 2)),
        "b": runs(offers={"L4": (1.0, 1.0)}, bounds=(0, 3)),
    }
    solution = SOLVER.solve(pose(40.0, variants))
    assert short(solution) == {"a": "2 x H100", "b": "3 x L4"}
    (shortfall,) = solution.shortfalls
    assert (shortfall.covered, shortfall.wanted) == (23.0, 40.0)
    assert shortfall.reason == "maxReplicas 2 of llm/a, maxReplicas 3 of llm/b carries less than the demand"


def test_a_rule_that_forbids_a_cover_is_told_instead_of_a_bound(pose: Make, runs: Make) -> None:
    problem = pose(40.0, {"a": runs(offers={"H100": (5.0, 10.0)}, bounds=(1, 2)), "b": runs(offers={"L4": (1.0, 1.0)})})
    bounds = {
        key: Bounds(minimum=0, maximum=3, ruled_by="cap") if key.name == "b" else own
        for key, own in problem.bounds.items()
    }
    (shortfall,) = SOLVER.solve(replace(problem, bounds=bounds)).shortfalls
    assert shortfall.reason == "maxReplicas 2 of llm/a, 3 of llm/b by rule cap carries less than the demand"


def test_the_widest_cover_of_equals_is_the_one_that_stands(pose: Make, runs: Make, short: Short) -> None:
    offers = {"A100": (1.0, 4.0), "H100": (1.0, 4.0), "L4": (1.0, 4.0)}
    for current in offers:
        variants = {"a": runs(offers=offers, bounds=(0, 2), current=(current, 2))}
        assert short(SOLVER.solve(pose(40.0, variants))) == {"a": f"2 x {current}"}


def test_a_shortfall_counts_what_pinned_variants_carry(pose: Make, runs: Make) -> None:
    variants = {
        "held": runs(offers={"H100": (1.0, 5.0)}, current=("H100", 2), is_pinned=True),
        "a": runs(offers={"H100": (1.0, 5.0)}, bounds=(0, 1)),
    }
    (shortfall,) = SOLVER.solve(pose(40.0, variants)).shortfalls
    assert (shortfall.covered, shortfall.wanted) == (15.0, 40.0)


def test_a_pinned_variant_keeps_its_replicas_and_serves_its_model(pose: Make, runs: Make, short: Short) -> None:
    variants = {
        "held": runs(offers={"H100": (1.0, 5.0)}, current=("H100", 2), is_pinned=True),
        "a": runs(offers={"L4": (1.0, 1.0)}, current=("L4", 20)),
    }
    assert short(SOLVER.solve(pose(13.0, variants))) == {"a": "3 x L4", "held": "2 x H100"}
    assert short(SOLVER.solve(pose(4.0, variants))) == {"a": "0 x L4", "held": "2 x H100"}


def test_a_finished_answer_is_an_equality_on_the_current_accelerator(pose: Make, runs: Make, short: Short) -> None:
    variants = {
        "a": runs(offers={}, current=("H100", 4)),
        "held": runs(offers={}, current=("A100", 3), is_pinned=True),
    }
    solution = SOLVER.solve(pose(0.0, variants, fixed={"a": 1, "held": 1}))
    assert short(solution) == {"a": "1 x H100", "held": "3 x A100"}
    assert solution.status is SolveStatus.OPTIMAL


def test_in_order_takes_the_first_candidate_however_dear(pose: Make, runs: Make, short: Short) -> None:
    offers = {"A100": (1.0, 1.0), "H100": (9.0, 1.0)}
    variants = {"a": runs(offers=offers, is_in_order=True, order={"H100": 0, "A100": 1}, current=("A100", 1))}
    solution = SOLVER.solve(pose(2.0, variants))
    assert short(solution) == {"a": "2 x H100"}
    assert list(solution.reasons.values()) == ["the first candidate in order: ceil(2 / 1)"]


def test_a_candidate_that_carries_nothing_is_no_candidate(pose: Make, runs: Make, short: Short) -> None:
    variants = {"a": runs(offers={"L4": (1.0, 0.0), "H100": (9.0, 1.0)}), "b": runs(offers={"L4": (1.0, 0.0)})}
    assert short(SOLVER.solve(pose(2.0, variants))) == {"a": "2 x H100"}


def test_without_any_candidate_nothing_is_decided(pose: Make) -> None:
    assert SOLVER.solve(pose(2.0, {})).allocations == {}


def test_reasons_show_the_division_or_the_bound(pose: Make, runs: Make) -> None:
    offers = {"H100": (6.0, 10.6), "A100": (4.0, 5.0)}
    (reason,) = SOLVER.solve(pose(46.2, {"a": runs(offers=offers)})).reasons.values()
    assert reason == "cheapest of 2 candidates: ceil(46.2 / 10.6)"
    (reason,) = SOLVER.solve(pose(3.0, {"a": runs(offers={"H100": (6.0, 10.6)}, bounds=(2, None))})).reasons.values()
    assert reason == "the only candidate: the lower bound 2 carries 3 req/s"


def test_a_search_that_stops_early_says_what_it_has_not_proven(
    pose: Make, runs: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = {"A100": (3.97, 3.1), "H100": (6.88, 5.3), "L4": (0.7, 0.53), "MI300X": (5.1, 3.9)}
    problem = pose(97.3, dict.fromkeys("abcd", runs(offers=offers, bounds=(1, 20))))
    proven = SOLVER.solve(problem)
    monkeypatch.setattr(cover, "NODE_LIMIT", 30)
    stopped = SOLVER.solve(problem)
    (requirement,) = problem.requirements
    carried = sum(
        requirement.per_replica[key] * stopped.allocations[key.variant].replicas
        for key in requirement.per_replica
        if stopped.allocations[key.variant].accelerator == key.accelerator
    )
    assert carried >= 97.3 * ENOUGH
    assert stopped.status is SolveStatus.FEASIBLE
    assert stopped.lower_bound <= proven.value + 1e-9
    assert stopped.lower_bound <= proven.lower_bound + 1e-9
    assert stopped.value >= proven.lower_bound - 1e-9
    assert stopped.gap > 0


def test_the_search_ends_on_demands_beyond_any_fleet(pose: Make, runs: Make) -> None:
    offers = {"A100": (3.97, 3.1), "H100": (6.88, 5.3)}
    solution = SOLVER.solve(pose(1e12, dict.fromkeys("abcd", runs(offers=offers))))
    assert not solution.shortfalls
    assert solution.lower_bound <= solution.value < math.inf


def test_a_capped_efficient_variant_does_not_hide_the_others(pose: Make, runs: Make) -> None:
    variants = {
        "a": runs(offers={"L4": (0.001, 1.0)}, bounds=(0, 1_000_000)),
        "b": runs(offers={"H100": (5.0, 1.0)}, bounds=(0, 100)),
    }
    solution = SOLVER.solve(pose(1_000_100.0, variants))
    assert not solution.shortfalls
    assert {allocation.replicas for allocation in solution.allocations.values()} == {1_000_000, 100}


@pytest.mark.parametrize(
    ("demand", "changed"),
    [(200.0, 0), (203.0, 1), (170.0, 1), (151.0, 1), (130.0, 2), (60.0, 3), (4.0, 4), (1000.0, 1)],
)
def test_equal_variants_are_not_shuffled(demand: float, changed: int, pose: Make, runs: Make) -> None:
    """Their covers are as many as a search can never look through."""
    equal = runs(offers={"H100": (6.0, 1.0), "A100": (6.0, 1.0)}, current=("H100", 50), bounds=(1, None))
    problem = pose(demand, dict.fromkeys("abcd", equal))
    solution = SOLVER.solve(problem)
    assert solution.status is SolveStatus.OPTIMAL
    assert solution.value == pytest.approx(6.0 * demand)
    assert sum(solution.allocations[key] != problem.current[key] for key in solution.allocations) == changed
    assert {allocation.accelerator for allocation in solution.allocations.values()} == {"H100"}


def test_each_model_is_solved_alone(pose: Make, runs: Make) -> None:
    first = pose(2.0, {"a": runs(offers={"H100": (1.0, 1.0)})})
    second = pose(5.0, {"b": runs(offers={"L4": (2.0, 1.0)})})
    (other,) = second.requirements
    both = replace(
        first,
        requirements=(*first.requirements, replace(other, model=replace(other.model, model_id="qwen"))),
        candidates=first.candidates + second.candidates,
        current={**first.current, **second.current},
        current_weights={**first.current_weights, **second.current_weights},
        bounds={**first.bounds, **second.bounds},
    )
    solution = SOLVER.solve(both)
    assert solution.value == 12.0
    assert sorted(solution.allocations.values()) == [
        Allocation(accelerator="H100", replicas=2),
        Allocation(accelerator="L4", replicas=5),
    ]
