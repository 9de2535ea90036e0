"""AutoscalingPolicy: with a target in it since v1.0, before that one that bindings name."""

from collections.abc import Iterator, Mapping

from reconciler.domain.declared.kthena import PolicyResource, TargetSpec
from reconciler.domain.declared.tracking import Generation
from reconciler.domain.identity import Finding
from reconciler.manifests.wording import join_words
from reconciler.resources.kthena.fields import PolicyFieldsBeforeV1
from reconciler.resources.kthena.policy_specs import AnyPolicyFields, check_spec, read_spec
from reconciler.resources.kthena.reading import Reader, Settings, SpecReader, read_with
from reconciler.resources.kthena.references import tell_era
from reconciler.resources.kthena.roles import check_disaggregated, read_disaggregated
from reconciler.resources.kthena.scaled_targets import (
    check_heterogeneous,
    check_homogeneous,
    read_heterogeneous,
    read_homogeneous,
)
from reconciler.resources.kthena.statuses import PolicyStatus
from reconciler.resources.kthena.target_fields import TargetPolicyFields
from reconciler.resources.objects import KubernetesObject, Piece

_TARGETS = ("homogeneousTarget", "heterogeneousTarget", "disaggregatedTarget")
_SPEC = ("spec",)


def read_policy(source: KubernetesObject) -> Iterator[Piece]:
    """The policy, or the broken resource, and all that must be said about it."""
    yield from read_with(source, _tell)


def _tell(source: KubernetesObject, spec: Mapping[str, object]) -> SpecReader | Finding:
    targets = [name for name in _TARGETS if spec.get(name) is not None]
    names = metric_keys(spec)
    if targets and "metricName" in names:
        message = f"metricName (before v1.0) contradicts {targets[0]} (since v1.0): write name instead of metricName"
        return source.complain((*_SPEC, "metrics"), message)
    if targets or "name" in names:
        return Reader(
            model=TargetPolicyFields, check=_check_targets, build=_build, status=PolicyStatus, decides=tuple(spec)
        )
    return Reader(model=PolicyFieldsBeforeV1, check=_check, build=_build, status=PolicyStatus, decides=tuple(spec))


def metric_keys(spec: Mapping[str, object]) -> set[str]:
    """Under which of its two spellings the metrics of a policy have their names."""
    metrics = spec.get("metrics")
    entries = [entry for entry in metrics if isinstance(entry, dict)] if isinstance(metrics, list) else []
    return {key for entry in entries for key in ("name", "metricName") if key in entry}


def _check(source: KubernetesObject, fields: PolicyFieldsBeforeV1) -> Iterator[Finding]:
    yield from check_spec(source, fields, _SPEC)


def _check_targets(source: KubernetesObject, fields: TargetPolicyFields) -> Iterator[Finding]:
    yield from check_spec(source, fields, _SPEC)
    single, group, roles = fields.homogeneous_target, fields.heterogeneous_target, fields.disaggregated_target
    written = [name for name, target in zip(_TARGETS, (single, group, roles), strict=True) if target is not None]
    if len(written) != 1:
        found = f"got {join_words(written, 'and')}" if written else "found none"
        yield source.complain(_SPEC, f"expected exactly one of {join_words(_TARGETS, 'and')}, {found}")
    if not fields.metrics and (single is not None or group is not None):
        yield source.complain((*_SPEC, "metrics"), "expected at least one metric, found nothing")
    era, metrics = tell_era(source, Generation.G4), [each.name for each in fields.metrics or ()]
    if single is not None:
        yield from check_homogeneous(source, single, (*_SPEC, _TARGETS[0]), era, metrics)
    if group is not None:
        yield from check_heterogeneous(source, group, (*_SPEC, _TARGETS[1]), era, metrics)
    if roles is not None:
        yield from check_disaggregated(source, roles, (*_SPEC, _TARGETS[2]), era, fields.metrics)


def _build(source: KubernetesObject, fields: AnyPolicyFields, settings: Settings) -> PolicyResource:
    return PolicyResource(
        key=source.key,
        document=source.ref,
        place=source.place,
        spec=read_spec(source, fields, _SPEC, is_inline=False),
        target=_read_target(source, fields) if isinstance(fields, TargetPolicyFields) else None,
        labels=source.labels,
        settings=settings,
    )


def _read_target(source: KubernetesObject, fields: TargetPolicyFields) -> TargetSpec | None:
    era = tell_era(source, Generation.G4)
    if fields.homogeneous_target is not None:
        return read_homogeneous(source, fields.homogeneous_target, (*_SPEC, _TARGETS[0]), era)
    if fields.heterogeneous_target is not None:
        return read_heterogeneous(source, fields.heterogeneous_target, (*_SPEC, _TARGETS[1]), era)
    if fields.disaggregated_target is not None:
        return read_disaggregated(source, fields.disaggregated_target, (*_SPEC, _TARGETS[2]), era)
    return None
