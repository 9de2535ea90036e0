"""Decodes the JSON of Prometheus' answers; a body that breaks the API's format is a failed answer, with a reason."""

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias, cast

from reconciler.domain.json_text import parse_json
from reconciler.domain.measured.answers import Absence, Answer, AnswerStatus, NoAnswer, Sample
from reconciler.metrics.quantities.quantity import CLUSTER, Name

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
