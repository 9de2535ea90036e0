"""Sizing by saturation: every model's readings, and the answer of the engine that it asks for."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.saturation_readings import NO_RULES, read_model
from reconciler.decision.standing import Standing
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.saturation_settings import LimiterSettings, SaturationRules
from reconciler.domain.snapshot import Snapshot
from reconciler.sizing.saturation import (
    Budget,
    ModelReadings,
    Quota,
    SaturationAnswer,
    VariantState,
    reproduce_percent,
    reproduce_tokens,
    size_saturation,
)


def answer_saturation(snapshot: Snapshot, standings: Sequence[Standing]) -> dict[ModelKey, SaturationAnswer]:
    """The answer for every model that is sized by saturation; upstream's modes decide a whole cluster at once."""
    asked: dict[tuple[str, Engine], dict[ModelKey, ModelReadings]] = {}
    for model, members in _by_model(standings).items():
        engine = members[0].engine
        readings = read_model(snapshot, model, [standing.variant for standing in members], engine)
        asked.setdefault((model.cluster, engine), {})[model] = readings
    return {
        model: answer
        for (_, engine), models in sorted(asked.items())
        for model, answer in zip(models, _answer(engine, list(models.values()), snapshot), strict=True)
    }


def _by_model(standings: Iterable[Standing]) -> dict[ModelKey, list[Standing]]:
    models: dict[ModelKey, list[Standing]] = {}
    for standing in standings:
        if standing.engine.is_saturation:
            models.setdefault(standing.variant.model, []).append(standing)
    return dict(sorted(models.items()))


def _answer(engine: Engine, models: Sequence[ModelReadings], snapshot: Snapshot) -> Sequence[SaturationAnswer]:
    if engine is Engine.SATURATION:
        return [size_saturation(readings) for readings in models]
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    limiter = _quota_limiter(rules)
    if engine is Engine.WVA_V1:
        return reproduce_percent(models, None if limiter is None else _quota(models, limiter))
    budget = None if limiter is None else _budget(models, limiter)
    return reproduce_tokens(models, budget, rescales=any(each.rescales for each in rules))


def _quota_limiter(rules: Iterable[SaturationRules]) -> LimiterSettings | None:
    """The quota that limits, if the limiter is on: an inventory of devices is not read, and upstream then has none."""
    limiters = (limiter for each in rules if each.is_limited for limiter in each.limiters)
    return next((limiter for limiter in limiters if limiter.kind == "quota"), None)


def _quota(models: Sequence[ModelReadings], limiter: LimiterSettings) -> Quota:
    is_cluster = limiter.scope != "namespace"
    used: dict[tuple[str, str], int] = {}
    for variant in (variant for readings in models for variant in readings.variants):
        scope = "" if is_cluster else variant.key.namespace
        taken = variant.current_replicas * variant.devices
        used[scope, variant.accelerator] = used.get((scope, variant.accelerator), 0) + taken
    return Quota(
        cluster=limiter.quotas,
        namespaces=None if is_cluster else limiter.namespace_quotas,
        excluded=limiter.excluded,
        used=used,
    )


def _budget(models: Sequence[ModelReadings], limiter: LimiterSettings) -> Budget:
    """What a quota leaves beside what runs."""
    variants = [variant for readings in models for variant in readings.variants]
    if limiter.scope != "namespace":
        return Budget(_left(limiter.quotas, variants))
    namespaces = {variant.key.namespace for variant in variants} - limiter.excluded
    default = limiter.namespace_quotas.get("default", {})
    return Budget(
        None,
        {
            name: _left(
                limiter.namespace_quotas.get(name, default), [each for each in variants if each.key.namespace == name]
            )
            for name in sorted(namespaces)
        },
    )


def _left(quotas: Mapping[str, int], variants: Iterable[VariantState]) -> dict[str, int]:
    left = dict(quotas)
    for variant in variants:
        if left.get(variant.accelerator, -1) >= 0:
            left[variant.accelerator] = max(left[variant.accelerator] - variant.current_replicas * variant.devices, 0)
    return left
