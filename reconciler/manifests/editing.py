"""Applies edits to a file's bytes: locate, replace, and prove that nothing else changed.

Formulas and defaults: rules/placement.md#edits.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import msgpack

from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import (
    ComposingBudget,
    OpenFile,
    Section,
    SourceText,
    Value,
    compose_section,
    decode_source,
    parse_documents,
    split_sections,
    value_at,
)
from reconciler.manifests.edits import (
    AppendDocument,
    Edit,
    EditRefused,
    InsertBlock,
    InsertItem,
    MappingNode,
    ObstacleError,
    PlainEdit,
    RenderedBlock,
    ReplaceBlock,
    ScalarNode,
    SequenceNode,
    SetEmbedded,
    SetScalar,
    Tree,
    YamlNode,
    build_tree,
    end_of_content,
    field_of,
    find_tree,
    last_leaf,
    locate,
    newline_before,
    read_block,
    skip_deeper_comments,
    value_start,
    write_flow,
    write_lines,
    write_scalar,
)
from reconciler.manifests.wording import Field, format_field


def prove(before: SourceText, sections: Sequence[Section], data: bytes, expected: Mapping[int, list[Value]]) -> None:
    """Read the edited bytes, and compare.

    `expected` are, by section, the values of the edited documents. All other sections must be equal byte for byte,
    which proves their values, as a section depends on nothing outside it. ObstacleError names the first difference.
    """
    try:
        after = decode_source(before.path, data)
        new_sections = split_sections(after)
        if len(new_sections) != len(sections) or after.has_bom != before.has_bom:
            raise ObstacleError("the edit would change the number of documents")
        budget = ComposingBudget()
        for position, (old, new) in enumerate(zip(sections, new_sections, strict=True)):
            if position in expected:
                found = [document.value for document in compose_section(after, new, budget)]
                if len(expected[position]) != len(found):
                    raise ObstacleError("the edit would change the number of documents")
                # Equal bytes are equal values of equal types, and nearly always what is found.
                is_equal = msgpack.encode(expected[position]) == msgpack.encode(found)
                difference = None if is_equal else find_difference(expected[position], found)
                if difference is not None:
                    where = format_field(difference[1:]) or "the root"
                    raise ObstacleError(f"the edited file would not have the wanted values, see {where}")
            elif before.text[old.start : old.end] != after.text[new.start : new.end]:
                raise ObstacleError("the edit would change another document")
    except InputError as error:
        raise ObstacleError(f"the edited file could not be read: {error.message}") from error


def find_difference(wanted: Value, found: Value) -> Field | None:
    """The first place where two values or their types differ: 5 is neither "5" nor 5.0. None if they are equal."""
    members: Iterable[tuple[str | int, Value, Value]]
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            return (min(wanted.keys() ^ found.keys()),)
        members = ((key, wanted[key], found[key]) for key in wanted)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return (min(len(wanted), len(found)),)
        members = ((index, wanted[index], found[index]) for index in range(len(wanted)))
    elif isinstance(wanted, float) and isinstance(found, float):
        # repr tells -0.0 from 0.0, and lets NaN equal itself.
        return None if repr(wanted) == repr(found) else ()
    else:
        return None if type(wanted) is type(found) and wanted == found else ()
    for part, one, other in members:
        place = find_difference(one, other)
        if place is not None:
            return (part, *place)
    return None


_TEMPLATE: Final = re.compile(r"\$\{|\{\{")
_COLON: Final = re.compile(r"\s*:")
_BLOCK_SCALAR_HEADER: Final = re.compile(r"[|>][-+0-9]*")
# Only then spaces up to the first key's column align a new key with it.
_KEY_LINE_START: Final = re.compile(r"(?:- +| )*")
_DEFAULT_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace text[start:end]. Of insertions at one place the deeper one comes first, to keep its parent."""

    start: int
    end: int
    text: str
    column: int


@dataclass(frozen=True, slots=True)
class Located:
    """The text of a section, with the nodes of the document to edit."""

    text: str
    tree: Tree
    root: YamlNode


