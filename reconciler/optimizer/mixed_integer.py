"""A formulation as one mixed-integer programme: exact for all of its rows."""

from typing import TYPE_CHECKING

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.optimizer.configurations import replicas_for
from reconciler.optimizer.formulation import TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import Flags, Floats, Integers, Programme, by_cells, owners, solve, sums

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedIntegerAnswer:
    """Replicas by choice, None where none were found within the limit, and the proven bound."""

    counts: Integers | None
    bound: float


def solve_mixed_integer(
    formulation: Formulation, *, gap: float, nodes: int, start: Integers | None = None, is_thorough: bool = False
) -> MixedIntegerAnswer:
    """The cheapest replicas by choice within `gap` (a fraction), in at most `nodes` nodes of the search.

    `start` are the replicas of a known solution. The bound is infinite where there is no solution.
    """
    programme = FleetProgramme(formulation)
    if not programme.width:
        return MixedIntegerAnswer(counts=np.zeros(0, dtype=np.int64), bound=0.0)
    begun = None if start is None else programme.values(start)
    asked = programme.asked(programme.integrality)
    found = solve(asked, gap=gap, nodes=nodes, start=begun, is_thorough=is_thorough)
    return MixedIntegerAnswer(counts=programme.counts(found.values), bound=found.bound)


def solve_divisible(formulation: Formulation, *, gap: float, nodes: int) -> tuple[Flags | None, float]:
    """The choices that are used where replicas are divisible (None: none found), and a bound for whole replicas too.

    Where replicas are many this is nearly the same, and much faster.
    """
    programme, count = FleetProgramme(formulation), len(formulation.choices.keys)
    integrality = programme.integrality.copy()
    integrality[:count] = 0
    found = solve(programme.asked(integrality), gap=gap, nodes=nodes)
    return None if found.values is None else found.values[:count] > TOLERANCE, found.bound


