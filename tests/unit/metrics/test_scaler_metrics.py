"""Metrics of autoscalers as queries, the signals that these are, and what autoscalers did."""

import json
from typing import Any

import numpy as np
import pytest

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, NoAnswer
from reconciler.domain.holds import Hold
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.metric_targets import MetricTarget, Policy
from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    AdapterRule,
    MetricSource,
    ResolvedMetric,
    Scaler,
    ScalerHistory,
    ScalerMetric,
    Signal,
    TunedScaler,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.domain.written import DocumentRef
from reconciler.metrics.queries import LabelNames
from reconciler.metrics.scaler_metrics import one_by_one, pods_named, read_scalers, resolve, scaler_queries, signal_of
from reconciler.snapshot.tuned import of_this_query

PLACE = Place(path="adapter.yaml", line=4)
PODS = pods_named("llm", "phi.3", "-[0-9]+")
SERVER = PrometheusSettings(url="https://prometheus.example.com", match_labels={"cluster": "a"})
RULE = AdapterRule(
    cluster="prod",
    is_external=False,
    series='vllm:num_requests_running{namespace!="",pod!=""}',
    place=PLACE,
    matches="^vllm:num_requests_running$",
    name_as="vllm_num_requests_running",
    labels={"namespace": "namespace", "pod": "pod", "service": "svc"},
)
METRIC = ScalerMetric(source=MetricSource.PODS, name="vllm_num_requests_running", target=40.0)


def scaler(metric: ScalerMetric = METRIC) -> Scaler:
    key = ResourceKey(cluster="prod", namespace="llm", kind="HorizontalPodAutoscaler", name="phi")
    return Scaler(
        key=key,
        document=DocumentRef(path="hpa.yaml", document=0),
        place=PLACE,
        hpa_name="phi",
        metrics=(metric,),
        least=1,
        most=9,
    )


def query_of(metric: ScalerMetric, *rules: AdapterRule, server: PrometheusSettings = SERVER) -> str:
    found = resolve(scaler(metric), PODS, rules, server)
    return found.words if isinstance(found, Hold) else found.promql


@pytest.mark.parametrize(
    ("promql", "signal"),
    [
        ("sum(rate(vllm:request_success_total[2m]))", Signal.ARRIVALS),
        ('sum by (model_name) (irate(llm_d_epp_request_total{model_name="a"}[1m]))', Signal.ARRIVALS),
        ("sum(increase(vllm:request_success_total[2m]))", Signal.OTHER),
        ("sum(vllm:request_success_total)", Signal.OTHER),
        ("sum(vllm:num_requests_running)", Signal.RUNNING),
        ("sum(avg_over_time(vllm:num_requests_running[1m])) or vector(0)", Signal.RUNNING),
        ("avg(vllm:num_requests_running)", Signal.OTHER),
        ("sum(vllm:num_requests_running) / 2", Signal.OTHER),
        ("sum(vllm:num_requests_waiting)", Signal.WAITING),
        ("sum(vllm:num_requests_running + vllm:num_requests_waiting)", Signal.IN_FLIGHT),
        ("sum(vllm:kv_cache_usage_perc)", Signal.KV_CACHE),
        ("sum(rate(vllm:num_requests_running[1m]))", Signal.OTHER),
        ("sum(my_own_metric)", Signal.OTHER),
        ("vector(1)", Signal.OTHER),
        ("sum(", Signal.OTHER),
    ],
)
def test_a_signal_is_known_by_its_series_and_its_unit(promql: str, signal: Signal) -> None:
    assert signal_of(promql) is signal


def test_a_pod_metric_is_the_sum_over_the_pods_of_its_target() -> None:
    assert query_of(METRIC, RULE) == (
        'sum(sum(vllm:num_requests_running{cluster="a",namespace="llm",pod=~"phi\\\\.3-[0-9]+"}) by (pod))'
    )


@pytest.mark.parametrize(
    ("series", "matches", "name_as", "metric"),
    [
        ("vllm:request_success_total", "^(.*)_total$", "${1}_per_second", "vllm:request_success_per_second"),
        ('{__name__=~"^vllm:.*"}', "", "", "vllm:num_requests_running"),
        ("vllm:num_requests_running", "^vllm:(.*)$", "vllm_$1", "vllm_num_requests_running"),
        ("vllm:num_requests_running", "", "running", "running"),
    ],
)
def test_names_are_turned_back_into_series(series: str, matches: str, name_as: str, metric: str) -> None:
    rule = replace(RULE, series=series, matches=matches, name_as=name_as)
    assert "vllm:" in query_of(replace(METRIC, name=metric), rule)


