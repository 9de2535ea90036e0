"""Reads what one commit declares: each file once, every cluster as it is built."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.domain.declared.declarations import BrokenResource, Declaration
from reconciler.domain.globs import path_matches
from reconciler.domain.identity import Finding, Place, ResourceKey, finding_of, name_findings
from reconciler.domain.recording import ManifestFile, WithheldFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document, parse_readable
from reconciler.manifests.wording import MOST_NAMED, name_first
from reconciler.placement.disruption import KIND as BUDGET
from reconciler.placement.fleet import Fleet, build_fleet
from reconciler.placement.flux_sources import GENERATOR_GROUP
from reconciler.placement.flux_sources import GROUP as SOURCE_GROUP
from reconciler.placement.flux_sources import KINDS as SOURCE_KINDS
from reconciler.placement.markers import MarkerComment, read_markers
from reconciler.placement.origins import texts_in
from reconciler.placement.paths import directory_of, is_kustomization, resolve
from reconciler.placement.repository import ManifestRepository
from reconciler.placement.roots import find_used, is_below
from reconciler.resources.folding import merge
from reconciler.resources.kubernetes.autoscalers import scales_another
from reconciler.resources.reading import names_kind, read_file
from reconciler.resources.registry import KIND_WORDS
from reconciler.snapshot.built_objects import declare
from reconciler.snapshot.doubtful_errors import doubt, doubt_duplicates, is_doubtful
from reconciler.snapshot.places.placing import place_numbers

SECRET = "Secret"  # noqa: S105 - the name of a kind
UNBUILT = "build"
"""The rule of what keeps a kustomization, or what deploys it, from being built."""
_DEPLOYING_GROUPS = ("argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
# Patterns come from a repository: one that takes long to match is a pattern for nothing.
_LONGEST_GLOB, _MOST_STARS = 256, 3
_NAMES_SECRET = re.compile(rb"\bkind[\"']?[ \t]*:[ \t]*[\"']?Secret\b")
_CHART_VALUES = "values.yaml"
_ARGO_SOURCE = ".argocd-source"
_SOURCE_GROUPS = (SOURCE_GROUP, GENERATOR_GROUP)
_GROUPS = (*_DEPLOYING_GROUPS, *_SOURCE_GROUPS)
_WORDS = KIND_WORDS | {group.encode() for group in _GROUPS} | {SECRET.encode(), b"scaleTargetRef", BUDGET.encode()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Files that are read only where something names them: templates of charts, and what is not this repository's own.

    What is vendored is read where a deployer points to it, too.
    """

    templates: frozenset[str] = frozenset()
    vendored: frozenset[str] = frozenset()


