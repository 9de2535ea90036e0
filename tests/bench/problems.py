"""Fleets as the optimizer is given them, drawn from a seed: `Instance` says how large and how scarce, `draw` makes it.

Models have log-normal demand and belong to three classes: 20 % are urgent and pay 100 times what their cheapest
capacity costs for demand that is not met, 50 % pay 20 times, 30 % pay 5 times. Demand comes in five steps of falling
probability, and at most two variants of a model serve at once, or any number. Every variant
is offered on one accelerator, one pool each, in 1, 2 or 4 devices; dearer accelerators are faster, and no model likes
all of them alike. What runs today is what a demand drawn again would need, cut to the pools, on the cheapest variant
of seven models in ten and on the second of the others.

The *need* is what the cheapest variant of every model takes for its whole demand: pools and budgets are shares of it.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Budget, Candidate, Pool, Problem, Requirement, Segment

POOLS, VARIANTS, BUDGETS = 8, 6, 50
BUDGET_AT = 1.3
"""What a team may spend, in what its need costs."""
START_SHARE = 0.1
"""What a start costs, in an hour of the replica."""
STEPS = ((0.7, 1.0), (0.1, 0.9), (0.1, 0.6), (0.06, 0.3), (0.04, 0.1))
"""Of the demand, and with which probability it comes."""
CLASSES = (100.0, 20.0, 5.0)
"""What a missed unit costs, in its cheapest capacity: the urgent first."""
CLASS_SHARES = (0.2, 0.5, 0.3)
FEWEST_DEVICES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One fleet: pools at a share of the need; not priced, demand must be covered and the class is its priority.

    With weighted routers any number of a model's variants may serve, else two. Demand, pools and budgets are `times` as
    large.
    """

    models: int
    pools_at: float
    budgets_at: float = BUDGET_AT
    is_priced: bool = True
    is_routed: bool = False
    times: float = 1.0
    seed: int = 1

    def __str__(self) -> str:
        """In the words of a table."""
        budgets = "" if self.budgets_at == BUDGET_AT else f", budgets at {self.budgets_at:g}"
        kind = "" if self.is_priced else ", by priority"
        router = ", weighted routers" if self.is_routed else ""
        times = "" if self.times == 1 else f", {self.times:g} times the demand"
        return f"{self.models:,}, pools at {self.pools_at:g}{budgets}{kind}{router}{times}"


