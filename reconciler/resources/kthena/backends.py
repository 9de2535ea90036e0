"""Backends of a model: their schema, and the workers that a replica has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Annotated, Literal

from pydantic import Field, model_validator

from reconciler.domain.identity import Finding
from reconciler.domain.places import FieldPath
from reconciler.domain.workloads import LaunchSettings, PodPlace
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.kthena.policy_specs import (
    Count,
    MinReplicas,
    PolicyFieldsBeforeV1,
    ReplicaBoundsFields,
    Window,
)
from reconciler.resources.kubernetes.engines import read_launch
from reconciler.resources.kubernetes.fields import read_quantity
from reconciler.resources.kubernetes.pods import Affinity, PodSpec, Resources, list_devices, read_affinity, read_terms
from reconciler.resources.objects import KubernetesObject
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
