"""Queries for metric targets: texts, times, escaping, and how often."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    LabelOperator,
    LabelRequirement,
    LabelSelector,
    PodMetric,
    PrometheusMetric,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.tracked_queries import tracking_queries
from tests.unit.metrics.fleet import make_target

NOW_S = 1_790_000_000.0
CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://prometheus:9090/x"))
EACH = "namespace, pod, instance, metrics_path, job"
SERVING = "modelserving.volcano.sh/name"


def target(name: str = "chat", *, kind: str = "ModelServing", **changes: Any) -> TrackedTarget:
    labels = {SERVING: name} if kind == "ModelServing" else {}
    return make_target(name, kind=kind, labels=labels, **{"replicas": 3, **changes})


def asked(*targets: TrackedTarget, cluster: ClusterSettings = CLUSTER) -> dict[str, str]:
    return {query.quantity: query.text for query in tracking_queries(cluster, targets, NOW_S)}


def test_a_gauge_is_queried_once_by_pod_with_its_buckets_and_label_sets() -> None:
    metric = "vllm:num_requests_waiting"
    texts = asked(target("chat"), target("code"), target("other", namespace="team-b"))
    where = 'namespace=~"llm|team-b"'
    assert texts[f"tracked_metric {metric}"] == f"sum by ({EACH}) ({metric}{{{where}}})"
    assert texts[f"tracked_buckets {metric}"] == f"sum by ({EACH}, le) ({metric}_bucket{{{where}}})"
    assert texts[f"tracked_label_sets {metric}"] == (
        f'count by ({EACH}) ({metric}{{{where}}}) > 1 or count by ({EACH}) ({metric}_bucket{{le="+Inf",{where}}}) > 1'
    )
    assert len(texts) == 6


def test_a_counter_is_queried_as_it_is_and_as_a_rate() -> None:
    texts = asked(target(metrics=("vllm:iteration_tokens_total",)))
    series = 'vllm:iteration_tokens_total{namespace="llm"}'
    assert texts["tracked_metric vllm:iteration_tokens_total"] == f"sum by ({EACH}) ({series})"
    assert texts["tracked_rate vllm:iteration_tokens_total"] == f"sum by ({EACH}) (rate({series}[2m]))"
    assert "tracked_buckets vllm:iteration_tokens_total" not in texts


def test_readiness_leaves_out_pods_that_are_over() -> None:
    where = 'namespace="llm"'
    assert asked(target())["tracked_ready"] == (
        f'max by (namespace, pod) (kube_pod_status_ready{{condition="true",{where}}})'
        f' unless on (namespace, pod) (kube_pod_status_phase{{phase=~"Failed|Succeeded",{where}}} == 1)'
    )


def test_replicas_are_those_set_else_those_there_are_else_pods() -> None:
    where = 'namespace="llm"'
    texts = asked(target(kind="Deployment"))
    assert texts["tracked_deployment_replicas"] == (
        f"max by (namespace, deployment) (kube_deployment_spec_replicas{{{where}}})"
        f" or max by (namespace, deployment) (kube_deployment_status_replicas{{{where}}})"
    )
    assert "tracked_pods_counted" not in texts
    assert "tracked_statefulset_replicas" in asked(target(kind="StatefulSet"))
    assert asked(target())["tracked_pods_counted"] == 'count(kube_pod_status_ready{condition="true",})'


def test_labels_of_pods_are_queried_by_their_exported_names() -> None:
    chosen = LabelSelector(
        match_expressions=(LabelRequirement(key="appTier", operator=LabelOperator.EXISTS),),
    )
    metric = "vllm:num_requests_waiting"
    with_selector = target(sources={metric: PodMetric(name=metric, selector=chosen)})
    text = asked(with_selector)["tracked_pod_labels"]
    labels = "label_app_tier, label_modelserving_volcano_sh_name"
    window = "10m"
    assert text == (
        f"group by (namespace, pod, {labels}) ("
        f'last_over_time(kube_pod_labels{{label_app_tier!="",namespace="llm"}}[{window}])'
        f' or last_over_time(kube_pod_labels{{label_modelserving_volcano_sh_name!="",namespace="llm"}}[{window}]))'
    )


def test_activity_is_queried_where_a_grace_period_needs_it() -> None:
    assert not any("running" in quantity for quantity in asked(target()))
    texts = asked(target(grace_s=60.0))
    assert texts["tracked_running"].startswith(
        'sum by (namespace, pod) (max by (namespace, pod, engine) (vllm:num_requests_running{namespace="llm"})) or'
    )
    assert texts["tracked_waiting"].startswith(
        'sum by (namespace, pod) (max by (namespace, pod, engine) (vllm:num_requests_waiting{namespace="llm"})) or'
    )
    assert 'rate(vllm:request_success_total{namespace="llm"}[2m])' in texts["tracked_finished"]


@pytest.mark.parametrize("now_s", [NOW_S, 1_790_000_007.123, 1_790_000_000.9999])
def test_the_grid_ends_now_and_reaches_back_over_the_warm_up_and_the_grace_period(now_s: float) -> None:
    slow = replace(DEFAULT_BEHAVIOR, up=replace(DEFAULT_BEHAVIOR.up, stabilization_s=400.0))
    panicky = replace(slow, panic=replace(slow.panic, hold_s=50.0))
    queries = tracking_queries(CLUSTER, [target(), target("code", behavior=panicky, grace_s=100.0)], now_s)
    for query in queries:
        assert query.end_s == round(now_s, 3)
        if query.step_s is not None:
            assert query.step_s == 15.0
            assert (query.end_s - query.start_s) % 15.0 == pytest.approx(0.0, abs=1e-6)
            needed_s = 2 * (400.0 + 50.0) + 100.0
            extra_s = 300.0 if query.quantity.startswith("tracked_buckets") else 0.0
            assert 0.0 <= query.end_s - query.start_s - needed_s - extra_s < 15.0


@pytest.mark.parametrize("length_s", [1e9, float("inf"), float("nan"), -5.0])
def test_a_window_that_is_too_long_is_not_waited_for(length_s: float) -> None:
    odd = replace(DEFAULT_BEHAVIOR, down=replace(DEFAULT_BEHAVIOR.down, stabilization_s=length_s))
    for query in tracking_queries(CLUSTER, [target(behavior=odd, grace_s=length_s)], NOW_S):
        assert query.end_s - query.start_s <= 7_200.0 + 1_800.0 + 300.0


def test_a_policys_own_query_is_sent_as_written_and_once() -> None:
    written = PrometheusMetric(query='sum(queue{model="a"})', server_url="http://PROMETHEUS:9090/other/path")
    targets = [target(name, sources={"queue": written}, metrics=("queue",)) for name in ("a", "b")]
    texts = asked(*targets)
    assert texts["tracked_query llm/a queue"] == 'sum(queue{model="a"})'
    assert "tracked_query llm/b queue" not in texts
    assert not any("metric" in quantity for quantity in texts)


@pytest.mark.parametrize(
    ("server", "ours", "is_asked"),
    [
        ("http://prometheus:9090", "http://prometheus:9090", True),
        ("http://user:secret@prometheus:9090/api", "http://prometheus:9090", True),
        ("https://p", "https://p:443/", True),
        ("http://p", "http://p:80", True),
        ("", "http://p", True),
        ("https://p:9090", "http://p:9090", False),
        ("http://p:9091", "http://p:9090", False),
        ("http://p.evil", "http://p", False),
        ("http://p@evil", "http://p", False),
        ("http://evil#http://p", "http://p", False),
        ("http://evil/http://p", "http://p", False),
        ("http://p\\@evil", "http://p", False),
        ("p", "http://p", False),
    ],
)
def test_a_query_meant_for_another_origin_is_not_sent(server: str, ours: str, is_asked: bool) -> None:
    written = PrometheusMetric(query="up", server_url=server)
    cluster = ClusterSettings(name="prod", prometheus=PrometheusSettings(url=ours))
    texts = asked(target(sources={"queue": written}, metrics=("queue",)), cluster=cluster)
    assert ("up" in texts.values()) is is_asked


def test_only_the_targets_of_the_cluster_are_queried() -> None:
    assert tracking_queries(CLUSTER, [target(cluster="other")], NOW_S) == ()
    assert tracking_queries(ClusterSettings(name="prod"), [target()], NOW_S) == ()
    assert tracking_queries(CLUSTER, [], NOW_S) == ()


@pytest.mark.parametrize("name", ["", 'x"} or vector(1)', "a-b", "up{}", "$where", "a b", "ä"])
def test_a_metric_that_no_series_can_have_is_not_queried(name: str) -> None:
    assert asked(target(metrics=(name,))).keys() == asked(target(metrics=())).keys()


def test_labels_and_namespaces_of_others_stay_in_their_quotes() -> None:
    hostile = 'a"} or vector(1) or up{b="'
    settings = PrometheusSettings(
        url="http://p", match_labels={"cluster": hostile}, label_names={"namespace": "ns", "pod": "kube_pod"}
    )
    texts = asked(target(hostile, namespace=hostile), cluster=replace(CLUSTER, prometheus=settings))
    escaped = hostile.replace('"', '\\"')
    for quantity, text in texts.items():
        assert f'cluster="{escaped}"' in text
        assert f'ns="{escaped}"' in text or quantity == "tracked_pods_counted"
        assert "namespace" not in text.replace(escaped, "")


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.sampled_from(list(LabelOperator)))
def test_any_label_key_becomes_a_label_of_prometheus(key: str, operator: LabelOperator) -> None:
    metric = "vllm:num_requests_waiting"
    selector = LabelSelector(match_expressions=(LabelRequirement(key=key, operator=operator),))
    text = asked(target(sources={metric: PodMetric(name=metric, selector=selector)}))["tracked_pod_labels"]
    labels = text.split("(", 1)[1].split(")", 1)[0].split(", ")
    assert all(label.replace("_", "a").isascii() and label.replace("_", "a").isalnum() for label in labels)


def test_many_targets_of_one_metric_take_as_many_requests_as_one() -> None:
    many = [target(f"model-{index}", namespace=f"team-{index % 30}") for index in range(150)]
    assert len(tracking_queries(CLUSTER, many, NOW_S)) == len(tracking_queries(CLUSTER, many[:1], NOW_S))


def test_an_answer_that_would_be_too_large_is_split_by_namespace_and_then_by_time() -> None:
    targets = [target(name, namespace=name, replicas=count) for name, count in (("big", 500), ("a", 30), ("b", 30))]
    budget = 5_000
    queries = [
        query
        for query in tracking_queries(CLUSTER, targets, NOW_S, sample_budget=budget)
        if query.quantity == "tracked_metric vllm:num_requests_waiting"
    ]
    expected = {"big": 500, "a": 30, "b": 30}
    for query in queries:
        series = sum(count for name, count in expected.items() if f'"{name}"' in query.text or f"{name}|" in query.text)
        ticks = round((query.end_s - query.start_s) / 15.0) + 1
        assert series * ticks <= budget
    times = sorted((query.start_s, query.end_s) for query in queries if '"big"' in query.text)
    assert len(times) > 1
    assert all(later[0] == earlier[1] + 15.0 for earlier, later in pairwise(times))
    assert times[0][0] == NOW_S - 600.0
    assert times[-1][1] == NOW_S


def test_a_replica_count_that_nobody_runs_splits_no_finer_than_any_fleet() -> None:
    assert len(tracking_queries(CLUSTER, [target(replicas=10**9)], NOW_S)) < 50
