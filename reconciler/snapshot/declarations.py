"""Reads the declarations of one commit: each file once, every cluster as built."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity, finding_of, name_findings, path_matches
from reconciler.domain.recording import ManifestFile, WithheldFile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, parse_readable, text_at, value_at
from reconciler.manifests.wording import MOST_NAMED, name_first
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import ELSEWHERE, ClusterBuild, Fleet, build_fleet
from reconciler.placement.kustomize_build import find_used, is_below
from reconciler.placement.markers import MarkerComment, read_markers
from reconciler.placement.objects import DEFAULT_NAMESPACE, BuiltObject, texts_in
from reconciler.placement.repository import (
    CHART_NAME,
    GENERATOR_GROUP,
    ManifestRepository,
    directory_of,
    is_kustomization,
    resolve,
)
from reconciler.placement.repository import GROUP as SOURCE_GROUP
from reconciler.placement.repository import KINDS as SOURCE_KINDS
from reconciler.placement.rollouts import KIND as BUDGET
from reconciler.resources.declaration import Declaration, FileDeclaration, merge
from reconciler.resources.kubernetes.autoscalers import scales_another
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.reading import count_written, is_read, names_kind, read_file, read_object
from reconciler.resources.registry import KIND_WORDS, KINDS
from reconciler.snapshot.adoption import is_wanted
from reconciler.snapshot.places import place_numbers

UNBUILT = "build"
"""The rule about a kustomization, or its deployer, that cannot be built."""
_OBJECT_DEPTH = 1
"""An obstacle to a whole object is at most this deep: without a field, or at `spec`."""
_DEPLOYING_GROUPS = ("argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
_SOURCE_GROUPS = (SOURCE_GROUP, GENERATOR_GROUP)
# Patterns come from a repository: slow ones match nothing.
_LONGEST_GLOB, _MOST_STARS = 256, 3
_NAMES_SECRET = re.compile(rb"\bkind[\"']?[ \t]*:[ \t]*[\"']?Secret(?:List)?\b")
_WORDS = KIND_WORDS | {
    *(group.encode() for group in (*_DEPLOYING_GROUPS, *_SOURCE_GROUPS)),
    *(b"Secret", b"scaleTargetRef", b"workloadRef", BUDGET.encode()),
}

# ---- files


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Files that are read only if something names them: templates of charts, and vendored files.

    Vendored files are also read if a deployer points to them.
    """

    templates: frozenset[str] = frozenset()
    vendored: frozenset[str] = frozenset()


