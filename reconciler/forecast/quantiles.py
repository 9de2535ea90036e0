"""Conditional quantiles of a logarithm, learned from rows of features: a linear rule and a table of states."""

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import OF_DAY, OF_HOUR, OF_VARIATION, OF_YESTERDAY, Floats, Integers

ROUNDS, WIDEST_BEND, NARROWEST_BEND = 25, 0.3, 0.02
"""The kink of the pinball loss is rounded, less in each round."""
ROUGH_ROUNDS, ROUGH_ROWS = 18, 4
"""So many rounds only lead to where the others begin: every fourth row does for them."""
RIDGE = 1e-3
CELLS = ((OF_DAY, 6), (OF_HOUR, 5), (OF_YESTERDAY, 6), (OF_VARIATION, 6))
COARSE = 2
"""Of these, so many of the first tell the states of the coarser table apart."""
SHRUNK = 60.0
"""Rows of the coarser table that a cell's own are mixed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearQuantiles:
    """Linear quantile regression: a coefficient for each level and standardised feature, the constant first."""

    centres: Floats
    scales: Floats
    coefficients: Floats

    @classmethod
    def fit(cls, values: Floats, targets: Floats, levels: Floats) -> "LinearQuantiles":
        """From rows: the pinball loss by majorisation (|r| <= r^2 / 2s + s / 2), as in Hunter and Lange (2000)."""
        centres, scales = values.mean(axis=0), values.std(axis=0)
        scales = np.where(scales > 1e-9, scales, np.inf)
        rows = np.column_stack((np.ones(len(values)), (values - centres) / scales))
        penalty = RIDGE * len(rows) * np.diag([0.0, *np.ones(values.shape[1])])
        bends = np.geomspace(WIDEST_BEND, NARROWEST_BEND, ROUNDS)
        found, start = [], np.zeros(rows.shape[1])
        start[0] = np.median(targets)
        stages = [(rows[::step], targets[::step], penalty / step) for step in (ROUGH_ROWS, 1)]
        sums = [each.sum(axis=0) for each, _, _ in stages]
        for level in levels:
            for number, bend in enumerate(bends):
                stage = int(number >= ROUGH_ROUNDS)
                used, wanted, ridge = stages[stage]
                weights = 0.5 / np.sqrt((wanted - used @ start) ** 2 + bend**2)
                weighted = used * weights[:, np.newaxis]
                start = np.linalg.solve(weighted.T @ used + ridge, weighted.T @ wanted + (level - 0.5) * sums[stage])
            found.append(start)
        return cls(centres=centres, scales=scales, coefficients=np.array(found))

    def parts(self, values: Floats) -> Floats:
        """What each feature adds to each level's quantile (rows x levels x features)."""
        return np.asarray(((values - self.centres) / self.scales)[:, np.newaxis, :] * self.coefficients[:, 1:])

    def predict(self, values: Floats) -> Floats:
        """The quantiles of each row (rows x levels)."""
        return np.asarray(
            self.coefficients[:, 0] + ((values - self.centres) / self.scales) @ self.coefficients[:, 1:].T
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedQuantiles:
    """A table of quantiles by state (cells x levels); a state is where each of four features lies."""

    edges: tuple[Floats, ...]
    table: Floats

    @classmethod
    def fit(cls, values: Floats, targets: Floats, levels: Floats) -> "BinnedQuantiles":
        """From rows: a cell with few of its own is mixed with its coarser state, and that with all."""
        edges = tuple(np.quantile(values[:, column], np.arange(1, count) / count) for column, count in CELLS)
        counts = [count for _, count in CELLS]
        places = _places(values, edges)
        shape = tuple(counts[:COARSE])
        coarse_of = np.ravel_multi_index(places[:COARSE], shape)
        everything = np.quantile(targets, levels)[np.newaxis, :]
        coarse = _mixed(targets, coarse_of, int(np.prod(shape)), levels, everything)
        cells = np.ravel_multi_index(places, counts)
        total = int(np.prod(counts))
        return cls(edges=edges, table=_mixed(targets, cells, total, levels, np.repeat(coarse, total // len(coarse), 0)))

    def predict(self, values: Floats) -> Floats:
        """The quantiles of each row (rows x levels)."""
        cells = np.ravel_multi_index(_places(values, self.edges), [count for _, count in CELLS])
        return np.asarray(self.table[cells])


def _places(values: Floats, edges: tuple[Floats, ...]) -> tuple[Integers, ...]:
    return tuple(
        np.searchsorted(edge, values[:, column], side="right") for edge, (column, _) in zip(edges, CELLS, strict=True)
    )


def _mixed(targets: Floats, cells: Integers, count: int, levels: Floats, wider: Floats) -> Floats:
    """The quantiles of each cell, mixed with `SHRUNK` rows of the wider state that it belongs to."""
    order = np.lexsort((targets, cells))
    ordered = targets[order]
    sizes = np.bincount(cells, minlength=count)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    places = starts[:, np.newaxis] + levels * np.maximum(sizes - 1, 0)[:, np.newaxis]
    below = np.minimum(places.astype(np.int64), len(ordered) - 1)
    above = np.minimum(below + (places > below), len(ordered) - 1)
    own = ordered[below] + (places - below) * (ordered[above] - ordered[below])
    weights = (sizes / (sizes + SHRUNK))[:, np.newaxis]
    return np.asarray(weights * own + (1 - weights) * wider)
