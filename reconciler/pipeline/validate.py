"""Validate: everything that can be checked of resources and configuration without a network."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from reconciler.config.environment import FORGE_TOKEN, PROMETHEUS_TOKEN, TRUSTED_ORIGINS, Flags, read_environment
from reconciler.config.files import REPOSITORY_FILE, RepositoryFolder, RepositoryReader, preset_names, preset_path
from reconciler.config.loading import DEFAULT_CLUSTER, check_settings, load_settings
from reconciler.domain.identity import Finding, Place, Severity, name_findings
from reconciler.domain.recording import ManifestFile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import priority_of
from reconciler.domain.variant_settings import CANARY, MEASURED
from reconciler.errors import ConfigurationError
from reconciler.git.repository import EntryKind, Repository, open_directory, origin_url
from reconciler.pipeline.files import (
    ATTRIBUTES,
    MANIFEST_NAMES,
    MAX_READ_BYTES,
    OURS_PATTERN,
    find_templates,
    find_vendored,
    read_files,
    tell_giant,
)
from reconciler.pipeline.references import (
    IGNORE_FILE,
    find_compared_statuses,
    find_synced_configuration,
    find_unknown_references,
    is_own,
    may_tell,
)
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.declarations import (
    Clusters,
    Commit,
    Skipped,
    clusters_of,
    concerns,
    count_objects,
    fold,
    read_commit,
)
from reconciler.snapshot.variants import build_catalogs, find_contradicted_costs, join_variants

MAX_FILES = 100_000
GIT_DIRECTORY = ".git"
UNREAD = "unread-file"
PIECE_BYTES = 256 * 1024
_LONGEST_LINE = 256
_OURS = re.compile(OURS_PATTERN.encode(), re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class DiskFiles:
    """The manifests below some paths, by their path from `root`: the repository's, or what the paths share.

    `typed` has each path as the person began it, `in_work_tree` as the work tree (or the current directory) has it:
    that is what tools look for. `holds_root` says that everything in `root` was looked at.
    """

    root: Path
    work_tree: Path
    files: list[ManifestFile] = field(default_factory=list)
    unread: list[Finding] = field(default_factory=list)
    typed: dict[str, str] = field(default_factory=dict)
    in_work_tree: dict[str, str] = field(default_factory=dict)
    holds_root: bool = False
    giants: set[str] = field(default_factory=set)
    attributes: dict[str, bytes] = field(default_factory=dict)
    """What `.gitattributes` files say, by their paths."""

    def name(self, file: Path) -> str:
        """The file's path from the root, remembered under its other names."""
        path = _printable(_path_from(self.root, file))
        self.typed[path] = _printable(str(file))
        self.in_work_tree[path] = _printable(_path_from(self.work_tree, file))
        return path

    def read(self, path: str) -> bytes | None:
        """A file by its path from the root, which is not left; None without such a file, or behind a link."""
        target = _absolute(self.root / path)
        if self.root not in target.parents or _find_link(target, self.root) is not None or not target.is_file():
            return None
        try:
            return _read(target)
        except OSError:
            return None

    def files_below(self, folder: str) -> tuple[str, ...]:
        """The paths of the manifests below a folder, by their paths from the root."""
        directory = self.root / folder
        files = _files_below(directory, self) if directory.is_dir() else ()
        return tuple(sorted(_path_from(self.root, each) for each in files))


def read_disk(paths: Sequence[Path]) -> DiskFiles:
    """Every manifest of the paths, each once; ConfigurationError for a path that is not there or is a link."""
    for path in paths:
        _require(path)
    root = find_root(paths)
    found = DiskFiles(root=root, work_tree=_work_tree_of(root))
    for path in paths:
        found.holds_root |= _absolute(path) == found.root
        for file in _files_below(path, found):
            if len(found.typed) >= MAX_FILES:
                raise ConfigurationError(f"{path}: expected at most {MAX_FILES} files: name a part of it")
            _add(found, file)
    return found


def find_root(paths: Sequence[Path]) -> Path:
    """Where paths of the repository begin: the nearest directory above all with `.git` or a configuration file."""
    directories = [str(each if each.is_dir() else each.parent) for each in map(_absolute, paths)]
    shared = Path(os.path.commonpath(directories))
    for directory in (shared, *shared.parents):
        if any(os.path.lexists(directory / name) for name in (GIT_DIRECTORY, REPOSITORY_FILE)):
            return directory
    return shared


def _work_tree_of(root: Path) -> Path:
    """Where a job's tools count paths from: the work tree, else the current directory, else the root itself."""
    for directory in (root, *root.parents):
        if os.path.lexists(directory / GIT_DIRECTORY):
            return directory
    here = Path.cwd()
    return here if here == root or here in root.parents else root


