"""All clusters of a commit, and which objects a file reaches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import Finding, ResourceKey
from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.cluster import ClusterBuild, build_cluster
from reconciler.placement.deployers import Deployer
from reconciler.placement.elsewhere import ELSEWHERE, build_elsewhere, has_unfollowed_sets
from reconciler.placement.kustomize.build import Builder
from reconciler.placement.markers import IGNORE, MarkerComment
from reconciler.placement.objects import BuiltObject, Root
from reconciler.placement.origins import Address, ValueOrigin
from reconciler.placement.repository import ManifestRepository
from reconciler.placement.roots import find_charts, find_used
from reconciler.resources.validation import is_templated


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What every cluster gets from one commit.

    `objects` holds each object under its key, more than one where two roots build the same name. `shared_paths` are
    files that the builds of two clusters read: never edited. `repository`, `holds` (does a path belong to a cluster)
    and `markers` are what it was built from. One of the `clusters` may be what is built elsewhere of their files.
    """

    repository: ManifestRepository
    clusters: Mapping[str, ClusterBuild]
    objects: Mapping[ResourceKey, tuple[BuiltObject, ...]]
    holds: Mapping[str, Callable[[str], bool]] = field(repr=False)
    shared_paths: frozenset[str] = frozenset()
    markers: tuple[MarkerComment, ...] = ()
    _markers: Mapping[tuple[str, str, str], tuple[MarkerComment, ...]] = field(default_factory=dict, repr=False)
    """By word, kind and name; those that name nobody by word and path."""
    _by_document: Mapping[tuple[str, int], tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _by_kind: Mapping[tuple[str, str], tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _readers: dict[tuple[tuple[str, int], Field], dict[Address, list[BuiltObject]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _scalers: Mapping[str, tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _documents_in: Mapping[str, int] = field(default_factory=dict, repr=False)
    _by_name: Mapping[tuple[str, str, str], tuple[ResourceKey, ...]] = field(default_factory=dict, repr=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that must be told about the builds, sorted."""
        return tuple(sorted({finding for cluster in self.clusters.values() for finding in cluster.findings}))

    def roots_elsewhere(self, path: str) -> tuple[str, ...]:
        """What builds objects of a file in the paths of no cluster, sorted."""
        return tuple(sorted({str(each.root) for each in self.reaches(path) if each.key.cluster == ELSEWHERE}))

    def find(self, key: ResourceKey) -> BuiltObject | None:
        """The object of that name, when one root builds it and no other."""
        found = self.objects.get(key, ())
        return found[0] if len(found) == 1 else None

    def markers_for(self, key: ResourceKey, word: str) -> tuple[MarkerComment, ...]:
        """The marker comments that name an object, and those without a name in its own manifest."""
        named = self._markers.get((word, key.kind, key.name), ())
        own = (
            marker
            for built in self.objects.get(key, ())
            for marker in self._markers.get((word, "", built.path), ())
            if marker.document == built.source.document.index
            and marker.field[: len(built.source.field)] == built.source.field
        )
        return (*(marker for marker in named if key.cluster in self.holders_of(marker.path)), *own)

    def is_ignored(self, origin: ValueOrigin) -> bool:
        """Whether a comment behind a number says to leave it alone."""
        marked = self._markers.get((IGNORE, "", origin.place.path), ())
        return origin.embedding is None and any(
            (marker.document, marker.field) == (origin.document, origin.field) for marker in marked
        )

    def of_kinds(self, cluster: str, kinds: Iterable[str]) -> Iterator[BuiltObject]:
        """The objects of some kinds in a cluster."""
        for kind in kinds:
            yield from self._by_kind.get((cluster, kind), ())

    def templated_scalers(self, cluster: str) -> tuple[BuiltObject, ...]:
        """The objects of whatever kind that scale another, whose name is filled in by somebody later."""
        return self._scalers.get(cluster, ())

    def named(self, cluster: str, kind: str, name: str) -> tuple[ResourceKey, ...]:
        """The objects of a kind and name in whatever namespace of a cluster."""
        return self._by_name.get((cluster, kind, name), ())

    def reaches(self, path: str) -> tuple[BuiltObject, ...]:
        """Every object, in every root and cluster, that something of this file ends up in."""
        numbers = range(self._documents_in.get(path, 0))
        found = (built for number in numbers for built in self._by_document.get((path, number), ()))
        return tuple({id(built): built for built in found}.values())

    def made_of(self, document: tuple[str, int]) -> tuple[BuiltObject, ...]:
        """Every object, in every root and cluster, that something of one document ends up in."""
        return self._by_document.get(document, ())

    def readers_of(self, origin: ValueOrigin, path: Field) -> tuple[BuiltObject, ...]:
        """Every object whose field `path` is decided at this very place: an edit there changes them all."""
        address = origin.address
        return tuple(self._readers_by_address(address[:2], path).get(address, ()))

    def _readers_by_address(self, document: tuple[str, int], path: Field) -> Mapping[Address, list[BuiltObject]]:
        """Who reads what of a document, found once: one kustomization may patch thousands of objects."""
        known = self._readers.get((document, path))
        if known is None:
            known = {}
            for built in self._by_document.get(document, ()):
                address = built.address_of(path)
                if address is not None:
                    known.setdefault(address, []).append(built)
            self._readers[document, path] = known
        return known

    def deployer_of(self, built: BuiltObject) -> Deployer | None:
        """Who deploys an object, if Git shows it."""
        return self.clusters[built.key.cluster].deployers.get(built.root)

    def hidden_from(self, key: ResourceKey, beside: ResourceKey) -> Finding | None:
        """What is not read and may hold an object: in a root that builds `beside`, or is all in its namespace."""
        hidden = self.clusters[key.cluster].hidden
        roots = [built.root for built in self.objects.get(beside, ()) if built.root in hidden]
        roots += [root for root in hidden if self._namespace_of(root) == key.namespace]
        return hidden[roots[0]][0] if roots else None

    def _namespace_of(self, root: Root) -> str:
        """The namespace that a root gives all its objects, empty where it gives none."""
        deployer = self.clusters[root.cluster].deployers.get(root)
        if deployer is not None and (deployer.namespace is not None or deployer.fallback_namespace):
            return str(deployer.namespace.value) if deployer.namespace is not None else deployer.fallback_namespace
        files = self.repository.kustomizations_in(root.path)
        values = [document.value for document in (self.repository.files.get(files[0], ()) if files else ())]
        found = values[0].get("namespace") if values and isinstance(values[0], dict) else None
        return found if isinstance(found, str) else ""

    def holders_of(self, path: str) -> frozenset[str]:
        """The clusters that a file belongs to or is built into; all of them when it is in the paths of none."""
        found = {name for name, holds in self.holds.items() if holds(path) or path in self.clusters[name].paths}
        return frozenset(found or self.holds)


def named_target(built: BuiltObject) -> Value:
    """The name of what an object scales, or a text that all of that is filled in by."""
    reference = built.value_at("spec", "scaleTargetRef")
    return reference.get("name") if isinstance(reference, dict) else reference


def build_fleet(
    repository: ManifestRepository, clusters: Mapping[str, Callable[[str], bool]], markers: Iterable[MarkerComment] = ()
) -> Fleet:
    """Build every cluster; `clusters` says by name whether a path belongs to it. Nothing is raised."""
    builder = Builder(repository)
    used, charts = find_used(repository), find_charts(repository)

    def is_held(path: str) -> bool:
        return any(holds(path) for holds in clusters.values())

    builds = {
        name: build_cluster(builder, name, holds, is_held, used, charts) for name, holds in sorted(clusters.items())
    }
    if not all(map(is_held, repository.paths)) or has_unfollowed_sets(repository):
        builds[ELSEWHERE] = build_elsewhere(builder, is_held, tuple(builds.values()), used, charts)
    sorted_markers = sorted(markers, key=lambda marker: (marker.path, marker.line))
    objects: dict[ResourceKey, list[BuiltObject]] = {}
    by_document: dict[tuple[str, int], list[BuiltObject]] = {}
    documents_in: dict[str, int] = {}
    for build in builds.values():
        for built in build.objects:
            if build.cluster != ELSEWHERE:
                objects.setdefault(built.key, []).append(built)
            for path, number in built.documents:
                by_document.setdefault((path, number), []).append(built)
                documents_in[path] = max(documents_in.get(path, 0), number + 1)
    by_kind: dict[tuple[str, str], list[BuiltObject]] = {}
    for found in objects.values():
        for built in found:
            by_kind.setdefault((built.key.cluster, built.key.kind), []).append(built)
    names: dict[tuple[str, str, str], list[ResourceKey]] = {}
    for key in objects:
        names.setdefault((key.cluster, key.kind, key.name), []).append(key)
    return Fleet(
        repository=repository,
        clusters=builds,
        objects={key: tuple(found) for key, found in objects.items()},
        holds=dict(clusters),
        shared_paths=_find_shared(builds.values()),
        markers=tuple(sorted_markers),
        _markers=_group(sorted_markers),
        _by_document={where: tuple(found) for where, found in by_document.items()},
        _by_kind={kind: tuple(found) for kind, found in by_kind.items()},
        _scalers={
            name: tuple(each for each in build.objects if is_templated(named_target(each)))
            for name, build in builds.items()
        },
        _documents_in=documents_in,
        _by_name={name: tuple(keys) for name, keys in names.items()},
    )


def _find_shared(builds: Iterable[ClusterBuild]) -> frozenset[str]:
    seen: dict[str, str] = {}
    shared: set[str] = set()
    for build in builds:
        shared.update(path for path in build.paths if seen.setdefault(path, build.cluster) != build.cluster)
    return frozenset(shared)


def _group(markers: Iterable[MarkerComment]) -> dict[tuple[str, str, str], tuple[MarkerComment, ...]]:
    grouped: dict[tuple[str, str, str], list[MarkerComment]] = {}
    for marker in markers:
        grouped.setdefault((marker.word, marker.kind, marker.name or marker.path), []).append(marker)
    return {name: tuple(found) for name, found in grouped.items()}
