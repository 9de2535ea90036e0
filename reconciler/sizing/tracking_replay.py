"""The autoscaler's loop over a stretch of history, for many targets at once."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from reconciler.domain.metric_targets import Behavior, Rate, RatioRange, Select
from reconciler.domain.records import dataclass, replace
from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.tracking_loads import (
    MOST_REPLICAS,
    NEVER_MS,
    Aims,
    Best,
    Extreme,
    LineWindow,
    Loads,
    Recommendation,
    RecordWindow,
    Target,
    TrackingRule,
    milliseconds,
    recommend,
    stack_loads,
)

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One direction of `Behavior` for many targets, arrays of shape (targets,)."""

    instances: Integers
    percent: Integers
    period_ms: Integers
    stabilization_ms: Integers
    looser: Bools
    tighter: Bools

    def repeat(self, times: int) -> "Rates":
        """Return the same targets several times over, side by side."""
        return Rates(
            instances=np.tile(self.instances, times),
            percent=np.tile(self.percent, times),
            period_ms=np.tile(self.period_ms, times),
            stabilization_ms=np.tile(self.stabilization_ms, times),
            looser=np.tile(self.looser, times),
            tighter=np.tile(self.tighter, times),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviors:
    """`Behavior` for many targets, arrays of shape (targets,); `threshold_percent` means something where `tested`."""

    down: Rates
    up: Rates
    panic_percent: Integers
    panic_period_ms: Integers
    threshold_percent: Integers
    tested: Bools
    hold_ms: Integers

    def repeat(self, times: int) -> "Behaviors":
        """Return the same targets several times over, side by side."""
        return Behaviors(
            down=self.down.repeat(times),
            up=self.up.repeat(times),
            panic_percent=np.tile(self.panic_percent, times),
            panic_period_ms=np.tile(self.panic_period_ms, times),
            threshold_percent=np.tile(self.threshold_percent, times),
            tested=np.tile(self.tested, times),
            hold_ms=np.tile(self.hold_ms, times),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What the five windows answered before this tick."""

    max_recommendation: Best
    min_recommendation: Best
    down_corrected: Best
    min_corrected_stable: Best
    min_corrected_panic: Best


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedReplicas:
    """How a recommendation became `corrected`, arrays of shape (targets,).

    `stabilized` is what the recommendation window left of it, `limit` what the rate allowed at most (or least, when
    shrinking), `limited` where there was a limit.
    """

    stabilized: Integers
    limit: Integers
    limited: Bools
    corrected: Integers


def stack_behaviors(behaviors: Sequence[Behavior]) -> Behaviors:
    """Return the behaviors as arrays, in order."""
    panics = [behavior.panic for behavior in behaviors]
    return Behaviors(
        down=_stack_rates([behavior.down for behavior in behaviors]),
        up=_stack_rates([behavior.up for behavior in behaviors]),
        panic_percent=_whole([panic.percent for panic in panics]),
        panic_period_ms=milliseconds(np.array([panic.period_s for panic in panics])),
        threshold_percent=_whole([panic.threshold_percent or 0 for panic in panics]),
        tested=np.array([panic.threshold_percent is not None for panic in panics], dtype=np.bool_),
        hold_ms=milliseconds(np.array([panic.hold_s for panic in panics])),
    )


def _stack_rates(rates: Sequence[Rate]) -> Rates:
    return Rates(
        instances=_whole([rate.instances for rate in rates]),
        percent=_whole([rate.percent for rate in rates]),
        period_ms=milliseconds(np.array([rate.period_s for rate in rates])),
        stabilization_ms=milliseconds(np.array([rate.stabilization_s for rate in rates])),
        looser=np.array([rate.select is Select.OR for rate in rates], dtype=np.bool_),
        tighter=np.array([rate.select is Select.AND for rate in rates], dtype=np.bool_),
    )


def _whole(numbers: Sequence[int]) -> Integers:
    return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class UncorrectedReplicas:
    """A recommendation with what it is to be corrected against, arrays of shape (targets,)."""

    recommended: Integers
    current: Integers
    panic: Bools
    minimum: Integers
    maximum: Integers


def correct(
    asked: UncorrectedReplicas, behaviors: Behaviors, past: Past, *, panics_from_zero: bool
) -> CorrectedReplicas:
    """Return the count that windows, rates and bounds leave of a recommendation.

    A panic only grows, from the lowest count of its period; a steady target shrinks no further than its windows and
    rate allow, and grows likewise. p percent of a count is truncated toward zero.
    """
    lowest = past.min_corrected_panic
    limited = lowest.known & (lowest.value > 0) if panics_from_zero else lowest.known
    limit = lowest.value + lowest.value * behaviors.panic_percent // 100
    reached = np.where(limited, np.minimum(asked.recommended, limit), asked.recommended)
    urgent = CorrectedReplicas(
        stabilized=asked.recommended, limit=limit, limited=limited, corrected=np.maximum(reached, asked.current)
    )
    shrinking = _shrinking(asked, behaviors.down, past)
    growing = _growing(asked, behaviors.up, past)
    down = ~asked.panic & (asked.recommended < asked.current)
    up = ~asked.panic & (asked.recommended > asked.current)

    def chosen(of_panic: Integers, of_down: Integers, of_up: Integers, otherwise: Integers) -> Integers:
        return np.where(asked.panic, of_panic, np.where(down, of_down, np.where(up, of_up, otherwise)))

    corrected = chosen(urgent.corrected, shrinking.corrected, growing.corrected, asked.recommended)
    return CorrectedReplicas(
        stabilized=chosen(urgent.stabilized, shrinking.stabilized, growing.stabilized, asked.recommended),
        limit=chosen(urgent.limit, shrinking.limit, growing.limit, asked.recommended),
        limited=np.where(asked.panic, urgent.limited, np.where(down, shrinking.limited, up & growing.limited)),
        corrected=np.minimum(np.maximum(corrected, asked.minimum), asked.maximum),
    )


def _shrinking(asked: UncorrectedReplicas, rate: Rates, past: Past) -> CorrectedReplicas:
    held = past.max_recommendation
    stabilized = np.where(held.known, np.maximum(asked.recommended, held.value), asked.recommended)
    highest = past.down_corrected.value
    by_count, by_percent = highest - rate.instances, highest - highest * rate.percent // 100
    looser, tighter = np.minimum(by_count, by_percent), np.maximum(by_count, by_percent)
    limit = np.where(rate.looser, looser, np.where(rate.tighter, tighter, -_UNLIMITED))
    limited = past.down_corrected.known & (rate.looser | rate.tighter)
    reached = np.where(limited, np.maximum(stabilized, limit), stabilized)
    return CorrectedReplicas(
        stabilized=stabilized, limit=limit, limited=limited, corrected=np.minimum(reached, asked.current)
    )


def _growing(asked: UncorrectedReplicas, rate: Rates, past: Past) -> CorrectedReplicas:
    held = past.min_recommendation
    stabilized = np.where(held.known, np.minimum(asked.recommended, held.value), asked.recommended)
    lowest = past.min_corrected_stable.value
    by_count, by_percent = lowest + rate.instances, lowest + lowest * rate.percent // 100
    looser, tighter = np.maximum(by_count, by_percent), np.minimum(by_count, by_percent)
    limit = np.where(rate.looser, looser, np.where(rate.tighter, tighter, _UNLIMITED))
    limited = past.min_corrected_stable.known & (rate.looser | rate.tighter)
    reached = np.where(limited, np.minimum(stabilized, limit), stabilized)
    return CorrectedReplicas(
        stabilized=stabilized, limit=limit, limited=limited, corrected=np.maximum(reached, asked.current)
    )


# The schema's largest replica count: ratios beyond it or its inverse cannot be.
MOST_OF_A_ROLE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCounts:
    """The replicas of both roles; `adjusted` when the ratio moved them, `reason` when it could not be met."""

    numerator: int
    denominator: int
    adjusted: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBounds:
    """The smallest and largest replica counts of the two roles."""

    numerator: tuple[int, int]
    denominator: tuple[int, int]

    def clip(self, numerator: int, denominator: int) -> RoleCounts:
        """Return the counts cut to the bounds."""
        return RoleCounts(numerator=_clip(numerator, self.numerator), denominator=_clip(denominator, self.denominator))


def ratio_fault(ratio: RatioRange) -> str:
    """Return what is wrong with a range, empty when it can be met by some numbers."""
    ends = (ratio.minimum, ratio.maximum)
    if not all(math.isfinite(end) for end in ends) or ratio.minimum < 0 or ratio.maximum <= 0:
        return f"a ratio must be finite, at least 0 and at most something above 0, got {ends[0]} to {ends[1]}"
    if ratio.minimum > ratio.maximum:
        return f"the least ratio {ends[0]} is above the largest {ends[1]}"
    if ratio.minimum > MOST_OF_A_ROLE or ratio.maximum < 1 / MOST_OF_A_ROLE:
        return f"no replica counts up to {MOST_OF_A_ROLE} have a ratio from {ends[0]} to {ends[1]}"
    return ""


def repair_upstream(numerator: int, denominator: int, bounds: RoleBounds, ratio: RatioRange) -> RoleCounts:
    """Return the counts as upstream brings them into a range, in one pass.

    Rounding may leave the range at its other end; that is upstream's answer too.
    """
    n, d, woken = _awake(numerator, denominator, bounds)
    if n == d == 0:
        return RoleCounts(numerator=0, denominator=0)
    quotient = n / d if d else math.inf
    adjusted = woken
    if quotient < ratio.minimum:
        n, d, adjusted = *_raised(d, bounds, ratio), True
    elif quotient > ratio.maximum:
        n, d, adjusted = *_lowered(n, bounds, ratio), True
    return RoleCounts(numerator=_clip(n, bounds.numerator), denominator=_clip(d, bounds.denominator), adjusted=adjusted)


def _raised(d: int, bounds: RoleBounds, ratio: RatioRange) -> tuple[int, int]:
    wanted = math.ceil(ratio.minimum * d)
    if wanted <= bounds.numerator[1]:
        return max(wanted, bounds.numerator[0]), d
    n = bounds.numerator[1]
    return n, _clip(math.floor(n / ratio.minimum), bounds.denominator)


def _lowered(n: int, bounds: RoleBounds, ratio: RatioRange) -> tuple[int, int]:
    wanted = math.ceil(n / ratio.maximum)
    if wanted <= bounds.denominator[1]:
        return n, max(wanted, bounds.denominator[0])
    d = bounds.denominator[1]
    return _clip(math.floor(ratio.maximum * d), bounds.numerator), d


def repair_exactly(numerator: int, denominator: int, bounds: RoleBounds, ratio: RatioRange) -> RoleCounts:
    """Return the whole numbers within bounds and range that take least from either role, then add least.

    Where no pair exists the counts stay, with the reason.
    """
    n, d, woken = _awake(numerator, denominator, bounds)
    if n == d == 0:
        return RoleCounts(numerator=0, denominator=0)
    low, high = _exact(ratio.minimum), _exact(ratio.maximum)
    if n and d and low * d <= n <= high * d:
        return RoleCounts(numerator=n, denominator=d, adjusted=woken)
    pair = _nearest(n, d, bounds, (low, high))
    if pair is None:
        reason = f"no whole numbers of replicas have a ratio from {ratio.minimum} to {ratio.maximum} within the bounds"
        return RoleCounts(numerator=n, denominator=d, adjusted=woken, reason=reason)
    return RoleCounts(numerator=pair[0], denominator=pair[1], adjusted=True)


def _nearest(n: int, d: int, bounds: RoleBounds, ends: tuple[Fraction, Fraction]) -> tuple[int, int] | None:
    """Walk away from `d` in both directions until the distance alone is more than the best pair takes or adds.

    Neither role is left with nothing: one alone serves no request.
    """
    best: tuple[int, int] | None = None
    best_price: tuple[int, int, int] | None = None
    (least, most), (low, high) = bounds.denominator, ends
    for walk in (range(max(d, least, 1), most + 1), range(min(d - 1, most), max(least, 1) - 1, -1)):
        for candidate in walk:
            nearest_price = (max(d - candidate, 0), max(candidate - d, 0), 0)
            if best_price is not None and nearest_price > best_price:
                break
            lowest = max(-(-low.numerator * candidate // low.denominator), bounds.numerator[0], 1)
            highest = min(high.numerator * candidate // high.denominator, bounds.numerator[1])
            if lowest > highest:
                continue
            other = min(max(n, lowest), highest)
            price = (
                max(n - other, 0) + max(d - candidate, 0),
                max(other - n, 0) + max(candidate - d, 0),
                candidate,
            )
            if best_price is None or price < best_price:
                best, best_price = (other, candidate), price
    return best


def _awake(numerator: int, denominator: int, bounds: RoleBounds) -> tuple[int, int, bool]:
    """Return the counts within bounds; one role alone serves no request, so that a lone zero becomes one."""
    n, d = _clip(numerator, bounds.numerator), _clip(denominator, bounds.denominator)
    if (n == 0) == (d == 0):
        return n, d, False
    return (
        _clip(max(n, 1), bounds.numerator),
        _clip(max(d, 1), bounds.denominator),
        True,
    )


def _exact(ratio: float) -> Fraction:
    # A resource writes decimals: 0.1 is a tenth, not the double next to it.
    return Fraction(repr(ratio))


def _clip(count: int, bounds: tuple[int, int]) -> int:
    return min(max(count, bounds[0]), bounds[1])


# The autoscaler's loop over a stretch of history, for many targets at once. Upstream keeps its windows in memory;
# here they are grown again by running the loop over what was observed, from the count at the start. What it decides
# at one tick is its current count at the next.


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
    """Replay the targets from their first recorded counts, and also from their bounds."""
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
    """Return the same targets several times over, one lane next to the other."""
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
