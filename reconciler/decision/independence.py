"""Pull requests that can be merged in any order: needs are met and devices suffice after each."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from reconciler.decision.formulation import FormulatedProblem
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import TOLERANCE, Allocations, Needs
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import replace
from reconciler.domain.requirements import Pool
from reconciler.optimizer.device_use import DeviceUse, served_meanwhile, served_now


class Serving:
    """Keeps what a model's groups take from it, all of them merged and none that adds, within what it can spare.

    A model needs what is asked for, or what it has now or is meant to get at first, where either is less.
    """

    def __init__(self, situation: Situation, staged: StagedPlan) -> None:
        self._current, self._needs = situation.current, situation.formulated.needs
        needs, current = self._needs, self._current
        shrinking = {
            needs.owner_of[key]
            for key, after in staged.allocations.items()
            if key in needs.owner_of and _carried(needs, key, after) < _carried(needs, key, current[key])
        }
        self._groups = {model: _groups(needs, model, situation.group_of) for model in sorted(shrinking)}
        self._aims = {
            model: min(
                needs.requirements[model].amount, needs.total(model, current), needs.total(model, staged.allocations)
            )
            for model in self._groups
        }

    def kept(self, staged: StagedPlan) -> StagedPlan:
        """With as many replicas staying as are needed."""
        allocations, waiting = dict(staged.allocations), dict(staged.waiting)
        for model, groups in self._groups.items():
            stay = self._staying(model, groups, staged.allocations)
            allocations |= {key: each for key, (each, _) in stay.items()}
            waiting |= {key: hold for key, (_, hold) in stay.items()}
        return replace(staged, allocations=allocations, waiting=waiting)

    def _staying(
        self, model: ModelKey, groups: Mapping[str, Collection[ResourceKey]], after: Allocations
    ) -> dict[ResourceKey, tuple[Allocation, Hold]]:
        """What must stay of a model, and why: the groups are asked one after the other, by name."""
        needs, aim, found = self._needs, self._aims[model], {}
        now = needs.total(model, self._current)
        spare = now - aim * (1 - TOLERANCE)
        for name, members in groups.items():
            lost = sum(_carried(needs, key, self._current[key]) - _carried(needs, key, after[key]) for key in members)
            missing = lost - spare
            if lost > 0 and missing > 0:
                hold = self._hold(model, [each for each in groups if each != name], now - lost, spare - lost, after)
                for key in self._shrinking(members, after):
                    if missing > 0:
                        stays = self._restored(key, after[key], missing)
                        gained = _carried(needs, key, stays) - _carried(needs, key, after[key])
                        lost, missing = lost - gained, missing - gained
                        found[key] = (stays, hold)
            spare -= max(lost, 0.0)
        return found

    def _shrinking(self, members: Collection[ResourceKey], after: Allocations) -> list[ResourceKey]:
        """Those that give something up, the largest replicas first: of these the fewest stay."""

        def replica(key: ResourceKey) -> float:
            return _carried(self._needs, key, replace(self._current[key], replicas=1))

        carried = {key: (self._carried_now(key), _carried(self._needs, key, after[key])) for key in members}
        shrinking = (key for key, (before, left) in carried.items() if left < before)
        return sorted(shrinking, key=lambda key: (-replica(key), key))

    def _carried_now(self, key: ResourceKey) -> float:
        return _carried(self._needs, key, self._current[key])

    def _restored(self, key: ResourceKey, after: Allocation, missing: float) -> Allocation:
        """As many replicas as are missing; what moves stays wholly where it is."""
        before = self._current[key]
        if after.replicas and after.accelerator != before.accelerator:
            return before
        more = math.ceil(missing / self._carried_now(key) * before.replicas * (1 - TOLERANCE))
        return replace(before, replicas=min(after.replicas + more, before.replicas))

    def _hold(self, model: ModelKey, others: list[str], alone: float, left: float, after: Allocations) -> Hold:
        aim, unit = self._aims[model], self._needs.requirements[model].unit
        if not others or self._needs.total(model, after) < aim * (1 - TOLERANCE):
            return Hold(kind=HoldKind.WAITING_FOR_DEVICES, words="stays until what replaces it has devices")
        is_alone = alone < aim * (1 - TOLERANCE)
        words = f"alone it leaves {alone:.4g}" if is_alone else f"of all that give way {aim + left:.4g} would be left"
        words = f"waits until {', '.join(others)} is merged: {words} of {aim:.4g} {unit}"
        return Hold(kind=HoldKind.WAITING_FOR_MERGE, words=words)


def _carried(needs: Needs, key: ResourceKey, allocation: Allocation) -> float:
    return needs.carried(key, allocation) or 0.0


def _groups(needs: Needs, model: ModelKey, groups_of: Mapping[ResourceKey, str]) -> dict[str, list[ResourceKey]]:
    """The variants behind a requirement by the pull request that proposes them."""
    groups: dict[str, list[ResourceKey]] = {}
    for key in needs.variants_of[model]:
        groups.setdefault(groups_of[key], []).append(key)
    return dict(sorted(groups.items()))


# Devices that one pull request frees go to another only after its merge: each must fit if it is merged alone. Of
# every other group a pool counts the largest of what runs, what its open pull request takes, and what is proposed
# now. What a group adds must fit as well, the most urgent first; inside a group what goes makes room for what
# comes, but not what moves: its old replicas run until the new ones serve, and a move into what another leaves might
# never end.

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
        self._least_urgent = min(self._urgency.values(), default=0)
        self._open = situation.if_merged()
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
        """With other words where nothing frees what is waited for: its holders wait in turn, or have no need to go."""
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
        return max(adding, default=self._least_urgent)

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
    """Restore what was said of a resource before."""
    told.pop(key, None)
    if key in before:
        told[key] = before[key]


# Nothing is drained before what replaces it serves: a model's own variants change hands in two steps. The plan that
# is aimed at may move demand from one variant to another. Both in one step would leave the model with what serves
# already, less what goes at once, until the new replicas are up. So what goes waits for them: the next run finds them
# serving and lets it go.


def keep_serving(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Let as many replicas of a model go as what serves now, and stays, carries its load without.

    After open pull requests: what they keep is what is drained.
    """
    formulated, allocations, waiting = situation.formulated, dict(staged.allocations), dict(staged.waiting)
    for model, members in formulated.needs.variants_of.items():
        if len(members) > 1:
            _keep(_Model(formulated, model, members, staged), allocations, waiting)
    return replace(staged, allocations=allocations, waiting=waiting)


