"""Answers about metric targets as histories: what is added up, and what is missing for which reason."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.metric_targets import (
    LabelOperator,
    LabelRequirement,
    LabelSelector,
    MetricSource,
    PodMetric,
    PrometheusMetric,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.metrics.tracked_queries import tracking_queries
from tests.unit.metrics.fleet import make_target

NAN = float("nan")
NOW_S = 1_790_000_000.0
TICKS = 41
METRIC = "vllm:num_requests_waiting"
CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://prometheus:9090"))
SETTINGS = Settings(clusters=(CLUSTER,))
Values = float | Sequence[float]


POD_A, POD_B = "chat-6d4b75cb6d-bbbbb", "chat-6d4b75cb6d-ccccc"


def spelled(value: float) -> str:
    """As Prometheus writes it."""
    return str(value).replace("inf", "Inf")


class Server:
    """What Prometheus would answer; `add` gives a series over the last ticks, one value for all or one each."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], list[float]]]] = {}
        self.failed: dict[str, str] = {}

    def add(self, quantity: str, values: Values, **labels: str) -> "Server":
        each = [float(values)] * TICKS if isinstance(values, (int, float)) else list(values)
        self.series.setdefault(quantity, []).append(({"namespace": "llm", **labels}, each))
        return self

    def pod(self, name: str, values: Values = 5.0, *, ready: Values = 1.0, metric: str = METRIC) -> "Server":
        self.add("tracked_ready", ready, pod=name)
        return self.add(f"tracked_metric {metric}", values, pod=name)

    def replicas(self, count: Values, name: str = "chat") -> "Server":
        return self.add("tracked_deployment_replicas", count, deployment=name)

    def answers(self, *targets: TrackedTarget) -> list[Answer]:
        return [self._answer(query) for query in tracking_queries(CLUSTER, targets, NOW_S)]

    def _answer(self, query: Query) -> Answer:
        key = next((each for each in self.failed if query.quantity.startswith(each)), "")
        if key:
            return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=self.failed[key])
        result = [self._series(query, labels, values) for labels, values in self.series.get(query.quantity, [])]
        kind = "vector" if query.step_s is None else "matrix"
        body = json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})
        return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body.encode()))

    def _series(self, query: Query, labels: dict[str, str], values: list[float]) -> dict[str, Any]:
        if query.step_s is None:
            return {"metric": labels, "value": [query.end_s, spelled(values[-1])]}
        times = [query.end_s - 15.0 * (len(values) - 1 - tick) for tick in range(len(values))]
        pairs = [[at, spelled(value)] for at, value in zip(times, values, strict=True) if not math.isnan(value)]
        return {"metric": labels, "values": pairs}


def history(server: Server, asked: TrackedTarget | None = None) -> TrackedHistory:
    one = asked or make_target()
    return read_tracked([one], server.answers(one), NOW_S, SETTINGS)[one.key]


def test_pods_are_added_up_tick_by_tick() -> None:
    rising = [float(tick) for tick in range(TICKS)]
    got = history(Server().replicas(2).pod(POD_A, rising).pod(POD_B, 1.0))
    backend = got.backends[0]
    assert (got.start_s, got.step_s) == (NOW_S - 600.0, 15.0)
    assert backend.replicas == (2.0,) * TICKS
    assert backend.unready == (0.0,) * TICKS
    assert backend.pods[METRIC].total == tuple(each + 1.0 for each in rising)
    assert backend.pods[METRIC].reporting == (2.0,) * TICKS
    assert backend.pods[METRIC].missing == (0.0,) * TICKS
    assert got.queries == {METRIC: f"tracked_metric {METRIC}"}
    assert got.reasons == ()


