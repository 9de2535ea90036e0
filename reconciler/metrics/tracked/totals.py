"""Pods added up to backends, tick by tick, for all backends at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.metrics.reading.readings import ObjectName
from reconciler.metrics.tracked.grid import Bools, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTotals:
    """A metric over the ready pods of each backend, arrays of shape (backends, ticks); see `PodTotals`."""

    total: Floats
    reporting: Floats
    missing: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPods:
    """The pods of each backend, and where each of them was ready: 1, was not: 0, and was not seen: NaN.

    `ready` has shape (pods, ticks). `expected`, shape (backends, ticks), are the pods that there should have been by
    the replicas of the time, NaN where unknown.
    """

    pods: Mapping[ObjectName, int]
    members: tuple[Integers, ...]
    ready: Floats
    expected: Floats

    def rows(self, found: Mapping[ObjectName, Floats]) -> Floats:
        """The series of pods as one array of shape (pods, ticks); pods of nobody are left out."""
        rows = np.full(self.ready.shape, np.nan)
        for pod, values in found.items():
            if pod in self.pods:
                rows[self.pods[pod]] = values
        return rows

    def following(self, backends: Sequence[int], members: Sequence[Integers]) -> "BackendPods":
        """Some of the backends, each with those of its pods; fewer pods than it has are not those its replicas tell."""
        fewer = [rows.size < self.members[index].size for index, rows in zip(backends, members, strict=True)]
        expected = np.where(np.array(fewer, dtype=np.bool_)[:, None], np.nan, self.expected[list(backends)])
        return replace(self, members=tuple(members), expected=expected)

    def present(self) -> Floats:
        """How many pods each backend had, shape (backends, ticks)."""
        return add_up(self.members, ~np.isnan(self.ready))

    def unready(self) -> Floats:
        """How many of them were not ready."""
        return add_up(self.members, self.ready == 0)

    def totals(self, found: Mapping[ObjectName, Floats]) -> MetricTotals:
        """The sum of a metric over ready pods; where nobody tells of any of them, over those that report."""
        values = self.rows(found)
        known = np.isfinite(values) & (values >= 0)
        untold = add_up(self.members, ~np.isnan(self.ready)) == 0
        reads = known & (self.ready == 1)
        reporting = np.where(untold, add_up(self.members, known), add_up(self.members, reads))
        total = np.where(
            untold,
            add_up(self.members, np.where(known, values, 0.0)),
            add_up(self.members, np.where(reads, values, 0.0)),
        )
        silent = add_up(self.members, (self.ready == 1) & ~known)
        lacking = np.fmax(self.expected - reporting, 0.0)
        return MetricTotals(
            total=np.where(reporting > 0, total, np.nan),
            reporting=reporting,
            missing=np.where(untold & ~np.isnan(lacking), lacking, silent),
        )


def add_up(members: Sequence[Integers], values: Floats | Bools) -> Floats:
    """The sum over each backend's rows of `values`, shape (rows, ticks) to (backends, ticks); nothing is 0."""
    sums = np.zeros((len(members), values.shape[1]))
    manned = [index for index, rows in enumerate(members) if rows.size]
    if manned:
        rows = np.concatenate([members[index] for index in manned])
        starts = np.cumsum([0, *(members[index].size for index in manned[:-1])])
        with np.errstate(over="ignore"):  # an infinite sum is no reading, as any infinite one
            sums[manned] = np.add.reduceat(values[rows].astype(np.float64), starts, axis=0)
    return sums