class _Model:
    """What one model's variants serve now, and how much of it must go on: what the plan aims at may be less."""

    def __init__(
        self, formulated: FormulatedProblem, model: ModelKey, members: Sequence[ResourceKey], staged: StagedPlan
    ) -> None:
        self._problem, self._requirement = formulated.problem, formulated.needs.requirements[model]
        self.members = members
        served = sum(served_now(self._problem, self._requirement, key) for key in members)
        self.needed = min(formulated.load_of(model), served, formulated.needs.total(model, staged.allocations))
        self.unit = self._requirement.unit

    def replica(self, key: ResourceKey) -> float:
        """What one replica carries where it runs now."""
        candidate = key.on(self.current(key).accelerator)
        return self._requirement.per_replica.get(candidate, 0.0)

    def current(self, key: ResourceKey) -> Allocation:
        return self._problem.current[key]

    def most(self, key: ResourceKey) -> int:
        """The most replicas that may go on: what run now, as far as the bounds still admit them."""
        bounds = self._problem.bounds.get(key)
        highest = None if bounds is None else bounds.maximum
        current = self.current(key).replicas
        return current if highest is None else min(current, highest)

    def kept(self, key: ResourceKey, after: Allocation) -> float:
        return served_meanwhile(self._problem, self._requirement, key, after)


def _keep(model: _Model, allocations: dict[ResourceKey, Allocation], waiting: dict[ResourceKey, Hold]) -> None:
    missing = model.needed - sum(model.kept(key, allocations[key]) for key in model.members)
    if missing <= TOLERANCE * model.needed:
        return
    growing = [key.label for key in model.members if allocations[key].replicas > model.current(key).replicas]
    for key in sorted(model.members, key=lambda each: (-model.replica(each), each)):
        before, after = model.current(key), allocations[key]
        each = model.replica(key)
        if (
            missing <= TOLERANCE * model.needed
            or each <= 0
            or not (
                after.replicas < before.replicas and (after.replicas == 0 or after.accelerator == before.accelerator)
            )
        ):
            continue
        stay = min(after.replicas + math.ceil(missing / each * (1 - TOLERANCE)), model.most(key))
        gained = model.kept(key, replace(before, replicas=stay)) - model.kept(key, after)
        if gained <= 0:
            continue
        allocations[key] = replace(before, replicas=stay)
        missing -= gained
        others = ", ".join(growing) or "the others"
        words = (
            f"waits until the new replicas of {others} serve: the load is {model.needed:.4g} {model.unit} now, "
            f"{after.replicas} x {after.accelerator} is planned"
        )
        waiting[key] = Hold(kind=HoldKind.WAITING_FOR_REPLICAS, words=words)


# Pull requests that may be merged in any order, and any of them never: whichever are, devices and needs are kept.
# What waits for devices leaves less to serve with, and what stays for that takes devices that were to be free: both
# are looked at in turns until neither takes anything back. Every turn leads nearer to what runs, so they end.


def make_independent(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Take back of each group what breaks anything in case others are not merged.

    After draining: what that makes wait leaves more, so less has to wait here. After every other pass that changes what
    a variant gets: what stays there holds devices here.
    """
    serving = Serving(situation, staged)
    staged = serving.kept(staged)
    if not situation.formulated.problem.pools:
        return staged
    room = DeviceRoom(situation, staged)
    while True:
        fitting = room.fitted(staged)
        staged = serving.kept(fitting)
        if staged.allocations == fitting.allocations:
            return room.told(staged)
