"""Metric targets through a real Prometheus: queries, history and decision against the same series fed directly."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.decision.engines import tracking
from reconciler.decision.engines import tracking as kthena
from reconciler.decision.engines.tracking import TrackedAnswer, track_targets
from reconciler.domain.answers import AnswerStatus
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    BackendHistory,
    Behavior,
    Generation,
    MetricSource,
    MetricTarget,
    Panic,
    PodMetric,
    PodTotals,
    Policy,
    PrometheusMetric,
    Rate,
    TrackedBackend,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.domain.variant_settings import Engine
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.metrics.tracked_queries import tracking_queries
from reconciler.prometheus.client import PrometheusClient
from tests.servers.prometheus import ABSENT, History, prometheus_over

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
LONG_S = 3_600.0
STEP_S = 15.0
METRIC = "vllm:num_requests_waiting"
NAME_LABEL = "label_modelserving_volcano_sh_name"
LOOPS = {engine.name: engine.rule_of for engine in (tracking.TRACKING, kthena.KTHENA_V0, kthena.KTHENA_V1)}
ENGINES = (Engine.TRACKING, Engine.KTHENA_V0, Engine.KTHENA_V1)
QUICK = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=30.0),
    up=Rate(instances=2, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=200, period_s=5.0, threshold_percent=200, hold_s=30.0),
)
Load = Callable[[float], float]
"""A value by the seconds before the end."""


def points(value: Load, since_s: float = LONG_S, until_s: float = 0.0) -> list[tuple[float, float]]:
    ages_s = np.arange(since_s, until_s - 1.0, -STEP_S).tolist()
    return [(END_S - age_s, value(age_s)) for age_s in ages_s]


def gauge(history: History, metric: str, labels: Mapping[str, str], value: float | Load, **times: float) -> None:
    load = value if callable(value) else lambda _age_s: float(value)
    history.series("gauge", metric, {"cluster": "us", "namespace": "llm", **labels}, points(load, **times), "")


def pod(history: History, serving: str, index: int, load: Load, *, ready: float = 1.0, **times: float) -> None:
    """An entry pod: what it waits for, whether it is ready, and whose it is."""
    name = f"{serving}-{index}-server-0-0"
    gauge(history, METRIC, {"pod": name}, load, **times)
    gauge(history, "kube_pod_status_ready", {"pod": name, "condition": "true"}, ready, **times)
    gauge(history, "kube_pod_status_ready", {"pod": name, "condition": "false"}, 1.0 - ready, **times)
    gauge(history, "kube_pod_labels", {"pod": name, NAME_LABEL: serving}, 1.0, **times)


def wave(index: int) -> Load:
    """Load that rises and falls over the hour, another one for each pod."""
    return lambda age_s: round(20.0 + 15.0 * math.sin(age_s / 400.0 + index), 3)


def written() -> History:
    history = History(end_s=END_S)
    for index in range(3):
        pod(history, "chat", index, wave(index))
    for index in range(6):
        pod(history, "young", index, lambda _: 1.0, since_s=200.0)
        pod(history, "typo", index, lambda _: 1.0)
    for index in range(6):
        name = f"gap-{index}-server-0-0"
        gauge(history, METRIC, {"pod": name}, 1.0, until_s=1_000.0)
        gauge(history, METRIC, {"pod": name}, 1.0, since_s=500.0)
        gauge(history, "kube_pod_status_ready", {"pod": name, "condition": "true"}, 1.0)
        gauge(history, "kube_pod_labels", {"pod": name, NAME_LABEL: "gap"}, 1.0)
    pod(history, "mixed", 0, lambda _: 40.0)
    pod(history, "mixed", 1, lambda _: 9.0, ready=0.0)
    pod(history, "mixed", 2, lambda _: 700.0, ready=0.0)
    gauge(history, "kube_pod_status_phase", {"pod": "mixed-2-server-0-0", "phase": "Failed"}, 1.0)
    gauge(history, "kube_pod_status_phase", {"pod": "mixed-1-server-0-0", "phase": "Failed"}, 0.0)
    gauge(history, "kube_deployment_spec_replicas", {"deployment": "late"}, 6.0, since_s=300.0)
    for letter in "bcdfgh":
        gauge(history, METRIC, {"pod": f"late-6d4b75cb6d-{5 * letter}"}, 1.0)
    gauge(history, "kube_deployment_spec_replicas", {"deployment": "code"}, 2.0)
    gauge(history, "kube_deployment_status_replicas", {"deployment": "code"}, 3.0)
    for suffix in ("bbbbb", "ccccc"):
        labels = {"cluster": "us", "namespace": "llm", "pod": f"code-6d4b75cb6d-{suffix}"}
        gauge(history, "kube_pod_status_ready", {"pod": labels["pod"], "condition": "true"}, 1.0)
        for reason, per_s in (("stop", 2.0), ("length", 3.0)):
            counted = {**labels, "finished_reason": reason}
            history.counter("requests_total", counted, per_s, since_s=LONG_S)
        for bound, per_s in (("1.0", 9.0), ("2.0", 10.0), ("+Inf", 10.0)):
            counts = points(lambda age_s, per_s=per_s: per_s * (LONG_S - age_s))  # type: ignore[misc]
            history.series("histogram", "latency_seconds", {**labels, "le": bound}, counts, "_bucket")
    for index in range(2):
        name = f"ports-{index}-server-0-0"
        for port, job, load in ((8100, "engine", 5.0), (8100, "again", 5.0), (9000, "sidecar", 45.0)):
            scraped = {"pod": name, "instance": f"10.0.0.{index}:{port}", "job": job}
            gauge(history, METRIC, scraped, load)
        gauge(history, "kube_pod_status_ready", {"pod": name, "condition": "true"}, 1.0)
        gauge(history, "kube_pod_labels", {"pod": name, NAME_LABEL: "ports"}, 1.0)
    gauge(history, "queue_depth", {"queue": "a"}, 30.0)
    gauge(history, "queue_depth", {"queue": "b"}, 45.0)
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the written history is served."""
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus")) as base:
        yield base


