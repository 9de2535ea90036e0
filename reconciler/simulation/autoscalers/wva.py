"""llm-d's Workload-Variant-Autoscaler with either saturation analyzer, and the HPA that follows its gauge.

The rules are those of `reconciler.upstream`, here for many settings and models at once; tests hold both to each other.
All replicas of a variant are alike, and a cache is full when requests begin to wait. Not reproduced: prefill apart from
decode, queues before the replicas, limits of devices, scale to zero, a cycle shorter than a step.
"""

import math

import numpy as np

from reconciler.domain.scalers import Behavior, MetricKind, Value
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.hpa import Controller, Tolerance, proposal_of_value
from reconciler.simulation.autoscalers.port import Seen, per_replica

KV_SPARE, WAITING_LIMIT, WAITING_SPARE = 0.10, 5.0, 3.0
FEWEST_FOR_REMOVAL = 2.0
KV_LIMIT, SCALE_UP, SCALE_DOWN = 0.80, 0.85, 0.70
REMEMBERED = 10
"""Capacities that were seen under a queue, of which the mean counts later."""


class _Models:
    """Columns by model: `model_of` ascends, so those of a model stand side by side, by name."""

    def __init__(self, model_of: Integers) -> None:
        counts = np.bincount(model_of)
        self.of = model_of
        self._first = np.cumsum(counts) - counts
        self.most = int(counts.max(initial=0))
        self.is_single = len(counts) == len(model_of)
        places = np.arange(self.most)
        self._members = np.where(places < counts[:, None], self._first[:, None] + places, -1)

    def sums(self, values: Floats) -> Floats:
        """Of each model (settings x models)."""
        if self.is_single:
            return values
        return np.asarray(np.add.reduceat(values, self._first, axis=1))

    def least_of(self, values: Floats) -> Floats:
        """The least of each model's values (settings x models)."""
        if self.is_single:
            return values
        return np.asarray(np.minimum.reduceat(values, self._first, axis=1))

    def least(self, values: Floats, *, last: bool = False) -> tuple[Integers, Bools]:
        """The column with the least of each model's finite values, the first (or last) of equal ones; is there any."""
        if self.is_single:
            return np.broadcast_to(self.of, values.shape), np.isfinite(values)
        padded = np.where(self._members >= 0, values[:, self._members], np.inf)
        place = self.most - 1 - padded[..., ::-1].argmin(axis=2) if last else padded.argmin(axis=2)
        found = np.isfinite(np.take_along_axis(padded, place[..., None], axis=2)[..., 0])
        return np.take_along_axis(np.broadcast_to(self._members, padded.shape), place[..., None], axis=2)[..., 0], found

    def taken(self, values: Floats, columns: Integers) -> Floats:
        """The value of one column of each model."""
        return values if self.is_single else np.take_along_axis(values, columns, axis=1)

    def add(self, counts: Floats, columns: Integers, chosen: Bools, change: Floats | float) -> None:
        """Change the count of one column of each chosen model."""
        if self.is_single:
            np.add(counts, change, out=counts, where=chosen)
            return
        rows, models = np.nonzero(chosen)
        counts[rows, columns[rows, models]] += np.broadcast_to(change, chosen.shape)[rows, models]


class _Gauge:
    """An HPA on `wva_desired_replicas`, an external metric with an average value of 1."""

    def __init__(self, least: Value, most: Value, behavior: Behavior | None, sync_s: float) -> None:
        self._controller = Controller(least=least, most=most, behavior=behavior, sync_s=sync_s)

    def follow(self, desired: Floats, seen: Seen) -> Floats:
        """The replicas that the scale target asks for."""
        told = 1000.0 * desired if seen.answers else np.full(desired.shape, np.nan)
        raw = proposal_of_value(MetricKind.EXTERNAL_AVERAGE, told, 1000.0, seen.replicas, seen.ready, Tolerance())
        return self._controller.settle(raw, seen.replicas)


