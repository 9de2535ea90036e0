"""What runs beyond what Git says: an autoscaler or a stranger asked for it, and its devices are nobody else's."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from reconciler.decision.variant_states import VariantState
from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import Pool
from reconciler.snapshot.inventory.pools import is_counted_by_pods

Drawn = Mapping[ResourceKey, Mapping[str, int]]
"""What a replica of each variant takes of each pool where it runs now."""


def surplus_devices(states: Iterable[VariantState], drawn: Drawn, blind: Collection[str]) -> Drawn:
    """By held variant what its replicas beyond Git take of each pool; where that is not counted by pods already.

    `blind` are the pools of which nobody knows who holds devices.
    """
    found: dict[ResourceKey, dict[str, int]] = {}
    for state in states:
        count, key = state.surplus_replicas, state.variant.key
        is_told = is_counted_by_pods(state.variant)
        taken = {name: each * count for name, each in drawn[key].items() if count and (name in blind or not is_told)}
        if taken:
            found[key] = taken
    return found


def pools_beside(
    pools: Iterable[Pool], surplus: Drawn, current: Mapping[ResourceKey, Allocation], drawn: Drawn
) -> tuple[Pool, ...]:
    """The pools without what runs beyond Git.

    Nobody is shrunk for it: what Git says that runs stays possible, for replicas that are just replaced count twice.
    """
    planned, gone = Counter[str](), Counter[str]()
    for key, allocation in current.items():
        planned.update({name: each * allocation.replicas for name, each in drawn[key].items()})
    for taken in surplus.values():
        gone.update(taken)
    return tuple(
        replace(pool, devices=max(pool.devices - gone[pool.name], min(pool.devices, planned[pool.name])))
        for pool in pools
    )


def surplus_words(taken: Mapping[str, int]) -> str:
    """What a held variant takes beyond Git, as a note."""
    pools = " and ".join(f"{count} of {name}" for name, count in sorted(taken.items()))
    return f"more of its replicas run than Git says: the {pools} that they take are nobody else's"
