"""WVA's optimizers: replicas from ballots with and without limits, quotas, fair share, rescale."""

import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import Role
from reconciler.domain.records import dataclass, replace
from reconciler.sizing.saturation_readings import MOST_REPLICAS, VariantFacts, by_role
from reconciler.upstream.wva_analyzers import Ballot

Devices = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Replicas added to one variant."""

    variant: VariantFacts
    replicas: int

    @property
    def devices(self) -> int:
        """The devices they take."""
        return self.replicas * self.variant.devices


class DeviceBudget:
    """What is free of each accelerator type, and less of it after each `take`.

    A negative number is unlimited, a type that is not listed has none. A namespace with a pool gets what its pool
    lists, and no more of it than the cluster has where that lists it too; None for the cluster is no limit there.
    `types` are device types of accelerators named otherwise.
    """

    def __init__(
        self,
        cluster: Devices | None,
        namespaces: Mapping[str, Devices] | None = None,
        *,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self._types = types or {}
        self._cluster = None if cluster is None else _numbers(cluster)
        self._namespaces = {name: _numbers(pool) for name, pool in (namespaces or {}).items()}

    @classmethod
    def unlimited(cls) -> "DeviceBudget":
        """A budget that admits everything."""
        return cls(None)

    @property
    def is_empty(self) -> bool:
        """Whether no device is left anywhere in the cluster."""
        return self._cluster is not None and not any(free > 0 for free in self._cluster.values())

    def free(self, accelerator: str, namespace: str) -> float:
        """Devices of a type that a namespace may still take; infinite without a limit."""
        kind = self._type(accelerator)
        return min((pool.get(kind, 0.0) for pool in self._pools(kind, namespace)), default=math.inf)

    def room(self, variant: VariantFacts) -> float:
        """Whole replicas of a variant that still fit."""
        return self.free(variant.accelerator, variant.key.namespace) // variant.devices

    def excess(self, grants: Iterable[Grant]) -> float:
        """How many times what is free the grants take together, where they take most of it; above 1 they do not fit."""
        asked: dict[tuple[str, str], int] = {}
        for grant in grants:
            place = self._type(grant.variant.accelerator), grant.variant.key.namespace
            asked[place] = asked.get(place, 0) + grant.devices
        wanted = ((devices, self.free(*place)) for place, devices in asked.items() if devices)
        return max((devices / free if free > 0 else math.inf for devices, free in wanted), default=0.0)

    def take(self, grants: Iterable[Grant]) -> None:
        """Take the grants' devices out of every pool they come from."""
        for grant in grants:
            kind = self._type(grant.variant.accelerator)
            for pool in self._pools(kind, grant.variant.key.namespace):
                pool[kind] = pool.get(kind, 0.0) - grant.devices

    def _type(self, accelerator: str) -> str:
        return self._types.get(accelerator, accelerator)

    def _pools(self, kind: str, namespace: str) -> list[dict[str, float]]:
        """What a namespace takes a type from."""
        own = self._namespaces.get(namespace)
        if self._cluster is None:
            return [] if own is None else [own]
        if own is None:
            return [self._cluster]
        return [self._cluster, own] if kind in self._cluster else [own]


def _numbers(devices: Devices) -> dict[str, float]:
    return {name: math.inf if count < 0 else float(count) for name, count in devices.items()}


Remaining = MutableMapping[tuple[int, Role], float]
Replicas = MutableMapping[ResourceKey, int]
# A share that would take devices twice shrinks by this much at least: the search ends.
_LEAST_CUT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pick:
    """The variant chosen for a role with what binds it: the analyzer that asks for most replicas of it."""

    variant: VariantFacts
    per_replica: float
    demand: float
    replicas: int

    @property
    def share(self) -> float:
        return self.replicas * self.per_replica / self.demand if self.demand > 0 else 1.0

    def at_share(self, share: float) -> int:
        if self.demand <= 0:
            return 0
        whole = math.floor(min(share * self.demand / self.per_replica, self.replicas))
        return max(whole, min(1, self.replicas))


def cost_aware(variants: Sequence[VariantFacts], ballots: Sequence[Ballot]) -> dict[ResourceKey, int]:
    """Return the replicas of one model: up when any live analyzer lacks anything in any role, else down."""
    replicas = {variant.key: variant.current_replicas for variant in variants}
    live = [ballot for ballot in ballots if ballot.is_live]
    remaining = required_by(live)
    if any(amount > 0 for amount in remaining.values()):
        grow(variants, live, remaining, replicas, DeviceBudget.unlimited())
    else:
        shrink(variants, live, replicas)
    return replicas


