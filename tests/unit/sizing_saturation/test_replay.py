"""What is remembered follows from the replicas' history, tick by tick."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Trace
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation_memory import replay_bounds, replay_capacities
from reconciler.sizing.saturation_readings import (
    BoundHistory,
    Origin,
    StoredCapacity,
    VariantFacts,
    WorkloadKey,
    layer_thresholds,
    replica_tokens,
)
from tests.histories import arrays

Variant = Callable[..., VariantFacts]
Key = Callable[..., ResourceKey]

THRESHOLDS = layer_thresholds().thresholds
KV_TOKENS = 16000.0
MEDIUM = WorkloadKey(accelerator="A100", devices=1, bucket="medium")
SHORT = WorkloadKey(accelerator="A100", devices=1, bucket="short")


def trace_of(
    key: Key,
    usage: Sequence[float],
    waiting: Sequence[float],
    outputs: Sequence[float] | None = None,
    *,
    pod: str = "v-0",
    variant: str = "v",
    start_s: float = 0.0,
) -> Trace:
    series = {"kv_cache_usage": tuple(usage), "num_waiting": tuple(waiting), "input_tokens": (100.0,) * len(usage)}
    if outputs is None or outputs:
        series["output_tokens"] = tuple(outputs or (200.0,) * len(usage))
    return Trace(pod=pod, variant=key(variant), start_s=start_s, step_s=15.0, series=arrays(series))


def replayed(traces: Sequence[Trace], *variants: VariantFacts, **more: Any) -> BoundHistory:
    kv_tokens = more.pop("kv_tokens", {"v-0": KV_TOKENS, "v-1": KV_TOKENS})
    return replay_bounds(traces, kv_tokens, variants, THRESHOLDS, **more)


def test_every_tick_with_a_full_queue_is_remembered_and_no_other(variant: Variant, key: Key) -> None:
    trace = trace_of(key, [0.1, 0.5, 0.25, 0.0], [5, 4.9, 6, 9])

    assert replayed([trace], variant("v")) == {MEDIUM: (1600, 4000)}


def test_the_newest_ten_of_all_replicas_stay(variant: Variant, key: Key) -> None:
    first = trace_of(key, [0.01 * index for index in range(1, 9)], [9] * 8)
    second = trace_of(key, [0.5] * 8, [9] * 8, pod="v-1", start_s=7.5)

    bounds = replayed([second, first], variant("v"))[MEDIUM]

    assert bounds == (640, 8000, 800, 8000, 960, 8000, 1120, 8000, 1280, 8000)


def test_variants_on_the_same_devices_share_what_is_remembered(variant: Variant, key: Key) -> None:
    traces = [trace_of(key, [0.5], [9]), trace_of(key, [0.25], [9], pod="v-1", variant="w")]

    assert replayed(traces, variant("v"), variant("w")) == {MEDIUM: (8000, 4000)}
    assert len(replayed(traces, variant("v"), variant("w", accelerator="H100"))) == 2


def test_a_replay_is_what_a_controller_would_have_remembered(variant: Variant, key: Key) -> None:
    own, usage, waiting = variant("v"), [0.1, 0.6, 0.4, 0.7], [9, 9, 1, 6]
    history: dict[WorkloadKey, tuple[float, ...]] = {}
    for used, queued in zip(usage, waiting, strict=True):
        replica = ReplicaMetrics(
            pod="v-0",
            variant=own.key,
            kv_cache_usage=used,
            num_waiting=float(queued),
            output_tokens=200.0,
            total_kv_tokens=KV_TOKENS,
        )
        tokens = replica_tokens(replica, own, THRESHOLDS, history)
        assert tokens is not None
        if tokens.origin is Origin.OBSERVED and tokens.compute_bound_tokens is not None:
            history[MEDIUM] = (*history.get(MEDIUM, ()), tokens.compute_bound_tokens)

    assert replayed([trace_of(key, usage, waiting)], own) == history


def test_a_pod_that_is_gone_had_as_large_a_cache_as_the_others(variant: Variant, key: Key) -> None:
    gone = trace_of(key, [0.5], [9], pod="gone")
    there = trace_of(key, [0.1], [0])

    assert replayed([gone, there], variant("v")) == {MEDIUM: (8000,)}
    assert replayed([gone], variant("v")) == {}


def test_lengths_that_are_missing_are_none_upstream_and_the_last_known_otherwise(variant: Variant, key: Key) -> None:
    trace = trace_of(key, [0.5, 0.25], [9, 9], [200.0, math.nan])

    assert replayed([trace], variant("v")) == {MEDIUM: (8000,), SHORT: (4000,)}
    assert replayed([trace], variant("v"), corrects_history=True) == {MEDIUM: (8000, 4000)}
    nothing = trace_of(key, [0.5], [9], ())
    assert replayed([nothing], variant("v")) == {SHORT: (8000,)}


# Queues fill while a replica warms up; then it holds more, first with a queue, then without.
RAMP = [0.05, 0.10, 0.20, 0.50], [9, 9, 9, 0]


def test_what_a_ramp_up_showed_is_forgotten_once_it_is_exceeded(variant: Variant, key: Key) -> None:
    trace = trace_of(key, *RAMP)

    assert replayed([trace], variant("v")) == {MEDIUM: (800, 1600, 3200)}
    assert replayed([trace], variant("v"), corrects_history=True) == {}


def test_readings_of_one_plateau_do_not_make_each_other_forgotten(variant: Variant, key: Key) -> None:
    plateau = trace_of(key, [0.50, 0.52, 0.48, 0.52], [9, 9, 9, 0])

    assert replayed([plateau], variant("v"), corrects_history=True) == {MEDIUM: (8000, 8320, 7680)}


def test_a_bound_that_holds_is_remembered_for_good(variant: Variant, key: Key) -> None:
    """Prompts that take long fill the queue while the cache is nearly empty, and it stays so."""
    busy = trace_of(key, [0.16, 0.15, 0.16, 0.05], [9, 9, 9, 0])

    assert replayed([busy], variant("v"), corrects_history=True) == {MEDIUM: (2560, 2400, 2560)}


def test_a_variant_keeps_what_it_held_when_it_was_last_seen(variant: Variant, key: Key) -> None:
    asleep = variant("v", current_replicas=0)
    traces = [trace_of(key, [0.5, 0.6], [0, 0]), trace_of(key, [0.1], [0], pod="v-1")]

    stored = replay_capacities(traces, {"v-0": 16000.0, "v-1": 8000.0}, [asleep, variant("w")], THRESHOLDS, {})

    assert stored == {key("v"): StoredCapacity(capacity_tokens=12800, total_kv_tokens=16000)}


def test_what_it_held_is_bound_by_what_is_remembered_and_by_how_it_was_launched(variant: Variant, key: Key) -> None:
    launched = variant("v", launch=LaunchSettings(max_batched_tokens=8192, max_num_seqs=16))
    trace = trace_of(key, [0.5], [0])

    derived = replay_capacities([trace], {"v-0": 16000.0}, [launched], THRESHOLDS, {})
    remembered = replay_capacities([trace], {"v-0": 16000.0}, [launched], THRESHOLDS, {MEDIUM: (5000.0,)})

    assert derived[key("v")].capacity_tokens == 16 * (100 + 200 / 2)
    assert remembered[key("v")].capacity_tokens == 5000


HOSTILE = st.floats() | st.sampled_from([0.5, 9.0, 200.0, math.nan, math.inf, -1.0, 1e308])
SERIES = st.dictionaries(
    st.sampled_from(["kv_cache_usage", "num_waiting", "input_tokens", "output_tokens", "itl"]),
    st.lists(HOSTILE, max_size=12).map(tuple),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["v-0", "v-1", "x"]), HOSTILE, HOSTILE, SERIES), max_size=4),
    st.dictionaries(st.sampled_from(["v-0", "v-1"]), HOSTILE),
    st.booleans(),
)
def test_whatever_a_trace_says_something_sensible_is_remembered(
    variant: Variant,
    key: Key,
    rows: list[tuple[str, float, float, dict[str, tuple[float, ...]]]],
    kv_tokens: dict[str, float],
    corrects: bool,
) -> None:
    traces = [
        Trace(pod=pod, variant=key("x" if pod == "x" else "v"), start_s=start_s, step_s=step_s, series=arrays(series))
        for pod, start_s, step_s, series in rows
    ]

    history = replay_bounds(traces, kv_tokens, [variant("v")], THRESHOLDS, corrects_history=corrects)
    stored = replay_capacities(traces, kv_tokens, [variant("v")], THRESHOLDS, history)

    for bounds in history.values():
        assert 0 < len(bounds) <= 10
        assert all(math.isfinite(bound) and bound > 0 for bound in bounds)
    for capacity in stored.values():
        assert capacity.capacity_tokens is not None
        assert math.isfinite(capacity.capacity_tokens)


@pytest.mark.parametrize("corrects", [False, True])
def test_the_order_of_traces_does_not_matter(variant: Variant, key: Key, corrects: bool) -> None:
    traces = [trace_of(key, *RAMP), trace_of(key, [0.3, 0.1, 0.6, 0.2], [9, 9, 0, 9], pod="v-1")]

    assert replayed(traces, variant("v"), corrects_history=corrects) == replayed(
        traces[::-1], variant("v"), corrects_history=corrects
    )
