"""What happens when not everything can be met: coverage by priority level, and conflicts between rules.

Scarcity: first the minimum replicas of all models. Then, from the highest priority level down, as much of the level's
demand is covered as shared rows allow while the levels above keep what they got: the least covered model of a level
first, in steps of an eighth of its demand, then every model that can still use what is left. The result is what must be
covered, and the cheapest plan that covers it is the answer.

Conflicts: bounds, ratios and pinned variants against pools, budgets and change limits, without any demand, because
demand that does not fit is scarcity. The proof of a conflict are prices of the shared rows at which the least that some
models must take costs more than there is (Farkas). Superfluous rules are left out of the proof one after the other (a
deletion filter), and the models of what remains are held.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Conflict
from reconciler.optimizer.columns import EXCESS, Generated, best_by_block, generate
from reconciler.optimizer.formulation import (
    GAP,
    TOLERANCE,
    UNBOUNDED,
    Formulation,
    ProblemPart,
    Rows,
    formulate,
    members,
    part_of,
    widest,
)
from reconciler.optimizer.highs import Floats, Integers, owners
from reconciler.optimizer.mixed_integer import solve_mixed_integer
from reconciler.optimizer.planning import FleetPlan, Planned, Planner, covered_by, plan_greedily, value_of

STEPS = 8
"""Parts of a model's demand that are covered one after the other where not all can be covered."""

_STEEPNESS = 4.0
"""How much more the next eighth of a model is worth than any further eighth of another."""

_COST_SHARE = 1e-3
"""The weight of all costs together against one part of one model's demand: they only break ties."""

_LEAST_SPENT = 1e-100
"""A total cost below this is taken as zero."""

QUESTIONS = 300
"""Programmes that one conflict may take; rules that were not tested by then stay in it."""

_NODES = 2_000
_SLACK = _NOISE = 1e-9


def shed(formulation: Formulation, planner: Planner) -> tuple[Planned, Formulation, float]:
    """The cheapest plan that covers, level by level, as much as can be covered; and the formulation that it answers.

    The number is how far the shortage of a level is from the least at most, as a fraction of it; what a model lacks
    counts in steps of falling worth.
    """
    gap = 0.0
    rows = formulation.rows
    granted = np.zeros_like(rows.must)
    reach = np.minimum(rows.must, _reach(formulation))
    # The greedy rule serves urgent models first: levels that it serves whole need no search.
    formulation = replace(formulation, known_counts=plan_greedily(formulation, is_partial=True))
    for level in sorted(set(rows.priority[reach > 0].tolist()), reverse=True):
        is_level = (rows.priority == level) & (reach > 0)
        asking = np.where(is_level, reach, 0.0)
        for steepness in () if _missing(rows, asking, _served(formulation)) <= 0 else (_STEEPNESS, 1.0):
            plan = planner(_sharing(formulation, granted, asking, steepness))
            if not isinstance(plan, FleetPlan):
                return plan, formulation, np.inf
            if plan.value > _COST_SHARE:
                gap = max(gap, min((plan.value - plan.bound) / plan.value, 1.0))
            formulation = replace(formulation, known_counts=plan.counts)
            granted = np.where(is_level, _served(formulation), granted)
            # Equal steps gain no more than this plan's gap in steps of falling worth. Where the bound proves that some
            # model must go short they are skipped: they never found enough to be worth their time.
            missing = _missing(rows, asking, granted)
            if missing <= 0 or plan.value - plan.bound <= GAP * missing or plan.bound > _COST_SHARE:
                break
        granted = np.where(is_level, _served(formulation), granted)
    lowered = formulation.with_demand(granted, rows.amounts, rows.prices)
    return planner(lowered), lowered, gap


def _served(formulation: Formulation) -> Floats:
    """What the known plan covers of what must be covered, by row; nothing without a known plan."""
    counts = formulation.known_counts
    if counts is None:
        return np.zeros_like(formulation.rows.must)
    return np.minimum(covered_by(formulation, counts), formulation.rows.must) * (1 - _SLACK)