def required_by(ballots: Sequence[Ballot]) -> Remaining:
    """Return what each ballot lacks in each role."""
    return {
        (index, role): signal.required if math.isfinite(signal.required) else 0.0
        for index, ballot in enumerate(ballots)
        for role, signal in ballot.signals.items()
    }


def grow(
    variants: Sequence[VariantFacts],
    ballots: Sequence[Ballot],
    remaining: Remaining,
    replicas: Replicas,
    budget: DeviceBudget,
) -> bool:
    """Add replicas until nothing is lacking or nothing can be added; say whether any was.

    Changes `remaining`, `replicas` and `budget`. Roles commit together: each gets the share of its need that the one
    with the least room gets, at least a replica where it lacks any, so that prefill never runs ahead of decode. A
    role that cannot be served stops its whole model.
    """
    groups = by_role(variants)
    has_grown = False
    while needy := [role for role in sorted(Role) if _lacks(remaining, role)]:
        offers = [_pick(groups.get(role, ()), role, ballots, remaining, replicas, budget) for role in needy]
        picks = [pick for pick in offers if pick is not None]
        grants = _joint(picks, budget) if len(picks) == len(needy) else ()
        if not grants:
            break
        has_grown = True
        budget.take(grants)
        for grant in grants:
            replicas[grant.variant.key] += grant.replicas
            _take(remaining, grant.variant.role, ballots, grant.variant.key, grant.replicas)
    return has_grown


def _joint(picks: Sequence[_Pick], budget: DeviceBudget) -> tuple[Grant, ...]:
    """What the roles can have together: their common share, less where they would take the same devices twice."""
    share = min(pick.share for pick in picks)
    while True:
        grants = tuple(Grant(variant=pick.variant, replicas=pick.at_share(share)) for pick in picks)
        excess = budget.excess(grants)
        if excess <= 1:
            return grants if any(grant.replicas for grant in grants) else ()
        if all(grant.replicas <= 1 for grant in grants):
            return ()
        share = min(share / excess, share * (1 - _LEAST_CUT))


def shrink(variants: Sequence[VariantFacts], ballots: Sequence[Ballot], replicas: Replicas) -> None:
    """Remove replicas, the dearest first, of every role in which all live analyzers that know it have spare."""
    spare: Remaining = {
        (index, role): signal.spare for index, ballot in enumerate(ballots) for role, signal in ballot.signals.items()
    }
    for role, group in by_role(variants).items():
        said = [amount for (_, said_role), amount in spare.items() if said_role is role]
        if not said or min(said) <= 0:
            continue
        for variant in sorted(group, key=lambda each: (-each.cost, _weighted(ballots, each.key), each.name, each.key)):
            count = _removable(variant, group, ballots, spare, replicas)
            replicas[variant.key] -= count
            _take(spare, role, ballots, variant.key, count)


def per_replica_of(ballots: Sequence[Ballot], key: ResourceKey) -> float | None:
    """Return what one replica carries in the unit of the first ballot that knows it."""
    return next((value for ballot in ballots if (value := _carried(ballot, key)) > 0), None)


def efficiency_of(variant: VariantFacts, per_replica: float) -> tuple[float, str, ResourceKey]:
    """Return the order in which variants are filled: cost per unit carried, then name."""
    return variant.cost / per_replica, variant.name, variant.key


def _pick(
    group: Sequence[VariantFacts],
    role: Role,
    ballots: Sequence[Ballot],
    remaining: Remaining,
    replicas: Mapping[ResourceKey, int],
    budget: DeviceBudget,
) -> _Pick | None:
    offers = []
    for variant in group:
        planned = replicas[variant.key]
        free = min(variant.headroom(planned), budget.room(variant), MOST_REPLICAS - planned)
        asked = [
            (remaining.get((index, role), 0.0) / carried, -index)
            for index, ballot in enumerate(ballots)
            if (carried := _carried(ballot, variant.key)) > 0
        ]
        most, position = max(asked, default=(0.0, 0))
        if free < 1 or most <= 0:
            continue
        offers.append(
            _Pick(
                variant=variant,
                per_replica=_carried(ballots[-position], variant.key),
                demand=remaining.get((-position, role), 0.0),
                replicas=int(min(math.ceil(most), free)),
            )
        )
    return min(offers, key=lambda offer: efficiency_of(offer.variant, offer.per_replica), default=None)


