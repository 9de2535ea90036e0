"""Prometheus' answers decoded: samples of one moment, and series over time as rows of one regular grid.

A malformed body is a failed answer with a reason. Points of range queries are read in bulk: as Python objects, millions
of them would take a gigabyte.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

import msgspec
import numpy as np

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, Query, Sample, count_values, parse_json
from reconciler.domain.history import ABSURD, CONTRADICTED, Bools, Floats, Grid, Integers, grid_of
from reconciler.domain.metric_targets import SYNC_PERIOD_S, TrackedTarget
from reconciler.domain.records import dataclass
from reconciler.metrics.quantities import CLUSTER, Name

MAX_SAMPLES = 500_000
MAX_VALUES = 16 * MAX_SAMPLES
"""JSON values read of one answer: more than `MAX_SAMPLES` series with a dozen labels each have."""
MAX_POINTS = 5_000_000
"""Points read of one answer: 80 MB of floats."""
_MAX_WARNINGS = 10
_EXPECTED_NOTE = "metric might not be a counter"
"""Prometheus 3 adds it for each counter whose name has no `_total`, which are all of TGI's and Triton's."""
_ABOUT_PROMQL = ("PromQL info:", "PromQL warning:")
"""Notes about an expression; all other warnings are about data that could not be read."""
_PARTIAL_KEY = "isPartial"
"""VictoriaMetrics sets it when some of its storages did not answer."""
_QUOTED_CHARACTERS = 200
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]Inf")
_TEXT = frozenset({str})
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class UnexpectedError(Exception):
    """A body has an unexpected format; the message says what was expected."""


def decode(answer: Answer, *, max_samples: int = MAX_SAMPLES) -> tuple[Sample, ...] | NoAnswer:
    """The samples of an instant query; NaN and infinities stay what they are. FAILED with a reason otherwise."""
    return decode_with_warnings(answer, max_samples=max_samples)[0]


def decode_with_warnings(
    answer: Answer, *, max_samples: int = MAX_SAMPLES
) -> tuple[tuple[Sample, ...] | NoAnswer, tuple[str, ...]]:
    """The same with what Prometheus warned of."""
    if answer.status is not AnswerStatus.OK:
        return _failed(answer), ()
    document: dict[str, Json] = {}
    body = answer.body.read()
    if (usual := _usual_answer(body, max_samples)) is not None:
        return usual
    try:
        document = document_of(body)
        entries = result_of(document, "vector")
        return _samples(entries, max_samples), _warnings_in(document)
    except UnexpectedError as unexpected:
        return _failed(answer, str(unexpected)), _warnings_in(document)


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct):
    resultType: str  # noqa: N815 - as Prometheus spells it
    result: list[_Series]


class _VectorAnswer(msgspec.Struct):
    status: str
    data: _Vector
    warnings: list[str] = []
    infos: list[str] = []
    isPartial: bool = False  # noqa: N815 - as VictoriaMetrics spells it


_USUAL = msgspec.json.Decoder(_VectorAnswer)


def _usual_answer(body: bytes, most: int) -> tuple[tuple[Sample, ...], tuple[str, ...]] | None:
    """Samples and warnings of an answer that is as expected, in a third of the time; None for any other.

    What is wrong with that one, if anything, the general reader says.
    """
    if count_values(body) > MAX_VALUES:
        return None
    try:
        answer = _USUAL.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if answer.status != "success" or answer.data.resultType != "vector":
        return None
    series = answer.data.result
    metrics = [each.metric for each in series]
    times_s, texts = [each.value[0] for each in series], [each.value[1] for each in series]
    # Labels without their names tell series apart where all have the same.
    is_uniform = len(set(map(tuple, metrics))) <= 1
    known: set[object] = set(
        map(tuple, map(dict.values, metrics)) if is_uniform else map(frozenset, map(dict.items, metrics))
    )
    is_usual = (
        len(known) == len(series) <= most
        and all(map(_NUMBER.fullmatch, texts))
        and min(times_s, default=0.0) > -1e15
        and max(times_s, default=0.0) < 1e15
    )
    if not is_usual:
        return None
    samples = [
        Sample(labels=labels, time_s=time_s, value=value)
        for labels, time_s, value in zip(metrics, times_s, map(float, texts), strict=True)
    ]
    said: dict[str, Json] = {"warnings": [*answer.warnings], "infos": [*answer.infos], _PARTIAL_KEY: answer.isPartial}
    return tuple(samples), _warnings_in(said)


def clusters_seen(answers: Sequence[Answer]) -> tuple[str, ...]:
    """The values of the label `cluster` on series of the namespaces queried, sorted; empty if it is not used."""
    decoded = [decode(answer) for answer in answers if answer.query.quantity == Name.CLUSTER_LABEL]
    samples = [sample for found in decoded if not isinstance(found, NoAnswer) for sample in found]
    return tuple(sorted({sample.labels.get(CLUSTER, "") for sample in samples}))


def _warnings_in(document: Mapping[str, Json]) -> tuple[str, ...]:
    """Prometheus' own warnings and notes, empty without any."""
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


