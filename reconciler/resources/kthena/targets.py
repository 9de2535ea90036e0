"""What policies scale: workloads, groups of workloads, and roles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.metric_targets import (
    EVERY_POD,
    LabelSelector,
    MetricSource,
    PodMetric,
    PrometheusMetric,
)
from reconciler.domain.records import dataclass
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kthena.generations import Era, TargetReference, check_reference, check_target, read_reference
from reconciler.resources.kthena.policy_specs import (
    AnyTargetFields,
    DisaggregatedFields,
    EndpointFields,
    EndpointFieldsG3,
    GroupFields,
    MetricFields,
    ParamFields,
    RatioFields,
    ReplicaBoundsFields,
    RoleFields,
    SingleFields,
    SourceFields,
    SubTargetFields,
    TargetFieldsBeforeG3,
    TargetFieldsG3,
    check_metrics,
)
from reconciler.resources.kubernetes.fields import read_quantity, read_selector
from reconciler.resources.objects import KubernetesObject

_ROLE = "Role"

_ROLE = "Role"


DEFAULT_COST_EXPANSION_PERCENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEndpoint:
    """Where pods export all metrics of a policy, before each metric had a source of its own; None is not written."""

    uri: str | None = None
    port: int | None = None
    selector: LabelSelector = EVERY_POD


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledTarget:
    """A workload, or with `role` one role of it, that is scaled between two bounds.

    `match_labels` are on each of its pods besides those of its generation. `sources` are by metric; what is not there
    is exported at `endpoint` under the metric's own name. `cost` of a replica is relative to others of the group.
    """

    reference: TargetReference
    min_replicas: int
    max_replicas: int
    place: Place
    cost: int = 0
    role: str = ""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    endpoint: MetricEndpoint = MetricEndpoint()
    sources: Mapping[str, MetricSource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTarget:
    """Workloads that serve one load together; the rate is how batches of one kind grow, 200 doubling each."""

    params: tuple[ScaledTarget, ...]
    cost_expansion_percent: int = DEFAULT_COST_EXPANSION_PERCENT


def read_heterogeneous(source: KubernetesObject, fields: GroupFields, path: FieldPath, era: Era) -> GroupTarget:
    """A group of targets."""
    rate = fields.cost_expansion_rate_percent
    return GroupTarget(
        params=tuple(
            read_target(source, param, (*path, "params", index), era) for index, param in enumerate(fields.params)
        ),
        cost_expansion_percent=DEFAULT_COST_EXPANSION_PERCENT if rate is None else rate,
    )


def read_target(source: KubernetesObject, fields: SingleFields, path: FieldPath, era: Era) -> ScaledTarget:
    """One target."""
    target = fields.target
    labels = target.additional_match_labels if isinstance(target, TargetFieldsBeforeG3) else None
    subs = target.sub_targets if isinstance(target, TargetFieldsG3) else None
    return ScaledTarget(
        reference=read_reference(target, era),
        min_replicas=fields.min_replicas,
        max_replicas=fields.max_replicas,
        cost=(fields.cost or 0) if isinstance(fields, ParamFields) else 0,
        place=source.locate(path),
        role=(subs.name or "") if subs else "",
        match_labels=labels or {},
        endpoint=_read_endpoint(target),
        sources=read_sources(None if isinstance(target, TargetFieldsBeforeG3) else target.metric_sources),
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
    source: KubernetesObject, fields: SingleFields, path: FieldPath, era: Era, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    """The rules for one target; `metrics` are those of the policy where it is known."""
    yield from check_bounds(source, fields, path)
    yield from check_target(source, fields.target, (*path, "target"), era)
    if isinstance(fields.target, TargetFieldsG3) and fields.target.sub_targets is not None:
        yield from _check_role(source, fields.target.sub_targets, (*path, "target", "subTargets"))
    yield from _check_sources_of(source, fields, path, metrics)


def check_heterogeneous(
    source: KubernetesObject, fields: GroupFields, path: FieldPath, era: Era, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    """The rules for a group: each target once, a cost for each, no roles."""
    seen: set[tuple[str, str]] = set()
    for index, param in enumerate(fields.params):
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
        if not param.cost and len(fields.params) > 1:
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
    source: KubernetesObject, fields: SingleFields, path: FieldPath, metrics: Sequence[str] | None
) -> Iterator[Finding]:
    if isinstance(fields.target, TargetFieldsBeforeG3) or metrics is None:
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


def check_disaggregated(
    source: KubernetesObject,
    fields: DisaggregatedFields,
    path: FieldPath,
    era: Era,
    metrics: Sequence[MetricFields] | None,
) -> Iterator[Finding]:
    """Each role by itself, then both together, then their ratio; `metrics` are those of the whole policy."""
    yield from check_reference(source, fields.target_ref, (*path, "targetRef"), era)
    for name, role in fields.roles.items():
        yield from _check_role_bounds(source, role, (*path, "roles", name), metrics)
    zeros = [name for name, role in fields.roles.items() if role.min_replicas == 0]
    if 0 < len(zeros) < len(fields.roles):
        message = f"expected minReplicas 0 for both roles or for neither, got 0 only for {quote(zeros[0])}"
        yield source.complain((*path, "roles", zeros[0], "minReplicas"), message)
    if fields.ratio_constraint is not None:
        yield from _check_ratio(source, fields, fields.ratio_constraint, (*path, "ratioConstraint"))


def _check_role_bounds(
    source: KubernetesObject, role: RoleFields, path: FieldPath, inherited: Sequence[MetricFields] | None
) -> Iterator[Finding]:
    yield from check_bounds(source, role, path)
    yield from check_metrics(source, role.metrics, (*path, "metrics"))
    metrics = [each.name for each in role.metrics or inherited or ()]
    if role.min_replicas == role.max_replicas:
        return
    if not metrics:
        yield source.complain((*path, "metrics"), "expected metrics here or in spec.metrics, found nothing")
    elif not role.metric_sources:
        message = "expected a source for a metric of the role, found nothing"
        yield source.complain((*path, "metricSources"), message)
    else:
        yield from check_sources(source, role.metric_sources, (*path, "metricSources"), metrics, Severity.ERROR)


def _check_ratio(
    source: KubernetesObject, fields: DisaggregatedFields, ratio: RatioFields, path: FieldPath
) -> Iterator[Finding]:
    if len(fields.roles) < 2:
        yield source.complain(path, "expected two roles, got one: a ratio is between two")
    for key, name in (("numeratorRole", ratio.numerator_role), ("denominatorRole", ratio.denominator_role)):
        if name not in fields.roles:
            yield source.complain((*path, key), f"expected one of the roles above, got {quote(name)}")
    if ratio.numerator_role == ratio.denominator_role:
        message = f"expected another role than numeratorRole, got {quote(ratio.denominator_role)} for both"
        yield source.complain((*path, "denominatorRole"), message)
    lowest, highest = read_quantity(ratio.min_ratio), read_quantity(ratio.max_ratio)
    if lowest < 0:
        message = f"expected at least 0, got {describe(ratio.min_ratio)}"
        yield source.complain((*path, "minRatio"), message)
    if highest <= 0:
        yield source.complain((*path, "maxRatio"), f"expected more than 0, got {describe(ratio.max_ratio)}")
    if lowest > highest:
        message = f"expected at most maxRatio ({ratio.max_ratio}), got {describe(ratio.min_ratio)}"
        yield source.complain((*path, "minRatio"), message)
    yield from _check_reachable(source, fields, ratio, path)


def _check_reachable(
    source: KubernetesObject, fields: DisaggregatedFields, ratio: RatioFields, path: FieldPath
) -> Iterator[Finding]:
    """Some pair of counts within the bounds must have a ratio within the limits."""
    over, under = fields.roles.get(ratio.numerator_role), fields.roles.get(ratio.denominator_role)
    if over is None or under is None:
        return
    least = over.min_replicas / under.max_replicas
    if least > read_quantity(ratio.max_ratio):
        message = f"at the bounds of both roles the ratio is at least {least:g}, more than maxRatio ({ratio.max_ratio})"
        yield source.complain((*path, "maxRatio"), message)
    if under.min_replicas > 0:
        most = over.max_replicas / under.min_replicas
        if most < read_quantity(ratio.min_ratio):
            message = (
                f"at the bounds of both roles the ratio is at most {most:g}, less than minRatio ({ratio.min_ratio})"
            )
            yield source.complain((*path, "minRatio"), message)
