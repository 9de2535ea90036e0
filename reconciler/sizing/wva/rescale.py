"""Priority rescale: scarce devices go from models that weigh less to models that weigh more (wva.md 5.6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.replicas import Role
from reconciler.sizing.saturation.variants import MOST_REPLICAS, VariantFacts, by_role
from reconciler.sizing.wva.budgets import DeviceBudget, Grant
from reconciler.sizing.wva.cost_aware import efficiency_of, per_replica_of
from reconciler.sizing.wva.fair_share import ModelBallots

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one claimant must have (`floor`), may have (`cap`) and how much its wish weighs; devices."""

    name: str
    weight: float
    cap: int
    floor: int = 0

    @property
    def room(self) -> int:
        """Devices it may have above its floor."""
        return max(self.cap - self.floor, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Devices of each claimant; `is_conflict` when the floors alone are more than there is."""

    devices: Mapping[str, int]
    is_conflict: bool = False


def divide(claims: Sequence[Claim], budget: int) -> Division:
    """Return floor + (budget - floors) * weight / weights of each claim, capped, in whole devices.

    Fractions go to the largest remainder, ties by name. Together never more than the budget, unless floors are.
    """
    floors = {claim.name: claim.floor for claim in claims}
    left = budget - sum(floors.values())
    if left <= 0:
        return Division(devices=floors, is_conflict=left < 0)
    extras = _fractions([claim for claim in claims if claim.weight > 0 and claim.room > 0], float(left))
    whole = {name: math.floor(extra + _TOLERANCE) for name, extra in extras.items()}
    undivided = round(sum(extras.values())) - sum(whole.values())
    room = {claim.name: claim.room for claim in claims}
    for name in sorted(extras, key=lambda each: (whole[each] - extras[each], each)):
        if undivided > 0 and whole[name] < room[name]:
            whole[name] += 1
            undivided -= 1
    return Division(devices={name: floor + whole.get(name, 0) for name, floor in floors.items()})


def _fractions(claims: Sequence[Claim], amount: float) -> dict[str, float]:
    """Shares by weight; whoever would get more than its room gets its room, and the rest share again."""
    shares: dict[str, float] = {}
    open_claims, left = list(claims), amount
    while open_claims and left > _TOLERANCE:
        weights = sum(claim.weight for claim in open_claims)
        full = [claim for claim in open_claims if left * claim.weight / weights >= claim.room - _TOLERANCE]
        if not full:
            return shares | {claim.name: left * claim.weight / weights for claim in open_claims}
        shares |= {claim.name: float(claim.room) for claim in full}
        left -= sum(claim.room for claim in full)
        open_claims = [claim for claim in open_claims if claim not in full]
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescaled:
    """Replicas of the models that were rescaled, and the groups whose floors alone are more than the budget."""

    replicas: Mapping[ResourceKey, int]
    models: frozenset[ModelKey] = frozenset()
    conflicts: tuple[str, ...] = ()


def rescale(models: Sequence[ModelBallots], budget: DeviceBudget, namespaces: frozenset[str] = frozenset()) -> Rescaled:
    """Return the replicas of every model in a contended group: one accelerator type, in one scope.

    `namespaces` are those with a pool of their own, each a scope; all others share the cluster's. A group is contended
    when its demand is more than what is free and held. What is reclaimed can be used by the next run only: models are
    filled from what is free, by priority. Models on several types, and unlimited budgets, are left alone.
    """
    groups: dict[tuple[str, str], list[ModelBallots]] = {}
    for asked in sorted(models, key=lambda each: each.model):
        model = replace(asked, ballots=tuple(ballot for ballot in asked.ballots if ballot.is_live))
        accelerators = {variant.accelerator for variant in model.variants}
        if len(accelerators) == 1 and "" not in accelerators:
            scope = model.model.namespace if model.model.namespace in namespaces else ""
            groups.setdefault((accelerators.pop(), scope), []).append(model)
    replicas: dict[ResourceKey, int] = {}
    handled: set[ModelKey] = set()
    conflicts = []
    for (accelerator, scope), group in sorted(groups.items()):
        free = budget.free(accelerator, group[0].model.namespace if scope else "")
        held = sum(_held(model.variants) for model in group)
        demand = {model.model: devices_wanted(model) for model in group}
        if not (math.isfinite(free) and free >= 0) or sum(demand.values()) <= free + held:
            continue
        division = divide([_claim(model, demand[model.model], int(free) + held) for model in group], int(free) + held)
        if division.is_conflict:
            conflicts.append(f"{accelerator}{' in ' + scope if scope else ''}: floors are more than the budget")
        for model in sorted(group, key=lambda each: (-each.priority, each.model)):
            replicas |= _towards(model, division.devices[str(model.model)], budget)
            handled.add(model.model)
    return Rescaled(replicas=replicas, models=frozenset(handled), conflicts=tuple(conflicts))


def devices_wanted(model: ModelBallots) -> int:
    """Return the devices that carry a model's whole demand, each role on its most efficient variant."""
    return sum(_role_devices(model, role) for role in by_role(model.variants))


def reclaim(variants: Sequence[VariantFacts], replicas: dict[ResourceKey, int], devices: int) -> None:
    """Remove whole replicas of up to that many devices of a role, the dearest first; floors and the last one stay."""
    left = devices
    for variant in sorted(variants, key=lambda each: (-each.cost, each.name, each.key)):
        is_last = not any(replicas[other.key] > 0 for other in variants if other.key != variant.key)
        floor = max(variant.floor, 1 if is_last else 0)
        count = max(min(left // variant.devices, replicas[variant.key] - floor), 0)
        replicas[variant.key] -= count
        left -= count * variant.devices


def fill(
    variants: Sequence[VariantFacts],
    model: ModelBallots,
    replicas: dict[ResourceKey, int],
    devices: int,
    budget: DeviceBudget,
) -> None:
    """Add whole replicas of up to that many devices to a role, the most efficient first, as far as devices are free."""
    left = devices
    carried = {each.key: per_replica_of(model.ballots, each.key) for each in variants}
    known = [(each, value) for each in variants if (value := carried[each.key]) is not None]
    for variant, _ in sorted(known, key=lambda pair: efficiency_of(*pair)):
        most = min(left // variant.devices, budget.room(variant), variant.headroom(replicas[variant.key]))
        count = max(int(min(most, MOST_REPLICAS)), 0)
        replicas[variant.key] += count
        left -= count * variant.devices
        budget.take([Grant(variant=variant, replicas=count)])


def _towards(model: ModelBallots, target: int, budget: DeviceBudget) -> dict[ResourceKey, int]:
    """Bring each role to its share of the model's target: reclaim at once, fill as far as devices are free."""
    replicas = {variant.key: variant.current_replicas for variant in model.variants}
    roles = by_role(model.variants)
    shares = split_roles(
        target,
        wanted={role: _role_devices(model, role) for role in roles},
        held={role: _held(group) for role, group in roles.items()},
        floors={role: sum(each.floor * each.devices for each in group) for role, group in roles.items()},
    )
    for role, group in roles.items():
        difference = shares[role] - _held(group)
        if difference < 0:
            reclaim(group, replicas, -difference)
        elif difference > 0:
            fill(group, model, replicas, difference, budget)
    return replicas


def split_roles(
    target: int, *, wanted: Mapping[Role, int], held: Mapping[Role, int], floors: Mapping[Role, int]
) -> dict[Role, int]:
    """Return a model's devices per role: floors first, the rest by demand, else by what is held, else to the first."""
    roles = sorted(wanted)
    if len(roles) == 1:
        return {roles[0]: target}
    weights = wanted if any(wanted.values()) else held
    if not any(weights.values()):
        weights = {roles[0]: 1}
    claims = [
        Claim(name=role, weight=weights.get(role, 0), cap=max(target, floors[role]), floor=floors[role])
        for role in roles
    ]
    division = divide(claims, target)
    return {role: division.devices[role] for role in roles}


def _claim(model: ModelBallots, demand: int, budget: int) -> Claim:
    floor = sum(variant.floor * variant.devices for variant in model.variants)
    most = sum((variant.max_replicas or MOST_REPLICAS) * variant.devices for variant in model.variants)
    cap = max(min(demand, most, budget), floor)
    return Claim(name=str(model.model), weight=model.priority * demand, cap=cap, floor=floor)


def _held(variants: Sequence[VariantFacts]) -> int:
    return sum(variant.current_replicas * variant.devices for variant in variants)


def _role_devices(model: ModelBallots, role: Role) -> int:
    offers = [
        (each, value)
        for each in by_role(model.variants).get(role, ())
        if (value := per_replica_of(model.ballots, each.key)) is not None
    ]
    if not offers:
        return 0
    variant, _ = min(offers, key=lambda pair: efficiency_of(*pair))
    replicas = max(
        (
            ballot.signals[role].demand / carried
            for ballot in model.ballots
            if role in ballot.signals and (carried := ballot.per_replica.get(variant.key, 0.0)) > 0
        ),
        default=0.0,
    )
    return math.ceil(min(replicas, MOST_REPLICAS)) * variant.devices
