"""A stage for each forge: the same play is given on a GitHub over HTTP and on files in a bare repository."""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.forge.gitea import Gitea, GiteaClient
from reconciler.forge.github import GitHub, GitHubClient
from reconciler.forge.gitlab import GitLab, GitLabClient
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import Forge, RepositoryAddress, parse_nested_remote, parse_remote
from tests.servers.forge_server import START_S
from tests.servers.git_workshop import run_git
from tests.servers.gitea import serve_gitea
from tests.servers.github import serve_github
from tests.servers.gitlab import serve_gitlab
from tests.servers.scripted import SteppedClock

FULL_NAME = "acme/fleet"
PROJECT = "acme/platform/fleet"
HEAD = "reconciler/prod-llm"


def push_branch(repository: Path, branch: str) -> str:
    """Give `branch` one commit that `main` lacks."""
    commit = run_git(repository, "commit-tree", "main^{tree}", "-p", "main", "-m", f"On {branch}")
    run_git(repository, "update-ref", f"refs/heads/{branch}", commit)
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A forge and what a person does on it; `trace` changes with every write."""

    forge: Forge
    repository: Path
    close: Callable[[int], None]
    merge: Callable[[int], object]
    trace: Callable[[], object]
    kept: Callable[[str], str] = str
    """What the forge makes of a text that it is given."""

    def push(self, branch: str) -> str:
        """A head branch with one commit of its own."""
        return push_branch(self.repository, branch)


@dataclass(kw_only=True)
class ServedStage:
    """A repository on a server, and how the client waits without time."""

    server: Any
    full_name: str
    own_fork: str | None
    repository: Path
    forge_of: Callable[[Any, Any], Forge]
    client_of: Callable[..., object]
    parse: Callable[[str], RepositoryAddress | None]
    top: str
    unmet: str
    closing: object
    incomplete: object
    merging: tuple[str, str] = ("PUT", "/merge$")
    page_size: int = 100
    write_pause_s: float = 0.0
    clock: SteppedClock = field(default_factory=lambda: SteppedClock(START_S))

    @property
    def waits_s(self) -> list[float]:
        """For how long it waited, each time."""
        return self.clock.slept

    def push(self, branch: str) -> str:
        """A head branch with one commit of its own."""
        return push_branch(self.repository, branch)

    def open_one(self, head: str) -> Any:
        """A pull request from a branch of the repository, which need not exist."""
        return self.server.open_pull_request(self.full_name, head=head, fork=self.own_fork)

    def open(self, *, token: str = "", url: str = "", remote: str = "") -> Any:
        """The forge under test."""
        client = self.client_of(
            url or self.server.url,
            token or self.server.token,
            token_name="variable FORGE_TOKEN",
            write_pause_s=self.write_pause_s,
            clock=self.clock,
        )
        return self.forge_of(self.parse(f"https://{self.server.kind}.com/{remote or self.full_name}"), client)


def create(forge: Any, head: str = HEAD, **changes: Any) -> Any:
    return forge.create(head=head, **{"base": "main", "title": "A title", "body": "A body", **changes})


def listed(forge: Any, closed_since_s: float = 0.0) -> Any:
    return forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=closed_since_s)


def order(forge: Any, head: str, **asked: Any) -> Any:
    """Have the only pull request merged at a commit."""
    (found,) = listed(forge)
    return forge.merge(replace(found, head_commit=head), **asked)


def opened(hosted: ServedStage, **changes: Any) -> Any:
    """A forge on which one pull request of ours is open, number 1."""
    hosted.push(HEAD)
    forge = hosted.open()
    assert create(forge, **changes).number == 1
    return forge


def proposal_on(hosted: ServedStage) -> Any:
    """The stage, the forge, what the server stores of one pull request of ours, and its head commit."""
    forge, stored = opened(hosted), hosted.server.repositories[hosted.full_name].pull_requests[1]
    return hosted, forge, stored, run_git(hosted.repository, "rev-parse", f"refs/heads/{HEAD}")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture(scope="session")
def template_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one empty commit on `main`, to be copied."""
    folder = tmp_path_factory.mktemp("template")
    directory = folder / "fleet.git"
    run_git(folder, "init", "-q", "--bare", "--template=", "--initial-branch=main", str(directory))
    tree = run_git(directory, "hash-object", "-w", "-t", "tree", os.devnull)
    commit = run_git(directory, "commit-tree", tree, "-m", "First")
    run_git(directory, "update-ref", "refs/heads/main", commit)
    return directory


