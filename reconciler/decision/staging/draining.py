"""Nothing is drained before what replaces it serves: a model's own variants change hands in two steps.

The plan that is aimed at may move demand from one variant to another. Both in one step would leave the model with what
serves already, less what goes at once, until the new replicas are up. So what goes waits for them: the next run finds
them serving and lets it go.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.needs import TOLERANCE
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.optimizer.device_use import served_meanwhile, served_now


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
    growing = [key.label for key in model.members if _grows(model.current(key), allocations[key])]
    for key in sorted(model.members, key=lambda each: (-model.replica(each), each)):
        before, after = model.current(key), allocations[key]
        each = model.replica(key)
        if missing <= TOLERANCE * model.needed or each <= 0 or not _shrinks(before, after):
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


def _grows(before: Allocation, after: Allocation) -> bool:
    return after.replicas > before.replicas


def _shrinks(before: Allocation, after: Allocation) -> bool:
    return after.replicas < before.replicas and (after.replicas == 0 or after.accelerator == before.accelerator)
