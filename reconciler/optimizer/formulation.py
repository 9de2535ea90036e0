"""The fleet's problem as named arrays, built once for every solver that decides models together (rules/fleet.md).

A *choice* is a variant on one of its accelerators, a *row* is the demand of one model and role. Over integers n of
replicas by choice,

    minimise    sum over choices   fixed * [n > 0] + cost * n + start * max(n - standing, 0)
              + sum over variants  touch * [the variant changes]
              + sum over rows      price * what is not covered of its priced segments
    subject to  row:     sum of carried * n                    >=  must + the covered part of its segments
                         active variants                       <=  active_limit
                variant: at most one choice is active; lowest <= n <= highest there, none only where lowest is 0
                ratio:   replicas of a role                    >=  factor * replicas of the other
                shared:  sum of use * n + use_touching * [changes]  <=  limit

Shared rows are pools, budgets and change limits: all that joins models.

Demand is in shares of each row's own, money in `unit` (about what it costs to serve one row), a budget in shares of
itself. Solvers have absolute tolerances, so a plan must not depend on whether requests or tokens are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Candidate, Problem, Requirement
from reconciler.optimizer.device_use import DeviceUse, carried_by_pinned
from reconciler.optimizer.highs import Arrays, Flags, Floats, Integers, by_rows, spread
from reconciler.optimizer.separable import LEAST_DEMAND

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

UNBOUNDED = 1_000_000
"""The highest count of a variant without a maximum: more replicas than any fleet has."""

GAP = 1e-3
"""A plan proven to be this close to the optimum, as a fraction, is good enough."""

MANY_REPLICAS = 30
"""Replicas that the median model needs in a fleet with many replicas: with 30 a replica is 3 % of a model."""

TOLERANCE = 1e-9
"""Float noise: 3.0000000001 replicas are 3."""

_ORDER_WEIGHT = 10_000.0
"""What a later accelerator costs more, in replicas of the dearest candidate: order comes before any price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(Arrays):
    """By choice; choices of one variant are neighbours, and so are variants of one row."""

    keys: tuple[CandidateKey, ...]
    variant: Integers
    row: Integers
    fixed: Floats
    cost: Floats
    start: Floats
    carried: Floats
    lowest: Integers
    highest: Integers
    standing: Integers
    """Replicas of this choice in Git; 0 where the variant runs on another accelerator."""
    is_standing: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants(Arrays):
    """By variant."""

    keys: tuple[ResourceKey, ...]
    row: Integers
    touch: Floats
    is_forced: Flags
    """Whether some replica must run."""
    was_active: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Arrays):
    """By demand row; segments are padded with zero amounts and stand by falling price."""

    requirements: tuple[Requirement, ...]
    must: Floats
    amounts: Floats
    prices: Floats
    active_limit: Integers
    priority: Integers
    scale: Floats
    """What 1 of `must`, `amounts` and what choices carry stands for, in the requirement's unit."""

    @property
    def demand(self) -> Floats:
        """All that is wanted."""
        total: Floats = self.must + self.amounts.sum(axis=1)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Arrays):
    """The rows that join models: `limits[k]`, and what a replica or a touched variant uses."""

    names: tuple[str, ...]
    limits: Floats
    units: Floats
    """What 1 of each row stands for: a device, a change, or of a budget its whole amount."""
    use: "Matrix"
    use_touching: "Matrix"

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRows(Arrays):
    """Rows of roles: replicas of row `greater` >= factor * replicas of row `smaller`."""

    greater: Integers
    smaller: Integers
    factor: Floats


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """A problem as arrays."""

    problem: Problem
    choices: Choices
    variants: Variants
    rows: Rows
    shared: Shared
    ratios: RatioRows
    unit: float = 1.0
    """What 1 of the objective stands for, in the problem's weight."""
    known_counts: Integers | None = None
    """Replicas by choice of a known plan that keeps all rows: the search starts from it."""
    sharing: float | None = None
    """Set where the question is who gets how much, not what it costs: a difference too small to matter."""

    def is_close(self, value: float, bound: float) -> bool:
        """Whether a plan of this value is good enough, given the bound.

        A bound near zero means that everybody can have everything, and then the plan must give it to them.
        """
        spare = 0.0 if self.sharing is None else min(self.sharing, bound)
        return value - bound <= max(GAP * abs(value), spare)

    @cached_property
    def has_many_replicas(self) -> bool:
        """Whether the median model has so many replicas that fractions of replicas are nearly exact."""
        choices, rows = self.choices, self.rows
        most = np.zeros(len(rows.requirements))
        np.maximum.at(most, choices.row, choices.carried)
        is_asking = (most > 0) & (rows.demand > 0)
        return bool(is_asking.any() and np.median(rows.demand[is_asking] / most[is_asking]) >= MANY_REPLICAS)

    @cached_property
    def choice_starts(self) -> Integers:
        """The first choice of each row, and the end."""
        return np.searchsorted(self.choices.row, np.arange(len(self.rows.requirements) + 1)).astype(np.int64)

    @cached_property
    def block_of_row(self) -> Integers:
        """The block of each row: rows joined by ratios share one."""
        block = np.arange(len(self.rows.requirements))
        for greater, smaller in zip(self.ratios.greater, self.ratios.smaller, strict=True):
            block[block == block[greater]] = block[smaller]
        return np.unique(block, return_inverse=True)[1].astype(np.int64)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return int(self.block_of_row.max()) + 1 if len(self.block_of_row) else 0

    @cached_property
    def rows_of_block(self) -> Integers:
        """By block its rows, padded with -1."""
        sizes = np.bincount(self.block_of_row, minlength=self.blocks)
        members = np.full((self.blocks, int(sizes.max(initial=0))), -1, dtype=np.int64)
        members[spread(sizes)] = np.argsort(self.block_of_row, kind="stable")
        return members

    def with_demand(self, must: Floats, amounts: Floats, prices: Floats) -> "Formulation":
        """The same fleet with another demand."""
        return replace(self, rows=replace(self.rows, must=must, amounts=amounts, prices=prices))

    def without_must(self) -> "Formulation":
        """The same fleet with only its priced demand."""
        return self.with_demand(np.zeros_like(self.rows.must), self.rows.amounts, self.rows.prices)

    def priced(self, prices: Floats) -> "Formulation":
        """The problem without its shared rows, with their prices in the choices: each model is a problem of its own."""
        shared, choices, variants = self.shared, self.choices, self.variants
        return replace(
            self,
            choices=replace(choices, cost=choices.cost + prices @ shared.use),
            variants=replace(variants, touch=variants.touch + prices @ shared.use_touching),
            shared=shared.at(np.zeros(0, dtype=np.int64)),
        )


