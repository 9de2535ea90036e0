"""Two weeks of arrivals: what is asked, from which source they are read, and what a gap is."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.history import DemandHistory
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import read_observed
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import QueryNeeds, queries_for
from tests.unit.metrics.fleet import Fleet, make_variant

CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p"))
NOW_S, FIRST_S = 1_790_000_000.0, 1_789_998_000.0
LLAMA = {"namespace": "llm", "model_name": "llama"}
Rates = Sequence[float | str | None]


def answer(name: Name, *rows: tuple[Mapping[str, str], Rates], failed: str = "") -> Answer:
    """Rates every ten minutes; None leaves one out."""
    query = Query(cluster="prod", quantity=name, text="up", start_s=FIRST_S, end_s=FIRST_S + 1800, step_s=600.0)
    if failed:
        return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=failed)
    result = [
        {
            "metric": labels,
            "values": [[FIRST_S + 600 * at, str(rate)] for at, rate in enumerate(rates) if rate is not None],
        }
        for labels, rates in rows
    ]
    content = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=content))


def demand(*answers: Answer, picked: bool = False, **variant: Any) -> tuple[DemandHistory, ...]:
    """What is known of two weeks of a model whose replica finishes requests, counted by it or by a picker."""
    fleet = Fleet().model("llama").pod("llama-0")
    if picked:
        fleet.add("arrivals_endpoint_picker", 1.0, model_name="llama", target_model_name="llama")
    made = replace(make_variant("llama", model_id="llama"), **variant)
    settings = Settings(clusters=(CLUSTER,))
    return read_observed([made], [*fleet.answers, *answers], NOW_S, settings).demand


def rates(found: tuple[DemandHistory, ...]) -> list[float | None]:
    (history,) = found
    assert (history.start_s, history.step_s, len(history.models)) == (FIRST_S, 600.0, 1)
    return [None if math.isnan(rate) else rate for rate in history.per_s[0]]


def test_two_weeks_are_queried_in_steps_of_ten_minutes_that_miss_no_request() -> None:
    needs = QueryNeeds(past={"llm": 1})
    found = [
        each
        for each in queries_for(CLUSTER, {"llm": 4}, NOW_S, needs=needs)
        if each.quantity in (Name.DEMAND_ENDPOINT_PICKER, Name.DEMAND_COMPLETIONS)
    ]
    assert len(found) == 2
    assert {(each.step_s, each.end_s - each.start_s) for each in found} == {(600.0, 14 * 86_400.0 - 600.0)}
    assert all("[10m]" in each.text and "[5m]" not in each.text for each in found)


def test_rates_are_from_the_source_that_counts_the_load_now() -> None:
    by_picker = answer(
        Name.DEMAND_ENDPOINT_PICKER, ({"namespace": "llm", "target_model_name": "llama"}, [5.0, 6.0, 7.0, 8.0])
    )
    finished = answer(Name.DEMAND_COMPLETIONS, (LLAMA, [1.0, 2.0, 3.0, 4.0]))
    assert rates(demand(by_picker, finished)) == [1.0, 2.0, 3.0, 4.0]
    assert rates(demand(by_picker, finished, picked=True)) == [5.0, 6.0, 7.0, 8.0]


def test_a_gap_is_not_zero_and_what_is_no_rate_is_a_gap() -> None:
    assert rates(demand(answer(Name.DEMAND_COMPLETIONS, (LLAMA, [1.0, None, "-3", "+Inf"])))) == [1.0, None, None, None]


def test_a_share_of_the_requests_is_what_routes_give() -> None:
    found = demand(answer(Name.DEMAND_COMPLETIONS, (LLAMA, [4.0, 8.0, 4.0, 8.0])), share=0.25)
    assert rates(found) == [1.0, 2.0, 1.0, 2.0]


def test_without_an_answer_nothing_is_known_and_the_run_goes_on() -> None:
    assert demand() == ()
    assert demand(answer(Name.DEMAND_COMPLETIONS, failed="query processing would load too many samples")) == ()
    assert demand(answer(Name.DEMAND_COMPLETIONS)) == ()
