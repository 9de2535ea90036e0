"""Workspaces and InferenceSets: their schemas, and what they declare."""

from collections.abc import Iterator

from reconciler.domain.holds import Hold, HoldKind
from reconciler.resources.kaito import GROUP
from reconciler.resources.kubernetes.pods import PodTemplate, TemplateFields
from reconciler.resources.kubernetes.served_parts import Count, ServedPart, bounds_owner, read_parts, severity_of
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, validate

_RUNTIME = "kaito.sh/runtime"
_PORT = "5000"
"""Of the server of every preset (`pkg/utils/consts`)."""
_SCALED = "scaledobject.kaito.sh/auto-provision"


class PresetFields(LooseShape):
    """A model that Kaito knows."""

    name: str


class InferenceFields(LooseShape):
    """What is served: a preset, or pods of one's own."""

    preset: PresetFields | None = None
    template: TemplateFields | None = None


class ResourceFields(LooseShape):
    """The machines that it runs on."""

    instance_type: str | None = None


class WorkspaceFields(LooseShape):
    """A Workspace, whose fields stand at the top."""

    resource: ResourceFields | None = None
    inference: InferenceFields | None = None


class SetSpec(LooseShape):
    """How many Workspaces there are, and what each is."""

    replicas: object = None
    template: WorkspaceFields | None = None


class SetFields(LooseShape):
    """An InferenceSet."""

    spec: SetSpec | None = None


def read_workspace(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, or the broken resource, and all findings; nothing of a Workspace that tunes a model."""
    severity = severity_of(source)
    validated = validate(WorkspaceFields, source.fields, locate=source.locate, severity=severity)
    inference = validated.value.inference if validated.value is not None else None
    parts = []
    if inference is not None:
        words = "a Workspace is one instance: an InferenceSet has a number of them"
        parts.append(
            _part(
                source,
                inference,
                ("inference",),
                Count(path=("resource",), written=1),
                made=source.name,
                unwritable=Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=source.locate(())),
            )
        )
    yield from read_parts(source, parts, validated.findings)


def read_inference_set(source: KubernetesObject) -> Iterator[Piece]:
    """The workload, or the broken resource, and all findings."""
    severity = severity_of(source)
    validated = validate(SetFields, source.fields, locate=source.locate, severity=severity)
    spec = validated.value.spec if validated.value is not None else None
    inference = spec.template.inference if spec is not None and spec.template is not None else None
    parts = []
    if spec is not None and inference is not None:
        count = Count(path=("spec", "replicas"), written=spec.replicas, default=1)
        parts.append(_part(source, inference, ("spec", "template", "inference"), count, served=source.name))
    yield from read_parts(source, parts, validated.findings)
    if parts and source.annotations.get(_SCALED) == "true":
        owner = "the ScaledObject of Kaito's KEDA scaler"
        yield bounds_owner(source, owner, "", None, ("metadata", "annotations", _SCALED))


def _part(
    source: KubernetesObject,
    inference: InferenceFields,
    path: tuple[str, ...],
    count: Count,
    *,
    made: str = "",
    served: str = "",
    unwritable: Hold | None = None,
) -> ServedPart:
    preset = inference.preset.name if inference.preset is not None else ""
    is_vllm = bool(preset) and source.annotations.get(_RUNTIME, "vllm") == "vllm"
    # a preset is named by its id in Hugging Face, or in Kaito's own words: vLLM is given the last part of it
    name = preset.rpartition("/")[2]
    template = inference.template or TemplateFields()
    return ServedPart(
        counts=(count,),
        templates=(PodTemplate(path=(*path, "template"), fields=template),),
        engine="vllm" if is_vllm else "",
        model_id=name,
        served_names=tuple(dict.fromkeys(filter(None, (served, name)))) if name else (),
        labels={f"{GROUP}/workspace": made} if made else {},
        made=("StatefulSet", made) if made else None,
        port=_PORT if is_vllm else "",
        unwritable=unwritable,
    )
