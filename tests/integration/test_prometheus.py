"""Our questions to a real Prometheus, and its answers against numbers computed by hand."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.domain.answers import AnswerStatus, NoAnswer
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.answers import clusters_seen, decode, decode_with_warnings
from reconciler.metrics.loads import mean_length
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES, QUANTITIES, Name
from reconciler.metrics.queries import LabelNames, queries_for
from reconciler.metrics.readings import MetricReadings, ObjectName, ReplicaSeries, Served, read
from reconciler.prometheus.client import PrometheusClient
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
VARIANT_LABEL = "label_llm_d_ai_variant"


def written() -> History:
    """Old and new vLLM, SGLang, endpoint pickers, kube-state-metrics, one stale pod and an idle one."""
    history = History(end_s=END_S)
    us = {"cluster": "us", "namespace": "llm"}

    def of(pod: str, model: str, **labels: str) -> dict[str, str]:
        return {**us, "pod": pod, "model_name": model, **labels}

    vllm_replica(history, of("new-0", "llama", engine="0"), per_s=1.0, running=3, growth_per_s=0.1, waiting=200)
    vllm_replica(history, of("new-0", "llama", engine="1"), per_s=3.0, running=5, output_tokens=100.0, itl_s=0.04)
    vllm_replica(history, of("old-0", "llama"), per_s=2.0, itl_s=0.05, old_names=True)
    vllm_replica(history, of("both-0", "both"), per_s=2.0, itl_s=0.05)
    history.histogram("vllm:time_per_output_token_seconds", of("both-0", "both"), 9.9, 10.0)
    vllm_replica(history, of("idle-0", "idle"), per_s=0.0, running=0)
    vllm_replica(history, {**us, "namespace": "other", "pod": "x", "model_name": "llama"}, per_s=50.0)
    vllm_replica(history, {"cluster": "eu", "namespace": "llm", "pod": "x", "model_name": "llama"}, per_s=70.0)
    history.gauge("vllm:num_requests_running", of("gone-0", "gone"), 1.0, since_s=3000.0, until_s=660.0)
    for rank in ("0", "1"):
        history.gauge("sglang:num_running_reqs", of("sglang-0", "qwen", tp_rank=rank, dp_rank="0"), 6.0)
        history.gauge("sglang:num_queue_reqs", of("sglang-0", "qwen", tp_rank=rank, dp_rank="0"), 1.0)
    history.counter("sglang:num_requests_total", of("sglang-0", "qwen"), 2.0)
    history.counter("sglang:generation_tokens_total", of("sglang-0", "qwen"), 300.0)
    history.counter("sglang:prompt_tokens_total", of("sglang-0", "qwen"), 500.0)
    for metric, per_s in (("llm_d_epp_request_total", 8.0), ("inference_model_request_total", 8.0)):
        history.counter(metric, {**us, "model_name": "chat", "target_model_name": "llama"}, per_s)
    history.counter("inference_objective_request_total", {**us, "model_name": "idle", "target_model_name": ""}, 0.5)
    history.gauge("kube_pod_labels", {**us, "pod": "new-0", VARIANT_LABEL: "a"}, 1.0)
    history.gauge("kube_pod_labels", {**us, "pod": "old-0", VARIANT_LABEL: ""}, 1.0)
    history.gauge("kube_pod_owner", {**us, "pod": "new-0", "owner_kind": "ReplicaSet", "owner_name": "rs"}, 1.0)
    history.gauge("kube_pod_owner", {**us, "pod": "ds-0", "owner_kind": "DaemonSet", "owner_name": "ds"}, 1.0)
    history.gauge(
        "kube_replicaset_owner", {**us, "replicaset": "rs", "owner_kind": "Deployment", "owner_name": "d"}, 1.0
    )
    for engine, per_s in (("0", 1.0), ("1", 3.0)):
        told = {"500": per_s / 2, "1000.0": per_s, "+Inf": per_s}
        history.buckets("vllm:request_prompt_tokens", of("new-0", "llama", engine=engine), told)
    history.buckets("sglang:prompt_tokens_histogram", of("sglang-0", "qwen"), {"100": 1.0, "+Inf": 2.0})
    history.counter("litellm_requests_total", {**us, "model_name": "llama"}, 11.0)
    history.counter("litellm_requests_total", {**us, "cluster": "eu", "model_name": "llama"}, 13.0)
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the written history is served."""
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus")) as base:
        yield base


