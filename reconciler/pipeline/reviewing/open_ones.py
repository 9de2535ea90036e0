"""All open pull requests, those of forks too: fetched as data, judged beside one base, told where that is news.

No job of a fork runs for it, so no secret is near it; nothing that anybody comments is read.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from reconciler.decision.reviewing.judging import unreviewed
from reconciler.domain.reported.review import Review, Reviewed
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.pull_requests import PullRequest
from reconciler.forge.review_marker import ReviewMarker, read_review_marker
from reconciler.git.clone import Clone
from reconciler.http.limits import Clock
from reconciler.pipeline.reviewing.comments import Desk
from reconciler.pipeline.reviewing.reviewer import Reviewer

logger = logging.getLogger(__name__)

MOST_LOOKED_AT = 200
MOST_REVIEWED = 50
"""In one run; the next goes on."""
ONE_S = 60.0
ALL_S = 900.0
"""Seconds for one head, and for all of a run."""


class OutOfTimeError(BaseException):
    """Raised inside whatever takes too long; nothing that handles errors may keep it."""


def review_open(reviewer: Reviewer, desk: Desk, *, only: str = "") -> Iterator[Reviewed]:
    """Review what is open to the base, but for ours; ConfigurationError where the base is no clone.

    `only` is a commit: then those pull requests whose head it is. One that fails stops no other.
    """
    clone, prefix = reviewer.reader.base, reviewer.reader.settings.git.branch_prefix
    if not isinstance(clone, Clone):
        raise ConfigurationError("--open reviews what is open on a remote: expected a URL, or a directory with one")
    ends_s = Clock().monotonic() + ALL_S
    listed = [each for each in desk.forge.list_open(base=clone.branch) if not _is_ours(each, prefix)]
    wanted = sorted((each for each in listed if not only or each.head_commit == only), key=_order)
    left, reviewed = list(wanted), 0
    while left and len(wanted) - len(left) < MOST_LOOKED_AT and reviewed < MOST_REVIEWED:
        if Clock().monotonic() > ends_s:
            break
        done = _review_one(reviewer, clone, desk, left.pop(0))
        reviewed += done.review is not None
        yield done
    if left:
        logger.warning("%d open pull requests are left to the next run", len(left))


def _order(pull_request: PullRequest) -> tuple[bool, int]:
    """Our own people's first, then the newest: whoever opens many from forks keeps nobody waiting."""
    return pull_request.is_from_fork, -pull_request.number


def _is_ours(pull_request: PullRequest, prefix: str) -> bool:
    return not pull_request.is_from_fork and pull_request.head_branch.startswith(prefix)


def _review_one(reviewer: Reviewer, clone: Clone, desk: Desk, pull_request: PullRequest) -> Reviewed:
    number = pull_request.number
    try:
        comment = desk.find(number)
        said = read_review_marker(comment.body) if comment is not None else None
        if _is_said(said, pull_request.head_commit, reviewer):
            return Reviewed(number=number)
        review = _judge(reviewer, clone, desk, pull_request)
        if _is_said(said, review.head, reviewer):
            return Reviewed(number=number)
        desk.tell(number, review, reviewer.base)
    except _UnfetchableError as error:
        return Reviewed(number=number, reason=str(error))
    except ReconcilerError as error:
        return Reviewed(number=number, error=error, reason=str(error))
    return Reviewed(number=number, review=review, reason=review.unreviewed)


class _UnfetchableError(ReconcilerError):
    """Raised where a head does not come: a person may be pushing, deleting, or sending what nobody can hold."""


def _judge(reviewer: Reviewer, clone: Clone, desk: Desk, pull_request: PullRequest) -> Review:
    """The review of a head; one that says why there is none where the head is to blame for it."""
    commit = pull_request.head_commit
    try:
        with time_limit(ONE_S):
            try:
                head = clone.fetch_head(desk.forge.head_ref(pull_request))
            except ReconcilerError as error:
                raise _UnfetchableError(str(error)) from None
            commit = head.commit
            return reviewer.review(head)
    except OutOfTimeError:
        reason = f"it takes longer than {ONE_S:.0f} s"
    except ConfigurationError as error:
        reason = str(error)
    if not commit:
        raise _UnfetchableError(reason)
    return unreviewed(reviewer.base, commit, reason)


def _is_said(said: ReviewMarker | None, head: str, reviewer: Reviewer) -> bool:
    """Whether this head was reviewed beside this base, when a plan would have done the same."""
    if said is None or (said.head, said.base) != (head, reviewer.commit):
        return False
    return said.needs(reviewer.base.needed(said.needed))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """OutOfTimeError inside once the time is over; without a limit where signals cannot be had."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
