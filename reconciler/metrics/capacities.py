"""What variants hold and have beside their present replicas: capacity seen before, and replicas that are ready."""

from collections.abc import Sequence

from reconciler.domain.identity import ResourceKey
from reconciler.domain.variants import Variant
from reconciler.metrics.attribution import Attribution, target_of
from reconciler.metrics.decoding import is_usable
from reconciler.metrics.quantities import Name
from reconciler.metrics.readings import Readings


def stored_capacities(readings: Readings, attribution: Attribution) -> dict[ResourceKey, float]:
    """Tokens that an instance of each variant held within the last day; the fewest, when several were told."""
    stored: dict[ResourceKey, float] = {}
    for series, ranks in readings.capacities.get(Name.STORED_KV_TOKENS, {}).items():
        variant = attribution.variant_of(series)
        told = [capacity.tokens for capacity in ranks.values() if capacity.tokens is not None]
        if variant is not None and told:
            stored[variant] = min(stored.get(variant, told[0]), *told)
    return stored


def ready_replicas(variants: Sequence[Variant], readings: Readings, attribution: Attribution) -> dict[ResourceKey, int]:
    """Replicas that Kubernetes calls ready, of variants whose scale target is their own and is a kind it counts."""
    ready: dict[ResourceKey, int] = {}
    for variant in variants:
        count = readings.ready.get(target_of(variant))
        if count is not None and is_usable(count) and attribution.by_target.get(target_of(variant)) == variant.key:
            ready[variant.key] = int(count)
    return ready
