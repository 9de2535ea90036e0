"""The replicas that scale targets have in their clusters: one query, and which answers count."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.domain.answers import Absence, Answer, AnswerStatus, HeldBody, NoAnswer, Query
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import LiveReplicas
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.history import watched_target
from reconciler.metrics.observed import read_observed
from reconciler.metrics.queries import live_queries
from tests.unit.metrics.fleet import Fleet, make_variant

CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p"))
NOW_S = 1_790_000_007.5
NAN = math.nan


def asked(delay_s: float = 180.0, now_s: float = NOW_S, **namespaces: int) -> tuple[Query, ...]:
    return live_queries(CLUSTER, namespaces or {"llm": 1}, now_s, delay_s)


def answer(query: Query, *rows: tuple[Mapping[str, str], Sequence[float | str | None]], failed: str = "") -> Answer:
    """One value for each moment of the query; None leaves the moment out."""
    if failed:
        return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=failed)
    moments = [query.start_s + 15.0 * index for index in range(1000)]
    result = [
        {
            "metric": labels,
            "values": [[at_s, str(value)] for at_s, value in zip(moments, values, strict=False) if value is not None],
        }
        for labels, values in rows
    ]
    content = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=content))


def deployment(name: str = "llama", namespace: str = "llm") -> dict[str, str]:
    return {"namespace": namespace, "deployment": name}


def read(variants: Sequence[Any], *answers: Answer) -> Mapping[ResourceKey, LiveReplicas | NoAnswer]:
    return read_observed(variants, answers, NOW_S, Settings(clusters=(CLUSTER,))).live


def test_one_query_asks_for_all_targets_of_a_cluster_over_the_sync_delay_and_a_step() -> None:
    namespaces = {f"team-{index}": 20 for index in range(40)}
    (query,) = asked(**namespaces)
    assert (query.start_s, query.end_s, query.step_s) == (1_789_999_815.0, 1_789_999_995.0, 15.0)
    assert query.text.count("team-0|") == 4
    assert asked()[0].text == (
        'max by (namespace, deployment) (last_over_time(kube_deployment_spec_replicas{namespace="llm"}[2m]))'
        ' == min by (namespace, deployment) (last_over_time(kube_deployment_spec_replicas{namespace="llm"}[2m]))'
        ' or max by (namespace, statefulset) (last_over_time(kube_statefulset_replicas{namespace="llm"}[2m]))'
        ' == min by (namespace, statefulset) (last_over_time(kube_statefulset_replicas{namespace="llm"}[2m]))'
    )


@pytest.mark.parametrize("now_s", [1_790_000_000.0, 1_790_000_010.0, 1_790_000_014.9])
def test_some_moment_is_not_after_the_beginning_of_the_delay(now_s: float) -> None:
    (query,) = asked(now_s=now_s)
    live = LiveReplicas(start_s=query.start_s, step_s=15.0, counts=np.arange(13.0))
    assert len(live.since(now_s - 180.0))
    assert not len(live.since(now_s - 196.0))


def test_nothing_is_queried_without_targets_or_a_server() -> None:
    assert live_queries(CLUSTER, {}, NOW_S, 180.0) == ()
    assert live_queries(ClusterSettings(name="prod"), {"llm": 1}, NOW_S, 180.0) == ()


def test_deployments_and_stateful_sets_differ_by_their_labels() -> None:
    one, other = make_variant("llama"), make_variant("set", target="llama", kind="StatefulSet")
    (query,) = asked()
    told = read(
        [one, other],
        answer(query, (deployment(), [3.0] * 13), ({"namespace": "llm", "statefulset": "llama"}, [5.0] * 13)),
    )
    assert [each.newest for each in told.values() if isinstance(each, LiveReplicas)] == [3.0, 5.0]


def test_labels_are_read_as_the_server_spells_them() -> None:
    prometheus = PrometheusSettings(url="http://p", label_names={"namespace": "exported_namespace"})
    cluster = replace(CLUSTER, prometheus=prometheus)
    (query,) = live_queries(cluster, {"llm": 1}, NOW_S, 180.0)
    assert query.text.startswith("max by (exported_namespace, deployment) (last_over_time(kube_deployment_spec_")
    row = ({"exported_namespace": "llm", "deployment": "llama"}, [3.0] * 13)
    variant = make_variant("llama")
    seen = read_observed([variant], [answer(query, row)], NOW_S, Settings(clusters=(cluster,)))
    assert isinstance(seen.live[variant.key], LiveReplicas)


def test_what_cannot_be_a_count_is_not_known() -> None:
    variant, (query,) = make_variant("llama"), asked()
    values = [None, 3.0, "NaN", "+Inf", "-1", 2.5, *[3.0] * 7]
    live = read([variant], answer(query, (deployment(), values)))[variant.key]
    assert isinstance(live, LiveReplicas)
    expected = (NAN, 3.0, NAN, NAN, NAN, NAN, *[3.0] * 7)
    assert live.counts == pytest.approx(expected, nan_ok=True)


def test_a_contradictory_moment_is_unknown() -> None:
    variant, (query,) = make_variant("llama"), asked()
    twice = answer(query, (deployment(), [3.0] * 13), ({**deployment(), "x": "y"}, [3.0] * 12 + [4.0]))
    live = read([variant], twice)[variant.key]
    assert isinstance(live, LiveReplicas)
    assert live.counts[:-1].tolist() == [3.0] * 12
    assert live.newest is None


@pytest.mark.parametrize("time", [b"NaN", b"Inf", b"-Inf", b"1e308"])
def test_a_point_at_no_time_is_left_out(time: bytes) -> None:
    variant, (query,) = make_variant("llama"), asked()
    told = answer(query, (deployment(), [3.0] * 13))
    body = HeldBody(content=told.body.read().replace(str(query.start_s + 30.0).encode(), time))
    live = read([variant], replace(told, body=body))[variant.key]
    assert isinstance(live, LiveReplicas)
    assert live.counts == pytest.approx((3.0, 3.0, NAN, *[3.0] * 10), nan_ok=True)


def test_a_series_that_ended_is_not_known_from_there() -> None:
    variant, (query,) = make_variant("llama"), asked()
    live = read([variant], answer(query, (deployment(), [3.0] * 5)))[variant.key]
    assert isinstance(live, LiveReplicas)
    assert (len(live.counts), live.newest) == (13, None)


def test_a_target_without_a_series_is_missing_and_never_zero() -> None:
    variant, (query,) = make_variant("llama"), asked()
    missing = read([variant], answer(query, (deployment("other"), [0.0] * 13)))[variant.key]
    assert isinstance(missing, NoAnswer)
    assert missing.absence is Absence.MISSING
    assert "kube-state-metrics" in missing.reason


def test_a_failed_answer_is_reported_once_and_is_the_reason_for_each() -> None:
    variants, (query,) = [make_variant("a"), make_variant("b")], asked()
    seen = read_observed(variants, [answer(query, failed="connection refused")], NOW_S, Settings(clusters=(CLUSTER,)))
    reasons = [each.reason for each in seen.live.values() if isinstance(each, NoAnswer)]
    assert reasons == ["connection refused"] * 2
    assert len(seen.failures) == 1


def test_an_answer_that_is_no_range_fails() -> None:
    variant, (query,) = make_variant("llama"), asked()
    body = HeldBody(content=b'{"status": "success", "data": {"resultType": "vector", "result": []}}')
    (failed,) = read([variant], Answer(query=query, status=AnswerStatus.OK, body=body)).values()
    assert isinstance(failed, NoAnswer)
    assert failed.absence is Absence.FAILED


def test_an_older_recording_without_the_question_says_nothing() -> None:
    assert read([make_variant("llama")], *Fleet().answers) == {}


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "ModelServing", "Playground"])
def test_kinds_that_kube_state_metrics_does_not_know_are_not_watched(kind: str) -> None:
    assert watched_target(make_variant("llama", kind=kind)) is None


def test_what_an_autoscaler_moves_and_what_git_does_not_count_is_not_watched() -> None:
    variant: Any = make_variant("llama")
    assert watched_target(variant) == ("llm", "Deployment", "llama")
    assert watched_target(replace(variant, is_autoscaled=True)) is None
    assert watched_target(replace(variant, workload=replace(variant.workload, replicas=None))) is None
    assert watched_target(replace(variant, workload=None)) is None
