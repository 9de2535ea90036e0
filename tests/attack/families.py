"""Random problems of the optimizer, by family: each asks for more of one thing."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

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

ACCELERATORS = ("A100", "H100", "L4", "T4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How often a problem has what; `tight` is the least and the most that a pool has of what would be needed."""

    models: tuple[int, int] = (2, 5)
    variants: tuple[int, int] = (1, 3)
    offers: tuple[int, ...] = (1, 1, 2)
    carried: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 0.7)
    weights: tuple[float, ...] = (0.7, 1.0, 2.0, 3.97, 5.5)
    demand: tuple[float, float] = (0.5, 8.0)
    devices: tuple[int, ...] = (1, 1, 2)
    zero_capacity: float = 0.0
    pinned: float = 0.05
    tight: tuple[float, float] = (0.8, 2.0)
    priorities: tuple[int, ...] = (0,)
    priced: float = 0.0
    in_order: float = 0.0
    ratios: float = 0.0
    budgets: float = 0.1
    changes: float = 0.05
    minimum: tuple[int, ...] = (0, 0, 0, 1)
    room: tuple[int | None, ...] = (None, None, 3)
    active: tuple[int | None, ...] = (2,)
    fixed: float = 0.05
    touch: float = 0.3
    unit: tuple[int, int] = (0, 0)
    start: tuple[float, ...] = (0.0, 0.3)


FAMILIES: Mapping[str, Family] = {
    "ordinary": Family(),
    "many equal costs": Family(weights=(1.0,), carried=(1.0, 2.0), start=(0.0,), touch=0.0),
    "zero capacities": Family(zero_capacity=0.4),
    "pins": Family(pinned=0.4),
    "tight pools": Family(tight=(0.3, 0.9)),
    "several accelerators a replica": Family(devices=(1, 2, 4, 8), tight=(0.6, 1.3)),
    # Without budgets: where a share of one model takes far more of them than of another, shares differ by more.
    "huge counts": Family(
        models=(1, 4), demand=(300.0, 40_000.0), tight=(0.7, 1.5), room=(None, None, 3_000), budgets=0.0
    ),
    "tiny demands": Family(unit=(-9, 8), tight=(0.6, 1.5), priced=0.3),
    "priced segments": Family(priced=0.9, tight=(0.5, 1.2)),
    "priorities with ties": Family(priorities=(-5, 0, 0, 10), tight=(0.3, 0.9), models=(3, 5)),
    "infeasible mixes": Family(minimum=(0, 1, 3, 5), tight=(0.2, 0.8), changes=0.3, budgets=0.4, ratios=0.2),
    "in order": Family(in_order=0.7, offers=(2, 3), tight=(0.4, 1.1), priorities=(0, 0, 10), room=(None,)),
    "weighted routers": Family(active=(None, None, 3), variants=(2, 4), models=(1, 4), tight=(0.6, 1.4), priced=0.3),
    "ratios": Family(ratios=0.7, models=(1, 3), tight=(0.6, 1.5)),
    "budgets": Family(budgets=0.8, changes=0.2, tight=(0.9, 2.0)),
}


def draw_problem(name: str, seed: int) -> Problem:
    """The problem of a family that a seed stands for."""
    return _Drawing(FAMILIES[name], random.Random(f"{name}/{seed}")).problem()  # noqa: S311 - the same in every run


def variant_key(name: str) -> ResourceKey:
    """A variant's key."""
    return ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name)


