"""What is known of a model's variants before anything is measured: replicas, bounds, cost, launch settings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import Role
from reconciler.domain.workloads import LaunchSettings

# What a variant costs when its author says nothing (wva.md 1.1).
DEFAULT_COST = 10.0
# No fleet comes near: a larger count is a broken number, and sums of such counts would still be exact.
MOST_REPLICAS = 1_000_000
_MOST_TOKENS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCapacity:
    """What a replica of a variant held when it was last seen.

    `capacity_tokens` is its effective capacity, `total_kv_tokens` its whole KV cache. Without a live record only the
    launch settings speak.
    """

    capacity_tokens: float | None = None
    total_kv_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFacts:
    """A variant as Git and the cluster know it; counts are replicas (groups, where a replica is a group of pods).

    `desired_replicas` is the previous answer (0: none), `cost` that of one replica, in any unit that ranks the
    variants of one model. `max_replicas` None is unbounded.
    """

    key: ResourceKey
    accelerator: str = ""
    role: Role = Role.BOTH
    cost: float = DEFAULT_COST
    current_replicas: int = 0
    desired_replicas: int = 0
    pending_replicas: int = 0
    min_replicas: int | None = None
    max_replicas: int | None = None
    devices_per_replica: int = 1
    launch: LaunchSettings | None = None
    stored: StoredCapacity | None = None

    @property
    def name(self) -> str:
        """What ties are broken by."""
        return self.key.name

    @property
    def ready_replicas(self) -> int:
        """Replicas that serve already."""
        return max(self.current_replicas - self.pending_replicas, 0)

    @property
    def devices(self) -> int:
        """Devices that one replica takes: at least one."""
        return max(self.devices_per_replica, 1)

    @property
    def floor(self) -> int:
        """The fewest replicas allowed; 0 when nothing is said."""
        return max(self.min_replicas or 0, 0)

    def clamp(self, replicas: int) -> int:
        """That many replicas, within the bounds; a maximum of 0 is none."""
        raised = max(replicas, self.floor)
        return min(raised, self.max_replicas) if self.max_replicas else raised

    def headroom(self, replicas: int) -> float:
        """How many replicas may be added to that many: infinite without a maximum."""
        return max(self.max_replicas - replicas, 0) if self.max_replicas else math.inf


def by_role(variants: Iterable[VariantFacts]) -> Mapping[Role, tuple[VariantFacts, ...]]:
    """Return the variants of each role that is played, each group sorted by key."""
    ordered = sorted(variants, key=lambda variant: variant.key)
    return {role: group for role in sorted(Role) if (group := tuple(each for each in ordered if each.role is role))}


def obstacle_of(variant: VariantFacts) -> str:
    """Return in words why a variant's own numbers cannot be used; empty when they can."""
    counts = {
        "current replicas": variant.current_replicas,
        "desired replicas": variant.desired_replicas,
        "pending replicas": variant.pending_replicas,
        "minReplicas": variant.min_replicas or 0,
        "maxReplicas": variant.max_replicas or 0,
        "devices per replica": variant.devices_per_replica,
    }
    for name, count in counts.items():
        if not 0 <= count <= MOST_REPLICAS:
            return f"{name} is {count}, expected 0 to {MOST_REPLICAS}"
    if variant.launch is not None and not all(0 <= size <= _MOST_TOKENS for size in variant.launch.sizes):
        return "a launch setting is negative or too large to be counted"
    if not (math.isfinite(variant.cost) and variant.cost >= 0):
        return f"cost is {variant.cost}, expected a number of 0 or more"
    if variant.max_replicas and variant.floor > variant.max_replicas:
        return f"minReplicas {variant.floor} is above maxReplicas {variant.max_replicas}"
    return ""
