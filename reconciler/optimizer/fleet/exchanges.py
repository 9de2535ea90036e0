"""Configurations next to those of a plan: fewer replicas of one choice of a model, more of another, or one of both."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.fleet.configurations import Configurations, replicas_for
from reconciler.optimizer.fleet.formulation import TOLERANCE, Formulation
from reconciler.optimizer.sparse import Flags, Floats, Integers, by_cells, owners, plain, sums

if TYPE_CHECKING:
    from reconciler.optimizer.sparse import Matrix

_FEWER = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024])
"""How many replicas of a choice go at once, besides all of them."""


@dataclass(frozen=True, slots=True)
class _Exchanges:
    """By exchange: the row, the choice that loses replicas and how many, the one that gains and how many (-1: none)."""

    row: Integers
    left: Integers
    fewer: Integers
    right: Integers
    more: Integers

    def at(self, chosen: Integers | Flags) -> "_Exchanges":
        return _Exchanges(
            self.row[chosen], self.left[chosen], self.fewer[chosen], self.right[chosen], self.more[chosen]
        )


def exchanged(formulation: Formulation, plan: Configurations) -> Configurations:
    """Every configuration that one exchange makes of a plan's (one a block), of blocks of one row.

    A gain covers what the loss did, one replica less or more than that, all that is asked for, or is one replica.
    """
    counts = sums(plan.counts).astype(np.int64)
    losses = _losses(formulation, counts)
    exchanges = _joined([losses, *_gains(formulation, counts, losses)])
    block = formulation.block_of_row[exchanges.row]
    found = plain(plan.counts[np.argsort(plan.block)][block] + _changes(exchanges, len(counts)))
    found.eliminate_zeros()
    kept = np.flatnonzero(_is_allowed(formulation, exchanges.row, found))
    return Configurations(block=block[kept], counts=found[kept])


def _losses(formulation: Formulation, counts: Integers) -> _Exchanges:
    """Fewer replicas of each choice, and of each row nothing fewer."""
    is_alone = np.bincount(formulation.block_of_row)[formulation.block_of_row] == 1
    used = np.flatnonzero((counts > 0) & is_alone[formulation.choices.row])
    entry, place = np.nonzero(_FEWER[None, :] < counts[used][:, None])
    left, fewer = np.concatenate([used[entry], used]), np.concatenate([_FEWER[place], counts[used]])
    rows = np.flatnonzero(is_alone)
    none, nothing = np.full(len(rows), -1), np.zeros(len(rows), dtype=np.int64)
    row = np.concatenate([formulation.choices.row[left], rows])
    return _Exchanges(
        row,
        np.concatenate([left, none]),
        np.concatenate([fewer, nothing]),
        np.full(len(row), -1),
        np.zeros(len(row), dtype=np.int64),
    )


def _gains(formulation: Formulation, counts: Integers, losses: _Exchanges) -> list[_Exchanges]:
    """After each loss more replicas of each other choice of the row."""
    choices, rows, starts = formulation.choices, formulation.rows, formulation.choice_starts
    sizes = starts[losses.row + 1] - starts[losses.row]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    right = starts[losses.row[owner]] + np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    after = losses.at(owner)
    covered = np.bincount(choices.row, choices.carried * counts, minlength=len(rows.requirements))
    rest = covered[after.row] - np.where(after.left >= 0, choices.carried[after.left] * after.fewer, 0.0)
    demand, each = rows.demand[after.row], choices.carried[right]
    same = replicas_for(np.maximum(np.minimum(covered[after.row], demand) - rest, 0.0), each)
    full = replicas_for(np.maximum(demand - rest, 0.0), each)
    is_useful = (right != after.left) & (counts[right] < choices.highest[right])
    most = np.minimum(full, choices.highest[right] - counts[right])
    return [
        _Exchanges(after.row, after.left, after.fewer, right, more).at(is_useful & (more >= 1) & (more <= most))
        for more in (same, same - 1, same + 1, full, np.ones_like(same))
    ]


def _joined(parts: list[_Exchanges]) -> _Exchanges:
    names = ("row", "left", "fewer", "right", "more")
    row, left, fewer, right, more = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _Exchanges(row, left, fewer, right, more)


def _changes(exchanges: _Exchanges, width: int) -> "Matrix":
    """By exchange what it adds to each choice."""
    every = np.arange(len(exchanges.row))
    loses, gains = exchanges.left >= 0, exchanges.right >= 0
    values = np.concatenate([-exchanges.fewer[loses], exchanges.more[gains]])
    columns = np.concatenate([exchanges.left[loses], exchanges.right[gains]])
    return by_cells(values, np.concatenate([every[loses], every[gains]]), columns, (len(every), width))


def _is_allowed(formulation: Formulation, row: Integers, counts: "Matrix") -> Flags:
    """Whether configurations of these rows keep bounds, cover what they must, and let as many variants serve as may."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    owner, chosen, size = owners(counts), counts.indices, len(row)

    def total(values: Floats | Flags) -> Floats:
        return np.bincount(owner, values, minlength=size).astype(np.float64)

    variant = choices.variant[chosen]
    active = np.bincount(owner, minlength=size)
    pairs = np.unique(np.stack([owner, variant]), axis=1)[0]
    forced = np.bincount(variants.row, variants.is_forced, minlength=len(rows.requirements))[row]
    is_bounded = total((counts.data < choices.lowest[chosen]) | (counts.data > choices.highest[chosen])) == 0
    is_single = (np.bincount(pairs, minlength=size) == active) & (active <= rows.active_limit[row])
    is_covered = total(choices.carried[chosen] * counts.data) >= rows.must[row] * (1 - TOLERANCE)
    result: Flags = is_bounded & is_single & is_covered & (total(variants.is_forced[variant]) == forced)
    return result
