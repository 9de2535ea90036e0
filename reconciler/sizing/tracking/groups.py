"""Groups of backends that serve one load: one total, split by cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.metric_targets import Backend
from reconciler.sizing.arrays import Floats

# Names of metrics that are shares, not amounts: a group takes their mean.
_SHARES = ("_utilization", "_usage", "_ratio", "_percent", "_saturation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A batch of `replicas` that is handed to the backend at `index` at once; `cost` ranks it."""

    index: int
    replicas: int
    cost: int


def scaling_order(backends: Sequence[Backend], expansion_percent: int) -> tuple[Block, ...]:
    """Return the blocks in which a group grows beyond its minimum, cheapest first, ties in the order of the list.

    Each backend's batches grow by `expansion_percent` from one to the next; at 100 it is one batch, ranked by the cost
    of one replica, and below 100 single replicas.
    """
    blocks = [block for index, backend in enumerate(backends) for block in _blocks(index, backend, expansion_percent)]
    return tuple(sorted(blocks, key=lambda block: (block.cost, block.index)))


def _blocks(index: int, backend: Backend, expansion_percent: int) -> list[Block]:
    rest = backend.max_replicas - backend.min_replicas
    if rest <= 0:
        return []
    if expansion_percent == 100:
        return [Block(index=index, replicas=rest, cost=backend.cost)]
    blocks, size = [], 1.0
    while rest > 0:
        replicas = min(rest, max(int(min(size, rest)), 1))
        blocks.append(Block(index=index, replicas=replicas, cost=backend.cost * replicas))
        rest -= replicas
        size = size * expansion_percent / 100
    return blocks


def distribute(backends: Sequence[Backend], order: Sequence[Block], total: int) -> tuple[int, ...]:
    """Return the replicas of each backend that add up to `total`, or to the nearest sum that the bounds allow.

    Depends on the total only: what a smaller total gives is always part of what a larger one gives.
    """
    replicas = [backend.min_replicas for backend in backends]
    left = max(total - sum(replicas), 0)
    for block in order:
        given = min(left, block.replicas)
        replicas[block.index] += given
        left -= given
    return tuple(replicas)


def keep_at_least(split: Sequence[int], floor: Sequence[int]) -> tuple[int, ...]:
    """Return replicas of which none is below `floor`, adding what `split` adds until its total is reached."""
    left = max(sum(split) - sum(floor), 0)
    kept = []
    for wanted, least in zip(split, floor, strict=True):
        added = min(left, max(wanted - least, 0))
        kept.append(least + added)
        left -= added
    return tuple(kept)


def is_share(metric: str) -> bool:
    """Return whether a metric's name says that it is a share of something, which nothing adds up."""
    return metric.lower().endswith(_SHARES)


def aggregate_external(metric: str, values: Floats, replicas: Floats) -> Floats:
    """Return one external metric of all backends: the sum, or for a share its mean weighted by replicas.

    Shapes (ticks, backends) to (ticks,); NaN values are left out. Without any replica the mean is plain.
    """
    known = ~np.isnan(values)
    usable = np.where(known, values, 0.0)
    if not is_share(metric):
        return in_order_sum(usable)
    weights = np.where(known & (replicas > 0), replicas, 0.0)
    weights = np.where(weights.any(axis=1, keepdims=True), weights, known)
    weight = in_order_sum(weights)
    return in_order_sum(usable * weights) / np.where(weight > 0, weight, 1.0)


def in_order_sum(values: Floats) -> Floats:
    """Return the sum over backends, one added after the other: the last bit decides at the edge of the tolerance."""
    total = np.zeros(values.shape[0])
    for backend in range(values.shape[1]):
        total = total + values[:, backend]
    return total
