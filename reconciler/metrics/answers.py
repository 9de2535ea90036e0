"""Prometheus' answers decoded: samples of one moment, and series over time as rows of one regular grid.

A malformed body is a failed answer with a reason. Points of range queries are read in bulk: as Python objects, millions
of them would take a gigabyte.
"""

import math
import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Generic, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, Query, Sample, parse_json
from reconciler.domain.metric_targets import SYNC_PERIOD_S, TrackedTarget
from reconciler.domain.records import dataclass
from reconciler.metrics.quantities import CLUSTER, Name

MAX_SAMPLES = 500_000
MAX_VALUES = 16 * MAX_SAMPLES
"""JSON values read of one answer: more than `MAX_SAMPLES` series with a dozen labels each have."""
MAX_POINTS = 5_000_000
"""Points read of one answer: 80 MB of floats."""
ABSURD = 1e12
"""Values from here up are ignored: real rates, counts, lengths and times are far smaller."""
_MAX_WARNINGS = 10
_EXPECTED_NOTE = "metric might not be a counter"
"""Prometheus 3 adds it for each counter whose name has no `_total`, which are all of TGI's and Triton's."""
_ABOUT_PROMQL = ("PromQL info:", "PromQL warning:")
"""Notes about an expression; all other warnings are about data that could not be read."""
_PARTIAL_KEY = "isPartial"
"""VictoriaMetrics sets it when some of its storages did not answer."""
_QUOTED_CHARACTERS = 200
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]Inf")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class UnexpectedError(Exception):
    """A body has an unexpected format; the message says what was expected."""


def decode(answer: Answer, *, max_samples: int = MAX_SAMPLES) -> tuple[Sample, ...] | NoAnswer:
    """The samples of an instant query; NaN and infinities stay what they are. FAILED with a reason otherwise."""
    if answer.status is not AnswerStatus.OK:
        return _failed(answer)
    try:
        entries = result_of(document_of(answer.body.read()), "vector")
        if len(entries) > max_samples:
            return _failed(answer, f"{len(entries)} series, more than the {max_samples} that are read")
        return _samples(entries)
    except UnexpectedError as unexpected:
        return _failed(answer, str(unexpected))


def clusters_seen(answers: Sequence[Answer]) -> tuple[str, ...]:
    """The values of the label `cluster` on series of the namespaces queried, sorted; empty if it is not used."""
    decoded = [decode(answer) for answer in answers if answer.query.quantity == Name.CLUSTER_LABEL]
    samples = [sample for found in decoded if not isinstance(found, NoAnswer) for sample in found]
    return tuple(sorted({sample.labels.get(CLUSTER, "") for sample in samples}))


def warnings_of(answer: Answer) -> tuple[str, ...]:
    """Prometheus' own warnings and notes, empty without any and without an answer."""
    if answer.status is not AnswerStatus.OK:
        return ()
    body = answer.body.read()
    if not any(key in body for key in (b'"warnings"', b'"infos"', b'"isPartial"')):
        return ()
    try:
        return _warnings_in(document_of(body))
    except UnexpectedError:
        return ()


def _warnings_in(document: Mapping[str, Json]) -> tuple[str, ...]:
    listed = [document.get(key) for key in ("warnings", "infos")]
    texts = [text for texts in listed if isinstance(texts, list) for text in texts if isinstance(text, str)]
    if document.get(_PARTIAL_KEY) is True:
        texts.insert(0, f"the answer is partial ({_PARTIAL_KEY})")
    unexpected = [text for text in texts if _EXPECTED_NOTE not in text]
    return tuple(dict.fromkeys(printable(text) for text in unexpected[:_MAX_WARNINGS]))


def says_partial(warning: str) -> bool:
    """Whether a warning says that an answer may be incomplete: a store of Thanos, or a remote one, was unreachable."""
    return not warning.startswith(_ABOUT_PROMQL)


def printable(text: str) -> str:
    """`text` on one line of limited length, without control characters."""
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}…"


def is_usable(value: float) -> bool:
    """Whether a rate, count, length or time is a number from 0 to below `ABSURD`."""
    return 0 <= value < ABSURD


