"""What a review leaves on a forge: a comment under a pull request, and a word on the commit that was reviewed."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment under a pull request; `key` is the forge's own name for it."""

    key: str
    body: str


class Verdict(StrEnum):
    """What a commit status says. NEUTRAL neither lets pass nor stops; a forge without it shows a success."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatus:
    """One line on a commit, below the name `context`; a later one of that name replaces it."""

    verdict: Verdict
    words: str
    context: str = "reconciler/review"


def check_commit(commit: str) -> None:
    """ValueError for what is no commit: it becomes part of a path."""
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"expected a commit, found {commit[:80]!r}")


class Reviews(Protocol):
    """What reviews leave on a forge: comments, of which only our own are ever read, and commit statuses.

    Errors are those of `Forge`.
    """

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """The comments under a pull request that were written with our credential, the oldest first."""
        ...

    def write_comment(self, number: int, body: str) -> None:
        """Add a comment. Where the answer is lost it may be there all the same, or twice."""
        ...

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """Replace the text of a comment; nothing where it is gone."""
        ...

    def delete_comment(self, number: int, key: str) -> None:
        """Delete a comment; nothing where it is gone."""
        ...

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Show a status on a commit, a fork's too; nothing is sent where it is shown already."""
        ...
