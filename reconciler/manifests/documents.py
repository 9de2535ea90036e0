"""The documents of a file: plain values and the line of every field, also in older versions."""

import math
import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final, TypeAlias, cast, overload

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

from reconciler.domain.records import dataclass
from reconciler.domain.written import FieldPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.shapes import Shapes
from reconciler.manifests.wording import format_field

Scalar: TypeAlias = str | int | float | bool | None

_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# 64 binary digits with sign and prefix; Python itself refuses to convert thousands of digits.
_LONGEST_INTEGER: Final = 68
_INTEGERS: Final = range(-(2**63), 2**64)


@lru_cache(maxsize=16384)
def resolve_plain(text: str) -> Scalar:
    """Resolve an unquoted scalar: booleans, null, integers in four bases, floats; all else is text.

    Timestamps and base 60 numbers stay text, as they do in Kubernetes.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    # An underscore is a digit separator, but not in a number that begins with a point.
    digits = text if text[0] == "." else text.replace("_", "")
    match = _INTEGER.fullmatch(digits) if len(digits) <= _LONGEST_INTEGER else None
    if match is not None and match.lastgroup is not None:
        integer = int(match["sign"] + match[match.lastgroup], _BASES[match.lastgroup])
        if integer in _INTEGERS:
            return integer
    number = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    return text if math.isinf(number) else number


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Resolve a scalar with an explicit tag, as text if Kubernetes does not know the tag.

    Raises ValueError when the text does not fit its tag.
    """
    name = tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else ""
    if name == "binary":
        return b64decode(text, validate=False).decode(errors="replace")
    if name not in {"int", "float", "bool", "null"}:
        return text
    value = resolve_plain(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value).__name__ != {"null": "NoneType"}.get(name, name):
        raise ValueError(f"expected {name} after its tag, got {text[:40]!r}")
    return value


@lru_cache(maxsize=16384)
def resolve_plain_key(text: str) -> str | None:
    """Resolve an unquoted key to Kubernetes' text for it; None for null, which cannot be a key."""
    value = resolve_plain(text)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else None if value is None else text


try:
    from yaml._yaml import CParser
except ImportError as error:
    raise ImportError("PyYAML was built without libyaml: install its wheel, or libyaml before it") from error

MAX_DEPTH: Final = 100
TOO_DEEP: Final = f"expected at most {MAX_DEPTH} levels of nesting, got more"
MAX_EVENTS: Final = 500_000
MAX_EXPANDED_NODES: Final = 100_000

Value: TypeAlias = dict[str, "Value"] | list["Value"] | Scalar
# The line of a scalar; of a collection, its line and the lines of its members. Lines count from 0 in the section.
Lines: TypeAlias = int | tuple[int, "dict[str, Lines] | list[Lines]"]
_Mapping: TypeAlias = tuple[dict[str, Value], dict[str, Lines]]


@dataclass(slots=True)
class ComposingBudget:
    """The rest of a file's caps."""

    events: int = MAX_EVENTS
    expanded_nodes: int = MAX_EXPANDED_NODES


@dataclass(frozen=True, slots=True)
class ComposedDocument:
    """One document's value and the lines of its fields, from 0 in the composed text.

    `literals` are the lines where literal blocks (|) begin.
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
    """An error and its line; every mapping and sequence on the way out adds its part of the path."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.parts: list[str | int] = []


