"""Deployments, StatefulSets and LeaderWorkerSets as scale targets."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.manifests.wording import describe
from reconciler.resources.kubernetes.pods import (
    PodTemplate,
    TemplateFields,
    find_unknown,
    mapping_at,
    read_scale_target,
)
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, is_templated, validate

_DEPLOYMENT_FIELDS = (
    "replicas",
    "selector",
    "template",
    "strategy",
    "minReadySeconds",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
)
_STATEFUL_SET_FIELDS = (
    "replicas",
    "selector",
    "template",
    "serviceName",
    "podManagementPolicy",
    "updateStrategy",
    "minReadySeconds",
    "revisionHistoryLimit",
    "volumeClaimTemplates",
    "persistentVolumeClaimRetentionPolicy",
    "ordinals",
)


class WorkloadSpec(LooseShape):
    """Replicas stay unvalidated here: a template's text in their place is no mistake."""

    replicas: object = None
    template: TemplateFields | None = None


class WorkloadFields(LooseShape):
    """A Deployment or StatefulSet, as far as it matters."""

    spec: WorkloadSpec | None = None


def read_deployment(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, or the broken resource, and all findings."""
    yield from _read(source, _DEPLOYMENT_FIELDS)


def read_stateful_set(source: KubernetesObject) -> Iterator[Piece]:
    """The workload of a StatefulSet, or the broken resource, and all findings."""
    yield from _read(source, _STATEFUL_SET_FIELDS)


def _read(source: KubernetesObject, known: tuple[str, ...]) -> Iterator[Piece]:
    validated = validate(WorkloadFields, source.fields, locate=source.locate)
    spec = (validated.value.spec if validated.value else None) or WorkloadSpec()
    template = PodTemplate(path=("spec", "template"), fields=spec.template or TemplateFields())
    findings = (*find_unknown(source, ("spec",), known), *validated.findings)
    replicas = mapping_at(source.fields, ("spec",)).get("replicas")
    yield from read_scale_target(source, replicas, (template,), findings)


GROUP_PATH = ("spec", "leaderWorkerTemplate")
GROUP_FIELDS = (
    "leaderTemplate",
    "workerTemplate",
    "size",
    "restartPolicy",
    "subGroupPolicy",
    "resizePolicy",
    "volumeClaimTemplates",
    "persistentVolumeClaimRetentionPolicy",
)
_SPEC_FIELDS = ("replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig")
_MAX_SIZE = 10_000


class _GroupFields(LooseShape):
    """What a group is made of: without a leader's template the leader is made from the workers'."""

    leader_template: TemplateFields | None = None
    worker_template: TemplateFields | None = None


class _LeaderWorkerSetSpec(LooseShape):
    group: Annotated[_GroupFields | None, Field(alias="leaderWorkerTemplate")] = None


class _LeaderWorkerSet(LooseShape):
    spec: _LeaderWorkerSetSpec | None = None


def read_leader_worker_set(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, or the broken resource, and all findings."""
    validated = validate(_LeaderWorkerSet, source.fields, locate=source.locate)
    spec = (validated.value.spec if validated.value else None) or _LeaderWorkerSetSpec()
    group = spec.group or _GroupFields()
    size = mapping_at(source.fields, GROUP_PATH).get("size")
    findings = [
        *find_unknown(source, ("spec",), _SPEC_FIELDS),
        *find_unknown(source, GROUP_PATH, GROUP_FIELDS),
        *validated.findings,
    ]
    count = size if isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= _MAX_SIZE else None
    if count is None and size is not None and not is_templated(size):
        message = f"expected an integer from 1 to {_MAX_SIZE}, got {describe(size)}"
        findings.append(source.complain((*GROUP_PATH, "size"), message))
    templates = split_group(group.leader_template, group.worker_template, GROUP_PATH, count or 1)
    templated = ".".join((*GROUP_PATH, "size")) if is_templated(size) else ""
    yield from read_scale_target(
        source, mapping_at(source.fields, ("spec",)).get("replicas"), templates, findings, templated
    )


def split_group(
    leader: TemplateFields | None, worker: TemplateFields | None, path: tuple[str, ...], size: int
) -> tuple[PodTemplate, ...]:
    """The leader's template, and the workers' with the other `size` - 1 pods."""
    worker, worker_path = worker or TemplateFields(), (*path, "workerTemplate")
    if leader is None:
        return (PodTemplate(path=worker_path, fields=worker, pods=size),)
    leading = PodTemplate(path=(*path, "leaderTemplate"), fields=leader)
    return (leading, PodTemplate(path=worker_path, fields=worker, pods=size - 1)) if size > 1 else (leading,)
