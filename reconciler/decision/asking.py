"""What more than loads Prometheus must be asked, so that every model's engine has what it looks at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.decision.engines import choose_engines
from reconciler.decision.saturation_readings import NO_RULES, wants_throughput
from reconciler.decision.snapshot import saturation_rules, zero_rules
from reconciler.decision.variants import build_catalogs, join_variants
from reconciler.domain.declarations import Declaration
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey
from reconciler.domain.saturation_settings import DEFAULT_RETENTION_S
from reconciler.domain.settings import Settings
from reconciler.domain.variants import Variant
from reconciler.metrics import Needs


@dataclass(slots=True)
class _Asked:
    """Namespaces with the replicas expected there, collected model by model."""

    saturation: dict[str, int] = field(default_factory=dict)
    traced: dict[str, int] = field(default_factory=dict)
    retention_s: float = DEFAULT_RETENTION_S


def needs_by_cluster(settings: Settings, declaration: Declaration) -> dict[str, Needs]:
    """What each cluster is asked beyond the loads of its models; nothing where a given profile sizes all of them.

    A learned profile may turn out not to reach the load: then saturation must have an answer in the same run.
    """
    variants = join_variants(settings, declaration, build_catalogs(settings, declaration))
    choices = choose_engines(variants, {})
    zero, rules = zero_rules(declaration, choices), saturation_rules(declaration, choices)
    asked: dict[str, _Asked] = {}
    for model, members in _by_model(variants).items():
        cluster = asked.setdefault(model.cluster, _Asked())
        is_learned = any(option.profile.learning is not None for each in members for option in each.options)
        if choices[model].engine.is_saturation or is_learned:
            _count(cluster.saturation, model, members)
        if is_learned or (choices[model].engine is Engine.WVA_V2 and wants_throughput(rules.get(model, NO_RULES))):
            _count(cluster.traced, model, members)
        if model in zero:
            cluster.retention_s = max(cluster.retention_s, zero[model].retention_s)
    return {
        name: Needs(saturation=each.saturation, traced=each.traced, retention_s=each.retention_s)
        for name, each in asked.items()
    }


def _count(namespaces: dict[str, int], model: ModelKey, members: Iterable[Variant]) -> None:
    replicas = sum(member.current.replicas for member in members)
    namespaces[model.namespace] = namespaces.get(model.namespace, 0) + replicas


def _by_model(variants: Iterable[Variant]) -> Mapping[ModelKey, list[Variant]]:
    models: dict[ModelKey, list[Variant]] = {}
    for variant in variants:
        models.setdefault(variant.model, []).append(variant)
    return models