def _require(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file or directory") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {_reason(error)}") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise ConfigurationError(f"{path}: expected a file or a directory")
    link = _find_link(path, find_root([path]))
    if link is not None:
        raise ConfigurationError(f"{link}: a symbolic link, which is not followed: name what it leads to")


def _find_link(path: Path, root: Path) -> Path | None:
    """The first link on the way from the root to a path; what leads to the root is the person's own."""
    absolute = _absolute(path)
    return next((each for each in (absolute, *absolute.parents) if root in each.parents and each.is_symlink()), None)


def _files_below(path: Path, found: DiskFiles) -> Iterator[Path]:
    if not path.is_dir():
        if _is_manifest(path.name):
            yield path
        return

    def note(error: OSError) -> None:
        found.unread.append(_unread(found.name(Path(error.filename)), error))

    for directory, folders, names in os.walk(path, onerror=note):
        folders[:] = sorted(folder for folder in folders if folder != GIT_DIRECTORY)
        for name in sorted(names):
            file = Path(directory) / name
            is_plain = not file.is_symlink() and file.is_file()
            if name == ATTRIBUTES and is_plain:
                found.attributes[_path_from(found.root, file)] = _read(file)
            if _is_manifest(name) and is_plain:
                yield file


def _is_manifest(name: str) -> bool:
    return name.endswith(MANIFEST_NAMES) or name == "Kustomization"


def _add(found: DiskFiles, file: Path) -> None:
    path = _path_from(found.root, file)
    if _printable(path) in found.typed:
        return
    name = found.name(file)
    if name != path:
        found.unread.append(_finding(name, Severity.WARNING, "expected a name in UTF-8: it is not read"))
        return
    try:
        size_bytes = file.stat().st_size
        if size_bytes > MAX_READ_BYTES:
            found.giants.add(name)
            found.unread += [replace(tell_giant(name, size_bytes), rule=UNREAD)] if _holds_ours(file) else []
        else:
            found.files.append(ManifestFile(path=name, body=_read(file)))
    except OSError as error:
        found.unread.append(_unread(name, error))


def _holds_ours(giant: Path) -> bool:
    """Whether a giant holds a resource of ours; read in pieces, never as a whole."""
    rest = b""
    with giant.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            if _OURS.search(rest + piece):
                return True
            rest = (rest + piece)[-_LONGEST_LINE:]
    return False


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(MAX_READ_BYTES + 1)


def _path_from(root: Path, file: Path) -> str:
    """The path from a root as repositories write it, whole where it leaves the root; asked for thousands of files."""
    absolute, start = os.path.abspath(file), str(root)  # noqa: PTH100 - resolve() would follow links
    return "." if absolute == start else absolute.removeprefix(start if start.endswith("/") else f"{start}/")