def test_a_gap_is_a_gap() -> None:
    values = [5.0] * TICKS
    values[7] = NAN
    got = history(Server().replicas(2).pod(POD_A, values).pod(POD_B)).backends[0].pods[METRIC]
    assert (got.total[7], got.reporting[7], got.missing[7]) == (5.0, 1.0, 1.0)
    alone = history(Server().replicas(2).pod(POD_A, values)).backends[0].pods[METRIC]
    assert math.isnan(alone.total[7])
    assert (alone.reporting[7], alone.missing[7]) == (0.0, 1.0)


def test_a_pod_that_is_not_ready_is_counted_and_not_read() -> None:
    ready = [0.0] * 10 + [1.0] * (TICKS - 10)
    backend = history(Server().replicas(2).pod(POD_A).pod(POD_B, 9.0, ready=ready)).backends[0]
    assert (backend.unready[9], backend.pods[METRIC].total[9], backend.pods[METRIC].missing[9]) == (1.0, 5.0, 0.0)
    assert (backend.unready[10], backend.pods[METRIC].total[10]) == (0.0, 14.0)


def test_without_readiness_reporting_pods_are_ready_and_replicas_show_how_many_are_missing() -> None:
    got = history(Server().replicas(3).add(f"tracked_metric {METRIC}", 5.0, pod=POD_A)).backends[0]
    assert (got.pods[METRIC].reporting[-1], got.pods[METRIC].missing[-1]) == (1.0, 2.0)


def test_a_metric_that_is_a_typo_is_missing_and_not_zero() -> None:
    got = history(Server().replicas(2).pod(POD_A).pod(POD_B), make_target(metrics=("vllm:num_request_waiting",)))
    totals = got.backends[0].pods["vllm:num_request_waiting"]
    assert all(math.isnan(value) for value in totals.total)
    assert totals.missing == (2.0,) * TICKS
    assert got.reasons == (
        (
            "no pod of Deployment llm/chat reports vllm:num_request_waiting: "
            "is that its name, and is /metrics at port 8100 scraped?"
        ),
    )


def test_a_name_that_no_series_can_have_is_reported() -> None:
    got = history(Server().replicas(1).pod(POD_A), make_target(metrics=("queue-depth",)))
    assert got.backends[0].pods == {}
    assert got.reasons == ("metric queue-depth: no series can have that name",)


def test_a_target_at_zero_has_no_pods_to_report() -> None:
    assert history(Server().replicas(0), make_target(replicas=0)).reasons == (
        f"Deployment llm/chat has no pods: at zero replicas nothing reports {METRIC}",
    )


def test_a_pod_that_stopped_reporting_is_reported() -> None:
    values = [5.0] * (TICKS - 1) + [NAN]
    got = history(Server().replicas(2).pod(POD_A, values).pod(POD_B))
    assert got.reasons == (f"1 ready pods of Deployment llm/chat do not report {METRIC} now",)


@pytest.mark.parametrize("value", [-1.0, math.inf, -math.inf])
def test_a_reading_that_makes_no_sense_is_missing(value: float) -> None:
    values = [5.0] * TICKS
    values[3] = value
    got = history(Server().replicas(1).pod(POD_A, values))
    assert math.isnan(got.backends[0].pods[METRIC].total[3])
    assert got.reasons == (f"{METRIC} of pod {POD_A}: 1 readings are negative or infinite, and missing",)


def test_a_counter_is_read_as_it_is_and_as_a_rate() -> None:
    metric = "requests_total"
    server = Server().replicas(1).pod(POD_A, 1_000.0, metric=metric).add(f"tracked_rate {metric}", 2.5, pod=POD_A)
    backend = history(server, make_target(metrics=(metric,))).backends[0]
    assert (backend.pods[metric].total[-1], backend.rates[metric].total[-1]) == (1_000.0, 2.5)


def test_a_histogram_is_read_as_its_percentile() -> None:
    metric = "ttft_seconds"
    server = Server().replicas(2)
    for pod, high in ((POD_A, 1.0), (POD_B, 3.0)):
        counts = [10.0 * tick for tick in range(TICKS)]
        server.add("tracked_ready", 1.0, pod=pod)
        server.add(f"tracked_buckets {metric}", counts, pod=pod, le=str(high))
        server.add(f"tracked_buckets {metric}", counts, pod=pod, le="+Inf")
    got = history(server, make_target(metrics=(metric,)))
    assert got.backends[0].pods[metric].total[-1] == pytest.approx(0.96 * 4.0)  # the 48th of 50
    assert got.queries == {metric: f"tracked_buckets {metric}"}


