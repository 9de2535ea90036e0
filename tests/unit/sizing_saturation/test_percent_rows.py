"""Upstream's published cases of the first analyzer: signals and targets."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics
from reconciler.sizing.saturation_readings import VariantFacts, layer_thresholds
from reconciler.upstream.wva_analyzers import PercentAnalysis, TransitionTest, analyze_percent, percent_targets

Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Variant = Callable[..., VariantFacts]
Key = Callable[..., ResourceKey]
THRESHOLDS = layer_thresholds().thresholds

SIGNALS = [
    pytest.param(".75/2, .76/2", 2, 0.045, 3.0, True, False, id="S1"),
    pytest.param(".70/2, .75/2", 2, 0.075, 3.0, True, False, id="S5"),
    pytest.param(".50/2", 1, 0.30, 3.0, False, False, id="S6"),
    pytest.param(".70/2, .75/3, .60/1, .65/2", 4, 0.125, 3.0, False, False, id="S7"),
    pytest.param(".85/2, .50/6, .60/2", 1, 0.20, 3.0, False, False, id="S9"),
    pytest.param(".85/2, .50/6, .90/7", 0, 0.0, 0.0, True, False, id="S10"),
    pytest.param(".65/1, .76/1", 2, 0.095, 4.0, True, False, id="S12"),
    pytest.param(".30/0, .30/0", 2, 0.50, 5.0, False, True, id="S13"),
]


@pytest.mark.parametrize(("loads", "num_open", "kv_spare", "waiting_spare", "up", "safe"), SIGNALS)
def test_percent_gives_upstream_signals(
    replicas: Replicas, loads: str, num_open: int, kv_spare: float, waiting_spare: float, up: bool, safe: bool
) -> None:
    analysis = analyze_percent(replicas("v", loads), THRESHOLDS)

    assert analysis.num_open == num_open
    assert analysis.kv_spare == pytest.approx(kv_spare)
    assert analysis.waiting_spare == pytest.approx(waiting_spare)
    assert (analysis.scales_up, analysis.is_removal_safe) == (up, safe)


def test_percent_names_the_saturated_replicas_and_the_trigger(replicas: Replicas) -> None:
    assert analyze_percent(replicas("v", ".85/2, .50/6, .60/2"), THRESHOLDS).saturated == ("v-0", "v-1")
    assert analyze_percent(replicas("v", ".75/2, .76/2"), THRESHOLDS).reason == "spare KV cache 0.045 is below 0.100"


def test_removing_an_idle_replica_leaves_a_spare_that_is_told(replicas: Replicas) -> None:
    assert analyze_percent(replicas("v", ".30/0, .30/0"), THRESHOLDS).kv_spare_after_removal == pytest.approx(0.20)


@pytest.mark.parametrize(
    ("loads", "mean", "largest"),
    [
        pytest.param(".30/0, .60/0, .90/0", 0.60, 0.90, id="S15"),
        pytest.param(".85/0, .40/0, .55/0", 0.60, 0.85, id="S16"),
    ],
)
def test_usage_of_a_variant_is_mean_and_largest(
    replicas: Replicas, key: Key, loads: str, mean: float, largest: float
) -> None:
    usage = analyze_percent(replicas("v", loads), THRESHOLDS).usage[key("v")]

    assert usage.mean == pytest.approx(mean)
    assert usage.largest == largest


def signals(*, up: bool = False, safe: bool = False, reporting: int = 6) -> PercentAnalysis:
    return PercentAnalysis(
        num_reporting=reporting,
        num_open=reporting,
        saturated=(),
        kv_spare=0.0,
        waiting_spare=0.0,
        kv_spare_after_removal=None,
        waiting_spare_after_removal=None,
        scales_up=up,
        is_removal_safe=safe,
        usage={},
        reason="",
    )


TARGETS = [
    pytest.param(
        {"safe": True},
        {"a": (20, 2), "b": (10, 2), "c": (5, 2)},
        {"a": 1, "b": 2, "c": 2},
        id="S21",
    ),
    pytest.param({"up": True}, {"v1": (20, 2, {"desired_replicas": 4}), "v2": (5, 2)}, {"v1": 4, "v2": 2}, id="S22"),
    pytest.param({"up": True}, {"v1": (10, 3, {"pending_replicas": 1}), "v2": (20, 2)}, {"v1": 3, "v2": 2}, id="S23"),
    pytest.param({"up": True}, {"a": (10, 1), "b": (10, 1)}, {"a": 2, "b": 1}, id="S25"),
    pytest.param({"safe": True}, {"a": (10, 2), "b": (10, 2)}, {"a": 2, "b": 1}, id="S26"),
    pytest.param({"up": True}, {"a": (5, 2, {"max_replicas": 2}), "b": (10, 2)}, {"a": 2, "b": 2}, id="S28"),
    pytest.param({"reporting": 0, "up": True}, {"a": (5, 2), "b": (10, 3)}, {"a": 2, "b": 3}, id="S29"),
    pytest.param({"up": True}, {}, {}, id="S29-no-variants"),
    pytest.param({}, {"a": (5, 1, {"min_replicas": 3})}, {"a": 3}, id="S30"),
]


@pytest.mark.parametrize(("said", "fleet", "expected"), TARGETS)
def test_percent_gives_upstream_targets(
    variant: Variant, key: Key, said: dict[str, bool], fleet: dict[str, tuple[float, int]], expected: dict[str, int]
) -> None:
    variants = [
        variant(name, cost=numbers[0], current_replicas=numbers[1], **dict(*numbers[2:]))
        for name, numbers in fleet.items()
    ]
    reporting = {each.key: each.current_replicas for each in variants}

    targets = percent_targets(signals(**said), variants, reporting)

    assert targets.replicas == {key(name): count for name, count in expected.items()}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param(TransitionTest.PENDING, 2, id="S24-v0.8"),
        pytest.param(TransitionTest.REPORTING, 1, id="S24-v0.5"),
    ],
)
def test_a_group_of_two_pods_is_stuck_in_old_releases_only(
    variant: Variant, key: Key, test: TransitionTest, expected: int
) -> None:
    targets = percent_targets(signals(up=True), [variant("lws")], {key("lws"): 2}, transition_test=test)

    assert targets.replicas == {key("lws"): expected}
