"""Loads of fleets over two weeks: a smooth one that is made, and bursty ones from public traces."""

import csv
import gzip
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TRACES = Path(__file__).parents[1] / "testdata" / "traces"
DAY_S, TRACE_STEP_S, DAYS = 86_400.0, 600.0, 14
START_S = 1_800_230_400.0  # a Monday at midnight, UTC
PER_REPLICA, REPLICAS = 2.0, 10.0
"""What bursty loads are scaled to: requests a second of a replica, and the mean replicas of a group."""
Floats = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What arrives: `per_s[i, j]` is the mean rate of model i over the step that ends at `start_s + (j + 1) step_s`."""

    step_s: float
    per_s: Floats
    start_s: float = START_S

    def coarse(self, step_s: float) -> "Offered":
        """Means over longer steps."""
        times = round(step_s / self.step_s)
        models, count = self.per_s.shape
        whole = self.per_s[:, : count // times * times].reshape(models, count // times, times)
        return Offered(step_s=step_s, per_s=whole.mean(axis=2), start_s=self.start_s)


def smooth(models: int = 100, seed: int = 1, step_s: float = 60.0, days: int = DAYS) -> Offered:
    """Daily and weekly cycles, autoregressive noise and a few surprises; about ten replicas of 2 req/s each."""
    draw = np.random.default_rng(seed)  # noqa: TID251 - a load of its own in each seed
    count = int(days * DAY_S / step_s)
    at_s = (np.arange(count) + 0.5) * step_s
    means = np.exp(draw.normal(math.log(14.0), 0.7, models))[:, np.newaxis]
    depth = draw.uniform(0.3, 0.75, models)[:, np.newaxis]
    peak_s = draw.normal(14 * 3600.0, 2 * 3600.0, models)[:, np.newaxis]
    weekend = draw.uniform(0.55, 0.95, models)[:, np.newaxis]
    angle = 2 * np.pi * (at_s - peak_s) / DAY_S
    shape = np.exp(depth * (np.cos(angle) + 0.25 * np.cos(2 * angle)))
    is_weekend = (at_s // DAY_S % 7) >= 5
    shape = shape * np.where(is_weekend, weekend, 1.0)
    daily = np.repeat(np.exp(draw.normal(0.0, 0.06, (models, days))), count // days, axis=1)
    noise = _autoregressive(draw, models, count, step_s, hours=1.5, deviation=0.05)
    noise += _autoregressive(draw, models, count, step_s, hours=0.1, deviation=0.025)
    rates = means * shape * daily * np.exp(noise)
    for model in range(models):
        for _ in range(draw.poisson(days / 4.0)):
            first = draw.uniform(0, count)
            rise, stay = draw.uniform(600, 2400) / step_s, draw.uniform(1800, 10_800) / step_s
            height = draw.uniform(0.2, 0.8)
            ramp = np.interp(np.arange(count) - first, [0, rise, rise + stay, 2 * rise + stay], [0, 1, 1, 0], 0, 0)
            rates[model] *= 1 + height * ramp
    return Offered(step_s=step_s, per_s=rates)


def _autoregressive(draw: Any, models: int, count: int, step_s: float, *, hours: float, deviation: float) -> Floats:
    from scipy.signal import lfilter

    kept = math.exp(-step_s / (hours * 3600.0))
    shocks = draw.normal(0.0, deviation * math.sqrt(1 - kept**2), (models, count))
    return lfilter([1.0], [1.0, -kept], shocks, axis=1)


def bursty(
    groups: int = 10, name: str = "m_small", step_s: float = 60.0, seed: int = 1, *, shuffles: bool = False
) -> Offered:
    """Clients of public traces (`m_small`, or several with + between) in groups, replayed as steps.

    Each group has clients of all sizes: every tenth of a trace. All groups together are scaled to ten replicas each.
    With `shuffles` other clients are together in each seed.
    """
    clients = np.concatenate([_clients(each) for each in name.split("+")])
    draw = np.random.default_rng(seed)  # noqa: TID251 - another phase in each seed
    if shuffles:
        clients = clients[draw.permutation(len(clients))]
    grouped = np.array([clients[first::groups].sum(axis=0) for first in range(groups)])
    grouped *= PER_REPLICA * REPLICAS / grouped.mean()
    fine = np.repeat(grouped, round(TRACE_STEP_S / step_s), axis=1)
    shifts = draw.integers(0, round(TRACE_STEP_S / step_s), groups)
    return Offered(
        step_s=step_s, per_s=np.array([np.roll(row, shift) for row, shift in zip(fine, shifts, strict=True)])
    )


def _clients(name: str) -> Floats:
    with gzip.open(TRACES / f"servegen_language_{name}_rate.csv.gz", "rt", newline="") as lines:
        return np.array([[float(cell or 0.0) for cell in row[1:]] for row in list(csv.reader(lines))[1:]]).T
