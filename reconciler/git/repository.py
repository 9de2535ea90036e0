"""One commit of a repository: trees and files, read from its object store and never from a work tree."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from reconciler.errors import ConfigurationError
from reconciler.git.command import TIMEOUT_S, GitCommand
from reconciler.git.refs import check_branch_name, check_object_id, is_branch_name, is_object_id
from reconciler.git.remotes import resolve_directory

REGULAR_MODES = frozenset({"100644", "100755", "100664"})
MOST_LISTED_BYTES = 64 * 1024 * 1024
"""Half a million files. A tree may hold itself many times over in each level, and never end."""
VERIFY = ("rev-parse", "--verify", "--quiet", "--end-of-options")
BRANCH_REF = re.compile(r"refs/(?:heads|remotes/[^/]+)/(?P<name>.+)")


class EntryKind(StrEnum):
    """What stands behind a path. Only a FILE is ever read; the others are reported."""

    FILE = "file"
    SYMLINK = "symbolic link"
    SUBMODULE = "submodule"
    UNREADABLE_NAME = "path that is not UTF-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One entry of a tree.

    `path` is relative to the repository's root and hostile: it may hold `..`, quotes or line breaks; of an
    UNREADABLE_NAME it is escaped and only good for showing. `size_bytes` is 0 for a submodule, and for a
    file whose object is missing.
    """

    path: str
    mode: str
    oid: str
    size_bytes: int
    kind: EntryKind


def parse_tree(output: bytes) -> tuple[TreeEntry, ...]:
    """Entries of `git ls-tree -r -z -l`, in git's order (bytes of the path)."""
    return tuple(_parse_entry(record) for record in output.split(b"\0") if record)


def parse_batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    """Object ids and contents of `git cat-file --batch`, one by one."""
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        oid, *rest = output[position:end].decode("ascii", "replace").split(" ")
        if len(rest) != 2:
            raise ConfigurationError(
                f"object {oid} is {' '.join(rest) or 'unreadable'}: this clone is incomplete (partial or damaged); "
                "use a full clone or the remote's URL"
            )
        start, size = end + 1, int(rest[1])
        yield oid, output[start : start + size]
        position = start + size + 1


def _parse_entry(record: bytes) -> TreeEntry:
    facts, _, raw_path = record.partition(b"\t")
    mode, _, oid, size = facts.decode("ascii").split()
    path, kind = raw_path.decode("utf-8", "backslashreplace"), _kind_of(mode)
    if path.encode("utf-8") != raw_path:
        kind = EntryKind.UNREADABLE_NAME
    return TreeEntry(path=path, mode=mode, oid=oid, size_bytes=int(size) if size.isdigit() else 0, kind=kind)


