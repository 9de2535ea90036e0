"""What `run` tells of a run that somebody stopped."""

import json
from collections.abc import Callable

import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import Outcome

Command = Callable[..., Outcome]


def test_a_paused_run_says_who_stopped_it_and_exits_as_always(
    command: Command, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_PAUSED", "1")
    before = desk.state()
    shown = command("run", "--repo", desk.workshop.remote)
    assert "\nPaused by RECONCILER_PAUSED: nothing was written.\n" in shown.out
    assert shown.code == command("plan", "--repo", desk.workshop.remote).code, "a pause is no error"
    told = json.loads(command("run", "--repo", desk.workshop.remote, "-o", "json").out)
    assert (told["paused"], told["published"]) == ("RECONCILER_PAUSED", [])
    assert desk.state() == before


def test_a_plan_says_that_a_run_would_write_nothing(
    command: Command, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_PAUSED", "1")
    assert "paused by RECONCILER_PAUSED: run would write nothing" in command("plan", "--repo", desk.workshop.clone).err
