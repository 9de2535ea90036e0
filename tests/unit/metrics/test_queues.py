"""What waits before an endpoint picker, whose series may name no namespace."""

from typing import Any

import pytest

from reconciler.domain.observed import UpstreamQueue
from reconciler.domain.settings import Settings
from reconciler.metrics.observed import read_observed

SIZE, BYTES = "flow_control_queue_size", "flow_control_queue_bytes"


@pytest.fixture
def queues(now_s: float, settings: Settings) -> Any:
    """The queues by namespace, model and role of what a fleet answers."""

    def run(fleet: Any, *variants: Any) -> dict[str, UpstreamQueue]:
        observed = read_observed(variants, fleet.answers, now_s, settings)
        return {f"{key.namespace}/{key.model_id}{key.role}": queue for key, queue in observed.queues.items()}

    return run


def picked(fleet: Any, value: float | str, name: str = SIZE, namespace: str = "", **labels: str) -> Any:
    fleet.rows.setdefault(name, []).append(({**labels, **({"namespace": namespace} if namespace else {})}, value))
    return fleet


def test_a_queue_without_a_namespace_is_that_of_the_only_model_of_its_name(
    make_variant: Any, make_fleet: Any, queues: Any
) -> None:
    fleet = picked(make_fleet(), 4.0, model_name="chat", target_model_name="llama")
    picked(fleet, 2.0, model_name="llama", target_model_name="")
    picked(fleet, 99.0, model_name="llama", target_model_name="other")
    picked(fleet, 6000.0, BYTES, model_name="llama")
    found = queues(fleet, make_variant("a"), make_variant("b", model_id="qwen"))
    assert found == {"llm/llama": UpstreamQueue(num_waiting=6.0, waiting_bytes=6000.0)}


def test_two_namespaces_with_one_model_name_have_no_queue_and_a_reason(
    make_variant: Any, make_fleet: Any, queues: Any
) -> None:
    variants = [make_variant("a"), make_variant("a", namespace="other")]
    found = queues(picked(make_fleet(), 4.0, model_name="llama"), *variants)
    assert [found["llm/llama"].num_waiting, found["other/llama"].num_waiting] == [None, None]
    assert found["llm/llama"].reason == (
        "the endpoint picker's queue names no namespace: it may be that of llm/llama and other/llama, "
        "so it counts for none"
    )
    named = picked(make_fleet(), 4.0, namespace="other", model_name="llama")
    assert queues(named, *variants) == {"other/llama": UpstreamQueue(num_waiting=4.0)}


def test_where_routes_split_a_load_each_variant_has_its_share_of_the_queue(
    make_variant: Any, make_fleet: Any, queues: Any
) -> None:
    fleet = picked(picked(make_fleet(), 8.0, model_name="llama"), 4000.0, BYTES, model_name="llama")
    found = queues(fleet, make_variant("a", role="a", share=0.75), make_variant("b", role="b", share=0.25))
    assert found == {
        "llm/llamaa": UpstreamQueue(num_waiting=6.0, waiting_bytes=3000.0),
        "llm/llamab": UpstreamQueue(num_waiting=2.0, waiting_bytes=1000.0),
    }


def test_where_nothing_waits_it_waits_for_no_model(make_variant: Any, make_fleet: Any, queues: Any) -> None:
    variants = [make_variant("a"), make_variant("a", namespace="other")]
    found = queues(picked(make_fleet(), 0.0, model_name="llama"), *variants)
    assert set(found.values()) == {UpstreamQueue(num_waiting=0.0)}


def test_an_old_picker_names_no_model(make_variant: Any, make_fleet: Any, queues: Any) -> None:
    fleet = picked(make_fleet(), 4.0, namespace="llm")
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(num_waiting=4.0)}
    found = queues(fleet, make_variant("a"), make_variant("b", model_id="qwen"))
    assert "names no model" in found["llm/qwen"].reason
    assert found["llm/qwen"].num_waiting is None


def test_prefill_and_decode_wait_in_one_queue(make_variant: Any, make_fleet: Any, queues: Any) -> None:
    roles = [make_variant("a", role="prefill"), make_variant("b", role="decode")]
    found = queues(picked(make_fleet(), 4.0, model_name="llama"), *roles)
    assert found == dict.fromkeys(("llm/llamadecode", "llm/llamaprefill"), UpstreamQueue(num_waiting=4.0))


def test_a_picker_that_could_not_be_asked_is_not_an_empty_queue(
    make_variant: Any, make_fleet: Any, queues: Any
) -> None:
    fleet = picked(picked(make_fleet(), 4.0, model_name="llama"), 9.0, BYTES, model_name="llama")
    fleet.failed[BYTES] = "http://p: 503"
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(num_waiting=4.0, reason="http://p: 503")}
    fleet.failed[SIZE] = "http://p: 422"
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(reason="http://p: 422")}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_a_queue_that_is_no_count_is_unknown(make_variant: Any, make_fleet: Any, queues: Any, value: str) -> None:
    fleet = picked(picked(make_fleet(), value, model_name="llama"), 2.0, model_name="x", target_model_name="llama")
    (found,) = queues(fleet, make_variant("a")).values()
    assert found.num_waiting is None
    assert "the endpoint picker reports nan" in found.reason


def test_without_a_picker_there_is_no_queue(make_variant: Any, make_fleet: Any, queues: Any) -> None:
    fleet = make_fleet()
    fleet.rows[SIZE] = fleet.rows[BYTES] = []
    assert queues(fleet, make_variant("a")) == {}
    assert queues(picked(fleet, 4.0, namespace="gateway", model_name="llama"), make_variant("a")) == {}
