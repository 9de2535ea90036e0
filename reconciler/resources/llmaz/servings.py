"""llmaz Playgrounds and Services, and the models that they serve."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity, finding_of
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.errors import InputError
from reconciler.manifests.wording import escape, join_words, quote, suggest
from reconciler.resources.kubernetes.engines import find_engine, read_flags, read_launch
from reconciler.resources.kubernetes.fields import IntOrString, parse_embedded
from reconciler.resources.kubernetes.pods import TemplateFields, find_unknown, mapping_at, read_scale_target
from reconciler.resources.kubernetes.scale_targets import split_group
from reconciler.resources.llmaz import CLAIM, CLAIMS, Llmaz
from reconciler.resources.llmaz.backends import (
    BackendConfig,
    BackendRuntime,
    ScaleTrigger,
    check_resources,
    check_trigger,
)
from reconciler.resources.llmaz.models import (
    FAMILY_LABEL,
    MAX_INT32,
    MODEL_LABEL,
    SKIP_LOADER,
    OpenModel,
    check_name,
    place_on,
    rank_flavors,
)
from reconciler.resources.objects import (
    Folded,
    KubernetesObject,
    Piece,
    Record,
    of_kind,
    read_resource,
    repeated,
    report_duplicate,
    split_duplicates,
)
from reconciler.resources.validation import LooseShape, Shape, validate
from reconciler.resources.variants import RankedFlavor

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


SCHEDULER = "inftyai-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A Playground or Service with its main model and everything that decides about it.

    `workload` is the scale target as llmaz makes it in the first of the `flavors`. `is_placed` says whether the pods
    run where a flavor's node selector wants them: None when Git does not say which scheduler is used. `hold` says why
    nothing can be decided about it.
    """

    serving: Serving
    workload: Workload
    model: OpenModel | None
    flavors: tuple[RankedFlavor, ...]
    is_placed: bool | None
    hold: Hold | None = None

    @property
    def model_name(self) -> str:
        """The name that the model is served and asked for under."""
        return self.serving.claim.main.name


@dataclass(frozen=True, slots=True)
class Shelf:
    """What claims are looked up in: of the whole cluster, by name."""

    models: Mapping[tuple[str, str], OpenModel]
    runtimes: Mapping[tuple[str, str], BackendRuntime]
    configs: Mapping[str, GlobalConfig]
    broken: Mapping[ResourceKey, BrokenResource]

    @classmethod
    def of(cls, llmaz: Llmaz, broken: tuple[BrokenResource, ...]) -> "Shelf":
        """Everything that the commit declares."""
        return cls(
            models={(model.key.cluster, model.key.name): model for model in llmaz.models},
            runtimes={(runtime.key.cluster, runtime.key.name): runtime for runtime in llmaz.runtimes},
            configs={config.cluster: config for config in llmaz.configs},
            broken={each.key: each for each in reversed(broken)},
        )

    def find_model(self, serving: Serving) -> OpenModel | None:
        """The main model of a claim."""
        return self.models.get((serving.key.cluster, serving.claim.main.name))

    def find_broken(self, serving: Serving) -> BrokenResource | None:
        """The main model, when it is in Git and cannot be used."""
        name = serving.claim.main.name
        return self.broken.get(replace(serving.key, namespace="", kind="OpenModel", name=name))

    def find_runtime(self, serving: Serving) -> BackendRuntime | None:
        """The backend of a Playground, when Git has it."""
        backend = serving.backend
        return self.runtimes.get((serving.key.cluster, backend.name)) if backend is not None else None

    def is_placed(self, cluster: str) -> bool | None:
        """Whether pods go to the scheduler that knows flavors; None when nothing in Git says so."""
        config = self.configs.get(cluster)
        return None if config is None else config.scheduler_name == SCHEDULER


def join_served_models(
    llmaz: Llmaz, workloads: Iterable[Workload], broken: Sequence[BrokenResource]
) -> tuple[ServedModel, ...]:
    """Every Playground and Service whose scale target can be used, sorted by key."""
    shelf = Shelf.of(llmaz, tuple(broken))
    by_key = {workload.key: workload for workload in workloads}
    servings = sorted(llmaz.servings, key=lambda serving: serving.key)
    return tuple(_join(serving, by_key[serving.key], shelf) for serving in servings if serving.key in by_key)


