"""Queries: texts, labels, escaping, and how often."""

import re
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.errors import ConfigurationError
from reconciler.metrics.answers import clusters_seen
from reconciler.metrics.engines import SOURCES
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES, QUANTITIES, SATURATION_QUANTITIES, Name
from reconciler.metrics.queries import QueryNeeds, add_matchers, alternatives_in, cut_at_or, queries_for, quote
from tests.unit.metrics.fleet import make_answer

PLAIN = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p"))


def cluster(**settings: Any) -> ClusterSettings:
    return replace(PLAIN, prometheus=PrometheusSettings(url="http://p", **settings))


def texts(of: ClusterSettings, namespaces: dict[str, int], *, with_cluster_label: bool = False) -> dict[str, str]:
    asked = queries_for(of, namespaces, 1000.0, with_cluster_label=with_cluster_label)
    return {query.quantity: query.text for query in asked}


def test_completions_are_coalesced_and_never_added() -> None:
    labels = "namespace, pod, model_name, llm_d_ai_variant"

    def once(apart: str) -> str:
        return f"sum by ({labels}) (max by ({labels}, {apart})"

    waiting = 'nv_trt_llm_request_metrics{request_type="waiting",namespace="llm"}'
    beside = f" and on (namespace, pod, model) last_over_time({waiting}[5m])"
    known = [
        f'{once("engine, finished_reason")} (rate(vllm:request_success_total{{namespace="llm"}}[5m])))',
        f'{once("engine, finished_reason")} (rate(vllm:request_success{{namespace="llm"}}[5m])))',
        f'{once("dp_rank, engine_type")} (rate(sglang:num_requests_total{{namespace="llm"}}[5m])))',
        f'{once("finished_reason, engine_type")} (rate(trtllm_request_success_total{{namespace="llm"}}[5m])))',
        f'{once("method")} (rate(tgi_request_success{{namespace="llm"}}[5m])))',
        f'{once("model, version")} (rate(nv_inference_request_success{{namespace="llm"}}[5m]){beside}))',
    ]
    asked = texts(PLAIN, {"llm": 3})["completions"]
    numbered = list(alternatives_in(asked))
    assert [text for _, text in numbered if text in known] == known
    assert [number for number, _ in numbered] == [str(number) for number in range(len(numbered))]
    assert len(numbered) == sum(len(engine.finished) for engine in SOURCES)
    assert asked.count(f" or on ({labels}) label_replace(") == len(numbered) - 1


def routed(rate: str, *models: str, added: str = "job, endpoint, service") -> str:
    text = f"max without ({added}, container, prometheus, prometheus_replica, replica) ({rate})"
    for label in models:
        text = f'label_replace({text}, "routed_model", "$1", "{label}", "(.+)")'
    return f"sum by (namespace, routed_model) ({text})"


def test_arrivals_are_counted_by_the_first_router_that_knows_the_model() -> None:
    asked = cut_at_or(texts(PLAIN, {"llm": 3})["arrivals_endpoint_picker"])
    picked = [
        routed(f'rate({metric}{{namespace="llm"}}[5m])', "model_name", "target_model_name")
        for metric in ("llm_d_epp_request_total", "inference_objective_request_total", "inference_model_request_total")
    ]
    vllm = [
        routed(f'rate({metric}{{namespace="llm"}}[5m])', "model")
        for metric in ("vllm:num_incoming_requests_total", "vllm_num_incoming_requests_total")
    ]
    sglang = routed('rate(smg_router_requests_total{namespace="llm"}[5m])', "model", added="job, service")
    ended, under_way = (
        routed(f'{function}(dynamo_frontend_{metric}{{namespace="llm"}}[5m])', "model", added="job, service")
        for function, metric in (("rate", "requests_total"), ("deriv", "inflight_requests"))
    )
    assert list(asked) == [*picked, *vllm, sglang, f"{ended} + clamp_min({under_way}, 0)"]


def test_ownership_is_remembered_longer_than_rates_look_back() -> None:
    asked = texts(PLAIN, {"llm": 3})
    assert asked["pod_labels"] == (
        "group by (namespace, pod, label_llm_d_ai_variant) "
        '(last_over_time(kube_pod_labels{label_llm_d_ai_variant!="",namespace="llm"}[10m]))'
    )
    assert asked["pod_owner"] == (
        "group by (namespace, pod, owner_name) "
        '(last_over_time(kube_pod_owner{owner_kind="ReplicaSet",namespace="llm"}[10m]))'
    )


def test_last_seen_is_exact_while_a_series_lives_and_remembered_for_an_hour() -> None:
    by = "max by (namespace, pod, model_name, llm_d_ai_variant)"
    seen = 'timestamp(vllm:num_requests_running{namespace="llm"})'
    assert texts(PLAIN, {"llm": 3})["last_seen"].startswith(f"{by} ({seen}) or {by} (max_over_time({seen}[1h:1m])) or ")


