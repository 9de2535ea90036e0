"""What an overlay may be given for one of its objects whose manifest others share: a count, or a patch of ours."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.domain.identity import Place
from reconciler.domain.places import DocumentRef, OverlayPatch, PatchPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import Field
from reconciler.placement.fleet import Fleet
from reconciler.placement.kustomize.kustomization import Kustomization, PatchRule, read_document
from reconciler.placement.kustomize.strategic import merge_keys_of
from reconciler.placement.kustomize.transformers import SCALED_KINDS
from reconciler.placement.objects import BuiltObject, ObjectIdentity, Root, identify
from reconciler.placement.origins import SourceField, value_at
from reconciler.placement.paths import join, resolve


def overlay_insertion(fleet: Fleet, built: BuiltObject) -> WrittenField | None:
    """The entry that would set the count of this object and of no other; None where there is no safe one.

    The kustomization at the root must be this cluster's alone, deployed once, and say nothing of its count yet.
    """
    if built.key.kind not in SCALED_KINDS or built.obstacles:
        return None
    document = own_kustomization(fleet, built.root)
    if document is None or any(name in built.names for name in _counted(document)):
        return None
    bearers = [
        each
        for each in fleet.clusters[built.key.cluster].objects
        if each.root == built.root and each.key.kind in SCALED_KINDS and built.key.name in each.names
    ]
    if len(bearers) != 1:
        return None
    return WrittenField(
        document=DocumentRef(path=document.path, document=document.index),
        field=("replicas",),
        place=Place(path=document.path, field="replicas"),
        entry=built.key.name,
    )


def _counted(document: Document) -> Iterator[Value]:
    """The names that a kustomization counts already."""
    replicas = value_at(document.value, ("replicas",))
    yield from (value_at(entry, ("name",)) for entry in (replicas if isinstance(replicas, list) else ()))


def own_kustomization(fleet: Fleet, root: Root) -> Document | None:
    """The kustomization at a root that is this cluster's alone, and deployed once; None when there is none."""
    found = fleet.repository.kustomizations_in(root.path)
    if len(found) != 1 or found[0] in fleet.shared_paths:
        return None
    try:
        documents = [document for document in fleet.repository.read(found[0]) if document.value is not None]
    except InputError:
        return None
    is_alone = fleet.clusters[root.cluster].roots_reading[found[0]] == 1
    return documents[0] if is_alone and len(documents) == 1 and isinstance(documents[0].value, dict) else None


PATCH_NAME: Final = "reconciler-accelerators.yaml"
"""The file beside an overlay's kustomization that is ours."""


class NoPatchError(Exception):
    """Why an overlay cannot be given a patch for one of its objects, in words; `place` is what is in the way."""

    def __init__(self, reason: str, place: Place | None = None) -> None:
        super().__init__(reason)
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overlay:
    """A kustomization that may be given a patch; `listed` is the number of ours among its patches."""

    kustomization: Kustomization
    document: Document
    path: str
    listed: int | None


