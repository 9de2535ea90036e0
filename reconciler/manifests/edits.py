"""The edits of a file, the nodes of its text, and the writing of new text."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace
from yaml import YAMLError
from yaml._yaml import Mark
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import (
    SHAPES,
    Scalar,
    Value,
    compose_values,
    events_of,
    resolve_plain,
    resolve_plain_key,
)
from reconciler.manifests.shapes import Learned, named
from reconciler.manifests.wording import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScalar:
    """Replace the bytes of one existing scalar, with its quotes.

    A number in a quoted scalar stays quoted, and therefore text: `"3"` becomes `"5"`.
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
    """Replace the whole value of an existing key in a block mapping, with comments inside it; `text` as above."""

    document: int
    field: Field
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertItem:
    """Add an item after the last one of an existing block list: `index` is its number, `text` a list of only this item.

    With `in_line` the list may also be in flow style: the item is written on its line.
    """

    document: int
    parent: Field
    index: int
    text: str
    in_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDocument:
    """Add a document at the end of a file, which may be empty; `text` has LF line breaks."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEmbedded:
    """Replace one scalar of a document inside a text, a literal block, at a field of another document."""

    document: int
    field: Field
    inner: SetScalar


PlainEdit: TypeAlias = SetScalar | InsertBlock | ReplaceBlock | InsertItem
Edit: TypeAlias = PlainEdit | SetEmbedded


class EditRefused(InputError):  # noqa: N818 - a refusal is an outcome that names the obstacle
    """Raised when an edit cannot be made, or cannot be proven to change only the wanted fields."""


class ObstacleError(Exception):
    """The obstacle of an edit, at a position in the text (None: the place of the edit)."""

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index


def field_of(edit: Edit) -> Field:
    """Name the field that an edit writes."""
    if isinstance(edit, InsertItem):
        return (*edit.parent, edit.index)
    return (*edit.parent, edit.key) if isinstance(edit, InsertBlock) else edit.field


class YamlNode(msgspec.Struct, kw_only=True):
    """Positions count code points. `start` includes anchor and tag; `end` of a block is the end of its last leaf.

    Nodes are structs because an edit makes one for each scalar of a document.
    """

    start: int
    end: int
    column: int
    anchor: str | None = None
    has_tag: bool = False


class ScalarNode(YamlNode, kw_only=True):
    """`style` is empty for a plain scalar, else one of the characters ' \" | >."""

    text: str
    style: str

    @property
    def is_block(self) -> bool:
        """Whether it is a literal or folded block scalar."""
        return self.style in {"|", ">"}


class AliasNode(YamlNode, kw_only=True):
    """A reference to an anchor above."""


class SequenceNode(YamlNode, kw_only=True):
    """A list; `last` is its last item, or the last leaf of a list that was not looked into."""

    is_flow: bool
    items: list[YamlNode] = msgspec.field(default_factory=list)
    last: YamlNode | None = None


class Member(msgspec.Struct, kw_only=True):
    """A key with its value."""

    key: YamlNode
    value: YamlNode


class MappingNode(YamlNode, kw_only=True):
    """A mapping; `merge_start` is the position of its merge key, `others` are merged or set again further on.

    `last` is its last value, or the last leaf of a mapping that was not looked into.
    """

    is_flow: bool
    members: dict[str, Member] = msgspec.field(default_factory=dict)
    others: list[Member] = msgspec.field(default_factory=list)
    merge_start: int | None = None
    last: YamlNode | None = None


Collection: TypeAlias = MappingNode | SequenceNode


@dataclass(slots=True, kw_only=True)
class Tree:
    """The nodes of a text's documents, and the anchors that aliases use."""

    roots: list[YamlNode]
    used_anchors: set[str]


_Ways: TypeAlias = dict[str | int, "_Ways"]
"""The members of a collection that are looked into, each with those of its own."""


def build_tree(text: str, fields: Iterable[Field] | None = None) -> Tree:
    """Locate every node of `text`, which must have been composed without error.

    With `fields` only collections on the way to one of these have members.
    """
    ways: _Ways = {}
    for each in fields or ():
        way = ways
        for part in each:
            way = way.setdefault(part, {})
    return _Builder(events_of(text)).build(None if fields is None else ways)


