"""VariantAutoscaling in all its versions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.inventory import ACCELERATOR_LABEL
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Form, StatusShape
from reconciler.domain.units import seconds_from_ms
from reconciler.domain.workloads import Annotation
from reconciler.manifests.wording import escape, join_words, quote
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kubernetes.fields import ConditionFields, Time, read_conditions
from reconciler.resources.objects import (
    KubernetesObject,
    Piece,
    break_on,
    check_status,
    complain_of_spec,
    find_templated,
    find_unknown_top,
    hold_templated,
    repeated,
)
from reconciler.resources.validation import NonEmpty, Shape, Validated, validate
from reconciler.resources.variants import SloClassRef, VariantResource

# Beyond this, in milliseconds or money, a number is a mistake: 10^9 ms are eleven days.
_LARGEST = 1e9


def _refuse_absurd(text: str) -> str:
    if float(text) > _LARGEST:
        raise ValueError(f"expected a decimal number of at most {_LARGEST:.0f}, got {quote(text)}")
    return text


Decimal = Annotated[
    str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$", description="a decimal number"), AfterValidator(_refuse_absurd)
]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class FlatAccelerator(Shape):
    """An accelerator with alpha and beta in milliseconds."""

    acc: NonEmpty
    acc_count: Count
    alpha: Decimal
    beta: Decimal
    max_batch_size: Count
    at_tokens: Count | None = None


class DecodeParms(Shape):
    """Milliseconds of an iteration, and per request in it."""

    alpha: Decimal
    beta: Decimal


class PrefillParms(Shape):
    """Milliseconds of a prefill, and per input token and request in it."""

    gamma: Decimal
    delta: Decimal


class PerfParms(Shape):
    """Parameters since 2025-09; without a prefill part only decoding is described."""

    decode_parms: DecodeParms
    prefill_parms: PrefillParms | None = None


class ParmsAccelerator(Shape):
    """An accelerator with its parameters in maps."""

    acc: NonEmpty
    acc_count: Count
    max_batch_size: Count
    perf_parms: PerfParms


class FlatProfile(Shape):
    """`modelProfile` of the first version."""

    accelerators: Annotated[list[FlatAccelerator], Field(min_length=1)]


class ParmsProfile(Shape):
    """`modelProfile` since 2025-09."""

    accelerators: Annotated[list[ParmsAccelerator], Field(min_length=1)]


class FlatProfileSpec(Shape):
    """Profile form, first version: all fields are required; v0.0.5 has a cost, too."""

    model_id: NonEmpty = Field(alias="modelID")
    slo_class_ref: SloClassRef
    model_profile: FlatProfile
    variant_cost: Decimal | None = None


class ParmsProfileSpec(Shape):
    """Profile form of 2025-09."""

    model_id: NonEmpty = Field(alias="modelID")
    slo_class_ref: SloClassRef
    model_profile: ParmsProfile
    variant_cost: Decimal | None = None


class ScaleTargetRefFields(Shape):
    """The object whose replicas are set."""

    kind: NonEmpty
    name: NonEmpty
    api_version: str | None = None


class TargetSpec(Shape):
    """Target form: v0.5, and v0.6 to v0.8 with bounds. What is not written stays None: a CRD default is no wish."""

    scale_target_ref: ScaleTargetRefFields
    model_id: NonEmpty = Field(alias="modelID")
    variant_cost: Decimal | None = None
    min_replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    max_replicas: Count | None = None


class NameSpec(Shape):
    """Name form, v0.4: the target is the Deployment of the resource's name."""

    model_id: NonEmpty = Field(alias="modelID")
    model_profile: ParmsProfile | None = None
    variant_cost: Decimal | None = None


Spec = FlatProfileSpec | ParmsProfileSpec | TargetSpec | NameSpec


_TARGET_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas")
_PROFILE_FIELDS = ("sloClassRef", "modelProfile")
_FLAT_FIELDS = ("alpha", "beta", "atTokens")


