"""Serving engines: each is one record, and all its metrics are queried, in the order of the registry."""

from collections import Counter as Tally

import pytest

from reconciler.metrics.engines import ENGINES, SOURCES, offered
from reconciler.metrics.engines.serving_engine import ServingEngine
from reconciler.metrics.quantities import QUANTITIES, SATURATION_QUANTITIES, Name

ASKED = {quantity.name: quantity.candidates for quantity in (*QUANTITIES, *SATURATION_QUANTITIES)}
OF_ONE_ENGINE = set(ASKED) - {
    *(Name.ARRIVALS_ENDPOINT_PICKER, Name.FLOW_CONTROL_QUEUE_SIZE, Name.FLOW_CONTROL_QUEUE_BYTES),
    *(Name.POD_LABELS, Name.POD_OWNER, Name.REPLICASET_OWNER, Name.READY_REPLICAS),
    *(Name.UNSCHEDULABLE, Name.QUOTAS),
}
OF_TRITON = "sum by ($unnamed) (max by ($unnamed, model, version)"
IS_TRITON = 'on ($place, model) last_over_time(nv_trt_llm_request_metrics{request_type="waiting",$where}[$window])'


def asked_of(engine: ServingEngine) -> dict[Name, list[str]]:
    """The candidates of one engine, by the quantity they are of."""
    means = {
        Name.INPUT_TOKENS: engine.input_tokens,
        Name.OUTPUT_TOKENS: engine.output_tokens,
        Name.ITL: engine.itl,
        Name.TTFT: engine.ttft,
        Name.WAIT: engine.wait,
        Name.PREFIX_HIT_RATE: engine.prefix_hit_rate,
        Name.KV_TOKENS: engine.kv_tokens,
    }
    return {
        Name.RUNNING: [gauge.now() for gauge in engine.running],
        Name.LAST_SEEN: [text for gauge in engine.running for text in gauge.last_seen()],
        Name.MOST_RUNNING: [gauge.most() for gauge in engine.running],
        Name.WAITING: [gauge.now() for gauge in engine.waiting],
        Name.NUM_WAITING: [gauge.peak() for gauge in engine.waiting],
        Name.QUEUE_GROWTH: [f"{engine.running[0].growth()} + {engine.waiting[0].growth()}"],
        Name.CHANGES: [f"{engine.running[0].changes()} + {engine.waiting[0].changes()}"],
        Name.COMPLETIONS: [counter.gain() for counter in engine.finished],
        Name.REQUESTS_IN_RETENTION: [counter.gain("increase") for counter in engine.finished],
        Name.INPUT_BUCKETS: [counter.gain() for counter in engine.input_buckets],
        Name.KV_CACHE_USAGE: [each.peak() for each in engine.kv_cache_usage],
        Name.STORED_KV_TOKENS: [each.latest("last_over_time") for each in engine.kv_tokens],
        **{name: [each.latest() for each in offers] for name, offers in means.items()},
    }


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_found_by_its_name_and_has_running_and_finished_requests(name: str) -> None:
    engine = ENGINES[name]
    assert engine.name == name
    assert all((engine.running, engine.waiting, engine.finished))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_all_that_an_engine_offers_is_queried_the_best_first(engine: ServingEngine) -> None:
    offers = asked_of(engine)
    assert set(offers) == OF_ONE_ENGINE
    for name, texts in offers.items():
        assert [text for text in ASKED[name] if text in texts] == texts, name


@pytest.mark.parametrize("name", sorted(OF_ONE_ENGINE))
def test_a_renamed_metric_is_queried_after_its_own_name(name: Name) -> None:
    own = [text for engine in ENGINES.values() for text in asked_of(engine)[name]]
    renamed = [text.replace(":", "_") for text in own if ":" in text.replace("[1h:1m]", "")]
    found = list(ASKED[name])
    assert renamed
    for text in renamed:
        asked = text.replace("[1h_1m]", "[1h:1m]")
        assert found.index(asked) > max(found.index(each) for each in own if ":" in each.replace("[1h:1m]", ""))


@pytest.mark.parametrize("name", sorted(OF_ONE_ENGINE))
def test_nothing_is_queried_that_no_engine_offers_and_nothing_twice(name: Name) -> None:
    assert Tally(ASKED[name]) == Tally(text for engine in SOURCES for text in asked_of(engine)[name])
    assert len(set(ASKED[name])) == len(ASKED[name])


def test_engines_come_in_the_order_of_the_registry_derived_metrics_after_their_own() -> None:
    found = offered(lambda engine: engine.finished)
    in_order = [counter for engine in SOURCES for counter in engine.finished]
    assert found == [
        *(counter for counter in in_order if not counter.is_derived),
        *(counter for counter in in_order if counter.is_derived),
    ]


@pytest.mark.parametrize(
    ("engine", "quantity", "text"),
    [
        (
            "vllm",
            Name.COMPLETIONS,
            (
                "sum by ($by) (max by ($by, engine, finished_reason)"
                " (rate(vllm:request_success_total{$where}[$window])))"
                " or sum by ($by) (max by ($by, engine, finished_reason)"
                " (rate(vllm:request_success{$where}[$window])))"
            ),
        ),
        (
            "vllm",
            Name.KV_TOKENS,
            "max by ($by, engine, num_gpu_blocks, block_size) (vllm:cache_config_info{$where})",
        ),
        (
            "sglang",
            Name.RUNNING,
            "sum by ($by) (max by ($by, dp_rank) (sglang:num_running_reqs{$where}))",
        ),
        (
            "sglang",
            Name.PREFIX_HIT_RATE,
            (
                "sum by ($by, dp_rank) (rate(sglang:cached_tokens_total{$where}[$window]))"
                " / sum by ($by, dp_rank) (rate(sglang:prompt_tokens_total{$where}[$window]))"
            ),
        ),
        (
            "trtllm",
            Name.STORED_KV_TOKENS,
            (
                "max by ($by) (last_over_time(trtllm_kv_cache_max_blocks{$where}[$window]))"
                " * max by ($by) (last_over_time(trtllm_kv_cache_tokens_per_block{$where}[$window]))"
            ),
        ),
        (
            "triton",
            Name.WAIT,
            (
                f"{OF_TRITON} (rate(nv_inference_queue_duration_us{{$where}}[$window]) and {IS_TRITON}))"
                f" / {OF_TRITON} (rate(nv_inference_request_success{{$where}}[$window]) and {IS_TRITON}))"
                " / 1000000"
            ),
        ),
        (
            "tgi",
            Name.KV_CACHE_USAGE,
            (
                "max by ($by) (max_over_time(tgi_batch_current_max_tokens{$where}[$window])"
                " or last_over_time(tgi_batch_current_max_tokens{$where}[150s]))"
                " / max by ($by) (tgi_batch_max_total_tokens{$where})"
            ),
        ),
        (
            "tgi",
            Name.QUEUE_GROWTH,
            (
                "max by ($by) ((deriv(tgi_batch_current_size{$where}[$window])"
                " and tgi_batch_current_size{$where} offset $window)"
                " or deriv(tgi_batch_current_size{$where}[$window]) * 0)"
                " + max by ($by) ((deriv(tgi_queue_size{$where}[$window]) and tgi_queue_size{$where} offset $window)"
                " or deriv(tgi_queue_size{$where}[$window]) * 0)"
            ),
        ),
    ],
)
def test_metrics_of_an_engine_have_these_queries(engine: str, quantity: Name, text: str) -> None:
    assert " or ".join(asked_of(ENGINES[engine])[quantity]) == text
