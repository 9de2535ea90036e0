"""References to what is scaled: which kinds each generation can scale, and why others cannot be."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.declared.kthena import TargetReference
from reconciler.domain.declared.places import FieldPath
from reconciler.domain.declared.tracking import Generation
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kthena.target_fields import AnyTargetFields, TargetFieldsBeforeG3
from reconciler.resources.kubernetes.selectors import ReferenceFields
from reconciler.resources.objects import KubernetesObject

MODEL_INFER = "ModelInfer"
MODEL_SERVING = "ModelServing"
SERVING_GROUP = "workload.serving.volcano.sh"
SERVED_BY = {"Model": MODEL_INFER, "ModelBooster": MODEL_SERVING}
"""The kind of what is made from each backend of a model."""
_MATRIXINFER = "matrixinfer.ai"


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """What the fields of a resource do not say: the generation, the kind it scales, and the prefix of its labels."""

    generation: Generation
    kind: str
    label_prefix: str

    @property
    def needs_kind(self) -> bool:
        """Whether an empty kind selects every pod of the namespace."""
        return self.generation in (Generation.G1, Generation.G2)


def tell_era(source: KubernetesObject, generation: Generation | None = None) -> Era:
    """The era of a resource by its API group; `generation` is what its fields say, if anything."""
    version = source.fields.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else ""
    if group.startswith(SERVING_GROUP):
        told = generation or Generation.G2
        return Era(generation=told, kind=MODEL_SERVING, label_prefix="modelserving.volcano.sh/")
    told = generation or Generation.G1
    if told in (Generation.G3, Generation.G4):
        return Era(generation=told, kind=MODEL_SERVING, label_prefix="modelserving.volcano.sh/")
    prefix = "modelinfer.matrixinfer.ai/" if group.endswith(_MATRIXINFER) else "modelinfer.volcano.sh/"
    return Era(generation=told, kind=MODEL_INFER, label_prefix=prefix)


def read_reference(fields: AnyTargetFields | ReferenceFields, era: Era) -> TargetReference:
    """The reference with its kind filled in."""
    if isinstance(fields, ReferenceFields):
        reference, name, kind = fields, "", ""
    else:
        reference = fields.target_ref or ReferenceFields()
        name, kind = _older_names(fields)
    return TargetReference(
        kind=reference.kind or kind or era.kind,
        name=reference.name or name,
        namespace=reference.namespace or "",
        api_version=reference.api_version or "",
    )


def check_target(source: KubernetesObject, fields: AnyTargetFields, path: FieldPath, era: Era) -> Iterator[Finding]:
    """What is wrong with the reference of a target at `path`."""
    reference = fields.target_ref or ReferenceFields()
    name, kind = _older_names(fields)
    yield from check_reference(source, reference, (*path, "targetRef"), era, name=name, kind=kind)


def check_reference(
    source: KubernetesObject, reference: ReferenceFields, path: FieldPath, era: Era, *, name: str = "", kind: str = ""
) -> Iterator[Finding]:
    """A name, and a kind that the era can scale; `name` and `kind` stand beside the reference in the oldest form."""
    if not (reference.name or name):
        yield source.complain((*path, "name"), "expected the name of what is scaled, found nothing")
    written = reference.kind or kind
    if written != era.kind and (written or era.needs_kind):
        message = f"expected {quote(era.kind)}, {'got' if written else 'found'} {describe(written or None)}"
        yield source.complain((*path, "kind"), f"{message}{_explain_kind(era)}")
    version = reference.api_version or ""
    if era.generation is Generation.G4 and version and version.partition("/")[0] != SERVING_GROUP:
        yield source.complain((*path, "apiVersion"), f"expected group {SERVING_GROUP}, got {quote(version)}")
    if era.generation is not Generation.G4 and (reference.namespace or source.namespace) != source.namespace:
        message = f"upstream scales it but reads the pods of namespace {source.namespace}: move one to the other"
        yield source.complain((*path, "namespace"), message, Severity.WARNING)


def _explain_kind(era: Era) -> str:
    return ": of another kind upstream reads every pod of the namespace" if era.needs_kind else ""


def _older_names(fields: AnyTargetFields) -> tuple[str, str]:
    if isinstance(fields, TargetFieldsBeforeG3):
        return fields.name or "", fields.kind or ""
    return "", ""
