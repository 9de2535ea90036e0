"""A review as the comment under a pull request shows it: what a template needs, longest first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.reported.review import Review
from reconciler.report.findings import finding_words, shown_path
from reconciler.report.numbers import count
from reconciler.report.review import review_findings, review_summary

ROWS = (200, 50, 10)
"""How many rows a comment has, the fewer the shorter it must be."""
SHORT = 10
_MARKS = {Severity.ERROR: "✗", Severity.WARNING: "?", Severity.NOTE: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRow:
    """One remark: a mark that colour does not carry, its words, and where it is caused."""

    mark: str
    words: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """All of a comment; `left_out` counts rows that did not fit, `notes` tell what was not looked at."""

    summary: str
    rows: tuple[CommentRow, ...]
    notes: tuple[str, ...]
    left_out: str
    head: str
    marker: str


def comment_view(review: Review, marker: str) -> CommentView:
    """The gravest remarks first."""
    ordered = sorted(review_findings(review), key=lambda each: (tuple(_MARKS).index(each.severity), each))
    return CommentView(
        summary=review_summary(review),
        rows=tuple(map(_row, ordered)),
        notes=(*review.notes, *review.failures, *review.refusals),
        left_out="",
        head=review.head[:SHORT],
        marker=marker,
    )


def reductions(view: CommentView) -> Iterator[CommentView]:
    """The view with ever fewer rows."""
    for rows in ROWS:
        more = len(view.rows) - rows
        yield replace(view, rows=view.rows[:rows], left_out=count(more, "more remark") if more > 0 else "")


def _row(finding: Finding) -> CommentRow:
    line = f":{finding.place.line}" if finding.place.line else ""
    place = f"{shown_path(finding)}{line}" if finding.place.path else ""
    return CommentRow(mark=_MARKS[finding.severity], words=finding_words(finding), place=place)
