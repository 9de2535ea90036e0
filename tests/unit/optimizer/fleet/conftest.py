"""Small fleets with every kind of row, and every plan that they have, from the problem's words alone."""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import (
    Bounds,
    Budget,
    Candidate,
    ChangeLimit,
    Pool,
    Problem,
    Ratio,
    Requirement,
    Segment,
)

ACCELERATORS = ("A100", "H100", "L4")
MOST = 3
"""Replicas that a brute force tries of one choice at least; a demand of one choice alone may ask for more."""

ORDER_WEIGHT = 1_000.0
"""What taking a later accelerator than the first of the resource's order is worth to a brute force: all else."""


def variant_key(name: str) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name)


def model_key(name: str, role: str = "") -> ModelKey:
    return ModelKey(cluster="prod", namespace="llm", model_id=name, role=role)


class _Fleet:
    """A problem while it is drawn."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - the same problems in every run
        self.requirements: list[Requirement] = []
        self.candidates: list[Candidate] = []
        self.current: dict[ResourceKey, Allocation] = {}
        self.weights: dict[ResourceKey, float] = {}
        self.devices: dict[ResourceKey, Mapping[str, int]] = {}
        self.bounds: dict[ResourceKey, Bounds] = {}
        self.touch: dict[ResourceKey, float] = {}
        self.ready: dict[ResourceKey, int] = {}
        self.ratios: list[Ratio] = []
        self.in_order: frozenset[ResourceKey] = frozenset()

    def problem(self) -> Problem:
        draw = self.draw
        models = draw.choice((1, 2, 2, 3))
        for index in range(models):
            self._model(f"m{index}", most=4 - models)
        keys = list(self.current)
        pinned = {key: self.current[key] for key in keys if draw.random() < 0.1}
        pools = tuple(Pool(name=name, devices=draw.randint(2, 12)) for name in ACCELERATORS)
        budgets = (Budget(name="team", variants=frozenset(keys[::2]), amount=draw.choice((6.0, 12.0, 40.0))),)
        limits = (ChangeLimit(name="one pull request", variants=frozenset(keys), changes=draw.choice((1, 2, 9))),)
        return Problem(
            requirements=tuple(self.requirements),
            candidates=tuple(each for each in self.candidates if each.key.variant not in pinned),
            current=self.current,
            current_weights=self.weights,
            bounds=self.bounds,
            pinned=pinned,
            in_order=self.in_order - pinned.keys(),
            pools=pools if draw.random() < 0.8 else (),
            budgets=budgets if draw.random() < 0.4 else (),
            change_limits=limits if draw.random() < 0.3 else (),
            ratios=tuple(self.ratios),
            current_devices=self.devices,
            ready=self.ready,
            touch_weights=self.touch if draw.random() < 0.4 else {},
        )

    def _model(self, name: str, most: int) -> None:
        draw = self.draw
        if draw.random() < 0.2:
            for role in ("decode", "prefill"):
                self._requirement(name, role, 1)
            least = draw.choice((0.0, 0.5, 1.0))
            highest = draw.choice((None, least + 1))
            self.ratios.append(Ratio(model=model_key(name), over="prefill", under="decode", least=least, most=highest))
        else:
            self._requirement(name, "", draw.randint(1, most))

    def _requirement(self, name: str, role: str, size: int) -> None:
        draw = self.draw
        keys = [variant_key(f"{name}{role}-{index}") for index in range(size)]
        carried: dict[CandidateKey, float] = {}
        for key in keys:
            self._variant(key, carried, 1 if size == 3 else draw.choice((1, 1, 2)))
        if draw.random() < 0.1:
            fixed = {key: draw.randint(0, 3) for key in keys}
            self.requirements.append(
                Requirement(model=model_key(name, role), unit="replicas", segments=(), per_replica={}, fixed=fixed)
            )
            return
        amount = draw.choice((0.0, 1.0, 2.0, 3.0))
        segments = (
            (
                Segment(amount=amount * 0.6, price=draw.choice((9.0, 30.0))),
                Segment(amount=amount * 0.3, price=4.0, probability=0.5),
                Segment(amount=amount * 0.1, price=1.0),
            )
            if draw.random() < 0.4
            else (Segment(amount=amount),)
        )
        self.requirements.append(
            Requirement(
                model=model_key(name, role),
                unit="req/s",
                segments=segments,
                per_replica=carried,
                priority=draw.choice((0, 0, 10)),
                active_limit=draw.choice((None, 1, 2, 2)),
            )
        )

    def _variant(self, key: ResourceKey, carried: dict[CandidateKey, float], offers: int) -> None:
        draw = self.draw
        accelerators = draw.sample(ACCELERATORS, offers)
        for accelerator in accelerators:
            candidate = key.on(accelerator)
            carried[candidate] = draw.choice((1.0, 1.5, 2.0, 3.0))
            weight = draw.choice((0.7, 1.0, 2.0, 3.97))
            self.candidates.append(
                Candidate(
                    key=candidate,
                    weight=weight,
                    cost_per_hour=weight,
                    start_weight=draw.choice((0.0, 0.3)),
                    devices={accelerator: draw.choice((1, 1, 2))},
                )
            )
        standing = self.candidates[-1]
        least = draw.choice((0, 0, 0, 1))
        self.current[key] = Allocation(accelerator=standing.key.accelerator, replicas=draw.randint(0, 3))
        self.weights[key] = standing.weight
        self.devices[key] = standing.devices
        self.bounds[key] = Bounds(minimum=least, maximum=draw.choice((None, None, least + 1, least + 2)))
        self.touch[key] = draw.choice((0.0, 0.5))
        self.ready[key] = draw.randint(0, 3)


class _VariedFleet(_Fleet):
    """One that asks for more of everything: what moves away, comes in order, is ready in part, has several budgets."""

    def problem(self) -> Problem:
        problem = _Fleet.problem(self)
        draw, keys = self.draw, list(problem.current)
        budgets = [
            Budget(name=f"team {index}", variants=frozenset(group), amount=draw.choice((2.0, 5.0, 9.5, 40.0)))
            for index, group in enumerate((keys[::2], keys[1:], keys[-2:]))
        ]
        limits = [
            ChangeLimit(name=f"group {index}", variants=frozenset(group), changes=draw.choice((0, 1, 2)))
            for index, group in enumerate((keys[:2], keys[1:]))
        ]
        return replace(
            problem,
            budgets=tuple(draw.sample(budgets, draw.choice((0, 0, 1, 2, 3)))),
            change_limits=tuple(draw.sample(limits, draw.choice((0, 0, 1, 2)))),
            pools=tuple(replace(pool, devices=draw.randint(0, 9)) for pool in problem.pools),
        )

    def _model(self, name: str, most: int) -> None:
        draw = self.draw
        if draw.random() < 0.25:
            for role in ("decode", "prefill"):
                self._requirement(name, role, draw.choice((1, 1, 2)) if most == 3 else 1)
            least = draw.choice((0.0, 0.5, 1.0, 2.0))
            highest = draw.choice((None, least + 0.5, least + 1, 3.0))
            self.ratios.append(Ratio(model=model_key(name), over="prefill", under="decode", least=least, most=highest))
        else:
            self._requirement(name, "", draw.randint(1, most))

    def _requirement(self, name: str, role: str, size: int) -> None:
        _Fleet._requirement(self, name, role, size)
        draw, found = self.draw, self.requirements[-1]
        if found.fixed is not None:
            return
        scale = draw.choice((1.0, 1.0, 2.5)) if size < 3 and not role else 1.0
        segments = [replace(each, amount=each.amount * scale) for each in found.segments]
        if draw.random() < 0.3:
            draw.shuffle(segments)
        self.requirements[-1] = replace(
            found,
            segments=tuple(segments),
            priority=draw.choice((-10, 0, 0, 10)),
            active_limit=draw.choice((None, 1, 2, 3)),
        )

    def _variant(self, key: ResourceKey, carried: dict[CandidateKey, float], offers: int) -> None:
        _Fleet._variant(self, key, carried, offers)
        draw = self.draw
        drawn = draw.random()
        if drawn < 0.25:
            # It stands on what is not offered any more.
            self.current[key] = Allocation(accelerator="V100", replicas=draw.randint(0, 2))
            self.devices[key] = {draw.choice(ACCELERATORS): 1}
            carried[key.on("V100")] = draw.choice((0.5, 1.0))
        elif drawn < 0.4:
            self.in_order |= {key}
        if draw.random() < 0.3:
            least = draw.choice((0, 1, 2))
            self.bounds[key] = Bounds(minimum=least, maximum=draw.choice((None, least, least + 1)))
        order = draw.sample(range(len(self.candidates)), len(self.candidates))
        self.candidates = [
            replace(each, order=place) if each.key.variant == key else each
            for each, place in zip(self.candidates, order, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The best plan of a brute force; infinite where no plan keeps all rules."""

    value: float
    allocations: Mapping[ResourceKey, Allocation]


