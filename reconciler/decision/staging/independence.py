"""Pull requests that may be merged in any order: where groups share a need, each must leave it met alone."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.decision.problem.needs import TOLERANCE, Allocations, Needs
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey


def make_independent(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Let a variant shrink only when what its own group's pull request leaves carries what is needed.

    After draining: what that makes wait leaves more, so less has to wait here.
    """
    allocations, waiting = dict(staged.allocations), dict(staged.waiting)
    current, needs = situation.current, situation.formulated.needs
    for model in needs.requirements:
        requirement, groups = needs.requirements[model], _groups(needs, model, situation.group_of)
        for name, members in groups.items() if len(groups) > 1 else ():
            merged = {**current, **{key: staged.allocations[key] for key in members}}
            alone = needs.total(model, merged)
            # Where devices are scarce all groups together may leave less than what is asked for.
            aim = min(requirement.amount, needs.total(model, staged.allocations))
            if alone >= aim * (1 - TOLERANCE):
                continue
            others = ", ".join(other for other in groups if other != name)
            words = f"waits until {others} is merged: alone it leaves {alone:.4g} of {aim:.4g} {requirement.unit}"
            for key in _shrinking(members, needs, current, staged.allocations):
                allocations[key] = current[key]
                waiting[key] = Hold(kind=HoldKind.WAITING_FOR_MERGE, words=words)
    return replace(staged, allocations=allocations, waiting=waiting)


def _groups(needs: Needs, model: ModelKey, groups_of: Mapping[ResourceKey, str]) -> dict[str, list[ResourceKey]]:
    """The variants behind a requirement by the pull request that proposes them."""
    groups: dict[str, list[ResourceKey]] = {}
    for key in needs.variants_of[model]:
        groups.setdefault(groups_of[key], []).append(key)
    return dict(sorted(groups.items()))


def _shrinking(
    members: Collection[ResourceKey], needs: Needs, before: Allocations, after: Allocations
) -> list[ResourceKey]:
    def carried(key: ResourceKey, allocations: Allocations) -> float:
        return needs.carried(key, allocations[key]) or 0.0

    return [key for key in members if carried(key, after) < carried(key, before)]
