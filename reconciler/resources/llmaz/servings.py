"""Playground and Service, which serve the models they claim; and llmaz's global settings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity, finding_of
from reconciler.domain.workloads import Workload
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.fields import IntOrString, parse_embedded
from reconciler.resources.kubernetes.pods import TemplateFields, find_unknown, mapping_at, read_scale_target
from reconciler.resources.kubernetes.scale_targets import split_group
from reconciler.resources.llmaz.backends import (
    EnvFields,
    ResourcesFields,
    TriggerFields,
    as_variables,
    check_resources,
    check_trigger,
    devices_of,
    place_of_trigger,
    run_backend,
)
from reconciler.resources.llmaz.models import (
    DEFAULT_BACKEND,
    MAX_INT32,
    MODEL_LABEL,
    BackendConfig,
    ElasticConfig,
    GlobalConfig,
    InferenceService,
    ModelClaim,
    ModelRef,
    ModelRole,
    Playground,
    Written,
    check_name,
    skips_loader,
)
from reconciler.resources.objects import KubernetesObject, Piece, read_resource
from reconciler.resources.validation import LooseShape, Shape, validate

# --- was reconciler/resources/llmaz/claims.py:
# Claims: which models a Playground or Service serves, and in which flavors.

CLAIM, CLAIMS = ("spec", "modelClaim"), ("spec", "modelClaims")
NOTES = dict.fromkeys(
    ("multiModelsClaim", "multiModelsClaims"),
    "llmaz has renamed it and drops it now: write modelClaims with a list of models",
)


class SingleClaim(Shape):
    """`modelClaim`: one model."""

    model_name: str
    inference_flavors: list[str] | None = None


class _ClaimedModelFields(Shape):
    name: str
    role: Literal["main", "draft"] = "main"


class SeveralClaims(Shape):
    """`modelClaims`: models with their roles."""

    models: Annotated[list[_ClaimedModelFields], Field(min_length=1)]
    inference_flavors: list[str] | None = None


def as_claim(source: KubernetesObject, claim: SingleClaim) -> ModelClaim:
    """A claim of one model, which is the main one."""
    return ModelClaim(
        models=(ModelRef(name=claim.model_name, place=source.locate((*CLAIM, "modelName"))),),
        flavor_names=tuple(claim.inference_flavors or ()),
        field=CLAIM,
        place=source.locate(CLAIM),
        flavors_place=_locate_flavors(source, CLAIM, claim.inference_flavors),
    )


def as_claims(source: KubernetesObject, claims: SeveralClaims) -> ModelClaim:
    """A claim of several models."""
    return ModelClaim(
        models=tuple(
            ModelRef(name=model.name, role=ModelRole(model.role), place=source.locate((*CLAIMS, "models", index)))
            for index, model in enumerate(claims.models)
        ),
        flavor_names=tuple(claims.inference_flavors or ()),
        field=CLAIMS,
        place=source.locate(CLAIMS),
        flavors_place=_locate_flavors(source, CLAIMS, claims.inference_flavors),
    )


def _locate_flavors(source: KubernetesObject, path: tuple[str, ...], names: Sequence[str] | None) -> Place | None:
    return source.locate((*path, "inferenceFlavors")) if names is not None else None


def check_roles(source: KubernetesObject, claims: SeveralClaims, *, is_strict: bool) -> Iterator[Finding]:
    """A draft goes with exactly one other model, the main one; `is_strict` as the webhook of a Service is.

    That of a Playground lets pass two drafts, and both let pass two main models; nobody can run them.
    """
    path = (*CLAIMS, "models")
    roles: Counter[str] = Counter(model.role for model in claims.models)
    num_models, num_main = len(claims.models), roles["main"]
    if is_strict and num_models > 2:
        yield source.complain(path, f"expected at most 2 models, got {num_models}")
    elif roles["draft"] and num_models != 2:
        yield source.complain(path, f"expected a draft beside one main model, got {_count(roles)}")
    elif roles["draft"] and num_main != 1:
        severity = Severity.ERROR if is_strict else Severity.WARNING
        yield source.complain(path, f"expected one main model, got {_count(roles)}", severity)
    elif num_main > 1:
        message = f"expected one main model, got {num_main}: {quote(claims.models[0].name)}, the first, is served"
        yield source.complain(path, message, Severity.WARNING)
    yield from check_flavor_names(source, CLAIMS, claims.inference_flavors)


def check_flavor_names(
    source: KubernetesObject, path: tuple[str, ...], names: Sequence[str] | None
) -> Iterator[Finding]:
    """A flavor that is named twice cannot have two ranks."""
    seen: set[str] = set()
    for index, name in enumerate(names or ()):
        if name in seen:
            message = f"{quote(name)} is already listed above"
            yield source.complain((*path, "inferenceFlavors", index), message, Severity.WARNING)
        seen.add(name)


def _count(roles: Counter[str]) -> str:
    return " and ".join(f"{roles[role]} {role}" for role in ("main", "draft") if roles[role])


# --- was reconciler/resources/llmaz/playgrounds.py:
# `inference.llmaz.io/v1alpha1` Playground: a model served by one of llmaz's backends.

_BACKEND, _ELASTIC = ("spec", "backendRuntimeConfig"), ("spec", "elasticConfig")
_NOTES = {
    **NOTES,
    "backendConfig": "llmaz has renamed it and drops it now: write backendRuntimeConfig",
    "scaleTriggerRef": "llmaz v0.1.0 had it and drops it now: write scaleTrigger, or leave it out",
}


class _Backend(Shape):
    backend_name: str | None = None
    version: str | None = None
    config_name: str | None = None
    args: list[str] | None = None
    envs: list[EnvFields] | None = None
    resources: ResourcesFields | None = None
    shared_memory_size: Written | None = None


class _Elastic(Shape):
    min_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)] = 1
    max_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)]
    scale_trigger: TriggerFields | None = None


class _PlaygroundSpec(Shape):
    model_claim: SingleClaim | None = None
    model_claims: SeveralClaims | None = None
    backend_runtime_config: _Backend | None = None
    elastic_config: _Elastic | None = None


def read_playground(source: KubernetesObject) -> Iterator[Piece]:
    """The Playground with its scale target, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _PlaygroundSpec,
        named=("modelClaim", "modelClaims", "elasticConfig"),
        check=_check_playground,
        build=_build_playground,
        ignored=("replicas",),
        braced=("backendRuntimeConfig",),
        notes=_NOTES,
    )