Clusters = Mapping[str, Callable[[str], bool]]
Fetch = Callable[[Sequence[str]], Iterable[ManifestFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """One file: the documents that matter, the comments that mark numbers, and the first of what was not readable."""

    path: str
    body: bytes = field(repr=False)
    documents: tuple[Document, ...] = ()
    error: InputError | None = None
    markers: tuple[MarkerComment, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_relevant(self) -> bool:
        """Whether anything of it is read, or was meant to be."""
        is_named = any(_matters(document) for document in self.documents)
        return is_named or bool(self.markers or self.findings) or is_kustomization(self.path)

    @property
    def is_kindless(self) -> bool:
        """Whether it holds no objects, but perhaps values of a chart, or patches."""
        return b"kind" not in self.body

    @property
    def is_deployer(self) -> bool:
        """Whether it says what Flux or Argo CD deploys, which may name files of any shape."""
        versions = (each.value.get("apiVersion") for each in self.documents if isinstance(each.value, dict))
        return any(isinstance(version, str) and version.startswith(_DEPLOYING_GROUPS) for version in versions)

    @property
    def holds_secret(self) -> bool:
        """Whether a document of it is a Secret, or may be one: of a part that cannot be read nobody knows."""
        is_named = self.error is not None and _NAMES_SECRET.search(self.body) is not None
        return is_named or any(_is_secret(document) for document in self.documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The files of a commit that decide something, those withheld for a Secret, and what every cluster gets."""

    readings: Mapping[str, FileReading]
    withheld: tuple[WithheldFile, ...]
    fleet: Fleet
    unreadable: tuple[Finding, ...] = ()
    """What is wrong with files that are withheld, for they may hold one."""
    paths: frozenset[str] = frozenset()
    """All that it has but for what is skipped."""

    @property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """What a recording must hold to read the same again."""
        return tuple(ManifestFile(path=path, body=reading.body) for path, reading in sorted(self.readings.items()))


def clusters_of(settings: Settings) -> Clusters:
    """Whether a path belongs to a cluster, by the cluster's name."""
    return {cluster.name: cluster.holds for cluster in (*settings.clusters, *settings.other_clusters)}


def read_manifest(path: str, body: bytes, *, is_whole: bool = False) -> FileReading:
    """Read one file: the documents that may hold objects we know, or all of them."""
    kinds = None if is_whole or is_kustomization(path) else _WORDS
    # Kustomize is as lenient with its own files, and with no other.
    documents, errors = parse_readable(path, body, kinds=kinds, last_key_counts=is_kustomization(path))
    markers, findings = read_markers(path, body)
    return FileReading(
        path=path,
        body=body,
        documents=documents,
        error=errors[0] if errors else None,
        markers=markers,
        findings=(*map(finding_of, errors), *findings),
    )


def read_commit(
    files: Iterable[ManifestFile],
    paths: Iterable[str],
    clusters: Clusters,
    fetch: Fetch,
    withheld: Sequence[WithheldFile] = (),
    remote: str = "",
    skipped: Skipped | None = None,
) -> Commit:
    """Read a commit's files and build its clusters.

    `paths` are all that it has, `remote` is where it comes from, `skipped` which are not among the files but where
    something names them. `fetch` gives files again, which then are read in
    full: what kustomizations name as patches and the like, and what holds no objects but is named by what deploys
    charts or directories.
    """
    readings: dict[str, FileReading] = {}
    kindless: list[str] = []
    for file in files:
        reading = read_manifest(file.path, file.body)
        if reading.is_relevant:
            readings[file.path] = reading
        elif reading.is_kindless:
            kindless.append(file.path)
    paths = frozenset(paths)
    if skipped is not None:
        paths -= _add_reached(readings, paths, skipped, fetch)
    named = find_used(_repository(readings, paths, remote)).rules
    deployers = [reading for reading in readings.values() if reading.is_deployer]
    # Asked of each file of values in the repository: what all deployers say is looked through once.
    said = b"\n".join(each.body for each in deployers)
    globs = {glob for each in deployers for document in each.documents for glob in _globs_in(document.value)}
    named = named.union(path for path in kindless if _may_be_named(path, said, globs))
    for file in fetch(sorted(named & paths)):
        readings[file.path] = read_manifest(file.path, file.body, is_whole=True)
    secret = [path for path, reading in readings.items() if reading.holds_secret]
    unread = [readings[path] for path in secret if readings[path].error is not None]
    found = tuple(WithheldFile(path=path, objects=_keys_in(readings.pop(path), clusters)) for path in secret)
    fleet = build_fleet(_repository(readings, paths, remote), clusters, _markers_in(readings))
    kept = {
        path: _doubted(reading, fleet) for path, reading in readings.items() if path in named or _is_read(path, fleet)
    }
    unreadable = tuple(each for reading in unread for each in _doubted(reading, fleet).findings[:1])
    return Commit(readings=kept, withheld=(*withheld, *found), fleet=fleet, unreadable=unreadable, paths=paths)


def _doubted(reading: FileReading, fleet: Fleet) -> FileReading:
    if reading.error is None or not is_doubtful(reading.path, reading.body, fleet):
        return reading
    return replace(reading, findings=tuple(doubt(reading.findings)))


def _add_reached(
    readings: dict[str, FileReading], paths: frozenset[str], skipped: Skipped, fetch: Fetch
) -> frozenset[str]:
    """Read what of the skipped files something names that is read itself; what is left of them comes back."""
    left = skipped.templates | skipped.vendored
    while left:
        used = find_used(_repository(readings, paths, ""))
        deployed = {each for reading in readings.values() if reading.is_deployer for each in _deployed_by(reading)}
        named = (path for path in left if path in used.files or is_below(directory_of(path), used.directories))
        reached = {*named, *(path for path in left & skipped.vendored if is_below(path, deployed))}
        if not reached:
            break
        left -= reached
        for file in fetch(sorted(reached)):
            reading = read_manifest(file.path, file.body)
            readings.update({file.path: reading} if reading.is_relevant else {})
    return left


def _deployed_by(reading: FileReading) -> Iterator[str]:
    """The directories that a file of deployers speaks of."""
    for document in reading.documents:
        for where, text in texts_in(document.value):
            directory = resolve("", text) if where[-1:] == ("path",) else None
            if directory:
                yield directory


def read_declaration(
    manifests: Sequence[ManifestFile],
    withheld: Sequence[WithheldFile],
    settings: Settings,
    paths: Iterable[str] = (),
    remote: str = "",
) -> Declaration:
    """What recorded files declare; `paths` names the others that the commit has, `remote` where it comes from."""
    return fold(read_recorded(manifests, withheld, settings, paths, remote), settings)


def read_recorded(
    manifests: Sequence[ManifestFile],
    withheld: Sequence[WithheldFile],
    settings: Settings,
    paths: Iterable[str],
    remote: str = "",
) -> Commit:
    """The commit that was recorded, as far as it was; `paths` names the files that it has besides."""
    bodies = {manifest.path: manifest for manifest in manifests}

    def fetch(named: Sequence[str]) -> Iterator[ManifestFile]:
        return (bodies[path] for path in named if path in bodies)

    return read_commit(manifests, {*paths, *bodies}, clusters_of(settings), fetch, withheld, remote)


def fold(commit: Commit, settings: Settings) -> Declaration:
    """One declaration of all files; the objects of withheld ones are known by name only."""
    whole = _with_roots(merge(declare(commit.fleet, commit.readings)), commit.fleet)
    whole = doubt_duplicates(whole, commit.fleet, settings)
    chosen = {cluster.name for cluster in settings.clusters}
    unread = tuple(_withheld(key, each.path) for each in commit.withheld for key in each.objects)
    findings = tuple(finding for reading in commit.readings.values() for finding in reading.findings)
    told = {(finding.place, finding.message) for finding in findings}
    untold = (finding for finding in commit.fleet.findings if (finding.place, finding.message) not in told)
    told_of = sorted({*whole.findings, *name_findings(untold, UNBUILT), *findings})
    found = replace(
        whole,
        variants=tuple(variant for variant in whole.variants if variant.key.cluster in chosen),
        broken=tuple(each for each in (*whole.broken, *unread) if each.key.cluster in chosen),
        findings=tuple(each for each in told_of if concerns(commit, each.place.path, settings)),
        notes=tuple(each for each in whole.notes if concerns(commit, each.place.path, settings)),
    )
    return place_numbers(found, commit.fleet, settings)


def concerns(commit: Commit, path: str, settings: Settings) -> bool:
    """Whether a file is one of the chosen clusters, or of none: what only others read is for them to tell."""
    if not settings.other_clusters:
        return True
    return _is_of(commit, path, settings.clusters) or not _is_of(commit, path, settings.other_clusters)


def _is_of(commit: Commit, path: str, clusters: Iterable[ClusterSettings]) -> bool:
    builds = ((cluster, commit.fleet.clusters.get(cluster.name)) for cluster in clusters)
    return any(cluster.holds(path) or (build is not None and path in build.paths) for cluster, build in builds)


def _with_roots(declaration: Declaration, fleet: Fleet) -> Declaration:
    """What is built more than once from one place is told with those who build it."""
    renamed: dict[str, str] = {}
    for broken in declaration.broken:
        found = fleet.objects.get(replace(broken.key, part=""), ())
        roots = sorted({str(built.root) for built in found})
        if len(roots) > 1 and len({built.place for built in found}) < len(found):
            named = name_first(roots[:MOST_NAMED], len(roots))
            words = f"{broken.key.kind} {broken.key.label} is built by {named}"
            renamed[broken.reason] = f"{words}: keep one, or name the cluster of each in clusters[].paths"
    return replace(
        declaration,
        broken=tuple(replace(each, reason=renamed.get(each.reason, each.reason)) for each in declaration.broken),
        findings=tuple(
            sorted({replace(each, message=renamed.get(each.message, each.message)) for each in declaration.findings})
        ),
    )


def _repository(readings: Mapping[str, FileReading], paths: Iterable[str], remote: str) -> ManifestRepository:
    """Without a kustomization that names it, what is readable of a broken file counts."""
    others: dict[str, Sequence[Document]] = dict.fromkeys(paths, ())
    unreadable = {path: each.error for path, each in readings.items() if each.error and is_kustomization(path)}
    return ManifestRepository(
        files=others | {path: reading.documents for path, reading in readings.items() if path not in unreadable},
        unreadable=unreadable,
        is_whole=False,
        remote=remote,
    )


def _markers_in(readings: Mapping[str, FileReading]) -> Iterator[MarkerComment]:
    return (marker for reading in readings.values() for marker in reading.markers)


def _is_read(path: str, fleet: Fleet) -> bool:
    """Whether a cluster's build reads a file, or it lies where one is described."""
    is_held = any(holds(path) for holds in fleet.holds.values())
    return is_held or any(path in build.paths for build in fleet.clusters.values())


def _may_be_named(path: str, said: bytes, globs: Iterable[str]) -> bool:
    """Whether a deployer may read a file: by its name, by a pattern, or as what its directory's chart begins with.

    `said` is all that deployers say. Values of anything else are neither read nor recorded: people keep passwords in
    them.
    """
    *_, directory, name = ("", *path.split("/"))
    words = {name.encode(), directory.encode()} if name == _CHART_VALUES else {name.encode()}
    if not said:
        return False
    is_named = name.startswith(_ARGO_SOURCE) or any(word in said for word in words if word)
    return is_named or any(path_matches(glob, path) for glob in globs)


def _globs_in(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        if "*" in value and len(value) <= _LONGEST_GLOB and value.count("**") <= _MOST_STARS:
            yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _globs_in(member)


def _keys_in(reading: FileReading, clusters: Clusters) -> tuple[ResourceKey, ...]:
    """The objects of a file as they are written, that something can be decided about."""
    holding = [name for name, holds in clusters.items() if holds(reading.path)]
    pieces = (piece for name in holding for piece in read_file(name, reading.path, reading.documents).pieces)
    return tuple(sorted({key for piece in pieces if isinstance(key := getattr(piece, "key", None), ResourceKey)}))


def _withheld(key: ResourceKey, path: str) -> BrokenResource:
    reason = f"{path} also holds a Secret, which is never recorded: move the Secret to a file of its own"
    return BrokenResource(key=key, place=Place(path=path), reason=reason)


def _matters(document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict):
        return False
    kind, version = value.get("kind"), value.get("apiVersion")
    is_list = isinstance(kind, str) and kind.endswith("List")
    return (
        names_kind(kind)
        or is_list
        or kind == BUDGET
        or scales_another(value)
        or (isinstance(version, str) and version.startswith(_DEPLOYING_GROUPS))
        or (isinstance(version, str) and version.startswith(_SOURCE_GROUPS) and kind in SOURCE_KINDS)
    )


def _is_secret(document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict):
        return False
    items = value.get("items")
    objects = [value, *(items if isinstance(items, list) else ())]
    return any(isinstance(each, dict) and each.get("kind") == SECRET for each in objects)
