"""`apps/v1` Deployment: the scale target as written."""

from collections.abc import Iterator, Mapping

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from reconciler.domain.declarations import Annotation, Workload
from reconciler.domain.findings import Finding, Severity
from reconciler.domain.identity import Place
from reconciler.resources.annotations import check_annotations
from reconciler.resources.objects import KubernetesObject, Piece, break_on, find_templated, is_templated, read_texts
from reconciler.resources.pods import (
    POD_PATH,
    Devices,
    PodSpec,
    count_devices,
    read_affinity,
    read_engine,
    read_served_names,
)
from reconciler.resources.validation import MAX_FINDINGS, LooseShape, describe_unknown, validate
from reconciler.resources.wording import describe

_SPEC_FIELDS = (
    "replicas",
    "selector",
    "template",
    "strategy",
    "minReadySeconds",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
)
_REPLICAS = ("spec", "replicas")
_MAX_REPLICAS = 2**31 - 1


class _Fields(LooseShape):
    model_config = ConfigDict(alias_generator=to_camel)


class TemplateMetadata(_Fields):
    """Of the pods."""

    labels: dict[str, str | None] | None = None


class Template(_Fields):
    """The pod template."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None


class DeploymentSpec(_Fields):
    """Replicas stay unvalidated here: a template's text in their place is no mistake."""

    replicas: object = None
    template: Template | None = None


class DeploymentFields(_Fields):
    """A Deployment, as far as it matters."""

    spec: DeploymentSpec | None = None


def read_deployment(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, or the broken resource, and all that must be said about it."""
    validated = validate(DeploymentFields, source.fields, locate=source.locate)
    spec = (validated.value.spec if validated.value else None) or DeploymentSpec()
    pod = (spec.template.spec if spec.template else None) or PodSpec()
    devices = count_devices(source, pod)
    annotations = check_annotations(source)
    findings = (
        *_find_unknown(source),
        *validated.findings,
        *_check_replicas(source),
        *devices.findings,
        *annotations.findings,
    )
    broken = tuple(break_on(source, findings))
    yield from broken
    if len(broken) == len(findings):
        yield _as_workload(source, spec, pod, devices, annotations.settings)


def _check_replicas(source: KubernetesObject) -> Iterator[Finding]:
    spec = source.fields.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    is_count = isinstance(replicas, int) and not isinstance(replicas, bool) and 0 <= replicas <= _MAX_REPLICAS
    if not (is_count or replicas is None or is_templated(replicas)):
        yield source.complain(_REPLICAS, f"expected an integer of at least 0, got {describe(replicas)}")


def _as_workload(
    source: KubernetesObject, spec: DeploymentSpec, pod: PodSpec, devices: Devices, settings: Mapping[str, Annotation]
) -> Workload:
    template = spec.template or Template()
    replicas_templated = "spec.replicas" if is_templated(spec.replicas) else ""
    selector_templated = ".".join((*POD_PATH, "nodeSelector")) if find_templated(pod.node_selector) else ""
    replicas_place = None if spec.replicas is None else source.locate(_REPLICAS)
    engine, launch = read_engine(pod, devices.container)
    return Workload(
        key=source.key,
        document=source.ref,
        place=source.place,
        replicas=spec.replicas if isinstance(spec.replicas, int) else None,
        replicas_place=replicas_place,
        node_selector=read_texts(pod.node_selector),
        affinity=read_affinity(pod),
        devices=devices.counts,
        device_container=devices.container,
        served_names=read_served_names(pod),
        engine=engine,
        launch=launch,
        labels=source.labels,
        template_labels=read_texts(template.metadata.labels if template.metadata else None),
        settings=settings,
        places=_cite(source, pod, devices, replicas_place),
        templated=replicas_templated or devices.templated or selector_templated,
    )


def _find_unknown(source: KubernetesObject) -> list[Finding]:
    spec = source.fields.get("spec")
    names = [name for name in spec if name not in _SPEC_FIELDS] if isinstance(spec, dict) else []
    return [
        source.complain(("spec", name), describe_unknown(name, _SPEC_FIELDS), Severity.WARNING)
        for name in names[:MAX_FINDINGS]
    ]


def _cite(source: KubernetesObject, pod: PodSpec, devices: Devices, replicas_place: Place | None) -> dict[str, Place]:
    places = [] if replicas_place is None else [replicas_place]
    if pod.node_selector:
        places.append(source.locate((*POD_PATH, "nodeSelector")))
    if pod.affinity:
        places.append(source.locate((*POD_PATH, "affinity")))
    if devices.container is not None:
        places.append(source.locate((*POD_PATH, "containers", devices.container, "resources")))
    return {place.field: place for place in places}
