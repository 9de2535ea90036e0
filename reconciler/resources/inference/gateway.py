"""Pools, objectives, models and rewrites of the inference gateway.

Objects of equal names in two API groups are two objects.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.records import dataclass
from reconciler.resources.kubernetes.pods import mapping_at
from reconciler.resources.objects import KubernetesObject, Piece, Record, group_of, read_resource, repeated
from reconciler.resources.validation import NonEmpty, Shape

POOL_GROUP = "inference.networking.k8s.io"
EXPERIMENTAL_GROUP = "inference.networking.x-k8s.io"
ROUTER_GROUP = "llm-d.ai"
DEFAULT_PRIORITY = 0
"""The priority of requests without an objective, and of an objective without a priority."""

_GROUP = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KIND = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_Group = Annotated[str, Field(max_length=253, pattern=_GROUP, description="a group like gateway.networking.k8s.io")]
_KindName = Annotated[str, Field(min_length=1, max_length=63, pattern=_KIND, description="a kind like InferencePool")]
_ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
_PortNumber = Annotated[int, Field(ge=1, le=65535)]
_Weight = Annotated[int, Field(ge=1, le=1_000_000)]
_Value = Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE, description="a label's value")]


class PoolRef(Shape):
    """A pool by its group, kind and name, in the namespace of the resource that refers to it."""

    group: _Group = POOL_GROUP
    kind: _KindName = "InferencePool"
    name: _ObjectName


class ExperimentalPoolRef(PoolRef):
    """A pool by its name, in the experimental group unless another is written."""

    group: _Group = EXPERIMENTAL_GROUP


class _Selector(Shape):
    match_labels: Annotated[dict[str, _Value], Field(min_length=1, max_length=64)]


class _Port(Shape):
    number: _PortNumber


class _Extension(Shape):
    group: _Group = ""
    kind: _KindName = "Service"
    name: _ObjectName
    failure_mode: Literal["FailClose", "FailOpen"] = "FailClose"


class _Picker(_Extension):
    port: _Port | None = None


class PoolSpec(Shape):
    """InferencePoolSpec of v1."""

    selector: _Selector
    target_ports: Annotated[list[_Port], Field(min_length=1, max_length=8)]
    app_protocol: Literal["http", "kubernetes.io/h2c"] = "http"
    endpoint_picker_ref: _Picker | None = None


class _ExperimentalPicker(_Extension):
    port_number: _PortNumber | None = None


class ExperimentalPoolSpec(Shape):
    """InferencePoolSpec of the experimental group."""

    selector: dict[str, _Value]
    target_port_number: _PortNumber
    extension_ref: _ExperimentalPicker | None = None


class ObjectiveSpec(Shape):
    """InferenceObjectiveSpec."""

    priority: int | None = None
    pool_ref: PoolRef


class _WeightedTarget(Shape):
    name: _ObjectName
    weight: _Weight | None = None


class ModelSpec(Shape):
    """InferenceModelSpec."""

    model_name: Annotated[str, Field(min_length=1, max_length=256)]
    criticality: Literal["Critical", "Standard", "Sheddable"] | None = None
    target_models: Annotated[list[_WeightedTarget], Field(max_length=10)] | None = None
    pool_ref: ExperimentalPoolRef


class _ModelMatch(Shape):
    type: Literal["Exact"] = "Exact"
    value: NonEmpty


class _Match(Shape):
    model: _ModelMatch | None = None


class _RewriteTarget(Shape):
    model_rewrite: NonEmpty
    weight: _Weight | None = None


class _Rule(Shape):
    matches: list[_Match] | None = None
    targets: Annotated[list[_RewriteTarget], Field(min_length=1)]


class RewriteSpec(Shape):
    """InferenceModelRewriteSpec."""

    pool_ref: PoolRef
    rules: list[_Rule] | None = None


class InferencePool(Record[PoolSpec | ExperimentalPoolSpec]):
    """Pods of a namespace by their labels; every port of a pod is an endpoint of its own.

    It has no replicas and names no scale target: it belongs to the scale targets whose pods it selects.
    """

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels of its pods."""
        return self.spec.selector.match_labels if isinstance(self.spec, PoolSpec) else self.spec.selector

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels are in it; an empty selector selects none."""
        return bool(self.selector) and self.selector.items() <= labels.items()


class InferenceObjective(Record[ObjectiveSpec]):
    """How important the requests are that name it: higher goes first, below 0 is expendable."""

    @property
    def priority(self) -> int:
        """Its priority, or the default one."""
        return DEFAULT_PRIORITY if self.spec.priority is None else self.spec.priority


class InferenceModel(Record[ModelSpec]):
    """The older objective: a model's name in requests and its criticality."""

    @property
    def criticality(self) -> str:
        """How important its requests are."""
        return self.spec.criticality or "Standard"

    @property
    def priority(self) -> int:
        """Its criticality as a priority; only the order matters."""
        return {"Critical": 1, "Standard": 0, "Sheddable": -1}[self.criticality]


