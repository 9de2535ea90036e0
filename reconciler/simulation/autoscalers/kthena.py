"""Kthena's autoscaler of v1.0 with one metric of its policy, by the rules that `sizing.tracking` reproduces exactly.

A metric that it scrapes has a tolerance of one replica's target, and pods that are not ready count as idle in growth.
Not reproduced: groups of backends, roles with a ratio, several metrics, scale to zero.
"""

import math

import numpy as np

from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR, SYNC_PERIOD_S, Behavior, Rate, Select
from reconciler.domain.scalers import TOLERANCE, Value
from reconciler.forecast.series import Floats
from reconciler.simulation.autoscalers.hpa import RecentExtremes
from reconciler.simulation.autoscalers.port import Seen
from reconciler.sizing.arrays import Bools, Integers
from reconciler.sizing.tracking_loads import (
    KTHENA_V1,
    MOST_REPLICAS,
    Aims,
    Best,
    Extreme,
    TickReadings,
    milliseconds,
    recommend,
)
from reconciler.sizing.tracking_replay import Behaviors, Past, Rates, UncorrectedReplicas, correct


class _Window:
    """What a window answers before anything of this sync is recorded: the extreme of so many syncs before."""

    def __init__(self, length_s: Value, sync_s: float, extreme: Extreme, *, is_line: bool) -> None:
        lengths_s = np.asarray(length_s, dtype=np.float64)
        # A line reigns until the next sync: the count before the window's first still stood within it.
        reach_s = np.where(lengths_s > 0, lengths_s + sync_s * is_line, 0.0)
        chosen = np.maximum if extreme is Extreme.LARGEST else np.minimum
        self._recent = RecentExtremes(np.maximum(reach_s - sync_s, 0.0), sync_s, chosen, with_oldest=True)
        self._is_on, self._extreme = reach_s >= sync_s, extreme
        self._answer: Floats | None = None

    def append(self, values: Integers, recorded: Bools) -> None:
        """Record the values of this sync."""
        self._answer = self._recent.push(values.astype(np.float64), recorded)

    def best(self, shape: tuple[int, ...], current: Integers | None = None) -> Best:
        """As `sizing.tracking_loads` has it; of a line the current height is part."""
        if self._answer is None:
            value, known = np.full(shape, self._extreme.value), np.zeros(shape, dtype=np.bool_)
        else:
            known = np.isfinite(self._answer)
            value = np.where(known, self._answer, 0.0).astype(np.int64)
        if current is not None:
            value = np.where(known, self._extreme.of(current, value), current)
            known = np.ones(shape, dtype=np.bool_)
        return Best(value=value, known=known & self._is_on)


