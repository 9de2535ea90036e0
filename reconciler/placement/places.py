"""Where a number of a built object can be edited, or why it cannot.

Formulas and defaults: rules/placement.md.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.records import dataclass, replace
from reconciler.domain.written import DocumentRef, EntryPlace, OverlayPatch, PatchPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, text_at, value_at
from reconciler.manifests.wording import Field, describe, join_words, name_field
from reconciler.placement.fleet import Fleet
from reconciler.placement.kustomization import Kustomization, PatchRule, read_document
from reconciler.placement.kustomize_patches import merge_keys_of
from reconciler.placement.kustomize_transformers import SCALED_KINDS
from reconciler.placement.markers import MarkerComment
from reconciler.placement.objects import (
    AS_BUILT,
    BuiltObject,
    ObjectIdentity,
    Obstacle,
    OriginKind,
    Root,
    SourceField,
    SourceTrace,
    ValueOrigin,
    identify,
    origin_of_source,
    overlap,
)
from reconciler.placement.repository import join, resolve
from reconciler.resources.validation import is_templated


def overlay_insertion(fleet: Fleet, built: BuiltObject) -> WrittenField | None:
    """The entry under `replicas` that would set the count of this object only; None where there is no safe one.

    The root's kustomization must be deployed once, to this cluster only, and not set the count yet.
    """
    if built.key.kind not in SCALED_KINDS or built.obstacles:
        return None
    document = own_kustomization(fleet, built.root)
    counts = value_at(document.value, ("replicas",)) if document is not None else None
    counted = [value_at(entry, ("name",)) for entry in (counts if isinstance(counts, list) else ())]
    if document is None or any(name in built.names for name in counted):
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


def own_kustomization(fleet: Fleet, root: Root) -> Document | None:
    """The kustomization at a root that is deployed once, to this cluster only; None when there is none."""
    found = fleet.repository.kustomizations_in(root.path)
    if len(found) != 1 or found[0] in fleet.shared_paths:
        return None
    try:
        documents = [document for document in fleet.repository.read(found[0]) if document.value is not None]
    except InputError:
        return None
    is_alone = fleet.clusters[root.cluster].roots_reading[found[0]] == 1
    return documents[0] if is_alone and len(documents) == 1 and isinstance(documents[0].value, dict) else None


PATCH_NAME: Final = "reconciler-patches.yaml"
"""Our patch file next to an overlay's kustomization."""


