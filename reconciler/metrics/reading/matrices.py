"""Answers to range queries, read in bulk: millions of points as Python objects would take a gigabyte.

The points are cut out of the bytes and become arrays of floats; what is left is small, and decoded as strictly as
any other answer.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.metrics.reading.decoding import (
    Json,
    UnexpectedError,
    document_of,
    labels_of,
    result_of,
    unanswered,
    unreadable,
    warnings_in,
)

MAX_POINTS = 5_000_000
"""Points in one answer that are read: 80 MB of floats."""
VALUES = re.compile(rb'"values"\s*+:\s*+\[((?:\s*+\[[^\[\]]*+\]\s*+,?+)*+)\s*+\]')
"""The points of a series. No text can look like them: within a string each quotation mark is escaped."""
IN_NUMBERS = b"0123456789+-.eENaInf \t\r\n"
BRACKETS = b"[]"
POINT = b'[,""]'


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One series: its labels, and its points in the order they came, Unix seconds and values."""

    labels: Mapping[str, str]
    times_s: "array[float]"
    values: "array[float]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All series of an answer, several of the same labels among them, and what Prometheus warned of."""

    rows: tuple[MatrixRow, ...]
    warnings: tuple[str, ...]


def decode_matrix(answer: Answer, *, max_points: int = MAX_POINTS) -> Matrix | NoAnswer:
    """The series of a range query; FAILED with a reason when it cannot be read or has over `max_points` points."""
    failure = unanswered(answer)
    if failure:
        return failure
    cut = _Cut(most=max_points, room=max_points)
    try:
        document = document_of(VALUES.sub(cut.take, answer.body.read()))
        rows = tuple(_rows(result_of(document, "matrix"), cut.strips))
    except UnexpectedError as unexpected:
        return unreadable(answer, str(unexpected))
    return Matrix(rows=rows, warnings=warnings_in(document))


Strip = tuple["array[float]", "array[float]"]
"""Times and values."""


@dataclass(slots=True, kw_only=True)
class _Cut:
    """The points that were cut out, series by series; in their place stands the number of the series."""

    most: int
    room: int
    strips: list[Strip] = field(default_factory=list)
    times: tuple[bytes, "array[float]"] = (b"", array("d"))
    """As they were written last, and read: one answer's series mostly have the same."""

    def take(self, found: "re.Match[bytes]") -> bytes:
        """Keep the points of one series: its times and values by turns."""
        points = found[1]
        count = points.count(b"[")
        self.room -= count
        if self.room < 0:
            raise UnexpectedError(f"more than the {self.most} points that are read")
        if points.translate(None, IN_NUMBERS) != b",".join([POINT] * count):
            raise UnexpectedError("expected pairs of time and value")
        pieces = points.split(b'"')
        try:
            self.strips.append((self._times(b"".join(pieces[::2])), array("d", map(float, pieces[1::2]))))
        except ValueError as error:
            raise UnexpectedError("expected numbers as times and values") from error
        return b'"values":%d' % (len(self.strips) - 1)

    def _times(self, written: bytes) -> "array[float]":
        if written != self.times[0]:
            texts = written.translate(None, BRACKETS).split(b",")[:-1:2]
            self.times = written, array("d", map(float, texts))
        return self.times[1]


def _rows(entries: list[Json], strips: list[Strip]) -> Iterator[MatrixRow]:
    shared: dict[str, str] = {}
    for number, entry in enumerate(entries):
        # a number that the body itself holds, or points that stand elsewhere, break the count
        if not isinstance(entry, dict) or entry.get("values") != number or number >= len(strips):
            raise UnexpectedError("expected objects with a list of values in data.result")
        labels = labels_of(entry.get("metric"), shared)
        yield MatrixRow(labels=labels, times_s=strips[number][0], values=strips[number][1])
