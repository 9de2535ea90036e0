"""NVIDIA Dynamo's planner for engines that do prefill and decode, each variant a deployment of its own.

The rules were read in the planner's source on its main branch of 2026: `optimization_target` throughput or latency
(one replica more or less by the use of caches) and sla (replicas for the requests that are predicted, and one more or
less by the latencies that are estimated). Not reproduced: the predictors ARIMA (its default) and Prophet, budgets of
devices, what its engine models learn (here they are exact), more than one decision a step.
"""

import math
from enum import StrEnum

import numpy as np

from reconciler.domain.scalers import Value
from reconciler.forecast.series import Bools, Floats
from reconciler.simulation.autoscalers.port import Seen, known, per_replica
from reconciler.simulation.fluid import LONGEST_WAIT_S

INTERVAL_S = 180.0
CACHE_UP, CACHE_DOWN = 1.0, 0.6
SENSITIVITY = 0.8
Q_LEVEL, Q_TREND, R = 1.0, 0.1, 10.0
FIRST_VARIANCE = 1000.0
REPRODUCES = "NVIDIA Dynamo's planner (main of 2026), aggregated engines"


class Predictor(StrEnum):
    """What tells the requests of the next interval."""

    CONSTANT = "constant"
    KALMAN = "kalman"


class Forecasts:
    """One step ahead of many series at once; zeros before the first request are skipped, what is not known is zero."""

    def __init__(
        self, predictor: Predictor, *, q_level: float = Q_LEVEL, q_trend: float = Q_TREND, r: float = R
    ) -> None:
        self._predictor, self._noise, self._r = predictor, (q_level, q_trend), r
        self._level = self._trend = self._began = np.zeros(())
        self._variance = np.zeros((3, 1))
        """Of the level, of level and trend together, and of the trend."""

    def next_of(self, values: Floats) -> Floats:
        """Add what the last interval had, and return what the next one is to have."""
        values = np.where(np.isfinite(values), values, 0.0)
        if self._predictor is Predictor.CONSTANT:
            return values
        if self._began.shape != values.shape:
            self._level, self._trend, self._began = (np.zeros(values.shape) for _ in range(3))
            self._variance = np.zeros((3, *values.shape))
            self._variance[[0, 2]] = FIRST_VARIANCE
        is_first, goes_on = (self._began == 0) & (values != 0), self._began > 0
        level, both, trend = self._variance
        innovation = level + self._r
        gains = level / innovation, both / innovation
        beside = values - self._level
        self._trend = np.where(goes_on, self._trend + gains[1] * beside, 0.0)
        self._level = np.where(goes_on, self._level + gains[0] * beside, np.where(is_first, values, 0.0))
        updated = np.stack((level - gains[0] * level, both - gains[0] * both, trend - gains[1] * both))
        level, both, trend = np.where(goes_on, updated, self._variance)
        self._began = np.where(values != 0, 1.0, self._began)
        counts = self._began > 0
        self._level = np.where(counts, self._level + self._trend, 0.0)
        ahead = np.stack((level + 2 * both + trend + self._noise[0], both + trend, trend + self._noise[1]))
        self._variance = np.where(counts, ahead, self._variance)
        return self._level


