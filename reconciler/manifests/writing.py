"""New text for old places: scalars in the quotes they had, blocks at their neighbours' indentation."""

import re
from dataclasses import dataclass
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.composer import ComposingBudget, Value, compose_documents
from reconciler.manifests.edits import ObstacleError
from reconciler.manifests.nodes import MappingNode, ScalarNode, SequenceNode, YamlNode, build_tree
from reconciler.manifests.scalars import Scalar, resolve_plain

# Line breaks and controls would end a single-quoted scalar's line, or are not allowed in a stream.
_NEEDS_ESCAPES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Comments stand only after blanks, so `#` inside an anchor's name is no comment.
_ANCHOR: Final = re.compile(r"&\S+(?:\s++(?:#[^\r\n]*+)?+)*+")


def write_scalar(value: str | int, *, style: str, in_flow: bool, was_text: bool) -> tuple[str, Scalar]:
    """Write a scalar in an old one's quotes: its text, and the value that it will be read as."""
    if isinstance(value, int):
        text = str(value).lower()
        return (text, value) if not style else (_quote(text, style), text)
    if not style and (was_text or not in_flow) and _reads_as_plain(value, in_flow=in_flow):
        return value, value
    return _quote(value, style or '"'), value


def _quote(text: str, style: str) -> str:
    if style == "'" and not _NEEDS_ESCAPES.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = "".join(_SHORT_ESCAPES.get(character, character) for character in text)
    return '"' + _NEEDS_ESCAPES.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def _reads_as_plain(text: str, *, in_flow: bool) -> bool:
    """Ask the parser itself: alone in a list, is it this text and nothing else?"""
    if not text or text != text.strip() or _NEEDS_ESCAPES.search(text) or resolve_plain(text) != text:
        return False
    # In a mapping's value `a: b` is an error, in a list's item it is a mapping: both are no text.
    framed = f"[{text}]" if in_flow else f"- {text}"
    try:
        composed = compose_documents("", framed, first_line=1, budget=ComposingBudget())
    except InputError:
        return False
    return len(composed) == 1 and composed[0].value == [text] and text[0] not in "&*!|>'\"@`%"


def value_start(text: str, node: YamlNode) -> int:
    """Where a node's value begins, behind its anchor."""
    if node.anchor is None:
        return node.start
    match = _ANCHOR.match(text, node.start, node.end)
    return match.end() if match else node.start


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """A rendered value: what stands on its key's line, and the lines below it, not indented.

    `is_scalar` means a block scalar, whose lines are indented already.
    """

    value: Value
    inline: str
    lines: tuple[str, ...]
    is_mapping: bool
    is_sequence: bool
    is_scalar: bool


def read_block(text: str) -> RenderedBlock:
    """Read the text of a value that is to be written; ObstacleError when it is not exactly one YAML value."""
    if "\r" in text:
        raise ObstacleError("expected LF line breaks in the new text, got a carriage return")
    try:
        composed = compose_documents("", text, first_line=1, budget=ComposingBudget())
    except InputError as error:
        raise ObstacleError(f"the new text is no YAML: {error.message}") from error
    if len(composed) != 1:
        raise ObstacleError(f"expected one value in the new text, got {len(composed)}")
    root = build_tree(text).roots[0]
    lines = text.rstrip("\n").split("\n")
    is_mapping = isinstance(root, MappingNode) and not root.is_flow
    is_sequence = isinstance(root, SequenceNode) and not root.is_flow
    if is_mapping or is_sequence:
        return RenderedBlock(composed[0].value, "", tuple(lines), is_mapping, is_sequence, is_scalar=False)
    is_scalar = isinstance(root, ScalarNode) and root.is_block
    return RenderedBlock(composed[0].value, lines[0], tuple(lines[1:]), is_mapping, is_sequence, is_scalar)


def write_lines(block: RenderedBlock, *, column: int, newline: str) -> str:
    """Write a block's lines at a column, each with a line break before it."""
    blank = " " * column
    return "".join(newline + (blank + line if line else "") for line in block.lines)


def write_flow(value: Value) -> str:
    """A value on one line, as it stands inside of another one in flow style; its texts are quoted."""
    if isinstance(value, dict):
        members = (f"{write_scalar(key, style='', in_flow=True, was_text=True)[0]}: " for key in value)
        return "{" + ", ".join(map("".join, zip(members, map(write_flow, value.values()), strict=True))) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, str):
        return _quote(value, '"')
    return "null" if value is None else str(value).lower()


def end_of_content(text: str, leaf: YamlNode) -> int:
    """Where the last line of a leaf ends, before its line break; a comment on that line belongs to it."""
    if isinstance(leaf, ScalarNode) and leaf.is_block:
        return _end_of_block_scalar(text, leaf)
    end = text.find("\n", leaf.end)
    end = len(text) if end < 0 else end
    if text[leaf.end : end].lstrip(" \t\r")[:1] not in {"", "#"}:
        raise ObstacleError("something else stands on the last line of the block", leaf.end)
    return end - 1 if text[max(leaf.end, end - 1) : end] == "\r" else end


def _end_of_block_scalar(text: str, leaf: ScalarNode) -> int:
    header_end = text.find("\n", leaf.start, leaf.end)
    content = text[leaf.start : leaf.end]
    keeps_blank_lines = "+" in text[leaf.start : header_end].partition("#")[0] if header_end >= 0 else False
    if keeps_blank_lines:
        return leaf.start + len(content.removesuffix("\n").removesuffix("\r"))
    return leaf.start + len(content.rstrip("\r\n"))


_DEEPER_COMMENT: Final = re.compile(r"(?:\r?\n[ \t]*)*?\r?\n(?P<blank> +)#[^\n]*?(?=\r?\n|\Z)")


def skip_deeper_comments(text: str, position: int, column: int) -> int:
    """Pass the comments below a block that are indented deeper than `column`: they belong to what is above."""
    while (match := _DEEPER_COMMENT.match(text, position)) and len(match["blank"]) > column:
        position = match.end()
    return position


def newline_before(text: str, position: int) -> str:
    """Take the line break that the file uses around a position."""
    index = text.rfind("\n", 0, position)
    index = text.find("\n") if index < 0 else index
    return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"
