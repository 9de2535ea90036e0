"""Ranges in bulk: the same strictness as one by one, without a gigabyte."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Absence, Answer, AnswerStatus, HeldBody, NoAnswer, Query
from reconciler.domain.history import Grid
from reconciler.metrics.answers import Matrix, decode_matrix, decode_with_warnings

QUERY = Query(cluster="prod", quantity="running", text="up", start_s=0.0, end_s=60.0, step_s=15.0)
FRAME = b'{"status":"success","data":{"resultType":"matrix","result":[%b]}}'


def answer(body: bytes) -> Answer:
    return Answer(query=QUERY, status=AnswerStatus.OK, body=HeldBody(content=body))


def told(body: bytes) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
    found = decode_matrix(answer(body))
    assert isinstance(found, Matrix), found
    return [(dict(row.labels), list(zip(row.times_s.tolist(), row.values.tolist(), strict=True))) for row in found.rows]


def refused(body: bytes, max_points: int = 100) -> str:
    found = decode_matrix(answer(body), max_points=max_points)
    assert isinstance(found, NoAnswer), found
    assert found.absence is Absence.FAILED
    return found.reason


def test_series_keep_their_labels_and_points() -> None:
    first = b'{"metric":{"pod":"a"},"values":[[1,"1"],[2.5,"NaN"],[3,"+Inf"]]}'
    second = b'{"metric":{"pod":"b"},"values":[[1,"0.25"]]}'
    (one, other) = told(FRAME % (first + b"," + second))
    assert repr(one) == "({'pod': 'a'}, [(1.0, 1.0), (2.5, nan), (3.0, inf)])"
    assert other == ({"pod": "b"}, [(1.0, 0.25)])


@pytest.mark.parametrize(
    ("entry", "points"),
    [
        (b'{"metric":{},"values":[]}', []),
        (b'{"values":[[1,"2"]],"metric":{}}', [(1.0, 2.0)]),
        (b'{ "metric" : {} , "values" : [ [ 1 , "2" ] , [ 2 , "3" ] ] }', [(1.0, 2.0), (2.0, 3.0)]),
        (b'{"metric":{},\n"values":\n[\n[1.5,\n"1e-3"\n]\n]\n}', [(1.5, 0.001)]),
    ],
)
def test_any_json_layout_means_the_same(entry: bytes, points: list[tuple[float, float]]) -> None:
    assert told(FRAME % entry) == [({}, points)]


def test_the_same_labels_twice_are_two_rows() -> None:
    entry = b'{"metric":{"pod":"a"},"values":[[1,"1"]]}'
    assert len(told(FRAME % (entry + b"," + entry))) == 2


def test_a_label_that_looks_like_points_is_a_label() -> None:
    hostile = json.dumps('x","values":[[1,"2"]],"y":"').encode()
    assert told(FRAME % (b'{"metric":{"pod":%b},"values":[[1,"1"]]}' % hostile)) == [
        ({"pod": 'x","values":[[1,"2"]],"y":"'}, [(1.0, 1.0)])
    ]


@pytest.mark.parametrize(
    "entry",
    [
        b"null",
        b"[]",
        b'{"metric":{}}',
        b'{"metric":{},"value":[1,"1"]}',
        b'{"metric":{},"values":0}',
        b'{"metric":{},"values":{}}',
        b'{"metric":[],"values":[[1,"1"]]}',
        b'{"metric":{"a":1},"values":[[1,"1"]]}',
        b'{"metric":{"values":[[1,"1"]]},"values":[[1,"1"]]}',
        b'{"metric":{},"values":[[1]]}',
        b'{"metric":{},"values":[[1,"1","1"]]}',
        b'{"metric":{},"values":[[1,1]]}',
        b'{"metric":{},"values":[["1","1"]]}',
        b'{"metric":{},"values":[[1,"one"]]}',
        b'{"metric":{},"values":[[1,"1_0"]]}',
        b'{"metric":{},"values":[[1,""]]}',
        b'{"metric":{},"values":[[1,"1"][2,"2"]]}',
        b'{"metric":{},"values":[[1,"1"],]}',
        b'{"metric":{},"values":[[1,"1"]',
        b'{"metric":{},"values":[1,"1"]}',
        b'{"metric":{},"values":[,}]}',
        b'{"metric":{},"values":[[1,"1"],[2,"2"]}',
        b'{"metric":{},"values":[[1 2,"3"]]}',
        b'{"metric":{},"values":[[1,"2 3"]]}',
        b'{"metric":{},"values":[[1,"2e"]]}',
        b'{"metric":{},"values":[[1,"2"]],"values":[[1,"2"]]}',
    ],
)
def test_an_entry_of_another_shape_refuses_the_whole_answer(entry: bytes) -> None:
    good = b'{"metric":{"pod":"a"},"values":[[1,"1"]]}'
    assert "cannot be read" in refused(FRAME % (good + b"," + entry))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"status":"success","data":{"resultType":"vector","result":[]}}', b"[" * 100_000, b"\xff\x00"],
)
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    assert "cannot be read" in refused(body)


def test_points_are_counted_over_all_series_before_they_are_read() -> None:
    entry = b'{"metric":{},"values":[[1,"1"],[2,"2"]]}'
    assert "more than the 3 points" in refused(FRAME % (entry + b"," + entry), max_points=3)
    assert isinstance(decode_matrix(answer(FRAME % (entry + b"," + entry)), max_points=4), Matrix)


def test_series_without_end_are_refused_in_time_that_grows_with_them_alone() -> None:
    assert "cannot be read" in refused(FRAME % (b'{"metric":{},"values":[[' * 100_000), max_points=10**9)


def test_points_lie_on_a_grid_and_two_different_ones_of_a_moment_contradict_each_other() -> None:
    first = b'{"metric":{},"values":[[0,"1"],[15,"2"],[22,"9"],[45,"4"]]}'
    other = b'{"metric":{},"values":[[30,"3"],[0,"1"],[30,"3"],[45,"4"],[45,"5"],[60,"NaN"]]}'
    found = decode_matrix(answer(FRAME % b",".join((first, first, other))))
    assert isinstance(found, Matrix)
    block = found.on(Grid(start_s=0.0, step_s=15.0, count=5), found.values)
    assert repr(block.tolist()) == repr(
        [[1.0, 2.0, math.nan, 4.0, math.nan]] * 2 + [[1.0, math.nan, 3.0, math.inf, math.nan]]
    )


def test_brackets_without_end_are_refused_in_time_that_grows_with_them_alone() -> None:
    assert "cannot be read" in refused(FRAME % (b'{"metric":{},"values":[' + b' [1,"1"] ' * 50_000))


def test_a_failed_answer_keeps_its_reason() -> None:
    failed = Answer(query=QUERY, status=AnswerStatus.FAILED, body=HeldBody(), reason="http://p: 422")
    found = decode_matrix(failed)
    assert isinstance(found, NoAnswer)
    assert found.reason == "http://p: 422"


def test_warnings_come_with_the_rows_without_expected_ones() -> None:
    note = 'PromQL info: metric might not be a counter, name does not end in _total: "tgi_request_success" (1:1)'
    body = json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": []}, "warnings": ["partial"], "infos": [note]}
    ).encode()
    found = decode_matrix(answer(body))
    assert isinstance(found, Matrix)
    assert found.warnings == decode_with_warnings(answer(body))[1] == ("partial",)


@given(st.binary(max_size=200))
@hypothesis_settings(max_examples=100, deadline=None)
def test_any_other_bytes_are_a_reason(body: bytes) -> None:
    assert isinstance(decode_matrix(answer(body)), NoAnswer)


series = st.tuples(
    st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3),
    st.lists(st.tuples(st.floats(min_value=0, max_value=2e9), st.floats()), max_size=4),
)


@given(st.lists(series, max_size=4, unique_by=lambda one: frozenset(one[0].items())))
@hypothesis_settings(max_examples=150, deadline=None)
def test_what_prometheus_writes_is_read_back(
    found: list[tuple[dict[str, str], list[tuple[float, float]]]],
) -> None:
    entries = [
        {"metric": labels, "values": [[at_s, _written(value)] for at_s, value in points]} for labels, points in found
    ]
    body = FRAME % json.dumps(entries).encode()[1:-1]
    assert repr(told(body)) == repr(found)


def _written(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf")
