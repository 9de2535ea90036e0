"""The usual rule, to compare with: the most urgent model first, each by its cheapest capacity that is left."""

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.fleet.generation import room
from reconciler.optimizer.fleet.planning import is_served, use_of
from reconciler.optimizer.sparse import Floats, Integers, columns

if TYPE_CHECKING:
    from reconciler.optimizer.sparse import Matrix


def plan_greedily(formulation: Formulation, *, is_partial: bool = False) -> Integers | None:
    """Replicas by choice; None where the rule leaves a row of the formulation broken.

    Blind to what a start costs and to how much one request may change, as the rules it stands for are. Bounds are
    served first. With `is_partial` demand that is not met breaks nothing.
    """
    handed = _Handed(formulation)
    price = _prices(formulation)
    for choice, count in enumerate(_floors(formulation, price).tolist()):
        if count:
            handed.add(choice, count)
    rows = np.arange(len(formulation.rows.requirements))
    for row in np.lexsort((rows, -formulation.rows.priority)).tolist():
        _serve(formulation, handed, row, price)
    counts = np.array(handed.counts, dtype=np.int64)
    is_within = (use_of(formulation, counts) <= room(formulation)).all()
    asked = formulation.without_must() if is_partial else formulation
    return counts if is_within and is_served(asked, counts) else None


def _prices(formulation: Formulation) -> Floats:
    """Of a unit by each choice, where it may have any replica; an accelerator's place in order comes before it."""
    choices = formulation.choices
    return np.where(choices.highest > 0, (choices.cost + choices.fixed) / choices.carried, np.inf)


def _serve(formulation: Formulation, handed: "_Handed", row: int, price: Floats) -> None:
    """What must be covered of a row, and what is worth more than its cheapest capacity, the cheapest first."""
    choices, rows = formulation.choices, formulation.rows
    begin, end = formulation.choice_starts[row], formulation.choice_starts[row + 1]
    own = price[begin:end]
    worthwhile = rows.amounts[row] @ (rows.prices[row] > own.min(initial=np.inf))
    carried = choices.carried[begin:end]
    wanted = float(rows.must[row] + worthwhile - carried @ np.array(handed.counts[begin:end]))
    for index in np.argsort(own, kind="stable").tolist():
        if wanted <= TOLERANCE or not np.isfinite(own[index]):
            break
        needed = min(math.ceil(wanted / carried[index] - TOLERANCE), UNBOUNDED)
        wanted -= carried[index] * handed.take(int(begin) + index, needed)


class _Handed:
    """The replicas handed out, and what is left of everything shared; plain lists, for it is asked one by one."""

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        choices = formulation.choices
        self._use = _by_choice(formulation.shared.use)
        self._left: list[float] = room(formulation).tolist()
        self._lowest: list[int] = choices.lowest.tolist()
        self._highest: list[int] = choices.highest.tolist()
        self.counts = [0] * len(choices.keys)

    def take(self, choice: int, wanted: int) -> int:
        """As many of the wanted replicas as bounds, active variants and everything shared admit."""
        if not self._may_serve(choice):
            return 0
        more = min(wanted, self._fitting(choice), self._highest[choice] - self.counts[choice])
        if more <= 0 or self.counts[choice] + more < self._lowest[choice]:
            return 0
        self.add(choice, more)
        return more

    def add(self, choice: int, more: int) -> None:
        """Hand out more of a choice, whatever is left."""
        for row, use in self._use[choice]:
            self._left[row] -= use * more
        self.counts[choice] += more

    def _may_serve(self, choice: int) -> bool:
        """Whether its variant serves on no other accelerator, and may serve beside the others of its model."""
        if self.counts[choice]:
            return True
        choices, rows = self._formulation.choices, self._formulation.rows
        row, variant = choices.row[choice], choices.variant[choice]
        begin, end = self._formulation.choice_starts[row], self._formulation.choice_starts[row + 1]
        active = [int(choices.variant[own]) for own in range(begin, end) if self.counts[own]]
        return variant not in active and len(active) < int(rows.active_limit[row])

    def _fitting(self, choice: int) -> int:
        """How many more fit into what is left."""
        uses = self._use[choice]
        fitting = min((self._left[row] / use for row, use in uses if use > 0), default=float(UNBOUNDED))
        return max(math.floor(fitting + TOLERANCE), 0)


def _by_choice(matrix: "Matrix") -> list[list[tuple[int, float]]]:
    """Of each column the rows that it uses, and how much of them."""
    rows, values, begins = columns(matrix)
    cells = list(zip(rows.tolist(), values.tolist(), strict=True))
    return [cells[begin:end] for begin, end in pairwise(begins.tolist())]


def _floors(formulation: Formulation, price: Floats) -> Integers:
    """The least that each forced variant must have, on its cheapest choice."""
    choices, variants = formulation.choices, formulation.variants
    counts = np.zeros(len(choices.keys), dtype=np.int64)
    cheapest = np.lexsort((price, choices.variant))[np.searchsorted(choices.variant, np.arange(len(variants.keys)))]
    forced = cheapest[variants.is_forced]
    counts[forced] = choices.lowest[forced]
    return counts
