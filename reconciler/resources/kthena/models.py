"""Kthena's Model and ModelBooster with their backends."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from reconciler.domain.identity import Finding, Place
from reconciler.domain.metric_targets import Generation
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import Annotation, LaunchSettings, PodPlace, Workload
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.kthena.generations import (
    SERVED_BY,
    ModelStatus,
    Reader,
    Settings,
    field_of,
    find_era,
    read_with,
)
from reconciler.resources.kthena.policy_specs import (
    MAX_REPLICAS,
    Count,
    MinReplicas,
    PolicyFieldsBeforeV1,
    PolicySpec,
    ReplicaBoundsFields,
    Window,
    check_spec,
    read_spec,
)
from reconciler.resources.kthena.targets import DEFAULT_COST_EXPANSION_PERCENT, check_bounds
from reconciler.resources.kubernetes.engines import read_launch
from reconciler.resources.kubernetes.fields import parse_duration, read_quantity
from reconciler.resources.kubernetes.pods import (
    Affinity,
    PodSpec,
    Resources,
    agree_on_nodes,
    agree_on_values,
    list_devices,
    read_affinity,
    read_terms,
)
from reconciler.resources.objects import Declared, KubernetesObject, Piece, repeated
from reconciler.resources.validation import Shape, is_templated

_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_NAME = "lower-case letters, digits and -"
Name = Annotated[str, Field(pattern=_NAME_PATTERN, description=_NAME)]
ModelUri = Annotated[
    str, Field(alias="modelURI", pattern=r"^(hf://|s3://|pvc://|ms://).+", description="a URI of hf, s3, pvc or ms")
]
CacheUri = Annotated[
    str | None,
    Field(alias="cacheURI", pattern=r"^(hostpath://|pvc://).+", description="a URI of hostpath or pvc"),
]
ArtifactUrl = Annotated[
    str | None,
    Field(alias="artifactURL", pattern=r"^(hf://|s3://|pvc://|ms://).+", description="a URL of hf, s3, pvc or ms"),
]
BackendType = Literal["vLLM", "vLLMDisaggregated", "SGLang", "MindIE", "MindIEDisaggregated"]
WorkerType = Literal["server", "prefill", "decode", "controller", "coordinator"]


class WorkerFields(Shape):
    """Pods of one type; `config` is JSON of the engine."""

    type: WorkerType | None = None
    image: str | None = None
    replicas: MinReplicas | None = None
    pods: MinReplicas | None = None
    resources: Resources | None = None
    affinity: Affinity | None = None
    tolerations: list[object] | None = None
    node_selector: dict[str, str | None] | None = None
    config: dict[str, object] | None = None

    @property
    def kind(self) -> str:
        """Its type, or the default one."""
        return self.type or DEFAULT_TYPE

    @property
    def num_pods(self) -> int:
        """How many pods of it one replica of its backend has."""
        return (1 if self.replicas is None else self.replicas) * (self.pods or 1)

    @property
    def devices(self) -> dict[str, int]:
        """The devices that one of its pods asks for."""
        listed = ((resource, _count(quantity)) for _, resource, quantity in list_devices(self.resources or Resources()))
        return {resource: count for resource, count in listed if count}

    @property
    def nodes(self) -> dict[str, str]:
        """Its node selector."""
        return {key: value or "" for key, value in (self.node_selector or {}).items()}

    @property
    def flags(self) -> dict[str, str]:
        """Flags of the engine by name, without dashes."""
        return {name.lstrip("-").replace("_", "-"): _text(value) for name, value in (self.config or {}).items()}


class LoraFields(Shape):
    """A LoRA adapter that a backend serves."""

    name: Name
    artifact_url: ArtifactUrl = None


class PolicyRefFields(Shape):
    """A policy of the same namespace; empty is none."""

    name: str | None = None


class BackendFields(Shape):
    """What backends of all generations have. Environment variables are read in part."""

    name: Name | None = None
    type: BackendType
    model_uri: ModelUri
    cache_uri: CacheUri = None
    env: list[dict[str, object]] | None = None
    env_from: list[dict[str, object]] | None = None
    workers: Annotated[list[WorkerFields], Field(min_length=1, max_length=1000)]
    scheduler_name: str | None = None
    runtime_class_name: str | None = None


class BackendFieldsBeforeG3(BackendFields, ReplicaBoundsFields):
    """One of a Model's backends. Only G0 wrote `cost`, `config`, `loraAdapterRefs` and `autoscalingPolicyRef`."""

    name: Name
    scaling_cost: Count | None = None
    cost: Count | None = None
    route_weight: Annotated[int, Field(ge=0, le=100)] | None = None
    scale_to_zero_grace_period: Window | None = None
    lora_adapters: list[LoraFields] | None = None
    lora_adapter_refs: list[PolicyRefFields] | None = None
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None
    autoscaling_policy_ref: PolicyRefFields | None = None
    config: dict[str, object] | None = None


