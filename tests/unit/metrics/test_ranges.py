"""Queries beyond loads: instant ones of namespaces that need them, and histories in pieces of a bounded size."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Query
from reconciler.domain.history import grid_of
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.engines.serving_engine import SELDOM
from reconciler.metrics.quantities import (
    HISTORY,
    OWNERSHIP,
    QUANTITIES,
    SATURATION_HISTORY,
    SATURATION_QUANTITIES,
    TRACED_HISTORY,
    Name,
)
from reconciler.metrics.queries import QueryNeeds, duration, history_queries, queries_for

PLAIN = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p"))
NOW_S = 1_790_000_007.5
HOUR = (NOW_S - 3600.0, NOW_S)


def asked(*names: Name, step_s: float = 60.0, namespaces: dict[str, int] | None = None, **keywords: Any) -> list[Query]:
    return list(history_queries(PLAIN, namespaces or {"llm": 2}, *HOUR, step_s, names, **keywords))


def test_needs_add_their_quantities_in_their_namespaces_alone() -> None:
    needs = QueryNeeds(saturation={"full": 3}, traced={"traced": 2})
    queries = queries_for(PLAIN, {"llm": 3, "full": 3, "traced": 2}, NOW_S, needs=needs)
    plain = queries_for(PLAIN, {"llm": 3, "full": 3, "traced": 2}, NOW_S)
    assert queries[: len(plain)] == plain
    more = queries[len(plain) :]
    instants = [query.quantity for query in more if query.step_s is None]
    assert instants == [quantity.name for quantity in SATURATION_QUANTITIES]
    assert [query.quantity for query in more if query.step_s == 15.0] == list(SATURATION_HISTORY)
    assert [query.quantity for query in more if query.step_s == 60.0] == list(TRACED_HISTORY)
    for query in more:
        namespace = "traced" if query.step_s == 60.0 else "full"
        where = '=~"|full"' if query.quantity.startswith("flow_control") else f'="{namespace}"'
        assert query.text.count("{") == query.text.count(f"namespace{where}") > 0, query.quantity
    assert len(plain) == len(QUANTITIES) == 19


def test_the_retention_period_and_the_hour_are_windows_of_the_queries() -> None:
    queries = queries_for(PLAIN, {"llm": 3}, NOW_S, needs=QueryNeeds(saturation={"llm": 3}, retention_s=1800.0))
    texts = {query.quantity: query.text for query in reversed(queries)}
    assert texts["requests_in_retention"].count("[30m]") == texts["requests_in_retention"].count("[")
    assert "last_over_time(vllm:cache_config_info" in texts["stored_kv_tokens"]
    assert texts["stored_kv_tokens"].count("[1d]") == texts["stored_kv_tokens"].count("[")
    past = {query.quantity: query for query in queries if query.step_s}
    assert (past["kv_cache_usage"].start_s, past["kv_cache_usage"].end_s) == (1_789_996_410.0, 1_789_999_995.0)


def test_instant_queries_without_namespaces_are_sent_once_for_all_namespaces() -> None:
    needs = QueryNeeds(saturation={f"team-{index}": 100 for index in range(100)})
    queries = queries_for(PLAIN, dict(needs.saturation), NOW_S, needs=needs, series_budget=1000)
    counts = {name: sum(query.quantity == name for query in queries if query.step_s is None) for name in Name}
    assert counts[Name.FLOW_CONTROL_QUEUE_SIZE] == counts[Name.FLOW_CONTROL_QUEUE_BYTES] == 1
    assert counts[Name.KV_CACHE_USAGE] == 10


def test_label_values_are_kept_apart_by_those_labels() -> None:
    queries = queries_for(PLAIN, {"llm": 3}, NOW_S, needs=QueryNeeds(saturation={"llm": 3}))
    text = next(query.text for query in queries if query.quantity == "kv_tokens")
    by = "namespace, pod, model_name, llm_d_ai_variant"
    assert text.startswith(
        f'max by ({by}, engine, num_gpu_blocks, block_size) (vllm:cache_config_info{{namespace="llm"}})'
        f' or max by ({by}, dp_rank, num_pages, page_size) (sglang:cache_config_info{{namespace="llm"}})'
        f' or max by ({by}, dp_rank) (sglang:max_total_num_tokens{{namespace="llm"}}) or '
    )


def test_a_history_is_one_range_query_a_quantity_on_multiples_of_the_step() -> None:
    (query,) = asked(Name.RUNNING)
    assert (query.start_s, query.end_s, query.step_s) == (1_789_996_440.0, 1_789_999_980.0, 60.0)
    assert query.text.startswith(
        "sum by (namespace, pod, model_name, llm_d_ai_variant) "
        "(max by (namespace, pod, model_name, llm_d_ai_variant, engine) "
        '(avg_over_time(vllm:num_requests_running{namespace="llm"}[5m]))) or '
    )
    assert len(asked(*HISTORY)) == len(HISTORY)


@pytest.mark.parametrize(
    ("name", "step_s", "window_s", "expected"),
    [
        (Name.KV_CACHE_USAGE, 15.0, None, "[1m]"),
        (Name.ITL, 15.0, None, "[5m]"),
        (Name.ITL, 60.0, 120.0, "[2m]"),
        (Name.ITL, 900.0, None, "[15m]"),
        (Name.KV_CACHE_USAGE, 90.0, None, "[90s]"),
    ],
)
def test_a_point_speaks_of_its_window_and_leaves_out_nothing_between_two(
    name: Name, step_s: float, window_s: float | None, expected: str
) -> None:
    (query,) = asked(name, step_s=step_s, window_s=window_s)
    beside_seldom = query.text.replace(f"[{SELDOM}]", "")
    assert beside_seldom.count(expected) == beside_seldom.count("[")


def test_owners_are_queried_once_over_the_whole_time() -> None:
    queries = asked(*OWNERSHIP, Name.RUNNING, sample_budget=70)
    owners = [query for query in queries if query.quantity in OWNERSHIP]
    assert [query.quantity for query in owners] == list(OWNERSHIP)
    assert {(query.step_s, query.start_s) for query in owners} == {(None, 1_789_999_980.0)}
    assert "[59m]" in owners[0].text


def test_beyond_the_budget_a_history_is_split_by_time_and_then_by_namespace() -> None:
    def pieces(budget: int) -> list[tuple[str, float, float]]:
        queries = asked(Name.ITL, step_s=15.0, namespaces={"a": 2, "b": 2}, sample_budget=budget)
        return [(query.text.split("{")[1].split("}")[0], query.start_s, query.end_s) for query in queries]

    both, start_s, end_s = 'namespace=~"a|b"', 1_789_996_410.0, 1_789_999_995.0
    whole = pieces(4 * 240)
    assert [piece[0] for piece in whole] == [both]
    halves = pieces(4 * 120)
    assert [piece[0] for piece in halves] == [both, both]
    assert halves[0][1] == whole[0][1] == start_s
    assert halves[1][1] - halves[0][2] == 15.0
    assert halves[1][2] == whole[0][2] == end_s
    small = pieces(2 * 60)
    assert [piece[0] for piece in small] == ['namespace="a"'] * 4 + ['namespace="b"'] * 4


def test_no_series_has_more_points_than_prometheus_gives() -> None:
    queries = history_queries(PLAIN, {"llm": 1}, NOW_S - 14 * 86_400, NOW_S, 60.0, [Name.RUNNING])
    points = [(query.end_s - query.start_s) / 60.0 + 1 for query in queries]
    assert points == [11_000.0, 9_160.0]


def test_without_time_namespaces_or_prometheus_no_history_is_queried() -> None:
    assert history_queries(PLAIN, {}, *HOUR, 60.0, [Name.ITL]) == ()
    assert history_queries(PLAIN, {"llm": 1}, NOW_S, NOW_S - 60.0, 15.0, [Name.ITL]) == ()
    assert history_queries(ClusterSettings(name="a"), {"llm": 1}, *HOUR, 60.0, [Name.ITL]) == ()
    assert queries_for(PLAIN, {}, NOW_S, needs=QueryNeeds(saturation={"llm": 1})) == ()


def test_hostile_names_are_escaped_in_every_text() -> None:
    hostile = {'a"} or vector(1) or up{b="': 1, "back\\slash": 1, "a|.*": 1}
    names = {"namespace": "exported_namespace", "pod": "kube_pod", "model": "served_model"}
    spelled = replace(PLAIN, prometheus=PrometheusSettings(url="http://p", match_labels={"c": '"'}, label_names=names))
    queries = queries_for(spelled, hostile, NOW_S, needs=QueryNeeds(saturation=hostile, traced=hostile))
    listed = 'a\\"\\\\} or vector\\\\(1\\\\) or up\\\\{b=\\"|a\\\\|\\\\.\\\\*|back\\\\\\\\slash"'
    for query in queries:
        anywhere = "|" if query.quantity.startswith("flow_control") else ""
        where = f'c="\\"",exported_namespace=~"{anywhere}{listed}'
        assert query.text.replace(where, "").count("{") == query.text.count(where) > 0, query.quantity
        assert "model_name" not in query.text.replace("target_model_name", "") or "picker" in query.quantity or anywhere


@given(
    start_s=st.floats(min_value=1e9, max_value=2e9),
    length_s=st.floats(min_value=0, max_value=1e5),
    step_s=st.sampled_from([1.0, 15.0, 60.0, 300.0]),
    most=st.integers(min_value=1, max_value=20_000),
)
@hypothesis_settings(max_examples=50, deadline=None)
def test_the_parts_of_a_grid_are_the_grid(start_s: float, length_s: float, step_s: float, most: int) -> None:
    grid = grid_of(start_s, start_s + length_s, step_s)
    times = [at_s for part in grid.parts(most) for at_s in part.times_s]
    assert times == list(grid.times_s)
    assert all(start_s <= at_s <= start_s + length_s and at_s % step_s == 0 for at_s in times)
    assert len(times) >= length_s / step_s - 1
    assert all(part.count <= most for part in grid.parts(most))


@pytest.mark.parametrize(
    ("span_s", "text"), [(300.0, "5m"), (86_400.0, "1d"), (3600.0, "1h"), (90.0, "90s"), (59.6, "1m"), (0.2, "1s")]
)
def test_durations_are_whole(span_s: float, text: str) -> None:
    assert duration(span_s) == text
