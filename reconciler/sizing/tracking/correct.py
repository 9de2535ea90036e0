"""From a recommendation to a count: windows hold it, rates slow it, bounds cut it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.metric_targets import Behavior, Rate, Select
from reconciler.sizing.arrays import Bools, Integers
from reconciler.sizing.tracking.windows import Best, milliseconds

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
    """A recommendation beside what it is to be corrected against, arrays of shape (targets,)."""

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
    urgent = _panicking(asked, behaviors, past, panics_from_zero=panics_from_zero)
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


def _panicking(
    asked: UncorrectedReplicas, behaviors: Behaviors, past: Past, *, panics_from_zero: bool
) -> CorrectedReplicas:
    lowest = past.min_corrected_panic
    limited = lowest.known & (lowest.value > 0) if panics_from_zero else lowest.known
    limit = lowest.value + lowest.value * behaviors.panic_percent // 100
    reached = np.where(limited, np.minimum(asked.recommended, limit), asked.recommended)
    return CorrectedReplicas(
        stabilized=asked.recommended, limit=limit, limited=limited, corrected=np.maximum(reached, asked.current)
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