def document_of(body: bytes) -> dict[str, Json]:
    """The JSON object in a body; UnexpectedError for anything else."""
    try:
        document = cast(Json, parse_json(body, most_values=MAX_VALUES, parse_constant=_refuse_constant))
    except ValueError as error:
        raise UnexpectedError("expected JSON, found something else or only a part of it") from error
    if not isinstance(document, dict):
        raise UnexpectedError("expected a JSON object")
    return document


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)  # JSON has no NaN; Prometheus writes it as a string


def result_of(document: Mapping[str, Json], expected: str) -> list[Json]:
    """The series of a successful answer of the type `expected`; UnexpectedError otherwise."""
    if document.get("status") != "success":
        error = document.get("error")
        raise UnexpectedError(printable(error) if isinstance(error, str) and error else 'expected status "success"')
    inner = document.get("data")
    if not isinstance(inner, dict):
        raise UnexpectedError("expected an object under data")
    if inner.get("resultType") != expected:
        raise UnexpectedError(f"expected resultType {expected}, found {printable(str(inner.get('resultType')))}")
    result = inner.get("result")
    if not isinstance(result, list):
        raise UnexpectedError("expected a list under data.result")
    return result


def _failed(answer: Answer, why: str = "") -> NoAnswer:
    asked = answer.query.quantity
    if why:
        why = f"the answer to {asked} of cluster {printable(answer.query.cluster)} cannot be read: {why}"
    return NoAnswer(Absence.FAILED, why or answer.reason or f"no answer to {asked}")


def _samples(entries: list[Json]) -> tuple[Sample, ...]:
    shared: dict[str, str] = {}
    samples: dict[frozenset[tuple[str, str]], Sample] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise UnexpectedError("expected an object in data.result")
        labels = _labels(entry.get("metric"), shared)
        key = frozenset(labels.items())
        if key in samples:
            raise UnexpectedError(f"two series have the labels {printable(str(dict(sorted(labels.items()))))}")
        point = entry.get("value")
        if not isinstance(point, list) or len(point) != 2:
            raise UnexpectedError("expected a pair of time and value")
        time_s, text = point
        if isinstance(time_s, bool) or not isinstance(time_s, (int, float)) or not -1e15 < time_s < 1e15:
            raise UnexpectedError(f"expected Unix seconds, found {printable(str(time_s))}")
        if not isinstance(text, str) or not _NUMBER.fullmatch(text):
            raise UnexpectedError(f"expected a number as text, found {printable(str(text))}")
        samples[key] = Sample(labels=labels, time_s=float(time_s), value=float(text))
    return tuple(samples.values())


def _labels(found: Json, shared: dict[str, str]) -> dict[str, str]:
    """The labels of a series; equal values are `shared` as one text."""
    if not isinstance(found, dict):
        raise UnexpectedError("expected an object under metric")
    labels: dict[str, str] = {}
    for name, value in found.items():
        if not isinstance(value, str):
            raise UnexpectedError(f"expected text in label {printable(name)}")
        labels[name] = shared.setdefault(value, value)
    return labels


# ---- the grid of moments that a history is queried and read on

OFF_GRID = 0.01
"""The fraction of a step by which a point may miss its moment; a point that is farther off is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`count` moments, `step_s` apart from `start_s` (Unix seconds)."""

    start_s: float
    step_s: float
    count: int

    @property
    def end_s(self) -> float:
        """The last moment."""
        return self.start_s + (self.count - 1) * self.step_s

    @property
    def times_s(self) -> "array[float]":
        """All moments."""
        return array("d", (self.start_s + index * self.step_s for index in range(self.count)))

    def index_of(self, at_s: float) -> int | None:
        """The index of the moment at `at_s`, None where there is none."""
        if not self.start_s - self.step_s < at_s < self.end_s + self.step_s:  # nor is NaN
            return None
        index = round((at_s - self.start_s) / self.step_s)
        is_near = abs(at_s - (self.start_s + index * self.step_s)) <= OFF_GRID * self.step_s
        return index if is_near and 0 <= index < self.count else None

    def parts(self, most: int) -> Iterator["Grid"]:
        """The same moments in grids of at most `most`."""
        for first in range(0, self.count, most):
            start_s = self.start_s + first * self.step_s
            yield Grid(start_s=start_s, step_s=self.step_s, count=min(most, self.count - first))

    def reach_back(self, length_s: float) -> "Grid":
        """The same grid, begun at least `length_s` earlier."""
        more = math.ceil(length_s / self.step_s)
        return Grid(start_s=self.start_s - more * self.step_s, step_s=self.step_s, count=self.count + more)


