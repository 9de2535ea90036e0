"""To zero and from zero: what happens to a model that nobody asks for, or that somebody waits for (wva.md 5.7, 11)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import UpstreamQueue
from reconciler.sizing.saturation.answer import ZeroRule
from reconciler.sizing.saturation.replicas import screen_queue
from reconciler.sizing.saturation.variants import DEFAULT_COST, VariantFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """Replicas after the rule, and in words what it changed (empty: nothing)."""

    replicas: Mapping[ResourceKey, int]
    reason: str = ""


def enforce(replicas: Mapping[ResourceKey, int], variants: Sequence[VariantFacts], rule: ZeroRule) -> Enforced:
    """Return the replicas with an idle model at zero where that is allowed, and one replica kept where it is not."""
    if not variants or not rule.is_countable or any(variant.floor > 0 for variant in variants):
        return Enforced(replicas=replicas)
    if rule.is_enabled:
        if not rule.is_idle:
            return Enforced(replicas=replicas)
        return Enforced(replicas=dict.fromkeys(replicas, 0), reason="no request in the window: to zero")
    if sum(replicas.values()) > 0:
        return Enforced(replicas=replicas)
    cheapest = min(variants, key=lambda each: (each.cost if each.cost > 0 else DEFAULT_COST, each.name, each.key))
    return Enforced(
        replicas={**replicas, cheapest.key: 1}, reason=f"one replica of {cheapest.name}, the cheapest, stays"
    )


def wake(variants: Sequence[VariantFacts], queue: UpstreamQueue | None) -> dict[ResourceKey, int]:
    """Return upstream's answer for variants at zero while requests wait: one replica of every one of them."""
    waiting = screen_queue(queue).num_waiting if queue is not None else None
    asleep = [variant for variant in variants if variant.current_replicas == 0]
    return {variant.key: variant.clamp(1) for variant in asleep} if waiting else {}
