"""What a solver answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ModelKey, ResourceKey
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
class Solution:
    """An allocation of every variant of a problem; `lower_bound` and `value` are in the objective's unit."""

    allocations: Mapping[ResourceKey, Allocation]
    status: SolveStatus
    value: float
    lower_bound: float
    shortfalls: tuple[Shortfall, ...] = ()
    reasons: Mapping[ResourceKey, str] = field(default_factory=dict)
    """Why a variant got what it got, in words: `cheapest of 3 candidates: ceil(46.2 / 10.6)`."""

    @property
    def gap(self) -> float:
        """The proven distance from the best value, as a fraction of it."""
        return 0.0 if self.value <= self.lower_bound else (self.value - self.lower_bound) / max(abs(self.value), 1e-12)


class Solver(Protocol):
    """A way to solve a problem, found by name."""

    name: str

    def solve(self, problem: Problem) -> Solution:
        """An allocation for every variant that has a candidate; never raises for an infeasible problem."""
        ...
