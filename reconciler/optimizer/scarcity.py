"""What happens when not every demand or rule can be met: coverage by priority level, and the smallest set of
conflicting rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.domain.identity import ModelKey
from reconciler.domain.requirements import Conflict
from reconciler.optimizer.columns import EXCESS, Generated, best_by_block, generate
from reconciler.optimizer.formulation import (
    GAP,
    TOLERANCE,
    UNBOUNDED,
    Formulation,
    ProblemPart,
    RatioRows,
    Rows,
    formulate,
    members,
    part_of,
    widest,
)
from reconciler.optimizer.highs import Floats, Integers, owners
from reconciler.optimizer.mixed_integer import solve_mixed_integer
from reconciler.optimizer.planning import FleetPlan, Planned, Planner, covered_by, plan_greedily, value_of

# --- was reconciler/optimizer/fleet/levels.py:
# Who gets what there is not enough of: strictly by level of priority, max-min fair inside a level. The bounds of
# everybody come first. Then, from the highest level down, as much of the level's demand is covered as what is shared
# admits while the levels above keep what they got; the least covered model of a level first, in steps of an eighth of
# its demand, and then whoever can still use what is left. What came out is what must be covered, and the cheapest
# plan that does is the answer. Where nothing is scarce none of this runs: then priority changes nothing.

STEPS = 8
"""Parts of a model's demand that are told apart where it cannot all be covered."""

_STEEPNESS = 4.0
"""How much more the next eighth of a model is worth than any further one of another."""

_COST_SHARE = 1e-3
"""What all costs together count beside one part of one model's demand: they only decide between equals."""

_LEAST_SPENT = 1e-100
"""What costs less than this costs nothing."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shed:
    """A plan for less than was wanted, and the formulation of what it must cover instead."""

    plan: Planned
    formulation: Formulation


def shed(formulation: Formulation, planner: Planner) -> Shed:
    """The cheapest plan that covers, level by level, as much as can be covered."""
    rows = formulation.rows
    granted = np.zeros_like(rows.must)
    reach = np.minimum(rows.must, _reach(formulation))
    # The usual rule serves the urgent first: levels that it serves whole need no search.
    formulation = replace(formulation, known_counts=plan_greedily(formulation, is_partial=True))
    for level in sorted(set(rows.priority[reach > 0].tolist()), reverse=True):
        is_level = (rows.priority == level) & (reach > 0)
        asking = np.where(is_level, reach, 0.0)
        for steepness in () if _missing(rows, asking, _served(formulation)) <= 0 else (_STEEPNESS, 1.0):
            plan = planner(_sharing(formulation, granted, asking, steepness))
            if not isinstance(plan, FleetPlan):
                return Shed(plan=plan, formulation=formulation)
            formulation = replace(formulation, known_counts=plan.counts)
            granted = np.where(is_level, _served(formulation), granted)
            # Nobody gains more in equal steps than this plan may be from the best in steps of falling worth. Where that
            # proves that somebody must go short they are not asked: never did they find what is worth their time.
            missing = _missing(rows, asking, granted)
            if missing <= 0 or plan.value - plan.bound <= GAP * missing or plan.bound > _COST_SHARE:
                break
        granted = np.where(is_level, _served(formulation), granted)
    lowered = formulation.with_demand(granted, rows.amounts, rows.prices)
    return Shed(plan=planner(lowered), formulation=lowered)


def _served(formulation: Formulation) -> Floats:
    """What the known plan covers of what must be, by row, with room for float noise; nothing where none is known."""
    counts = formulation.known_counts
    if counts is None:
        return np.zeros_like(formulation.rows.must)
    return np.minimum(covered_by(formulation, counts), formulation.rows.must) * (1 - _SLACK)


def _missing(rows: Rows, asking: Floats, served: Floats) -> float:
    """What is left to cover of those who ask, in parts of a model's demand; 0 where that is float noise."""
    missing = np.where(served < asking * (1 - 2 * _SLACK), asking - served, 0.0)
    return float((missing * STEPS / np.where(rows.must > 0, rows.must, 1.0)).sum())


