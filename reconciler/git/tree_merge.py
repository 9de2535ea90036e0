"""Merges two trees path by path in memory; nothing is checked out or written."""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from reconciler.errors import ConfigurationError
from reconciler.git.repository import EntryKind, Repository, TreeEntry

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