def grid_of(start_s: float, end_s: float, step_s: float) -> Grid:
    """The multiples of the step from `start_s` to `end_s`; none when the end comes first.

    Servers that cache ranges move them to such multiples, so nothing moves.
    """
    first = math.ceil(start_s / step_s)
    return Grid(start_s=first * step_s, step_s=step_s, count=max(0, math.floor(end_s / step_s) - first + 1))


def grid_over(queries: Sequence[Query]) -> Grid | None:
    """The moments that range queries of one step cover together, None without any."""
    step_s = queries[0].step_s if queries else None
    if not step_s:
        return None
    return grid_of(min(query.start_s for query in queries), max(query.end_s for query in queries), step_s)


def grid_for(targets: Iterable[TrackedTarget], now_s: float) -> Grid:
    """The ticks of metric targets: they end at `now_s` and reach back as far as any of the targets needs."""
    longest_s = max((target.history_s for target in targets), default=0.0)
    # to the millisecond, as a query spells it: otherwise the first tick may be rounded differently from the last
    return Grid(start_s=round(now_s, 3), step_s=SYNC_PERIOD_S, count=1).reach_back(longest_s)


# ---- answers to range queries: points are cut out of the bytes and become arrays; the rest is decoded as strictly as
# any other answer

_VALUES = re.compile(rb'"values"\s*+:\s*+\[((?:\s*+\[[^\[\]]*+\]\s*+,?+)*+)\s*+\]')
"""The points of a series. No text can look like them: within a string each quotation mark is escaped."""
_IN_NUMBERS = b"0123456789+-.eENaInf \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One series: its labels, and its points in the order they came, Unix seconds and values."""

    labels: Mapping[str, str]
    times_s: "array[float]"
    values: "array[float]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All series of an answer, several with the same labels among them, and what Prometheus warned of."""

    rows: tuple[MatrixRow, ...]
    warnings: tuple[str, ...]


def decode_matrix(answer: Answer, *, max_points: int = MAX_POINTS) -> Matrix | NoAnswer:
    """The series of a range query; FAILED with a reason when it cannot be read or has over `max_points` points."""
    if answer.status is not AnswerStatus.OK:
        return _failed(answer)
    cut = _Cut(most=max_points, room=max_points)
    try:
        document = document_of(_VALUES.sub(cut.take, answer.body.read()))
        rows = tuple(_rows(result_of(document, "matrix"), cut.points))
    except UnexpectedError as unexpected:
        return _failed(answer, str(unexpected))
    return Matrix(rows=rows, warnings=_warnings_in(document))


def _rows(entries: list[Json], points: Sequence[tuple["array[float]", "array[float]"]]) -> Iterator[MatrixRow]:
    shared: dict[str, str] = {}
    for number, entry in enumerate(entries):
        # a number that the body itself holds, or points in another place, break the count
        if not isinstance(entry, dict) or entry.get("values") != number or number >= len(points):
            raise UnexpectedError("expected objects with a list of values in data.result")
        times_s, values = points[number]
        yield MatrixRow(labels=_labels(entry.get("metric"), shared), times_s=times_s, values=values)


@dataclass(slots=True, kw_only=True)
class _Cut:
    """The points that were cut out, times and values by series; in their place is the number of the series."""

    most: int
    room: int
    points: list[tuple["array[float]", "array[float]"]] = field(default_factory=list)
    last_times: tuple[bytes, "array[float]"] = (b"", array("d"))
    """As they were written and as they were read: the series of one answer mostly share their times."""

    def take(self, found: "re.Match[bytes]") -> bytes:
        """Keep the points of one series: its times and values by turns."""
        points = found[1]
        count = points.count(b"[")
        self.room -= count
        if self.room < 0:
            raise UnexpectedError(f"more than the {self.most} points that are read")
        if points.translate(None, _IN_NUMBERS) != b",".join([b'[,""]'] * count):
            raise UnexpectedError("expected pairs of time and value")
        pieces = points.split(b'"')
        written = b"".join(pieces[::2])
        try:
            if written != self.last_times[0]:
                texts = written.translate(None, b"[]").split(b",")[:-1:2]
                self.last_times = written, array("d", map(float, texts))
            self.points.append((self.last_times[1], array("d", map(float, pieces[1::2]))))
        except ValueError as error:
            raise UnexpectedError("expected numbers as times and values") from error
        return b'"values":%d' % (len(self.points) - 1)