def _join(serving: Serving, workload: Workload, shelf: Shelf) -> ServedModel:
    model = shelf.find_model(serving)
    flavors = rank_flavors(serving.claim.flavor_names, model)
    workload = replace(
        workload,
        replicas=serving.replicas,
        becomes=replace(workload.key, kind="LeaderWorkerSet"),
    )
    if serving.backend is not None:
        workload = run_backend(workload, serving, shelf.find_runtime(serving))
    if model is not None:
        labels = {**workload.template_labels, FAMILY_LABEL: model.spec.family_name}
        workload = replace(workload, template_labels=labels)
    if flavors and flavors[0].flavor is not None:
        workload = place_on(workload, flavors[0].flavor, serving.pods)
    return ServedModel(
        serving=serving,
        workload=workload,
        model=model,
        flavors=flavors,
        is_placed=shelf.is_placed(serving.key.cluster),
        hold=_find_hold(serving, model, flavors, shelf),
    )


def _find_hold(
    serving: Serving, model: OpenModel | None, flavors: tuple[RankedFlavor, ...], shelf: Shelf
) -> Hold | None:
    name = escape(serving.claim.main.name)
    if model is None:
        broken = shelf.find_broken(serving)
        if broken is None:
            return Hold(kind=HoldKind.REFERENCE_MISSING, words=f"OpenModel {name} is not in Git")
        words = f"OpenModel {name} cannot be used ({broken.place})"
        return Hold(kind=HoldKind.REFERENCE_MISSING, words=words, place=broken.place)
    if flavors and flavors[0].flavor is None:
        known = join_words([quote(flavor.name) for flavor in model.flavors]) or "none"
        words = f"OpenModel {name} has no flavor {quote(flavors[0].name)}, but {known} ({model.place})"
        return Hold(kind=HoldKind.REFERENCE_MISSING, words=words, place=model.place)
    return None


def find_owners(llmaz: Llmaz) -> Iterator[ReplicaOwner]:
    """The HPAs that llmaz makes: where a Playground has an elasticConfig, and it or its backend has a trigger.

    The backend's is the one of the config that the claim's models call for, even if another config is named.
    """
    shelf = Shelf.of(llmaz, ())
    for serving in llmaz.servings:
        place = _find_trigger(serving, shelf.find_runtime(serving))
        if place is not None:
            yield ReplicaOwner(
                cluster=serving.key.cluster,
                namespace=serving.key.namespace,
                owner=f"the HorizontalPodAutoscaler that llmaz makes of scaleTrigger for {serving.key.name}",
                target_kind=serving.key.kind,
                target_name=serving.key.name,
                place=place,
            )


def _find_trigger(serving: Serving, runtime: BackendRuntime | None) -> Place | None:
    if serving.elastic is None:
        return None
    if serving.elastic.scale_trigger is not None:
        return serving.place_of("elasticConfig", "scaleTrigger")
    return runtime.place_of_trigger(config_for(serving.claim)) if runtime is not None else None


_UNLOADED = ("s3", "gcs")
_TENSOR_PARALLEL = ("tensor-parallel-size", "tp", "tp-size")
_UNMEASURED = {
    "tensorrt-llm": "serves no metrics without a configuration of its own",
    "ollama": "serves no metrics",
}


def find_traps(llmaz: Llmaz, broken: tuple[BrokenResource, ...]) -> Iterator[Finding]:
    """Everything that is valid by itself and does not do what it says."""
    shelf = Shelf.of(llmaz, broken)
    for serving in llmaz.servings:
        model = shelf.find_model(serving)
        if model is None:
            if shelf.find_broken(serving) is None:
                yield _report_absent(serving, shelf)
        else:
            yield from _check_flavors(serving, model)
            yield from _check_loader(serving, model)
        if serving.backend is not None:
            yield from _check_backend(serving, serving.backend, shelf)
    yield from _check_scheduler(llmaz, shelf)


def _report_absent(serving: Serving, shelf: Shelf) -> Finding:
    name = serving.claim.main.name
    hint = suggest(name, (each for cluster, each in shelf.models if cluster == serving.key.cluster))
    words = f"OpenModel {escape(name)} is not in Git"
    if hint:
        return Finding(place=serving.main_place, severity=Severity.ERROR, message=words + hint)
    return _warn(serving.main_place, f"{words}: nothing can be decided")


def _check_flavors(serving: Serving, model: OpenModel) -> Iterator[Finding]:
    ranked = rank_flavors(serving.claim.flavor_names, model)
    place = serving.flavors_place
    known = join_words([quote(flavor.name) for flavor in model.flavors]) or "none"
    for each in ranked:
        if each.flavor is None:
            message = f"OpenModel {escape(model.key.name)} has no flavor {quote(each.name)}, but {known}"
            yield _warn(place, f"{message}: llmaz takes it and gives its pods no accelerator")
    yield from _check_fallbacks([each for each in ranked if each.flavor is not None], place)


