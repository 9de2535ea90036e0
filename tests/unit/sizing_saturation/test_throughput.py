"""The analyzer `throughput`: its line, its window, its vote, and how it votes beside `tokens`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role, UpstreamQueue
from reconciler.domain.settings import AnalyzerSettings
from reconciler.sizing.saturation_readings import VariantFacts
from reconciler.upstream.wva import UpstreamReadings, reproduce_tokens
from reconciler.upstream.wva_analyzers import Ballot, Signal
from reconciler.upstream.wva_limits import DeviceBudget, cost_aware
from reconciler.upstream.wva_throughput import (
    ThroughputAnalysis,
    ThroughputReadings,
    ThroughputSample,
    Tier,
    VariantThroughput,
    analyze_throughput,
    fit_line,
    play_back,
)

Samples = Callable[..., tuple[ThroughputSample, ...]]
Variant = Callable[..., VariantFacts]
Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Readings = Callable[..., UpstreamReadings]
Key = Callable[..., ResourceKey]

WIDE = [0.20 + 0.05 * index for index in range(10)]
NARROW = [0.50 + 0.01 * index for index in range(10)]
# N(0.85) = 0.85 * 16000 / 150 requests, a step of each 0.04 s.
FULL_PER_S = 0.85 * 16000 / 150 / 0.04


def told(samples: Sequence[ThroughputSample]) -> VariantThroughput:
    state = play_back(samples)
    assert state is not None
    return state


def tier(samples: Sequence[ThroughputSample]) -> Tier | None:
    line = told(samples).line
    return line.tier if line is not None else None


def analyzed(
    samples: Sequence[ThroughputSample],
    *variants: VariantFacts,
    queue: UpstreamQueue | None = None,
    now_s: float = 150.0,
    arrival: float | None = None,
) -> ThroughputAnalysis:
    readings = ThroughputReadings(now_s=now_s, samples=tuple(samples), arrival_rate_per_s=arrival)
    return analyze_throughput(variants, readings, queue, scale_up=0.85, scale_down=0.70)


def vote(*given: Any, **more: Any) -> Ballot:
    ballot = analyzed(*given, **more).ballot
    assert ballot is not None
    return ballot


def signal(*given: Any, **more: Any) -> Signal:
    return vote(*given, **more).signals[Role.BOTH]


def test_a_wide_window_is_fitted_and_says_what_a_full_replica_makes(samples: Samples) -> None:
    state = told(samples("v", WIDE))

    assert state.line is not None
    assert state.line.tier is Tier.FITTED
    assert (state.line.slope_s, state.line.base_s) == pytest.approx((0.04, 0.006))
    assert state.full_per_s == pytest.approx(FULL_PER_S)


@pytest.mark.parametrize("usages", [WIDE[:9], NARROW], ids=["nine samples", "too narrow"])
def test_a_window_that_is_not_ready_is_fitted_with_its_base_given(samples: Samples, usages: list[float]) -> None:
    state = told(samples("v", usages))

    assert state.line is not None
    assert (state.line.tier, state.line.base_s) == (Tier.ASSUMED, 0.006)
    assert state.full_per_s == pytest.approx(FULL_PER_S)


def test_a_window_of_exactly_the_least_size_and_spread_is_ready(samples: Samples) -> None:
    assert tier(samples("v", [0.50, *[0.65] * 8, 0.80])) is Tier.FITTED


def test_samples_outside_the_range_are_not_kept(samples: Samples) -> None:
    state = told(samples("v", [0.10, 0.149, 0.15, 0.85, 0.851, 0.90]))

    assert [usage for usage, _ in state.points] == [0.15, 0.85]


def test_the_window_holds_twenty_samples_of_half_an_hour(samples: Samples) -> None:
    assert len(told(samples("v", WIDE * 3)).points) == 20
    late = samples("v", [0.5], start_s=1800.0 + 30.0)

    assert len(told([*samples("v", WIDE), *late]).points) == 9


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ({"input_tokens": 120.0}, 11),
        ({"input_tokens": 121.0}, 1),
        ({"output_tokens": 80.0}, 11),
        ({"output_tokens": 79.0}, 1),
    ],
)
def test_the_window_is_cleared_when_requests_change_by_more_than_a_fifth(
    samples: Samples, lengths: dict[str, float], kept: int
) -> None:
    changed = samples("v", [0.4], start_s=150.0, **lengths)

    assert len(told([*samples("v", WIDE), *changed]).points) == kept


def test_after_a_clearing_the_last_fitted_base_holds(samples: Samples) -> None:
    slow = [
        replace(each, itl_s=0.020 + 0.04 * (each.kv_cache_usage or 0.0), tokens_per_s=None)
        for each in samples("v", WIDE)
    ]
    after = samples("v", [0.5], start_s=150.0, input_tokens=500.0, itl_s=0.070)

    line = told([*slow, *after]).line

    assert line is not None
    assert line.tier is Tier.PINNED
    assert (line.base_s, line.slope_s) == pytest.approx((0.020, 0.1))


@pytest.mark.parametrize(
    ("factor", "usage", "mismatches", "kept"),
    [
        (1.0, 0.5, 3, True),
        (0.8, 0.5, 2, True),
        (0.8, 0.5, 3, False),
        (0.8, 0.29, 3, True),
        (1 / 1.14, 0.5, 3, True),
        (1 / 1.16, 0.5, 3, False),
    ],
)
def test_three_contradictions_in_a_row_clear_the_window(
    samples: Samples, factor: float, usage: float, mismatches: int, kept: bool
) -> None:
    rate = usage * 16000 / 150 / (0.006 + 0.04 * usage) * factor
    wrong = samples("v", [usage] * mismatches, start_s=150.0, tokens_per_s=rate)

    assert bool(told([*samples("v", WIDE), *wrong]).points) is kept


def test_a_line_that_falls_is_none() -> None:
    falling = [(0.2 + 0.05 * index, 0.05 - 0.01 * index / 10) for index in range(10)]
    line = fit_line(falling, falling, None)

    assert line is not None
    assert line.tier is Tier.ASSUMED
    assert fit_line(falling, [(0.5, 0.005)], None) is None
    assert fit_line([], [], None) is None


def test_a1_arrivals_against_what_full_replicas_make(samples: Samples, variant: Variant) -> None:
    said = signal(samples("v", WIDE), variant("v"), arrival=30.0)

    assert said.demand == pytest.approx(30.0 * 100)
    assert said.supply == said.anticipated == pytest.approx(FULL_PER_S)
    assert said.required == pytest.approx(3000 / 0.85 - FULL_PER_S)
    assert said.spare == 0


def test_what_waits_upstream_is_demand_too(samples: Samples, variant: Variant) -> None:
    said = signal(samples("v", WIDE), variant("v"), arrival=10.0, queue=UpstreamQueue(num_waiting=8.0))

    assert said.demand == pytest.approx(1000 + 8 / (2 * 0.04))


def test_a4_without_an_arrival_rate_nothing_goes(samples: Samples, variant: Variant) -> None:
    quiet = samples("v", WIDE)

    assert signal(quiet, variant("v"), arrival=0.0).spare == pytest.approx(FULL_PER_S)
    for unknown in (None, math.nan, -1.0, math.inf):
        analysis = analyzed(quiet, variant("v"), arrival=unknown)
        assert analysis.ballot is not None
        assert analysis.ballot.signals[Role.BOTH].spare == 0
        assert any("arrival rate is unknown" in reason for reason in analysis.reasons)


def test_without_an_arrival_rate_what_is_decoded_asks(samples: Samples, variant: Variant) -> None:
    decoding = samples("v", [*WIDE[:9], 0.9])
    local = 0.9 * 16000 / 150 / 0.042

    assert signal(decoding, variant("v")).demand == pytest.approx(local)
    short = [replace(each, output_tokens=20.0) for each in decoding]
    assert signal(short, variant("v")).demand == 0


@pytest.mark.parametrize("pending", [0, 1])
def test_a5_a_booting_replica_is_anticipated_and_no_supply(samples: Samples, variant: Variant, pending: int) -> None:
    booting = samples("v", [0.0], pod="v-1", start_s=135.0, kv_tokens=0.0, itl_s=None)
    own = variant("v", current_replicas=2, pending_replicas=pending)

    said = signal([*samples("v", WIDE), *booting], own, arrival=30.0)

    assert said.supply == pytest.approx(FULL_PER_S)
    assert said.anticipated == pytest.approx(2 * FULL_PER_S)


def test_o25_a_vote_of_throughput_alone_revives_what_it_knows(samples: Samples, variant: Variant, key: Key) -> None:
    asleep = samples("revived", WIDE, pod="old")
    busy = samples("busy", WIDE, start_s=150.0)
    fleet = [
        variant("busy", cost=30.0, max_replicas=1),
        variant("cold", cost=5.0, current_replicas=0),
        variant("revived", cost=10.0, current_replicas=0),
    ]

    ballot = vote([*asleep, *busy], *fleet, arrival=30.0, now_s=300.0)

    assert ballot.per_replica == {key(name): pytest.approx(FULL_PER_S) for name in ("busy", "revived")}
    assert cost_aware(fleet, [ballot]) == {key("busy"): 1, key("cold"): 0, key("revived"): 1}


def test_prefill_is_neither_asked_nor_vetoed(samples: Samples, variant: Variant) -> None:
    fleet = [variant("v", role=Role.DECODE), variant("p", role=Role.PREFILL)]

    ballot = vote(samples("v", WIDE), *fleet, arrival=10.0)

    assert set(ballot.signals) == {Role.DECODE}
    assert ballot.signals[Role.DECODE].demand == pytest.approx(1000)


@pytest.mark.parametrize(("age_s", "live"), [(89.0, True), (95.0, False)])
def test_an_analyzer_that_knew_something_votes_for_three_periods(
    samples: Samples, variant: Variant, age_s: float, live: bool
) -> None:
    assert vote(samples("v", WIDE), variant("v"), arrival=1.0, now_s=135.0 + age_s).is_live is live


def test_replicas_that_fell_idle_keep_their_veto_and_ask_nothing(samples: Samples, variant: Variant) -> None:
    idle = samples("v", [0.0], start_s=150.0, itl_s=None, tokens_per_s=0.0)

    ballot = vote([*samples("v", NARROW), *idle], variant("v"), arrival=1.0)

    assert ballot.is_live
    assert (ballot.signals[Role.BOTH].required, ballot.signals[Role.BOTH].spare) == (0, 0)


def test_an_analyzer_that_never_knew_anything_does_not_vote(samples: Samples, variant: Variant) -> None:
    assert analyzed((), variant("v"), arrival=1.0).ballot is None
    assert analyzed(samples("v", [0.0]), variant("v"), arrival=1.0).ballot is None
    assert analyzed(samples("v", WIDE), variant("v"), arrival=1.0, now_s=-1.0).ballot is None


def both(**throughput: Any) -> dict[str, Any]:
    return {
        "analyzers": (AnalyzerSettings(name="saturation"), AnalyzerSettings(name="throughput", **throughput)),
    }


@pytest.fixture
def calm(samples: Samples, variant: Variant, replicas: Replicas, readings: Readings) -> Callable[..., UpstreamReadings]:
    """Three replicas of which `tokens` needs one, decoding for 60 requests a second."""
    three = [each for pod in ("v-0", "v-1", "v-2") for each in samples("v", WIDE, pod=pod)]

    def build(arrival: float | None = 60.0, **more: Any) -> UpstreamReadings:
        told_so = ThroughputReadings(now_s=150.0, samples=tuple(three), arrival_rate_per_s=arrival)
        sized = {"total_kv_tokens": 16000.0, "input_tokens": 100.0, "output_tokens": 100.0}
        return readings(
            variant("v", current_replicas=3),
            replicas=replicas("v", ".1/0, .1/0, .1/0", **sized),
            **{"throughput": told_so, **more},
        )

    return build


def fixed(readings: UpstreamReadings, **more: Any) -> list[int]:
    (answer,) = reproduce_tokens([readings], **more)
    return list((answer.requirements[0].fixed or {}).values())


def test_without_settings_only_tokens_vote(calm: Callable[..., UpstreamReadings]) -> None:
    assert fixed(calm()) == [1]
    assert fixed(calm(analyzers=(AnalyzerSettings(name="saturation"),))) == [1]
    assert fixed(calm(**both(is_enabled=False))) == [1]


def test_either_analyzer_may_ask_and_both_must_agree_to_less(calm: Callable[..., UpstreamReadings]) -> None:
    # 6000 tokens a second, and a replica makes 2267: 6000 / 0.85 is 3.1 replicas.
    assert fixed(calm(60.0, **both())) == [4]
    assert fixed(calm(45.0, **both())) == [3]
    assert fixed(calm(20.0, **both())) == [2]
    assert fixed(calm(1.0, **both())) == [1]
    # Without arrivals what is decoded counts: 6500 tokens a second.
    assert fixed(calm(None, **both())) == [4]


def test_an_analyzer_may_have_thresholds_of_its_own(calm: Callable[..., UpstreamReadings]) -> None:
    assert fixed(calm(60.0, **both(scale_up=1.0))) == [3]
    assert fixed(calm(45.0, **both(scale_down=0.84))) == [3]
    assert fixed(calm(30.0, **both(scale_down=0.2))) == [3]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scale_up": 0.6, "scale_down": 0.7}, "scale_down 0.7 is not below scale_up 0.6"),
        ({"scale_up": math.nan}, "scale_up is nan"),
        ({"scale_down": -1.0}, "scale_down is -1"),
        ({"score": math.inf}, "score is inf"),
    ],
)
def test_settings_that_make_no_sense_are_named_and_left_out(
    calm: Callable[..., UpstreamReadings], settings: dict[str, float], words: str
) -> None:
    odd = calm(60.0, **both(**settings))

    assert fixed(odd) == [4]
    assert any(words in finding for finding in reproduce_tokens([odd])[0].findings)


def test_analyzers_that_are_unknown_or_listed_twice_are_named(calm: Callable[..., UpstreamReadings]) -> None:
    names = ("oracle", "throughput", "throughput")
    odd = calm(60.0, analyzers=tuple(AnalyzerSettings(name=name) for name in names))

    (answer,) = reproduce_tokens([odd])

    assert fixed(odd) == [4]
    assert ["'oracle' is not known" in answer.findings[0], "more than once" in answer.findings[1]] == [True, True]


def test_throughput_alone_decides_where_saturation_is_disabled(calm: Callable[..., UpstreamReadings]) -> None:
    silenced = (AnalyzerSettings(name="saturation", is_enabled=False), AnalyzerSettings(name="throughput"))

    assert fixed(calm(20.0, analyzers=silenced)) == [2]
    assert fixed(calm(20.0, analyzers=silenced, throughput=None)) == [3]


def test_in_a_fair_share_an_ask_of_throughput_counts(calm: Callable[..., UpstreamReadings]) -> None:
    assert fixed(calm(120.0, **both()), budget=DeviceBudget({"A100": 2})) == [5]


def test_every_number_of_the_vote_is_told(calm: Callable[..., UpstreamReadings]) -> None:
    (answer,) = reproduce_tokens([calm(60.0, **both())])
    figures = {(figure.subject, figure.name): figure for figure in answer.figures}

    assert figures["both", "demand"].unit == "tokens"
    assert figures["both", "demand by throughput"].value == pytest.approx(6000)
    assert figures["both", "demand by throughput"].unit == "tokens/s"
    assert figures["chat/v", "throughput of a full replica"].value == pytest.approx(FULL_PER_S)
    assert figures["chat/v", "longer step when full"].reason == "T1-ols"
