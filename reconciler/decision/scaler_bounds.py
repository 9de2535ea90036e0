"""How far a reviewed change may move the bounds of an autoscaler: settings and rules, pools, budgets and quotas."""

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from reconciler.decision.staged_plan import Situation
from reconciler.decision.variant_states import bounds_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation, DevicePool
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds
from reconciler.domain.scalers import ScalerSetting
from reconciler.domain.snapshot import Variant, priority_of
from reconciler.optimizer.device_use import DeviceUse
from reconciler.policy.port import Counted
from reconciler.snapshot.inventory import is_counted_by_pods
from reconciler.tuning.schedule import ByHand, TuningMerges

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedBounds:
    """The least and the most replicas that bounds may be moved to; `limit` says in words what leaves no more.

    An upper bound that nothing limits is infinite. `floor` says why no fewer than now are allowed where somebody wants
    it so.
    """

    least: float
    most: float
    limit: str = ""
    floor: str = ""

    def beside(self, by_hand: ByHand, now: ScalerSetting) -> "AllowedBounds":
        """The same without what somebody moved back by hand since it was merged."""
        found = self
        if by_hand.raised_after and now.least is not None:
            words = f"its minimum of {now.least} was set by hand after #{by_hand.raised_after}"
            floor = f"{words} and stays for {by_hand.days} days"
            found = replace(found, least=max(found.least, now.least), floor=floor)
        if by_hand.lowered_after and now.most is not None and now.most < found.most:
            limit = f"its maximum of {now.most} was set by hand after #{by_hand.lowered_after}"
            found = replace(found, most=now.most, limit=limit)
        return found