class ModelRewrite(Record[RewriteSpec]):
    """That requests of a pool are sent to other models; its rules change no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """All that the inference gateway declares in the commit."""

    pools: tuple[InferencePool, ...] = ()
    objectives: tuple[InferenceObjective, ...] = ()
    models: tuple[InferenceModel, ...] = ()
    rewrites: tuple[ModelRewrite, ...] = ()


def read_pool(source: KubernetesObject) -> Iterator[Piece]:
    """The pool, or the broken resource, and all findings."""
    if group_of(source) == POOL_GROUP:
        yield from read_resource(source, PoolSpec, InferencePool, named=("selector",), check=_check_pool)
    else:
        yield from read_resource(source, ExperimentalPoolSpec, InferencePool, named=("selector",))


def _check_pool(source: KubernetesObject, spec: PoolSpec) -> Iterator[Finding]:
    for index, number in repeated(port.number for port in spec.target_ports):
        message = f"port number must be unique, {number} is already listed above"
        yield source.complain(("spec", "targetPorts", index, "number"), message)
    picker = spec.endpoint_picker_ref
    if picker is not None and picker.kind == "Service" and picker.port is None:
        message = "port is required when the kind is Service or not written, found nothing"
        yield source.complain(("spec", "endpointPickerRef", "port"), message)


def read_objective(source: KubernetesObject) -> Iterator[Piece]:
    """The objective, or the broken resource, and all findings."""
    yield from read_resource(source, ObjectiveSpec, InferenceObjective, named=("poolRef",), check=_check_objective)


def _check_objective(source: KubernetesObject, spec: ObjectiveSpec) -> Iterator[Finding]:
    """The router's own group has 32 bits for a priority; the older one any integer."""
    limit = 2**31 if group_of(source) == ROUTER_GROUP else 2**63
    if spec.priority is not None and not -limit <= spec.priority < limit:
        message = f"expected an integer from {-limit} to {limit - 1}, got {spec.priority:.3e}"
        yield source.complain(("spec", "priority"), message)
    conditions = mapping_at(source.fields, ("status",)).get("conditions")
    if isinstance(conditions, list) and len(conditions) > 8:
        message = f"expected at most 8 items, got {len(conditions)}"
        yield source.complain(("status", "conditions"), message, Severity.WARNING)


def read_inference_model(source: KubernetesObject) -> Iterator[Piece]:
    """The InferenceModel, or the broken resource, and all findings."""
    yield from read_resource(source, ModelSpec, InferenceModel, named=("poolRef", "modelName"), check=_check_model)


def _check_model(source: KubernetesObject, spec: ModelSpec) -> Iterator[Finding]:
    weighted = [target.weight is not None for target in spec.target_models or ()]
    if any(weighted) and not all(weighted):
        message = f"expected a weight for every model or for none, got {sum(weighted)} of {len(weighted)}"
        yield source.complain(("spec", "targetModels"), message)


def read_rewrite(source: KubernetesObject) -> Iterator[Piece]:
    """The rewrite, or the broken resource, and all findings."""
    yield from read_resource(source, RewriteSpec, ModelRewrite, named=("poolRef", "rules"))
