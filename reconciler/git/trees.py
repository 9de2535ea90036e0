"""What a commit's tree holds, read from git's machine-readable output; no path of it ever meets the file system."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from reconciler.errors import ConfigurationError

REGULAR_MODES = frozenset({"100644", "100755", "100664"})


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
