"""The fleet's problem as named arrays: what `Problem` says, once, for every solver that looks at all models together.

A *choice* is a variant on one of its accelerators, a *row* is the demand of one model and role. Over integers n of
replicas by choice,

    minimise    sum over choices   fixed * [n > 0] + cost * n + start * max(n - standing, 0)
              + sum over variants  touch * [the variant changes]
              + sum over rows      price * what is not covered of its priced segments
    subject to  row:     sum of carried * n                    >=  must + the covered part of its segments
                         variants that serve                   <=  active_limit
                variant: at most one choice is active; lowest <= n <= highest there, none only where lowest is 0
                ratio:   replicas of a role                    >=  factor * replicas of the other
                shared:  sum of use * n + use_touching * [changes]  <=  limit

Shared rows are pools, budgets and limits on changes: all that joins models.

Demand is in shares of each row's own, and money in `unit`, about what it costs to serve one row, a budget in shares of
itself: solvers tolerate so much and no less, so a plan must not depend on whether requests or tokens are counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.requirements import Problem, Requirement
from reconciler.optimizer.sparse import Flags, Floats, Integers, by_rows

if TYPE_CHECKING:
    from reconciler.optimizer.sparse import Matrix

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
