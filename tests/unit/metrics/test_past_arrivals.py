"""Past arrivals: the queries, the models they belong to, and which answers count."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, NoAnswer, Query
from reconciler.domain.history import LoadHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import read_observed
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import QueryNeeds, queries_for
from tests.unit.metrics.fleet import Fleet, make_variant

PROMETHEUS = PrometheusSettings(url="http://p")
CLUSTER = ClusterSettings(name="prod", prometheus=PROMETHEUS)
NOW_S = 1_790_000_000.0
FIRST_S = 1_789_996_440.0
"""The first whole minute within the last hour."""
NAN = math.nan
Rates = Sequence[float | str | None]
Past = Mapping[ModelKey, LoadHistory | NoAnswer]
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


def finished(*rows: tuple[Mapping[str, str], Rates]) -> list[Answer]:
    """What was finished while no queue of the llama grew."""
    return [answer(Name.PAST_COMPLETIONS, *rows), answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [0.0] * 5))]


def seen(*answers: Answer, picked: bool = False, **variant: Any) -> Any:
    """What is known of the past of a model whose replica finishes requests, counted by it or by a picker."""
    fleet = Fleet().model("llama").pod("llama-0")
    if picked:
        fleet.add("arrivals_endpoint_picker", 1.0, model_name="llama", target_model_name="llama")
    made = replace(make_variant("llama", model_id="llama"), **variant)
    settings = Settings(clusters=(CLUSTER,))
    past: Past = read_observed([made], [*fleet.answers, *answers], NOW_S, settings).past
    return past


def rates(past: Past) -> list[float | None]:
    (found,) = past.values()
    assert isinstance(found, LoadHistory)
    assert (found.times_s[0], found.step_s, found.window_s) == (FIRST_S, 60.0, 300.0)
    return [None if math.isnan(rate) else rate for rate in found.rates_per_s]


def why(past: Past) -> str:
    (found,) = past.values()
    assert isinstance(found, NoAnswer)
    return found.reason


def test_each_source_is_queried_once_over_payback_for_all_models() -> None:
    every = asked(models={f"team-{index}": 50 for index in range(20)})
    queries = [each for each in every if each.quantity.startswith("past_")]
    assert [each.quantity for each in queries] == [
        "past_arrivals_endpoint_picker",
        "past_completions",
        "past_queue_growth",
        "past_output_tokens",
        "past_input_tokens",
    ]
    assert {(each.start_s, each.end_s, each.step_s) for each in queries} == {(FIRST_S, 1_789_999_980.0, 60.0)}
    assert all("team-0|team-1|" in each.text for each in queries)


def test_a_long_payback_is_queried_window_by_window() -> None:
    (query, *_) = asked(payback_s=86400.0)
    assert (query.step_s, round((query.end_s - query.start_s) / 300.0)) == (300.0, 287)


def test_replicas_are_added_up_and_windows_are_those_of_the_load() -> None:
    texts = {each.quantity: each.text for each in asked()}
    assert texts["past_completions"].startswith(
        "sum by (namespace, model_name, unnamed_pod) (label_replace(label_replace("
        "sum by (namespace, pod, model_name, llm_d_ai_variant) "
        "(max by (namespace, pod, model_name, llm_d_ai_variant, engine, finished_reason) "
        '(rate(vllm:request_success_total{namespace="llm"}[5m]))) or '
    )
    assert texts["past_completions"].endswith(
        ', "unnamed_pod", "$1", "pod", "(.*)"), "unnamed_pod", "", "model_name", ".+"))'
    )
    assert "request_generation_tokens_sum" in texts["past_output_tokens"]
    assert "request_generation_tokens_count" not in texts["past_output_tokens"]
    assert 'rate(llm_d_epp_request_total{namespace="llm"}[5m])' in texts["past_arrivals_endpoint_picker"]


def test_a_day_and_this_hour_a_week_ago_are_queried_in_windows_of_a_load() -> None:
    needs = QueryNeeds(usual={"llm": 4})
    queries = [each for each in queries_for(CLUSTER, {"llm": 4}, NOW_S, needs=needs) if each.step_s is not None]
    assert [each.quantity for each in queries] == [
        "usual_completions",
        "usual_output_tokens",
        "usual_input_tokens",
        "usual_completions",
    ]
    assert {each.step_s for each in queries} == {600.0}
    assert all("[5m]" in each.text and "[10m]" not in each.text for each in queries)
    ages_h = [((NOW_S - each.start_s) / 3600, (NOW_S - each.end_s) / 3600) for each in queries]
    assert [(round(first), round(last)) for first, last in ages_h] == [(24, 0)] * 3 + [(168, 168)]


def test_a_long_payback_asks_how_full_replicas_were_in_coarser_steps() -> None:
    def steps(payback_s: float) -> set[float | None]:
        needs = QueryNeeds(saturation={"llm": 4}, payback_s=payback_s)
        return {each.step_s for each in queries_for(CLUSTER, {"llm": 4}, NOW_S, needs=needs)} - {None}

    assert (steps(3600.0), steps(7200.0)) == ({15.0}, {15.0, 300.0})


def test_a_usual_day_is_known_by_model() -> None:
    fleet = Fleet().model("llama").pod("llama-0")
    told = [
        answer(Name.USUAL_COMPLETIONS, (LLAMA, [4.0, 0.0, None, 4.0, 4.0])),
        answer(Name.USUAL_OUTPUT_TOKENS, (LLAMA, [400.0, 0.0, None, 800.0, 4.0])),
        answer(Name.USUAL_INPUT_TOKENS, failed="timed out"),
    ]
    variants = [make_variant("llama", model_id="llama"), make_variant("other", model_id="other")]
    observed = read_observed(variants, [*fleet.answers, *told], NOW_S, Settings(clusters=(CLUSTER,)))
    (found,) = observed.usual.values()
    assert [each for each in found.output_tokens if not math.isnan(each)] == [100.0, 200.0, 1.0]
    assert all(map(math.isnan, found.input_tokens))
    assert observed.failures == ("prod: timed out",)


@pytest.mark.parametrize(
    ("extra", "lacking"),
    [
        ({"warnings": ["No StoreAPIs matched for this query"]}, "No StoreAPIs matched for this query"),
        ({"warnings": ["PromQL warning: a histogram"], "infos": ["PromQL info: not a counter"]}, ""),
        ({"isPartial": True}, "the answer is partial (isPartial)"),
        ({"isPartial": False}, ""),
    ],
)
@pytest.mark.parametrize("is_past", [True, False])
def test_an_answer_that_lacks_a_part_says_so(extra: dict[str, Any], lacking: str, is_past: bool) -> None:
    fleet = Fleet().model("llama").pod("llama-0")
    kind, quantity = ("matrix", Name.PAST_COMPLETIONS) if is_past else ("vector", Name.WAIT)
    content = {"status": "success", "data": {"resultType": kind, "result": []}, **extra}
    query = Query(cluster="prod", quantity=quantity, text="up", start_s=NOW_S, end_s=NOW_S)
    query = replace(query, step_s=60.0) if is_past else query
    told = Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=json.dumps(content).encode()))
    answers = [*(each for each in fleet.answers if each.query.quantity != quantity), told]
    observed = read_observed([make_variant("llama")], answers, NOW_S, Settings(clusters=(CLUSTER,)))
    assert observed.incomplete == ({"prod": lacking} if lacking else {})


def test_a_query_of_the_settings_is_sent_as_written() -> None:
    configured = replace(PROMETHEUS, queries={"arrivalRate": "my_rate"}, match_labels={"cluster": "us"})
    query = asked(replace(CLUSTER, prometheus=configured))[0]
    assert (query.quantity, query.text, query.step_s) == ("past_arrivals_configured", 'my_rate{cluster="us"}', 60.0)


def test_nothing_is_queried_where_no_queue_sizes() -> None:
    assert [each for each in queries_for(CLUSTER, {"llm": 4}, NOW_S) if each.step_s is not None] == []


def test_completions_and_what_queues_grew_by_are_the_arrivals() -> None:
    found = seen(
        answer(Name.PAST_COMPLETIONS, (LLAMA, [4.0, 5.0, 6.0, 7.0, None])),
        answer(Name.PAST_QUEUE_GROWTH, (LLAMA, [1.0, -1.0, "NaN", None, 0.0])),
        answer(Name.PAST_ENDPOINT_PICKER, (LLAMA, [99.0] * 5)),
    )
    assert rates(found) == [5.0, 5.0, None, None, None]


def test_what_a_picker_counts_now_is_compared_with_what_it_counted() -> None:
    picker = {"namespace": "llm", "model_name": "chat", "target_model_name": "llama"}
    direct = {**picker, "model_name": "llama"}
    found = seen(
        answer(Name.PAST_ENDPOINT_PICKER, (picker, [1.0, 2.0, 3.0, 4.0, 5.0]), (direct, [1.0, None, 1.0, "+Inf", 1.0])),
        *finished((LLAMA, [99.0] * 5)),
        picked=True,
    )
    assert rates(found) == [2.0, 2.0, 4.0, None, 6.0]


def test_sources_are_never_mixed() -> None:
    completions = finished((LLAMA, [4.0] * 5))
    assert why(seen(*completions, picked=True)) == 'no series counts the past arrivals of model "llama"'
    assert why(seen(answer(Name.PAST_ENDPOINT_PICKER, (LLAMA, [4.0] * 5))))
    assert why(seen(completions[0]))


def test_names_of_one_model_are_added_up_where_all_are_known() -> None:
    found = seen(
        *finished((LLAMA, [4.0, 4.0, None, 4.0, 4.0]), (ADAPTER, [1.0, None, 1.0, 1.0, 1.0])),
        served_names=("llama", "adapter"),
    )
    assert rates(found) == [5.0, None, None, 5.0, 5.0]


def test_a_share_of_the_requests_is_a_share_of_the_past() -> None:
    told = finished((LLAMA, [4.0, 8.0, 4.0, 4.0, 4.0]))
    assert rates(seen(*told, share=0.25)) == [1.0, 2.0, 1.0, 1.0, 1.0]


def test_a_model_that_no_series_names_is_unknown() -> None:
    unnamed = {"namespace": "llm"}
    assert why(seen(answer(Name.PAST_COMPLETIONS, (unnamed, [4.0] * 5)), answer(Name.PAST_QUEUE_GROWTH)))
    assert seen() == {}


def test_pods_that_name_no_model_are_counted_for_that_of_their_variant() -> None:
    pods = [{"namespace": "llm", "unnamed_pod": f"llama-5d4c8b7f9-bcdf{index}"} for index in (2, 4)]
    stranger = {"namespace": "llm", "unnamed_pod": "other-5d4c8b7f9-bcdf2"}
    told = (
        answer(Name.PAST_COMPLETIONS, *((pod, [4.0] * 5) for pod in pods), (stranger, [9.0] * 5)),
        answer(Name.PAST_QUEUE_GROWTH, *((pod, [0.5] * 5) for pod in pods)),
    )
    assert rates(seen(*told)) == [9.0] * 5


def test_requests_are_as_long_as_the_tokens_by_what_was_finished() -> None:
    told = (
        *finished((LLAMA, [4.0, 4.0, 0.0, None, 2.0])),
        answer(Name.PAST_OUTPUT_TOKENS, (LLAMA, [400.0, 800.0, 0.0, 80.0, 50.0])),
        answer(Name.PAST_INPUT_TOKENS, (LLAMA, [40.0] * 5)),
    )
    (found,) = seen(*told).values()
    known = [None if math.isnan(length) else length for length in found.output_tokens]
    assert known == [100.0, 200.0, None, None, 25.0]
    assert found.input_tokens[0] == 10.0


def test_lengths_without_a_query_are_none_and_failed_ones_have_a_reason() -> None:
    told = finished((LLAMA, [4.0] * 5))
    (found,) = seen(*told).values()
    assert (len(found.output_tokens), found.reason) == (0, "")
    (found,) = seen(*told, answer(Name.PAST_OUTPUT_TOKENS, failed="timed out")).values()
    assert all(map(math.isnan, found.output_tokens))
    assert found.reason == "timed out"


def test_a_name_without_requests_so_far_is_no_gap() -> None:
    told = finished((LLAMA, [4.0] * 5), (ADAPTER, [None, None, 1.0, None, 1.0]))
    assert rates(seen(*told, served_names=("llama", "adapter"))) == [4.0, 4.0, 5.0, None, 5.0]


def test_an_answer_that_failed_is_reported_and_leaves_its_time_out() -> None:
    fleet = Fleet().model("llama").pod("llama-0")
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
def test_what_cannot_be_reckoned_with_is_not_known(value: str) -> None:
    told = finished((LLAMA, [4.0, value, 4.0, 4.0, 4.0]))
    assert rates(seen(*told)) == [4.0, None, 4.0, 4.0, 4.0]