# ---- rows of one grid, as numpy arrays

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)

_OFF_S = 0.1
"""How far a sample may be from its tick: servers round to milliseconds."""
_LAST_S = 1e13
"""Larger times are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Key]):
    """The answers to one quantity: a row of shape (ticks,) by key, NaN where there is no sample.

    `oddities` say what was left out of a row, `failed` why rows may be missing; `asked` is False without any query.
    """

    rows: Mapping[Key, Floats]
    oddities: Mapping[Key, str]
    failed: NoAnswer | None = None
    asked: bool = True


def tabulate(answers: Sequence[Answer], grid: Grid, key_of: Callable[[Mapping[str, str]], Key]) -> Table[Key]:
    """All answers to one quantity put together, whether its time or its namespaces were split or not.

    Two values of one key at one tick contradict each other: neither is used.
    """
    parts: dict[Key, list[tuple[Floats, str]]] = {}
    failed: NoAnswer | None = None
    for answer in answers:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            failed = failed or matrix
            continue
        places: dict[bytes, tuple[Integers, Bools, str]] = {}  # nearly all series of an answer have the same times
        for row in matrix.rows:
            times = row.times_s.tobytes()
            if times not in places:
                places[times] = _places(row, grid)
            ticks, kept, oddity = places[times]
            values = np.full(grid.count, np.nan)
            values[ticks] = np.array(row.values)[kept]
            parts.setdefault(key_of(row.labels), []).append((values, oddity))
    joined = {key: _joined(found) for key, found in parts.items()}
    return Table(
        rows={key: values for key, (values, _) in joined.items()},
        oddities={key: oddity for key, (_, oddity) in joined.items() if oddity},
        failed=failed,
        asked=bool(answers),
    )


def _places(row: MatrixRow, grid: Grid) -> tuple[Integers, Bools, str]:
    """The ticks of the samples that are used, which those are, and why others are not."""
    readable = np.abs(row.times_s) <= _LAST_S  # NaN is not
    times_s = np.where(readable, row.times_s, -_LAST_S)
    ticks = np.rint((times_s - grid.start_s) / grid.step_s).astype(np.int64)
    missed = ~readable | (np.abs(times_s - (grid.start_s + ticks * grid.step_s)) > _OFF_S)
    missed |= (ticks < 0) | (ticks >= grid.count)
    before = np.concatenate(([-np.inf], np.maximum.accumulate(times_s)[:-1]))[: times_s.size]
    ticks = np.where(missed, 0, ticks)
    shared = np.bincount(ticks, weights=~missed, minlength=grid.count)[ticks]
    kept = ~missed & (times_s > before) & (shared == 1)
    dropped = times_s.size - np.count_nonzero(kept)
    oddity = f"{dropped} samples repeat a time, go back in time or lie between the ticks" if dropped else ""
    return ticks[kept], kept, oddity


def _joined(parts: Sequence[tuple[Floats, str]]) -> tuple[Floats, str]:
    if len(parts) == 1:
        return parts[0]
    values, count = lone_values(np.stack([values for values, _ in parts]))
    several = int(np.count_nonzero(count > 1))
    oddities = [oddity for _, oddity in parts if oddity]
    return values, f"{several} ticks have several samples" if several else "".join(oddities[:1])


def lone_values(rows: Floats) -> tuple[Floats, Integers]:
    """The value of each tick that only one row has, else NaN, and how many have one; (rows, ticks) to (ticks,)."""
    known = ~np.isnan(rows)
    count = np.count_nonzero(known, axis=0)
    values = np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(count == 1, values, np.nan), np.asarray(count, dtype=np.int64)
