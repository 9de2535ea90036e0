"""What replicas weigh against each other: their price, what starting them costs, and what unserved requests do."""

from collections.abc import Iterable

from reconciler.decision.variant_states import VariantState
from reconciler.domain.variant_settings import PAYBACK_S, START_DELAY_S
from reconciler.domain.variants import Variant

SECONDS_PER_HOUR = 3600.0

UPSTREAM_RELATIVE_COST = 10.0
"""What upstream's resource takes a `variantCost` that is not written for."""


def current_weight(variant: Variant, *, is_priced: bool) -> float:
    """The weight of one current replica, in the unit of its model's candidates; 0 where its price is unknown."""
    return variant.current_cost_per_hour or 0.0 if is_priced else relative_weight(variant)


def relative_weight(variant: Variant) -> float:
    """What a resource says its replicas cost beside those of its model; no money."""
    return UPSTREAM_RELATIVE_COST if variant.relative_cost is None else variant.relative_cost


def start_share(variant: Variant) -> float:
    """What a replica costs before it serves, as a share of what it costs in the time that a change has to pay back."""
    return variant.settings[START_DELAY_S].value / variant.settings[PAYBACK_S].value


def unserved_price(members: Iterable[VariantState]) -> float | None:
    """What an hour without one request a second costs, where all of a model's classes name a price; the highest."""
    classes = [state.variant.service_class for state in members]
    costs = [None if each is None else each.value.unserved_cost_per_request for each in classes]
    known = [cost for cost in costs if cost is not None]
    return max(known) * SECONDS_PER_HOUR if known and len(known) == len(costs) else None
