"""The engine `saturation`: replicas judged by how full they are, where nobody states a profile or a class."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from reconciler.decision.engines.port import (
    Admission,
    EngineQuestion,
    Lacks,
    Models,
    SizingEngine,
    SizingInput,
    has_learned,
)
from reconciler.decision.engines.saturation.answer import FullnessAnswer
from reconciler.decision.engines.saturation.readings import read_model
from reconciler.domain.declared.saturation_settings import SaturationRules
from reconciler.domain.holds import NOT_ASKED, hold_of
from reconciler.domain.measured.loads import Load
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import Engine
from reconciler.domain.variants import Variant
from reconciler.sizing.saturation.answer import ModelReadings, SaturationAnswer
from reconciler.sizing.saturation.engine import size_saturation

SizeCluster = Callable[[Snapshot, Sequence[ModelReadings]], Sequence[SaturationAnswer]]
"""What decides all models of one cluster together, in their order."""


def _never(_rules: SaturationRules) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationEngine(SizingEngine):
    """One rule of the saturation family: ours, or one of upstream's.

    `corrects_history` reads what replicas did without upstream's flaws; `wants_traces` says whether the rule looks at
    more of their past than every rule does.
    """

    name: Engine
    size_cluster: SizeCluster
    corrects_history: bool = False
    wants_traces: Callable[[SaturationRules], bool] = _never

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """As long as it takes: a replica that nobody can judge counts as full, so that each would ask for the next."""
        return math.inf if self.corrects_history else 0.0

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        return Admission(is_admitted=True)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        asked = {EngineQuestion.LOAD, EngineQuestion.REPLICAS}
        return asked | {EngineQuestion.TRACES} if has_learned(members) or self.wants_traces(rules) else asked

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        observation = snapshot.observed.observations.get(variant.key)
        if observation is None:
            return Lacks(metrics=NOT_ASKED)
        return Lacks(metrics=hold_of(observation.absence) if observation.absence is not None else None)

    def size(self, given: SizingInput, models: Models) -> FullnessAnswer:
        """Upstream's modes decide a whole cluster at once."""
        clusters: dict[str, list[ModelReadings]] = {}
        for model, members in sorted(models.items()):
            variants = [state.variant for state in members]
            readings = read_model(given.snapshot, model, variants, corrects_history=self.corrects_history)
            clusters.setdefault(model.cluster, []).append(readings)
        answers = {
            readings.model: answer
            for asked in clusters.values()
            for readings, answer in zip(asked, self.size_cluster(given.snapshot, asked), strict=True)
        }
        return FullnessAnswer.of(given, models, answers)


def _size_each(_snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    return [size_saturation(readings) for readings in models]


SATURATION = SaturationEngine(name=Engine.SATURATION, size_cluster=_size_each, corrects_history=True)