class _Builder:
    """`ways` is None where everything is looked into."""

    def __init__(self, next_event: Callable[[], Event]) -> None:
        self._next_event = next_event
        self._used_anchors: set[str] = set()

    def build(self, ways: _Ways | None) -> Tree:
        roots: list[YamlNode] = []
        while type(event := self._next_event()) is not StreamEndEvent:
            if type(event) is DocumentStartEvent:
                roots.append(self._node(self._next_event(), ways))
        return Tree(roots=roots, used_anchors=self._used_anchors)

    def _node(self, event: Event, ways: _Ways | None) -> YamlNode:
        mark: Mark = event.start_mark  # type: ignore[assignment]  # as the types of PyYAML have it, it may be missing
        start, column, end = mark.index, mark.column, event.end_mark.index  # type: ignore[union-attr]
        if type(event) is ScalarEvent:
            return ScalarNode(
                start=start,
                end=end,
                column=column,
                anchor=event.anchor,
                has_tag=event.tag is not None,
                text=event.value,
                style=event.style or "",
            )
        if not isinstance(event, CollectionStartEvent):
            self._used_anchors.add(cast(AliasEvent, event).anchor or "")
            return AliasNode(start=start, end=end, column=column)
        node = _collection(event)
        closing = self._fill_mapping(node, ways) if isinstance(node, MappingNode) else self._fill_sequence(node, ways)
        if node.is_flow:
            node.end = cast(Mark, closing.end_mark).index
        return node

    def _fill_mapping(self, node: MappingNode, ways: _Ways | None) -> Event:
        next_event, make, members = self._next_event, self._node, node.members
        is_empty = True
        while type(event := next_event()) is not MappingEndEvent:
            key = make(event, None)
            is_plain = isinstance(key, ScalarNode) and not key.style and not key.has_tag
            name = ""
            if isinstance(key, ScalarNode):
                name = (resolve_plain_key(key.text) if is_plain else None) or key.text
            event = next_event()
            value = make(event, ways and ways[name]) if ways is None or name in ways else self._pass(event)
            if is_empty and not node.is_flow:
                node.column = key.column
            is_empty = False
            node.last, node.end = value, value.end
            if not isinstance(key, ScalarNode):
                continue
            if is_plain and key.text == "<<":
                node.merge_start = key.start
                node.others.append(Member(key=key, value=value))
            else:
                if name in members:
                    node.others.append(members[name])
                members[name] = Member(key=key, value=value)
        return event

    def _fill_sequence(self, node: SequenceNode, ways: _Ways | None) -> Event:
        items = node.items
        while type(event := self._next_event()) is not SequenceEndEvent:
            way = None if ways is None else ways.get(len(items))
            items.append(self._pass(event) if way is None and ways is not None else self._node(event, way))
            node.last, node.end = items[-1], items[-1].end
        return event

    def _pass(self, event: Event) -> YamlNode:
        """A node whose members are not looked into."""
        if not isinstance(event, CollectionStartEvent):
            return self._node(event, None)
        node = _collection(event)
        first, begin, end = self._skip(event)
        if node.is_flow:
            node.end = cast(Mark, end.end_mark).index
            return node
        if isinstance(node, MappingNode):
            node.column = cast(Mark, first.start_mark).column
        is_flow = isinstance(begin, CollectionStartEvent)
        node.last = _collection(begin) if is_flow else self._node(begin, None)
        node.last.end = node.end = cast(Mark, end.end_mark).index
        return node

    def _skip(self, start: CollectionStartEvent) -> tuple[Event, Event, Event]:
        """Read on to the end of a collection: its first event, and those with which its last leaf begins and ends.

        A flow collection is one leaf.
        """
        next_event = self._next_event
        first = event = begin = end = next_event()
        while type(event) not in _ENDS:
            if isinstance(event, CollectionStartEvent):
                _, begin, end = self._skip(event)
            else:
                begin = end = event
                if type(event) is AliasEvent:
                    self._used_anchors.add(event.anchor or "")
            event = next_event()
        return (first, start, event) if start.flow_style else (first, begin, end)


