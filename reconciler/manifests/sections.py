"""From bytes to text, and from text to the sections of a file: one document each, wherever that is certain."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.errors import InputError

MAX_FILE_BYTES: Final = 1024 * 1024
MAX_DOCUMENTS: Final = 10_000

_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
# A marker begins its line even inside a quoted or block scalar: YAML forbids it as content there.
_START: Final = re.compile(r"^---(?=[ \t\r\n\x85\u2028\u2029]|\Z)", re.MULTILINE)
# A directive acts on the next document, and `...` ends one without beginning another.
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
    """A stretch of a file's text whose documents depend on nothing outside it.

    `start` and `end` count code points, `first_line` counts from 1. `index` is the position of its first document
    in the file.
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
        """Give `text` the form that this file has on disk."""
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
    """InputError when bytes are UTF-16 or no text at all."""
    if data.startswith(_UTF16_BOMS):
        raise InputError(path, 0, "", "expected UTF-8, got UTF-16: save the file as UTF-8")
    position = data.find(b"\0")
    if position >= 0:
        raise InputError(path, data.count(b"\n", 0, position) + 1, "", "expected YAML text, got a NUL byte")


def is_one_document(source: str, section: Section) -> bool:
    """Whether a section cannot hold a second document."""
    return _ENTANGLED.search(source, section.start, section.end) is None


def split_sections(source: SourceText) -> tuple[Section, ...]:
    """Cut a file at its document starts; one section for the whole file when directives or `...` are about.

    Sections cover the text without gaps. InputError when there are more documents than the cap.
    """
    text = source.text
    if _ENTANGLED.search(text):
        return (Section(0, len(text), 1, 0),)
    sections = tuple(_cut_at_markers(text))
    if len(sections) > MAX_DOCUMENTS:
        message = f"expected at most {MAX_DOCUMENTS} documents, got {len(sections)}: split the file"
        raise InputError(source.path, 0, "", message)
    return sections


def _cut_at_markers(text: str) -> Iterator[Section]:
    starts = [match.start() for match in _START.finditer(text)]
    if not starts:
        yield Section(0, len(text), 1, 0)
        return
    index = 0
    if starts[0] > 0:
        yield Section(0, starts[0], 1, 0)
        # Comments before the first marker are no document.
        index = 1 if _CONTENT.search(text, 0, starts[0]) else 0
    line, position = 1, 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line += text.count("\n", position, start)
        yield Section(start, end, line, index)
        position, index = start, index + 1


def refuse_ambiguous_breaks(source: SourceText, section: Section) -> None:
    """InputError at a character that one parser counts as a line break and the next does not."""
    if source.text.isascii() and source.text.find("\r", section.start, section.end) < 0:
        return
    match = _AMBIGUOUS_BREAK.search(source.text, section.start, section.end)
    if match:
        name = _BREAK_NAMES[match[0]]
        message = f"expected LF or CRLF line breaks, got {name}: lines after it cannot be counted, escape or remove it"
        raise InputError(source.path, source.line_at(match.start()), "", message)
