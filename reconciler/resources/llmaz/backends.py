"""BackendRuntime, and how backends are started."""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.manifests.wording import describe, escape, join_words, quote
from reconciler.resources.kubernetes.fields import SelectorFields, read_quantity
from reconciler.resources.llmaz.models import Quantities, Written, check_devices, count_devices
from reconciler.resources.objects import KubernetesObject, Piece, Record, read_resource, repeated
from reconciler.resources.validation import LooseShape, Shape

_Path = tuple[str | int, ...]


class ContainerResources(Shape):
    """What a container asks for."""

    limits: Quantities | None = None
    requests: Quantities | None = None
    claims: list[dict[str, str]] | None = None

    @property
    def devices(self) -> dict[str, int]:
        """The devices among them; a limit counts before a request."""
        return count_devices(self.limits, self.requests)


class _ValueSource(LooseShape):
    name: str | None = None
    key: str | None = None
    field_path: Annotated[str | None, Field(alias="fieldPath")] = None
    resource: str | None = None


class EnvVar(Shape):
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


class _HpaTrigger(Shape):
    metrics: list[_Metric] | None = None
    behavior: _Behavior | None = None


class ScaleTrigger(Shape):
    """`scaleTrigger`: only an HPA is known."""

    hpa: _HpaTrigger | None = None


def check_resources(source: KubernetesObject, path: _Path, resources: ContainerResources | None) -> Iterator[Finding]:
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


def check_trigger(source: KubernetesObject, path: _Path, trigger: ScaleTrigger | None) -> Iterator[Finding]:
    """A trigger without an HPA triggers nothing and is refused."""
    if trigger is not None and trigger.hpa is None:
        yield source.complain((*path, "hpa"), "expected an HPA's metrics, found nothing")


_CONFIGS = "recommendedConfigs"
_PLACEHOLDER = re.compile(r"\{\{-?\s*(.{0,64}?)\s*-?\}\}", re.DOTALL)
_PLACEHOLDERS = (".ModelPath", ".ModelName", ".DraftModelPath")
_NOTES = {
    "commands": "llmaz has renamed it and drops it now: write command",
    "args": "llmaz has moved it and drops it now: write recommendedConfigs",
    "resources": "llmaz has moved it and drops it now: write recommendedConfigs[].resources",
}


class RecommendedConfig(Shape):
    """One way to start a backend, by name."""

    name: str
    args: list[str] | None = None
    resources: ContainerResources | None = None
    shared_memory_size: Written | None = None
    scale_trigger: ScaleTrigger | None = None


class BackendConfig(Shape):
    """How a Playground's backend is run: `args` follow those of the recommended config, the rest replaces it."""

    backend_name: str | None = None
    version: str | None = None
    config_name: str | None = None
    args: list[str] | None = None
    envs: list[EnvVar] | None = None
    resources: ContainerResources | None = None
    shared_memory_size: Written | None = None

    @property
    def name(self) -> str:
        """The name of its BackendRuntime."""
        return self.backend_name or "vllm"


class RuntimeSpec(Shape):
    """BackendRuntimeSpec. Lifecycle and probes stay unvalidated: they decide nothing."""

    image: str
    version: str
    command: list[str] | None = None
    envs: list[EnvVar] | None = None
    lifecycle: object = None
    liveness_probe: object = None
    readiness_probe: object = None
    startup_probe: object = None
    configs: Annotated[list[RecommendedConfig] | None, Field(alias=_CONFIGS)] = None


class BackendRuntime(Record[RuntimeSpec]):
    """An inference engine and how it is started; of the whole cluster."""

    def find_config(self, name: str) -> RecommendedConfig | None:
        """The recommended config of that name."""
        return next((config for config in self.spec.configs or () if config.name == name), None)

    def place_of_trigger(self, name: str) -> Place | None:
        """Where the trigger of a recommended config stands; None without one."""
        for index, config in enumerate(self.spec.configs or ()):
            if config.name == name:
                return self.place_of(_CONFIGS, index, "scaleTrigger") if config.scale_trigger else None
        return None


def read_runtime(source: KubernetesObject) -> Iterator[Piece]:
    """The runtime, or the broken resource, and all findings."""
    yield from read_resource(
        source, RuntimeSpec, BackendRuntime, named=(), braced=(_CONFIGS,), check=_check, notes=_NOTES
    )


def _check(source: KubernetesObject, spec: RuntimeSpec) -> Iterator[Finding]:
    doubled = dict(repeated(config.name for config in spec.configs or ()))
    for index, config in enumerate(spec.configs or ()):
        path = ("spec", _CONFIGS, index)
        if index in doubled:
            yield source.complain((*path, "name"), f"{quote(config.name)} is already listed above")
        yield from check_resources(source, (*path, "resources"), config.resources)
        yield from check_trigger(source, (*path, "scaleTrigger"), config.scale_trigger)
        for number, arg in enumerate(config.args or ()):
            yield from _check_placeholders(source, (*path, "args", number), arg)


def _check_placeholders(source: KubernetesObject, path: tuple[str | int, ...], arg: str) -> Iterator[Finding]:
    for name in _PLACEHOLDER.findall(arg):
        if name not in _PLACEHOLDERS:
            message = f"expected {join_words(_PLACEHOLDERS)} in braces, got {quote(name)}: no pod could be built"
            yield source.complain(path, message, Severity.WARNING)
