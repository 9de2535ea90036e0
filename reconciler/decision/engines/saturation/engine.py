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
from reconciler.decision.engines.saturation.past import as_arrivals, past_fullness
from reconciler.decision.engines.saturation.readings import read_model
from reconciler.decision.engines.saturation.stabilizing import stabilize
from reconciler.decision.problem.load_variation import why_not_whole
from reconciler.decision.problem.terms import payback_of
from reconciler.domain.holds import NOT_ASKED, hold_of
from reconciler.domain.measured.loads import Load
from reconciler.domain.saturation_rules import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import Engine
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
    reads_fullness = True
    wants_traces: Callable[[SaturationRules], bool] = _never
    remembers: bool = False

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """As long as it takes: a replica that nobody can judge counts as full, so that each would ask for the next."""
        return math.inf if self.corrects_history else 0.0

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        return Admission(is_admitted=True)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        asked = {EngineQuestion.LOAD, EngineQuestion.REPLICAS}
        asked |= {EngineQuestion.USUAL} if self.remembers else set()
        return asked | {EngineQuestion.TRACES} if has_learned(members) or self.wants_traces(rules) else asked

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        observation = snapshot.observed.observations.get(variant.key)
        if observation is None:
            return Lacks(metrics=NOT_ASKED)
        return Lacks(metrics=hold_of(observation.absence) if observation.absence is not None else None)

    def forgets(self, snapshot: Snapshot, members: Sequence[Variant], payback_s: float) -> str:
        """Nobody remembers replicas of a model that had none; who asked for no history needs none."""
        was_asked = any(member.key in snapshot.observed.traces for member in members)
        if not was_asked or not any(member.current.replicas for member in members):
            return ""
        what = "how full replicas were"
        lost = snapshot.observed.lost.get(members[0].model.cluster)
        if lost is not None:
            return f"{what} before is not known: {lost.reason}"
        fullness = past_fullness(snapshot, members, payback_s)
        if fullness is None:
            return f"{what} before is not known: no series tells it"
        is_known = as_arrivals([1.0 if known else math.nan for known in fullness.is_known], fullness)
        return why_not_whole(is_known, snapshot.now_s, payback_s, what)

    def size(self, given: SizingInput, models: Models) -> FullnessAnswer:
        """Upstream's modes decide a whole cluster at once."""
        clusters: dict[str, list[ModelReadings]] = {}
        for model, members in sorted(models.items()):
            variants = [state.variant for state in members]
            readings = read_model(given.snapshot, model, variants, corrects_history=self.corrects_history)
            clusters.setdefault(model.cluster, []).append(readings)
        answers = {
            readings.model: self._stabilized(given, models, readings, answer)
            for asked in clusters.values()
            for readings, answer in zip(asked, self.size_cluster(given.snapshot, asked), strict=True)
        }
        return FullnessAnswer.of(given, models, answers)

    def _stabilized(
        self, given: SizingInput, models: Models, readings: ModelReadings, answer: SaturationAnswer
    ) -> SaturationAnswer:
        if not self.remembers:
            return answer
        members = [state.variant for state in models[readings.model]]
        return stabilize(given.snapshot, members, readings, answer, payback_of(members))


def _size_each(_snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    return [size_saturation(readings) for readings in models]


SATURATION = SaturationEngine(name=Engine.SATURATION, size_cluster=_size_each, corrects_history=True, remembers=True)
