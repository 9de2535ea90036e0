"""From the signals of `percent` to replicas: one replica up or down, and none while anything moves (wva.md 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.identity import ResourceKey
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.percent import PercentAnalysis


class TransitionTest(StrEnum):
    """What tells that a variant is still moving, by release of WVA."""

    PENDING = "v0.8"
    REPORTING = "v0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentTargets:
    """Replicas of every variant of a model or role, and in words why."""

    replicas: Mapping[ResourceKey, int]
    reason: str


def percent_targets(
    analysis: PercentAnalysis,
    variants: Sequence[VariantFacts],
    reporting: Mapping[ResourceKey, int],
    *,
    transition_test: TransitionTest = TransitionTest.PENDING,
) -> PercentTargets:
    """Return what WVA's first analyzer makes of its signals; `reporting` counts the pods that report per variant."""
    current = {variant.key: variant.current_replicas for variant in variants}
    if not variants or analysis.num_reporting == 0:
        return PercentTargets(replicas=_clamped(current, variants), reason="no replica reports: replicas stay")
    moving = sorted(each.name for each in variants if _is_moving(each, reporting, transition_test))
    if moving:
        return PercentTargets(
            replicas={each.key: _wanted_before(each) for each in variants},
            reason=f"in transition: {', '.join(moving)}",
        )
    replicas, reason = _step(analysis, variants, reporting)
    return PercentTargets(replicas=_clamped(replicas, variants), reason=reason)


def _is_moving(variant: VariantFacts, reporting: Mapping[ResourceKey, int], test: TransitionTest) -> bool:
    if variant.desired_replicas not in (0, variant.current_replicas):
        return True
    if test is TransitionTest.PENDING:
        return variant.pending_replicas > 0
    return reporting.get(variant.key, 0) != variant.current_replicas


def _wanted_before(variant: VariantFacts) -> int:
    return variant.desired_replicas or variant.current_replicas


def _step(
    analysis: PercentAnalysis, variants: Sequence[VariantFacts], reporting: Mapping[ResourceKey, int]
) -> tuple[dict[ResourceKey, int], str]:
    replicas = {variant.key: variant.current_replicas for variant in variants}
    if analysis.scales_up:
        able = [each for each in variants if reporting.get(each.key, 0) > 0 and each.pending_replicas == 0]
        if able:
            cheapest = min(able, key=lambda each: (each.cost, each.name, each.key))
            replicas[cheapest.key] += 1
            return replicas, f"{analysis.reason}: one more of {cheapest.name}, the cheapest"
    elif analysis.is_removal_safe:
        able = [each for each in variants if each.current_replicas > 1]
        if able:
            dearest = max(able, key=lambda each: (each.cost, each.name, each.key))
            replicas[dearest.key] -= 1
            return replicas, f"the others can take over: one less of {dearest.name}, the dearest"
    return replicas, analysis.reason or "within thresholds"


def _clamped(replicas: Mapping[ResourceKey, int], variants: Sequence[VariantFacts]) -> dict[ResourceKey, int]:
    return {variant.key: variant.clamp(replicas[variant.key]) for variant in variants}
