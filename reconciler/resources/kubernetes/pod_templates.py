"""A scale target from its pod templates: what one replica runs, where it may, and which accelerators it takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.declared.places import Annotation
from reconciler.domain.declared.workloads import PodPlace, Workload
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.manifests.wording import describe, name_field
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kubernetes.pods import (
    PodSpec,
    agree_on_nodes,
    agree_on_values,
    count_devices,
    read_affinity,
    read_engine,
    read_served_names,
    read_spread,
    read_terms,
)
from reconciler.resources.objects import KubernetesObject, Piece, break_on, find_templated, read_texts
from reconciler.resources.validation import MAX_FINDINGS, LooseShape, describe_unknown, is_templated

MAX_REPLICAS = 2**31 - 1
_REPLICAS = ("spec", "replicas")


class TemplateMetadata(LooseShape):
    """The metadata of a pod template: labels are all that is read."""

    labels: dict[str, str | None] | None = None


class TemplateFields(LooseShape):
    """A pod template."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """One of the templates that a replica's pods are made from, and how many of them are."""

    path: tuple[str | int, ...]
    fields: TemplateFields
    pods: int = 1

    @property
    def pod(self) -> PodSpec:
        """What its pods run."""
        return self.fields.spec or PodSpec()

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that its pods get."""
        return read_texts(self.fields.metadata.labels if self.fields.metadata else None)


def compose(source: KubernetesObject, templates: Sequence[PodTemplate]) -> tuple[Workload, tuple[Finding, ...]]:
    """The workload of which these templates make one replica, without a count, and what is wrong in them.

    The first template is the one that clients speak to. The node selector and the affinity are what all templates with
    devices agree on; the device resources are those of the only container that asks, where one pod makes a replica.
    """
    counted = [count_devices(source, each.pod, (*each.path, "spec")) for each in templates]
    devices: dict[str, int] = {}
    for template, found in zip(templates, counted, strict=True):
        for resource, count in found.counts.items():
            devices[resource] = devices.get(resource, 0) + template.pods * count
    container = counted[0].container if len(templates) == 1 and templates[0].pods == 1 else None
    resources = None if container is None else (*templates[0].path, "spec", "containers", container, "resources")
    placed = [each for each, found in zip(templates, counted, strict=True) if found.counts] or templates[:1]
    engine, launch = next(
        (
            (engine, launch)
            for template, found in zip(templates, counted, strict=True)
            for engine, launch in [read_engine(template.pod, found.container)]
            if engine
        ),
        ("", None),
    )
    names = dict.fromkeys(name for each in templates for name in read_served_names(each.pod))
    pods = tuple(_place_of(each) for each in placed)
    workload = Workload(
        key=source.key,
        document=source.ref,
        place=source.place,
        replicas=None,
        node_selector=agree_on_nodes([each.node_selector for each in pods]),
        affinity=agree_on_values([each.affinity for each in pods]),
        devices=devices,
        device_resources=resources,
        pods=pods,
        served_names=tuple(names),
        engine=engine,
        launch=launch,
        spread="" if launch is not None else next(filter(None, (read_spread(each.pod) for each in templates)), ""),
        labels=source.labels,
        template_labels=templates[0].labels if templates else {},
        templated=next((found.templated for found in counted if found.templated), "") or _find_templated(templates),
        places={each.field: each for each in _cite(source, templates, [found.container for found in counted])},
    )
    return workload, tuple(finding for found in counted for finding in found.findings)


def with_count(
    workload: Workload, replicas: int | None, place: Place | None, settings: Mapping[str, Annotation], templated: str
) -> Workload:
    """The workload with its number of replicas, which stands at `place` if it is written.

    `templated` names a field outside of the templates that is filled in later.
    """
    return replace(
        workload,
        replicas=replicas,
        replicas_place=place,
        settings=settings,
        places=workload.places if place is None else {place.field: place, **workload.places},
        templated=templated or workload.templated,
    )


def read_scale_target(
    source: KubernetesObject,
    replicas: object,
    templates: Sequence[PodTemplate],
    findings: Sequence[Finding],
    templated: str = "",
) -> Iterator[Piece]:
    """The workload whose `spec.replicas` are edited, or the broken resource, and all that must be said about it."""
    workload, faults = compose(source, templates)
    annotations = check_annotations(source)
    found = (*findings, *check_replicas(source, replicas), *faults, *annotations.findings)
    broken = tuple(break_on(source, found))
    yield from broken
    if len(broken) > len(found):
        return
    place = None if replicas is None else source.locate(_REPLICAS)
    count = replicas if isinstance(replicas, int) else None
    filled_in = "spec.replicas" if is_templated(replicas) else templated
    yield with_count(workload, count, place, annotations.settings, filled_in)


def check_replicas(source: KubernetesObject, replicas: object) -> Iterator[Finding]:
    """A count, nothing, or text that is filled in later: anything else is a mistake."""
    is_count = isinstance(replicas, int) and not isinstance(replicas, bool) and 0 <= replicas <= MAX_REPLICAS
    if not (is_count or replicas is None or is_templated(replicas)):
        yield source.complain(_REPLICAS, f"expected an integer of at least 0, got {describe(replicas)}")


def find_unknown(
    source: KubernetesObject, path: tuple[str, ...], known: Sequence[str], severity: Severity = Severity.WARNING
) -> list[Finding]:
    """The fields of the mapping at `path` that its kind does not have."""
    names = [name for name in mapping_at(source.fields, path) if name not in known]
    return [source.complain((*path, name), describe_unknown(name, known), severity) for name in names[:MAX_FINDINGS]]


def mapping_at(fields: Mapping[str, object], path: Sequence[str]) -> Mapping[str, object]:
    """The mapping at a path; an empty one where something else stands, or nothing."""
    value: object = fields
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _place_of(template: PodTemplate) -> PodPlace:
    return PodPlace(
        path=(*template.path, "spec"),
        node_selector=read_texts(template.pod.node_selector),
        affinity=read_affinity(template.pod),
        terms=read_terms(template.pod),
    )


def _find_templated(templates: Sequence[PodTemplate]) -> str:
    paths = ((*each.path, "spec", "nodeSelector") for each in templates if find_templated(each.pod.node_selector))
    return name_field(next(paths, ()))


def _cite(
    source: KubernetesObject, templates: Sequence[PodTemplate], containers: Sequence[int | None]
) -> Iterator[Place]:
    for template, container in zip(templates, containers, strict=True):
        path = (*template.path, "spec")
        if template.pod.node_selector:
            yield source.locate((*path, "nodeSelector"))
        if template.pod.affinity:
            yield source.locate((*path, "affinity"))
        if container is not None:
            yield source.locate((*path, "containers", container, "resources"))
