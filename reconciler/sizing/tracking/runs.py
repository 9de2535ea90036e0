"""One replay of many targets, and how far it can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.tracking.history import Target, TrackingRule
from reconciler.sizing.tracking.loads import Loads, stack_loads
from reconciler.sizing.tracking.replay import Course, RolePair, Tick, replay, stack_course
from reconciler.sizing.tracking.windows import MOST_REPLICAS, NEVER_MS, milliseconds

# Ticks that are further apart than this many times their median have a hole between them.
_HOLE = 2.5
# A time beyond this many seconds is no time; milliseconds of it are still whole in 64 bits.
_LAST_S = 1e13


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTicks:
    """The ticks that can be used: their places in the history, their times, and when the last unbroken run began."""

    kept: Integers
    ticks_ms: Integers
    unbroken_since_ms: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished replay: the last tick (None without ticks), and per target (targets,) what it rests on.

    `begins_ms` is when each target's count was first recorded, `gap_ms` when a metric of it was last missing.
    `counts` are the recorded replicas, one array of shape (ticks, backends) a target.
    """

    clock: KeptTicks
    rule: TrackingRule
    pairs: Sequence[RolePair]
    course: Course
    loads: Loads
    counts: tuple[Floats, ...]
    start: Integers
    begins_ms: Integers
    gap_ms: Integers
    last: Tick | None
    depends_on_start: Bools

    @property
    def now_ms(self) -> int:
        """The time of the decision."""
        return int(self.clock.ticks_ms[-1])

    @property
    def clock_notes(self) -> tuple[str, ...]:
        """What was odd about the clock."""
        dropped = self.clock.dropped
        return (f"{dropped} ticks went back in time or had none and are left out",) if dropped else ()

    def recorded(self, column: int) -> tuple[int, ...] | None:
        """Return the last recorded count of each backend, None where one never was."""
        known = _recorded(self.counts[column])
        if not known.any():
            return None
        return tuple(int(count) for count in np.rint(self.counts[column][known][-1]))

    def covered_s(self, column: int) -> float:
        """Return how long the replay has run without a hole in its ticks."""
        return max(self.now_ms - max(self.clock.unbroken_since_ms, int(self.begins_ms[column])), 0) / 1000

    def doubts(self, column: int, longest_s: float, needed_s: float) -> tuple[str, ...]:
        """Return why a smaller count is not to be believed; the roles of a pair share their doubts."""
        together = {column}
        for pair in self.pairs:
            if column in (pair.numerator, pair.denominator):
                together = {pair.numerator, pair.denominator}
        reasons = []
        covered_s = min(self.covered_s(each) for each in together)
        if covered_s < needed_s:
            reasons.append(f"not shrunk: {covered_s:g} s of history, and windows need {needed_s:g} s")
        gap_ms = max(int(self.gap_ms[each]) for each in together)
        if gap_ms >= self.now_ms - longest_s * 1000:
            reasons.append(f"not shrunk: a metric was missing {(self.now_ms - gap_ms) / 1000:g} s ago")
        return tuple(reasons)


def read_clock(ticks_s: Floats) -> KeptTicks:
    """Return the ticks in rising order; those without a time, or that go back, are dropped."""
    told = np.abs(np.where(np.isfinite(ticks_s), ticks_s, np.inf)) <= _LAST_S
    times_ms = milliseconds(np.where(told, ticks_s, 0.0))
    latest = np.maximum.accumulate(np.where(told, times_ms, NEVER_MS))
    earlier = np.concatenate(([NEVER_MS], latest[:-1]))[: ticks_s.size]
    kept = np.flatnonzero(told & (times_ms > earlier))
    ticks_ms = times_ms[kept]
    between = np.diff(ticks_ms)
    holes = np.flatnonzero(between > _HOLE * np.median(between)) if between.size else between
    since = ticks_ms[holes[-1] + 1] if holes.size else ticks_ms[:1].sum()
    return KeptTicks(kept=kept, ticks_ms=ticks_ms, unbroken_since_ms=int(since), dropped=int(ticks_s.size - kept.size))


def run_replay(targets: Sequence[Target], clock: KeptTicks, rule: TrackingRule, pairs: Sequence[RolePair]) -> Run:
    """Replay the targets from their first recorded counts, and beside that from their bounds."""
    counts = tuple(target.history.replicas[clock.kept] for target in targets)
    loads = _stack(targets, clock, rule)
    course = stack_course(targets, rule)
    known = np.array([_recorded(count) for count in counts], dtype=np.bool_).reshape(len(targets), clock.kept.size).T
    active = np.logical_or.accumulate(known, axis=0)
    first = np.argmax(known, axis=0) if clock.kept.size else np.zeros(len(targets), dtype=np.int64)
    start = np.array([_total(count, int(at)) for count, at in zip(counts, first, strict=True)], dtype=np.int64)
    starts = (start, course.aims.minimum, course.aims.maximum)
    last, gap_ms = None, np.full(start.size, NEVER_MS, dtype=np.int64)
    lanes = _side_by_side(loads, course, pairs, len(starts))
    everywhere = np.tile(active, (1, len(starts)))
    for tick in replay(clock.ticks_ms, lanes[0], lanes[1], np.concatenate(starts), rule, lanes[2], everywhere):
        last = tick
        lacking = (tick.recommendation.skipped | ~tick.recommendation.complete)[: start.size]
        gap_ms = np.where(lacking, tick.now_ms, gap_ms)
    ends = np.zeros((len(starts), start.size)) if last is None else last.replicas.reshape(len(starts), start.size)
    return Run(
        clock=clock,
        rule=rule,
        pairs=pairs,
        course=course,
        loads=loads,
        counts=counts,
        start=start,
        begins_ms=clock.ticks_ms[first] if clock.kept.size else np.zeros(start.size, dtype=np.int64),
        gap_ms=gap_ms,
        last=last,
        depends_on_start=course.remembers_start | (ends != ends[0]).any(axis=0),
    )


def _stack(targets: Sequence[Target], clock: KeptTicks, rule: TrackingRule) -> Loads:
    loads = stack_loads(targets, clock.kept.size + clock.dropped, rule)
    return loads.over(clock.kept) if clock.dropped else loads


def _side_by_side(
    loads: Loads, course: Course, pairs: Sequence[RolePair], lanes: int
) -> tuple[Loads, Course, list[RolePair]]:
    """Return the same targets several times over, one lane beside the other."""
    targets = course.grace_ms.size
    moved = [
        replace(pair, numerator=pair.numerator + lane * targets, denominator=pair.denominator + lane * targets)
        for lane in range(lanes)
        for pair in pairs
    ]
    return loads.repeat(lanes), course.repeat(lanes), moved


def _recorded(counts: Floats) -> Bools:
    known = np.isfinite(counts) & (counts >= 0) & (counts <= MOST_REPLICAS)
    return np.asarray(known.all(axis=1), dtype=np.bool_)


def _total(counts: Floats, tick: int) -> int:
    if not counts.size or not _recorded(counts[tick : tick + 1]).all():
        return 0
    return int(np.rint(counts[tick]).sum())