def test_label_sets_are_counted_where_there_are_several() -> None:
    server = Server().replicas(1).pod(POD_A)
    assert history(server).label_sets == {}
    assert history(server.add(f"tracked_label_sets {METRIC}", 3.0, pod=POD_A)).label_sets == {METRIC: 3}
    assert history(server.add(f"tracked_label_sets {METRIC}", 9.0, pod="somebody-else")).label_sets == {METRIC: 3}


def test_a_selector_narrows_a_metric_to_some_pods() -> None:
    leaders = LabelSelector(match_labels={"role": "leader"})
    asked = make_target(sources={METRIC: PodMetric(name="other_name", selector=leaders)})
    server = Server().replicas(2).pod(POD_A, 5.0, metric="other_name").pod(POD_B, 7.0, metric="other_name")
    unlabelled = history(server, asked)
    assert unlabelled.backends[0].pods[METRIC].reporting == (0.0,) * TICKS
    assert "--metric-labels-allowlist=pods=[role]" in unlabelled.reasons[0]
    server.add("tracked_pod_labels", 1.0, pod=POD_B, label_role="leader")
    labelled = history(server, asked)
    assert labelled.backends[0].pods[METRIC].total[-1] == 7.0
    assert labelled.backends[0].pods[METRIC].missing[-1] == 0.0
    assert labelled.reasons == ()


def test_a_label_that_is_not_exported_may_be_absent_with_a_note() -> None:
    canaries = LabelRequirement(key="canary", operator=LabelOperator.DOES_NOT_EXIST)
    asked = make_target(sources={METRIC: PodMetric(name=METRIC, selector=LabelSelector(match_expressions=(canaries,)))})
    got = history(Server().replicas(1).pod(POD_A), asked)
    assert got.backends[0].pods[METRIC].total[-1] == 5.0
    assert got.notes == ("no pod is exported with the label canary, so every pod counts as without it",)


# -- endpoints -----------------------------------------------------------------------------------------------------


def scraped(*endpoints: tuple[float, dict[str, str]]) -> Server:
    server = Server().replicas(1).add("tracked_ready", 1.0, pod=POD_A)
    for value, labels in endpoints:
        server.add(f"tracked_metric {METRIC}", value, pod=POD_A, **labels)
    return server


def at(port: int, path: str = "", job: str = "") -> dict[str, str]:
    return {"instance": f"10.0.0.1:{port}", "metrics_path": path, "job": job}


def exported(port: int | None = None, uri: str | None = None) -> TrackedTarget:
    return make_target(sources={METRIC: PodMetric(name=METRIC, port=port, uri=uri)})


@pytest.mark.parametrize(("port", "wanted"), [(8100, 10.0), (9000, 90.0), (None, 10.0)])
def test_only_the_series_of_the_port_that_a_policy_names_count(port: int | None, wanted: float) -> None:
    got = history(scraped((10.0, at(8100)), (90.0, at(9000))), exported(port))
    assert got.backends[0].pods[METRIC].total == (wanted,) * TICKS
    assert got.reasons == ()


@pytest.mark.parametrize(("uri", "wanted"), [("/metrics", 10.0), ("/stats", 90.0), (None, 10.0)])
def test_where_series_have_a_path_only_those_of_the_policys_count(uri: str | None, wanted: float) -> None:
    got = history(scraped((10.0, at(8100, "/metrics")), (90.0, at(8100, "/stats", "b"))), exported(8100, uri))
    assert got.backends[0].pods[METRIC].total == (wanted,) * TICKS


