"""Which changes cannot be merged apart: their edits touch each other in a file, so the second would conflict."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import ChangeSet

Bodies = Callable[[ChangeSet, str], Iterable[tuple[ResourceKey, bytes]]]
"""What each variant of a change set makes of a file by itself."""


class _Hunk(NamedTuple):
    """Lines of a file before the change, `end` excluded, with whose change it is."""

    start: int
    end: int
    variant: ResourceKey
    head_branch: str


def find_touching(
    change_sets: Iterable[ChangeSet], bodies: Bodies, files: Mapping[str, bytes]
) -> Iterator[frozenset[ResourceKey]]:
    """The variants of one group whose edits touch across its pull requests."""
    groups: dict[tuple[str, str], list[ChangeSet]] = {}
    for each in change_sets:
        for path in each.files:
            groups.setdefault((each.group, path), []).append(each)
    for (_, path), sharing in groups.items():
        if len(sharing) > 1:
            hunks = (hunk for each in sharing for hunk in _hunks(each, path, bodies, files.get(path, b"")))
            yield from _meeting(sorted(hunks))


def _hunks(change_set: ChangeSet, path: str, bodies: Bodies, before: bytes) -> Iterator[_Hunk]:
    old = before.splitlines()
    for variant, body in bodies(change_set, path):
        for start, end in _changed(old, body.splitlines()):
            yield _Hunk(start, end, variant, change_set.head_branch)


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """The lines of `old` that differ; what both begin and end with is not looked at twice, for files are long."""
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    rest = min(len(old), len(new)) - head
    ends = zip(reversed(old), reversed(new), strict=False)
    tail = min(rest, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends)))
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    yield from ((head + a, head + b) for kind, a, b, _, _ in matcher.get_opcodes() if kind != "equal")


def _meeting(hunks: Iterable[_Hunk]) -> Iterator[frozenset[ResourceKey]]:
    """The variants of hunks without a line between them, where these are of several pull requests."""
    cluster: list[_Hunk] = []
    for hunk in (*hunks, None):
        if hunk is not None and cluster and hunk.start <= max(each.end for each in cluster):
            cluster.append(hunk)
            continue
        if len({each.head_branch for each in cluster}) > 1:
            yield frozenset(each.variant for each in cluster)
        cluster = [] if hunk is None else [hunk]
