"""Nothing is added to a model whose replicas do not all serve, nor beyond what the quotas of its namespace leave."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.decision.growth import room_in_quotas
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.snapshot import Variant


def prove_growth(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Leave models as they are that would grow without proof; before what waits for their new replicas."""
    unproven = dict(_unproven(situation, staged))
    as_now = {key: situation.current[key] for key in unproven}
    staged = replace(staged, allocations={**staged.allocations, **as_now}, holds={**staged.holds, **unproven})
    return _within_quotas(situation, staged)


def _unproven(situation: Situation, staged: StagedPlan) -> Iterator[tuple[ResourceKey, Hold]]:
    reasons: dict[ModelKey, Hold] = {}
    for state in situation.states:
        if state.unproven is not None:
            reasons.setdefault(state.variant.model, state.unproven)
    for model, hold in reasons.items():
        members = [state.variant for state in situation.states if state.variant.model == model]
        if any(_added(situation, staged, member) > 0 for member in members):
            yield from ((key, hold) for key in _changed(situation, staged, members))


def _within_quotas(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Each variant is held against what quotas leave now: what others of its namespace would get is not there yet."""
    allocations, holds, waiting = dict(staged.allocations), dict(staged.holds), dict(staged.waiting)
    for state in situation.states:
        variant = state.variant
        added, workload = _added(situation, staged, variant), variant.workload
        if added <= 0 or workload is None:
            continue
        room = room_in_quotas(situation.snapshot, workload.key, workload.devices)
        if room is not None and room[0] < added:
            admitted, quota = room
            words = (
                f"{added} more replicas of {variant.key.label} are needed, and quota {quota.name} of namespace "
                f"{workload.key.namespace} leaves {quota.left:g} {quota.resource}, enough for {admitted}"
            )
            current = situation.current[variant.key]
            allocations[variant.key] = replace(current, replicas=current.replicas + admitted)
            (waiting if admitted else holds)[variant.key] = Hold(kind=HoldKind.GROWTH_UNPROVEN, words=words)
    return replace(staged, allocations=allocations, holds=holds, waiting=waiting)


def _changed(situation: Situation, staged: StagedPlan, members: Iterable[Variant]) -> Iterator[ResourceKey]:
    for member in members:
        if member.key not in staged.holds and staged.allocations[member.key] != situation.current[member.key]:
            yield member.key


def _added(situation: Situation, staged: StagedPlan, variant: Variant) -> int:
    """Replicas that a variant would get beside those it has, where they stay what they are."""
    if variant.key in staged.holds:
        return 0
    before, after = situation.current[variant.key], staged.allocations[variant.key]
    return after.replicas - before.replicas if before.accelerator == after.accelerator else 0