def splice_scalar(located: Located, edit: SetScalar, current: Value) -> tuple[list[Splice], Value]:
    """Replace one scalar: the splices, and the new value."""
    way = locate(located.tree, located.root, edit.field)
    node = way[-1]
    if not isinstance(node, ScalarNode):
        raise ObstacleError("expected a scalar here, got a mapping or a list", node.start)
    _refuse_template(node, current)
    start = value_start(located.text, node)
    # The tag `!` alone leaves no trace in the events.
    if node.has_tag or located.text[start : start + 1] == "!":
        raise ObstacleError("the value has a tag", node.start)
    if node.is_block:
        raise ObstacleError("expected a scalar on its line, got a block scalar (| or >)", node.start)
    in_flow = any(isinstance(step, MappingNode | SequenceNode) and step.is_flow for step in way)
    text, value = write_scalar(edit.value, style=node.style, in_flow=in_flow, was_text=isinstance(current, str))
    if type(current) is type(value) and current == value:
        return [], value
    if start < node.end:
        return [Splice(start, node.end, text, len(located.text))], value
    # an empty value is written after its colon, dash or anchor
    position = len(located.text[: node.end].rstrip())
    if located.text[position - 1] not in ":-" and node.anchor is None:
        raise ObstacleError("expected a key and a colon before the empty value", node.start)
    return [Splice(position, position, " " + text, len(located.text))], value


def _refuse_template(node: YamlNode, value: Value) -> None:
    marker = _find_template(value)
    if marker is not None:
        raise ObstacleError(f"the value is from a template ({marker}) and set elsewhere", node.start)


def _find_template(value: Value) -> str | None:
    if isinstance(value, str):
        match = _TEMPLATE.search(value)
        return match[0] if match else None
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((marker for marker in map(_find_template, members) if marker is not None), None)


def splice_insertion(located: Located, edit: InsertBlock) -> tuple[list[Splice], Value]:
    """Insert a key after the last member of its parent: the splice, and the new value."""
    parent = locate(located.tree, located.root, edit.parent)[-1]
    if not isinstance(parent, MappingNode):
        raise ObstacleError("expected a mapping to insert into, got an empty value, a scalar or a list", parent.start)
    _refuse_unusual_parent(located.text, parent)
    if edit.key in parent.members:
        raise ObstacleError("the key exists already", parent.members[edit.key].key.start)
    block = read_block(edit.text)
    leaf = last_leaf(parent)
    _refuse_open_end(located.text, leaf)
    position = skip_deeper_comments(located.text, end_of_content(located.text, leaf), parent.column)
    key, _ = write_scalar(edit.key, style="", in_flow=False, was_text=True)
    newline = newline_before(located.text, position)
    inline = f" {block.inline}" if block.inline else ""
    lines = write_lines(block, column=_lines_column(parent, block), newline=newline)
    head = newline + " " * parent.column + key + ":" + inline
    return [Splice(position, position, head + lines, parent.column)], block.value


def splice_item(located: Located, edit: InsertItem, current: Value) -> tuple[list[Splice], Value]:
    """Insert an item after the last one of its list: the splice, and the new value.

    `current` is the list with items inserted earlier.
    """
    parent = locate(located.tree, located.root, edit.parent)[-1]
    if not isinstance(parent, SequenceNode) or not parent.items:
        raise ObstacleError("expected a list with items of its own", parent.start)
    if parent.is_flow and not edit.in_line:
        raise ObstacleError("the list is in flow style ([...]): write its items on separate lines", parent.start)
    num_items = len(current) if isinstance(current, list) else 0
    if num_items != edit.index:
        raise ObstacleError(f"expected {edit.index} items, got {num_items}", parent.start)
    block = read_block(edit.text)
    if not block.is_sequence or not isinstance(block.value, list) or len(block.value) != 1:
        raise ObstacleError("expected a list of one item in the new text")
    if parent.is_flow:
        end = parent.items[-1].end
        return [Splice(end, end, f", {write_flow(block.value[0])}", len(located.text))], block.value[0]
    leaf = last_leaf(parent)
    _refuse_open_end(located.text, leaf)
    position = skip_deeper_comments(located.text, end_of_content(located.text, leaf), parent.column)
    lines = write_lines(block, column=parent.column, newline=newline_before(located.text, position))
    return [Splice(position, position, lines, parent.column)], block.value[0]


