"""`inference.llmaz.io/v1alpha1` Service: claimed models in pods of one's own, one LeaderWorkerSet a Service."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.llmaz import MODEL_LABEL, InferenceService
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.identity import Finding
from reconciler.resources.kubernetes.leader_workers import split_group
from reconciler.resources.kubernetes.pod_templates import TemplateFields, find_unknown, mapping_at, read_scale_target
from reconciler.resources.kubernetes.quantities import IntOrString
from reconciler.resources.llmaz.claims import NOTES, SeveralClaims, as_claims, check_roles
from reconciler.resources.llmaz.fields import check_name, skips_loader
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape

_GROUP = ("spec", "workloadTemplate")
_CONTAINER = "model-runner"
_TEMPLATE_FIELDS = ("metadata", "spec")
_NOTES = {
    **NOTES,
    "leaderWorkerTemplate": "it was one level up in older llmaz: write its fields under workloadTemplate",
}


class _RollingUpdate(Shape):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: Annotated[int, Field(ge=0)] | None = None


class _Rollout(Shape):
    type: Literal["RollingUpdate"] = "RollingUpdate"
    rolling_update_configuration: _RollingUpdate | None = None


class _Group(Shape):
    """A LeaderWorkerSet's group, in which the workers' template must stand; nothing decides by the objects in it."""

    size: Annotated[int, Field(ge=1, le=10_000)] = 1
    leader_template: TemplateFields | None = None
    worker_template: TemplateFields
    restart_policy: str = "RecreateGroupOnPodRestart"
    sub_group_policy: object = None
    resize_policy: object = None
    volume_claim_templates: object = None
    persistent_volume_claim_retention_policy: object = None


class _ServiceSpec(Shape):
    model_claims: SeveralClaims
    workload_template: _Group
    rollout_strategy: _Rollout | None = None


def read_service(source: KubernetesObject) -> Iterator[Piece]:
    """The Service with its scale target, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _ServiceSpec,
        named=("modelClaims",),
        check=lambda spec: _check(source, spec),
        build=lambda spec: _build(source, spec),
        ignored=("replicas",),
        notes=_NOTES,
    )


def _check(source: KubernetesObject, spec: _ServiceSpec) -> Iterator[Finding]:
    yield from check_name(source)
    yield from check_roles(source, spec.model_claims, is_strict=True)
    for template in ("leaderTemplate", "workerTemplate"):
        yield from find_unknown(source, (*_GROUP, template), _TEMPLATE_FIELDS)
    pod = spec.workload_template.worker_template.spec
    names = [container.name for container in (pod.containers if pod else None) or ()]
    if _CONTAINER not in names:
        path = (*_GROUP, "workerTemplate", "spec", "containers")
        yield source.complain(path, f"expected a container named {_CONTAINER}, found none")


def _build(source: KubernetesObject, spec: _ServiceSpec) -> Iterator[Piece]:
    group, claim = spec.workload_template, as_claims(source, spec.model_claims)
    templates = split_group(group.leader_template, group.worker_template, _GROUP, group.size)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), templates, ()):
        if not isinstance(piece, Workload):
            yield piece
            continue
        yield replace(piece, template_labels={**piece.template_labels, MODEL_LABEL: claim.main.name})
        yield InferenceService(
            key=source.key,
            place=source.place,
            claim=claim,
            replicas=1 if piece.replicas is None else piece.replicas,
            size=group.size,
            skips_loader=skips_loader(source),
        )
