"""A day of a noisy load, a decision every ten minutes: what does not change in truth changes nothing in Git."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from reconciler.domain.plan import Outcome

DAY_MIN, HOUR_MIN, WINDOW_MIN, EVERY_MIN = 1440, 60, 5, 10
WINDOW_S = 300.0
WANDER, MEMORY = 0.02, 0.5
"""Beside chance the load wanders by 2 %, half of which is there still in the next window."""
RATES_PER_S = (0.5, 2.0, 10.0, 50.0, 300.0)
REPLICAS = (1, 3, 8)
EDGES = (0.0, 2.5)
"""Standard deviations from the mean load to where one more replica is needed."""
BETWEEN = (1.4, 4.7)
"""Replicas that the mean load would need, if they could be divided."""

Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A constant load, and what one replica carries of it."""

    name: str
    rate_per_s: float
    replica_per_s: float
    seed: int


def positions() -> Iterator[Position]:
    for rate in RATES_PER_S:
        deviation = math.sqrt(rate / WINDOW_S + (WANDER * rate) ** 2)
        edges = [(rate + edge * deviation) / count for count in REPLICAS for edge in EDGES]
        for number, each in enumerate((*edges, *(rate / share for share in BETWEEN))):
            for seed in (0, 1):
                yield Position(name=f"m{rate:g}-{number}-{seed}", rate_per_s=rate, replica_per_s=each, seed=seed)


def observed(truth: Rates, seed: int) -> Rates:
    """Minute by minute the rate over five minutes, of requests that come by chance at a rate that wanders.

    A minute has 30 requests and more, where chance is as good as normal.
    """
    random = Random(seed)  # noqa: S311 - the same arrivals in every run
    kept = MEMORY ** (1 / WINDOW_MIN)
    away = random.gauss(0, WANDER)
    counts = [0.0]
    for rate in truth.tolist():
        away = kept * away + random.gauss(0, WANDER * math.sqrt(1 - kept**2))
        expected = 60 * rate * (1 + away)
        counts.append(counts[-1] + max(0, round(random.gauss(expected, math.sqrt(expected)))))
    total = np.array(counts)
    return np.asarray((total[WINDOW_MIN:] - total[:-WINDOW_MIN]) / WINDOW_S)


@dataclass(slots=True, kw_only=True)
class Replay:
    """The replicas of each model after every decision; each plan is merged at once."""

    fleet: Any
    loads: Mapping[str, Rates]
    counts: dict[str, list[int]]
    remembers: bool = True

    def run(self, until_min: int) -> dict[str, list[int]]:
        for minute in range(HOUR_MIN, until_min, EVERY_MIN):
            for name, rates in self.loads.items():
                self.fleet.offer(float(rates[minute]), name)
                if self.remembers:
                    self.fleet.remember(*rates[minute - HOUR_MIN : minute + 1].tolist(), model_id=name)
            plan = self.fleet.plan()
            assert {each.outcome for each in plan.decisions} <= {Outcome.CHANGE, Outcome.UNCHANGED}
            for each in plan.decisions:
                self.fleet.set_replicas(each.variant.name, each.desired.replicas)
                self.counts.setdefault(each.variant.name, []).append(each.desired.replicas)
        return self.counts


@pytest.fixture
def replay(fleet: Any, make: Any) -> Any:
    """Starts a day with three times the replicas that each position needs."""

    def start(loads: Mapping[str, Rates], replica_per_s: Mapping[str, float], surplus: float = 3.0) -> Replay:
        fleet.set(service_classes=(make.service_class(itl_s=1000.0),))
        for name, each in replica_per_s.items():
            batch_s = 0.999 * 10 / (100 * each)
            needed = loads[name][HOUR_MIN] / each
            fleet.add(
                name,
                model_id=name,
                replicas=max(1, math.ceil(surplus * needed)),
                profiles=(make.profile("H100", batch=10, alpha_s=batch_s),),
            )
        return Replay(fleet=fleet, loads=loads, counts={})

    return start


def moves(counts: Sequence[int]) -> list[int]:
    """The counts after the first plan, without repetitions."""
    return [counts[0], *(after for before, after in pairwise(counts) if after != before)]


def reversals(counts: Sequence[int]) -> int:
    steps = [after - before for before, after in pairwise(moves(counts))]
    return sum(first * second < 0 for first, second in pairwise(steps))


@pytest.fixture(scope="module")
def constant() -> tuple[dict[str, Rates], dict[str, float]]:
    places = list(positions())
    truth = np.ones(DAY_MIN + HOUR_MIN + WINDOW_MIN)
    loads = {
        each.name: observed(each.rate_per_s * truth, 1000 * each.seed + number) for number, each in enumerate(places)
    }
    return loads, {each.name: each.replica_per_s for each in places}


def test_a_constant_load_moves_nothing_for_a_day(replay: Any, constant: Any) -> None:
    counts = replay(*constant).run(DAY_MIN + HOUR_MIN)
    assert len(counts) == 80
    assert all(len(each) == DAY_MIN // EVERY_MIN for each in counts.values())
    still = [name for name, each in counts.items() if len(moves(each)) == 1]
    assert len(still) >= 0.95 * len(counts)
    assert max(map(reversals, counts.values())) <= 1


def test_what_began_too_small_grows_once(replay: Any, constant: Any) -> None:
    """More is decided by the demand of now, and then by what its noise needs as well.

    Who moves later began with just what the demand of that moment needs: then the first plan changed nothing.
    """
    counts = replay(*constant, 0.6).run(DAY_MIN + HOUR_MIN)
    assert max(map(reversals, counts.values())) == 0
    assert max(len(moves(each)) for each in counts.values()) <= 2
    still = [name for name, each in counts.items() if len(moves(each)) == 1]
    assert len(still) >= 0.8 * len(counts)


def test_without_a_past_the_same_load_moves_replicas_all_day(replay: Any, constant: Any) -> None:
    loads, replica_per_s = constant
    some = [name for name in loads if name.startswith("m50-")]
    begun = replay({name: loads[name] for name in some}, {name: replica_per_s[name] for name in some})
    begun.remembers = False
    counts = begun.run(DAY_MIN // 4)
    assert sum(map(reversals, counts.values())) > 2 * len(counts)


@pytest.mark.parametrize(
    ("to", "within_min"), [(1.3, WINDOW_MIN + EVERY_MIN), (0.7, HOUR_MIN + WINDOW_MIN + EVERY_MIN)]
)
def test_a_load_that_really_changes_is_followed(replay: Any, to: float, within_min: int) -> None:
    """Up at the next run that sees it in a whole window, down once it is over for all of payback."""
    change_min, replicas = 3 * HOUR_MIN, 20
    truth = np.ones(change_min + 2 * HOUR_MIN)
    truth[change_min:] = to
    loads = {f"m{rate:g}": observed(rate * truth, number) for number, rate in enumerate((10.0, 50.0, 300.0))}
    replica_per_s = {name: float(name[1:]) / replicas for name in loads}
    counts = replay(loads, replica_per_s, 1.0).run(change_min + within_min)
    for each in counts.values():
        (before, after) = each[(change_min - HOUR_MIN) // EVERY_MIN - 1], each[-1]
        assert after >= to * replicas if to > 1 else after <= before - 3