Clusters = Mapping[str, Callable[[str], bool]]
Fetch = Callable[[Sequence[str]], Iterable[ManifestFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """One file: relevant documents, marker comments, and its first error."""

    path: str
    body: bytes = field(repr=False)
    documents: tuple[Document, ...] = ()
    error: InputError | None = None
    markers: tuple[MarkerComment, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_relevant(self) -> bool:
        """Whether anything in it is read, or should be."""
        is_named = any(_matters(document) for document in self.documents)
        return is_named or bool(self.markers or self.findings) or is_kustomization(self.path)

    @property
    def is_deployer(self) -> bool:
        """Whether it configures deployments of Flux or Argo CD, which may name files of any kind."""
        return any(text_at(each.value, "apiVersion").startswith(_DEPLOYING_GROUPS) for each in self.documents)

    @property
    def holds_secret(self) -> bool:
        """Whether a document of it is a Secret, or may be one if a part cannot be read."""
        if self.error is not None and _NAMES_SECRET.search(self.body) is not None:
            return True
        values = [document.value for document in self.documents]
        lists = (value_at(value, ("items",)) for value in values)
        items = (item for each in lists if isinstance(each, list) for item in each)
        return any(text_at(each, "kind") in ("Secret", "SecretList") for each in (*values, *items))


def _matters(document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict):
        return False
    kind, version = value.get("kind"), text_at(value, "apiVersion")
    return (
        names_kind(kind)
        or text_at(value, "kind").endswith("List")
        or kind == BUDGET
        or scales_another(value)
        or version.startswith(_DEPLOYING_GROUPS)
        or (version.startswith(_SOURCE_GROUPS) and kind in SOURCE_KINDS)
    )


def _read_manifest(path: str, body: bytes, *, is_whole: bool = False) -> FileReading:
    """Read one file: the documents that may hold objects of known kinds, or all of them."""
    kinds = None if is_whole or is_kustomization(path) else _WORDS
    # Kustomize is as lenient with its own files, but not with others.
    documents, errors = parse_readable(path, body, kinds=kinds, last_key_counts=is_kustomization(path))
    markers, findings = read_markers(path, body)
    if markers and not documents and not errors:  # values of a chart, which name no kind
        documents, errors = parse_readable(path, body)
    return FileReading(
        path=path,
        body=body,
        documents=documents,
        error=errors[0] if errors else None,
        markers=markers,
        findings=(*map(finding_of, errors), *findings),
    )


# ---- a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The relevant files of a commit, those withheld for a Secret, and the builds of all clusters.

    `unreadable` are findings about withheld files that may hold a Secret; `paths` are all but the skipped ones.
    `parsed` are the files that hold objects as they were read at first, for another commit that has them too.
    `declared` is what each file declares in each cluster.
    """

    readings: Mapping[str, FileReading]
    withheld: tuple[WithheldFile, ...]
    fleet: Fleet
    unreadable: tuple[Finding, ...] = ()
    paths: frozenset[str] = frozenset()
    parsed: Mapping[str, FileReading] = field(default_factory=dict)
    declared: tuple[FileDeclaration, ...] = ()

    @property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The files that a recording needs to read the same again."""
        return tuple(ManifestFile(path=path, body=reading.body) for path, reading in sorted(self.readings.items()))


def clusters_of(settings: Settings) -> Clusters:
    """Whether a path belongs to a cluster, by the cluster's name."""
    return {cluster.name: cluster.holds for cluster in (*settings.clusters, *settings.other_clusters)}


def read_commit(
    files: Iterable[ManifestFile | FileReading],
    paths: Iterable[str],
    clusters: Clusters,
    fetch: Fetch,
    withheld: Sequence[WithheldFile] = (),
    remote: str = "",
    skipped: Skipped | None = None,
    known: Commit | None = None,
) -> Commit:
    """Read a commit's files, but for those that were read before, and build its clusters.

    `paths` are all its paths, `remote` is its origin, `skipped` are missing among the files unless something names
    them. `fetch` gives files again that are read in full: those that kustomizations name as patches and the like, and
    files without objects that deployers of charts or directories name. `known` is the commit that files were read for
    before: objects that are built alike of them are not read again.
    """
    readings: dict[str, FileReading] = {}
    kindless: list[str] = []
    for file in files:
        reading = file if isinstance(file, FileReading) else _read_manifest(file.path, file.body)
        if reading.is_relevant:
            readings[file.path] = reading
        elif b"kind" not in reading.body:  # no objects, but perhaps values of a chart, or patches
            kindless.append(file.path)
    parsed = dict(readings)
    paths = frozenset(paths)
    if skipped is not None:
        paths -= _add_reached(readings, paths, skipped, fetch)
    named = find_used(_repository(readings, paths, remote)).rules
    deployers = [reading for reading in readings.values() if reading.is_deployer]
    # All deployers are searched as one text, as this is done for each file of values.
    text = b"\n".join(each.body for each in deployers)
    globs = {glob for each in deployers for document in each.documents for glob in _globs_in(document.value)}
    named = named.union(path for path in kindless if _may_be_named(path, text, globs))
    for file in fetch(sorted(named & paths)):
        readings[file.path] = _read_manifest(file.path, file.body, is_whole=True)
    secret = [path for path, reading in readings.items() if reading.holds_secret]
    unread = [readings[path] for path in secret if readings[path].error is not None]
    for path in secret:
        parsed.pop(path, None)
    found = tuple(WithheldFile(path=path, objects=_keys_in(readings.pop(path), clusters)) for path in secret)
    markers = (marker for reading in readings.values() for marker in reading.markers)
    fleet = build_fleet(_repository(readings, paths, remote), clusters, markers)
    # files that a cluster's build reads, and those in a cluster's paths
    built = {path for build in fleet.clusters.values() for path in build.paths}
    kept = {
        path: _doubted(reading, fleet)
        for path, reading in readings.items()
        if path in named or path in built or any(holds(path) for holds in fleet.holds.values())
    }
    unreadable = tuple(each for reading in unread for each in _doubted(reading, fleet).findings[:1])
    return Commit(
        readings=kept,
        withheld=(*withheld, *found),
        fleet=fleet,
        unreadable=unreadable,
        paths=paths,
        parsed=parsed,
        declared=tuple(declare(fleet, kept, known)),
    )


def _add_reached(
    readings: dict[str, FileReading], paths: frozenset[str], skipped: Skipped, fetch: Fetch
) -> frozenset[str]:
    """Read the skipped files that other files name, directly or not; return the rest."""
    left = skipped.templates | skipped.vendored
    while left:
        used = find_used(_repository(readings, paths, ""))
        deployed = {
            directory
            for reading in readings.values()
            if reading.is_deployer
            for document in reading.documents
            for where, text in texts_in(document.value)
            if where[-1:] == ("path",) and (directory := resolve("", text))
        }
        named = (path for path in left if path in used.files or is_below(directory_of(path), used.directories))
        reached = {*named, *(path for path in left & skipped.vendored if is_below(path, deployed))}
        if not reached:
            break
        left -= reached
        for file in fetch(sorted(reached)):
            reading = _read_manifest(file.path, file.body)
            readings.update({file.path: reading} if reading.is_relevant else {})
    return left


def _repository(readings: Mapping[str, FileReading], paths: Iterable[str], remote: str) -> ManifestRepository:
    """The files as a repository, with the readable part of a broken file, unless it is a kustomization."""
    others: dict[str, Sequence[Document]] = dict.fromkeys(paths, ())
    unreadable = {path: each.error for path, each in readings.items() if each.error and is_kustomization(path)}
    return ManifestRepository(
        files=others | {path: reading.documents for path, reading in readings.items() if path not in unreadable},
        unreadable=unreadable,
        is_whole=False,
        remote=remote,
    )


def _may_be_named(path: str, text: bytes, globs: Iterable[str]) -> bool:
    """Whether a deployer may read a file: by its name, by a pattern, or as its chart or the default values of that.

    `text` is that of all deployers. Other values are neither read nor recorded: they may hold passwords.
    """
    *_, directory, name = ("", *path.split("/"))
    is_of_chart = name in ("values.yaml", CHART_NAME)
    words = {name.encode(), directory.encode()} if is_of_chart else {name.encode()}
    is_named = name.startswith(".argocd-source") or any(word in text for word in words if word)
    return bool(text) and (is_named or any(path_matches(glob, path) for glob in globs))


def _globs_in(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        if "*" in value and len(value) <= _LONGEST_GLOB and value.count("**") <= _MOST_STARS:
            yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _globs_in(member)


def _keys_in(reading: FileReading, clusters: Clusters) -> tuple[ResourceKey, ...]:
    holding = [name for name, holds in clusters.items() if holds(reading.path)]
    pieces = (piece for name in holding for piece in read_file(name, reading.path, reading.documents).pieces)
    return tuple(sorted({key for piece in pieces if isinstance(key := getattr(piece, "key", None), ResourceKey)}))


# ---- the declaration of a commit


def read_declaration(
    manifests: Sequence[ManifestFile],
    withheld: Sequence[WithheldFile],
    settings: Settings,
    paths: Iterable[str] = (),
    remote: str = "",
) -> Declaration:
    """The declaration of recorded files; `paths` are the other files of the commit, `remote` is its origin."""
    return fold(read_recorded(manifests, withheld, settings, paths, remote), settings)


def read_recorded(
    manifests: Sequence[ManifestFile],
    withheld: Sequence[WithheldFile],
    settings: Settings,
    paths: Iterable[str],
    remote: str = "",
) -> Commit:
    """The recorded part of a commit; `paths` are its other files."""
    bodies = {manifest.path: manifest for manifest in manifests}

    def fetch(named: Sequence[str]) -> Iterator[ManifestFile]:
        return (bodies[path] for path in named if path in bodies)

    return read_commit(manifests, {*paths, *bodies}, clusters_of(settings), fetch, withheld, remote)


def fold(commit: Commit, settings: Settings) -> Declaration:
    """One declaration of all files; of withheld ones only the names of objects are known."""
    whole = _with_roots(merge(commit.declared), commit.fleet)
    whole = _doubt_duplicates(_without_alternatives(whole, commit.fleet, settings), commit.fleet, settings)
    chosen = {cluster.name for cluster in settings.clusters}
    reason = "{} also holds a Secret, which is never recorded: move the Secret to a file of its own"
    unread = [
        BrokenResource(key=key, place=Place(path=each.path), reason=reason.format(each.path))
        for each in commit.withheld
        for key in each.objects
    ]
    of_files = tuple(finding for reading in commit.readings.values() for finding in reading.findings)
    known = {(finding.place, finding.message) for finding in of_files}
    of_builds = (finding for finding in commit.fleet.findings if (finding.place, finding.message) not in known)
    findings = sorted({*whole.findings, *name_findings(of_builds, UNBUILT), *of_files})
    found = replace(
        whole,
        variants=tuple(variant for variant in whole.variants if variant.key.cluster in chosen),
        broken=tuple(each for each in (*whole.broken, *unread) if each.key.cluster in chosen),
        findings=tuple(each for each in findings if concerns(commit, each.place.path, settings)),
        notes=tuple(each for each in whole.notes if concerns(commit, each.place.path, settings)),
    )
    return place_numbers(found, commit.fleet, settings)


def concerns(commit: Commit, path: str, settings: Settings) -> bool:
    """Whether a file belongs to one of the chosen clusters, or to no other one."""

    def is_of(clusters: Iterable[ClusterSettings]) -> bool:
        builds = ((cluster, commit.fleet.clusters.get(cluster.name)) for cluster in clusters)
        return any(cluster.holds(path) or (build is not None and path in build.paths) for cluster, build in builds)

    return not settings.other_clusters or is_of(settings.clusters) or not is_of(settings.other_clusters)


def _with_roots(declaration: Declaration, fleet: Fleet) -> Declaration:
    renamed: dict[str, str] = {}
    for broken in declaration.broken:
        found = fleet.objects.get(replace(broken.key, part=""), ())
        roots = sorted({str(built.root) for built in found})
        if len(roots) > 1 and len({built.place for built in found}) < len(found):
            named = name_first(roots[:MOST_NAMED], len(roots))
            words = f"{broken.key.kind} {broken.key.label} is built by {named}"
            renamed[broken.reason] = f"{words}: keep one, or name the cluster of each in clusters[].paths"
    reported = (replace(each, reason=renamed.get(each.reason, each.reason)) for each in declaration.broken)
    findings = {replace(each, message=renamed.get(each.message, each.message)) for each in declaration.findings}
    return replace(declaration, broken=tuple(reported), findings=tuple(sorted(findings)))


# ---- the objects of clusters as built by Kustomize, Flux or Argo CD


def declare(fleet: Fleet, readings: Container[str], known: Commit | None = None) -> Iterator[FileDeclaration]:
    """The declarations of every file in every cluster: unchanged if it is applied unchanged, else as built.

    Those of a `known` commit are given again for files of which the same is built.
    """
    before = {(each.cluster, each.path): each for each in known.declared} if known is not None else {}
    for cluster, build in fleet.clusters.items():
        if cluster == ELSEWHERE:
            continue
        old = known.fleet.clusters.get(cluster) if known is not None else None
        known_plain = known.fleet.repository.files if known is not None else {}
        for path in sorted(path for path in build.plain if path in readings):
            documents, told = fleet.repository.files.get(path, ()), before.get((cluster, path))
            is_known = old is not None and path in old.plain and known_plain.get(path) is documents
            yield told if told is not None and is_known else read_file(cluster, path, documents)
        known_objects = _by_path(old) if old is not None else {}
        for path, objects in sorted(_by_path(build).items()):
            if path in build.plain:
                continue
            told = before.get((cluster, path))
            is_known = old is not None and path not in old.plain and _are_same(objects, known_objects.get(path, ()))
            if told is not None and is_known:
                yield told
            else:
                pieces = tuple(piece for built in objects for piece in _read(cluster, built))
                yield FileDeclaration(cluster=cluster, path=path, pieces=pieces)
        for path in sorted(build.unbuilt):
            documents = fleet.repository.files.get(path, ())
            if any(isinstance(each.value, dict) and names_kind(each.value.get("kind")) for each in documents):
                finding = Finding(
                    place=Place(path=path),
                    severity=Severity.WARNING,
                    message="no kustomization lists it, so it is not applied, and not read",
                    rule="unbuilt-file",
                )
                yield FileDeclaration(cluster=cluster, path=path, pieces=(finding,))


def _by_path(build: ClusterBuild) -> dict[str, list[BuiltObject]]:
    found: dict[str, list[BuiltObject]] = {}
    for built in build.objects:
        found.setdefault(built.path, []).append(built)
    return found


def _are_same(some: Sequence[BuiltObject], others: Sequence[BuiltObject]) -> bool:
    """Whether objects were built alike of the very same documents, so that their lines are the same too."""
    return len(some) == len(others) and all(
        one.source.document is other.source.document
        and one == other
        and one.trace == other.trace
        and all(a.document is b.document for a, b in zip(one.trace.recorded(), other.trace.recorded(), strict=True))
        for one, other in zip(some, others, strict=True)
    )


def count_objects(fleet: Fleet, readings: Container[str], clusters: Container[str]) -> int:
    """The number of valid and broken objects of known kinds in some clusters."""
    count = 0
    for cluster, build in fleet.clusters.items():
        if cluster in clusters:
            plain = (fleet.repository.files.get(path, ()) for path in build.plain if path in readings)
            count += sum(map(count_written, plain))
            built = (each for each in build.objects if each.path not in build.plain)
            count += sum(is_read(_as_built(cluster, each)) for each in built)
    return count


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
        places=None if built.is_as_written else built.place_of,
    )


# ---- errors that are warnings: in files that may not be applied unchanged, or not to the same cluster


def _line_of(kinds: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(rf"""^[ \t"-]*kind"? *: *["']?({"|".join(sorted(kinds))})\b""".encode(), re.MULTILINE)


_NAME = "metadata.name"
"""The field at which duplicate objects are reported."""
_EVERYTHING = ClusterSettings(name="").include
_READ = _line_of(KINDS)
_OURS = _line_of(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word)


def _as_warning(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.WARNING) if finding.severity is Severity.ERROR else finding


def _doubted(reading: FileReading, fleet: Fleet) -> FileReading:
    """The reading, with warnings for errors if the file may not be a manifest.

    Files that a kustomization or a deployer builds are, and so are templates with a kind of ours.
    """
    is_built = any(reading.path in build.paths and reading.path not in build.plain for build in fleet.clusters.values())
    if reading.error is None or is_built or (_OURS if b"{{" in reading.body else _READ).search(reading.body):
        return reading
    return replace(reading, findings=tuple(map(_as_warning, reading.findings)))


def _without_alternatives(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """No warning of workloads with one name that nothing in Git deploys together: different clusters may get them.

    Of one that is to be managed it stays: it cannot be, until each cluster has paths of its own.
    """
    apart = {each.key: each for each in declaration.alternatives if _are_apart(each.key, fleet, settings)}
    quiet = {key for key, each in apart.items() if not is_wanted(each, settings)}
    said = {(replace(each.place, field=_NAME), each.reason) for each in declaration.broken if each.key in quiet}
    findings = tuple(
        each
        for each in declaration.findings
        if each.severity is not Severity.WARNING or (each.place, each.message) not in said
    )
    return replace(declaration, findings=findings)


def _are_apart(key: ResourceKey, fleet: Fleet, settings: Settings) -> bool:
    """Whether an object is built from different directories, of which at most one has a deployer in Git."""
    if any(each.include != _EVERYTHING for each in (*settings.clusters, *settings.other_clusters)):
        return False
    roots = [built.root for built in fleet.objects.get(replace(key, part=""), ())]
    plain = fleet.clusters[key.cluster].plain if roots else frozenset()
    directories = {directory_of(root.path) if root.path in plain else root.path for root in roots}
    return len(directories) == len(roots) and sum(bool(root.deployer) for root in roots) <= 1


def _doubt_duplicates(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """Duplicates in different directories may be for two clusters, if no cluster has paths of its own."""
    if any(each.include != _EVERYTHING for each in (*settings.clusters, *settings.other_clusters)):
        return declaration
    doubtful = set()
    for broken in declaration.broken:
        # a cluster-scoped object of a kind that Kustomize does not know is built in the default namespace
        own = replace(broken.key, part="")
        found = fleet.objects.get(own) or fleet.objects.get(replace(own, namespace=DEFAULT_NAMESPACE), ())
        directories = {directory_of(built.root.path) for built in found if not built.root.deployer}
        if len(directories) > 1 and all(each.root.path in fleet.clusters[own.cluster].plain for each in found):
            doubtful.add(replace(broken.place, field=_NAME))
    findings = (_as_warning(each) if each.place in doubtful else each for each in declaration.findings)
    return replace(declaration, findings=tuple(sorted(findings)))


# ---- advice: the likely paths of each cluster

_SHOWN = 3
_PARTS_OF_SERVER = re.compile(r"[/.:]+")


def clusters_example(names: Sequence[str], fleet: Fleet) -> str:
    """`clusters` of a reconciler.yaml for the first of these clusters, with their likely paths.

    These are directories deployed to a cluster by Argo CD or Flux, and those with its name, without nested ones.
    """
    entries = []
    deployers = [each for build in fleet.clusters.values() for each in build.deployers.values() if each.directory]
    parents = [path.split("/")[:-1] for path in fleet.repository.paths]
    for name in names[:_SHOWN]:
        found = {deployer.directory for deployer in deployers if _is_for(name, deployer)}
        found |= {"/".join(parts[: parts.index(name) + 1]) for parts in parents if name in parts}
        outer = [each for each in found if not any(each.startswith(f"{other}/") for other in found)]
        directories = sorted(outer)[:_SHOWN]
        globs = ", ".join(json.dumps(f"{each}/**", ensure_ascii=False) for each in directories) or "..."
        prometheus = f"{{url: ..., matchLabels: {{cluster: {name}}}}}"
        entries.append(f"{{name: {name}, paths: {{include: [{globs}]}}, prometheus: {prometheus}}}")
    return f"clusters: [{', '.join(entries)}]"


def _is_for(name: str, deployer: Deployer) -> bool:
    destination = deployer.spec.get("destination")
    if destination is not None:
        return name in (destination.text("name"), *_PARTS_OF_SERVER.split(destination.text("server")))
    return name in (*deployer.source.place.path.split("/"), *deployer.directory.split("/"))
