"""What a decision is told from, with what each variant is expected to do before and after: how fast, at what cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.decision.engines.port import EngineAnswer
from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.problem.needs import Allocations, Needs
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.identity import CandidateKey, ModelKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Performance
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.solutions import Shortfall, Solution
from reconciler.domain.variant_settings import Engine


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


def _key(variant: Variant, allocation: Allocation) -> CandidateKey:
    return variant.key.on(allocation.accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The snapshot, what was asked of the optimizer and answered, and what is expected before and after."""

    situation: Situation
    answers: Mapping[Engine, EngineAnswer]
    variations: Mapping[ModelKey, LoadVariation]
    solution: Solution
    staged: StagedPlan
    before: Projection
    after: Projection
    shortfalls: Mapping[ModelKey, Shortfall]

    @property
    def snapshot(self) -> Snapshot:
        """What is decided from."""
        return self.situation.snapshot

    @property
    def formulated(self) -> FormulatedProblem:
        """What the optimizer was asked."""
        return self.situation.formulated
