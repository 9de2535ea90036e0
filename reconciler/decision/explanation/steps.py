"""The steps that led to one variant's decision, in the words that explain and the pull request print."""

from reconciler.decision.context import DecisionContext
from reconciler.decision.engines.registry import EXPECTED
from reconciler.decision.variant_states import VariantState, is_counted
from reconciler.domain.accelerators import Allocation
from reconciler.domain.plan import Outcome, Step
from reconciler.domain.variants import Variant


def steps_of(context: DecisionContext, state: VariantState, outcome: Outcome) -> tuple[Step, ...]:
    """The steps of one variant, first what its engine saw; a held one ends with its hold."""
    variant, staged = state.variant, context.staged
    desired, hold = staged.allocations[variant.key], staged.holds.get(variant.key)
    steps = _choice_steps(state)
    for answer in context.answers.values():
        steps += answer.steps(state, context.formulated)
    notes = context.formulated.notes.get(variant.key, ())
    steps += [Step(stage="options", before="", after="", reason=note) for note in notes]
    current = _words(variant.current)
    if hold is not None:
        known = current if is_counted(variant) else ""
        steps.append(Step(stage="hold", before=known, after=known, reason=hold.words))
        return tuple(steps)
    steps += _device_steps(variant, desired)
    steps.append(Step(stage="allocation", before=current, after=_words(desired), reason=_why(context, state, desired)))
    if outcome is Outcome.CHANGE:
        verdict = str(staged.verdicts[variant.key].kind)
        steps.append(Step(stage="policy", before=_words(desired), after=_words(desired), reason=verdict))
    return tuple(steps)


def _choice_steps(state: VariantState) -> list[Step]:
    """Whose rule it is, where it is not the one that everybody expects."""
    if state.engine is EXPECTED.name:
        return []
    return [Step(stage="engine", before="", after=str(state.engine), reason=state.choice.reason)]


def _device_steps(variant: Variant, desired: Allocation) -> list[Step]:
    """How many devices a replica gets that moves, where that is another number than before."""
    option = next((each for each in variant.options if each.accelerator == desired.accelerator), None)
    if option is None or variant.workload is None or variant.current.accelerator == desired.accelerator:
        return []
    before, after = variant.workload.devices.get(option.resource), option.devices_per_replica
    if before in (None, after):
        return []
    return [Step(stage="devices", before=str(before), after=str(after), reason=f"{option.resource} of one replica")]


def _why(context: DecisionContext, state: VariantState, desired: Allocation) -> str:
    variant, answer = state.variant, context.answers[state.engine]
    if variant.key in context.staged.waiting:
        return context.staged.waiting[variant.key].words
    if variant.key in context.staged.reasons:
        return context.staged.reasons[variant.key]
    need = context.formulated.needs.of_variant(variant.key)
    shortfall = context.shortfalls.get(need.model) if need is not None else None
    if need is not None and shortfall is not None:
        return f"covers {shortfall.covered:.4g} of {shortfall.wanted:.4g} {need.unit}: {shortfall.reason}"
    kept = answer.why_kept(variant, desired, context.formulated, context.staged.allocations)
    if kept:
        return kept
    if variant.key in context.solution.reasons:
        return context.solution.reasons[variant.key]
    return answer.why(variant, desired)


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"
