"""The fleet's problem as named arrays, built once for every solver that decides models together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement, Segment
from reconciler.optimizer.device_use import DeviceUse, carried_by_pinned
from reconciler.optimizer.highs import Flags, Floats, Integers, by_rows
from reconciler.optimizer.separable import LEAST_DEMAND

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

# --- was reconciler/optimizer/fleet/formulation.py:
# The fleet's problem as named arrays: what `Problem` says, once, for every solver that looks at all models together.
# A *choice* is a variant on one of its accelerators, a *row* is the demand of one model and role. Over integers n of
# replicas by choice, minimise sum over choices fixed * [n > 0] + cost * n + start * max(n - standing, 0) + sum over
# variants touch * [the variant changes] + sum over rows price * what is not covered of its priced segments subject to
# row: sum of carried * n >= must + the covered part of its segments variants that serve <= active_limit variant: at
# most one choice is active; lowest <= n <= highest there, none only where lowest is 0 ratio: replicas of a role >=
# factor * replicas of the other shared: sum of use * n + use_touching * [changes] <= limit Shared rows are pools,
# budgets and limits on changes: all that joins models. Demand is in shares of each row's own, and money in `unit`,
# about what it costs to serve one row, a budget in shares of itself: solvers tolerate so much and no less, so a plan
# must not depend on whether requests or tokens are counted.

UNBOUNDED = 1_000_000
"""More replicas than any fleet has: the highest of a variant without a maximum."""

GAP = 1e-3
"""A plan proven to be this close to the optimum, as a fraction, is good enough."""

MANY_REPLICAS = 30
"""Of the usual model, where it runs what carries most."""

TOLERANCE = 1e-9
"""A need of 3.0000000001 replicas is 3: the difference is float noise, not a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """By choice; rows of one variant stand together, and variants of one demand row."""

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
    """Replicas that Git says on this choice; 0 where the variant runs on another accelerator."""
    is_standing: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """By variant."""

    keys: tuple[ResourceKey, ...]
    row: Integers
    touch: Floats
    is_forced: Flags
    """Whether some replica must run."""
    was_active: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
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
class Shared:
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
class RatioRows:
    """Rows of roles: replicas of row `greater` >= factor * replicas of row `smaller`."""

    greater: Integers
    smaller: Integers
    factor: Floats


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """A problem as arrays, see the module's text."""

    problem: Problem
    choices: Choices
    variants: Variants
    rows: Rows
    shared: Shared
    ratios: RatioRows
    unit: float = 1.0
    """What 1 of the objective stands for, in the problem's weight."""
    known_counts: Integers | None = None
    """Replicas by choice of a plan that keeps all rows, where one is known: the search has at least that."""
    sharing: float | None = None
    """Where who gets how much is asked, not what it costs: what is so small that it may be shared otherwise."""

    def is_close(self, value: float, bound: float) -> bool:
        """Whether a plan of this value is good enough where no plan is better than the bound.

        What is shared must be proven to be short by as much as may be shared otherwise: whoever can have all gets it.
        """
        spare = 0.0 if self.sharing is None else min(self.sharing, bound)
        return value - bound <= max(GAP * abs(value), spare)

    @cached_property
    def has_many_replicas(self) -> bool:
        """Whether the usual model has so many replicas that fractions of them say nearly all."""
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
        """Rows that ratios join are one block; every other row is one alone."""
        block = np.arange(len(self.rows.requirements))
        for greater, smaller in zip(self.ratios.greater, self.ratios.smaller, strict=True):
            block[block == block[greater]] = block[smaller]
        return np.unique(block, return_inverse=True)[1].astype(np.int64)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self.block_of_row.max()) + 1 if len(self.block_of_row) else 0

    @cached_property
    def rows_of_block(self) -> Integers:
        """By block its rows, padded with -1."""
        sizes = np.bincount(self.block_of_row, minlength=self.blocks)
        members = np.full((self.blocks, int(sizes.max(initial=0))), -1, dtype=np.int64)
        order = np.argsort(self.block_of_row, kind="stable")
        place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members[self.block_of_row[order], place] = order
        return members

    def with_demand(self, must: Floats, amounts: Floats, prices: Floats) -> "Formulation":
        """The same fleet with another demand."""
        return replace(self, rows=replace(self.rows, must=must, amounts=amounts, prices=prices))

    def without_must(self) -> "Formulation":
        """The same fleet of which nothing must be covered; what has a price keeps it."""
        return self.with_demand(np.zeros_like(self.rows.must), self.rows.amounts, self.rows.prices)

    def priced(self, prices: Floats) -> "Formulation":
        """The problem without its shared rows, whose price is in the choices instead: it falls into models."""
        shared, choices, variants = self.shared, self.choices, self.variants
        return replace(
            self,
            choices=replace(choices, cost=choices.cost + prices @ shared.use),
            variants=replace(variants, touch=variants.touch + prices @ shared.use_touching),
            shared=shared_of((), len(choices.keys), len(variants.keys)),
        )


