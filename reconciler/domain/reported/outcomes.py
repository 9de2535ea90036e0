"""Outcome: what became of a pull request of ours after somebody merged it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutcome:
    """What one merged change came to; `broken` where it did not do what it was merged for."""

    resource: str
    words: str
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedOutcome:
    """What all changes of one merged pull request came to."""

    number: int
    group: str
    changes: tuple[ChangeOutcome, ...]

    @property
    def is_broken(self) -> bool:
        """Whether any of them did not do what it was merged for."""
        return any(each.broken for each in self.changes)
