"""Everything that a single decision is told from."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.decision.engines.port import EngineAnswer
from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.projection import Projection
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.identity import ModelKey
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.solutions import Shortfall, Solution
from reconciler.domain.variant_settings import Engine


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
