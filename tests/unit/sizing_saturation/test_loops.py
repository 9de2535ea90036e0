"""Loops that are closed: what is decided changes what is measured next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from reconciler.domain.identity import Source, SourceKind
from reconciler.domain.observed import ReplicaMetrics
from reconciler.domain.settings import ThresholdLayer
from reconciler.sizing.saturation import size_saturation
from reconciler.sizing.saturation_readings import LayeredThresholds, VariantFacts, layer_thresholds
from reconciler.upstream.wva import UpstreamReadings, reproduce_percent, reproduce_tokens

Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Variant = Callable[..., VariantFacts]
Readings = Callable[..., UpstreamReadings]
Rule = Callable[[UpstreamReadings], int]

START_TICKS = 3


def by_percent(readings: UpstreamReadings) -> int:
    return sum((reproduce_percent([readings])[0].requirements[0].fixed or {}).values())


def by_tokens(readings: UpstreamReadings) -> int:
    return sum((reproduce_tokens([readings])[0].requirements[0].fixed or {}).values())


def by_the_engine(readings: UpstreamReadings) -> int:
    """The least replicas of the one variant that carry what is asked for, floors and holds respected."""
    answer = size_saturation(readings)
    (variant,) = readings.variants
    if variant.key in answer.held:
        return variant.current_replicas
    (requirement,) = answer.requirements
    (carried,) = requirement.per_replica.values()
    least = next(count for count in range(1000) if count * carried >= requirement.amount * (1 - 1e-9))
    return variant.clamp(max(least, answer.floors.get(variant.key, 0)))


@dataclass
class Fleet:
    """One variant whose replicas start slowly; `load` says what each of so many serving replicas reports."""

    variant: Variant
    replicas: Replicas
    readings: Readings
    load: Callable[[int], str]
    layered: LayeredThresholds
    most: int = 10
    reported: dict[str, float] | None = None

    def run(self, rule: Rule, ticks: int, current: int = 1) -> Iterator[int]:
        started = [-START_TICKS] * current
        for tick in range(ticks):
            serving = sum(tick - each >= START_TICKS for each in started)
            own = self.variant(
                "v",
                cost=30.0,
                current_replicas=len(started),
                pending_replicas=len(started) - serving,
                min_replicas=1,
                max_replicas=self.most,
            )
            reported = self.replicas("v", ",".join([self.load(serving)] * serving), **(self.reported or {}))
            wanted = rule(self.readings(own, replicas=reported, layered=self.layered))
            started = (started + [tick] * wanted)[:wanted]
            yield len(started)


@pytest.fixture
def fleet(variant: Variant, replicas: Replicas, readings: Readings) -> Callable[..., Fleet]:
    def build(load: Callable[[int], str], *thresholds: float, reported: dict[str, float] | None = None) -> Fleet:
        names = ("kv_cache_usage", "num_waiting", "kv_spare", "waiting_spare")
        said = dict(zip(names, thresholds, strict=False))
        layer = ThresholdLayer(source=Source(kind=SourceKind.CONFIG_MAP), **said)
        return Fleet(variant, replicas, readings, load, layer_thresholds([layer]), reported=reported)

    return build


def simulated(usage: float, waiting: int) -> Callable[[int], str]:
    """A simulator's replicas report the same, however many they are."""
    return lambda _: f"{usage}/{waiting}"


def test_e1_low_thresholds_let_a_simulated_fleet_rise(fleet: Callable[..., Fleet]) -> None:
    counts = list(fleet(simulated(0.3, 2), 0.05, 1.0, 0.01, 1.0).run(by_percent, 60))

    assert counts[0] == 2
    assert counts[-1] == 10


def test_e2_high_thresholds_never_let_it_rise(fleet: Callable[..., Fleet]) -> None:
    assert set(fleet(simulated(0.3, 2), 1.0, 100.0, 0.0, 0.0).run(by_percent, 60)) == {1}


def test_e7_upstream_climbs_one_by_one_to_the_maximum_and_stops(fleet: Callable[..., Fleet]) -> None:
    counts = list(fleet(simulated(0.95, 0)).run(by_percent, 60))

    assert [count for index, count in enumerate(counts) if count not in counts[:index]] == list(range(2, 11))
    assert counts == sorted(counts)
    assert counts.index(10) == 8 * (START_TICKS)
    assert set(counts[counts.index(10) :]) == {10}


def shared(replicas_worth: float) -> Callable[[int], str]:
    """A load that is shared: so many full caches' worth of it, and what does not fit waits."""

    def report(serving: int) -> str:
        each = replicas_worth / max(serving, 1)
        return f"{min(each, 0.99)}/{max(each - 0.99, 0.0) * 50:.0f}"

    return report


TOKENS = {"total_kv_tokens": 12500.0, "input_tokens": 150.0, "output_tokens": 100.0}


@pytest.mark.parametrize("reported", [{}, TOKENS], ids=["in replicas", "in tokens"])
@pytest.mark.parametrize("worth", [0.3, 1.1, 2.0, 3.7, 5.2])
def test_the_engine_finds_enough_sooner_than_upstream_and_then_rests(
    fleet: Callable[..., Fleet], worth: float, reported: dict[str, float]
) -> None:
    crowd = fleet(shared(worth), reported=reported)

    counts = list(crowd.run(by_the_engine, 80))
    upstream = list(crowd.run(by_percent, 80))

    rests = counts[40:]
    assert len(set(rests)) == 1
    assert worth / rests[0] < 0.8
    assert counts.index(rests[0]) <= upstream.index(max(upstream))


@pytest.mark.parametrize("reported", [{}, TOKENS], ids=["in replicas", "in tokens"])
@pytest.mark.parametrize("worth", [0.3, 1.1, 2.0, 3.7])
def test_the_engine_comes_down_to_one_more_than_it_would_climb_to_at_most(
    fleet: Callable[..., Fleet], worth: float, reported: dict[str, float]
) -> None:
    crowd = fleet(shared(worth), reported=reported)

    climbed = list(crowd.run(by_the_engine, 60))[-1]
    descended = list(crowd.run(by_the_engine, 60, current=10))

    assert climbed <= descended[-1] <= climbed + 1
    assert len(set(descended[40:])) == 1


def test_upstream_also_rests_in_tokens(fleet: Callable[..., Fleet]) -> None:
    counts = list(fleet(shared(2.0), reported=TOKENS).run(by_tokens, 80))

    assert len(set(counts[60:])) == 1
