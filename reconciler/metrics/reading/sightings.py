"""Which replicas reported lately, and which variant each belongs to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.attribution import Attribution
from reconciler.metrics.reading.readings import MetricReadings, ObjectName, ReplicaSeries, Served

STALE_AFTER_S = 300.0
"""Older samples are stale: Prometheus itself drops a silent series after 5 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattributedPods:
    """How many of the pods that report a model belong to no variant we know."""

    unattributed: int
    pods: int

    def __str__(self) -> str:
        percent = 100 * self.unattributed / self.pods
        return f"{self.unattributed} of {self.pods} pods ({percent:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """`series_of` each variant, `reporting` now and fresh, and the `shares` of models with unattributed pods.

    Under the empty name is the share of pods that report no model and may be anybody's; `unnamed` are the variants
    with replicas of that sort. `frozen` are scraped and stand still, which is as good as silent.
    """

    series_of: Mapping[ResourceKey, tuple[ReplicaSeries, ...]]
    reporting: frozenset[ReplicaSeries]
    shares: Mapping[Served, UnattributedPods]
    unnamed: frozenset[ResourceKey] = frozenset()
    frozen: frozenset[ReplicaSeries] = frozenset()


def sight(readings: MetricReadings, attribution: Attribution, now_s: float) -> Sightings:
    """Every series of the last hour, each attributed once."""
    last_seen = readings.of_pods(Name.LAST_SEEN)
    running = readings.of_pods(Name.RUNNING)
    fresh = frozenset(series for series in running if is_fresh(last_seen.get(series, 0.0), now_s))
    frozen = frozenset(series for series in fresh if _is_frozen(series, readings))
    reporting = fresh - frozen
    series_of: dict[ResourceKey, list[ReplicaSeries]] = {}
    strangers: set[ReplicaSeries] = set()
    for series in sorted({*last_seen, *running, *readings.of_pods(Name.COMPLETIONS)}):
        variant = attribution.variant_of(series)
        if variant is not None:
            series_of.setdefault(variant, []).append(series)
        elif series.model or not attribution.is_elsewhere(series):
            strangers.add(series)
    return Sightings(
        series_of={variant: tuple(found) for variant, found in series_of.items()},
        reporting=reporting,
        shares=_shares(reporting, strangers),
        unnamed=frozenset(variant for variant, found in series_of.items() if not readings.renamed.isdisjoint(found)),
        frozen=frozen,
    )


def _is_frozen(series: ReplicaSeries, readings: MetricReadings) -> bool:
    """Whether requests run in a replica, and for a whole window none came, none went and no token was made."""
    if readings.of_pods(Name.CHANGES).get(series) != 0 or not readings.of_pods(Name.RUNNING)[series] > 0:
        return False
    is_decoding = not math.isnan(readings.of_pods(Name.ITL).get(series, math.nan))
    return not is_decoding and readings.of_pods(Name.COMPLETIONS).get(series, 0.0) == 0


def is_fresh(seen_s: float, now_s: float) -> bool:
    """Whether a sample of `seen_s` is recent; one from the future comes of a wrong clock and is not."""
    return abs(now_s - seen_s) <= STALE_AFTER_S


def pods_in(series: frozenset[ReplicaSeries] | set[ReplicaSeries]) -> dict[Served, set[ObjectName]]:
    """The pods behind `series`, by the model they report."""
    pods: dict[Served, set[ObjectName]] = {}
    for one in series:
        pods.setdefault(Served(one.namespace, one.model), set()).add(ObjectName(one.namespace, one.pod))
    return pods


def _shares(reporting: frozenset[ReplicaSeries], strangers: set[ReplicaSeries]) -> dict[Served, UnattributedPods]:
    everyone = pods_in(reporting)
    unknown = pods_in(reporting & strangers)
    return {
        served: UnattributedPods(unattributed=len(pods), pods=len(everyone[served])) for served, pods in unknown.items()
    }
