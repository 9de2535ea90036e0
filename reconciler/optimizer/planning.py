"""The best plan of a formulation, by columns or by one programme, and the greedy plan to compare with."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.columns import EXCESS, generate, room
from reconciler.optimizer.configurations import Worth, configurations_from, worth
from reconciler.optimizer.enumeration import Pairs
from reconciler.optimizer.formulation import GAP, TOLERANCE, UNBOUNDED, Formulation
from reconciler.optimizer.highs import Flags, Floats, Integers, columns, sums
from reconciler.optimizer.mixed_integer import solve_divisible, solve_mixed_integer
from reconciler.optimizer.rounding import round_shares

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

# --- was reconciler/optimizer/fleet/planning.py:
# The best plan of a formulation: by prices and whole configurations, or by one direct programme.

_NODES = 2_000

SMALL = 60
"""Choices of a fleet that one programme over all replicas decides exactly, sooner than prices do."""

SEARCHED = 250
"""Choices of a fleet that such a programme is asked about first, where prices need the general search."""

DIVIDED = 2_000
"""Choices of a fleet with many replicas that fractions of these decide nearly all of, sooner than prices do."""

ROUGH, ROUGH_SHARED = 5e-3, 0.05
"""What is enough of such a fleet, as a fraction of a plan's value, and where it is asked who gets how much."""

GROUPS = 8
"""Parts of such a fleet whose models are planned anew one after the other, until enough is proven."""

IDLE, _GAIN = 2, 1e-3
"""Where a plan was known before: after so many in a row that gain less than this fraction none is planned anew."""

_FEW_NODES, _FEWER_NODES = 500, 1
_EXACT = 1e-6


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
    if isinstance(small, Infeasible) or (small is not None and _is_final(formulation, small)):
        return small
    if small is not None:
        formulation = replace(formulation, known_counts=small.counts)
    generated = generate(formulation)
    if len(generated.infeasible) or generated.excess.max(initial=0.0) > EXCESS:
        return Infeasible(excess=generated.excess, blocks=generated.infeasible)
    rounded = round_shares(formulation, generated)
    if rounded is None:
        return None
    counts = np.rint(sums(rounded.known.configurations.counts)).astype(np.int64)
    bound = rounded.bound if small is None else min(max(rounded.bound, small.bound), rounded.known.value)
    return FleetPlan(counts=counts, value=rounded.known.value, bound=bound, prices=generated.prices)


def _plan_small(formulation: Formulation) -> Planned:
    """What one programme says of a small fleet; None of others, and where it proves too little."""
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
    """Of a fleet with many replicas the best plan of what fractions of them would use; None of others, or without one.

    Nearly all is proven by the fractions: of hundreds of replicas few are lost by rounding.
    """
    if len(formulation.choices.keys) > DIVIDED or not formulation.has_many_replicas:
        return None
    divided = solve_divisible(formulation, gap=_gap(formulation), nodes=_FEW_NODES)
    if divided.used is None:
        return _infeasible(formulation) if divided.bound == np.inf else None
    return _found_around(formulation, divided.used, divided.bound)


def _found_around(formulation: Formulation, used: Flags, bound: float) -> Planned:
    """The best plan of the choices that are used or run in the plan that is known, then with all of some models too."""
    choices, known = formulation.choices, formulation.known_counts
    is_known = known is not None and _keeps(formulation, known)
    best = _planned(formulation, known, bound) if known is not None and is_known else None
    own, idle = formulation.block_of_row[choices.row] % GROUPS, 0
    for group in range(-1, GROUPS):
        if (known is not None and idle == IDLE) or (best is not None and _is_enough(formulation, best)):
            break
        is_open = (own == group) | used | (False if best is None else best.counts > 0)
        narrowed = replace(formulation, choices=replace(choices, highest=np.where(is_open, choices.highest, 0)))
        start = None if best is None else best.counts
        nodes = _FEW_NODES if group < 0 else _FEWER_NODES
        found = solve_mixed_integer(narrowed, gap=_gap(formulation), nodes=nodes, start=start)
        idle += 1
        if found.counts is not None and _keeps(formulation, found.counts):
            plan = _planned(formulation, found.counts, bound)
            idle = 0 if best is None or best.value - plan.value > _GAIN * abs(best.value) else idle
            best = plan if best is None or plan.value < best.value else best
    return best


def _is_enough(formulation: Formulation, plan: FleetPlan) -> bool:
    """Whether a plan of many replicas needs no better one: who gets how much need not be as exact as what it costs.

    What is known from that question prefers what costs less already, so its cost is not searched for as long.
    """
    enough = ROUGH_SHARED if formulation.sharing is not None else ROUGH if formulation.known_counts is not None else 0.0
    return plan.value - plan.bound <= enough * abs(plan.value) or formulation.is_close(plan.value, plan.bound)


def _is_final(formulation: Formulation, plan: FleetPlan) -> bool:
    """Whether no longer search is worth it: of a fleet with many replicas it hardly brings more than fractions say.

    What is found of any other fleet is close anyway.
    """
    return formulation.sharing is not None or plan.value - plan.bound <= ROUGH * abs(plan.value)


def _gap(formulation: Formulation) -> float:
    """How exact the programmes of a fleet with many replicas are asked."""
    return GAP / 4 if formulation.sharing is None else ROUGH_SHARED / 5


def _infeasible(formulation: Formulation) -> Infeasible:
    """No plan, and nothing is known of why."""
    return Infeasible(excess=np.zeros(len(formulation.shared)), blocks=np.zeros(0, dtype=np.int64))


def _planned(formulation: Formulation, counts: Integers, bound: float) -> FleetPlan:
    """A plan of a programme that knows no prices: whatever has at most one left may be worth more."""
    value, left = value_of(formulation, counts), formulation.shared.limits - use_of(formulation, counts)
    prices = (left * formulation.shared.units <= 1 + EXCESS).astype(np.float64)
    return FleetPlan(counts=counts, value=value, bound=min(bound, value), prices=prices)


def _keeps(formulation: Formulation, counts: Integers) -> bool:
    """Whether whole replicas keep what the programme keeps to its tolerance only."""
    choices, rows, chosen = formulation.choices, formulation.rows, np.flatnonzero(counts)
    once = np.unique(choices.variant[chosen])
    serving = np.bincount(choices.row[chosen], minlength=len(rows.requirements))
    is_within = (use_of(formulation, counts) <= room(formulation)).all() and (
        counts[chosen] >= choices.lowest[chosen]
    ).all()
    is_single = len(once) == len(chosen) and bool((serving <= rows.active_limit).all())
    return bool(is_within) and is_single and is_served(formulation, counts)


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

    The penalty is so large that what all others cost would be float noise beside it, in the proof as well.
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
    return float(_worth(formulation, counts).value.sum())


def use_of(formulation: Formulation, counts: Integers) -> Floats:
    """What a whole plan takes of each shared row."""
    return sums(_worth(formulation, counts).use)


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


def _worth(formulation: Formulation, counts: Integers) -> Worth:
    choices, blocks = np.arange(len(counts)), np.arange(formulation.blocks)
    return worth(formulation, configurations_from(formulation, choices, counts, blocks))


# --- was reconciler/optimizer/fleet/greedy.py:
# The usual rule, to compare with: the most urgent model first, each by its cheapest capacity that is left.


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