_ENDS: Final = (MappingEndEvent, SequenceEndEvent)


def _collection(event: Event) -> "Collection":
    """The collection that begins here, without members."""
    start = cast(CollectionStartEvent, event)
    mark = cast(Mark, start.start_mark)
    return (MappingNode if type(event) is MappingStartEvent else SequenceNode)(
        start=mark.index,
        end=mark.index,
        column=mark.column,
        anchor=start.anchor,
        has_tag=start.tag is not None,
        is_flow=bool(start.flow_style),
    )


# ---- trees of texts that differ only in simple scalars from earlier ones


@dataclass(frozen=True, slots=True)
class _ShapedTree:
    """A tree of which each position is known by the piece of the text that it is in, and by how far.

    `places` are those of all positions in the tree, `slots` are the scalars that are slots, by where they start.
    """

    tree: Tree
    places: Mapping[int, tuple[int, int]]
    slots: Mapping[int, int]

    @classmethod
    def of(cls, tree: Tree, pieces: Sequence[str]) -> "_ShapedTree":
        """The tree of a text with these pieces; ValueError where a node's text or name is not of its shape alone."""
        starts = list(accumulate(map(len, pieces), initial=0))
        places, slots = dict[int, tuple[int, int]](), dict[int, int]()
        for node, is_key in _nodes_in(tree):
            merge_start = node.merge_start if isinstance(node, MappingNode) else None
            for position in (node.start, node.end, *(() if merge_start is None else (merge_start,))):
                piece = bisect_right(starts, position, hi=len(pieces)) - 1
                places[position] = piece, position - starts[piece]
            (first, offset), (last, rest) = places[node.start], places[node.end]
            if (first % 2 and offset) or (last % 2 and rest):
                raise ValueError("a node begins or ends within a slot")
            is_in_gap = first == last and not first % 2
            if isinstance(node, ScalarNode) and node.start < node.end and not is_in_gap:
                if is_key or not first % 2 or node.end != starts[first + 1]:
                    raise ValueError("a scalar is more than a slot, or the name of a field")
                slots[node.start] = first
        return cls(tree, places, slots)

    def filled(self, pieces: Sequence[str]) -> Tree:
        """The tree of another text of the same shape."""
        starts = list(accumulate(map(len, pieces), initial=0))
        moved = {position: starts[piece] + offset for position, (piece, offset) in self.places.items()}
        filler = _Filler(moved, {start: pieces[slot] for start, slot in self.slots.items()})
        return Tree(roots=list(map(filler.fill, self.tree.roots)), used_anchors=self.tree.used_anchors)


class _Filler:
    """Copies nodes to where they are in another text; `slots` are what stands there, by where each was.

    No function within a function: one that calls itself is a cycle, which keeps all nodes until the end of a run.
    """

    def __init__(self, moved: Mapping[int, int], slots: Mapping[int, str]) -> None:
        self._moved, self._slots = moved, slots
        self._made: dict[int, YamlNode] = {}

    def fill(self, node: YamlNode) -> YamlNode:
        if id(node) in self._made:  # the last value of a collection is one of its members, too
            return self._made[id(node)]
        start, end, found = self._moved[node.start], self._moved[node.end], node
        if isinstance(node, ScalarNode):
            slot = self._slots.get(node.start) if node.end > node.start else None
            text = node.text if slot is None else slot[1:-1] if node.style else slot
            found = replace(node, start=start, end=end, text=text)
        elif isinstance(node, SequenceNode):
            items, last = list(map(self.fill, node.items)), node.last and self.fill(node.last)
            found = replace(node, start=start, end=end, items=items, last=last)
        elif isinstance(node, MappingNode):
            found = replace(
                node,
                start=start,
                end=end,
                members={name: self._fill_member(each) for name, each in node.members.items()},
                others=list(map(self._fill_member, node.others)),
                last=node.last and self.fill(node.last),
                merge_start=None if node.merge_start is None else self._moved[node.merge_start],
            )
        else:
            found = replace(node, start=start, end=end)
        self._made[id(node)] = found
        return found

    def _fill_member(self, member: Member) -> Member:
        return Member(key=self.fill(member.key), value=self.fill(member.value))


