"""The seam: what sizing engines ask for, in whatever coin, and what the optimizer is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation


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
    """Everything the optimizer is told, about all models together.

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
