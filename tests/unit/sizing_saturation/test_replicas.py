"""Nothing that a replica reports is believed before it was looked at."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role, role_of
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation import ModelReadings, size_saturation
from reconciler.sizing.saturation_readings import VariantFacts, obstacle_of, screen

Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Variant = Callable[..., VariantFacts]
Readings = Callable[..., ModelReadings]
Key = Callable[..., ResourceKey]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("num_waiting", math.nan, "nan is not a number"),
        ("num_waiting", -1.0, "-1 is negative"),
        ("kv_cache_usage", 1.5, "1.5 is not a fraction from 0 to 1"),
        ("total_kv_tokens", 1e300, "1e+300 is too large to be counted"),
        ("input_tokens", math.inf, "inf is not a number"),
    ],
)
def test_a_number_that_is_none_becomes_unknown_with_a_reason(
    replicas: Replicas, key: Key, field: str, value: float, words: str
) -> None:
    (good,) = replicas("v", ".5/1")
    broken: dict[str, Any] = {field: value}

    screened = screen([replace(good, **broken)], {key("v")})

    assert getattr(screened.replicas[0], field) is None
    assert screened.replicas[0].reasons == {field: f"{field} {words}"}
    assert screened.findings == (f"v-0: {field} {words}",)


def test_a_pod_that_reports_twice_counts_once_with_its_larger_numbers(replicas: Replicas, key: Key) -> None:
    (first,) = replicas("v", ".5/-")
    again = replace(first, kv_cache_usage=0.4, num_waiting=3.0)

    screened = screen([again, first], {key("v")})

    assert [(each.kv_cache_usage, each.num_waiting) for each in screened.replicas] == [(0.5, 3.0)]
    assert "reports 2 times" in screened.findings[0]


def test_a_pod_of_two_variants_or_of_none_counts_for_none(replicas: Replicas, key: Key) -> None:
    (mine,) = replicas("v", ".5/1")
    disputed = replace(mine, variant=key("w"))
    (stranger,) = replicas("x", ".5/1")

    screened = screen([mine, disputed, stranger], {key("v"), key("w")})

    assert screened.replicas == ()
    assert len(screened.findings) == 2


def test_an_empty_cache_is_no_capacity(replicas: Replicas) -> None:
    (zero,) = replicas("v", ".5/1", num_blocks=0.0, block_tokens=16.0)
    (sized,) = replicas("v", ".5/1", num_blocks=1000.0, block_tokens=16.0)

    assert (zero.kv_tokens, sized.kv_tokens) == (None, 16000)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"current_replicas": -1}, "current replicas is -1"),
        ({"pending_replicas": 10**9}, "pending replicas is 1000000000"),
        ({"cost": math.nan}, "cost is nan"),
        ({"min_replicas": 3, "max_replicas": 2}, "minReplicas 3 is above maxReplicas 2"),
        ({"launch": LaunchSettings(max_num_seqs=-1)}, "a launch setting is negative"),
    ],
)
def test_a_variant_with_a_broken_number_is_held_and_keeps_its_model_from_shrinking(
    variant: Variant, replicas: Replicas, readings: Readings, numbers: dict[str, Any], words: str
) -> None:
    broken, good = variant("broken", **numbers), variant("good", current_replicas=4)

    answer = size_saturation(readings(broken, good, replicas=replicas("good", "0/0, 0/0, 0/0, 0/0")))

    assert obstacle_of(broken).startswith(words)
    assert answer.held[broken.key].startswith(words)
    assert answer.floors == {good.key: 4}


def test_a_variant_declared_twice_is_held(variant: Variant, readings: Readings) -> None:
    twin = variant("v")

    assert size_saturation(readings(twin, replace(twin, cost=3.0))).held == {twin.key: "it is declared more than once"}


def test_roles_are_read_from_the_label() -> None:
    assert [role_of(label) for label in ("prefill", "decode", "leader", "", None)] == [
        Role.PREFILL,
        Role.DECODE,
        Role.BOTH,
        Role.BOTH,
        Role.BOTH,
    ]


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        (LaunchSettings(max_batched_tokens=4096), 4096),
        (LaunchSettings(), 8192),
        (LaunchSettings(is_first_engine=True), 2048),
        (LaunchSettings(is_chunked=False, max_model_tokens=32768), 32768),
        (LaunchSettings(is_chunked=False), 2048),
    ],
)
def test_an_engine_batches_as_it_was_launched(launch: LaunchSettings, expected: int) -> None:
    assert launch.batched_tokens == expected
