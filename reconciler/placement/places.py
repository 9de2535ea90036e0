"""Where a number of a built object can be edited, or why it cannot."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.places import DocumentRef, EntryPlace, OverlayPatch, PatchPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value
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
    ValueOrigin,
    identify,
    origin_of_source,
    value_at,
)
from reconciler.placement.repository import join, resolve
from reconciler.resources.validation import is_templated


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
        """Where the entries of the mapping (or the items of the list) at `path` of an object are written.

        None where they stand in its own manifest alone, which no other object is built of.
        """
        if self._is_all_own(built, path):
            return None
        obstacle = built.obstacle_at(path)
        if obstacle is not None:
            return EntryPlace(reason=str(obstacle))
        patch, way, reason = self._patch(built, path)
        return EntryPlace(
            entries=dict(self._entries(built, path)),
            home=self._home(built, path),
            patch=patch,
            way=way,
            reason=reason,
        )

    def _is_all_own(self, built: BuiltObject, path: Field) -> bool:
        own = built.source
        if self._built_of[own.address] > 1 or own.document.path in self._fleet.shared_paths:
            return False
        return all(each.address[:2] == own.address[:2] for each in built.trace.subtree(path).recorded())

    def _entries(self, built: BuiltObject, path: Field) -> Iterator[tuple[str | int, WrittenField | None]]:
        """Every entry that is there, or that something keeps from being there."""
        value = built.value_at(*path)
        keys: dict[str | int, None] = {}
        if isinstance(value, dict):
            keys.update(dict.fromkeys(value))
        elif isinstance(value, list):
            keys.update(dict.fromkeys(range(len(value))))
        for key in {**keys, **dict.fromkeys(built.trace.subtree(path).members)}:
            source = built.trace.sources_at((*path, key))[0]
            is_there = built.value_at(*path, key) is not None and source.exists
            yield key, origin_of_source(source).written if is_there and self._is_ours(built, source) else None

    def _home(self, built: BuiltObject, path: Field) -> WrittenField | None:
        """The mapping that decides, or what would hold it; of an embedded text the lines cannot be added to."""
        source = built.trace.sources_at(path)[0]
        if source.embedding is not None or not self._is_ours(built, source):
            return None
        if source.exists:
            return origin_of_source(source).written if isinstance(source.value, dict) else None
        holder = value_at(source.document.value, source.field[:-1])
        return origin_of_source(source).written if isinstance(holder, dict) and holder else None

    def _patch(self, built: BuiltObject, path: Field) -> tuple[OverlayPatch | None, PatchPath, str]:
        try:
            way = way_through(built, path)
            self._patches.refuse_later(built, path)
            return self._patches.find(built), way, ""
        except NoPatchError as error:
            return None, (), self._explain(built, path, error)

    def _explain(self, built: BuiltObject, path: Field, error: NoPatchError) -> str:
        """What decides here and is not this object's alone, before why there is no patch."""
        source = built.trace.sources_at(path)[0]
        others = sorted({str(each.key) for each in self._sharing(built, source)})
        if others:
            return f"{source.place.path} is built into {len(others) + 1} objects, and {error}"
        return str(error) if error.place == source.place else f"{source.place} decides, and {error}"

    def _is_ours(self, built: BuiltObject, source: SourceField) -> bool:
        is_written = source.address[1] != AS_BUILT and source.document.index != AS_BUILT
        return is_written and not self._fleet.is_ignored(origin_of_source(source)) and self._is_alone(built, source)

    def _is_alone(self, built: BuiltObject, source: SourceField) -> bool:
        """Whether a change at a place changes this object of this cluster, and no other."""
        return source.document.path not in self._fleet.shared_paths and next(self._sharing(built, source), None) is None

    def _sharing(self, built: BuiltObject, source: SourceField) -> Iterator[BuiltObject]:
        """The other objects that are made of a place, of what holds it or of what it holds; its deployer aside."""
        deployer = self._fleet.deployer_of(built)
        own = None if deployer is None else deployer.key_in(built.key.cluster)
        for other in self._made_of(source):
            if other is not built and other.key != own:
                yield other

    def _made_of(self, source: SourceField) -> Iterator[BuiltObject]:
        path, number, field, embedding = source.address
        read = self._readings_of((path, number))
        for each, objects in read.get(embedding, {}).items():
            if _holds(each, field) or _holds(field, each):
                yield from objects
        whole = read.get(None, {}) if embedding is not None else {}
        for depth in range(len(embedding or ()) + 1):
            yield from whole.get((embedding or ())[:depth], ())

    def _readings_of(self, document: tuple[str, int]) -> _Readings:
        """Which objects are made of which fields of a document, by the text that they stand in; walked once."""
        if document not in self._readings:
            found: _Readings = {}
            for built in self._fleet.made_of(document):
                for path, number, field, embedding in {each.address for each in built.trace.recorded()}:
                    if (path, number) == document:
                        found.setdefault(embedding, {}).setdefault(field, []).append(built)
            self._readings[document] = found
        return self._readings[document]


