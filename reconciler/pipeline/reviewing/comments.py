"""One comment kept up to date under a pull request, and a status on its head.

The comment is found again by its marker and by its author, and written anew only when it would tell people something
else. Lost answers, kills and rivals may leave two: the oldest stays.
"""

import logging
from dataclasses import dataclass

from reconciler.decision.reviewing.judging import ReviewedBase
from reconciler.domain.reported.review import Objection, Review
from reconciler.errors import ConfigurationError
from reconciler.forge.events import Event
from reconciler.forge.pull_requests import Forge
from reconciler.forge.review_marker import (
    MAX_NAMES,
    ReviewMarker,
    is_marked,
    read_review_marker,
    write_review_marker,
)
from reconciler.forge.reviews import Comment, CommitStatus, Verdict
from reconciler.pipeline.session import Session
from reconciler.rendering.renderer import Renderer
from reconciler.report.review import comment_view, is_silent, reductions, review_summary, told_fingerprint

logger = logging.getLogger(__name__)

TEMPLATE = "review/comment.md.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where reviews are told, and for which objections a status fails."""

    forge: Forge
    renderer: Renderer
    fail_on: frozenset[Objection]

    def find(self, number: int) -> Comment | None:
        """Our comment under a pull request: the oldest, should there be several; the others are deleted."""
        found = [each for each in self.forge.reviews.own_comments(number) if is_marked(each.body)]
        for surplus in found[1:]:
            self.forge.reviews.delete_comment(number, surplus.key)
        return found[0] if found else None

    def tell(self, number: int, review: Review, base: ReviewedBase) -> None:
        """Set the status of a pull request's head and comment on it, as far as people learn something by it.

        The comment comes last: its marker tells the next run that nothing is left to do. Where statuses are refused to
        us for good it comes all the same.
        """
        refusal = self._refusal_of_status(review)
        marker = marker_of(review, base)
        present = self.find(number)
        said = read_review_marker(present.body) if present is not None else None
        if present is None and not is_silent(review):
            self.forge.reviews.write_comment(number, self._body(review, marker))
            self.find(number)  # a rival, or a request that was sent twice, may have written one too
        elif present is not None and (said is None or not said.says(marker)):
            self.forge.reviews.edit_comment(number, present.key, self._body(review, marker))
        if refusal is not None:
            raise refusal

    def _refusal_of_status(self, review: Review) -> ConfigurationError | None:
        try:
            self.set_status(review)
        except ConfigurationError as error:
            return error
        return None

    def set_status(self, review: Review) -> None:
        """Say on the head whether it may pass."""
        status = CommitStatus(verdict=verdict_of(review, self.fail_on), words=review_summary(review))
        self.forge.reviews.set_status(review.head, status)

    def _body(self, review: Review, marker: ReviewMarker) -> str:
        written = write_review_marker(marker)
        views = reductions(comment_view(review, written))
        return self.renderer.render_within(TEMPLATE, views, limit=self.forge.body_limit, marker=written)


def open_desk(session: Session, fail_on: frozenset[Objection]) -> Desk | None:
    """The desk of a session; None while nothing may be written, which is said. ConfigurationError without a forge."""
    if session.paused:
        logger.warning("nothing is written to pull requests: paused by %s", session.paused)
        return None
    if session.doors.forge is None:
        raise ConfigurationError(
            "comments need a forge's token: set RECONCILER_FORGE_TOKEN, GITHUB_TOKEN or GITLAB_TOKEN"
        )
    return Desk(forge=session.doors.forge, renderer=session.doors.renderer, fail_on=fail_on)


def tell_job(session: Session, fail_on: frozenset[Objection], event: Event, review: Review, base: ReviewedBase) -> None:
    """Tell the change that a job was started for: a merge queue's gets a status alone, a fork's job writes nothing."""
    if event.is_from_fork:
        logger.warning("a fork's job may not comment: `reconciler review --open` on a schedule does")
        return
    desk = open_desk(session, fail_on)
    if desk is None:
        return
    if event.number:
        desk.tell(event.number, review, base)
    else:
        desk.set_status(review)


def marker_of(review: Review, base: ReviewedBase) -> ReviewMarker:
    """What the comment for a review is remembered by."""
    variants = [str(each.variant) for each in review.allocations]
    needed = base.needed(variants) if sum(map(len, variants)) <= MAX_NAMES else {}
    return ReviewMarker(head=review.head, base=review.base, told=told_fingerprint(review), needed=needed)


def verdict_of(review: Review, fail_on: frozenset[Objection]) -> Verdict:
    """FAILURE for what was asked to fail and for what cannot be read; NEUTRAL where something else is objected to."""
    objections = review.objections
    if objections & fail_on or review.is_broken:
        return Verdict.FAILURE
    return Verdict.NEUTRAL if objections - {Objection.NONE} or review.failures or review.refusals else Verdict.SUCCESS
