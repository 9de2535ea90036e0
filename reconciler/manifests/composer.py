"""Plain values and their lines from libyaml's events, with every cap checked while the events come in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from yaml import YAMLError
from yaml.error import MarkedYAMLError
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

from reconciler.errors import InputError
from reconciler.manifests.scalars import Scalar, resolve_plain, resolve_plain_key, resolve_tagged
from reconciler.manifests.wording import format_field

try:
    from yaml._yaml import CParser
except ImportError as error:
    raise ImportError("PyYAML was built without libyaml: install its wheel, or libyaml before it") from error

MAX_DEPTH: Final = 100
MAX_EVENTS: Final = 500_000
MAX_EXPANDED_NODES: Final = 100_000

Value: TypeAlias = dict[str, "Value"] | list["Value"] | Scalar
# The line of a scalar; of a collection, its line and the lines of its members. Lines count from 0 in the section.
Lines: TypeAlias = int | tuple[int, "dict[str, Lines] | list[Lines]"]
_Mapping: TypeAlias = tuple[dict[str, Value], dict[str, Lines]]


@dataclass(slots=True)
class ComposingBudget:
    """What is left of a file's caps."""

    events: int = MAX_EVENTS
    expanded_nodes: int = MAX_EXPANDED_NODES


@dataclass(frozen=True, slots=True)
class ComposedDocument:
    """One document's value and the lines of its fields, from 0 in the composed text.

    `literals` are the lines on which a literal block (|) begins.
    """

    value: Value
    lines: Lines
    first_line: int
    literals: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Value
    lines: Lines
    num_nodes: int
    height: int