def target(
    name: str,
    *,
    kind: str = "ModelServing",
    metric: str = METRIC,
    per_replica: float = 10.0,
    source: MetricSource | None = None,
    generation: Generation = Generation.G4,
    behavior: Behavior = QUICK,
) -> TrackedTarget:
    key = ResourceKey(cluster="us", namespace="llm", kind=kind, name=name)
    labels = {"modelserving.volcano.sh/name": name} if kind == "ModelServing" else {}
    return TrackedTarget(
        key=replace(key, kind="AutoscalingPolicy"),
        policy=Policy(metrics=(MetricTarget(name=metric, per_replica=per_replica),), behavior=behavior),
        backends=(
            TrackedBackend(
                backend=Backend(name=name, min_replicas=1, max_replicas=20),
                scale_target=key,
                pod_labels=labels,
                sources={} if source is None else {metric: source},
                replicas=3,
            ),
        ),
        generation=generation,
    )


def observe(url: str, *targets: TrackedTarget) -> dict[ResourceKey, TrackedHistory]:
    cluster = ClusterSettings(name="us", prometheus=PrometheusSettings(url=url, match_labels={"cluster": "us"}))
    assert cluster.prometheus
    answers = PrometheusClient(cluster.prometheus, str).ask_all(tracking_queries(cluster, targets, END_S))
    return read_tracked(targets, answers, END_S, Settings(clusters=(cluster,)))


def answer(one: TrackedTarget, found: TrackedHistory, engine: Engine = Engine.TRACKING) -> TrackedAnswer:
    return track_targets([one], {one.key: found}, END_S, LOOPS[engine])[one.backends[0].scale_target]