class PercentSaturation:
    """The first analyzer: one replica more or less of a model a cycle, by the share of its caches and queues in use.

    `kv_limit` is the threshold of the cache (0-1), `full` the requests of a full cache in units of `Seen.running`,
    `cost` ranks the variants of a model.
    """

    reproduces = "WVA v0.8, analyzer of percentages, followed by an HPA (Kubernetes 1.34)"

    def __init__(
        self,
        *,
        model_of: Integers,
        cost: Floats,
        full: Value,
        kv_limit: Value = KV_LIMIT,
        least: Value = 1.0,
        most: Value = math.inf,
        behavior: Behavior | None = None,
        sync_s: float,
    ) -> None:
        self._models, self._cost, self._full = _Models(model_of), cost, full
        self._kv_limit, self._least, self._most = np.asarray(kv_limit, float), least, most
        self._gauge = _Gauge(least, most, behavior, sync_s)
        self._desired: Floats | None = None

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        replicas, ready = np.broadcast_arrays(seen.replicas, seen.ready)
        if self._desired is None:
            self._desired = np.zeros(replicas.shape)
        if seen.answers:
            kv_used = per_replica(seen.running, ready) / self._full
            self._desired = self.targets(kv_used, per_replica(seen.waiting, ready), replicas, ready)
        return self._gauge.follow(np.where(self._desired > 0, self._desired, replicas), seen)

    def targets(self, kv_used: Floats, waiting: Floats, replicas: Floats, ready: Floats) -> Floats:
        """What the gauge says next, of what each replica that serves shows (settings x variants)."""
        models, before = self._models, np.zeros(replicas.shape) if self._desired is None else self._desired
        kept = np.where(before > 0, before, replicas)
        reports = models.sums(ready) > 0
        moves = ((before > 0) & (before != replicas)) | (replicas > ready)
        is_moving = models.sums(moves.astype(np.float64)) > 0
        is_open = (kv_used < self._kv_limit) & (waiting < WAITING_LIMIT)
        count = models.sums(np.where(is_open, ready, 0.0))
        kv_spare, waiting_spare = (
            np.divide(
                models.sums(np.where(is_open, ready * left, 0.0)), count, out=np.zeros(count.shape), where=count > 0
            )
            for left in (self._kv_limit - kv_used, WAITING_LIMIT - waiting)
        )
        grows = (kv_spare < KV_SPARE) | (waiting_spare < WAITING_SPARE)
        more = count / np.maximum(count - 1.0, 1.0)
        shrinks = (
            ~grows
            & (count >= FEWEST_FOR_REMOVAL)
            & (self._kv_limit - (self._kv_limit - kv_spare) * more >= KV_SPARE)
            & (WAITING_LIMIT - (WAITING_LIMIT - waiting_spare) * more >= WAITING_SPARE)
        )
        stepped = replicas.astype(np.float64)
        may_grow = (ready > 0) & (ready >= replicas)
        cheapest, some = models.least(np.where(may_grow, self._cost, np.inf))
        models.add(stepped, cheapest, grows & some, 1.0)
        dearest, some = models.least(np.where(replicas > 1, -self._cost, np.inf), last=True)
        models.add(stepped, dearest, shrinks & some, -1.0)
        stepped = np.clip(stepped, self._least, self._most)
        return np.where((~reports | is_moving)[:, models.of], kept, stepped)


