"""Sizing by saturation: what is known of each model as readings, and the answer of the engine that it asks for."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.standing import Standing, is_counted
from reconciler.domain.answers import NoAnswer
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.replicas import UpstreamQueue, role_of
from reconciler.domain.saturation_settings import LimiterSettings, SaturationRules, ZeroRules
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variants import Variant
from reconciler.sizing.saturation import (
    Budget,
    ModelReadings,
    Quota,
    SaturationAnswer,
    StoredCapacity,
    VariantState,
    ZeroRule,
    layer_thresholds,
    reproduce_percent,
    reproduce_tokens,
    size_saturation,
)
from reconciler.sizing.saturation.variants import DEFAULT_COST

ROLE_LABEL = "llm-d.ai/role"
NO_RULES = SaturationRules()
COUNTABLE_ENGINES = frozenset({"vllm", ""})


def answer_saturation(snapshot: Snapshot, standings: Sequence[Standing]) -> dict[ModelKey, SaturationAnswer]:
    """The answer for every model that is sized by saturation; upstream's modes decide a whole cluster at once."""
    asked: dict[tuple[str, Engine], dict[ModelKey, ModelReadings]] = {}
    for model, members in _by_model(standings).items():
        readings = read_model(snapshot, model, [standing.variant for standing in members])
        asked.setdefault((model.cluster, members[0].engine), {})[model] = readings
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


def read_model(snapshot: Snapshot, model: ModelKey, members: Sequence[Variant]) -> ModelReadings:
    """What is known of one model: its variants, their replicas, its queue, its thresholds."""
    rules = snapshot.saturation.get(model, NO_RULES)
    is_priced = all(member.current_cost_per_hour is not None for member in members)
    layered = layer_thresholds(rules.layers)
    full = layered.thresholds.kv_cache_usage.value
    return ModelReadings(
        model=model,
        variants=tuple(_state(snapshot, member, full, is_priced=is_priced) for member in members),
        replicas=tuple(each for member in members for each in snapshot.views.replicas.get(member.key, ())),
        queue=snapshot.views.queues.get(model, UpstreamQueue(num_waiting=None) if _is_asleep(members) else None),
        zero_rule=_zero_rule(snapshot, model, members),
        layered=layered,
    )


def _is_asleep(members: Iterable[Variant]) -> bool:
    return not any(member.current.replicas for member in members)


def _state(snapshot: Snapshot, variant: Variant, full: float, *, is_priced: bool) -> VariantState:
    workload, settings = variant.workload, variant.settings
    current, ready = variant.current.replicas, snapshot.views.ready.get(variant.key)
    cost = variant.current_cost_per_hour if is_priced else variant.relative_cost
    stored = snapshot.views.stored_kv_tokens.get(variant.key)
    return VariantState(
        key=variant.key,
        accelerator=variant.current.accelerator,
        role=role_of(workload.template_labels.get(ROLE_LABEL) if workload is not None else None),
        cost=DEFAULT_COST if cost is None else cost,
        current_replicas=current,
        pending_replicas=max(current - ready, 0) if ready is not None and is_counted(variant) else 0,
        min_replicas=settings.min_replicas.value,
        max_replicas=settings.max_replicas.value,
        devices_per_replica=sum(workload.devices.values()) if workload is not None else 1,
        launch=workload.launch if workload is not None else None,
        stored=None if stored is None else StoredCapacity(capacity_tokens=int(stored * full), total_kv_tokens=stored),
    )


def _zero_rule(snapshot: Snapshot, model: ModelKey, members: Iterable[Variant]) -> ZeroRule:
    """Upstream's precedence: what the model's saturation entry says, then its own map; else never to zero."""
    inline = snapshot.saturation.get(model, NO_RULES).scales_to_zero
    mapped = snapshot.zero.get(model, ZeroRules()).is_enabled
    requests = snapshot.views.requests.get(model)
    engines = {member.workload.engine for member in members if member.workload is not None}
    return ZeroRule(
        is_enabled=bool(mapped if inline is None else inline),
        requests=requests if isinstance(requests, float) else None,
        reason=requests.reason if isinstance(requests, NoAnswer) else "",
        is_countable=engines <= COUNTABLE_ENGINES,
    )


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
