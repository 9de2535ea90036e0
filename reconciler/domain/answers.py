"""Queries to Prometheus and the raw answers, byte for byte; JSON of servers within a memory bound."""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from reconciler.domain.records import dataclass

TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
BEFORE_VALUES = (b",", b"[", b"{")
"""Each value but the first comes after one of them."""


def parse_json(body: bytes, *, most_values: int, parse_constant: Callable[[str], object] | None = None) -> object:
    """What `body` says; ValueError when that is no JSON, nested too deep, or more than `most_values` values."""
    # Whether more values stand in `body`; what its texts hold does not count, and is looked at only where it
    # may.
    found = count_values(body)
    if found > most_values:
        for texts, text in enumerate(TEXT.finditer(body)):
            found -= count_values(text[0])
            if found <= most_values or texts > 2 * most_values:  # a value has at most a name besides it
                break
    if found > most_values:
        raise ValueError(f"more than the {most_values} values that are read")
    try:
        content: object = json.loads(body, parse_constant=parse_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return content


def count_values(text: bytes) -> int:
    """How many values a JSON text holds, at most: those that its texts seem to hold count too."""
    return sum(map(text.count, BEFORE_VALUES))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Query:
    """One request: an instant query when `step_s` is None (then start equals end), else a range query.

    `quantity` is the canonical name of what is asked (`completions`), `text` the PromQL. Times are Unix seconds.
    """

    cluster: str
    quantity: str
    text: str
    start_s: float
    end_s: float
    step_s: float | None = None


class AnswerStatus(StrEnum):
    """Whether bytes came back; what they mean is decided later, by a pure function."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    """a credential or an address is wrong: asking again does not help"""


class Body(Protocol):
    """Bytes that are read when they are needed, so that one answer at a time is in memory."""

    def read(self) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBody:
    """A body that is in memory already."""

    content: bytes = b""

    def read(self) -> bytes:
        """The bytes."""
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A query with what came back; `reason` says in a sentence why nothing did."""

    query: Query
    status: AnswerStatus
    body: Body
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series' value at a time, in the unit of its quantity."""

    labels: Mapping[str, str]
    time_s: float
    value: float


class Absence(StrEnum):
    """The ways of having no answer. None of them is zero."""

    MISSING = "missing"
    STALE = "stale"
    NAN = "NaN"
    FAILED = "failed"
    UNATTRIBUTED = "unattributed"
    CONTRADICTORY = "contradictory"


def no_prometheus(cluster: str) -> str:
    """Why a cluster that no Prometheus is known of is not asked, and what to do about it."""
    return f"cluster {cluster} has no Prometheus: give --prometheus, or clusters[].prometheus in reconciler.yaml"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is no value, in words for a person: what, where, and what to do."""

    absence: Absence
    reason: str