@pytest.mark.parametrize(
    "rule",
    [
        replace(RULE, name_as="another"),
        replace(RULE, matches="^(a+)+$", name_as=""),
        replace(RULE, is_external=True),
        replace(RULE, series="vllm:num_requests_waiting"),
        replace(RULE, labels={}),
        replace(RULE, query="sum(<<.Series>>{<<.LabelValuesByName>>})"),
    ],
)
def test_what_no_rule_has_is_not_guessed(rule: AdapterRule) -> None:
    assert query_of(METRIC, rule).startswith("the query behind metric vllm_num_requests_running is not known")


def test_an_external_metric_has_its_selector() -> None:
    metric = replace(METRIC, source=MetricSource.EXTERNAL, name="queue", selector={"q": 'a"b', "no label": "x"})
    rule = replace(RULE, is_external=True, series="queue", matches="", name_as="", is_namespaced=False)
    assert query_of(metric, rule) == 'sum(sum(queue{cluster="a",q="a\\"b"}) by ())'


def test_an_object_is_named_by_the_label_of_its_kind() -> None:
    metric = replace(METRIC, source=MetricSource.OBJECT, object_kind="Service", object_name="phi")
    assert 'svc="phi"' in query_of(metric, RULE)


def test_the_configuration_comes_after_the_rules() -> None:
    server = replace(SERVER, autoscaler_metrics={METRIC.name: "sum(a + b)"})
    assert query_of(METRIC, RULE, server=server).startswith("sum(sum(vllm:")
    own = 'cluster="a",namespace="llm",pod=~"phi\\\\.3-[0-9]+"'
    assert query_of(METRIC, server=server) == f"sum(sum(a{{{own}}} + b{{{own}}}))"


def test_a_query_is_asked_as_it_is() -> None:
    assert query_of(ScalerMetric(source=MetricSource.QUERY, query="sum(a)", target=1.0)) == 'sum(a{cluster="a"})'


def test_totals_and_unreadable_targets_are_held() -> None:
    assert "which is a total" in query_of(replace(METRIC, is_per_replica=False), RULE)
    assert "cannot be read" in query_of(replace(METRIC, target=None), RULE)


# ---- three questions for all autoscalers of a cluster

NOW_S = 1_800_000_000.0
KEYS = [ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name=name) for name in ("mu", "phi")]
CLUSTER = ClusterSettings(name="prod", prometheus=SERVER)


def tuned(name: str) -> TunedScaler:
    each = replace(scaler(), hpa_name=name)
    return TunedScaler(scaler=each, metric=ResolvedMetric(promql=f"sum({name})", signal=Signal.OTHER, source=""))


SCALERS = {key: tuned(key.name) for key in KEYS}
QUERIES = scaler_queries(CLUSTER, SCALERS, NOW_S - 14 * 86_400.0, NOW_S)
ASKED = ("scaler_metric", "scaler_desired", "scaler_current")


def answer(index: int, *series: tuple[dict[str, str], float]) -> Answer:
    query = next(each for each in QUERIES if each.quantity == ASKED[index])
    times_s = [query.start_s + 60 * step for step in range(3)]
    result = [{"metric": labels, "values": [[at_s, str(value)] for at_s in times_s]} for labels, value in series]
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body.encode()))


def of_hpa(name: str, value: float) -> tuple[dict[str, str], float]:
    return {"namespace": "llm", "horizontalpodautoscaler": name}, value


def test_all_autoscalers_of_a_cluster_are_asked_about_at_once() -> None:
    names = [each.quantity for each in QUERIES]
    # two weeks of minutes are two parts of each question, however many autoscalers there are
    assert sorted(names) == sorted(2 * [*ASKED, "fine_endpoint_picker", "fine_completions"])
    assert QUERIES[0].text.count("label_replace(") == 2
    (desired, _) = (each.text for each in QUERIES if each.quantity == "scaler_desired")
    assert 'horizontalpodautoscaler=~"mu|phi"' in desired


def test_what_autoscalers_did_is_read_by_variant() -> None:
    answers = [
        answer(0, ({"scaler": str(KEYS[0])}, 80.0), ({"scaler": str(KEYS[1])}, 20.0)),
        answer(1, of_hpa("mu", 4), of_hpa("phi", 2)),
        answer(2, of_hpa("mu", 3), of_hpa("phi", 2)),
    ]
    found = read_scalers(answers, SCALERS, LabelNames())
    mu = found[KEYS[0]]
    assert isinstance(mu, ScalerHistory)
    assert [mu.total[0], mu.desired[0], mu.current[0]] == [80.0, 4.0, 3.0]
    assert np.isnan(mu.total[-1])


