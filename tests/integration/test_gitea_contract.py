"""The whole life of a pull request on Gitea, and our words for its API against a client made from its description."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.forge.gitea import Gitea, GiteaClient
from reconciler.forge.pull_requests import RepositoryAddress
from tests.servers.contract import Exchange
from tests.servers.gitea import GiteaServer, serve_gitea
from tests.servers.gitea_contract import FIELDS, PATHS, load_contract
from tests.servers.scripted import SteppedClock
from tests.servers.whole_life import live_through_everything, two_branches

pytestmark = pytest.mark.integration

TYPES = Path(__file__).parents[2] / ".tools" / "node_modules" / "gitea-js" / "dist" / "index.d.ts"
REPOSITORY = "/repos/acme/fleet"
NEW = {"head": "x", "base": "main", "title": "t"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GiteaServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_gitea() as server:
        server.add_repository("acme/fleet", two_branches(tmp_path)).role = "admin"
        yield server


def test_every_operation_of_ours_is_as_gitea_describes_it(server: GiteaServer) -> None:
    client = GiteaClient(server.url, server.token, token_name="the test's token", clock=SteppedClock())
    live_through_everything(Gitea(RepositoryAddress(host="gitea.com", owner="acme", name="fleet"), client))
    known = {operation["operationId"] for path in PATHS.values() for operation in path.values()}
    assert known - server.operations == set()
    assert server.violations == []


@pytest.mark.skipif(not TYPES.is_file(), reason="Gitea's types: run tests/tools/fetch_openapi.sh")
def test_every_field_that_is_read_is_one_of_giteas_types() -> None:
    declared = dict(re.findall(r"^interface (\w+) \{(.*?)^\}", TYPES.read_text(), re.DOTALL | re.MULTILINE))
    unknown = {
        f"{name}.{field}"
        for name, schema in FIELDS.items()
        for field in schema["properties"]
        if not re.search(rf"^\s+{field}\?:", declared[name], re.MULTILINE)
    }
    assert unknown == set()


@pytest.mark.skipif(not TYPES.is_file(), reason="Gitea's types: run tests/tools/fetch_openapi.sh")
def test_every_path_that_is_asked_is_one_of_giteas() -> None:
    text = TYPES.with_name("index.js").read_text()
    asked = {re.sub(r"\$?\{\w+\}", "{}", path) for path in re.findall(r"path: `([^`]+)`", text)}
    ours = {re.sub(r"\{\w+\}", "{}", path) for path in PATHS}
    assert ours - asked - {"/user"} == set()


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "is_taken"),
    [
        ("POST", "/pulls", NEW, {}, True),
        ("POST", "/pulls", {**NEW, "title": "t" * 256}, {}, False),
        ("POST", "/pulls", {**NEW, "draft": True}, {}, False),
        ("POST", "/pulls", {**NEW, "labels": ["reconciler"]}, {}, False),
        ("POST", "/pulls", {"head": "x", "title": "t"}, {}, False),
        ("PUT", "/pulls/1/merge", {"Do": "merge"}, {}, False),
        ("POST", "/pulls/1/merge", {"do": "merge"}, {}, False),
        ("POST", "/pulls/1/merge", {"Do": "merge", "sha": "1"}, {}, False),
        ("GET", "/pulls", None, {"state": "open", "limit": "100"}, True),
        ("GET", "/pulls", None, {"state": "merged"}, False),
        ("GET", "/pulls", None, {"per_page": "100"}, False),
    ],
)
def test_the_contract_notices_what_gitea_would_refuse_or_ignore(
    method: str, path: str, body: object, query: dict[str, str], *, is_taken: bool
) -> None:
    refusal = {"message": "no", "url": ""}
    exchange = Exchange(method=method, path=f"{REPOSITORY}{path}", query=query, body=body, status=400, answer=refusal)
    assert (list(load_contract().violations(exchange)) == []) is is_taken
