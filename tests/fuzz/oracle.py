"""What an edit must have done, said without the editor: by plain values, by bytes, and by PyYAML's own tree."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from reconciler.manifests.documents import Document, Value, parse_documents, parse_readable
from reconciler.manifests.edits import InsertBlock, InsertItem, PlainEdit, SetScalar
from reconciler.manifests.wording import Field

MOST_FIELDS = 5_000


@dataclass(frozen=True, slots=True)
class Changed:
    """Two texts, and the stretch of each in which they differ: [start, old_end) and [start, new_end)."""

    old: str
    new: str
    start: int
    old_end: int
    new_end: int


def fields_of(value: Value) -> Iterator[Field]:
    """Every field below a value, and the root."""
    yield ()
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, member in members:
        for rest in fields_of(member):
            yield (part, *rest)


def value_at(value: Any, field: Field) -> Any:
    """What stands at a field."""
    for part in field:
        value = value[part]
    return value


def value_of(text: str) -> Value:
    """What a block's text says."""
    (document,) = parse_documents("block.yaml", text.encode())
    return document.value


def field_of(edit: PlainEdit) -> Field:
    """The field that an edit writes."""
    if isinstance(edit, InsertItem):
        return (*edit.parent, edit.index)
    return (*edit.parent, edit.key) if isinstance(edit, InsertBlock) else edit.field


def wanted_values(documents: Sequence[Document], edits: Sequence[PlainEdit]) -> list[set[str]]:
    """Of each document the values that it may have afterwards, as JSON: a number may have become its text."""
    variants: dict[int, list[Any]] = {document.index: [_unshare(document.value)] for document in documents}
    for edit in edits:
        candidates = _readings(edit)
        variants[edit.document] = [
            _with_value(value, field_of(edit), candidate)
            for value in variants[edit.document]
            for candidate in candidates
        ]
    return [{json.dumps(value, sort_keys=True) for value in values} for values in variants.values()]


def _readings(edit: PlainEdit) -> list[Value]:
    if not isinstance(edit, SetScalar):
        return [value_of(edit.text)]
    return [edit.value] if isinstance(edit.value, str) else [edit.value, str(edit.value).lower()]


def assert_values(documents: Sequence[Document], before: bytes, after: bytes, edits: Sequence[PlainEdit]) -> None:
    """Read again, every document is as it was but for the wanted fields; what was unreadable is so still."""
    new, errors = parse_readable("f.yaml", after)
    assert [document.index for document in new] == [document.index for document in documents]
    if errors:
        assert len(errors) == len(parse_readable("f.yaml", before)[1])
    for document, values in zip(new, wanted_values(documents, edits), strict=True):
        assert json.dumps(document.value, sort_keys=True) in values


def _unshare(value: Value) -> Any:
    return json.loads(json.dumps(value))


def _with_value(root: Any, field: Field, value: Any) -> Any:
    if not field:
        return value
    part, rest = field[0], field[1:]
    if isinstance(root, dict):
        return {**root, part: _with_value(root.get(part), rest, value)}
    assert isinstance(root, list)
    assert isinstance(part, int)
    return [*root[:part], _with_value(root[part], rest, value), *root[part + 1 :]]


def compare(before: bytes, after: bytes) -> Changed:
    """Find the stretch in which two files differ; a byte order mark must stay."""
    assert before.startswith(b"\xef\xbb\xbf") == after.startswith(b"\xef\xbb\xbf")
    old, new = before.removeprefix(b"\xef\xbb\xbf").decode(), after.removeprefix(b"\xef\xbb\xbf").decode()
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    rest = shorter - start
    tail = next((index for index in range(rest) if old[-1 - index] != new[-1 - index]), rest)
    return Changed(old, new, start, len(old) - tail, len(new) - tail)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where PyYAML's trees of two texts differ: the path in the keys' own spelling, and both nodes."""

    path: Field
    old: Any
    new: Any


def find_differences(changed: Changed) -> list[Difference]:
    """What PyYAML has to say, for a second opinion; nothing when it cannot read the old text."""
    if changed.old.startswith("\ufeff"):  # a second byte order mark, which it does not count
        return []
    try:
        old = list(yaml.compose_all(changed.old, Loader=yaml.CBaseLoader))
    except yaml.YAMLError:
        return []
    new = list(yaml.compose_all(changed.new, Loader=yaml.CBaseLoader))
    assert len(old) == len(new)
    seen: set[tuple[int, int]] = set()
    return [found for pair in zip(old, new, strict=True) for found in _compare_nodes(*pair, (), seen)]


def _compare_nodes(old: Any, new: Any, path: Field, seen: set[tuple[int, int]]) -> Iterator[Difference]:
    """What aliases share is looked at once."""
    if (id(old), id(new)) in seen:
        return
    seen.add((id(old), id(new)))
    if isinstance(old, yaml.ScalarNode) and isinstance(new, yaml.ScalarNode):
        if (old.value, old.style) != (new.value, new.style):
            yield Difference(path, old, new)
    elif type(old) is not type(new) or len(old.value) != len(new.value) or old.tag != new.tag:
        yield Difference(path, old, new)
    elif isinstance(old, yaml.SequenceNode):
        for index, (first, second) in enumerate(zip(old.value, new.value, strict=True)):
            yield from _compare_nodes(first, second, (*path, index), seen)
    else:
        for (key, first), (other, second) in zip(old.value, new.value, strict=True):
            yield from _compare_nodes(key, other, (*path, "?"), seen)
            yield from _compare_nodes(first, second, (*path, str(key.value)), seen)


def written_in(data: bytes, node: Any) -> str:
    """A scalar as it is written, without its quotes."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode()[node.start_mark.index : node.end_mark.index]
    return text[1:-1] if node.style in {"'", '"'} else text
