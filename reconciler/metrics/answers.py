"""Prometheus' answers decoded: samples of now, and series over time on one regular grid."""

import math
import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, Query, Sample, parse_json
from reconciler.domain.metric_targets import SYNC_PERIOD_S, TrackedTarget
from reconciler.metrics.quantities import CLUSTER, Name

# --- was reconciler/metrics/reading/decoding.py:
# Decodes the JSON of Prometheus' answers; a body that breaks the API's format is a failed answer, with a reason.

MAX_SAMPLES = 500_000
MAX_VALUES = 16 * MAX_SAMPLES
"""Values of JSON in one answer that are read: more than so many series with a dozen labels each have."""
MAX_WARNINGS = 10
EXPECTED_NOTE = "metric might not be a counter"
"""Prometheus 3 notes it of each counter whose name has no `_total`, which is all of TGI's and Triton's."""
OF_PROMQL = ("PromQL info:", "PromQL warning:")
"""What Prometheus notes of an expression; all else it warns of is of data that it could not get."""
PARTIAL_KEY = "isPartial"
"""What a cluster of VictoriaMetrics says beside an answer that some of its storages did not take part in."""
QUOTED_CHARACTERS = 200
ABSURD = 1e12
"""Values from here up are not believed: real rates, counts, lengths and times are far smaller."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]Inf")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class UnexpectedError(Exception):
    """A body has another format than expected; the message says what was expected."""


def decode(answer: Answer, *, max_samples: int = MAX_SAMPLES) -> tuple[Sample, ...] | NoAnswer:
    """The samples of an instant query; NaN and infinities stay what they are. FAILED with a reason otherwise."""
    failure = unanswered(answer)
    if failure:
        return failure
    try:
        entries = result_of(document_of(answer.body.read()), "vector")
        if len(entries) > max_samples:
            return unreadable(answer, f"{len(entries)} series, more than the {max_samples} that are read")
        return _samples(entries)
    except UnexpectedError as unexpected:
        return unreadable(answer, str(unexpected))


def clusters_seen(answers: Sequence[Answer]) -> tuple[str, ...]:
    """The values of the label `cluster` on series of the namespaces asked for, sorted; empty where it is not used."""
    asked = [decode(answer) for answer in answers if answer.query.quantity == Name.CLUSTER_LABEL]
    answered = [samples for samples in asked if not isinstance(samples, NoAnswer)]
    return tuple(sorted({sample.labels.get(CLUSTER, "") for samples in answered for sample in samples}))


def warnings_of(answer: Answer) -> tuple[str, ...]:
    """What Prometheus itself warned of or noted, in its words; empty when there is nothing or no answer."""
    if answer.status is not AnswerStatus.OK:
        return ()
    body = answer.body.read()
    if not any(key in body for key in (b'"warnings"', b'"infos"', b'"isPartial"')):
        return ()
    try:
        return warnings_in(document_of(body))
    except UnexpectedError:
        return ()


def warnings_in(document: Mapping[str, Json]) -> tuple[str, ...]:
    """The same of a body that is decoded already."""
    listed = [document.get(key) for key in ("warnings", "infos")]
    texts = [text for texts in listed if isinstance(texts, list) for text in texts if isinstance(text, str)]
    if document.get(PARTIAL_KEY) is True:
        texts.insert(0, f"the answer is partial ({PARTIAL_KEY})")
    unexpected = [text for text in texts if EXPECTED_NOTE not in text]
    return tuple(dict.fromkeys(printable(text) for text in unexpected[:MAX_WARNINGS]))


def is_of_a_part(warning: str) -> bool:
    """Whether a warning says that the answer may lack a part: a store of Thanos, or a remote one, was not reached."""
    return not warning.startswith(OF_PROMQL)


def printable(text: str) -> str:
    """`text` on one line, without control characters and no longer than a person reads."""
    line = UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS]}…"


def unanswered(answer: Answer) -> NoAnswer | None:
    """The reason of an answer that failed before it had a body, None for any other."""
    if answer.status is not AnswerStatus.OK:
        return NoAnswer(absence=Absence.FAILED, reason=answer.reason or f"no answer to {answer.query.quantity}")
    return None


def unreadable(answer: Answer, what: str) -> NoAnswer:
    """A body that cannot be read, as a failed answer; `what` says why."""
    query = answer.query
    reason = f"the answer to {query.quantity} of cluster {printable(query.cluster)} cannot be read: {what}"
    return NoAnswer(absence=Absence.FAILED, reason=reason)


def document_of(body: bytes) -> dict[str, Json]:
    """The JSON object that a body is; UnexpectedError when it is none."""
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


def _samples(entries: list[Json]) -> tuple[Sample, ...]:
    shared: dict[str, str] = {}
    seen: set[frozenset[tuple[str, str]]] = set()
    samples = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise UnexpectedError("expected an object in data.result")
        labels = labels_of(entry.get("metric"), shared)
        _note_once(labels, seen)
        time_s, value = _point(entry.get("value"))
        samples.append(Sample(labels=labels, time_s=time_s, value=value))
    return tuple(samples)


def labels_of(found: Json, shared: dict[str, str]) -> dict[str, str]:
    """Labels of a series, equal values `shared` as one text; UnexpectedError when they are none."""
    if not isinstance(found, dict):
        raise UnexpectedError("expected an object under metric")
    labels: dict[str, str] = {}
    for name, value in found.items():
        if not isinstance(value, str):
            raise UnexpectedError(f"expected text in label {printable(name)}")
        labels[name] = shared.setdefault(value, value)
    return labels


def _note_once(labels: dict[str, str], seen: set[frozenset[tuple[str, str]]]) -> None:
    key = frozenset(labels.items())
    if key in seen:
        raise UnexpectedError(f"two series have the labels {printable(str(dict(sorted(labels.items()))))}")
    seen.add(key)


def _point(found: Json) -> tuple[float, float]:
    if not isinstance(found, list) or len(found) != 2:
        raise UnexpectedError("expected a pair of time and value")
    time_s, text = found
    if isinstance(time_s, bool) or not isinstance(time_s, (int, float)) or not -1e15 < time_s < 1e15:
        raise UnexpectedError(f"expected Unix seconds, found {printable(str(time_s))}")
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        raise UnexpectedError(f"expected a number as text, found {printable(str(text))}")
    return float(time_s), float(text)


def is_usable(value: float) -> bool:
    """Whether a rate, count, length or time is a number from 0 to below `ABSURD`."""
    return 0 <= value < ABSURD


# --- was reconciler/metrics/grids.py:
# The regular grid of moments that a history is asked and told on.

OFF_GRID = 0.01
"""By so much of a step a point may miss its moment; farther off it says nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`count` moments `step_s` apart from `start_s` (Unix seconds), all of them multiples of the step."""

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
        """The moment that a point of `at_s` is of, None beside all of them."""
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


def grid_of(start_s: float, end_s: float, step_s: float) -> Grid:
    """The moments from `start_s` to `end_s`; none when the end comes first.

    Servers that cache ranges move them to multiples of the step; where they stand there already, nothing moves.
    """
    first = math.ceil(start_s / step_s)
    return Grid(start_s=first * step_s, step_s=step_s, count=max(0, math.floor(end_s / step_s) - first + 1))


def grid_over(queries: Sequence[Query]) -> Grid | None:
    """The moments that range queries of one step asked about together, None without any."""
    step_s = queries[0].step_s if queries else None
    if not step_s:
        return None
    return grid_of(min(query.start_s for query in queries), max(query.end_s for query in queries), step_s)


# --- was reconciler/metrics/reading/matrices.py:
# Answers to range queries, read in bulk: millions of points as Python objects would take a gigabyte. The points are
# cut out of the bytes and become arrays of floats; what is left is small, and decoded as strictly as any other
# answer.

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


# --- was reconciler/metrics/tracked/grid.py:
# Answers to range queries as rows of one regular grid that ends now; what does not fit is left out, with a reason.

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)

OFF_S = 0.1
"""How far a sample may be from its tick: servers round to milliseconds."""
LAST_S = 1e13
"""Larger times are ignored."""


def grid_for(targets: Iterable[TrackedTarget], now_s: float) -> Grid:
    """The ticks that end at `now_s` and reach back as far as any of the targets needs."""
    longest_s = max((target.history_s for target in targets), default=0.0)
    # to the millisecond, as a query says it: else the first tick may be rounded another way than the last
    return reach_back(Grid(start_s=round(now_s, 3), step_s=SYNC_PERIOD_S, count=1), longest_s)


def reach_back(grid: Grid, length_s: float) -> Grid:
    """The same grid begun at least `length_s` earlier."""
    more = math.ceil(length_s / grid.step_s)
    return Grid(start_s=grid.start_s - more * grid.step_s, step_s=grid.step_s, count=grid.count + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Key]):
    """The answers to one quantity: a row of shape (ticks,) by key, NaN where there is no sample.

    `oddities` say what was left out of a row, `failed` why there is less than all. Not `asked`: nobody did.
    """

    rows: Mapping[Key, Floats]
    oddities: Mapping[Key, str]
    failed: NoAnswer | None = None
    asked: bool = True


def tabulate(answers: Sequence[Answer], grid: Grid, key_of: Callable[[Mapping[str, str]], Key]) -> Table[Key]:
    """All answers to one quantity put together, its time or its namespaces split or not.

    Two values of one key at one tick contradict each other: neither is believed.
    """
    parts: dict[Key, list[_Placed]] = {}
    failed: NoAnswer | None = None
    for answer in answers:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            failed = failed or matrix
            continue
        places: dict[bytes, _Places] = {}  # nearly all series of an answer have the same times
        for row in matrix.rows:
            times = row.times_s.tobytes()
            if times not in places:
                places[times] = _places_of(row, grid)
            parts.setdefault(key_of(row.labels), []).append(places[times].put(row, grid))
    joined = {key: _joined(placed) for key, placed in parts.items()}
    return Table(
        rows={key: placed.values for key, placed in joined.items()},
        oddities={key: placed.oddity for key, placed in joined.items() if placed.oddity},
        failed=failed,
        asked=bool(answers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    values: Floats
    oddity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Which samples of a series are used, and at which ticks."""

    ticks: Integers
    kept: Bools
    oddity: str

    def put(self, row: MatrixRow, grid: Grid) -> _Placed:
        values = np.full(grid.count, np.nan)
        values[self.ticks] = np.array(row.values)[self.kept]
        return _Placed(values=values, oddity=self.oddity)


