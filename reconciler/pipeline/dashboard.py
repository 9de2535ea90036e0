"""The dashboard issue: what a run leaves open, waiting and held, written when that changes."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.domain.plan import Pages
from reconciler.domain.proposals import ProposalState
from reconciler.domain.records import replace
from reconciler.errors import ReconcilerError
from reconciler.forge.marker import is_current_dashboard, write_dashboard_marker
from reconciler.forge.pull_requests import Forge
from reconciler.pipeline.publish import Operation
from reconciler.rendering.renderer import Renderer
from reconciler.report.dashboard import TITLE, OpenRow, dashboard_view, shortened, substance
from reconciler.report.formatting import one_line
from reconciler.report.pull_request import Link

if TYPE_CHECKING:
    from reconciler.pipeline.run import RunResult

logger = logging.getLogger(__name__)

LABEL = "reconciler-dashboard"
GONE = (Operation.CLOSED, Operation.MERGED)
WORDS = {
    Operation.LEFT: "left alone",
    Operation.PUT_BACK: "not pushed now",
    Operation.WAITING: "merges by itself, and waits",
    Operation.SCHEDULED: "the forge merges it",
    Operation.FAILED: "failed",
}


def keep_dashboard(forge: Forge, renderer: Renderer, result: "RunResult", pages: Pages) -> None:
    """Write the issue of a run if it says something else; a failure is a warning, as the next run tries again."""
    failed = [each for each in result.published if each.operation is Operation.FAILED]
    settings = result.prepared.recording.settings.pull_requests
    words = [one_line(f"{each.group}: {each.reason}") for each in failed]
    view = dashboard_view(result.prepared.plan, tuple(_rows(result)), words, settings, pages, result.paused)
    marker = write_dashboard_marker(*substance(view))
    views = shortened(replace(view, marker=marker))
    body = renderer.render_within("dashboard/body.md.j2", views, limit=forge.body_limit, marker=marker)
    try:
        forge.keep_issue(
            label=LABEL,
            title=TITLE,
            body=body,
            is_current=lambda text: is_current_dashboard(text, marker),
            opens=not result.paused,
        )
    except ReconcilerError as error:
        logger.warning("the dashboard issue is not up to date: %s", error)


def _rows(result: "RunResult") -> Iterator[OpenRow]:
    """What is open now: what was before, and what this run opened; in a pause the former alone."""
    proposals = result.prepared.recording.proposals
    before = {each.head_branch: each for each in proposals if each.state is ProposalState.OPEN}
    for left in before.values() if result.paused else ():
        page = Link(text=f"#{left.number}", address=left.url)
        yield OpenRow(page=page, title=one_line(left.title), group=left.group, state="left as it is in the pause")
    drafts = {each.change_set.head_branch: each for each in result.drafts}
    for each in result.published:
        proposal, draft = before.get(each.head_branch), drafts.get(each.head_branch)
        number = each.number or (proposal.number if proposal else None)
        if number is None or each.operation in GONE:
            continue
        usual = "merges by itself" if draft is not None and draft.merges else "waits for a person"
        state = WORDS.get(each.operation, usual) + (f": {each.reason}" if each.reason else "")
        yield OpenRow(
            page=Link(text=f"#{number}", address=each.url or (proposal.url if proposal else "")),
            title=one_line(draft.title if draft is not None else proposal.title if proposal else ""),
            group=each.group,
            state=one_line(state),
        )