def _removable(
    variant: VariantFacts,
    group: Sequence[VariantFacts],
    ballots: Sequence[Ballot],
    spare: Remaining,
    replicas: Mapping[ResourceKey, int],
) -> int:
    """Whole replicas inside every analyzer's spare; the last variant of a role that still serves keeps one."""
    counts = [
        math.floor(spare.get((index, variant.role), 0.0) / carried)
        for index, ballot in enumerate(ballots)
        if (carried := _carried(ballot, variant.key)) > 0
    ]
    if not counts:
        return 0
    is_last = not any(replicas[other.key] > 0 for other in group if other.key != variant.key)
    floor = max(variant.floor, 1 if is_last else 0)
    return max(min([*counts, replicas[variant.key] - floor]), 0)


def _lacks(remaining: Remaining, role: Role) -> bool:
    return any(amount > 0 for (_, of), amount in remaining.items() if of is role)


def _take(amounts: Remaining, role: Role, ballots: Sequence[Ballot], key: ResourceKey, count: int) -> None:
    for index, ballot in enumerate(ballots):
        if (index, role) in amounts:
            amounts[index, role] = max(amounts[index, role] - count * _carried(ballot, key), 0.0)


def _carried(ballot: Ballot, key: ResourceKey) -> float:
    value = ballot.per_replica.get(key, 0.0)
    return value if math.isfinite(value) else 0.0


def _weighted(ballots: Sequence[Ballot], key: ResourceKey) -> float:
    return sum(ballot.score * _carried(ballot, key) for ballot in ballots)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBallots:
    """A model with its variants and what the analyzers say of it."""

    model: ModelKey
    variants: tuple[VariantFacts, ...]
    ballots: tuple[Ballot, ...]
    priority: float = 1.0


@dataclass(slots=True)
class _Share:
    """A model while it is served: what it still lacks, and the replicas it has got so far."""

    asked: ModelBallots
    ballots: list[Ballot]
    replicas: Replicas
    remaining: Remaining = field(default_factory=dict)
    has_left: bool = False

    @property
    def value(self) -> float:
        """priority * sum of score * what is lacking; without any weight the largest lack."""
        weighted = sum(self.ballots[index].score * amount for (index, _), amount in self.remaining.items())
        value = self.asked.priority * weighted
        return value if value > 0 else max(self.remaining.values(), default=0.0)

    @property
    def is_hungry(self) -> bool:
        return not self.has_left and self.value > 0


def fair_share(models: Sequence[ModelBallots], budget: DeviceBudget) -> dict[ResourceKey, int]:
    """Return the replicas of all models within the budget, which is used up on the way."""
    shares = [_share_of(asked) for asked in sorted(models, key=lambda each: each.model)]
    lacking = [share for share in shares if share.value > 0]
    for share in shares:
        if share.value <= 0:
            shrink(share.asked.variants, share.ballots, share.replicas)
    while (hungry := [share for share in lacking if share.is_hungry]) and not budget.is_empty:
        mean = sum(share.value for share in hungry) / len(hungry)
        most = max(hungry, key=lambda share: share.value)
        most.has_left = not _serve(most, most.value - _level(most, mean, len(hungry)), budget)
    return {key: count for share in shares for key, count in share.replicas.items()}


def _share_of(asked: ModelBallots) -> _Share:
    live = [ballot for ballot in asked.ballots if ballot.is_live]
    return _Share(
        asked=asked,
        ballots=live,
        replicas={variant.key: variant.current_replicas for variant in asked.variants},
        remaining=required_by(live),
    )


def _level(most: _Share, mean: float, count: int) -> float:
    """Where the hungriest comes down to: the mean, or below it where all lack the same."""
    if count == 1:
        return 0.0
    return mean if most.value > mean else mean - most.value / count


def _serve(share: _Share, target: float, budget: DeviceBudget) -> bool:
    """Grant a model as much as `target` in every role; what is beyond it stays lacking."""
    capped = {place: min(amount, target) for place, amount in share.remaining.items()}
    replicas = dict(share.replicas)
    has_grown = grow(share.asked.variants, share.ballots, capped, share.replicas, budget)
    for place in share.remaining:
        index, role = place
        added = sum(
            (share.replicas[variant.key] - replicas[variant.key])
            * share.ballots[index].per_replica.get(variant.key, 0.0)
            for variant in share.asked.variants
            if variant.role is role
        )
        share.remaining[place] = max(share.remaining[place] - added, 0.0)
    return has_grown


