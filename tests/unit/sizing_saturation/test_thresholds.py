"""Thresholds come from layers, say where from, and are never out of range."""

import math
from typing import Any

import pytest

from reconciler.domain.identity import Source, SourceKind
from reconciler.domain.settings import ThresholdLayer
from reconciler.sizing.saturation_readings import layer_thresholds


def layer(kind: SourceKind = SourceKind.CONFIG_MAP, **values: Any) -> ThresholdLayer:
    return ThresholdLayer(source=Source(kind=kind), **values)


def test_the_built_in_thresholds_are_upstreams() -> None:
    thresholds = layer_thresholds().thresholds

    assert thresholds.kv_cache_usage.value == 0.80
    assert thresholds.num_waiting.value == 5
    assert (thresholds.kv_spare.value, thresholds.waiting_spare.value) == (0.10, 3)
    assert (thresholds.scale_up.value, thresholds.scale_down.value) == (0.85, 0.70)
    assert thresholds.priority.value == 1.0
    assert thresholds.scale_up.source.kind is SourceKind.BUILT_IN


def test_the_highest_layer_wins_field_by_field_and_keeps_what_it_displaced() -> None:
    layered = layer_thresholds(
        [layer(SourceKind.MODEL, num_waiting=10.0), layer(num_waiting=7.0, kv_spare=0.05)],
    )

    waiting = layered.thresholds.num_waiting
    assert (waiting.value, waiting.source.kind) == (10, SourceKind.MODEL)
    assert [each.value for each in waiting.displaced] == [7, 5]
    assert layered.thresholds.kv_spare.value == 0.05
    assert layered.findings == ()


@pytest.mark.parametrize(
    "values",
    [
        {"kv_cache_usage": 0.0},
        {"kv_cache_usage": 1.1},
        {"num_waiting": -1.0},
        {"kv_spare": math.nan},
        {"waiting_spare": math.inf},
        {"scale_up": 1.5},
        {"priority": -1.0},
        {"kv_cache_usage": 0.2, "kv_spare": 0.3},
    ],
)
def test_a_layer_with_a_value_out_of_range_is_left_out_and_named(values: dict[str, float]) -> None:
    broken: dict[str, Any] = {"priority": 7.0, **values}

    layered = layer_thresholds([layer(**broken)])

    assert layered.thresholds == layer_thresholds().thresholds
    assert len(layered.findings) == 1
    assert "left out" in layered.findings[0]


@pytest.mark.parametrize(("up", "down"), [(0.6, 0.7), (0.7, 0.7)])
def test_an_inverted_pair_falls_back_to_the_built_in_one(up: float, down: float) -> None:
    layered = layer_thresholds([layer(scale_up=up), layer(scale_down=down, num_waiting=9.0)])

    assert (layered.thresholds.scale_up.value, layered.thresholds.scale_down.value) == (0.85, 0.70)
    assert layered.thresholds.num_waiting.value == 9
    assert len(layered.findings) == 1


def test_thresholds_that_leave_no_room_hold_and_raise_nothing() -> None:
    layered = layer_thresholds([layer(kv_cache_usage=0.5, kv_spare=0.5)])

    assert layered.findings == ()
