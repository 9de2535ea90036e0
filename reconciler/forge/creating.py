"""Opening a pull request once, although a forge may lose an answer, or not see yet what was just pushed."""

from collections.abc import Callable

from reconciler.errors import ReconcilerError
from reconciler.forge.pull_requests import PullRequest

SETTLING_WAITS_S = (1.0, 2.0, 4.0)
"""A branch that was just pushed, or a pull request just created, is not visible everywhere at once."""


def create_once(
    create: Callable[[], PullRequest],
    find_open: Callable[[], PullRequest | None],
    *,
    refusals: tuple[type[ReconcilerError], ...],
    may_settle: Callable[[ReconcilerError], bool],
    wait: Callable[[float], None],
) -> PullRequest:
    """What `create` opens, or what is open already: a create whose answer was lost is found again.

    One of `refusals` is looked behind, and what `may_settle` by itself is tried again; what stays is raised.
    """
    waits_s = iter(SETTLING_WAITS_S)
    while True:
        try:
            return create()
        except refusals as refusal:
            if found := find_open():
                return found
            wait_s = next(waits_s, None)
            if wait_s is None or not may_settle(refusal):
                raise
            wait(wait_s)
