"""Edits to a file's bytes: locate, splice, prove."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import OpenFile, parse_documents
from reconciler.manifests.edits import (
    AppendDocument,
    Edit,
    EditRefused,
    InsertBlock,
    InsertItem,
    ObstacleError,
    PlainEdit,
    ReplaceBlock,
    SetEmbedded,
    SetScalar,
    field_of,
)
from reconciler.manifests.embedded import open_text
from reconciler.manifests.nodes import build_tree
from reconciler.manifests.proof import find_difference, prove
from reconciler.manifests.sections import Section, SourceText
from reconciler.manifests.splices import (
    Located,
    Splice,
    splice_insertion,
    splice_item,
    splice_replacement,
    splice_scalar,
)
from reconciler.manifests.wording import Field, format_field


def apply_edits(path: str, data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the wanted fields of a file and not one byte else.

    All edits refer to the file as it is given. The result has been read again and differs from before in exactly the
    wanted fields and values. An edit that changes nothing leaves the bytes alone.
    Raises EditRefused, naming what is in the way; then no edit of the file is made.
    """
    if not edits:
        return data
    try:
        file = OpenFile(path, data)
    except InputError as error:
        raise EditRefused(path, error.line, error.field, error.message) from error
    return edit_file(file, edits)


def edit_file(file: OpenFile, edits: Sequence[Edit]) -> bytes:
    """`apply_edits` to a file that is open already: what was read of it is not read again."""
    source = file.source
    splices: list[Splice] = []
    expected: dict[int, list[Value]] = {}
    plain = [*_join_embedded(file, edits)]
    for position, section_edits in _by_section(file, plain).items():
        section_splices, expected[position] = _edit_section(file, position, section_edits)
        splices.extend(section_splices)
    try:
        edited = source.encode(_splice(source.text, splices))
        prove(source, file.sections, edited, expected)
    except ObstacleError as obstacle:
        line, field = _first_place(source, splices, edits, obstacle)
        raise EditRefused(source.path, line, field, obstacle.reason) from obstacle
    return edited


def _join_embedded(file: OpenFile, edits: Sequence[Edit]) -> Iterator[PlainEdit]:
    """All edits inside of one text as one edit of that text."""
    texts: defaultdict[tuple[int, Field], list[Edit]] = defaultdict(list)
    for edit in edits:
        if isinstance(edit, SetEmbedded):
            texts[edit.document, edit.field].append(edit.inner)
        else:
            yield edit
    for (document, field), inner in texts.items():
        text = open_text(file, document, field)
        try:
            edited = apply_edits(file.source.path, text.body.encode(), inner).decode()
        except EditRefused as error:
            where = f"{format_field(field)}: {error.field}"
            raise EditRefused(error.path, text.line + error.line, where, error.message) from error
        yield ReplaceBlock(document=document, field=field, text=text.write(edited))


def _by_section(file: OpenFile, edits: Sequence[PlainEdit]) -> dict[int, list[PlainEdit]]:
    by_section: defaultdict[int, list[PlainEdit]] = defaultdict(list)
    places = Counter((edit.document, field_of(edit)) for edit in edits)
    for edit in edits:
        reason = _find_rival(edit, places)
        position = file.position_of(edit.document)
        if reason or position < 0:
            message = reason or f"there is no document {edit.document}"
            raise EditRefused(file.source.path, 0, format_field(field_of(edit)), message)
        by_section[position].append(edit)
    return by_section


def _find_rival(edit: PlainEdit, places: Counter[tuple[int, Field]]) -> str:
    """Why an edit cannot stand beside the others: one writes the same field, or a value around it."""
    field = field_of(edit)
    if places[edit.document, field] > 1:
        return "two edits want the same field"
    is_inside = any((edit.document, field[:depth]) in places for depth in range(len(field)))
    return "two edits want the same place" if is_inside else ""