def test_labels_of_the_server_and_matchers_of_the_operator_are_in_every_query() -> None:
    names = {"namespace": "exported_namespace", "pod": "kube_pod", "model": "served_model"}
    where = 'cluster="us-\\"east\\"",exported_namespace=~"a|b"'
    asked = texts(cluster(match_labels={"cluster": 'us-"east"'}, label_names=names), {"a": 1, "b": 1})
    for quantity, text in asked.items():
        assert text.count(where) == text.count("{"), quantity
        assert "model_name" not in text.replace("target_model_name", "") or quantity == "arrivals_endpoint_picker"
    assert "sum by (exported_namespace, kube_pod, served_model, llm_d_ai_variant)" in asked["running"]


def test_namespaces_are_escaped_for_a_regular_expression_and_for_a_string() -> None:
    assert 'namespace=~"a\\\\.b|c\\"d"' in texts(PLAIN, {"a.b": 1, 'c"d': 1})["running"]


@given(st.text())
@hypothesis_settings(deadline=None, max_examples=100)
def test_no_text_ends_the_string_it_is_quoted_in(text: str) -> None:
    quoted = quote(text)
    inside = quoted[1:-1].replace("\\\\", "").replace('\\"', "")
    assert (quoted[0], quoted[-1]) == ('"', '"')
    assert '"' not in inside
    assert "\n" not in quoted


@pytest.mark.parametrize(
    "settings",
    [
        {"match_labels": {'a="b"} or up{c': "d"}},
        {"match_labels": {"": "d"}},
        {"match_labels": {"ü": "d"}},
        {"label_names": {"pod": "pod) (up"}},
        {"label_names": {"cluster": "cluster"}},
    ],
)
def test_an_invalid_label_is_a_wrong_configuration(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"prometheus\.(matchLabels|labelNames)"):
        queries_for(cluster(**settings), {"llm": 1}, 0.0)


def test_every_quantity_is_queried_once_for_any_number_of_variants() -> None:
    few = queries_for(PLAIN, {"llm": 10}, 0.0)
    many = queries_for(PLAIN, {f"team-{index}": 100 for index in range(100)}, 0.0)
    assert len(few) == len(many) == len(QUANTITIES)
    assert all(query.step_s is None and query.start_s == query.end_s for query in few)
    assert "namespace=" in few[0].text
    assert "{}" in many[0].text


def test_beyond_the_budget_questions_are_split_by_namespace() -> None:
    asked = queries_for(PLAIN, {"a": 60, "b": 60, "c": 30, "d": 500}, 0.0, series_budget=100)
    running = [query.text for query in asked if query.quantity == "running"]
    assert ['namespace="a"' in running[0], 'namespace=~"b|c"' in running[1], 'namespace="d"' in running[2]] == [
        True
    ] * 3
    assert len(running) == 3


def test_without_variants_or_prometheus_nothing_is_queried() -> None:
    assert queries_for(PLAIN, {}, 0.0) == ()
    assert queries_for(ClusterSettings(name="a"), {"llm": 1}, 0.0) == ()


def test_the_cluster_label_is_queried_only_on_request_and_its_values_are_listed() -> None:
    asked = texts(PLAIN, {"llm": 1}, with_cluster_label=True)
    assert asked["cluster_label"].startswith(
        'group by (namespace, cluster) (vllm:num_requests_running{cluster!="",namespace="llm"})'
    )
    assert "cluster_label" not in texts(PLAIN, {"llm": 1})
    rows = [({"cluster": "us"}, 1.0), ({"cluster": "eu"}, 1.0)]
    assert clusters_seen([make_answer("running"), make_answer("cluster_label", rows)]) == ("eu", "us")
    assert clusters_seen([make_answer("cluster_label", failed="down")]) == ()


def test_a_configured_query_comes_first_and_only_for_its_cluster() -> None:
    settings = cluster(
        match_labels={"cluster": "a"}, queries={"arrivalRate": "sum(rate(requests_total[5m]))", "x": "y"}
    )
    first = queries_for(settings, {"llm": 1}, 0.0)[0]
    assert (first.quantity, first.text) == ("arrivals_configured", 'sum(rate(requests_total{cluster="a"}[5m]))')


