"""The first-parent history of a commit: messages, when files changed, and what they were before."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from reconciler.git.repository import Repository, check_object_id

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
