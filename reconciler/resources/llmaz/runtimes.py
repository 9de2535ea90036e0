"""`inference.llmaz.io/v1alpha1` BackendRuntime: an engine's image and the ways to start it."""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.llmaz import BackendRuntime, RecommendedConfig
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import join_words, quote
from reconciler.resources.llmaz.backends import (
    EnvFields,
    ResourcesFields,
    TriggerFields,
    as_variables,
    check_resources,
    check_trigger,
    devices_of,
    place_of_trigger,
)
from reconciler.resources.llmaz.fields import Written
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape

_CONFIGS = "recommendedConfigs"
_PLACEHOLDER = re.compile(r"\{\{-?\s*(.{0,64}?)\s*-?\}\}", re.DOTALL)
_PLACEHOLDERS = (".ModelPath", ".ModelName", ".DraftModelPath")
_NOTES = {
    "commands": "llmaz has renamed it and drops it now: write command",
    "args": "llmaz has moved it and drops it now: write recommendedConfigs",
    "resources": "llmaz has moved it and drops it now: write recommendedConfigs[].resources",
}


class _RecommendedConfigFields(Shape):
    name: str
    args: list[str] | None = None
    resources: ResourcesFields | None = None
    shared_memory_size: Written | None = None
    scale_trigger: TriggerFields | None = None


class _RuntimeSpec(Shape):
    """Lifecycle and probes stay unvalidated: nothing decides by them."""

    image: str
    version: str
    command: list[str] | None = None
    envs: list[EnvFields] | None = None
    lifecycle: object = None
    liveness_probe: object = None
    readiness_probe: object = None
    startup_probe: object = None
    configs: Annotated[list[_RecommendedConfigFields] | None, Field(alias=_CONFIGS)] = None

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields that are written and that nothing decides by."""
        written = {
            "lifecycle": self.lifecycle,
            "livenessProbe": self.liveness_probe,
            "readinessProbe": self.readiness_probe,
            "startupProbe": self.startup_probe,
        }
        return tuple(name for name, value in written.items() if value is not None)


def read_runtime(source: KubernetesObject) -> Iterator[Piece]:
    """The runtime, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _RuntimeSpec,
        named=(),
        braced=(_CONFIGS,),
        check=lambda spec: _check(source, spec),
        build=lambda spec: _build(source, spec),
        notes=_NOTES,
    )


def _check(source: KubernetesObject, spec: _RuntimeSpec) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, config in enumerate(spec.configs or ()):
        path = ("spec", _CONFIGS, index)
        if config.name in seen:
            yield source.complain((*path, "name"), f"{quote(config.name)} is already listed above")
        seen.add(config.name)
        yield from check_resources(source, (*path, "resources"), config.resources)
        yield from check_trigger(source, (*path, "scaleTrigger"), config.scale_trigger)
        for number, arg in enumerate(config.args or ()):
            yield from _check_placeholders(source, (*path, "args", number), arg)


def _check_placeholders(source: KubernetesObject, path: tuple[str | int, ...], arg: str) -> Iterator[Finding]:
    for name in _PLACEHOLDER.findall(arg):
        if name not in _PLACEHOLDERS:
            message = f"expected {join_words(_PLACEHOLDERS)} in braces, got {quote(name)}: no pod could be built"
            yield source.complain(path, message, Severity.WARNING)


def _build(source: KubernetesObject, spec: _RuntimeSpec) -> Iterator[Piece]:
    yield BackendRuntime(
        key=source.key,
        place=source.place,
        image=spec.image,
        version=spec.version,
        command=tuple(spec.command or ()),
        envs=as_variables(spec.envs),
        recommended=tuple(_as_config(source, index, config) for index, config in enumerate(spec.configs or ())),
        ignored=spec.ignored,
    )


def _as_config(source: KubernetesObject, index: int, config: _RecommendedConfigFields) -> RecommendedConfig:
    path = ("spec", _CONFIGS, index)
    return RecommendedConfig(
        name=config.name,
        args=tuple(config.args or ()),
        devices=devices_of(config.resources),
        trigger_place=place_of_trigger(source, (*path, "scaleTrigger"), config.scale_trigger),
    )
