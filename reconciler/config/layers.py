"""Layers: one tree per configuration file, every value with its place and author, laid over one another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.records import dataclass
from reconciler.manifests.documents import Document, Value
from reconciler.manifests.wording import Field, describe, name_field

API_VERSION = "reconciler.io/v1alpha1"
KIND = "Configuration"

APPENDED = frozenset({"overrides", "policies", "workloads"})

REPLACED_WHOLE = frozenset({
    "matchLabels", "headers", "queries", "autoscalerMetrics", "nodeSelector", "labels",
    "bearerToken", "password", "ca", "cert", "key", "token",
})  # fmt: skip
"""Mappings whose keys are not ours, and references to secrets: half of one and half of another means nothing."""

KEYS = ("name", "id")

KEYED_BY_ACCELERATOR = frozenset({"profiles"})
"""Lists that merge by accelerator, each item replaced whole: half of one measurement and half of another is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedValue:
    """A value with the place it was written at, and whether the operator (not the repository) wrote it."""

    value: Mapping[str, PlacedValue] | tuple[PlacedValue, ...] | str | int | float | None
    place: Place
    by_operator: bool = False

    @property
    def plain(self) -> object:
        """The value as plain mappings, lists and scalars."""
        if isinstance(self.value, Mapping):
            return {key: child.plain for key, child in self.value.items()}
        return [child.plain for child in self.value] if isinstance(self.value, tuple) else self.value

    @property
    def key(self) -> str:
        """Its name or id; empty without one."""
        return self._text_at(*KEYS)

    def key_in(self, field: str) -> str:
        """What an item of the list `field` is merged by; empty without it."""
        return self._text_at("accelerator") if field in KEYED_BY_ACCELERATOR else self.key

    def _text_at(self, *names: str) -> str:
        return (
            next((text for name in names if isinstance(text := self.at(name).value, str)), "") if self.members else ""
        )

    @property
    def members(self) -> Mapping[str, PlacedValue]:
        """The members of a mapping; empty for other values."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> tuple[PlacedValue, ...]:
        """The items of a list; empty for other values."""
        return self.value if isinstance(self.value, tuple) else ()

    def at(self, *field: str | int) -> PlacedValue:
        """The entry at a field path; where it is not written, its nearest ancestor's place without a value."""
        entry = self
        for depth, part in enumerate(field):
            child = entry._child(part)
            if child is None:
                return PlacedValue(value=None, place=_extend(entry.place, field[depth:]), by_operator=entry.by_operator)
            entry = child
        return entry

    def _child(self, part: str | int) -> PlacedValue | None:
        if isinstance(part, str):
            return self.members.get(part)
        return self.items[part] if part < len(self.items) else None


def _extend(place: Place, field: Field) -> Place:
    suffix = name_field(field)
    joined = place.field + ("" if not place.field or suffix.startswith("[") else ".") + suffix
    return Place(path=place.path, line=place.line, field=joined)


def placed(document: Document, *, by_operator: bool) -> PlacedValue:
    """A document as a tree of entries."""

    def grow(value: Value, field: Field) -> PlacedValue:
        grown: Mapping[str, PlacedValue] | tuple[PlacedValue, ...] | str | int | float | None
        if isinstance(value, dict):
            grown = {key: grow(child, (*field, key)) for key, child in value.items()}
        elif isinstance(value, list):
            grown = tuple(grow(child, (*field, index)) for index, child in enumerate(value))
        else:
            grown = value
        place = Place(path=document.path, line=document.line_of(field), field=name_field(field))
        return PlacedValue(value=grown, place=place, by_operator=by_operator)

    return grow(document.value, ())


def merge(lower: PlacedValue, higher: PlacedValue, field: str = "") -> PlacedValue:
    """Lay one tree over another: the higher one has the last word, and is the author of what it touches."""
    value = higher.value
    if isinstance(lower.value, Mapping) and isinstance(value, Mapping) and field not in REPLACED_WHOLE:
        value = {
            **lower.value,
            **{key: _merge_member(lower.value.get(key), child, key) for key, child in value.items()},
        }
    elif isinstance(lower.value, tuple) and isinstance(value, tuple):
        value = _merge_lists(lower.value, value, field)
    return PlacedValue(value=value, place=higher.place, by_operator=higher.by_operator)


def _merge_member(lower: PlacedValue | None, higher: PlacedValue, field: str) -> PlacedValue:
    return higher if lower is None else merge(lower, higher, field)


def _merge_lists(
    lower: tuple[PlacedValue, ...], higher: tuple[PlacedValue, ...], field: str
) -> tuple[PlacedValue, ...]:
    if field in APPENDED:
        return lower + higher
    if not any(item.key_in(field) for item in (*lower, *higher)):
        return higher
    merged = {item.key_in(field) or index: item for index, item in enumerate(lower)}
    for index, item in enumerate(higher, start=len(lower)):
        slot = item.key_in(field) or index
        is_laid_over = slot in merged and field not in KEYED_BY_ACCELERATOR
        merged[slot] = merge(merged[slot], item) if is_laid_over else item
    return tuple(merged.values())


def find_flaws(entry: PlacedValue, field: str = "") -> Iterator[Finding]:
    """What is wrong in one file before merging hides it: keys without a value, and one name for two things."""
    if entry.value is None:
        yield Finding(place=entry.place, severity=Severity.ERROR, message="no value: give one or leave the key out")
    seen: dict[str, PlacedValue] = {}
    for item in entry.items:
        key = item.key_in(field)
        first = seen.setdefault(key, item)
        if key and first is not item:
            nouns = "accelerators" if field in KEYED_BY_ACCELERATOR else "names"
            message = f'"{key}" is already at line {first.place.line}: {nouns} must be unique'
            yield Finding(place=item.place, severity=Severity.ERROR, message=message)
        yield from find_flaws(item)
    for name, child in entry.members.items():
        yield from find_flaws(child, name)


def find_path_flaw(path: str) -> str:
    """Why a text is no path from the repository's root; empty when it is one."""
    is_absolute = re.match(r"[/~]|[A-Za-z]:", path) is not None
    if is_absolute or "\\" in path or "://" in path or ".." in path.split("/") or not path.isprintable() or not path:
        return f"expected a path from the repository's root without `..`, got {describe(path)}"
    return ""
