"""Playground and Service, which serve the models they claim; and llmaz's global settings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity, finding_of
from reconciler.domain.workloads import Workload
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.engines import find_engine, read_launch
from reconciler.resources.kubernetes.fields import IntOrString, parse_embedded
from reconciler.resources.kubernetes.pods import TemplateFields, find_unknown, mapping_at, read_scale_target
from reconciler.resources.kubernetes.scale_targets import split_group
from reconciler.resources.llmaz.backends import (
    BackendConfig,
    BackendRuntime,
    ScaleTrigger,
    check_resources,
    check_trigger,
)
from reconciler.resources.llmaz.models import MAX_INT32, MODEL_LABEL, SKIP_LOADER, check_name
from reconciler.resources.objects import KubernetesObject, Piece, Record, read_resource, repeated
from reconciler.resources.validation import LooseShape, Shape, validate

CLAIM, CLAIMS = ("spec", "modelClaim"), ("spec", "modelClaims")
NOTES = dict.fromkeys(
    ("multiModelsClaim", "multiModelsClaims"),
    "llmaz has renamed it and drops it now: write modelClaims with a list of models",
)


class SingleClaim(Shape):
    """`modelClaim`: one model."""

    model_name: str
    inference_flavors: list[str] | None = None


class ClaimedModel(Shape):
    """A claimed model by its name; drafts are for speculative decoding."""

    name: str
    role: Literal["main", "draft"] = "main"


class SeveralClaims(Shape):
    """`modelClaims`: models with their roles."""

    models: Annotated[list[ClaimedModel], Field(min_length=1)]
    inference_flavors: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClaim:
    """The models that are served together, at least one, and the flavors wanted, all of the model's when none is named.

    `field` is the claim's own, under which `inferenceFlavors` stands.
    """

    field: str
    models: Sequence[ClaimedModel]
    flavor_names: Sequence[str] | None

    @property
    def main(self) -> ClaimedModel:
        """The model whose flavors and name count: the first with the role main."""
        return next((model for model in self.models if model.role == "main"), self.models[0])

    @property
    def is_speculative(self) -> bool:
        """Whether a draft model runs with the main one."""
        return any(model.role == "draft" for model in self.models)


def check_roles(source: KubernetesObject, claims: SeveralClaims, *, is_strict: bool) -> Iterator[Finding]:
    """A draft goes with exactly one other model, the main one; `is_strict` as the webhook of a Service is.

    That of a Playground accepts two drafts, and both accept two main models; neither can run.
    """
    path = (*CLAIMS, "models")
    roles: Counter[str] = Counter(model.role for model in claims.models)
    num_models, num_main = len(claims.models), roles["main"]
    if is_strict and num_models > 2:
        yield source.complain(path, f"expected at most 2 models, got {num_models}")
    elif roles["draft"] and num_models != 2:
        yield source.complain(path, f"expected a draft with one main model, got {_count(roles)}")
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
    for index, name in repeated(names or ()):
        message = f"{quote(name)} is already listed above"
        yield source.complain((*path, "inferenceFlavors", index), message, Severity.WARNING)


def _count(roles: Counter[str]) -> str:
    return " and ".join(f"{roles[role]} {role}" for role in ("main", "draft") if roles[role])


_BACKEND, _ELASTIC = ("spec", "backendRuntimeConfig"), ("spec", "elasticConfig")
_NOTES = {
    **NOTES,
    "backendConfig": "llmaz has renamed it and drops it now: write backendRuntimeConfig",
    "scaleTriggerRef": "llmaz v0.1.0 had it and drops it now: write scaleTrigger, or leave it out",
}


class ElasticConfig(Shape):
    """Bounds of the replicas; without a trigger only we change them."""

    min_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)] = 1
    max_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)]
    scale_trigger: ScaleTrigger | None = None


class PlaygroundSpec(Shape):
    """PlaygroundSpec, without its replicas."""

    model_claim: SingleClaim | None = None
    model_claims: SeveralClaims | None = None
    backend_runtime_config: BackendConfig | None = None
    elastic_config: ElasticConfig | None = None


def read_playground(source: KubernetesObject) -> Iterator[Piece]:
    """The Playground with its scale target, or the broken resource, and all findings."""
    yield from read_resource(
        source,
        PlaygroundSpec,
        named=("modelClaim", "modelClaims", "elasticConfig"),
        check=_check_playground,
        build=_build_playground,
        ignored=("replicas",),
        braced=("backendRuntimeConfig",),
        notes=_NOTES,
    )


def _check_playground(source: KubernetesObject, spec: PlaygroundSpec) -> Iterator[Finding]:
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


def _check_elastic(source: KubernetesObject, elastic: ElasticConfig) -> Iterator[Finding]:
    if elastic.min_replicas >= elastic.max_replicas:
        is_written = "minReplicas" in mapping_at(source.fields, _ELASTIC)
        found = f"{elastic.min_replicas}{'' if is_written else ', the default'}"
        message = f"expected less than maxReplicas ({elastic.max_replicas}), got {found}: llmaz refuses equal bounds"
        yield source.complain((*_ELASTIC, "minReplicas"), message)
    yield from check_trigger(source, (*_ELASTIC, "scaleTrigger"), elastic.scale_trigger)


def _build_playground(source: KubernetesObject, spec: PlaygroundSpec) -> Iterator[Piece]:
    serving = Serving(source, spec)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), (), ()):
        yield run_backend(piece, serving, runtime=None) if isinstance(piece, Workload) else piece
        if isinstance(piece, Workload):
            yield serving


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


class ServiceSpec(Shape):
    """ServiceSpec, without its replicas."""

    model_claims: SeveralClaims
    workload_template: _Group
    rollout_strategy: _Rollout | None = None


def read_service(source: KubernetesObject) -> Iterator[Piece]:
    """The Service with its scale target, or the broken resource, and all findings."""
    yield from read_resource(
        source,
        ServiceSpec,
        named=("modelClaims",),
        check=_check_service,
        build=_build_service,
        ignored=("replicas",),
        notes=_SERVICE_NOTES,
    )


def _check_service(source: KubernetesObject, spec: ServiceSpec) -> Iterator[Finding]:
    yield from check_name(source)
    yield from check_roles(source, spec.model_claims, is_strict=True)
    for template in ("leaderTemplate", "workerTemplate"):
        yield from find_unknown(source, (*_GROUP, template), _TEMPLATE_FIELDS)
    pod = spec.workload_template.worker_template.spec
    names = [container.name for container in (pod.containers if pod else None) or ()]
    if _CONTAINER not in names:
        path = (*_GROUP, "workerTemplate", "spec", "containers")
        yield source.complain(path, f"expected a container named {_CONTAINER}, found none")


def _build_service(source: KubernetesObject, spec: ServiceSpec) -> Iterator[Piece]:
    group, serving = spec.workload_template, Serving(source, spec)
    templates = split_group(group.leader_template, group.worker_template, _GROUP, group.size)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), templates, ()):
        if isinstance(piece, Workload):
            yield replace(piece, template_labels={**piece.template_labels, MODEL_LABEL: serving.claim.main.name})
            yield serving
        else:
            yield piece


class Serving(Record[PlaygroundSpec | ServiceSpec]):
    """What serves a model: a Playground, with a backend of llmaz's and one pod a replica, or a Service.

    The workload with its key is its scale target.
    """

    __slots__ = ()

    @property
    def claim(self) -> ModelClaim:
        """Which models it serves, in which flavors."""
        if isinstance(self.spec, PlaygroundSpec) and self.spec.model_claim is not None:
            single = self.spec.model_claim
            only = ClaimedModel(name=single.model_name)
            return ModelClaim(field=CLAIM[-1], models=(only,), flavor_names=single.inference_flavors)
        several = self.spec.model_claims
        models, names = (several.models, several.inference_flavors) if several is not None else ((), None)
        return ModelClaim(field=CLAIMS[-1], models=models, flavor_names=names)

    @property
    def main_place(self) -> Place:
        """Where its main model is named."""
        claim = self.claim
        if claim.field == CLAIM[-1]:
            return self.place_of(claim.field, "modelName")
        return self.place_of(claim.field, "models", list(claim.models).index(claim.main))

    @property
    def claim_place(self) -> Place:
        """Where its claim stands."""
        return self.place_of(self.claim.field)

    @property
    def flavors_place(self) -> Place:
        """Where its flavors are listed, or its claim where they are not."""
        claim = self.claim
        return self.claim_place if claim.flavor_names is None else self.place_of(claim.field, "inferenceFlavors")

    @property
    def backend(self) -> BackendConfig | None:
        """How a Playground's backend is run; a Service brings its own pods."""
        return (self.spec.backend_runtime_config or BackendConfig()) if isinstance(self.spec, PlaygroundSpec) else None

    @property
    def backend_place(self) -> Place:
        """Where its backend is configured, or its claim where that is not."""
        is_written = isinstance(self.spec, PlaygroundSpec) and self.spec.backend_runtime_config is not None
        return self.place_of(_BACKEND[-1]) if is_written else self.claim_place

    @property
    def elastic(self) -> ElasticConfig | None:
        """The bounds of a Playground's replicas."""
        return self.spec.elastic_config if isinstance(self.spec, PlaygroundSpec) else None

    @property
    def replicas(self) -> int:
        """How many replicas its own manifest has."""
        written = mapping_at(self.source.fields, ("spec",)).get("replicas")
        return written if isinstance(written, int) else 1

    @property
    def pods(self) -> int:
        """How many pods a replica has."""
        return self.spec.workload_template.size if isinstance(self.spec, ServiceSpec) else 1

    @property
    def skips_loader(self) -> bool:
        """Whether the weights are not fetched by llmaz."""
        return self.source.annotations.get(SKIP_LOADER) == "true"


