"""Where values stand: a source is one place in one document, a trace says of a built object which source won where."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from reconciler.domain.identity import Place
from reconciler.domain.places import DocumentRef, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import Field, describe, name_field

# The number of no document: what is read from an object as it was built, or made of a template, has no place to edit.
AS_BUILT: Final = -1

Address: TypeAlias = tuple[str, int, Field, Field | None]


class OriginKind(StrEnum):
    """How a value came into a built object."""

    MARKER = "marker"
    REPLICAS = "overlay replicas"
    PATCH = "patch"
    COMPONENT = "component"
    BASE = "base"
    PLAIN = "plain"
    HELM = "helm values"
    DEPLOYER = "deployer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The text field that holds a whole document: an inline patch inside of a kustomization."""

    document: Document
    field: Field


@dataclass(frozen=True, slots=True)
class SourceField:
    """One place in one document, readable as a tree: `get` and `items` go down, errors name the place."""

    document: Document
    field: Field = ()
    kind: OriginKind = OriginKind.PLAIN
    embedding: Embedding | None = None

    @property
    def value(self) -> Value:
        """What stands there; None when nothing does."""
        return value_at(self.document.value, self.field)

    @property
    def place(self) -> Place:
        """File, line and field path, for people."""
        shown = self.field if self.embedding is None else self.embedding.field
        return Place(path=self.document.path, line=self.document.line_of(self.field), field=name_field(shown))

    @property
    def exists(self) -> bool:
        """Whether the field is written, be it null."""
        if not self.field:
            return True
        parent, part = value_at(self.document.value, self.field[:-1]), self.field[-1]
        if isinstance(parent, dict):
            return part in parent
        return isinstance(parent, list) and isinstance(part, int) and 0 <= part < len(parent)

    @property
    def address(self) -> Address:
        """What tells this place from every other one: file, document, field, and the text that it lies in."""
        if self.embedding is None:
            return self.document.path, self.document.index, self.field, None
        return self.document.path, self.embedding.document.index, self.field, self.embedding.field

    def below(self, *parts: str | int) -> "SourceField":
        """A place further down, whether or not something stands there."""
        return SourceField(self.document, (*self.field, *parts), self.kind, self.embedding)

    def of_kind(self, kind: OriginKind) -> "SourceField":
        """This place with another kind of origin."""
        return SourceField(self.document, self.field, kind, self.embedding)

    def get(self, key: str) -> "SourceField | None":
        """A member that is written and not null."""
        value = self.value
        if isinstance(value, dict) and value.get(key) is not None:
            return self.below(key)
        return None

    def items(self, key: str) -> Iterator["SourceField"]:
        """The items of a member list; none when it is not written."""
        member = self.get(key)
        if member is None:
            return
        value = member.value
        if not isinstance(value, list):
            raise member.error(f"expected a list, got {describe(value)}")
        yield from (member.below(index) for index in range(len(value)))

    def mapping(self) -> dict[str, Value]:
        """The value as a mapping."""
        value = self.value
        if not isinstance(value, dict):
            raise self.error(f"expected a mapping, got {describe(value)}")
        return value

    def text(self, key: str) -> str:
        """A member text, empty when it is not written; numbers are no text."""
        member = self.get(key)
        return "" if member is None else member.as_text()

    def as_text(self) -> str:
        """The value as a text."""
        value = self.value
        if not isinstance(value, str):
            raise self.error(f"expected a text, got {describe(value)}")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """A member mapping of texts, as labels are; empty when it is not written."""
        member = self.get(key)
        if member is None:
            return {}
        return {name: member.below(name).as_label() for name in member.mapping()}

    def as_label(self) -> str:
        """The value of a label or annotation: Kustomize takes booleans and numbers for texts, null for empty."""
        value = self.value
        if isinstance(value, dict | list):
            raise self.error(f"expected a text, got {describe(value)}")
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    def flag(self, key: str) -> bool:
        """A member switch, off when it is not written."""
        member = self.get(key)
        if member is not None and not isinstance(member.value, bool):
            raise member.error(f"expected true or false, got {describe(member.value)}")
        return member is not None and member.value is True

    def error(self, message: str) -> InputError:
        """What is wrong at this place."""
        place = self.place
        return InputError(place.path, place.line, place.field, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One link of the chain of a value: where it is written, how it came in, and what it says there.

    `document` and `field` address the scalar in the file `place.path`. With `embedding`, the field of that document
    that holds a text, `field` leads on inside the text, in its document number `inner_document`.
    """

    place: Place
    kind: OriginKind
    value: Value
    document: int
    field: Field
    embedding: Field | None = None
    inner_document: int = 0

    @property
    def address(self) -> Address:
        """What tells this place from every other one: file, document, field, and the text that it lies in."""
        return self.place.path, self.document, self.field, self.embedding

    @property
    def written(self) -> WrittenField:
        """Where edits find it."""
        return WrittenField(
            document=DocumentRef(path=self.place.path, document=self.document),
            field=self.field,
            place=self.place,
            embedding=self.embedding,
            inner_document=self.inner_document,
        )

    def __str__(self) -> str:
        return f"{self.place} {self.place.field}".rstrip()


def origin_of_source(source: SourceField) -> ValueOrigin:
    """The link that a source amounts to."""
    holder = source.document if source.embedding is None else source.embedding.document
    place = source.place
    if source.embedding is not None:
        inner = name_field(source.field)
        place = replace(place, field=f"{place.field}: {inner}")
    return ValueOrigin(
        place=place,
        kind=source.kind,
        value=source.value,
        document=holder.index,
        field=source.field,
        embedding=None if source.embedding is None else source.embedding.field,
        inner_document=0 if source.embedding is None else source.document.index,
    )


@dataclass(slots=True)
class SourceTrace:
    """Which sources a built object's values come from, the winning one first; sparse.

    A node without sources has its parent's, one step further down. Nodes are made only where something was changed,
    so that an object that nobody touches costs one node.
    """

    sources: tuple[SourceField, ...] = ()
    members: "dict[str | int, SourceTrace]" = field(default_factory=dict)

    def sources_at(self, path: Field) -> tuple[SourceField, ...]:
        """Every source that says something about a field, the winning one first."""
        node: SourceTrace = self
        current, depth = self.sources, 0
        for position, part in enumerate(path):
            member = node.members.get(part)
            if member is None:
                break
            node = member
            if node.sources:
                current, depth = node.sources, position + 1
        rest = path[depth:]
        return tuple(source.below(*rest) for source in current) if rest else current

    def chain(self, path: Field) -> tuple[SourceField, ...]:
        """The sources at a field that do write it."""
        return tuple(source for source in self.sources_at(path) if source.exists)

    def record(self, path: Field, source: SourceField) -> None:
        """All of the value at a path comes from `source` now; what was there before is displaced."""
        self.place(path, SourceTrace((source, *self.chain(path))))

    def place(self, path: Field, subtree: "SourceTrace") -> None:
        """Put another subtree's sources at a path."""
        if not path:
            self.sources, self.members = subtree.sources, subtree.members
            return
        node = self
        for part in path[:-1]:
            node = node.members.setdefault(part, SourceTrace())
        node.members[path[-1]] = subtree

    def subtree(self, path: Field) -> "SourceTrace":
        """The node at a path with its sources spelled out, to be put elsewhere."""
        node: SourceTrace | None = self
        for part in path:
            node = None if node is None else node.members.get(part)
        members = {} if node is None else {part: member.copy() for part, member in node.members.items()}
        return SourceTrace(self.sources_at(path), members)

    def copy(self) -> "SourceTrace":
        """A trace that changes on its own."""
        return SourceTrace(self.sources, {part: member.copy() for part, member in self.members.items()})

    def recorded(self) -> Iterator[SourceField]:
        """Every source that is recorded anywhere."""
        yield from self.sources
        for member in self.members.values():
            yield from member.recorded()


def value_at(value: Value, path: Field) -> Value:
    """The value at a field path; None when it is not there."""
    for part in path:
        # Exact types: values come from our own parser, and this is asked a million times.
        if type(value) is dict:
            value = value.get(part)  # type: ignore[arg-type]  # an index finds nothing in a mapping of texts
        elif type(value) is list and type(part) is int and 0 <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def with_value(root: Value, path: Field, value: Value) -> Value:
    """A copy with one field set, mappings on the way made where they are missing; the rest is shared."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(root, list) and isinstance(part, int) and 0 <= part < len(root):
        return [*root[:part], with_value(root[part], rest, value), *root[part + 1 :]]
    members = root if isinstance(root, dict) else {}
    return {**members, str(part): with_value(members.get(str(part)), rest, value)}


def texts_in(value: Value, path: Field = ()) -> Iterator[tuple[Field, str]]:
    """Every text in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from texts_in(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_in(item, (*path, index))