def _reach(formulation: Formulation) -> Floats:
    """What each row could have at most if nobody else took anything of what is shared.

    What nobody can give is not asked for: it would be most of the value, and drown what the gap of a plan must show.
    Of a variant in order every accelerator counts: an order is no reason to serve less.
    """
    choices, shared = formulation.choices, formulation.shared
    most = choices.highest.astype(np.float64)
    fitting = shared.limits[owners(shared.use)] / shared.use.data
    np.minimum.at(most, shared.use.indices, np.floor(fitting + TOLERANCE))
    fitted = replace(choices, highest=most.astype(np.int64), fixed=np.zeros(len(most)))
    return widest(fitted, formulation.variants, formulation.rows.active_limit)


def _sharing(formulation: Formulation, granted: Floats, asking: Floats, steepness: float) -> Formulation:
    """Only the coverage of those who ask counts, in steps whose worth falls; what was granted must stay covered."""
    choices, variants = formulation.choices, formulation.variants
    weights = steepness ** np.arange(STEPS - 1, -1, -1)
    step = formulation.rows.must[:, None] / STEPS
    left = np.maximum(asking - granted, 0.0)[:, None]
    begins = np.maximum(granted[:, None], np.arange(STEPS) * step)
    amounts = np.clip(np.minimum(asking[:, None], np.arange(1, STEPS + 1) * step) - begins, 0.0, left)
    prices = np.where(amounts > 0, weights / np.where(step > 0, step, 1.0), 0.0)
    spent = _spent(formulation)
    scale = _COST_SHARE / spent if _LEAST_SPENT < spent < np.inf else 0.0
    cheap = replace(
        formulation,
        choices=replace(choices, fixed=choices.fixed * scale, cost=choices.cost * scale, start=choices.start * scale),
        variants=replace(variants, touch=variants.touch * scale),
    )
    return replace(cheap.with_demand(granted, amounts, prices), sharing=_COST_SHARE)


def _spent(formulation: Formulation) -> float:
    """More than any useful plan costs: every demand covered by its dearest choice, everything touched."""
    choices, rows = formulation.choices, formulation.rows
    counts = np.maximum(np.ceil(rows.demand[choices.row] / choices.carried), choices.lowest)
    each = np.abs(choices.fixed) + (choices.cost + choices.start) * counts
    dearest = np.zeros(len(rows.requirements))
    np.maximum.at(dearest, choices.row, each)
    return float(dearest.sum() + formulation.variants.touch.sum())


# --- was reconciler/optimizer/fleet/minimal.py:
# The fewest rules of a contradiction that are enough for it: a deletion filter. Rules are left out one after the
# other; one without which the others still contradict each other is superfluous. What is left cannot lose another.
# Each question is a small programme of the contradiction's own models.

QUESTIONS = 300
"""How many programmes may be asked for one contradiction; rules that were not asked about stay in it."""