@pytest.mark.parametrize(
    ("promql", "expected"),
    [
        ("up", 'up{c="a"}'),
        ("up{}", 'up{c="a"}'),
        ("up{job=~\"a{2}\", x!='}'}", 'up{c="a",job=~"a{2}", x!=\'}\'}'),
        ('{__name__="up"}', '{c="a",__name__="up"}'),
        ("rate(a:b_total[5m] offset 1h)", 'rate(a:b_total{c="a"}[5m] offset 1h)'),
        ("max_over_time(x[1h:1m])", 'max_over_time(x{c="a"}[1h:1m])'),
        (
            "sum by (job, x) (up) / on(job) group_left(z) y",
            'sum by (job, x) (up{c="a"}) / on(job) group_left(z) y{c="a"}',
        ),
        ("sum(up) without (x) > bool 0.5e3", 'sum(up{c="a"}) without (x) > bool 0.5e3'),
        ("x @ end() or y unless z", 'x{c="a"} @ end() or y{c="a"} unless z{c="a"}'),
        ('label_replace(up, "a", "$1", "b", "(.*)")', 'label_replace(up{c="a"}, "a", "$1", "b", "(.*)")'),
        ("topk(5, x) # up\n+ y", 'topk(5, x{c="a"}) # up\n+ y{c="a"}'),
        ("a and ignoring (b) c", 'a{c="a"} and ignoring (b) c{c="a"}'),
        ("-1 + Inf * NaN", "-1 + Inf * NaN"),
    ],
)
def test_matchers_enter_every_selector_of_a_written_query(promql: str, expected: str) -> None:
    assert add_matchers(promql, 'c="a"') == expected
    assert add_matchers(promql, "") == promql


@given(st.text(alphabet=string.printable, max_size=60))
@hypothesis_settings(deadline=None, max_examples=200)
def test_any_text_survives_having_matchers_added(promql: str) -> None:
    assert add_matchers(promql, 'c="a"').startswith(promql[:1])


EVERY = sorted(set(CONFIGURABLE_QUANTITIES) - {"arrivalRate"})


@pytest.mark.parametrize("key", EVERY)
def test_a_written_query_comes_before_ours_for_every_quantity(key: str) -> None:
    own = PrometheusSettings(url="http://a", match_labels={"cluster": "b"}, queries={key: "sum by (pod) (mine)"})
    plain = replace(own, queries={})
    needs = QueryNeeds(saturation={"llm": 1}, traced={"llm": 1})

    def asked(settings: PrometheusSettings) -> list[tuple[str, str]]:
        cluster = ClusterSettings(name="a", prometheus=settings)
        return [(query.quantity, query.text) for query in queries_for(cluster, {"llm": 1}, 1e6, needs=needs)]

    changed = [(old, new) for old, new in zip(asked(plain), asked(own), strict=True) if old != new]
    assert changed
    for (name, old), (_, new) in changed:
        assert name == CONFIGURABLE_QUANTITIES[key]
        assert new.startswith('(sum by (pod) (mine{cluster="b"')
        assert re.search(r"\}\)\) or (on \([a-z_, ]+\) )?" + re.escape(old) + "$", new)


@pytest.mark.parametrize(
    ("key", "past", "by_finished"),
    [
        ("completions", "past_completions", False),
        ("queueGrowth", "past_queue_growth", False),
        ("outputTokens", "past_output_tokens", True),
        ("inputTokens", "usual_input_tokens", True),
        ("completions", "usual_completions", False),
    ],
)
def test_a_written_query_reads_the_past_too(key: str, past: str, by_finished: bool) -> None:
    own = PrometheusSettings(url="http://a", queries={key: 'sum by (namespace, pod, model_name) (mine{a=~"b$"})'})
    cluster, needs = ClusterSettings(name="a", prometheus=own), QueryNeeds(past={"llm": 1}, usual={"llm": 1})
    asked = {query.quantity: query.text for query in queries_for(cluster, {"llm": 1}, 1e6, needs=needs)}
    said = '(sum by (namespace, pod, model_name) (mine{namespace="llm",a=~"b$"}))'
    times = " * on (namespace, pod, model_name, llm_d_ai_variant) (sum by" if by_finished else " or on ("
    assert f"(label_replace(label_replace({said}{times}" in asked[past]
    said_of = past.split("_", 1)[1]
    assert {name for name, text in asked.items() if "mine" in text} == {
        name for name in asked if name in (said_of, f"past_{said_of}", f"usual_{said_of}", f"demand_{said_of}")
    }


def test_a_query_is_cut_where_its_alternatives_end() -> None:
    assert list(cut_at_or('sum(a or b{c="d) or e"}) or ignoring (x, y) (f) OR g[5m:1m] or on(or) h')) == [
        'sum(a or b{c="d) or e"})',
        "(f)",
        "g[5m:1m]",
        "h",
    ]
    assert list(cut_at_or("a")) == ["a"]


def test_every_quantity_can_be_said_in_other_words() -> None:
    known = {quantity.name for quantity in (*QUANTITIES, *SATURATION_QUANTITIES)}  # arrivalRate goes before pickers
    assert known - set(CONFIGURABLE_QUANTITIES.values()) == {Name.ARRIVALS_ENDPOINT_PICKER}
