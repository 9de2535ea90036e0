"""Targets of policies and bindings: fields of any generation to one noun, and the rules of their webhooks."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.domain.declared.kthena import (
    DEFAULT_COST_EXPANSION_PERCENT,
    HeterogeneousTarget,
    HomogeneousTarget,
    MetricEndpoint,
    ScaledTarget,
)
from reconciler.domain.declared.places import FieldPath
from reconciler.domain.declared.tracking import MetricSource, PodMetric, PrometheusMetric
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import quote
from reconciler.resources.kthena.fields import ReplicaBoundsFields
from reconciler.resources.kthena.references import Era, check_target, read_reference
from reconciler.resources.kthena.target_fields import (
    AnyHeterogeneousFields,
    AnyHomogeneousFields,
    AnyParamFields,
    AnyTargetFields,
    EndpointFields,
    EndpointFieldsG3,
    HomogeneousFieldsBeforeG3,
    SourceFields,
    SubTargetFields,
    TargetFieldsBeforeG3,
    TargetFieldsG3,
)
from reconciler.resources.kubernetes.selectors import read_selector
from reconciler.resources.objects import KubernetesObject

_ROLE = "Role"
_CITED = {
    "min_replicas": "minReplicas",
    "max_replicas": "maxReplicas",
    "cost": "cost",
}
_CITED_OF_TARGET = {
    "target_ref": "targetRef",
    "sub_targets": "subTargets",
    "additional_match_labels": "additionalMatchLabels",
    "metric_endpoint": "metricEndpoint",
    "metric_from": "metricFrom",
    "metric_sources": "metricSources",
}


def read_homogeneous(
    source: KubernetesObject, fields: AnyHomogeneousFields, path: FieldPath, era: Era
) -> HomogeneousTarget:
    """One target."""
    return HomogeneousTarget(target=_read_target(source, fields, path, era))


def read_heterogeneous(
    source: KubernetesObject, fields: AnyHeterogeneousFields, path: FieldPath, era: Era
) -> HeterogeneousTarget:
    """A group of targets."""
    rate = fields.cost_expansion_rate_percent
    params: Sequence[AnyParamFields] = fields.params
    return HeterogeneousTarget(
        params=tuple(_read_target(source, param, (*path, "params", index), era) for index, param in enumerate(params)),
        cost_expansion_percent=DEFAULT_COST_EXPANSION_PERCENT if rate is None else rate,
    )


def _read_target(source: KubernetesObject, fields: AnyHomogeneousFields, path: FieldPath, era: Era) -> ScaledTarget:
    target = fields.target
    labels = target.additional_match_labels if isinstance(target, TargetFieldsBeforeG3) else None
    subs = target.sub_targets if isinstance(target, TargetFieldsG3) else None
    cost: int | None = getattr(fields, "cost", None)
    written = [(*path, key) for name, key in _CITED.items() if getattr(fields, name, None) is not None]
    written += [
        (*path, "target", key) for name, key in _CITED_OF_TARGET.items() if getattr(target, name, None) is not None
    ]
    places = [source.locate(field) for field in written]
    return ScaledTarget(
        reference=read_reference(target, era),
        min_replicas=fields.min_replicas,
        max_replicas=fields.max_replicas,
        cost=cost or 0,
        place=source.locate(path),
        role=(subs.name or "") if subs else "",
        match_labels=labels or {},
        endpoint=_read_endpoint(target),
        sources=read_sources(None if isinstance(target, TargetFieldsBeforeG3) else target.metric_sources),
        places={place.field: place for place in places},
    )


def _read_endpoint(target: AnyTargetFields) -> MetricEndpoint:
    endpoint: EndpointFields | None = None
    if isinstance(target, TargetFieldsBeforeG3):
        endpoint = target.metric_endpoint or target.metric_from
    elif isinstance(target, TargetFieldsG3):
        endpoint = target.metric_endpoint
    if endpoint is None:
        return MetricEndpoint()
    selector = endpoint.label_selector if isinstance(endpoint, EndpointFieldsG3) else None
    return MetricEndpoint(uri=endpoint.uri or None, port=endpoint.port or None, selector=read_selector(selector))


def read_sources(fields: Mapping[str, SourceFields] | None) -> dict[str, MetricSource]:
    """Where each metric is read, by its name in the policy."""
    return {metric: _read_source(metric, each) for metric, each in (fields or {}).items()}


def _read_source(metric: str, fields: SourceFields) -> MetricSource:
    if fields.prometheus is not None:
        return PrometheusMetric(query=fields.prometheus.query, server_url=fields.prometheus.server_url)
    pod = fields.pod
    if pod is None:
        return PodMetric(name=metric)
    return PodMetric(
        name=pod.name or metric,
        selector=read_selector(pod.label_selector),
        port=pod.port or None,
        uri=pod.uri or None,
    )


def check_homogeneous(
    source: KubernetesObject, fields: AnyHomogeneousFields, path: FieldPath, era: Era, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    """The rules for one target; `metrics` are those of the policy where it is known."""
    yield from check_bounds(source, fields, path)
    yield from check_target(source, fields.target, (*path, "target"), era)
    if isinstance(fields.target, TargetFieldsG3) and fields.target.sub_targets is not None:
        yield from _check_role(source, fields.target.sub_targets, (*path, "target", "subTargets"))
    yield from _check_sources_of(source, fields, path, metrics)


def check_heterogeneous(
    source: KubernetesObject, fields: AnyHeterogeneousFields, path: FieldPath, era: Era, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    """The rules for a group: each target once, a cost for each, no roles."""
    seen: set[tuple[str, str]] = set()
    params: Sequence[AnyParamFields] = fields.params
    for index, param in enumerate(params):
        place: FieldPath = (*path, "params", index)
        yield from check_bounds(source, param, place)
        yield from check_target(source, param.target, (*place, "target"), era)
        yield from _check_sources_of(source, param, place, metrics)
        reference = read_reference(param.target, era)
        name = reference.namespace or source.namespace, reference.name
        if name in seen and reference.name:
            yield source.complain(place, f"{reference.kind} {quote(reference.name)} is already a target above")
        seen.add(name)
        if isinstance(param.target, TargetFieldsG3) and param.target.sub_targets is not None:
            message = "a group has no roles: only homogeneousTarget may have subTargets"
            yield source.complain((*place, "target", "subTargets"), message)
        if not param.cost and len(params) > 1:
            message = "cost 0: all its replicas are added before those of others, whatever costExpansionRatePercent is"
            yield source.complain(place if param.cost is None else (*place, "cost"), message, Severity.WARNING)


def check_bounds(source: KubernetesObject, fields: ReplicaBoundsFields, path: FieldPath) -> Iterator[Finding]:
    """A finding where minReplicas is above maxReplicas: upstream accepts that and then never rests."""
    if fields.min_replicas > fields.max_replicas:
        message = f"expected at most maxReplicas ({fields.max_replicas}), got {fields.min_replicas}"
        yield source.complain((*path, "minReplicas"), message)


def _check_role(source: KubernetesObject, fields: SubTargetFields, path: FieldPath) -> Iterator[Finding]:
    if fields.kind not in (None, "", _ROLE):
        yield source.complain((*path, "kind"), f"expected {quote(_ROLE)}, got {quote(fields.kind or '')}")
    if not fields.name:
        yield source.complain((*path, "name"), "expected the name of a role, found nothing")


def _check_sources_of(
    source: KubernetesObject, fields: AnyHomogeneousFields, path: FieldPath, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    if isinstance(fields, HomogeneousFieldsBeforeG3) or metrics is None:
        return
    target = fields.target
    if isinstance(target, TargetFieldsG3) and target.metric_sources is None:
        return
    yield from check_sources(source, target.metric_sources, (*path, "target", "metricSources"), metrics)


def check_sources(
    source: KubernetesObject,
    sources: Mapping[str, SourceFields] | None,
    path: FieldPath,
    metrics: Sequence[str],
    severity: Severity = Severity.WARNING,
) -> Iterator[Finding]:
    """A source for each metric and for no other; those for others are of `severity`."""
    for metric in sources or ():
        if metric not in metrics:
            yield source.complain((*path, metric), f"the policy has no metric {quote(metric)}", severity)
    for metric in metrics:
        if metric not in (sources or {}):
            message = f"no source for metric {quote(metric)}: upstream never sees it, here it is read from the pods"
            yield source.complain(path, message, Severity.WARNING)
