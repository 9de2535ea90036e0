"""Readings of instances and of variants, and the reasons of missing ones."""

from typing import Any

import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Observed, ReplicaMetrics
from tests.unit.metrics.fleet import Fleet, look, make_variant

POD = "llama-7c9d8f6b5-bx4zz"
FULL = ("kv_cache_usage", "num_waiting", "prefix_hit_rate", "kv_tokens")


def fleet_with(*, usage: float | str = 0.5, **labels: str) -> Any:
    """One replica that says all of itself."""
    fleet = Fleet().model().pod(POD)
    return full(fleet, usage=usage, **labels)


def full(fleet: Any, *, usage: float | str = 0.5, pod: str = POD, **labels: str) -> Any:
    told = {"pod": pod, "model_name": "llama", **labels}
    fleet.add("kv_cache_usage", usage, **told).add("num_waiting", 3.0, **told).add("prefix_hit_rate", 0.25, **told)
    config = {key: value for key, value in told.items() if key != "model_name"}
    return fleet.add("kv_tokens", 1.0, **{"num_gpu_blocks": "1000", "block_size": "16", **config})


def only(observed: Observed) -> ReplicaMetrics:
    ((replica,),) = observed.replicas.values()
    return replica


def test_a_replica_says_how_full_it_is_and_how_much_it_holds() -> None:
    variant = make_variant("llama")
    assert only(look(fleet_with(), variant)) == ReplicaMetrics(
        pod=POD,
        variant=variant.key,
        kv_cache_usage=0.5,
        num_waiting=3.0,
        num_running=4.0,
        input_tokens=512.0,
        output_tokens=180.0,
        num_blocks=1000.0,
        block_tokens=16.0,
        prefix_hit_rate=0.25,
    )


def test_without_the_question_there_are_no_replicas() -> None:
    observed = look(Fleet().model().pod(POD), make_variant("llama"))
    assert (observed.replicas, observed.queues, observed.ready, observed.requests) == ({}, {}, {}, {})
    assert (observed.stored_kv_tokens, observed.traces) == ({}, {})


def test_data_parallel_ranks_are_instances_of_their_pod() -> None:
    fleet = fleet_with(usage=0.9, engine="1", num_gpu_blocks="500")
    full(fleet, usage=0.1, engine="0")
    ((first, second),) = look(fleet, make_variant("llama")).replicas.values()
    assert [first.label, second.label] == [f"{POD}/0", f"{POD}/1"]
    assert [first.kv_cache_usage, second.kv_cache_usage] == [0.1, 0.9]
    assert [first.kv_tokens, second.kv_tokens] == [16_000.0, 8_000.0]
    assert first.output_tokens == second.output_tokens == 180.0


def test_one_rank_is_the_pod() -> None:
    assert only(look(fleet_with(engine="0"), make_variant("llama"))).label == POD


def test_a_series_without_a_rank_holds_for_each_rank() -> None:
    fleet = Fleet().model().pod(POD)
    for rank in ("0", "1"):
        fleet.add("kv_cache_usage", 0.5, pod=POD, model_name="llama", dp_rank=rank)
    fleet.add("kv_tokens", 1.0, pod=POD, num_pages="100", page_size="1")
    fleet.add("prefix_hit_rate", 0.5, pod=POD, model_name="llama")
    ((first, second),) = look(fleet, make_variant("llama")).replicas.values()
    assert [first.kv_tokens, second.kv_tokens] == [100.0, 100.0]
    assert first.prefix_hit_rate == second.prefix_hit_rate == 0.5


@pytest.mark.parametrize(("blocks", "size"), [("None", "16"), ("1000", "None"), ("-1", "16"), ("1e3", "16"), ("", "")])
def test_capacity_in_labels_that_are_no_numbers_is_unknown(blocks: str, size: str) -> None:
    replica = only(look(fleet_with(num_gpu_blocks=blocks, block_size=size), make_variant("llama")))
    assert replica.kv_tokens is None
    assert replica.reasons["total_kv_tokens"].endswith("reports no number of blocks and tokens for its KV cache")


def test_of_two_capacities_the_smaller_is_there_in_any_case() -> None:
    fleet = fleet_with()
    fleet.add("kv_tokens", 1.0, pod=POD, num_gpu_blocks="900", block_size="16")
    fleet.add("kv_tokens", 1.0, pod=POD, num_gpu_blocks="None", block_size="16")
    assert only(look(fleet, make_variant("llama"))).kv_tokens == 14_400.0


