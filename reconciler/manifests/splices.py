"""From an edit to the stretches of text that it replaces."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.edits import InsertBlock, InsertItem, ObstacleError, ReplaceBlock, SetScalar
from reconciler.manifests.nodes import MappingNode, Member, ScalarNode, SequenceNode, Tree, YamlNode, last_leaf, locate
from reconciler.manifests.proof import find_difference
from reconciler.manifests.writing import (
    RenderedBlock,
    end_of_content,
    newline_before,
    read_block,
    skip_deeper_comments,
    value_start,
    write_flow,
    write_lines,
    write_scalar,
)

_TEMPLATE: Final = re.compile(r"\$\{|\{\{")
_COLON: Final = re.compile(r"\s*:")
_BLOCK_SCALAR_HEADER: Final = re.compile(r"[|>][-+0-9]*")
# Only then do spaces up to the first key's column put a new key beside it.
_KEY_LINE_START: Final = re.compile(r"(?:- +| )*")
_DEFAULT_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace text[start:end]. Of insertions at one place the deeper one comes first, or it would change its parent."""

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
    """Replace one scalar: the splices, and the value that will be read."""
    way = locate(located.tree, located.root, edit.field)
    node = way[-1]
    if not isinstance(node, ScalarNode):
        raise ObstacleError("expected a scalar here, got a mapping or a list", node.start)
    _refuse_template(node, current)
    start = value_start(located.text, node)
    # The tag `!` alone leaves no trace in the events.
    if node.has_tag or located.text[start : start + 1] == "!":
        raise ObstacleError("a tag stands on the value", node.start)
    if node.is_block:
        raise ObstacleError("expected a scalar on its line, got a block scalar (| or >)", node.start)
    in_flow = any(isinstance(step, MappingNode | SequenceNode) and step.is_flow for step in way)
    text, value = write_scalar(edit.value, style=node.style, in_flow=in_flow, was_text=isinstance(current, str))
    if type(current) is type(value) and current == value:
        return [], value
    if start < node.end:
        return [Splice(start, node.end, text, len(located.text))], value
    return [_fill(located.text, node, " " + text)], value


def _fill(text: str, node: YamlNode, value: str) -> Splice:
    """Write into an empty value, right behind its colon, dash or anchor."""
    position = len(text[: node.end].rstrip())
    if text[position - 1] not in ":-" and node.anchor is None:
        raise ObstacleError("expected a key and a colon before the empty value", node.start)
    return Splice(position, position, value, len(text))


def _refuse_template(node: YamlNode, value: Value) -> None:
    marker = _find_template(value)
    if marker is not None:
        raise ObstacleError(f"the value comes from a template ({marker}): it is set somewhere else", node.start)


def _find_template(value: Value) -> str | None:
    if isinstance(value, str):
        match = _TEMPLATE.search(value)
        return match[0] if match else None
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((marker for marker in map(_find_template, members) if marker is not None), None)


def splice_insertion(located: Located, edit: InsertBlock) -> tuple[list[Splice], Value]:
    """Insert a key behind the last member of its parent: the splice, and the value that will be read."""
    parent = locate(located.tree, located.root, edit.parent)[-1]
    if not isinstance(parent, MappingNode):
        raise ObstacleError("expected a mapping to insert into, got an empty value, a scalar or a list", parent.start)
    _refuse_unusual_parent(located.text, parent)
    if edit.key in parent.members:
        raise ObstacleError("the key is already there", parent.members[edit.key].key.start)
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
    """Insert an item behind the last one of its list: the splice, and the value that will be read.

    `current` is the list with what was inserted before it.
    """
    parent = locate(located.tree, located.root, edit.parent)[-1]
    if not isinstance(parent, SequenceNode) or not parent.items:
        raise ObstacleError("expected a list with items of its own", parent.start)
    if parent.is_flow and not edit.in_line:
        raise ObstacleError("the list is in flow style ([...]): write its items on lines of their own", parent.start)
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
    """A line below would give a clipped block scalar the final line break that it has not got."""
    if not isinstance(leaf, ScalarNode):
        return
    if leaf.is_block and leaf.end == len(text) and leaf.text and text[-1] != "\n":
        raise ObstacleError("a block scalar ends here without a line break: add one at the end of the file", leaf.start)
    # The value of `? key` alone stands nowhere: not on the key's line, but where the next line begins.
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
        raise ObstacleError("the keys of this mapping are not laid out as `key: value` on lines of their own", first)