def _check_playground(source: KubernetesObject, spec: _PlaygroundSpec) -> Iterator[Finding]:
    yield from check_name(source)
    claim, claims, elastic = spec.model_claim, spec.model_claims, spec.elastic_config
    if (claim is None) == (claims is None):
        found = "found neither" if claim is None else "found both"
        yield source.complain(("spec",), f"expected either modelClaim or modelClaims, {found}")
    if claim is not None:
        yield from check_flavor_names(source, CLAIM, claim.inference_flavors)
    if claims is not None:
        yield from check_roles(source, claims, is_strict=False)
    if spec.backend_runtime_config is not None:
        yield from check_resources(source, (*_BACKEND, "resources"), spec.backend_runtime_config.resources)
    if elastic is not None:
        yield from _check_elastic(source, elastic)


def _check_elastic(source: KubernetesObject, elastic: _Elastic) -> Iterator[Finding]:
    if elastic.min_replicas >= elastic.max_replicas:
        is_written = "minReplicas" in mapping_at(source.fields, _ELASTIC)
        found = f"{elastic.min_replicas}{'' if is_written else ', the default'}"
        message = f"expected less than maxReplicas ({elastic.max_replicas}), got {found}: llmaz refuses equal bounds"
        yield source.complain((*_ELASTIC, "minReplicas"), message)
    yield from check_trigger(source, (*_ELASTIC, "scaleTrigger"), elastic.scale_trigger)


def _build_playground(source: KubernetesObject, spec: _PlaygroundSpec) -> Iterator[Piece]:
    claim = _claim_of(source, spec)
    backend = _as_backend(source, spec.backend_runtime_config)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), (), ()):
        if claim is None or not isinstance(piece, Workload):
            yield piece
            continue
        yield run_backend(piece, claim, backend, runtime=None)
        yield Playground(
            key=source.key,
            place=source.place,
            claim=claim,
            replicas=1 if piece.replicas is None else piece.replicas,
            backend=backend,
            elastic=_as_elastic(source, spec.elastic_config),
            skips_loader=skips_loader(source),
        )


def _claim_of(source: KubernetesObject, spec: _PlaygroundSpec) -> ModelClaim | None:
    if spec.model_claims is not None:
        return as_claims(source, spec.model_claims)
    return as_claim(source, spec.model_claim) if spec.model_claim is not None else None


def _as_backend(source: KubernetesObject, backend: _Backend | None) -> BackendConfig:
    if backend is None:
        return BackendConfig()
    return BackendConfig(
        backend_name=backend.backend_name or DEFAULT_BACKEND,
        version=backend.version or "",
        config_name=backend.config_name or "",
        args=tuple(backend.args or ()),
        envs=as_variables(backend.envs),
        devices=devices_of(backend.resources),
        place=source.locate(_BACKEND),
    )


