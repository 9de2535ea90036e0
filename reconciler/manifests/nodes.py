"""Where every node of a text stands: built only for documents that are edited, after they were composed within caps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from yaml._yaml import CParser, Mark
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from reconciler.manifests.edits import ObstacleError
from reconciler.manifests.scalars import resolve_plain_key
from reconciler.manifests.wording import Field


@dataclass(slots=True, kw_only=True)
class YamlNode:
    """Positions count code points. `start` includes anchor and tag; `end` of a block is the end of its last leaf."""

    start: int
    end: int
    column: int
    anchor: str | None = None
    has_tag: bool = False


@dataclass(slots=True, kw_only=True)
class ScalarNode(YamlNode):
    """`style` is empty for a plain scalar, else one of the characters ' \" | >."""

    text: str
    style: str

    @property
    def is_block(self) -> bool:
        """Whether it is a literal or folded block scalar."""
        return self.style in {"|", ">"}


@dataclass(slots=True, kw_only=True)
class AliasNode(YamlNode):
    """A reference to an anchor above."""


@dataclass(slots=True, kw_only=True)
class SequenceNode(YamlNode):
    """A list."""

    is_flow: bool
    items: list[YamlNode] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Member:
    """A key with its value."""

    key: YamlNode
    value: YamlNode


@dataclass(slots=True, kw_only=True)
class MappingNode(YamlNode):
    """A mapping; `merge_start` is where its merge key stands."""

    is_flow: bool
    members: dict[str, Member] = field(default_factory=dict)
    merge_start: int | None = None
    last: YamlNode | None = None


Collection: TypeAlias = MappingNode | SequenceNode


@dataclass(slots=True, kw_only=True)
class Tree:
    """The nodes of a text's documents, and the anchors that aliases use."""

    roots: list[YamlNode]
    used_anchors: set[str]


def build_tree(text: str) -> Tree:
    """Locate every node of `text`, which must have been composed without error."""
    return _Builder(text).build()


class _Builder:
    def __init__(self, text: str) -> None:
        # It returns None only after the end of the stream, where nobody asks.
        self._next_event = cast(Callable[[], Event], CParser(text).get_event)
        self._used_anchors: set[str] = set()

    def build(self) -> Tree:
        roots: list[YamlNode] = []
        while type(event := self._next_event()) is not StreamEndEvent:
            if type(event) is DocumentStartEvent:
                roots.append(self._node(self._next_event()))
        return Tree(roots=roots, used_anchors=self._used_anchors)

    def _node(self, event: Event) -> YamlNode:
        start, end = cast(Mark, event.start_mark), cast(Mark, event.end_mark)
        if isinstance(event, ScalarEvent):
            return ScalarNode(
                start=start.index,
                end=end.index,
                column=start.column,
                anchor=event.anchor,
                has_tag=event.tag is not None,
                text=event.value,
                style=event.style or "",
            )
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, start)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, start)
        self._used_anchors.add(cast(AliasEvent, event).anchor or "")
        return AliasNode(start=start.index, end=end.index, column=start.column)

    def _mapping(self, opening: MappingStartEvent, start: Mark) -> MappingNode:
        node = MappingNode(
            start=start.index,
            end=start.index,
            column=start.column,
            anchor=opening.anchor,
            has_tag=opening.tag is not None,
            is_flow=bool(opening.flow_style),
        )
        while not isinstance(event := self._next_event(), MappingEndEvent):
            key = self._node(event)
            value = self._node(self._next_event())
            if node.last is None and not node.is_flow:
                node.column = key.column
            node.last, node.end = value, value.end
            self._add(node, Member(key=key, value=value))
        if node.is_flow:
            node.end = cast(Mark, event.end_mark).index
        return node

    def _add(self, node: MappingNode, member: Member) -> None:
        key = member.key
        if not isinstance(key, ScalarNode):
            return
        is_plain = not key.style and not key.has_tag
        if is_plain and key.text == "<<":
            node.merge_start = key.start
        else:
            node.members[(resolve_plain_key(key.text) if is_plain else None) or key.text] = member

    def _sequence(self, opening: SequenceStartEvent, start: Mark) -> SequenceNode:
        node = SequenceNode(
            start=start.index,
            end=start.index,
            column=start.column,
            anchor=opening.anchor,
            has_tag=opening.tag is not None,
            is_flow=bool(opening.flow_style),
        )
        while not isinstance(event := self._next_event(), SequenceEndEvent):
            node.items.append(self._node(event))
            node.end = node.items[-1].end
        if node.is_flow:
            node.end = cast(Mark, event.end_mark).index
        return node


def last_leaf(node: YamlNode) -> YamlNode:
    """Find the node whose text ends a block; a flow collection counts as a leaf."""
    while isinstance(node, MappingNode | SequenceNode) and not node.is_flow:
        child = node.last if isinstance(node, MappingNode) else node.items[-1] if node.items else None
        if child is None:
            break
        node = child
    return node


def locate(tree: Tree, root: YamlNode, field: Field) -> list[YamlNode]:
    """Walk from a document's root to a field: the nodes on the way, the field's own last.

    Raises ObstacleError when the way leads through an alias, a used anchor or a merge, or ends early.
    """
    way = [root]
    _refuse_shared(tree, root)
    for depth, part in enumerate(field):
        node = _step(way[-1], part, is_last=depth == len(field) - 1)
        _refuse_shared(tree, node)
        way.append(node)
    return way


def _refuse_shared(tree: Tree, node: YamlNode) -> None:
    if isinstance(node, AliasNode):
        raise ObstacleError("an alias stands here: its value is written at its anchor", node.start)
    if node.anchor is not None and node.anchor in tree.used_anchors:
        raise ObstacleError(f"the anchor &{node.anchor} is used by aliases: the edit would change them too", node.start)


def _step(node: YamlNode, part: str | int, *, is_last: bool) -> YamlNode:
    if isinstance(node, SequenceNode) and isinstance(part, int) and 0 <= part < len(node.items):
        return node.items[part]
    member = node.members.get(part) if isinstance(node, MappingNode) and isinstance(part, str) else None
    if not isinstance(node, MappingNode) or (member is None and node.merge_start is None):
        raise ObstacleError(
            "the field is not there" if is_last else f"{part!r} on the way to it is not there", node.start
        )
    if member is None:
        raise ObstacleError(f"{part!r} is not written here: it can only come from the merge key <<", node.merge_start)
    if node.merge_start is not None and node.merge_start > member.key.start:
        # goyaml.v2 lets the merge win there, other parsers the key.
        raise ObstacleError(f"a merge key << below {part!r} may override it", node.merge_start)
    return member.value
