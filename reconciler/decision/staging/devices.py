"""Devices that one pull request frees go to another only after its merge: each must fit if it is merged alone.

Of every other group a pool counts the largest of what runs, what its open pull request takes, and what is proposed now.
What a group adds must fit beside that, the most urgent first; inside a group what goes makes room for what comes, but
not what moves: its old replicas run until the new ones serve, and a move into what another leaves might never end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Pool
from reconciler.optimizer.device_use import DeviceUse

Told = TypeVar("Told")


class DeviceRoom:
    """What each group may take of each pool, whichever of the others are merged.

    `group_of` names what is merged together, where that is less than a group.
    """

    def __init__(
        self, situation: Situation, staged: StagedPlan, group_of: Mapping[ResourceKey, str] | None = None
    ) -> None:
        formulated, problem = situation.formulated, situation.formulated.problem
        self._current = situation.current
        self._device_use = DeviceUse.of(problem)
        self._urgency: dict[ResourceKey, int] = {}
        groups: dict[str, list[ResourceKey]] = {}
        for key in self._current:
            groups.setdefault((group_of or situation.group_of)[key], []).append(key)
            need = formulated.needs.of_variant(key)
            self._urgency[key] = 0 if need is None else need.priority
        self._open: dict[ResourceKey, Allocation] = {}
        for keys in groups.values():
            current = {key: self._current[key] for key in keys}
            self._open |= situation.proposed(situation.group_of[keys[0]], current)
        self._allocations, self._waiting = dict(staged.allocations), dict(staged.waiting)
        self._pools, self._planned = problem.pools, staged.allocations
        self._lacks: dict[ResourceKey, str] = {}
        self._members: dict[str, dict[str, list[ResourceKey]]] = {}
        for group, keys in groups.items():
            for key in keys:
                for pool in self._pools_of(key):
                    self._members.setdefault(pool, {}).setdefault(group, []).append(key)

    def fitted(self, staged: StagedPlan) -> StagedPlan:
        """A plan no larger than at first, with what is added cut where a pool has no room before others have merged."""
        self._allocations, self._waiting = dict(staged.allocations), dict(staged.waiting)
        for pool in self._pools:
            self._fit(pool)
        return replace(staged, allocations=self._allocations, waiting=self._waiting)

    def overfull(self) -> Iterator[str]:
        """The pools that do not hold the plan of the beginning, whichever are merged."""
        for pool in self._pools:
            before = dict(self._allocations)
            self._fit(pool)
            if self._allocations != before:
                self._allocations = before
                yield pool.name

    def holds(self, pool: str, key: ResourceKey) -> bool:
        """Whether a variant takes anything of a pool: now, as proposed, or as desired."""
        return any(key in members for members in self._members.get(pool, {}).values())

    def told(self, staged: StagedPlan) -> StagedPlan:
        """With other words where nobody frees what is waited for: its holders wait in turn, or have no need to go."""
        self._allocations, self._waiting = dict(staged.allocations), dict(staged.waiting)
        freed = {pool: self._is_freed(pool) for pool in sorted(set(self._lacks.values()))}
        for key, pool in self._lacks.items():
            if not freed[pool]:
                self._wait(key, f"waits for devices of {pool}, which no pull request frees")
        return replace(staged, waiting=self._waiting)

    def _fit(self, pool: Pool) -> None:
        """Hand the room of one pool to the groups, the one with the most urgent addition first."""
        groups = self._members.get(pool.name, {})
        claims = {group: self._claim(pool.name, group) for group in groups}
        for group in sorted(groups, key=lambda each: (-self._most_urgent(pool.name, each), each)):
            others = sum(claims.values()) - claims[group]
            room = max(pool.devices - others, self._use(pool.name, group, self._current))
            self._cut_to(pool, group, room)
            claims[group] = max(claims[group], self._use(pool.name, group, self._allocations))

    def _pools_of(self, key: ResourceKey) -> set[str]:
        """The pools that a variant takes anything of: now, as proposed, or as desired."""
        places = (self._current[key], self._open[key], self._allocations[key])
        accelerators = {place.accelerator for place in places if place.replicas}
        return {pool for each in accelerators for pool in self._device_use.devices(key, each)}

    def _claim(self, pool: str, group: str) -> int:
        return max(self._use(pool, group, self._current), self._use(pool, group, self._open))

    def _use(self, pool: str, group: str, allocations: Allocations) -> int:
        after = sum(
            self._each(pool, key, allocations[key]) * allocations[key].replicas for key in self._members[pool][group]
        )
        return after + self._left(pool, group, allocations)

    def _left(self, pool: str, group: str, allocations: Allocations) -> int:
        """What moves to other pools holds of this one meanwhile."""
        moving = ((self._current[key], allocations[key], key) for key in self._members[pool][group])
        return sum(
            self._each(pool, key, before) * before.replicas
            for before, after, key in moving
            if after.replicas and after.accelerator != before.accelerator and not self._each(pool, key, after)
        )

    def _each(self, pool: str, key: ResourceKey, allocation: Allocation) -> int:
        return self._device_use.devices(key, allocation.accelerator).get(pool, 0)

    def _most_urgent(self, pool: str, group: str) -> int:
        adding = [self._urgency[key] for key in self._members[pool][group] if self._added(pool, key) > 0]
        return max(adding, default=min(self._urgency.values(), default=0))

    def _added(self, pool: str, key: ResourceKey) -> int:
        before, after = self._current[key], self._allocations[key]
        return self._each(pool, key, after) * after.replicas - self._each(pool, key, before) * before.replicas

    def _cut_to(self, pool: Pool, group: str, room: int) -> None:
        """Take additions back, the least urgent first, until the group fits; then give back what fits all the same."""
        adding = [key for key in self._members[pool.name][group] if self._added(pool.name, key) > 0]
        allocations, waiting, lacks = dict(self._allocations), dict(self._waiting), dict(self._lacks)
        cut: list[ResourceKey] = []
        for key in sorted(adding, key=lambda each: (self._urgency[each], each)):
            excess = self._use(pool.name, group, self._allocations) - room
            if excess <= 0:
                break
            cut.append(key)
            self._cut(pool.name, group, key, excess)
        for key in reversed(cut):
            if self._give_back(pool.name, group, key, room, allocations[key]):
                _put_back(self._waiting, waiting, key)
                _put_back(self._lacks, lacks, key)

    def _cut(self, pool: str, group: str, key: ResourceKey, excess: int) -> None:
        before, after = self._current[key], self._allocations[key]
        is_moved = before.accelerator != after.accelerator
        fewer = -(-excess // self._each(pool, key, after))
        kept = before.replicas if is_moved else max(after.replicas - fewer, before.replicas)
        self._allocations[key] = before if is_moved else replace(after, replicas=kept)
        is_left = excess <= self._left(pool, group, self._allocations)
        if not is_left:
            self._lacks[key] = pool
        until = "what moves away frees" if is_left else "other pull requests free"
        self._wait(key, f"waits until {until} devices of {pool}")

    def _give_back(self, pool: str, group: str, key: ResourceKey, room: int, wanted: Allocation) -> bool:
        """As much as fits of what was taken from a variant, for what was cut after it may have been enough.

        Whether that is all of it.
        """
        kept = self._allocations[key]
        fitting = (room - self._use(pool, group, self._allocations)) // self._each(pool, key, wanted)
        if kept.accelerator == wanted.accelerator:
            more = max(min(wanted.replicas - kept.replicas, fitting), 0)
            self._allocations[key] = replace(kept, replicas=kept.replicas + more)
            return self._allocations[key] == wanted
        self._allocations[key] = wanted
        is_fitting = self._use(pool, group, self._allocations) <= room
        self._allocations[key] = wanted if is_fitting else kept
        return is_fitting

    def _is_freed(self, pool: str) -> bool:
        """Whether any pull request frees devices of a pool."""
        return any(
            self._use(pool, group, self._allocations) < self._use(pool, group, self._current)
            for group in self._members[pool]
        )

    def _wait(self, key: ResourceKey, words: str) -> None:
        planned = self._planned[key]
        words = f"{words}: {planned.replicas} x {planned.accelerator} is planned"
        self._waiting[key] = Hold(kind=HoldKind.WAITING_FOR_DEVICES, words=words)


def _put_back(told: dict[ResourceKey, Told], before: Mapping[ResourceKey, Told], key: ResourceKey) -> None:
    """What was told of a resource before."""
    told.pop(key, None)
    if key in before:
        told[key] = before[key]
