"""Which engine sizes a model: what its variants say, else the best one that what is known admits.

Variants of one model share its load, so one engine sizes them all: answers in different coins cannot be added up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decision.engines.law_targets import PREFILL_DECODE
from reconciler.domain.answers import NoAnswer
from reconciler.domain.engines import AUTO, Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.loads import Load
from reconciler.domain.variant_settings import ENGINE
from reconciler.domain.variants import Variant
from reconciler.sizing.learning import why_outside


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A model's engine, and in words why; `conflict` says why there is none."""

    engine: Engine
    reason: str
    conflict: str = ""


def choose_engines(variants: Iterable[Variant], loads: Mapping[ModelKey, Load | NoAnswer]) -> dict[ModelKey, Choice]:
    """The engine of every model; `loads` tell whether what was learned reaches them."""
    models: dict[ModelKey, list[Variant]] = {}
    for variant in variants:
        models.setdefault(variant.model, []).append(variant)
    return {model: _choose(members, _known(loads.get(model))) for model, members in models.items()}


def _known(load: Load | NoAnswer | None) -> Load | None:
    return load if isinstance(load, Load) else None


def _choose(members: Sequence[Variant], load: Load | None) -> Choice:
    asked: Mapping[str, Variant] = {
        member.settings[ENGINE].value: member for member in members if member.settings[ENGINE].value != AUTO
    }
    if len(asked) > 1:
        words = ", ".join(
            f"{member.key.label} asks for {name} ({member.settings[ENGINE].source})"
            for name, member in sorted(asked.items())
        )
        return Choice(engine=Engine.QUEUEING, reason="", conflict=f"one model has one sizing engine: {words}")
    if asked:
        name, member = next(iter(asked.items()))
        return Choice(engine=Engine(name), reason=str(member.settings[ENGINE].source))
    return _automatic(members, load)


def _automatic(members: Sequence[Variant], load: Load | None) -> Choice:
    """Metric targets, a given profile, a learned one, saturation: the first that every variant admits."""
    if all(member.tracked_by is not None for member in members):
        return Choice(engine=Engine.TRACKING, reason=f"auto: metric targets of {members[0].tracked_by}")
    obstacles = [words for member in members if (words := _against_queueing(member, load))]
    if obstacles:
        return Choice(engine=Engine.SATURATION, reason=f"auto: {obstacles[0]}")
    return Choice(engine=Engine.QUEUEING, reason=f"auto: {_profiled(members)}")


def _against_queueing(variant: Variant, load: Load | None) -> str:
    """Why a variant cannot be sized by a queue; empty when it can, or when somebody must first mend its class."""
    if variant.missing_class:
        return ""
    if not variant.options:
        return f"{variant.key.label} has no profile, given or learned"
    if variant.service_class is None:
        return f"{variant.key.label} has no service class"
    if not variant.current.accelerator:
        return f"{variant.key.label} runs on an unknown accelerator"
    return _beyond_learned(variant, load)


def _beyond_learned(variant: Variant, load: Load | None) -> str:
    """What was learned says nothing of requests unlike those it was learned from."""
    if load is None or load.arrival_rate_per_s <= 0:
        return ""
    for option in variant.options:
        learning = option.profile.learning
        if learning is None:
            continue
        words = why_outside(learning, input_tokens=load.input_tokens, output_tokens=load.output_tokens)
        if words:
            return f"the learned profile of {variant.key.label} on {option.accelerator} does not reach: {words}"
    return ""


def _profiled(members: Iterable[Variant]) -> str:
    profiles = [option.profile for member in members for option in member.options]
    if not profiles:
        return "waits for its service class"
    learned = [profile for profile in profiles if profile.learning is not None]
    profile, word = (learned[0], "learned") if learned else (profiles[0], "given")
    return f"profile {word} at {profile.place}" if profile.place is not None else f"profile {word}"


def lacks_prompt(variant: Variant, load: Load | None) -> str:
    """Why a law with prefill has no answer: the length of the prompts is not known."""
    if load is None or load.input_tokens is not None or load.arrival_rate_per_s <= 0:
        return ""
    if any(option.profile.law == PREFILL_DECODE for option in variant.options):
        return "no series tells the input tokens of its requests, which a profile with gamma and delta needs"
    return ""
