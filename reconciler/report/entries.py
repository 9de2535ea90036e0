"""Entries of a mapping that is inserted into a manifest, and whole patches: selectors, labels, device limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.manifests.documents import Value

_STEP = "  "


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a block of YAML: `indent` ends with a dash where an item begins, which may have no key.

    With `is_open` the value stands on the lines below.
    """

    indent: str
    key: str = ""
    value: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsView:
    """What the template of nested fields prints."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPatchView:
    """What the template of a patch of ours prints: for whom it is, and its fields."""

    kind: str
    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchListView:
    """What the template of a kustomization's list of patches prints."""

    path: str


def lines_of(value: Value) -> tuple[Line, ...]:
    """The lines of a mapping or list of texts, mappings and lists; none of them may be empty."""
    return tuple(_lines(value, ""))


def _lines(value: Value, indent: str) -> Iterator[Line]:
    if isinstance(value, dict):
        for key, member in value.items():
            if isinstance(member, dict | list):
                yield Line(indent=indent, key=key, is_open=True)
                yield from _lines(member, indent + _STEP)
            else:
                yield Line(indent=indent, key=key, value=str(member))
    elif isinstance(value, list):
        for item in value:
            first, *rest = _lines(item, indent + _STEP)
            yield replace(first, indent=f"{indent}- ")
            yield from rest
    else:
        yield Line(indent=indent, value=str(value))


def entries_view(entries: Mapping[str, str]) -> EntriesView:
    """The entries, sorted by key."""
    return EntriesView(entries=tuple(Entry(key=key, value=value) for key, value in sorted(entries.items())))