Uses = list[tuple[int, float]]
"""Pairs of an index and how much it uses, by rising index."""


@dataclass(slots=True)
class SharedRow:
    """One shared row: its uses, by choice and by variant."""

    name: str
    limit: float
    unit: float = 1.0
    use: Uses = field(default_factory=list)
    use_touching: Uses = field(default_factory=list)


def shared_of(rows: Sequence[SharedRow], choices: int, variants: int) -> Shared:
    """The rows as sparse matrices."""

    def matrix(uses: list[Uses], width: int) -> "Matrix":
        begins = np.cumsum([0, *(len(use) for use in uses)])
        columns = np.array([index for use in uses for index, _ in use], dtype=np.int64)
        values = np.array([value for use in uses for _, value in use], dtype=np.float64)
        return by_rows(values, columns, begins, (len(uses), width))

    return Shared(
        names=tuple(row.name for row in rows),
        limits=np.array([row.limit for row in rows], dtype=np.float64),
        units=np.array([row.unit for row in rows], dtype=np.float64),
        use=matrix([row.use for row in rows], choices),
        use_touching=matrix([row.use_touching for row in rows], variants),
    )


def formulate(problem: Problem) -> Formulation:
    """The arrays of a problem; pinned variants serve their models and use what they use, but are not among them."""
    device_use = DeviceUse.of(problem)
    requirements = tuple(sorted(problem.requirements, key=model_place))
    offers = [
        offer
        for row, requirement in enumerate(requirements)
        for offer in _offers_of(problem, row, requirement, device_use)
    ]
    touch = problem.touch_weights
    variants = Variants(
        keys=tuple(offer.variant for offer in offers),
        row=np.array([offer.row for offer in offers], dtype=np.int64),
        touch=np.array([touch.get(offer.variant, 0.0) if touch else 0.0 for offer in offers], dtype=np.float64),
        is_forced=np.array([offer.lowest > 0 for offer in offers], dtype=np.bool_),
        was_active=np.array([offer.current.replicas > 0 for offer in offers], dtype=np.bool_),
    )
    choices, ratios = _choices(problem, offers), _ratios(problem, requirements)
    # A role of which any replica would need more of another than any fleet has gets none.
    barred = ratios.smaller[ratios.factor >= UNBOUNDED]
    choices = replace(choices, highest=np.where(np.isin(choices.row, barred), 0, choices.highest))
    rows, choices = _rows(problem, requirements, choices, variants)
    shared = [
        *_pool_rows(problem, offers, device_use),
        *_budget_rows(problem, offers),
        *(
            SharedRow(
                limit.name,
                float(limit.changes),
                use_touching=[(index, 1.0) for index, key in enumerate(variants.keys) if key in limit.variants],
            )
            for limit in sorted(problem.change_limits, key=lambda each: each.name)
        ),
    ]
    formulation = Formulation(
        problem=problem,
        choices=choices,
        variants=variants,
        rows=rows,
        shared=shared_of(shared, len(choices.keys), len(variants.keys)),
        ratios=ratios,
    )
    return _in_units(formulation)