class FleetProgramme:
    """Columns and rows of the programme; variables that are not needed are fixed at zero and cost nothing."""

    def __init__(self, formulation: Formulation) -> None:
        self.formulation = formulation
        choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
        count, height = len(choices.keys), len(rows.requirements)
        self._replicas = np.arange(count)
        self._active = count + self._replicas
        self._started = 2 * count + self._replicas
        self._touched = 3 * count + np.arange(len(variants.keys))
        self._short = 3 * count + len(variants.keys) + np.arange(rows.amounts.size).reshape(rows.amounts.shape)
        self.width = 3 * count + len(variants.keys) + rows.amounts.size if height else 0
        self._most = _most(formulation)
        self._switched = _needs_switch(formulation)
        self._is_starting = choices.start > 0
        self._is_touched = (variants.touch > 0) | (sums(formulation.shared.use_touching) > 0)
        self.objective = np.concatenate(
            [choices.cost, choices.fixed, choices.start, variants.touch, rows.prices.ravel()]
        )
        self.integrality = np.zeros(self.width, dtype=np.int64)
        self.integrality[self._replicas] = 1
        self.integrality[self._active] = self._switched
        self.integrality[self._touched] = self._is_touched
        lowest = np.where(self._switched, 0, choices.lowest)
        self.lower = np.zeros(self.width)
        self.lower[self._replicas] = lowest
        # A variant on an accelerator that is no longer offered changes in any case.
        leaves = variants.was_active & ~_any_by_variant(formulation, choices.is_standing)
        self.lower[self._touched] = leaves & self._is_touched
        self.upper = np.concatenate(
            [
                self._most,
                self._switched,
                np.where(self._is_starting, self._most, 0),
                self._is_touched,
                rows.amounts.ravel(),
            ]
        ).astype(np.float64)

    def asked(self, integrality: Integers) -> Programme:
        """All of it, of which these columns are whole."""
        matrix, lower, upper = self.rows()
        return Programme(
            objective=self.objective,
            matrix=matrix,
            lower=lower,
            upper=upper,
            least=self.lower,
            most=self.upper,
            is_whole=integrality > 0,
        )

    def counts(self, values: Floats | None) -> Integers | None:
        """Replicas by choice."""
        return None if values is None else np.rint(values[self._replicas]).astype(np.int64)

    def values(self, counts: Integers) -> Floats:
        """The columns that replicas by choice stand for."""
        formulation, values = self.formulation, np.zeros(self.width)
        if not self.width:
            return values
        choices, rows = formulation.choices, formulation.rows
        values[self._replicas] = counts
        values[self._active] = self._switched & (counts > 0)
        values[self._started] = np.where(self._is_starting, np.maximum(counts - choices.standing, 0), 0)
        moves = (counts != choices.standing) & (choices.is_standing | (counts > 0))
        is_moved = _any_by_variant(formulation, moves) | (self.lower[self._touched] > 0)
        values[self._touched] = self._is_touched & is_moved
        served = np.bincount(choices.row, choices.carried * counts, minlength=len(rows.must))
        left = served - rows.must
        for place in range(rows.amounts.shape[1]):
            values[self._short[:, place]] = np.clip(rows.amounts[:, place] - left, 0.0, rows.amounts[:, place])
            left = left - rows.amounts[:, place]
        return values

    def rows(self) -> tuple["Matrix", Floats, Floats]:
        """The constraint matrix and its limits; what is shared stands last."""
        gathered = _Gathered()
        self._cover(gathered)
        self._switch(gathered)
        self._start(gathered)
        self._touch(gathered)
        self._balance(gathered)
        self._share(gathered)
        rows, columns, values, lower, upper = gathered.arrays()
        return by_cells(values, rows, columns, (len(lower), self.width)), lower, upper

    def _cover(self, to: "_Gathered") -> None:
        choices, rows = self.formulation.choices, self.formulation.rows
        row = to.new(rows.demand * (1 - 1e-12), np.inf)
        # One replica that carries more than the whole demand is enough; larger numbers only harm the programme.
        to.add(row[choices.row], self._replicas, np.minimum(choices.carried, 1.0))
        if self._short.size:
            to.add(np.repeat(row, rows.amounts.shape[1]), self._short.ravel(), 1.0)

    def _switch(self, to: "_Gathered") -> None:
        """A switch for every choice that needs one; one choice a variant, and no more variants than may serve."""
        choices, variants, rows = self.formulation.choices, self.formulation.variants, self.formulation.rows
        chosen = np.flatnonzero(self._switched)
        row = to.new(np.full(len(chosen), -np.inf), 0.0)
        to.add(row, self._replicas[chosen], 1.0)
        to.add(row, self._active[chosen], -self._most[chosen].astype(np.float64))
        row = to.new(np.zeros(len(chosen)), np.inf)
        to.add(row, self._replicas[chosen], 1.0)
        to.add(row, self._active[chosen], -np.maximum(choices.lowest[chosen], 1).astype(np.float64))
        has_switch = _any_by_variant(self.formulation, self._switched)
        by_variant = to.new((variants.is_forced & has_switch).astype(np.float64), 1.0)
        to.add(by_variant[choices.variant[chosen]], self._active[chosen], 1.0)
        is_limited = rows.active_limit < len(variants.keys)
        limited = to.new(np.full(len(is_limited), -np.inf), np.where(is_limited, rows.active_limit, np.inf))
        to.add(limited[choices.row[chosen]], self._active[chosen], 1.0)

    def _start(self, to: "_Gathered") -> None:
        choices = self.formulation.choices
        chosen = np.flatnonzero(self._is_starting)
        row = to.new(-choices.standing[chosen].astype(np.float64), np.inf)
        to.add(row, self._started[chosen], 1.0)
        to.add(row, self._replicas[chosen], -1.0)

    def _touch(self, to: "_Gathered") -> None:
        """A variant is touched where a standing count moves, or another choice becomes active."""
        choices = self.formulation.choices
        touched = self._is_touched[choices.variant]
        chosen = np.flatnonzero(touched & choices.is_standing)
        span = np.maximum(self._most - choices.standing, choices.standing).astype(np.float64)[chosen]
        for sign in (1.0, -1.0):
            row = to.new(np.full(len(chosen), -np.inf), sign * choices.standing[chosen].astype(np.float64))
            to.add(row, self._replicas[chosen], sign)
            to.add(row, self._touched[choices.variant[chosen]], -span)
        other = np.flatnonzero(touched & ~choices.is_standing)
        row = to.new(np.full(len(other), -np.inf), 0.0)
        to.add(row, self._replicas[other], 1.0)
        to.add(row, self._touched[choices.variant[other]], -self._most[other].astype(np.float64))

    def _balance(self, to: "_Gathered") -> None:
        choices, ratios = self.formulation.choices, self.formulation.ratios
        row = to.new(np.zeros(len(ratios.factor)), np.inf)
        for index, (greater, smaller, factor) in enumerate(
            zip(ratios.greater, ratios.smaller, ratios.factor, strict=True)
        ):
            over, under = np.flatnonzero(choices.row == greater), np.flatnonzero(choices.row == smaller)
            to.add(np.full(len(over), row[index]), self._replicas[over], 1.0)
            to.add(np.full(len(under), row[index]), self._replicas[under], -float(factor))

    def _share(self, to: "_Gathered") -> None:
        shared = self.formulation.shared
        row = to.new(np.full(len(shared), -np.inf), shared.limits)
        for uses, variables in ((shared.use, self._replicas), (shared.use_touching, self._touched)):
            to.add(row[owners(uses)], variables[uses.indices], uses.data)