class OverlayPatches:
    """The patches that overlays of a fleet have of ours, or could have; each overlay is looked at once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._overlays: dict[Root, _Overlay | NoPatchError] = {}
        self._bearers: Counter[tuple[Root, str, str]] = Counter()

    def find(self, built: BuiltObject) -> OverlayPatch:
        """Where the patch for an object stands, or would; NoPatchError where there is no safe one."""
        overlay = self._overlay(built.root)
        identity = identify(built.source.mapping())
        self._refuse_namesakes(built, identity)
        listed = overlay.listed
        return OverlayPatch(
            path=overlay.path,
            document=None if listed is None else self._find_document(overlay.path, identity),
            kustomization=overlay.document.path,
            kustomization_document=overlay.document.index,
            listed_at=len(overlay.kustomization.patches) if listed is None else None,
            api_version=built.source.text("apiVersion"),
            kind=identity.kind,
            name=identity.name,
            namespace=identity.namespace,
        )

    def refuse_later(self, built: BuiltObject, path: Field) -> None:
        """NoPatchError where something that is applied after our patch changes a field, or anything below it."""
        overlay, deployer = self._overlay(built.root), self._fleet.deployer_of(built)
        rules = [
            *(() if overlay.listed is None else overlay.kustomization.patches[overlay.listed + 1 :]),
            *overlay.kustomization.json_patches,
            *(() if deployer is None else deployer.patches),
        ]
        for source in built.trace.subtree(path).recorded() if rules else ():
            if any(_is_of(source, rule) for rule in rules):
                raise NoPatchError(
                    f"{source.place} acts after any patch of ours: change its accelerator there", source.place
                )

    def _overlay(self, root: Root) -> _Overlay:
        if root not in self._overlays:
            try:
                self._overlays[root] = self._look_at(root)
            except NoPatchError as error:
                self._overlays[root] = error
            except InputError as error:
                self._overlays[root] = NoPatchError(str(error))
        found = self._overlays[root]
        if isinstance(found, NoPatchError):
            raise NoPatchError(str(found), found.place)
        return found

    def _look_at(self, root: Root) -> _Overlay:
        document = own_kustomization(self._fleet, root)
        if document is None:
            raise NoPatchError(f"{root} has no kustomization of its own that could list a patch: give it an overlay")
        kustomization = read_document(document)
        path = join(kustomization.directory, PATCH_NAME)
        listed = _number_listed(kustomization, path)
        if listed is None and self._fleet.repository.has_file(path):
            raise NoPatchError(f"{document.path} does not list {PATCH_NAME}, which is there: list it under patches")
        if path in self._fleet.shared_paths:
            raise NoPatchError(f"{path} is reached by two clusters: give each a file of its own")
        return _Overlay(kustomization=kustomization, document=document, path=path, listed=listed)

    def _find_document(self, path: str, identity: ObjectIdentity) -> int | None:
        for document in self._fleet.repository.read(path):
            if isinstance(document.value, dict) and identify(document.value).effective == identity.effective:
                return document.index
        return None

    def _refuse_namesakes(self, built: BuiltObject, identity: ObjectIdentity) -> None:
        """Kustomize finds an object by any name that it ever had: no other may have been called so."""
        if not self._bearers:
            for cluster in self._fleet.clusters.values():
                for each in cluster.objects:
                    self._bearers.update((each.root, each.key.kind, name) for name in each.names)
        if self._bearers[built.root, built.key.kind, identity.name] > 1:
            words = f"a patch could not tell the {identity.kind}s of the name {identity.name} in {built.root} apart"
            raise NoPatchError(f"{words}: patch each where it has a name of its own")


def way_through(built: BuiltObject, path: Field) -> PatchPath:
    """A field of an object as a strategic merge patch leads to it; NoPatchError where a list would be replaced."""
    return tuple(_steps(built, path))


def _steps(built: BuiltObject, path: Field) -> Iterator[str | tuple[str, ...]]:
    for depth, part in enumerate(path):
        if isinstance(part, str):
            yield part
            continue
        names = _names(built.value_at(*path[:depth]), part)
        if merge_keys_of(built.api_version, built.key.kind, str(path[depth - 1])) != ("name",) or not names:
            words = f"a patch would replace the whole list {path[depth - 1]} of a {built.key.kind}"
            raise NoPatchError(f"{words}: change its accelerator by hand")
        yield names


def _names(value: Value, index: int) -> tuple[str, ...]:
    """The names of a list's items up to one: patched in this order they keep it."""
    items = value[: index + 1] if isinstance(value, list) else []
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    texts = tuple(name for name in names if isinstance(name, str) and name)
    return texts if len(texts) == len(names) == len(set(texts)) else ()


def _number_listed(kustomization: Kustomization, path: str) -> int | None:
    """The number of our file among the patches; with a target it would be a patch for something else."""
    for number, rule in enumerate(kustomization.patches):
        if rule.path and resolve(rule.directory, rule.path) == path:
            if rule.target is not None:
                raise NoPatchError(
                    f"{rule.source.place} gives {PATCH_NAME} a target: remove the target", rule.source.place
                )
            return number
    return None


def _is_of(source: SourceField, rule: PatchRule) -> bool:
    """Whether a place is in the text of a patch."""
    if rule.inline is not None:
        held, own = source.embedding, rule.inline
        own_address = own.document.path, own.document.index, own.field
        return held is not None and (held.document.path, held.document.index, held.field) == own_address
    return bool(rule.path) and source.document.path == resolve(rule.directory, rule.path)
