"""How backends are started: variables and resources as in core, triggers as in `autoscaling/v2`."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.llmaz import Amounts, EnvVar, HpaMetric, HpaPolicy, HpaRules, HpaTrigger
from reconciler.domain.findings import Finding
from reconciler.manifests.wording import describe, escape
from reconciler.resources.kubernetes.quantities import read_quantity
from reconciler.resources.kubernetes.selectors import SelectorFields, read_selector
from reconciler.resources.llmaz.fields import Quantities, Written, as_texts, check_devices, count_devices
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import LooseShape, Shape

_PERCENT = 100.0
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


def as_amounts(resources: ResourcesFields | None) -> Amounts:
    """What a container asks for; a limit counts before a request."""
    if resources is None:
        return Amounts()
    return Amounts(
        limits=as_texts(resources.limits),
        requests=as_texts(resources.requests),
        devices=count_devices(resources.limits, resources.requests),
    )


def as_variables(variables: list[EnvFields] | None) -> tuple[EnvVar, ...]:
    """Variables; a source is told in words, its secret never."""
    return tuple(
        EnvVar(name=each.name, value=each.value or "", source=_name_source(each.value_from or {}))
        for each in variables or ()
    )


def _name_source(sources: Mapping[str, _ValueSource]) -> str:
    for kind, source in sources.items():
        parts = (source.name, source.key, source.field_path, source.resource)
        return " ".join((kind, "/".join(part for part in parts if part)))
    return ""


def as_trigger(source: KubernetesObject, path: _Path, trigger: TriggerFields | None) -> HpaTrigger | None:
    """The trigger of an HPA."""
    if trigger is None or trigger.hpa is None:
        return None
    behavior = trigger.hpa.behavior or _Behavior()
    return HpaTrigger(
        metrics=tuple(_as_metric(metric) for metric in trigger.hpa.metrics or ()),
        scale_up=_as_rules(behavior.scale_up),
        scale_down=_as_rules(behavior.scale_down),
        place=source.locate(path),
    )


def _as_metric(metric: _Metric) -> HpaMetric:
    sources = metric.resource, metric.container_resource, metric.pods, metric.object, metric.external
    source = next((each for each in sources if each is not None), None)
    if source is None:
        return HpaMetric(type=metric.type)
    named, described = source.metric, source.described_object
    return HpaMetric(
        type=metric.type,
        name=(named.name if named else source.name) or "",
        container=source.container or "",
        described_object=f"{described.kind} {described.name}" if described else "",
        selector=read_selector(named.selector) if named and named.selector else None,
        target_type=source.target.type,
        amount=_amount_of(source.target),
    )


def _amount_of(target: _MetricTargetFields) -> float | None:
    if target.average_utilization is not None:
        return target.average_utilization / _PERCENT
    written = target.average_value if target.average_value is not None else target.value
    return None if written is None else read_quantity(written)


def _as_rules(rules: _Rules | None) -> HpaRules | None:
    if rules is None:
        return None
    window_s = rules.stabilization_window_seconds
    return HpaRules(
        stabilization_s=None if window_s is None else float(window_s),
        select_policy=rules.select_policy or "Max",
        policies=tuple(
            HpaPolicy(type=each.type, value=each.value, period_s=float(each.period_seconds))
            for each in rules.policies or ()
        ),
        tolerance=None if rules.tolerance is None else read_quantity(rules.tolerance),
    )
