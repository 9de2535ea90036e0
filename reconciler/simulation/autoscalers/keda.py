"""KEDA 2.17 with triggers of type `prometheus` and `cron`: its operator from and to zero, an HPA in between.

Not reproduced: `scalingModifiers`, pause annotations, cached metrics, fallback behaviors other than `static`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import SYNC_S, Behavior, MetricKind, Value
from reconciler.forecast.series import DAY_S, Floats
from reconciler.simulation.autoscalers.hpa import Controller, Tolerance, combined, proposal_of_value
from reconciler.simulation.autoscalers.port import Seen

POLLING_S, COOLDOWN_S, MOST_REPLICAS = 30.0, 300.0, 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusTrigger:
    """A query whose answer is a signal of `Seen`; `is_average`: the threshold is of one replica."""

    signal: str
    threshold: Value
    activation: Value = 0.0
    is_average: bool = True
    ignores_nulls: bool = True

    def value(self, seen: Seen) -> Floats:
        """Its answer; where that is no number it is zero, or an error (NaN)."""
        value = np.asarray(getattr(seen, self.signal), float)
        return np.where(np.isfinite(value), value, 0.0 if self.ignores_nulls else np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTrigger:
    """So many replicas from `start_s` to `end_s` of each UTC day, around midnight where the end comes first."""

    start_s: Value
    end_s: Value
    desired: Value

    def replicas(self, at_s: float) -> Floats:
        """What it asks for: outside its hours one."""
        time_s, start_s, end_s = at_s % DAY_S, np.asarray(self.start_s), np.asarray(self.end_s)
        inside = (start_s <= time_s) & (time_s < end_s)
        around = (start_s <= time_s) | (time_s < end_s)
        return np.where(np.where(start_s <= end_s, inside, around), self.desired, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """So many replicas once more than `failure_threshold` polls in a row have failed."""

    failure_threshold: int
    replicas: Value


class ScaledObject:
    """One ScaledObject for many settings and variants."""

    reproduces = "KEDA 2.17, triggers prometheus and cron"

    def __init__(
        self,
        *,
        triggers: Sequence[PrometheusTrigger | CronTrigger],
        least: Value = 0.0,
        most: Value = MOST_REPLICAS,
        idle: Value | None = None,
        cooldown_s: Value = COOLDOWN_S,
        polling_s: float = POLLING_S,
        fallback: Fallback | None = None,
        behavior: Behavior | None = None,
        tolerance: Tolerance | None = None,
        sync_s: float = SYNC_S,
    ) -> None:
        self._triggers, self._tolerance = tuple(triggers), tolerance or Tolerance()
        self._least, self._idle, self._cooldown_s = np.asarray(least, float), idle, np.asarray(cooldown_s, float)
        self._polling_s, self._fallback, self._failures = polling_s, fallback, np.asarray(0)
        self._polled_s, self._active_s = -math.inf, np.asarray(-math.inf)
        self._controller = Controller(least=np.maximum(self._least, 1.0), most=most, behavior=behavior, sync_s=sync_s)

    def decide(self, seen: Seen) -> Floats:
        """As the port says: first the operator's poll, then the HPA's sync."""
        if seen.at_s - self._polled_s >= self._polling_s:
            self._polled_s = seen.at_s
            asked = self._poll(seen)
            seen = replace(seen, replicas=asked)
        settled = self._controller.settle(
            combined([self._proposal(each, seen) for each in self._triggers], seen.replicas), seen.replicas
        )
        # The HPA is off at zero, and leaves what is idle to the operator.
        return np.where((seen.replicas == 0) | self._is_idle(seen.replicas), seen.replicas, settled)

    def _is_idle(self, replicas: Floats) -> Floats:
        return np.zeros(replicas.shape, bool) if self._idle is None else replicas == self._idle

    def _poll(self, seen: Seen) -> Floats:
        self._failures = np.where(seen.answers, 0, self._failures + 1)
        rests = (self._least == 0) if self._idle is None else np.ones(self._least.shape, bool)
        if not rests.any() and (seen.replicas > 0).all():
            return seen.replicas
        resting = 0.0 if self._idle is None else self._idle
        is_active = np.zeros(seen.replicas.shape, bool)
        for each in self._triggers:
            if isinstance(each, CronTrigger):
                is_active |= each.replicas(seen.at_s) > 1.0
            else:
                is_active |= seen.answers & (each.value(seen) > each.activation)
        self._active_s = np.where(is_active, seen.at_s, self._active_s)
        woken = np.where(is_active & (seen.replicas <= resting), np.maximum(self._least, 1.0), seen.replicas)
        is_over = ~is_active & rests & (self._active_s + self._cooldown_s < seen.at_s)
        return np.where(seen.answers, np.where(is_over, resting, woken), seen.replicas)

    def _proposal(self, trigger: PrometheusTrigger | CronTrigger, seen: Seen) -> Floats:
        if isinstance(trigger, CronTrigger):
            asked = trigger.replicas(seen.at_s)
            return proposal_of_value(
                MetricKind.EXTERNAL_AVERAGE, 1000.0 * asked, 1000.0, seen.replicas, seen.ready, self._tolerance
            )
        kind = MetricKind.EXTERNAL_AVERAGE if trigger.is_average else MetricKind.EXTERNAL_VALUE
        asked = proposal_of_value(
            kind,
            1000.0 * trigger.value(seen),
            1000.0 * np.asarray(trigger.threshold, float),
            seen.replicas,
            seen.ready,
            self._tolerance,
        )
        if np.all(seen.answers):
            return asked
        falls_back = self._fallback is not None and self._failures > self._fallback.failure_threshold
        fallback = np.nan if self._fallback is None else np.asarray(self._fallback.replicas, float)
        return np.where(seen.answers, asked, np.where(falls_back, fallback, np.nan))