_NODES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What contradicts itself: blocks, shared rows, and of the variants and ratios of those blocks what is needed.

    `lower` and `upper` are variants whose bound counts, `ratios` are rows of roles, all as indices of the formulation.
    """

    blocks: Integers
    rows: Integers
    lower: Integers
    upper: Integers
    ratios: Integers


def fewest(formulation: Formulation, blocks: Integers, rows: Integers) -> Rules:
    """A minimal contradiction among those of some blocks and shared rows; of all where these do not contradict.

    The formulation asks for no demand. Blocks go first, for their models are held.
    """
    filtering = _Filtering(formulation)
    if not filtering.contradicts(filtering.all_of(blocks, rows)):
        blocks, rows = np.arange(formulation.blocks), np.arange(len(formulation.shared))
    rules = filtering.without_superfluous_blocks(filtering.all_of(blocks, rows))
    for kind in ("rows", "upper", "lower", "ratios"):
        for element in getattr(rules, kind).tolist():
            fewer = replace(rules, **{kind: _without(getattr(rules, kind), [element])})
            rules = fewer if filtering.contradicts(fewer) else rules
    return rules


def least_taken(formulation: Formulation, rules: Rules) -> float:
    """What the blocks of a contradiction take at least of its one shared row."""
    row = int(rules.rows[0])
    shared, variants = formulation.shared, formulation.variants
    part = _Filtering(formulation).part_of(replace(rules, rows=rules.rows[:0]))
    own, touched = part.choices, np.isin(formulation.block_of_row[variants.row], rules.blocks)
    taking = replace(
        part.formulation,
        choices=replace(part.formulation.choices, cost=shared.use[[row]].toarray()[0][own]),
        variants=replace(part.formulation.variants, touch=shared.use_touching[[row]].toarray()[0][touched]),
    )
    found = solve_mixed_integer(taking, gap=0.0, nodes=_NODES)
    return found.bound if found.counts is None else value_of(taking, found.counts)


def _without(elements: Integers, left_out: Sequence[int]) -> Integers:
    return elements[~np.isin(elements, left_out)]


class _Filtering:
    """Answers whether rules contradict each other; lives for one contradiction."""

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        self._left = QUESTIONS

    def all_of(self, blocks: Integers, rows: Integers) -> Rules:
        """Every rule of the blocks, with these shared rows."""
        formulation = self._formulation
        variants, ratios = formulation.variants, formulation.ratios
        own = np.flatnonzero(np.isin(formulation.block_of_row[variants.row], blocks))
        highest = np.full(len(variants.keys), 0)
        np.maximum.at(highest, formulation.choices.variant, formulation.choices.highest)
        is_joined = np.isin(formulation.block_of_row[ratios.greater], blocks)
        return Rules(
            blocks=blocks,
            rows=rows,
            lower=own[variants.is_forced[own]],
            upper=own[highest[own] < UNBOUNDED],
            ratios=np.flatnonzero(is_joined),
        )

    def without_superfluous_blocks(self, rules: Rules) -> Rules:
        """Halves first, then ever fewer blocks at once: of many most are superfluous, of few hardly any."""
        size = max(len(rules.blocks) // 2, 1)
        while True:
            for begin in range(0, len(rules.blocks), size):
                left_out = rules.blocks[begin : begin + size].tolist()
                kept = _without(rules.blocks, left_out)
                fewer = self.all_of(kept, rules.rows)
                if len(kept) and self.contradicts(fewer):
                    return self.without_superfluous_blocks(fewer)
            if size == 1:
                return rules
            size = max(size // 2, 1)

    def contradicts(self, rules: Rules) -> bool:
        """Whether no plan keeps the rules; False where that cannot be told within the limits."""
        self._left -= 1
        if self._left < 0 or not len(rules.blocks):
            return False
        found = solve_mixed_integer(self.part_of(rules).formulation, gap=0.0, nodes=_NODES)
        return found.counts is None and found.bound == np.inf

    def part_of(self, rules: Rules) -> ProblemPart:
        """The formulation of these rules alone, without costs."""
        return part_of(self._relaxed(rules), np.isin(self._formulation.block_of_row, rules.blocks))

    def _relaxed(self, rules: Rules) -> Formulation:
        formulation = self._formulation
        choices, variants, shared = formulation.choices, formulation.variants, formulation.shared
        ratios = formulation.ratios
        is_free_below = ~np.isin(choices.variant, rules.lower)
        is_free_above = ~np.isin(choices.variant, rules.upper)
        free = np.zeros(len(choices.keys))
        return replace(
            formulation,
            choices=replace(
                choices,
                fixed=free,
                cost=free,
                start=free,
                lowest=np.where(is_free_below, 0, choices.lowest),
                highest=np.where(is_free_above, UNBOUNDED, choices.highest),
            ),
            variants=replace(
                variants,
                touch=np.zeros(len(variants.keys)),
                is_forced=variants.is_forced & np.isin(np.arange(len(variants.keys)), rules.lower),
            ),
            shared=replace(
                shared,
                names=tuple(shared.names[row] for row in rules.rows),
                limits=shared.limits[rules.rows],
                units=shared.units[rules.rows],
                use=shared.use[rules.rows],
                use_touching=shared.use_touching[rules.rows],
            ),
            ratios=RatioRows(
                greater=ratios.greater[rules.ratios],
                smaller=ratios.smaller[rules.ratios],
                factor=ratios.factor[rules.ratios],
            ),
        )


# --- was reconciler/optimizer/fleet/conflicts.py:
# Rules that no plan can keep together, named as the fewest that are enough; their models are held. What is looked at
# are bounds, ratios and what is pinned against pools, budgets and limits, without any demand: that demand does not
# fit is no conflict, it is scarcity. The proof of a conflict are prices of the shared rows at which the least that
# some models must take costs more than all there is (Farkas): those models and the priced rows contradict each other,
# and the models that take most are enough of them. What of all that is superfluous is left out.

_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentProblem:
    """A problem whose rules some plan keeps, as arrays, and what was held to get there."""

    formulation: Formulation
    conflicts: tuple[Conflict, ...]
    is_changed: bool
    """Whether something was held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contradiction:
    """Blocks that cannot keep their own rules, or not beside the shared rows of which they take too much."""

    blocks: Integers
    rows: Integers