def _in_units(formulation: Formulation) -> Formulation:
    """With money in units of about what it costs to serve a row; unchanged where that is nothing or not finite."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    with np.errstate(over="ignore", invalid="ignore"):
        served = np.maximum(np.ceil(rows.demand[choices.row] / choices.carried), 1.0) * choices.cost
        usual = served[np.isfinite(served) & (served > 0)]
        unit = float(np.median(usual)) if len(usual) else 1.0
        factor = 1 / unit
        if not 0 < factor < np.inf:
            return formulation
        return replace(
            formulation,
            choices=replace(
                choices, fixed=choices.fixed * factor, cost=choices.cost * factor, start=choices.start * factor
            ),
            variants=replace(variants, touch=variants.touch * factor),
            rows=replace(rows, prices=rows.prices * factor),
            unit=unit,
        )


class _Offer(NamedTuple):
    """A free variant of a row with its candidates and what a replica of each carries; looked up by its key once."""

    variant: ResourceKey
    row: int
    candidates: list[tuple[Candidate, float]]
    lowest: int
    highest: int
    current: Allocation


def _offers_of(problem: Problem, row: int, requirement: Requirement, device_use: DeviceUse) -> Iterator[_Offer]:
    pinned, fixed = problem.pinned, requirement.fixed
    if fixed is not None:
        for variant in sorted(fixed.keys() - pinned.keys()):
            lowest = min(problem.bounds[variant].minimum, fixed[variant])
            candidates = [(device_use.standing(variant), 1.0)]
            yield _Offer(variant, row, candidates, lowest, fixed[variant], problem.current[variant])
        return
    offered = [
        (candidate, carried)
        for key, carried in requirement.per_replica.items()
        if carried > 0 and key.variant not in pinned and (candidate := device_use.offered(key)) is not None
    ]
    offered.sort(key=_place)
    for variant, group in groupby(offered, key=lambda pair: pair[0].key.variant):
        bounds = problem.bounds[variant]
        most = UNBOUNDED if bounds.maximum is None else bounds.maximum
        yield _Offer(variant, row, list(group), bounds.minimum, most, problem.current[variant])


def model_place(requirement: Requirement) -> tuple[str, str, str, str]:
    """The order of model keys, as a tuple because comparing keys is slower."""
    model = requirement.model
    return model.cluster, model.namespace, model.model_id, model.role


def _place(offered: tuple[Candidate, float]) -> tuple[str, str, str, str, str, int, str]:
    """The order of variant keys, then the resource's own order of accelerators."""
    candidate, _ = offered
    key = candidate.key.variant
    return key.cluster, key.namespace, key.kind, key.name, key.part, candidate.order, candidate.key.accelerator


def _choices(problem: Problem, offers: Sequence[_Offer]) -> Choices:
    offered = [
        (index, offer, each, carried) for index, offer in enumerate(offers) for each, carried in offer.candidates
    ]
    is_standing = [each.key.accelerator == offer.current.accelerator for _, offer, each, _ in offered]
    standing = [
        offer.current.replicas if stands else 0 for stands, (_, offer, _, _) in zip(is_standing, offered, strict=True)
    ]
    penalties: list[float] = []
    for offer in offers:
        is_ordered = len(offer.candidates) > 1 and offer.variant in problem.in_order
        unit = _ORDER_WEIGHT * max(each.weight for each, _ in offer.candidates) if is_ordered else 0.0
        penalties.extend(rank * unit for rank in range(len(offer.candidates)))
    return Choices(
        keys=tuple(each.key for _, _, each, _ in offered),
        variant=np.array([index for index, _, _, _ in offered], dtype=np.int64),
        row=np.array([offer.row for _, offer, _, _ in offered], dtype=np.int64),
        fixed=np.array(penalties, dtype=np.float64),
        cost=np.array([each.weight for _, _, each, _ in offered], dtype=np.float64),
        start=np.array([each.start_weight for _, _, each, _ in offered], dtype=np.float64),
        carried=np.array([carried for _, _, _, carried in offered], dtype=np.float64),
        lowest=np.array([offer.lowest for _, offer, _, _ in offered], dtype=np.int64),
        highest=np.array([offer.highest for _, offer, _, _ in offered], dtype=np.int64),
        standing=np.array(standing, dtype=np.int64),
        is_standing=np.array(is_standing, dtype=np.bool_),
    )