def _nodes_in(tree: Tree) -> Iterator[tuple[YamlNode, bool]]:
    """Every node, and whether it is a key."""
    left: list[tuple[YamlNode | None, bool]] = [(root, False) for root in tree.roots]
    while left:
        node, is_key = left.pop()
        if node is None:
            continue
        yield node, is_key
        if isinstance(node, SequenceNode):
            left += ((each, False) for each in (*node.items, node.last))
        elif isinstance(node, MappingNode):
            left.append((node.last, False))
            for member in (*node.members.values(), *node.others):
                left += (member.key, True), (member.value, False)


_TREES: Final = Learned[tuple[str, tuple[Field, ...]], _ShapedTree]()


def find_tree(text: str, fields: Iterable[Field]) -> Tree:
    """`build_tree` of a text that was composed, in a fourth of the time where others of its shape came before."""
    fields = tuple(fields)
    split = SHAPES.split(text) if text.isascii() and "\r" not in text else None
    if split is None:
        return build_tree(text, fields)
    shape, pieces = split
    shaped = _TREES.find((shape, fields), lambda: _learned(text, pieces, fields))
    return build_tree(text, fields) if shaped is None else shaped.filled(pieces)


def _learned(text: str, pieces: Sequence[str], fields: Sequence[Field]) -> _ShapedTree | None:
    """The tree of a shape; None unless it is right for a text with names of other lengths in all slots."""
    others = named(list(pieces))
    try:
        shaped = _ShapedTree.of(build_tree(text, fields), pieces)
        return shaped if shaped.filled(others) == build_tree("".join(others), fields) else None
    except (ValueError, YAMLError):
        return None


def last_leaf(node: YamlNode) -> YamlNode:
    """Find the node whose text ends a block; a flow collection counts as a leaf."""
    while isinstance(node, MappingNode | SequenceNode) and not node.is_flow:
        if node.last is None:
            break
        node = node.last
    return node


def locate(tree: Tree, root: YamlNode, field: Field) -> list[YamlNode]:
    """The nodes from a document's root to a field, which is the last.

    Raises ObstacleError for an alias, a used anchor or a merge on the way, or a missing field.
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
        raise ObstacleError("this is an alias: its value is written at its anchor", node.start)
    if node.anchor is not None and node.anchor in tree.used_anchors:
        raise ObstacleError(f"the anchor &{node.anchor} is used by aliases: the edit would change them too", node.start)


def _step(node: YamlNode, part: str | int, *, is_last: bool) -> YamlNode:
    if isinstance(node, SequenceNode) and isinstance(part, int) and 0 <= part < len(node.items):
        return node.items[part]
    member = node.members.get(part) if isinstance(node, MappingNode) and isinstance(part, str) else None
    if not isinstance(node, MappingNode) or (member is None and node.merge_start is None):
        missing = "the field is not there" if is_last else f"{part!r} on the way to it is not there"
        raise ObstacleError(missing, node.start)
    if member is None:
        raise ObstacleError(f"{part!r} is not written here: it can only come from the merge key <<", node.merge_start)
    if node.merge_start is not None and node.merge_start > member.key.start:
        # In goyaml.v2 the merge wins, in other parsers the key.
        raise ObstacleError(f"a merge key << below {part!r} may override it", node.merge_start)
    return member.value


# Line breaks and controls would end a single-quoted scalar's line, or are not allowed.
_NEEDS_ESCAPES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Comments begin only after blanks, so `#` inside an anchor's name is not one.
_ANCHOR: Final = re.compile(r"&\S+(?:\s++(?:#[^\r\n]*+)?+)*+")


def write_scalar(value: str | int, *, style: str, in_flow: bool, was_text: bool) -> tuple[str, Scalar]:
    """Write a scalar in the quotes of an old one: its text, and the value when it is read."""
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
    if not text or text != text.strip() or _NEEDS_ESCAPES.search(text) or resolve_plain(text) != text:
        return False
    # `a: b` is an error as a mapping's value, and a mapping as a list's item.
    framed = f"[{text}]" if in_flow else f"- {text}"
    try:
        composed = compose_values(framed)
    except InputError:
        return False
    return composed == [[text]] and text[0] not in "&*!|>'\"@`%"


def value_start(text: str, node: YamlNode) -> int:
    """The start of a node's value, after its anchor."""
    match = _ANCHOR.match(text, node.start, node.end) if node.anchor is not None else None
    return match.end() if match else node.start


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """A rendered value: the text on its key's line, and the lines below, not indented.

    `is_scalar` means a block scalar, whose lines are indented already.
    """

    value: Value
    inline: str
    lines: tuple[str, ...]
    is_mapping: bool
    is_sequence: bool
    is_scalar: bool