@dataclass(frozen=True, slots=True)
class FormOfSpec:
    """A form with the model that validates it and the status its version has."""

    form: Form
    model: type[Spec]
    status_shape: StatusShape


_TARGET = FormOfSpec(Form.TARGET, TargetSpec, StatusShape.TARGET)
_FLAT = FormOfSpec(Form.PROFILE, FlatProfileSpec, StatusShape.FULL)
_PARMS = FormOfSpec(Form.PROFILE, ParmsProfileSpec, StatusShape.TTFT)
_NAME = FormOfSpec(Form.NAME, NameSpec, StatusShape.TTFT)


def find_form(spec: Mapping[str, object]) -> FormOfSpec:
    """The form that the written fields belong to, however incomplete."""
    if _written(spec, _TARGET_FIELDS):
        return _TARGET
    entries = _entries(spec)
    has_parms = any("perfParms" in entry for entry in entries)
    if "sloClassRef" in spec:
        return _PARMS if has_parms else _FLAT
    if not has_parms and any(_written(entry, _FLAT_FIELDS) for entry in entries):
        return _FLAT
    return _NAME


def find_contradiction(spec: Mapping[str, object]) -> tuple[str, str] | None:
    """A field of the spec that no version has together with another, and what to do about it."""
    target = _written(spec, _TARGET_FIELDS)
    profile = _written(spec, _PROFILE_FIELDS) if target else ()
    if profile:
        return profile[0], _word_contradiction(profile, "the profile form", target, "the target form")
    entries = _entries(spec)
    if any("perfParms" in entry for entry in entries):
        flat = next((found for entry in entries if (found := _written(entry, _FLAT_FIELDS))), ())
    else:
        flat = ()
    if flat:
        message = _word_contradiction(("perfParms",), "the profile of 2025-09", flat, "the one before it")
        return "modelProfile", message
    return None


def _word_contradiction(left: tuple[str, ...], left_form: str, right: tuple[str, ...], right_form: str) -> str:
    left_words, right_words = join_words(left, "and"), join_words(right, "and")
    return f"{left_words} ({left_form}) contradicts {right_words} ({right_form}): remove one of the two"


def _written(fields: Mapping[str, object], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if fields.get(name) is not None)


def _entries(spec: Mapping[str, object]) -> list[Mapping[str, object]]:
    profile = spec.get("modelProfile")
    accelerators = profile.get("accelerators") if isinstance(profile, dict) else None
    return [entry for entry in accelerators if isinstance(entry, dict)] if isinstance(accelerators, list) else []


Replicas = Annotated[int, Field(ge=0)]
AcceleratorName = Annotated[str, Field(min_length=2)]


class LoadByLength(Shape):
    """Requests per minute and tokens per request, as text."""

    arrival_rate: str
    avg_length: str


class LoadByDirection(Shape):
    """Requests per minute, input and output tokens per request, as text."""

    arrival_rate: str
    avg_input_tokens: str
    avg_output_tokens: str


class _Allocation(Shape):
    accelerator: NonEmpty
    num_replicas: Replicas
    max_batch: Replicas
    variant_cost: Decimal
    itl_average: Decimal


class AllocationByWait(_Allocation):
    """`currentAlloc` of the first version; averages in milliseconds."""

    wait_average: Decimal
    load: LoadByLength


class AllocationByTtft(_Allocation):
    """`currentAlloc` since 2025-09."""

    ttft_average: Decimal
    load: LoadByDirection


class OptimizedAlloc(Shape):
    """`desiredOptimizedAlloc` of the profile and name forms."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName
    num_replicas: Replicas


class TargetOptimizedAlloc(Shape):
    """`desiredOptimizedAlloc` of the target form."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName | None = None
    num_replicas: Annotated[int, Field(ge=1)] | None = None


class Actuation(Shape):
    """`actuation` of the target and name forms."""

    applied: bool


class TimedActuation(Actuation):
    """`actuation` of the first version."""

    last_attempt_time: Time | None = None
    last_success_time: Time | None = None


