"""What a solver answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem


class SolveStatus(StrEnum):
    """What is proven about a solution."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A model whose demand could not be covered, and the rule that stood in the way."""

    model: ModelKey
    covered: float
    wanted: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedUse:
    """A pool, budget or limit that models share, and how much of it the plan takes.

    `price` is what one more of it would save an hour, in the objective's unit; 0 where it does not bind.
    """

    name: str
    used: float
    limit: float
    price: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Rules that no plan can keep together: the fewest that are enough. Their models are held."""

    rules: tuple[str, ...]
    models: tuple[ModelKey, ...]

    @property
    def reason(self) -> str:
        """The rules in one sentence."""
        return " and ".join(self.rules) + " cannot all hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What the plan would cover if demand or capacity were another: models that fall short, and the worst of them."""

    demand_factor: float
    capacity_factor: float
    short: int
    worst: ModelKey | None
    worst_covered: float
    """The share of its demand that the worst model's replicas carry, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCoverage:
    """What a model needs and gets, in `unit`; where it gets less, what it competes for and who decided that.

    `competes_for` names the shared rows without room for one more of its replicas. `decided_at` is the lowest priority
    of others that got something of them: its own where it shares with equals, else one that went before it. Both are
    empty where nothing shared, or nobody else, stands in the way.
    """

    model: ModelKey
    unit: str
    needed: float
    given: float
    priority: int
    competes_for: tuple[str, ...] = ()
    rivals: tuple[ModelKey, ...] = ()
    """Other models that take of it, the most urgent first; a few of them where there are many."""
    decided_at: int | None = None

    @property
    def unserved(self) -> float:
        """What of the need is not given."""
        return max(self.needed - self.given, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """An allocation of every variant of a problem; `lower_bound` and `value` are in the objective's unit.

    `greedy_value` is what the usual rule (most urgent first, cheapest capacity first) reaches on the same problem,
    None where it finds no plan that keeps all rules or was not asked.
    """

    allocations: Mapping[ResourceKey, Allocation]
    status: SolveStatus
    value: float
    lower_bound: float
    shortfalls: tuple[Shortfall, ...] = ()
    reasons: Mapping[ResourceKey, str] = field(default_factory=dict)
    """Why a variant got what it got, in words: `cheapest of 3 candidates: ceil(46.2 / 10.6)`."""
    solver: str = ""
    shared: tuple[SharedUse, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    greedy_value: float | None = None
    sensitivity: tuple[Sensitivity, ...] = ()
    coverages: tuple[ModelCoverage, ...] = ()
    """By model, in the order of their keys."""
    is_unsolved: bool = False
    """Whether the limits of the search came before any plan: then everything stays as it is."""

    @property
    def gap(self) -> float:
        """The proven distance from the best value, as a fraction of it; infinite where there is no plan."""
        if self.is_unsolved:
            return math.inf
        return 0.0 if self.value <= self.lower_bound else (self.value - self.lower_bound) / max(abs(self.value), 1e-12)


class Solver(Protocol):
    """A way to solve a problem, found by name."""

    name: str

    def solve(self, problem: Problem) -> Solution:
        """An allocation for every variant that has a candidate; never raises for an infeasible problem."""
        ...