class NoPatchError(Exception):
    """Raised when an overlay cannot get a patch for one of its objects; `place` is the obstacle."""

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
    """Our patches in the overlays of a fleet, or where they would be; each overlay is read once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._overlays: dict[Root, _Overlay | NoPatchError] = {}
        self._bearers: Counter[tuple[Root, str, str]] = Counter()

    def find(self, built: BuiltObject) -> OverlayPatch:
        """Where the patch for an object is, or would be; NoPatchError where there is no safe one."""
        overlay = self._overlay(built.root)
        identity = identify(built.source.mapping())
        self._refuse_namesakes(built, identity)
        listed = overlay.listed
        own = (
            each.index
            for each in (() if listed is None else self._fleet.repository.read(overlay.path))
            if isinstance(each.value, dict) and identify(each.value).effective == identity.effective
        )
        return OverlayPatch(
            path=overlay.path,
            document=next(own, None),
            kustomization=overlay.document.path,
            kustomization_document=overlay.document.index,
            listed_at=len(overlay.kustomization.patches) if listed is None else None,
            api_version=built.source.text("apiVersion"),
            kind=identity.kind,
            name=identity.name,
            namespace=identity.namespace,
        )

    def refuse_later(self, built: BuiltObject, path: Field) -> None:
        """NoPatchError where a rule that is applied after our patch changes a field, or anything below it."""
        overlay, deployer = self._overlay(built.root), self._fleet.deployer_of(built)
        rules = [
            *(() if overlay.listed is None else overlay.kustomization.patches[overlay.listed + 1 :]),
            *overlay.kustomization.json_patches,
            *(() if deployer is None else deployer.patches),
        ]
        for source in built.trace.subtree(path).recorded() if rules else ():
            if any(_is_of(source, rule) for rule in rules):
                words = f"{source.place} is applied after any patch of ours: change its accelerator there"
                raise NoPatchError(words, source.place)

    def _overlay(self, root: Root) -> _Overlay:
        found = self._overlays.get(root)
        if found is None:
            try:
                found = self._read(root)
            except NoPatchError as error:
                found = error
            except InputError as error:
                found = NoPatchError(str(error))
            self._overlays[root] = found
        if isinstance(found, NoPatchError):
            raise NoPatchError(str(found), found.place)
        return found

    def _read(self, root: Root) -> _Overlay:
        document = own_kustomization(self._fleet, root)
        if document is None:
            raise NoPatchError(f"{root} has no kustomization of its own that could list a patch: give it an overlay")
        kustomization = read_document(document)
        path = join(kustomization.directory, PATCH_NAME)
        paths = [rule.path and resolve(rule.directory, rule.path) for rule in kustomization.patches]
        listed = paths.index(path) if path in paths else None
        own = None if listed is None else kustomization.patches[listed]
        if own is not None and own.target is not None:  # with a target it would be a patch for something else
            place = own.source.place
            raise NoPatchError(f"{place} gives {PATCH_NAME} a target: remove the target", place)
        if listed is None and self._fleet.repository.has_file(path):
            raise NoPatchError(f"{document.path} does not list {PATCH_NAME}, which is there: list it under patches")
        if path in self._fleet.shared_paths:
            raise NoPatchError(f"{path} is used by two clusters: give each a file of its own")
        return _Overlay(kustomization=kustomization, document=document, path=path, listed=listed)

    def _refuse_namesakes(self, built: BuiltObject, identity: ObjectIdentity) -> None:
        """Kustomize finds an object by any name that it has had: no other object may have had it."""
        if not self._bearers:
            for cluster in self._fleet.clusters.values():
                for each in cluster.objects:
                    self._bearers.update((each.root, each.key.kind, name) for name in each.names)
        if self._bearers[built.root, built.key.kind, identity.name] > 1:
            words = f"a patch cannot distinguish the {identity.kind}s named {identity.name} in {built.root}"
            raise NoPatchError(f"{words}: patch each where it has a name of its own")


def way_through(built: BuiltObject, path: Field) -> PatchPath:
    """A field of an object as a strategic merge patch leads to it; NoPatchError where a list would be replaced."""
    way: list[str | tuple[str, ...]] = []
    for depth, part in enumerate(path):
        if isinstance(part, str):
            way.append(part)
            continue
        # a patch that lists the items up to this one keeps their order
        items = built.value_at(*path[:depth])
        names = tuple(text_at(item, "name") for item in (items[: part + 1] if isinstance(items, list) else []))
        is_named = bool(names) and all(names) and len(names) == len(set(names))
        if merge_keys_of(built.api_version, built.key.kind, str(path[depth - 1])) != ("name",) or not is_named:
            words = f"a patch would replace the whole list {path[depth - 1]} of a {built.key.kind}"
            raise NoPatchError(f"{words}: change its accelerator by hand")
        way.append(names)
    return tuple(way)


def _is_of(source: SourceField, rule: PatchRule) -> bool:
    """Whether a place is in the text of a patch."""
    if rule.inline is not None:
        held, own = source.embedding, rule.inline
        own_address = own.document.path, own.document.index, own.field
        return held is not None and (held.document.path, held.document.index, held.field) == own_address
    return bool(rule.path) and source.document.path == resolve(rule.directory, rule.path)


def _is_all_in(own: SourceField, trace: SourceTrace) -> bool:
    return all(each.address[:2] == own.address[:2] for each in trace.recorded())


_Readings: TypeAlias = dict[Field | None, dict[Field, list[BuiltObject]]]


class EntryPlaces:
    """The places of a fleet's entries."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._patches = OverlayPatches(fleet)
        built = (each for build in fleet.clusters.values() for each in build.objects)
        self._readings: dict[tuple[str, int], _Readings] = {}
        self._built_of = Counter(each.source.address for each in built)

    def find(self, built: BuiltObject, path: Field) -> EntryPlace | None:
        """The places of the entries of the mapping (or the items of the list) at `path` of an object.

        None where they are all in its own manifest, which no other object is built of.
        """
        own = built.source
        is_shared = self._built_of[own.address] > 1 or own.document.path in self._fleet.shared_paths
        if not is_shared and (built.is_as_written or _is_all_in(own, built.trace.subtree(path))):
            return None
        obstacle = built.obstacle_at(path)
        if obstacle is not None:
            return EntryPlace(reason=str(obstacle))
        entries, home = dict(self._entries(built, path)), self._home(built, path)
        try:
            way = way_through(built, path)
            self._patches.refuse_later(built, path)
            return EntryPlace(entries=entries, home=home, patch=self._patches.find(built), way=way)
        except NoPatchError as error:
            return EntryPlace(entries=entries, home=home, reason=self._explain(built, path, error))

    def _entries(self, built: BuiltObject, path: Field) -> Iterator[tuple[str | int, WrittenField | None]]:
        value = built.value_at(*path)
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in dict.fromkeys((*keys, *built.trace.subtree(path).members)):
            source = built.trace.sources_at((*path, key))[0]
            is_set = built.value_at(*path, key) is not None and source.exists
            yield key, origin_of_source(source).written if is_set and self._is_ours(built, source) else None

    def _home(self, built: BuiltObject, path: Field) -> WrittenField | None:
        """The effective mapping, or its parent; lines cannot be added to an embedded text."""
        source = built.trace.sources_at(path)[0]
        if source.embedding is not None or not self._is_ours(built, source):
            return None
        if source.exists:
            return origin_of_source(source).written if isinstance(source.value, dict) else None
        holder = value_at(source.document.value, source.field[:-1])
        return origin_of_source(source).written if isinstance(holder, dict) and holder else None

    def _explain(self, built: BuiltObject, path: Field, error: NoPatchError) -> str:
        """Why there is no patch, with the effective source or the number of objects that share it."""
        source = built.trace.sources_at(path)[0]
        others = sorted({str(each.key) for each in self._sharing(built, source)})
        if others:
            return f"{source.place.path} is built into {len(others) + 1} objects, and {error}"
        return str(error) if error.place == source.place else f"{source.place} decides, and {error}"

    def _is_ours(self, built: BuiltObject, source: SourceField) -> bool:
        """Whether a change there changes this object of this cluster, and no other."""
        is_written = source.address[1] != AS_BUILT and source.document.index != AS_BUILT
        is_free = is_written and not self._fleet.is_ignored(origin_of_source(source))
        is_shared = source.document.path in self._fleet.shared_paths
        return is_free and not is_shared and next(self._sharing(built, source), None) is None

    def _sharing(self, built: BuiltObject, source: SourceField) -> Iterator[BuiltObject]:
        """The other objects that use a place, a parent or a child of it; not its deployer."""
        deployer = self._fleet.deployer_of(built)
        own = None if deployer is None else deployer.key_in(built.key.cluster)
        path, number, field, embedding = source.address
        read = self._readings_of((path, number))
        at_field = (objects for each, objects in read.get(embedding, {}).items() if overlap(each, field))
        whole = read.get(None, {}) if embedding is not None else {}
        around = (whole.get((embedding or ())[:depth], ()) for depth in range(len(embedding or ()) + 1))
        for other in chain.from_iterable(chain(at_field, around)):
            if other is not built and other.key != own:
                yield other

    def _readings_of(self, document: tuple[str, int]) -> _Readings:
        """The objects that use each field of a document, by the text that the field is in; read once."""
        if document not in self._readings:
            found: _Readings = {}
            for built in self._fleet.made_of(document):
                for path, number, field, embedding in {each.address for each in built.trace.recorded()}:
                    if (path, number) == document:
                        found.setdefault(embedding, {}).setdefault(field, []).append(built)
            self._readings[document] = found
        return self._readings[document]


