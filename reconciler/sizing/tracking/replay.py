"""The autoscaler's loop over a stretch of history, for many targets at once.

Upstream keeps its windows in memory; here they are grown again by running the loop over what was observed, from the
count at the start. What it decides at one tick is its current count at the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.metric_targets import RatioRange
from reconciler.sizing.arrays import Bools, Integers
from reconciler.sizing.tracking.correct import (
    Behaviors,
    CorrectedReplicas,
    Past,
    UncorrectedReplicas,
    correct,
    stack_behaviors,
)
from reconciler.sizing.tracking.history import Target, TrackingRule
from reconciler.sizing.tracking.loads import Loads
from reconciler.sizing.tracking.recommend import Aims, Recommendation, recommend
from reconciler.sizing.tracking.roles import RoleBounds, RoleCounts, repair_exactly, repair_upstream
from reconciler.sizing.tracking.windows import NEVER_MS, Extreme, LineWindow, RecordWindow, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a replay needs to know of its targets, in order."""

    aims: Aims
    behaviors: Behaviors
    grace_ms: Integers
    remembers_start: Bools

    def repeat(self, times: int) -> "Course":
        """Return the same targets several times over, side by side."""
        return Course(
            aims=Aims(
                per_replica=np.tile(self.aims.per_replica, times),
                tolerance=np.tile(self.aims.tolerance, times),
                minimum=np.tile(self.aims.minimum, times),
                maximum=np.tile(self.aims.maximum, times),
            ),
            behaviors=self.behaviors.repeat(times),
            grace_ms=np.tile(self.grace_ms, times),
            remembers_start=np.tile(self.remembers_start, times),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePair:
    """Two targets, by index, that are roles of one model; `ratio` None only lets them skip a tick together."""

    numerator: int
    denominator: int
    ratio: RatioRange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Everything that happened at one tick, arrays of shape (targets,) or of the stage's own shape.

    `replicas` are what the loop goes on with: `correction.corrected`, then what the idle timer and role ratios make of
    it, or the count before where the tick was skipped. `idle_held` where the timer kept a last replica, `waiting` where
    it would.
    """

    now_ms: int
    current: Integers
    recommendation: Recommendation
    skipped: Bools
    panic: Bools
    panic_ends_ms: Integers
    past: Past
    correction: CorrectedReplicas
    idle_held: Bools
    waiting: Bools
    replicas: Integers


def stack_course(targets: Sequence[Target], rule: TrackingRule) -> Course:
    """Return the policies and bounds of targets as arrays."""
    metrics = max((len(target.policy.metrics) for target in targets), default=0)
    per_replica = np.full((metrics, len(targets)), np.nan)
    for column, target in enumerate(targets):
        for row, metric in enumerate(target.policy.metrics):
            per_replica[row, column] = metric.per_replica
    return Course(
        aims=Aims(
            per_replica=per_replica,
            tolerance=np.array([target.policy.tolerance for target in targets]),
            minimum=np.array([target.minimum for target in targets], dtype=np.int64),
            maximum=np.array([target.maximum for target in targets], dtype=np.int64),
        ),
        behaviors=stack_behaviors([target.policy.behavior for target in targets]),
        grace_ms=milliseconds(np.array([target.grace_s for target in targets])),
        remembers_start=np.array(
            [rule.remembers_start(is_group=target.is_group) for target in targets], dtype=np.bool_
        ),
    )


def replay(
    ticks_ms: Integers,
    loads: Loads,
    course: Course,
    start: Integers,
    rule: TrackingRule,
    pairs: Sequence[RolePair] = (),
    active: Bools | None = None,
) -> Iterator[Tick]:
    """Yield all ticks, `ticks_ms` rising; `start` counts have shape (targets,).

    `active`, shape (ticks, targets), leaves ticks out that a target knows nothing of.
    """
    loop = _Loop(course, start, rule, pairs, ticks_ms)
    everywhere = np.ones(start.size, dtype=np.bool_)
    for tick in range(ticks_ms.size):
        yield loop.step(loads, tick, everywhere if active is None else active[tick])


class _Loop:
    """The windows, the panic stamp and the counts between two ticks."""

    def __init__(
        self, course: Course, start: Integers, rule: TrackingRule, pairs: Sequence[RolePair], ticks_ms: Integers
    ) -> None:
        behaviors, ticks = course.behaviors, ticks_ms.size
        highest = Extreme.SMALLEST if rule.down_rate_from_minimum else Extreme.LARGEST
        self._course, self._rule, self._pairs, self._ticks_ms = course, rule, pairs, ticks_ms
        self._max_recommendation = RecordWindow(Extreme.LARGEST, behaviors.down.stabilization_ms, ticks)
        self._min_recommendation = RecordWindow(Extreme.SMALLEST, behaviors.up.stabilization_ms, ticks)
        self._down_corrected = LineWindow(highest, behaviors.down.period_ms, ticks)
        self._min_corrected_stable = LineWindow(Extreme.SMALLEST, behaviors.up.period_ms, ticks)
        self._min_corrected_panic = LineWindow(Extreme.SMALLEST, behaviors.panic_period_ms, ticks)
        self._panic_ends_ms = np.full(start.size, NEVER_MS, dtype=np.int64)
        self._busy_ms = np.full(start.size, int(ticks_ms[0]) if ticks else 0, dtype=np.int64)
        self._repairs: dict[tuple[int, int, int], RoleCounts] = {}
        self._current = start

    def step(self, loads: Loads, tick: int, active: Bools) -> Tick:
        """Recommend, test for panic, correct, record, and move on."""
        now_ms, current, rule = int(self._ticks_ms[tick]), self._current, self._rule
        recommendation = recommend(loads.at(tick), self._course.aims, current, rule)
        skipped = self._skipped_together(recommendation.skipped | ~active)
        panic = self._panics(now_ms, recommendation.replicas, skipped)
        past = self._past(now_ms)
        wish = UncorrectedReplicas(
            recommended=recommendation.replicas,
            current=current,
            panic=panic,
            minimum=self._course.aims.minimum,
            maximum=self._course.aims.maximum,
        )
        correction = correct(wish, self._course.behaviors, past, panics_from_zero=rule.panics_from_zero)
        self._busy_ms = np.where(loads.busy[tick], now_ms, self._busy_ms)
        waiting = self._waiting(now_ms)
        idle_held = waiting & (correction.corrected == 0) & (current > 0) & ~skipped
        corrected = np.where(idle_held, np.minimum(current, 1), correction.corrected)
        replicas = np.where(skipped, current, self._repaired(corrected, skipped))
        self._record(now_ms, recommendation.replicas, replicas if rule.keeps_ratio else corrected, ~skipped)
        self._current = replicas
        return Tick(
            now_ms=now_ms,
            current=current,
            recommendation=recommendation,
            skipped=skipped,
            panic=panic,
            panic_ends_ms=self._panic_ends_ms,
            past=past,
            correction=correction,
            idle_held=idle_held,
            waiting=waiting,
            replicas=replicas,
        )

    def _panics(self, now_ms: int, recommended: Integers, skipped: Bools) -> Bools:
        behaviors = self._course.behaviors
        urgent = recommended * 100 >= self._current * behaviors.threshold_percent
        enters = urgent & behaviors.tested & (behaviors.hold_ms > 0) & ~skipped
        self._panic_ends_ms = np.where(enters, now_ms + behaviors.hold_ms, self._panic_ends_ms)
        return np.asarray((behaviors.hold_ms > 0) & (now_ms <= self._panic_ends_ms), dtype=np.bool_)

    def _past(self, now_ms: int) -> Past:
        return Past(
            max_recommendation=self._max_recommendation.best(now_ms),
            min_recommendation=self._min_recommendation.best(now_ms),
            down_corrected=self._down_corrected.best(now_ms, self._current),
            min_corrected_stable=self._min_corrected_stable.best(now_ms, self._current),
            min_corrected_panic=self._min_corrected_panic.best(now_ms, self._current),
        )

    def _record(self, now_ms: int, recommended: Integers, corrected: Integers, recorded: Bools) -> None:
        wanted = np.where(self._course.remembers_start, corrected, recommended)
        self._max_recommendation.append(now_ms, wanted, recorded)
        self._min_recommendation.append(now_ms, wanted, recorded)
        self._down_corrected.append(now_ms, corrected, recorded)
        self._min_corrected_stable.append(now_ms, corrected, recorded)
        self._min_corrected_panic.append(now_ms, corrected, recorded)

    def _waiting(self, now_ms: int) -> Bools:
        """Return where something arrived, or may have, within the grace period."""
        if not self._rule.waits_until_idle:
            return np.zeros(self._current.size, dtype=np.bool_)
        return np.asarray(now_ms - self._busy_ms < self._course.grace_ms, dtype=np.bool_)

    def _skipped_together(self, skipped: Bools) -> Bools:
        for pair in self._pairs:
            both = skipped[pair.numerator] | skipped[pair.denominator]
            skipped[[pair.numerator, pair.denominator]] = both
        return skipped

    def _repaired(self, corrected: Integers, skipped: Bools) -> Integers:
        repaired = corrected.copy() if self._pairs else corrected
        for pair in self._pairs:
            if not skipped[pair.numerator] and pair.ratio is not None:
                counts = self._repair(pair, int(corrected[pair.numerator]), int(corrected[pair.denominator]))
                repaired[pair.numerator], repaired[pair.denominator] = counts.numerator, counts.denominator
        return repaired

    def _repair(self, pair: RolePair, numerator: int, denominator: int) -> RoleCounts:
        key = (pair.numerator, numerator, denominator)
        if key not in self._repairs and pair.ratio is not None:
            self._repairs[key] = repair_pair(pair, self._course.aims, (numerator, denominator), self._rule)
        return self._repairs[key]


def repair_pair(pair: RolePair, aims: Aims, counts: tuple[int, int], rule: TrackingRule) -> RoleCounts:
    """Return the two roles' counts brought into their ratio within the targets' bounds, if they have one."""
    bounds = RoleBounds(
        numerator=(int(aims.minimum[pair.numerator]), int(aims.maximum[pair.numerator])),
        denominator=(int(aims.minimum[pair.denominator]), int(aims.maximum[pair.denominator])),
    )
    if pair.ratio is None:
        return bounds.clip(*counts)
    repair = repair_exactly if rule.keeps_ratio else repair_upstream
    return repair(*counts, bounds, pair.ratio)
