"""What is missing, NaN or stale never costs a replica: each datum of a model, present and absent, side by side."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.observed import ReplicaMetrics, Role, UpstreamQueue
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation import ModelReadings, ZeroRule, size_saturation
from reconciler.sizing.saturation_readings import StoredCapacity, VariantFacts, WorkloadKey

Variant = Callable[..., VariantFacts]
Readings = Callable[..., ModelReadings]
Key = Callable[..., Any]

FIELDS = ("kv_cache_usage", "num_waiting", "input_tokens", "output_tokens", "total_kv_tokens", "prefix_hit_rate")
NOTHING = (None, math.nan, math.inf, -math.inf, -1.0)
RECORD = StoredCapacity(total_kv_tokens=12500.0)


def decided(readings: ModelReadings) -> int:
    """The fewest replicas of the model's one variant that the answer allows."""
    answer = size_saturation(readings)
    (variant,) = readings.variants
    if variant.key in answer.held:
        return variant.current_replicas
    (requirement,) = answer.requirements
    (carried,) = requirement.per_replica.values()
    needed = math.ceil(requirement.amount / carried * (1 - 1e-9))
    return max(needed, answer.floors.get(variant.key, 0))


@st.composite
def whole_replica(draw: st.DrawFn, key: Key, index: int) -> ReplicaMetrics:
    """One that says everything; a replica that does nothing has no request to tell the lengths of."""
    usage, waiting = draw(st.sampled_from([0.0, 0.1, 0.3, 0.6, 0.9])), draw(st.sampled_from([0.0, 1.0, 4.0, 6.0]))
    is_idle = usage == waiting == 0
    return ReplicaMetrics(
        pod=f"v-{index}",
        variant=key("v"),
        kv_cache_usage=usage,
        num_waiting=waiting,
        input_tokens=None if is_idle else draw(st.sampled_from([50.0, 500.0, 4000.0])),
        output_tokens=None if is_idle else draw(st.sampled_from([20.0, 200.0, 900.0])),
        total_kv_tokens=12500.0,
        prefix_hit_rate=draw(st.sampled_from([0.0, 0.5])),
    )


@st.composite
def whole_readings(draw: st.DrawFn, variant: Variant, readings: Readings, key: Key) -> ModelReadings:
    """One variant of which everything is known, its last KV cache included."""
    count = draw(st.integers(1, 5))
    launch = draw(st.sampled_from([None, LaunchSettings(max_batched_tokens=2048, max_num_seqs=16)]))
    own = variant("v", current_replicas=count, stored=RECORD, role=draw(st.sampled_from(Role)), launch=launch)
    replicas = tuple(draw(whole_replica(key, index)) for index in range(count))
    queue = draw(
        st.sampled_from(
            [
                UpstreamQueue(num_waiting=0.0, waiting_bytes=0.0),
                UpstreamQueue(num_waiting=3.0, waiting_bytes=300.0),
                UpstreamQueue(num_waiting=3.0, waiting_bytes=40_000.0),
            ]
        )
    )
    rule = ZeroRule(is_enabled=draw(st.booleans()), requests=draw(st.sampled_from([0.0, 5.0])))
    keys = [WorkloadKey(accelerator="A100", devices=1, bucket=bucket) for bucket in ("short", "medium", "long")]
    history = {each: (draw(st.sampled_from([1500.0, 6000.0])),) for each in keys if draw(st.booleans())}
    return readings(own, replicas=replicas, queue=queue, zero_rule=rule, history=history)


def without(draw: Callable[..., Any], whole: ModelReadings) -> ModelReadings:
    """The same readings with one datum gone: of one replica or of all, of the queue, or of the zero rule."""
    nothing = draw(st.sampled_from(NOTHING))
    kind = draw(st.sampled_from(["one", "all", "replica", "replicas", "queue", "bytes", "requests"]))
    if kind in ("one", "all"):
        lost: dict[str, Any] = {draw(st.sampled_from(FIELDS)): nothing}
        chosen = range(len(whole.replicas)) if kind == "all" else [draw(st.integers(0, len(whole.replicas) - 1))]
        replicas = [replace(each, **lost) if index in chosen else each for index, each in enumerate(whole.replicas)]
        return replace(whole, replicas=tuple(replicas))
    if kind in ("replica", "replicas"):
        return replace(whole, replicas=whole.replicas[1:] if kind == "replica" else ())
    if kind == "requests":
        return replace(whole, zero_rule=replace(whole.zero_rule, requests=nothing))
    assert whole.queue is not None
    broken: dict[str, Any] = {"num_waiting" if kind == "queue" else "waiting_bytes": nothing}
    return replace(whole, queue=replace(whole.queue, **broken))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_an_absent_datum_never_makes_the_answer_smaller(
    variant: Variant, readings: Readings, key: Key, data: st.DataObject
) -> None:
    whole = data.draw(whole_readings(variant, readings, key))
    partial = without(data.draw, whole)
    current = whole.variants[0].current_replicas

    assert decided(partial) >= min(decided(whole), current)


