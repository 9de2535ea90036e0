"""What every test may rely on."""

import gc
import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

from reconciler.http.messages import Clock

INCIDENT, ATTACK, FAULTS, SOAK = "incident", "attack", "faults", "soak"
"""A line of a table, as its test records it; with several workers as well."""
TABLES = {
    INCIDENT: "incidents: name | replicas | truth | told",
    ATTACK: "attacks on merging: way | forge | told",
    SOAK: "soak: runs | restarts | pull requests | memory of a run | growth of all in one process | by a backtest",
    FAULTS: "faults that the next run healed: operation | forge | calls | tried | held",
}
HELD = "held"
"""How many faults were tried in an operation on a forge, and how many of them the next run healed."""

# No test is timed: on a busy machine an example takes longer, and that is no failure.
settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What was collected stays: to go through it for garbage again and again takes a tenth of the time of all tests."""
    gc.freeze()
    gc.set_threshold(100_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables of all incidents and attacks that were played."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for table, title in TABLES.items():
        lines = sorted(str(value) for each in reports for name, value in each.user_properties if name == table)
        if lines:
            terminalreporter.section(title)
            terminalreporter.write_line("\n".join(lines))
    counts = [value for each in reports for name, value in each.user_properties if name == HELD]
    if counts:
        tried, held = map(sum, zip(*counts, strict=True))
        terminalreporter.write_line(f"all | {len(counts)} pairs of operation and forge | {held} of {tried} held")


@pytest.fixture(autouse=True)
def _quiet_loggers() -> Iterator[None]:
    """A command sets up logging for its process: each test starts without, also where a fixture of a module ran one."""
    logger = logging.getLogger("reconciler")
    logger.handlers = []
    logger.setLevel(logging.NOTSET)
    yield
    logger.handlers = []
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses before a server is asked again take no time."""
    monkeypatch.setattr(Clock, "sleep", lambda _clock, _seconds: None)
