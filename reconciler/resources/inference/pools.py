"""InferencePool, in its own group and in the experimental one before it, and how other resources refer to it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.inference import EXPERIMENTAL_GROUP, POOL_GROUP, InferencePool, PoolRef
from reconciler.domain.identity import Finding
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape

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
            build=lambda spec: _build(source, spec.selector.match_labels),
        )
        return
    yield from read_resource(
        source,
        _ExperimentalSpec,
        named=("selector",),
        check=lambda _: (),
        build=lambda spec: _build(source, spec.selector),
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


def _build(source: KubernetesObject, selector: Mapping[str, str]) -> Iterator[Piece]:
    yield InferencePool(key=source.key, group=group_of(source), place=source.place, selector=selector)