def _holds(outer: Field, inner: Field) -> bool:
    return inner[: len(outer)] == outer


REPLICAS: Final[Field] = ("spec", "replicas")
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePlace:
    """The scalar that decides a number; `considered` is the whole chain, the effective link first."""

    origin: ValueOrigin
    considered: tuple[ValueOrigin, ...]

    @property
    def place(self) -> Place:
        """File, line and field path, for people."""
        return self.origin.place

    @property
    def value(self) -> Value:
        """What stands there."""
        return self.origin.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """Why a number cannot be written, with what was considered; `is_ignored`: a person said to leave it alone."""

    obstacle: Obstacle
    considered: tuple[ValueOrigin, ...] = ()
    is_ignored: bool = False

    def __str__(self) -> str:
        return str(self.obstacle)


def effective_place(
    fleet: Fleet, key: ResourceKey, path: Field = REPLICAS, *, word: str = "replicas"
) -> EffectivePlace | NoPlace:
    """Where a number of an object is decided; `word` is what a marker comment calls it.

    Marker comment, else the chain of the built object: overlay's `replicas`, patch, component, base. An object that no
    root builds has no place here: see `helm_place`.
    """
    marked = marked_place(fleet, key, word, path)
    if marked is not None:
        return marked
    found = fleet.objects.get(key, ())
    if not found:
        return _no_place(f"no build of {key.cluster} holds {key.kind} {key.label}")
    if len(found) > 1:
        roots = join_words([f"{built.root}" for built in found[:_MOST_NAMED]], "and")
        return _no_place(f"{key.kind} {key.label} is built by {roots}: keep one", found[0].place)
    return place_in(fleet, found[0], path)


def _no_place(reason: str, place: Place | None = None, considered: tuple[ValueOrigin, ...] = ()) -> NoPlace:
    return NoPlace(obstacle=Obstacle(reason=reason, place=place), considered=considered)


def place_in(fleet: Fleet, built: BuiltObject, path: Field) -> EffectivePlace | NoPlace:
    """Where a field of one built object is decided, markers aside."""
    obstacle = built.obstacle_at(path)
    chain = built.origin_of(path)
    if obstacle is not None:
        return NoPlace(obstacle=obstacle, considered=chain)
    if not chain:
        words = f"{built.key.kind} {built.key.label} has no {name_field(path)}: write the live count there"
        return _no_place(words, built.place)
    if built.value_at(*path) is None:
        return _no_place(
            f"{name_field(path)} of {built.key.label} is removed by a {chain[0].kind}", chain[0].place, chain
        )
    deployer = fleet.deployer_of(built)
    own = {built.key} if deployer is None else {built.key, deployer.key_in(built.key.cluster)}
    others = (str(other.key) for other in fleet.readers_of(chain[0], path) if other.key not in own)
    return judge(fleet, built.key, chain, others)


def judge(
    fleet: Fleet, key: ResourceKey, chain: tuple[ValueOrigin, ...], others: Iterable[str]
) -> EffectivePlace | NoPlace:
    """The first link of a chain as the place to edit, unless something is in its way.

    `others` are the objects that an edit there would change as well.
    """
    origin = chain[0]
    reason = _unwritable(origin)
    if not reason and fleet.is_ignored(origin):
        return replace(_no_place("ignored: the comment behind it says so", origin.place, chain), is_ignored=True)
    reason = reason or _reaching(fleet, key, origin, others)
    if reason:
        return _no_place(reason, origin.place, chain)
    return EffectivePlace(origin=origin, considered=chain)