def brute_force(problem: Problem, is_allowed: Callable[[Mapping[ResourceKey, Allocation]], bool]) -> Reached:
    """The least value over all plans that cover what the bounds alone let each model cover."""
    models = [list(_of_model(problem, each)) for each in problem.requirements]
    best = Reached(value=math.inf, allocations={})
    offered = [
        [plan for plan in plans if _covered(problem, row, plan) >= _coverable(problem, row, plans) - 1e-9]
        for row, plans in zip(problem.requirements, models, strict=True)
    ]
    worths = [
        sorted(((_worth(problem, row, plan), index) for index, plan in enumerate(plans)))
        for row, plans in zip(problem.requirements, offered, strict=True)
    ]
    least = [min((worth for worth, _ in each), default=math.inf) for each in worths]

    def descend(row: int, value: float, allocations: dict[ResourceKey, Allocation]) -> None:
        nonlocal best
        if row == len(offered):
            if is_allowed(allocations):
                best = Reached(value=value, allocations=allocations)
            return
        for worth, index in worths[row]:
            if value + worth + sum(least[row + 1 :]) >= best.value - 1e-9:
                return
            descend(row + 1, value + worth, {**allocations, **offered[row][index]})

    descend(0, 0.0, {})
    return best


def _of_model(problem: Problem, row: Requirement) -> Iterator[dict[ResourceKey, Allocation]]:
    keys = sorted(row.fixed) if row.fixed is not None else sorted({each.variant for each in row.per_replica})
    free = [key for key in keys if key not in problem.pinned]
    for plan in itertools.product(*(_of_variant(problem, row, key) for key in free)):
        yield dict(zip(free, plan, strict=True))


