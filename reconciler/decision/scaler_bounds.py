"""How far a reviewed change may move the bounds of an autoscaler: settings and rules, pools, budgets and quotas."""

import math
from collections.abc import Iterator
from functools import cached_property

from reconciler.decision.assessment import room_in_quotas
from reconciler.decision.staged_plan import Situation
from reconciler.decision.variant_states import bounds_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import Bounds
from reconciler.domain.snapshot import Variant
from reconciler.optimizer.device_use import DeviceUse
from reconciler.policy.port import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedBounds:
    """The least and the most replicas that bounds may be moved to; `limit` says in words what leaves no more.

    An upper bound that nothing limits is infinite.
    """

    least: float
    most: float
    limit: str = ""


class BoundsRoom:
    """What is left for upper bounds; each alone, as an upper bound takes nothing before it is needed.

    Of others a pool counts the largest of what Git has, what an open pull request asks for, and what runs.
    """

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    def of(self, variant: Variant) -> AllowedBounds:
        """That of the autoscaler on one variant."""
        # two weeks decide here: an hour that was not seen keeps a count from shrinking, and not a floor
        own, guard = bounds_of(variant, keeps_current=False), self._situation.formulated.guard
        bounds = guard.bounds(variant.key, own, may_shrink=True, may_move=False)
        most, limit = min(self._limits(variant, bounds), default=(math.inf, ""))
        return AllowedBounds(least=bounds.minimum, most=max(most, 0), limit=limit)

    def _limits(self, variant: Variant, bounds: Bounds) -> Iterator[tuple[float, str]]:
        key, problem = variant.key, self._situation.formulated.problem
        each = problem.current_devices.get(key, {})
        if bounds.maximum is not None:
            yield bounds.maximum, bounds.most_words(bounds.maximum, key.label)
        for pool in problem.pools:
            if each.get(pool.name):
                left = (pool.devices - self._taken_by_others(key, pool.name)) // each[pool.name]
                yield left, f"pool {pool.name} has room for {max(left, 0)}"
        yield from self._budgets(variant)
        workload = variant.workload
        found = None if workload is None else room_in_quotas(self._situation.snapshot, workload.key, workload.devices)
        if found is not None:
            more, quota = found
            left = self._running(key) + more
            yield left, f"quota {quota.name} has room for {left}"

    def _budgets(self, variant: Variant) -> Iterator[tuple[float, str]]:
        guard, price = self._situation.formulated.guard, variant.current_cost_per_hour
        for shared in guard.shared:
            if price and shared.counts is Counted.COST and variant.key in shared.members:
                others = [guard.subjects[key] for key in sorted(shared.members - {variant.key})]
                spent = math.fsum(each.variant.cost_of(each.current) or 0.0 for each in others)
                left = math.floor((shared.limit - spent) / price + 1e-9)
                yield left, f"budget {shared.name} has room for {max(left, 0)}"

    def _running(self, key: ResourceKey) -> int:
        observation = self._situation.snapshot.observed.observations.get(key)
        current = self._situation.current[key].replicas
        return current if observation is None else max(current, observation.replicas_reporting)

    def _taken_by_others(self, key: ResourceKey, pool: str) -> int:
        return sum(devices[pool] for other, devices in self._taken.items() if other != key and pool in devices)

    @cached_property
    def _taken(self) -> dict[ResourceKey, dict[str, int]]:
        """What each variant takes of each pool, at most."""
        situation, use = self._situation, DeviceUse.of(self._situation.formulated.problem)
        found: dict[ResourceKey, dict[str, int]] = {}
        for key, then in situation.if_merged().items():
            now = situation.current[key]
            taken = {pool: each * self._running(key) for pool, each in use.devices(key, now.accelerator).items()}
            for pool, each in use.devices(key, then.accelerator).items():
                taken[pool] = max(taken.get(pool, 0), each * then.replicas)
            found[key] = taken
        return found
