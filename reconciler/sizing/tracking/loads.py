"""Observed series of many targets as the arrays that a replay reads, cleaned: what is unusable is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.tracking.groups import aggregate_external, in_order_sum
from reconciler.sizing.tracking.history import History, PodHistory, Target, TrackingRule
from reconciler.sizing.tracking.recommend import TickReadings


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Metrics of shape (ticks, metrics, targets); `unready` and `busy` of shape (ticks, targets).

    `busy` where something arrived, or nobody knows. `unusable` counts the readings of each target that were negative
    or infinite, shape (targets,). See `Readings` for the rest.
    """

    total: Floats
    reporting: Floats
    missing: Floats
    external: Bools
    partial: Bools
    unready: Floats
    busy: Bools
    unusable: Floats

    def over(self, ticks: Integers) -> "Loads":
        """Return the loads at some of the ticks."""
        return replace(
            self,
            total=self.total[ticks],
            reporting=self.reporting[ticks],
            missing=self.missing[ticks],
            external=self.external[ticks],
            partial=self.partial[ticks],
            unready=self.unready[ticks],
            busy=self.busy[ticks],
        )

    def repeat(self, times: int) -> "Loads":
        """Return the same targets several times over, side by side."""
        return Loads(
            total=np.tile(self.total, times),
            reporting=np.tile(self.reporting, times),
            missing=np.tile(self.missing, times),
            external=np.tile(self.external, times),
            partial=np.tile(self.partial, times),
            unready=np.tile(self.unready, times),
            busy=np.tile(self.busy, times),
            unusable=np.tile(self.unusable, times),
        )

    def at(self, tick: int) -> TickReadings:
        """Return what was read at one tick."""
        return TickReadings(
            total=self.total[tick],
            reporting=self.reporting[tick],
            missing=self.missing[tick],
            external=self.external[tick],
            partial=self.partial[tick],
            unready=self.unready[tick],
        )


def stack_loads(targets: Sequence[Target], ticks: int, rule: TrackingRule) -> Loads:
    """Return the series of all targets, each of `ticks` ticks, in the units that the rule counts."""
    metrics = max((len(target.policy.metrics) for target in targets), default=0)
    shape = (ticks, metrics, len(targets))
    loads = Loads(
        total=np.zeros(shape),
        reporting=np.zeros(shape),
        missing=np.zeros(shape),
        external=np.zeros(shape, dtype=np.bool_),
        partial=np.zeros(shape, dtype=np.bool_),
        unready=np.zeros((ticks, len(targets))),
        busy=np.zeros((ticks, len(targets)), dtype=np.bool_),
        unusable=np.zeros(len(targets)),
    )
    with np.errstate(over="ignore"):  # an infinite sum asks for the most replicas, as any huge one does
        for column, target in enumerate(targets):
            _fill(loads, column, target, rule)
    return loads


def _fill(loads: Loads, column: int, target: Target, rule: TrackingRule) -> None:
    history = target.history
    loads.unready[:, column] = _usable(history.unready).sum(axis=1)
    for row, metric in enumerate(target.policy.metrics):
        values = history.external.get(metric.name)
        pods = history.pods.get(metric.name)
        if values is not None:
            _fill_external(loads, (row, column), metric.name, values, history)
        if pods is not None:
            _fill_pods(loads, (row, column), pods, history, rule)
    loads.busy[:, column] = _busy(loads, column, target)


def _fill_external(loads: Loads, place: tuple[int, int], name: str, values: Floats, history: History) -> None:
    row, column = place
    known = _known(values)
    loads.unusable[column] += np.count_nonzero(~known & ~np.isnan(values))
    answered = known.any(axis=1)
    loads.total[:, row, column] = aggregate_external(name, np.where(known, values, np.nan), _usable(history.replicas))
    loads.external[:, row, column] = answered
    loads.partial[:, row, column] = answered & (_silent(known, history) > 0)


def _fill_pods(loads: Loads, place: tuple[int, int], pods: PodHistory, history: History, rule: TrackingRule) -> None:
    row, column = place
    sound = _known(pods.total)
    known = sound & (_usable(pods.reporting) > 0)
    loads.unusable[column] += np.count_nonzero(~sound & ~np.isnan(pods.total))
    silent = _usable(pods.missing).sum(axis=1) + _silent(known, history)
    if rule.tolerance_per_replica:
        reporting, missing = np.where(known, pods.reporting, 0.0).sum(axis=1), silent
    else:
        reporting, missing = known.sum(axis=1), (~known).sum(axis=1)
    instead = ~loads.external[:, row, column]
    loads.total[instead, row, column] = in_order_sum(np.where(known, pods.total, 0.0))[instead]
    loads.reporting[instead, row, column] = reporting[instead]
    loads.missing[instead, row, column] = missing[instead]
    loads.partial[instead, row, column] = (silent > 0)[instead]


def _busy(loads: Loads, column: int, target: Target) -> Bools:
    arrivals = target.history.arrivals_per_s
    if arrivals is not None:
        return np.asarray(arrivals != 0, dtype=np.bool_)  # NaN is not zero: unknown is busy
    rows = slice(0, len(target.policy.metrics))
    readable = (loads.reporting[:, rows, column] > 0) | loads.external[:, rows, column]
    quiet = readable & ~loads.partial[:, rows, column] & (loads.total[:, rows, column] == 0)
    return np.asarray(~quiet.all(axis=1), dtype=np.bool_)


def _silent(known: Bools, history: History) -> Floats:
    """Return how many backends should have answered and did not; one without replicas has nothing to say."""
    return np.asarray((~known & (history.replicas != 0)).sum(axis=1), dtype=np.float64)


def _known(values: Floats) -> Bools:
    return np.asarray(np.isfinite(values) & (values >= 0), dtype=np.bool_)


def _usable(values: Floats) -> Floats:
    return np.where(_known(values), values, 0.0)
