"""Which serving workloads become variants because the team says so, and which ones nothing wants managed."""

from collections.abc import Container, Iterable, Iterator

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.settings import Override, Settings
from reconciler.domain.snapshot import Form, StatusShape, UnmanagedWorkload
from reconciler.domain.variant_settings import IGNORE, MANAGED, MODEL
from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration, Owners
from reconciler.resources.registry import KINDS
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
    for workload in _candidates(settings, declaration.workloads, claimed):
        if is_wanted(workload, settings):
            yield _as_variant(workload, _model_of(workload, settings))


def find_unmanaged(
    settings: Settings, declaration: Declaration, claimed: Container[ResourceKey]
) -> tuple[UnmanagedWorkload, ...]:
    """The workloads that serve models and are no variant's (`claimed`), where nothing says whether to manage them."""
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
        if workload.is_serving and not _is_ignored(workload) and is_wanted(workload, settings) is None
    )
    return tuple(sorted(found, key=lambda each: each.key))


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
