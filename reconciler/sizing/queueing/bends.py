"""Service curves that are no straight line, because larger batches need more chunks.

No closed form knows them. Their states are summed one by one, from weights that depend on the curve alone and are
therefore computed once: in logarithms, the weight of state n is n ln rate + sum over k <= n of ln(service(k) / k).
"""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.chunks import Chunks

# States of a group: what one pass over them touches then stays in the second-level cache (1 MiB).
_GROUP_STATES = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSums:
    """Sums over the states 0..N of a chain, normalised to 1; see `QueueHead` for the names."""

    full: Floats
    below: Floats
    empty: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Logarithms of the rate-free weights of some curves, shape (curves, states); minus infinity beyond N."""

    log_weights: Floats
    top: Integers

    def sum_states(self, position: Integers, rate_per_s: Floats) -> StateSums:
        """Return the sums of the curves at `position`, each at its rate."""
        batch = np.arange(self.log_weights.shape[1], dtype=np.float64)
        weights = self.log_weights[position]
        weights += np.multiply.outer(np.log(rate_per_s), batch)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)

        place, top = np.arange(position.size), self.top[position]
        full, empty = weights[place, top], weights[:, 0].copy()
        weights[place, top] = 0.0  # apart: in overload the states below are too light to survive a difference
        below, first, second = (weights @ np.stack([np.ones_like(batch), batch, batch * batch], axis=1)).T
        total = below + full
        mean = (first + top * full) / total
        variance = np.maximum((second + top * (top * full)) / total - mean * mean, 0.0)
        return StateSums(full=full / total, below=below / total, empty=empty / total, mean=mean, variance=variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bends:
    """Where curves leave the line of their first chunk count; `row` (candidates,) is -1 where they never do.

    Rows count the bent curves by falling N; `groups` holds them, group g from row `starts[g]` on. Both are shared by
    all selections of candidates.
    """

    iteration_s: Floats
    chunks: Chunks
    row: Integers
    starts: Integers
    groups: tuple[Group, ...]

    @property
    def bent(self) -> Bools:
        """Whether a candidate's curve bends at all."""
        return self.row >= 0

    def beyond_line_s(self, batch: Floats | float) -> Floats:
        """Return what a request takes at `batch` beyond the line it follows in a small one."""
        return _beyond_line_s(self.iteration_s, self.chunks, batch)

    def sum_states(self, rate_per_s: Floats) -> StateSums:
        """Return the sums of the bent candidates alone, in their order; `rate_per_s` has one element per candidate."""
        row, rate_per_s = self.row[self.bent], rate_per_s[self.bent]
        order = np.argsort(row, kind="stable")
        edges = np.append(np.searchsorted(row[order], self.starts), order.size)
        sums = StateSums(**{name: np.empty_like(rate_per_s) for name in StateSums.__slots__})
        for number, group in enumerate(self.groups):
            index = order[edges[number] : edges[number + 1]]
            if index.size:
                part = group.sum_states(row[index] - self.starts[number], rate_per_s[index])
                for name in StateSums.__slots__:
                    getattr(sums, name)[index] = getattr(part, name)
        return sums

    def take(self, index: Integers | Bools) -> "Bends | None":
        """Return the bends of the candidates that `index` selects, None if all of them are straight."""
        row = self.row[index]
        if not (row >= 0).any():
            return None
        return Bends(
            iteration_s=self.iteration_s[index],
            chunks=self.chunks.take(index),
            row=row,
            starts=self.starts,
            groups=self.groups,
        )


def find_bends(iteration_s: Floats, chunks: Chunks, max_batch: Floats) -> Bends | None:
    """Return the bends of iterations that take `iteration_s` and the work of their batch; None if there are none."""
    bent = np.flatnonzero(chunks.full > chunks.lone)
    if not bent.size:
        return None
    rows = bent[np.argsort(-max_batch[bent], kind="stable")]
    row = np.full(max_batch.shape, -1, dtype=np.int64)
    row[rows] = np.arange(rows.size)
    starts, groups = [], []
    start = 0
    while start < rows.size:
        index = rows[start : start + max(int(_GROUP_STATES / (max_batch[rows[start]] + 1)), 1)]
        starts.append(start)
        groups.append(_weigh(iteration_s[index], chunks.take(index), max_batch[index]))
        start += index.size
    return Bends(
        iteration_s=iteration_s,
        chunks=chunks,
        row=row,
        starts=np.array(starts, dtype=np.int64),
        groups=tuple(groups),
    )


def _beyond_line_s(iteration_s: Floats, chunks: Chunks, batch: Floats | float) -> Floats:
    more = chunks.count(batch) - chunks.lone
    return more * (iteration_s + batch * (chunks.moved_s * chunks.input_tokens / 2))


def _weigh(iteration_s: Floats, chunks: Chunks, max_batch: Floats) -> Group:
    """Return the weights of curves sorted by falling N."""
    top = max_batch.astype(np.int64)
    columns = chunks.take(np.arange(top.size)[:, None])  # shape (curves, 1): every formula then broadcasts over states
    batch = np.arange(1, top[0] + 1, dtype=np.float64)[None, :]
    count = columns.count(batch)
    service_s = (count + columns.output_tokens) * iteration_s[:, None] + batch * columns.work_s(count)
    log_weights = np.zeros((top.size, top[0] + 1))
    np.cumsum(np.log(service_s / batch), axis=1, out=log_weights[:, 1:])
    log_weights[np.arange(top[0] + 1) > top[:, None]] = -np.inf
    return Group(log_weights=log_weights, top=top)
