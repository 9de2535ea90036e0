"""`llmaz.io/v1alpha1` OpenModel: where a model's weights come from and which flavors may serve it."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.llmaz import OpenModel
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import join_words, quote
from reconciler.resources.kubernetes.conditions import Time
from reconciler.resources.llmaz.fields import Quantities, check_devices, check_name, count_devices
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape
from reconciler.resources.variants import Flavor

_PROTOCOLS = ("oss", "s3", "gcs", "ollama", "host")
_ADDRESSES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "oss": (re.compile(r"[^.]+\.[^/]+/.+", re.DOTALL), "oss://BUCKET.ENDPOINT/PATH"),
    "s3": (re.compile(r"[^/]+/.+", re.DOTALL), "s3://BUCKET/PATH"),
    "gcs": (re.compile(r"[^/]+/.+", re.DOTALL), "gcs://BUCKET/PATH"),
}
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
_FLAVORS = ("spec", "inferenceConfig", "flavors")
_NOTES = {
    "inferenceFlavors": "llmaz up to v0.0.9 had its flavors here and drops them now: move them to "
    "inferenceConfig.flavors, and their requests to limits",
    "requests": "llmaz up to v0.1.0 had the limits of a flavor here and drops them now: rename it to limits",
}


class _Hub(Shape):
    name: Literal["Huggingface", "ModelScope"] = "Huggingface"
    model_id: Annotated[str, Field(alias="modelID")] = ""
    filename: str | None = None
    revision: str | None = None
    allow_patterns: list[str] | None = None
    ignore_patterns: list[str] | None = None


class _ModelSourceFields(Shape):
    hub: Annotated[_Hub | None, Field(alias="modelHub")] = None
    uri: str | None = None


class _Flavor(Shape):
    name: str
    limits: Quantities | None = None
    node_selector: dict[str, str] | None = None
    params: dict[str, str] | None = None


class _InferenceConfig(Shape):
    flavors: Annotated[list[_Flavor], Field(max_length=8)] | None = None


class OpenModelFields(Shape):
    """ModelSpec of an OpenModel."""

    family_name: str
    source: _ModelSourceFields
    inference_config: _InferenceConfig | None = None
    owned_by: str = "llmaz"
    created_at: Time | None = None


def read_model(source: KubernetesObject) -> Iterator[Piece]:
    """The model, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        OpenModelFields,
        named=("inferenceConfig",),
        check=lambda spec: _check(source, spec),
        build=lambda spec: _build(source, spec),
        notes=_NOTES,
    )


def _check(source: KubernetesObject, spec: OpenModelFields) -> Iterator[Finding]:
    yield from check_name(source)
    if not _LABEL_VALUE.fullmatch(spec.family_name):
        message = "expected at most 63 letters, digits, -, _ and ., as it becomes the label llmaz.io/model-family-name"
        yield source.complain(("spec", "familyName"), f"{message}, got {quote(spec.family_name)}")
    if spec.source.hub is None and spec.source.uri is None:
        yield source.complain(("spec", "source"), "expected modelHub or uri, found neither")
    if spec.source.hub is not None:
        yield from _check_hub(source, spec.source.hub, spec.source.uri)
    if spec.source.uri is not None:
        yield from _check_uri(source, spec.source.uri)
    yield from _check_flavors(source, _flavors_of(spec))


def _check_hub(source: KubernetesObject, hub: _Hub, uri: str | None) -> Iterator[Finding]:
    path = ("spec", "source", "modelHub")
    if hub.filename and hub.name == "ModelScope":
        yield source.complain((*path, "filename"), "expected no filename with ModelScope: only Huggingface has it")
    patterns = [
        name
        for name, written in (("allowPatterns", hub.allow_patterns), ("ignorePatterns", hub.ignore_patterns))
        if written is not None
    ]
    if hub.filename and patterns:
        yield source.complain((*path, patterns[0]), f"expected no {join_words(patterns)} beside filename")
    if not hub.model_id:
        message = "expected the model's name on the hub, found nothing: llmaz takes it, and no weights are found"
        yield source.complain((*path, "modelID"), message, Severity.WARNING)
    if uri is not None:
        message = "nothing decides by it: where both are written llmaz takes modelHub"
        yield source.complain(("spec", "source", "uri"), message, Severity.WARNING)


def _check_uri(source: KubernetesObject, uri: str) -> Iterator[Finding]:
    path = ("spec", "source", "uri")
    parts = uri.split("://")
    if len(parts) != 2 or parts[0].lower() not in _PROTOCOLS:
        known = join_words([f"{protocol}://" for protocol in _PROTOCOLS])
        yield source.complain(path, f"expected an address with {known}, got {quote(uri)}")
        return
    pattern, example = _ADDRESSES.get(parts[0].lower(), (None, ""))
    if pattern is not None and not pattern.fullmatch(parts[1]):
        yield source.complain(path, f"expected an address like {example}, got {quote(uri)}")


def _check_flavors(source: KubernetesObject, flavors: list[_Flavor]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, flavor in enumerate(flavors):
        path = (*_FLAVORS, index)
        yield from check_devices(source, (*path, "limits"), flavor.limits)
        if flavor.name in seen:
            message = f"{quote(flavor.name)} is already listed above: llmaz takes the first"
            yield source.complain((*path, "name"), message, Severity.WARNING)
        seen.add(flavor.name)


def _flavors_of(spec: OpenModelFields) -> list[_Flavor]:
    return (spec.inference_config.flavors if spec.inference_config else None) or []


def _build(source: KubernetesObject, spec: OpenModelFields) -> Iterator[Piece]:
    yield OpenModel(
        key=source.key,
        place=source.place,
        family_name=spec.family_name,
        protocol="" if spec.source.hub else (spec.source.uri or "").partition("://")[0].lower(),
        flavors=tuple(_as_flavor(source, index, flavor) for index, flavor in enumerate(_flavors_of(spec))),
    )


def _as_flavor(source: KubernetesObject, index: int, flavor: _Flavor) -> Flavor:
    return Flavor(
        name=flavor.name,
        devices=count_devices(flavor.limits),
        node_selector=flavor.node_selector or {},
        params=flavor.params or {},
        place=source.locate((*_FLAVORS, index)),
    )
