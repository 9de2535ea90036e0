"""What each variant is expected to do before and after a change: capacity, latency against targets, cost."""

import math
from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.capacities import Capacities, wait_targets
from reconciler.decision.problems import ModelDemand
from reconciler.decision.standing import Standing, is_counted
from reconciler.domain.allocations import Allocation, Performance
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import SloOutlook
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.service_classes import ServiceClass, SloTarget
from reconciler.domain.variants import Variant

Allocations = Mapping[ResourceKey, Allocation]


class Outlook:
    """The expected performance of every variant under one set of allocations of all of them."""

    def __init__(
        self,
        standings: Sequence[Standing],
        capacities: Capacities,
        demands: Mapping[ModelKey, ModelDemand],
        allocations: Allocations,
    ) -> None:
        self._capacities = capacities
        self._allocations = allocations
        carried = _carried_by_model(standings, capacities, allocations)
        replicas = _replicas_by_model(standings, allocations)
        self._rates = dict(_replica_rates(standings, capacities, demands, allocations, carried, replicas))
        self._performance = capacities.expect(self._rates.items())

    def demand_per_s(self, variant: Variant) -> float | None:
        """The variant's share of its model's demand, by what its replicas carry; None when it is unknown."""
        allocation = self._allocations[variant.key]
        rate = self._rates.get(_key(variant, allocation))
        return None if rate is None else rate * allocation.replicas

    def capacity_per_s(self, variant: Variant) -> float | None:
        """What the variant's replicas carry together inside its SLO; None when it is unknown."""
        allocation = self._allocations[variant.key]
        capacity = self._capacities.of.get(_key(variant, allocation))
        return None if capacity is None else capacity.rate_per_s * allocation.replicas

    def performance(self, variant: Variant) -> Performance | None:
        """The expected means at the variant's share of the demand; None when they are unknown."""
        allocation = self._allocations[variant.key]
        return self._performance.get(_key(variant, allocation)) if allocation.replicas else None


def slo_outlooks(
    service_class: ServiceClass, before: Performance | None, after: Performance | None
) -> tuple[SloOutlook, ...]:
    """Each target of the class beside what is expected, in the target's own statistic."""
    rows = [("wait", target, _wait(before, target), _wait(after, target)) for target in wait_targets(service_class)]
    if service_class.itl is not None:
        rows.append(("itl", service_class.itl, _itl(before), _itl(after)))
    return tuple(
        SloOutlook(name=name, statistic=target.statistic, target_s=target.limit_s, before_s=old, after_s=new)
        for name, target, old, new in rows
    )


def cost_of(variant: Variant, allocation: Allocation) -> float | None:
    """What an allocation of the variant costs an hour; None without a price, or while nobody knows what runs."""
    if not is_counted(variant):
        return None
    if not allocation.replicas:
        return 0.0
    if allocation.accelerator == variant.current.accelerator:
        price = variant.current_cost_per_hour
    else:
        prices = (option.cost_per_hour for option in variant.options if option.accelerator == allocation.accelerator)
        price = next(prices, None)
    return None if price is None else price * allocation.replicas


def _key(variant: Variant, allocation: Allocation) -> CandidateKey:
    return CandidateKey(variant=variant.key, accelerator=allocation.accelerator)


def _carried_by_model(
    standings: Iterable[Standing], capacities: Capacities, allocations: Allocations
) -> dict[ModelKey, float]:
    carried: dict[ModelKey, float] = {}
    for standing in standings:
        allocation = allocations[standing.variant.key]
        capacity = capacities.of.get(_key(standing.variant, allocation))
        amount = capacity.rate_per_s * allocation.replicas if capacity is not None else 0.0
        carried[standing.variant.model] = carried.get(standing.variant.model, 0.0) + amount
    return carried


def _replicas_by_model(standings: Iterable[Standing], allocations: Allocations) -> dict[ModelKey, int]:
    replicas: dict[ModelKey, int] = {}
    for standing in standings:
        model = standing.variant.model
        replicas[model] = replicas.get(model, 0) + allocations[standing.variant.key].replicas
    return replicas


def _replica_rates(
    standings: Iterable[Standing],
    capacities: Capacities,
    demands: Mapping[ModelKey, ModelDemand],
    allocations: Allocations,
    carried: Mapping[ModelKey, float],
    replicas: Mapping[ModelKey, int],
) -> Iterable[tuple[CandidateKey, float]]:
    """A replica's share of its model's demand: by what it carries, or evenly where nothing carries anything."""
    for standing in standings:
        model = standing.variant.model
        key = _key(standing.variant, allocations[standing.variant.key])
        capacity, demand = capacities.of.get(key), demands.get(model)
        if capacity is None or demand is None or not replicas[model]:
            continue
        if carried[model] > 0:
            yield key, demand.rate_per_s * capacity.rate_per_s / carried[model]
        else:
            yield key, demand.rate_per_s / replicas[model]


def _wait(performance: Performance | None, target: SloTarget) -> float | None:
    """The mean wait as the target's percentile, by the exponential tail the target was converted with."""
    if performance is None or performance.wait_s is None:
        return None
    if target.percentile is None:
        return performance.wait_s
    return performance.wait_s * -math.log1p(-target.percentile / 100)


def _itl(performance: Performance | None) -> float | None:
    return None if performance is None else performance.itl_s