class FullStatus(Shape):
    """Status of the flat profile form."""

    current_alloc: AllocationByWait | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: TimedActuation | None = None


class TtftStatus(Shape):
    """Status of the versions with `perfParms`."""

    current_alloc: AllocationByTtft | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: Actuation | None = None
    conditions: list[ConditionFields] | None = None


class TargetStatus(Shape):
    """Status of the target form."""

    desired_optimized_alloc: TargetOptimizedAlloc | None = None
    actuation: Actuation | None = None
    conditions: list[ConditionFields] | None = None


_STATUSES: Mapping[StatusShape, type[FullStatus] | type[TtftStatus] | type[TargetStatus]] = {
    StatusShape.FULL: FullStatus,
    StatusShape.TTFT: TtftStatus,
    StatusShape.TARGET: TargetStatus,
}


_DEPLOYMENT = "Deployment"
_DEFAULT_MAX_REPLICAS = 2
_CITED = ("modelID", "scaleTargetRef", "sloClassRef", "variantCost", "minReplicas", "maxReplicas")
_PROFILE_PATH = ("spec", "modelProfile", "accelerators")


def read_variant(source: KubernetesObject, *, target_versions: Mapping[str, str]) -> Iterator[Piece]:
    """The variant, or the broken resource, and all findings.

    `target_versions` are the kinds that it may scale, each with the API version to name it in.
    """
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        yield from break_on(source, (complain_of_spec(source),))
        return
    form = find_form(spec)
    validated = _validate_spec(source, form, spec)
    # Fields for which any text is valid.
    named = {name: spec[name] for name in ("modelID", "scaleTargetRef", "sloClassRef") if name in spec}
    templated = find_templated(spec if validated.value is None else named)
    if templated is not None:
        yield from hold_templated(source, ("spec", *templated))
        return
    annotations = check_annotations(source)
    findings = [*find_unknown_top(source), *validated.findings, *annotations.findings]
    findings += _check(source, validated.value, target_versions) if validated.value is not None else ()
    findings += check_status(source, _STATUSES[form.status_shape])
    broken = tuple(break_on(source, tuple(findings)))
    yield from broken
    if validated.value is not None and len(broken) == len(findings):
        variant = _as_variant(source, form, validated.value, annotations.settings)
        if variant.target_kind not in target_versions:
            words = f"scale targets of kind {escape(variant.target_kind)} are not available yet"
            variant = replace(variant, unsupported=Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=words))
        yield variant


def _validate_spec(source: KubernetesObject, form: FormOfSpec, spec: Mapping[str, object]) -> Validated[Spec]:
    contradiction = find_contradiction(spec)
    if contradiction is not None:
        field, message = contradiction
        return Validated(None, (source.complain(("spec", field), message),))
    return validate(form.model, spec, locate=lambda path: source.locate(("spec", *path)), unknown=Severity.WARNING)


def _check(source: KubernetesObject, spec: Spec, target_versions: Mapping[str, str]) -> Iterator[Finding]:
    """What the resource definition does not express field by field."""
    if isinstance(spec, TargetSpec):
        yield from _check_target(source, spec, target_versions)
        return
    if isinstance(spec, NameSpec) and not source.labels.get(ACCELERATOR_LABEL):
        message = f"expected the label {ACCELERATOR_LABEL} with the current accelerator, found nothing"
        yield source.complain(("metadata", "labels"), message, Severity.WARNING)
    yield from _check_profiles(source, spec)


def _check_target(source: KubernetesObject, spec: TargetSpec, target_versions: Mapping[str, str]) -> Iterator[Finding]:
    target, lowest, highest = spec.scale_target_ref, spec.min_replicas, spec.max_replicas
    version = target_versions.get(target.kind)
    if version is not None and target.api_version not in {None, "", version}:
        message = f"expected {quote(version)}, got {quote(target.api_version or '')}"
        yield source.complain(("spec", "scaleTargetRef", "apiVersion"), message)
    if lowest is not None and highest is not None and lowest > highest:
        message = f"minReplicas must be less than or equal to maxReplicas ({highest}), got {lowest}"
        yield source.complain(("spec", "minReplicas"), message)
    if lowest is not None and highest is None and lowest > _DEFAULT_MAX_REPLICAS:
        message = f"{lowest} is more than the maxReplicas of {_DEFAULT_MAX_REPLICAS} that the CRD fills in: write it"
        yield source.complain(("spec", "minReplicas"), message, Severity.WARNING)