def settle(formulation: Formulation, planner: Planner) -> ConsistentProblem:
    """The problem with the models of every conflict held, so that a plan exists that keeps all rules."""
    conflicts: list[Conflict] = []
    while True:
        bare = _without_demand(formulation)
        found = _contradiction(bare, planner)
        if found is None or not len(found.blocks):
            break
        rules = fewest(bare, found.blocks, found.rows)
        conflicts.append(_conflict(bare, rules))
        is_held = np.isin(formulation.block_of_row, rules.blocks)
        held = [each for each, is_meant in zip(formulation.rows.requirements, is_held, strict=True) if is_meant]
        problem = formulation.problem
        # What none of its choices could serve with stays as well, and takes what it takes.
        kept = {key: problem.current[key] for each in held for key in members(each) if key not in problem.pinned}
        formulation = formulate(replace(problem, pinned={**problem.pinned, **kept}))
    return ConsistentProblem(formulation=formulation, conflicts=tuple(conflicts), is_changed=bool(conflicts))


def _without_demand(formulation: Formulation) -> Formulation:
    rows = formulation.rows
    return formulation.with_demand(np.zeros_like(rows.must), rows.amounts[:, :0], rows.prices[:, :0])


def _contradiction(formulation: Formulation, planner: Planner) -> _Contradiction | None:
    """What no plan of the formulation can keep; None where there is one, or nobody is left to hold."""
    if not formulation.choices.keys:
        return None
    generated = generate(_without_costs(formulation))
    if len(generated.infeasible):
        return _Contradiction(blocks=generated.infeasible, rows=np.zeros(0, dtype=np.int64))
    if generated.excess.max(initial=0.0) > EXCESS:
        return _beside_shared(formulation, generated)
    if isinstance(planner(formulation), FleetPlan):
        return None
    return _between(formulation, generate(formulation))


def _without_costs(formulation: Formulation) -> Formulation:
    """Of the same rules, where only what exceeds a shared row counts."""
    choices, variants = formulation.choices, formulation.variants
    free = np.zeros(len(choices.keys))
    return replace(
        formulation,
        choices=replace(choices, fixed=free, cost=free, start=free),
        variants=replace(variants, touch=np.zeros(len(variants.keys))),
    )


