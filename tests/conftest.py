"""What every test may rely on."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet_loggers() -> Iterator[None]:
    """A command sets up logging for its process: the next test starts without it."""
    logger = logging.getLogger("reconciler")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers = handlers
    logger.setLevel(level)
