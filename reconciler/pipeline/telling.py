"""Tells a merged pull request what became of it: once, at the end of its own text."""

import logging
from collections.abc import Iterable, Iterator

from reconciler.domain.reported.outcomes import MergedOutcome
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.marker import MarkerState, read_marker, with_outcome
from reconciler.pipeline.observe import ForgeView
from reconciler.pipeline.session import Doors
from reconciler.report.pull_request import outcome_view

logger = logging.getLogger(__name__)

TEMPLATE = "pull_request/outcome.md.j2"


def tell_outcomes(doors: Doors, forge_view: ForgeView, outcomes: Iterable[MergedOutcome]) -> Iterator[MergedOutcome]:
    """Write each outcome that its pull request does not tell yet, and return those; a failure is tried again."""
    for outcome in outcomes:
        pull_request = forge_view.pull_requests.get(outcome.number)
        marker = None if pull_request is None else read_marker(pull_request.body)
        if doors.forge is None or pull_request is None or marker is None or marker.state is MarkerState.TOLD:
            continue
        body = with_outcome(pull_request.body, doors.renderer.render(TEMPLATE, outcome_view(outcome)))
        if len(body) > doors.forge.body_limit:
            logger.info("pull request %d has no room for what became of it", outcome.number)
            continue
        try:
            doors.forge.amend_merged(outcome.number, body=body)
        except (TransientError, ConfigurationError) as error:
            logger.warning("pull request %d: what became of it was not told: %s", outcome.number, error)
            continue
        yield outcome
