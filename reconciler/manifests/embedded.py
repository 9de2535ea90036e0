"""A document that stands as a text in another: an inline patch, values in a ConfigMap or in an Application."""

from dataclasses import dataclass
from typing import Final

from reconciler.manifests.documents import OpenFile
from reconciler.manifests.edits import EditRefused, ObstacleError
from reconciler.manifests.nodes import ScalarNode, build_tree, locate
from reconciler.manifests.wording import Field, format_field

_LITERAL: Final = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedText:
    """The text of a literal block, as it is read, and what it takes to write another in its place.

    `line` is the one that its header stands on.
    """

    line: int
    body: str
    header: str
    indent: int

    def write(self, edited: str) -> str:
        """The block with another text, every line of which stands where it stood."""
        lines = [" " * self.indent + line if line else "" for line in edited.rstrip("\n").split("\n")]
        end = "\n" if self.body.endswith("\n") else ""
        return "\n".join([self.header, *lines]) + end


def open_text(file: OpenFile, document: int, field: Field) -> EmbeddedText:
    """The text at a field; EditRefused where it is no literal block, or one whose lines cannot be told apart."""
    try:
        line, raw, node, column = _find(file, document, field)
    except ObstacleError as obstacle:
        raise EditRefused(file.source.path, 0, format_field(field), obstacle.reason) from obstacle
    header, _, below = raw.partition("\n")
    if node.style != _LITERAL or not below:
        reason = "expected a literal block (|) around the number"
        raise EditRefused(file.source.path, line, format_field(field), reason)
    first = next(each for each in below.split("\n") if each.strip())
    indent = len(first) - len(first.lstrip(" ")) - column
    header = header.partition("#")[0].strip()
    if indent < 1 or "+" in header or any(character.isdigit() for character in header):
        reason = "expected a literal block without an indentation of its own"
        raise EditRefused(file.source.path, line, format_field(field), reason)
    return EmbeddedText(line=line, body=node.text, header=header, indent=indent)


def _find(file: OpenFile, document: int, field: Field) -> tuple[int, str, ScalarNode, int]:
    """The block's line, its own text, its node, and the column of the mapping that it stands in."""
    position = file.position_of(document)
    if position < 0:
        raise ObstacleError(f"there is no document {document}")
    section = file.sections[position]
    text = file.source.text[section.start : section.end]
    tree = build_tree(text)
    number = document - section.index
    if number >= len(tree.roots):
        raise ObstacleError(f"there is no document {document}")
    way = locate(tree, tree.roots[number], field)
    node = way[-1]
    if not isinstance(node, ScalarNode) or len(way) < 2:
        raise ObstacleError("expected a text around the number", node.start)
    line = section.first_line + text.count("\n", 0, node.start)
    return line, text[node.start : node.end], node, way[-2].column