class AutoscalingPolicy:
    """One policy and its bindings for many settings and variants; the target is of one replica."""

    reproduces = "Kthena v1.0"

    def __init__(
        self,
        *,
        signal: str,
        target: Value,
        stabilization_s: Value | None = None,
        least: Value = 1,
        most: Value = MOST_REPLICAS,
        behavior: Behavior = DEFAULT_BEHAVIOR,
        tolerance: Value = TOLERANCE,
        sync_s: float = SYNC_PERIOD_S,
        scrapes: bool = False,
    ) -> None:
        self._scrapes = scrapes
        self._signal, self._target, self._tolerance = signal, np.asarray(target, dtype=np.float64), tolerance
        self._least, self._most, self._behavior = least, most, behavior
        down_s = behavior.down.stabilization_s if stabilization_s is None else stabilization_s
        up, down, panic = behavior.up, behavior.down, behavior.panic
        self._largest = _Window(down_s, sync_s, Extreme.LARGEST, is_line=False)
        self._smallest = _Window(up.stabilization_s, sync_s, Extreme.SMALLEST, is_line=False)
        self._down = _Window(down.period_s, sync_s, Extreme.LARGEST, is_line=True)
        self._up = _Window(up.period_s, sync_s, Extreme.SMALLEST, is_line=True)
        self._panic = _Window(panic.period_s, sync_s, Extreme.SMALLEST, is_line=True)
        self._panic_ends_s: Floats = np.asarray(-math.inf)
        self._told: tuple[tuple[int, ...], Aims, Behaviors] | None = None

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        current = np.asarray(seen.replicas).astype(np.int64)
        shape = current.shape
        total = np.broadcast_to(np.asarray(getattr(seen, self._signal), dtype=np.float64), shape)
        is_known = np.isfinite(total) & seen.answers
        unready = np.maximum(current - np.asarray(seen.ready), 0.0) if self._scrapes else np.zeros(shape)
        aims, behaviors = self._rules(shape)
        recommendation = recommend(
            self._readings(np.where(is_known, total, 0.0), is_known, unready), aims, current.ravel(), KTHENA_V1
        )
        recommended, skipped = recommendation.replicas.reshape(shape), recommendation.skipped.reshape(shape)
        wish = UncorrectedReplicas(
            recommended=recommended,
            current=current,
            panic=self._panics(seen.at_s, recommended, current, skipped),
            minimum=self._minimum(shape),
            maximum=self._maximum(shape),
        )
        past = Past(
            max_recommendation=self._largest.best(shape),
            min_recommendation=self._smallest.best(shape),
            down_corrected=self._down.best(shape, current),
            min_corrected_stable=self._up.best(shape, current),
            min_corrected_panic=self._panic.best(shape, current),
        )
        found = correct(wish, behaviors, past, panics_from_zero=KTHENA_V1.panics_from_zero)
        for window in (self._largest, self._smallest):
            window.append(recommended, ~skipped)
        for window in (self._down, self._up, self._panic):
            window.append(found.corrected, ~skipped)
        return np.where(skipped, current, found.corrected).astype(np.float64)

    def _readings(self, total: Floats, is_known: Bools, unready: Floats) -> TickReadings:
        """One metric that is a total of the workload: of a query, or of one unit that holds the sum over its pods."""
        row, known = total.reshape(1, -1), is_known.reshape(1, -1)
        nothing, never = np.zeros(row.shape), np.zeros(row.shape, dtype=np.bool_)
        return TickReadings(
            total=row,
            reporting=known.astype(np.float64) if self._scrapes else nothing,
            missing=nothing,
            external=never if self._scrapes else known,
            partial=never,
            unready=np.broadcast_to(unready, is_known.shape).reshape(-1),
        )

    def _rules(self, shape: tuple[int, ...]) -> tuple[Aims, Behaviors]:
        """The same at each sync."""
        if self._told is None or self._told[0] != shape:
            count = math.prod(shape)
            aims = Aims(
                per_replica=np.broadcast_to(self._target, shape).reshape(1, count),
                tolerance=np.broadcast_to(np.asarray(self._tolerance, dtype=np.float64), shape).reshape(count),
                minimum=self._minimum(shape).reshape(count),
                maximum=self._maximum(shape).reshape(count),
            )
            self._told = shape, aims, _behaviors(self._behavior, shape)
        return self._told[1:]

    def _minimum(self, shape: tuple[int, ...]) -> Integers:
        return np.broadcast_to(np.asarray(self._least).astype(np.int64), shape)

    def _maximum(self, shape: tuple[int, ...]) -> Integers:
        return np.broadcast_to(np.minimum(self._most, MOST_REPLICAS).astype(np.int64), shape)

    def _panics(self, at_s: float, recommended: Integers, current: Integers, skipped: Bools) -> Bools:
        panic = self._behavior.panic
        if panic.hold_s <= 0:
            return np.zeros(current.shape, dtype=np.bool_)
        if panic.threshold_percent is not None:
            enters = (recommended * 100 >= current * panic.threshold_percent) & ~skipped
            self._panic_ends_s = np.where(enters, at_s + panic.hold_s, self._panic_ends_s)
        return np.broadcast_to(at_s <= self._panic_ends_s, current.shape)


def _behaviors(behavior: Behavior, shape: tuple[int, ...]) -> Behaviors:
    def rates(rate: Rate) -> Rates:
        return Rates(
            instances=np.full(shape, rate.instances),
            percent=np.full(shape, rate.percent),
            period_ms=np.full(shape, milliseconds(rate.period_s)),
            stabilization_ms=np.full(shape, milliseconds(rate.stabilization_s)),
            looser=np.full(shape, rate.select is Select.OR),
            tighter=np.full(shape, rate.select is Select.AND),
        )

    panic = behavior.panic
    return Behaviors(
        down=rates(behavior.down),
        up=rates(behavior.up),
        panic_percent=np.full(shape, panic.percent),
        panic_period_ms=np.full(shape, milliseconds(panic.period_s)),
        threshold_percent=np.full(shape, panic.threshold_percent or 0),
        tested=np.full(shape, panic.threshold_percent is not None),
        hold_ms=np.full(shape, milliseconds(panic.hold_s)),
    )
