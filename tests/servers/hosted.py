"""Each kind of forge over one bare repository, with the client that reaches it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from reconciler.forge.gitea import Gitea, GiteaClient
from reconciler.forge.github import GitHub, GitHubClient
from reconciler.forge.gitlab import GitLab, GitLabClient
from reconciler.forge.pull_requests import Forge, RepositoryAddress
from tests.servers.forge_server import ForgeServer
from tests.servers.gitea import serve_gitea
from tests.servers.github import serve_github
from tests.servers.gitlab import serve_gitlab
from tests.servers.scripted import SteppedClock

NAME = "acme/fleet"
KINDS: Mapping[str, tuple[Callable[[], AbstractContextManager[ForgeServer]], Any, Any]] = {
    "github": (serve_github, GitHub, GitHubClient),
    "gitlab": (serve_gitlab, GitLab, GitLabClient),
    "gitea": (serve_gitea, Gitea, GiteaClient),
}


@contextmanager
def open_hosted(kind: str, repository: Path, now_s: float) -> Iterator[tuple[Forge, ForgeServer]]:
    """A running server of `acme/fleet`, and the forge that a run would use, which waits without time."""
    with KINDS[kind][0]() as server:
        server.add_repository(NAME, repository)
        yield reach(kind, server.url, server.token, now_s), server


def reach(kind: str, url: str, token: str, now_s: float) -> Forge:
    """The forge behind an address; also from another process than its server's."""
    _, forge_of, client_of = KINDS[kind]
    client = client_of(url, token, token_name="a token", write_pause_s=0.0, clock=SteppedClock(now_s))
    forge: Forge = forge_of(RepositoryAddress(host="forge.example", owner="acme", name="fleet"), client)
    return forge