def _absolute(path: Path) -> Path:
    """Without `..`, and without asking where links lead."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _unread(path: str, error: OSError) -> Finding:
    return _finding(path, Severity.ERROR, f"cannot be read: {_reason(error)}")


def _finding(path: str, severity: Severity, message: str) -> Finding:
    return Finding(place=Place(path=path), severity=severity, message=message, rule=UNREAD)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "unknown reason"


CONFIGURATION = "configuration"
UNREADABLE = "unreadable-document"
UNPLACED = ClusterSettings(name="(no cluster)")
"""What files on disk belong to that lie in the paths of no cluster; no name of a cluster has spaces."""
COST_FIELD = "spec.variantCost"
_COMMAND_LINE = frozenset({"--prometheus", "--cluster", PROMETHEUS_TOKEN, FORGE_TOKEN, TRUSTED_ORIGINS})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """What was looked at, and what was found, by paths from the repository's root.

    `resources` are the objects of every kind that is read, once in each cluster that gets them.
    `typed` and `in_work_tree` are other names of these paths: as the person gave them, as a job's tools know them.
    """

    findings: tuple[Finding, ...]
    files: int
    resources: int
    typed: Mapping[str, str] = field(default_factory=dict)
    in_work_tree: Mapping[str, str] = field(default_factory=dict)


def validate_commit(flags: Flags) -> CheckedFiles:
    """The base commit of a local repository: its configuration and every manifest its clusters hold."""
    repository = open_directory(flags.repo, base=flags.base or None)
    configuration = _Configuration(
        flags=replace(flags, remote=origin_url(flags.repo) or ""),
        body=repository.read_file_at(repository.commit, REPOSITORY_FILE),
        read=lambda path: repository.read_file_at(repository.commit, path),
        list_folder=repository.files_below,
    )
    wrong = configuration.check()
    settings = configuration.settings()
    files = read_files(repository, settings, configuration.flags.remote)
    declaration = fold(_named(files.commit), settings)
    found = (
        *wrong,
        *declaration.findings,
        *declaration.notes,
        *name_findings(files.commit.unreadable, UNREADABLE),
        *name_findings((each for each in files.unread if each not in files.commit.unreadable), UNREAD),
        *_find_in_variants(settings, declaration),
        *_find_unknown_references(files.commit, settings, files.paths),
        *find_compared_statuses(files.commit.fleet, settings),
        *find_synced_configuration(_files_about_sync(repository), settings.clusters, configuration.flags.remote),
    )
    return CheckedFiles(
        findings=tuple(sorted(set(found))), files=declaration.files, resources=_count(files.commit, settings)
    )


def validate_paths(flags: Flags, paths: Sequence[Path]) -> CheckedFiles:
    """Files as they are on disk, in the clusters that the configuration of their repository puts them in.

    Every file named reconciler.yaml is checked as the configuration of its directory; the one at the root counts.
    """
    disk = read_disk(paths)
    configuration = _Configuration(
        flags=replace(flags, remote=_remote_of(disk.root)),
        body=disk.read(REPOSITORY_FILE),
        read=disk.read,
        list_folder=disk.files_below,
    )
    wrong = [*_check_files(disk, configuration)]
    settings = configuration.settings()
    clusters = clusters_of(settings)
    if not flags.clusters:
        placed = tuple(clusters.values())
        clusters = {**clusters, UNPLACED.name: lambda path: not any(holds(path) for holds in placed)}
        settings = replace(settings, clusters=(*settings.clusters, UNPLACED))
    commit = _named(_read_on_disk(disk, clusters, configuration.flags.remote))
    declaration = fold(commit, settings)
    found = [
        *wrong,
        *declaration.findings,
        *declaration.notes,
        *disk.unread,
        *name_findings(commit.unreadable, UNREADABLE),
        *_find_in_variants(settings, declaration),
        *_find_unknown_on_disk(commit, settings, disk),
        *find_compared_statuses(commit.fleet, settings),
    ]
    if disk.holds_root:  # what is synced depends on the root: a kustomization there changes everything
        files = {file.path: file.body for file in disk.files} | {IGNORE_FILE: disk.read(IGNORE_FILE) or b""}
        found += find_synced_configuration(files, settings.clusters, configuration.flags.remote)
    return CheckedFiles(
        findings=tuple(sorted(set(found))),
        files=len(disk.files),
        resources=_count(commit, settings),
        typed=disk.typed,
        in_work_tree=disk.in_work_tree,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configuration:
    """A configuration file with what it may extend."""

    flags: Flags
    body: bytes | None
    read: RepositoryReader
    list_folder: RepositoryFolder

    def check(self) -> tuple[Finding, ...]:
        """What is wrong in files; ConfigurationError for what is wrong on the command line or in the environment."""
        for path in self.flags.config_files:
            if not path.is_file():
                raise ConfigurationError(f"--config {path}: no such file")
        found = check_settings(
            repository_file=self.body,
            read_repository_file=self.read,
            list_repository_folder=self.list_folder,
            operator_files=self.flags.config_files,
            flags=self.flags,
            environment=read_environment(),
        )
        own = [each for each in found if each.place.path in _COMMAND_LINE and not each.place.line]
        errors = [str(each) for each in own if each.severity is Severity.ERROR]
        if errors:
            raise ConfigurationError("\n".join(errors))
        return tuple(name_findings((each for each in found if each not in own), CONFIGURATION))

    def settings(self) -> Settings:
        """The settings; where they are wrong, all files as one cluster, so that resources are checked all the same."""
        try:
            return load_settings(
                repository_file=self.body,
                read_repository_file=self.read,
                list_repository_folder=self.list_folder,
                operator_files=self.flags.config_files,
                flags=self.flags,
                environment=read_environment(),
                decides=False,
            ).settings
        except ConfigurationError:
            return Settings(clusters=(ClusterSettings(name=DEFAULT_CLUSTER),))


def _check_files(disk: DiskFiles, root: _Configuration) -> Iterator[Finding]:
    """Each configuration file among those given, with its own directory as its root; and what the operator says.

    The file at the root always counts, but its findings are reported only if it is among those given.
    """
    named = {file.path: file.body for file in disk.files if file.path.rpartition("/")[2] == REPOSITORY_FILE}
    for path, body in ({REPOSITORY_FILE: root.body} | named).items():
        directory, seen = path.removesuffix(REPOSITORY_FILE), {REPOSITORY_FILE}
        configuration = replace(
            root, body=body, read=_reader(disk, directory, seen), list_folder=_lister(disk, directory)
        )
        if directory:
            configuration = replace(configuration, flags=replace(root.flags, clusters=(), prometheus=""))
        for finding in configuration.check():
            if finding.place.path not in seen:
                yield finding
            elif path in named:
                yield replace(finding, place=replace(finding.place, path=directory + finding.place.path))


def _reader(disk: DiskFiles, directory: str, seen: set[str]) -> RepositoryReader:
    """Reads what a configuration extends, and keeps in mind what it was asked for."""

    def read(path: str) -> bytes | None:
        seen.add(path)
        return disk.read(directory + path)

    return read


def _lister(disk: DiskFiles, directory: str) -> RepositoryFolder:
    return lambda folder: [path.removeprefix(directory) for path in disk.files_below(directory + folder)]


def _read_on_disk(disk: DiskFiles, clusters: Clusters, remote: str) -> Commit:
    files = {file.path: file for file in disk.files}
    skipped = Skipped(templates=find_templates(files), vendored=find_vendored(disk.attributes, files))
    return read_commit(
        [file for file in disk.files if file.path not in skipped.templates | skipped.vendored],
        {*files, *disk.giants},
        clusters,
        lambda paths: [files[path] for path in paths],
        remote=remote,
        skipped=skipped,
    )


def _named(commit: Commit) -> Commit:
    """What is wrong with whole files, by its rule."""
    readings = {
        path: replace(reading, findings=tuple(name_findings(reading.findings, UNREADABLE)))
        for path, reading in commit.readings.items()
    }
    return replace(commit, readings=readings)


def _count(commit: Commit, settings: Settings) -> int:
    """Objects of every kind that is read, those that cannot be used among them."""
    chosen = {cluster.name for cluster in settings.clusters}
    withheld = sum(key.cluster in chosen for each in commit.withheld for key in each.objects)
    return count_objects(commit.fleet, commit.readings, chosen) + withheld


def _find_in_variants(settings: Settings, declaration: Declaration) -> Iterator[Finding]:
    """What canaries are said to be and are not, contradicted costs, and rules that look wrong for these variants."""
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs)
    if any(each.settings[CANARY].value or each.settings[MEASURED].value for each in variants):
        from reconciler.snapshot.canaries import find_wrong_annotations

        yield from find_wrong_annotations(variants, catalogs)
    places = {each.key: each.places[COST_FIELD] for each in declaration.variants if COST_FIELD in each.places}
    yield from find_contradicted_costs(variants, currency=settings.currency, places=places)
    if settings.rules:
        from reconciler.policy.judging import find_doubts
        from reconciler.policy.port import Subject

        subjects = [Subject(now_s=0.0, variant=each, priority=priority_of(each)) for each in variants]
        yield from find_doubts(settings.rules, subjects, map(preset_path, preset_names()))


def _find_unknown_references(commit: Commit, settings: Settings, paths: Sequence[str] | None) -> Iterator[Finding]:
    """Files of clusters that were not chosen may hold what is referred to, but nothing is reported about them."""
    whole = replace(settings, clusters=(*settings.clusters, *settings.other_clusters), other_clusters=())
    declaration = fold(commit, whole)
    found = find_unknown_references(whole, declaration, build_catalogs(whole, declaration), paths)
    return (each for each in found if concerns(commit, each.place.path, settings))


def _find_unknown_on_disk(commit: Commit, settings: Settings, disk: DiskFiles) -> Iterator[Finding]:
    """Only files that were given are reported; that something is absent, only if everything in the root was read."""
    named = {file.path for file in disk.files}
    found = _find_unknown_references(commit, settings, sorted(named) if disk.holds_root else None)
    return (each for each in found if each.place.path in named or disk.read(each.place.path) is None)


def _files_about_sync(repository: Repository) -> dict[str, bytes]:
    """Every file that may say what is synced; none where nothing of ours could be."""
    entries = [each for each in repository.list_files() if each.kind is EntryKind.FILE and may_tell(each.path)]
    if not any(is_own(each.path) for each in entries):
        return {}
    readable = [each for each in entries if each.size_bytes <= MAX_READ_BYTES]
    contents = repository.read_files(each.oid for each in readable)
    bodies = {entry.path: body for entry, (_, body) in zip(readable, contents, strict=True)}
    return {each.path: bodies.get(each.path, b"") for each in entries}


def _remote_of(root: Path) -> str:
    try:
        return origin_url(root) or ""
    except ConfigurationError:
        return ""
