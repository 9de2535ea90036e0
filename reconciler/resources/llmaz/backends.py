"""BackendRuntime, and how backends are started."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import describe, escape, join_words, quote
from reconciler.resources.kubernetes.engines import read_launch, tell_engine
from reconciler.resources.kubernetes.fields import SelectorFields, read_quantity
from reconciler.resources.llmaz.models import (
    MODEL_LABEL,
    BackendConfig,
    BackendRuntime,
    EnvVar,
    ModelClaim,
    Quantities,
    RecommendedConfig,
    Written,
    check_devices,
    count_devices,
)
from reconciler.resources.objects import KubernetesObject, Piece, read_resource
from reconciler.resources.validation import LooseShape, Shape

# --- was reconciler/resources/llmaz/backends.py:
# How backends are started: variables and resources as in core, triggers as in `autoscaling/v2`.

_Path = tuple[str | int, ...]


class ResourcesFields(Shape):
    """What a container asks for."""

    limits: Quantities | None = None
    requests: Quantities | None = None
    claims: list[dict[str, str]] | None = None


class _ValueSource(LooseShape):
    name: str | None = None
    key: str | None = None
    field_path: Annotated[str | None, Field(alias="fieldPath")] = None
    resource: str | None = None


class EnvFields(Shape):
    """A variable with a value, or with one of the sources that Kubernetes knows."""

    name: str
    value: str | None = None
    value_from: dict[str, _ValueSource] | None = None


class _MetricTargetFields(Shape):
    type: str
    value: Written | None = None
    average_value: Written | None = None
    average_utilization: int | None = None


class _MetricName(Shape):
    name: str
    selector: SelectorFields | None = None


class _Object(Shape):
    kind: str
    name: str
    api_version: str | None = None


class _MetricSource(Shape):
    """Any of the five sources: which fields it has depends on its type."""

    name: str | None = None
    container: str | None = None
    metric: _MetricName | None = None
    described_object: _Object | None = None
    target: _MetricTargetFields


class _Metric(Shape):
    type: str
    resource: _MetricSource | None = None
    container_resource: _MetricSource | None = None
    pods: _MetricSource | None = None
    object: _MetricSource | None = None
    external: _MetricSource | None = None


class _Policy(Shape):
    type: str
    value: int
    period_seconds: int


class _Rules(Shape):
    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: list[_Policy] | None = None
    tolerance: Written | None = None


class _Behavior(Shape):
    scale_up: _Rules | None = None
    scale_down: _Rules | None = None


class _HpaTriggerFields(Shape):
    metrics: list[_Metric] | None = None
    behavior: _Behavior | None = None


class TriggerFields(Shape):
    """`scaleTrigger`: only an HPA is known."""

    hpa: _HpaTriggerFields | None = None


def check_resources(source: KubernetesObject, path: _Path, resources: ResourcesFields | None) -> Iterator[Finding]:
    """A limit below its request is refused, for every resource that has both."""
    if resources is None:
        return
    limits, requests = resources.limits or {}, resources.requests or {}
    yield from check_devices(source, (*path, "limits"), limits)
    yield from check_devices(source, (*path, "requests"), requests)
    for resource, request in requests.items():
        limit = limits.get(resource)
        if limit is not None and read_quantity(limit) < read_quantity(request):
            message = f"expected at least the request ({escape(str(request))}), got {describe(limit)}"
            yield source.complain((*path, "limits", resource), message)


def check_trigger(source: KubernetesObject, path: _Path, trigger: TriggerFields | None) -> Iterator[Finding]:
    """A trigger without an HPA triggers nothing and is refused."""
    if trigger is not None and trigger.hpa is None:
        yield source.complain((*path, "hpa"), "expected an HPA's metrics, found nothing")


def as_variables(variables: list[EnvFields] | None) -> tuple[EnvVar, ...]:
    """Variables; one that has its value from elsewhere is empty."""
    return tuple(EnvVar(name=each.name, value=each.value or "") for each in variables or ())


def place_of_trigger(source: KubernetesObject, path: _Path, trigger: TriggerFields | None) -> Place | None:
    """Where a trigger of an HPA stands; None without one."""
    return None if trigger is None or trigger.hpa is None else source.locate(path)


def devices_of(resources: ResourcesFields | None) -> dict[str, int]:
    """The devices that a container asks for; a limit counts before a request."""
    return {} if resources is None else count_devices(resources.limits, resources.requests)


# --- was reconciler/resources/llmaz/runtimes.py:
# `inference.llmaz.io/v1alpha1` BackendRuntime: an engine's image and the ways to start it.

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
        check=_check,
        build=_build,
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


# --- was reconciler/resources/llmaz/launching.py:
# What a Playground's pods run: the backend's engine, its arguments and the model it serves.

DEFAULT_CONFIG, SPECULATIVE_CONFIG = "default", "speculative-decoding"
ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "tensorrt-llm": "trtllm"}
"""The backends that llmaz brings along whose engines are known."""


def find_config(runtime: BackendRuntime, claim: ModelClaim, config_name: str = "") -> RecommendedConfig | None:
    """The recommended config that is used: the one named, else what the claim's models call for."""
    return runtime.find_config(config_name or (SPECULATIVE_CONFIG if claim.is_speculative else DEFAULT_CONFIG))


def run_backend(
    workload: Workload, claim: ModelClaim, backend: BackendConfig, runtime: BackendRuntime | None
) -> Workload:
    """The scale target with what its pods run; without the backend's runtime only what the Playground says of it.

    A Playground's arguments follow those of the recommended config; its resources replace them by name. The model
    is served under the OpenModel's name.
    """
    config = find_config(runtime, claim, backend.config_name) if runtime is not None else None
    args = (*(config.args if config else ()), *backend.args)
    variables = {each.name: each.value for each in (*(runtime.envs if runtime else ()), *backend.envs)}
    engine = ENGINES.get(backend.backend_name, "")
    if runtime is not None:
        engine = tell_engine(runtime.image, (*runtime.command, *args)) or engine
    return replace(
        workload,
        devices={**(config.devices if config else {}), **backend.devices},
        served_names=(claim.main.name,),
        engine=engine,
        launch=read_launch(engine, args, variables),
        template_labels={MODEL_LABEL: claim.main.name},
    )
