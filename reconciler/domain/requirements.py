"""The seam: what sizing engines ask for, in whatever coin, and what the optimizer is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ModelKey, ResourceKey


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CandidateKey:
    """A variant on an accelerator: one thing that can be chosen."""

    variant: ResourceKey
    accelerator: str


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

    `fixed` is an engine's finished answer (reproduction modes): an equality, cut only by pools and policy.
    """

    model: ModelKey
    unit: str
    segments: tuple[Segment, ...]
    per_replica: Mapping[CandidateKey, float]
    fixed: Mapping[ResourceKey, int] | None = None

    @property
    def amount(self) -> float:
        """The whole demand, over all segments, in `unit`."""
        return sum(segment.amount for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A feasible choice for a variant: what a replica of it costs and takes.

    `weight` is the running cost of one replica that the solver minimises: money an hour where every competing
    candidate has a price, else the resource's relative cost, else 1 (fewest replicas). `cost_per_hour` is money
    or None. `order` is the rank in the resource's own list, for settings that choose in order.
    """

    key: CandidateKey
    weight: float
    cost_per_hour: float | None
    devices: Mapping[str, int] = field(default_factory=dict)
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The smallest and largest replica count a variant may have; `maximum` None is unbounded."""

    minimum: int
    maximum: int | None = None

    def admits(self, replicas: int) -> bool:
        """Whether that many replicas are within the bounds."""
        return self.minimum <= replicas and (self.maximum is None or replicas <= self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A countable set of devices of one type that exists in a cluster."""

    cluster: str
    name: str
    device: str
    devices: int
    reserve: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Everything the optimizer is told, about all models together.

    `pinned` variants keep their allocation (it serves its model all the same); `in_order` variants take the first
    of their candidates by `order`, not the cheapest. `current_weights` is the weight of one current replica.
    """

    requirements: tuple[Requirement, ...]
    candidates: tuple[Candidate, ...]
    current: Mapping[ResourceKey, Allocation]
    current_weights: Mapping[ResourceKey, float]
    bounds: Mapping[ResourceKey, Bounds]
    pinned: Mapping[ResourceKey, Allocation] = field(default_factory=dict)
    in_order: frozenset[ResourceKey] = frozenset()
    pools: tuple[Pool, ...] = ()
    objective: str = "cost"
