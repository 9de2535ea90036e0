"""Our merges of each variant, as their pull requests tell them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.inventory import Allocation
from reconciler.domain.promises import Promise
from reconciler.domain.proposals import ProposalState, ProposedChange
from reconciler.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a merged pull request did to one variant at `at_s` (Unix seconds), and what it promised, if anything."""

    number: int
    at_s: float
    change: ProposedChange
    promise: Promise | None

    def before(self, current: Allocation) -> Allocation:
        """What the variant had; an accelerator that was not known is the one that it runs on."""
        return Allocation(
            accelerator=self.change.accelerator_before or current.accelerator, replicas=self.change.replicas_before
        )

    @property
    def is_move(self) -> bool:
        """Whether it went from one known accelerator to another."""
        names = self.change.accelerator_before, self.change.accelerator_after
        return all(names) and names[0] != names[1]

    @property
    def takes_away(self) -> bool:
        """Whether it may have left less capacity, and something that is measured."""
        return self.change.replicas_after > 0 and (
            self.is_move or self.change.replicas_after < self.change.replicas_before
        )


def merges_of(snapshot: Snapshot) -> Mapping[str, Sequence[Merge]]:
    """By str of a variant's key, its merges, the newest last."""
    found: dict[str, list[Merge]] = {}
    for proposal in snapshot.proposals:
        at_s, promises = proposal.closed_at_s, {each.resource: each for each in proposal.promises}
        if proposal.state is not ProposalState.MERGED or at_s is None or at_s > snapshot.now_s:
            continue
        for change in proposal.changes:
            promise = promises.get(change.resource)
            merge = Merge(number=proposal.number, at_s=at_s, change=change, promise=promise)
            found.setdefault(change.resource, []).append(merge)
    return {key: sorted(each, key=lambda merge: (merge.at_s, merge.number)) for key, each in found.items()}
