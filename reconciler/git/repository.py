"""One commit of a repository, read from the object store, and new commits as bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import NewType

from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, InputError, TransientError
from reconciler.git.command import TIMEOUT_S, GitCommand, resolve_directory

ObjectId = NewType("ObjectId", str)

MAX_NAME_LENGTH = 200
NAME_CHARACTERS = re.compile(r"[A-Za-z0-9._/-]+")
PULL_REQUEST_REF = re.compile(r"refs/(?:pull|merge-requests)/[1-9][0-9]{0,9}/head")
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_branch_name(name: str) -> bool:
    """Whether `name` fits our own pattern.

    git's own check is too wide: `check-ref-format` allows `refs/heads/-x`, and with `--branch` also `@{-1}`.
    """
    return (
        len(name) <= MAX_NAME_LENGTH
        and NAME_CHARACTERS.fullmatch(name) is not None
        and ".." not in name
        and not name.startswith("-")
        and not name.endswith(".")
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in name.split("/"))
    )


def check_branch_name(name: str) -> str:
    """Return `name`, or raise ConfigurationError if git could read it as something else."""
    if not is_branch_name(name):
        raise ConfigurationError(
            f"branch {name[:MAX_NAME_LENGTH]!r}: expected at most {MAX_NAME_LENGTH} letters, digits and `._/-`, "
            "no part that begins with a dot or ends with `.lock`, no `..`, no leading `-` and no trailing `/` or `.`"
        )
    return name


def branch_ref(name: str) -> str:
    """The full name of a branch."""
    return f"refs/heads/{check_branch_name(name)}"


def check_head_ref(name: str) -> str:
    """The full name of a branch, or of a forge's ref of a pull request's head; else ConfigurationError."""
    return name if PULL_REQUEST_REF.fullmatch(name) else branch_ref(name.removeprefix("refs/heads/"))


def is_object_id(text: str) -> bool:
    """Whether `text` is a full SHA-1 or SHA-256 object id."""
    return OBJECT_ID.fullmatch(text) is not None


def check_object_id(text: str) -> ObjectId:
    """Return `text` as an object id, or raise ValueError: in `sha:ref` an empty sha deletes the branch."""
    if not is_object_id(text):
        raise ValueError(f"expected 40 or 64 hexadecimal digits, found {text[:80]!r}")
    return ObjectId(text)


REGULAR_MODES = frozenset({"100644", "100755", "100664"})
MOST_LISTED_BYTES = 64 * 1024 * 1024
"""Half a million files. A tree may contain itself many times, and be endless."""
VERIFY = ("rev-parse", "--verify", "--quiet", "--end-of-options")
BRANCH_REF = re.compile(r"refs/(?:heads|remotes/[^/]+)/(?P<name>.+)")


INCOMPLETE = "this clone is incomplete (partial or damaged); use a full clone or the remote's URL"


class EntryKind(StrEnum):
    """The kind of a path. Only a FILE is read; the others are reported."""

    FILE = "file"
    SYMLINK = "symbolic link"
    SUBMODULE = "submodule"
    UNREADABLE_NAME = "path that is not UTF-8"
    MISSING = "file whose content this clone lacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One entry of a tree.

    `path` is relative to the repository's root and hostile: it may contain `..`, quotes or line breaks; an
    UNREADABLE_NAME is escaped, only for messages. `size_bytes` is 0 for a submodule, and for a file that is MISSING.
    """

    path: str
    mode: str
    oid: str
    size_bytes: int
    kind: EntryKind


def parse_tree(output: bytes) -> Iterator[TreeEntry]:
    """Entries of `git ls-tree -r -z -l`, in git's order (bytes of the path)."""
    for record in filter(None, output.split(b"\0")):
        facts, _, raw_path = record.partition(b"\t")
        mode, _, oid, size = facts.decode("ascii").split()
        path = raw_path.decode("utf-8", "backslashreplace")
        kind = EntryKind.SYMLINK if mode == "120000" else EntryKind.SUBMODULE
        if path.encode("utf-8") != raw_path:
            kind = EntryKind.UNREADABLE_NAME
        elif mode in REGULAR_MODES:
            kind = EntryKind.FILE if size.isdigit() else EntryKind.MISSING
        yield TreeEntry(path=path, mode=mode, oid=oid, size_bytes=int(size) if size.isdigit() else 0, kind=kind)


def parse_batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    """Object ids and contents of `git cat-file --batch`, one by one."""
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        oid, *rest = output[position:end].decode("ascii", "replace").split(" ")
        if len(rest) != 2:
            raise ConfigurationError(f"object {oid} is {' '.join(rest) or 'unreadable'}: {INCOMPLETE}")
        start, size = end + 1, int(rest[1])
        yield oid, output[start : start + size]
        position = start + size + 1