Uses = list[tuple[int, float]]
"""How much each index uses, by rising index."""


@dataclass(slots=True)
class SharedRow:
    """One shared row while it is gathered: its uses, in the order of choices and of variants."""

    name: str
    limit: float
    unit: float = 1.0
    use: Uses = field(default_factory=list)
    use_touching: Uses = field(default_factory=list)


def shared_of(rows: Iterable[SharedRow], choices: int, variants: int) -> Shared:
    """The rows as sparse matrices."""
    rows = tuple(rows)

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


# --- was reconciler/optimizer/fleet/formulating.py:
# From a problem to its arrays: who may choose what, what each row asks, and what everybody shares.


def formulate(problem: Problem) -> Formulation:
    """The arrays of a problem; pinned variants serve their models and use what they use, but are not among them."""
    device_use = DeviceUse.of(problem)
    offers = _Offers.of(problem, device_use)
    choices, variants = _choices(problem, offers), _variants(problem, offers)
    ratios = _ratios(problem, offers)
    rows, choices = _rows(problem, offers, _without_forbidden(choices, ratios), variants)
    formulation = Formulation(
        problem=problem,
        choices=choices,
        variants=variants,
        rows=rows,
        shared=_shared(problem, offers, variants, device_use),
        ratios=ratios,
    )
    return _in_units(formulation)


def _without_forbidden(choices: Choices, ratios: RatioRows) -> Choices:
    """A role of which any replica would ask for more of another than any fleet has may have none."""
    barred = ratios.smaller[ratios.factor >= UNBOUNDED]
    if not len(barred):
        return choices
    return replace(choices, highest=np.where(np.isin(choices.row, barred), 0, choices.highest))


def _in_units(formulation: Formulation) -> Formulation:
    """With money in what it costs to serve a row, about; as it is where that is nothing or beyond all measure."""
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
    """A free variant of a row with what it may choose, and everything about it that is looked up by its key, once."""

    variant: ResourceKey
    row: int
    candidates: tuple[Candidate, ...]
    carried: tuple[float, ...]
    lowest: int
    highest: int
    current: Allocation


@dataclass(frozen=True, slots=True)
class _Offers:
    """Who may choose what; of each choice the variant's index, its offer, the candidate, and what a replica carries."""

    requirements: tuple[Requirement, ...]
    variants: tuple[_Offer, ...]
    choices: tuple[tuple[int, _Offer, Candidate, float], ...]

    @classmethod
    def of(cls, problem: Problem, device_use: DeviceUse) -> "_Offers":
        requirements = tuple(sorted(problem.requirements, key=model_place))
        found = [
            offer
            for row, requirement in enumerate(requirements)
            for offer in _offers_of(problem, row, requirement, device_use)
        ]
        choices = tuple(
            (index, offer, candidate, carried)
            for index, offer in enumerate(found)
            for candidate, carried in zip(offer.candidates, offer.carried, strict=True)
        )
        return cls(requirements, tuple(found), choices)


def _offers_of(problem: Problem, row: int, requirement: Requirement, device_use: DeviceUse) -> Iterator[_Offer]:
    pinned = problem.pinned
    if requirement.fixed is not None:
        for variant in sorted(requirement.fixed):
            if variant not in pinned:
                yield _offer_of(problem, row, requirement, [(device_use.standing(variant), 1.0)])
        return
    offered = [
        (candidate, carried)
        for key, carried in requirement.per_replica.items()
        if carried > 0 and key.variant not in pinned and (candidate := device_use.offered(key)) is not None
    ]
    offered.sort(key=_place)
    for _, group in groupby(offered, key=lambda pair: pair[0].key.variant):
        yield _offer_of(problem, row, requirement, list(group))


