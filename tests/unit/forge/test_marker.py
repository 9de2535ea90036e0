"""The hidden marker: written once, read defensively, never able to end its comment early."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.proposals import ProposedChange
from reconciler.forge.marker import (
    CLOSING,
    MAX_JSON_LENGTH,
    OPENING,
    Marker,
    MarkerState,
    body_digest,
    read_marker,
    withdrawn,
    write_marker,
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
markers = st.builds(
    Marker,
    group=printable | st.sampled_from(["-->", "--!>", "----", "a--b", "<!-- reconciler: {} -->", "&gt;", "\\", '"']),
    decision=st.text("0123456789abcdef", min_size=64, max_size=64),
    state=st.sampled_from(MarkerState),
    changes=st.lists(changes, max_size=5).map(lambda each: tuple(sorted(each))),
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


def test_the_digest_ignores_white_space_and_the_marker() -> None:
    plain = body_digest("One  line\r\n\r\nand another\n")
    assert plain == body_digest("One line\nand another")
    assert plain == body_digest(f"One line\nand another\n\n{write_marker(MARKER)}")
    assert plain == body_digest(withdrawn(f"One line\nand another\n\n{write_marker(MARKER)}"))
    assert plain != body_digest("One line\nand another one")
