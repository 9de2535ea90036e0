"""Marker comments: a person says behind a number whose it is."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, OpenFile, Value
from reconciler.manifests.edits import MappingNode, ScalarNode, SequenceNode, YamlNode, build_tree
from reconciler.manifests.wording import Field, describe, name_field, quote
from reconciler.placement.objects import value_at

PREFIX: Final = "reconciler.io/"
IGNORE: Final = "ignore"
_WORDS: Final = ("replicas", "min-replicas", "max-replicas")
_SCREEN: Final = b"reconciler.io/"
_COMMENT: Final = re.compile(
    r"(?:^|[ \t])#[ \t]*reconciler\.io/([A-Za-z-]+)[ \t]*(:?)[ \t]*(\S*)[ \t]*\r?$", re.MULTILINE
)
_TARGET: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)/([a-z0-9]([-a-z0-9.]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerComment:
    """A number that a person marked: `word` says what it is, `kind` and `name` whose; empty inside the own manifest.

    `ignore` markers have the word `ignore` and no target.
    """

    path: str
    document: int
    field: Field
    line: int
    word: str
    kind: str = ""
    name: str = ""
    value: Value = None

    @property
    def place(self) -> Place:
        """File, line and field."""
        return Place(path=self.path, line=self.line, field=name_field(self.field))


def read_markers(path: str, body: bytes) -> tuple[tuple[MarkerComment, ...], tuple[Finding, ...]]:
    """The markers of one YAML file, and what is wrong with them; a file that is no YAML has none."""
    if _SCREEN not in body or b"#" not in body:
        return (), ()
    try:
        file = OpenFile(path, body)
    except InputError:
        return (), ()
    markers: list[MarkerComment] = []
    findings: list[Finding] = []
    for position, section in enumerate(file.sections):
        text = file.source.text[section.start : section.end]
        comments = list(_COMMENT.finditer(text))
        if not comments:
            continue
        try:
            documents = file.documents_in(position)
        except InputError:
            continue
        for found in _read_section(documents, text, section.first_line, comments):
            if isinstance(found, MarkerComment):
                markers.append(found)
            else:
                findings.append(found)
    return tuple(markers), tuple(findings)


def _read_section(
    documents: Sequence[Document], text: str, first_line: int, comments: Iterable[re.Match[str]]
) -> Iterator[MarkerComment | Finding]:
    """Every comment with the scalar that ends before it on its line."""
    leaves = [_Leaf(*each) for each in _leaves_of(build_tree(text).roots)]
    starts = [leaf.start for leaf in leaves]
    line, counted = first_line, 0
    for comment in comments:
        index = text.index("#", comment.start())
        line, counted = line + text.count("\n", counted, index), index
        position = bisect_right(starts, index) - 1
        leaf = leaves[position] if position >= 0 else None
        if leaf is not None and index < leaf.end:
            continue
        if leaf is None or leaf.start <= text.rfind("\n", 0, index):
            message = "expected a number before this comment, on its line"
            place = Place(path=documents[0].path, line=line)
            yield Finding(place=place, severity=Severity.ERROR, message=message)
            continue
        yield _marker(documents[leaf.document], leaf.field, line, comment)


class _Leaf(NamedTuple):
    start: int
    end: int
    document: int
    field: Field


def _leaves_of(roots: Sequence[YamlNode]) -> Iterator[tuple[int, int, int, Field]]:
    for number, root in enumerate(roots):
        for leaf, path in _leaves(root, ()):
            yield leaf.start, leaf.end, number, path


def _leaves(node: YamlNode, path: Field) -> Iterator[tuple[ScalarNode, Field]]:
    if isinstance(node, ScalarNode):
        yield node, path
    elif isinstance(node, MappingNode):
        for key, member in node.members.items():
            yield from _leaves(member.value, (*path, key))
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _leaves(item, (*path, index))


def _marker(document: Document, field: Field, line: int, comment: re.Match[str]) -> MarkerComment | Finding:
    word, colon, target = comment.groups()
    place = Place(path=document.path, line=line, field=name_field(field))
    value = value_at(document.value, field)
    if word == IGNORE and not target:
        return MarkerComment(
            path=document.path, document=document.index, field=field, line=line, word=word, value=value
        )
    if word not in _WORDS:
        message = f"expected {PREFIX}replicas, min-replicas, max-replicas or ignore, got {quote(PREFIX + word)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    match = _TARGET.fullmatch(target) if target else None
    if (target and match is None) or (target and not colon):
        message = f"expected {PREFIX}{word}: KIND/NAME, got {quote(target)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    if not _is_number(value):
        message = f"expected a whole number before this comment, got {describe(value)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    return MarkerComment(
        path=document.path,
        document=document.index,
        field=field,
        line=line,
        word=word,
        kind="" if match is None else match[1],
        name="" if match is None else match[2],
        value=value,
    )


def _is_number(value: Value) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit()
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
