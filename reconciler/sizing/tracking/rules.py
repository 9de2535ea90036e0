"""The rule as each generation of the resource had it, and as we apply it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
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
KTHENA_V0_CORRECTED = Rule(
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
KTHENA_V1 = Rule(name="kthena-v1", groups_record_corrected=True)
TRACKING = Rule(
    name="tracking",
    tolerance_per_replica=True,
    holds_on_missing=True,
    waits_until_idle=True,
    counters_as_rates=True,
    keeps_ratio=True,
)
