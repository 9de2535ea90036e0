"""Small problems, and every answer that they have."""

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Candidate, Problem, Requirement, Segment, Solution
from reconciler.optimizer.separable import transition_value

NAMES = ("a", "b", "c", "d")
ACCELERATORS = ("A100", "H100", "L4", "MI300X")

Offer = tuple[float, float]
"""What a replica weighs and carries."""


def variant_key(name: str) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name)


def model_key(model_id: str = "llama") -> ModelKey:
    return ModelKey(cluster="prod", namespace="llm", model_id=model_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One variant of a problem: its offers by accelerator, where it stands, and what it may have."""

    offers: Mapping[str, Offer]
    current: tuple[str, int] = ("", 0)
    bounds: tuple[int, int | None] = (0, None)
    is_pinned: bool = False
    is_in_order: bool = False
    order: Mapping[str, int] = field(default_factory=dict)
    current_weight: float | None = None

    @property
    def weight_now(self) -> float:
        """What one current replica weighs; that of its offer, if it is not told."""
        if self.current_weight is not None:
            return self.current_weight
        return self.offers[self.current[0]][0] if self.current[0] in self.offers else 0.0


def problem_of(
    demand: float,
    variants: Mapping[str, Runs],
    objective: str = "cost",
    fixed: Mapping[str, int] | None = None,
) -> Problem:
    """The problem of one model."""
    keys = {name: variant_key(name) for name in variants}
    rates = {
        keys[name].on(accelerator): carries
        for name, runs in variants.items()
        for accelerator, (_, carries) in runs.offers.items()
    }
    current = {
        keys[name]: Allocation(accelerator=runs.current[0], replicas=runs.current[1]) for name, runs in variants.items()
    }
    requirement = Requirement(
        model=model_key(),
        unit="req/s",
        segments=(Segment(amount=demand),),
        per_replica=rates,
        fixed=None if fixed is None else {keys[name]: replicas for name, replicas in fixed.items()},
    )
    return Problem(
        requirements=(requirement,),
        candidates=tuple(
            Candidate(
                key=keys[name].on(accelerator),
                weight=weight,
                cost_per_hour=weight,
                order=runs.order.get(accelerator, 0),
            )
            for name, runs in variants.items()
            if not runs.is_pinned
            for accelerator, (weight, _) in runs.offers.items()
        ),
        current=current,
        current_weights={keys[name]: runs.weight_now for name, runs in variants.items()},
        bounds={keys[name]: Bounds(minimum=runs.bounds[0], maximum=runs.bounds[1]) for name, runs in variants.items()},
        pinned={keys[name]: current[keys[name]] for name, runs in variants.items() if runs.is_pinned},
        in_order=frozenset(keys[name] for name, runs in variants.items() if runs.is_in_order),
        objective=objective,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One way to allocate the free variants of a problem of one model."""

    value: float
    carried: float
    accelerators_changed: int
    changed: int
    allocations: Mapping[ResourceKey, Allocation]


def value_of(problem: Problem, candidate: Candidate, replicas: int) -> float:
    if problem.objective == "cost":
        return candidate.weight * replicas
    variant = candidate.key.variant
    current = problem.current[variant]
    return transition_value(
        current_accelerator=current.accelerator,
        current_replicas=current.replicas,
        current_cost_per_hour=current.replicas * problem.current_weights[variant],
        accelerator=candidate.key.accelerator,
        replicas=replicas,
        cost_per_hour=candidate.weight * replicas,
    )


def all_answers(problem: Problem) -> list[Answer]:
    """Every allocation that nothing could be better than, by trying all counts up to what the demand could need."""
    (requirement,) = problem.requirements
    by_variant: dict[ResourceKey, list[tuple[Candidate, int]]] = {}
    for candidate in problem.candidates:
        bounds = problem.bounds[candidate.key.variant]
        needed = math.ceil(requirement.amount / requirement.per_replica[candidate.key])
        most = max(needed, bounds.minimum)
        most = most if bounds.maximum is None else min(most, bounds.maximum)
        choices = by_variant.setdefault(candidate.key.variant, [])
        choices += [(candidate, replicas) for replicas in range(bounds.minimum, most + 1)]
    return [_answer(problem, requirement, chosen) for chosen in itertools.product(*by_variant.values())]


def _answer(problem: Problem, requirement: Requirement, chosen: tuple[tuple[Candidate, int], ...]) -> Answer:
    allocations = {
        candidate.key.variant: Allocation(accelerator=candidate.key.accelerator, replicas=replicas)
        for candidate, replicas in chosen
    }
    current = problem.current
    return Answer(
        value=sum(value_of(problem, candidate, replicas) for candidate, replicas in chosen),
        carried=sum(requirement.per_replica[candidate.key] * replicas for candidate, replicas in chosen),
        accelerators_changed=sum(
            allocation.accelerator != current[variant].accelerator for variant, allocation in allocations.items()
        ),
        changed=sum(allocation != current[variant] for variant, allocation in allocations.items()),
        allocations=allocations,
    )


def random_problem(seed: int, objective: str) -> Problem:
    """A small problem; round weights make ties, bounds make some of them infeasible."""
    draw = random.Random(seed)  # noqa: S311 - the same problems in every run
    size = draw.choice((1, 1, 2, 2, 2, 3, 3, 4))
    variants = {name: _random_runs(draw, size) for name in NAMES[:size]}
    return problem_of(draw.choice((0.0, 0.5, 1.0, 3.0, 4.0, 6.0, 7.3)), variants, objective)


def _random_runs(draw: random.Random, size: int) -> Runs:
    accelerators = draw.sample(ACCELERATORS, draw.randint(1, {1: 4, 2: 4, 3: 3, 4: 2}[size]))
    offers = {name: (draw.choice((0.5, 1, 1, 2, 3.97)), draw.choice((1, 1.5, 2, 3, 0.9))) for name in accelerators}
    least = draw.choice((0, 0, 1, 2))
    most = draw.choice((None, None, least + 1, least + 3))
    return Runs(
        offers=offers,
        current=(draw.choice((*accelerators, accelerators[0])), draw.randint(0, 4)),
        bounds=(least, most),
    )


@pytest.fixture
def pose() -> Callable[..., Problem]:
    """Makes a problem of one model."""
    return problem_of


@pytest.fixture
def runs() -> type[Runs]:
    """One variant of a problem."""
    return Runs


@pytest.fixture
def draw_problem() -> Callable[[int, str], Problem]:
    """Makes a random problem from a seed and an objective."""
    return random_problem


@pytest.fixture
def try_all() -> Callable[[Problem], list[Answer]]:
    """Every answer of a problem."""
    return all_answers


@pytest.fixture
def short() -> Callable[[Solution], dict[str, str]]:
    """A solution as `{variant: "3 x H100"}`."""

    def words(solution: Solution) -> dict[str, str]:
        return {
            variant.name: f"{allocation.replicas} x {allocation.accelerator}"
            for variant, allocation in sorted(solution.allocations.items())
        }

    return words