def _beside_shared(formulation: Formulation, generated: Generated) -> _Contradiction:
    """The fewest blocks that take more of the priced rows, at these prices, than there is."""
    known, prices = generated.columns, generated.prices
    least = known.at(best_by_block(formulation.blocks, known.configurations.block, known.reduced(prices)))
    needed = least.reduced(prices)
    order = np.argsort(-needed, kind="stable")
    order = order[needed[order] > _NOISE]
    limit = float(prices @ formulation.shared.limits)
    enough = int(np.searchsorted(np.cumsum(needed[order]), limit + _NOISE * max(limit, 1.0), side="right")) + 1
    blocks, rows = np.sort(order[:enough]), np.flatnonzero(prices > _NOISE)
    if not len(blocks) or enough > len(order):
        # The rounds were over before the prices proved anything: whoever uses what is exceeded is held.
        rows = np.flatnonzero(generated.excess > EXCESS)
        taken_by_block: Floats = np.zeros(len(least)) + least.worth.use @ (generated.excess > EXCESS).astype(np.float64)
        return _Contradiction(blocks=np.flatnonzero(taken_by_block > _NOISE), rows=rows)
    return _Contradiction(blocks=blocks, rows=rows)


def _between(formulation: Formulation, generated: Generated) -> _Contradiction | None:
    """Where only fractions of configurations fit: the blocks that the programme splits, and the rows that are full."""
    split = (generated.share > EXCESS) & (generated.share < 1 - EXCESS)
    blocks = np.unique(generated.columns.configurations.block[split])
    left: Floats = formulation.shared.limits - generated.columns.worth.use.T @ generated.share
    rows = np.flatnonzero(left <= EXCESS)
    return _Contradiction(blocks=blocks, rows=rows) if len(blocks) else None


def _conflict(formulation: Formulation, rules: Rules) -> Conflict:
    shared = formulation.shared
    limits = shared.limits * shared.units
    taken = "them"
    if len(rules.rows) == 1:
        taken = f"the {least_taken(formulation, rules) * shared.units[rules.rows[0]]:g} that they take"
    words = [*_bounds_words(formulation, rules), *_ratio_words(formulation, rules)]
    words += [f"{shared.names[row]} with {limits[row]:g} left for {taken}" for row in rules.rows]
    return Conflict(rules=tuple(words), models=_models(formulation, rules))


def _bounds_words(formulation: Formulation, rules: Rules) -> Iterator[str]:
    """The bounds that are needed for the contradiction, the variants in their order."""
    problem, requirements = formulation.problem, formulation.rows.requirements
    for index in sorted({*rules.lower.tolist(), *rules.upper.tolist()}):
        key = formulation.variants.keys[index]
        bounds, fixed = problem.bounds[key], requirements[formulation.variants.row[index]].fixed
        most = bounds.maximum if fixed is None else fixed[key]
        words = [f"minReplicas {bounds.minimum}"] * (index in rules.lower)
        words += [f"maxReplicas {most}"] * (index in rules.upper and most is not None)
        if words:
            yield f"{' and '.join(words)} of {key.label}"


def _ratio_words(formulation: Formulation, rules: Rules) -> Iterator[str]:
    """The proportions that are needed: as rows, or because they bar a role."""
    ratios, requirements = formulation.ratios, formulation.rows.requirements
    barred = {int(formulation.variants.row[index]) for index in rules.upper}
    rows = {int(row) for side in (ratios.greater, ratios.smaller) for row in side[rules.ratios]}
    named = {requirements[row].model for row in rows}
    named |= {requirements[row].model for row in barred & set(ratios.smaller[ratios.factor >= UNBOUNDED].tolist())}
    for ratio in formulation.problem.ratios:
        if not named.isdisjoint(ratio.sides):
            between = f"{ratio.over or 'one role'} to {ratio.under or 'another'}"
            yield f"the ratio of {between} of {ratio.model.model_id}"


def _models(formulation: Formulation, rules: Rules) -> tuple[ModelKey, ...]:
    is_meant = np.isin(formulation.block_of_row, rules.blocks)
    named = zip(formulation.rows.requirements, is_meant, strict=True)
    return tuple(dict.fromkeys(each.model for each, is_named in named if is_named))
