"""Fleets over one Prometheus with a day of history."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.fleet import Day, Fleet, day_around, history_of, make_template, open_fleet
from tests.servers.git_http import is_available
from tests.servers.git_workshop import Workshop
from tests.servers.prometheus import ABSENT, prometheus_over

OpenFleet = Callable[..., Fleet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command: the fleet's time."""

    fleet: Fleet

    def time(self) -> float:
        """Unix seconds."""
        return self.fleet.now_s


@pytest.fixture(scope="session", autouse=True)
def bare_environment() -> Iterator[None]:
    """No proxy, token or setting of this machine takes part, in what serves many tests neither."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            is_ours = name.startswith(("RECONCILER_", "GITHUB_", "GITLAB_", "GITEA_", "CI_"))
            if is_ours or name.lower().endswith("_proxy") or name in ("NO_COLOR", "FORCE_COLOR"):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def day() -> Day:
    """The day that Prometheus knows; now lies in one of its busy hours."""
    return day_around(time.time())


@pytest.fixture(scope="session")
def prometheus(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the day is served."""
    if ABSENT:
        pytest.skip(ABSENT)
    with prometheus_over(history_of(day), tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every fleet starts from."""
    if not is_available():
        pytest.skip("needs git with git-http-backend")
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def make_fleet(
    template: Workshop,
    prometheus: str,
    day: Day,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    impatient: None,
) -> Iterator[OpenFleet]:
    """Opens a fleet; `forge` is github, gitlab or local, `settings` are added to its reconciler.yaml."""
    del impatient
    with ExitStack() as stack:

        def make(forge: str = "github", *, settings: str = "", prometheus: str = prometheus) -> Fleet:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            opened = open_fleet(template, folder, forge=forge, prometheus=prometheus, day=day, settings=settings)
            fleet = stack.enter_context(opened)
            for name, value in fleet.environment.items():
                monkeypatch.setenv(name, value)
            for module in ("run", "plan", "review"):
                monkeypatch.setattr(f"reconciler.cli.{module}.time", Clock(fleet=fleet))
            return fleet

        yield make


@pytest.fixture(params=["github", "gitlab", "local"])
def fleet(request: pytest.FixtureRequest, make_fleet: OpenFleet) -> Fleet:
    """The same company on each forge."""
    return make_fleet(request.param)
