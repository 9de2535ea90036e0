"""The dashboard issue of a fleet on each forge that has issues: what it says, and when it is written."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.answers import answering, failing
from tests.servers.desk import BUSY, GRANITE, PEAK, QUIET, QWEN, Desk, at
from tests.servers.fleet import SETTINGS
from tests.servers.hosted import NAME, open_hosted

ON = SETTINGS.replace("{labels: [reconciler]}", "{labels: [reconciler], dashboard: true}")


class Seen:
    """A desk with a forge, and its dashboard."""

    def __init__(self, desk: Desk, forge: Any, server: Any) -> None:
        self.desk, self.forge, self.server = desk, forge, server

    def run(self, ask: Any) -> str:
        """One run; what the issue says then."""
        self.desk.run(ask, self.forge)
        (found,) = self.server.repositories[NAME].issues.values()
        return str(found.body)


@pytest.fixture(params=["github", "gitlab", "gitea"])
def seen(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """On each of them."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    desk.write("reconciler.yaml", ON)
    with open_hosted(request.param, desk.workshop.remote, desk.now_s) as (forge, server):
        yield Seen(desk, forge, server)


def test_it_lists_what_is_open_and_is_written_only_when_that_changes(seen: Seen) -> None:
    first = seen.run(BUSY)
    assert "**1 open.**" in first
    assert "Scale up llama" in first
    assert "waits for a person" in first
    assert "1 of at most 20 pull requests are open" in first
    written = len(seen.server.writes)
    assert seen.run(at(112.0)) == first
    assert len(seen.server.writes) == written, "another load is no news"
    seen.desk.now_s += 1200
    assert seen.run(PEAK) != first
    seen.desk.now_s += 1200
    assert "**Nothing is open or held.**" in seen.run(QUIET)


def test_it_says_what_is_held_and_why(seen: Seen) -> None:
    held = seen.run(failing("no complete answer in time"))
    assert "3 held" in held
    assert "no complete answer in time" in held
    assert seen.run(answering(GRANITE, QWEN)) != held


def test_without_the_setting_there_is_none(seen: Seen) -> None:
    seen.desk.write("reconciler.yaml", SETTINGS)
    seen.desk.run(BUSY, seen.forge)
    assert not seen.server.repositories[NAME].issues


def test_a_forge_without_issues_stops_nothing(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    seen.server.fail("GET", "/issues$", status=410, times=9)
    assert seen.desk.run(BUSY, seen.forge).published
    assert "the dashboard issue is not up to date" in caplog.text


def test_a_pause_is_told_once_and_opens_none(seen: Seen) -> None:
    repository = seen.server.repositories[NAME]
    seen.desk.variables = {"RECONCILER_PAUSED": "true"}
    seen.desk.run(BUSY, seen.forge)
    assert not repository.issues
    seen.desk.variables = {}
    seen.run(BUSY)
    seen.desk.variables = {"RECONCILER_PAUSED": "true"}
    told = seen.run(PEAK)
    assert "**Paused by RECONCILER\\_PAUSED: nothing is opened" in told
    assert "left as it is in the pause" in told
    written = len(seen.server.writes)
    assert seen.run(QUIET) == told
    assert len(seen.server.writes) == written
    seen.desk.variables = {}
    assert "Paused" not in seen.run(BUSY)
