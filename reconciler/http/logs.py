"""What the HTTP libraries log, said in our own log: without secrets, and with its level and format."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from reconciler.http.redaction import Redactor

logger = logging.getLogger(__name__)

LIBRARIES = ("urllib3", "requests")


class _LibraryLogHandler(logging.Handler):
    """Says a library's record in our log; its traceback is left out, it holds what a server sent."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        logger.log(record.levelno, "%s: %s", record.name, _REDACTOR.get().show(record.getMessage()))


_HANDLER = _LibraryLogHandler()
_SHAPES_ONLY = Redactor()
_REDACTOR: ContextVar[Redactor] = ContextVar("redactor", default=_SHAPES_ONLY)
"""That of the exchange which this thread is in: the libraries know nothing of what must not be said."""


def take_over_library_logs() -> None:
    """From now on nothing of the libraries reaches a log but through us; called again it changes nothing."""
    for name in LIBRARIES:
        library = logging.getLogger(name)
        library.handlers = [_HANDLER]
        library.propagate = False


@contextmanager
def redacting_logs(redactor: Redactor) -> Iterator[None]:
    """Keep the secrets that `redactor` knows out of what the libraries log in this block."""
    token = _REDACTOR.set(redactor)
    try:
        yield
    finally:
        _REDACTOR.reset(token)
