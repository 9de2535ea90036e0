"""The fewest rules of a contradiction that are enough for it: a deletion filter.

Rules are left out one after the other; one without which the others still contradict each other is superfluous. What
is left cannot lose another. Each question is a small programme of the contradiction's own models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.fleet.formulation import UNBOUNDED, Formulation, RatioRows
from reconciler.optimizer.fleet.mixed_integer import solve_mixed_integer
from reconciler.optimizer.fleet.parts import ProblemPart, part_of
from reconciler.optimizer.fleet.planning import value_of
from reconciler.optimizer.sparse import Integers

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