def _places_of(row: MatrixRow, grid: Grid) -> _Places:
    """Samples that go back, share a tick or lie beside all of them are not believed."""
    told = np.abs(row.times_s) <= LAST_S  # NaN is not
    times_s = np.where(told, row.times_s, -LAST_S)
    ticks = np.rint((times_s - grid.start_s) / grid.step_s).astype(np.int64)
    beside = ~told | (np.abs(times_s - (grid.start_s + ticks * grid.step_s)) > OFF_S)
    beside |= (ticks < 0) | (ticks >= grid.count)
    before = np.concatenate(([-np.inf], np.maximum.accumulate(times_s)[:-1]))[: times_s.size]
    ticks = np.where(beside, 0, ticks)
    shared = np.bincount(ticks, weights=~beside, minlength=grid.count)[ticks]
    kept = ~beside & (times_s > before) & (shared == 1)
    dropped = times_s.size - np.count_nonzero(kept)
    oddity = f"{dropped} samples repeat a time, go back in time or lie beside the ticks" if dropped else ""
    return _Places(ticks=ticks[kept], kept=kept, oddity=oddity)


def _joined(placed: Sequence[_Placed]) -> _Placed:
    if len(placed) == 1:
        return placed[0]
    values, count = lone_values(np.stack([each.values for each in placed]))
    several = int(np.count_nonzero(count > 1))
    oddities = [each.oddity for each in placed if each.oddity]
    return _Placed(
        values=values,
        oddity=f"{several} ticks have several samples" if several else "".join(oddities[:1]),
    )


def lone_values(rows: Floats) -> tuple[Floats, Integers]:
    """The value of each tick that only one row has, else NaN, and how many have one; (rows, ticks) to (ticks,)."""
    known = ~np.isnan(rows)
    count = np.count_nonzero(known, axis=0)
    values = np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(count == 1, values, np.nan), np.asarray(count, dtype=np.int64)
