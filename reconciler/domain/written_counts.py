"""What Git said before now: how many replicas each variant was to have, and since when."""

from bisect import bisect_right
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCounts:
    """How many replicas the base branch gave a variant: since when (Unix seconds), and how many, the oldest first.

    None is a time of which nobody can tell. `is_whole`: before the first there was no such variant.
    """

    variant: ResourceKey
    counts: tuple[tuple[float, int | None], ...]
    is_whole: bool = False

    def at(self, at_s: float) -> int | None:
        """What it said at a moment; None where that is not known."""
        index = bisect_right(self.counts, at_s, key=_begun_s) - 1
        if index < 0:
            return 0 if self.is_whole else None
        return self.counts[index][1]

    @property
    def changes(self) -> tuple[tuple[float, int], ...]:
        """When another number was written, and what it was before, the oldest first; its first number is no change."""
        pairs = zip(self.counts, self.counts[1:], strict=False)
        return tuple((at_s, before) for (_, before), (at_s, now) in pairs if before is not None and now is not None)


def _begun_s(count: tuple[float, int | None]) -> float:
    return count[0]