def model_place(requirement: Requirement) -> tuple[str, str, str, str]:
    """By model as their keys compare, only that comparing keys is slower."""
    model = requirement.model
    return model.cluster, model.namespace, model.model_id, model.role


def _place(offered: tuple[Candidate, float]) -> tuple[str, str, str, str, str, int, str]:
    """Variants as their keys compare, only that comparing keys is slower; then by the resource's order."""
    candidate, _ = offered
    key = candidate.key.variant
    return key.cluster, key.namespace, key.kind, key.name, key.part, candidate.order, candidate.key.accelerator


def _offer_of(problem: Problem, row: int, requirement: Requirement, offered: list[tuple[Candidate, float]]) -> _Offer:
    variant = offered[0][0].key.variant
    bounds, current, fixed = problem.bounds[variant], problem.current[variant], requirement.fixed
    most = UNBOUNDED if bounds.maximum is None else bounds.maximum
    return _Offer(
        variant=variant,
        row=row,
        candidates=tuple(candidate for candidate, _ in offered),
        carried=tuple(carried for _, carried in offered),
        lowest=bounds.minimum if fixed is None else min(bounds.minimum, fixed[variant]),
        highest=most if fixed is None else fixed[variant],
        current=current,
    )


def _choices(problem: Problem, offers: _Offers) -> Choices:
    offered = offers.choices
    is_standing = [each.key.accelerator == offer.current.accelerator for _, offer, each, _ in offered]
    standing = [
        offer.current.replicas if stands else 0 for stands, (_, offer, _, _) in zip(is_standing, offered, strict=True)
    ]
    return Choices(
        keys=tuple(each.key for _, _, each, _ in offered),
        variant=np.array([index for index, _, _, _ in offered], dtype=np.int64),
        row=np.array([offer.row for _, offer, _, _ in offered], dtype=np.int64),
        fixed=_order_penalties(problem, offers),
        cost=np.array([each.weight for _, _, each, _ in offered], dtype=np.float64),
        start=np.array([each.start_weight for _, _, each, _ in offered], dtype=np.float64),
        carried=np.array([carried for _, _, _, carried in offered], dtype=np.float64),
        lowest=np.array([offer.lowest for _, offer, _, _ in offered], dtype=np.int64),
        highest=np.array([offer.highest for _, offer, _, _ in offered], dtype=np.int64),
        standing=np.array(standing, dtype=np.int64),
        is_standing=np.array(is_standing, dtype=np.bool_),
    )


def _order_penalties(problem: Problem, offers: _Offers) -> Floats:
    """What taking a later accelerator than the first costs where the resource's order decides: more than any saving."""
    found: list[float] = []
    for offer in offers.variants:
        is_ordered = len(offer.candidates) > 1 and offer.variant in problem.in_order
        unit = _ORDER_WEIGHT * max(each.weight for each in offer.candidates) if is_ordered else 0.0
        found.extend(rank * unit for rank in range(len(offer.candidates)))
    return np.array(found, dtype=np.float64)


_ORDER_WEIGHT = 10_000.0
"""In replicas of the dearest candidate: an order comes before any difference in price."""


def _variants(problem: Problem, offers: _Offers) -> Variants:
    touch = problem.touch_weights
    return Variants(
        keys=tuple(offer.variant for offer in offers.variants),
        row=np.array([offer.row for offer in offers.variants], dtype=np.int64),
        touch=np.array([touch.get(each.variant, 0.0) if touch else 0.0 for each in offers.variants], dtype=np.float64),
        is_forced=np.array([offer.lowest > 0 for offer in offers.variants], dtype=np.bool_),
        was_active=np.array([offer.current.replicas > 0 for offer in offers.variants], dtype=np.bool_),
    )


