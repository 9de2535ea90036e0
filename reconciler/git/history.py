"""The first-parent history of a commit, and merges of trees path by path, in memory."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path, PurePosixPath

from reconciler.errors import ConfigurationError
from reconciler.git.repository import EntryKind, Repository, TreeEntry, check_object_id

COMMIT, ENTRY = b"\x01", b":"
RENAMED = (b"R", b"C")
CLOCKS_DIFFER_S = 86400.0
"""Commits bear the times of many machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """A file that a commit changed: what it was called before, and what was in it (empty: it was not there)."""

    path: str
    path_before: str
    oid_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCommit:
    """A commit on the way of first parents: when it came (Unix seconds), and what it changed."""

    at_s: float
    changes: tuple[PastChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Commits, the newest first; `since_s` is the time from which nothing is missing."""

    commits: tuple[PastCommit, ...]
    since_s: float


def read_history(repository: Repository, since_s: float) -> History:
    """What changed since then, as far as it is here: a merge counts as one change, at its own time.

    No commit is newer than the one after it: clocks differ.
    """
    arguments = ("log", "--first-parent", "-m", "--raw", "-z", "--no-abbrev", "-M", "--format=%x01%ct %P")
    begin_s = max(since_s - CLOCKS_DIFFER_S, 0.0)
    since = f"--since=@{begin_s:.0f}"
    output = repository.git.run(*arguments, since, "--end-of-options", repository.commit, action="read the history")
    found = list(_records(iter(output.split(b"\0"))))
    times = accumulate((float(time) for (time, *_), _ in found), min)
    commits = [PastCommit(at_s=at_s, changes=tuple(changes)) for at_s, (_, changes) in zip(times, found, strict=True)]
    has_parent = not found or len(found[-1][0]) > 1
    if not has_parent and repository.is_shallow():
        # What the last one changed is not known: its parent is not here.
        return History(commits=tuple(commits[:-1]), since_s=max(begin_s, commits[-1].at_s))
    return History(commits=tuple(commits), since_s=begin_s)


def _records(tokens: Iterator[bytes]) -> Iterator[tuple[list[bytes], list[PastChange]]]:
    """Time and parents, and the changes, of each commit of `git log --raw -z`."""
    head: list[bytes] | None = None
    changes: list[PastChange] = []
    for token in tokens:
        text = token.lstrip(b"\n")
        if text.startswith(COMMIT):
            if head is not None:
                yield head, changes
            head, changes = text[1:].split(), []
        elif text.startswith(ENTRY):
            _, _, oid_before, _, status = text[1:].split(b" ")
            before = next(tokens)
            after = next(tokens) if status.startswith(RENAMED) else before
            changes.append(PastChange(path=_text(after), path_before=_text(before), oid_before=_object_id(oid_before)))
    if head is not None:
        yield head, changes


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _object_id(oid: bytes) -> str:
    return check_object_id(oid.decode("ascii", "replace")) if oid.strip(b"0") else ""


def commit_at(repository: Repository, at_s: float) -> str | None:
    """Return the commit of the base that was its newest at a time (Unix seconds); None where it is not here."""
    arguments = ("rev-list", "--first-parent", "--max-count=1", f"--before=@{max(at_s, EARLIEST_S):.0f}")
    output = repository.git.run(*arguments, "--end-of-options", repository.commit, action="read the history")
    return _object_id(output.strip()) or None


MOST_COMMITS = 20_000
EARLIEST_S = 100_000_000.0
"""Smaller numbers git takes for something else than seconds."""
FIELDS = ("%H", "%ct", "%P", "%B")
MAX_MESSAGE_LENGTH = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """A commit that the base holds; `at_s` is Unix seconds, the message hostile text."""

    oid: str
    at_s: float
    parents: tuple[str, ...]
    message: str


def read_log(repository: Repository, since_s: float) -> tuple[LoggedCommit, ...]:
    """The commits since then, merged ones too: children before their parents."""
    arguments = ("log", "--topo-order", "-z", f"--max-count={MOST_COMMITS}", f"--format={'%x00'.join(FIELDS)}")
    since = f"--since=@{max(since_s, EARLIEST_S):.0f}"
    output = repository.git.run(*arguments, since, "--end-of-options", repository.commit, action="read the log")
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    return tuple(
        LoggedCommit(
            oid=check_object_id(oid),
            at_s=float(time),
            parents=tuple(parents.split()),
            message=message[:MAX_MESSAGE_LENGTH],
        )
        for oid, time, parents, message in zip(fields, fields, fields, fields, strict=False)
    )


Tree = Mapping[str, TreeEntry]
MERGED_BYTES = 1024 * 1024
"""Larger files are taken as the head has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A head as merging it would leave it; what is in `conflicts` is as the head has it."""

    repository: Repository
    conflicts: tuple[str, ...]
    touched: tuple[TreeEntry, ...]
    """What it adds and changes."""


def merge_into(base: Repository, head: Repository) -> Merged:
    """What merging `head` into `base` would leave: what it did not touch is the base's, what both changed is merged.

    Raises ConfigurationError where they have no common ancestor: what the head changed cannot be known.
    """
    ancestor = head.common_ancestor(base.commit)
    if ancestor is None:
        raise ConfigurationError(
            f"{head.commit[:7]} and its base {base.commit[:7]} have no common ancestor here: fetch their whole history "
            "(fetch-depth: 0, GIT_DEPTH: 0)"
        )
    before, ours, theirs = (
        {entry.path: entry for entry in repository.list_files(commit)}
        for repository, commit in ((head, ancestor), (head, head.commit), (base, base.commit))
    )
    touched = sorted(path for path in before.keys() | ours.keys() if not _same(before.get(path), ours.get(path)))
    merged, contents, conflicts = dict(theirs), dict[str, bytes](), []
    for path in touched:
        old, new, other = before.get(path), ours.get(path), theirs.get(path)
        if new is None:
            merged.pop(path, None)
        else:
            merged[path] = new
        if _same(other, old) or _same(other, new):
            continue
        content = _merge_entries(head, old, new, other)
        if content is None or new is None:
            conflicts.append(path)
        else:
            # the id that git would give the blob
            digest = hashlib.sha256() if len(new.oid) == 64 else hashlib.sha1(usedforsecurity=False)
            digest.update(b"blob %d\0" % len(content) + content)
            oid = digest.hexdigest()
            contents[oid] = content
            merged[path] = replace(new, oid=oid, size_bytes=len(content))
    entries = (merged[path] for path in sorted(merged))
    return Merged(
        repository=head.with_tree(entries, contents),
        conflicts=tuple(conflicts),
        touched=tuple(merged[path] for path in touched if path in merged),
    )


def _merge_entries(
    repository: Repository, old: TreeEntry | None, new: TreeEntry | None, other: TreeEntry | None
) -> bytes | None:
    if old is None or new is None or other is None:
        return None
    if {old.kind, new.kind, other.kind} != {EntryKind.FILE}:
        return None
    if max(each.size_bytes for each in (old, new, other)) > MERGED_BYTES:
        return None
    return merge_contents(repository, old.oid, new.oid, other.oid)


def merges_cleanly(repository: Repository, parent: Tree, head: Tree, onto: Tree) -> bool:
    """Three-way merge of `head` and `onto` over `parent` without a conflict; a file changed and deleted is one."""
    changed = sorted(path for path in parent.keys() | head.keys() if not _same(parent.get(path), head.get(path)))
    added = [path for path in changed if path in head and path not in onto]
    if _files_meet_folders(added, onto):
        return False
    return all(_path_merges(repository, parent.get(path), head.get(path), onto.get(path)) for path in changed)


def merged_files(repository: Repository, parent: Tree, head: Tree, onto: Tree) -> dict[str, bytes] | None:
    """The files of `onto` that a merge of `head` changes; None where it has a conflict, or removes one."""
    changed = sorted(path for path in parent.keys() | head.keys() if not _same(parent.get(path), head.get(path)))
    if any(path not in head for path in changed) or not merges_cleanly(repository, parent, head, onto):
        return None
    news = [path for path in changed if not _same(onto.get(path), head.get(path))]
    files = dict(repository.read_files([head[path].oid for path in news]))
    found = {path: files[head[path].oid] for path in news}
    for path in news:
        if not _same(onto.get(path), parent.get(path)):
            found[path] = merge_contents(repository, parent[path].oid, head[path].oid, onto[path].oid) or b""
    return found


def _path_merges(
    repository: Repository, parent: TreeEntry | None, head: TreeEntry | None, onto: TreeEntry | None
) -> bool:
    if _same(onto, parent) or _same(onto, head):
        return True
    if parent is None or head is None or onto is None:
        return False
    if {parent.kind, head.kind, onto.kind} != {EntryKind.FILE}:
        return False
    if parent.oid in {head.oid, onto.oid} or head.oid == onto.oid:
        return True
    return merge_contents(repository, parent.oid, head.oid, onto.oid) is not None


def merge_contents(repository: Repository, parent: str, head: str, onto: str) -> bytes | None:
    """What both made of one file, by the object ids of its three states; None where that conflicts."""
    contents = dict(repository.read_files([parent, head, onto]))
    with tempfile.TemporaryDirectory(prefix="reconciler-merge-") as folder:
        # Names of ours: a path of the tree never meets the file system.
        files = {name: Path(folder, name) for name in ("head", "parent", "onto")}
        for name, oid in (("head", head), ("parent", parent), ("onto", onto)):
            files[name].write_bytes(contents[oid])
        paths = [str(path) for path in files.values()]
        # 0 is clean, 1 to 127 counts conflicts, more is an error such as a binary file
        done = repository.git.attempt("merge-file", "-p", "--", *paths, action="try the merge")
        return done.stdout if done.status == 0 else None


def _files_meet_folders(added: Iterable[str], onto: Tree) -> bool:
    added = list(added)
    if not added:
        return False
    folders = {str(folder) for path in onto for folder in PurePosixPath(path).parents}
    return any(path in folders or any(str(folder) in onto for folder in PurePosixPath(path).parents) for path in added)


def _same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    return (one and (one.mode, one.oid)) == (other and (other.mode, other.oid))