def test_without_a_port_the_only_scraped_one_counts() -> None:
    assert history(scraped((10.0, at(8000))), exported()).backends[0].pods[METRIC].total[-1] == 10.0
    several = history(scraped((10.0, at(8000)), (90.0, at(9000))), exported())
    assert math.isnan(several.backends[0].pods[METRIC].total[-1])
    assert several.reasons[-1] == (
        f"{METRIC} of pod {POD_A}: it is scraped at port 8000, port 9000, and not at port 8100 /metrics"
    )


def test_a_port_that_is_written_and_not_scraped_is_missing() -> None:
    got = history(scraped((90.0, at(9000))), exported(8100))
    assert math.isnan(got.backends[0].pods[METRIC].total[-1])
    assert got.reasons[-1] == f"{METRIC} of pod {POD_A}: it is scraped at port 9000, and not at port 8100 /metrics"


def test_an_address_without_a_port_fits_any_port() -> None:
    got = history(scraped((10.0, {"instance": "chat-0"})), exported(8100, "/stats"))
    assert got.backends[0].pods[METRIC].total[-1] == 10.0


def test_a_pod_that_two_jobs_scrape_counts_once() -> None:
    twice = history(scraped((10.0, at(8100, job="a")), (10.4, at(8100, job="b"))), exported(8100))
    assert twice.backends[0].pods[METRIC].total[-1] == 10.0
    unlike = history(scraped((10.0, at(8100, job="a")), (90.0, at(8100, job="b"))), exported(8100))
    assert math.isnan(unlike.backends[0].pods[METRIC].total[-1])
    assert unlike.reasons[-1] == (
        f"{METRIC} of pod {POD_A}: the jobs a, b scrape it and disagree: which of them is meant?"
    )


def test_a_pod_keeps_its_endpoint_when_its_address_changes() -> None:
    before, after = [5.0] * 20 + [NAN] * (TICKS - 20), [NAN] * 20 + [7.0] * (TICKS - 20)
    server = Server().replicas(1).add("tracked_ready", 1.0, pod=POD_A)
    server.add(f"tracked_metric {METRIC}", before, pod=POD_A, instance="10.0.0.1:8100")
    server.add(f"tracked_metric {METRIC}", after, pod=POD_A, instance="[fd00::2]:8100")
    assert history(server, exported(8100)).backends[0].pods[METRIC].total == (5.0,) * 20 + (7.0,) * (TICKS - 20)


def test_histograms_counters_and_label_sets_are_those_of_the_endpoint() -> None:
    server = scraped((10.0, at(8100)), (90.0, at(9000)))
    server.add(f"tracked_label_sets {METRIC}", 3.0, pod=POD_A, **at(9000))
    assert history(server, exported(8100)).label_sets == {}
    assert history(server, exported(9000)).label_sets == {METRIC: 3}
    counts = [10.0 * tick for tick in range(TICKS)]
    buckets = Server().replicas(1).add("tracked_ready", 1.0, pod=POD_A)
    for port, high in ((8100, 1.0), (9000, 3.0)):
        for bound in (str(high), "+Inf"):
            buckets.add(f"tracked_buckets {METRIC}", counts, pod=POD_A, le=bound, **at(port))
    assert history(buckets, exported(9000)).backends[0].pods[METRIC].total[-1] == pytest.approx(0.96 * 3.0)


def test_two_metrics_of_a_policy_may_be_one_name_at_two_ports() -> None:
    sources: dict[str, MetricSource] = {
        "engine": PodMetric(name=METRIC, port=8000),
        "sidecar": PodMetric(name=METRIC, port=9000),
    }
    got = history(
        scraped((10.0, at(8000)), (90.0, at(9000))), make_target(metrics=("engine", "sidecar"), sources=sources)
    )
    read = got.backends[0].pods
    assert {name: totals.total[-1] for name, totals in read.items()} == {"engine": 10.0, "sidecar": 90.0}


# -- replicas ------------------------------------------------------------------------------------------------------