def _refuse_open_end(text: str, leaf: YamlNode) -> None:
    """A new line below would add a final line break to a clipped block scalar."""
    if not isinstance(leaf, ScalarNode):
        return
    if leaf.is_block and leaf.end == len(text) and leaf.text and text[-1] != "\n":
        raise ObstacleError("a block scalar ends here without a line break: add one at the end of the file", leaf.start)
    # The value of `? key` alone is not on the key's line, but at the beginning of the next.
    if leaf.start == leaf.end and text[leaf.end - 1 : leaf.end] == "\n":
        raise ObstacleError("a key without a colon ends here: write `key:`", leaf.start)


def _refuse_unusual_parent(text: str, parent: MappingNode) -> None:
    if parent.is_flow:
        raise ObstacleError("the mapping is in flow style ({...}): only its scalars can be edited", parent.start)
    if parent.last is None or not parent.members:
        raise ObstacleError("expected a mapping with keys of its own", parent.start)
    first = min(member.key.start for member in parent.members.values())
    first = first if parent.merge_start is None else min(first, parent.merge_start)
    line_start = text.rfind("\n", 0, first) + 1
    if not _KEY_LINE_START.fullmatch(text, line_start, first) or first - line_start != parent.column:
        raise ObstacleError("the keys of this mapping are not written as `key: value` on separate lines", first)


def _lines_column(parent: MappingNode, block: RenderedBlock) -> int:
    if block.is_scalar:
        return parent.column
    nested = (member.value for member in parent.members.values())
    columns = (node.column for node in nested if isinstance(node, MappingNode) and not node.is_flow)
    return next(columns, parent.column + _DEFAULT_STEP)


def splice_replacement(located: Located, edit: ReplaceBlock, current: Value) -> tuple[list[Splice], Value]:
    """Replace a key's whole value: the splices, and the new value."""
    if not edit.field:
        raise ObstacleError("expected the key of a mapping")
    way = locate(located.tree, located.root, edit.field)
    parent, node = way[-2], way[-1]
    block = read_block(edit.text)
    text, start, space = located.text, node.start, ""
    is_text_item = isinstance(parent, SequenceNode) and isinstance(node, ScalarNode) and node.is_block
    if isinstance(parent, MappingNode) and isinstance(edit.field[-1], str):
        _refuse_unusual_parent(text, parent)
    elif not is_text_item or not block.is_scalar:
        raise ObstacleError("expected the key of a mapping", parent.start)
    _refuse_template(node, current)
    if node.anchor is not None or node.has_tag:
        raise ObstacleError("the value has an anchor or a tag", node.start)
    column = parent.column
    if isinstance(parent, MappingNode):
        if find_difference(current, block.value) is None:
            return [], block.value
        key = parent.members[str(edit.field[-1])].key
        colon = _COLON.match(text, key.end)
        if colon is None:
            raise ObstacleError("expected a colon after the key", key.start)
        start, space = colon.end(), " "
        kind = MappingNode if block.is_mapping else SequenceNode
        is_alike = (block.is_mapping or block.is_sequence) and isinstance(node, kind) and not node.is_flow
        column = node.column if is_alike else _lines_column(parent, block)
    # two parts: the text after the colon, and the lines below; a comment after the key survives
    lines_start = _lines_start(text, node)
    lines_end = max(lines_start, end_of_content(text, last_leaf(node)))
    lines = write_lines(block, column=column, newline=newline_before(text, lines_start))
    inline = Splice(start, _inline_end(text, start, node), space + block.inline if block.inline else "", len(text))
    return [inline, Splice(lines_start, lines_end, lines, parent.column + 1)], block.value


