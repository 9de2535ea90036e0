"""Commits of the base with their messages, as far back as they are here."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.git.refs import check_object_id
from reconciler.git.repository import Repository

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
    """The commits since then, on whatever way they came to the base: children before their parents."""
    arguments = ("log", "--topo-order", "-z", f"--max-count={MOST_COMMITS}", f"--format={'%x00'.join(FIELDS)}")
    since = f"--since=@{max(since_s, EARLIEST_S):.0f}"
    output = repository.git.run(*arguments, since, "--end-of-options", repository.commit, action="read the log")
    return tuple(_commits(iter(output.decode("utf-8", "replace").split("\0"))))


def _commits(fields: Iterator[str]) -> Iterator[LoggedCommit]:
    for oid, time, parents, message in zip(fields, fields, fields, fields, strict=False):
        yield LoggedCommit(
            oid=check_object_id(oid),
            at_s=float(time),
            parents=tuple(parents.split()),
            message=message[:MAX_MESSAGE_LENGTH],
        )
