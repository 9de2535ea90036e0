"""Everything that a single decision is told from."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.decision.engines.port import EngineAnswer
from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.projection import Projection
from reconciler.decision.staging.proposals import StagedPlan
from reconciler.domain.engines import Engine
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.solutions import Shortfall, Solution


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The snapshot, what was asked of the optimizer and answered, and what is expected before and after."""

    snapshot: Snapshot
    answers: Mapping[Engine, EngineAnswer]
    formulated: FormulatedProblem
    variations: Mapping[ModelKey, LoadVariation]
    solution: Solution
    staged: StagedPlan
    before: Projection
    after: Projection
    shortfalls: Mapping[ModelKey, Shortfall]
    held: Mapping[ResourceKey, Hold]
    """Why a variant that was free stays as it is: nothing could be chosen for it, or rules contradict each other."""
