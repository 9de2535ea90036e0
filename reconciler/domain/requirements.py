"""What sizing engines require, what the optimizer is given, and what a solver answers."""

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A step of demand: `amount` more of the requirement's unit, wanted with `probability`, worth `price` an hour.

    `price` None: the service class asks for attainment, not for money.
    """

    amount: float
    probability: float = 1.0
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one model and role needs, and what one replica of each candidate carries of it inside the SLO.

    `fixed` is an engine's finished answer (reproduction modes): an equality, cut only by pools and policy. Where a pool
    binds a higher `priority` goes first. `active_limit` is how many variants may serve at once (None: any number, the
    router is weighted).
    """

    model: ModelKey
    unit: str
    segments: tuple[Segment, ...]
    per_replica: Mapping[CandidateKey, float]
    fixed: Mapping[ResourceKey, int] | None = None
    priority: int = 0
    active_limit: int | None = None

    @property
    def amount(self) -> float:
        """The whole demand, over all segments, in `unit`."""
        return sum(segment.amount for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A feasible choice for a variant: what a replica of it costs and takes.

    `weight` is the running cost of one replica that the solver minimises: money an hour where every competing
    candidate has a price, else the resource's relative cost, else 1 (fewest replicas). `cost_per_hour` is money
    or None. `order` is the rank in the resource's own list, for settings that choose in order. `start_weight` is what
    one more replica than today costs to start, spread over the time in which a change must pay back. `devices` is
    what a replica takes of each pool, by the pool's name.
    """

    key: CandidateKey
    weight: float
    cost_per_hour: float | None
    start_weight: float = 0.0
    devices: Mapping[str, int] = field(default_factory=dict)
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The smallest and largest replica count a variant may have; `maximum` None is unbounded.

    `ruled_by` names the rule that says the maximum, where it is not the variant's own.
    """

    minimum: int
    maximum: int | None = None
    ruled_by: str = ""

    def most_words(self, replicas: int | None, label: str) -> str:
        """What leaves a variant no more than so many replicas: its own bound, or the rule that says less."""
        return (
            f"{replicas} of {label} by rule {self.ruled_by}" if self.ruled_by else f"maxReplicas {replicas} of {label}"
        )

    def admits(self, replicas: int) -> bool:
        """Whether that many replicas are within the bounds."""
        return self.minimum <= replicas and (self.maximum is None or replicas <= self.maximum)

    def nearest(self, replicas: int) -> int:
        """The number within the bounds that is nearest to one."""
        return max(replicas if self.maximum is None else min(replicas, self.maximum), self.minimum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A countable set of devices: `devices` may be planned, without the reserve and what others hold."""

    name: str
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that some variants may cost together, in the candidates' `weight`."""

    name: str
    variants: frozenset[ResourceKey]
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimit:
    """How many of some variants may change at once: what one pull request may hold."""

    name: str
    variants: frozenset[ResourceKey]
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Two roles of a (whole) model keep their proportion: least <= replicas of `over` / replicas of `under` <= most."""

    model: ModelKey
    over: str
    under: str
    least: float = 0.0
    most: float | None = None

    @property
    def sides(self) -> tuple[ModelKey, ModelKey]:
        """The requirements of `over` and `under`."""
        return replace(self.model, role=self.over), replace(self.model, role=self.under)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The input of the optimizer: all models together.

    `pinned` variants keep their allocation (it serves its model all the same, and the pools count it); `in_order`
    variants take the first of their candidates by `order`, not the cheapest. `current_weights` is the weight of one
    current replica; `current_devices` what one takes of each pool. `ready` counts the replicas that serve now, where
    that is less than `current`: it decides what may be drained at once, not what is aimed at. `touch_weights` is what
    changing a variant costs at all, however little it changes, spread as `start_weight` is.
    """

    requirements: tuple[Requirement, ...]
    candidates: tuple[Candidate, ...]
    current: Mapping[ResourceKey, Allocation]
    current_weights: Mapping[ResourceKey, float]
    bounds: Mapping[ResourceKey, Bounds]
    pinned: Mapping[ResourceKey, Allocation] = field(default_factory=dict)
    in_order: frozenset[ResourceKey] = frozenset()
    pools: tuple[Pool, ...] = ()
    budgets: tuple[Budget, ...] = ()
    change_limits: tuple[ChangeLimit, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    current_devices: Mapping[ResourceKey, Mapping[str, int]] = field(default_factory=dict)
    ready: Mapping[ResourceKey, int] = field(default_factory=dict)
    touch_weights: Mapping[ResourceKey, float] = field(default_factory=dict)
    objective: str = "cost"


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

    `price` is what one more of it would save an hour, in the objective's unit; None where that was not proven.
    """

    name: str
    used: float
    limit: float
    price: float | None = None


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
    empty where nothing shared, and no other variant, stands in the way.
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
    shortage_gap: float | None = None
    """How far what is not served may be from the least possible, as a fraction of it; None where all is served."""
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
