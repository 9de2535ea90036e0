"""The engine `tracking`: replicas as a policy's metric targets ask for them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decision.engines.port import (
    Admission,
    EngineAnswer,
    EngineQuestion,
    Lacks,
    Models,
    SizingEngine,
    SizingInput,
)
from reconciler.decision.engines.tracking.following import TrackedAnswer, track_targets
from reconciler.decision.problem.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.variant_states import VariantState
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Load
from reconciler.domain.metric_targets import Generation
from reconciler.domain.plan import Step
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.saturation_rules import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import Engine
from reconciler.sizing.tracking.history import TRACKING as OUR_RULE
from reconciler.sizing.tracking.history import TrackingRule


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingEngine(SizingEngine):
    """One way to follow metric targets: our loop, or that of the releases that read a policy's generation."""

    name: Engine
    rule_of: Callable[[Generation], TrackingRule]

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        if all(member.tracked_by is not None for member in members):
            return Admission(is_admitted=True, reason=f"metric targets of {members[0].tracked_by}")
        return Admission(is_admitted=False)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        """Metric targets have a history of their own."""
        return ()

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        if variant.tracked_by is not None:
            return Lacks()
        words = f"{self.name} needs metric targets, and no policy gives any for it"
        return Lacks(means=Hold(kind=HoldKind.METRIC_TARGETS_MISSING, words=words))

    def size(self, given: SizingInput, models: Models) -> "TrackingAnswer":
        """Policies are followed together, as their controller does."""
        snapshot = given.snapshot
        followed = {state.variant.tracked_by for members in models.values() for state in members}
        targets = [target for target in snapshot.tracked if target.key in followed]
        answers = track_targets(targets, snapshot.histories, snapshot.now_s, self.rule_of)
        return TrackingAnswer(
            answers=answers,
            problems={model: _problem(model, members, answers) for model, members in models.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingAnswer(EngineAnswer):
    """What metric targets ask of each workload, and of the models that they scale."""

    answers: Mapping[ResourceKey, TrackedAnswer]
    problems: Mapping[ModelKey, ModelProblem]

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterable[Step]:
        """From votes to a count, as the loop of its policy took it; what slowed the answer is among them."""
        answer = self.answers.get(state.variant.key)
        return () if answer is None else answer.steps

    def why(self, variant: Variant, desired: Allocation) -> str:
        answer = self.answers[variant.key]
        return "; ".join(answer.reasons) or f"as its metric targets ask, by {answer.rule}"

    def figures(self, variant: Variant) -> Iterable[Figure]:
        answer = self.answers.get(variant.key)
        return () if answer is None else answer.figures


def _problem(
    model: ModelKey, members: Iterable[VariantState], answers: Mapping[ResourceKey, TrackedAnswer]
) -> ModelProblem:
    """What metric targets ask for is a finished answer; a workload that they cannot judge stays as it is."""
    fixed: dict[CandidateKey, int] = {}
    holds: dict[ResourceKey, Hold] = {}
    notes: dict[ResourceKey, tuple[str, ...]] = {}
    for variant in (state.variant for state in members if state.is_free):
        answer = answers.get(variant.key)
        if answer is None or answer.replicas is None:
            reasons = answer.reasons if answer is not None else ()
            words = "; ".join(reasons) or "its metric targets were not followed"
            holds[variant.key] = Hold(kind=HoldKind.METRIC_TARGETS_UNDECIDED, words=words)
        else:
            key = variant.key.on(variant.current.accelerator)
            fixed[key] = answer.replicas
            notes[variant.key] = answer.notes
    requirement = Requirement(
        model=model,
        unit="replicas",
        segments=(Segment(amount=float(sum(fixed.values()))),),
        per_replica=dict.fromkeys(fixed, 1.0),
        fixed={key.variant: replicas for key, replicas in fixed.items()},
    )
    return ModelProblem(requirements=[requirement], holds=holds, notes=notes)


def _our_rule(_generation: Generation) -> TrackingRule:
    return OUR_RULE


TRACKING = TrackingEngine(name=Engine.TRACKING, rule_of=_our_rule)
