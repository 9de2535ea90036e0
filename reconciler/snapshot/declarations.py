"""Reads what one commit declares: each file once, every cluster as it is built."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity, finding_of, name_findings, path_matches
from reconciler.domain.recording import ManifestFile, WithheldFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, parse_readable
from reconciler.manifests.wording import MOST_NAMED, name_first
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import ELSEWHERE, Fleet, build_fleet
from reconciler.placement.kustomize_build import find_used, is_below
from reconciler.placement.markers import MarkerComment, read_markers
from reconciler.placement.objects import DEFAULT_NAMESPACE, BuiltObject, texts_in
from reconciler.placement.repository import GENERATOR_GROUP, ManifestRepository, directory_of, is_kustomization, resolve
from reconciler.placement.repository import GROUP as SOURCE_GROUP
from reconciler.placement.repository import KINDS as SOURCE_KINDS
from reconciler.placement.rollouts import KIND as BUDGET
from reconciler.resources.declaration import Declaration, FileDeclaration, merge
from reconciler.resources.kubernetes.autoscalers import scales_another
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.reading import count_written, is_read, names_kind, read_file, read_object
from reconciler.resources.registry import KIND_WORDS, KINDS
from reconciler.snapshot.places import place_numbers

# --- was reconciler/snapshot/built_objects.py:
# What clusters get of a commit: objects as they are built where Kustomize, Flux or Argo CD stand between.

_OBJECT_DEPTH = 1
"""What is in the way of a whole object stands at most this deep: nowhere in particular, or at `spec`."""


def declare(fleet: Fleet, readings: Container[str]) -> Iterator[FileDeclaration]:
    """What every file declares in every cluster: as it stands where it is applied as it stands, else as it is built."""
    for cluster, build in fleet.clusters.items():
        if cluster == ELSEWHERE:
            continue
        for path in sorted(path for path in build.plain if path in readings):
            yield read_file(cluster, path, fleet.repository.files.get(path, ()))
        for path, objects in sorted(_by_path(build.objects).items()):
            if path not in build.plain:
                pieces = tuple(piece for built in objects for piece in _read(cluster, built))
                yield FileDeclaration(cluster=cluster, path=path, pieces=pieces)
        for path in sorted(build.unbuilt):
            documents = fleet.repository.files.get(path, ())
            if any(isinstance(each.value, dict) and names_kind(each.value.get("kind")) for each in documents):
                message = "no kustomization lists it, so nobody applies it: it is not read"
                finding = Finding(
                    place=Place(path=path), severity=Severity.WARNING, message=message, rule="unbuilt-file"
                )
                yield FileDeclaration(cluster=cluster, path=path, pieces=(finding,))


def count_objects(fleet: Fleet, readings: Container[str], clusters: Container[str]) -> int:
    """How many objects of kinds that are read some clusters get, sound or broken."""
    builds = [(cluster, build) for cluster, build in fleet.clusters.items() if cluster in clusters]
    plain = sum(
        count_written(fleet.repository.files.get(path, ()))
        for _, build in builds
        for path in build.plain
        if path in readings
    )
    built = ((cluster, each) for cluster, build in builds for each in build.objects if each.path not in build.plain)
    return plain + sum(is_read(_as_built(cluster, each)) for cluster, each in built)


def _by_path(objects: Iterable[BuiltObject]) -> dict[str, list[BuiltObject]]:
    found: dict[str, list[BuiltObject]] = {}
    for built in objects:
        found.setdefault(built.path, []).append(built)
    return found


def _read(cluster: str, built: BuiltObject) -> Iterator[Piece]:
    if not names_kind(built.key.kind) and not scales_another(built.fields):
        return
    obstacle = next((each for each in built.obstacles if len(each.field) <= _OBJECT_DEPTH), None)
    if obstacle is None:
        yield from read_object(_as_built(cluster, built))
    elif is_read(_as_built(cluster, built)) and not KINDS[built.key.kind].holds_settings:
        yield BrokenResource(key=built.key, place=obstacle.place or built.place, reason=obstacle.reason)


def _as_built(cluster: str, built: BuiltObject) -> KubernetesObject:
    return KubernetesObject(
        cluster=cluster,
        kind=built.key.kind,
        document=built.source.document,
        prefix=built.source.field,
        fields=built.fields,
        places=built.place_of,
    )


# --- was reconciler/snapshot/doubtful_errors.py:
# Errors that may be none: of files that nobody is known to apply as they stand, or to apply to one cluster.

_NAME: Final = "metadata.name"
"""The field at which an object that is there more than once is told."""
_EVERYTHING: Final = ClusterSettings(name="").include


def _line_of(kinds: Iterable[str]) -> re.Pattern[bytes]:
    """A line that begins an object of one of some kinds."""
    return re.compile(rf"""^[ \t"-]*kind"? *: *["']?({"|".join(sorted(kinds))})\b""".encode(), re.MULTILINE)


_READ: Final = _line_of(KINDS)
_OURS: Final = _line_of(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word)


def doubt(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings with warnings in place of errors."""
    return (replace(each, severity=Severity.WARNING) if each.severity is Severity.ERROR else each for each in findings)


def is_doubtful(path: str, body: bytes, fleet: Fleet) -> bool:
    """Whether a file that cannot be read is perhaps no manifest: a template of ours alone is a mistake for sure.

    What a kustomization or a deployer builds is one.
    """
    if any(path in build.paths and path not in build.plain for build in fleet.clusters.values()):
        return False
    return (_OURS if b"{{" in body else _READ).search(body) is None


def doubt_duplicates(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """What lies twice in directories of their own may be for two clusters, where no cluster has paths of its own."""
    if any(each.include != _EVERYTHING for each in (*settings.clusters, *settings.other_clusters)):
        return declaration
    doubtful = {replace(each.place, field=_NAME) for each in declaration.broken if _lies_apart(each.key, fleet)}
    found = (next(doubt((each,))) if each.place in doubtful else each for each in declaration.findings)
    return replace(declaration, findings=tuple(sorted(found)))


def _lies_apart(key: ResourceKey, fleet: Fleet) -> bool:
    """Whether an object is there more than once, in files of several directories that nobody is known to apply."""
    # What belongs to a whole cluster is built as if it were in a namespace, for a kind that Kustomize does not know.
    own = replace(key, part="")
    found = fleet.objects.get(own) or fleet.objects.get(replace(own, namespace=DEFAULT_NAMESPACE), ())
    places = {directory_of(built.root.path) for built in found if not built.root.deployer}
    are_plain = all(built.root.path in fleet.clusters[key.cluster].plain for built in found)
    return are_plain and len(places) > 1


# --- was reconciler/snapshot/cluster_paths.py:
# Which paths of a repository describe which cluster, as far as those who deploy them tell: advice, never a fact.

_GLOBS_NAMED = 3
_PARTS_OF_SERVER = re.compile(r"[/.:]+")


def clusters_example(names: Sequence[str], fleet: Fleet) -> str:
    """`clusters` of a reconciler.yaml for these clusters, the first of them, with the paths that they seem to have."""
    entries = (
        f"{{name: {name}, paths: {{include: [{_globs(propose_paths(name, fleet))}]}}, "
        f"prometheus: {{url: ..., matchLabels: {{cluster: {name}}}}}}}"
        for name in names[:_GLOBS_NAMED]
    )
    return f"clusters: [{', '.join(entries)}]"


def propose_paths(name: str, fleet: Fleet) -> tuple[str, ...]:
    """Directories that Argo CD or Flux deploys to a cluster, and those that bear its name; sorted, none in another."""
    deployed = {
        deployer.directory
        for build in fleet.clusters.values()
        for deployer in build.deployers.values()
        if deployer.directory and _is_for(name, deployer)
    }
    found = deployed | set(_named_like(name, fleet.repository.paths))
    return tuple(sorted(each for each in found if not any(each.startswith(f"{other}/") for other in found)))


def _is_for(name: str, deployer: Deployer) -> bool:
    destination = deployer.spec.get("destination")
    if destination is not None:
        return name in (destination.text("name"), *_PARTS_OF_SERVER.split(destination.text("server")))
    place: Place = deployer.source.place
    return name in (*place.path.split("/"), *deployer.directory.split("/"))


def _named_like(name: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")[:-1]
        if name in parts:
            yield "/".join(parts[: parts.index(name) + 1])


def _globs(directories: Sequence[str]) -> str:
    return ", ".join(json.dumps(f"{each}/**", ensure_ascii=False) for each in directories[:_GLOBS_NAMED]) or "..."


# --- was reconciler/snapshot/declarations.py:
# Reads what one commit declares: each file once, every cluster as it is built.

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
