"""Which generation wrote a resource, and the common steps of reading all kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.metric_targets import Generation
from reconciler.domain.records import dataclass
from reconciler.domain.workloads import Annotation
from reconciler.domain.written import FieldPath, WrittenField
from reconciler.manifests.wording import describe, quote
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kthena.policy_specs import AnyTargetFields, Count, TargetFieldsBeforeG3
from reconciler.resources.kubernetes.fields import ConditionFields, ReferenceFields, Time
from reconciler.resources.objects import (
    KubernetesObject,
    Piece,
    break_on,
    check_status,
    complain_of_spec,
    read_resource,
)
from reconciler.resources.validation import NonEmpty, Shape

ObservedFields = Annotated[int, Field(ge=0)]


class ScalingStatus(Shape):
    """What a policy last wanted of one workload or role."""

    name: str | None = None
    current_replicas: Count
    desired_replicas: Count
    mode: str | None = None
    last_scale_time: Time | None = None


class RatioStatus(Shape):
    """The ratio of two roles, as text."""

    numerator_role: str
    denominator_role: str
    current_ratio: str | None = None


class DisaggregatedStatus(Shape):
    """What a policy last wanted of roles."""

    roles: list[ScalingStatus] | None = None
    ratio_status: RatioStatus | None = None
    ratio_adjusted: bool | None = None


class PolicyStatus(Shape):
    """The status of an AutoscalingPolicy; empty before v1.0."""

    observed_generation: ObservedFields | None = None
    conditions: list[ConditionFields] | None = None
    homogeneous_status: ScalingStatus | None = None
    heterogeneous_status: list[ScalingStatus] | None = None
    disaggregated_status: DisaggregatedStatus | None = None


class BindingStatus(Shape):
    """The status of an AutoscalingPolicyBinding: always empty."""


class BackendStatus(Shape):
    """How many replicas a backend has now; the first versions had a hash of it too."""

    name: NonEmpty
    replicas: Count
    hash: str | None = None


class ModelStatus(Shape):
    """The status of a Model or ModelBooster."""

    conditions: list[ConditionFields] | None = None
    backend_statuses: list[BackendStatus] | None = None
    observed_generation: ObservedFields | None = None


Spec = TypeVar("Spec", bound=BaseModel)
Settings = Mapping[str, Annotation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader(Generic[Spec]):
    """How a spec of one form becomes a record.

    `check` says what the schema does not express. `build` is called when nothing found is an error. `decides` are the
    fields of a valid spec whose text must not be filled in later.
    """

    model: type[Spec]
    check: Callable[[KubernetesObject, Spec], Iterable[Finding]]
    build: Callable[[KubernetesObject, Spec, Settings], Piece]
    status: type[BaseModel]
    decides: tuple[str, ...]

    def read(self, source: KubernetesObject) -> Iterator[Piece]:
        """The record, or the broken resource, and all findings."""
        annotations = check_annotations(source)

        def check(source: KubernetesObject, spec: Spec) -> tuple[Finding, ...]:
            return (*annotations.findings, *check_status(source, self.status), *self.check(source, spec))

        def build(source: KubernetesObject, spec: Spec) -> Piece:
            return self.build(source, spec, annotations.settings)

        yield from read_resource(source, self.model, build, named=self.decides, check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReference:
    """The workload that is scaled; `kind` is filled in, `namespace` empty means that of the resource itself."""

    kind: str
    name: str
    namespace: str = ""
    api_version: str = ""


def read_with(
    source: KubernetesObject, choose: Callable[[KubernetesObject, Mapping[str, object]], Reader[Any] | Finding]
) -> Iterator[Piece]:
    """The pieces of a resource; `choose` finds the form of its spec, or a contradiction in it."""
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        yield from break_on(source, (complain_of_spec(source),))
        return
    reader = choose(source, spec)
    yield from break_on(source, (reader,)) if isinstance(reader, Finding) else reader.read(source)


def field_of(source: KubernetesObject, path: FieldPath) -> WrittenField:
    """A field of the object that holds a number of replicas."""
    return WrittenField(document=source.ref, field=path, place=source.locate(path))


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


def find_era(source: KubernetesObject, generation: Generation | None = None) -> Era:
    """The era of a resource by its API group; `generation` is what its fields say, if anything."""
    version = source.fields.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else ""
    if group.startswith(SERVING_GROUP):
        known = generation or Generation.G2
        return Era(generation=known, kind=MODEL_SERVING, label_prefix="modelserving.volcano.sh/")
    known = generation or Generation.G1
    if known in (Generation.G3, Generation.G4):
        return Era(generation=known, kind=MODEL_SERVING, label_prefix="modelserving.volcano.sh/")
    prefix = "modelinfer.matrixinfer.ai/" if group.endswith(_MATRIXINFER) else "modelinfer.volcano.sh/"
    return Era(generation=known, kind=MODEL_INFER, label_prefix=prefix)


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
    """A name, and a kind that the era can scale; in the oldest form `name` and `kind` are not in the reference."""
    if not (reference.name or name):
        yield source.complain((*path, "name"), "expected the name of what is scaled, found nothing")
    written = reference.kind or kind
    if written != era.kind and (written or era.needs_kind):
        message = f"expected {quote(era.kind)}, {'got' if written else 'found'} {describe(written or None)}"
        reason = ": of another kind upstream reads every pod of the namespace" if era.needs_kind else ""
        yield source.complain((*path, "kind"), f"{message}{reason}")
    version = reference.api_version or ""
    if era.generation is Generation.G4 and version and version.partition("/")[0] != SERVING_GROUP:
        yield source.complain((*path, "apiVersion"), f"expected group {SERVING_GROUP}, got {quote(version)}")
    if era.generation is not Generation.G4 and (reference.namespace or source.namespace) != source.namespace:
        message = f"upstream scales it but reads the pods of namespace {source.namespace}: move one to the other"
        yield source.complain((*path, "namespace"), message, Severity.WARNING)


def _older_names(fields: AnyTargetFields) -> tuple[str, str]:
    if isinstance(fields, TargetFieldsBeforeG3):
        return fields.name or "", fields.kind or ""
    return "", ""
