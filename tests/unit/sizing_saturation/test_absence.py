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
