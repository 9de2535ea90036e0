"""The sizing engines by name, those that are tried where nobody names one, and their answers."""

from collections.abc import Iterable, Mapping

from reconciler.decision.engines.kthena import KTHENA_V0, KTHENA_V1
from reconciler.decision.engines.port import EngineAnswer, SizingEngine, SizingInput
from reconciler.decision.engines.queueing.engine import QueueingEngine
from reconciler.decision.engines.saturation.engine import SATURATION
from reconciler.decision.engines.tracking.engine import TRACKING
from reconciler.decision.engines.wva.engine import WVA_V1, WVA_V2
from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import ModelKey
from reconciler.domain.variant_settings import Engine

_QUEUEING = QueueingEngine()
ENGINES: Mapping[Engine, SizingEngine] = {
    engine.name: engine for engine in (_QUEUEING, SATURATION, WVA_V1, WVA_V2, TRACKING, KTHENA_V0, KTHENA_V1)
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
