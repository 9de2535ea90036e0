"""Editing a number inside a document that stands as a text in another: an inline patch, values in a ConfigMap."""

from typing import Final

from reconciler.manifests import EditRefused, OpenFile, ReplaceBlock, SetScalar, apply_edits, format_field
from reconciler.manifests.edits import ObstacleError
from reconciler.manifests.nodes import ScalarNode, build_tree, locate
from reconciler.placement.origins import Origin

_LITERAL: Final = "|"


def edit_embedded(file: OpenFile, origin: Origin, value: int) -> ReplaceBlock:
    """The edit that writes a number inside a literal block, all other lines of it as they are.

    Raises EditRefused when the text is no literal block, or the number in it cannot be edited.
    """
    if origin.embedding is None:
        raise _refused(origin, "it stands in no text")
    try:
        raw, node, column = _find(file, origin)
    except ObstacleError as obstacle:
        raise _refused(origin, obstacle.reason) from obstacle
    head, _, body = raw.partition("\n")
    if node.style != _LITERAL or not body:
        raise _refused(origin, "expected a literal block (|) around it")
    edit = SetScalar(document=origin.inner_document, field=origin.field, value=value)
    edited = apply_edits(origin.place.path, node.text.encode(), [edit]).decode()
    first = next(line for line in body.split("\n") if line.strip())
    indent = len(first) - len(first.lstrip(" ")) - column
    if indent < 1 or "+" in head or any(character.isdigit() for character in head.partition("#")[0]):
        raise _refused(origin, "expected a literal block without an indentation of its own")
    lines = [" " * indent + line if line else "" for line in edited.rstrip("\n").split("\n")]
    block = "\n".join([head.partition("#")[0].strip(), *lines])
    end = "\n" if node.text.endswith("\n") else ""
    return ReplaceBlock(document=origin.document, field=origin.embedding, text=block + end)


def _find(file: OpenFile, origin: Origin) -> tuple[str, ScalarNode, int]:
    """The block's own text, its node, and the column of the mapping that it stands in."""
    position = file.position_of(origin.document)
    section = file.sections[position]
    text = file.source.text[section.start : section.end]
    tree = build_tree(text)
    way = locate(tree, tree.roots[origin.document - section.index], origin.embedding or ())
    node = way[-1]
    if not isinstance(node, ScalarNode):
        raise ObstacleError("expected a text around it", node.start)
    return text[node.start : node.end], node, way[-2].column


def _refused(origin: Origin, reason: str) -> EditRefused:
    return EditRefused(origin.place.path, origin.place.line, format_field(origin.embedding or ()), reason)
