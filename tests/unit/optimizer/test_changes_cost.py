"""What a start and a touch cost, in the search of each model alone, against every plan."""

import itertools
import random
from dataclasses import replace

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Candidate, Problem, Requirement, Segment


def drawn(seed: int) -> Problem:
    draw = random.Random(seed)  # noqa: S311 - the same problems in every run
    keys = [ResourceKey(cluster="c", namespace="n", kind="K", name=name) for name in "abc"[: draw.randint(1, 3)]]
    candidates = tuple(
        Candidate(
            key=key.on(on),
            weight=draw.choice((0.7, 1.0, 2.0)),
            cost_per_hour=None,
            start_weight=draw.choice((0.0, 0.4, 3.0)),
        )
        for key in keys
        for on in draw.sample(("H100", "L4"), draw.choice((1, 2)))
    )
    return Problem(
        requirements=(
            Requirement(
                model=ModelKey(cluster="c", namespace="n", model_id="m"),
                unit="req/s",
                segments=(Segment(amount=draw.choice((0.0, 2.0, 5.0))),),
                per_replica={each.key: draw.choice((1.0, 1.5, 3.0)) for each in candidates},
            ),
        ),
        candidates=candidates,
        current={
            key: Allocation(accelerator=draw.choice(("H100", "L4", "A100")), replicas=draw.randint(0, 4))
            for key in keys
        },
        current_weights=dict.fromkeys(keys, 1.0),
        bounds={key: Bounds(minimum=draw.choice((0, 0, 1)), maximum=draw.choice((None, 6))) for key in keys},
        touch_weights={key: draw.choice((0.0, 0.5, 2.0)) for key in keys},
    )


def least_value(problem: Problem) -> float:
    """Over all plans, from the problem's words."""
    row = problem.requirements[0]
    offers = [
        [(each, count) for each in problem.candidates if each.key.variant == key for count in counts(problem, key)]
        for key in problem.current
    ]
    return min(
        sum(value_of(problem, each, count) for each, count in chosen)
        for chosen in itertools.product(*offers)
        if sum(row.per_replica[each.key] * count for each, count in chosen) >= row.amount
    )


def counts(problem: Problem, key: ResourceKey) -> range:
    return range(problem.bounds[key].minimum, (problem.bounds[key].maximum or 6) + 1)


def value_of(problem: Problem, candidate: Candidate, count: int) -> float:
    before = problem.current[candidate.key.variant]
    standing = before.replicas if before.accelerator == candidate.key.accelerator else 0
    is_kept = count == standing and (count == before.replicas)
    touch = 0.0 if is_kept else problem.touch_weights[candidate.key.variant]
    return candidate.weight * count + candidate.start_weight * max(count - standing, 0) + touch


@pytest.mark.parametrize("name", ["separable", "columns", "milp"])
@pytest.mark.parametrize("seed", range(40))
def test_starts_and_touches_cost_what_they_cost_in_the_best_of_all_plans(seed: int, name: str) -> None:
    problem = drawn(seed)
    solution = SOLVERS[name].solve(problem)
    assert solution.value == pytest.approx(least_value(problem), rel=1e-6)
    assert solution.lower_bound <= solution.value + 1e-9


def test_what_does_not_run_is_not_touched_by_staying_so() -> None:
    problem = drawn(0)
    idle = {key: Allocation(accelerator="A100", replicas=0) for key in problem.current}
    nothing = replace(problem.requirements[0], segments=())
    solution = SOLVERS["separable"].solve(
        replace(
            problem,
            requirements=(nothing,),
            current=idle,
            bounds=dict.fromkeys(idle, Bounds(minimum=0)),
            touch_weights=dict.fromkeys(idle, 1.0),
        )
    )
    assert solution.value == 0.0