@settings(deadline=None)
@given(st.data())
def test_what_every_replica_lost_at_once_still_holds(
    variant: Variant, readings: Readings, key: Key, data: st.DataObject
) -> None:
    whole = data.draw(whole_readings(variant, readings, key))
    name = data.draw(st.sampled_from(["kv_cache_usage", "num_waiting", "total_kv_tokens"]))
    nothing: dict[str, Any] = {name: None}
    blind = replace(whole, replicas=tuple(replace(each, **nothing) for each in whole.replicas))

    assert decided(blind) >= whole.variants[0].current_replicas
    assert all(size_saturation(blind).reasons.values())


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("nothing", NOTHING)
def test_a_number_that_is_none_is_told_or_unreported(
    variant: Variant, readings: Readings, key: Key, name: str, nothing: float | None
) -> None:
    broken: dict[str, Any] = {name: nothing}
    (answered,) = [
        size_saturation(
            readings(
                variant("v"),
                replicas=(
                    replace(
                        ReplicaMetrics(
                            pod="v-0",
                            variant=key("v"),
                            kv_cache_usage=0.3,
                            num_waiting=1.0,
                            input_tokens=100.0,
                            output_tokens=100.0,
                            total_kv_tokens=12500.0,
                        ),
                        **broken,
                    ),
                ),
            )
        )
    ]

    assert bool(answered.findings) is (nothing is not None)
    assert all(answered.reasons.values())


@pytest.mark.parametrize("silent", [0, 1, 4, 9, 10])
def test_replicas_whose_output_lengths_are_missing_stay(
    variant: Variant, readings: Readings, key: Key, silent: int
) -> None:
    """Ten replicas at 78 % of their derived bound, in a large KV cache, of which some do not report their outputs."""
    launch = LaunchSettings(max_batched_tokens=8192, max_num_seqs=64)
    held = 64 * (1000 + 200 / 2)
    replicas = tuple(
        ReplicaMetrics(
            pod=f"v-{index}",
            variant=key("v"),
            kv_cache_usage=0.78 * held / 500_000,
            num_waiting=0.0,
            input_tokens=1000.0,
            output_tokens=None if index < silent else 200.0,
            total_kv_tokens=500_000.0,
        )
        for index in range(10)
    )

    assert decided(readings(variant("v", current_replicas=10, launch=launch), replicas=replicas)) == 10


def test_a_replica_of_unknown_output_length_holds_no_more_than_the_smallest_known_bound(
    variant: Variant, readings: Readings, key: Key
) -> None:
    own = variant("v", current_replicas=2)
    history = {
        WorkloadKey(accelerator=accelerator, devices=1, bucket=bucket): (tokens,)
        for accelerator, bucket, tokens in (("A100", "short", 9000.0), ("A100", "long", 4000.0), ("H100", "long", 10.0))
    }
    loaded = ReplicaMetrics(
        pod="v-0",
        variant=key("v"),
        kv_cache_usage=0.2,
        num_waiting=0.0,
        input_tokens=100.0,
        output_tokens=50.0,
        total_kv_tokens=12500.0,
    )
    unknown = replace(loaded, output_tokens=None)

    def capacity(*replicas: ReplicaMetrics) -> float | None:
        asked = readings(own, replicas=tuple(replace(each, pod=f"v-{i}") for i, each in enumerate(replicas)))
        (requirement,) = size_saturation(replace(asked, history=history)).requirements
        return next(iter(requirement.per_replica.values()))

    assert capacity(loaded, loaded) == 9000.0
    assert capacity(unknown, unknown) == 4000.0
    # What it holds right now, it can hold.
    assert capacity(*[replace(unknown, kv_cache_usage=0.5)] * 2) == 6250.0