def _samples(entries: list[Json], most: int) -> tuple[Sample, ...]:
    if len(entries) > most:
        raise UnexpectedError(f"{len(entries)} series, more than the {most} that are read")
    samples: dict[frozenset[tuple[str, str]], Sample] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise UnexpectedError("expected an object in data.result")
        labels = _labels(entry.get("metric"))
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


def _labels(found: Json) -> dict[str, str]:
    """The labels of a series."""
    if not isinstance(found, dict):
        raise UnexpectedError("expected an object under metric")
    if not _TEXT.issuperset(map(type, found.values())):
        name = next(name for name, value in found.items() if not isinstance(value, str))
        raise UnexpectedError(f"expected text in label {printable(name)}")
    return cast(dict[str, str], found)


# ---- answers to range queries: points are cut out of the bytes and read in bulk; the rest is decoded as strictly as
# any other answer


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One series: its labels, and its points in the order they came, Unix seconds and values."""

    labels: Mapping[str, str]
    times_s: Floats
    values: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All series of an answer, several with the same labels among them, and what Prometheus warned of.

    `values` are the points of all series one after the other; `runs` say of how many series in a row the times are the
    same, and which.
    """

    labels: tuple[Mapping[str, str], ...]
    values: Floats
    runs: tuple[tuple[int, Floats], ...]
    warnings: tuple[str, ...]

    @property
    def rows(self) -> Iterator[MatrixRow]:
        """The series one by one."""
        labels, at = iter(self.labels), 0
        for count, times_s in self.runs:
            for _ in range(count):
                values = self.values[at : at + len(times_s)]
                yield MatrixRow(labels=next(labels), times_s=times_s, values=values)
                at += len(times_s)

    def on(self, grid: Grid, values: Floats) -> Floats:
        """`values`, made of those of the points, on a grid: shape (series, moments), NaN where a series has no point.

        Two different values of a series for one moment contradict each other, see `CONTRADICTED`.
        """
        block = np.full((len(self.labels), grid.count), math.nan)
        row = at = 0
        for count, times_s in self.runs:
            size = count * len(times_s)
            points, places = values[at : at + size].reshape(count, len(times_s)), grid.places(times_s)
            kept = np.flatnonzero(places >= 0)
            kept = kept[np.argsort(places[kept], kind="stable")]
            moments, firsts = np.unique(places[kept], return_index=True)
            found = points[:, kept]
            if len(moments) < len(kept):
                lowest, highest = (each.reduceat(found, firsts, axis=1) for each in (np.fmin, np.fmax))
                found = np.where(lowest < highest, CONTRADICTED, lowest)
            block[row : row + count, moments] = found
            row, at = row + count, at + size
        return block


def decode_matrix(answer: Answer, *, max_points: int = MAX_POINTS) -> Matrix | NoAnswer:
    """The series of a range query; FAILED with a reason when it cannot be read or has over `max_points` points."""
    if answer.status is not AnswerStatus.OK:
        return _failed(answer)
    body = answer.body.read()
    try:
        try:
            return _decoded(body, _cut_compact(body, max_points))
        except UnexpectedError:
            return _decoded(body, _cut(body, max_points))
    except UnexpectedError as unexpected:
        return _failed(answer, str(unexpected))


def _decoded(body: bytes, written: Sequence["_Written"]) -> Matrix:
    """What a body says that has points in these places."""
    ends = [0, *(each.end + 1 for each in written)]
    numbered = enumerate(zip(ends, written, strict=False))
    rest = [b'%b"values":%d' % (body[end : each.begin], number) for number, (end, each) in numbered]
    document = document_of(b"".join((*rest, body[ends[-1] :])))
    labels = tuple(_labels_by_number(result_of(document, "matrix"), len(written)))
    values, runs = _read_points(body, written[: len(labels)])
    return Matrix(labels=labels, values=values, runs=runs, warnings=_warnings_in(document))


def _labels_by_number(entries: list[Json], count: int) -> Iterator[Mapping[str, str]]:
    for number, entry in enumerate(entries):
        # a number that the body itself holds, or points in another place, break the count
        if not isinstance(entry, dict) or entry.get("values") != number or number >= count:
            raise UnexpectedError("expected objects with a list of values in data.result")
        yield _labels(entry.get("metric"))


