"""A workshop with a remote, a server for it, and clones of both."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.domain.settings import Identity
from reconciler.git.clone import Clone, clone_base
from reconciler.git.command import GitToken
from tests.servers.git_http import GitServer, is_available, serve_git
from tests.servers.git_workshop import Workshop, copy_workshop, open_workshop

TOKEN = "ghp_Canary+Secret/0123456789=="


@pytest.fixture(scope="session")
def pristine_workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """What each test gets a copy of."""
    return open_workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def workshop(pristine_workshop: Workshop, tmp_path: Path) -> Workshop:
    """A remote with two commits on `main`, and a person's clone."""
    return copy_workshop(pristine_workshop, tmp_path)


@pytest.fixture
def credentials() -> GitToken:
    """What the server wants to see."""
    return GitToken(username="robot", token=TOKEN)


@pytest.fixture
def server(workshop: Workshop) -> Iterator[GitServer]:
    """The remote behind HTTP, for who has the token."""
    if not is_available():
        pytest.skip("git-http-backend is not installed")
    with serve_git(workshop.remote, username="robot", token=TOKEN) as running:
        yield running


@pytest.fixture
def clone(workshop: Workshop, tmp_path: Path) -> Clone:
    """A private clone of the remote's directory."""
    return clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "private")


@pytest.fixture
def clone_over_http(server: GitServer, credentials: GitToken, tmp_path: Path) -> Callable[[str], Clone]:
    """Makes clones over HTTP, each in a directory of the given name."""
    return lambda name: clone_base(server.url, base="main", credentials=credentials, directory=tmp_path / name)


@pytest.fixture
def author() -> Identity:
    """Who commits."""
    return Identity(name="Reconciler", email="reconciler@example.com")
