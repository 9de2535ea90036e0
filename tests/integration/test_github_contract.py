"""The whole life of a pull request, each request and answer held against GitHub's own description of its API."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.settings import ForgeSettings
from reconciler.forge.github import GitHub
from reconciler.forge.github_client import GitHubClient
from reconciler.forge.marker import Marker, withdrawn, write_marker
from reconciler.forge.merging import MergeState
from reconciler.forge.pull_requests import Forge, RepositoryAddress
from reconciler.forge.registry import ForgeToken, forge_for
from reconciler.forge.reviews import CommitStatus, Verdict
from tests.servers.contract import Exchange
from tests.servers.git_workshop import run_git
from tests.servers.github import GitHubServer, serve_github
from tests.servers.github_contract import find_description, load_contract
from tests.servers.scripted import SteppedClock

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_description() is None, reason="GitHub's description: run tests/tools/fetch_openapi.sh"),
]

OPERATIONS = {
    "issues/add-labels",
    "issues/create-comment",
    "issues/delete-comment",
    "issues/list-comments",
    "issues/update-comment",
    "issues/remove-label",
    "pulls/create",
    "pulls/get",
    "pulls/list",
    "pulls/list-reviews",
    "pulls/merge",
    "pulls/request-reviewers",
    "pulls/update",
    "repos/create-commit-status",
    "repos/get",
    "repos/get-branch-protection",
    "repos/get-branch-rules",
    "repos/list-commit-statuses-for-ref",
    "users/get-authenticated",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = tmp_path / "fleet.git"
    run_git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", str(directory))
    tree = run_git(directory, "hash-object", "-w", "-t", "tree", os.devnull)
    first = run_git(directory, "commit-tree", tree, "-m", "First")
    second = run_git(directory, "commit-tree", tree, "-p", first, "-m", "Scale llama")
    run_git(directory, "update-ref", "refs/heads/main", first)
    run_git(directory, "update-ref", "refs/heads/reconciler/llm", second)
    return directory


@pytest.fixture
def server(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_github() as server:
        server.add_repository("acme/fleet", repository)
        yield server


def live_through_everything(forge: Forge) -> None:
    forge.check_access()
    forge.author()
    assert forge.rights(base="main", head="reconciler/llm").may_open
    body = "Words\n\n" + write_marker(Marker(group="llm", decision="a" * 64))
    created = forge.create(
        head="reconciler/llm",
        base="main",
        title="Scale llama",
        body=body,
        draft=True,
        labels=("reconciler",),
        reviewers=("alice", "team:inference"),
    )
    assert created is not None
    assert forge.create(head="reconciler/llm", base="main", title="Again", body=body) == created
    assert forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0) == (created,)
    assert forge.list_open(base="main") == (created,)
    forge.reviews.write_comment(created.number, "Words")
    (comment,) = forge.reviews.own_comments(created.number)
    forge.reviews.edit_comment(created.number, comment.key, "Other words")
    forge.reviews.delete_comment(created.number, comment.key)
    forge.reviews.set_status(created.head_commit, CommitStatus(verdict=Verdict.NEUTRAL, words="1 cannot be judged"))
    forge.update(created.number, title="Scale llama and 2 more", unlabel=("reconciler",))
    forge.update(created.number, body=withdrawn(body), close=True)
    (closed,) = forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)
    assert not closed.is_open
    again = forge.create(head="reconciler/llm", base="main", title="Scale llama", body=body)
    assert again is not None
    assert forge.merge(again.number, head_commit=again.head_commit).state is MergeState.MERGED


def test_every_operation_of_ours_is_as_github_describes_it(server: GitHubServer) -> None:
    client = GitHubClient(server.url, server.token, token_name="the test's token", clock=SteppedClock())
    live_through_everything(GitHub(RepositoryAddress(host="github.com", owner="acme", name="fleet"), client))
    assert server.operations == OPERATIONS
    assert server.violations == []


def test_the_forge_opens_from_a_remote_and_settings(server: GitHubServer) -> None:
    remote = f"{server.url}/acme/fleet.git"
    forge = forge_for(remote, ForgeSettings(kind="github", url=server.url), ForgeToken(text=server.token))
    forge.check_access()


def test_the_contract_notices_what_github_would_refuse() -> None:
    description = find_description()
    assert description is not None
    contract = load_contract(description)

    def broken(method: str, path: str, body: object, query: dict[str, str] | None = None) -> list[str]:
        exchange = Exchange(
            method=method,
            path=path,
            query=query or {},
            body=body,
            status=422,
            answer={"message": "no", "documentation_url": ""},
        )
        return list(contract.violations(exchange))

    assert broken("POST", "/repos/a/b/pulls", {"head": "x", "base": "main", "title": "t"}) == []
    assert broken("POST", "/repos/a/b/pulls", {"head": "x", "base": "main", "title": 3})
    assert broken("POST", "/repos/a/b/pulls", {"head": "x", "titel": "t", "base": "main"})
    assert broken("POST", "/repos/a/b/pulls", {"head": "x"})
    assert broken("POST", "/repos/a/b/pulls", None)
    assert broken("PUT", "/repos/a/b/pulls", {})
    assert broken("POST", "/repos/a/b/issues/1/labels", ["a"])
    assert broken("GET", "/repos/a/b/pulls", None, {"state": "merged"})
    assert broken("GET", "/repos/a/b/pulls", None, {"stat": "open"})
    assert broken("GET", "/repos/a/b/pulls", None, {"page": "two"})