def _unwritable(origin: ValueOrigin) -> str:
    if is_templated(origin.value):
        return f"it is filled in by a template: {describe(origin.value)}"
    if origin.document == AS_BUILT:
        return "who deploys it is itself patched or made of a template: the number has no place of its own"
    value = origin.value
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not is_count and not (isinstance(value, str) and value.isascii() and value.isdigit()):
        return f"expected a whole number, got {describe(value)}"
    return ""


def _is_at(marker: MarkerComment, origin: ValueOrigin) -> bool:
    where = (origin.place.path, origin.document, origin.field)
    return origin.embedding is None and (marker.path, marker.document, marker.field) == where


def _reaching(fleet: Fleet, key: ResourceKey, origin: ValueOrigin, others: Iterable[str]) -> str:
    """An edit must change one object of one cluster."""
    path = origin.place.path
    elsewhere = fleet.roots_elsewhere(path)
    if elsewhere:
        more = f" and {len(elsewhere) - _MOST_NAMED} more" if len(elsewhere) > _MOST_NAMED else ""
        named = join_words(elsewhere[:_MOST_NAMED], "and")
        return f"{path} is built into {named}{more} too, which no cluster's paths hold: a change would reach both"
    if path in fleet.shared_paths:
        names = join_words(sorted(fleet.holders_of(path) | {key.cluster}), "and")
        return f"{path} is reached by {names}: a change would reach all of them"
    found = sorted(set(others))
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        named = join_words(found[:_MOST_NAMED], "and")
        return f"a change here would also change {named}{more}: give each of them a place of its own"
    return ""


def marked_place(fleet: Fleet, key: ResourceKey, word: str, path: Field = REPLICAS) -> EffectivePlace | NoPlace | None:
    """Where a marker comment says that an object's number stands; None when none does."""
    markers = _markers_for(fleet, key, word, path)
    if not markers:
        return None
    considered = tuple(origin_of_marker(marker) for marker in markers)
    if len(markers) > 1:
        places = join_words([str(marker.place) for marker in markers], "and")
        return _no_place(f"{len(markers)} marker comments claim {word} of {key.kind} {key.label}: {places}: keep one")
    rivals = _namesakes(fleet, markers[0], key)
    if rivals:
        words = f"the marker comment means {key.kind} {key.name} in several namespaces: {join_words(rivals, 'and')}"
        return _no_place(words, markers[0].place, considered)
    clusters = fleet.holders_of(markers[0].path)
    if len(clusters) > 1:
        words = (
            f"{markers[0].path} is reached by {join_words(sorted(clusters), 'and')}: a change would reach all of them"
        )
        return _no_place(words, markers[0].place, considered)
    reason = _unwritable(considered[0])
    if reason:
        return _no_place(reason, markers[0].place, considered)
    chains = [built.origin_of(path) for built in fleet.objects.get(key, ())[:1]]
    return EffectivePlace(origin=considered[0], considered=(*considered, *(link for chain in chains for link in chain)))


def _markers_for(fleet: Fleet, key: ResourceKey, word: str, path: Field) -> Sequence[MarkerComment]:
    """The markers of an object; in its own manifest, where it has several numbers, the one behind this number."""
    markers = fleet.markers_for(key, word)
    if len(markers) > 1 and not any(marker.kind for marker in markers):
        origins = [origin for built in fleet.objects.get(key, ()) for origin in built.origin_of(path)[:1]]
        return [marker for marker in markers if any(_is_at(marker, origin) for origin in origins)]
    return markers


def _namesakes(fleet: Fleet, marker: MarkerComment, key: ResourceKey) -> Sequence[str]:
    """Objects that a marker's words fit as well; in their own manifest they fit one."""
    if not marker.kind:
        return ()
    fitting = fleet.named(key.cluster, key.kind, key.name)
    return sorted(each.label for each in fitting) if len(fitting) > 1 else ()


def origin_of_marker(marker: MarkerComment) -> ValueOrigin:
    """The link that a marker amounts to."""
    return ValueOrigin(
        place=marker.place,
        kind=OriginKind.MARKER,
        value=marker.value,
        document=marker.document,
        field=marker.field,
    )
