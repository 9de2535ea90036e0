"""The manifests of a commit: which of its files are read, and what is said of those that are not."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from reconciler.domain.identity import Finding, Place, Severity, fits_ignore_line
from reconciler.domain.recording import ManifestFile
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Settings
from reconciler.git.repository import EntryKind, Repository, TreeEntry
from reconciler.placement.repository import CHART_NAME, directory_of, is_within, join, name_of
from reconciler.resources.registry import KINDS
from reconciler.snapshot.declarations import Commit, FileReading, Skipped, clusters_of, read_commit

MAX_READ_BYTES: Final = 1024 * 1024
"""Larger files are never loaded: no parser here reads more, and no manifest of ours is as long."""
ATTRIBUTES: Final = ".gitattributes"
_VENDORED: Final = "linguist-vendored"
_TEMPLATES: Final = ("templates", "files", "crds", "ci", "tests")
"""Directories of a chart whose files are for Helm, which makes documents of them or tries the chart with them."""

_OURS: Final = "|".join(sorted(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word))
OURS_PATTERN: Final = rf"""^( {{0,2}}(- )?kind|[ \t]*"kind") *: *["']?({_OURS})"""
"""An extended regular expression of a line that begins an object which declares a variant."""
MANIFEST_NAMES = (".yaml", ".yml", ".json")
BATCH_BYTES = 8 * 1024 * 1024
"""As much of Git's files is held at once."""
OURS: Final = "reconciler"
WORKFLOWS: Final = ".github/workflows/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The manifests of a commit, and what of it was not read at all; `starting` are files that may start us.

    `obstructed` are paths with a manifest's name at which there is something that is not among `paths`.
    """

    commit: Commit
    paths: tuple[str, ...]
    unread: tuple[Finding, ...]
    starting: tuple[ManifestFile, ...] = ()
    obstructed: tuple[str, ...] = ()


def read_files(
    repository: Repository,
    settings: Settings,
    remote: str,
    progress: Callable[[str, int, int], None] | None = None,
    known: tuple[Repository, Commit] | None = None,
) -> Files:
    """Every manifest of the commit: kustomizations reach beyond the paths of a cluster. `remote` is its address.

    What another commit that is `known` has too is not read again. `progress` hears what is done, how much, and of how
    much.
    """
    listed = repository.list_files()
    entries = [entry for entry in listed if is_manifest(entry.path)]
    readable = {entry.path: entry for entry in entries if _is_readable(entry)}
    giants = {entry.path: entry for entry in entries if _is_giant(entry)}
    starting: dict[str, ManifestFile] = {}

    def fetch(paths: Sequence[str]) -> Iterator[ManifestFile]:
        named = [readable[path] for path in paths if path in readable]
        done = 0
        for batch in _batches(named):
            for entry, (_, body) in zip(batch, repository.read_files(each.oid for each in batch), strict=True):
                done += 1
                if progress is not None:
                    progress("reading manifests", done, len(named))
                file = ManifestFile(path=entry.path, body=body)
                if may_start_us(file):
                    starting[file.path] = file
                yield file

    attributes = [each for each in listed if name_of(each.path) == ATTRIBUTES and _is_readable(each)]
    bodies = repository.read_files(each.oid for each in attributes)
    written = {each.path: body for each, (_, body) in zip(attributes, bodies, strict=True)}
    skipped = Skipped(templates=find_templates(readable), vendored=find_vendored(written, readable))
    left_out = skipped.templates | skipped.vendored
    wanted = {path: entry for path, entry in readable.items() if path not in left_out}
    read = {} if known is None else dict(_unchanged(wanted, *known))
    fetched = fetch([path for path in wanted if path not in read])
    commit = read_commit(
        (read[path] if path in read else next(fetched) for path in wanted),
        {*readable, *giants, *(each.path for each in entries if each.kind is EntryKind.MISSING)},
        clusters_of(settings),
        fetch,
        remote=remote,
        skipped=skipped,
        known=None if known is None else known[1],
    )
    odd = (_unread(each) for each in entries if each.kind is not EntryKind.FILE and _is_held(each, settings))
    ours = repository.find_lines(OURS_PATTERN, (path for path, each in giants.items() if _is_held(each, settings)))
    told = (tell_giant(path, giants[path].size_bytes) for path in sorted(ours))
    return Files(
        commit=commit,
        paths=tuple(sorted(commit.paths)),
        unread=(*odd, *told, *commit.unreadable),
        starting=tuple(file for _, file in sorted(starting.items())),
        obstructed=tuple(sorted({*_obstructed(each.path for each in listed)} - commit.paths)),
    )


def read_small(repository: Repository, path: str) -> bytes | None:
    """The bytes of a file that is no manifest, None without one; ValueError for one that is too long or not there."""
    entry = next((each for each in repository.list_files() if each.path == path), None)
    if entry is None or entry.kind is EntryKind.SYMLINK:
        return None
    if entry.kind is not EntryKind.FILE:
        raise ValueError(f"expected a file, found a {entry.kind}")
    if _is_giant(entry):
        raise ValueError(f"expected at most {MAX_READ_BYTES} bytes, got {entry.size_bytes}")
    return next(body for _, body in repository.read_files([entry.oid]))


def _unchanged(
    wanted: Mapping[str, TreeEntry], repository: Repository, commit: Commit
) -> Iterator[tuple[str, FileReading]]:
    for each in repository.list_files():
        if each.path in wanted and each.oid == wanted[each.path].oid and each.path in commit.parsed:
            yield each.path, commit.parsed[each.path]


def _batches(entries: Iterable[TreeEntry]) -> Iterator[list[TreeEntry]]:
    batch: list[TreeEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size_bytes > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size_bytes
    yield batch


def _is_held(entry: TreeEntry, settings: Settings) -> bool:
    return any(cluster.holds(entry.path) for cluster in settings.clusters)


def may_start_us(file: ManifestFile) -> bool:
    """Whether a CronJob or workflow in it may start a run."""
    return OURS.encode() in file.body and (b"CronJob" in file.body or file.path.startswith(WORKFLOWS))


def is_manifest(path: str) -> bool:
    """Whether a file of this name is read."""
    name = path.rpartition("/")[2]
    return name.endswith(MANIFEST_NAMES) or name == "Kustomization"


_FOLDER = re.compile(r"(?:\.ya?ml|\.json|(?:^|/)Kustomization)(?=/)")
"""The end of a directory that has a manifest's name."""


def _obstructed(paths: Iterable[str]) -> Iterator[str]:
    """All files and directories with a manifest's name."""
    for path in paths:
        if is_manifest(path):
            yield path
        yield from (path[: found.end()] for found in _FOLDER.finditer(path))


def _is_readable(entry: TreeEntry) -> bool:
    return entry.kind is EntryKind.FILE and not _is_giant(entry)


def _is_giant(entry: TreeEntry) -> bool:
    return entry.kind is EntryKind.FILE and entry.size_bytes > MAX_READ_BYTES


def _unread(entry: TreeEntry) -> Finding:
    """A link is named, never followed."""
    words = {
        EntryKind.SYMLINK: "expected a file, found a symbolic link: links are not followed, so it is not read",
        EntryKind.SUBMODULE: "expected a file, found a submodule: it is not read",
        EntryKind.UNREADABLE_NAME: "expected a name in UTF-8: it is not read",
        EntryKind.MISSING: "this partial clone lacks it, so it is not read: use a full clone or the remote's URL",
    }
    return Finding(place=Place(path=entry.path), severity=Severity.WARNING, message=words[entry.kind])


def find_templates(paths: Iterable[str]) -> frozenset[str]:
    """The files of charts that Helm renders or reads: they are no manifests by themselves."""
    paths = list(paths)
    charts = {directory_of(path) for path in paths if name_of(path) == CHART_NAME}
    roots = {join(chart, name) for chart in charts for name in _TEMPLATES}
    return frozenset(path for path in paths if any(each in roots for each in _parents(path)))


def _parents(path: str) -> Iterator[str]:
    while path:
        path = directory_of(path)
        yield path


def find_vendored(attributes: Mapping[str, bytes], paths: Iterable[str]) -> frozenset[str]:
    """The files that `.gitattributes` files, by path, mark as vendored; the nearest line counts."""
    lines = [
        (directory_of(path), pattern, _is_set(words))
        for path, body in sorted(attributes.items(), key=lambda each: (each[0].count("/"), each[0]))
        for pattern, *words in (line.split() for line in body.decode(errors="replace").splitlines() if line.strip())
        if _is_set(words) is not None and not pattern.startswith("#")
    ]
    return frozenset(path for path in paths if lines and _is_vendored(path, lines))


def _is_vendored(path: str, lines: list[tuple[str, str, bool | None]]) -> bool:
    found: bool | None = False
    for directory, pattern, is_set in lines:
        relative = path[len(directory) :].lstrip("/")
        if is_within(path, directory) and fits_ignore_line(pattern, relative):
            found = is_set
    return bool(found)


def _is_set(words: Iterable[str]) -> bool | None:
    """What the words behind a pattern say; None where they say nothing of it."""
    found: bool | None = None
    for word in words:
        name, equals, value = word.lstrip("-!").partition("=")
        if name == _VENDORED:
            found = not word.startswith(("-", "!")) and (not equals or value.lower() != "false")
    return found


def tell_giant(path: str, size_bytes: int) -> Finding:
    """What is wrong with a giant that holds something of ours."""
    message = f"expected at most {MAX_READ_BYTES} bytes, got {size_bytes}: split the file"
    return Finding(place=Place(path=path), severity=Severity.ERROR, message=message)
