"""The whole life of a merge request, each request and answer held against what GitLab's API reference says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.forge.gitlab import GitLab, GitLabClient
from reconciler.forge.pull_requests import RepositoryAddress
from tests.servers.contract import Exchange
from tests.servers.gitlab import GitLabServer, schedule, serve_gitlab
from tests.servers.gitlab_contract import PATHS, load_contract
from tests.servers.scripted import SteppedClock
from tests.servers.whole_life import live_through_everything, two_branches

pytestmark = pytest.mark.integration

ELSEWHERE = {
    "branches/get",
    "members/get",
    "merge-requests/cancel-auto-merge",
    "merge-trains/add",
    "protected-branches/list",
    "token/get",
}
"""What is asked only where something stands in the way, of which other tests tell."""
PROJECT = "/projects/acme%2Fplatform%2Ffleet"
NEW = {"source_branch": "x", "target_branch": "main", "title": "t"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitLabServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gitlab() as server:
        server.add_repository("acme/platform/fleet", two_branches(tmp_path))
        yield server


def test_every_operation_of_ours_is_as_gitlab_describes_it(server: GitLabServer) -> None:
    client = GitLabClient(server.url, server.token, token_name="the test's token", clock=SteppedClock())
    address = RepositoryAddress(host="gitlab.example.com", owner="acme/platform", name="fleet")
    server.schedules = [schedule("*/10 * * * *")]
    live_through_everything(GitLab(address, client))
    known = {operation["operationId"] for path in PATHS.values() for operation in path.values()}
    assert known - server.operations <= ELSEWHERE
    assert server.violations == []
    assert server.commands == []


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "is_taken"),
    [
        ("POST", "/merge_requests", NEW, {}, True),
        ("POST", "/merge_requests", {**NEW, "title": 3}, {}, False),
        ("POST", "/merge_requests", {**NEW, "title": "t" * 256}, {}, False),
        ("POST", "/merge_requests", {**NEW, "reviewers": ["alice"]}, {}, False),
        ("POST", "/merge_requests", {"source_branch": "x", "target_branch": "main"}, {}, False),
        ("POST", "/merge_requests", None, {}, False),
        ("PATCH", "/merge_requests/1", {"title": "t"}, {}, False),
        ("PUT", "/merge_requests/1", {"state_event": "close"}, {}, True),
        ("PUT", "/merge_requests/1", {"state": "closed"}, {}, False),
        ("GET", "/merge_requests", None, {"state": "opened", "per_page": "100"}, True),
        ("GET", "/merge_requests", None, {"state": "open"}, False),
        ("GET", "/merge_requests", None, {"per_page": "101"}, False),
        ("GET", "/merge_requests", None, {"head": "x"}, False),
        ("GET", "/pulls", None, {}, False),
    ],
)
def test_the_contract_notices_what_gitlab_would_refuse(
    method: str, path: str, body: object, query: dict[str, str], *, is_taken: bool
) -> None:
    refusal = {"message": "400 Bad request"}
    exchange = Exchange(method=method, path=f"{PROJECT}{path}", query=query, body=body, status=400, answer=refusal)
    assert (list(load_contract().violations(exchange)) == []) is is_taken
