"""What a backtest found, day by day and as a whole."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice

import msgspec

from reconciler.domain.records import dataclass

OURS, RAN = "as configured", "what ran"
DELAYED, AT_ONCE = "clairvoyant, same delay", "clairvoyant, no delay"
PACKED_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Sums over a day, of one policy under one setting.

    `offered`, `kept` (inside their targets) and `unserved` (never answered) are requests by service class. `cost` is by
    service class, in the unit of the backtest. `starts` counts replicas, `changes` numbers that changed.
    """

    offered: Mapping[str, float]
    kept: Mapping[str, float]
    unserved: Mapping[str, float]
    cost: Mapping[str, float]
    starts: float
    changes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A day of one model, every `step_s` from midnight: loads and capacities in requests a second.

    `load` is None where it was not known. `forecast` holds the quantiles by level where a forecast decided, each at the
    moment at which it was made. `missed` is the share of requests outside their targets.
    """

    model: str
    service_class: str
    load: tuple[float | None, ...]
    ours: tuple[float, ...]
    ran: tuple[float, ...]
    missed: tuple[float, ...]
    forecast: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    changes: tuple[tuple[float, int, int], ...] = ()
    """When a number reached the cluster (seconds since midnight), what it was and what it is then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Courses:
    """Courses in their order, packed: as numbers of Python those of 1,000 models take 40 MiB a day, so less than 4.

    They are made anew each time that they are gone through, few at once.
    """

    packed: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, courses: Iterable[Course]) -> "Courses":
        """Pack some."""
        left = iter(courses)
        parts = iter(lambda: tuple(islice(left, PACKED_AT_ONCE)), ())
        return cls(packed=tuple(zlib.compress(msgspec.msgpack.encode(part), 1) for part in parts))

    def __iter__(self) -> Iterator[Course]:
        """Each course."""
        for part in self.packed:
            yield from msgspec.msgpack.decode(zlib.decompress(part), type=tuple[Course, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestDay:
    """One day: each policy's tallies, one a setting; what was proposed; the courses of its models.

    `opened`, `pushed` and `merged` count pull requests, `reversed_changes` those that took away within three hours what
    another had brought. `covered` and `judged` count loads that stayed below the quantile of 90 %, and all that could
    be compared. `stopped` counts decisions by the rule or limit that changed or stopped them.
    """

    day: str
    known: float
    tallies: Mapping[str, tuple[Tally, ...]]
    opened: int
    pushed: int
    merged: int
    reversed_changes: int
    all_changes: int
    covered: int
    judged: int
    stopped: Mapping[str, int]
    courses: Courses


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and between which ones it lies in nine of ten draws of days."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting of a policy: its cost a day and the share of requests inside their targets."""

    words: str
    cost: float
    attainment: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """A policy over all days: `cost` a day, `attainment` of all requests, `unserved` as a share of them.

    Of a policy that was swept these are of the cheapest setting that attains what ours does, else of the one that
    attains most; `equal_cost` is what it would cost a day at what ours attains, between its settings, None where none
    reaches that. `points` are its settings by cost.
    """

    name: str
    reproduces: str
    setting: str
    cost: Interval
    attainment: Interval
    by_class: Mapping[str, float]
    unserved: float
    starts: float
    changes: float
    equal_cost: float | None
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """A whole backtest. `unit` is what costs are in; `left_out` says of models that were not replayed why not.

    `saving` is of ours over what ran and `possible` of a clairvoyant with the same delay, both as
    shares, None where nothing ran. `regret` is by how much ours costs more than that one.
    """

    days: tuple[BacktestDay, ...]
    models: int
    unit: str
    ran_from: str
    policies: tuple[PolicyResult, ...]
    saving: Interval | None
    possible: float | None
    regret: float | None
    coverage: float | None
    opened: float
    pushed: float
    reversals: float | None
    stopped: Mapping[str, int]
    left_out: Mapping[str, str]
    assumptions: tuple[str, ...]
    recording: str

    def result(self, name: str) -> PolicyResult:
        """The result of a policy by its name."""
        return next(each for each in self.policies if each.name == name)