DEFAULT_CONFIG, SPECULATIVE_CONFIG = "default", "speculative-decoding"
ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "tensorrt-llm": "trtllm"}
"""The backends that llmaz brings along whose engines are known."""


def config_for(claim: ModelClaim) -> str:
    """The name of the recommended config that a claim's models call for."""
    return SPECULATIVE_CONFIG if claim.is_speculative else DEFAULT_CONFIG


def run_backend(workload: Workload, serving: Serving, runtime: BackendRuntime | None) -> Workload:
    """The scale target with what its pods run; without the backend's runtime only what the Playground says of it.

    A Playground's arguments follow those of the recommended config; its resources replace them by name. The model
    is served under the OpenModel's name.
    """
    claim, backend = serving.claim, serving.backend or BackendConfig()
    config = runtime.find_config(backend.config_name or config_for(claim)) if runtime is not None else None
    args = (*((config.args if config else None) or ()), *(backend.args or ()))
    envs = (*((runtime.spec.envs if runtime else None) or ()), *(backend.envs or ()))
    engine = ENGINES.get(backend.name, "")
    if runtime is not None:
        engine = find_engine(runtime.spec.image, (*(runtime.spec.command or ()), *args)) or engine
    asked = [each.resources.devices for each in (config, backend) if each is not None and each.resources is not None]
    return replace(
        workload,
        devices={resource: count for devices in asked for resource, count in devices.items()},
        served_names=(claim.main.name,),
        engine=engine,
        launch=read_launch(engine, args, {each.name: each.value or "" for each in envs}),
        template_labels={MODEL_LABEL: claim.main.name},
    )


GLOBAL_CONFIG_MAP = "llmaz-global-config"
_KEY = "config.data"


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalConfig:
    """llmaz's own settings: which scheduler its pods get, empty for the cluster's default."""

    cluster: str
    place: Place
    scheduler_name: str = ""


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