def test_a_number_is_missing_not_a_number_failed_or_never_queried_with_its_reason() -> None:
    fleet = fleet_with(usage="NaN")
    fleet.rows["num_waiting"] = []
    fleet.failed["kv_tokens"] = "http://p: 422"
    fleet.missing.add("prefix_hit_rate")
    replica = only(look(fleet, make_variant("llama")))
    assert (replica.kv_cache_usage, replica.num_waiting, replica.kv_tokens) == (None, None, None)
    assert replica.reasons == {
        "kv_cache_usage": f"pod {POD} reports NaN as kv_cache_usage: it was idle",
        "num_waiting": f"no series of num_waiting for pod {POD}",
        "total_kv_tokens": "http://p: 422",
        "prefix_hit_rate": "Prometheus was not queried for prefix_hit_rate",
    }


@pytest.mark.parametrize("value", ["-1", "+Inf", "1e300"])
def test_a_number_that_cannot_be_is_unknown(value: str) -> None:
    replica = only(look(fleet_with(usage=value), make_variant("llama")))
    assert replica.kv_cache_usage is None
    assert "as kv_cache_usage" in replica.reasons["kv_cache_usage"]


def test_stale_replicas_and_unowned_pods_are_no_replicas() -> None:
    fleet = full(Fleet().model().pod(POD, age_s=690.0).pod("stranger"), pod="stranger")
    full(fleet)
    observed = look(fleet, make_variant("llama"), make_variant("other"))
    assert set(observed.replicas.values()) == {()}


def test_a_pod_that_reports_twice_is_as_full_as_the_fuller_report() -> None:
    fleet = fleet_with(usage="NaN")
    for usage in ("0.2", "0.7", "0.4"):
        fleet.add("kv_cache_usage", usage, pod=POD, model_name=f"lora-{usage}")
    assert only(look(fleet, make_variant("llama"))).kv_cache_usage == 0.7


def test_a_variant_at_zero_holds_what_its_pods_held_within_the_day() -> None:
    fleet = Fleet()
    for pod, blocks in (("a-7c9d8f6b5-bx4zz", "900"), ("a-8d9d8f6b5-cx4zz", "800"), ("b-7c9d8f6b5-bx4zz", "None")):
        fleet.add("stored_kv_tokens", 1.0, pod=pod, engine="0", num_gpu_blocks=blocks, block_size="16")
    fleet.add("stored_kv_tokens", 5000.0, pod="c-0", model_name="c")
    variants = [make_variant("a", replicas=0), make_variant("b", replicas=0), make_variant("c", kind="StatefulSet")]
    stored = look(fleet, *variants).stored_kv_tokens
    assert {key.name: tokens for key, tokens in stored.items()} == {"a": 12_800.0, "c": 5000.0}


def test_ready_replicas_are_those_of_the_scale_target() -> None:
    fleet = Fleet().add("ready_replicas", 2.0, deployment="served-by").add("ready_replicas", 7.0, deployment="c")
    fleet.add("ready_replicas", 3.0, statefulset="b").add("ready_replicas", "NaN", deployment="d")
    variants = [
        make_variant("a", target="served-by"),
        make_variant("b", kind="StatefulSet"),
        *(make_variant("c"), make_variant("c2", target="c"), make_variant("d")),
        make_variant("b", namespace="elsewhere", kind="StatefulSet"),
    ]
    ready = look(fleet, *variants).ready
    assert {_label(key): count for key, count in ready.items()} == {"llm/a": 2, "llm/b": 3}


def _label(key: ResourceKey) -> str:
    return key.label


def requests(observed: Observed) -> float | NoAnswer:
    (found,) = observed.requests.values()
    return found


def test_requests_of_the_retention_period_are_added_over_pods_and_names() -> None:
    fleet = Fleet().model("x").pod(POD, model="x")
    for pod, model, count in ((POD, "x", 5.0), ("gone", "x", 2.0), ("gone", "y", 1.0), ("gone", "z", 99.0)):
        fleet.add("requests_in_retention", count, pod=pod, model_name=model)
    assert requests(look(fleet, make_variant("llama", served=["x", "y"]))) == 8.0


def test_requests_that_were_not_counted_are_not_zero() -> None:
    def absence(fleet: Any, **variant: Any) -> Absence:
        found = requests(look(fleet, make_variant("llama", **variant)))
        assert isinstance(found, NoAnswer)
        return found.absence

    fleet = Fleet().model().pod(POD)
    fleet.rows["requests_in_retention"] = []
    assert absence(fleet) is Absence.MISSING
    fleet.add("requests_in_retention", "NaN", pod=POD, model_name="llama")
    assert absence(fleet) is Absence.NAN
    fleet.failed["requests_in_retention"] = "http://p: 422"
    assert absence(fleet) is Absence.FAILED
    silent = Fleet().add("requests_in_retention", 0.0, pod=POD, model_name="llama")
    assert absence(silent, replicas=2) is Absence.MISSING