def _rows(problem: Problem, offers: _Offers, choices: Choices, variants: Variants) -> tuple[Rows, Choices]:
    """The rows, and the choices with what they carry in shares of their row's demand."""
    width = max((len(each.segments) for each in offers.requirements), default=0)
    count = len(offers.requirements)
    must = np.zeros(count)
    amounts, prices = np.zeros((count, width)), np.zeros((count, width))
    for row, requirement in enumerate(offers.requirements):
        rest = carried_by_pinned(problem, requirement)
        wanted = [(_worth_of(each), each) for each in requirement.segments]
        if requirement.fixed is not None:
            free = sum(n for key, n in requirement.fixed.items() if key not in problem.pinned)
            must[row], wanted, rest = float(free), [], 0.0
        for column, (price, segment) in enumerate(sorted(wanted, key=lambda pair: -pair[0])):
            left, rest = max(segment.amount - rest, 0.0), max(rest - segment.amount, 0.0)
            if segment.price is None:
                must[row] += left
            else:
                amounts[row, column], prices[row, column] = left, price
    active_limit = _active_limits(problem, offers, variants)
    scale = _scales(must + amounts.sum(axis=1), choices)
    choices = replace(choices, carried=_told_apart(choices.carried / scale[choices.row]))
    rows = Rows(
        requirements=offers.requirements,
        must=np.minimum(must / scale, widest(choices, variants, active_limit)),
        amounts=amounts / scale[:, None],
        prices=prices * scale[:, None],
        active_limit=active_limit,
        priority=np.array([each.priority for each in offers.requirements], dtype=np.int64),
        scale=scale,
    )
    return rows, choices


def _told_apart(shares: Floats) -> Floats:
    """Without the last digits, which depend on the unit that demand is counted in: ties must not be broken by them."""
    digits = 10.0 ** (12 - np.ceil(np.log10(np.where(shares > 0, shares, 1.0))))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(shares * digits) / digits
    return np.where(np.isfinite(rounded) & (rounded > 0), rounded, shares)


def _scales(demand: Floats, choices: Choices) -> Floats:
    """By row its demand; where there is none, what the largest replica carries."""
    carried = np.zeros(len(demand))
    np.maximum.at(carried, choices.row, choices.carried)
    scale = np.where(demand >= LEAST_DEMAND, demand, carried)
    return np.where(scale > 0, scale, 1.0)


def _worth_of(segment: Segment) -> float:
    """What covering one unit of it is worth: its price as often as it is wanted; more than all where it must be."""
    return np.inf if segment.price is None else segment.price * segment.probability


def _pinned_members(problem: Problem, requirement: Requirement) -> list[ResourceKey]:
    return [key for key in members(requirement) if key in problem.pinned] if problem.pinned else []


def members(requirement: Requirement) -> list[ResourceKey]:
    """The variants that serve a requirement, those that can choose nothing too."""
    if requirement.fixed is not None:
        return sorted(requirement.fixed)
    return sorted({key.variant for key in requirement.per_replica})