def _edit_section(file: OpenFile, position: int, edits: Sequence[PlainEdit]) -> tuple[list[Splice], list[Value]]:
    """Find one section's splices, and the values that its documents must have afterwards."""
    source, section = file.source, file.sections[position]
    try:
        values = [document.value for document in file.documents_in(position)]
    except InputError as error:
        raise EditRefused(error.path, error.line, error.field, error.message) from error
    text = source.text[section.start : section.end]
    tree = build_tree(text)
    splices: list[Splice] = []
    for edit in edits:
        try:
            number = _document_number(edit, section, len(values))
            edit_splices, value = _splices_of(Located(text, tree, tree.roots[number]), edit, values[number])
        except ObstacleError as obstacle:
            line = section.first_line + text.count("\n", 0, obstacle.index or 0)
            raise EditRefused(source.path, line, format_field(field_of(edit)), obstacle.reason) from obstacle
        values[number] = _with_value(values[number], field_of(edit), value)
        splices.extend(_shift(splice, section.start) for splice in edit_splices)
    return splices, values


def _document_number(edit: PlainEdit, section: Section, num_documents: int) -> int:
    number = edit.document - section.index
    if not 0 <= number < num_documents:
        raise ObstacleError(f"there is no document {edit.document}")
    return number


def _splices_of(located: Located, edit: PlainEdit, document: Value) -> tuple[list[Splice], Value]:
    if isinstance(edit, SetScalar):
        return splice_scalar(located, edit, _value_at(document, edit.field))
    if isinstance(edit, InsertBlock):
        return splice_insertion(located, edit)
    if isinstance(edit, InsertItem):
        return splice_item(located, edit, _value_at(document, edit.parent))
    return splice_replacement(located, edit, _value_at(document, edit.field))


def _value_at(value: Value, field: Field) -> Value:
    for part in field:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def _with_value(root: Value, field: Field, value: Value) -> Value:
    """Copy a value with one field set; what is not on the way is shared."""
    if not field:
        return value
    part, rest = field[0], field[1:]
    if isinstance(root, dict) and isinstance(part, str):
        return {**root, part: _with_value(root.get(part), rest, value)}
    if isinstance(root, list) and isinstance(part, int):
        member = root[part] if part < len(root) else None
        return [*root[:part], _with_value(member, rest, value), *root[part + 1 :]]
    return root


def _shift(splice: Splice, distance: int) -> Splice:
    return Splice(splice.start + distance, splice.end + distance, splice.text, splice.column)


def _splice(text: str, splices: Sequence[Splice]) -> str:
    """Put all splices in; ObstacleError when two edits want the same place."""
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end > splice.start, -splice.column))
    for first, second in pairwise(ordered):
        if second.start < first.end:
            raise ObstacleError("two edits want the same place", second.start)
    parts: list[str] = []
    position = 0
    for splice in ordered:
        parts += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, text[position:]])


def _first_place(
    source: SourceText, splices: Sequence[Splice], edits: Sequence[Edit], obstacle: ObstacleError
) -> tuple[int, str]:
    index = obstacle.index if obstacle.index is not None else min((splice.start for splice in splices), default=0)
    return source.line_at(index), ", ".join(format_field(field_of(edit)) for edit in edits)


_START = b"---\n"


def append_documents(path: str, data: bytes, edits: Sequence[AppendDocument]) -> bytes:
    """The bytes with each document behind them; what was there stays, byte for byte.

    Raises EditRefused when what comes out does not read as the old documents followed by the new ones.
    """
    appended = data if data.endswith(b"\n") or not data else data + b"\n"
    for edit in edits:
        appended += (_START if appended else b"") + edit.text.encode()
    try:
        wanted = [
            document.value
            for text in (data, *(edit.text.encode() for edit in edits))
            for document in parse_documents(path, text)
        ]
        found = [document.value for document in parse_documents(path, appended)]
    except InputError as error:
        raise EditRefused(path, error.line, error.field, error.message) from error
    if find_difference(wanted, found) is not None:
        raise EditRefused(path, 0, "", "a document at its end would not be read as wanted: end the last one with ---")
    return appended