def fed(ticks: int, found: TrackedHistory) -> TrackedHistory:
    """The waves of three pods as the history that they should be."""
    ages_s = STEP_S * np.arange(ticks - 1, -1, -1)
    total = tuple(sum(wave(index)(age_s) for index in range(3)) for age_s in ages_s.tolist())
    three, none = (3.0,) * ticks, (0.0,) * ticks
    pods = {METRIC: PodTotals(total=total, reporting=three, missing=none)}
    return replace(found, backends=(BackendHistory(replicas=three, unready=none, pods=pods),))


@pytest.mark.parametrize("behavior", [QUICK, DEFAULT_BEHAVIOR], ids=["quick", "default"])
def test_what_comes_through_prometheus_is_what_was_written(url: str, behavior: Behavior) -> None:
    one = target("chat", behavior=behavior)
    found = observe(url, one)[one.key]
    ticks = int(behavior.warm_up_s / STEP_S) + 1
    assert len(found.backends[0].replicas) == ticks
    expected = fed(ticks, found)
    assert found.backends[0].pods[METRIC].total == pytest.approx(expected.backends[0].pods[METRIC].total, rel=1e-12)
    assert replace(found.backends[0], pods={}) == replace(expected.backends[0], pods={})
    assert found.reasons == ()
    for engine in ENGINES:
        for generation in Generation:
            asked = replace(one, generation=generation)
            through, directly = answer(asked, found, engine), answer(asked, expected, engine)
            assert through.replicas == directly.replicas
            assert through.replicas is not None
            assert (through.reasons, through.notes) == (directly.reasons, directly.notes)
            assert through.depends_on_start == directly.depends_on_start


def test_a_short_history_shrinks_nothing(url: str) -> None:
    late, young = (
        target(name, kind=kind, behavior=DEFAULT_BEHAVIOR)
        for name, kind in (("late", "Deployment"), ("young", "ModelServing"))
    )
    found = observe(url, late, young)
    for one, reason in (
        (late, "not shrunk: 300 s of history, and windows need 600 s"),
        (young, "not shrunk: a metric was missing 210 s ago"),
    ):
        got = answer(one, found[one.key])
        assert (got.replicas, got.current) == (6, 6)
        assert got.reasons[0] == reason


def test_a_gap_in_the_metric_shrinks_nothing_while_a_window_remembers_it(url: str) -> None:
    """Nothing was written from 1,000 to 500 s ago, and Prometheus shows the last sample for five minutes more."""
    long = replace(DEFAULT_BEHAVIOR, down=replace(DEFAULT_BEHAVIOR.down, stabilization_s=900.0))
    one, forgetful = target("gap", behavior=long), target("gap", behavior=QUICK)
    found = observe(url, one)[one.key]
    newest_first = enumerate(reversed(found.backends[0].pods[METRIC].total))
    ages_s = [STEP_S * age for age, value in newest_first if math.isnan(value)]
    assert (min(ages_s), max(ages_s)) == (510.0, 690.0)
    got = answer(one, found)
    assert (got.replicas, got.reasons[0]) == (6, "not shrunk: a metric was missing 510 s ago")
    assert answer(forgetful, observe(url, forgetful)[forgetful.key]).replicas == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_metric_that_is_a_typo_shrinks_nothing(url: str, engine: Engine) -> None:
    one = target("typo", metric="vllm:num_request_waiting")
    got = answer(one, observe(url, one)[one.key], engine)
    assert (got.replicas, got.current) == (None, 6)
    assert got.reasons[0] == "no metric could be read now: vllm:num_request_waiting"
    assert "is that its name" in got.reasons[1]


def test_pods_that_are_not_ready_count_and_pods_that_are_over_do_not(url: str) -> None:
    one = target("mixed")
    found = observe(url, one)[one.key]
    backend = found.backends[0]
    assert (backend.replicas[-1], backend.unready[-1]) == (2.0, 1.0)
    assert (backend.pods[METRIC].total[-1], backend.pods[METRIC].reporting[-1]) == (40.0, 1.0)
    assert answer(one, found).replicas == 4
    assert answer(replace(one, generation=Generation.G3), found, Engine.KTHENA_V0).replicas is None


