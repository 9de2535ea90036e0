"""A stage for each forge: the same play is given on a GitHub over HTTP and on files in a bare repository."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.forge.github import GitHub, GitHubClient
from reconciler.forge.gitlab import GitLab, GitLabClient
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import Forge, parse_nested_remote, parse_remote
from tests.servers.forge_server import START_S, ForgeServer, StoredPullRequest
from tests.servers.git_workshop import run_git
from tests.servers.github import GitHubServer, serve_github
from tests.servers.gitlab import GitLabServer, serve_gitlab
from tests.servers.scripted import SteppedClock

FULL_NAME = "acme/fleet"
PROJECT = "acme/platform/fleet"


def push_branch(repository: Path, branch: str) -> str:
    """Give `branch` one commit that `main` lacks."""
    commit = run_git(repository, "commit-tree", "main^{tree}", "-p", "main", "-m", f"On {branch}")
    run_git(repository, "update-ref", f"refs/heads/{branch}", commit)
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A forge with a person beside it; `trace` changes whenever something was written."""

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

    server: ForgeServer
    full_name: str
    own_fork: str | None
    repository: Path
    write_pause_s: float = 0.0
    clock: SteppedClock = field(default_factory=lambda: SteppedClock(START_S))

    @property
    def waits_s(self) -> list[float]:
        """For how long it waited, each time."""
        return self.clock.slept

    def push(self, branch: str) -> str:
        """A head branch with one commit of its own."""
        return push_branch(self.repository, branch)

    def open_one(self, head: str) -> StoredPullRequest:
        """A pull request from a branch of the repository, which need not be there."""
        return self.server.open_pull_request(self.full_name, head=head, fork=self.own_fork)


@dataclass(kw_only=True)
class GitHubStage(ServedStage):
    """The GitHub server with one repository, and how the client waits without time."""

    server: GitHubServer
    full_name: str = FULL_NAME
    own_fork: str | None = FULL_NAME
    top: str = "^/repos"
    unmet: str = "blocked"
    closing: object = ("PATCH", {"body": "Withdrawn", "state": "closed"})
    incomplete: object = field(default_factory=lambda: {"number": 1, "head": {"repo": {"full_name": FULL_NAME}}})

    def open(self, *, token: str | None = None, url: str | None = None, remote: str = FULL_NAME) -> GitHub:
        """The forge under test."""
        address = parse_remote(f"https://github.com/{remote}")
        if address is None:
            raise AssertionError(remote)
        client = GitHubClient(
            url or self.server.url,
            token or self.server.token,
            token_name="variable FORGE_TOKEN",
            write_pause_s=self.write_pause_s,
            clock=self.clock,
        )
        return GitHub(address, client)


@dataclass(kw_only=True)
class GitLabStage(ServedStage):
    """The GitLab server with one project, and how the client waits without time."""

    server: GitLabServer
    full_name: str = PROJECT
    own_fork: str | None = None
    top: str = "^/projects"
    unmet: str = "not_approved"
    closing: object = ("PUT", {"description": "Withdrawn", "state_event": "close"})
    incomplete: object = field(default_factory=lambda: {"iid": 1, "source_project_id": 3, "target_project_id": 3})

    def open(self, *, token: str | None = None, url: str | None = None, remote: str = PROJECT) -> GitLab:
        """The forge under test."""
        address = parse_nested_remote(f"https://gitlab.com/{remote}")
        if address is None:
            raise AssertionError(remote)
        client = GitLabClient(
            url or self.server.url,
            token or self.server.token,
            token_name="variable FORGE_TOKEN",
            write_pause_s=self.write_pause_s,
            clock=self.clock,
        )
        return GitLab(address, client)


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
def github(bare_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubStage]:
    """A GitHub that serves `acme/fleet`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_github() as server:
        server.add_repository(FULL_NAME, bare_repository)
        yield GitHubStage(server=server, repository=bare_repository)


@pytest.fixture
def gitlab(bare_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitLabStage]:
    """A GitLab that serves `acme/platform/fleet`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gitlab() as server:
        server.add_repository(PROJECT, bare_repository)
        yield GitLabStage(server=server, repository=bare_repository)


@pytest.fixture(params=["github", "gitlab"])
def hosted(request: pytest.FixtureRequest) -> GitHubStage | GitLabStage:
    """Each hosted forge in turn."""
    served: GitHubStage | GitLabStage = request.getfixturevalue(request.param)
    return served


@pytest.fixture(params=["github", "gitlab", "local"])
def stage(request: pytest.FixtureRequest, bare_repository: Path) -> Stage:
    """Each forge in turn."""
    if request.param == "local":
        return _local_stage(bare_repository)
    served: GitHubStage | GitLabStage = request.getfixturevalue(request.param)
    server, name = served.server, next(iter(served.server.repositories.values())).full_name
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
