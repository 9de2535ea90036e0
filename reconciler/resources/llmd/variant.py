"""A VariantAutoscaling as a domain variant: forms told apart, milliseconds to seconds, every complaint placed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.domain.declared.places import Annotation
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.inventory import ACCELERATOR_LABEL
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.units import seconds_from_ms
from reconciler.manifests.wording import describe, escape, quote
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kubernetes.conditions import read_conditions
from reconciler.resources.llmd.forms import FormOfSpec, find_contradiction, tell_form
from reconciler.resources.llmd.spec import (
    FlatAccelerator,
    FlatProfileSpec,
    NameSpec,
    ParmsAccelerator,
    ParmsProfileSpec,
    Spec,
    TargetSpec,
)
from reconciler.resources.llmd.status import check_status
from reconciler.resources.objects import KubernetesObject, Piece, break_on, find_templated
from reconciler.resources.specs import find_unknown_top, hold_templated
from reconciler.resources.validation import Validated, validate
from reconciler.resources.variants import SloClassRef, VariantResource

_DEPLOYMENT = "Deployment"
_DEFAULT_MAX_REPLICAS = 2
_CITED = ("modelID", "scaleTargetRef", "sloClassRef", "variantCost", "minReplicas", "maxReplicas")
_PROFILE_PATH = ("spec", "modelProfile", "accelerators")


def read_variant(source: KubernetesObject, *, target_versions: Mapping[str, str]) -> Iterator[Piece]:
    """The variant, or the broken resource, and all that must be said about it.

    `target_versions` are the kinds that it may scale, each with the API version to name it in.
    """
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        message = f"expected a mapping, {'found' if spec is None else 'got'} {describe(spec)}"
        yield from break_on(source, (source.complain(("spec",), message),))
        return
    form = tell_form(spec)
    validated = _validate_spec(source, form, spec)
    templated = find_templated(spec if validated.value is None else _named_by(spec))
    if templated is not None:
        yield from hold_templated(source, ("spec", *templated))
        return
    annotations = check_annotations(source)
    findings = [*find_unknown_top(source), *validated.findings, *annotations.findings]
    findings += _check(source, validated.value, target_versions) if validated.value is not None else ()
    status = source.fields.get("status")
    if status is not None:
        findings += check_status(form.status_shape, status, lambda path: source.locate(("status", *path)))
    broken = tuple(break_on(source, tuple(findings)))
    yield from broken
    if validated.value is not None and len(broken) == len(findings):
        yield replace(
            _as_variant(source, form, validated.value, annotations.settings, status),
            unsupported=_find_unsupported(validated.value, target_versions),
        )


def _named_by(spec: Mapping[str, object]) -> dict[str, object]:
    """The fields whose text is valid whatever it says."""
    return {name: spec[name] for name in ("modelID", "scaleTargetRef", "sloClassRef") if name in spec}


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
    seen: set[tuple[str, int]] = set()
    for index, entry in enumerate(_entries_of(spec)):
        path = (*_PROFILE_PATH, index)
        decode = entry if isinstance(entry, FlatAccelerator) else entry.perf_parms.decode_parms
        if float(decode.alpha) == 0 and float(decode.beta) == 0:
            yield source.complain(path, "expected alpha or beta above 0, got 0 for both")
        if (entry.acc, entry.acc_count) in seen:
            yield source.complain(path, f"{quote(entry.acc)} with accCount {entry.acc_count} is already listed above")
        seen.add((entry.acc, entry.acc_count))


def _entries_of(spec: Spec) -> Sequence[FlatAccelerator | ParmsAccelerator]:
    if isinstance(spec, TargetSpec) or spec.model_profile is None:
        return ()
    return spec.model_profile.accelerators


def _as_variant(
    source: KubernetesObject, form: FormOfSpec, spec: Spec, settings: Mapping[str, Annotation], status: object
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
        slo_class_ref=_class_ref_of(spec),
        profiles=profiles,
        variant_cost=None if cost is None else float(cost),
        min_replicas=spec.min_replicas if isinstance(spec, TargetSpec) else None,
        max_replicas=spec.max_replicas if isinstance(spec, TargetSpec) else None,
        labels=source.labels,
        settings=settings,
        conditions=read_conditions(status),
        places=_cite(source),
    )


def _class_ref_of(spec: Spec) -> SloClassRef | None:
    if isinstance(spec, FlatProfileSpec | ParmsProfileSpec):
        return SloClassRef(name=spec.slo_class_ref.name, key=spec.slo_class_ref.key)
    return None


def _as_profile(source: KubernetesObject, index: int, entry: FlatAccelerator | ParmsAccelerator) -> PerformanceProfile:
    flat = entry if isinstance(entry, FlatAccelerator) else None
    decode = entry if isinstance(entry, FlatAccelerator) else entry.perf_parms.decode_parms
    prefill = None if isinstance(entry, FlatAccelerator) else entry.perf_parms.prefill_parms
    return PerformanceProfile(
        accelerator=entry.acc,
        alpha_s=_seconds(decode.alpha),
        beta_s=_seconds(decode.beta),
        gamma_s=_seconds(prefill.gamma) if prefill else None,
        delta_s=_seconds(prefill.delta) if prefill else None,
        max_batch_size=entry.max_batch_size,
        at_tokens=flat.at_tokens if flat else None,
        accelerators_per_replica=entry.acc_count,
        place=source.locate((*_PROFILE_PATH, index)),
    )


def _seconds(milliseconds: str) -> float:
    return seconds_from_ms(float(milliseconds))


def _find_unsupported(spec: Spec, target_versions: Mapping[str, str]) -> Hold | None:
    kind = spec.scale_target_ref.kind if isinstance(spec, TargetSpec) else _DEPLOYMENT
    if kind in target_versions:
        return None
    words = f"scale targets of kind {escape(kind)} are not available yet"
    return Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=words)


def _cite(source: KubernetesObject) -> dict[str, Place]:
    spec = source.fields["spec"]
    written = [name for name in _CITED if isinstance(spec, dict) and spec.get(name) is not None]
    places = {f"spec.{name}": source.locate(("spec", name)) for name in written}
    if ACCELERATOR_LABEL in source.labels:
        place = source.locate(("metadata", "labels", ACCELERATOR_LABEL))
        places[place.field] = place
    return places
