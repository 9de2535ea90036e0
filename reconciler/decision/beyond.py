"""What runs beyond what Git says: an autoscaler or a stranger asked for it, and its devices are nobody else's."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.decision.standing import Standing
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import Pool

Taken = Mapping[ResourceKey, Mapping[str, int]]
"""What a replica of each variant takes of each pool where it runs now."""


def pools_beside(
    pools: Iterable[Pool], standings: Iterable[Standing], held: Collection[ResourceKey], taken: Taken
) -> tuple[Pool, ...]:
    """The pools without what `held` variants run beyond Git.

    Nobody is shrunk for it: what Git says that runs stays possible, for replicas that are just replaced count twice.
    """
    planned, beyond = Counter[str](), Counter[str]()
    for standing in standings:
        variant = standing.variant
        for name, each in taken[variant.key].items():
            planned[name] += each * variant.current.replicas
            beyond[name] += each * standing.replicas_beyond if variant.key in held else 0
    return tuple(
        replace(pool, devices=max(pool.devices - beyond[pool.name], min(pool.devices, planned[pool.name])))
        for pool in pools
    )


def beyond_words(standing: Standing, taken: Taken) -> Iterator[str]:
    """What a held variant runs beyond Git, as a note; nothing where no pool is touched by it."""
    pools = ", ".join(sorted(taken[standing.variant.key]))
    if standing.replicas_beyond and pools:
        yield f"{standing.replicas_beyond} more than in Git run: what they take of {pools} is nobody else's"
