"""Which serving workloads become variants because the team says so, and which ones nothing wants managed."""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.records import replace
from reconciler.domain.settings import Override, Settings
from reconciler.domain.snapshot import Form, StatusShape, UnmanagedWorkload
from reconciler.domain.variant_settings import IGNORE, MANAGED, MODEL
from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration, Owners
from reconciler.resources.registry import KINDS
from reconciler.resources.validation import is_templated
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.effective_settings import override_fits

_GLOB = frozenset("*?[")


def adopted_variants(
    settings: Settings, declaration: Declaration, claimed: Container[ResourceKey]
) -> Iterator[VariantResource]:
    """The workloads that the team wants managed as they are, unless a resource (`claimed`) scales them.

    An annotation on the workload goes before `workloads`, of which the last entry that fits counts. An entry
    manages what is recognised; what is not, only where it names the workload and its model.
    """
    wanted, left = [], {}
    for workload in _candidates(settings, declaration.workloads, claimed):
        if is_wanted(workload, settings):
            wanted.append(workload)
        elif workload.is_serving and workload.replicas != 0:
            left.update(dict.fromkeys(_names_in_metrics(_as_variant(workload, workload.model_id)), workload))
    scalers = {_namespace_of(each.key): each for each in declaration.broken if _may_scale_others(each.key)}
    for workload in wanted:
        variant = _as_variant(workload, _model_of(workload, settings))
        held = _doubt(workload, scalers) or variant.unsupported or _mixture(variant, left)
        yield replace(variant, unsupported=held)


def _may_scale_others(key: ResourceKey) -> bool:
    kind = KINDS.get(key.kind)
    return kind is not None and (kind.declares_variants or kind.is_autoscaler)


def _namespace_of(key: ResourceKey) -> tuple[str, str]:
    """Its cluster and namespace, which is any (empty) where it is filled in later."""
    return key.cluster, "" if is_templated(key.namespace) else key.namespace


def _doubt(workload: Workload, scalers: Mapping[tuple[str, str], BrokenResource]) -> Hold | None:
    """That a resource which cannot be read may scale it."""
    cluster, namespace = _namespace_of(workload.key)
    broken = scalers.get((cluster, namespace)) or scalers.get((cluster, ""))
    if broken is None:
        return None
    words = f"{broken.key.kind} {broken.key.label} cannot be read ({broken.place}) and may scale it: mend it first"
    return Hold(kind=HoldKind.OWNED_BY_ANOTHER, words=words, place=broken.place)


_InMetrics: TypeAlias = tuple[str, str, str]
"""A cluster, a namespace, and the name of a model there."""


def _names_in_metrics(variant: VariantResource) -> Iterator[_InMetrics]:
    for name in variant.served_names or (variant.model_id,):
        yield variant.key.cluster, variant.key.namespace, name


def _mixture(variant: VariantResource, left: Mapping[_InMetrics, Workload]) -> Hold | None:
    """That metrics give it the load of another workload, which is not managed."""
    other = next((left[each] for each in _names_in_metrics(variant) if each in left), None)
    if other is None:
        return None
    words = (
        f"{other.key.kind} {other.key.label} ({other.place}) serves the same model and is not managed: their requests "
        "cannot be told apart: manage both, or give one another --served-model-name"
    )
    return Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=words, place=other.place)


def find_left(
    settings: Settings, declaration: Declaration, claimed: Container[ResourceKey]
) -> tuple[UnmanagedWorkload, ...]:
    """The workloads that serve models and are no variant's (`claimed`), ignored ones included: they hold devices."""
    owners = Owners.of(declaration.owners)
    doubled = {each.key for each in declaration.alternatives}
    reasons = {each.key: each.reason for each in declaration.broken if each.key in doubled}
    found = (
        UnmanagedWorkload(
            workload=workload,
            owner=owners.owner_of(workload.key, workload),
            obstacle=reasons.get(workload.key, ""),
        )
        for workload in _candidates(settings, (*declaration.workloads, *declaration.alternatives), claimed)
        if workload.is_serving
    )
    return tuple(sorted(found, key=lambda each: each.key))


def find_unmanaged(settings: Settings, left: Iterable[UnmanagedWorkload]) -> tuple[UnmanagedWorkload, ...]:
    """Those of the workloads that are no variant's of which nothing says whether to manage them."""
    return tuple(each for each in left if not _is_ignored(each.workload) and is_wanted(each.workload, settings) is None)


def _candidates(
    settings: Settings, workloads: Iterable[Workload], claimed: Container[ResourceKey]
) -> Iterator[Workload]:
    chosen = {cluster.name for cluster in settings.clusters}
    for workload in workloads:
        # what scales the object that a controller makes of it scales the same number
        is_claimed = workload.key in claimed or workload.becomes in claimed
        if workload.key.cluster in chosen and not is_claimed and is_kind_of_serving(workload.key):
            yield workload


def is_kind_of_serving(key: ResourceKey) -> bool:
    """Whether objects of its kind may be managed as they are."""
    kind = KINDS.get(key.kind)
    return kind is not None and kind.serving is not None


def adopts(entry: Override, workload: Workload) -> bool:
    """Whether an entry of `workloads` means a workload."""
    names_it = MODEL.name in entry.settings and not _GLOB & {*entry.match.get("name", "*")}
    is_meant = workload.is_serving or names_it
    return is_meant and override_fits(entry, _as_variant(workload, workload.model_id))


def is_wanted(workload: Workload, settings: Settings) -> bool | None:
    """Whether the team wants a workload managed; None where nothing says."""
    written = workload.settings.get(MANAGED.name)
    if written is not None:
        return bool(written.value)
    if MODEL.name in workload.settings:
        return True
    entry = next(_entries(workload, settings), None)
    if entry is None:
        return None
    return bool(entry.settings[MANAGED.name].value) if MANAGED.name in entry.settings else True


def _is_ignored(workload: Workload) -> bool:
    ignore = workload.settings.get(IGNORE.name)
    return ignore is not None and bool(ignore.value)


def _entries(workload: Workload, settings: Settings) -> Iterator[Override]:
    return (each for each in reversed(settings.workloads) if adopts(each, workload))


def _model_of(workload: Workload, settings: Settings) -> str:
    annotated = workload.settings.get(MODEL.name)
    if annotated is not None:
        return str(annotated.value)
    named = (each.settings[MODEL.name].value for each in _entries(workload, settings) if MODEL.name in each.settings)
    return str(next(named, workload.model_id))


def _as_variant(workload: Workload, model_id: str) -> VariantResource:
    key = workload.key
    hold = None
    if workload.unsized:
        hold = Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=f"{workload.unsized} ({workload.place})")
    elif not model_id:
        words = (
            f"nothing in Git names the model that {key.kind} {key.label} serves ({workload.place}): "
            "annotate it with reconciler.io/model"
        )
        hold = Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=words, place=workload.place)
    return VariantResource(
        key=key,
        document=workload.document,
        place=workload.place,
        form=Form.ADOPTED,
        status_shape=StatusShape.NONE,
        model_id=model_id or key.name,
        target_kind=key.kind,
        target_name=key.name,
        target=key,
        # What metrics call it is what the engine was started with, whatever the team calls it.
        served_names=workload.served_names or ((workload.model_id,) if workload.model_id else ()),
        labels=workload.labels,
        settings=workload.settings,
        unsupported=hold,
    )