def cluster_at(url: str, **queries: str) -> ClusterSettings:
    prometheus = PrometheusSettings(url=url, match_labels={"cluster": "us"}, queries=queries)
    return ClusterSettings(name="us", prometheus=prometheus)


def ask(cluster: ClusterSettings, namespaces: Mapping[str, int]) -> tuple[MetricReadings, int]:
    assert cluster.prometheus
    client = PrometheusClient(cluster.prometheus, str)
    answers = client.ask_all(queries_for(cluster, namespaces, END_S, with_cluster_label=True))
    for answer in answers:
        assert answer.status is AnswerStatus.OK, answer.reason
        assert not isinstance(decode(answer), NoAnswer), answer.query
        assert decode_with_warnings(answer)[1] == ()
    assert clusters_seen(answers) == ("us",)
    return read(answers, LabelNames()), client.requests_sent


@pytest.fixture(scope="module")
def readings(url: str) -> MetricReadings:
    """All quantities of cluster `us`, namespace `llm`."""
    configured = "sum by (namespace, model_name) (rate(litellm_requests_total[5m]))"
    return ask(cluster_at(url, arrivalRate=configured), {"llm": 5})[0]


def of_pod(readings: MetricReadings, name: Name, pod: str) -> float:
    return next(value for series, value in readings.of_pods(name).items() if series.pod == pod)


def of_model(readings: MetricReadings, name: Name, model: str) -> float:
    value = readings.of_model(name, Served("llm", model))
    assert value is not None
    return value


def length(readings: MetricReadings, name: Name, model: str) -> float:
    value = mean_length(name, [Served("llm", model)], readings)
    assert value is not None
    return value


def test_completions_add_engines_and_reasons_and_nothing_of_other_tenants(readings: MetricReadings) -> None:
    assert of_pod(readings, Name.COMPLETIONS, "new-0") == pytest.approx(4.0)
    assert of_pod(readings, Name.COMPLETIONS, "sglang-0") == pytest.approx(2.0)
    assert of_model(readings, Name.COMPLETIONS, "llama") == pytest.approx(6.0)
    assert of_model(readings, Name.COMPLETIONS, "idle") == 0.0


def test_running_and_waiting_add_engines_but_not_tensor_parallel_ranks(readings: MetricReadings) -> None:
    assert of_pod(readings, Name.RUNNING, "new-0") == 8.0
    assert of_pod(readings, Name.RUNNING, "sglang-0") == 6.0
    assert of_pod(readings, Name.WAITING, "sglang-0") == 1.0
    assert of_pod(readings, Name.WAITING, "new-0") == pytest.approx(200.0)


def test_growth_is_the_slope_of_running_and_waiting(readings: MetricReadings) -> None:
    assert of_model(readings, Name.QUEUE_GROWTH, "llama") == pytest.approx(0.1)
    assert of_model(readings, Name.QUEUE_GROWTH, "qwen") == pytest.approx(0.0)


def test_lengths_are_weighted_by_requests_and_nan_when_idle(readings: MetricReadings) -> None:
    # engines: 1/s of 180 tokens, 3/s of 100; the old replica: 2/s of 180
    assert length(readings, Name.OUTPUT_TOKENS, "llama") == pytest.approx((180 + 300 + 360) / 6)
    assert length(readings, Name.INPUT_TOKENS, "llama") == pytest.approx(512.0)
    assert length(readings, Name.OUTPUT_TOKENS, "qwen") == pytest.approx(150.0)
    assert length(readings, Name.INPUT_TOKENS, "qwen") == pytest.approx(250.0)
    idle = length(readings, Name.OUTPUT_TOKENS, "idle")
    assert idle != idle  # NaN is what differs from itself