SERVING = {"modelserving.volcano.sh/name": "chat"}
ENTRIES = ("chat-0-server-0-0", "chat-1-server-0-0")


def serving(**changes: Any) -> TrackedTarget:
    return make_target(kind="ModelServing", labels=SERVING, **changes)


def test_without_a_series_of_replicas_pods_are_counted() -> None:
    late = [NAN] * 20 + [1.0] * (TICKS - 20)
    server = Server().add("tracked_pods_counted", 9.0).pod(ENTRIES[0]).pod(ENTRIES[1], ready=late)
    assert history(server, serving()).backends[0].replicas == (1.0,) * 20 + (2.0,) * (TICKS - 20)
    assert history(server, serving(pods_per_replica=2)).backends[0].replicas == (1.0,) * TICKS
    gone = Server().add("tracked_pods_counted", 9.0).pod(ENTRIES[0], ready=[1.0] * 20 + [NAN] * (TICKS - 20))
    assert history(gone, serving()).backends[0].replicas == (1.0,) * 20 + (0.0,) * (TICKS - 20)


def test_pods_that_are_not_found_are_not_gone() -> None:
    """Else a wrong label would look like zero replicas, and the policy's minimum would be enough."""
    got = history(Server().add("tracked_pods_counted", 9.0), serving(replicas=5))
    assert all(math.isnan(count) for count in got.backends[0].replicas)
    assert got.reasons == (
        (
            "no pod of ModelServing llm/chat is known: kube-state-metrics must be started with "
            "--metric-labels-allowlist=pods=[modelserving.volcano.sh/name]"
        ),
    )
    labelled = Server().add("tracked_pods_counted", 9.0)
    labelled.add("tracked_pod_labels", 1.0, pod="x", label_modelserving_volcano_sh_name="other")
    assert history(labelled, serving(replicas=5)).reasons == (
        "no pod of ModelServing llm/chat is known: none has the labels modelserving.volcano.sh/name=chat, or its name",
    )
    labelled.failed["tracked_pod_labels"] = "HTTP 503"
    assert history(labelled, serving(replicas=5)).reasons == ("HTTP 503",)
    asleep = history(Server().add("tracked_pods_counted", 9.0), serving(replicas=0))
    assert asleep.backends[0].replicas == (0.0,) * TICKS
    assert asleep.reasons == (f"ModelServing llm/chat has no pods: at zero replicas nothing reports {METRIC}",)


def test_no_replica_is_gone_while_pods_are_not_counted() -> None:
    server = Server().pod(ENTRIES[0], ready=[1.0] * (TICKS - 1) + [NAN])
    got = history(server, serving())
    assert math.isnan(got.backends[0].replicas[-1])
    assert "the replicas of ModelServing llm/chat" in got.reasons[0]
    server.add("tracked_pods_counted", 9.0).failed["tracked_ready"] = "HTTP 503"
    assert math.isnan(history(server, serving()).backends[0].replicas[-1])


def test_a_deployment_without_a_series_is_unknown() -> None:
    got = history(Server().pod(POD_A))
    assert all(math.isnan(count) for count in got.backends[0].replicas)
    assert got.reasons[0] == "no series reports the replicas of Deployment llm/chat: is kube-state-metrics scraped?"


# -- queries of policies -------------------------------------------------------------------------------------------

WRITTEN = PrometheusMetric(query="sum(queue)", server_url="http://prometheus:9090")
QUANTITY = "tracked_query llm/chat queue"


def external(**changes: Any) -> TrackedTarget:
    return make_target(metrics=("queue",), sources={"queue": replace(WRITTEN, **changes)})


def test_a_policys_query_answers_with_one_number_a_tick() -> None:
    got = history(Server().replicas(1).add(QUANTITY, 42.5), external())
    assert got.backends[0].external == {"queue": (42.5,) * TICKS}
    assert got.queries == {"queue": QUANTITY}
    assert got.reasons == ()