class ThroughputPlanner:
    """Replicas for the requests of the next interval; `target` is the share of its capacity that a replica is to get.

    `capacity_per_s` is what a replica carries inside its targets, as `Seen.load` counts it.
    """

    reproduces = f"{REPRODUCES}, on throughput"

    def __init__(
        self,
        *,
        capacity_per_s: Value,
        target: Value = 1.0,
        predictor: Predictor = Predictor.KALMAN,
        least: Value = 1.0,
        most: Value = math.inf,
        step_s: float,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._capacity_per_s, self._target = np.asarray(capacity_per_s, float), np.asarray(target, float)
        self._forecasts, self._least, self._most = Forecasts(predictor), least, most
        self._step_s, self._interval_s = step_s, interval_s
        self._requests: Floats = np.zeros(())
        self.bound: Floats = np.ones(())

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        return self.bound if self.advance(seen) else np.asarray(seen.replicas)

    def advance(self, seen: Seen) -> bool:
        """Count what arrived; whether an interval ended and `bound` is new."""
        arrived = known(np.asarray(seen.load)) if seen.answers else 0.0 * seen.replicas
        self._requests = self._requests + arrived * self._capacity_per_s * self._step_s
        if seen.at_s % self._interval_s >= self._step_s:
            return False
        needed = self._forecasts.next_of(self._requests) / (self._interval_s * self._capacity_per_s * self._target)
        shape = np.broadcast_shapes(needed.shape, np.shape(seen.replicas))
        self.bound = np.broadcast_to(np.clip(np.ceil(needed - 1e-9), self._least, self._most), shape)
        self._requests = np.zeros(())
        return bool(seen.answers)


class CachePlanner:
    """One replica more where any cache is fuller than `up`, one less where all are emptier than `down`.

    `full` are the requests of a full cache in units of `Seen.running`, `queued` what the prompt of a waiting one takes
    of it over what one takes in the mean while it runs. For latency `up` and `down` are 0.4 and 0.1.
    """

    reproduces = f"{REPRODUCES}, on the use of caches"

    def __init__(
        self,
        *,
        full: Value,
        queued: Value = 1.0,
        up: Value = CACHE_UP,
        down: Value = CACHE_DOWN,
        least: Value = 1.0,
        most: Value = math.inf,
    ) -> None:
        self._full, self._queued, self._up, self._down = full, queued, up, down
        self._least, self._most = least, most

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        used = per_replica(seen.running + self._queued * _queued(seen), seen.ready) / self._full
        return _stepped(seen, used > self._up, used < self._down, self._least, self._most, 0.0)


class LatencyPlanner:
    """One replica more where latencies exceed those at `target` of the capacity, one less where n - 1 keep them.

    `batch_share` is what of the time between tokens grows with the batch at capacity. What the planner on throughput
    asks for is the least.
    """

    reproduces = f"{REPRODUCES}, on latencies with the least of throughput"

    def __init__(
        self,
        throughput: ThroughputPlanner,
        *,
        capacity_per_s: Value,
        batch_share: Value,
        full: Value,
        target: Value = 1.0,
        queued: Value = 1.0,
        least: Value = 1.0,
        most: Value = math.inf,
    ) -> None:
        self._throughput, self._capacity_per_s = throughput, np.asarray(capacity_per_s, float)
        self._batch_share, self._full, self._queued = np.asarray(batch_share, float), full, queued
        self._target, self._least, self._most = np.asarray(target, float), least, most

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        self._throughput.advance(seen)
        goal = self._itl(self._target)
        running = per_replica(seen.running, seen.ready)
        queued = per_replica(_queued(seen), seen.ready)
        most_per_s = self._capacity_per_s * self._full / self._itl(self._full)
        wait_s = per_replica(seen.waiting, seen.ready) / most_per_s
        is_slow = (wait_s > LONGEST_WAIT_S) | (self._itl(running) > goal)
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(seen.ready > 1, seen.ready / (seen.ready - 1.0), np.inf)
            then = (running + self._queued * queued) * more
            can_go = (then < self._full) & (self._itl(then) < SENSITIVITY * goal)
            can_go &= wait_s * more < SENSITIVITY * LONGEST_WAIT_S
        return _stepped(seen, is_slow, can_go, self._least, self._most, self._throughput.bound)

    def _itl(self, running: Value) -> Floats:
        """The time between tokens of a replica with so many running, over that at capacity."""
        return np.asarray(1.0 - self._batch_share + self._batch_share * running)


def _queued(seen: Seen) -> Floats:
    """Requests that wait, in units of those that run."""
    return known(np.maximum(seen.in_flight - seen.running, 0.0))


def _stepped(seen: Seen, grows: Bools, shrinks: Bools, least: Value, most: Value, bound: Value) -> Floats:
    """One more or one less, where nothing is on its way and something reports."""
    replicas = np.asarray(seen.replicas, float)
    if not seen.answers:
        return replicas
    stepped = replicas + np.where(grows, 1.0, np.where(shrinks & (replicas > 1), -1.0, 0.0))
    decided = np.clip(np.maximum(stepped, bound), least, most)
    return np.where((seen.ready == replicas) & (replicas > 0), decided, replicas)
