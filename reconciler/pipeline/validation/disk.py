"""Files as they lie on disk, uncommitted: within caps, no link followed, one that cannot be read told as a finding."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.config.files import REPOSITORY_FILE
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.recording import ManifestFile
from reconciler.errors import ConfigurationError
from reconciler.pipeline.observe import MANIFEST_NAMES
from reconciler.pipeline.unread import ATTRIBUTES, MAX_READ_BYTES, OURS_PATTERN, tell_giant

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

    def tell(error: OSError) -> None:
        found.unread.append(_unread(found.name(Path(error.filename)), error))

    for directory, folders, names in os.walk(path, onerror=tell):
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
