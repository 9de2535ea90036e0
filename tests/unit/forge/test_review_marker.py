"""The marker of a review's comment: what is news, and what is noise or nonsense."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.forge.marker import ReviewMarker, is_marked, read_review_marker, write_review_marker

MARKER = ReviewMarker(head="a" * 40, base="b" * 40, told="c" * 64, needed={"prod/chat/llama": 20})


@given(st.dictionaries(st.text(max_size=80), st.integers(min_value=-1, max_value=1000), max_size=5), st.text())
def test_what_is_written_is_read_back_behind_any_text(needed: dict[str, int], before: str) -> None:
    marker = replace(MARKER, needed=needed)
    written = write_review_marker(marker)
    assert read_review_marker(f"{before}\n{written}\n") == marker
    assert written.count("<!--") == written.count("-->") == 1


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(replace(MARKER, base="d" * 40), True, id="the base moved"),
        pytest.param(replace(MARKER, needed={"prod/chat/llama": 22}), True, id="a tenth more"),
        pytest.param(replace(MARKER, needed={"prod/chat/llama": 23}), False, id="more than a tenth"),
        pytest.param(replace(MARKER, needed={"prod/chat/llama": -1}), False, id="held"),
        pytest.param(replace(MARKER, needed={}), False, id="another variant"),
        pytest.param(replace(MARKER, head="d" * 40), False, id="another head"),
        pytest.param(replace(MARKER, told="d" * 64), False, id="other words"),
    ],
)
def test_only_news_is_news(other: ReviewMarker, same: bool) -> None:
    assert MARKER.says(other) is same


def test_who_quotes_a_marker_wrote_a_comment_of_their_own() -> None:
    assert not is_marked(f"> {write_review_marker(MARKER)}\n\nWhat is this?")


def test_a_held_variant_that_needs_none_is_news() -> None:
    held = replace(MARKER, needed={"prod/chat/llama": -1})
    assert not held.says(replace(MARKER, needed={"prod/chat/llama": 0}))
    assert held.says(held)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<!-- reconciler-review: ",
        "<!-- reconciler-review: {} -->",
        '<!-- reconciler-review: {"version":1,"head":"x","base":"y","told":"z","needed":{}} -->',
        write_review_marker(MARKER).replace("20", "2.5"),
        write_review_marker(MARKER).replace("20", "-2"),
        write_review_marker(MARKER).replace('"version":1', '"version":2'),
        "<!-- reconciler-review: " + "[" * 9000 + " -->",
        "<!-- reconciler-review: " + "x" * 20_000 + " -->",
    ],
)
def test_nonsense_is_no_marker(body: str) -> None:
    assert read_review_marker(body) is None
    assert is_marked(body) is bool(body)