def test_several_numbers_at_a_tick_are_none() -> None:
    early = [1.0] * 5 + [NAN] * (TICKS - 5)
    got = history(Server().replicas(1).add(QUANTITY, 42.5, a="1").add(QUANTITY, early, a="2"), external())
    values = got.backends[0].external["queue"]
    assert all(math.isnan(value) for value in values[:5])
    assert values[5:] == (42.5,) * (TICKS - 5)
    assert got.reasons == ("the query of metric queue did not return one element at 5 earlier ticks",)


def test_a_negative_answer_is_reported() -> None:
    got = history(Server().replicas(1).add(QUANTITY, -2.0), external())
    assert got.reasons == ("the query of metric queue returned -2.0 now, expected a finite number of 0 or more",)


def test_a_query_of_another_server_is_not_sent_and_takes_no_other_answer() -> None:
    foreign, ours = external(server_url="https://other:9090"), make_target("code", metrics=("queue",))
    ours = replace(ours, backends=(replace(ours.backends[0], sources={"queue": WRITTEN}),))
    server = Server().replicas(1).replicas(1, "code").add("tracked_query llm/code queue", 7.0)
    found = read_tracked([foreign, ours], server.answers(foreign, ours), NOW_S, SETTINGS)
    assert found[ours.key].backends[0].external["queue"][-1] == 7.0
    assert math.isnan(found[foreign.key].backends[0].external["queue"][-1])
    assert found[foreign.key].reasons == (
        "metric queue is meant for https://other:9090, another server than this cluster's: not queried",
    )


# -- activity ------------------------------------------------------------------------------------------------------


def busy(server: Server, running: Values, *, finished: Values = 0.0, waiting: Values = 0.0) -> Server:
    for quantity, values in (("finished", finished), ("running", running), ("waiting", waiting)):
        server.add(f"tracked_{quantity}", values, pod=POD_A)
    return server


def activity(server: Server) -> list[float] | None:
    got = history(server, make_target(grace_s=60.0)).activity
    return None if got is None else list(got[-TICKS:])


def test_activity_is_what_finishes_and_what_is_under_way() -> None:
    idle = [4.0] * 20 + [0.0] * (TICKS - 20)
    assert activity(busy(Server().replicas(1).pod(POD_A), idle, finished=0.5)) == [4.5] * 20 + [0.5] * (TICKS - 20)
    assert activity(Server().replicas(1).pod(POD_A)) is None
    assert history(busy(Server().replicas(1).pod(POD_A), idle)).activity is None


def test_activity_that_was_not_counted_is_unknown() -> None:
    gap = [0.0] * TICKS
    gap[5] = NAN
    got = activity(busy(Server().replicas(1).pod(POD_A), 0.0, waiting=gap))
    assert got is not None
    assert [tick for tick, value in enumerate(got) if math.isnan(value)] == [5]
    silent = activity(busy(Server().replicas(2).pod(POD_A).pod(POD_B), 0.0))
    assert silent is not None
    assert all(math.isnan(value) for value in silent)


# -- bad answers ---------------------------------------------------------------------------------------------------


def test_a_failed_answer_is_a_reason_for_what_hangs_on_it() -> None:
    server = Server().replicas(1).pod(POD_A)
    server.failed[f"tracked_metric {METRIC}"] = "HTTP 422: too many samples"
    assert history(server).reasons == ("HTTP 422: too many samples",)
    server.failed["tracked_deployment"] = "connection refused"
    assert "connection refused" in history(server).reasons


def test_without_answers_everything_is_unknown() -> None:
    one = make_target()
    got = read_tracked([one], [], NOW_S, SETTINGS)[one.key]
    assert got.reasons == ("the Prometheus of cluster prod was not queried about metric targets",)
    assert len(got.backends[0].replicas) == TICKS
    unconfigured = read_tracked([one], [], NOW_S, Settings())[one.key]
    assert unconfigured.reasons[0].startswith("cluster prod has no Prometheus")


