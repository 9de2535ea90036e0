"""The best plan of a formulation, by columns or by one programme, and the greedy plan to compare with."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.optimizer.columns import EXCESS, generate, room, whole_plan
from reconciler.optimizer.enumeration import Pairs
from reconciler.optimizer.formulation import GAP, TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import Floats, Integers, columns, sums
from reconciler.optimizer.mixed_integer import solve_divisible, solve_mixed_integer
from reconciler.optimizer.rounding import round_shares

_NODES, _FEW_NODES = 2_000, 500
_EXACT = 1e-6

SMALL = 60
"""Choices of a fleet that one programme over all replicas decides, and exactly: 0.2 s for 48, where columns take 0.06 s
and leave up to 0.1 % unproven."""

SEARCHED = 250
"""Choices of a fleet with ratios that such a programme is tried on first: 0.1 s for 120, where columns take 22 s."""

DIVIDED = 2_000
"""Choices of a fleet with many replicas that is planned by fractions of replicas first: 0.7 s for 180 and 3.2 s for 600
by priority, where one programme with a known start takes 1.6 s and 13.8 s."""

ROUGH, ROUGH_SHARED = 5e-3, 0.05
"""The gap that is accepted for such a fleet, and for the question of who gets how much in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Replicas by choice, their value, the bound on any plan's value, and a price of each shared row.

    The prices tell only what may be worth more: what one more of it saves takes another plan.
    """

    counts: Integers
    value: float
    bound: float
    prices: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """No plan keeps all rows: by how much each shared row is exceeded at least, and blocks without configuration."""

    excess: Floats
    blocks: Integers


Planned = FleetPlan | Infeasible | None
"""A plan, why there is none, or None where the limits were reached before any was found."""

Planner = Callable[[Formulation], Planned]


def plan_by_columns(formulation: Formulation) -> Planned:
    """The best plan found by prices and whole configurations; by one programme where that proves as much sooner."""
    if not formulation.choices.keys:
        return _empty(formulation)
    small = _plan_small(formulation) or _plan_divisible(formulation)
    if isinstance(small, Infeasible):
        return small
    if small is not None:
        # With many replicas a longer search hardly improves on this. Other small plans are close to the optimum anyway.
        if formulation.sharing is not None or small.value - small.bound <= ROUGH * abs(small.value):
            return small
        formulation = replace(formulation, known_counts=small.counts)
    generated = generate(formulation)
    if len(generated.infeasible) or generated.excess.max(initial=0.0) > EXCESS:
        return Infeasible(excess=generated.excess, blocks=generated.infeasible)
    rounded = round_shares(formulation, generated)
    if rounded is None:
        return None
    counts = np.rint(sums(rounded.columns.configurations.counts)).astype(np.int64)
    bound = rounded.bound if small is None else min(max(rounded.bound, small.bound), rounded.columns.value)
    return FleetPlan(counts=counts, value=rounded.columns.value, bound=bound, prices=generated.prices)


def _plan_small(formulation: Formulation) -> Planned:
    """The plan of one programme for a small fleet; None for others, and where it proves too little."""
    size = len(formulation.choices.keys)
    if size > SEARCHED or (size > SMALL and Pairs(formulation).is_listed.all()):
        return None
    found = solve_mixed_integer(formulation, gap=_EXACT if size <= SMALL else GAP / 2, nodes=_FEW_NODES)
    if found.counts is None:
        return _infeasible(formulation) if found.bound == np.inf else None
    plan = _planned(formulation, found.counts, found.bound)
    is_good = formulation.is_close(plan.value, plan.bound) and _keeps(formulation, found.counts)
    return plan if is_good else None


def _plan_divisible(formulation: Formulation) -> Planned:
    """The best plan of the choices that divisible replicas would use, for a fleet with many replicas; else None.

    Divisible replicas prove nearly all of the bound: of hundreds of replicas few are lost by rounding. A known plan is
    kept if it is good enough: who gets how much need not be as exact as what it costs.
    """
    choices, known, is_sharing = formulation.choices, formulation.known_counts, formulation.sharing is not None
    if len(choices.keys) > DIVIDED or not formulation.has_many_replicas:
        return None
    gap = ROUGH_SHARED / 5 if is_sharing else GAP / 4
    is_open, bound = solve_divisible(formulation, gap=gap, nodes=_FEW_NODES)
    if is_open is None:
        return _infeasible(formulation) if bound == np.inf else None
    best = None
    if known is not None and _keeps(formulation, known):
        best, is_open = _planned(formulation, known, bound), is_open | (known > 0)
        enough = (ROUGH_SHARED if is_sharing else ROUGH) * abs(best.value)
        if best.value - best.bound <= enough or formulation.is_close(best.value, best.bound):
            return best
    narrowed = replace(formulation, choices=replace(choices, highest=np.where(is_open, choices.highest, 0)))
    start = None if best is None else best.counts
    found = solve_mixed_integer(narrowed, gap=gap, nodes=_FEW_NODES, start=start)
    if found.counts is None or not _keeps(formulation, found.counts):
        return best
    plan = _planned(formulation, found.counts, bound)
    return plan if best is None or plan.value < best.value else best


def _infeasible(formulation: Formulation) -> Infeasible:
    """No plan, for no known reason."""
    return Infeasible(excess=np.zeros(len(formulation.shared)), blocks=np.zeros(0, dtype=np.int64))


def _planned(formulation: Formulation, counts: Integers, bound: float) -> FleetPlan:
    """A plan of a programme that has no prices: rows with at most one left may be worth more."""
    value, left = value_of(formulation, counts), formulation.shared.limits - use_of(formulation, counts)
    prices = (left * formulation.shared.units <= 1 + EXCESS).astype(np.float64)
    return FleetPlan(counts=counts, value=value, bound=min(bound, value), prices=prices)


def _keeps(formulation: Formulation, counts: Integers) -> bool:
    """Whether whole replicas keep every row, which the programme keeps only to its tolerance."""
    choices, rows, chosen = formulation.choices, formulation.rows, np.flatnonzero(counts)
    serving = np.bincount(choices.row[chosen], minlength=len(rows.requirements))
    return bool(
        (use_of(formulation, counts) <= room(formulation)).all()
        and (counts[chosen] >= choices.lowest[chosen]).all()
        and len(np.unique(choices.variant[chosen])) == len(chosen)
        and (serving <= rows.active_limit).all()
        and is_served(formulation, counts)
    )


def plan_directly(formulation: Formulation) -> Planned:
    """The best plan that one programme over all replicas finds within its limit; it knows no prices."""
    if not formulation.choices.keys:
        return _empty(formulation)
    found = solve_mixed_integer(formulation, gap=GAP, nodes=_NODES, is_thorough=True)
    counts = formulation.known_counts if found.counts is None else found.counts
    if counts is None:
        return _infeasible(formulation) if found.bound == np.inf else None
    value = value_of(formulation, counts)
    prices = np.zeros(len(formulation.shared))
    return FleetPlan(counts=counts, value=value, bound=min(found.bound, value), prices=prices)


def in_order(formulation: Formulation, plan: FleetPlan, planner: Planner) -> tuple[Formulation, FleetPlan]:
    """The cheapest plan that keeps the accelerators which the plan takes for variants in order, without their penalty.

    The penalty is so large that what all others cost would be float noise against it, in the proof as well.
    """
    choices = formulation.choices
    is_late = (plan.counts > 0) & (choices.fixed > 0)
    if not is_late.any():
        return formulation, plan
    is_ordered = np.bincount(choices.variant, choices.fixed > 0)[choices.variant] > 0
    is_idle = np.bincount(choices.variant, plan.counts)[choices.variant] == 0
    is_open = ~is_ordered | (plan.counts > 0) | (is_idle & (choices.fixed == 0))
    decided = replace(
        formulation,
        choices=replace(choices, fixed=np.zeros_like(choices.fixed), highest=np.where(is_open, choices.highest, 0)),
        known_counts=plan.counts,
    )
    again = planner(decided)
    return (decided, again) if isinstance(again, FleetPlan) else (formulation, plan)


def _empty(formulation: Formulation) -> FleetPlan:
    nothing = np.zeros(0, dtype=np.int64)
    value = value_of(formulation, nothing)
    return FleetPlan(counts=nothing, value=value, bound=value, prices=np.zeros(len(formulation.shared)))


def value_of(formulation: Formulation, counts: Integers) -> float:
    """The objective's value of a whole plan, in the formulation's unit."""
    return whole_plan(formulation, counts).value


def use_of(formulation: Formulation, counts: Integers) -> Floats:
    """What a whole plan takes of each shared row."""
    return sums(whole_plan(formulation, counts).worth.use)


def covered_by(formulation: Formulation, counts: Integers) -> Floats:
    """What a whole plan carries, by row, in shares of its demand."""
    amounts = formulation.choices.carried * counts
    rows = len(formulation.rows.requirements)
    return np.bincount(formulation.choices.row, amounts, minlength=rows).astype(np.float64)


def is_served(formulation: Formulation, counts: Integers) -> bool:
    """Whether a plan keeps the rows of each model: demand, and the proportion of roles."""
    choices, rows, ratios = formulation.choices, formulation.rows, formulation.ratios
    chosen, height = np.flatnonzero(counts), len(formulation.rows.requirements)
    row, count = choices.row[chosen], counts[chosen]
    covered = np.bincount(row, choices.carried[chosen] * count, minlength=height)
    replicas = np.bincount(row, count, minlength=height)
    is_covered = covered >= rows.must * (1 - TOLERANCE)
    is_even = replicas[ratios.greater] >= ratios.factor * replicas[ratios.smaller] - TOLERANCE
    return bool(is_covered.all() and is_even.all())


def plan_greedily(formulation: Formulation, *, is_partial: bool = False) -> Integers | None:
    """Replicas by choice under the greedy rule: the most urgent model first, each by its cheapest capacity left.

    None where that breaks a row. The rule places minimum replicas first, and ignores start costs and change limits.
    With `is_partial` unmet demand breaks nothing.
    """
    choices, rows, variants = formulation.choices, formulation.rows, formulation.variants
    greedy = _Greedy(formulation)
    # For a unit of demand; the penalty of a later accelerator in order comes before any cost.
    price = np.where(choices.highest > 0, (choices.cost + choices.fixed) / choices.carried, np.inf)
    first = np.searchsorted(choices.variant, np.arange(len(variants.keys)))
    cheapest = np.lexsort((price, choices.variant))[first]
    for choice in cheapest[variants.is_forced].tolist():
        greedy.add(choice, int(choices.lowest[choice]))
    starts = formulation.choice_starts.tolist()
    for row in np.lexsort((np.arange(len(rows.must)), -rows.priority)).tolist():
        begin, end = starts[row], starts[row + 1]
        own, carried = price[begin:end], choices.carried[begin:end]
        worthwhile = rows.amounts[row] @ (rows.prices[row] > own.min(initial=np.inf))
        wanted = float(rows.must[row] + worthwhile - carried @ np.array(greedy.counts[begin:end]))
        for index in np.argsort(own, kind="stable").tolist():
            if wanted <= TOLERANCE or not np.isfinite(own[index]):
                break
            needed = min(math.ceil(wanted / carried[index] - TOLERANCE), UNBOUNDED)
            wanted -= carried[index] * greedy.take(begin + index, needed)
    counts = np.array(greedy.counts, dtype=np.int64)
    is_within = (use_of(formulation, counts) <= room(formulation)).all()
    return (
        counts if is_within and is_served(formulation.without_must() if is_partial else formulation, counts) else None
    )


class _Greedy:
    """The replicas placed so far and what is left of each shared row; plain lists, which are fast one by one."""

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        rows, values, begins = columns(formulation.shared.use)
        cells = list(zip(rows.tolist(), values.tolist(), strict=True))
        self._use = [cells[begin:end] for begin, end in pairwise(begins.tolist())]
        self._left: list[float] = room(formulation).tolist()
        self._lowest: list[int] = formulation.choices.lowest.tolist()
        self._highest: list[int] = formulation.choices.highest.tolist()
        self.counts = [0] * len(self._lowest)

    def take(self, choice: int, wanted: int) -> int:
        """Place as many of the wanted replicas as bounds, active variants and shared rows allow."""
        if not self._may_serve(choice):
            return 0
        fitting = min((self._left[row] / use for row, use in self._use[choice] if use > 0), default=float(UNBOUNDED))
        placed = self.counts[choice]
        more = min(wanted, max(math.floor(fitting + TOLERANCE), 0), self._highest[choice] - placed)
        if more <= 0 or placed + more < self._lowest[choice]:
            return 0
        self.add(choice, more)
        return more

    def add(self, choice: int, more: int) -> None:
        """Place replicas, whatever is left."""
        for row, use in self._use[choice]:
            self._left[row] -= use * more
        self.counts[choice] += more

    def _may_serve(self, choice: int) -> bool:
        """Whether its variant serves on no other accelerator, and the model may have one more active variant."""
        if self.counts[choice]:
            return True
        choices, rows = self._formulation.choices, self._formulation.rows
        row, variant = choices.row[choice], choices.variant[choice]
        begin, end = self._formulation.choice_starts[row], self._formulation.choice_starts[row + 1]
        active = [int(choices.variant[own]) for own in range(begin, end) if self.counts[own]]
        return variant not in active and len(active) < int(rows.active_limit[row])
