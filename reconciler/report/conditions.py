"""What the pull request says that changes nothing and brings conditions that flipped into the cluster."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import GroupPlan, Plan
from reconciler.domain.proposals import ConditionFlip
from reconciler.domain.reported.pages import Pages
from reconciler.report.links import Link, commit_link
from reconciler.report.numbers import count
from reconciler.report.plain import one_line, short_labels_of
from reconciler.report.pull_request import PLAIN, ROWS_KEPT, CommitView
from reconciler.report.summary import NAME_LENGTH, SUBJECT_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRow:
    """One condition: as the last status said it, and as it is."""

    variant: str
    condition: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionsView:
    """Everything that pull request says; `cut` is how many rows were left out to fit a limit, in words."""

    title: str
    count: str
    group: str
    rows: tuple[FlipRow, ...]
    commit: Link
    marker: str
    cut: str = ""


def conditions_view(plan: Plan, group: GroupPlan, *, pages: Pages = PLAIN, marker: str = "") -> ConditionsView:
    """One group's; `marker` is the hidden comment that identifies it, placed last and never cut."""
    labels = short_labels_of(flip.variant for flip in group.flips)
    place = one_line(group.name, limit=80)
    return ConditionsView(
        title=f"Deliver conditions of {_names(labels)} in {place}",
        count=count(len(group.flips), "condition"),
        group=place,
        rows=tuple(
            FlipRow(
                variant=labels[flip.variant],
                condition=flip.type,
                before=flip.before,
                after=flip.after,
                reason=one_line(flip.reason),
            )
            for flip in group.flips
        ),
        commit=commit_link(plan.commit, pages),
        marker=marker,
    )


def fewer_rows(view: ConditionsView) -> Iterator[ConditionsView]:
    """The view, then with as few rows as a table keeps."""
    yield view
    if len(view.rows) > ROWS_KEPT:
        left_out = count(len(view.rows) - ROWS_KEPT, "row")
        yield replace(view, rows=view.rows[:ROWS_KEPT], cut=left_out)


def conditions_commit_view(group: GroupPlan, *, sign_off: str = "") -> CommitView:
    """One group's commit; its trailer carries the fingerprint of what flipped."""
    labels = short_labels_of(flip.variant for flip in group.flips)
    subject = f"Deliver conditions in {one_line(group.name, limit=SUBJECT_LENGTH)}"
    return CommitView(
        subject=subject if len(subject) <= SUBJECT_LENGTH else f"Deliver {count(len(group.flips), 'condition')}",
        lines=tuple(flip_lines(group.flips, labels)),
        decision=group.fingerprint,
        sign_off=sign_off,
    )


def flip_lines(flips: Iterable[ConditionFlip], labels: Mapping[ResourceKey, str]) -> Iterator[str]:
    """`llama OptimizationReady True -> False`, one a condition."""
    for flip in flips:
        yield one_line(f"{labels[flip.variant]} {flip.type} {flip.before} -> {flip.after}")


def _names(labels: Mapping[ResourceKey, str]) -> str:
    first, *others = labels.values()
    return one_line(first, limit=NAME_LENGTH) + (f" and {len(others)} more" if others else "")
