"""Every engine's candidates, and what happened over time, asked of a real Prometheus."""

import math
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.domain.answers import Answer, AnswerStatus
from reconciler.domain.history import LoadHistory
from reconciler.domain.observed import Load, Observation, Observed, ReplicaMetrics, Trace, UpstreamQueue
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import decode
from reconciler.metrics.observed import read_observed
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES, HISTORY, Name
from reconciler.metrics.queries import QueryNeeds, alternatives_in, history_queries, queries_for
from reconciler.prometheus.client import PrometheusClient
from tests.servers.engines import sglang_rank, tgi_replica, triton_replica, trtllm_replica, vllm_cache
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica
from tests.servers.traces import read_traces
from tests.servers.variants import make_variant

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_010.0
ENGINES = ("vllm", "old-vllm", "renamed", "sglang", "trtllm", "triton", "tgi")
NEEDS = QueryNeeds(saturation={"llm": 8, "other": 1}, traced={"llm": 8})


def pod_of(name: str) -> str:
    return f"{name}-7c9d8f6b5-bx4zz"


def variants() -> list[Variant]:
    zero = make_variant("zero", replicas=0, cluster="us", model_id="zero")
    twins = [
        make_variant(f"twin-{place}", model_id="twin", namespace=place, cluster="us") for place in ("llm", "other")
    ]
    return [*(make_variant(name, cluster="us", model_id=f"model-{name}") for name in ENGINES), zero, *twins]


