"""One fleet for several runs at a time: which part of it each decides, and its portion of what all of them share."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import Proposal
from reconciler.domain.records import dataclass

MOST_SHARDS = 1000
"""Each of them reads all of Git: more would only repeat that."""
_TEXT = re.compile(r"(0|[1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The run with this index, from 0, of `count` that decide one fleet together."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """`2/4` is the third of four, as an Indexed Job counts; ValueError says what is wrong with anything else."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"expected INDEX/COUNT, as in 0/4 for the first of four, got {text!r}")
        index, count = int(found[1]), int(found[2])
        if count > MOST_SHARDS:
            raise ValueError(f"expected at most {MOST_SHARDS} shards, got {count}")
        if index >= count:
            raise ValueError(f"an index counts from 0: expected 0/{count} to {count - 1}/{count}, got {text}")
        return cls(index=index, count=count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def portion(self, whole: int) -> int:
        """What this shard has of something that all share; the portions of all add up to the whole."""
        return whole * (self.index + 1) // self.count - whole * self.index // self.count


def shard_of(identity: str, count: int) -> int:
    """The index of the shard that something belongs to, by rendezvous hashing of its identity.

    Of what `count` shards have, one more takes its own share alone: nothing moves between those that were there.
    """
    return max(range(count), key=lambda index: hashlib.sha256(f"{index}\0{identity}".encode()).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one shard decides of a fleet, as every other shard computes it from the same commit.

    `namespaces` has the shard of each (cluster, namespace) with variants, `branches` that of each head branch that may
    be of a group or of several groups of a cluster. `split` are clusters of which several shards may decide parts.
    """

    shard: Shard
    namespaces: Mapping[tuple[str, str], int]
    branches: Mapping[str, int]
    split: frozenset[str] = frozenset()
    words: str = field(default="", compare=False)
    """How much of the fleet it is, as a sentence."""

    def holds(self, key: ResourceKey) -> bool:
        """Whether this shard decides about a resource."""
        return self._shard_of(key.cluster, key.namespace) == self.shard.index

    def owns(self, proposal: Proposal) -> bool:
        """Whether a pull request is this shard's to count, to judge and to withdraw.

        By its branch. One of no group that is left is that of the shard which has the namespace of its first change.
        """
        owner = self.branches.get(proposal.head_branch)
        if owner is None and proposal.changes:
            cluster, _, rest = min(each.resource for each in proposal.changes).partition("/")
            owner = self._shard_of(cluster, rest.partition("/")[0])
        if owner is None:
            owner = shard_of(proposal.head_branch, self.shard.count)
        return owner == self.shard.index

    def _shard_of(self, cluster: str, namespace: str) -> int:
        found = self.namespaces.get((cluster, namespace))
        return shard_of(f"{cluster}/{namespace}", self.shard.count) if found is None else found
