"""Processor seconds and memory of forecasting a large fleet: `python -m tests.bench.forecasts [--models 10000]`."""

import argparse
import resource
import time

import numpy as np

from reconciler.domain.units import last_midnight_s
from reconciler.forecast.series import Rates, Window
from reconciler.simulation.rehearsal import Rules, learn, rehearse
from tests.bench.loads import DAY_S, START_S, smooth
from tests.bench.table import table

STEP_S, MADE = 600.0, 100
WINDOW = Window(from_s=600.0, until_s=2400.0)
PER_REPLICA = 2.0


def fleet(models: int) -> Rates:
    """Two weeks of so many models: a hundred that are made, and others like them at other scales."""
    made = smooth(MADE).coarse(STEP_S).per_s
    per_s = np.empty((models, made.shape[1]))
    for first in range(0, models, MADE):
        part = per_s[first : first + MADE]
        part[:] = np.roll(made, first // MADE * 3, axis=1)[: len(part)] * (1 + first / models)
    return Rates(start_s=START_S + STEP_S, step_s=STEP_S, per_s=per_s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.forecasts", description=__doc__)
    parser.add_argument("--models", type=int, default=10_000)
    models = parser.parse_args().models
    rates, now_s = fleet(models), START_S + 13.5 * DAY_S
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows, begun_s = [], time.process_time()

    def took(what: str) -> None:
        nonlocal begun_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows.append((what, time.process_time() - begun_s, peak // 1024))
        begun_s = time.process_time()

    grow, keep = learn(rates, WINDOW, last_midnight_s(now_s))
    took("learn")
    if grow is None or keep is None:
        raise SystemExit("too few models to learn from")
    series = np.arange(models)
    grow.forecast(rates, series, now_s)
    keep.forecast(rates, series, now_s)
    took("forecast")
    rules, capacities = Rules(goal=0.99, headroom=0.2), (PER_REPLICA,) * models
    rehearse(rates, tuple(range(models)), capacities, WINDOW, (780.0, 360.0), rules, last_midnight_s(now_s))
    took("replay five days of 100 models")
    print(f"{models} models, {before // 1024} MiB with their two weeks")
    print(table(("", "seconds", "MiB at most"), rows))


if __name__ == "__main__":
    main()
