"""Sizing by saturation: every model's readings, and the answer of the engine that it asks for."""

from collections.abc import Iterable, Sequence

from reconciler.decision.engines.limiters import budget_for, quota_for
from reconciler.decision.engines.saturation_readings import NO_RULES, read_model
from reconciler.decision.variant_states import VariantState
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.snapshot import Snapshot
from reconciler.sizing.saturation import (
    ModelReadings,
    SaturationAnswer,
    reproduce_percent,
    reproduce_tokens,
    size_saturation,
)


def answer_saturation(snapshot: Snapshot, states: Sequence[VariantState]) -> dict[ModelKey, SaturationAnswer]:
    """The answer for every model that is sized by saturation; upstream's modes decide a whole cluster at once."""
    asked: dict[tuple[str, Engine], dict[ModelKey, ModelReadings]] = {}
    for model, members in _by_model(states).items():
        engine = members[0].engine
        readings = read_model(snapshot, model, [state.variant for state in members], engine)
        asked.setdefault((model.cluster, engine), {})[model] = readings
    return {
        model: answer
        for (_, engine), models in sorted(asked.items())
        for model, answer in zip(models, _answer(engine, list(models.values()), snapshot), strict=True)
    }


def _by_model(states: Iterable[VariantState]) -> dict[ModelKey, list[VariantState]]:
    models: dict[ModelKey, list[VariantState]] = {}
    for state in states:
        if state.engine.is_saturation:
            models.setdefault(state.variant.model, []).append(state)
    return dict(sorted(models.items()))


def _answer(engine: Engine, models: Sequence[ModelReadings], snapshot: Snapshot) -> Sequence[SaturationAnswer]:
    if engine is Engine.SATURATION:
        return [size_saturation(readings) for readings in models]
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    if engine is Engine.WVA_V1:
        return reproduce_percent(models, quota_for(snapshot, models, rules))
    budget = budget_for(snapshot, models, rules)
    return reproduce_tokens(models, budget, rescales=any(each.rescales for each in rules))
