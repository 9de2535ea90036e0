"""The comment of a review keeps to the forge's limit, whatever a head brings."""

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.plan import TotalCost
from reconciler.domain.reports import Objection, Review, SettingRemark
from reconciler.forge.marker import ReviewMarker, read_review_marker, write_review_marker
from reconciler.rendering.renderer import Renderer
from reconciler.report.review import comment_view, reductions

LIMIT = 58_000
MARKER = ReviewMarker(head="a" * 40, base="b" * 40, told="c" * 64, needed={})


def body_of(findings: int, words: str) -> str:
    found = (
        Finding(place=Place(path=f"apps/{index}.yaml", line=index), severity=Severity.ERROR, message=words)
        for index in range(findings)
    )
    unknown = TotalCost(cost_before_per_hour=None, cost_after_per_hour=None)
    review = Review(base="b" * 40, head="a" * 40, currency="USD", totals=unknown, findings=tuple(found))
    marker = write_review_marker(MARKER)
    views = reductions(comment_view(review, marker))
    return Renderer().render_within("review/comment.md.j2", views, limit=LIMIT, marker=marker)


def test_a_flood_of_remarks_is_cut_by_rows_and_keeps_its_marker() -> None:
    body = body_of(5000, "`x` | <b> " * 100)
    assert len(body) <= LIMIT
    assert read_review_marker(body) == MARKER
    assert "more remarks did not fit: `reconciler review` prints all." in body


def test_a_few_remarks_are_all_there() -> None:
    body = body_of(3, "no such class")
    assert body.count("no such class") == 3
    assert "did not fit" not in body


def test_what_is_said_of_several_in_the_same_words_is_one_row() -> None:
    unknown = TotalCost(cost_before_per_hour=None, cost_after_per_hour=None)
    same = tuple(
        SettingRemark(subject=f"rule {name}", words="is gone", objection=Objection.HOLD, path="p.yaml")
        for name in "abcdefg"
    )
    other = SettingRemark(subject="H100", words="costs 2", path="reconciler.yaml", line=3)
    review = Review(base="b" * 40, head="a" * 40, currency="USD", totals=unknown, others=(*same, other))
    rows = [(row.mark, row.words, row.place) for row in comment_view(review, "").rows]
    assert rows == [
        ("?", "rule a, rule b, rule c, rule d, rule e and 2 more: is gone", "p.yaml"),
        ("", "H100: costs 2", "reconciler.yaml:3"),
    ]
