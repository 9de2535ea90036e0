"""What the engines beside the queue answer, all models of a plan together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.saturated import answer_saturation
from reconciler.decision.standing import Standing
from reconciler.decision.tracked import TrackedAnswer, track_targets
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.snapshot import Snapshot
from reconciler.sizing.saturation import SaturationAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Of saturation by model, of metric targets by the workload that they scale."""

    saturation: Mapping[ModelKey, SaturationAnswer] = field(default_factory=dict)
    tracking: Mapping[ResourceKey, TrackedAnswer] = field(default_factory=dict)


def answer(snapshot: Snapshot, standings: Sequence[Standing]) -> Answers:
    """The answer for every model that is not sized by a queue."""
    return Answers(saturation=answer_saturation(snapshot, standings), tracking=_answer_tracking(snapshot, standings))


def _answer_tracking(snapshot: Snapshot, standings: Sequence[Standing]) -> dict[ResourceKey, TrackedAnswer]:
    """One replay an engine: policies are followed together, as their controller does."""
    engines: dict[ResourceKey, Engine] = {
        standing.variant.tracked_by: standing.engine
        for standing in standings
        if standing.variant.tracked_by is not None and standing.engine.is_tracking
    }
    answers: dict[ResourceKey, TrackedAnswer] = {}
    for engine in sorted(set(engines.values())):
        targets = [target for target in snapshot.tracked if engines.get(target.key) is engine]
        answers |= track_targets(targets, snapshot.histories, snapshot.now_s, engine)
    return answers