def _kind_of(mode: str) -> EntryKind:
    if mode in REGULAR_MODES:
        return EntryKind.FILE
    return EntryKind.SYMLINK if mode == "120000" else EntryKind.SUBMODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository at one commit, for reading.

    `commit` is a full object id, `branch` the name that led to it (empty for a detached HEAD or a given commit).
    """

    git: GitCommand
    commit: str
    branch: str
    _trees: dict[str, tuple[TreeEntry, ...]] = field(default_factory=dict, repr=False, compare=False)
    _contents: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def list_files(self, commit: str | None = None) -> tuple[TreeEntry, ...]:
        """Everything in the tree of `commit` (the repository's own by default), links and submodules by their kind."""
        commit = check_object_id(commit or self.commit)
        if commit not in self._trees:
            arguments = ("ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", commit)
            action = f"list the files of {commit}"
            self._trees[commit] = parse_tree(self.git.run_within(MOST_LISTED_BYTES, *arguments, action=action))
        return self._trees[commit]

    def read_files(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Object id and exact bytes of each blob, in the order asked, from one process."""
        wanted = list(oids)
        asked = "".join(f"{check_object_id(oid)}\n" for oid in wanted if oid not in self._contents)
        arguments = ("cat-file", "--batch", "--buffer")
        output = self.git.run(*arguments, action="read files", stdin=asked.encode()) if asked else b""
        stored = parse_batch(output)
        return ((oid, self._contents[oid]) if oid in self._contents else next(stored) for oid in wanted)

    def find_lines(self, pattern: str, paths: Iterable[str]) -> frozenset[str]:
        """Those of some files in which a line fits an extended regular expression; git looks, nothing is held here."""
        specs = list(paths)  # the environment has git take them literally
        if not specs:
            return frozenset()
        arguments = ("grep", "-l", "-z", "-E", "--text", "-e", pattern, self.commit, "--", *specs)
        found = self.git.attempt(*arguments, action="look into large files")
        prefix = f"{self.commit}:".encode()
        return frozenset(name.removeprefix(prefix).decode() for name in found.stdout.split(b"\0") if name)

    def read_file_at(self, commit: str, path: str) -> bytes | None:
        """The bytes of a file at `commit`; None without such a file (a symbolic link is none and is not followed)."""
        entry = self._files_of(commit).get(path)
        if entry is None or entry.kind is not EntryKind.FILE:
            return None
        return next(content for _, content in self.read_files([entry.oid]))

    def common_ancestor(self, other: str) -> str | None:
        """The newest commit that this one and `other` both come from, as far as history is here."""
        arguments = ("merge-base", "--end-of-options", check_object_id(other), self.commit)
        found = self.git.attempt(*arguments, action="look for a common ancestor")
        return _read_id(found.stdout) if found.status == 0 else None

    def with_tree(self, entries: Iterable[TreeEntry], contents: Mapping[str, bytes]) -> "Repository":
        """The same commit as if it held `entries`; `contents` are those of files that no object holds, by object id."""
        return replace(self, _trees={**self._trees, self.commit: tuple(entries)}, _contents=dict(contents))

    def files_below(self, folder: str) -> tuple[str, ...]:
        """The paths of the files of the repository's own commit that begin with `folder`."""
        return tuple(path for path in self._files_of(self.commit) if path.startswith(folder))

    def committed_s(self) -> float:
        """When the repository's own commit was made, in Unix seconds, by the clock of whoever made it."""
        arguments = ("rev-list", "--max-count=1", "--timestamp", "--end-of-options", self.commit)
        printed = self.git.run(*arguments, action=f"read the time of {self.commit}")
        return float(printed.split(b" ", 1)[0])

    def is_shallow(self) -> bool:
        """Whether its history ends at commits whose parents are not here."""
        answer = self.git.run("rev-parse", "--is-shallow-repository", action="look at the history")
        return answer.strip() == b"true"

    def _files_of(self, commit: str) -> Mapping[str, TreeEntry]:
        return {entry.path: entry for entry in self.list_files(commit) if entry.kind is not EntryKind.UNREADABLE_NAME}


def open_directory(path: str | Path, *, base: str | None = None, timeout_s: float = TIMEOUT_S) -> Repository:
    """A clone or bare directory at HEAD or at `base` (branch, tag, remote branch or object id), read where it lies.

    Nothing is fetched or written, and uncommitted files are not seen. Raises ConfigurationError without a repository
    or commit.
    """
    git = GitCommand(directory=git_directory(path, timeout_s=timeout_s), timeout_s=timeout_s)
    ref, commit = _resolve(git, path, base)
    return Repository(git=git, commit=commit, branch=_branch_of(git, ref))


def origin_url(path: str | Path) -> str | None:
    """Where the directory's remote `origin` is (a relative path is made absolute); None without one."""
    directory = git_directory(path)
    git = GitCommand(directory=directory)
    answer = git.attempt("config", "--local", "--null", "--get", "remote.origin.url", action=f"read origin of {path}")
    url = answer.stdout.rstrip(b"\0").decode("utf-8", "replace")
    if answer.status != 0 or not url:
        return None
    top = directory.parent if directory.name == ".git" else directory
    beside = (top / url).resolve()
    return str(beside) if beside.is_dir() else url


def is_bare(path: str | Path) -> bool:
    """Whether a directory is a bare repository, which is its own remote."""
    git = GitCommand(directory=git_directory(path))
    return git.run("rev-parse", "--is-bare-repository", action=f"look at {path}").strip() == b"true"


def work_tree(path: str | Path) -> Path | None:
    """The top of the work tree that a directory lies in; None for a bare repository."""
    return _path_told(path, "--show-toplevel", TIMEOUT_S)


def untracked(top: Path) -> tuple[str, ...]:
    """Paths of files in a work tree that git does not know and is not told to ignore."""
    command = ("-C", str(top), "ls-files", "-z", "--others", "--exclude-standard")
    listed = GitCommand().attempt(*command, action=f"look at {top}").stdout
    return tuple(name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name)


def git_directory(path: str | Path, *, timeout_s: float = TIMEOUT_S) -> Path:
    """The git directory of a clone, of a folder inside one, or of a bare repository; else ConfigurationError."""
    directory = _path_told(path, "--absolute-git-dir", timeout_s)
    if directory is None:
        raise ConfigurationError(f"repository {path}: not a git repository; expected a clone or a bare directory")
    return directory


def _path_told(path: str | Path, question: str, timeout_s: float) -> Path | None:
    """The path that `git rev-parse` answers a question about a directory with; None where it has no answer."""
    command = ("-C", str(resolve_directory(path)), "rev-parse", question)
    answer = GitCommand(timeout_s=timeout_s).attempt(*command, action=f"open {path}")
    return Path(answer.stdout.rstrip(b"\n").decode("utf-8", "surrogateescape")) if answer.status == 0 else None


def _resolve(git: GitCommand, path: str | Path, base: str | None) -> tuple[str, str]:
    for revision in _revisions(base):
        answer = git.attempt(*VERIFY, f"{revision}^{{commit}}", action=f"find {revision} in {path}")
        if answer.status == 0:
            return revision, _read_id(answer.stdout)
    wanted = "HEAD points at no commit: make a first commit" if base is None else f"no branch or commit {base!r}"
    raise ConfigurationError(f"repository {path}: {wanted}, or name another with --base")


def _revisions(base: str | None) -> list[str]:
    if base is None or base == "HEAD":
        return ["HEAD"]
    if is_object_id(base):
        return [base]
    places = ("refs/heads/", "refs/remotes/origin/", "refs/remotes/", "refs/tags/", "")
    return [f"{place}{check_branch_name(base)}" for place in places]


def _branch_of(git: GitCommand, ref: str) -> str:
    if ref == "HEAD":
        answer = git.attempt("symbolic-ref", "--quiet", "HEAD", action="read HEAD")
        ref = answer.stdout.rstrip(b"\n").decode("utf-8", "replace")
    match = BRANCH_REF.fullmatch(ref)
    return match["name"] if match and is_branch_name(match["name"]) else ""


def _read_id(output: bytes) -> str:
    return check_object_id(output.strip().decode("ascii", "replace"))