def _is_block_collection(node: YamlNode) -> bool:
    return isinstance(node, MappingNode | SequenceNode) and not node.is_flow


def _inline_end(text: str, colon_end: int, node: YamlNode) -> int:
    if _is_block_collection(node):
        return colon_end
    header = _BLOCK_SCALAR_HEADER.match(text, node.start) if isinstance(node, ScalarNode) and node.is_block else None
    return header.end() if header else node.end


def _lines_start(text: str, node: YamlNode) -> int:
    """The end of the last unchanged line: the one above a block, or the one where an inline value ends."""
    if _is_block_collection(node):
        line_break = text.rfind("\n", 0, node.start)
        return line_break - 1 if text[line_break - 1] == "\r" else line_break
    if isinstance(node, ScalarNode) and node.is_block:
        end = text.find("\n", node.start)
        end = len(text) if end < 0 else end
        return end - 1 if text[end - 1] == "\r" else end
    return end_of_content(text, node)


def _edit_embedded(file: OpenFile, document: int, field: Field, edits: Sequence[SetScalar]) -> str:
    """The literal block at a field with its text edited, indented as before; EditRefused for any other value."""
    path, name = file.source.path, format_field(field)
    position = file.position_of(document)
    section = file.sections[max(position, 0)]
    text = file.source.text[section.start : section.end]
    tree = build_tree(text, [field])
    number = document - section.index
    if position < 0 or number >= len(tree.roots):
        raise EditRefused(path, 0, name, f"there is no document {document}")
    try:
        way = locate(tree, tree.roots[number], field)
    except ObstacleError as obstacle:
        raise EditRefused(path, 0, name, obstacle.reason) from obstacle
    node = way[-1]
    if not isinstance(node, ScalarNode) or len(way) < 2:
        raise EditRefused(path, 0, name, "expected a text around the number")
    line = section.first_line + text.count("\n", 0, node.start)
    header, _, below = text[node.start : node.end].partition("\n")
    if node.style != "|" or not below:
        raise EditRefused(path, line, name, "expected a literal block (|) around the number")
    first = next(each for each in below.split("\n") if each.strip())
    indent = len(first) - len(first.lstrip(" ")) - way[-2].column
    header = header.partition("#")[0].strip()
    if indent < 1 or "+" in header or any(character.isdigit() for character in header):
        raise EditRefused(path, line, name, "expected a literal block without an indentation of its own")
    try:
        edited = apply_edits(path, node.text.encode(), edits).decode()
    except EditRefused as error:
        raise EditRefused(error.path, line + error.line, f"{name}: {error.field}", error.message) from error
    lines = [" " * indent + each if each else "" for each in edited.rstrip("\n").split("\n")]
    return "\n".join([header, *lines]) + ("\n" if node.text.endswith("\n") else "")


