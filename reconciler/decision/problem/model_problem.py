"""One model's part of the problem, as its engine states it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.problem.demands import ModelDemand
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import Candidate, Requirement
from reconciler.sizing.saturation import Filling


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProblem:
    """What a model needs, one requirement a role, what may be chosen for it, and what is left out.

    `holds` say of variants without a candidate why; `notes` of options that were not considered. `partial` says of
    variants whose model was not wholly seen what is missing: none of them may shrink. `demand` is of a model that is
    sized by a queue, `fillings` of requirements that ask for more than their replicas work on.
    """

    requirements: Sequence[Requirement]
    candidates: Sequence[Candidate] = ()
    current_weights: Mapping[ResourceKey, float] = field(default_factory=dict)
    holds: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    notes: Mapping[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    demand: ModelDemand | None = None
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)
