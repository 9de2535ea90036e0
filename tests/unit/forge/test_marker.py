"""The hidden markers: what they keep, and that nothing in them makes us do more."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.proposals import Promise, PromisedLatency, ProposedChange
from reconciler.forge.marker import (
    CLOSING,
    MAX_JSON_LENGTH,
    OPENING,
    Marker,
    MarkerState,
    ReviewMarker,
    asking,
    has_same_words,
    is_marked,
    read_marker,
    read_review_marker,
    withdrawn,
    write_marker,
    write_review_marker,
)

DECISION = "0123456789abcdef" * 4
CHANGE = ProposedChange(
    resource="prod/llm/VariantAutoscaling/llama",
    replicas_before=3,
    replicas_after=5,
    accelerator_before="A100",
    accelerator_after="H100",
)
MARKER = Marker(group="prod/llm", decision=DECISION, changes=(CHANGE,))

printable = st.text(max_size=60).map(lambda text: "".join(filter(str.isprintable, text)))
changes = st.builds(
    ProposedChange,
    resource=printable,
    replicas_before=st.integers(0, 1000),
    replicas_after=st.integers(0, 1000),
    accelerator_before=printable,
    accelerator_after=printable,
)
amounts = st.none() | st.floats(0, 1e15)
words = st.text(max_size=40).map(lambda text: "".join(filter(str.isprintable, text)))
latencies = st.builds(
    PromisedLatency,
    name=st.sampled_from(["itl", "wait", "ttft"]),
    statistic=words,
    target_s=st.floats(1e-6, 1e6),
    expected_s=amounts,
    mean_s=amounts,
    measured_s=amounts,
)
promises = st.builds(
    Promise,
    resource=printable,
    unit=words,
    demand=amounts,
    capacity=amounts,
    cost_per_hour=amounts,
    arrival_rate_per_s=amounts,
    input_tokens=amounts,
    output_tokens=amounts,
    expected_per_s=amounts,
    expected_since_s=amounts,
    expected_until_s=amounts,
    latencies=st.lists(latencies, max_size=3).map(tuple),
    reverts=st.none() | st.integers(1, 10**9),
)


def promised(changes: list[ProposedChange], drawn: list[Promise]) -> dict[str, object]:
    """Changes of as many resources, and a promise of each."""
    found = {each.resource: each for each in changes}
    ordered = tuple(sorted(found.values()))
    kept = (replace(promise, resource=each.resource) for each, promise in zip(ordered, drawn, strict=False))
    return {"changes": ordered, "promises": tuple(kept) if len(drawn) >= len(ordered) else ()}


markers = st.builds(
    lambda group, decision, state, asks, both: Marker(group=group, decision=decision, state=state, asks=asks, **both),
    group=printable | st.sampled_from(["-->", "--!>", "----", "a--b", "<!-- reconciler: {} -->", "&gt;", "\\", '"']),
    decision=st.text("0123456789abcdef", min_size=64, max_size=64),
    state=st.sampled_from(MarkerState),
    asks=st.booleans(),
    both=st.builds(promised, st.lists(changes, max_size=5), st.lists(promises, max_size=5)),
)


def comment(text: str) -> str:
    return f"{OPENING}{text}{CLOSING}"


def json_with(**fields: object) -> str:
    return json.dumps({"version": 1, "group": "g", "decision": DECISION, "state": "open"} | fields)


@given(markers, printable, printable)
def test_what_is_written_is_read_back_from_any_body(marker: Marker, before: str, after: str) -> None:
    assert read_marker(f"{before}\n{write_marker(marker)}\n{after}") == marker


@given(markers)
def test_no_value_can_end_the_comment_or_hold_a_line_break(marker: Marker) -> None:
    inside = write_marker(marker).removeprefix("<!--").removesuffix("-->")
    assert not set("<>\n\r") & set(inside)
    assert "--" not in inside
    assert inside.isascii()


def test_the_marker_reads_as_documented() -> None:
    text = write_marker(Marker(group="g", decision=DECISION))
    assert text == f'<!-- reconciler: {{"version":1,"group":"g","decision":"{DECISION}","state":"open"}} -->'


PROMISE: dict[str, object] = {"unit": "req/s", "demand": 48.0, "latencies": [["itl", "mean", 0.06, 0.04, 0.04, None]]}
CHANGES = [["prod/llm/VariantAutoscaling/llama", 3, 5, "A100", "H100"]]


def promises_in(rows: str, changes: object = CHANGES) -> tuple[Promise, ...]:
    """What is read of a marker whose promises are this JSON, which its changes survive."""
    text = json_with(changes=changes).removesuffix("}") + f', "promises": {rows}}}'
    marker = read_marker(comment(text))
    assert marker is not None
    assert marker.changes
    return marker.promises


def test_a_promise_is_read_as_it_is_documented() -> None:
    (promise,) = promises_in(json.dumps([PROMISE | {"reverts": 3}]))
    assert (promise.resource, promise.unit, promise.demand, promise.reverts) == (CHANGES[0][0], "req/s", 48.0, 3)
    assert promise.latencies[0].mean_s == 0.04
    assert promises_in("[{}]") == (Promise(resource=str(CHANGES[0][0]), unit=""),)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1", "-0.5", "1e308", "1e999", "9" * 400, "true", '"1"', "[]"])
@pytest.mark.parametrize("field", ["demand", "capacity", "cost_per_hour", "arrival_rate_per_s", "output_tokens"])
def test_a_number_that_we_would_not_write_is_no_promise(field: str, number: str) -> None:
    assert promises_in(f'[{{"unit": "req/s", "{field}": {number}}}]') == ()


@pytest.mark.parametrize(
    "rows",
    [
        "null",
        "{}",
        "[]",
        "[null]",
        "[[]]",
        "[{}, {}]",
        '[{"unit": 1}]',
        '[{"unit": "\\n"}]',
        '[{"reverts": 0}]',
        '[{"reverts": 1e9}]',
        '[{"reverts": true}]',
        '[{"latencies": {}}]',
        '[{"latencies": [null]}]',
        '[{"latencies": [["itl", "mean", 0.06, 0.04, 0.04]]}]',
        '[{"latencies": [["cost", "mean", 0.06, 0.04, 0.04, null]]}]',
        '[{"latencies": [[["itl"], "mean", 0.06, 0.04, 0.04, null]]}]',
        '[{"latencies": [["itl", "mean", 0, 0.04, 0.04, null]]}]',
        '[{"latencies": [["itl", "mean", null, 0.04, 0.04, null]]}]',
        '[{"latencies": [["itl", "mean", NaN, 0.04, 0.04, null]]}]',
        '[{"latencies": [["itl", "mean", 0.06, -1, 0.04, null]]}]',
        json.dumps([{"latencies": [["itl", "mean", 0.06, 0.04, 0.04, None]] * 6}]),
    ],
)
def test_an_invalid_promise_is_dropped_alone(rows: str) -> None:
    assert promises_in(rows) == ()


def test_promises_of_changes_in_another_order_are_dropped() -> None:
    changes = [["z", 1, 2, "", ""], ["a", 1, 2, "", ""]]
    assert promises_in("[{}, {}]", changes) == ()
    assert len(promises_in("[{}, {}]", changes[::-1])) == 2


def test_a_marker_that_is_too_long_loses_its_promises_first() -> None:
    names = [f"prod/llm/VariantAutoscaling/v{number:03}" for number in range(160)]
    many = tuple(replace(CHANGE, resource=name) for name in names)
    told = tuple(Promise(resource=name, unit="req/s", demand=1234.5, capacity=2345.6) for name in names)
    text = write_marker(Marker(group="g", decision=DECISION, changes=many, promises=told))
    assert len(text) > MAX_JSON_LENGTH / 2
    assert read_marker(text) == Marker(group="g", decision=DECISION, changes=many)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "7",
        "{",
        "[" * 15_000,
        '{"a":' * 3000,
        "9" * 10_000,
        json_with(version=2),
        json_with(version=True),
        json_with(version="1"),
        json_with(group=3),
        json_with(group="a\nb"),
        json_with(group="x" * 501),
        json_with(decision="A" * 64),
        json_with(decision="a" * 63),
        json_with(decision=DECISION + "\n"),
        json_with(decision=None),
        json_with(state="merged"),
        json_with(state=["open"]),
        json_with(state={}),
    ],
)
def test_an_invalid_marker_is_no_marker(text: str) -> None:
    assert read_marker(comment(text)) is None
    assert withdrawn(comment(text)) == comment(text)


ROW = ["r", 1, 2, "a", "b"]


@pytest.mark.parametrize(
    "rows",
    [
        7,
        {"a": 1},
        [ROW, 7],
        [ROW, ROW[:4]],
        [ROW, [*ROW, 1]],
        [["r", -1, 2, "a", "b"]],
        [["r", 1, True, "a", "b"]],
        [["r", 1, 2.0, "a", "b"]],
        [["r", 1, 10**9, "a", "b"]],
        [["r", 1, 2, None, "b"]],
        [[["r"], 1, 2, "a", "b"]],
        [["r" * 501, 1, 2, "a", "b"]],
    ],
)
def test_one_wrong_change_drops_all_and_leaves_the_fingerprint(rows: object) -> None:
    marker = read_marker(comment(json_with(changes=rows)))
    assert marker == Marker(group="g", decision=DECISION)


def test_a_text_says_that_reviews_are_still_to_be_asked_for() -> None:
    text = f"Words\n\n{write_marker(MARKER)}"
    assert read_marker(asking(text)) == replace(MARKER, asks=True)
    assert asking("Words") == "Words"


def test_of_several_markers_the_last_valid_one_counts() -> None:
    quoted = write_marker(Marker(group="from a model's name", decision="f" * 64))
    body = f"{quoted}\ntext\n{write_marker(MARKER)}\n{comment('{}')}"
    assert read_marker(body) == MARKER
    assert read_marker(withdrawn(body)) == Marker(
        group=MARKER.group, decision=DECISION, changes=(CHANGE,), state=MarkerState.WITHDRAWN
    )
    assert quoted in withdrawn(body)


def test_withdrawing_changes_the_marker_and_nothing_else() -> None:
    body = f"before\r\n\r\n{write_marker(MARKER)}  \nafter"
    assert withdrawn(body) == body.replace('"state":"open"', '"state":"withdrawn"')
    assert withdrawn(withdrawn(body)) == withdrawn(body)


def test_a_body_without_a_marker_stays_as_it_is_when_withdrawn() -> None:
    assert withdrawn("only words") == "only words"


def test_many_changes_are_left_out_and_the_fingerprint_stays() -> None:
    many = tuple(
        ProposedChange(
            resource=f"prod/llm/VariantAutoscaling/{number}",
            replicas_before=1,
            replicas_after=2,
            accelerator_before="H100",
            accelerator_after="H100",
        )
        for number in range(1000)
    )
    text = write_marker(Marker(group="g", decision=DECISION, changes=many))
    assert len(text) < MAX_JSON_LENGTH
    assert read_marker(text) == Marker(group="g", decision=DECISION)


@pytest.mark.parametrize("body", [OPENING * 200_000, "<!--" * 500_000, "x" * 3_000_000, (OPENING + "{" * 20_000) * 50])
def test_a_huge_hostile_body_has_no_marker(body: str) -> None:
    assert read_marker(body) is None


REVIEW_MARKER = ReviewMarker(head="a" * 40, base="b" * 40, told="c" * 64, needed={"prod/chat/llama": 20})


@given(st.dictionaries(st.text(max_size=80), st.integers(min_value=-1, max_value=1000), max_size=5), st.text())
def test_what_is_written_is_read_back_behind_any_text(needed: dict[str, int], before: str) -> None:
    marker = replace(REVIEW_MARKER, needed=needed)
    written = write_review_marker(marker)
    assert read_review_marker(f"{before}\n{written}\n") == marker
    assert written.count("<!--") == written.count("-->") == 1


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(replace(REVIEW_MARKER, base="d" * 40), True, id="the base moved"),
        pytest.param(replace(REVIEW_MARKER, needed={"prod/chat/llama": 22}), True, id="a tenth more"),
        pytest.param(replace(REVIEW_MARKER, needed={"prod/chat/llama": 23}), False, id="more than a tenth"),
        pytest.param(replace(REVIEW_MARKER, needed={"prod/chat/llama": -1}), False, id="held"),
        pytest.param(replace(REVIEW_MARKER, needed={}), False, id="another variant"),
        pytest.param(replace(REVIEW_MARKER, head="d" * 40), False, id="another head"),
        pytest.param(replace(REVIEW_MARKER, told="d" * 64), False, id="other words"),
    ],
)
def test_only_news_is_news(other: ReviewMarker, same: bool) -> None:
    assert REVIEW_MARKER.says(other) is same


def test_who_quotes_a_marker_wrote_a_comment_of_their_own() -> None:
    assert not is_marked(f"> {write_review_marker(REVIEW_MARKER)}\n\nWhat is this?")


def test_a_held_variant_that_needs_none_is_news() -> None:
    held = replace(REVIEW_MARKER, needed={"prod/chat/llama": -1})
    assert not held.says(replace(REVIEW_MARKER, needed={"prod/chat/llama": 0}))
    assert held.says(held)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<!-- reconciler-review: ",
        "<!-- reconciler-review: {} -->",
        '<!-- reconciler-review: {"version":1,"head":"x","base":"y","told":"z","needed":{}} -->',
        write_review_marker(REVIEW_MARKER).replace("20", "2.5"),
        write_review_marker(REVIEW_MARKER).replace("20", "-2"),
        write_review_marker(REVIEW_MARKER).replace('"version":1', '"version":2'),
        "<!-- reconciler-review: " + "[" * 9000 + " -->",
        "<!-- reconciler-review: " + "x" * 20_000 + " -->",
    ],
)
def test_nonsense_is_no_marker(body: str) -> None:
    assert read_review_marker(body) is None
    assert is_marked(body) is bool(body)


def test_two_runs_say_the_same_with_other_numbers() -> None:
    """And not when somebody edited the text: its words become those of a merge."""
    body = f"> wait 1m measured, commit `7879d0d`, +$13.76/h\n\n{write_marker(MARKER)}"
    later = f"> wait  2.5m measured, commit `aa19d0e`, +$9/h\r\n{write_marker(replace(MARKER, merges=True))}"
    assert has_same_words(body, later)
    assert not has_same_words(body, body.replace("> wait", "> [skip ci] wait"))
    assert not has_same_words(body, body.replace("measured", "expected"))


def test_a_setting_of_an_autoscaler_is_two_more_entries_of_its_row() -> None:
    plain = ProposedChange(
        resource="prod/llm/Deployment/phi",
        replicas_before=1,
        replicas_after=1,
        accelerator_before="H100",
        accelerator_after="H100",
    )
    tuned = replace(plain, scaling_before='{"behavior":null,"target":"40"}', scaling_after='{"target":"52"}')
    for change, length in ((plain, 5), (tuned, 7)):
        written = write_marker(Marker(group="prod/llm", decision="a" * 64, changes=(change,)))
        assert len(json.loads(written.removeprefix(OPENING).removesuffix(CLOSING))["changes"][0]) == length
        found = read_marker(written)
        assert found is not None
        assert found.changes == (change,)


def test_a_text_of_one_long_word_is_compared_at_once() -> None:
    """Letters of a commit without a digit: each of them was looked at once for every letter before it."""
    body = "a" * 60_000
    assert has_same_words(f"{body} 1", f"{body} 2")
    assert not has_same_words(f"{body} 1", f"{body}f 1")
