"""Our pull requests as decide sees them: what they propose and promise, and what became of them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedLatency:
    """A target that was to be kept; `name` is itl, wait or ttft, times are in seconds, None was not known.

    `expected_s` is the forecast in the target's own `statistic`, `mean_s` the forecast mean, which is what is measured;
    `measured_s` the mean that was measured before the change.
    """

    name: str
    statistic: str
    target_s: float
    expected_s: float | None = None
    mean_s: float | None = None
    measured_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What was forecast of one changed variant; `resource` is str(ResourceKey), None was not known.

    `demand` is the share of the model's demand that the variant was to serve and `capacity` what it was to carry, in
    `unit`. The load is what was measured of the whole model then, without headroom. `reverts` numbers the pull request
    that the change takes back. Of an autoscaler's setting, on `days` of history: `cost_ratio` is what it was to cost by
    what it cost, attainment the fraction of requests inside their targets, before and with it. Where a forecast
    decided, nine times in ten at most `expected_per_s` was to arrive for the model between two times (Unix seconds).
    """

    resource: str
    unit: str
    demand: float | None = None
    capacity: float | None = None
    cost_per_hour: float | None = None
    arrival_rate_per_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    days: float | None = None
    cost_ratio: float | None = None
    attainment_before: float | None = None
    attainment: float | None = None
    expected_per_s: float | None = None
    expected_since_s: float | None = None
    expected_until_s: float | None = None
    latencies: tuple[PromisedLatency, ...] = ()
    reverts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPromise:
    """A merged pull request of ours that broke what it promised of a variant, which had `before` and got `after`.

    `least` is how many replicas the variant keeps for it, where it stays on its accelerator. `reverted_by` numbers the
    pull request that took the change back (None: none did yet): then it is remembered, so that it does not return.
    """

    number: int
    before: Allocation
    after: Allocation
    least: int
    words: str
    reverted_by: int | None = None

    @property
    def is_move(self) -> bool:
        """Whether it moved the variant to another accelerator."""
        return self.before.accelerator != self.after.accelerator


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


STOP_LABEL = "stop-updating"
"""A person's word that a pull request is theirs now."""


class Part(StrEnum):
    """The pull requests of one group, in the order in which they matter, each with its own branch.

    CANARY starts or ends one replica on an accelerator that nobody tried. STATUS changes nothing: it brings conditions
    that flipped into the cluster.
    """

    URGENT = "urgent"
    APPROVAL = "approval"
    AUTO = "auto"
    CANARY = "canary"
    STATUS = "status"


_SLUG_LIMIT = 60


def head_branch(prefix: str, group: str, part: Part) -> str:
    """`prefix` + the group's name made safe and cut at 60 + the part + 8 hex digits of sha256 over both."""
    identity = "\0".join((group, part))
    return f"{prefix}{_slug(group)}-{part}-{_digest(identity)}"


def undivided_branch(prefix: str, group: str) -> str:
    """The branch of a group from before it had parts; what is open there is the part that needs approval."""
    return f"{prefix}{_slug(group)}-{_digest(group)}"


def branches_of(prefix: str, group: str) -> tuple[str, ...]:
    """Every branch that may be this group's."""
    return (*(head_branch(prefix, group, part) for part in Part), undivided_branch(prefix, group))


LANES = 3
"""Of collected pull requests of a cluster, so that more can be opened while one stays as it stands."""


def collected_groups(cluster: str) -> tuple[str, ...]:
    """The names under which changes of several groups of a cluster are proposed together, the first preferred."""
    return tuple(f"{cluster}/several groups{'' if lane == 1 else f' {lane}'}" for lane in range(1, LANES + 1))