def compose_documents(
    path: str,
    text: str,
    *,
    first_line: int,
    budget: ComposingBudget,
    last_key_counts: bool = False,
) -> list[ComposedDocument]:
    """Compose every document of `text`; `first_line` is the number of its first line in the file.

    Raises InputError for malformed YAML, duplicate keys (unless the last one counts), keys that are not texts, and
    everything beyond the caps.
    """
    try:
        return _Composer(events_of(text), first_line, budget, last_key_counts=last_key_counts).compose()
    except _RefusedError as refused:
        line, field, message = refused.line, format_field(refused.parts[::-1]), refused.message
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f"{error.context}: " if error.context else ""
        line, field, message = mark.line if mark else 0, "", f"expected YAML: {context}{error.problem}"
        if "nesting depth" in str(error.problem):  # libyaml's own limit, which it meets while it looks ahead
            message = TOO_DEEP
    except YAMLError as error:
        line, field = text.count("\n", 0, getattr(error, "position", 0)), ""
        message = f"expected YAML: {getattr(error, 'reason', None) or error}"
    # At the end of a text without a final line break libyaml is one line ahead.
    raise InputError(path, first_line + min(line, text.count("\n")), field, message)


def events_of(text: str) -> Callable[[], Event]:
    """A function that gives the next event of a text; YAMLError where it is not YAML."""
    # It returns None only after the end of the stream.
    return cast(Callable[[], Event], CParser(text).get_event)


class _Composer:
    """One pass over the events of one text.

    The loops handle scalars inline, as nine of ten nodes are scalars.
    """

    def __init__(
        self, next_event: Callable[[], Event], first_line: int, budget: ComposingBudget, *, last_key_counts: bool
    ) -> None:
        self._next_event = next_event
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
                root = self._next_event()
                value, lines = self._node(root, 0)
                # The event of an empty value is at the next token, or after the last line.
                first_line = _line(event if value is None else root)
                documents.append(ComposedDocument(value, lines, first_line, frozenset(self._literals)))
        return documents

    def _node(self, event: Event, depth: int) -> tuple[Value, Lines]:
        if type(event) is ScalarEvent:
            return self._scalar(event), _line(event)
        if type(event) is AliasEvent:
            return self._alias(event, depth)
        if depth >= MAX_DEPTH:
            raise _RefusedError(_line(event), TOO_DEEP)
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
            try:
                value = resolve_tagged(event.tag or "", event.value)
            except ValueError as error:
                raise _RefusedError(_line(event), str(error)) from error
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, _line(event), 1, 0)
        return value

    def _alias(self, event: AliasEvent, depth: int) -> tuple[Value, Lines]:
        line = _line(event)
        if event.anchor not in self._anchors:
            raise _RefusedError(line, f"expected an anchor &{event.anchor} above the alias *{event.anchor}, got none")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _RefusedError(line, f"the alias *{event.anchor} is inside its own anchor")
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
        num_nodes, deepest = self._num_nodes, self._deepest
        if anchor is not None:
            self._anchors[anchor] = None
            self._deepest = depth
        self._num_nodes += 1
        self._deepest = max(self._deepest, depth)
        value, members = self._mapping(depth) if type(event) is MappingStartEvent else self._sequence(depth)
        lines = _line(event), members
        if anchor is not None:
            height = self._deepest - depth + 1
            self._anchors[anchor] = _Anchored(value, lines, self._num_nodes - num_nodes, height)
            self._deepest = max(deepest, self._deepest)
        return value, lines

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
                first = lines[key]
                number = self._first_line + (first if isinstance(first, int) else first[0])
                refused = _RefusedError(line, f"the key is already set on line {number}: remove one of the two")
                refused.parts.append(key)
                raise refused
            if key == "<<" and (isinstance(event, ScalarEvent) and event.implicit[0]):
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
        for mapping, mapping_lines in merged or ():  # own keys win, then the first of several sources
            for name, member in mapping.items():
                if name not in value:
                    value[name], lines[name] = member, mapping_lines[name]
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


def _line(event: Event) -> int:
    mark = event.start_mark
    return mark.line if mark else 0


def _too_many_events(event: Event) -> _RefusedError:
    return _RefusedError(_line(event), f"expected at most {MAX_EVENTS} YAML events, got more")


MAX_FILE_BYTES: Final = 1024 * 1024
MAX_DOCUMENTS: Final = 10_000

