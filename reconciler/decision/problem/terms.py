"""What a variant's settings mean for the optimizer: its bounds, how urgent it is, and what its replicas weigh."""

from collections.abc import Iterable

from reconciler.decision.variant_states import VariantState
from reconciler.domain.provenance import SourceKind
from reconciler.domain.requirements import Bounds
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS, PAYBACK_S, START_DELAY_S

SECONDS_PER_HOUR = 3600.0

UPSTREAM_RELATIVE_COST = 10.0
"""What upstream's resource takes a `variantCost` that is not written for."""


def priority_of(variant: Variant) -> int:
    """What its pools' objectives say; where none does its service class."""
    if variant.priority is not None and variant.priority.source.kind is not SourceKind.BUILT_IN:
        return variant.priority.value
    return 0 if variant.service_class is None else variant.service_class.value.priority


def written_minimum(variant: Variant) -> int:
    """The lower bound; who is less urgent than nothing has none unless somebody wrote it."""
    least = variant.settings[MIN_REPLICAS]
    is_assumed = least.source.kind is SourceKind.BUILT_IN
    return 0 if is_assumed and priority_of(variant) < 0 else least.value


def idle_replicas(variant: Variant) -> int:
    """The fewest replicas of a variant without load.

    A written minimum of 0 does not stop the last replica: waking it again would take a merge and a sync. A written
    maximum of 0 does.
    """
    least, most = variant.settings[MIN_REPLICAS].value, variant.settings[MAX_REPLICAS].value
    fewest = least if least > 0 else min(variant.current.replicas, 1)
    return fewest if most is None else min(fewest, most)


def bounds_of(variant: Variant, *, keeps_current: bool) -> Bounds:
    """The replicas that a variant may have; one that keeps its current ones may only grow."""
    least, most = written_minimum(variant), variant.settings[MAX_REPLICAS].value
    if keeps_current:
        least = max(least, variant.current.replicas)
    return Bounds(minimum=least if most is None else min(least, most), maximum=most)


def current_weight(variant: Variant, *, is_priced: bool) -> float:
    """The weight of one current replica, in the unit of its model's candidates; 0 where its price is unknown."""
    return variant.current_cost_per_hour or 0.0 if is_priced else relative_weight(variant)


def relative_weight(variant: Variant) -> float:
    """What a resource says its replicas cost beside those of its model; no money."""
    return UPSTREAM_RELATIVE_COST if variant.relative_cost is None else variant.relative_cost


def start_share(variant: Variant) -> float:
    """What a replica costs before it serves, as a share of what it costs in the time that a change has to pay back."""
    return variant.settings[START_DELAY_S].value / variant.settings[PAYBACK_S].value


def payback_of(members: Iterable[Variant]) -> float:
    """The longest `payback` of a model's variants, in seconds."""
    return max(member.settings[PAYBACK_S].value for member in members)


def unserved_price(members: Iterable[VariantState]) -> float | None:
    """What an hour without one request a second costs, where all of a model's classes name a price; the highest."""
    classes = [state.variant.service_class for state in members]
    costs = [None if each is None else each.value.unserved_cost_per_request for each in classes]
    known = [cost for cost in costs if cost is not None]
    return max(known) * SECONDS_PER_HOUR if known and len(known) == len(costs) else None
