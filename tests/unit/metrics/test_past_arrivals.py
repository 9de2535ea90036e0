"""What arrived before now: what is asked, whose it is, and what of the answers is believed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.measured.loads import PastArrivals
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.cluster import QueryNeeds, queries_for
from reconciler.metrics.reading.observed import read_observed

PROMETHEUS = PrometheusSettings(url="http://p")
CLUSTER = ClusterSettings(name="prod", prometheus=PROMETHEUS)
NOW_S = 1_790_000_000.0
FIRST_S = 1_789_996_440.0
"""The first whole minute within the last hour."""
NAN = math.nan
Rates = Sequence[float | str | None]
LLAMA, ADAPTER = {"namespace": "llm", "model_name": "llama"}, {"namespace": "llm", "model_name": "adapter"}


def asked(
    cluster: ClusterSettings = CLUSTER, payback_s: float = 3600.0, models: Mapping[str, int] | None = None
) -> list[Query]:
    needs = QueryNeeds(past=models or {"llm": 1}, payback_s=payback_s)
    return [each for each in queries_for(cluster, {"llm": 4}, NOW_S, needs=needs) if each.step_s is not None]


def answer(name: Name, *rows: tuple[Mapping[str, str], Rates], failed: str = "", start_s: float = FIRST_S) -> Answer:
    """Rates minute by minute; None leaves a minute out."""
    query = Query(cluster="prod", quantity=name, text="up", start_s=start_s, end_s=FIRST_S + 240.0, step_s=60.0)
    if failed:
        return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=failed)
    result = [
        {
            "metric": labels,
            "values": [[start_s + 60 * at, str(value)] for at, value in enumerate(values) if value is not None],
        }
        for labels, values in rows
    ]
    content = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=content))


@pytest.fixture
def seen(make_variant: Any, make_fleet: Any) -> Any:
    """What is known of the past of a model whose replica finishes requests, counted by it or by a picker."""

    def read(*answers: Answer, picked: bool = False, **variant: Any) -> Mapping[ModelKey, PastArrivals]:
        fleet = make_fleet().model("llama").pod("llama-0")
        if picked:
            fleet.add("arrivals_endpoint_picker", 1.0, model_name="llama", target_model_name="llama")
        made = replace(make_variant("llama", model_id="llama"), **variant)
        settings = Settings(clusters=(CLUSTER,))
        past: Mapping[ModelKey, PastArrivals] = read_observed([made], [*fleet.answers, *answers], NOW_S, settings).past
        return past

    return read


def rates(past: Mapping[ModelKey, PastArrivals]) -> list[float | None]:
    (found,) = past.values()
    assert (found.start_s, found.step_s, found.window_s) == (FIRST_S, 60.0, 300.0)
    return [None if math.isnan(rate) else rate for rate in found.rates_per_s]


def test_each_source_is_asked_once_over_payback_for_all_models() -> None:
    queries = asked(models={f"team-{index}": 50 for index in range(20)})
    assert [each.quantity for each in queries] == [
        "past_arrivals_endpoint_picker",
        "past_completions",
        "past_queue_growth",
    ]
    assert {(each.start_s, each.end_s, each.step_s) for each in queries} == {(FIRST_S, 1_789_999_980.0, 60.0)}
    assert all("team-0|team-1|" in each.text for each in queries)


def test_a_long_payback_is_asked_window_by_window() -> None:
    (query, *_) = asked(payback_s=86400.0)
    assert (query.step_s, round((query.end_s - query.start_s) / 300.0)) == (300.0, 287)


def test_replicas_are_added_up_and_windows_are_those_of_the_load() -> None:
    texts = {each.quantity: each.text for each in asked()}
    assert texts["past_completions"].startswith(
        "sum by (namespace, model_name) (sum by (namespace, pod, model_name, llm_d_ai_variant) "
        "(max by (namespace, pod, model_name, llm_d_ai_variant, engine, finished_reason) "
        '(rate(vllm:request_success_total{namespace="llm"}[5m]))) or '
    )
    assert texts["past_completions"].endswith(")")
    assert 'rate(llm_d_epp_request_total{namespace="llm"}[5m])' in texts["past_arrivals_endpoint_picker"]


def test_a_query_of_the_settings_is_asked_as_it_stands() -> None:
    configured = replace(PROMETHEUS, queries={"arrivalRate": "my_rate"}, match_labels={"cluster": "us"})
    query = asked(replace(CLUSTER, prometheus=configured))[0]
    assert (query.quantity, query.text, query.step_s) == ("past_arrivals_configured", 'my_rate{cluster="us"}', 60.0)


def test_nothing_is_asked_where_no_queue_sizes() -> None:
    assert [each for each in queries_for(CLUSTER, {"llm": 4}, NOW_S) if each.step_s is not None] == []


def test_completions_and_what_queues_grew_by_are_the_arrivals(seen: Any) -> None:
    found = seen(
        answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, 5.0, 6.0, 7.0, None])),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [1.0, -1.0, "NaN", None, 0.0])),
        answer(Name.PAST_ENDPOINT_PICKER, (LLAMA, [99.0] * 5)),
    )
    assert rates(found) == [5.0, 5.0, None, None, None]


def test_what_a_picker_counts_now_is_compared_with_what_it_counted(seen: Any) -> None:
    picker = {"namespace": "llm", "model_name": "chat", "target_model_name": "llama"}
    direct = {**picker, "model_name": "llama"}
    found = seen(
        answer(Name.PAST_ENDPOINT_PICKER, (picker, [1.0, 2.0, 3.0, 4.0, 5.0]), (direct, [1.0, None, 1.0, "+Inf", 1.0])),
        answer(Name.PAST_COMPLETIONS, (LLAMA, [99.0] * 5)),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5)),
        picked=True,
    )
    assert rates(found) == [2.0, 2.0, 4.0, None, 6.0]


def test_sources_are_never_mixed(seen: Any) -> None:
    completions = answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0] * 5)), answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5))
    assert seen(*completions, picked=True) == {}
    assert seen(answer(Name.PAST_ENDPOINT_PICKER, (LLAMA, [4.0] * 5))) == {}
    assert seen(completions[0]) == {}


def test_names_of_one_model_are_added_up_where_all_are_known(seen: Any) -> None:
    found = seen(
        answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, 4.0, None, 4.0, 4.0]), (ADAPTER, [1.0, None, 1.0, 1.0, 1.0])),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5)),
        served_names=("llama", "adapter"),
    )
    assert rates(found) == [5.0, None, None, 5.0, 5.0]


def test_a_share_of_the_requests_is_a_share_of_the_past(seen: Any) -> None:
    told = (
        answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, 8.0, 4.0, 4.0, 4.0])),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5)),
    )
    assert rates(seen(*told, share=0.25)) == [1.0, 2.0, 1.0, 1.0, 1.0]


def test_nobody_tells_anything_of_a_model_that_no_series_names(seen: Any) -> None:
    unnamed = {"namespace": "llm"}
    assert seen(answer(Name.PAST_COMPLETIONS, (unnamed, [4.0] * 5)), answer(Name.PAST_QUEUE_GROWTH)) == {}
    assert seen() == {}


def test_an_answer_that_failed_is_told_and_leaves_its_time_out(make_variant: Any, make_fleet: Any) -> None:
    fleet = make_fleet().model("llama").pod("llama-0")
    late = answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, 5.0]), start_s=FIRST_S + 180.0)
    answers = [
        answer(Name.PAST_COMPLETIONS, failed="timed out"),
        late,
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5)),
    ]
    variants = [make_variant("llama", model_id="llama")]
    observed = read_observed(variants, [*fleet.answers, *answers], NOW_S, Settings(clusters=(CLUSTER,)))
    assert rates(observed.past) == [None, None, None, 4.0, 5.0]
    assert observed.failures == ("prod: timed out",)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e13"])
def test_what_cannot_be_reckoned_with_is_not_known(seen: Any, value: str) -> None:
    told = (
        answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, value, 4.0, 4.0, 4.0])),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5)),
    )
    assert rates(seen(*told)) == [4.0, None, 4.0, 4.0, 4.0]
