"""What can be changed in a file, and why a change was not made."""

from dataclasses import dataclass
from typing import TypeAlias

from reconciler.errors import InputError
from reconciler.manifests.wording import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScalar:
    """Replace the bytes of one existing scalar, in the quotes that it has.

    A number set on a quoted scalar stays quoted, and so text: `"3"` becomes `"5"`.
    """

    document: int
    field: Field
    value: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBlock:
    """Add `key` as the last member of an existing block mapping.

    `text` is one YAML value with LF line breaks, not indented: `3`, or `a: 1\\nb:\\n  c: x\\n`.
    """

    document: int
    parent: Field
    key: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceBlock:
    """Replace the whole value, comments inside it too, of an existing key in a block mapping; `text` as above."""

    document: int
    field: Field
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertItem:
    """Add an item behind the last one of an existing block list: `index` is its number, `text` a list of it alone.

    With `in_line` the list may be in flow style, too: the item is written on its line.
    """

    document: int
    parent: Field
    index: int
    text: str
    in_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDocument:
    """Add a document of its own at the end of a file, which may be empty; `text` has LF line breaks."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEmbedded:
    """Replace one scalar of a document that stands as a text, a literal block, at a field of another."""

    document: int
    field: Field
    inner: SetScalar


PlainEdit: TypeAlias = SetScalar | InsertBlock | ReplaceBlock | InsertItem
Edit: TypeAlias = PlainEdit | SetEmbedded


class EditRefused(InputError):  # noqa: N818 - a refusal is an outcome that names what is in the way
    """Raised when an edit cannot be made, or cannot be proven to change the wanted fields and nothing else."""


class ObstacleError(Exception):
    """What is in the way of an edit, at a position in the text (None: where the edit points)."""

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index


def field_of(edit: Edit) -> Field:
    """Name the field that an edit writes."""
    if isinstance(edit, InsertItem):
        return (*edit.parent, edit.index)
    return (*edit.parent, edit.key) if isinstance(edit, InsertBlock) else edit.field
