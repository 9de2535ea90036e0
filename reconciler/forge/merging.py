"""Merging: what became of an order to merge a pull request, which a forge obeys only as far as its rules allow."""

from dataclasses import dataclass
from enum import StrEnum


class MergeState(StrEnum):
    """MERGED is done; SCHEDULED: the forge does it once its rules are met; WAITING: not now; LEFT_TO_GIT: by a push."""

    MERGED = "merged"
    SCHEDULED = "scheduled"
    WAITING = "waiting"
    LEFT_TO_GIT = "left to git"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAnswer:
    """How it stands after the order; `words` say what it waits for."""

    state: MergeState
    words: str = ""


def waiting(words: str) -> MergeAnswer:
    """The answer that nothing was merged, and why."""
    return MergeAnswer(state=MergeState.WAITING, words=words)