def _missing(rows: Rows, asking: Floats, served: Floats) -> float:
    """The uncovered demand, in parts of a model's demand; 0 where it is float noise."""
    missing = np.where(served < asking * (1 - 2 * _SLACK), asking - served, 0.0)
    return float((missing * STEPS / np.where(rows.must > 0, rows.must, 1.0)).sum())


def _reach(formulation: Formulation) -> Floats:
    """The most that each row could have if no other took anything of the shared rows.

    More is not asked for: it would dominate the value and hide the gap. For a variant in order every accelerator
    counts, because an order is no reason to serve less.
    """
    choices, shared = formulation.choices, formulation.shared
    most = choices.highest.astype(np.float64)
    fitting = shared.limits[owners(shared.use)] / shared.use.data
    np.minimum.at(most, shared.use.indices, np.floor(fitting + TOLERANCE))
    fitted = replace(choices, highest=most.astype(np.int64), fixed=np.zeros(len(most)))
    return widest(fitted, formulation.variants, formulation.rows.active_limit)


def _sharing(formulation: Formulation, granted: Floats, asking: Floats, steepness: float) -> Formulation:
    """The problem of covering those who ask, in steps of falling worth; what was granted must stay covered."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    step = rows.must[:, None] / STEPS
    left = np.maximum(asking - granted, 0.0)[:, None]
    begins = np.maximum(granted[:, None], np.arange(STEPS) * step)
    amounts = np.clip(np.minimum(asking[:, None], np.arange(1, STEPS + 1) * step) - begins, 0.0, left)
    weights = steepness ** np.arange(STEPS - 1, -1, -1)
    prices = np.where(amounts > 0, weights / np.where(step > 0, step, 1.0), 0.0)
    # More than any useful plan costs: every demand covered by its dearest choice, everything touched.
    counts = np.maximum(np.ceil(rows.demand[choices.row] / choices.carried), choices.lowest)
    dearest = np.zeros(len(rows.requirements))
    np.maximum.at(dearest, choices.row, np.abs(choices.fixed) + (choices.cost + choices.start) * counts)
    spent = float(dearest.sum() + variants.touch.sum())
    scale = _COST_SHARE / spent if _LEAST_SPENT < spent < np.inf else 0.0
    cheap = replace(
        formulation,
        choices=replace(choices, fixed=choices.fixed * scale, cost=choices.cost * scale, start=choices.start * scale),
        variants=replace(variants, touch=variants.touch * scale),
    )
    return replace(cheap.with_demand(granted, amounts, prices), sharing=_COST_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentProblem:
    """A problem whose rules some plan keeps, as arrays, and the conflicts whose models were held to get there."""

    formulation: Formulation
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules that contradict each other: blocks and shared rows, and the bounds and ratios of those blocks.

    `lower` and `upper` are variants whose bound counts, `ratios` are ratio rows, all as indices of the formulation.
    """

    blocks: Integers
    rows: Integers
    lower: Integers
    upper: Integers
    ratios: Integers


def settle(formulation: Formulation, planner: Planner) -> ConsistentProblem:
    """The problem with the models of every conflict held, so that some plan keeps all rules."""
    conflicts: list[Conflict] = []
    while True:
        rows = formulation.rows
        bare = formulation.with_demand(np.zeros_like(rows.must), rows.amounts[:, :0], rows.prices[:, :0])
        blocks, shared = _contradiction(bare, planner)
        if not len(blocks):
            return ConsistentProblem(formulation=formulation, conflicts=tuple(conflicts))
        rules = _Filter(bare).fewest(blocks, shared)
        conflicts.append(_conflict(bare, rules))
        is_held = np.isin(formulation.block_of_row, rules.blocks)
        held = [each for each, is_meant in zip(rows.requirements, is_held, strict=True) if is_meant]
        problem = formulation.problem
        # Variants without a choice stay as well, and use what they use.
        kept = {key: problem.current[key] for each in held for key in members(each) if key not in problem.pinned}
        formulation = formulate(replace(problem, pinned={**problem.pinned, **kept}))


