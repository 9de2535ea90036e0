"""Entries of a mapping that is inserted into a manifest: node selectors, labels, device limits."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key and the text of its value."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesView:
    """What the templates of inserted mappings print."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorsView:
    """What the template of an order of flavors prints."""

    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEntryView:
    """What the template of a kustomization's count prints."""

    name: str
    count: int


def entries_view(entries: Mapping[str, str]) -> EntriesView:
    """The entries, sorted by key."""
    return EntriesView(entries=tuple(Entry(key=key, value=value) for key, value in sorted(entries.items())))