class _Drawing:
    """A problem while it is drawn."""

    def __init__(self, family: Family, draw: random.Random) -> None:
        self.family, self.draw = family, draw
        self.scale = 10.0 ** draw.randint(*family.unit)
        self.requirements: list[Requirement] = []
        self.candidates: list[Candidate] = []
        self.current: dict[ResourceKey, Allocation] = {}
        self.weights: dict[ResourceKey, float] = {}
        self.devices: dict[ResourceKey, Mapping[str, int]] = {}
        self.bounds: dict[ResourceKey, Bounds] = {}
        self.touch: dict[ResourceKey, float] = {}
        self.ratios: list[Ratio] = []
        self.in_order: set[ResourceKey] = set()

    def problem(self) -> Problem:
        family, draw = self.family, self.draw
        for index in range(draw.randint(*family.models)):
            self._model(f"m{index}")
        keys = list(self.current)
        pinned = {key: self.current[key] for key in keys if draw.random() < family.pinned}
        return Problem(
            requirements=tuple(self.requirements),
            candidates=tuple(each for each in self.candidates if each.key.variant not in pinned),
            current=self.current,
            current_weights=self.weights,
            bounds=self.bounds,
            pinned=pinned,
            in_order=frozenset(self.in_order - pinned.keys()),
            pools=self._pools(),
            budgets=self._budgets(keys),
            change_limits=self._change_limits(keys),
            ratios=tuple(self.ratios),
            current_devices=self.devices,
            touch_weights=self.touch if draw.random() < family.touch else {},
        )

    def _model(self, name: str) -> None:
        family, draw = self.family, self.draw
        if draw.random() >= family.ratios:
            self._requirement(name, "", draw.randint(*family.variants))
            return
        for role in ("decode", "prefill"):
            self._requirement(name, role, draw.choice((1, 1, 2)))
        least = draw.choice((0.0, 0.5, 1.0, 2.0))
        most = draw.choice((None, None, least, least + 0.5, 3.0, 0.0))
        model = ModelKey(cluster="prod", namespace="llm", model_id=name)
        self.ratios.append(Ratio(model=model, over="prefill", under="decode", least=least, most=most))

    def _requirement(self, name: str, role: str, size: int) -> None:
        family, draw = self.family, self.draw
        model = ModelKey(cluster="prod", namespace="llm", model_id=name, role=role)
        keys = [variant_key(f"{name}{role}-{index}") for index in range(size)]
        carried: dict[CandidateKey, float] = {}
        for key in keys:
            self._variant(key, carried)
        priority = draw.choice(family.priorities)
        if draw.random() < family.fixed:
            fixed = {key: draw.randint(0, 3) for key in keys}
            self.requirements.append(
                Requirement(model=model, unit="replicas", segments=(), per_replica={}, fixed=fixed, priority=priority)
            )
            return
        amount = draw.uniform(*family.demand) * self.scale if draw.random() < 0.95 else 0.0
        self.requirements.append(
            Requirement(
                model=model,
                unit="req/s",
                segments=self._segments(amount),
                per_replica=carried,
                priority=priority,
                active_limit=draw.choice(family.active),
            )
        )

    def _segments(self, amount: float) -> tuple[Segment, ...]:
        draw = self.draw
        if draw.random() >= self.family.priced:
            return (Segment(amount=amount),)
        steps = [(0.6, draw.choice((9.0, 30.0)), 1.0), (0.3, 4.0, 0.5), (0.1, 1.0, 1.0)]
        if draw.random() < 0.3:
            draw.shuffle(steps)
        return tuple(
            Segment(amount=amount * share, price=price / self.scale, probability=chance)
            for share, price, chance in steps
        )

    def _variant(self, key: ResourceKey, carried: dict[CandidateKey, float]) -> None:
        family, draw = self.family, self.draw
        offers = draw.choice(family.offers)
        for order, accelerator in enumerate(draw.sample(ACCELERATORS, offers)):
            place = CandidateKey(variant=key, accelerator=accelerator)
            each = draw.choice(family.carried) * draw.uniform(0.9, 1.1) * self.scale
            carried[place] = 0.0 if draw.random() < family.zero_capacity else each
            weight = draw.choice(family.weights)
            self.candidates.append(
                Candidate(
                    key=place,
                    weight=weight,
                    cost_per_hour=weight,
                    start_weight=weight * draw.choice(family.start),
                    devices={accelerator: draw.choice(family.devices)},
                    order=order,
                )
            )
        if offers > 1 and draw.random() < family.in_order:
            self.in_order.add(key)
        standing = draw.choice(self.candidates[-offers:])
        least = draw.choice(family.minimum)
        room = draw.choice(family.room)
        most = max(int(self.family.demand[1] / 2), 3)
        self.current[key] = Allocation(accelerator=standing.key.accelerator, replicas=draw.randint(0, most))
        self.weights[key] = standing.weight
        self.devices[key] = standing.devices
        self.bounds[key] = Bounds(minimum=least, maximum=None if room is None else least + room)
        self.touch[key] = draw.choice((0.0, 0.5))

    def _pools(self) -> tuple[Pool, ...]:
        """Shares of what the cheapest capacity of every model would take."""
        need = dict.fromkeys(ACCELERATORS, 0.0)
        for requirement in self.requirements:
            offered = [each for each in self.candidates if requirement.per_replica.get(each.key, 0.0) > 0]
            if offered:
                best = min(offered, key=lambda each: each.weight / requirement.per_replica[each.key])
                for name, count in best.devices.items():
                    need[name] += count * (requirement.amount / requirement.per_replica[best.key] + 0.5)
        return tuple(
            Pool(name=name, devices=max(int(amount * self.draw.uniform(*self.family.tight)), self.draw.randint(0, 3)))
            for name, amount in need.items()
        )

    def _budgets(self, keys: list[ResourceKey]) -> tuple[Budget, ...]:
        if self.draw.random() >= self.family.budgets:
            return ()
        half = max(int(self.family.demand[1]), 8)
        return tuple(
            Budget(
                name=f"team-{index}", variants=frozenset(group), amount=half * self.draw.choice((0.2, 0.6, 1.3, 4.0))
            )
            for index, group in enumerate((keys[::2], keys[1:]))
        )

    def _change_limits(self, keys: list[ResourceKey]) -> tuple[ChangeLimit, ...]:
        if self.draw.random() >= self.family.changes:
            return ()
        return (ChangeLimit(name="one request", variants=frozenset(keys), changes=self.draw.choice((0, 1, 2, 4))),)


def scaled(problem: Problem, factor: float) -> Problem:
    """The same problem with its demand counted in another unit."""
    return replace(
        problem,
        requirements=tuple(
            replace(
                each,
                segments=tuple(
                    replace(
                        segment,
                        amount=segment.amount * factor,
                        price=None if segment.price is None else segment.price / factor,
                    )
                    for segment in each.segments
                ),
                per_replica={key: value * factor for key, value in each.per_replica.items()},
            )
            for each in problem.requirements
        ),
    )