def _contradiction(formulation: Formulation, planner: Planner) -> tuple[Integers, Integers]:
    """Blocks and shared rows that contradict each other; no blocks where a plan exists, or none can be held."""
    nothing = np.zeros(0, dtype=np.int64)
    if not formulation.choices.keys:
        return nothing, nothing
    generated = generate(_without_costs(formulation))
    if len(generated.infeasible):
        return generated.infeasible, nothing
    if generated.excess.max(initial=0.0) > EXCESS:
        return _too_demanding(formulation, generated)
    if isinstance(planner(formulation), FleetPlan):
        return nothing, nothing
    # Only fractions of configurations fit: the blocks that the programme splits, and the rows that are full.
    generated = generate(formulation)
    split = (generated.share > EXCESS) & (generated.share < 1 - EXCESS)
    left: Floats = formulation.shared.limits - generated.columns.worth.use.T @ generated.share
    return np.unique(generated.columns.configurations.block[split]), np.flatnonzero(left <= EXCESS)


def _without_costs(formulation: Formulation) -> Formulation:
    choices, variants = formulation.choices, formulation.variants
    free = np.zeros(len(choices.keys))
    return replace(
        formulation,
        choices=replace(choices, fixed=free, cost=free, start=free),
        variants=replace(variants, touch=np.zeros(len(variants.keys))),
    )


def _too_demanding(formulation: Formulation, generated: Generated) -> tuple[Integers, Integers]:
    """The fewest blocks that take more of the priced rows, at these prices, than there is; and those rows."""
    columns, prices = generated.columns, generated.prices
    least = columns.at(best_by_block(formulation.blocks, columns.configurations.block, columns.reduced(prices)))
    needed = least.reduced(prices)
    order = np.argsort(-needed, kind="stable")
    order = order[needed[order] > _NOISE]
    limit = float(prices @ formulation.shared.limits)
    enough = int(np.searchsorted(np.cumsum(needed[order]), limit + _NOISE * max(limit, 1.0), side="right")) + 1
    blocks, rows = np.sort(order[:enough]), np.flatnonzero(prices > _NOISE)
    if not len(blocks) or enough > len(order):
        # The rounds were over before the prices proved anything: every user of an exceeded row is held.
        rows = np.flatnonzero(generated.excess > EXCESS)
        taken: Floats = np.zeros(len(least)) + least.worth.use @ (generated.excess > EXCESS).astype(np.float64)
        return np.flatnonzero(taken > _NOISE), rows
    return blocks, rows


