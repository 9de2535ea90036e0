"""`apps/v1` Deployment and StatefulSet: the scale target as written."""

from collections.abc import Iterator

from reconciler.resources.kubernetes.pod_templates import (
    PodTemplate,
    TemplateFields,
    find_unknown,
    mapping_at,
    read_scale_target,
)
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, validate

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
    """The workload, or the broken resource, and all that must be said about it."""
    yield from _read(source, _DEPLOYMENT_FIELDS)


def read_stateful_set(source: KubernetesObject) -> Iterator[Piece]:
    """The workload of a StatefulSet, or the broken resource, and all that must be said about it."""
    yield from _read(source, _STATEFUL_SET_FIELDS)


def _read(source: KubernetesObject, known: tuple[str, ...]) -> Iterator[Piece]:
    validated = validate(WorkloadFields, source.fields, locate=source.locate)
    spec = (validated.value.spec if validated.value else None) or WorkloadSpec()
    template = PodTemplate(path=("spec", "template"), fields=spec.template or TemplateFields())
    findings = (*find_unknown(source, ("spec",), known), *validated.findings)
    replicas = mapping_at(source.fields, ("spec",)).get("replicas")
    yield from read_scale_target(source, replicas, (template,), findings)