def _as_elastic(source: KubernetesObject, elastic: _Elastic | None) -> ElasticConfig | None:
    if elastic is None:
        return None
    return ElasticConfig(
        min_replicas=elastic.min_replicas,
        max_replicas=elastic.max_replicas,
        trigger_place=place_of_trigger(source, (*_ELASTIC, "scaleTrigger"), elastic.scale_trigger),
        place=source.locate(_ELASTIC),
    )


# --- was reconciler/resources/llmaz/services.py:
# `inference.llmaz.io/v1alpha1` Service: claimed models in pods of one's own, one LeaderWorkerSet a Service.

_GROUP = ("spec", "workloadTemplate")
_CONTAINER = "model-runner"
_TEMPLATE_FIELDS = ("metadata", "spec")
_SERVICE_NOTES = {
    **NOTES,
    "leaderWorkerTemplate": "it was one level up in older llmaz: write its fields under workloadTemplate",
}


class _RollingUpdate(Shape):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: Annotated[int, Field(ge=0)] | None = None


class _Rollout(Shape):
    type: Literal["RollingUpdate"] = "RollingUpdate"
    rolling_update_configuration: _RollingUpdate | None = None


class _Group(Shape):
    """A LeaderWorkerSet's group, in which the workers' template must stand; nothing decides by the objects in it."""

    size: Annotated[int, Field(ge=1, le=10_000)] = 1
    leader_template: TemplateFields | None = None
    worker_template: TemplateFields
    restart_policy: str = "RecreateGroupOnPodRestart"
    sub_group_policy: object = None
    resize_policy: object = None
    volume_claim_templates: object = None
    persistent_volume_claim_retention_policy: object = None


class _ServiceSpec(Shape):
    model_claims: SeveralClaims
    workload_template: _Group
    rollout_strategy: _Rollout | None = None


def read_service(source: KubernetesObject) -> Iterator[Piece]:
    """The Service with its scale target, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _ServiceSpec,
        named=("modelClaims",),
        check=_check_service,
        build=_build_service,
        ignored=("replicas",),
        notes=_SERVICE_NOTES,
    )


def _check_service(source: KubernetesObject, spec: _ServiceSpec) -> Iterator[Finding]:
    yield from check_name(source)
    yield from check_roles(source, spec.model_claims, is_strict=True)
    for template in ("leaderTemplate", "workerTemplate"):
        yield from find_unknown(source, (*_GROUP, template), _TEMPLATE_FIELDS)
    pod = spec.workload_template.worker_template.spec
    names = [container.name for container in (pod.containers if pod else None) or ()]
    if _CONTAINER not in names:
        path = (*_GROUP, "workerTemplate", "spec", "containers")
        yield source.complain(path, f"expected a container named {_CONTAINER}, found none")


def _build_service(source: KubernetesObject, spec: _ServiceSpec) -> Iterator[Piece]:
    group, claim = spec.workload_template, as_claims(source, spec.model_claims)
    templates = split_group(group.leader_template, group.worker_template, _GROUP, group.size)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), templates, ()):
        if not isinstance(piece, Workload):
            yield piece
            continue
        yield replace(piece, template_labels={**piece.template_labels, MODEL_LABEL: claim.main.name})
        yield InferenceService(
            key=source.key,
            place=source.place,
            claim=claim,
            replicas=1 if piece.replicas is None else piece.replicas,
            size=group.size,
            skips_loader=skips_loader(source),
        )


# --- was reconciler/resources/llmaz/global_config.py:
# ConfigMap `llmaz-global-config`: the scheduler that llmaz gives its pods to.

GLOBAL_CONFIG_MAP = "llmaz-global-config"
_KEY = "config.data"


class _GlobalConfigFields(LooseShape):
    scheduler_name: Annotated[str | None, Field(alias="scheduler-name")] = None
    init_container_image: Annotated[str, Field(alias="init-container-image", min_length=1)]


def read_global_config(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The settings; what is wrong with them takes nothing from us but which scheduler is used."""
    if _KEY not in entries:
        yield source.complain(("data",), f"expected the key {_KEY}, found nothing", Severity.WARNING)
        return
    try:
        text = parse_embedded(source, _KEY, entries[_KEY], "one mapping in YAML")
    except InputError as error:
        yield finding_of(error)
        return
    validated = validate(_GlobalConfigFields, text.document.value, locate=text.locate)
    yield from validated.findings
    if validated.value is not None:
        yield GlobalConfig(
            cluster=source.cluster,
            place=source.locate(("data", _KEY)),
            scheduler_name=validated.value.scheduler_name or "",
        )