class _Filter:
    """Leaves superfluous rules out of a contradiction; each question is a small programme of its models.

    The formulation has no demand.
    """

    def __init__(self, formulation: Formulation) -> None:
        self._formulation = formulation
        self._left = QUESTIONS

    def fewest(self, blocks: Integers, rows: Integers) -> Rules:
        """A minimal contradiction among those of some blocks and shared rows; of all where these do not contradict.

        Blocks go first, because their models are held.
        """
        if not self._contradicts(self._all_of(blocks, rows)):
            blocks, rows = np.arange(self._formulation.blocks), np.arange(len(self._formulation.shared))
        rules = self._without_superfluous_blocks(self._all_of(blocks, rows))
        for kind in ("rows", "upper", "lower", "ratios"):
            for element in getattr(rules, kind).tolist():
                fewer = replace(rules, **{kind: _without(getattr(rules, kind), [element])})
                rules = fewer if self._contradicts(fewer) else rules
        return rules

    def _all_of(self, blocks: Integers, rows: Integers) -> Rules:
        """Every rule of the blocks, with these shared rows."""
        formulation = self._formulation
        variants = formulation.variants
        own = np.flatnonzero(np.isin(formulation.block_of_row[variants.row], blocks))
        highest = np.full(len(variants.keys), 0)
        np.maximum.at(highest, formulation.choices.variant, formulation.choices.highest)
        return Rules(
            blocks=blocks,
            rows=rows,
            lower=own[variants.is_forced[own]],
            upper=own[highest[own] < UNBOUNDED],
            ratios=np.flatnonzero(np.isin(formulation.block_of_row[formulation.ratios.greater], blocks)),
        )

    def _without_superfluous_blocks(self, rules: Rules) -> Rules:
        """Half of the blocks at once, then ever fewer: of many most are superfluous, of few hardly any."""
        size = max(len(rules.blocks) // 2, 1)
        while True:
            for begin in range(0, len(rules.blocks), size):
                kept = _without(rules.blocks, rules.blocks[begin : begin + size].tolist())
                fewer = self._all_of(kept, rules.rows)
                if len(kept) and self._contradicts(fewer):
                    return self._without_superfluous_blocks(fewer)
            if size == 1:
                return rules
            size = max(size // 2, 1)

    def _contradicts(self, rules: Rules) -> bool:
        """Whether no plan keeps the rules; False where the limits come before an answer."""
        self._left -= 1
        if self._left < 0 or not len(rules.blocks):
            return False
        found = solve_mixed_integer(_part_of(self._formulation, rules).formulation, gap=0.0, nodes=_NODES)
        return found.counts is None and found.bound == np.inf


def _without(elements: Integers, left_out: Sequence[int]) -> Integers:
    return elements[~np.isin(elements, left_out)]


def _part_of(formulation: Formulation, rules: Rules) -> ProblemPart:
    """The formulation of these rules alone, without costs."""
    free = _without_costs(formulation)
    choices, variants = free.choices, free.variants
    relaxed = replace(
        free,
        choices=replace(
            choices,
            lowest=np.where(np.isin(choices.variant, rules.lower), choices.lowest, 0),
            highest=np.where(np.isin(choices.variant, rules.upper), choices.highest, UNBOUNDED),
        ),
        variants=replace(variants, is_forced=variants.is_forced & np.isin(np.arange(len(variants.keys)), rules.lower)),
        shared=free.shared.at(rules.rows),
        ratios=free.ratios.at(rules.ratios),
    )
    return part_of(relaxed, np.isin(formulation.block_of_row, rules.blocks))


def _least_taken(formulation: Formulation, rules: Rules) -> float:
    """The least that the blocks of a contradiction take of its one shared row."""
    row = int(rules.rows[0])
    shared, variants = formulation.shared, formulation.variants
    part = _part_of(formulation, replace(rules, rows=rules.rows[:0]))
    own, touched = part.choices, np.isin(formulation.block_of_row[variants.row], rules.blocks)
    taking = replace(
        part.formulation,
        choices=replace(part.formulation.choices, cost=shared.use[[row]].toarray()[0][own]),
        variants=replace(part.formulation.variants, touch=shared.use_touching[[row]].toarray()[0][touched]),
    )
    found = solve_mixed_integer(taking, gap=0.0, nodes=_NODES)
    return found.bound if found.counts is None else value_of(taking, found.counts)


def _conflict(formulation: Formulation, rules: Rules) -> Conflict:
    shared, requirements = formulation.shared, formulation.rows.requirements
    limits = shared.limits * shared.units
    taken = "them"
    if len(rules.rows) == 1:
        taken = f"the {_least_taken(formulation, rules) * shared.units[rules.rows[0]]:g} that they take"
    words = [*_bounds_words(formulation, rules), *_ratio_words(formulation, rules)]
    words += [f"{shared.names[row]} with {limits[row]:g} left for {taken}" for row in rules.rows]
    named = zip(requirements, np.isin(formulation.block_of_row, rules.blocks), strict=True)
    return Conflict(rules=tuple(words), models=tuple(dict.fromkeys(each.model for each, is_named in named if is_named)))


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