def apply_edits(path: str, data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the wanted fields of a file and no other byte.

    All edits refer to the original file. The result has been read again and differs only in the wanted fields and
    values. EditRefused names the obstacle; then no edit is made.
    """
    if not edits:
        return data
    try:
        file = OpenFile(path, data)
    except InputError as error:
        raise EditRefused(path, error.line, error.field, error.message) from error
    return edit_file(file, edits)


def edit_file(file: OpenFile, edits: Sequence[Edit]) -> bytes:
    """`apply_edits` to an open file, whose sections are not read again."""
    source = file.source
    splices: list[Splice] = []
    expected: dict[int, list[Value]] = {}
    plain: list[PlainEdit] = [edit for edit in edits if not isinstance(edit, SetEmbedded)]
    texts: defaultdict[tuple[int, Field], list[SetScalar]] = defaultdict(list)
    for edit in edits:  # all edits inside of one text are one edit of that text
        if isinstance(edit, SetEmbedded):
            texts[edit.document, edit.field].append(edit.inner)
    for (document, field), inner in texts.items():
        plain.append(ReplaceBlock(document=document, field=field, text=_edit_embedded(file, document, field, inner)))
    for position, section_edits in _by_section(file, plain).items():
        section_splices, expected[position] = _edit_section(file, position, section_edits)
        splices.extend(section_splices)
    try:
        edited = source.encode(_splice(source.text, splices))
        prove(source, file.sections, edited, expected)
    except ObstacleError as obstacle:
        index = obstacle.index if obstacle.index is not None else min((splice.start for splice in splices), default=0)
        fields = ", ".join(format_field(field_of(edit)) for edit in edits)
        raise EditRefused(source.path, source.line_at(index), fields, obstacle.reason) from obstacle
    return edited


def _by_section(file: OpenFile, edits: Sequence[PlainEdit]) -> dict[int, list[PlainEdit]]:
    by_section: defaultdict[int, list[PlainEdit]] = defaultdict(list)
    places = Counter((edit.document, field_of(edit)) for edit in edits)
    for edit in edits:
        field, position, reason = field_of(edit), file.position_of(edit.document), ""
        if places[edit.document, field] > 1:
            reason = "two edits want the same field"
        elif any((edit.document, field[:depth]) in places for depth in range(len(field))):
            reason = "two edits want the same place"
        elif position < 0:
            reason = f"there is no document {edit.document}"
        if reason:
            raise EditRefused(file.source.path, 0, format_field(field), reason)
        by_section[position].append(edit)
    return by_section


def _edit_section(file: OpenFile, position: int, edits: Sequence[PlainEdit]) -> tuple[list[Splice], list[Value]]:
    source, section = file.source, file.sections[position]
    try:
        values = [document.value for document in file.documents_in(position)]
    except InputError as error:
        raise EditRefused(error.path, error.line, error.field, error.message) from error
    text = source.text[section.start : section.end]
    tree = find_tree(text, map(_way_of, edits))
    splices: list[Splice] = []
    for edit in edits:
        number = edit.document - section.index
        if not 0 <= number < len(values):
            message = f"there is no document {edit.document}"
            raise EditRefused(source.path, section.first_line, format_field(field_of(edit)), message)
        try:
            located, value = Located(text, tree, tree.roots[number]), values[number]
            if isinstance(edit, SetScalar):
                edit_splices, value = splice_scalar(located, edit, value_at(value, edit.field))
            elif isinstance(edit, InsertBlock):
                edit_splices, value = splice_insertion(located, edit)
            elif isinstance(edit, InsertItem):
                edit_splices, value = splice_item(located, edit, value_at(value, edit.parent))
            else:
                edit_splices, value = splice_replacement(located, edit, value_at(value, edit.field))
        except ObstacleError as obstacle:
            line = section.first_line + text.count("\n", 0, obstacle.index or 0)
            raise EditRefused(source.path, line, format_field(field_of(edit)), obstacle.reason) from obstacle
        values[number] = _with_value(values[number], field_of(edit), value)
        offset = section.start
        splices += [Splice(each.start + offset, each.end + offset, each.text, each.column) for each in edit_splices]
    return splices, values


def _way_of(edit: PlainEdit) -> Field:
    """The field up to which an edit must know its document."""
    return edit.parent if isinstance(edit, InsertBlock | InsertItem) else edit.field


def _with_value(root: Value, field: Field, value: Value) -> Value:
    if not field:
        return value
    part, rest = field[0], field[1:]
    if isinstance(root, dict) and isinstance(part, str):
        return {**root, part: _with_value(root.get(part), rest, value)}
    if isinstance(root, list) and isinstance(part, int):
        member = root[part] if part < len(root) else None
        return [*root[:part], _with_value(member, rest, value), *root[part + 1 :]]
    return root


def _splice(text: str, splices: Sequence[Splice]) -> str:
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


_START = b"---\n"


def append_documents(path: str, data: bytes, edits: Sequence[AppendDocument]) -> bytes:
    """The bytes followed by each document; the existing bytes do not change.

    Raises EditRefused when the result does not read as the old documents followed by the new ones.
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
        raise EditRefused(path, 0, "", "a document at its end would be read differently: end the last one with ---")
    return appended
