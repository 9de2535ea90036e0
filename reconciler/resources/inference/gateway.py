"""Pools, objectives, models and rewrites of the inference gateway."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.resources.kubernetes.pods import mapping_at
from reconciler.resources.objects import KubernetesObject, Piece, read_resource
from reconciler.resources.validation import NonEmpty, Shape

# --- was reconciler/domain/declared/inference.py:
# What the inference gateway declares: pools of pods that serve models, and how important requests to them are.
# `group` is the API group an object is written in: objects of equal names in two groups are two objects.

POOL_GROUP = "inference.networking.k8s.io"
EXPERIMENTAL_GROUP = "inference.networking.x-k8s.io"
ROUTER_GROUP = "llm-d.ai"
DEFAULT_PRIORITY = 0
"""The priority of requests that no objective speaks for, and of an objective that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRef:
    """A pool in the namespace of whoever refers to it."""

    name: str
    group: str = POOL_GROUP
    kind: str = "InferencePool"
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceObjective:
    """How important the requests are that name it: higher goes first, below 0 is expendable.

    `priority_place` is None when no priority is written.
    """

    key: ResourceKey
    group: str
    place: Place
    pool: PoolRef
    priority: int = DEFAULT_PRIORITY
    priority_place: Place | None = None


class Criticality(StrEnum):
    """How important a model's requests were before there were priorities."""

    CRITICAL = "Critical"
    STANDARD = "Standard"
    SHEDDABLE = "Sheddable"

    @property
    def priority(self) -> int:
        """In today's terms; only the order matters."""
        return {Criticality.CRITICAL: 1, Criticality.STANDARD: 0, Criticality.SHEDDABLE: -1}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceModel:
    """The older objective: a model's name in requests and its criticality."""

    key: ResourceKey
    group: str
    place: Place
    model_name: str
    pool: PoolRef
    criticality: Criticality = Criticality.STANDARD
    criticality_place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePool:
    """Pods of a namespace by their labels; every port of a pod is an endpoint of its own.

    It has no replicas and names no scale target: those whose pods it selects are its.
    """

    key: ResourceKey
    group: str
    place: Place
    selector: Mapping[str, str]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels are in it; an empty selector selects none."""
        return bool(self.selector) and self.selector.items() <= labels.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRewrite:
    """That requests of a pool are sent to other models; by which rules changes no count."""

    key: ResourceKey
    group: str
    place: Place
    pool: PoolRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """All that the inference gateway declares in the commit."""

    pools: tuple[InferencePool, ...] = ()
    objectives: tuple[InferenceObjective, ...] = ()
    models: tuple[InferenceModel, ...] = ()
    rewrites: tuple[ModelRewrite, ...] = ()


# --- was reconciler/resources/inference/pools.py:
# InferencePool, in its own group and in the experimental one before it, and how other resources refer to it.

POOL_REF = ("spec", "poolRef")
_GROUP = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KIND = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"

Group = Annotated[str, Field(max_length=253, pattern=_GROUP, description="a group like gateway.networking.k8s.io")]
KindName = Annotated[str, Field(min_length=1, max_length=63, pattern=_KIND, description="a kind like InferencePool")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
Weight = Annotated[int, Field(ge=1, le=1_000_000)]
_ASSUMED_PORT = 9002
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_Value = Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE, description="a label's value")]
_FailureMode = Literal["FailClose", "FailOpen"]


class PoolRefFields(Shape):
    """A pool by its group, kind and name."""

    group: Group = POOL_GROUP
    kind: KindName = "InferencePool"
    name: ObjectName


class ExperimentalPoolRefFields(PoolRefFields):
    """A pool by its name, in the experimental group unless another is written."""

    group: Group = EXPERIMENTAL_GROUP


def group_of(source: KubernetesObject) -> str:
    """The API group an object is written in."""
    return str(source.fields.get("apiVersion")).rpartition("/")[0]


def as_pool_ref(source: KubernetesObject, ref: PoolRefFields) -> PoolRef:
    """The reference with its place."""
    return PoolRef(name=ref.name, group=ref.group, kind=ref.kind, place=source.locate(POOL_REF))


class _Selector(Shape):
    match_labels: Annotated[dict[str, _Value], Field(min_length=1, max_length=64)]


class _Port(Shape):
    number: Port


class _Extension(Shape):
    group: Group = ""
    kind: KindName = "Service"
    name: ObjectName
    failure_mode: _FailureMode = "FailClose"


class _Picker(_Extension):
    port: _Port | None = None


class _PoolSpec(Shape):
    selector: _Selector
    target_ports: Annotated[list[_Port], Field(min_length=1, max_length=8)]
    app_protocol: Literal["http", "kubernetes.io/h2c"] = "http"
    endpoint_picker_ref: _Picker | None = None


class _ExperimentalPicker(_Extension):
    port_number: Port | None = None


class _ExperimentalSpec(Shape):
    selector: dict[str, _Value]
    target_port_number: Port
    extension_ref: _ExperimentalPicker | None = None


def read_pool(source: KubernetesObject) -> Iterator[Piece]:
    """The pool, or the broken resource, and all that must be said about it."""
    if group_of(source) == POOL_GROUP:
        yield from read_resource(
            source,
            _PoolSpec,
            named=("selector",),
            check=lambda spec: _check(source, spec),
            build=lambda spec: _build_pool(source, spec.selector.match_labels),
        )
        return
    yield from read_resource(
        source,
        _ExperimentalSpec,
        named=("selector",),
        check=lambda _: (),
        build=lambda spec: _build_pool(source, spec.selector),
    )


def _check(source: KubernetesObject, spec: _PoolSpec) -> Iterator[Finding]:
    seen: set[int] = set()
    for index, port in enumerate(spec.target_ports):
        if port.number in seen:
            path = ("spec", "targetPorts", index, "number")
            yield source.complain(path, f"port number must be unique, {port.number} is already listed above")
        seen.add(port.number)
    picker = spec.endpoint_picker_ref
    if picker is not None and picker.kind == "Service" and picker.port is None:
        message = "port is required when the kind is Service or not written, found nothing"
        yield source.complain(("spec", "endpointPickerRef", "port"), message)


def _build_pool(source: KubernetesObject, selector: Mapping[str, str]) -> Iterator[Piece]:
    yield InferencePool(key=source.key, group=group_of(source), place=source.place, selector=selector)


# --- was reconciler/resources/inference/objectives.py:
# InferenceObjective and the InferenceModel before it, how important requests are; and what sends some elsewhere.

_MAX_CONDITIONS = 8
_INT32, _INT64 = 2**31, 2**63
_PRIORITY, _CRITICALITY = ("spec", "priority"), ("spec", "criticality")


class ObjectiveFields(Shape):
    """InferenceObjectiveSpec."""

    priority: int | None = None
    pool_ref: PoolRefFields


class _WeightedTargetFields(Shape):
    name: ObjectName
    weight: Weight | None = None


class _InferenceModelSpec(Shape):
    model_name: Annotated[str, Field(min_length=1, max_length=256)]
    criticality: Literal["Critical", "Standard", "Sheddable"] | None = None
    target_models: Annotated[list[_WeightedTargetFields], Field(max_length=10)] | None = None
    pool_ref: ExperimentalPoolRefFields


def read_objective(source: KubernetesObject) -> Iterator[Piece]:
    """The objective, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        ObjectiveFields,
        named=("poolRef",),
        check=lambda spec: _check_objective(source, spec),
        build=lambda spec: _build_objective(source, spec),
    )


