"""How backends are started: variables and resources as in core, triggers as in `autoscaling/v2`."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.llmaz import EnvVar
from reconciler.domain.identity import Finding, Place
from reconciler.manifests.wording import describe, escape
from reconciler.resources.kubernetes.quantities import read_quantity
from reconciler.resources.kubernetes.selectors import SelectorFields
from reconciler.resources.llmaz.fields import Quantities, Written, check_devices, count_devices
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import LooseShape, Shape

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
