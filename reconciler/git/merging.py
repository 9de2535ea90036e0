"""Whether one commit still merges, path by path: works in a shallow clone, where `git merge-tree` finds no base."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from reconciler.git.repository import EntryKind, Repository, TreeEntry

Tree = Mapping[str, TreeEntry]


def merges_cleanly(repository: Repository, parent: Tree, head: Tree, onto: Tree) -> bool:
    """Three-way merge of `head` and `onto` over `parent` without a conflict; a file changed and deleted is one."""
    changed = sorted(path for path in parent.keys() | head.keys() if not _same(parent.get(path), head.get(path)))
    added = [path for path in changed if path in head and path not in onto]
    if _files_meet_folders(added, onto):
        return False
    return all(_path_merges(repository, parent.get(path), head.get(path), onto.get(path)) for path in changed)


def _path_merges(
    repository: Repository, parent: TreeEntry | None, head: TreeEntry | None, onto: TreeEntry | None
) -> bool:
    if _same(onto, parent) or _same(onto, head):
        return True
    if parent is None or head is None or onto is None:
        return False
    if {parent.kind, head.kind, onto.kind} != {EntryKind.FILE}:
        return False
    return _contents_merge(repository, parent.oid, head.oid, onto.oid)


def _contents_merge(repository: Repository, parent: str, head: str, onto: str) -> bool:
    if parent in {head, onto} or head == onto:
        return True
    contents = dict(repository.read_files([parent, head, onto]))
    with tempfile.TemporaryDirectory(prefix="reconciler-merge-") as folder:
        # Names of ours: a path of the tree never meets the file system.
        files = {name: Path(folder, name) for name in ("head", "parent", "onto")}
        for name, oid in (("head", head), ("parent", parent), ("onto", onto)):
            files[name].write_bytes(contents[oid])
        paths = [str(path) for path in files.values()]
        # 0 is clean, 1 to 127 counts conflicts, more is an error such as a binary file
        return repository.git.attempt("merge-file", "-p", "--", *paths, action="try the merge").status == 0


def _files_meet_folders(added: Iterable[str], onto: Tree) -> bool:
    added = list(added)
    if not added:
        return False
    folders = {str(folder) for path in onto for folder in PurePosixPath(path).parents}
    return any(path in folders or any(str(folder) in onto for folder in PurePosixPath(path).parents) for path in added)


def _same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    return (one and (one.mode, one.oid)) == (other and (other.mode, other.oid))