def _of_variant(problem: Problem, row: Requirement, key: ResourceKey) -> list[Allocation]:
    bounds, current = problem.bounds[key], problem.current[key]
    if row.fixed is not None:
        least = min(bounds.minimum, row.fixed[key])
        return [
            Allocation(accelerator=current.accelerator, replicas=count) for count in range(least, row.fixed[key] + 1)
        ]
    most = _most(problem, row)
    most = most if bounds.maximum is None else min(bounds.maximum, most)
    plans = [
        Allocation(accelerator=each.key.accelerator, replicas=count)
        for each in problem.candidates
        if each.key.variant == key
        for count in range(max(bounds.minimum, 1), most + 1)
    ]
    idle = Allocation(accelerator=current.accelerator, replicas=0)
    return [idle, *plans] if bounds.minimum == 0 else plans


def _most(problem: Problem, row: Requirement) -> int:
    """As many as any best plan has of one choice, or a few more."""
    amount = sum(each.amount for other in problem.requirements for each in other.segments if other.model == row.model)
    beside = max((each.least for each in problem.ratios if each.model == row.model), default=1.0)
    alone = math.ceil(amount / min(row.per_replica.values(), default=1.0) * max(beside, 1.0))
    standing = max(problem.current[each.variant].replicas for each in row.per_replica)
    least = max(problem.bounds[each.variant].minimum for each in row.per_replica)
    return max(MOST, alone, standing, least)


def _pinned(problem: Problem, row: Requirement) -> float:
    return sum(
        each * problem.pinned[key.variant].replicas
        for key, each in row.per_replica.items()
        if key.variant in problem.pinned and problem.pinned[key.variant].accelerator == key.accelerator
    )


def _covered(problem: Problem, row: Requirement, plan: Mapping[ResourceKey, Allocation]) -> float:
    if row.fixed is not None:
        return float(sum(each.replicas for each in plan.values()))
    return _pinned(problem, row) + sum(
        row.per_replica[key.on(each.accelerator)] * each.replicas for key, each in plan.items() if each.replicas
    )


def _coverable(problem: Problem, row: Requirement, plans: list[dict[ResourceKey, Allocation]]) -> float:
    """What must be covered, as far as the bounds and the count of active variants admit it."""
    if row.fixed is not None:
        return float(sum(count for key, count in row.fixed.items() if key not in problem.pinned))
    must = sum(each.amount for each in row.segments if each.price is None)
    members = {each.variant for each in row.per_replica}
    pinned = sum(problem.pinned[key].replicas > 0 for key in members & problem.pinned.keys())
    standing = sum(
        problem.current[key].replicas > 0 or problem.bounds[key].minimum > 0 for key in (plans[0] if plans else {})
    )
    limit = math.inf if row.active_limit is None else max(row.active_limit - pinned, standing)
    widest = max(
        (_covered(problem, row, plan) for plan in plans if sum(each.replicas > 0 for each in plan.values()) <= limit),
        default=0.0,
    )
    return min(must, widest)