@pytest.fixture
def bare_repository(template_repository: Path, tmp_path: Path) -> Path:
    """A bare repository with one empty commit on `main`."""
    return shutil.copytree(template_repository, tmp_path / "fleet.git")


@pytest.fixture
def github(bare_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedStage]:
    """A GitHub that serves `acme/fleet`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_github() as server:
        server.add_repository(FULL_NAME, bare_repository)
        yield ServedStage(
            server=server,
            full_name=FULL_NAME,
            own_fork=FULL_NAME,
            repository=bare_repository,
            forge_of=GitHub,
            client_of=GitHubClient,
            parse=parse_remote,
            top="^/repos",
            unmet="blocked",
            closing=("PATCH", {"body": "Withdrawn", "state": "closed"}),
            incomplete={"number": 1, "head": {"repo": {"full_name": FULL_NAME}}},
        )


@pytest.fixture
def gitlab(bare_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedStage]:
    """A GitLab that serves `acme/platform/fleet`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gitlab() as server:
        server.add_repository(PROJECT, bare_repository)
        yield ServedStage(
            server=server,
            full_name=PROJECT,
            own_fork=None,
            repository=bare_repository,
            forge_of=GitLab,
            client_of=GitLabClient,
            parse=parse_nested_remote,
            top="^/projects",
            unmet="not_approved",
            closing=("PUT", {"description": "Withdrawn", "state_event": "close"}),
            incomplete={"iid": 1, "source_project_id": 3, "target_project_id": 3},
        )


@pytest.fixture
def gitea(bare_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedStage]:
    """A Gitea that serves `acme/fleet`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gitea() as server:
        server.add_repository(FULL_NAME, bare_repository)
        yield ServedStage(
            server=server,
            full_name=FULL_NAME,
            own_fork=FULL_NAME,
            repository=bare_repository,
            forge_of=Gitea,
            client_of=GiteaClient,
            parse=parse_remote,
            top="^/repos",
            unmet="blocked",
            closing=("PATCH", {"body": "Withdrawn", "state": "closed"}),
            incomplete={"number": 1, "head": {"repo": {"full_name": FULL_NAME}}},
            merging=("POST", "/merge$"),
            page_size=50,
        )


@pytest.fixture(params=["github", "gitlab", "gitea"])
def hosted(request: pytest.FixtureRequest) -> Any:
    """Each hosted forge in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["github", "gitlab"])
def scheduling(request: pytest.FixtureRequest) -> Any:
    """Each hosted forge that binds a scheduled merge to a commit."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["github", "gitlab", "gitea", "local"])
def stage(request: pytest.FixtureRequest, bare_repository: Path) -> Stage:
    """Each forge in turn."""
    if request.param == "local":
        return _local_stage(bare_repository)
    served: ServedStage = request.getfixturevalue(request.param)
    server, name = served.server, served.full_name
    return Stage(
        forge=served.open(),
        repository=bare_repository,
        close=lambda number: server.close(name, number),
        merge=lambda number: server.merge(name, number),
        trace=lambda: len(server.writes),
        kept=_kept_by_gitlab if request.param == "gitlab" else str,
    )


def _kept_by_gitlab(text: str) -> str:
    return text.replace("\r", "").rstrip()


def _local_stage(repository: Path) -> Stage:
    folder = repository / "reconciler" / "pulls"

    def edit(number: int, state: str) -> None:
        path = folder / f"{number}.md"
        path.write_bytes(path.read_bytes().replace(b"state: open", f"state: {state}".encode(), 1))

    def trace() -> object:
        files = [path for path in folder.parent.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_ino, path.read_bytes()) for path in files}

    return Stage(
        forge=Local(repository),
        repository=repository,
        close=lambda number: edit(number, "closed"),
        merge=lambda number: edit(number, "merged"),
        trace=trace,
    )
