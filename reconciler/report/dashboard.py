"""The dashboard issue: what is open, waits and is held, as people of a repository see it between two runs."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from reconciler.domain.plan import Pages, Plan
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PullRequestSettings
from reconciler.report.formatting import count
from reconciler.report.pull_request import HeldRow, Link, commit_link, plan_view

TITLE = "Reconciler dashboard"
MOST_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRow:
    """An open pull request: a link to it, what it changes, and what it waits for."""

    page: Link
    title: str
    group: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardView:
    """What the template shows; `put_back`, `failed`, `paused` (by whom) and `cut` may be empty."""

    counts: str
    rows: tuple[OpenRow, ...]
    put_back: tuple[str, ...]
    failed: tuple[str, ...]
    held: tuple[HeldRow, ...]
    waiting: tuple[HeldRow, ...]
    limits: tuple[str, ...]
    written: str
    commit: Link
    paused: str = ""
    cut: str = ""
    marker: str = ""


def dashboard_view(
    plan: Plan,
    rows: Sequence[OpenRow],
    failed: Sequence[str],
    settings: PullRequestSettings,
    pages: Pages,
    paused: str = "",
) -> DashboardView:
    """What a run leaves behind: open pull requests by `rows`, and the plan's own words for the rest."""
    whole = plan_view(plan, pages, without_daily=True)
    held = sum(len(each.variants) for each in whole.held)
    counts = [f"{len(rows)} open", f"{len(whole.put_back)} put back", f"{len(failed)} failed", f"{held} held"]
    return DashboardView(
        counts=", ".join(each for each in counts if not each.startswith("0 ")) or "Nothing is open or held",
        rows=tuple(rows),
        put_back=whole.put_back,
        failed=tuple(failed),
        held=whole.held,
        waiting=whole.waiting,
        limits=tuple(_limits(len(rows), settings)),
        written=datetime.fromtimestamp(int(plan.now_s), UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit_link(plan.commit, pages),
        paused=paused,
    )


def substance(view: DashboardView) -> tuple[object, object]:
    """What must differ for the issue to be written again: to the letter, and apart from numbers, which are measured.

    In a pause it is written once, to say so.
    """
    if view.paused:
        return view.paused, ()
    exact = (view.counts, [(each.page, each.title, each.group) for each in view.rows], view.limits)
    states = [each.state for each in view.rows]
    return exact, (states, view.put_back, view.failed, view.held, view.waiting)


def shortened(view: DashboardView) -> Iterator[DashboardView]:
    """The view, then with fewer rows of what is held or waits."""
    yield view
    for most in (MOST_ROWS, 5, 0):
        held, waiting = view.held[:most], view.waiting[:most]
        left_out = len(view.held) + len(view.waiting) - len(held) - len(waiting)
        if left_out:
            yield replace(view, held=held, waiting=waiting, cut=count(left_out, "reason"))


def _limits(opened: int, settings: PullRequestSettings) -> Iterator[str]:
    if settings.open_at_once:
        yield f"{opened} of at most {settings.open_at_once} pull requests are open"
    for most, what in (
        (settings.created_per_hour, "opened"),
        (settings.merges_per_hour, "merged by themselves"),
    ):
        if most:
            yield f"at most {most} are {what} in an hour"
    if settings.pushes_per_hour:
        yield f"each is pushed at most {count(settings.pushes_per_hour, 'time')} in an hour"
