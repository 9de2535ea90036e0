"""The whole life of a pull request, each request and answer held against GitHub's own description of its API."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.settings import ForgeSettings
from reconciler.forge.github import COMMIT, GitHub, GitHubClient
from reconciler.forge.pull_requests import ForgeToken, MergeState, RepositoryAddress
from reconciler.forge.registry import forge_for
from tests.servers.contract import Exchange
from tests.servers.git_workshop import run_git
from tests.servers.github import GitHubServer, serve_github
from tests.servers.github_contract import find_description, load_contract
from tests.servers.scripted import SteppedClock
from tests.servers.whole_life import live_through_everything, two_branches

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_description() is None, reason="GitHub's description: run tests/tools/fetch_openapi.sh"),
]

ROOT = Path(__file__).parents[2]
GRAPHQL = ROOT / ".tools" / "node_modules" / "@octokit" / "graphql-schema"
CHECK = ROOT / "tests" / "tools" / "check_graphql.cjs"
needs_graphql = pytest.mark.skipif(
    not GRAPHQL.is_dir() or shutil.which("node") is None,
    reason="GitHub's GraphQL schema: run tests/tools/fetch_openapi.sh, which needs npm",
)
OPERATIONS = {
    "git/create-ref",
    "issues/add-labels",
    "issues/create",
    "issues/create-comment",
    "issues/delete-comment",
    "issues/list-comments",
    "issues/get",
    "issues/list-for-repo",
    "issues/list-milestones",
    "issues/update",
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
    "repos/list-activities",
    "repos/list-commit-statuses-for-ref",
    "users/get-authenticated",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return two_branches(tmp_path)


@pytest.fixture
def server(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_github() as server:
        server.add_repository("acme/fleet", repository)
        yield server


def test_every_operation_of_ours_is_as_github_describes_it(server: GitHubServer) -> None:
    client = GitHubClient(server.url, server.token, token_name="the test's token", clock=SteppedClock())
    live_through_everything(GitHub(RepositoryAddress(host="github.com", owner="acme", name="fleet"), client))
    assert server.operations == OPERATIONS
    assert server.violations == []


def graphql_problems(requests: list[dict[str, object]]) -> list[str]:
    """What GitHub's own GraphQL schema does not allow in them."""
    command = ["node", str(CHECK), str(GRAPHQL.parents[2])]
    done = subprocess.run(command, input=json.dumps(requests).encode(), capture_output=True, check=True)
    problems: list[str] = json.loads(done.stdout)
    return problems


@needs_graphql
def test_every_question_in_graphql_is_as_github_describes_it(server: GitHubServer) -> None:
    client = GitHubClient(server.url, server.token, token_name="the test's token", clock=SteppedClock())
    forge = GitHub(RepositoryAddress(host="github.com", owner="acme", name="fleet"), client)
    live_through_everything(forge)
    repository = server.repositories["acme/fleet"]
    tree = run_git(repository.directory, "rev-parse", "main^{tree}")
    commit = run_git(repository.directory, "commit-tree", tree, "-p", "main", "-m", "Another")
    run_git(repository.directory, "update-ref", "refs/heads/reconciler/other", commit)
    created = forge.create(head="reconciler/other", base="main", title="Another", body="Words")
    assert created is not None
    repository.pull_requests[created.number].mergeable_state = "blocked"
    assert forge.merge(created).state is MergeState.SCHEDULED
    forge.unschedule(created.number)
    asked = [each.body for each in server.requests if each.path == "/graphql"]
    assert {each["query"].split("(")[0].split(" ")[0] for each in asked} == {"query", "mutation"}
    assert sum("createCommitOnBranch" in each["query"] for each in asked) == 1
    assert sum("PullRequestAutoMerge" in each["query"] for each in asked) == 2
    assert graphql_problems(asked) == []


@needs_graphql
def test_what_the_graphql_schema_does_not_know_is_seen() -> None:
    wrong: list[dict[str, object]] = [
        {"query": "query { viewer { number } }", "variables": {}},
        {"query": COMMIT, "variables": {"input": {"expectedHeadOid": "a" * 40, "fileChanges": {}}}},
    ]
    assert len(graphql_problems(wrong)) == 3


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
