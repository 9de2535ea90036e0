"""What was scraped or asked at one moment as one reading of a metric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.sizing.tracking.histograms import Measured
from reconciler.sizing.tracking.rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading:
    """What one pod reported: one value for each label set of a counter or gauge, or a histogram's percentile.

    Neither: a pod that did not report.
    """

    pod: str
    ready: bool = True
    values: tuple[float, ...] = ()
    quantile: Measured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSum:
    """The sum over ready pods, how many reported, how many did not, how many were not ready, and what was wrong."""

    total: float
    reporting: int
    missing: int
    unready: int
    reasons: tuple[str, ...] = ()


def read_pods(readings: Sequence[PodReading], rule: Rule) -> PodSum:
    """Return the sum over ready pods and label sets as far as the rule reads them.

    A pod that appears twice, did not report or reported an unusable value is missing, in every mode: where upstream
    took it for zero, a count would shrink because nobody knows.
    """
    total, reporting, reasons = 0.0, 0, []
    names = [reading.pod for reading in readings]
    repeated = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    ready = {reading.pod: reading for reading in readings if reading.ready}
    unready = len(set(names) - ready.keys())
    if unready and rule.needs_all_pods_ready:
        reason = f"{unready} pods are not ready, and {rule.name} then reads none"
        return PodSum(total=0.0, reporting=0, missing=0, unready=1, reasons=(reason,))
    for name, reading in sorted(ready.items()):
        value, reason = (None, "appears twice") if name in repeated else _value(reading, rule)
        if value is None:
            reasons.append(f"pod {name}: {reason}")
            continue
        total += value
        reporting += 1
    return PodSum(
        total=total,
        reporting=reporting,
        missing=len(ready) - reporting,
        unready=unready,
        reasons=tuple(reasons),
    )


def read_external(elements: Sequence[float]) -> Measured:
    """Return the one number that a query from elsewhere must answer with; anything else is missing."""
    if len(elements) != 1:
        return Measured(value=None, reason=f"the query returned {len(elements)} elements, expected one")
    value = elements[0]
    if not math.isfinite(value) or value < 0:
        return Measured(value=None, reason=f"the query returned {value}, expected a finite number of 0 or more")
    return Measured(value=value)


def _value(reading: PodReading, rule: Rule) -> tuple[float | None, str]:
    if reading.quantile is not None:
        return reading.quantile.value, reading.quantile.reason
    if not reading.values:
        return None, "did not report"
    if not all(math.isfinite(value) and value >= 0 for value in reading.values):
        return None, "reported a value that is negative, infinite or not a number"
    return (reading.values[0] if rule.first_label_set_only else math.fsum(reading.values)), ""