REPLICAS: Final[Field] = ("spec", "replicas")
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePlace:
    """The scalar that a number comes from; `considered` is the whole chain, the effective link first."""

    origin: ValueOrigin
    considered: tuple[ValueOrigin, ...]

    @property
    def place(self) -> Place:
        """File, line and field path, for people."""
        return self.origin.place

    @property
    def value(self) -> Value:
        """The value there."""
        return self.origin.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """Why a number cannot be written, with what was considered; `is_ignored`: a comment says so."""

    obstacle: Obstacle
    considered: tuple[ValueOrigin, ...] = ()
    is_ignored: bool = False

    def __str__(self) -> str:
        return str(self.obstacle)


def effective_place(
    fleet: Fleet, key: ResourceKey, path: Field = REPLICAS, *, word: str = "replicas", is_count: bool = True
) -> EffectivePlace | NoPlace:
    """The effective place of an object's number; `word` is its name in marker comments, `is_count`: it is whole.

    A marker comment wins over the chain of the built object: overlay's `replicas`, patch, component, base. For an
    object that no root builds see `helm_place`.
    """
    marked = marked_place(fleet, key, word, path)
    if marked is not None:
        return marked
    found = fleet.objects.get(key, ())
    if not found:
        return no_place(f"no build of {key.cluster} holds {key.kind} {key.label}")
    if len(found) > 1:
        roots = join_words([f"{built.root}" for built in found[:_MOST_NAMED]], "and")
        return no_place(f"{key.kind} {key.label} is built by {roots}: keep one", found[0].place)
    return place_in(fleet, found[0], path, is_count=is_count)


def no_place(reason: str, place: Place | None = None, considered: tuple[ValueOrigin, ...] = ()) -> NoPlace:
    """Why a number cannot be written, in words."""
    return NoPlace(obstacle=Obstacle(reason=reason, place=place), considered=considered)


