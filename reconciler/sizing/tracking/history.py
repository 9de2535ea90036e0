"""What was observed of a target, over the ticks of one shared clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.declared.tracking import Backend, Policy
from reconciler.sizing.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHistory:
    """One metric read from pods, arrays of shape (ticks, backends), NaN where unknown.

    `total` is the sum over the `reporting` ready pods; `missing` ready pods did not report it.
    """

    total: Floats
    reporting: Floats
    missing: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Arrays of shape (ticks, backends), NaN where unknown: a tick without an answer stays in its place.

    `replicas` are those set at the time, `unready` those not ready. `pods` and `external` hold metrics by the name of
    their target; an external value is a total over the backend, and of a metric in both the external one counts.
    `arrivals_per_s`, shape (ticks,), tells an idle target; without it one is idle while every metric is zero.
    """

    replicas: Floats
    unready: Floats
    pods: Mapping[str, PodHistory] = field(default_factory=dict)
    external: Mapping[str, Floats] = field(default_factory=dict)
    arrivals_per_s: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one policy scales: a single backend, or a group of them that serve one load."""

    name: str
    policy: Policy
    backends: tuple[Backend, ...]
    history: History
    cost_expansion_percent: int = 200

    @property
    def minimum(self) -> int:
        """The fewest replicas of all backends together."""
        return sum(backend.min_replicas for backend in self.backends)

    @property
    def maximum(self) -> int:
        """The most replicas of all backends together."""
        return sum(backend.max_replicas for backend in self.backends)

    @property
    def is_group(self) -> bool:
        """Whether replicas are split among several backends."""
        return len(self.backends) > 1

    @property
    def is_fixed(self) -> bool:
        """Whether its bounds leave one count, which needs no metric."""
        return self.minimum == self.maximum > 0

    @property
    def grace_s(self) -> float:
        """How long nothing may have arrived before the last replica goes: the longest wish of any backend."""
        return max((backend.scale_to_zero_grace_s or 0.0 for backend in self.backends), default=0.0)
