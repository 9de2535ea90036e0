"""Where the entries of a mapping are written: each where it is decided, if that is one object's alone, else in ours."""

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from reconciler.domain.places import EntryPlace, OverlayPatch, PatchPath, WrittenField
from reconciler.manifests.wording import Field
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.placement.origins import AS_BUILT, SourceField, origin_of_source, value_at
from reconciler.placement.overlays import NoPatchError, OverlayPatches, way_through

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