_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
# A marker begins its line even inside a quoted or block scalar: YAML forbids it as content there.
_START: Final = re.compile(r"^---(?=[ \t\r\n\x85\u2028\u2029]|\Z)", re.MULTILINE)
# A directive affects the next document, and `...` ends one without starting another.
_ENTANGLED: Final = re.compile(r"^(?:%|\.\.\.(?=\s|\Z))", re.MULTILINE)
_CONTENT: Final = re.compile(r"^[ \t]*[^\s#]", re.MULTILINE)
_AMBIGUOUS_BREAK: Final = re.compile(r"\r(?!\n)|[\x85\u2028\u2029]|\A\ufeff")
_BREAK_NAMES: Final = {
    "\r": "a lone carriage return",
    "\x85": "U+0085 (next line)",
    "\u2028": "U+2028 (line separator)",
    "\u2029": "U+2029 (paragraph separator)",
    "\ufeff": "a second byte order mark",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file's text whose documents depend on nothing outside it.

    `start` and `end` are in code points, `first_line` is from 1. `index` is the number of its first document.
    """

    start: int
    end: int
    first_line: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A file as text, without its byte order mark."""

    path: str
    text: str
    has_bom: bool

    def encode(self, text: str) -> bytes:
        """The bytes of `text` in the form of this file."""
        return (_BOM if self.has_bom else b"") + text.encode()

    def line_at(self, index: int) -> int:
        """Count the line, from 1, of a code point."""
        return self.text.count("\n", 0, index) + 1


def decode_source(path: str, data: bytes) -> SourceText:
    """Decode a file; InputError when it is too large, binary or not UTF-8."""
    if len(data) > MAX_FILE_BYTES:
        raise InputError(path, 0, "", f"expected at most {MAX_FILE_BYTES} bytes, got {len(data)}: split the file")
    refuse_binary(path, data)
    has_bom = data.startswith(_BOM)
    try:
        text = data[len(_BOM) if has_bom else 0 :].decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"expected UTF-8, got byte 0x{data[error.start]:02x}: save the file as UTF-8"
        raise InputError(path, line, "", message) from error
    return SourceText(path=path, text=text, has_bom=has_bom)


def refuse_binary(path: str, data: bytes) -> None:
    """InputError when bytes are UTF-16 or not text."""
    if data.startswith(_UTF16_BOMS):
        raise InputError(path, 0, "", "expected UTF-8, got UTF-16: save the file as UTF-8")
    position = data.find(b"\0")
    if position >= 0:
        raise InputError(path, data.count(b"\n", 0, position) + 1, "", "expected YAML text, got a NUL byte")


def split_sections(source: SourceText) -> tuple[Section, ...]:
    """Cut a file at its document starts; one section for the whole file with directives or `...`.

    Sections cover the text without gaps. InputError when there are more documents than the cap.
    """
    text = source.text
    starts = [] if _is_entangled(text) else list(_find_starts(text))
    sections = [] if starts[:1] == [0] else [Section(0, starts[0] if starts else len(text), 1, 0)]
    # Comments before the first marker are not a document.
    index = 1 if sections and _CONTENT.search(text, 0, sections[0].end) else 0
    line, position = 1, 0
    for start, end in zip(starts, [*starts[1:], len(text)][: len(starts)], strict=True):
        line += text.count("\n", position, start)
        sections.append(Section(start, end, line, index))
        position, index = start, index + 1
    if len(sections) > MAX_DOCUMENTS:
        message = f"expected at most {MAX_DOCUMENTS} documents, got {len(sections)}: split the file"
        raise InputError(source.path, 0, "", message)
    return tuple(sections)


def _is_entangled(text: str) -> bool:
    """Whether a document may depend on what is outside of it; the expression alone looks at every line."""
    return (text.startswith(("%", "...")) or "\n%" in text or "\n..." in text) and _ENTANGLED.search(text) is not None


def _find_starts(text: str) -> Iterator[int]:
    """Where the documents begin that have a marker."""
    if _START.match(text):
        yield 0
    position = text.find("\n---")
    while position >= 0:
        if _START.match(text, position + 1):
            yield position + 1
        position = text.find("\n---", position + 1)


_KIND: Final = re.compile(r"^kind: (\w+)", re.MULTILINE)
_DEFINITION: Final = re.compile(r"^kind: CustomResourceDefinition[ \t]*\r?$", re.MULTILINE)
# In double quotes these can spell a letter, or break a word.
_ESCAPE: Final = re.compile(r"\\[xuU\r\n]")
_ESCAPE_BYTES: Final = re.compile(rb"\\[xuU\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML document.

    `index` is its position among all documents of the file, including skipped ones. `value` is shared by aliases: never
    change it. Lines count from 1.
    """

    path: str
    index: int
    value: Value
    first_line: int
    lines: Lines = field(repr=False, compare=False)
    line_offset: int = field(default=1, repr=False, compare=False)
    literals: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    def line_of(self, field: Sequence[str | int]) -> int:
        """The line of a field's key, or of a list item; the nearest ancestor's for a missing field."""
        line, node = self.first_line, self.lines
        for part in field:
            child = None if isinstance(node, int) else _member(node[1], part)
            if child is None:
                break
            node = child
            line = self.line_offset + (node if isinstance(node, int) else node[0])
        return line

    def is_literal_at(self, line: int) -> bool:
        """Whether a literal block (|) begins on a line; its text is on the following lines."""
        return line - self.line_offset in self.literals


def _member(members: dict[str, Lines] | list[Lines], part: str | int) -> Lines | None:
    if isinstance(members, dict):
        return members.get(part) if isinstance(part, str) else None
    return members[part] if isinstance(part, int) and 0 <= part < len(members) else None


def value_at(value: Value, path: Sequence[str | int]) -> Value:
    """The value at a field path; None without one."""
    for part in path:
        # Exact types: values come from our own parser, and this runs a million times.
        if type(value) is dict:
            value = value.get(part)  # type: ignore[arg-type]  # an index finds nothing in a mapping of texts
        elif type(value) is list and type(part) is int and 0 <= part < len(value):
            value = value[part]
        else:
            return None
    return value


@overload
def mapping_of(value: Value) -> Mapping[str, Value]: ...
@overload
def mapping_of(value: object) -> Mapping[str, object]: ...
def mapping_of(value: object) -> Mapping[str, object]:
    """A value of a manifest that ought to be a mapping; an empty one where it is anything else."""
    return value if isinstance(value, Mapping) else {}


def text_at(value: Value, *path: str | int) -> str:
    """The text at a field path; empty when there is none."""
    found = value_at(value, path)
    return found if isinstance(found, str) else ""


def parse_documents(path: str, data: bytes, *, kinds: frozenset[bytes] | None = None) -> tuple[Document, ...]:
    """Parse a file within caps; with `kinds`, skip the documents that contain none of these words.

    Raises InputError for the first unreadable document: see `parse_readable` for the others.
    """
    documents, errors = parse_readable(path, data, kinds=kinds)
    if errors:
        raise errors[0]
    return documents


def parse_readable(
    path: str, data: bytes, *, kinds: frozenset[bytes] | None = None, last_key_counts: bool = False
) -> tuple[tuple[Document, ...], tuple[InputError, ...]]:
    """Parse the readable documents, and report one error for each of the others.

    With `last_key_counts` the last of duplicate keys counts, else they are an error.
    """
    try:
        refuse_binary(path, data)
        if kinds is not None and not any(kind in data for kind in kinds) and _ESCAPE_BYTES.search(data) is None:
            return (), ()
        source = decode_source(path, data)
        sections = split_sections(source)
    except InputError as error:
        return (), (error,)
    words = None if kinds is None else frozenset(kind.decode() for kind in kinds)
    documents: list[Document] = []
    errors: list[InputError] = []
    budget = ComposingBudget()
    for section in sections:
        if words is not None and not _may_contain(source.text, section, words):
            continue
        try:
            documents.extend(_parse_section(source, section, budget, last_key_counts=last_key_counts))
        except InputError as error:
            errors.append(error)
    return tuple(documents), tuple(errors)


def _may_contain(text: str, section: Section, words: frozenset[str]) -> bool:
    """Whether one of the words is in a document, apart from the kinds in a CustomResourceDefinition."""
    start, end = section.start, section.end
    is_definition = text.find("CustomResourceDefinition", start, end) >= 0 and _DEFINITION.search(text, start, end)
    if is_definition and _ENTANGLED.search(text, start, end) is None:
        return False
    kind = _KIND.search(text, start, end)
    if (kind is not None and kind[1] in words) or any(text.find(word, start, end) >= 0 for word in words):
        return True
    return text.find("\\", start, end) >= 0 and _ESCAPE.search(text, start, end) is not None


class OpenFile:
    """A file whose sections are read on demand, each once: an edit needs two documents of dozens.

    Raises InputError when the file as a whole cannot be read.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.source = decode_source(path, data)
        self.sections = split_sections(self.source)
        self._first_documents = [section.index for section in self.sections]
        self._documents: dict[int, tuple[Document, ...]] = {}

    def position_of(self, document: int) -> int:
        """The section that would have the document of that number; -1 if there is none."""
        return bisect_right(self._first_documents, document) - 1

    def documents_in(self, position: int) -> tuple[Document, ...]:
        """The documents of a section; InputError when it cannot be read."""
        if position not in self._documents:
            self._documents[position] = tuple(_parse_section(self.source, self.sections[position], ComposingBudget()))
        return self._documents[position]

    def may_name(self, document: int, key: str) -> bool:
        """Whether a key can stand in the section that holds the document of that number, as a look at its text says."""
        position = self.position_of(document)
        if position < 0:
            return False
        start, end = self.sections[position].start, self.sections[position].end
        # A backslash may spell a letter of it, or break it.
        return any(self.source.text.find(each, start, end) >= 0 for each in (key, "\\"))

    def documents_near(self, document: int) -> tuple[Document, ...]:
        """The documents of the section that holds the document of that number."""
        position = self.position_of(document)
        return self.documents_in(position) if position >= 0 else ()


def compose_section(
    source: SourceText, section: Section, budget: ComposingBudget, *, last_key_counts: bool = False
) -> list[ComposedDocument]:
    """Compose the documents of one section; InputError when it cannot be read within the rest of the caps."""
    text = source.text[section.start : section.end]
    # Characters that only some parsers count as a line break.
    is_plain = text.isascii() and "\r" not in text
    match = None if is_plain else _AMBIGUOUS_BREAK.search(source.text, section.start, section.end)
    if match is not None:
        name = _BREAK_NAMES[match[0]]
        message = f"expected LF or CRLF line breaks, got {name}: lines after it cannot be counted, escape or remove it"
        raise InputError(source.path, source.line_at(match.start()), "", message)
    if is_plain and not last_key_counts and (known := SHAPES.find(text)) is not None:
        value, nodes = known
        if nodes.events <= budget.events:
            budget.events -= nodes.events
            return [ComposedDocument(cast(Value, value), nodes.lines, nodes.first_line, nodes.literals)]
    composed = compose_documents(
        source.path, text, first_line=section.first_line, budget=budget, last_key_counts=last_key_counts
    )
    if len(composed) > MAX_DOCUMENTS:
        message = f"expected at most {MAX_DOCUMENTS} documents, got {len(composed)}: split the file"
        raise InputError(source.path, 0, "", message)
    return composed


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Where the nodes of a document are, and how many events it takes from the cap."""

    lines: Lines
    first_line: int
    literals: frozenset[int]
    events: int


def _read_alone(text: str) -> tuple[Value, _Nodes] | None:
    """The one document of a text without aliases, which are shared values."""
    budget = ComposingBudget()
    try:
        composed = compose_documents("", text, first_line=1, budget=budget)
    except InputError:
        return None
    if len(composed) != 1 or budget.expanded_nodes != MAX_EXPANDED_NODES:
        return None
    (only,) = composed
    return only.value, _Nodes(only.lines, only.first_line, only.literals, MAX_EVENTS - budget.events)


SHAPES: Final = Shapes(_read_alone, resolve_plain)


def compose_values(text: str) -> list[Value]:
    """The values of all documents of a text that is no file; InputError as from `compose_documents`."""
    known = SHAPES.find(text) if text.isascii() and "\r" not in text else None
    if known is not None:
        return [cast(Value, known[0])]
    return [each.value for each in compose_documents("", text, first_line=1, budget=ComposingBudget())]


def _parse_section(
    source: SourceText, section: Section, budget: ComposingBudget, *, last_key_counts: bool = False
) -> Iterator[Document]:
    for position, composed in enumerate(compose_section(source, section, budget, last_key_counts=last_key_counts)):
        yield Document(
            path=source.path,
            index=section.index + position,
            value=composed.value,
            first_line=section.first_line + composed.first_line,
            lines=composed.lines,
            line_offset=section.first_line,
            literals=composed.literals,
        )


MISSING = object()
"""The value of a missing field, unlike None."""


class FileVersion:
    """One version of a file, to look for fields in."""

    def __init__(self, path: str, data: bytes) -> None:
        documents, _ = parse_readable(path, data)
        self._documents = {document.index: document.value for document in documents}

    def object_at(self, place: WrittenField) -> object:
        """The object of a field, by its position; MISSING without one."""
        found: object = self._documents.get(place.document.document, MISSING)
        for part in place.document.prefix:
            found = _named_member(found, part)
        return found

    def object_like(self, now: object, place: WrittenField) -> object:
        """The object of the same kind, name and namespace; for one without a name the one at its position."""
        identity = _identity(now)
        if not any(identity):
            return self.object_at(place)
        lists = (value_at(value, ("items",)) for value in self._documents.values())
        items = (item for each in lists if isinstance(each, list) for item in each)
        return next((each for each in (*self._documents.values(), *items) if _identity(each) == identity), MISSING)


def count_then(now: object, then: object, place: WrittenField) -> int | None:
    """The number in a field of an older version of an object; None without one."""
    if place.embedding is not None:
        now, then = (_embedded(each, now, place) for each in (now, then))
    found = _follow_alike(now, then, place.field)
    if isinstance(found, str) and found.isascii() and found.isdigit():
        found = int(found[:9])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _embedded(outer: object, now: object, place: WrittenField) -> object:
    text = _follow_alike(now, outer, place.embedding or ())
    if not isinstance(text, str):
        return MISSING
    documents, _ = parse_readable(place.document.path, text.encode())
    return next((each.value for each in documents if each.index == place.inner_document), MISSING)


def _identity(value: object) -> tuple[object, ...]:
    if not isinstance(value, dict):
        return ()
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return (value.get("kind"), named.get("name"), named.get("namespace")) if named.get("name") else ()


def _follow_alike(now: object, then: object, path: FieldPath) -> object:
    """The field of an older object; items of lists are found by their present `name`."""
    for part in path:
        now = _named_member(now, part)
        name = now.get("name") if isinstance(part, int) and isinstance(now, dict) else None
        if name is not None and isinstance(then, list):
            then = next((each for each in then if isinstance(each, dict) and each.get("name") == name), MISSING)
        else:
            then = _named_member(then, part)
    return then


def _named_member(value: object, part: str | int) -> object:
    if isinstance(value, dict) and isinstance(part, str):
        return value.get(part, MISSING)
    if isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
        return value[part]
    return MISSING