def read_inference_model(source: KubernetesObject) -> Iterator[Piece]:
    """The InferenceModel, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _InferenceModelSpec,
        named=("poolRef", "modelName"),
        check=lambda spec: _check_model(source, spec),
        build=lambda spec: _build_model(source, spec),
    )


def _check_objective(source: KubernetesObject, spec: ObjectiveFields) -> Iterator[Finding]:
    """The router's own group has 32 bits for a priority; the older one only what any integer has."""
    limit = _INT32 if group_of(source) == ROUTER_GROUP else _INT64
    if spec.priority is not None and not -limit <= spec.priority < limit:
        yield source.complain(_PRIORITY, f"expected an integer from {-limit} to {limit - 1}, got {spec.priority:.3e}")
    conditions = mapping_at(source.fields, ("status",)).get("conditions")
    if isinstance(conditions, list) and len(conditions) > _MAX_CONDITIONS:
        message = f"expected at most {_MAX_CONDITIONS} items, got {len(conditions)}"
        yield source.complain(("status", "conditions"), message, Severity.WARNING)


def _build_objective(source: KubernetesObject, spec: ObjectiveFields) -> Iterator[Piece]:
    yield InferenceObjective(
        key=source.key,
        group=group_of(source),
        place=source.place,
        pool=as_pool_ref(source, spec.pool_ref),
        priority=DEFAULT_PRIORITY if spec.priority is None else spec.priority,
        priority_place=None if spec.priority is None else source.locate(_PRIORITY),
    )


def _check_model(source: KubernetesObject, spec: _InferenceModelSpec) -> Iterator[Finding]:
    weighted = [target.weight is not None for target in spec.target_models or ()]
    if any(weighted) and not all(weighted):
        message = f"expected a weight for every model or for none, got {sum(weighted)} of {len(weighted)}"
        yield source.complain(("spec", "targetModels"), message)


def _build_model(source: KubernetesObject, spec: _InferenceModelSpec) -> Iterator[Piece]:
    yield InferenceModel(
        key=source.key,
        group=group_of(source),
        place=source.place,
        model_name=spec.model_name,
        pool=as_pool_ref(source, spec.pool_ref),
        criticality=Criticality(spec.criticality or Criticality.STANDARD),
        criticality_place=None if spec.criticality is None else source.locate(_CRITICALITY),
    )


class _ModelMatch(Shape):
    type: Literal["Exact"] = "Exact"
    value: NonEmpty


class _Match(Shape):
    model: _ModelMatch | None = None


class _RewriteTargetFields(Shape):
    model_rewrite: NonEmpty
    weight: Weight | None = None


class _Rule(Shape):
    matches: list[_Match] | None = None
    targets: Annotated[list[_RewriteTargetFields], Field(min_length=1)]


class _RewriteSpec(Shape):
    pool_ref: PoolRefFields
    rules: list[_Rule] | None = None


def read_rewrite(source: KubernetesObject) -> Iterator[Piece]:
    """The rewrite, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _RewriteSpec,
        named=("poolRef", "rules"),
        check=lambda _: (),
        build=lambda spec: _build_rewrite(source, spec),
    )


def _build_rewrite(source: KubernetesObject, spec: _RewriteSpec) -> Iterator[Piece]:
    yield ModelRewrite(
        key=source.key,
        group=group_of(source),
        place=source.place,
        pool=as_pool_ref(source, spec.pool_ref),
    )
