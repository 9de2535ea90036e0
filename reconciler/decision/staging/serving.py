"""What models give up of their replicas, so that whichever pull requests are merged each model is still served."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.decision.problem.needs import TOLERANCE, Allocations, Needs
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation


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