def draw(instance: Instance) -> Problem:
    """The problem that the seed stands for."""
    chance = random.Random(instance.seed)  # noqa: S311 - the same fleet in every run
    accelerators = _accelerators(chance)
    models = [_model(chance, number, accelerators, instance) for number in range(instance.models)]
    need = _need(models)
    devices = {each.name: max(int(need[each.name] * instance.pools_at), FEWEST_DEVICES) for each in accelerators}
    offers = [offer for model in models for offer in model.offers]
    return Problem(
        requirements=tuple(model.requirement for model in models),
        candidates=tuple(offer.candidate for offer in offers),
        current=_current(chance, models, devices),
        current_weights={offer.key: offer.candidate.weight for offer in offers},
        current_devices={offer.key: offer.candidate.devices for offer in offers},
        bounds=dict.fromkeys((offer.key for offer in offers), Bounds(minimum=0)),
        pools=tuple(Pool(name=name, devices=count) for name, count in devices.items()),
        budgets=tuple(_budgets(models, instance)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accelerator:
    name: str
    price: float
    speed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A variant: its one candidate, and what a replica of it carries."""

    candidate: Candidate
    carried: float

    @property
    def key(self) -> ResourceKey:
        return self.candidate.key.variant

    @property
    def unit_cost(self) -> float:
        return self.candidate.weight / self.carried

    @property
    def accelerator(self) -> str:
        return self.candidate.key.accelerator

    @property
    def devices(self) -> int:
        return self.candidate.devices[self.accelerator]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Offers stand by falling worth; `runs` and `standing` are what Git says before pools cut it."""

    requirement: Requirement
    offers: tuple[_Offer, ...]
    runs: _Offer
    standing: int

    @property
    def needed(self) -> int:
        """Replicas of the cheapest variant for all of the demand."""
        return math.ceil(self.requirement.amount / self.offers[0].carried)


def _accelerators(chance: random.Random) -> list[_Accelerator]:
    prices = [chance.lognormvariate(1.0, 0.7) for _ in range(POOLS)]
    return [
        _Accelerator(name=f"A{number}", price=price, speed=price**0.8 * chance.lognormvariate(0, 0.15))
        for number, price in enumerate(prices)
    ]


def _model(chance: random.Random, number: int, accelerators: Sequence[_Accelerator], instance: Instance) -> _Model:
    team = f"team-{number % BUDGETS}"
    demand = chance.lognormvariate(2.5, 1.1) * instance.times
    rank = chance.choices(range(len(CLASSES)), CLASS_SHARES)[0]
    weight = chance.lognormvariate(0, 0.4)
    offers = sorted(
        (
            _offer(
                chance, ResourceKey(cluster="bench", namespace=team, kind="VariantAutoscaling", name=name), on, weight
            )
            for name, on in zip(
                (f"m{number}-v{place}" for place in range(VARIANTS)), chance.sample(accelerators, VARIANTS), strict=True
            )
        ),
        key=lambda offer: offer.unit_cost,
    )
    runs = offers[0] if chance.random() < 0.7 else offers[1]
    price = CLASSES[rank] * offers[0].unit_cost
    return _Model(
        requirement=Requirement(
            model=ModelKey(cluster="bench", namespace=team, model_id=f"m{number}"),
            unit="req/s",
            segments=_segments(demand, price) if instance.is_priced else (Segment(amount=demand),),
            per_replica={offer.candidate.key: offer.carried for offer in offers},
            priority=len(CLASSES) - 1 - rank,
            active_limit=None if instance.is_routed else 2,
        ),
        offers=tuple(offers),
        runs=runs,
        standing=math.ceil(demand * chance.lognormvariate(0, 0.25) / runs.carried),
    )


def _segments(demand: float, price: float) -> tuple[Segment, ...]:
    return tuple(Segment(amount=demand * share, probability=each, price=price) for share, each in STEPS)


def _offer(chance: random.Random, key: ResourceKey, on: _Accelerator, weight: float) -> _Offer:
    """A variant on an accelerator; `weight` is how heavy a request of the model is."""
    devices = chance.choice((1, 2, 4))
    cost = on.price * devices
    return _Offer(
        candidate=Candidate(
            key=key.on(on.name),
            weight=cost,
            cost_per_hour=cost,
            start_weight=START_SHARE * cost,
            devices={on.name: devices},
        ),
        carried=on.speed / weight * chance.lognormvariate(0, 0.25) * devices**0.9,
    )


def _need(models: Sequence[_Model]) -> dict[str, int]:
    need = dict.fromkeys((f"A{number}" for number in range(POOLS)), 0)
    for model in models:
        need[model.offers[0].accelerator] += model.needed * model.offers[0].devices
    return need


def _current(
    chance: random.Random, models: Sequence[_Model], devices: Mapping[str, int]
) -> dict[ResourceKey, Allocation]:
    """What stands, as far as the pools hold it; who comes last gets what is left."""
    left = dict(devices)
    current = {
        offer.key: Allocation(accelerator=offer.accelerator, replicas=0) for model in models for offer in model.offers
    }
    for model in chance.sample(models, len(models)):
        runs = model.runs
        replicas = min(model.standing, left[runs.accelerator] // runs.devices)
        left[runs.accelerator] -= replicas * runs.devices
        current[runs.key] = Allocation(accelerator=runs.accelerator, replicas=replicas)
    return current


def _budgets(models: Sequence[_Model], instance: Instance) -> list[Budget]:
    """One for each team that has models."""
    teams: dict[str, list[_Model]] = {}
    for model in models:
        teams.setdefault(model.requirement.model.namespace, []).append(model)
    return [
        Budget(
            name=team,
            variants=frozenset(offer.key for model in members for offer in model.offers),
            amount=instance.budgets_at * sum(model.needed * model.offers[0].candidate.weight for model in members),
        )
        for team, members in teams.items()
    ]
