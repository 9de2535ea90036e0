"""What runs beyond what Git says: an autoscaler or a stranger asked for it, and its devices are nobody else's."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from reconciler.decision.inventory import is_counted_by_pods
from reconciler.decision.standing import Standing
from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import Pool

Drawn = Mapping[ResourceKey, Mapping[str, int]]
"""What a replica of each variant takes of each pool where it runs now."""


def devices_beyond(standings: Iterable[Standing], drawn: Drawn, blind: Collection[str]) -> Drawn:
    """By held variant what its replicas beyond Git take of each pool; where that is not counted by pods already.

    `blind` are the pools of which nobody knows who holds devices.
    """
    found: dict[ResourceKey, dict[str, int]] = {}
    for standing in standings:
        count, key = standing.replicas_beyond, standing.variant.key
        is_told = is_counted_by_pods(standing.variant)
        taken = {name: each * count for name, each in drawn[key].items() if count and (name in blind or not is_told)}
        if taken:
            found[key] = taken
    return found


def pools_beside(
    pools: Iterable[Pool], beyond: Drawn, current: Mapping[ResourceKey, Allocation], drawn: Drawn
) -> tuple[Pool, ...]:
    """The pools without what runs beyond Git.

    Nobody is shrunk for it: what Git says that runs stays possible, for replicas that are just replaced count twice.
    """
    planned, gone = Counter[str](), Counter[str]()
    for key, allocation in current.items():
        planned.update({name: each * allocation.replicas for name, each in drawn[key].items()})
    for taken in beyond.values():
        gone.update(taken)
    return tuple(
        replace(pool, devices=max(pool.devices - gone[pool.name], min(pool.devices, planned[pool.name])))
        for pool in pools
    )


def beyond_words(taken: Mapping[str, int]) -> str:
    """What a held variant takes beyond Git, as a note."""
    pools = " and ".join(f"{count} of {name}" for name, count in sorted(taken.items()))
    return f"more of its replicas run than Git says: the {pools} that they take are nobody else's"