class _Gathered:
    """Rows of a sparse matrix while they are gathered."""

    def __init__(self) -> None:
        self._height = 0
        self._cells: list[tuple[Integers, Integers, Floats]] = []
        self._limits: list[tuple[Floats, Floats]] = []

    def new(self, lower: Floats, upper: Floats | float) -> Integers:
        """Indices of as many new rows as there are lower limits."""
        rows = self._height + np.arange(len(lower))
        self._height += len(lower)
        self._limits.append((lower, np.broadcast_to(np.asarray(upper, dtype=np.float64), lower.shape)))
        return rows

    def add(self, rows: Integers, columns: Integers, values: Floats | float) -> None:
        self._cells.append((rows, columns, np.broadcast_to(np.asarray(values, dtype=np.float64), rows.shape)))

    def arrays(self) -> tuple[Integers, Integers, Floats, Floats, Floats]:
        rows, columns, values = (np.concatenate([cell[part] for cell in self._cells]) for part in range(3))
        lower, upper = (np.concatenate([limit[part] for limit in self._limits]) for part in range(2))
        return rows, columns, values, lower, upper


def _any_by_variant(formulation: Formulation, flags: Flags) -> Flags:
    """Whether a flag is set on any choice of a variant."""
    found = np.bincount(formulation.choices.variant, flags, minlength=len(formulation.variants.keys))
    result: Flags = found > 0
    return result


def _most(formulation: Formulation) -> Integers:
    """A count by choice that no best solution exceeds: what the whole demand needs, or what a ratio may need."""
    choices, rows, ratios = formulation.choices, formulation.rows, formulation.ratios
    needed = replicas_for(rows.demand[choices.row], choices.carried)
    needed = np.maximum.reduce([needed, choices.lowest, choices.standing, np.ones_like(needed)])
    for _ in range(2 * len(ratios.factor)):
        before = needed.copy()
        for greater, smaller, factor in zip(ratios.greater, ratios.smaller, ratios.factor, strict=True):
            # What a ratio bars has none, and asks for none of the other.
            under = np.minimum(needed, choices.highest)[choices.row == smaller].sum()
            over = choices.row == greater
            needed[over] = np.maximum(needed[over], min(int(np.ceil(factor * under)), UNBOUNDED))
        if (needed == before).all():
            break
    return np.minimum(needed, choices.highest)


def _needs_switch(formulation: Formulation) -> Flags:
    """Choices for which it matters whether they are active at all."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    options = np.bincount(choices.variant, minlength=len(variants.keys))[choices.variant]
    members = np.bincount(variants.row, minlength=len(rows.requirements))[choices.row]
    is_limited = rows.active_limit[choices.row] < members
    result: Flags = (options > 1) | (choices.fixed != 0) | is_limited
    return result
