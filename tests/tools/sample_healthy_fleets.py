"""Healthy fleets at every time of day: how many are held, and whether needed moves are made, over seeds.

`python -m tests.tools.sample_healthy_fleets --seed 0 1 2 3 4` plans for 20 models at eight times of day each, against a
real Prometheus with a day of single requests; some minutes a seed. Before some of these plans the load rose for 25
minutes, or fell an hour and `payback` ago. It fails where a goal is missed.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.table import table
from tests.incidents import playing
from tests.incidents.healthy import DAY_H, ENGINES, FULL_PER_S
from tests.incidents.lives import ALWAYS, Life, OfTime, daily
from tests.incidents.rows import Incident

MODELS, HOURS = 20, range(0, 24, 3)
CALM = "calm"
CHANGES = {"rise": (25 / 60, 2.6), "fall": (125 / 60, 0.3)}
"""For how many hours the load has been how many times as high."""
CHANGED_AT = {6: "rise", 15: "rise", 9: "fall", 18: "fall"}
MOST_HELD, LEAST = 0.01, {"rise": 1.0, "fall": 0.9}
WANTED = {"rise": "up", "fall": "down"}
KINDS, COLUMNS = (CALM, *WANTED), ("plans", "held", "up", "down", "same")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A model at a time of day, and what became of it."""

    what: str
    incident: Incident


def samples(seed: int) -> Iterator[Sample]:
    """Those of a seed; a model that has to move is planned for at the same hour as it is calm."""
    for model in range(MODELS):
        draw = random.Random(f"{seed} {model}")  # noqa: S311 - the same fleets in every run
        pods = draw.choice((2, 3, 4, 6))
        for hour in HOURS:
            most = pods * FULL_PER_S * draw.uniform(0.75, 0.95)
            usual, cv = daily(most * draw.uniform(0.3, 0.7), most, float(hour)), draw.uniform(0.5, 1.5)
            engine = tuple(ENGINES)[(model + hour // 3) % len(ENGINES)]
            for what in filter(None, (CALM, CHANGED_AT.get(hour))):
                rate = usual if what == CALM else _changed(usual, *CHANGES[what])
                incident = Incident(
                    name=f"{what}, seed {seed}, model {model}, {hour} h: {engine}",
                    happened="",
                    life=Life(rate_per_s=rate, pods=(ALWAYS,) * pods, hours=DAY_H, cv=cv),
                    engine=ENGINES[engine][0],
                    has_gateway=ENGINES[engine][1],
                    replicas=pods,
                    after=(pods,),
                )
                yield Sample(what=what, incident=incident)


def _changed(usual: OfTime, since_h: float, times: float) -> OfTime:
    return lambda hours: usual(hours) * (times if hours > -since_h else 1.0)


def played(seed: int) -> Iterator[tuple[Sample, playing.Outcome]]:
    """What the program plans for each sample of a seed."""
    found = list(samples(seed))
    with (
        tempfile.TemporaryDirectory() as directory,
        playing.remembered([each.incident for each in found], Path(directory)) as url,
    ):
        for number, each in enumerate(found):
            folder = Path(directory) / f"plan-{number}"
            folder.mkdir()
            yield each, playing.play(each.incident, number, url, folder)


def main() -> int:
    """Print how many are held and moved, a table a seed; 1 where a goal is missed over all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.sample_healthy_fleets", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    total: Counter[tuple[str, str]] = Counter()
    for seed in parser.parse_args().seed:
        counts: Counter[tuple[str, str]] = Counter()
        for each, outcome in played(seed):
            moved = outcome.after - each.incident.replicas
            way = "up" if moved > 0 else "down" if moved < 0 else "same"
            counts.update([(each.what, "plans"), (each.what, way), *([(each.what, "held")] if outcome.kind else [])])
            if way != WANTED.get(each.what, way) or (each.what == CALM and outcome.kind):
                what = f"{each.incident.replicas} -> {outcome.after}"
                print(" | ".join((each.incident.name, what, outcome.kind, outcome.words[0])), flush=True)
        rows: list[tuple[str | int, ...]] = [(what, *(counts[what, column] for column in COLUMNS)) for what in KINDS]
        print(f"seed {seed}\n{table(('', *COLUMNS), rows)}", flush=True)
        total += counts
    shares = {what: total[what, way] / total[what, "plans"] for what, way in WANTED.items()}
    is_missed = any(share < LEAST[what] for what, share in shares.items())
    return int(is_missed or total[CALM, "held"] > MOST_HELD * total[CALM, "plans"])


if __name__ == "__main__":
    sys.exit(main())