def read_block(text: str) -> RenderedBlock:
    """Read the text of a new value; ObstacleError when it is not exactly one YAML value."""
    if "\r" in text:
        raise ObstacleError("expected LF line breaks in the new text, got a carriage return")
    try:
        values = compose_values(text)
    except InputError as error:
        raise ObstacleError(f"the new text is not YAML: {error.message}") from error
    if len(values) != 1:
        raise ObstacleError(f"expected one value in the new text, got {len(values)}")
    value = values[0]
    lines = text.rstrip("\n").split("\n")
    root = None if _BLOCK_START.match(text) and isinstance(value, dict | list) else build_tree(text, ()).roots[0]
    is_mapping = isinstance(value, dict) if root is None else isinstance(root, MappingNode) and not root.is_flow
    is_sequence = isinstance(value, list) if root is None else isinstance(root, SequenceNode) and not root.is_flow
    if is_mapping or is_sequence:
        return RenderedBlock(value, "", tuple(lines), is_mapping, is_sequence, is_scalar=False)
    is_scalar = isinstance(root, ScalarNode) and root.is_block
    return RenderedBlock(value, lines[0], tuple(lines[1:]), is_mapping, is_sequence, is_scalar)


_BLOCK_START: Final = re.compile(r"[A-Za-z]|- ")
"""What the text of a block of several values begins with; all others are looked at as YAML."""


def write_lines(block: RenderedBlock, *, column: int, newline: str) -> str:
    """Write a block's lines at a column, each with a line break before it."""
    blank = " " * column
    return "".join(newline + (blank + line if line else "") for line in block.lines)


def write_flow(value: Value) -> str:
    """A value on one line in flow style, with quoted texts."""
    if isinstance(value, dict):
        members = (f"{write_scalar(key, style='', in_flow=True, was_text=True)[0]}: " for key in value)
        return "{" + ", ".join(map("".join, zip(members, map(write_flow, value.values()), strict=True))) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, str):
        return _quote(value, '"')
    return "null" if value is None else str(value).lower()


def end_of_content(text: str, leaf: YamlNode) -> int:
    """The end of a leaf's last line and its comment, before the line break."""
    if isinstance(leaf, ScalarNode) and leaf.is_block:
        header_end = text.find("\n", leaf.start, leaf.end)
        content = text[leaf.start : leaf.end]
        keeps_blank_lines = "+" in text[leaf.start : header_end].partition("#")[0] if header_end >= 0 else False
        if keeps_blank_lines:
            return leaf.start + len(content.removesuffix("\n").removesuffix("\r"))
        return leaf.start + len(content.rstrip("\r\n"))
    end = text.find("\n", leaf.end)
    end = len(text) if end < 0 else end
    if text[leaf.end : end].lstrip(" \t\r")[:1] not in {"", "#"}:
        raise ObstacleError("there is other text on the last line of the block", leaf.end)
    return end - 1 if text[max(leaf.end, end - 1) : end] == "\r" else end


_DEEPER_COMMENT: Final = re.compile(r"(?:\r?\n[ \t]*)*?\r?\n(?P<blank> +)#[^\n]*?(?=\r?\n|\Z)")


def skip_deeper_comments(text: str, position: int, column: int) -> int:
    """Skip the comments below a block that are indented deeper than `column`, as they belong to it."""
    while (match := _DEEPER_COMMENT.match(text, position)) and len(match["blank"]) > column:
        position = match.end()
    return position


def newline_before(text: str, position: int) -> str:
    """The line break that the file uses around a position."""
    index = text.rfind("\n", 0, position)
    index = text.find("\n") if index < 0 else index
    return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"
