"""The sizing engines by name, and which of them sizes a model: what its variants say, else the first that admits it.

Variants of one model share its load, so one engine sizes them all: answers in different coins cannot be added up.
"""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.engines.canary import CANARIES
from reconciler.decision.engines.port import EngineAnswer, SizingEngine, SizingInput
from reconciler.decision.engines.queueing import QueueingEngine
from reconciler.decision.engines.saturation import SATURATION
from reconciler.decision.engines.tracking import KTHENA_V0, KTHENA_V1, TRACKING
from reconciler.decision.engines.wva import WVA_V1, WVA_V2
from reconciler.decision.variant_states import EngineChoice, VariantState
from reconciler.domain.answers import NoAnswer
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import Load
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import AUTO, ENGINE, Engine

_QUEUEING = QueueingEngine()
ENGINES: Mapping[Engine, SizingEngine] = {
    engine.name: engine for engine in (_QUEUEING, SATURATION, WVA_V1, WVA_V2, TRACKING, KTHENA_V0, KTHENA_V1, CANARIES)
}
AUTOMATIC: tuple[SizingEngine, ...] = (TRACKING, _QUEUEING, SATURATION)
"""What `auto` asks in turn: metric targets, a given profile or a learned one, saturation, which admits every model."""
EXPECTED = _QUEUEING
"""What everybody expects, and what stands for the engine of a model whose variants ask for different ones."""


def size_models(given: SizingInput, states: Iterable[VariantState]) -> dict[Engine, EngineAnswer]:
    """The answer of every engine that sizes any of the variants, in the order of `ENGINES`."""
    asked: dict[Engine, dict[ModelKey, list[VariantState]]] = {}
    for state in states:
        asked.setdefault(state.engine, {}).setdefault(state.variant.model, []).append(state)
    return {name: engine.size(given, asked[name]) for name, engine in ENGINES.items() if name in asked}


def choose_engines(
    variants: Iterable[Variant], loads: Mapping[ModelKey, Load | NoAnswer]
) -> dict[ModelKey, EngineChoice]:
    """The engine of every model; `loads` tell whether what was learned reaches them."""
    models: dict[ModelKey, list[Variant]] = {}
    for variant in variants:
        models.setdefault(variant.model, []).append(variant)
    return {model: _choose(members, _known(loads.get(model))) for model, members in models.items()}


def way_of(engine: Engine | str, *, is_learned: bool) -> str:
    """What an engine sizes by, in words; `is_learned` where its profiles were learned."""
    if engine == Engine.QUEUEING:
        return "learned profiles" if is_learned else "profiles"
    return "metric targets" if engine == Engine.TRACKING else engine


def _known(load: Load | NoAnswer | None) -> Load | None:
    return load if isinstance(load, Load) else None


def _choose(members: Sequence[Variant], load: Load | None) -> EngineChoice:
    admission = CANARIES.admit(members, load)
    if admission.is_admitted:  # whatever is set for all others
        return EngineChoice(engine=CANARIES.name, reason=f"auto: {admission.reason}")
    asked: Mapping[str, Variant] = {
        member.settings[ENGINE].value: member for member in members if member.settings[ENGINE].value != AUTO
    }
    if len(asked) > 1:
        words = ", ".join(
            f"{member.key.label} asks for {name} ({member.settings[ENGINE].source})"
            for name, member in sorted(asked.items())
        )
        conflict = Hold(kind=HoldKind.SETTINGS_CONFLICT, words=f"one model has one sizing engine: {words}")
        return EngineChoice(engine=EXPECTED.name, reason="", conflict=conflict)
    if asked:
        name, member = next(iter(asked.items()))
        return EngineChoice(engine=Engine(name), reason=str(member.settings[ENGINE].source))
    # The first engine that admits the model; what the others found against it is the reason where it has none.
    refused: list[str] = []
    for engine in AUTOMATIC:
        admission = engine.admit(members, load)
        if admission.is_admitted:
            reasons = filter(None, (admission.reason, *refused))
            return EngineChoice(engine=engine.name, reason=f"auto: {next(reasons, '')}")
        refused.append(admission.reason)
    raise AssertionError("the last engine admits every model")