class BoundsRoom:
    """How far upper bounds may be raised, so that all variants together never need more than there is.

    An autoscaler may take its upper bound. Others may take the largest of what Git has, what this plan and open pull
    requests give them, and what runs. Of autoscalers in `tuned` no pull request counts before it is kept. A pool limits
    them by the number that somebody wrote: what nodes offer at the moment follows what runs, where they come on demand.
    """

    def __init__(
        self,
        situation: Situation,
        planned: Mapping[ResourceKey, Allocation],
        tuned: Collection[ResourceKey],
        merges: TuningMerges,
    ) -> None:
        self._situation, self._planned, self._tuned = situation, planned, frozenset(tuned)
        self._merges = merges

    def of(self, variant: Variant, *, is_standing: bool = False) -> AllowedBounds:
        """That of the autoscaler on one variant; `is_standing`: whatever is taken just now."""
        # two weeks decide here: an hour that was not seen keeps a count from shrinking, and not a floor
        own, guard = bounds_of(variant, keeps_current=False), self._situation.formulated.guard
        bounds = guard.bounds(variant.key, own, may_shrink=True, may_move=False)
        most, limit = min(self._limits(variant, bounds, is_standing=is_standing), default=(math.inf, ""))
        found = AllowedBounds(least=bounds.minimum, most=most, limit=limit)
        now = None if variant.tuned is None else variant.tuned.scaler.setting
        return found if now is None else found.beside(self._merges.by_hand(variant.key, now), now)

    def keep(self, key: ResourceKey, most: float) -> None:
        """From now on an autoscaler may have so many replicas."""
        for each in (*self._of(key), *self._offered.get(key, ())):
            each.claim(key, most * each.per_replica[key])

    def shortage(self, key: ResourceKey) -> str:
        """That all together may take more devices than nodes offer now, and what to do; empty where that is not so."""
        return "; ".join(
            f"{each.name} has {each.most:.0f} devices for managed workloads now, and together these may then ask for "
            "more: if no nodes are added on demand, write how many there are under clusters[].pools, and maxima stay "
            "within them"
            for each in self._offered.get(key, ())
            if each.is_passed
        )

    def shared(self, variants: Sequence[Variant], wanted: Mapping[ResourceKey, float]) -> dict[ResourceKey, float]:
        """The upper bounds of some autoscalers that each want more, and have room for it alone.

        Those of a higher priority come first; among equals a replica more is for who has the least of what it wants.
        """
        for key, most in wanted.items():
            self.keep(key, most)
        if all(each.left(key) >= most for key, most in wanted.items() for each in self._of(key)):
            return dict(wanted)
        granted = {each.key: upper_bound(each) for each in variants}
        for key, most in granted.items():
            self.keep(key, most)
        by_urgency: dict[int, list[tuple[float, ResourceKey]]] = {}
        for each in variants:
            share = granted[each.key] / wanted[each.key]
            by_urgency.setdefault(-priority_of(each), []).append((share, each.key))
        for _, queue in sorted(by_urgency.items(), key=lambda each: each[0]):
            heapq.heapify(queue)
            while queue:
                _, key = heapq.heappop(queue)
                more = granted[key] + 1
                if more > wanted[key] or any(each.left(key) < more for each in self._of(key)):
                    continue
                granted[key] = more
                self.keep(key, more)
                heapq.heappush(queue, (more / wanted[key], key))
        return granted

    def _limits(self, variant: Variant, bounds: Bounds, *, is_standing: bool) -> Iterator[tuple[float, str]]:
        key = variant.key
        if bounds.maximum is not None:
            yield bounds.maximum, bounds.most_words(bounds.maximum, key.label)
        for each in self._of(key):
            left = each.left(key, is_standing=is_standing)
            if math.isfinite(left):
                yield left, each.words(key, left)

    def _of(self, key: ResourceKey) -> Sequence["_Scarce"]:
        return self._scarce.get(key, ())

    @cached_property
    def _scarce(self) -> Mapping[ResourceKey, Sequence["_Scarce"]]:
        """What limits each tuned autoscaler, with all that others may take of it."""
        pools = (scarce for pool, scarce in self._pools if pool.configured is not None)
        return self._by_key((*pools, *self._budgets(), *self._quotas()))

    @cached_property
    def _offered(self) -> Mapping[ResourceKey, Sequence["_Scarce"]]:
        """The pools of each tuned autoscaler that only nodes say the devices of."""
        return self._by_key(scarce for pool, scarce in self._pools if pool.configured is None)

    def _by_key(self, every: Iterable["_Scarce"]) -> Mapping[ResourceKey, Sequence["_Scarce"]]:
        found: dict[ResourceKey, list[_Scarce]] = {key: [] for key in self._tuned}
        for each in every:
            for key in each.per_replica.keys() & found.keys():
                found[key].append(each)
        return found

    @cached_property
    def _pools(self) -> Sequence[tuple[DevicePool, "_Scarce"]]:
        """Each pool of a tuned autoscaler, of which it is known how much it has."""
        return tuple(self._each_pool())

    def _each_pool(self) -> Iterator[tuple[DevicePool, "_Scarce"]]:
        problem = self._situation.formulated.problem
        use, amounts, per_replica = DeviceUse.of(problem), _nested(), _nested()
        for key, taken in self._taken.items():
            for name, each in problem.current_devices.get(key, {}).items():
                per_replica[name][key] = float(each)
            for allocation, most in taken:
                for name, each in use.devices(key, allocation.accelerator).items():
                    amounts[name][key] = max(amounts[name].get(key, 0.0), each * most)
        for pool in self._situation.snapshot.inventory.pools.values():
            each_of = per_replica[pool.name]
            if pool.exists is None or pool.devices is None or each_of.keys().isdisjoint(self._tuned):
                continue
            exist = float(max(pool.exists - pool.reserve, 0))
            free = min(pool.devices + self._own_among_others(pool, each_of), exist)
            scarce = _Scarce(f"pool {pool.name}", free, exist, each_of)
            for key in sorted(each_of.keys() | amounts[pool.name].keys()):
                scarce.claim(key, amounts[pool.name].get(key, 0.0), each_of.get(key, 0.0) * self._running(key))
            yield pool, scarce

    def _own_among_others(self, pool: DevicePool, per_replica: Mapping[ResourceKey, float]) -> float:
        """The devices of a pool that count as held by others and are our own: what autoscalers run beyond Git."""
        if pool.measured.taken is None:
            return 0.0
        return sum(each * self._beyond[key] for key, each in per_replica.items() if key in self._beyond)

    @cached_property
    def _beyond(self) -> Mapping[ResourceKey, int]:
        """The replicas of each variant beyond Git that count as held by others."""
        states = ((each.variant, each.surplus_replicas) for each in self._situation.states)
        return {each.key: count for each, count in states if count and is_counted_by_pods(each)}

    def _budgets(self) -> Iterator["_Scarce"]:
        guard = self._situation.formulated.guard
        for shared in guard.shared:
            if shared.counts is not Counted.COST or shared.members.isdisjoint(self._tuned):
                continue
            variants = {key: guard.subjects[key].variant for key in sorted(shared.members)}
            prices = {key: each.current_cost_per_hour for key, each in variants.items() if each.is_counted}
            per_replica = {key: price for key, price in prices.items() if price}
            scarce = _Scarce(f"budget {shared.name}", shared.limit, shared.limit, per_replica)
            for key, variant in variants.items():
                costs = [(variant.cost_of(replace(each, replicas=1)), most) for each, most in self._taken[key]]
                scarce.claim(key, max((cost * most for cost, most in costs if cost), default=0.0))
            yield scarce

    def _quotas(self) -> Iterator["_Scarce"]:
        namespaces: dict[tuple[str, str], dict[ResourceKey, Mapping[str, int]]] = {}
        for state in self._situation.states:
            workload = state.variant.workload
            if workload is not None:
                place = workload.key.cluster, workload.key.namespace
                namespaces.setdefault(place, {})[state.variant.key] = workload.devices
        for place, devices in namespaces.items():
            if devices.keys().isdisjoint(self._tuned):
                continue
            for quota in self._situation.snapshot.observed.quotas.get(place, ()):
                per_replica = {key: float(each[quota.resource]) for key, each in devices.items()
                               if each.get(quota.resource)}  # fmt: skip
                running = {key: each * self._running(key) for key, each in per_replica.items()}
                scarce = _Scarce(f"quota {quota.name}", quota.left + sum(running.values()), math.inf, per_replica)
                for key, each in per_replica.items():
                    scarce.claim(key, each * max(most for _, most in self._taken[key]), running[key])
                yield scarce

    def _running(self, key: ResourceKey) -> int:
        observation = self._situation.snapshot.observed.observations.get(key)
        current = self._situation.current[key].replicas
        return current if observation is None else max(current, observation.replicas_reporting)

    @cached_property
    def _taken(self) -> Mapping[ResourceKey, Sequence[tuple[Allocation, float]]]:
        """What each variant may have, and the most replicas that this lets run: as it is, as planned, and if merged."""
        merged = self._situation.if_merged()
        variants = {state.variant.key: state.variant for state in self._situation.states}
        found: dict[ResourceKey, list[tuple[Allocation, float]]] = {}
        for key, now in self._situation.current.items():
            then = now if key in self._tuned else merged[key]
            every = {now, then, self._planned.get(key, now)}
            found[key] = [(each, _most_replicas(each, variants[key])) for each in every]
        return found