@pytest.mark.parametrize(
    ("metrics", "desired", "words"),
    [
        ([({"scaler": str(KEYS[1])}, 1.0)], ["mu", "phi"], "renamed"),
        ([({"scaler": str(KEYS[0])}, 1.0)], ["phi"], "kube-state-metrics"),
        ([({"scaler": str(KEYS[0]), "pod": each}, 1.0) for each in "ab"], ["mu"], "several series"),
    ],
)
def test_what_is_missing_is_named(metrics: list[Any], desired: list[str], words: str) -> None:
    counts = [of_hpa(name, 2) for name in desired]
    found = read_scalers([answer(0, *metrics), answer(1, *counts), answer(2, *counts)], SCALERS, LabelNames())
    mu = found[KEYS[0]]
    assert isinstance(mu, NoAnswer)
    assert words in mu.reason


SERVING = ResourceKey(cluster="prod", namespace="llm", kind="ModelServing", name="phi")


def policy(metric: ScalerMetric = METRIC) -> Scaler:
    found = scaler(metric)
    asked = Policy(metrics=(MetricTarget(name="load", per_replica=40.0),))
    return replace(found, key=replace(found.key, kind="AutoscalingPolicy"), hpa_name="", policy=asked)


@pytest.mark.parametrize(
    ("metric", "promql", "signal"),
    [
        (
            ScalerMetric(source=MetricSource.PODS, name="vllm:num_requests_running", target=40.0),
            'sum(vllm:num_requests_running{cluster="a",namespace="llm",pod=~"phi\\\\.3-[0-9]+"})',
            Signal.RUNNING,
        ),
        (
            ScalerMetric(source=MetricSource.QUERY, query="sum(vllm:num_requests_waiting)", target=40.0),
            'sum(vllm:num_requests_waiting{cluster="a"})',
            Signal.WAITING,
        ),
    ],
)
def test_what_a_policy_scrapes_is_asked_by_its_name(metric: ScalerMetric, promql: str, signal: Signal) -> None:
    found = resolve(policy(metric), PODS, (), SERVER)
    assert isinstance(found, ResolvedMetric)
    assert (found.promql, found.signal) == (promql, signal)
    wrong = resolve(policy(replace(metric, source=MetricSource.PODS, name="a b")), PODS, (), SERVER)
    assert isinstance(wrong, Hold)


def test_a_policy_asks_for_as_many_replicas_as_groups_of_pods_exist() -> None:
    """Of HPAs of the same cluster kube-state-metrics has the number itself."""
    metric = ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="")
    tuned = {SERVING: TunedScaler(scaler=policy(), metric=metric)}
    asked = scaler_queries(CLUSTER, tuned, NOW_S - 86_400.0, NOW_S)
    (desired,) = (each.text for each in asked if each.quantity == "scaler_desired")
    own = 'namespace="llm",pod=~"phi-[0-9]+-[a-z].*"'
    assert desired == (
        f'label_replace(count(min by (group) (label_replace(kube_pod_info{{cluster="a",{own}}} unless on (namespace, '
        f'pod) (kube_pod_deletion_timestamp{{cluster="a",{own}}} or kube_pod_status_phase{{cluster="a",'
        f'phase=~"Failed|Succeeded",{own}}} == 1), "group", "$1", "pod", "phi-([0-9]+)-.*")) == 1), "scaler", '
        '"prod/llm/ModelServing/phi", "", "")'
    )
    (ready,) = (each.text for each in asked if each.quantity == "scaler_current")
    assert 'kube_pod_status_ready{cluster="a",condition="true",namespace="llm"' in ready
    asked = scaler_queries(CLUSTER, SCALERS | tuned, NOW_S - 86_400.0, NOW_S)
    assert len([each for each in asked if each.quantity == "scaler_desired"]) == 2


@pytest.mark.parametrize("is_counted", [True, False])
def test_groups_are_read_by_variant(is_counted: bool) -> None:
    metric = ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="")
    tuned = {SERVING: TunedScaler(scaler=policy(), metric=metric)}
    asked = scaler_queries(CLUSTER, tuned, NOW_S - 3600.0, NOW_S)
    values = dict(zip(ASKED if is_counted else ASKED[:1], (7.0, 3.0, 2.0), strict=False))
    answers = []
    for query in asked:
        if query.quantity in values:
            series = [{"metric": {"scaler": str(SERVING)}, "values": [[NOW_S, str(values[query.quantity])]]}]
            body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})
            answers.append(Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body.encode())))
    found = read_scalers(answers, tuned, LabelNames())[SERVING]
    if not is_counted:
        assert isinstance(found, NoAnswer)
        assert found.reason == "no kube-state-metrics reports pods of ModelServing llm/phi"
        return
    assert isinstance(found, ScalerHistory)
    assert (found.total[-1], found.desired[-1], found.current[-1]) == (7.0, 3.0, 2.0)