@dataclass(frozen=True, kw_only=True)
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
        """All entries in the tree of `commit` (the repository's own by default), also links and submodules."""
        commit = check_object_id(commit or self.commit)
        if commit not in self._trees:
            # In a partial clone git would look for the sizes of objects that are not there.
            listing = self._list_partially(commit) if self._is_partial() else self._list(commit, "-l")
            self._trees[commit] = tuple(parse_tree(listing))
        return self._trees[commit]

    def _list(self, commit: str, *options: str) -> bytes:
        arguments = ("ls-tree", "-r", "-z", *options, "--full-tree", "--end-of-options", commit)
        return self.git.run_within(MOST_LISTED_BYTES, *arguments, action=f"list the files of {commit}")

    def _is_partial(self) -> bool:
        arguments = ("config", "--local", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        return self.git.attempt(*arguments, action="look for a partial clone").status == 0

    def _list_partially(self, commit: str) -> bytes:
        """The listing with the sizes of the objects that are here; `-` for those that are not."""
        arguments = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objectsize)")
        action = "list what this partial clone holds"
        held = self.git.run_within(MOST_LISTED_BYTES, *arguments, action=action).split(b"\n")
        sizes = dict(line.split(b" ", 1) for line in held if line)
        records = (record.partition(b"\t") for record in self._list(commit).split(b"\0") if record)
        return b"\0".join(
            b"%b %b\t%b" % (facts, sizes.get(facts.split(b" ")[2], b"-"), path) for facts, _, path in records
        )

    def read_files(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Object id and exact bytes of each blob, in the given order, from one process."""
        wanted = list(oids)
        asked = "".join(f"{check_object_id(oid)}\n" for oid in wanted if oid not in self._contents)
        arguments = ("cat-file", "--batch", "--buffer")
        output = self.git.run(*arguments, action="read files", stdin=asked.encode()) if asked else b""
        stored = parse_batch(output)
        return ((oid, self._contents[oid]) if oid in self._contents else next(stored) for oid in wanted)

    def find_lines(self, pattern: str, paths: Iterable[str]) -> frozenset[str]:
        """The files with a line that matches an extended regular expression, found by git."""
        specs = list(paths)  # the environment has git take them literally
        if not specs:
            return frozenset()
        arguments = ("grep", "-l", "-z", "-E", "--text", "-e", pattern, self.commit, "--", *specs)
        found = self.git.attempt(*arguments, action="look into large files")
        prefix = f"{self.commit}:".encode()
        return frozenset(name.removeprefix(prefix).decode() for name in found.stdout.split(b"\0") if name)

    def read_file_at(self, commit: str, path: str) -> bytes | None:
        """The bytes of a file at `commit`; None without such a file, also for a symbolic link.

        ConfigurationError where a partial clone lacks it: what it says is not known.
        """
        entry = self._files_of(commit).get(path)
        if entry is not None and entry.kind is EntryKind.MISSING:
            raise ConfigurationError(f"{path}: {INCOMPLETE}")
        if entry is None or entry.kind is not EntryKind.FILE:
            return None
        return next(content for _, content in self.read_files([entry.oid]))

    def common_ancestor(self, other: str) -> str | None:
        """The newest common ancestor of this commit and `other` in the fetched history."""
        arguments = ("merge-base", "--end-of-options", check_object_id(other), self.commit)
        found = self.git.attempt(*arguments, action="look for a common ancestor")
        return _read_id(found.stdout) if found.status == 0 else None

    def with_tree(self, entries: Iterable[TreeEntry], contents: Mapping[str, bytes]) -> "Repository":
        """The same commit with other `entries`; `contents` are those of files without objects, by object id."""
        return replace(self, _trees={**self._trees, self.commit: tuple(entries)}, _contents=dict(contents))

    def files_below(self, folder: str) -> tuple[str, ...]:
        """The paths of the files of the repository's own commit that begin with `folder`."""
        return tuple(path for path in self._files_of(self.commit) if path.startswith(folder))

    def committed_s(self) -> float:
        """The time of the repository's own commit, in Unix seconds, by the clock of its author's machine."""
        arguments = ("rev-list", "--max-count=1", "--timestamp", "--end-of-options", self.commit)
        return float(self.git.run(*arguments, action=f"read the time of {self.commit}").split(b" ", 1)[0])

    def is_shallow(self) -> bool:
        """Whether its history ends at commits whose parents were not fetched."""
        answer = self.git.run("rev-parse", "--is-shallow-repository", action="look at the history")
        return answer.strip() == b"true"

    def _files_of(self, commit: str) -> Mapping[str, TreeEntry]:
        return {entry.path: entry for entry in self.list_files(commit) if entry.kind is not EntryKind.UNREADABLE_NAME}


def open_directory(path: str | Path, *, base: str | None = None, timeout_s: float = TIMEOUT_S) -> Repository:
    """A clone or bare directory at HEAD or at `base` (branch, tag, remote branch or object id), read in place.

    Nothing is fetched or written, and uncommitted files are not seen. Raises ConfigurationError without a repository
    or commit.
    """
    git = GitCommand(directory=git_directory(path, timeout_s=timeout_s), timeout_s=timeout_s)
    if base is None or base == "HEAD" or is_object_id(base):
        revisions = [base or "HEAD"]
    else:
        places = ("refs/heads/", "refs/remotes/origin/", "refs/remotes/", "refs/tags/", "")
        revisions = [f"{place}{check_branch_name(base)}" for place in places]
    for ref in revisions:
        found = git.attempt(*VERIFY, f"{ref}^{{commit}}", action=f"find {ref} in {path}")
        if found.status == 0:
            break
    else:
        wanted = "HEAD points at no commit: make a first commit" if base is None else f"no branch or commit {base!r}"
        raise ConfigurationError(f"repository {path}: {wanted}, or name another with --base")
    if ref == "HEAD":
        answer = git.attempt("symbolic-ref", "--quiet", "HEAD", action="read HEAD")
        ref = answer.stdout.rstrip(b"\n").decode("utf-8", "replace")
    match = BRANCH_REF.fullmatch(ref)
    branch = match["name"] if match and is_branch_name(match["name"]) else ""
    return Repository(git=git, commit=_read_id(found.stdout), branch=branch)


def origin_url(path: str | Path) -> str | None:
    """The address of the directory's remote `origin` (a relative path is made absolute); None without one."""
    directory = git_directory(path)
    git = GitCommand(directory=directory)
    answer = git.attempt("config", "--local", "--null", "--get", "remote.origin.url", action=f"read origin of {path}")
    url = answer.stdout.rstrip(b"\0").decode("utf-8", "replace")
    if answer.status != 0 or not url:
        return None
    top = directory.parent if directory.name == ".git" else directory
    directory = (top / url).resolve()
    return str(directory) if directory.is_dir() else url


def is_bare(path: str | Path) -> bool:
    """Whether a directory is a bare repository, which is its own remote."""
    git = GitCommand(directory=git_directory(path))
    return git.run("rev-parse", "--is-bare-repository", action=f"look at {path}").strip() == b"true"


def work_tree(path: str | Path) -> Path | None:
    """The top of a directory's work tree; None for a bare repository."""
    return _rev_parse(path, "--show-toplevel", TIMEOUT_S)


def untracked(top: Path) -> tuple[str, ...]:
    """Paths of files in a work tree that git neither tracks nor ignores."""
    command = ("-C", str(top), "ls-files", "-z", "--others", "--exclude-standard")
    listed = GitCommand().attempt(*command, action=f"look at {top}").stdout
    return tuple(name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name)


def git_directory(path: str | Path, *, timeout_s: float = TIMEOUT_S) -> Path:
    """The git directory of a clone, of a folder inside one, or of a bare repository; else ConfigurationError."""
    directory = _rev_parse(path, "--absolute-git-dir", timeout_s)
    if directory is None:
        raise ConfigurationError(f"repository {path}: not a git repository; expected a clone or a bare directory")
    return directory


def _rev_parse(path: str | Path, option: str, timeout_s: float) -> Path | None:
    command = ("-C", str(resolve_directory(path)), "rev-parse", option)
    answer = GitCommand(timeout_s=timeout_s).attempt(*command, action=f"open {path}")
    return Path(answer.stdout.rstrip(b"\n").decode("utf-8", "surrogateescape")) if answer.status == 0 else None


def _read_id(output: bytes) -> str:
    return check_object_id(output.strip().decode("ascii", "replace"))


PERSON = re.compile(r"(?P<name>.*?) ?<(?P<email>[^>]*)>.*")
TIME = re.compile(r".*> (?P<seconds>[0-9]{1,12}) [+-][0-9]{4}")
SIGNATURES = frozenset({"gpgsig", "gpgsig-sha256"})
"""Headers of a signature, of SSH and OpenPGP alike: the second where object ids are of SHA-256."""
NEW_FILE_MODE = "100644"
DRAFT_REF = "refs/reconciler/draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One commit of an object; names and message are hostile text."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    author: Identity
    committer: Identity
    message: str
    committed_s: float = 0.0
    """Unix seconds, by the clock of its author's machine."""
    is_signed: bool = False
    """Whether it has a signature; whose, and whether it is valid, was not checked."""


def parse_commit(oid: str, content: bytes) -> CommitRecord:
    """The commit in an object's content."""
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    # A continuation line (of a signature) begins with a space and is not read.
    fields = [line.partition(" ") for line in head.split("\n") if not line.startswith(" ")]
    values: dict[str, list[str]] = {}
    for key, _, value in fields:
        values.setdefault(key, []).append(value)
    if not values.get("tree"):
        raise TransientError(f"commit {oid}: the object holds no tree")
    match = TIME.fullmatch(values.get("committer", [""])[0])
    return CommitRecord(
        oid=oid,
        tree=values["tree"][0],
        parents=tuple(values.get("parent", ())),
        author=_parse_person(values.get("author", [""])[0]),
        committer=_parse_person(values.get("committer", [""])[0]),
        message=message,
        committed_s=float(match["seconds"]) if match else 0.0,
        is_signed=not SIGNATURES.isdisjoint(values),
    )


def write_import(
    *,
    parent: str | None,
    entries: Mapping[str, TreeEntry],
    files: Mapping[str, bytes],
    message: str,
    author: Identity,
    date_s: int,
    ref: str = DRAFT_REF,
    merged: str = "",
) -> bytes:
    """A `fast-import` stream of one commit on `parent` that sets `files`; it prints the new commit's id.

    Without a parent it is a first commit; `ref` is what comes to point to it. The same arguments give the same
    commit. A file keeps the mode it has in `entries`, a new one gets 100644. `merged` is a second parent.

    Raises InputError for a path that cannot be written.
    """
    if not author.name.strip() or any(sign in author.name + author.email for sign in "<>\n\r\0"):
        raise ConfigurationError(
            f"git.author: expected a name and an email address without angle brackets and line breaks, "
            f"found {author.name!r} and {author.email!r}"
        )
    person = f"{author.name} <{author.email}>"
    text = message.encode() if message.endswith("\n") else f"{message}\n".encode()
    pieces = [
        f"commit {ref}\nmark :1\n".encode(),
        f"author {person} {date_s} +0000\ncommitter {person} {date_s} +0000\n".encode(),
        _block(text),
        b"" if parent is None else f"from {check_object_id(parent)}\n".encode(),
        f"merge {check_object_id(merged)}\n".encode() if merged else b"",
        *(
            f"M {_mode_for(path, entries)} inline {_quote(path)}\n".encode() + _block(content)
            for path, content in sorted(files.items())
        ),
        b"\nget-mark :1\ndone\n",
    ]
    return b"".join(pieces)


def _mode_for(path: str, entries: Mapping[str, TreeEntry]) -> str:
    entry = entries.get(path)
    parts = path.split("/")
    if any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts) or "\0" in path:
        raise InputError(path, 0, "", "cannot be written: the path leaves the repository or is git's own")
    if entry is None:
        _refuse_replacing(path, entries)
        return NEW_FILE_MODE
    if entry.kind is not EntryKind.FILE:
        raise InputError(path, 0, "", f"cannot be written: it is a {entry.kind}; edit the file that it stands for")
    return entry.mode


