"""From metrics to the count they ask for: one vote a metric, the largest wins."""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.tracking.history import TrackingRule
from reconciler.sizing.tracking.windows import whole_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReadings:
    """One tick's metrics, arrays of shape (metrics, targets); `unready` replicas have shape (targets,).

    `total` is the sum over `reporting` units; `missing` units should report and do not. A unit is what upstream keeps
    a map for (a backend), or a pod where the tolerance is per replica. An `external` metric is a total that somebody
    else measured. A reading is `partial` where something that should report did not. Without an external total and
    with nothing reporting there is no reading.
    """

    total: Floats
    reporting: Floats
    missing: Floats
    external: Bools
    partial: Bools
    unready: Floats

    @property
    def present(self) -> Bools:
        """Where there is a reading at all."""
        return self.external | (self.reporting > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What a policy wants, arrays of shape (targets,).

    `per_replica` has shape (metrics, targets) and is NaN where a target has fewer metrics.
    """

    per_replica: Floats
    tolerance: Floats
    minimum: Integers
    maximum: Integers

    @property
    def asked(self) -> Bools:
        """Which metrics each target has, shape (metrics, targets)."""
        return ~np.isnan(self.per_replica)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The count the metrics ask for, arrays of shape (targets,).

    `votes`, shape (metrics, targets), is NaN where a metric had none; one that was read in part, or not at all, may
    vote to hold. Where `skipped` no metric voted, nothing is known and `replicas` is meaningless. `complete` says
    that every metric of the policy was read in full.
    """

    votes: Floats
    replicas: Integers
    skipped: Bools
    complete: Bools


def recommend(readings: TickReadings, aims: Aims, current: Integers, rule: TrackingRule) -> Recommendation:
    """Return what the metrics ask for beside `current` replicas, shape (targets,), cut to the bounds.

    A count outside its bounds goes to the nearest one and needs no metric; nor does a count whose bounds are equal.
    """
    read = readings.present & aims.asked
    full = read & ~readings.partial
    complete = (full | ~aims.asked).all(axis=0)
    with np.errstate(all="ignore"):  # zero targets and zero counts divide: infinite needs and NaN are part of the rule
        votes = np.where(read, _votes(readings, aims, current, rule), np.nan)
    counted = votes
    if rule.holds_on_missing:
        counted = np.where(aims.asked & ~full, np.fmax(votes, current), votes)
    highest = np.where(np.isnan(counted), -1.0, counted)
    voted = read.any(axis=0)
    wanted = np.clip(highest.max(axis=0, initial=0.0), aims.minimum, aims.maximum).astype(np.int64)
    outside = (current < aims.minimum) | (current > aims.maximum)
    fixed = (aims.minimum == aims.maximum) & (aims.maximum > 0)
    return Recommendation(
        votes=counted,
        replicas=np.where(outside | fixed, np.clip(current, aims.minimum, aims.maximum), wanted),
        skipped=~(voted | outside | fixed),
        complete=complete | fixed,
    )


def _votes(readings: TickReadings, aims: Aims, current: Integers, rule: TrackingRule) -> Floats:
    of_total = _vote_of_total(readings.total, aims, current)
    if rule.tolerance_per_replica:
        return of_total
    return np.where(readings.external, of_total, _vote_of_units(readings, aims, current))


def _vote_of_total(total: Floats, aims: Aims, current: Integers) -> Floats:
    need = total / aims.per_replica
    return np.where(np.abs(need / current - 1.0) <= aims.tolerance, current, whole_replicas(need))


def _vote_of_units(readings: TickReadings, aims: Aims, current: Integers) -> Floats:
    """Return upstream's vote from the mean of reporting units.

    Missing units count as on target when shrinking and as idle when growing, unready ones as idle when growing; a
    vote that these assumptions turn round is a vote for the current count.
    """
    per_replica = aims.per_replica
    ratio = readings.total / readings.reporting / per_replica
    grows = ratio >= 1.0
    with_unready = (readings.unready > 0) & grows
    plain = np.where(np.abs(ratio - 1.0) <= aims.tolerance, current, whole_replicas(ratio * readings.reporting))
    units = readings.reporting + readings.missing + np.where(with_unready, readings.unready, 0.0)
    assumed = readings.total + np.where(grows, 0.0, readings.missing * per_replica)
    careful_ratio = assumed / units / per_replica
    still_grows = careful_ratio >= 1.0
    careful = whole_replicas(careful_ratio * units)
    turned = (grows != still_grows) | np.where(still_grows, careful < current, careful > current)
    careful = np.where((np.abs(careful_ratio - 1.0) <= aims.tolerance) | turned, current, careful)
    return np.where(with_unready | (readings.missing > 0), careful, plain)
