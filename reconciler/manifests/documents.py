"""Documents of a file: their values, and the line of every field."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.composer import ComposedDocument, ComposingBudget, Lines, Value, compose_documents
from reconciler.manifests.sections import (
    MAX_DOCUMENTS,
    Section,
    SourceText,
    decode_source,
    is_one_document,
    refuse_ambiguous_breaks,
    refuse_binary,
    split_sections,
)

_DEFINITION: Final = re.compile(r"^kind: CustomResourceDefinition[ \t]*\r?$", re.MULTILINE)
# Inside double quotes these can spell a letter, or break a word over two lines.
_ESCAPE: Final = re.compile(r"\\[xuU\r\n]")
_ESCAPE_BYTES: Final = re.compile(rb"\\[xuU\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML document.

    `index` is its position among all documents of the file, skipped ones too. `value` is shared where the file
    uses aliases: never change it. Lines count from 1.
    """

    path: str
    index: int
    value: Value
    first_line: int
    lines: Lines = field(repr=False, compare=False)
    line_offset: int = field(default=1, repr=False, compare=False)
    literals: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    def line_of(self, field: Sequence[str | int]) -> int:
        """Line of a field's key, or of a list item; the nearest ancestor's when the field is not there."""
        line, node = self.first_line, self.lines
        for part in field:
            child = None if isinstance(node, int) else _member(node[1], part)
            if child is None:
                break
            node = child
            line = self.line_offset + (node if isinstance(node, int) else node[0])
        return line

    def is_literal_at(self, line: int) -> bool:
        """Whether a literal block (|) begins on a line: the lines of its text are the file's next ones."""
        return line - self.line_offset in self.literals


def _member(members: dict[str, Lines] | list[Lines], part: str | int) -> Lines | None:
    if isinstance(members, dict):
        return members.get(part) if isinstance(part, str) else None
    return members[part] if isinstance(part, int) and 0 <= part < len(members) else None


def parse_documents(path: str, data: bytes, *, kinds: frozenset[bytes] | None = None) -> tuple[Document, ...]:
    """Parse a file within caps; with `kinds`, skip the documents that contain none of these words.

    Raises InputError for the first document that cannot be read: see `parse_readable` for the others.
    """
    documents, errors = parse_readable(path, data, kinds=kinds)
    if errors:
        raise errors[0]
    return documents


def parse_readable(
    path: str, data: bytes, *, kinds: frozenset[bytes] | None = None, last_key_counts: bool = False
) -> tuple[tuple[Document, ...], tuple[InputError, ...]]:
    """Parse what can be parsed: the readable documents, and one error for each of the others.

    Of two equal keys in a mapping the last one counts where that is said, else they are an error.
    """
    try:
        refuse_binary(path, data)
        if kinds is not None and not _may_name_kind(data, kinds):
            return (), ()
        source = decode_source(path, data)
        sections = split_sections(source)
    except InputError as error:
        return (), (error,)
    words = None if kinds is None else tuple(sorted(kind.decode() for kind in kinds))
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


def _may_name_kind(data: bytes, kinds: frozenset[bytes]) -> bool:
    return any(kind in data for kind in kinds) or _ESCAPE_BYTES.search(data) is not None


def _may_contain(text: str, section: Section, words: tuple[str, ...]) -> bool:
    """Whether one of the words is in a document; a definition of kinds speaks of many, and is none of them."""
    start, end = section.start, section.end
    if _DEFINITION.search(text, start, end) is not None and is_one_document(text, section):
        return False
    for word in words:
        if text.find(word, start, end) >= 0:
            return True
    return text.find("\\", start, end) >= 0 and _ESCAPE.search(text, start, end) is not None


class OpenFile:
    """A file whose sections are read when they are asked for, each once: an edit needs two documents of dozens.

    Raises InputError when the file as a whole cannot be read.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.source = decode_source(path, data)
        self.sections = split_sections(self.source)
        self._first_documents = [section.index for section in self.sections]
        self._documents: dict[int, tuple[Document, ...]] = {}

    def position_of(self, document: int) -> int:
        """Which section holds the document of that number, if any does; -1 when none can."""
        return bisect_right(self._first_documents, document) - 1

    def documents_in(self, position: int) -> tuple[Document, ...]:
        """The documents of a section; InputError when it cannot be read."""
        if position not in self._documents:
            self._documents[position] = tuple(_parse_section(self.source, self.sections[position], ComposingBudget()))
        return self._documents[position]

    def documents_near(self, document: int) -> tuple[Document, ...]:
        """The documents of the section that holds the document of that number."""
        position = self.position_of(document)
        return self.documents_in(position) if position >= 0 else ()


def compose_section(
    source: SourceText, section: Section, budget: ComposingBudget, *, last_key_counts: bool = False
) -> list[ComposedDocument]:
    """Compose the documents of one section; InputError when it cannot be read within what is left of the caps."""
    refuse_ambiguous_breaks(source, section)
    text = source.text[section.start : section.end]
    composed = compose_documents(
        source.path, text, first_line=section.first_line, budget=budget, last_key_counts=last_key_counts
    )
    if len(composed) > MAX_DOCUMENTS:
        message = f"expected at most {MAX_DOCUMENTS} documents, got {len(composed)}: split the file"
        raise InputError(source.path, 0, "", message)
    return composed


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
