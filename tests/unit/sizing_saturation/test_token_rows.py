"""Upstream's published cases of the second analyzer: a replica, a variant, a queue, the threshold step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role, UpstreamQueue
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation import MeanLengths, mean_lengths, queued_tokens, variant_tokens
from reconciler.sizing.saturation_readings import (
    Origin,
    ReplicaTokens,
    StoredCapacity,
    VariantFacts,
    derived_bound,
    layer_thresholds,
    replica_tokens,
    waiting_tokens,
    workload_of,
)
from reconciler.upstream.wva_analyzers import is_live, signal_of, token_ballot

Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Variant = Callable[..., VariantFacts]
Key = Callable[..., ResourceKey]
THRESHOLDS = layer_thresholds().thresholds


def in_tokens(replica: ReplicaMetrics, variant: VariantFacts, history: Any = None) -> ReplicaTokens:
    tokens = replica_tokens(replica, variant, THRESHOLDS, history or {})
    assert tokens is not None
    return tokens


def test_t2_a_full_queue_shows_the_compute_bound_and_t4_it_is_remembered(replicas: Replicas, variant: Variant) -> None:
    full, later = replicas("v", ".5/6, .375/2", total_kv_tokens=16000.0, output_tokens=50.0)
    first = in_tokens(full, variant())
    assert (first.capacity_tokens, first.origin) == (8000, Origin.OBSERVED)

    second = in_tokens(later, variant(), {workload_of(variant(), 50.0): (8000.0,)})

    assert (second.capacity_tokens, second.origin) == (8000, Origin.HISTORY)


def test_t6_launch_settings_derive_a_bound_that_memory_still_limits(replicas: Replicas, variant: Variant) -> None:
    launch = LaunchSettings(max_batched_tokens=2048, max_num_seqs=256)
    (replica,) = replicas("v", ".1/0", total_kv_tokens=16000.0, input_tokens=500.0, output_tokens=100.0)

    tokens = in_tokens(replica, variant(launch=launch))

    assert (tokens.compute_bound_tokens, tokens.capacity_tokens) == (140_800, 12_800)


@pytest.mark.parametrize(
    ("batched", "sequences", "inputs", "outputs", "expected"),
    [
        pytest.param(2048, 256, 500, 100, 140_800, id="T6"),
        pytest.param(8192, 64, 100, 200, 12_800, id="T8"),
        pytest.param(8192, 64, 100, 0, 0, id="T9"),
    ],
)
def test_derived_bounds_are_upstreams(batched: int, sequences: int, inputs: int, outputs: int, expected: int) -> None:
    launch = LaunchSettings(max_batched_tokens=batched, max_num_seqs=sequences)

    assert derived_bound(launch, input_tokens=inputs, output_tokens=outputs) == expected


DEPLOYED = LaunchSettings(max_batched_tokens=8192, max_num_seqs=256)
ASLEEP = [
    pytest.param({"stored": StoredCapacity(capacity_tokens=12000.0)}, {}, 12_000, id="T10"),
    pytest.param({"launch": DEPLOYED}, {"accelerator": "H100"}, 140_800, id="T11"),
    pytest.param(
        {"launch": DEPLOYED}, {"launch": DEPLOYED, "stored": StoredCapacity(capacity_tokens=40000.0)}, 40_000, id="T12"
    ),
    pytest.param(
        {"launch": DEPLOYED, "stored": StoredCapacity(total_kv_tokens=30000.0)},
        {"accelerator": "H100"},
        24_000,
        id="T13",
    ),
]


@pytest.mark.parametrize(("asleep", "other", "expected"), ASLEEP)
def test_a_variant_at_zero_has_the_capacity_that_is_remembered_of_it(
    variant: Variant, asleep: dict[str, Any], other: dict[str, Any], expected: float
) -> None:
    variants = [variant("asleep", current_replicas=0, **asleep), variant("other", **other)]
    lengths = MeanLengths(input_tokens=500.0, output_tokens=100.0)

    described = variant_tokens(variants, {}, lengths, THRESHOLDS)

    assert described[0].per_replica_tokens == expected


@pytest.mark.parametrize(
    ("use", "waiting", "queued_bytes", "hit", "expected"),
    [
        pytest.param(0.5, 10, 4000, 0.5, {"both": 6000}, id="T15"),
        pytest.param(0.5, 10, 20000, 0.0, {"both": 10_500}, id="T16"),
        pytest.param(0.0, 10, 0, 0.0, {"both": 1500, "prefill": 1000, "decode": 1500}, id="T17"),
        pytest.param(0.0, 10, 0, 0.5, {"both": 1000, "prefill": 500, "decode": 1000}, id="T18"),
    ],
)
def test_upstream_queues_ask_as_upstream_says(
    replicas: Replicas,
    variant: Variant,
    key: Key,
    use: float,
    waiting: float,
    queued_bytes: float,
    hit: float,
    expected: dict[str, float],
) -> None:
    (replica,) = replicas(
        "v", f"{use}/0", total_kv_tokens=10000.0, input_tokens=100.0, output_tokens=50.0, prefix_hit_rate=hit
    )
    lengths = mean_lengths([replica], MeanLengths())
    queued = queued_tokens(UpstreamQueue(num_waiting=waiting, waiting_bytes=queued_bytes), lengths)
    for role, demand in expected.items():
        own = variant(role=Role(role))
        described = variant_tokens([own], {key("v"): [in_tokens(replica, own)]}, lengths, THRESHOLDS)

        ballot = token_ballot(described, queued, scale_up=0.85, scale_down=0.7)

        assert ballot.signals[Role(role)].demand == demand


RECORDED = [
    pytest.param(".6/0", "both", {}, 4800, False, id="T20"),
    pytest.param("1.0/0", "both", {}, 8000, True, id="T21"),
    pytest.param(".9/0", "both", {}, 7200, False, id="T22"),
    pytest.param(".5/3", "both", {"input_tokens": 500.0}, 5500, False, id="T23"),
    pytest.param(".5/3", "decode", {"input_tokens": 500.0, "output_tokens": 250.0}, 6250, False, id="T24"),
]


@pytest.mark.parametrize(("load", "role", "lengths", "demand", "saturated"), RECORDED)
def test_a_record_speaks_for_a_replica_without_cache_configuration(
    replicas: Replicas, variant: Variant, load: str, role: str, lengths: dict[str, float], demand: int, saturated: bool
) -> None:
    own = variant(role=Role(role), stored=StoredCapacity(total_kv_tokens=10000.0))

    tokens = in_tokens(replicas("v", load, **lengths)[0], own)

    assert (tokens.capacity_tokens, tokens.demand_tokens) == (8000, demand)
    assert (tokens.demand_tokens >= tokens.capacity_tokens) is saturated


def test_a_replica_without_cache_configuration_and_record_is_dropped(replicas: Replicas, variant: Variant) -> None:
    assert replica_tokens(replicas("v", ".5/0")[0], variant(), THRESHOLDS, {}) is None


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        pytest.param("prefill", 400, id="T26-prefill"),
        pytest.param("decode", 600, id="T26-decode"),
        pytest.param("both", 600, id="T26-both"),
    ],
)
def test_what_waits_asks_for_what_its_role_will_hold(replicas: Replicas, role: str, expected: float) -> None:
    (replica,) = replicas("v", "0/4", input_tokens=100.0, output_tokens=50.0)

    assert waiting_tokens(replica, Role(role)) == expected


def test_t27_prefill_and_decode_demands_add_up(replicas: Replicas, variant: Variant) -> None:
    (replica,) = replicas("v", ".1/4", total_kv_tokens=10000.0, input_tokens=100.0, output_tokens=50.0)

    demands = [in_tokens(replica, variant(role=role)).demand_tokens for role in (Role.PREFILL, Role.DECODE)]

    assert demands == [1400, 1600]
    assert sum(demands) == 3000


def test_t29_pending_replicas_count_all_their_ranks(replicas: Replicas, variant: Variant, key: Key) -> None:
    (rank,) = replicas("v", ".1/0", total_kv_tokens=10000.0)
    ranks = [replace(rank, instance=str(index)) for index in range(2)]
    own = variant(current_replicas=2, pending_replicas=1)

    (described,) = variant_tokens(
        [own], {key("v"): [in_tokens(each, own) for each in ranks]}, MeanLengths(), THRESHOLDS
    )

    assert (described.instances, described.pending_instances) == (2, 2)
    assert described.per_replica_tokens == 16000


@pytest.mark.parametrize(
    ("demand", "supply", "anticipated", "required", "spare"),
    [
        pytest.param(5000, 10000, 10000, 0, 2857.1, id="U2"),
        pytest.param(8000, 10000, 10000, 0, 0, id="U3"),
        pytest.param(7000, 10000, 10000, 0, 0, id="U5"),
        pytest.param(8000, 7000, 10000, 0, 0, id="U6"),
    ],
)
def test_the_threshold_step_is_upstreams(
    demand: float, supply: float, anticipated: float, required: float, spare: float
) -> None:
    signal = signal_of(demand=demand, supply=supply, anticipated=anticipated, scale_up=0.85, scale_down=0.70)

    assert signal.required == pytest.approx(required, abs=0.05)
    assert signal.spare == pytest.approx(spare, abs=0.05)


@pytest.mark.parametrize(
    ("age_s", "live"), [pytest.param(89.0, True, id="V1"), pytest.param(95.0, False, id="V2"), (None, False)]
)
def test_an_analyzer_is_live_for_three_periods(age_s: float | None, live: bool) -> None:
    assert is_live(age_s, 30.0) is live