_VALUES = re.compile(rb'"values"\s*+:\s*+\[')
"""What comes before the points of a series. No text can look like it: within a string a quotation mark is escaped."""
_POINTS = re.compile(rb'"values"\s*+:\s*+\[((?:\s*+\[[^\[\]]*+\]\s*+,?+)*+)\s*+\]')
_IN_NUMBERS = b"0123456789+-.eENaInf"
_BLANKS = b" \t\r\n"
_JSON_NUMBERS = msgspec.json.Decoder(list[float | None])
"""Numbers, and None for NaN; half of the time that numpy takes for the same text."""
_BATCH = 20_000
"""Points that are read at once: enough to make the number of series not matter, few enough to need little memory."""


class _Written(NamedTuple):
    """Where a body has the list of a series' points, from its name to its last bracket, and how many points."""

    begin: int
    points: int
    end: int
    size: int


def _cut_compact(body: bytes, most: int) -> list[_Written]:
    """Where points are in JSON without blanks, which all servers write; in any other they are not what it seems."""
    found, at = list[_Written](), 0
    while begin := _VALUES.search(body, at):
        points = begin.end()
        # The quotation mark of the last value is looked for too: Python skips thrice as fast to three bytes as to two.
        end = points if body.startswith(b"]", points) else body.find(b'"]]', points) + 2
        if end == 1:
            raise UnexpectedError("expected the end of a list of points")
        found.append(_Written(begin.start(), points, end, body.count(b"[", points, end)))
        at = end
    return _bounded(found, most)


def _cut(body: bytes, most: int) -> list[_Written]:
    """Where points are in JSON of any layout."""
    found = [
        _Written(each.start(), each.start(1), each.end() - 1, each[1].count(b"[")) for each in _POINTS.finditer(body)
    ]
    return _bounded(found, most)


def _bounded(found: list[_Written], most: int) -> list[_Written]:
    if sum(each.size for each in found) > most:
        raise UnexpectedError(f"more than the {most} points that are read")
    return found


def _read_points(body: bytes, written: Sequence[_Written]) -> tuple[Floats, tuple[tuple[int, Floats], ...]]:
    """The values of all points, and the runs of series with the same times."""
    counts = [each.size for each in written]
    values, runs, filled = np.empty(sum(counts)), list[tuple[int, Floats]](), 0
    for first, last in _batches(counts):
        points = b",".join([body[each.points : each.end] for each in written[first:last] if each.size])
        pairs = _numbers(points, sum(counts[first:last]))
        values[filled : filled + len(pairs)] = pairs[:, 1]
        for series, times_s in _runs_of(pairs[:, 0], counts[first:last]):
            if runs and np.array_equal(runs[-1][1], times_s):
                runs[-1] = runs[-1][0] + series, runs[-1][1]
            else:
                runs.append((series, times_s.copy()))
        filled += len(pairs)
    return values, tuple(runs)


def _runs_of(times_s: Floats, counts: Sequence[int]) -> Iterator[tuple[int, Floats]]:
    """How many series have which times: nearly always all of a batch the same, else each by itself."""
    if min(counts) == max(counts) > 0:
        each = times_s.reshape(len(counts), -1)
        if (each == each[0]).all():
            yield len(counts), each[0]
            return
    at = 0
    for count in counts:
        yield 1, times_s[at : at + count]
        at += count


def _batches(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From which to which series are read at once."""
    first = points = 0
    for last, count in enumerate(counts, start=1):
        points += count
        if points >= _BATCH or last == len(counts):
            yield first, last
            first, points = last, 0


def _numbers(points: bytes, count: int) -> Floats:
    """The times and values of points, shape (points, 2); UnexpectedError for anything but pairs of number and text."""
    if points.translate(None, _IN_NUMBERS + _BLANKS) != b",".join([b'[,""]'] * count):
        raise UnexpectedError("expected pairs of time and value")
    plain = points.translate(None, b'[]"')
    try:
        written = plain.replace(b"NaN", b"null") if b"N" in plain else plain
        numbers = np.array(_JSON_NUMBERS.decode(b"[%b]" % written), dtype=float)
    except msgspec.DecodeError:  # `+Inf`, a `1.` or a blank within: Python reads them, and all others the same
        try:
            numbers = np.array(list(map(float, plain.split(b","))))
        except ValueError as error:
            raise UnexpectedError("expected numbers as times and values") from error
    return numbers.reshape(count, 2)


# ---- rows of one grid, as numpy arrays

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
