"""What an allocation of a variant costs."""

from reconciler.decision.variant_states import is_counted
from reconciler.domain.inventory import Allocation
from reconciler.domain.snapshot import Variant


def cost_of(variant: Variant, allocation: Allocation) -> float | None:
    """What an allocation of the variant costs an hour; None without a price, or while nobody knows what runs."""
    if not is_counted(variant):
        return None
    if not allocation.replicas:
        return 0.0
    if allocation.accelerator == variant.current.accelerator:
        price = variant.current_cost_per_hour
    else:
        prices = (option.cost_per_hour for option in variant.options if option.accelerator == allocation.accelerator)
        price = next(prices, None)
    return None if price is None else price * allocation.replicas