def _refuse_replacing(path: str, entries: Mapping[str, TreeEntry]) -> None:
    """`fast-import` would put a new file in place of a directory, and a directory in place of a file."""
    parents = accumulate(path.split("/")[:-1], lambda parent, part: f"{parent}/{part}")
    for each in parents:
        if each in entries:
            raise InputError(path, 0, "", f"cannot be written: {each} is a {entries[each].kind}")
    if any(each.startswith(f"{path}/") for each in entries):
        raise InputError(path, 0, "", "cannot be written: it is a directory")


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _block(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _parse_person(text: str) -> Identity:
    match = PERSON.fullmatch(text)
    return Identity(name=match["name"], email=match["email"]) if match else Identity(name=text, email="")


def create_bare(
    directory: Path, *, branch: str, files: Mapping[str, bytes], message: str, author: Identity, date_s: int
) -> str:
    """Make `directory` a bare repository with `files` (path -> content) on `branch`, and return that commit's id.

    The same arguments but for the directory give the same id. Raises ConfigurationError unless `directory` is new or
    empty, InputError for a path that leaves the tree.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_empty = not any(directory.iterdir())
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be made or read: {error.strerror or error}") from error
    if not is_empty:
        raise ConfigurationError(f"{directory}: expected a new or empty directory for a repository")
    ref = branch_ref(branch)
    stream = write_import(parent=None, entries={}, files=files, message=message, author=author, date_s=date_s, ref=ref)
    git = GitCommand(directory=directory.absolute())
    git.run(
        "init", "--bare", "--quiet", "--template=", f"--initial-branch={branch}", "--object-format=sha1",
        action=f"make the repository {directory}",
    )  # fmt: skip
    arguments = ("fast-import", "--quiet", "--done", "--date-format=raw")
    output = git.run(*arguments, action="write the first commit", stdin=stream)
    return check_object_id(output.strip().decode("ascii", "replace"))
