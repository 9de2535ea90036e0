"""`disaggregatedTarget`: one or two roles of a workload, and the ratio between them (kthena.md 1.5)."""

from collections.abc import Iterator, Sequence

from reconciler.domain.declared.kthena import DisaggregatedTarget, RatioConstraint, RoleTarget
from reconciler.domain.declared.places import FieldPath
from reconciler.domain.declared.tracking import RatioRange
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kthena.fields import MetricFields
from reconciler.resources.kthena.policy_specs import check_metrics, read_metrics
from reconciler.resources.kthena.references import Era, check_reference, read_reference
from reconciler.resources.kthena.scaled_targets import check_bounds, check_sources, read_sources
from reconciler.resources.kthena.target_fields import DisaggregatedFields, RatioFields, RoleFields
from reconciler.resources.kubernetes.quantities import read_quantity
from reconciler.resources.objects import KubernetesObject


def read_disaggregated(
    source: KubernetesObject, fields: DisaggregatedFields, path: FieldPath, era: Era
) -> DisaggregatedTarget:
    """The roles, sorted by name, whatever their order in the mapping."""
    ratio = fields.ratio_constraint
    return DisaggregatedTarget(
        reference=read_reference(fields.target_ref, era),
        roles=tuple(_read_role(source, name, role, path) for name, role in sorted(fields.roles.items())),
        place=source.locate(path),
        ratio=None if ratio is None else _read_ratio(source, ratio, (*path, "ratioConstraint")),
    )


def _read_role(source: KubernetesObject, name: str, fields: RoleFields, path: FieldPath) -> RoleTarget:
    return RoleTarget(
        name=name,
        min_replicas=fields.min_replicas,
        max_replicas=fields.max_replicas,
        place=source.locate((*path, "roles", name)),
        metrics=read_metrics(fields.metrics),
        sources=read_sources(fields.metric_sources),
    )


def _read_ratio(source: KubernetesObject, fields: RatioFields, path: FieldPath) -> RatioConstraint:
    return RatioConstraint(
        numerator=fields.numerator_role,
        denominator=fields.denominator_role,
        ratio=RatioRange(minimum=read_quantity(fields.min_ratio), maximum=read_quantity(fields.max_ratio)),
        place=source.locate(path),
    )


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
        yield from _check_role(source, role, (*path, "roles", name), metrics)
    zeros = [name for name, role in fields.roles.items() if role.min_replicas == 0]
    if 0 < len(zeros) < len(fields.roles):
        message = f"expected minReplicas 0 for both roles or for neither, got 0 only for {quote(zeros[0])}"
        yield source.complain((*path, "roles", zeros[0], "minReplicas"), message)
    if fields.ratio_constraint is not None:
        yield from _check_ratio(source, fields, fields.ratio_constraint, (*path, "ratioConstraint"))


def _check_role(
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
