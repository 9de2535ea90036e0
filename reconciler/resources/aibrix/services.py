"""PodAutoscalers and StormServices: their schemas, and what they declare."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.holds import BrokenResource
from reconciler.domain.records import replace
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.domain.written import FieldPath
from reconciler.resources.kubernetes.pods import PodTemplate, TemplateFields
from reconciler.resources.kubernetes.scaler_settings import aibrix_scaler
from reconciler.resources.kubernetes.served_parts import Count, ServedPart, command_line, read_parts, severity_of
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.validation import LooseShape, is_templated, validate

_MODEL = "model.aibrix.ai/name"
_NAME_LABEL = "storm-service-name"
_ROLES: FieldPath = ("spec", "template", "spec", "roles")
_MOST_PODS = 100


class TargetFields(LooseShape):
    """What an autoscaler scales."""

    kind: str
    name: str


class SubTargetFields(LooseShape):
    """The role that it scales, if not the whole."""

    role_name: str = ""


class AutoscalerSpec(LooseShape):
    """The spec of a PodAutoscaler, as far as it matters."""

    target: TargetFields = Field(alias="scaleTargetRef")
    sub_target_selector: SubTargetFields | None = None
    min_replicas: object = None
    max_replicas: object = None
    schedules: list[object] | None = None


class AutoscalerFields(LooseShape):
    """A PodAutoscaler."""

    spec: AutoscalerSpec


class RoleFields(LooseShape):
    """Pods of one role in each RoleSet."""

    name: str = ""
    replicas: object = None
    pod_group_size: Annotated[int, Field(ge=1, le=_MOST_PODS)] | None = None
    template: TemplateFields | None = None


class RoleSetFields(LooseShape):
    """The spec of a RoleSet."""

    roles: list[RoleFields] | None = None


class RoleSetTemplate(LooseShape):
    """What RoleSets are made of."""

    spec: RoleSetFields | None = None


class ServiceSpec(LooseShape):
    """The spec of a StormService, as far as it matters."""

    replicas: object = None
    template: RoleSetTemplate | None = None


class ServiceFields(LooseShape):
    """A StormService."""

    spec: ServiceSpec | None = None


def read_pod_autoscaler(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas, with its bounds where they hold at all times."""
    severity = severity_of(source)
    validated = validate(AutoscalerFields, source.fields, locate=source.locate, severity=severity)
    broken = tuple(break_on(source, validated.findings))
    yield from broken
    spec = validated.value.spec if validated.value is not None else None
    if spec is None and not any(isinstance(each, BrokenResource) for each in broken):
        yield source.broken(validated.findings[0].message)  # it may scale anything in its namespace
    if spec is None or is_templated(spec.target.name) or is_templated(spec.target.kind):
        return
    counts = (
        Count(path=("spec", "minReplicas"), written=spec.min_replicas, default=1),
        Count(path=("spec", "maxReplicas"), written=spec.max_replicas, is_ceiling=True),
    )
    role = spec.sub_target_selector.role_name if spec.sub_target_selector is not None else ""
    # the bounds of a role move its own number, which rolls every RoleSet
    is_known = not (spec.schedules or role) and all(each.written is None or each.number is not None for each in counts)
    least, most = counts
    yield ReplicaOwner(
        cluster=source.cluster,
        namespace="" if is_templated(source.namespace) else source.namespace,
        owner=f"PodAutoscaler {source.name}",
        target_kind=spec.target.kind,
        target_name=spec.target.name,
        target_part=role,
        place=source.locate(("spec", "scaleTargetRef")),
        least=least.value,
        fields=tuple(each.as_field(source) for each in counts) if is_known else (),
        scaler=aibrix_scaler(source, least.value or 1, most.value) if is_known else None,
    )


def read_storm_service(source: KubernetesObject) -> Iterator[Piece]:
    """Its workload, one for each role where there are several, or the broken resource, and all findings."""
    severity = severity_of(source)
    validated = validate(ServiceFields, source.fields, locate=source.locate, severity=severity)
    spec = (validated.value.spec if validated.value is not None else None) or ServiceSpec()
    roles = (spec.template.spec.roles if spec.template is not None and spec.template.spec is not None else None) or []
    parts = [_part(source.name, spec, index, role, is_alone=len(roles) == 1) for index, role in enumerate(roles)]
    for piece in read_parts(source, parts, validated.findings):
        # an autoscaler may name the only role, which is no part of its own here
        if isinstance(piece, Workload) and len(roles) == 1:
            yield replace(piece, becomes=replace(piece.key, part=roles[0].name))
        else:
            yield piece


def _part(name: str, spec: ServiceSpec, index: int, role: RoleFields, *, is_alone: bool) -> ServedPart:
    path: FieldPath = (*_ROLES, index)
    own = Count(path=(*path, "replicas"), written=role.replicas, default=1)
    template = role.template or TemplateFields()
    labels = template.metadata.labels if template.metadata is not None else None
    model = (labels or {}).get(_MODEL) or ""
    containers = (template.spec.containers if template.spec is not None else None) or []
    words, variables = command_line(containers[0] if containers else None)
    half = role.name if role.name in ("prefill", "decode") else ""
    unsized = ""
    if not is_alone and not half:
        unsized = "a RoleSet has several roles: how many of each belong together is not known"
    elif is_alone and own.value != 1:
        unsized = "each of its RoleSets has several pods of one role, and a change of their number rolls all of them"
    return ServedPart(
        name="" if is_alone else role.name,
        counts=(Count(path=("spec", "replicas"), written=spec.replicas, default=1) if is_alone else own,),
        templates=(PodTemplate(path=(*path, "template"), fields=template, pods=role.pod_group_size or 1),),
        words=words,
        variables=variables,
        model_id=model,
        labels={_NAME_LABEL: name} | ({"llm-d.ai/role": half} if half else {}),
        unsized=unsized,
    )
