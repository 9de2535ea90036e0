"""What a backtest takes and finds on public traces: `python -m tests.bench.backtesting [--seeds 10] [--days 7]`.

`--output` keeps what was found as JSON, and `--write` puts what the JSON file holds into the documentation.

ServeGen's clients in ten groups (see tests/testdata/traces), and a smooth load that is made. Every seed has other
phases, merges and starts. Costs are at what ours attains, over those of a clairvoyant with the same delay.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backtest.comparison import compare
from reconciler.backtest.day import replay_day
from reconciler.backtest.replayed import Replayed, read_replayed
from reconciler.domain.backtests import DELAYED, OURS, Backtest
from reconciler.domain.history import DemandHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.settings import PullRequestSettings
from tests.bench import pages, requests
from tests.bench.figures import KEPT, Bench, Figure, keep
from tests.bench.loads import Offered, bursty, smooth
from tests.bench.table import table
from tests.unit.decision.conftest import CLUSTER, NAMESPACE, new_fleet

CARRIED, MADE_FOR, STEP_S = 9.99, 2.0, 600.0
"""Requests a second that a replica of the fleet carries, and that loads are made for."""
MODELS, FEW_MODELS = 10, 5
LOADS: Mapping[str, Callable[[int, int], Offered]] = {
    "smooth": smooth,
    "servegen m-small": lambda models, seed: bursty(models, "m_small", seed=seed),
    "servegen m-large": lambda models, seed: bursty(models, "m_large", seed=seed),
    "servegen m-mid": lambda models, seed: bursty(models, "m_mid", seed=seed),
}
MERGE_S, SYNC_S, START_S = 600.0, 180.0, 360.0
SEEDS = range(1, 11)
"""Those of the tables in the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one load and seed came to."""

    load: str
    seed: int
    days: int
    found: Backtest
    processor_s: float

    @property
    def figures(self) -> dict[str, float]:
        """Attainment of ours, and costs over the clairvoyant's."""
        best = self.found.result(DELAYED).cost.value
        ours = self.found.result(OURS)
        peers = [each for each in self.found.policies if each.points]
        return {
            "kept": ours.attainment.value,
            "ours": ours.cost.value / best,
            **{each.name: (each.equal_cost or float("nan")) / best for each in peers},
            "PRs/day": self.found.opened,
            "reversals": self.found.reversals or 0.0,
        }


def fleet_of(load: Offered, seed: int) -> Replayed:
    """A fleet with a model for each row of a load, on accelerators of one price."""
    fleet, coarse = new_fleet(), load.coarse(STEP_S)
    per_s = coarse.per_s * (CARRIED / MADE_FOR)
    models = tuple(ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=f"m{row}") for row in range(len(per_s)))
    fleet.now_s = coarse.start_s + per_s.shape[1] * STEP_S
    fleet.price(H100=4.0)
    fleet.default(
        headroom=0.2,
        **{"actuationDelay.merge": MERGE_S, "actuationDelay.sync": SYNC_S, "actuationDelay.start": START_S},
    )
    fleet.set(pull_requests=PullRequestSettings(open_at_once=0, created_per_hour=0, pushes_per_hour=0))
    for row, rates in enumerate(per_s):
        fleet.add(f"m{row}", model_id=f"m{row}", replicas=max(round(rates.max() / CARRIED), 1))
        fleet.offer(float(rates[-1]), f"m{row}")
    history = DemandHistory(models=models, start_s=coarse.start_s + STEP_S, step_s=STEP_S, per_s=per_s)
    fleet.observed = replace(fleet.observed, demand=(history,))
    return read_replayed(fleet.snapshot(), seed=seed)


def replay(name: str, seed: int, days: int, models: int = MODELS) -> Row:
    """The last days of a load."""
    replayed = fleet_of(LOADS[name](models, seed), seed)
    begun_s = time.process_time()
    found = [replay_day(replayed, day_s, seed) for day_s in replayed.days(days)]
    compared = compare(found, replayed, replayed.left_out, "", seed)
    return Row(load=name, seed=seed, days=len(found), found=compared, processor_s=time.process_time() - begun_s)


def measure(bench: Bench) -> Iterator[Figure]:
    """A day of each load on a few models; with all, two days of more, after five models by requests."""
    if bench.is_all:
        yield from requests.measure(8.0)
    days, models = (2, MODELS) if bench.is_all else (1, FEW_MODELS)
    for name in LOADS:
        row = replay(name, seed=1, days=days, models=models)
        yield Figure(
            part="backtest",
            name=f"{days} day{'s' * (days > 1)} of {models} models, {name}",
            processor_s=row.processor_s,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            more=row.figures,
        )


def kept(row: Row) -> Figure:
    """As the JSON file holds it."""
    more = {"seed": row.seed, "days": row.days, **row.figures}
    return Figure(part="comparison", name=row.load, processor_s=row.processor_s, more=more)


def compared(bench: Bench) -> Iterator[Figure]:
    """The tables of the documentation: a day of each load with ten seeds; nothing without all, as it takes minutes."""
    if bench.is_all:
        yield from (kept(replay(name, seed, days=1)) for name in LOADS for seed in SEEDS)


def lines(rows: Sequence[Row]) -> Iterator[Sequence[str | int | float]]:
    """As a table shows them."""
    for row in rows:
        yield (row.load, row.seed, row.days, *row.figures.values(), row.processor_s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.backtesting", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--load", choices=list(LOADS), action="append")
    parser.add_argument("--output", type=Path, default=KEPT, help=f"the JSON file (default: {KEPT})")
    parser.add_argument("--write", action="store_true", help="write the figures into the documentation")
    given = parser.parse_args()
    rows: list[Row] = []
    for name in given.load or LOADS:
        rows += (replay(name, seed, given.days) for seed in range(1, given.seeds + 1))
        found = keep(given.output, "comparison", [kept(row) for row in rows])
    print(table(("load", "seed", "days", *rows[0].figures, "seconds"), list(lines(rows))))
    if given.write:
        pages.write(found)


if __name__ == "__main__":
    main()
