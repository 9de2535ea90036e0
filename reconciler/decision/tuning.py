"""Autoscalers whose settings are tuned: what is proposed of each, or why nothing is."""

from collections.abc import Iterator

from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.domain.answers import NoAnswer
from reconciler.domain.holds import Hold, hold_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.records import replace
from reconciler.domain.scalers import TunedScaler


def tune_autoscalers(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Hold the autoscalers of which is not known what they go by, or what they did."""
    holds = dict(_holds(situation, staged))
    as_now = {key: situation.current[key] for key in holds}
    return replace(staged, allocations={**staged.allocations, **as_now}, holds={**staged.holds, **holds})


def _holds(situation: Situation, staged: StagedPlan) -> Iterator[tuple[ResourceKey, Hold]]:
    for key, tuned in sorted(situation.snapshot.tuned.items()):
        hold = None if key in staged.holds else _why_not(situation, key, tuned)
        if hold is not None:
            yield key, hold


def _why_not(situation: Situation, key: ResourceKey, tuned: TunedScaler) -> Hold | None:
    history = situation.snapshot.scaled.get(key)
    if tuned.hold is None and isinstance(history, NoAnswer):
        return hold_of(history)
    return tuned.hold