def _rows(
    problem: Problem, requirements: tuple[Requirement, ...], choices: Choices, variants: Variants
) -> tuple[Rows, Choices]:
    """The rows, and the choices with what they carry in shares of their row's demand."""
    width = max((len(each.segments) for each in requirements), default=0)
    count = len(requirements)
    must = np.zeros(count)
    amounts, prices = np.zeros((count, width)), np.zeros((count, width))
    for row, requirement in enumerate(requirements):
        rest = carried_by_pinned(problem, requirement)
        # A unit is worth its price as often as it is wanted, and more than any price where it must be covered.
        wanted = [
            (np.inf if each.price is None else each.price * each.probability, each) for each in requirement.segments
        ]
        if requirement.fixed is not None:
            free = sum(n for key, n in requirement.fixed.items() if key not in problem.pinned)
            must[row], wanted, rest = float(free), [], 0.0
        for column, (price, segment) in enumerate(sorted(wanted, key=lambda pair: -pair[0])):
            left, rest = max(segment.amount - rest, 0.0), max(rest - segment.amount, 0.0)
            if segment.price is None:
                must[row] += left
            else:
                amounts[row, column], prices[row, column] = left, price
    active_limit = _active_limits(problem, requirements, variants)
    demand, largest = must + amounts.sum(axis=1), np.zeros(count)
    np.maximum.at(largest, choices.row, choices.carried)
    scale = np.where(demand >= LEAST_DEMAND, demand, largest)
    scale = np.where(scale > 0, scale, 1.0)
    choices = replace(choices, carried=_rounded(choices.carried / scale[choices.row]))
    rows = Rows(
        requirements=requirements,
        must=np.minimum(must / scale, widest(choices, variants, active_limit)),
        amounts=amounts / scale[:, None],
        prices=prices * scale[:, None],
        active_limit=active_limit,
        priority=np.array([each.priority for each in requirements], dtype=np.int64),
        scale=scale,
    )
    return rows, choices


def _rounded(shares: Floats) -> Floats:
    """Without the last digits, which depend on the unit of demand: they must not break ties."""
    digits = 10.0 ** (12 - np.ceil(np.log10(np.where(shares > 0, shares, 1.0))))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(shares * digits) / digits
    return np.where(np.isfinite(rounded) & (rounded > 0), rounded, shares)


def members(requirement: Requirement) -> list[ResourceKey]:
    """The variants that serve a requirement, including those without a candidate."""
    if requirement.fixed is not None:
        return sorted(requirement.fixed)
    return sorted({key.variant for key in requirement.per_replica})


def widest(choices: Choices, variants: Variants, active_limit: Integers) -> Floats:
    """The most that bounds and the limit of active variants admit, by row: demand beyond it cannot be met.

    Forced variants are active whatever they carry. Only choices without a penalty count: the first of a variant in
    order.
    """
    rows = len(active_limit)
    if not len(choices.carried):
        return np.zeros(rows)
    starts = np.searchsorted(choices.variant, np.arange(int(choices.variant[-1]) + 1))
    by_variant = np.maximum.reduceat(choices.carried * choices.highest * (choices.fixed == 0), starts)
    row = choices.row[starts]
    order = np.lexsort((-by_variant, ~variants.is_forced, row))
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    is_counted = rank < active_limit[row[order]]
    return np.bincount(row[order], by_variant[order] * is_counted, minlength=rows).astype(np.float64)