def _nested() -> defaultdict[str, dict[ResourceKey, float]]:
    return defaultdict(dict)


def upper_bound(variant: Variant) -> float:
    """The most replicas that its autoscaler gives it now, infinite without a limit; those of Git without one."""
    if not variant.is_autoscaled or variant.workload is None:
        return variant.current.replicas
    if variant.tuned is not None:
        return variant.tuned.scaler.setting.highest
    ceilings = [each.value for each in variant.workload.replica_fields if each.is_ceiling]
    return max((math.inf if each is None else each for each in ceilings), default=math.inf)


def _most_replicas(allocation: Allocation, variant: Variant) -> float:
    """The most replicas that an allocation lets run."""
    if not variant.is_autoscaled:
        return allocation.replicas
    setting = ScalerSetting.parse(allocation.scaling) if allocation.scaling else None
    says_bounds = setting is not None and setting.least is not None
    most = setting.highest if setting is not None and says_bounds else upper_bound(variant)
    return max(allocation.replicas, most)


class _Scarce:
    """Something that variants share: a replica of each takes `per_replica` of it, and there is so much for all.

    Of `standing` nothing is taken off that others hold for the moment (infinite: not known). What a variant takes now
    beyond what it may counts too, but not against what was proposed before.
    """

    def __init__(self, name: str, most: float, standing: float, per_replica: Mapping[ResourceKey, float]) -> None:
        self.name, self.most, self.per_replica = name, most, per_replica
        self._standing = standing
        self._claimed: dict[ResourceKey, float] = {}
        self._beyond: dict[ResourceKey, float] = {}
        self._unlimited: set[ResourceKey] = set()
        self._endless: list[ResourceKey] | None = None
        self._sum = self._sum_beyond = 0.0

    def claim(self, key: ResourceKey, amount: float, running: float = 0.0) -> None:
        """From now on a variant may take so much; it is `running` so much of it now."""
        self._sum -= self._claimed.pop(key, 0.0)
        self._sum_beyond -= self._beyond.pop(key, 0.0)
        if math.isinf(amount) != (key in self._unlimited):
            self._unlimited ^= {key}
            self._endless = None
        if key in self._unlimited:
            return
        self._claimed[key], self._beyond[key] = amount, max(running - amount, 0.0)
        self._sum += amount
        self._sum_beyond += self._beyond[key]

    @property
    def is_passed(self) -> bool:
        """Whether all together may take more than there is."""
        return bool(self._unlimited) or self._sum > self.most + ROUNDING

    def left(self, key: ResourceKey, *, is_standing: bool = False) -> float:
        """How many replicas one variant may have beside what others may take."""
        if len(self._unlimited) > (key in self._unlimited):
            return 0.0
        left = self._standing if is_standing else self.most - self._sum_beyond + self._beyond.get(key, 0.0)
        left = (left - self._sum + self._claimed.get(key, 0.0)) / self.per_replica[key]
        return left if math.isinf(left) else max(math.floor(left + ROUNDING), 0)

    def words(self, key: ResourceKey, left: float) -> str:
        """That no more is left."""
        others = self._sum + self._sum_beyond - self._claimed.get(key, 0.0) - self._beyond.get(key, 0.0)
        if self._endless is None:
            self._endless = heapq.nsmallest(2, self._unlimited)
        endless = next((each for each in self._endless if each != key), None)
        if endless is not None:
            return f"{self.name} may be taken by {endless.label}, which has no maximum"
        return f"{self.name} has room for {left:.0f}" + (" beside what others may take" if others > ROUNDING else "")
