"""Marker comments behind a number, which name its object."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, OpenFile, Value, value_at
from reconciler.manifests.edits import MappingNode, ScalarNode, SequenceNode, YamlNode, build_tree
from reconciler.manifests.wording import Field, describe, name_field, quote

PREFIX: Final = "reconciler.io/"
IGNORE: Final = "ignore"
_WORDS: Final = ("replicas", "min-replicas", "max-replicas")
_COMMENT: Final = re.compile(
    r"(?:^|[ \t])#[ \t]*reconciler\.io/([A-Za-z-]+)[ \t]*(:?)[ \t]*(\S*)[ \t]*\r?$", re.MULTILINE
)
_TARGET: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)/([a-z0-9]([-a-z0-9.]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerComment:
    """A number with a marker comment: `word` is its meaning, `kind` and `name` its object, empty in its own manifest.

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
    """The markers of one YAML file, and findings about them; none for invalid YAML."""
    if PREFIX.encode() not in body or b"#" not in body:
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
        found = list(_read_section(documents, text, section.first_line, comments))
        markers += [each for each in found if isinstance(each, MarkerComment)]
        findings += [each for each in found if isinstance(each, Finding)]
    return tuple(markers), tuple(findings)


def _read_section(
    documents: Sequence[Document], text: str, first_line: int, comments: Iterable[re.Match[str]]
) -> Iterator[MarkerComment | Finding]:
    leaves = [
        (node, documents[number], path)
        for number, root in enumerate(build_tree(text).roots)
        for node, path in _leaves(root, ())
    ]
    starts = [node.start for node, _, _ in leaves]
    line, counted = first_line, 0
    for comment in comments:
        index = text.index("#", comment.start())
        line, counted = line + text.count("\n", counted, index), index
        position = bisect_right(starts, index) - 1
        if position < 0 or leaves[position][0].start <= text.rfind("\n", 0, index):
            if position < 0 or index >= leaves[position][0].end:
                message = "expected a number before this comment, on its line"
                place = Place(path=documents[0].path, line=line)
                yield Finding(place=place, severity=Severity.ERROR, message=message)
        elif index >= leaves[position][0].end:
            yield _marker(*leaves[position][1:], line, comment)


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
    marker = MarkerComment(path=document.path, document=document.index, field=field, line=line, word=word, value=value)
    if word == IGNORE and not target:
        return marker
    if word not in _WORDS:
        message = f"expected {PREFIX}replicas, min-replicas, max-replicas or ignore, got {quote(PREFIX + word)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    match = _TARGET.fullmatch(target) if target else None
    if (target and match is None) or (target and not colon):
        message = f"expected {PREFIX}{word}: KIND/NAME, got {quote(target)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
    if not is_digits and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        message = f"expected a whole number before this comment, got {describe(value)}"
        return Finding(place=place, severity=Severity.ERROR, message=message)
    return marker if match is None else replace(marker, kind=match[1], name=match[2])
