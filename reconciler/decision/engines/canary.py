"""The engine of canaries: a finished answer, one replica or none, as `decision.canaries` orders it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from reconciler.decision.engines.port import (
    Admission,
    Basis,
    EngineAnswer,
    EngineQuestion,
    Lacks,
    Models,
    SizingEngine,
    SizingInput,
)
from reconciler.decision.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load
from reconciler.domain.plan import Step
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.settings import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import Engine
from reconciler.snapshot.canaries import is_canary


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryEngine(SizingEngine):
    """Keeps each canary as it is, but for what is ordered; what it serves counts for nobody's need."""

    name = Engine.CANARY
    basis = Basis.TARGETS

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        if all(map(is_canary, members)):
            return Admission(is_admitted=True, reason=f"a canary on {members[0].current.accelerator}")
        return Admission(is_admitted=False)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        return (EngineQuestion.LOAD,)

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        return Lacks()

    def size(self, given: SizingInput, models: Models) -> "CanaryAnswer":
        return CanaryAnswer(
            snapshot=given.snapshot,
            problems={model: _problem(given.snapshot, model, members) for model, members in models.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryAnswer(EngineAnswer):
    """What is ordered of each canary."""

    snapshot: Snapshot
    problems: Mapping[ModelKey, ModelProblem]

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterable[Step]:
        order = self.snapshot.canaries.get(state.variant.key)
        return () if order is None else [Step(stage="canary", before="", after="", reason=each) for each in order.words]

    def why(self, variant: Variant, desired: Allocation) -> str:
        order, replicas = self.snapshot.canaries.get(variant.key), variant.current.replicas
        if order is not None:
            return order.words[0]
        if not replicas:
            return f"it has tried {variant.current.accelerator}: delete its file to have it tried again"
        measured = self.snapshot.tried.get(variant.key)
        hours = 0 if measured is None else measured.hours
        shift = "" if measured is None or not hours else f": gaps {measured.shift:.2f} times as long as expected"
        shift += ", but hours differ too much to be believed" if measured is not None and measured.is_unsettled else ""
        whose = "" if replicas == 1 else f"; a person gave it {replicas} replicas, so it is not taken back"
        return f"it tries {variant.current.accelerator}, {hours} hours with load were measured{shift}{whose}"


def _problem(snapshot: Snapshot, model: ModelKey, members: Sequence[VariantState]) -> ModelProblem:
    fixed: dict[ResourceKey, int] = {}
    for state in members:
        if state.is_free:
            order = snapshot.canaries.get(state.variant.key)
            fixed[state.variant.key] = state.variant.current.replicas if order is None else order.replicas
    accelerators = {state.variant.key: state.variant.current.accelerator for state in members}
    requirement = Requirement(
        model=model,
        unit="replicas",
        segments=(Segment(amount=0.0),),  # nobody needs it, and what it carries is not known
        per_replica={key.on(accelerators[key]): 1.0 for key in fixed},
        fixed=fixed,
    )
    return ModelProblem(requirements=[requirement])


CANARIES = CanaryEngine()
