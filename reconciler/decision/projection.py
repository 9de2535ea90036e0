"""What each variant is expected to do before and after a change: what it carries, how fast, at what cost."""

from collections.abc import Iterable

from reconciler.decision.engines.port import EngineAnswer
from reconciler.decision.problem.needs import Allocations, Needs
from reconciler.decision.variant_states import is_counted
from reconciler.domain.accelerators import Allocation
from reconciler.domain.identity import CandidateKey, ModelKey
from reconciler.domain.measured.loads import Performance
from reconciler.domain.variants import Variant


class Projection:
    """The expected performance of every variant under one set of allocations of all of them."""

    def __init__(self, needs: Needs, answers: Iterable[EngineAnswer], allocations: Allocations) -> None:
        self._needs = needs
        self._allocations = allocations
        self._shares = {key: share for model in needs.requirements for key, share in self._replica_shares(model)}
        self._performance: dict[CandidateKey, Performance] = {}
        for answer in answers:
            self._performance |= answer.expect(self._shares.items())

    def demand(self, variant: Variant) -> float | None:
        """The variant's share of what is needed, by what its replicas carry; None when it is unknown."""
        allocation = self._allocations[variant.key]
        share = self._shares.get(_key(variant, allocation))
        return None if share is None else share * allocation.replicas

    def capacity(self, variant: Variant) -> float | None:
        """What the variant's replicas carry together inside its SLO; None when it is unknown."""
        return self._needs.carried(variant.key, self._allocations[variant.key])

    def performance(self, variant: Variant) -> Performance | None:
        """The expected means at the variant's share of the demand; None when they are unknown."""
        allocation = self._allocations[variant.key]
        return self._performance.get(_key(variant, allocation)) if allocation.replicas else None

    def _replica_shares(self, model: ModelKey) -> Iterable[tuple[CandidateKey, float]]:
        """A replica's share of what is needed: by what it carries, or evenly where nothing carries anything."""
        requirement, variants = self._needs.requirements[model], self._needs.variants_of[model]
        demand, whole = self._needs.demand(model), self._needs.total(model, self._allocations)
        replicas = sum(self._allocations[variant].replicas for variant in variants)
        for variant in variants:
            key = variant.on(self._allocations[variant].accelerator)
            each = requirement.per_replica.get(key)
            if each is None or not replicas:
                continue
            yield key, demand * each / whole if whole > 0 else demand / replicas


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
    return variant.key.on(allocation.accelerator)
