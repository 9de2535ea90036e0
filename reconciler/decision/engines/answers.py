"""What the engines beside the queue answer, all models of a plan together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.engines.saturated import answer_saturation
from reconciler.decision.engines.tracked import TrackedAnswer, track_targets
from reconciler.decision.variant_states import VariantState
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.snapshot import Snapshot
from reconciler.sizing.saturation import SaturationAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Of saturation by model, of metric targets by the workload that they scale."""

    saturation: Mapping[ModelKey, SaturationAnswer] = field(default_factory=dict)
    tracking: Mapping[ResourceKey, TrackedAnswer] = field(default_factory=dict)


def answer(snapshot: Snapshot, states: Sequence[VariantState]) -> Answers:
    """The answer for every model that is not sized by a queue."""
    return Answers(saturation=answer_saturation(snapshot, states), tracking=_answer_tracking(snapshot, states))


def _answer_tracking(snapshot: Snapshot, states: Sequence[VariantState]) -> dict[ResourceKey, TrackedAnswer]:
    """One replay an engine: policies are followed together, as their controller does."""
    engines: dict[ResourceKey, Engine] = {
        state.variant.tracked_by: state.engine
        for state in states
        if state.variant.tracked_by is not None and state.engine.is_tracking
    }
    answers: dict[ResourceKey, TrackedAnswer] = {}
    for engine in sorted(set(engines.values())):
        targets = [target for target in snapshot.tracked if engines.get(target.key) is engine]
        answers |= track_targets(targets, snapshot.histories, snapshot.now_s, engine)
    return answers
