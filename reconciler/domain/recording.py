"""Recording: what came back from Git, Prometheus and the forge, byte for byte."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable

from reconciler.domain.answers import Answer
from reconciler.domain.identity import Finding, ResourceKey
from reconciler.domain.proposals import Proposal
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCounts:
    """How many replicas the base branch gave a variant: since when (Unix seconds), and how many, the oldest first.

    None is an unknown time. `is_whole`: before the first there was no such variant.
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
    def running_since_s(self) -> tuple[float | None, bool]:
        """Since when it has had replicas without a break, and whether it had none before: else that is not known."""
        begun_s = None
        for at_s, count in reversed(self.counts):
            if not count:
                return begun_s, count == 0
            begun_s = at_s
        return begun_s, self.is_whole

    @property
    def changes(self) -> tuple[tuple[float, int], ...]:
        """When another number was written, and what it was before, the oldest first; its first number is no change."""
        pairs = zip(self.counts, self.counts[1:], strict=False)
        return tuple((at_s, before) for (_, before), (at_s, now) in pairs if before is not None and now is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidPrices:
    """What a replica of a variant cost an hour by the base branch: since when (Unix seconds), and how much.

    The oldest first; None is an unknown price.
    """

    variant: ResourceKey
    prices: tuple[tuple[float, float | None], ...]

    def at(self, at_s: float) -> float | None:
        """The price of a moment; where it is not known, the oldest known one after it."""
        index = max(bisect_right(self.prices, at_s, key=_begun_s) - 1, 0)
        return next((price for _, price in self.prices[index:] if price is not None), None)


def _begun_s(entry: tuple[float, object]) -> float:
    return entry[0]


RECORDING_VERSION = 3
READ_VERSIONS = (2, RECORDING_VERSION)
"""Formats of recordings that are read; what is read is written again in the newest.

2 held of each pull request a digest of its text, which nothing was decided by.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A file of the base commit that decides something: it holds a document of a kind we read, or a build reads it."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldFile:
    """A file that was not recorded because it holds a Secret; its objects of kinds we read are held."""

    path: str
    objects: tuple[ResourceKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The input of a decision. `now_s` is Unix seconds; `repository` never holds credentials.

    `unread` says of files that were not read at all (links, giants) that they were not. `paths` are all YAML files of
    the commit: what a kustomization names may be there without deciding anything. `obstructed` are paths with such a
    name at which there is something else: a link, a submodule, a directory, a file that is left out. `committed_s` is
    when the commit was made, None in recordings that do not say.
    """

    now_s: float
    repository: str
    branch: str
    commit: str
    settings: Settings
    manifests: tuple[ManifestFile, ...]
    withheld: tuple[WithheldFile, ...]
    unread: tuple[Finding, ...]
    answers: tuple[Answer, ...]
    proposals: tuple[Proposal, ...]
    paths: tuple[str, ...] = ()
    obstructed: tuple[str, ...] = ()
    committed_s: float | None = None
    written: tuple[WrittenCounts, ...] = ()
    """What Git said of variants before, where a rule asks for it and it is known."""
    paid: tuple[PaidPrices, ...] = ()
    """What replicas cost before, of the variants of budgets of a day or a month; the others cost what they do now."""
    moved: tuple[ResourceKey, ...] | None = None
    """Variants whose accelerator or profiles changed within the history that profiles are checked by; None: unknown."""


def fingerprint_of(digests: Iterable[tuple[str, str]]) -> str:
    """sha256 over the sorted (name, sha256 of content) of a recording's entries, in hexadecimal."""
    total = hashlib.sha256()
    for name, digest in sorted(digests):
        total.update(f"{name}\0{digest}\n".encode())
    return total.hexdigest()