def _check_fallbacks(ranked: list[RankedFlavor], place: Place) -> Iterator[Finding]:
    """Flavors can stand in for each other only with as many devices and with nodes of their own."""
    flavors = [each.flavor for each in ranked if each.flavor is not None]
    if len(flavors) < 2:
        return
    if any(flavor.devices != flavors[0].devices for flavor in flavors):
        names = join_words([quote(flavor.name) for flavor in flavors], "and")
        message = f"flavors {names} differ in their devices: llmaz asks for those of the first wherever a pod runs"
        yield _warn(place, message)
    bare = [flavor for flavor in flavors if not flavor.node_selector]
    if bare and len(bare) < len(flavors):
        message = f"flavor {quote(bare[0].name)} has no nodeSelector: the scheduler then looks at no flavor at all"
        yield _warn(place, message)


def _check_loader(serving: Serving, model: OpenModel) -> Iterator[Finding]:
    if model.protocol in _UNLOADED and not serving.skips_loader:
        message = (
            f"the weights are at {model.protocol}://, which llmaz's loader cannot read: annotate {SKIP_LOADER} "
            '"true" and let the backend read them'
        )
        yield _warn(serving.claim_place, message)


def _check_backend(serving: Serving, backend: BackendConfig, shelf: Shelf) -> Iterator[Finding]:
    place, runtime = serving.backend_place, shelf.find_runtime(serving)
    config = runtime.find_config(backend.config_name or config_for(serving.claim)) if runtime is not None else None
    if runtime is not None and config is None and backend.config_name:
        known = join_words([quote(each.name) for each in runtime.spec.configs or ()]) or "none"
        message = f"BackendRuntime {escape(runtime.key.name)} has no config {quote(backend.config_name)}, but {known}"
        yield _warn(place, message)
    args = (*((config.args if config else None) or ()), *(backend.args or ()))
    flags = read_flags(args)
    if backend.name == "sglang" and "enable-metrics" not in flags:
        yield _warn(place, "sglang serves no metrics without --enable-metrics: add it to args, or its load is unknown")
    elif backend.name in _UNMEASURED:
        yield _warn(place, f"{backend.name} {_UNMEASURED[backend.name]}: its load is unknown")
    yield from _check_parallelism(serving, shelf.find_model(serving), flags, place)


def _check_parallelism(
    serving: Serving, model: OpenModel | None, flags: Mapping[str, str], place: Place
) -> Iterator[Finding]:
    """llmaz derives no argument from a flavor, so both must be written alike."""
    ranked = rank_flavors(serving.claim.flavor_names, model)
    devices = sum(ranked[0].flavor.devices.values()) if ranked and ranked[0].flavor else 0
    written = next((flags[name] for name in _TENSOR_PARALLEL if name in flags), "")
    if devices and written.isascii() and written.isdigit() and len(written) < 6 and int(written) > devices:
        message = f"{written} devices are asked for by the arguments, {devices} by flavor {quote(ranked[0].name)}"
        yield _warn(place, message)


def _check_scheduler(llmaz: Llmaz, shelf: Shelf) -> Iterator[Finding]:
    """Since v0.1.0 a flavor's node selector is for llmaz's own scheduler alone."""
    for cluster, config in shelf.configs.items():
        models = (shelf.find_model(each) for each in llmaz.servings if each.key.cluster == cluster)
        flavors = (flavor for model in models if model is not None for flavor in model.flavors)
        if config.scheduler_name != SCHEDULER and any(flavor.node_selector for flavor in flavors):
            scheduler = quote(config.scheduler_name) if config.scheduler_name else "the cluster's own"
            message = f"pods go to the scheduler {scheduler}, which does not know flavors: their nodes are not enforced"
            yield _warn(config.place, message)


def _warn(place: Place, message: str) -> Finding:
    return Finding(place=place, severity=Severity.WARNING, message=message)


def fold_llmaz(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> Folded[Llmaz]:
    """Fold the pieces of all files; `broken` are the resources and scale targets that cannot be used already."""
    models, broken_models = split_duplicates(of_kind(pieces, OpenModel))
    runtimes, broken_runtimes = split_duplicates(of_kind(pieces, BackendRuntime))
    servings = sorted(of_kind(pieces, Serving), key=lambda serving: serving.key.kind)
    doubled, unusable = [*broken_models, *broken_runtimes], {each.key for each in broken}
    declared = Llmaz(
        models=tuple(models),
        servings=tuple(each for each in servings if each.key not in unusable),
        runtimes=tuple(runtimes),
        configs=tuple(of_kind(pieces, GlobalConfig)),
    )
    traps = find_traps(declared, (*broken, *doubled))
    return Folded(declared, tuple(doubled), (*map(report_duplicate, doubled), *traps))