def written() -> History:
    """One replica of each engine, a variant at zero, and an endpoint picker that names no namespace."""
    history = History(end_s=END_S)

    def of(name: str, **labels: str) -> dict[str, str]:
        return {"namespace": "llm", "pod": pod_of(name), "job": "llm", **labels}

    for engine, usage in (("0", 0.5), ("1", 0.9)):
        labels = of("vllm", model_name="model-vllm", engine=engine)
        vllm_replica(history, labels, per_s=1.0, waiting=4.0)
        vllm_cache(history, labels, usage=usage, blocks="1000" if engine == "0" else "900")
        history.counter("vllm:prefix_cache_hits_total", labels, 30.0)
        history.counter("vllm:prefix_cache_queries_total", labels, 100.0)
    old = of("old-vllm", model_name="model-old-vllm")
    vllm_replica(history, old, per_s=1.0, old_names=True)
    vllm_cache(history, old, usage=0.4, blocks="None", usage_metric="vllm:gpu_cache_usage_perc")
    for rank in ("0", "1"):
        sglang_rank(history, of("sglang", model_name="model-sglang", dp_rank=rank), usage=0.25 + int(rank) / 2)
    history.counter("sglang:num_requests_total", of("sglang", model_name="model-sglang"), 2.0)
    history.counter("sglang:generation_tokens_total", of("sglang", model_name="model-sglang"), 300.0)
    own = History(end_s=END_S)
    vllm_replica(own, of("renamed", model_name="model-renamed", engine="0"), per_s=2.0, waiting=4.0)
    vllm_cache(own, of("renamed", model_name="model-renamed", engine="0"), usage=0.5, blocks="1000")
    for metric, kind, labels, points in own.families():  # as an exporter writes it that allows no colon
        history.series(kind, metric.replace(":", "_"), labels, points, labels[""])
    trtllm_replica(history, of("trtllm", model_name="model-trtllm"))
    triton_replica(history, of("triton"))
    tgi_replica(history, of("tgi"))
    vllm_cache(history, of("zero", model_name="zero", engine="0"), usage=0.1, since_s=9000.0, until_s=7200.0)
    picker = {"fairness_id": "a", "priority": "0", "target_model_name": ""}
    for model, waiting in (("model-vllm", 7.0), ("twin", 3.0)):
        for suffix, value in (("size", waiting), ("bytes", 1000 * waiting)):
            history.gauge(f"inference_extension_flow_control_queue_{suffix}", {**picker, "model_name": model}, value)
    for name, count in (("vllm", 1.0), ("zero", 0.0)):
        history.gauge("kube_deployment_status_replicas_ready", {"namespace": "llm", "deployment": name}, count)
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the written history is served, without a proxy in between."""
    with pytest.MonkeyPatch.context() as patch, prometheus_over(written(), tmp_path_factory.mktemp("engines")) as base:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        yield base


def cluster_at(url: str) -> ClusterSettings:
    return ClusterSettings(name="us", prometheus=PrometheusSettings(url=url))


def settings_at(url: str) -> Settings:
    return Settings(clusters=(cluster_at(url),))


@pytest.fixture(scope="module")
def answers(url: str) -> tuple[Answer, ...]:
    """All that can be needed."""
    cluster = cluster_at(url)
    assert cluster.prometheus
    queries = queries_for(cluster, {"llm": 8, "other": 1}, END_S, needs=NEEDS)
    found = PrometheusClient(cluster.prometheus, str).ask_all(queries)
    assert [answer.reason for answer in found if answer.status is AnswerStatus.FAILED] == []
    return found


@pytest.fixture(scope="module")
def observed(url: str, answers: tuple[Answer, ...]) -> Observed:
    """What they mean."""
    return read_observed(variants(), answers, END_S, settings_at(url))


def load(observed: Observed, name: str) -> Load:
    found = next(load for key, load in observed.loads.items() if key.model_id == f"model-{name}")
    assert isinstance(found, Load), found
    return found


def seen(observed: Observed, name: str) -> Observation:
    return next(found for key, found in observed.observations.items() if key.name == name)


def replicas(observed: Observed, name: str) -> tuple[ReplicaMetrics, ...]:
    return next(found for key, found in observed.replicas.items() if key.name == name)


def test_nothing_failed_and_nothing_was_warned_of(observed: Observed) -> None:
    assert (observed.failures, observed.warnings) == ((), ())


@pytest.mark.parametrize(
    ("name", "completed", "tokens"),
    [
        ("vllm", 2.0, (180.0, 512.0)),
        ("renamed", 2.0, (180.0, 512.0)),
        ("sglang", 2.0, (150.0, 400.0)),
        ("trtllm", 2.0, (150.0, 250.0)),
        ("tgi", 2.0, (120.0, 300.0)),
    ],
)
def test_every_engine_that_counts_tokens_has_a_load(
    observed: Observed, name: str, completed: float, tokens: tuple[float, float]
) -> None:
    found = load(observed, name)
    assert found.arrival_rate_per_s == pytest.approx(completed)
    assert (found.output_tokens, found.input_tokens) == pytest.approx(tokens)


def test_triton_counts_requests_once_and_tells_no_lengths(observed: Observed) -> None:
    (found,) = [load for key, load in observed.loads.items() if key.model_id == "model-triton"]
    assert not isinstance(found, Load)
    assert found.reason == '2.1 req/s arrive for model "model-triton" but no series reports output tokens'


@pytest.mark.parametrize(
    ("name", "itl_s", "wait_s", "ttft_s"),
    [
        ("vllm", 0.02, 0.1, 0.3),
        ("old-vllm", 0.02, 0.1, 0.3),
        ("trtllm", 0.025, 0.15, 0.35),
        ("tgi", 0.03, 0.2, None),
        ("triton", None, 0.05, None),
    ],
)
def test_times_are_seconds_and_unknown_where_an_engine_tells_none(
    observed: Observed, name: str, itl_s: float | None, wait_s: float | None, ttft_s: float | None
) -> None:
    performance = seen(observed, name).performance
    assert (performance.itl_s, performance.wait_s, performance.ttft_s) == pytest.approx((itl_s, wait_s, ttft_s))


@pytest.mark.parametrize(
    ("name", "running", "waiting"),
    [
        ("vllm", 8.0, 8.0),
        ("renamed", 4.0, 4.0),
        ("sglang", 12.0, 2.0),
        ("trtllm", 5.0, 2.0),
        ("triton", 30.0, 2.0),
        ("tgi", 5.0, 3.0),
    ],
)
def test_requests_under_way_are_those_of_the_pod(observed: Observed, name: str, running: float, waiting: float) -> None:
    found = seen(observed, name)
    assert found.absence is None
    assert (found.num_running, found.num_waiting) == pytest.approx((running, waiting))


@pytest.mark.parametrize(
    ("name", "instances"),
    [
        ("vllm", [("0", 0.5, 4.0, 16_000.0, 0.3), ("1", 0.9, 4.0, 14_400.0, 0.3)]),
        ("old-vllm", [("", 0.4, 0.0, None, None)]),
        ("renamed", [("", 0.5, 4.0, 16_000.0, None)]),
        ("sglang", [("0", 0.25, 1.0, 40_000.0, 0.25), ("1", 0.75, 1.0, 40_000.0, 0.25)]),
        ("trtllm", [("", 0.75, 2.0, 16_000.0, 0.1)]),
        ("triton", [("", 0.5, 2.0, 64_000.0, None)]),
        ("tgi", [("", 0.25, 3.0, 12_000.0, None)]),
    ],
)
def test_instances_say_how_full_they_are_and_how_much_they_hold(
    observed: Observed, name: str, instances: list[tuple[str, float, float, float | None, float | None]]
) -> None:
    told = [
        (one.instance, one.kv_cache_usage, one.num_waiting, one.kv_tokens, one.prefix_hit_rate)
        for one in replicas(observed, name)
    ]
    assert [tuple(one) for one in told] == [pytest.approx(one) for one in instances]
    assert {one.pod for one in replicas(observed, name)} == {pod_of(name)}


def test_lengths_stand_with_each_instance_and_reasons_where_there_is_no_number(observed: Observed) -> None:
    assert [one.output_tokens for one in replicas(observed, "vllm")] == pytest.approx([180.0, 180.0])
    (old,) = replicas(observed, "old-vllm")
    assert old.reasons["total_kv_tokens"].endswith("reports no number of blocks and tokens for its KV cache")
    (triton,) = replicas(observed, "triton")
    assert triton.reasons["output_tokens"] == f"no series of output_tokens for pod {pod_of('triton')}"


def test_a_variant_at_zero_keeps_the_capacity_of_its_former_pods(observed: Observed) -> None:
    stored = {key.name: tokens for key, tokens in observed.stored_kv_tokens.items()}
    assert stored["zero"] == 16_000.0
    assert stored["vllm"] == 14_400.0
    assert replicas(observed, "zero") == ()


def test_queues_without_a_namespace_count_where_one_model_has_the_name(observed: Observed) -> None:
    queues = {(key.namespace, key.model_id): queue for key, queue in observed.queues.items()}
    assert queues["llm", "model-vllm"] == UpstreamQueue(num_waiting=7.0, waiting_bytes=7000.0)
    assert queues["llm", "twin"].num_waiting is queues["other", "twin"].num_waiting is None
    assert "names no namespace" in queues["other", "twin"].reason
    assert ("llm", "model-tgi") not in queues


def test_ready_replicas_and_requests_in_the_retention_period(observed: Observed) -> None:
    assert {key.name: count for key, count in observed.ready.items()} == {"vllm": 1, "zero": 0}
    requests = {key.model_id: count for key, count in observed.requests.items()}
    for name in ("vllm", "trtllm", "tgi", "triton"):
        assert requests[f"model-{name}"] == pytest.approx(1200.0, rel=0.01)


def test_the_queries_are_told_as_they_were_asked(observed: Observed, answers: tuple[Answer, ...]) -> None:
    asked = observed.queries["us"]
    assert asked == {answer.query.quantity: answer.query.text for answer in reversed(answers)}
    assert '(rate(tgi_request_generated_tokens_count{namespace=~"llm|other"}[5m]))' in asked["output_tokens"]


def of_grid(observed: Observed, name: str, step_s: float) -> list[Trace]:
    traces = next(found for key, found in observed.traces.items() if key.name == name)
    return [trace for trace in traces if trace.step_s == step_s]


def test_an_hour_of_history_stands_on_the_grid_with_gaps_before_the_replica_was_there(observed: Observed) -> None:
    first, second = of_grid(observed, "vllm", 15.0)
    assert (first.instance, second.instance) == ("0", "1")
    assert first.start_s == math.ceil((END_S - 3600) / 15) * 15
    usage = first.series["kv_cache_usage"]
    assert len(usage) == 241
    assert usage[-1] == 0.5
    assert second.series["kv_cache_usage"][-1] == 0.9
    assert math.isnan(usage[0])
    assert sum(map(math.isnan, usage)) == 160
    assert first.series["output_tokens"][-1] == pytest.approx(180.0)
    assert set(first.series) == {"kv_cache_usage", "num_waiting", "output_tokens", "input_tokens"}


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_has_a_history_to_learn_from(observed: Observed, name: str) -> None:
    (trace,) = of_grid(observed, name, 60.0)
    told = {key for key, values in trace.series.items() if math.isfinite(values[-1])}
    untold = {
        "triton": {"itl", "ttft", "input_tokens", "output_tokens"},
        "tgi": {"ttft"},
        "sglang": {"itl", "ttft", "wait"},
    }
    assert set(trace.series) - told == untold.get(name, set())
    assert trace.series["running"][-1] == pytest.approx(seen(observed, name).num_running, rel=0.5)


def test_a_split_history_is_the_same_history(url: str) -> None:
    cluster = cluster_at(url)
    assert cluster.prometheus
    client = PrometheusClient(cluster.prometheus, str)
    span = (END_S - 1800, END_S, 15.0)
    told = []
    for budget in (10_000_000, 500):
        queries = history_queries(cluster, {"llm": 8, "other": 1}, *span, tuple(HISTORY), sample_budget=budget)
        found = client.ask_all(queries)
        assert [answer.reason for answer in found if answer.status is AnswerStatus.FAILED] == []
        told.append((len(queries), read_traces(variants(), found, settings_at(url), *span)))
    (few, whole), (many, split) = told
    assert few == len(HISTORY)
    assert many == len(HISTORY) * 3 * 2  # three parts of half an hour, each for two namespaces
    assert _comparable(whole) == _comparable(split)
    assert any(trace.series["kv_tokens"][-1] == 64_000.0 for traces in whole.values() for trace in traces)


def _comparable(traces: object) -> str:
    return repr(traces)  # NaN differs from itself


def test_a_label_named_model_is_not_believed_of_triton(url: str) -> None:
    cluster = cluster_at(url)
    assert cluster.prometheus
    spelled = replace(cluster, prometheus=replace(cluster.prometheus, label_names={"model": "model"}))
    (query,) = [each for each in queries_for(spelled, {"llm": 1}, END_S) if each.quantity == Name.COMPLETIONS]
    samples = decode(PrometheusClient(cluster.prometheus, str).ask(query))
    assert isinstance(samples, tuple)
    (triton,) = [sample for sample in samples if sample.labels["pod"] == pod_of("triton")]
    assert "model" not in triton.labels
    assert triton.value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("vllm", "vllm:request_success_total"),
        ("renamed", "vllm_request_success_total"),
        ("sglang", "sglang:num_requests_total"),
        ("trtllm", "trtllm_request_success_total"),
        ("tgi", "tgi_request_success"),
    ],
)
def test_the_alternative_that_counted_the_requests_is_known(observed: Observed, name: str, metric: str) -> None:
    alternatives = dict(alternatives_in(observed.queries["us"]["completions"]))
    (number,) = load(observed, name).alternatives
    assert f"(rate({metric}{{" in alternatives[number]


def test_the_past_is_counted_in_a_persons_own_words(url: str) -> None:
    by = "sum by (namespace, pod, model_name)"
    own = PrometheusSettings(
        url=url,
        queries={
            "completions": f"{by} (rate(vllm:request_success_total[5m])) * 3",
            "outputTokens": f"{by} (vllm:num_requests_running * 0 + 77)",
        },
    )
    cluster = ClusterSettings(name="us", prometheus=own)
    needs = QueryNeeds(past={"llm": 8}, usual={"llm": 8})
    found = PrometheusClient(own, str).ask_all(queries_for(cluster, {"llm": 8}, END_S, needs=needs))
    assert [answer.reason for answer in found if answer.status is AnswerStatus.FAILED] == []
    observed = read_observed(variants(), found, END_S, Settings(clusters=(cluster,)))
    (key,) = [key for key in observed.past if key.model_id == "model-vllm"]
    past, usual, ranks = observed.past[key], observed.usual[key], 2
    assert isinstance(past, LoadHistory)
    assert load(observed, "vllm").arrival_rate_per_s == past.rates_per_s[-1] == pytest.approx(6.0)
    assert load(observed, "vllm").alternatives == ()
    assert past.output_tokens[-1] == usual.output_tokens[-1] == pytest.approx(77.0 * ranks)
    assert past.input_tokens[-1] == pytest.approx(
        512.0 / 3
    )  # tokens in a second as counted, by three times the requests
    assert load(observed, "trtllm").output_tokens == pytest.approx(150.0)


def test_a_persons_own_words_go_before_ours_and_nothing_is_counted_twice(url: str) -> None:
    keys = sorted(set(CONFIGURABLE_QUANTITIES) - {"arrivalRate"})
    running = "sum by (namespace, pod, model_name) (vllm:num_requests_waiting * 10)"
    own = PrometheusSettings(url=url, queries={**dict.fromkeys(keys, "nowhere_at_all"), "running": running})
    cluster = ClusterSettings(name="us", prometheus=own)
    found = PrometheusClient(own, str).ask_all(queries_for(cluster, {"llm": 8, "other": 1}, END_S, needs=NEEDS))
    assert [answer.reason for answer in found if answer.status is AnswerStatus.FAILED] == []
    observed = read_observed(variants(), found, END_S, Settings(clusters=(cluster,)))
    assert (observed.failures, observed.warnings) == ((), ())
    assert seen(observed, "vllm").num_running == pytest.approx(80.0)
    assert seen(observed, "sglang").num_running == pytest.approx(12.0)