def place_in(fleet: Fleet, built: BuiltObject, path: Field, *, is_count: bool = True) -> EffectivePlace | NoPlace:
    """The effective place of a field of one built object, without markers."""
    obstacle = built.obstacle_at(path)
    chain = built.origin_of(path)
    if obstacle is not None:
        return NoPlace(obstacle=obstacle, considered=chain)
    if not chain:
        words = f"{built.key.kind} {built.key.label} has no {name_field(path)}: write the live count there"
        return no_place(words, built.place)
    if built.value_at(*path) is None:
        words = f"{name_field(path)} of {built.key.label} is removed by a {chain[0].kind}"
        return no_place(words, chain[0].place, chain)
    deployer = fleet.deployer_of(built)
    own = {built.key} if deployer is None else {built.key, deployer.key_in(built.key.cluster)}
    others = (str(other.key) for other in fleet.readers_of(chain[0], path) if other.key not in own)
    return judge(fleet, built.key, chain, others, is_count=is_count)


def judge(
    fleet: Fleet, key: ResourceKey, chain: tuple[ValueOrigin, ...], others: Iterable[str], *, is_count: bool = True
) -> EffectivePlace | NoPlace:
    """The first link of a chain as the place to edit, or why it cannot be edited.

    `others` are the objects that an edit there would change as well.
    """
    origin = chain[0]
    reason = _unwritable(origin, is_count=is_count)
    if not reason and fleet.is_ignored(origin):
        return replace(no_place("ignored: the comment behind it says so", origin.place, chain), is_ignored=True)
    reason = reason or _reaching(fleet, key, origin, others)
    if reason:
        return no_place(reason, origin.place, chain)
    return EffectivePlace(origin=origin, considered=chain)


def _unwritable(origin: ValueOrigin, *, is_count: bool = True) -> str:
    if is_templated(origin.value):
        return f"it is filled in by a template: {describe(origin.value)}"
    if origin.document == AS_BUILT:
        return "its deployer is itself patched or made from a template: the number has no place of its own"
    value = origin.value
    is_number = isinstance(value, int if is_count else int | float | str) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and value.isascii() and value.isdigit()):
        return f"expected a whole number, got {describe(value)}"
    return ""


def _reaching(fleet: Fleet, key: ResourceKey, origin: ValueOrigin, others: Iterable[str]) -> str:
    """An edit must change one object of one cluster."""
    path = origin.place.path
    elsewhere = fleet.roots_elsewhere(path)
    if elsewhere:
        roots = _some_of(elsewhere)
        return f"{path} is also built into {roots}, outside of all clusters' paths: a change would reach both"
    if path in fleet.shared_paths:
        names = join_words(sorted(fleet.holders_of(path) | {key.cluster}), "and")
        return f"{path} is used by {names}: a change would reach all of them"
    found = sorted(set(others))
    return f"a change here would also change {_some_of(found)}: give each of them a place of its own" if found else ""


def _some_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return join_words(names[:_MOST_NAMED], "and") + more


def marked_place(fleet: Fleet, key: ResourceKey, word: str, path: Field = REPLICAS) -> EffectivePlace | NoPlace | None:
    """The place of an object's number by a marker comment; None without one."""
    markers: Sequence[MarkerComment] = fleet.markers_for(key, word)
    objects = fleet.objects.get(key, ())
    if len(markers) > 1 and not any(marker.kind for marker in markers):
        # In an object's own manifest with several numbers only the marker behind this number counts.
        origins = [origin for built in objects for origin in built.origin_of(path)[:1] if origin.embedding is None]
        fields = [(origin.place.path, origin.document, origin.field) for origin in origins]
        markers = [marker for marker in markers if (marker.path, marker.document, marker.field) in fields]
    if not markers:
        return None
    considered = tuple(
        ValueOrigin(
            place=each.place, kind=OriginKind.MARKER, value=each.value, document=each.document, field=each.field
        )
        for each in markers
    )
    if len(markers) > 1:
        places = join_words([str(marker.place) for marker in markers], "and")
        return no_place(f"{len(markers)} marker comments claim {word} of {key.kind} {key.label}: {places}: keep one")
    fitting = fleet.named(key.cluster, key.kind, key.name) if markers[0].kind else ()
    if len(fitting) > 1:
        labels = join_words(sorted(each.label for each in fitting), "and")
        words = f"the marker comment means {key.kind} {key.name} in several namespaces: {labels}"
        return no_place(words, markers[0].place, considered)
    clusters = fleet.holders_of(markers[0].path)
    reason = _unwritable(considered[0])
    if len(clusters) > 1:
        names = join_words(sorted(clusters), "and")
        reason = f"{markers[0].path} is used by {names}: a change would reach all of them"
    if reason:
        return no_place(reason, markers[0].place, considered)
    links = objects[0].origin_of(path) if objects else ()
    return EffectivePlace(origin=considered[0], considered=(*considered, *links))
