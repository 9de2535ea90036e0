"""AutoscalingPolicy and AutoscalingPolicyBinding."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from reconciler.domain.identity import Finding
from reconciler.domain.metric_targets import Generation
from reconciler.domain.records import dataclass
from reconciler.domain.workloads import Annotation, ReplicaOwner
from reconciler.domain.written import WrittenField
from reconciler.manifests.wording import join_words
from reconciler.resources.kthena.generations import (
    BindingStatus,
    Era,
    PolicyStatus,
    Reader,
    Settings,
    find_era,
    read_with,
)
from reconciler.resources.kthena.policy_specs import (
    AnyPolicyFields,
    BindingFields,
    DisaggregatedFields,
    GroupFields,
    PolicyFieldsBeforeV1,
    PolicySpec,
    SingleFields,
    TargetPolicyFields,
    check_spec,
    read_spec,
)
from reconciler.resources.kthena.targets import (
    GroupTarget,
    ScaledTarget,
    check_disaggregated,
    check_heterogeneous,
    check_homogeneous,
    read_heterogeneous,
    read_target,
)
from reconciler.resources.kubernetes.scaler_settings import policy_scaler
from reconciler.resources.objects import Declared, KubernetesObject, Piece

_TARGETS = ("homogeneousTarget", "heterogeneousTarget", "disaggregatedTarget")
_SPEC = ("spec",)


TargetSpec: TypeAlias = ScaledTarget | GroupTarget | DisaggregatedFields


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResource(Declared):
    """An AutoscalingPolicy; `target` is None where bindings name the targets (before v1.0)."""

    source: KubernetesObject
    spec: PolicySpec
    target: TargetSpec | None = None
    settings: Mapping[str, Annotation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingResource(Declared):
    """An AutoscalingPolicyBinding: which policy of its namespace scales which targets."""

    source: KubernetesObject
    generation: Generation
    label_prefix: str
    policy: str
    target: ScaledTarget | GroupTarget
    settings: Mapping[str, Annotation] = field(default_factory=dict)


def read_policy(source: KubernetesObject) -> Iterator[Piece]:
    """The policy with what it sets the replicas of where it may be tuned, or the broken resource, and all findings."""
    for piece in read_with(source, _policy_reader):
        yield piece
        if isinstance(piece, PolicyResource) and isinstance(piece.target, ScaledTarget):
            yield _owner(piece, piece.target)


def _owner(policy: PolicyResource, target: ScaledTarget) -> ReplicaOwner:
    """The policy as what moves the replicas of its only target, of v1.0: older ones decide otherwise."""
    source, path = policy.source, (*_SPEC, _TARGETS[0])
    numbers = (("minReplicas", target.min_replicas), ("maxReplicas", target.max_replicas))
    return ReplicaOwner(
        cluster=source.cluster,
        namespace=target.reference.namespace or source.namespace,
        owner=f"{source.kind} {source.name}",
        target_kind=target.reference.kind,
        target_name=target.reference.name,
        place=source.locate(path),
        least=target.min_replicas,
        fields=tuple(
            WrittenField(
                document=source.ref,
                field=(*path, name),
                place=source.locate((*path, name)),
                is_ceiling=name == "maxReplicas",
                written=number,
                value=number,
            )
            for name, number in numbers
        ),
        scaler=policy_scaler(source, policy.spec.policy, target.sources, target.min_replicas, target.max_replicas),
        is_followed=True,
    )


def _policy_reader(source: KubernetesObject, spec: Mapping[str, object]) -> Reader[Any] | Finding:
    targets = [name for name in _TARGETS if spec.get(name) is not None]
    names = metric_keys(spec)
    if targets and "metricName" in names:
        message = f"metricName (before v1.0) contradicts {targets[0]} (since v1.0): write name instead of metricName"
        return source.complain((*_SPEC, "metrics"), message)
    if targets or "name" in names:
        return Reader(
            model=TargetPolicyFields,
            check=_check_targets,
            build=_build_policy,
            status=PolicyStatus,
            decides=tuple(spec),
        )
    return Reader(
        model=PolicyFieldsBeforeV1, check=_check_policy, build=_build_policy, status=PolicyStatus, decides=tuple(spec)
    )


def metric_keys(spec: Mapping[str, object]) -> set[str]:
    """Under which of its two spellings the metrics of a policy have their names."""
    metrics = spec.get("metrics")
    entries = [entry for entry in metrics if isinstance(entry, dict)] if isinstance(metrics, list) else []
    return {key for entry in entries for key in ("name", "metricName") if key in entry}


def _check_policy(source: KubernetesObject, fields: PolicyFieldsBeforeV1) -> Iterator[Finding]:
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
    era, metrics = find_era(source, Generation.G4), [each.name for each in fields.metrics or ()]
    if single is not None:
        yield from check_homogeneous(source, single, (*_SPEC, _TARGETS[0]), era, metrics)
    if group is not None:
        yield from check_heterogeneous(source, group, (*_SPEC, _TARGETS[1]), era, metrics)
    if roles is not None:
        yield from check_disaggregated(source, roles, (*_SPEC, _TARGETS[2]), era, fields.metrics)


def _build_policy(source: KubernetesObject, fields: AnyPolicyFields, settings: Settings) -> PolicyResource:
    return PolicyResource(
        source=source,
        spec=read_spec(source, fields, _SPEC, is_inline=False),
        target=_read_target(source, fields) if isinstance(fields, TargetPolicyFields) else None,
        settings=settings,
    )


def _read_target(source: KubernetesObject, fields: TargetPolicyFields) -> TargetSpec | None:
    era = find_era(source, Generation.G4)
    if fields.homogeneous_target is not None:
        return read_target(source, fields.homogeneous_target, (*_SPEC, _TARGETS[0]), era)
    if fields.heterogeneous_target is not None:
        return read_heterogeneous(source, fields.heterogeneous_target, (*_SPEC, _TARGETS[1]), era)
    return fields.disaggregated_target


_OLD = ("scalingConfiguration", "optimizerConfiguration")
_NEW = ("homogeneousTarget", "heterogeneousTarget")


def read_binding(source: KubernetesObject) -> Iterator[Piece]:
    """The binding, or the broken resource, and all findings."""
    yield from read_with(source, _binding_reader)


def _binding_reader(source: KubernetesObject, spec: Mapping[str, object]) -> Reader[Any] | Finding:
    written = [name for name in (*_OLD, *_NEW) if spec.get(name) is not None]
    if len(written) != 1:
        found = f"got {join_words(written, 'and')}" if written else "found none"
        return source.complain(("spec",), f"expected exactly one of {join_words((*_NEW, *_OLD), 'and')}, {found}")
    return Reader(
        model=BindingFields,
        check=_check_binding,
        build=_build_binding,
        status=BindingStatus,
        decides=tuple(spec),
    )


def _era_of(source: KubernetesObject, fields: BindingFields) -> Era:
    is_new = fields.homogeneous_target is not None or fields.heterogeneous_target is not None
    return find_era(source, Generation.G3 if is_new else None)


def _written(fields: BindingFields) -> tuple[str, SingleFields | GroupFields]:
    """The name and the value of the one target field that is written."""
    single, group = fields.scaling_configuration, fields.optimizer_configuration
    targets = zip((*_OLD, *_NEW), (single, group, fields.homogeneous_target, fields.heterogeneous_target), strict=True)
    return next((name, target) for name, target in targets if target is not None)


def _check_binding(source: KubernetesObject, fields: BindingFields) -> Iterator[Finding]:
    era, (name, target) = _era_of(source, fields), _written(fields)
    if isinstance(target, SingleFields):
        yield from check_homogeneous(source, target, ("spec", name), era, None)
    else:
        yield from check_heterogeneous(source, target, ("spec", name), era, None)


def _build_binding(source: KubernetesObject, fields: BindingFields, settings: Settings) -> BindingResource:
    era = _era_of(source, fields)
    return BindingResource(
        source=source,
        generation=era.generation,
        label_prefix=era.label_prefix,
        policy=fields.policy_ref.name,
        target=_read_bound_target(source, fields, era),
        settings=settings,
    )


def _read_bound_target(source: KubernetesObject, fields: BindingFields, era: Era) -> ScaledTarget | GroupTarget:
    name, target = _written(fields)
    if isinstance(target, SingleFields):
        return read_target(source, target, ("spec", name), era)
    return read_heterogeneous(source, target, ("spec", name), era)
