"""The first-parent history of a commit, and merges of trees path by path, in memory."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path, PurePosixPath

from reconciler.domain.records import dataclass, replace
from reconciler.errors import ConfigurationError
from reconciler.git.repository import EntryKind, Repository, TreeEntry, check_object_id

COMMIT, ENTRY = b"\x01", b":"
RENAMED = (b"R", b"C")
CLOCKS_DIFFER_S = 86400.0
"""The clocks of committers differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """A file that a commit changed: its name before, and its content before (empty if it is new)."""

    path: str
    path_before: str
    oid_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCommit:
    """A first-parent commit: its time (Unix seconds), the commit before it (empty: none) and its changes."""

    at_s: float
    parent: str
    changes: tuple[PastChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Commits, the newest first, complete since `since_s`."""

    commits: tuple[PastCommit, ...]
    since_s: float


def read_history(repository: Repository, since_s: float) -> History:
    """The fetched changes since then; a merge counts as one change, at its own time.

    No commit is newer than the one after it, even if clocks differ.
    """
    arguments = ("log", "--first-parent", "-m", "--raw", "-z", "--no-abbrev", "-M", "--format=%x01%ct %P")
    begin_s = max(since_s - CLOCKS_DIFFER_S, 0.0)
    since = f"--since=@{begin_s:.0f}"
    output = repository.git.run(*arguments, since, "--end-of-options", repository.commit, action="read the history")
    found = list(_records(iter(output.split(b"\0"))))
    times = accumulate((float(time) for (time, *_), _ in found), min)
    commits = [
        PastCommit(at_s=at_s, parent=_object_id(parents[0]) if parents else "", changes=tuple(changes))
        for at_s, ((_, *parents), changes) in zip(times, found, strict=True)
    ]
    has_parent = not found or len(found[-1][0]) > 1
    if not has_parent and repository.is_shallow():
        # The changes of the last one are not known, as its parent was not fetched.
        return History(commits=tuple(commits[:-1]), since_s=max(begin_s, commits[-1].at_s))
    return History(commits=tuple(commits), since_s=begin_s)


def _records(tokens: Iterator[bytes]) -> Iterator[tuple[list[bytes], list[PastChange]]]:
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
    """The newest commit of the base at a time (Unix seconds); None if it was not fetched."""
    arguments = ("rev-list", "--first-parent", "--max-count=1", f"--before=@{max(at_s, EARLIEST_S):.0f}")
    output = repository.git.run(*arguments, "--end-of-options", repository.commit, action="read the history")
    return _object_id(output.strip()) or None


MOST_COMMITS = 20_000
EARLIEST_S = 100_000_000.0
"""Git does not read smaller numbers as seconds."""
FIELDS = ("%H", "%ct", "%P", "%B")
MAX_MESSAGE_LENGTH = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """A commit of the base; `at_s` is Unix seconds, the message hostile text."""

    oid: str
    at_s: float
    parents: tuple[str, ...]
    message: str


def read_log(repository: Repository, since_s: float) -> tuple[LoggedCommit, ...]:
    """The commits since then, including merged ones, children before their parents."""
    arguments = ("log", "--topo-order", "-z", f"--max-count={MOST_COMMITS}", f"--format={'%x00'.join(FIELDS)}")
    since = f"--since=@{max(since_s, EARLIEST_S):.0f}"
    output = repository.git.run(*arguments, since, "--end-of-options", repository.commit, action="read the log")
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    found = []
    for oid, time, parents, message in zip(fields, fields, fields, fields, strict=False):
        commit, text = check_object_id(oid), message[:MAX_MESSAGE_LENGTH]
        found.append(LoggedCommit(oid=commit, at_s=float(time), parents=tuple(parents.split()), message=text))
    return tuple(found)


Tree = Mapping[str, TreeEntry]
MERGED_BYTES = 1024 * 1024
"""Larger files are not merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of merging a head; files with `conflicts` are those of the head."""

    repository: Repository
    conflicts: tuple[str, ...]
    touched: tuple[TreeEntry, ...]
    """Files that it adds or changes."""


def merge_into(base: Repository, head: Repository) -> Merged:
    """The result of merging `head` into `base`, without writing it.

    Raises ConfigurationError without a common ancestor, as the changes of the head are then unknown.
    """
    ancestor = head.common_ancestor(base.commit)
    if ancestor is None:
        raise ConfigurationError(
            f"{head.commit[:7]} and its base {base.commit[:7]} have no common ancestor here: fetch their whole history "
            "(fetch-depth: 0, GIT_DEPTH: 0)"
        )
    theirs, ours = ({entry.path: entry for entry in each.list_files(each.commit)} for each in (base, head))
    is_newest = ancestor == base.commit  # as of nearly all heads: it has been listed
    before = theirs if is_newest else {entry.path: entry for entry in head.list_files(ancestor)}
    touched = _changed(before, ours)
    merged, contents, conflicts = dict(theirs), dict[str, bytes](), []
    for path in touched:
        old, new, other = before.get(path), ours.get(path), theirs.get(path)
        if new is None:
            merged.pop(path, None)
        else:
            merged[path] = new
        if _same(other, old) or _same(other, new):
            continue
        content, three = None, (old, new, other)
        if all(each is not None and each.size_bytes <= MERGED_BYTES for each in three):
            content = _merge_entries(head, *three)
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
    repository: Repository, parent: TreeEntry | None, head: TreeEntry | None, onto: TreeEntry | None
) -> bytes | None:
    if parent is None or head is None or onto is None or {parent.kind, head.kind, onto.kind} != {EntryKind.FILE}:
        return None
    return merge_contents(repository, parent.oid, head.oid, onto.oid)


def _changed(before: Tree, after: Tree) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if not _same(before.get(path), after.get(path)))


def merges_cleanly(repository: Repository, parent: Tree, head: Tree, onto: Tree) -> bool:
    """Whether `head` and `onto` merge over `parent` without a conflict, such as a changed and deleted file."""
    changed = _changed(parent, head)
    added = [path for path in changed if path in head and path not in onto]
    if _files_meet_folders(added, onto):
        return False
    return all(_path_merges(repository, parent.get(path), head.get(path), onto.get(path)) for path in changed)


def merged_files(repository: Repository, parent: Tree, head: Tree, onto: Tree) -> dict[str, bytes] | None:
    """The files of `onto` that a merge of `head` changes; None if it has a conflict, or removes a file."""
    changed = _changed(parent, head)
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
    files = [each.oid for each in (parent, head, onto) if each is not None and each.kind is EntryKind.FILE]
    return len(files) == 3 and (len(set(files)) < 3 or merge_contents(repository, *files) is not None)


def merge_contents(repository: Repository, parent: str, head: str, onto: str) -> bytes | None:
    """The merge of one file, by the object ids of its three states; None for a conflict."""
    contents = dict(repository.read_files([parent, head, onto]))
    with tempfile.TemporaryDirectory(prefix="reconciler-merge-") as folder:
        # With names of ours: paths of the tree are never used in the file system.
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
