"""The reproductions as solvers: how a problem becomes servers, and their grants a solution."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Candidate, Pool, Problem, Requirement, Segment, SolveStatus
from reconciler.upstream.inferno import PriorityGreedySolver, SaturationPolicy

NAMES = ("inferno-weighted", "inferno-priority")
Short = Callable[..., dict[str, str]]


def key_of(name: str) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """A variant with a model of its own: `offers` are what a replica weighs and carries, by accelerator."""

    name: str
    demand: float
    offers: Mapping[str, tuple[float, float]]
    priority: int = 0
    current: tuple[str, int] = ("", 0)
    bounds: tuple[int, int | None] = (1, None)
    devices: int = 1
    is_pinned: bool = False
    fixed: int | None = None

    @property
    def requirement(self) -> Requirement:
        return Requirement(
            model=ModelKey(cluster="prod", namespace="llm", model_id=self.name),
            unit="req/s",
            segments=(Segment(amount=self.demand),),
            per_replica={
                key_of(self.name).on(accelerator): carries for accelerator, (_, carries) in self.offers.items()
            },
            fixed=None if self.fixed is None else {key_of(self.name): self.fixed},
            priority=self.priority,
        )

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(
                key=key_of(self.name).on(accelerator),
                weight=weight,
                cost_per_hour=weight,
                devices={accelerator: self.devices},
                order=order,
            )
            for order, (accelerator, (weight, _)) in enumerate(self.offers.items())
        )


def problem_of(variants: Sequence[Asks], pools: Mapping[str, int]) -> Problem:
    current = {
        key_of(each.name): Allocation(accelerator=each.current[0], replicas=each.current[1]) for each in variants
    }
    return Problem(
        requirements=tuple(each.requirement for each in variants),
        candidates=tuple(candidate for each in variants for candidate in each.candidates),
        current=current,
        current_weights={key_of(each.name): each.offers.get(each.current[0], (0.0, 0.0))[0] for each in variants},
        current_devices={key_of(each.name): {each.current[0]: each.devices} for each in variants},
        bounds={key_of(each.name): Bounds(minimum=each.bounds[0], maximum=each.bounds[1]) for each in variants},
        pinned={key_of(each.name): current[key_of(each.name)] for each in variants if each.is_pinned},
        pools=tuple(Pool(name=name, devices=devices) for name, devices in pools.items()),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_reproduction_is_found_by_its_name_and_serves_what_fits(name: str, short: Short) -> None:
    assert SOLVERS[name].name == name
    problem = problem_of(
        [
            Asks(name="a", demand=3.0, offers={"H100": (4.0, 1.0), "L4": (1.0, 0.25)}, current=("H100", 2)),
            Asks(name="b", demand=1.0, offers={"L4": (1.0, 0.5)}),
        ],
        {"H100": 4, "L4": 2},
    )
    solution = SOLVERS[name].solve(problem)
    assert short(solution) == {"a": "3 x H100", "b": "2 x L4"}
    # One H100 more; two L4 more, and a tenth of them for a variant that never ran.
    assert solution.value == pytest.approx(4.0 + 2.2)
    assert (solution.status, solution.gap, solution.shortfalls) == (SolveStatus.OPTIMAL, 0.0, ())
    assert solution.reasons[key_of("a")] == "candidate 1 of 2 by value"


@pytest.mark.parametrize("name", NAMES)
def test_who_gets_nothing_has_no_replicas_and_a_shortfall_with_the_reason(name: str, short: Short) -> None:
    variant = Asks(name="a", demand=3.0, offers={"H100": (4.0, 1.0), "L4": (1.0, 1.0)}, current=("H100", 2))
    solution = SOLVERS[name].solve(problem_of([variant], {"H100": 2, "L4": 0}))
    assert short(solution) == {"a": "0 x H100"}
    (shortfall,) = solution.shortfalls
    assert (shortfall.covered, shortfall.wanted) == (0.0, 3.0)
    assert shortfall.reason == "llm/a gets nothing: no candidate fits into what is left of H100, L4"
    assert solution.status is SolveStatus.FEASIBLE


@pytest.mark.parametrize("name", NAMES)
def test_a_later_candidate_says_that_those_before_it_did_not_fit(name: str, short: Short) -> None:
    variant = Asks(name="a", demand=1.0, offers={"L4": (1.0, 1.0), "H100": (4.0, 1.0)})
    solution = SOLVERS[name].solve(problem_of([variant], {"H100": 1, "L4": 0}))
    assert short(solution) == {"a": "1 x H100"}
    assert solution.reasons[key_of("a")] == "candidate 2 of 2 by value: what is before it does not fit"
    assert (solution.status, solution.value, solution.lower_bound) == (SolveStatus.FEASIBLE, 4.4, 1.1)


def test_the_higher_number_goes_first_here_where_inferno_takes_the_smaller(short: Short) -> None:
    low = Asks(name="a", demand=1.0, offers={"H100": (4.0, 1.0)}, priority=-3)
    high = Asks(name="b", demand=1.0, offers={"H100": (1.0, 1.0)}, priority=7)
    solution = SOLVERS["inferno-priority"].solve(problem_of([low, high], {"H100": 1}))
    assert short(solution) == {"a": "0 x ", "b": "1 x H100"}


def test_the_highest_priority_weighs_as_the_first_of_the_original_whatever_its_number(short: Short) -> None:
    """Losses of 11 and 12.1: the weights of 1 and 2 turn them round, those of 5 and 6, or of 106 and 107, would not."""
    high = Asks(name="high", demand=1.0, offers={"A": (10.0, 1.0), "B": (20.0, 1.0)}, priority=106)
    low = Asks(name="low", demand=1.0, offers={"A": (10.0, 1.0), "C": (21.0, 1.0)}, priority=105)
    pools = {"A": 1, "B": 1, "C": 1}
    expected = {"high": "1 x A", "low": "1 x C"}
    assert short(SOLVERS["inferno-weighted"].solve(problem_of([high, low], pools))) == expected
    assert (
        short(
            SOLVERS["inferno-weighted"].solve(problem_of([replace(high, priority=1), replace(low, priority=0)], pools))
        )
        == expected
    )


def test_best_effort_is_told_with_what_it_covers(short: Short) -> None:
    variant = Asks(name="a", demand=10.0, offers={"H100": (4.0, 2.0)}, devices=2)
    solver = PriorityGreedySolver(policy=SaturationPolicy.PRIORITY_ROUND_ROBIN)
    solution = solver.solve(problem_of([variant], {"H100": 7}))
    assert short(solution) == {"a": "3 x H100"}
    (shortfall,) = solution.shortfalls
    assert (shortfall.covered, shortfall.wanted) == (6.0, 10.0)
    assert shortfall.reason == "llm/a gets 3 of 5 replicas by best effort: no more fit into what is left of H100"


@pytest.mark.parametrize("name", NAMES)
def test_a_pool_that_is_not_counted_limits_nothing(name: str, short: Short) -> None:
    variant = Asks(name="a", demand=10.0, offers={"H100": (4.0, 1.0)})
    assert short(SOLVERS[name].solve(problem_of([variant], {}))) == {"a": "10 x H100"}


@pytest.mark.parametrize("name", NAMES)
def test_pinned_variants_keep_what_they_take(name: str, short: Short) -> None:
    pinned = Asks(name="p", demand=1.0, offers={"H100": (4.0, 1.0)}, current=("H100", 3), devices=2, is_pinned=True)
    free = Asks(name="a", demand=2.0, offers={"H100": (4.0, 1.0)})
    assert short(SOLVERS[name].solve(problem_of([pinned, free], {"H100": 8}))) == {"a": "2 x H100", "p": "3 x H100"}
    assert short(SOLVERS[name].solve(problem_of([pinned, free], {"H100": 7}))) == {"a": "0 x ", "p": "3 x H100"}


@pytest.mark.parametrize("name", NAMES)
def test_a_finished_answer_is_all_or_nothing_where_the_variant_runs(name: str, short: Short) -> None:
    variant = Asks(name="a", demand=8.0, offers={}, current=("H100", 2), fixed=4)
    assert short(SOLVERS[name].solve(problem_of([variant], {"H100": 4}))) == {"a": "4 x H100"}
    solution = SOLVERS[name].solve(problem_of([variant], {"H100": 3}))
    assert short(solution) == {"a": "0 x H100"}
    assert (solution.shortfalls[0].covered, solution.shortfalls[0].wanted) == (0.0, 8.0)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_cut_what_is_asked_and_say_so(name: str, short: Short) -> None:
    capped = Asks(name="a", demand=5.0, offers={"H100": (4.0, 1.0)}, bounds=(1, 3))
    idle = Asks(name="b", demand=0.0, offers={"H100": (4.0, 1.0)}, bounds=(2, None))
    solution = SOLVERS[name].solve(problem_of([capped, idle], {"H100": 9}))
    assert short(solution) == {"a": "3 x H100", "b": "2 x H100"}
    (shortfall,) = solution.shortfalls
    assert (shortfall.covered, shortfall.reason) == (3.0, "maxReplicas 3 of llm/a carries less than the demand")


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_in_order_has_its_first_candidate_only(name: str, short: Short) -> None:
    variant = Asks(name="a", demand=1.0, offers={"H100": (4.0, 1.0), "L4": (1.0, 1.0)})
    problem = replace(problem_of([variant], {"H100": 1, "L4": 1}), in_order=frozenset({key_of("a")}))
    assert short(SOLVERS[name].solve(problem)) == {"a": "1 x H100"}


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_without_a_candidate_is_left_out(name: str, short: Short) -> None:
    nothing = Asks(name="a", demand=1.0, offers={"H100": (4.0, 0.0)}, current=("H100", 1))
    solution = SOLVERS[name].solve(problem_of([nothing], {"H100": 1}))
    assert (short(solution), solution.shortfalls, solution.value) == ({}, (), 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_variants_of_one_model_are_each_sized_for_the_whole_demand(name: str, short: Short) -> None:
    first = Asks(name="a", demand=3.0, offers={"H100": (4.0, 1.0)})
    second = Asks(name="b", demand=3.0, offers={"L4": (1.0, 1.0)})
    problem = problem_of([first, second], {"H100": 9, "L4": 9})
    shared = replace(first.requirement, per_replica={**first.requirement.per_replica, **second.requirement.per_replica})
    solution = SOLVERS[name].solve(replace(problem, requirements=(shared,)))
    assert short(solution) == {"a": "3 x H100", "b": "3 x L4"}
    assert math.isclose(solution.value, 1.1 * 15)


@pytest.mark.parametrize("name", ["inferno-optimal", "auto"])
def test_under_its_own_objective_as_many_as_can_be_are_served(name: str, short: Short) -> None:
    variants = [
        Asks(name="large", demand=4.0, offers={"H100": (9.0, 1.0)}, current=("H100", 0)),
        Asks(name="small", demand=2.0, offers={"H100": (1.0, 1.0)}, current=("H100", 0)),
        Asks(name="tiny", demand=2.0, offers={"H100": (1.0, 1.0)}, current=("H100", 0)),
    ]
    problem = replace(problem_of(variants, {"H100": 4}), objective="inferno")
    solution = SOLVERS[name].solve(problem)
    assert short(solution) == {"large": "0 x H100", "small": "2 x H100", "tiny": "2 x H100"}
    assert short(SOLVERS["inferno-priority"].solve(problem)) == {
        "large": "4 x H100",
        "small": "0 x H100",
        "tiny": "0 x H100",
    }
    assert (solution.solver, solution.status) == ("inferno-optimal", SolveStatus.OPTIMAL)
    assert solution.value == solution.lower_bound == pytest.approx(4.0)
    assert [each.model.model_id for each in solution.shortfalls] == ["large"]


def test_what_fits_under_its_own_objective_is_what_each_model_would_choose_alone(short: Short) -> None:
    variants = [Asks(name="a", demand=3.0, offers={"H100": (4.0, 1.0), "L4": (1.0, 0.25)}, current=("H100", 2))]
    problem = replace(problem_of(variants, {"H100": 4, "L4": 20}), objective="inferno")
    solution = SOLVERS["auto"].solve(problem)
    assert (solution.solver, short(solution)) == ("separable", {"a": "3 x H100"})
