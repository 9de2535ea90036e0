"""No count is proposed that no fleet could ever schedule: what asks for it is measured wrongly."""

from collections.abc import Iterable
from dataclasses import replace

from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey

MOST_REPLICAS = 1000
"""Of one variant: with 8 devices each they fill a cluster of a thousand nodes. A pool that is counted limits sooner."""
MOST_GROWTH = 10
"""Whoever has more than a hundred may still grow so many times."""


def hold_implausible(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Keep every model as it is of which a variant would get more; before any pass that speaks of its changes."""
    allocations, holds = dict(staged.allocations), dict(staged.holds)
    for keys in situation.formulated.needs.variants_of.values():
        found = _most_implausible(situation, staged, keys)
        if found is None:
            continue
        replicas, most = allocations[found].replicas, _most(situation, found)
        words = (
            f"{found.label} would need {replicas} replicas, and more than {most} nobody schedules: "
            "what is measured must be wrong"
        )
        for key in keys:
            allocations[key] = situation.current[key]
            holds.setdefault(key, Hold(kind=HoldKind.COUNT_IMPLAUSIBLE, words=words))
    return replace(staged, allocations=allocations, holds=holds)


def _most_implausible(situation: Situation, staged: StagedPlan, keys: Iterable[ResourceKey]) -> ResourceKey | None:
    beyond = [key for key in keys if staged.allocations[key].replicas > _most(situation, key)]
    return max(beyond, key=lambda key: (staged.allocations[key].replicas, key), default=None)


def _most(situation: Situation, key: ResourceKey) -> int:
    return max(MOST_REPLICAS, MOST_GROWTH * situation.current[key].replicas)