def test_a_question_that_fails_is_asked_one_by_one() -> None:
    failed = replace(answer(0), status=AnswerStatus.FAILED, reason="parse error")
    again = one_by_one(failed)
    assert [each.text for each in again] == [
        f'label_replace(sum({key.name}), "scaler", "{key}", "", "")' for key in KEYS
    ]
    alone = replace(answer(0, ({"scaler": str(KEYS[1])}, 1.0)), query=again[1])
    counts = [of_hpa("mu", 2), of_hpa("phi", 2)]
    found = read_scalers([failed, alone, answer(1, *counts), answer(2, *counts)], SCALERS, LabelNames())
    assert isinstance(found[KEYS[0]], NoAnswer)
    assert isinstance(found[KEYS[1]], ScalerHistory)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('vector(1), "scaler", "prod/llm/Deployment/other", "", "") or label_replace(secret', ", has no place"),
        ("vector(1)) or (secret", ") closes no bracket"),
        ("sum(vllm:num_requests_running", "( is not closed"),
        ("sum(vllm:num_requests_running]", "] closes no bracket"),
        ('sum(x{a="b})', '" has no place'),
        ('sum(x{a="1" or cluster="b"})', "a selector with `or`"),
        ("sum(rate(x[7d]))", "[7d] is longer than an hour"),
        ("sum(rate(x[61m]))", "[61m] is longer"),
        ("max_over_time(sum(x)[1h:1s])", "[1h:1s] is longer"),
        ("max_over_time(max_over_time(sum(x)[5m:])[5m:])", "a second subquery"),
        ("x[$__interval]", "[$__interval] is longer"),
    ],
)
def test_a_query_that_reaches_beyond_itself_is_not_asked(query: str, words: str) -> None:
    """It is asked together with those of others, within labels that are added, of each minute of two weeks."""
    found = query_of(ScalerMetric(source=MetricSource.QUERY, query=query, target=4.0))
    assert found.startswith("its own query is not asked: ")
    assert words in found


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("sum(x) # of all\n", 'sum(x{cluster="a"})'),
        ("vector(0) #\r or secret", 'vector(0) \r or secret{cluster="a"}'),
        ('max_over_time(sum(x{a="#1,"})[1h:1m])', 'max_over_time(sum(x{cluster="a",a="#1,"})[1h:1m])'),
        ("sum(rate(x[1m30s] offset 1w))", 'sum(rate(x{cluster="a"}[1m30s] offset 1w))'),
    ],
)
def test_a_query_is_asked_without_its_comments(query: str, asked: str) -> None:
    """A comment, which ends with a carriage return too, would hide what we add behind it."""
    assert query_of(ScalerMetric(source=MetricSource.QUERY, query=query, target=4.0)) == asked


def test_names_of_a_rule_end_no_selector() -> None:
    """Names of metrics and labels are texts of the repository as well."""
    named = replace(RULE, series='{__name__=~"^vllm:.*"}', matches="", name_as="")
    metric = replace(METRIC, name='vllm:x{} or secret{a="')
    assert query_of(metric, named).endswith("no rule of prometheus-adapter in Git has it")
    for labels in ({"pod": 'pod="x"} or secret{y'}, {"pod": "<<.Other>>"}):
        assert "names no label of what it describes" in query_of(METRIC, replace(RULE, labels=labels))


def test_a_query_names_no_other_autoscaler_as_asked() -> None:
    """What is written inside of an operand is its own affair: only the label around it says whose it is."""
    text = 'label_replace(x, "scaler", "prod/llm/HorizontalPodAutoscaler/other", "", "")'
    metric = ScalerMetric(source=MetricSource.QUERY, query=text, target=4.0)
    resolved = resolve(scaler(metric), PODS, (), SERVER)
    assert isinstance(resolved, ResolvedMetric)
    mine, other = (replace(scaler().key, name=name) for name in ("phi", "other"))
    tuned = {key: TunedScaler(scaler=scaler(metric), metric=resolved) for key in (mine, other)}
    asked = scaler_queries(ClusterSettings(name="prod", prometheus=SERVER), {mine: tuned[mine]}, 0.0, 7 * 86_400.0)
    answer = Answer(query=asked[0], status=AnswerStatus.FAILED, body=HeldBody())
    assert read_scalers([answer], tuned, LabelNames()).keys() == {mine}


def test_a_change_that_gives_another_query_is_not_judged_by_the_old_one() -> None:
    history = ScalerHistory(start_s=0.0, step_s=60.0, total=np.ones(2), desired=np.ones(2), current=np.ones(2))
    base = {each: tuned(each.name) for each in KEYS}
    head = {**base, KEYS[0]: tuned("other")}
    found = of_this_query(dict.fromkeys(KEYS, history), head, base)
    assert isinstance(found[KEYS[0]], NoAnswer)
    assert found[KEYS[1]] is history
