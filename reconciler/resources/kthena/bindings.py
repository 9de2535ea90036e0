"""AutoscalingPolicyBinding: the target of a policy, until v1.0 took it into the policy."""

from collections.abc import Iterator, Mapping

from reconciler.domain.declared.kthena import BindingResource, HeterogeneousTarget, HomogeneousTarget
from reconciler.domain.declared.tracking import Generation
from reconciler.domain.identity import Finding
from reconciler.manifests.wording import join_words
from reconciler.resources.kthena.reading import Reader, Settings, SpecReader, read_with
from reconciler.resources.kthena.references import Era, tell_era
from reconciler.resources.kthena.scaled_targets import (
    check_heterogeneous,
    check_homogeneous,
    read_heterogeneous,
    read_homogeneous,
)
from reconciler.resources.kthena.statuses import BindingStatus
from reconciler.resources.kthena.target_fields import AnyHeterogeneousFields, AnyHomogeneousFields, BindingFields
from reconciler.resources.objects import KubernetesObject, Piece

_OLD = ("scalingConfiguration", "optimizerConfiguration")
_NEW = ("homogeneousTarget", "heterogeneousTarget")


def read_binding(source: KubernetesObject) -> Iterator[Piece]:
    """The binding, or the broken resource, and all that must be said about it."""
    yield from read_with(source, _tell)


def _tell(source: KubernetesObject, spec: Mapping[str, object]) -> SpecReader | Finding:
    written = [name for name in (*_OLD, *_NEW) if spec.get(name) is not None]
    if len(written) != 1:
        found = f"got {join_words(written, 'and')}" if written else "found none"
        return source.complain(("spec",), f"expected exactly one of {join_words((*_NEW, *_OLD), 'and')}, {found}")
    return Reader(model=BindingFields, check=_check, build=_build, status=BindingStatus, decides=tuple(spec))


def _era_of(source: KubernetesObject, fields: BindingFields) -> Era:
    is_new = fields.homogeneous_target is not None or fields.heterogeneous_target is not None
    return tell_era(source, Generation.G3 if is_new else None)


def _written(fields: BindingFields) -> tuple[str, AnyHomogeneousFields | AnyHeterogeneousFields]:
    """The name and the value of the one target field that is written."""
    single, group = fields.scaling_configuration, fields.optimizer_configuration
    targets = zip((*_OLD, *_NEW), (single, group, fields.homogeneous_target, fields.heterogeneous_target), strict=True)
    return next((name, target) for name, target in targets if target is not None)


def _check(source: KubernetesObject, fields: BindingFields) -> Iterator[Finding]:
    era, (name, target) = _era_of(source, fields), _written(fields)
    if isinstance(target, AnyHomogeneousFields):
        yield from check_homogeneous(source, target, ("spec", name), era, None)
    else:
        yield from check_heterogeneous(source, target, ("spec", name), era, None)


def _build(source: KubernetesObject, fields: BindingFields, settings: Settings) -> BindingResource:
    era = _era_of(source, fields)
    return BindingResource(
        key=source.key,
        document=source.ref,
        place=source.place,
        generation=era.generation,
        label_prefix=era.label_prefix,
        policy=fields.policy_ref.name,
        policy_place=source.locate(("spec", "policyRef")),
        target=_read_target(source, fields, era),
        labels=source.labels,
        settings=settings,
    )


def _read_target(source: KubernetesObject, fields: BindingFields, era: Era) -> HomogeneousTarget | HeterogeneousTarget:
    name, target = _written(fields)
    if isinstance(target, AnyHomogeneousFields):
        return read_homogeneous(source, target, ("spec", name), era)
    return read_heterogeneous(source, target, ("spec", name), era)
