"""NIMServices: their schemas, and what they declare."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.resources.kubernetes.pods import (
    Affinity,
    Container,
    PodTemplate,
    Resources,
    TemplateFields,
    compose,
    pod_of,
)
from reconciler.resources.kubernetes.served_parts import (
    Count,
    ServedPart,
    bounds_owner,
    command_line,
    read_parts,
    severity_of,
)
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, validate

_GPU = "nvidia.com/gpu"
_BY_KSERVE = "KServe runs it as an InferenceService, which is not in Git"
_BY_PROFILE = "the operator gives it GPUs by its profile, which is not in Git: write them into resources.limits"
_Size = Annotated[int, Field(ge=1, le=10_000)]


class ImageFields(LooseShape):
    """The image, whose name is that of the model."""

    repository: str | None = None
    tag: object = None


class ParallelFields(LooseShape):
    """Over how many nodes one replica is spread."""

    pipeline: _Size | None = None
    tensor: _Size | None = None


class MultiNodeFields(LooseShape):
    """A replica of several pods."""

    parallelism: ParallelFields | None = None


class BoundsFields(LooseShape):
    """Bounds of the HPA."""

    min_replicas: object = None
    max_replicas: object = None


class ScaleFields(LooseShape):
    """Whether there is an HPA."""

    enabled: bool | None = None
    hpa: BoundsFields | None = None


class SpecFields(LooseShape):
    """The spec of a NIMService, as far as it matters."""

    image: ImageFields | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: object = None
    node_selector: dict[str, str | None] | None = None
    affinity: Affinity | None = None
    resources: Resources | None = None
    replicas: object = None
    scale: ScaleFields | None = None
    multi_node: MultiNodeFields | None = None
    inference_platform: str | None = None
    dra_resources: list[object] | None = None


class ServiceFields(LooseShape):
    """A NIMService."""

    spec: SpecFields | None = None


def read_nim_service(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, its autoscaler, or the broken resource, and all findings."""
    severity = severity_of(source)
    validated = validate(ServiceFields, source.fields, locate=source.locate, severity=severity)
    spec = validated.value.spec if validated.value is not None else None
    yield from read_parts(source, () if spec is None else (_part(source, spec),), validated.findings)
    if spec is not None and spec.scale is not None and spec.scale.enabled:
        hpa, path = spec.scale.hpa or BoundsFields(), ("spec", "scale", "hpa")
        bounds = (
            Count(path=(*path, "minReplicas"), written=hpa.min_replicas, default=1),
            Count(path=(*path, "maxReplicas"), written=hpa.max_replicas, is_ceiling=True),
        )
        owner = f"HorizontalPodAutoscaler {source.name}, which the NIM operator makes of scale"
        yield bounds_owner(source, owner, "", bounds, path)


def _part(source: KubernetesObject, spec: SpecFields) -> ServedPart:
    image = spec.image.repository if spec.image is not None else None
    container = Container(
        image=image, command=spec.command, args=spec.args, env=spec.env, resources=spec.resources, name=source.name
    )
    pod = pod_of([container], spec.node_selector, spec.affinity)
    parallel = spec.multi_node.parallelism if spec.multi_node is not None else None
    pods = (parallel.pipeline or 1) if parallel is not None else 1
    template = PodTemplate(path=("spec",), fields=TemplateFields(spec=pod), pods=pods, below=())
    asked = compose(source, (template,))[0].devices
    # without any in resources the operator gives each pod of a group as many GPUs as it has ranks
    ranks = parallel.tensor if parallel is not None and not spec.dra_resources else None
    words, variables = command_line(container)
    made = ("Deployment", source.name) if spec.multi_node is None else ("LeaderWorkerSet", f"{source.name}-lws")
    is_kserve = spec.inference_platform == "kserve"
    return ServedPart(
        counts=(Count(path=("spec", "replicas"), written=spec.replicas),),
        templates=(template,),
        words=words,
        variables=variables,
        labels={"app": made[1]},
        made=made,
        devices={_GPU: ranks * pods} if ranks and not asked else None,
        unsized=_BY_KSERVE if is_kserve else _BY_PROFILE if not (asked or ranks) else "",
    )
