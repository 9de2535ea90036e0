"""What goes wrong in a fleet, drawn at random: Prometheus is silent, nodes end, nothing is free to start on."""

import math

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import DAY_S, HOUR_S, Bools, Floats, Integers
from reconciler.simulation.draws import Spread, random_generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How often something goes wrong, and for how long each time."""

    per_day: float
    lasts: Spread


SILENT = Fault(per_day=1.0, lasts=Spread(low_s=600.0, median_s=1800.0, high_s=2 * HOUR_S))
"""Prometheus answers nothing, to anybody."""
LOST = Fault(per_day=0.2, lasts=Spread.always(0.0))
"""A node ends, for each variant: its replicas start again elsewhere."""
LOST_SHARE = 0.25
"""Of the replicas of a variant, those on that node; at least one."""
SHORT = Fault(per_day=0.3, lasts=Spread(low_s=1200.0, median_s=HOUR_S, high_s=6 * HOUR_S))
"""No accelerator is free for a variant: what is to start waits until one is."""
LATE_SHARE, LATE_S = 0.05, 12 * HOUR_S
"""Of merges, those that take so much longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong in each step: `silent` (steps,), of each variant `lost_share` and `waits` (variants x steps).

    `waits` is after how many steps a replica that is asked for then finds an accelerator.
    """

    silent: Bools
    lost_share: Floats
    waits: Integers


def draw_faults(seed: int, day_s: float, variants: int, steps: int, step_s: float) -> Faults:
    """The faults of a day and its warm-up, the same for everything that scales the fleet."""
    waits = _left(SHORT, seed, ("short", day_s), variants, steps, step_s)
    generator = random_generator(seed, "lost", day_s)
    ends = generator.random((variants, steps)) < LOST.per_day * step_s / DAY_S
    return Faults(
        silent=_left(SILENT, seed, ("silent", day_s), 1, steps, step_s)[0] > 0,
        lost_share=np.where(ends, LOST_SHARE, 0.0),
        waits=waits,
    )


def _left(fault: Fault, seed: int, names: tuple[object, ...], rows: int, steps: int, step_s: float) -> Integers:
    """For each step how many more the fault lasts; 0 where there is none (rows x steps)."""
    generator = random_generator(seed, *names)
    begins = generator.random((rows, steps)) < fault.per_day * step_s / DAY_S
    lasts = np.ceil(fault.lasts.draw(generator, (rows, steps)) / step_s)
    until = np.maximum.accumulate(np.where(begins, np.arange(steps) + lasts, -math.inf), axis=1)
    return np.asarray(np.maximum(until - np.arange(steps), 0.0)).astype(np.int64)