def _active_limits(problem: Problem, requirements: Sequence[Requirement], variants: Variants) -> Integers:
    """At least as many as must serve, or serve now: nothing is drained only to satisfy a limit."""
    limits = []
    for each in requirements:
        pinned = [key for key in members(each) if key in problem.pinned] if problem.pinned else []
        serving = sum(problem.pinned[key].replicas > 0 for key in pinned)
        limit = UNBOUNDED if each.active_limit is None else each.active_limit - serving
        limits.append(limit if each.fixed is None else max(limit, UNBOUNDED))
    forced, active = np.zeros(len(limits), dtype=np.int64), np.zeros(len(limits), dtype=np.int64)
    np.add.at(forced, variants.row, variants.is_forced)
    np.add.at(active, variants.row, variants.was_active | variants.is_forced)
    return np.maximum(np.maximum(np.array(limits, dtype=np.int64), 0), np.maximum(forced, active))


def _pool_rows(problem: Problem, offers: Sequence[_Offer], device_use: DeviceUse) -> Iterator[SharedRow]:
    uses: dict[str, Uses] = {pool.name: [] for pool in problem.pools}
    for index, (candidate, _) in enumerate(each for offer in offers for each in offer.candidates):
        for name, count in candidate.devices.items():
            if name in uses and count:
                uses[name].append((index, count))
    pinned = device_use.now(problem.pinned)
    for pool in sorted(problem.pools, key=lambda each: each.name):
        yield SharedRow(pool.name, max(float(pool.devices - pinned[pool.name]), 0.0), use=uses[pool.name])


def _budget_rows(problem: Problem, offers: Sequence[_Offer]) -> list[SharedRow]:
    found: list[SharedRow] = []
    uses: dict[ResourceKey, list[SharedRow]] = {}
    for budget in sorted(problem.budgets, key=lambda each: each.name):
        held = sum(
            problem.current_weights.get(key, 0.0) * problem.pinned[key].replicas
            for key in sorted(budget.variants & problem.pinned.keys())
        )
        left = max(budget.amount - held, 0.0)
        unit = left if left > 0 else 1.0
        row = SharedRow(budget.name, left / unit, unit=unit)
        for key in budget.variants:
            uses.setdefault(key, []).append(row)
        found.append(row)
    if uses:
        for index, (key, candidate) in enumerate(
            (offer.variant, each) for offer in offers for each, _ in offer.candidates
        ):
            for row in uses.get(key, ()):
                row.use.append((index, candidate.weight / row.unit))
    return found


def _ratios(problem: Problem, requirements: Sequence[Requirement]) -> RatioRows:
    """The ratios whose roles are decided whole: a pinned variant of either side leaves the ratio out."""
    index = {each.model: row for row, each in enumerate(requirements)}
    found: list[tuple[int, int, float]] = []
    for ratio in problem.ratios:
        over, under = (index.get(side) for side in ratio.sides)
        if over is None or under is None:
            continue
        if any(key in problem.pinned for row in (over, under) for key in members(requirements[row])):
            continue
        found.append((over, under, ratio.least))
        if ratio.most is not None:
            found.append((under, over, 1 / ratio.most if ratio.most > 0 else float(UNBOUNDED)))
    return RatioRows(
        greater=np.array([each[0] for each in found], dtype=np.int64),
        smaller=np.array([each[1] for each in found], dtype=np.int64),
        factor=np.array([each[2] for each in found], dtype=np.float64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPart:
    """Some rows of a formulation with all shared rows to themselves, and which of its choices they have."""

    formulation: Formulation
    choices: Integers


def part_of(formulation: Formulation, rows: Flags) -> ProblemPart:
    """The rows of a mask, as if the others did not exist; whole blocks, because a ratio needs both its sides."""
    all_choices, all_variants, ratios, shared = (
        formulation.choices,
        formulation.variants,
        formulation.ratios,
        formulation.shared,
    )
    is_choice, is_variant = rows[all_choices.row], rows[all_variants.row]
    row_index, variant_index = np.cumsum(rows) - 1, np.cumsum(is_variant) - 1
    choices, variants = all_choices.at(is_choice), all_variants.at(is_variant)
    kept = ratios.at(rows[ratios.greater] if len(ratios.factor) else np.zeros(0, dtype=np.bool_))
    part = replace(
        formulation,
        known_counts=None,
        choices=replace(choices, row=row_index[choices.row], variant=variant_index[choices.variant]),
        variants=replace(variants, row=row_index[variants.row]),
        rows=formulation.rows.at(rows),
        shared=replace(shared, use=shared.use[:, is_choice], use_touching=shared.use_touching[:, is_variant]),
        ratios=replace(kept, greater=row_index[kept.greater], smaller=row_index[kept.smaller]),
    )
    return ProblemPart(formulation=part, choices=np.flatnonzero(is_choice))