def widest(choices: Choices, variants: Variants, active_limit: Integers) -> Floats:
    """The most that bounds and the count of active variants admit, by row: beyond it all is short whatever is decided.

    Forced variants are active whatever they carry. Choices without any penalty count: of a variant in order its first.
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


def _active_limits(problem: Problem, offers: _Offers, variants: Variants) -> Integers:
    """At least as many as must serve, or serve now: nothing is drained only to satisfy a count."""
    count = len(offers.requirements)
    limits = [
        UNBOUNDED if each.active_limit is None else each.active_limit - _serving_pinned(problem, each)
        for each in offers.requirements
    ]
    forced, active = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.add.at(forced, variants.row, variants.is_forced)
    np.add.at(active, variants.row, variants.was_active | variants.is_forced)
    fixed = np.array([UNBOUNDED if each.fixed is not None else 0 for each in offers.requirements], dtype=np.int64)
    return np.maximum(np.maximum(np.array(limits, dtype=np.int64), fixed), np.maximum(forced, active))


def _serving_pinned(problem: Problem, requirement: Requirement) -> int:
    return sum(problem.pinned[key].replicas > 0 for key in _pinned_members(problem, requirement))


def _shared(problem: Problem, offers: _Offers, variants: Variants, device_use: DeviceUse) -> Shared:
    rows = [*_pool_rows(problem, offers, device_use), *_budget_rows(problem, offers), *_change_rows(problem, variants)]
    return shared_of(rows, len(offers.choices), len(variants.keys))


def _pool_rows(problem: Problem, offers: _Offers, device_use: DeviceUse) -> Iterator[SharedRow]:
    uses: dict[str, Uses] = {pool.name: [] for pool in problem.pools}
    for index, (_, _, candidate, _) in enumerate(offers.choices):
        for name, count in candidate.devices.items():
            if name in uses and count:
                uses[name].append((index, count))
    pinned = device_use.now(problem.pinned)
    for pool in sorted(problem.pools, key=lambda each: each.name):
        yield SharedRow(pool.name, max(float(pool.devices - pinned[pool.name]), 0.0), use=uses[pool.name])


def _budget_rows(problem: Problem, offers: _Offers) -> Iterator[SharedRow]:
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
        yield row
    for index, (_, offer, candidate, _) in enumerate(offers.choices):
        for row in uses.get(offer.variant, ()) if uses else ():
            row.use.append((index, candidate.weight / row.unit))


def _change_rows(problem: Problem, variants: Variants) -> Iterator[SharedRow]:
    for limit in sorted(problem.change_limits, key=lambda each: each.name):
        use = [(index, 1.0) for index, key in enumerate(variants.keys) if key in limit.variants]
        yield SharedRow(limit.name, float(limit.changes), use_touching=use)


def _ratios(problem: Problem, offers: _Offers) -> RatioRows:
    index = {each.model: row for row, each in enumerate(offers.requirements)}
    found: list[tuple[int, int, float]] = []
    for ratio in problem.ratios:
        over, under = (index.get(side) for side in ratio.sides)
        if over is None or under is None or _has_pinned(problem, offers, over) or _has_pinned(problem, offers, under):
            continue
        found.append((over, under, ratio.least))
        if ratio.most is not None:
            found.append((under, over, 1 / ratio.most if ratio.most > 0 else float(UNBOUNDED)))
    return RatioRows(
        greater=np.array([each[0] for each in found], dtype=np.int64),
        smaller=np.array([each[1] for each in found], dtype=np.int64),
        factor=np.array([each[2] for each in found], dtype=np.float64),
    )


def _has_pinned(problem: Problem, offers: _Offers, row: int) -> bool:
    """Whether a role is not ours alone to decide: then its proportion is not either."""
    return any(key in problem.pinned for key in members(offers.requirements[row]))


# --- was reconciler/optimizer/fleet/parts.py:
# A formulation of some rows of another, as if the others did not exist.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPart:
    """Some rows of a formulation, with all that is shared for themselves, and which of its choices they have."""

    formulation: Formulation
    choices: Integers


def part_of(formulation: Formulation, rows: Flags) -> ProblemPart:
    """The rows of a mask; whole blocks, for a ratio needs both its sides."""
    choices, variants = rows[formulation.choices.row], rows[formulation.variants.row]
    row_index, variant_index = np.cumsum(rows) - 1, np.cumsum(variants) - 1
    kept_choices = _taken(formulation.choices, choices)
    kept_variants = _taken(formulation.variants, variants)
    ratios, shared = formulation.ratios, formulation.shared
    is_kept = rows[ratios.greater] if len(ratios.factor) else np.zeros(0, dtype=np.bool_)
    part = replace(
        formulation,
        known_counts=None,
        choices=replace(
            Choices(**kept_choices),
            row=row_index[formulation.choices.row[choices]],
            variant=variant_index[formulation.choices.variant[choices]],
        ),
        variants=replace(Variants(**kept_variants), row=row_index[formulation.variants.row[variants]]),
        rows=Rows(**_taken(formulation.rows, rows)),
        shared=replace(
            shared,
            use=shared.use[:, choices],
            use_touching=shared.use_touching[:, variants],
        ),
        ratios=RatioRows(
            greater=row_index[ratios.greater[is_kept]],
            smaller=row_index[ratios.smaller[is_kept]],
            factor=ratios.factor[is_kept],
        ),
    )
    return ProblemPart(formulation=part, choices=np.flatnonzero(choices))


def _taken(arrays: Choices | Variants | Rows, mask: Flags) -> dict[str, Any]:
    """The masked fields, each an array or a tuple along the same axis."""
    taken: dict[str, Any] = {}
    for each in fields(arrays):
        value = getattr(arrays, each.name)
        taken[each.name] = (
            tuple(item for item, is_kept in zip(value, mask, strict=True) if is_kept)
            if isinstance(value, tuple)
            else value[mask]
        )
    return taken