class _RefusedError(Exception):
    """What is wrong and on which line; every mapping and sequence on the way out adds its part of the path."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.parts: list[str | int] = []


def compose_documents(
    path: str, text: str, *, first_line: int, budget: ComposingBudget, last_key_counts: bool = False
) -> list[ComposedDocument]:
    """Compose every document of `text`; `first_line` is the number of its first line in the file.

    Raises InputError for malformed YAML, duplicate keys (unless the last one counts), keys that are no text, and
    everything beyond the caps.
    """
    try:
        return _Composer(text, first_line, budget, last_key_counts=last_key_counts).compose()
    except _RefusedError as refused:
        line, field, message = refused.line, format_field(refused.parts[::-1]), refused.message
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f"{error.context}: " if error.context else ""
        line, field, message = mark.line if mark else 0, "", f"expected YAML: {context}{error.problem}"
    except YAMLError as error:
        line, field = text.count("\n", 0, getattr(error, "position", 0)), ""
        message = f"expected YAML: {getattr(error, 'reason', None) or error}"
    # At the end of a text without a last line break libyaml is one line further.
    raise InputError(path, first_line + min(line, text.count("\n")), field, message)


class _Composer:
    """One pass over the events of one text.

    The loops handle scalars in line, since nine nodes of ten are scalars.
    """

    def __init__(self, text: str, first_line: int, budget: ComposingBudget, *, last_key_counts: bool) -> None:
        # It returns None only after the end of the stream, where nobody asks.
        self._next_event = cast(Callable[[], Event], CParser(text).get_event)
        self._first_line = first_line
        self._budget = budget
        self._last_key_counts = last_key_counts
        self._anchors: dict[str, _Anchored | None] = {}
        self._literals: set[int] = set()
        self._num_nodes = 0
        self._deepest = 0

    def compose(self) -> list[ComposedDocument]:
        documents: list[ComposedDocument] = []
        while type(event := self._next_event()) is not StreamEndEvent:
            if type(event) is DocumentStartEvent:
                self._anchors.clear()
                self._literals.clear()
                documents.append(self._document(event))
        return documents

    def _document(self, start: Event) -> ComposedDocument:
        event = self._next_event()
        value, lines = self._node(event, 0)
        # An empty value stands wherever the next token does, or behind the last line.
        first_line = _line(start if value is None else event)
        return ComposedDocument(value, lines, first_line, frozenset(self._literals))

    def _node(self, event: Event, depth: int) -> tuple[Value, Lines]:
        if type(event) is ScalarEvent:
            return self._scalar(event), _line(event)
        if type(event) is AliasEvent:
            return self._alias(event, depth)
        if depth >= MAX_DEPTH:
            raise _RefusedError(_line(event), f"expected at most {MAX_DEPTH} levels of nesting, got more")
        return self._collection(event, depth + 1)

    def _scalar(self, event: ScalarEvent) -> Scalar:
        self._num_nodes += 1
        is_plain, is_text = event.implicit
        if is_plain:
            value = resolve_plain(event.value)
        elif is_text:
            value = event.value
            if event.style == "|":
                self._literals.add(_line(event))
        else:
            value = self._tagged(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, _line(event), 1, 0)
        return value

    def _tagged(self, event: ScalarEvent) -> Scalar:
        try:
            return resolve_tagged(event.tag or "", event.value)
        except ValueError as error:
            raise _RefusedError(_line(event), str(error)) from error

    def _alias(self, event: AliasEvent, depth: int) -> tuple[Value, Lines]:
        line = _line(event)
        if event.anchor not in self._anchors:
            raise _RefusedError(line, f"expected an anchor &{event.anchor} above the alias *{event.anchor}, got none")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _RefusedError(line, f"the alias *{event.anchor} stands inside its own anchor")
        self._num_nodes += anchored.num_nodes
        self._budget.expanded_nodes -= anchored.num_nodes
        if self._budget.expanded_nodes < 0:
            raise _RefusedError(line, f"expected at most {MAX_EXPANDED_NODES} values through aliases, got more")
        self._deepest = max(self._deepest, depth + anchored.height)
        if depth + anchored.height > MAX_DEPTH:
            raise _RefusedError(line, f"expected at most {MAX_DEPTH} levels of nesting, aliases lead to more")
        return anchored.value, anchored.lines

    def _collection(self, event: Event, depth: int) -> tuple[Value, Lines]:
        anchor = event.anchor if isinstance(event, MappingStartEvent | SequenceStartEvent) else None
        if anchor is None:
            return self._members(event, depth)
        self._anchors[anchor] = None
        num_nodes, deepest, self._deepest = self._num_nodes, self._deepest, depth
        value, lines = self._members(event, depth)
        height = self._deepest - depth + 1
        self._anchors[anchor] = _Anchored(value, lines, self._num_nodes - num_nodes, height)
        self._deepest = max(deepest, self._deepest)
        return value, lines

    def _members(self, event: Event, depth: int) -> tuple[Value, Lines]:
        self._num_nodes += 1
        self._deepest = max(self._deepest, depth)
        line = _line(event)
        if type(event) is MappingStartEvent:
            mapping, mapping_lines = self._mapping(depth)
            return mapping, (line, mapping_lines)
        items, item_lines = self._sequence(depth)
        return items, (line, item_lines)

    def _mapping(self, depth: int) -> tuple[dict[str, Value], dict[str, Lines]]:
        value: dict[str, Value] = {}
        lines: dict[str, Lines] = {}
        merged: list[_Mapping] | None = None
        next_event, budget = self._next_event, self._budget
        while type(event := next_event()) is not MappingEndEvent:
            budget.events -= 2
            if budget.events < 0:
                raise _too_many_events(event)
            key = self._key(event)
            line = _line(event)
            if key in lines and not self._last_key_counts:
                raise self._duplicate(key, lines[key], line)
            if key == "<<" and _is_plain(event):
                merged, lines[key] = self._merged(next_event(), depth), line
                continue
            event = next_event()
            if type(event) is ScalarEvent:
                value[key] = self._scalar(event)
                lines[key] = line
            else:
                value[key], lines[key] = self._child(event, depth, key, line)
        if merged is not None:
            del lines["<<"]
            _merge(value, lines, merged)
        return value, lines

    def _sequence(self, depth: int) -> tuple[list[Value], list[Lines]]:
        items: list[Value] = []
        lines: list[Lines] = []
        next_event, budget = self._next_event, self._budget
        while type(event := next_event()) is not SequenceEndEvent:
            budget.events -= 1
            if budget.events < 0:
                raise _too_many_events(event)
            if type(event) is ScalarEvent:
                items.append(self._scalar(event))
                lines.append(_line(event))
            else:
                item, item_lines = self._child(event, depth, len(items), _line(event))
                items.append(item)
                lines.append(item_lines)
        return items, lines

    def _child(self, event: Event, depth: int, part: str | int, line: int) -> tuple[Value, Lines]:
        try:
            value, lines = self._node(event, depth)
        except _RefusedError as refused:
            refused.parts.append(part)
            raise
        return value, line if isinstance(lines, int) else (line, lines[1])

    def _key(self, event: Event) -> str:
        if type(event) is ScalarEvent:
            key = resolve_plain_key(event.value) if event.implicit[0] else event.value
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(key, _line(event), 1, 0)
        elif type(event) is AliasEvent:
            value, _ = self._alias(event, 0)
            key = value if isinstance(value, str) else None
        else:
            message = "expected a text key, got a collection (a template that is not rendered?)"
            raise _RefusedError(_line(event), message)
        if key is None:
            raise _RefusedError(_line(event), "expected a text key, got null or an alias to something else")
        return key

    def _merged(self, event: Event, depth: int) -> list[_Mapping]:
        value, lines = self._child(event, depth, "<<", _line(event))
        members = [] if isinstance(lines, int) else lines[1]
        if isinstance(value, dict) and isinstance(members, dict):
            return [(value, members)]
        merged: list[_Mapping] = []
        for source, source_lines in zip(value, members, strict=True) if isinstance(value, list) else ():
            if isinstance(source, dict) and isinstance(source_lines, tuple) and isinstance(source_lines[1], dict):
                merged.append((source, source_lines[1]))
        if not isinstance(value, list) or len(merged) < len(value):
            raise _RefusedError(_line(event), "expected a mapping, or a list of them, after the merge key <<")
        return merged

    def _duplicate(self, key: str, first: Lines, line: int) -> _RefusedError:
        first_line = self._first_line + (first if isinstance(first, int) else first[0])
        refused = _RefusedError(line, f"the key is already set on line {first_line}: remove one of the two")
        refused.parts.append(key)
        return refused


def _line(event: Event) -> int:
    mark = event.start_mark
    return mark.line if mark else 0


def _too_many_events(event: Event) -> _RefusedError:
    return _RefusedError(_line(event), f"expected at most {MAX_EVENTS} YAML events, got more")


def _is_plain(event: Event) -> bool:
    return isinstance(event, ScalarEvent) and event.implicit[0]


def _merge(value: dict[str, Value], lines: dict[str, Lines], merged: list[_Mapping]) -> None:
    """Add what is not set yet; of several sources the first wins."""
    for mapping, mapping_lines in merged:
        for key, member in mapping.items():
            if key not in value:
                value[key], lines[key] = member, mapping_lines[key]
