"""Raw bytes to samples: exactly what the API promises, or no answer."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Absence, Answer, AnswerStatus, HeldBody, NoAnswer, Query, Sample
from reconciler.metrics.answers import decode, decode_with_warnings

QUERY = Query(cluster="prod", quantity="running", text="up", start_s=0.0, end_s=0.0)


def answer(body: bytes) -> Answer:
    return Answer(query=QUERY, status=AnswerStatus.OK, body=HeldBody(content=body))


def vector(*entries: object, **extra: object) -> Answer:
    data = {"resultType": "vector", "result": list(entries)}
    return answer(json.dumps({"status": "success", "data": data, **extra}).encode())


def refused(found: object) -> str:
    assert isinstance(found, NoAnswer)
    assert found.absence is Absence.FAILED
    return found.reason


def test_samples_keep_labels_times_and_values() -> None:
    found = decode(vector({"metric": {"pod": "a"}, "value": [1.5, "1e+03"]}, {"metric": {}, "value": [2, "0"]}))
    assert found == (
        Sample(labels={"pod": "a"}, time_s=1.5, value=1000.0),
        Sample(labels={}, time_s=2.0, value=0.0),
    )


def test_nothing_found_is_an_empty_answer_and_not_a_failed_one() -> None:
    assert decode(vector()) == ()


@pytest.mark.parametrize(("text", "is_it"), [("NaN", math.isnan), ("+Inf", math.isinf), ("-Inf", math.isinf)])
def test_special_values_stay_what_they_are(text: str, is_it: Any) -> None:
    found = decode(vector({"metric": {}, "value": [1, text]}))
    assert isinstance(found, tuple)
    assert is_it(found[0].value)


@pytest.mark.parametrize(
    "value", ["", "nan", "inf", "Infinity", "1_000", " 1", "0x10", "one", "1e", "١", None, 1.0, True, ["1"]]
)
def test_a_value_that_prometheus_never_writes_is_refused(value: object) -> None:
    assert "expected a number as text" in refused(decode(vector({"metric": {}, "value": [1, value]})))


@pytest.mark.parametrize("time_s", ["1", None, True, 1e300, [1]])
def test_an_invalid_time_is_refused(time_s: object) -> None:
    assert "expected Unix seconds" in refused(decode(vector({"metric": {}, "value": [time_s, "1"]})))


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        "x",
        {},
        {"metric": {}},
        {"value": [1, "1"]},
        {"metric": [], "value": [1, "1"]},
        {"metric": {"a": 1}, "value": [1, "1"]},
        {"metric": {}, "value": [1]},
        {"metric": {}, "value": [1, "1", "1"]},
        {"metric": {}, "histogram": [1, {}]},
    ],
)
def test_an_entry_of_another_shape_refuses_the_whole_answer(entry: object) -> None:
    good = {"metric": {"pod": "a"}, "value": [1, "1"]}
    assert "cannot be read" in refused(decode(vector(good, entry)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"<html>",
        b"[]",
        b"null",
        b"NaN",
        b'{"status":"success"}',
        b'{"status":"success","data":[]}',
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}',
        b'{"status":"success","data":{"resultType":"vector"}}',
        b'{"status":"success","data":{"resultType":"vector","result":{}}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[NaN,"1"]}]}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe\x00",
        b"1" * 5000,
    ],
)
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    assert "cannot be read" in refused(decode(answer(body)))


def test_an_error_has_the_words_of_prometheus_on_one_line() -> None:
    body = json.dumps({"status": "error", "error": "too many\nsamples" + "!" * 999}).encode()
    reason = refused(decode(answer(body)))
    assert "too many samples" in reason
    assert len(reason) < 300


def test_the_same_series_twice_is_refused_in_any_order_of_labels() -> None:
    entries = [{"metric": {"a": "1", "b": "2"}, "value": [1, "1"]}, {"metric": {"b": "2", "a": "1"}, "value": [1, "2"]}]
    assert "two series" in refused(decode(vector(*entries)))


def test_more_series_than_the_limit_are_refused() -> None:
    entries = [{"metric": {"pod": str(index)}, "value": [1, "1"]} for index in range(3)]
    assert isinstance(decode(vector(*entries), max_samples=3), tuple)
    assert "more than the 2" in refused(decode(vector(*entries), max_samples=2))


def test_a_failed_answer_keeps_its_reason() -> None:
    failed = Answer(query=QUERY, status=AnswerStatus.FAILED, body=HeldBody(), reason="http://p: 401")
    assert refused(decode(failed)) == "http://p: 401"


def test_a_range_is_no_answer_about_the_present() -> None:
    data = {"resultType": "matrix", "result": [{"metric": {"pod": "a"}, "values": [[1, "1"], [2, "NaN"]]}]}
    body = answer(json.dumps({"status": "success", "data": data}).encode())
    assert "expected resultType vector" in refused(decode(body))


def test_warnings_and_infos_are_surfaced_clean_and_bounded() -> None:
    found = decode_with_warnings(vector(warnings=["partial\x1b[31m response", 7, "x" * 999], infos=["not a counter"]))[
        1
    ]
    assert found[0] == "partial [31m response"
    assert len(found[1]) <= 201
    assert found[2] == "not a counter"
    assert len(decode_with_warnings(vector(warnings=[str(index) for index in range(99)]))[1]) == 10
    assert decode_with_warnings(vector())[1] == ()
    assert decode_with_warnings(answer(b'{"warnings"'))[1] == ()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["success", "vector", "NaN", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "a"]), inner)
    ),
    max_leaves=20,
)


@given(json_values)
@hypothesis_settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_answer_is_samples_or_a_reason(value: object) -> None:
    for body in (
        value,
        {"status": "success", "data": {"resultType": "vector", "result": value}},
        {"status": "success", "data": {"resultType": "vector", "result": [value]}},
    ):
        found = decode(answer(json.dumps(body).encode()))
        assert isinstance(found, tuple) or found.reason
        decode_with_warnings(answer(json.dumps(body).encode()))


TEXTS = st.sampled_from(["", "a", "é", "x" * 300])
SERIES = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(st.sampled_from(["pod", "namespace", "le"]), TEXTS, max_size=3),
        "value": st.tuples(
            st.sampled_from([1, 1.5, 1e16, True]), st.sampled_from(["1", "0.25", "NaN", "+Inf", "1_0", " 1", ""])
        ),
    }
)


@given(st.lists(SERIES, max_size=4), st.lists(TEXTS, max_size=2), st.booleans())
def test_a_usual_answer_says_what_the_general_reader_says(
    series: list[dict[str, object]], warnings: list[str], partial: bool
) -> None:
    usual = vector(*series, warnings=warnings, isPartial=partial)
    # A text among the warnings that is no text is passed over, but makes the answer unusual.
    unusual = vector(*series, warnings=[*warnings, 7], isPartial=partial)

    assert repr(decode_with_warnings(usual)) == repr(decode_with_warnings(unusual))


@given(st.binary(max_size=200))
@hypothesis_settings(max_examples=100, deadline=None)
def test_any_other_bytes_are_a_reason(body: bytes) -> None:
    assert isinstance(decode(answer(body)), NoAnswer)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.floats())
@hypothesis_settings(max_examples=100, deadline=None)
def test_what_prometheus_writes_is_read_back(labels: dict[str, str], value: float) -> None:
    text = "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf")
    found = decode(vector({"metric": labels, "value": [1, text]}))
    assert isinstance(found, tuple)
    assert found[0].labels == labels
    assert found[0].value == value or (math.isnan(value) and math.isnan(found[0].value))