class BackendFieldsG3(BackendFields, ReplicaBoundsFields):
    """The only backend of a ModelBooster whose own policy scales it."""


class BackendFieldsG4(BackendFields):
    """The only backend of a ModelBooster with fixed replicas: other resources scale it, if any do."""

    replicas: MinReplicas | None = None


class StringMatchFields(Shape):
    """One way to match a text."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None

    @model_validator(mode="after")
    def _check_union(self) -> "StringMatchFields":
        written = [name for name in ("exact", "prefix", "regex") if getattr(self, name) is not None]
        if len(written) != 1:
            found = f"got {' and '.join(written)}" if written else "found none"
            raise ValueError(f"expected exactly one of exact, prefix and regex, {found}")
        return self


class BodyFields(Shape):
    """The model that a request names."""

    model: Annotated[str | StringMatchFields | None, Field(description="a name, or how it is matched")] = None


class MatchFields(Shape):
    """Which requests are for the model."""

    headers: dict[str, StringMatchFields] | None = None
    uri: StringMatchFields | None = None
    body: BodyFields | None = None


class ModelFields(Shape):
    """What specs of all generations have."""

    name: Annotated[str, Field(pattern=_NAME_PATTERN, max_length=64, description=f"{_NAME}, 64 at most")] | None = None
    owner: str | None = None
    model_match: MatchFields | None = None


class ModelFieldsBeforeG3(ModelFields):
    """The spec of a Model, and of a ModelBooster with several backends."""

    backends: Annotated[list[BackendFieldsBeforeG3], Field(min_length=1)]
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None
    autoscaling_policy_ref: PolicyRefFields | None = None
    cost_expansion_rate_percent: Annotated[int, Field(ge=0, le=1000)] | None = None


class BoosterFieldsG3(ModelFields):
    """The spec of a ModelBooster with one backend and a policy."""

    backend: BackendFieldsG3
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None


class BoosterFieldsG4(ModelFields):
    """The spec of a ModelBooster with fixed replicas."""

    backend: BackendFieldsG4


AnyBackendFields = BackendFieldsBeforeG3 | BackendFieldsG3 | BackendFieldsG4
AnyModelFields = ModelFieldsBeforeG3 | BoosterFieldsG3 | BoosterFieldsG4


DEFAULT_TYPE = "server"
_SERVER = (DEFAULT_TYPE,)
_DISAGGREGATED = ("prefill", "decode")
_WORKER_TYPES: Mapping[str, tuple[str, ...]] = {
    "vLLM": _SERVER,
    "SGLang": _SERVER,
    "MindIE": _SERVER,
    "vLLMDisaggregated": _DISAGGREGATED,
    "MindIEDisaggregated": (*_DISAGGREGATED, "controller", "coordinator"),
}
_ENGINES = {"vLLM": "vllm", "vLLMDisaggregated": "vllm", "SGLang": "sglang"}
# Which worker's engine settings count, where there are several.
_BY_RANK = ("server", "decode", "prefill")
_MAX_DEVICES = 10_000
_UNPLACEABLE = "its worker has no nodeSelector, which not every Kthena knows: write the one it runs on, or its affinity"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _count(quantity: int | float | str | None) -> int | None:
    try:
        amount = read_quantity(quantity) if quantity is not None else -1.0
    except ValueError:
        return None
    return int(amount) if isfinite(amount) and amount.is_integer() and 0 <= amount <= _MAX_DEVICES else None


def find_templated_device(resources: Resources | None) -> tuple[str, str] | None:
    """Where a number of devices is filled in later."""
    found = (
        (where, name) for where, name, quantity in list_devices(resources or Resources()) if is_templated(quantity)
    )
    return next(found, None)


def check_workers(source: KubernetesObject, backend: BackendFields, path: FieldPath) -> Iterator[Finding]:
    """The types that the type of the backend wants, and whole devices."""
    types = [worker.kind for worker in backend.workers]
    allowed = _WORKER_TYPES[backend.type]
    for index, name in enumerate(types):
        if name not in allowed:
            message = f"expected {join_words(allowed)} in a backend of type {backend.type}, got {quote(name)}"
            yield source.complain((*path, "workers", index, "type"), message)
    if allowed == _SERVER and len(types) != 1:
        message = f"expected exactly one worker in a backend of type {backend.type}, got {len(types)}"
        yield source.complain((*path, "workers"), message)
    for index, worker in enumerate(backend.workers):
        for where, resource, quantity in list_devices(worker.resources or Resources()):
            if _count(quantity) is None and not is_templated(quantity):
                words = f"{'found' if quantity is None else 'got'} {describe(quantity)}"
                field = (*path, "workers", index, "resources", where, resource)
                yield source.complain(field, f"expected a whole number of devices, {words}")


def add_devices(workers: Sequence[WorkerFields]) -> dict[str, int]:
    """The devices of one replica of a backend, over all its pods."""
    total: Counter[str] = Counter()
    for worker in workers:
        total.update({resource: count * worker.num_pods for resource, count in worker.devices.items()})
    return {resource: count for resource, count in total.items() if count}


def find_resources(workers: Sequence[WorkerFields], path: FieldPath) -> FieldPath | None:
    """The resources of the only worker that asks for devices, where one pod of it makes a replica."""
    asking = [index for index, worker in enumerate(workers) if worker.devices]
    is_one = len(asking) == 1 and workers[asking[0]].num_pods == 1
    return (*path, "workers", asking[0], "resources") if is_one else None


def place_workers(workers: Sequence[WorkerFields], path: FieldPath) -> tuple[PodPlace, ...]:
    """The workers with devices, else the first; no reference of the API names `nodeSelector`, so one must be there."""
    asking = [index for index, worker in enumerate(workers) if worker.devices] or [0]
    return tuple(
        PodPlace(
            path=(*path, "workers", index),
            node_selector=workers[index].nodes,
            affinity=read_affinity(PodSpec(affinity=workers[index].affinity)),
            terms=read_terms(PodSpec(affinity=workers[index].affinity)),
            unplaceable="" if workers[index].nodes else _UNPLACEABLE,
        )
        for index in asking
    )


def read_engine_of(
    backend_type: str, workers: Sequence[WorkerFields], env: Mapping[str, str]
) -> tuple[str, LaunchSettings | None]:
    """The engine of a backend, and how its telling worker starts it."""
    engine = _ENGINES.get(backend_type, "")
    config = _leading(workers).flags
    words = [f"--{name}={value}" if value else f"--{name}" for name, value in config.items()]
    return engine, read_launch(engine, words, env)


def read_served_name(workers: Sequence[WorkerFields]) -> tuple[str, ...]:
    """Under which names the engine serves its model, as far as its configuration says."""
    names = _leading(workers).flags.get("served-model-name", "").split()
    return tuple(dict.fromkeys(name for name in names if "$" not in name))


def _leading(workers: Sequence[WorkerFields]) -> WorkerFields:
    ranked = sorted(workers, key=lambda worker: _BY_RANK.index(worker.kind) if worker.kind in _BY_RANK else 9)
    return ranked[0]


_SPEC = ("spec",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBackend:
    """A backend and where it stands."""

    fields: AnyBackendFields
    path: FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBackend:
    """One way in which a model is served.

    `workload` is what one of its replicas is made of, and how many are in Git: `minReplicas` (with `maxReplicas`, where
    nothing scales it), or `replicas` since v1.0, where both bounds are that number. `serving` is the name of the
    ModelInfer or ModelServing made from it. A policy is its own or, by name, another resource.
    """

    name: str
    type: str
    serving: str
    workload: Workload
    min_replicas: int
    max_replicas: int
    place: Place
    cost: int = 0
    route_weight: int = 100
    scale_to_zero_grace_s: float | None = None
    workers: Sequence[WorkerFields] = ()
    lora_adapters: tuple[str, ...] = ()
    """The names under which it serves adapters besides its model."""
    policy: PolicySpec | None = None
    policy_ref: str = ""
    policy_ref_place: Place | None = None

    @property
    def has_policy(self) -> bool:
        """Whether it is scaled by a policy of its own."""
        return self.policy is not None or bool(self.policy_ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResource(Declared):
    """A Model or ModelBooster: backends that serve `model_id`, scaled together, one by one, or not at all."""

    source: KubernetesObject
    generation: Generation
    label_prefix: str
    model_id: str
    backends: tuple[ModelBackend, ...]
    matched_name: str | None = None
    """The exact name that requests for it bear, where its match says one."""
    policy: PolicySpec | None = None
    policy_ref: str = ""
    cost_expansion_percent: int = DEFAULT_COST_EXPANSION_PERCENT
    settings: Mapping[str, Annotation] = field(default_factory=dict)

    @property
    def has_policy(self) -> bool:
        """Whether all its backends are scaled as one."""
        return self.policy is not None or bool(self.policy_ref)

    @property
    def served_names(self) -> tuple[str, ...]:
        """Under which names requests ask for it: its own, the one it is matched by, and those of its adapters."""
        matched = () if self.matched_name is None else (self.matched_name,)
        loras = (name for backend in self.backends for name in backend.lora_adapters)
        named = (name for backend in self.backends for name in backend.workload.served_names)
        return tuple(dict.fromkeys((self.model_id, *matched, *named, *loras)))

    def share_of(self, backend: ModelBackend) -> float | None:
        """The fraction of its requests that its route sends to one of its backends; None where there is but one.

        Weights that are all 0 would route nothing: then all backends count alike.
        """
        if len(self.backends) < 2:
            return None
        total = sum(each.route_weight for each in self.backends)
        return backend.route_weight / total if total else 1 / len(self.backends)


def backends_of(fields: AnyModelFields) -> tuple[PlacedBackend, ...]:
    """The backends of a spec of any generation."""
    if isinstance(fields, ModelFieldsBeforeG3):
        paths = ((*_SPEC, "backends", index) for index in range(len(fields.backends)))
        return tuple(PlacedBackend(fields=each, path=path) for each, path in zip(fields.backends, paths, strict=True))
    return (PlacedBackend(fields=fields.backend, path=(*_SPEC, "backend")),)


def ref_name(reference: PolicyRefFields | None) -> str:
    """The name of a policy that is referred to; empty when none is."""
    return (reference.name or "") if reference else ""


def has_policy(fields: AnyModelFields | AnyBackendFields) -> bool:
    """Whether a policy stands there, or the name of one."""
    if isinstance(fields, ModelFieldsBeforeG3 | BackendFieldsBeforeG3):
        return fields.autoscaling_policy is not None or bool(ref_name(fields.autoscaling_policy_ref))
    return isinstance(fields, BoosterFieldsG3) and fields.autoscaling_policy is not None


def check_model(source: KubernetesObject, fields: AnyModelFields) -> Iterator[Finding]:
    """Everything that is wrong with backends and policies, each by itself and together."""
    backends, model = backends_of(fields), fields.name or source.name
    if isinstance(fields, ModelFieldsBeforeG3 | BoosterFieldsG3) and fields.autoscaling_policy is not None:
        yield from check_spec(source, fields.autoscaling_policy, (*_SPEC, "autoscalingPolicy"), is_inline=True)
    for index, name in repeated(each.fields.name for each in backends):
        yield source.complain((*backends[index].path, "name"), f"backend {quote(name or '')} is already listed above")
    for backend in backends:
        yield from _check_backend(source, model, backend.fields, backend.path)
    total = sum(each.fields.max_replicas for each in backends if not isinstance(each.fields, BackendFieldsG4))
    if total > MAX_REPLICAS:
        message = f"expected maxReplicas of at most {MAX_REPLICAS} over all backends, got {total}"
        yield source.complain((*_SPEC, "backends"), message)
    yield from _check_policies(source, fields, backends)


def _check_backend(
    source: KubernetesObject, model: str, fields: AnyBackendFields, path: FieldPath
) -> Iterator[Finding]:
    yield from check_workers(source, fields, path)
    if not isinstance(fields, BackendFieldsG4):
        yield from check_bounds(source, fields, path)
    if not isinstance(fields, BackendFieldsBeforeG3):
        return
    if fields.autoscaling_policy is not None:
        yield from check_spec(source, fields.autoscaling_policy, (*path, "autoscalingPolicy"), is_inline=True)
    if fields.cost is not None and fields.scaling_cost is not None:
        yield source.complain((*path, "cost"), "contradicts scalingCost, its newer name: remove one of the two")
    loras = [lora.name for lora in fields.lora_adapters or ()]
    doubled = dict(repeated(loras))
    for index, name in enumerate(loras):
        place = (*path, "loraAdapters", index, "name")
        if name == model:
            yield source.complain(place, f"expected another name than the model's, got {quote(name)}")
        if index in doubled:
            yield source.complain(place, f"LoRA adapter {quote(name)} is already listed above")


def _check_policies(
    source: KubernetesObject, fields: AnyModelFields, backends: Sequence[PlacedBackend]
) -> Iterator[Finding]:
    """A policy of the model, of its backends or none: each forbids fields that are for another."""
    own = [backend for backend in backends if has_policy(backend.fields)]
    older = fields if isinstance(fields, ModelFieldsBeforeG3) else None
    if has_policy(fields):
        for backend in own:
            is_inline = getattr(backend.fields, "autoscaling_policy", None) is not None
            field = "autoscalingPolicy" if is_inline else "autoscalingPolicyRef"
            message = "the model has a policy too: one of both levels scales, remove the other"
            yield source.complain((*backend.path, field), message)
        if older is not None and not own:
            yield from _check_group(source, older, backends)
        return
    for backend in own or backends:
        if own and isinstance(backend.fields, BackendFieldsBeforeG3) and backend.fields.min_replicas < 1:
            message = f"expected at least 1 in a backend with a policy of its own, got {backend.fields.min_replicas}"
            yield source.complain((*backend.path, "minReplicas"), message)
        if not own and not isinstance(backend.fields, BackendFieldsG4):
            low, high = backend.fields.min_replicas, backend.fields.max_replicas
            if low < high:
                message = f"expected minReplicas ({low}), since no policy scales it, got {high}"
                yield source.complain((*backend.path, "maxReplicas"), message)
        if isinstance(backend.fields, BackendFieldsBeforeG3):
            for name, value in (
                ("scalingCost", backend.fields.scaling_cost),
                ("cost", backend.fields.cost),
                ("scaleToZeroGracePeriod", backend.fields.scale_to_zero_grace_period),
            ):
                if value:
                    why = "a policy of the backend" if own else "no policy"
                    message = f"expected nothing with {why}: it is for a policy of the model"
                    yield source.complain((*backend.path, name), message)
    if older is not None and older.cost_expansion_rate_percent is not None:
        why = "policies of backends" if own else "no policy"
        message = f"expected nothing with {why}: it is for a policy of the model"
        yield source.complain((*_SPEC, "costExpansionRatePercent"), message)


def _check_group(
    source: KubernetesObject, fields: ModelFieldsBeforeG3, backends: Sequence[PlacedBackend]
) -> Iterator[Finding]:
    """The rules of a policy over all backends; grace periods and the rate have defaults."""
    for backend, each in zip(backends, fields.backends, strict=True):
        if not (each.scaling_cost or each.cost):
            path = backend.path if each.scaling_cost is None else (*backend.path, "scalingCost")
            message = "expected a scalingCost above 0: the policy of the model splits replicas by cost"
            yield source.complain(path, message)
    if sum(each.min_replicas for each in fields.backends) < 1:
        message = "expected minReplicas of at least 1 over all backends, got 0"
        yield source.complain((*_SPEC, "backends"), message)


_DEFAULT_GRACE_S = 30.0
_DEFAULT_ROUTE_WEIGHT = 100
_BOUND_FIELDS = ("minReplicas", "maxReplicas")
_EDIT_RESETS = (
    "any edit of a backend makes Kthena set the replicas of its workload back to the number in Git, "
    "losing any scaling since"
)


def read_model(source: KubernetesObject) -> Iterator[Piece]:
    """The model, or the broken resource, and all findings."""
    yield from read_with(source, _tell)


def read_booster(source: KubernetesObject) -> Iterator[Piece]:
    """The ModelBooster, or the broken resource, and all findings."""
    yield from read_with(source, _tell_booster)


def _tell(_: KubernetesObject, __: Mapping[str, object]) -> Reader[Any]:
    decides = ("name", "autoscalingPolicyRef")
    return Reader(model=ModelFieldsBeforeG3, check=check_model, build=_build, status=ModelStatus, decides=decides)


def _tell_booster(source: KubernetesObject, spec: Mapping[str, object]) -> Reader[Any] | Finding:
    backend = spec.get("backend")
    if "backends" in spec:
        if backend is not None:
            message = "backend (since v0.2) contradicts backends (before it): remove one of the two"
            return source.complain(("spec", "backend"), message)
        return _tell(source, spec)
    written = backend if isinstance(backend, dict) else {}
    bounds = [name for name in _BOUND_FIELDS if written.get(name) is not None]
    if written.get("replicas") is not None and bounds:
        message = f"replicas (since v1.0) contradicts {bounds[0]} (before it): remove one of the two"
        return source.complain(("spec", "backend", "replicas"), message)
    if bounds or spec.get("autoscalingPolicy") is not None:
        return Reader(model=BoosterFieldsG3, check=check_model, build=_build, status=ModelStatus, decides=("name",))
    return Reader(model=BoosterFieldsG4, check=check_model, build=_build, status=ModelStatus, decides=("name",))


def _generation_of(fields: AnyModelFields) -> Generation | None:
    if isinstance(fields, BoosterFieldsG3):
        return Generation.G3
    return Generation.G4 if isinstance(fields, BoosterFieldsG4) else None


def _build(source: KubernetesObject, fields: AnyModelFields, settings: Settings) -> ModelResource:
    era = find_era(source, _generation_of(fields))
    older = fields if isinstance(fields, ModelFieldsBeforeG3) else None
    reference = older.autoscaling_policy_ref if older else None
    rate = older.cost_expansion_rate_percent if older else None
    model = fields.model_match.body.model if fields.model_match is not None and fields.model_match.body else None
    return ModelResource(
        source=source,
        generation=era.generation,
        label_prefix=era.label_prefix,
        model_id=fields.name or source.name,
        backends=tuple(_read_backend(source, fields, each, settings) for each in backends_of(fields)),
        matched_name=model if model is None or isinstance(model, str) else model.exact,
        policy=_read_policy(source, fields, ("spec",)),
        policy_ref=ref_name(reference),
        cost_expansion_percent=DEFAULT_COST_EXPANSION_PERCENT if rate is None else rate,
        settings=settings,
    )


def _read_policy(
    source: KubernetesObject, fields: AnyModelFields | AnyBackendFields, path: FieldPath
) -> PolicySpec | None:
    if isinstance(fields, ModelFieldsBeforeG3 | BoosterFieldsG3 | BackendFieldsBeforeG3):
        policy = fields.autoscaling_policy
        return read_spec(source, policy, (*path, "autoscalingPolicy"), is_inline=True) if policy is not None else None
    return None


def _read_backend(
    source: KubernetesObject, model: AnyModelFields, backend: PlacedBackend, settings: Settings
) -> ModelBackend:
    fields, path = backend.fields, backend.path
    lowest, highest, names = _replicas_of(fields, is_scaled=has_policy(model) or has_policy(fields))
    older = fields if isinstance(fields, BackendFieldsBeforeG3) else None
    plain = ModelBackend(
        name=fields.name or "",
        type=fields.type,
        serving=serving_name(source, fields),
        workload=_read_workload(source, backend, names, lowest, settings),
        min_replicas=lowest,
        max_replicas=highest,
        place=source.locate(path),
        workers=fields.workers,
    )
    return plain if older is None else _add_older(source, plain, older, model, path)


def _add_older(
    source: KubernetesObject,
    backend: ModelBackend,
    fields: BackendFieldsBeforeG3,
    model: AnyModelFields,
    path: FieldPath,
) -> ModelBackend:
    """What backends had while they were several."""
    grace, reference = fields.scale_to_zero_grace_period, fields.autoscaling_policy_ref
    weight, loras = fields.route_weight, fields.lora_adapters or ()
    return replace(
        backend,
        cost=fields.scaling_cost or fields.cost or 0,
        route_weight=_DEFAULT_ROUTE_WEIGHT if weight is None else weight,
        scale_to_zero_grace_s=parse_duration(grace) if grace else _DEFAULT_GRACE_S if has_policy(model) else None,
        lora_adapters=tuple(each.name for each in loras),
        policy=_read_policy(source, fields, path),
        policy_ref=ref_name(reference),
        policy_ref_place=source.locate((*path, "autoscalingPolicyRef")) if reference else None,
    )


def _replicas_of(fields: AnyBackendFields, *, is_scaled: bool) -> tuple[int, int, tuple[str, ...]]:
    """The bounds of its replicas, and the fields that hold the count: both bounds where nothing scales it."""
    if isinstance(fields, BackendFieldsG4):
        replicas = 1 if fields.replicas is None else fields.replicas
        return replicas, replicas, ("replicas",)
    return fields.min_replicas, fields.max_replicas, _BOUND_FIELDS[:1] if is_scaled else _BOUND_FIELDS


def serving_name(source: KubernetesObject, backend: AnyBackendFields) -> str:
    """What the ModelInfer or ModelServing is called that is made from a backend."""
    return f"{source.name}-{backend.name}" if backend.name else source.name


def _read_workload(
    source: KubernetesObject,
    backend: PlacedBackend,
    names: Sequence[str],
    replicas: int,
    settings: Settings,
) -> Workload:
    fields, workers = backend.fields, backend.fields.workers
    pods = place_workers(workers, backend.path)
    engine, launch = read_engine_of(fields.type, workers, read_env(fields.env))
    place = source.locate((*backend.path, names[0]))
    is_written = not (isinstance(fields, BackendFieldsG4) and fields.replicas is None)
    return Workload(
        key=replace(source.key, part=fields.name or ""),
        document=source.ref,
        place=source.locate(backend.path),
        replicas=replicas if is_written else None,
        replicas_place=place if is_written else None,
        node_selector=agree_on_nodes([each.node_selector for each in pods]),
        affinity=agree_on_values([each.affinity for each in pods]),
        devices=add_devices(workers),
        device_resources=find_resources(workers, backend.path),
        pods=pods,
        served_names=read_served_name(workers),
        engine=engine,
        launch=launch,
        labels=source.labels,
        settings=settings,
        templated=_find_templated(source, backend),
        replica_fields=tuple(field_of(source, (*backend.path, name)) for name in names),
        caution=_EDIT_RESETS,
        becomes=replace(source.key, kind=SERVED_BY[source.kind], name=serving_name(source, fields)),
    )


def _find_templated(source: KubernetesObject, backend: PlacedBackend) -> str:
    for index, worker in enumerate(backend.fields.workers):
        found = find_templated_device(worker.resources)
        if found is not None:
            return source.locate((*backend.path, "workers", index, "resources", *found)).field
    return ""


def read_env(entries: Sequence[Mapping[str, object]] | None) -> dict[str, str]:
    """Environment variables with a value of their own."""
    return {str(entry["name"]): str(entry["value"]) for entry in entries or () if {"name", "value"} <= entry.keys()}