def test_a_counter_is_a_rate_and_its_label_sets_are_added_up(url: str) -> None:
    one = target("code", kind="Deployment", metric="requests_total", per_replica=1.0, generation=Generation.G3)
    found = observe(url, one)[one.key]
    backend = found.backends[0]
    assert backend.replicas[-1] == 2.0
    assert backend.rates["requests_total"].total[-1] == pytest.approx(10.0)
    assert backend.pods["requests_total"].total[-1] == pytest.approx(2 * 5.0 * LONG_S)
    assert found.label_sets == {"requests_total": 2}
    assert answer(one, found).replicas == 10
    theirs = answer(one, found, Engine.KTHENA_V0)
    assert theirs.replicas == 20
    assert any("the first of them" in note for note in theirs.notes)
    assert any("only grows" in note for note in theirs.notes)


def test_a_histogram_is_the_percentile_since_an_older_look(url: str) -> None:
    one = target("code", kind="Deployment", metric="latency_seconds", per_replica=0.7)
    found = observe(url, one)[one.key]
    # 75 s: 750 observations, 675 of them below one second; the 713th is wanted
    each = 2.0 - (750 - 713) * 1.0 / 75
    assert set(np.round(found.backends[0].pods["latency_seconds"].total, 9)) == {round(2 * each, 9)}
    assert answer(one, found).replicas == math.ceil(2 * each / 0.7)


@pytest.mark.parametrize(("port", "replicas"), [(8100, 2), (9000, 18)])
def test_the_port_of_a_policy_decides_which_series_count_and_each_once(url: str, port: int, replicas: int) -> None:
    one = target("ports", per_replica=5.0, source=PodMetric(name=METRIC, port=port))
    got = answer(one, observe(url, one)[one.key])
    assert (got.replicas, got.reasons) == (replicas, ())


QUERIES: dict[str, tuple[str, float | None, str]] = {
    "one-element": ("sum(queue_depth)", 75.0, ""),
    "scalar": ("scalar(sum(queue_depth)) / 5", 15.0, ""),
    "none": ('sum(queue_depth{queue="c"})', None, "returned 0 elements now, expected one"),
    "several": ("queue_depth", None, "returned 2 elements now, expected one"),
    "range": ("queue_depth[5m]", None, "400"),
    "no-promql": ("sum by (", None, "parse error"),
}


@pytest.mark.parametrize("case", QUERIES.values(), ids=QUERIES)
def test_a_policys_own_query_is_one_number_or_a_reason(url: str, case: Any) -> None:
    text, expected, words = case
    one = target("chat", metric="queue", source=PrometheusMetric(query=text, server_url=f"{url}/elsewhere"))
    found = observe(url, one)[one.key]
    got = answer(one, found)
    if expected is None:
        assert got.replicas is None
        assert any(words in reason for reason in got.reasons), got.reasons
    else:
        assert found.backends[0].external["queue"][-1] == expected
        assert got.replicas == math.ceil(expected / 10.0)


def test_questions_about_hostile_names_stay_valid(url: str) -> None:
    hostile = 'a"} or vector(1) or up{b="'
    settings = PrometheusSettings(url=url, match_labels={"cluster": hostile})
    cluster = ClusterSettings(name="us", prometheus=settings)
    one = target("chat")
    named = replace(one.backends[0], scale_target=replace(one.backends[0].scale_target, namespace=hostile))
    named = replace(named, pod_labels={hostile: hostile, "back\\slash": "a|.*"})
    queries = tracking_queries(cluster, [replace(one, backends=(named,))], END_S)
    answers = PrometheusClient(settings, str).ask_all(queries)
    assert {each.status for each in answers} == {AnswerStatus.OK}