def test_samples_that_repeat_go_back_or_lie_between_the_ticks_are_left_out() -> None:
    one = make_target()
    ages_s = (600.0, 585.0, 585.0, 540.0, 555.0, 523.0, 0.0)
    pairs = [[at, "1"] for at in (*(NOW_S - age_s for age_s in ages_s), 9e99, -5.0)]
    series = {"metric": {"namespace": "llm", "pod": POD_A}, "values": pairs}
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).encode()
    answers = [
        replace(answer, body=HeldBody(content=body)) if answer.query.quantity == f"tracked_metric {METRIC}" else answer
        for answer in Server().replicas(1).pod(POD_A).answers(one)
    ]
    got = read_tracked([one], answers, NOW_S, SETTINGS)[one.key]
    total = got.backends[0].pods[METRIC].total
    assert [tick for tick, value in enumerate(total) if not math.isnan(value)] == [0, 4, 40]
    assert f"{METRIC} of pod {POD_A}: 6 samples repeat a time, go back in time or lie between the ticks" in got.reasons


def test_two_series_of_one_pod_contradict_each_other() -> None:
    got = history(Server().replicas(1).pod(POD_A).add(f"tracked_metric {METRIC}", 7.0, pod=POD_A, tenant="b"))
    assert math.isnan(got.backends[0].pods[METRIC].total[-1])
    assert any("41 ticks have several samples" in reason for reason in got.reasons)


def test_answers_that_were_split_are_put_together() -> None:
    one = make_target(replicas=50)
    queries = tracking_queries(CLUSTER, [one], NOW_S, sample_budget=500)
    assert len([query for query in queries if query.quantity == "tracked_ready"]) > 1
    whole = Server().replicas(2).pod(POD_A).pod(POD_B).answers(one)
    parts = []
    for query in queries:
        answer = next(each for each in whole if each.query.quantity == query.quantity)
        document = json.loads(answer.body.read())
        for series in document["data"]["result"] if query.step_s else ():
            series["values"] = [pair for pair in series["values"] if query.start_s <= pair[0] <= query.end_s]
        parts.append(replace(answer, query=query, body=HeldBody(content=json.dumps(document).encode())))
    assert read_tracked([one], parts, NOW_S, SETTINGS) == read_tracked([one], whole, NOW_S, SETTINGS)


odd_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2_000_000_000) | st.floats() | st.sampled_from(["1", "NaN", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pod", "le", "a"]), inner, max_size=3),
    max_leaves=8,
)
odd_series = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(
            st.sampled_from(["namespace", "pod", "le"]), st.sampled_from(["llm", *ENTRIES, "1", "+Inf"])
        ),
        "values": st.lists(
            st.tuples(
                st.sampled_from([NOW_S, NOW_S - 15.0, NOW_S - 300.0, NOW_S - 7.0, 0.0, -1e300]),
                st.sampled_from(["1", "0", "NaN", "+Inf", "-Inf", "-3", "1e308", "1e-320"]),
            ),
            max_size=4,
        ),
    }
)


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_answer_of_a_server_is_a_history(data: st.DataObject) -> None:
    one = serving(grace_s=30.0, metrics=(METRIC, "x_total", "queue"))
    one = replace(one, backends=(replace(one.backends[0], sources={"queue": WRITTEN}),))
    answers = []
    for answer in Server().answers(one):
        result = data.draw(st.lists(odd_series | odd_json, max_size=3))
        kind = data.draw(st.sampled_from(["matrix", "matrix", "matrix", "vector", "scalar"]))
        body = json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()
        body = body[: data.draw(st.sampled_from([len(body), len(body) // 2]))]
        answers.append(replace(answer, body=HeldBody(content=body)))
    got = read_tracked([one], answers, NOW_S, SETTINGS)[one.key]
    ticks = len(got.backends[0].replicas)
    assert all(len(series.total) == ticks for series in got.backends[0].pods.values())
    assert all(reason.isprintable() for reason in got.reasons)
