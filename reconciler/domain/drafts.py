"""Drafts: a group's edits and texts, proven and ready to be committed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import MovedFile
from reconciler.domain.proposals import ProposedChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """New bytes of each file that one group changes."""

    group: str
    head_branch: str
    decision: str
    files: Mapping[str, bytes]
    changes: tuple[ProposedChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A change set with the texts that propose it."""

    change_set: ChangeSet
    commit_message: str
    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The edits of all groups: change sets that hold, and what was refused or left out."""

    change_sets: tuple[ChangeSet, ...]
    refused: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    """Changes that could not be written, with what is in the way: decide runs again with these variants pinned."""
    omissions: Mapping[ResourceKey, str] = field(default_factory=dict)
    """Status blocks that could not be written, with the reason; the replicas were."""
    moved_in: Mapping[ResourceKey, tuple[MovedFile, ...]] = field(default_factory=dict)
    """The files in which each variant's other accelerator is written."""
