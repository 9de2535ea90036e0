"""What was observed of a target, over the ticks of one shared clock, and by whose rule its replicas are tracked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.metric_targets import Backend, Policy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingRule:
    """In which ways one generation's rule differs from another's.

    The first six are what upstream did, the last five what we mend:

    - `records_corrected`, `groups_record_corrected`: the recommendation windows get the corrected count, of every
      target or of groups only, and refill themselves with what they hold;
    - `down_rate_from_minimum`: the down rate counts from the lowest count of its period, not the highest;
    - `panics_from_zero`: a panic may leave zero, where a rate of anything is nothing;
    - `needs_all_pods_ready`, `first_label_set_only`: one pod that is not ready blinds the whole target, and of a
      metric with labels only the first set is read;
    - `tolerance_per_replica`: the band is around the target of one replica, not around that of one reporting unit;
    - `holds_on_missing`: a metric that cannot be read keeps a count from shrinking;
    - `waits_until_idle`: zero only after the backend's grace period without arrivals;
    - `counters_as_rates`: of a metric that only grows, its increase a second is the load;
    - `keeps_ratio`: roles keep their ratio after rounding, and the windows see what the roles were given.
    """

    name: str
    records_corrected: bool = False
    groups_record_corrected: bool = False
    down_rate_from_minimum: bool = False
    panics_from_zero: bool = True
    needs_all_pods_ready: bool = False
    first_label_set_only: bool = False
    tolerance_per_replica: bool = False
    holds_on_missing: bool = False
    waits_until_idle: bool = False
    counters_as_rates: bool = False
    keeps_ratio: bool = False

    def remembers_start(self, *, is_group: bool) -> bool:
        """Whether the windows refill themselves, so that a replay never forgets the count it started from."""
        return self.records_corrected or (is_group and self.groups_record_corrected)


# `registry.volcano.sh` and v0.1: the first two generations of the resource.
KTHENA_V0_CORRECTED = TrackingRule(
    name="kthena-v0",
    records_corrected=True,
    groups_record_corrected=True,
    down_rate_from_minimum=True,
    panics_from_zero=False,
    needs_all_pods_ready=True,
    first_label_set_only=True,
)
# v0.2 to v0.4: the third.
KTHENA_V0 = replace(KTHENA_V0_CORRECTED, records_corrected=False)
# v1.0: the fourth, as of August 2026.
KTHENA_V1 = TrackingRule(name="kthena-v1", groups_record_corrected=True)
TRACKING = TrackingRule(
    name="tracking",
    tolerance_per_replica=True,
    holds_on_missing=True,
    waits_until_idle=True,
    counters_as_rates=True,
    keeps_ratio=True,
)