def _worth(problem: Problem, row: Requirement, plan: Mapping[ResourceKey, Allocation]) -> float:
    candidates = {each.key: each for each in problem.candidates}
    value = 0.0
    for key, each in plan.items():
        before = problem.current[key]
        candidate = candidates.get(key.on(each.accelerator))
        is_kept = before.accelerator == each.accelerator
        started = max(each.replicas - (before.replicas if is_kept else 0), 0)
        if row.fixed is not None:
            value += problem.current_weights[key] * each.replicas
        elif each.replicas and candidate is not None:
            value += candidate.weight * each.replicas + candidate.start_weight * started
            value += ORDER_WEIGHT * _lateness(problem, candidate)
        if each.replicas != before.replicas or (each.replicas and not is_kept):
            value += problem.touch_weights.get(key, 0.0)
    left = _covered(problem, row, plan)
    for segment in sorted(row.segments, key=_urgency):
        short = max(segment.amount - left, 0.0)
        value += 0.0 if segment.price is None or row.fixed is not None else short * segment.price * segment.probability
        left = max(left - segment.amount, 0.0)
    return value


def _urgency(segment: Segment) -> float:
    return -math.inf if segment.price is None else -segment.price * segment.probability


def _lateness(problem: Problem, candidate: Candidate) -> int:
    """How many accelerators come before the candidate's in a resource's own order."""
    if candidate.key.variant not in problem.in_order:
        return 0
    rivals = [each for each in problem.candidates if each.key.variant == candidate.key.variant]
    return sum((each.order, each.key) < (candidate.order, candidate.key) for each in rivals)


def lateness(problem: Problem, plan: Mapping[ResourceKey, Allocation]) -> int:
    """By how many accelerators a plan falls behind the resources' own orders."""
    return sum(
        _lateness(problem, each)
        for row in problem.requirements
        for each in problem.candidates
        if each.key in row.per_replica
        and plan.get(each.key.variant, problem.current[each.key.variant]).accelerator == each.key.accelerator
        and plan.get(each.key.variant, problem.current[each.key.variant]).replicas
    )


def random_fleet(seed: int) -> Problem:
    """A small fleet with every kind of row; many of them contradict each other."""
    return _Fleet(seed).problem()


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model with one variant for each of its accelerators, in a word or two."""

    name: str
    wanted: float
    on: tuple[str, ...] = ("H100",)
    carried: float = 1.0
    weight: float = 1.0
    takes: int = 1
    now: int = 0
    bounds: tuple[int, int | None] = (0, None)
    priority: int = 0
    role: str = ""
    active_limit: int | None = None
    price: float | None = None

    @property
    def keys(self) -> tuple[ResourceKey, ...]:
        return tuple(variant_key(f"{self.name}{self.role}-{name}") for name in self.on)

    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(
                key=key.on(name),
                weight=self.weight * (place + 1),
                cost_per_hour=self.weight * (place + 1),
                devices={name: self.takes},
                order=place,
            )
            for place, (key, name) in enumerate(zip(self.keys, self.on, strict=True))
        )

    def requirement(self) -> Requirement:
        return Requirement(
            model=model_key(self.name, self.role),
            unit="req/s",
            segments=(Segment(amount=self.wanted, price=self.price),),
            per_replica={each.key: self.carried for each in self.candidates()},
            priority=self.priority,
            active_limit=self.active_limit,
        )


def fleet_of(models: Sequence[Model], pools: Mapping[str, int], **rest: Any) -> Problem:
    """The problem of some models; `now` replicas of each stand on its first accelerator."""
    offered = [each for model in models for each in model.candidates()]
    standing = {model.keys[0]: model.now for model in models}
    bounds = {key: Bounds(minimum=model.bounds[0], maximum=model.bounds[1]) for model in models for key in model.keys}
    current = {
        each.key.variant: Allocation(accelerator=each.key.accelerator, replicas=standing.get(each.key.variant, 0))
        for each in offered
    }
    given = {
        "requirements": tuple(model.requirement() for model in models),
        "candidates": tuple(offered),
        "current": current,
        "current_weights": {each.key.variant: each.weight for each in offered},
        "bounds": bounds,
        "pools": tuple(Pool(name=name, devices=devices) for name, devices in pools.items()),
        "current_devices": {each.key.variant: each.devices for each in offered},
    }
    return Problem(**{**given, **rest})


@pytest.fixture(scope="session")
def model() -> type[Model]:
    """A model in a word or two."""
    return Model


@pytest.fixture(scope="session")
def fleet() -> Callable[..., Problem]:
    """The problem of some models and pools."""
    return fleet_of


def varied_fleet(seed: int) -> Problem:
    """A small fleet that asks for more of everything."""
    return _VariedFleet(seed).problem()


@pytest.fixture(scope="session")
def draw_fleet() -> Callable[[int], Problem]:
    """Draws a small fleet from a seed."""
    return random_fleet


@pytest.fixture(scope="session")
def draw_varied_fleet() -> Callable[[int], Problem]:
    """Draws a small fleet that asks for more of everything."""
    return varied_fleet


@pytest.fixture(scope="session")
def force() -> Callable[[Problem, Callable[[Mapping[ResourceKey, Allocation]], bool]], Reached]:
    """The best plan of a fleet, by trying all."""
    return brute_force
