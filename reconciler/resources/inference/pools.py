"""InferencePool, in its own group and in the experimental one before it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.inference import POOL_GROUP, InferencePool
from reconciler.domain.findings import Finding
from reconciler.resources.inference.references import Group, KindName, ObjectName, Port, group_of
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape

_ASSUMED_PORT = 9002
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_Value = Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE, description="a label's value")]
_FailureMode = Literal["FailClose", "FailOpen"]


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
