"""The usual rule, to compare with: the most urgent model first, each by its cheapest capacity that is left."""

import numpy as np

from reconciler.optimizer.fleet.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.fleet.generation import room
from reconciler.optimizer.fleet.sparse import Floats, Integers


def plan_greedily(formulation: Formulation) -> Integers | None:
    """Replicas by choice; None where the rule leaves a row of the formulation broken.

    Blind to what a start costs, as the rules it stands for are. Bounds are served first.
    """
    room_left = _Room(formulation, _floors(formulation))
    choices = formulation.choices
    price = choices.cost / choices.carried
    order = np.lexsort((np.arange(len(formulation.rows.requirements)), -formulation.rows.priority))
    for row in order:
        begin, end = formulation.choice_starts[row], formulation.choice_starts[row + 1]
        wanted = _wanted(formulation, int(row), price[begin:end])
        wanted -= float(choices.carried[begin:end] @ room_left.counts[begin:end])
        for choice in begin + np.argsort(price[begin:end], kind="stable"):
            if wanted <= TOLERANCE:
                break
            needed = int(np.ceil(wanted / choices.carried[choice] - TOLERANCE))
            wanted -= choices.carried[choice] * room_left.take(int(choice), needed)
    return room_left.counts if room_left.is_kept else None


class _Room:
    """What is left of everything shared while replicas are handed out."""

    def __init__(self, formulation: Formulation, counts: Integers) -> None:
        self._formulation = formulation
        self._use = np.asarray(formulation.shared.use.todense())
        self._use_starting = np.asarray(formulation.shared.use_starting.todense())
        self._left = room(formulation)
        self.counts = np.zeros_like(counts)
        for choice in np.flatnonzero(counts):
            self._add(int(choice), int(counts[choice]))

    @property
    def is_kept(self) -> bool:
        """Whether nothing shared is exceeded; what one request may change is not looked at by the rule."""
        return bool((self._left >= -TOLERANCE * np.maximum(np.abs(self._formulation.shared.limits), 1.0)).all())

    def take(self, choice: int, wanted: int) -> int:
        """As many of the wanted replicas as bounds, active variants and everything shared admit."""
        choices = self._formulation.choices
        if not self._may_serve(choice):
            return 0
        more = min(wanted, self._fitting(choice), int(choices.highest[choice] - self.counts[choice]))
        if more <= 0 or self.counts[choice] + more < choices.lowest[choice]:
            return 0
        self._add(choice, more)
        return more

    def _may_serve(self, choice: int) -> bool:
        choices, rows = self._formulation.choices, self._formulation.rows
        row = choices.row[choice]
        own = np.arange(self._formulation.choice_starts[row], self._formulation.choice_starts[row + 1])
        is_active = self.counts[own] > 0
        has_rival = (is_active & (choices.variant[own] == choices.variant[choice]) & (own != choice)).any()
        return not has_rival and bool(self.counts[choice] > 0 or is_active.sum() < rows.active_limit[row])

    def _fitting(self, choice: int) -> int:
        standing = int(self._formulation.choices.standing[choice])
        fits = _times(self._left, self._use[:, choice])
        free = max(standing - int(self.counts[choice]), 0)
        return min(fits, free + _times(self._left, self._use_starting[:, choice]))

    def _add(self, choice: int, more: int) -> None:
        standing = int(self._formulation.choices.standing[choice])
        before = int(self.counts[choice])
        started = max(before + more - standing, 0) - max(before - standing, 0)
        self._left = self._left - self._use[:, choice] * more - self._use_starting[:, choice] * started
        self.counts[choice] += more


def _times(left: Floats, use: Floats) -> int:
    """How often `use` fits into what is left."""
    taken = use > 0
    return max(int(np.floor(np.min(left[taken] / use[taken] + TOLERANCE))), 0) if taken.any() else UNBOUNDED


def _floors(formulation: Formulation) -> Integers:
    """The least that each forced variant must have, on its cheapest choice, and what must go on serving meanwhile."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    counts = np.zeros(len(choices.keys), dtype=np.int64)
    price = choices.cost / choices.carried
    near = rows.near.copy()
    for choice in np.lexsort((price, choices.row)):
        row, ready = choices.row[choice], int(variants.ready[choices.variant[choice]])
        if choices.is_standing[choice] and near[row] > TOLERANCE and ready:
            kept = min(int(np.ceil(near[row] / choices.carried[choice] - TOLERANCE)), ready)
            counts[choice] = max(kept, int(choices.lowest[choice]))
            near[row] -= choices.carried[choice] * kept
    served = np.bincount(choices.variant, counts, minlength=len(variants.keys))
    for variant in np.flatnonzero(variants.is_forced & (served == 0)):
        own = np.flatnonzero(choices.variant == variant)
        choice = own[np.argmin(price[own])]
        counts[choice] = choices.lowest[choice]
    return counts


def _wanted(formulation: Formulation, row: int, price: Floats) -> float:
    """What must be covered, and what is worth more than the cheapest capacity for it."""
    rows = formulation.rows
    worthwhile = rows.amounts[row] * (rows.prices[row] > price.min(initial=np.inf))
    return float(rows.must[row] + worthwhile.sum())
