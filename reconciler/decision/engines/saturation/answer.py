"""What saturation says of its models, as parts of the problem, steps and figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decision.engines.port import EngineAnswer, Models, SizingInput
from reconciler.decision.problem.devices import Devices
from reconciler.decision.problem.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.problem.terms import current_weight
from reconciler.decision.variant_states import VariantState, load_partial
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.replicas import ReplicaMetrics
from reconciler.domain.plan import Step
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import Candidate
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.metrics.quantities import Name
from reconciler.sizing.saturation.answer import SaturationAnswer

_REPLICA_FIELDS = (
    ("KV cache usage", "kv_cache_usage", "fraction", (Name.KV_CACHE_USAGE,)),
    ("waiting", "num_waiting", "requests", (Name.NUM_WAITING,)),
    ("KV cache", "kv_tokens", "tokens", (Name.KV_TOKENS,)),
    ("prefix hits", "prefix_hit_rate", "fraction", (Name.PREFIX_HIT_RATE,)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullnessAnswer(EngineAnswer):
    """The answers of the saturation family by model, beside what they were read from."""

    snapshot: Snapshot
    answers: Mapping[ModelKey, SaturationAnswer]
    problems: Mapping[ModelKey, ModelProblem]

    @classmethod
    def of(
        cls,
        given: SizingInput,
        models: Models,
        answers: Mapping[ModelKey, SaturationAnswer],
    ) -> "FullnessAnswer":
        """The answers with the models' problems that follow from them."""
        problems = {model: _problem(models[model], answer, given.devices) for model, answer in answers.items()}
        return cls(snapshot=given.snapshot, answers=answers, problems=problems)

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterator[Step]:
        """What saturation saw of the variant, and what it makes of that for all of its model."""
        variant, answer = state.variant, self.answers.get(state.variant.model)
        if answer is None:
            return
        for figure in answer.figures:
            if figure.subject == variant.key.label and figure.value is not None:
                reason = figure.reason or "over its replicas"
                yield Step(stage=figure.name, before="", after=_value(figure), reason=reason)
        needs = formulated.needs
        role = needs.owner_of.get(variant.key, variant.model)
        if role in answer.reasons:
            requirement = needs.requirements.get(role)
            need = "" if requirement is None else f"{requirement.amount:.6g} {requirement.unit}"
            yield Step(stage="need", before="", after=need, reason=answer.reasons[role])

    def why_kept(self, variant: Variant, desired: Allocation, formulated: FormulatedProblem, after: Allocations) -> str:
        model = formulated.needs.owner_of.get(variant.key, variant.model)
        filling = formulated.needs.fillings.get(model)
        is_stabilized = filling is not None and filling.least is not None
        return self.answers[variant.model].reasons[model] if is_stabilized and desired == variant.current else ""

    def why(self, variant: Variant, desired: Allocation) -> str:
        return _reasons(self.answers[variant.model])

    def figures(self, variant: Variant) -> Iterator[Figure]:
        """Other variants' numbers stand in their own chain."""
        yield from _replica_figures(self.snapshot, variant)
        yield from _model_figures(self.snapshot, variant)
        others = {each.key.label for each in self.snapshot.variants} - {variant.key.label}
        yield from (each for each in self.answers[variant.model].figures if each.subject not in others)


def _problem(members: Sequence[VariantState], answer: SaturationAnswer, devices: Devices) -> ModelProblem:
    """What saturation asks for: a variant that it cannot judge stays as it is, one it doubts does not shrink.

    Nor does one whose profile is contradicted: nobody knows what it would need to keep its targets.
    It says nothing of accelerators but those that variants run on.
    """
    free = [state.variant for state in members if state.is_free]
    holds = {
        state.variant.key: state.contradiction
        or Hold(kind=HoldKind.CAPACITY_UNKNOWN, words=answer.held[state.variant.key])
        for state in members
        if state.is_free and state.variant.key in answer.held
    }
    for variant in free:
        if variant.key in answer.lacking:
            hold = Hold(kind=HoldKind.METRICS_MISSING, words=answer.lacking[variant.key])
            holds.setdefault(variant.key, hold)
    is_priced = all(state.variant.current_cost_per_hour is not None for state in members)
    offered = [variant for variant in free if variant.key not in holds]
    weights = {variant.key: current_weight(variant, is_priced=is_priced) for variant in offered}
    return ModelProblem(
        requirements=answer.requirements,
        candidates=[
            Candidate(
                key=variant.key.on(variant.current.accelerator),
                weight=weights[variant.key],
                cost_per_hour=variant.current_cost_per_hour,
                devices=devices.taken(variant),
            )
            for variant in offered
        ],
        current_weights=weights,
        holds=holds,
        partial={
            **dict.fromkeys(answer.floors, load_partial(_reasons(answer))),
            **{each.variant.key: each.contradiction for each in members if each.contradiction is not None},
        },
        fillings=answer.fillings,
    )


def _reasons(answer: SaturationAnswer) -> str:
    return "; ".join(dict.fromkeys(answer.reasons.values()))


def _value(figure: Figure) -> str:
    value = f"{figure.value:.6g}" if isinstance(figure.value, float | int) else str(figure.value)
    return f"{value} {figure.unit}" if figure.unit not in ("", "fraction") else value


def _replica_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    for replica in snapshot.observed.replicas.get(variant.key, ()):
        for name, attribute, unit, quantities in _REPLICA_FIELDS:
            value = getattr(replica, attribute)
            yield Figure(
                subject=replica.label,
                name=name,
                value=value,
                unit=unit,
                reason="" if value is not None else _why_unknown(replica, attribute),
                queries=tuple(map(str, quantities)),
            )


def _why_unknown(replica: ReplicaMetrics, attribute: str) -> str:
    fields = {"kv_tokens": ("total_kv_tokens", "num_blocks", "block_tokens")}.get(attribute, (attribute,))
    return next((replica.reasons[field] for field in fields if field in replica.reasons), "not measured")


def _model_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    observed = snapshot.observed
    queue = observed.queues.get(variant.model)
    if queue is not None:
        yield Figure(
            subject=variant.model.model_id,
            name="waiting upstream",
            value=queue.num_waiting,
            unit="requests",
            reason=queue.reason,
            queries=(str(Name.FLOW_CONTROL_QUEUE_SIZE),),
        )
    ready, stored = observed.ready.get(variant.key), observed.stored_kv_tokens.get(variant.key)
    for name, value, unit, quantity in (
        ("ready", ready, "replicas", Name.READY_REPLICAS),
        ("KV cache when last seen", stored, "tokens", Name.STORED_KV_TOKENS),
    ):
        if value is not None:
            yield Figure(subject=variant.key.label, name=name, value=value, unit=unit, queries=(str(quantity),))
