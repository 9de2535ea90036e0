"""Reviews told under merge requests of GitLab: by a job of one, and by a schedule for all of them, forks' too."""

from collections.abc import Callable

import pytest

from tests.servers.fleet import CHAT_DEPLOYMENT, FULL_NAME, Fleet, Level
from tests.servers.forge_server import ForgeServer, StoredComment
from tests.servers.git_workshop import run_git

pytestmark = pytest.mark.integration

DEPLOYMENT = "clusters/prod/chat/deployment.yaml"


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet on GitLab in a busy hour."""
    made = make_fleet("gitlab")
    made.go_to(Level.BUSY)
    return made


def server_of(fleet: Fleet) -> ForgeServer:
    assert fleet.forge is not None
    return fleet.forge


def propose(fleet: Fleet, replicas: int, *, fork: str | None = None) -> int:
    """A merge request that sets the chat model's replicas; a fork's head is here under its number alone."""
    git = fleet.workshop.git
    git("fetch", "-q", "origin", "main")
    git("checkout", "-q", "--detach", "FETCH_HEAD")
    fleet.workshop.write(DEPLOYMENT, CHAT_DEPLOYMENT.replace(b"replicas:   2 ", b"replicas:   %d " % replicas))
    git("commit", "-q", "-am", "A change")
    made: str = git("rev-parse", "HEAD")
    git("push", "-q", "origin", f"HEAD:refs/parked/{made}")
    if fork is None:
        run_git(fleet.workshop.remote, "update-ref", "refs/heads/change", made)
    return server_of(fleet).open_pull_request(FULL_NAME, head="change", fork=fork, commit=made).number


def comments(fleet: Fleet, number: int) -> list[StoredComment]:
    return [each for each in server_of(fleet).repositories[FULL_NAME].comments.values() if each.number == number]


def statuses(fleet: Fleet, number: int) -> list[str]:
    repository = server_of(fleet).repositories[FULL_NAME]
    head = repository.pull_requests[number].head_commit
    return [each["status"] for each in repository.statuses.get(head, [])]


def test_a_job_comments_once_and_sets_the_status(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    number = propose(fleet, 1)
    stored = server_of(fleet).repositories[FULL_NAME].pull_requests[number]
    for name, text in {
        "CI_MERGE_REQUEST_IID": str(number),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_COMMIT_SHA": stored.head_commit,
        "CI_MERGE_REQUEST_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
    }.items():
        monkeypatch.setenv(name, text)
    first = fleet.invoke("review", "--comment", "--fail-on", "slo")
    assert first.code == 3, first
    (comment,) = comments(fleet, number)
    assert "sets chat/llama to 1 replica; its demand of" in comment.body
    assert statuses(fleet, number) == ["failed"]
    with fleet.writes() as writes:
        assert fleet.invoke("review", "--comment", "--fail-on", "slo").code == 3
    assert writes == []


def test_a_schedule_reviews_all_open_ones_once_forks_too(fleet: Fleet) -> None:
    own, forks = propose(fleet, 1), propose(fleet, 9, fork="mallory/fleet")
    outcome = fleet.invoke("review", "--open", "--fail-on", "slo")
    assert outcome.code == 0, outcome
    assert "2 pull requests reviewed, 0 already were" in outcome.out
    assert [len(comments(fleet, number)) for number in (own, forks)] == [1, 1]
    with fleet.writes() as writes:
        assert "0 pull requests reviewed, 2 already were" in fleet.invoke("review", "--open", "--fail-on", "slo").out
    assert writes == []