class TokenSaturation:
    """The second analyzer: demand in tokens of cache against what replicas hold, met by what is cheapest for it.

    `full` is as above; `cache` what the cache of a replica holds, in any unit that compares the variants of a model;
    `queued` what a waiting request will take of it, over what one takes in the mean while it runs. `derived` is the
    bound of the batch that launch settings tell, as a share of the cache. `scale_down` is below `scale_up`.
    """

    reproduces = "WVA v0.9, analyzer of tokens without limits, followed by an HPA (Kubernetes 1.34)"

    def __init__(
        self,
        *,
        model_of: Integers,
        cost: Floats,
        full: Value,
        cache: Value = 1.0,
        queued: Value = 1.0,
        derived: Value = math.inf,
        scale_up: Value = SCALE_UP,
        scale_down: Value = SCALE_DOWN,
        least: Value = 1.0,
        most: Value = math.inf,
        behavior: Behavior | None = None,
        sync_s: float,
    ) -> None:
        self._models, self._cost, self._full, self._cache = _Models(model_of), cost, full, cache
        self._queued, self._derived = queued, derived
        self._up, self._down = np.asarray(scale_up, float), np.asarray(scale_down, float)
        self._least, self._most = np.asarray(least, float), np.asarray(most, float)
        self._gauge = _Gauge(least, most, behavior, sync_s)
        self._seen: Floats | None = None
        self._mean = self._stored = np.zeros(1)

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        replicas, ready = np.broadcast_arrays(seen.replicas, seen.ready)
        if not seen.answers:
            return self._gauge.follow(replicas, seen)
        used = np.clip(per_replica(seen.running, ready) / self._full, 0.0, 1.0)
        queued = per_replica(seen.in_flight - seen.running, ready) / self._full * self._queued
        held = self.capacities(used, per_replica(seen.waiting, ready), ready)
        demand = self._models.sums(ready * (used + queued) * self._cache)
        return self._gauge.follow(self.targets(demand, held * self._cache, replicas, ready), seen)

    def capacities(self, used: Floats, waiting: Floats, ready: Floats) -> Floats:
        """What of its cache (0-1) a replica can use: of the memory alone, or what it used while requests waited."""
        if self._seen is None:
            self._seen = np.full((REMEMBERED, *used.shape), np.nan)
            self._mean, self._stored = np.zeros(used.shape), np.zeros(used.shape)
        is_observed = (waiting >= WAITING_LIMIT) & (used > 0) & (ready > 0)
        bound = np.where(is_observed, used, np.where(self._mean > 0, self._mean, self._derived))
        if is_observed.any():  # each replica adds what it saw
            rows, columns = np.nonzero(is_observed)
            saw = used[rows, columns]
            times = np.minimum(ready[rows, columns], REMEMBERED).astype(np.int64)
            ages = np.arange(REMEMBERED)[:, None]
            older = np.take_along_axis(self._seen[:, rows, columns], np.maximum(ages - times, 0), axis=0)
            self._seen[:, rows, columns] = seen = np.where(ages < times, saw, older)
            known = np.isfinite(seen)
            self._mean[rows, columns] = np.where(known, seen, 0.0).sum(axis=0) / known.sum(axis=0)
        self._stored = np.where(ready > 0, np.minimum(KV_LIMIT, bound), self._stored)
        return self._stored

    def targets(self, demand: Floats, held: Floats, replicas: Floats, ready: Floats) -> Floats:
        """What the gauge says next: of each model's demand and what a replica of each variant holds."""
        models = self._models
        supply, anticipated = models.sums(ready * held), models.sums(np.maximum(replicas, ready) * held)
        reports = models.sums(ready) > 0
        lacking = np.where(reports, np.maximum(demand / self._up - anticipated, 0.0), 0.0)
        spare = np.where(reports & (lacking <= 0), np.maximum(supply - demand / self._down, 0.0), 0.0)
        wanted = replicas.astype(np.float64)
        for _ in range(models.most):
            if not (lacking > 0).any():
                break
            able = (held > 0) & (wanted < self._most) & (replicas > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                column, some = models.least(np.where(able, self._cost / held, np.inf))
            lacking = self._take(wanted, held, column, some & (lacking > 0), lacking, is_up=True)
        left = np.broadcast_to((held > 0) & (replicas > 0), wanted.shape).copy()
        for _ in range(models.most):
            if not (spare > 0).any() or not left.any():
                break
            dearest = -models.least_of(np.where(left, -self._cost, np.inf))
            column, some = models.least(np.where(left & (self._cost == dearest[:, models.of]), held, np.inf))
            spare = self._take(wanted, held, column, some & (spare > 0), spare, is_up=False)
            if models.most == 1:
                break
            rows, of = np.nonzero(some)
            left[rows, column[rows, of]] = False
        return np.clip(wanted, self._least, self._most)

    def _take(
        self, wanted: Floats, held: Floats, column: Integers, chosen: Bools, amount: Floats, *, is_up: bool
    ) -> Floats:
        """Add or remove whole replicas of a column of each chosen model; what of the amount is left."""
        each = np.where(chosen, self._models.taken(held, column), 1.0)
        standing = self._models.taken(wanted, column).copy()
        least, most = (
            self._models.taken(np.broadcast_to(of, wanted.shape), column) for of in (self._least, self._most)
        )
        if is_up:
            count = np.minimum(np.ceil(amount / each), most - standing)
        else:
            is_last = self._models.sums((wanted > 0).astype(np.float64)) - (standing > 0) < 1
            count = np.minimum(np.floor(amount / each), standing - np.maximum(least, is_last))
        count = np.where(chosen, np.maximum(count, 0.0), 0.0)
        self._models.add(wanted, column, chosen, count if is_up else -count)
        return np.asarray(np.maximum(amount - count * each, 0.0))