_UNLIMITED = -1
_ANY_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Devices granted, and in words what cut them (empty: nothing)."""

    devices: int
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Quota:
    """Devices of each type that may be used: by the cluster, or by each namespace.

    `namespaces` None is the cluster's quota. Its entry `default` gives every unlisted namespace a budget of its own;
    without it they have none. -1 is unlimited, 0 denies, an unlisted or unresolved type is denied. `used` counts
    by namespace ("" for the cluster) and type what is taken already, and grows with every grant. `types` are device
    types of accelerators named otherwise; `kind` names the limiter in words.
    """

    cluster: Devices = field(default_factory=dict)
    namespaces: Mapping[str, Devices] | None = None
    excluded: frozenset[str] = frozenset()
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    kind: str = "quota"

    def grant(self, namespace: str, accelerator: str, devices: int) -> Grants:
        """Grant as many of the devices as the quota leaves, and count them."""
        if namespace in self.excluded:
            return Grants(devices=devices)
        scope, quota = self._quota(namespace)
        accelerator = self.types.get(accelerator, accelerator)
        limit = quota.get(accelerator, 0) if accelerator else 0
        asked = max(devices, 0)
        used = self.used.get((scope, accelerator), 0)
        granted = asked if limit <= _UNLIMITED else min(asked, max(limit - used, 0))
        self.used[scope, accelerator] = used + granted
        return Grants(devices=granted, reason="" if granted == asked else self._words(namespace, accelerator))

    def give_back(self, namespace: str, accelerator: str, devices: int) -> None:
        """Undo a part of a grant that was of no use."""
        if namespace not in self.excluded:
            scope, _ = self._quota(namespace)
            accelerator = self.types.get(accelerator, accelerator)
            self.used[scope, accelerator] = max(self.used.get((scope, accelerator), 0) - devices, 0)

    def _quota(self, namespace: str) -> tuple[str, Devices]:
        if self.namespaces is None:
            return "", self.cluster
        return namespace, self.namespaces.get(namespace, self.namespaces.get(_ANY_NAMESPACE, {}))

    def _words(self, namespace: str, accelerator: str) -> str:
        kind = accelerator or "unresolved"
        if self.namespaces is None:
            return f"limited by {self.kind}[scope=cluster, type={kind}]"
        return f"limited by {self.kind}[scope=namespace, namespace={namespace}, type={kind}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplicas:
    """Replicas that a variant should have; `spare` is its model's spare capacity (the smaller, the sooner served)."""

    variant: VariantFacts
    replicas: int
    spare: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedTargets:
    """Replicas after the limiter, and in words who was limited by what."""

    replicas: Mapping[ResourceKey, int]
    limited: Mapping[ResourceKey, str]


def limit(wishes: Sequence[WantedReplicas], *quotas: Quota) -> LimitedTargets:
    """Return what the wishes for more replicas get: the most saturated model first, then the cheapest variant.

    Whole replicas only, and each quota must leave them; `minReplicas` is granted without devices, `maxReplicas` caps.
    Who wants no more keeps its wish. Who was granted less than it asked for is limited, whatever it has in the end.
    """
    replicas = {wish.variant.key: wish.variant.clamp(wish.replicas) for wish in wishes}
    limited: dict[ResourceKey, str] = {}
    for wish in sorted(wishes, key=lambda each: (each.spare, each.variant.cost, each.variant.key)):
        variant = wish.variant
        more = (replicas[variant.key] - variant.current_replicas) * variant.devices
        if more <= 0:
            continue
        grants = _grant(quotas, variant, more)
        added = grants.devices // variant.devices
        _give_back(quotas, variant, grants.devices - added * variant.devices)
        replicas[variant.key] = max(variant.current_replicas + added, variant.floor)
        if grants.reason:
            limited[variant.key] = grants.reason
    return LimitedTargets(replicas=replicas, limited=limited)


def _grant(quotas: Sequence[Quota], variant: VariantFacts, devices: int) -> Grants:
    """What every quota leaves; none counts what a later one denies."""
    granted, reasons = devices, []
    for position, quota in enumerate(quotas):
        grants = quota.grant(variant.key.namespace, variant.accelerator, granted)
        _give_back(quotas[:position], variant, granted - grants.devices)
        granted = grants.devices
        reasons += [grants.reason] if grants.reason else []
    return Grants(devices=granted, reason="; ".join(reasons))


def _give_back(quotas: Sequence[Quota], variant: VariantFacts, devices: int) -> None:
    for quota in quotas:
        quota.give_back(variant.key.namespace, variant.accelerator, devices)


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