def _lines_column(parent: MappingNode, block: RenderedBlock) -> int:
    """Indent as the first nested mapping beside it does."""
    if block.is_scalar:
        return parent.column
    nested = (member.value for member in parent.members.values())
    columns = (node.column for node in nested if isinstance(node, MappingNode) and not node.is_flow)
    return next(columns, parent.column + _DEFAULT_STEP)


def splice_replacement(located: Located, edit: ReplaceBlock, current: Value) -> tuple[list[Splice], Value]:
    """Replace a key's whole value: the splices, and the value that will be read."""
    if not edit.field:
        raise ObstacleError("expected the key of a mapping")
    way = locate(located.tree, located.root, edit.field)
    parent, node = way[-2], way[-1]
    block = read_block(edit.text)
    if isinstance(parent, SequenceNode) and isinstance(node, ScalarNode) and node.is_block and block.is_scalar:
        _refuse_template(node, current)
        return list(_replace_text(located.text, parent, node, block)), block.value
    if not isinstance(edit.field[-1], str) or not isinstance(parent, MappingNode):
        raise ObstacleError("expected the key of a mapping", parent.start)
    _refuse_unusual_parent(located.text, parent)
    _refuse_template(node, current)
    if node.anchor is not None or node.has_tag:
        raise ObstacleError("an anchor or a tag stands on the value", node.start)
    if find_difference(current, block.value) is None:
        return [], block.value
    return list(_replace(located.text, parent, parent.members[edit.field[-1]], block)), block.value


def _replace(text: str, parent: MappingNode, member: Member, block: RenderedBlock) -> Iterable[Splice]:
    """Two stretches: what stands behind the colon, and the lines below; a comment behind the key survives."""
    node = member.value
    colon = _COLON.match(text, member.key.end)
    if colon is None:
        raise ObstacleError("expected a colon after the key", member.key.start)
    inline_end, lines_start = _inline_end(text, colon.end(), node), _lines_start(text, node)
    lines_end = max(lines_start, end_of_content(text, last_leaf(node)))
    column = _replacement_column(parent, node, block)
    lines = write_lines(block, column=column, newline=newline_before(text, lines_start))
    yield Splice(colon.end(), inline_end, f" {block.inline}" if block.inline else "", len(text))
    yield Splice(lines_start, lines_end, lines, parent.column + 1)


def _replace_text(text: str, parent: SequenceNode, node: ScalarNode, block: RenderedBlock) -> Iterable[Splice]:
    """The header and the lines of a text that is an item of a list."""
    if node.anchor is not None or node.has_tag:
        raise ObstacleError("an anchor or a tag stands on the value", node.start)
    lines_start = _lines_start(text, node)
    lines_end = max(lines_start, end_of_content(text, node))
    lines = write_lines(block, column=parent.column, newline=newline_before(text, lines_start))
    yield Splice(node.start, _inline_end(text, node.start, node), block.inline, len(text))
    yield Splice(lines_start, lines_end, lines, parent.column + 1)


def _is_block_collection(node: YamlNode) -> bool:
    return isinstance(node, MappingNode | SequenceNode) and not node.is_flow


def _inline_end(text: str, colon_end: int, node: YamlNode) -> int:
    if _is_block_collection(node):
        return colon_end
    header = _BLOCK_SCALAR_HEADER.match(text, node.start) if isinstance(node, ScalarNode) and node.is_block else None
    return header.end() if header else node.end


def _lines_start(text: str, node: YamlNode) -> int:
    """The end of the last line that stays: the one above a block, or the one on which an inline value ends."""
    if _is_block_collection(node):
        line_break = text.rfind("\n", 0, node.start)
        return line_break - 1 if text[line_break - 1] == "\r" else line_break
    if isinstance(node, ScalarNode) and node.is_block:
        end = text.find("\n", node.start)
        end = len(text) if end < 0 else end
        return end - 1 if text[end - 1] == "\r" else end
    return end_of_content(text, node)


def _replacement_column(parent: MappingNode, node: YamlNode, block: RenderedBlock) -> int:
    is_alike = (block.is_mapping and isinstance(node, MappingNode)) or (
        block.is_sequence and isinstance(node, SequenceNode)
    )
    return node.column if is_alike and _is_block_collection(node) else _lines_column(parent, block)