def test_buckets_are_added_up_by_model_and_bound(readings: MetricReadings) -> None:
    assert readings.buckets == {
        Served("llm", "llama"): {500.0: pytest.approx(2.0), 1000.0: pytest.approx(4.0), math.inf: pytest.approx(4.0)},
        Served("llm", "qwen"): {100.0: pytest.approx(1.0), math.inf: pytest.approx(2.0)},
    }


def test_itl_is_read_under_its_new_name_else_its_old_one_never_both(readings: MetricReadings) -> None:
    assert of_pod(readings, Name.ITL, "old-0") == pytest.approx(0.05)
    assert of_pod(readings, Name.ITL, "both-0") == pytest.approx(0.05)
    tokens = 180.0, 300.0
    expected = (tokens[0] * 0.02 + tokens[1] * 0.04) / sum(tokens)
    assert of_pod(readings, Name.ITL, "new-0") == pytest.approx(expected)


def test_wait_and_ttft_are_means_in_seconds(readings: MetricReadings) -> None:
    assert of_pod(readings, Name.WAIT, "old-0") == pytest.approx(0.1)
    assert of_pod(readings, Name.TTFT, "old-0") == pytest.approx(0.3)


def test_last_seen_tells_fresh_from_stale(readings: MetricReadings) -> None:
    assert of_pod(readings, Name.LAST_SEEN, "new-0") == END_S
    assert of_pod(readings, Name.LAST_SEEN, "gone-0") == pytest.approx(END_S - 660.0, abs=60.0)
    assert ReplicaSeries("llm", "gone-0", "gone", "") not in readings.of_pods(Name.RUNNING)


def test_arrivals_of_the_picker_are_counted_once_under_the_target_model(readings: MetricReadings) -> None:
    assert of_model(readings, Name.ARRIVALS_ENDPOINT_PICKER, "llama") == pytest.approx(8.0)
    assert of_model(readings, Name.ARRIVALS_ENDPOINT_PICKER, "idle") == pytest.approx(0.5)


def test_a_configured_query_is_held_to_its_cluster(readings: MetricReadings) -> None:
    assert of_model(readings, CONFIGURABLE_QUANTITIES["arrivalRate"], "llama") == pytest.approx(11.0)


def test_owners_lead_from_pod_to_deployment(readings: MetricReadings) -> None:
    assert readings.owners == {
        Name.POD_LABELS: {ObjectName("llm", "new-0"): "a"},
        Name.POD_OWNER: {ObjectName("llm", "new-0"): "rs"},
        Name.REPLICASET_OWNER: {ObjectName("llm", "rs"): "d"},
    }


def test_10_and_1000_variants_take_the_same_number_of_requests(url: str) -> None:
    _, few = ask(cluster_at(url), {"llm": 10})
    _, many = ask(cluster_at(url), {"llm": 500, **{f"team-{index}": 1 for index in range(500)}})
    assert few == many == len(QUANTITIES) + 1


def test_questions_about_hostile_names_stay_valid(url: str) -> None:
    _, sent = ask(cluster_at(url), {"llm": 1, 'a"} or vector(1) or up{b="': 1, "back\\slash": 1, "a|.*": 1})
    assert sent == len(QUANTITIES) + 1


def test_a_query_that_is_no_promql_is_refused_in_the_words_of_prometheus(url: str) -> None:
    prometheus = PrometheusSettings(url=url, queries={"arrivalRate": "sum by ("})
    query = queries_for(ClusterSettings(name="us", prometheus=prometheus), {"llm": 1}, END_S)[0]
    answer = PrometheusClient(prometheus, str).ask(query)
    assert answer.status is AnswerStatus.FAILED
    assert "400" in answer.reason
    assert "parse error" in answer.reason


def test_the_root_of_the_web_page_is_no_api(url: str, tmp_path: Path) -> None:
    prometheus = PrometheusSettings(url=f"{url}/wrong/{tmp_path.name}")
    query = queries_for(ClusterSettings(name="us", prometheus=prometheus), {"llm": 1}, END_S)[0]
    assert "path prefix" in PrometheusClient(prometheus, str).ask(query).reason