def _check_profiles(source: KubernetesObject, spec: FlatProfileSpec | ParmsProfileSpec | NameSpec) -> Iterator[Finding]:
    entries = _entries_of(spec)
    doubled = dict(repeated((entry.acc, entry.acc_count) for entry in entries))
    for index, entry in enumerate(entries):
        path = (*_PROFILE_PATH, index)
        decode = entry if isinstance(entry, FlatAccelerator) else entry.perf_parms.decode_parms
        if float(decode.alpha) == 0 and float(decode.beta) == 0:
            yield source.complain(path, "expected alpha or beta above 0, got 0 for both")
        if index in doubled:
            yield source.complain(path, f"{quote(entry.acc)} with accCount {entry.acc_count} is already listed above")


def _entries_of(spec: Spec) -> Sequence[FlatAccelerator | ParmsAccelerator]:
    if isinstance(spec, TargetSpec) or spec.model_profile is None:
        return ()
    return spec.model_profile.accelerators


def _as_variant(
    source: KubernetesObject, form: FormOfSpec, spec: Spec, settings: Mapping[str, Annotation]
) -> VariantResource:
    target = spec.scale_target_ref if isinstance(spec, TargetSpec) else None
    cost = spec.variant_cost
    profiles = tuple(_as_profile(source, index, entry) for index, entry in enumerate(_entries_of(spec)))
    return VariantResource(
        key=source.key,
        document=source.ref,
        place=source.place,
        form=form.form,
        status_shape=form.status_shape,
        model_id=spec.model_id,
        target_kind=target.kind if target else _DEPLOYMENT,
        target_name=target.name if target else source.name,
        slo_class_ref=spec.slo_class_ref if isinstance(spec, FlatProfileSpec | ParmsProfileSpec) else None,
        profiles=profiles,
        variant_cost=None if cost is None else float(cost),
        min_replicas=spec.min_replicas if isinstance(spec, TargetSpec) else None,
        max_replicas=spec.max_replicas if isinstance(spec, TargetSpec) else None,
        labels=source.labels,
        settings=settings,
        conditions=read_conditions(source.fields.get("status")),
        places=_cite(source),
    )


def _as_profile(source: KubernetesObject, index: int, entry: FlatAccelerator | ParmsAccelerator) -> PerformanceProfile:
    decode = entry if isinstance(entry, FlatAccelerator) else entry.perf_parms.decode_parms
    prefill = None if isinstance(entry, FlatAccelerator) else entry.perf_parms.prefill_parms
    return PerformanceProfile(
        accelerator=entry.acc,
        alpha_s=_seconds(decode.alpha),
        beta_s=_seconds(decode.beta),
        gamma_s=_seconds(prefill.gamma) if prefill else None,
        delta_s=_seconds(prefill.delta) if prefill else None,
        max_batch_size=entry.max_batch_size,
        at_tokens=entry.at_tokens if isinstance(entry, FlatAccelerator) else None,
        accelerators_per_replica=entry.acc_count,
        place=source.locate((*_PROFILE_PATH, index)),
    )


def _seconds(milliseconds: str) -> float:
    return seconds_from_ms(float(milliseconds))


def _cite(source: KubernetesObject) -> dict[str, Place]:
    spec = source.fields["spec"]
    written = [name for name in _CITED if isinstance(spec, dict) and spec.get(name) is not None]
    places = {f"spec.{name}": source.locate(("spec", name)) for name in written}
    if ACCELERATOR_LABEL in source.labels:
        place = source.locate(("metadata", "labels", ACCELERATOR_LABEL))
        places[place.field] = place
    return places
