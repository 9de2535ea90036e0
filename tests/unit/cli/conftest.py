"""Commands run in this process, over one recorded plan."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.desk import BUSY, Desk, open_desk
from tests.servers.fleet import CHAT_VARIANT, Outcome, make_template, run_here
from tests.servers.git_workshop import Workshop

HELD = CHAT_VARIANT.replace("name: llama", "name: lost").replace("8B", "70B")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of this machine takes part."""
    for name in list(os.environ):
        if name.startswith(("RECONCILER_", "GITHUB_")) or name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)


@pytest.fixture
def command() -> Callable[..., Outcome]:
    """Runs a command line."""
    return lambda *arguments: run_here([str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every desk starts from."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def desk(template: Workshop, tmp_path: Path) -> Desk:
    """A fleet that nobody has run on."""
    return open_desk(template, tmp_path)


@pytest.fixture(scope="session")
def recording(template: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan in which one variant changes, one is held and two stay."""
    folder = tmp_path_factory.mktemp("recorded")
    desk = open_desk(template, folder)
    desk.write("clusters/prod/chat/lost.yaml", HELD)
    desk.plan(BUSY, record=folder / "recording.zip")
    return folder / "recording.zip"