def _slug(group: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", group.lower())[:_SLUG_LIMIT]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class ProposalState(StrEnum):
    """The state of our pull request. CLOSED is by a person; WITHDRAWN is by us."""

    OPEN = "open"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProposedChange:
    """What a proposal does to one variant; `resource` is str(ResourceKey)."""

    resource: str
    replicas_before: int
    replicas_after: int
    accelerator_before: str
    accelerator_after: str
    scaling_before: str = ""
    scaling_after: str = ""

    @property
    def is_tuning(self) -> bool:
        """Whether it changes the setting of an autoscaler."""
        return self.scaling_before != self.scaling_after

    def begins_at(self, current: Allocation) -> bool:
        """Whether Git still has what it changes; else somebody has changed the same number since."""
        names = self.accelerator_before, current.accelerator
        is_same_scaling = not self.is_tuning or self.scaling_before == current.scaling
        return self.replicas_before == current.replicas and is_same_scaling and (not all(names) or names[0] == names[1])

    def merged(self, current: Allocation) -> Allocation:
        """What the variant would have, were it merged; empty names no accelerator, so it keeps the one it runs on."""
        return Allocation(
            accelerator=self.accelerator_after or current.accelerator,
            replicas=self.replicas_after,
            scaling=self.scaling_after if self.is_tuning else current.scaling,
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ConditionFlip:
    """A condition of a variant whose status is no longer what Git says, although nothing of the variant changes."""

    variant: ResourceKey
    type: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One pull request of ours.

    `decision` is the fingerprint its hidden marker carries, `branch_decision` the one of its head branch's commit
    (empty: no branch, or a commit without our trailer). `changes` and `promises` (one a change, or none) come from the
    marker, which anybody may have edited: they can only make us do less. `touched_by` names a person whose commit is on
    the branch, or who opened it. Times are Unix seconds: `opened_at_s` is None where the forge does not say, `pushes_s`
    are those of the last hour's pushes as far as its branch tells them, and at least the last one's; `reverted_at_s` is
    when a person took back what was merged. `merges`: its text says that it merges by itself.
    """

    group: str
    number: int
    state: ProposalState
    head_branch: str
    decision: str
    changes: tuple[ProposedChange, ...] = ()
    promises: tuple[Promise, ...] = ()
    head_commit: str = ""
    branch_decision: str = ""
    touched_by: str = ""
    labels: tuple[str, ...] = ()
    in_merge_queue: bool = False
    closed_at_s: float | None = None
    opened_at_s: float | None = None
    pushes_s: tuple[float, ...] = ()
    reverted_at_s: float | None = None
    title: str = ""
    url: str = ""
    merges: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it may still be merged."""
        return self.state is ProposalState.OPEN

    @property
    def is_left_alone(self) -> bool:
        """Whether a person or the forge is changing it: then it is not updated."""
        return bool(self.touched_by) or STOP_LABEL in self.labels or self.in_merge_queue

    def merged(self, current: Mapping[ResourceKey, Allocation]) -> dict[ResourceKey, Allocation]:
        """What the variants that have `current` would have, were it merged.

        What it says nothing of stays: so does an accelerator that was not known when it was proposed.
        """
        changes = {change.resource: change for change in self.changes}
        return {
            key: now if (change := changes.get(str(key))) is None else change.merged(now)
            for key, now in current.items()
        }

    def says(self, desired: Mapping[ResourceKey, Allocation], current: Mapping[ResourceKey, Allocation]) -> bool:
        """Whether merging it makes what is `desired` of what all variants have now, and changes no other variant."""
        told = {change.resource for change in self.changes}
        named = {key: now for key, now in current.items() if str(key) in told}
        return len(named) == len(told) and self.merged(named) == {**named, **desired}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedFile:
    """A file in which another accelerator is written: `is_patch` a patch of ours, `is_new` not there yet."""

    path: str
    is_patch: bool = False
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """New bytes of each file that one pull request changes; `flips` are what one of part STATUS tells."""

    group: str
    part: Part
    head_branch: str
    decision: str
    files: Mapping[str, bytes]
    changes: tuple[ProposedChange, ...]
    flips: tuple[ConditionFlip, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A change set with the texts that propose it."""

    change_set: ChangeSet
    commit_message: str
    title: str
    body: str
    labels: tuple[str, ...] = ()
    unfit_labels: tuple[str, ...] = ()
    """What only we set, and no longer fits."""
    reviewers: tuple[str, ...] = ()
    """Reviewers that rules request, besides those of the settings."""
    merges: bool = False
    """Whether its text says that it merges by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The edits of all pull requests: change sets that hold, and what was refused or left out."""

    change_sets: tuple[ChangeSet, ...]
    refused: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    """Changes that could not be written, with what is in the way: decide runs again with these variants pinned."""
    bonds: frozenset[frozenset[ResourceKey]] = frozenset()
    """Changes whose edits touch each other in a file: decide runs again, so that one pull request holds them."""
    omissions: Mapping[ResourceKey, str] = field(default_factory=dict)
    """Status blocks that could not be written, with the reason; the replicas were."""
    moved_in: Mapping[ResourceKey, tuple[MovedFile, ...]] = field(default_factory=dict)
    """The files in which each variant's other accelerator is written."""
