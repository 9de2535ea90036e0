"""Histories on one grid: joined, attributed, and NaN wherever nothing is known."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.observed import Trace
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import read_observed
from tests.servers.traces import read_traces
from tests.unit.metrics.fleet import NOW_S, SETTINGS, Fleet, make_answer, make_variant

START_S, END_S, STEP_S = 1_789_999_980.0, 1_790_000_040.0, 15.0
POD = "llama-7c9d8f6b5-bx4zz"
NAN = "NaN"
Points = Sequence[tuple[float, str]]


def line(*values: str, start_s: float = START_S) -> Points:
    """Values on the grid."""
    return [(start_s + index * STEP_S, value) for index, value in enumerate(values)]


def ranged(quantity: str, *series: tuple[Mapping[str, str], Points], failed: str = "", **query: Any) -> Answer:
    asked = Query(cluster="prod", quantity=quantity, text="up", start_s=START_S, end_s=END_S, step_s=STEP_S)
    asked = replace(asked, **query)
    if failed:
        return Answer(query=asked, status=AnswerStatus.FAILED, body=HeldBody(), reason=failed)
    result = [{"metric": {"namespace": "llm"} | dict(labels), "values": list(points)} for labels, points in series]
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    return Answer(query=asked, status=AnswerStatus.OK, body=HeldBody(content=body))


def of(pod: str = POD, model: str = "llama", **labels: str) -> dict[str, str]:
    return {"pod": pod, "model_name": model, **labels}


def look(*answers: Answer, variants: Sequence[Any] = (), settings: Settings = SETTINGS) -> tuple[Trace, ...]:
    """The only variant's traces, its replica's name being `POD`."""
    asked = variants or [make_variant("llama")]
    found = read_traces(asked, answers, settings, START_S, END_S, STEP_S)
    return tuple(trace for key in sorted(found) for trace in found[key])


def values(trace: Trace, name: str) -> list[float | None]:
    """None for NaN, which differs from itself."""
    return [None if math.isnan(value) else value for value in trace.series[name]]


def test_a_series_lies_on_the_grid_with_unknown_gaps() -> None:
    points = [*line("1", "2"), (START_S + 60.0, "5")]
    (trace,) = look(ranged("itl", (of(), points)), ranged("wait"))
    assert (trace.pod, trace.variant.name, trace.start_s, trace.step_s) == (POD, "llama", START_S, STEP_S)
    assert values(trace, "itl") == [1.0, 2.0, None, None, 5.0]
    assert values(trace, "wait") == [None] * 5
    assert set(trace.series) == {"itl", "wait"}


@pytest.mark.parametrize("value", [NAN, "+Inf", "-Inf", "-1", "1e300"])
def test_a_value_that_cannot_be_is_unknown(value: str) -> None:
    (trace,) = look(ranged("itl", (of(), line("1", value, "3"))))
    assert values(trace, "itl")[:3] == [1.0, None, 3.0]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(START_S + 15, "1"), (START_S, "2")], [2.0, 1.0, None, None, None]),  # a clock that goes back
        ([(START_S, "1"), (START_S, "1")], [1.0, None, None, None, None]),
        ([(START_S, "1"), (START_S, "2")], [None] * 5),
        ([(START_S, "1"), (START_S, "2"), (START_S, "1")], [None] * 5),
        ([(START_S + 0.1, "1"), (START_S + 16, "2"), (START_S + 37.5, "3")], [1.0, None, None, None, None]),
        ([(START_S - 15, "1"), (START_S + 75, "2"), (-1e300, "3"), (1e300, "4")], [None] * 5),
        ([], [None] * 5),
    ],
)
def test_points_that_do_not_fit_are_sorted_or_unknown(points: Points, expected: list[float | None]) -> None:
    (trace,) = look(ranged("itl", (of(), points)))
    assert values(trace, "itl") == expected


def test_a_series_twice_counts_where_both_agree() -> None:
    (trace,) = look(ranged("itl", (of(), line("1", "2", NAN)), (of(), line("1", "3", "4"))))
    assert values(trace, "itl") == [1.0, None, 4.0, None, None]


def test_answers_split_by_time_are_joined_and_a_failed_part_is_unknown() -> None:
    first = ranged("itl", (of(), line("1", "2")))
    second = ranged("itl", (of(), line("3", "4", "5", start_s=START_S + 30)))
    (trace,) = look(first, second)
    assert values(trace, "itl") == [1.0, 2.0, 3.0, 4.0, 5.0]
    (trace,) = look(first, ranged("itl", failed="http://p: 422"))
    assert values(trace, "itl") == [1.0, 2.0, None, None, None]
    assert repr(look(second, first)) == repr(look(first, second))


def test_a_counter_reset_is_the_servers_business_and_its_rate_is_a_rate() -> None:
    (trace,) = look(ranged("completions", (of(), line("2", "0", "2"))))
    assert values(trace, "completions")[:3] == [2.0, 0.0, 2.0]


def test_each_data_parallel_rank_has_a_trace_and_the_pods_own_numbers() -> None:
    usage = ranged(
        "kv_cache_usage", (of(engine="1"), line("0.2")), (of(engine="0"), line("0.1")), (of(), line(NAN, "0.5"))
    )
    first, second = look(usage, ranged("output_tokens", (of(), line("100"))))
    assert [first.instance, second.instance] == ["0", "1"]
    assert [first.series["kv_cache_usage"][0], second.series["kv_cache_usage"][0]] == [0.1, 0.2]
    assert first.series["output_tokens"] is second.series["output_tokens"]
    (only,) = look(ranged("kv_cache_usage", (of(engine="0"), line("0.1"))), ranged("itl", (of(), line("1"))))
    assert (only.instance, only.series["kv_cache_usage"][0], only.series["itl"][0]) == ("", 0.1, 1.0)


def test_capacity_is_read_from_labels_without_a_model() -> None:
    info = {"pod": POD, "engine": "0", "num_gpu_blocks": "100", "block_size": "16"}
    unsaid = {**info, "num_gpu_blocks": "None"}
    (trace,) = look(ranged("kv_tokens", (unsaid, line("1", "1")), (info, line("1", start_s=START_S + 30))))
    assert values(trace, "kv_tokens") == [None, None, 1600.0, None, None]


def test_pods_are_attributed_as_for_the_present() -> None:
    variants = [make_variant("a"), make_variant("b", target="served-by")]
    answers = [
        ranged("itl", (of("x"), line("1")), (of("a-7c9d8f6b5-bx4zz"), line("2")), (of("nobody"), line("3"))),
        make_answer("pod_owner", [({"namespace": "llm", "pod": "x", "owner_name": "rs"}, 1)]),
        make_answer("replicaset_owner", [({"namespace": "llm", "replicaset": "rs", "owner_name": "served-by"}, 1)]),
    ]
    assert [(trace.variant.name, trace.pod) for trace in look(*answers, variants=variants)] == [
        ("a", "a-7c9d8f6b5-bx4zz"),
        ("b", "x"),
    ]


def test_other_steps_quantities_and_broken_bodies_are_no_history() -> None:
    broken = replace(ranged("itl"), body=HeldBody(content=b"?"))
    others = [ranged("itl", (of(), line("1")), step_s=60.0), ranged("tracked", (of(), line("1"))), make_answer("itl")]
    assert look(broken, *others) == ()


def test_labels_are_read_as_the_server_spells_them() -> None:
    prometheus = PrometheusSettings(url="http://p", label_names={"namespace": "exported_namespace", "pod": "kube_pod"})
    settings = Settings(clusters=(ClusterSettings(name="prod", prometheus=prometheus),))
    labels = {"namespace": "monitoring", "exported_namespace": "llm", "kube_pod": POD, "pod": "exporter"}
    (trace,) = look(ranged("itl", (labels, line("1"))), settings=settings)
    assert trace.pod == POD


def test_an_observation_has_the_traces_of_every_grid() -> None:
    fleet = Fleet().model().pod(POD)
    minutes = ranged("itl", (of(), [(START_S, "1"), (START_S + 60, "2")]), step_s=60.0)
    answers = [*fleet.answers, minutes, ranged("kv_cache_usage", (of(), line("0.5"))), ranged("wait", failed="late")]
    observed = read_observed([make_variant("llama")], answers, NOW_S, SETTINGS)
    ((key, traces),) = observed.traces.items()
    assert key.name == "llama"
    assert [(trace.step_s, set(trace.series)) for trace in traces] == [
        (15.0, {"kv_cache_usage", "wait"}),
        (60.0, {"itl"}),
    ]
    assert observed.failures == ("prod: late",)
    assert observed.queries["prod"]["kv_cache_usage"] == "up"


times = st.one_of(st.sampled_from([START_S + 15 * index for index in range(-2, 8)]), st.floats(0, 4e9))
told = st.sampled_from([NAN, "+Inf", "-1", "0", "1", "2.5", "1e308"])


@given(st.lists(st.tuples(st.sampled_from(["", "0", "1"]), st.lists(st.tuples(times, told), max_size=8)), max_size=5))
@hypothesis_settings(max_examples=150, deadline=None)
def test_a_trace_of_any_points_in_any_order_is_numbers_on_the_grid(found: list[tuple[str, Points]]) -> None:
    series = [(of(engine=rank) if rank else of(), points) for rank, points in found]
    traces = look(ranged("kv_cache_usage", *series))
    assert repr(traces) == repr(look(*[ranged("kv_cache_usage", one) for one in reversed(series)]))
    for trace in traces:
        assert len(trace.series["kv_cache_usage"]) == 5
        assert all(math.isnan(value) or value in (0, 1, 2.5) for value in trace.series["kv_cache_usage"])
