"""Commits that the forge writes by its API and signs, in place of git."""

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.forge.pull_requests import Forge
from reconciler.git.repository import CommitRecord
from reconciler.pipeline.publish import WORKPLACE, Operation, Published
from tests.servers.desk import BUSY, PEAK, QUIET, Desk
from tests.servers.fleet import SETTINGS
from tests.servers.forge_server import forge_key
from tests.servers.git_workshop import run_git
from tests.servers.hosted import NAME, open_hosted

COMMITTERS = {"github": "noreply@github.com", "gitlab": "noreply@gitlab.com"}


def signed_desk(desk: Desk) -> Desk:
    desk.write("reconciler.yaml", f"{SETTINGS}git: {{signing: {{method: forge}}}}\n")
    return desk


@pytest.fixture(params=["github", "gitlab"])
def hosted(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Forge, Any]]:
    """Each forge that writes commits, and its server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with open_hosted(request.param, signed_desk(desk).workshop.remote, desk.now_s) as opened:
        yield opened


def published(desk: Desk, forge: Forge, ask: Any = BUSY) -> Published:
    (only,) = (each for each in desk.run(ask, forge).published if each.group == "prod/chat")
    return only


def head_of(desk: Desk) -> tuple[str, CommitRecord]:
    """The only head branch and its newest commit."""
    (branch,) = set(desk.branches()) - {"main"}
    return branch, desk.clone().fetch_branches((branch,))[branch]


def test_a_commit_is_signed_by_the_forge_in_our_name_and_stays(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, server = hosted
    assert published(desk, forge).operation is Operation.CREATED
    branch, tip = head_of(desk)
    assert tip.is_signed
    assert (tip.author.email, tip.committer.email) == ("reconciler@noreply.invalid", COMMITTERS[forge.name])
    assert tip.parents == (desk.branches()["main"],)
    before = len(server.writes)
    assert published(desk, forge).operation is Operation.NONE
    assert len(server.writes) == before
    assert head_of(desk) == (branch, tip)


def test_an_open_pull_request_gets_its_next_commit_and_is_withdrawn(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, server = hosted
    published(desk, forge)
    _, first = head_of(desk)
    desk.now_s += 1200.0
    assert published(desk, forge, PEAK).operation is Operation.UPDATED
    _, second = head_of(desk)
    assert (second.is_signed, second.parents) == (True, first.parents)
    assert second.oid != first.oid
    (stored,) = server.repositories[NAME].pull_requests.values()
    assert stored.state == "open"
    desk.now_s += 1200.0
    assert published(desk, forge, QUIET).operation is Operation.CLOSED
    assert set(desk.branches()) == {"main"}


def test_what_a_killed_run_left_is_deleted(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, _ = hosted
    published(desk, forge)
    branch, _ = head_of(desk)
    run_git(desk.workshop.remote, "update-ref", f"refs/heads/{branch}{WORKPLACE}", "refs/heads/main")
    run_git(desk.workshop.remote, "update-ref", f"refs/heads/reconciler/other{WORKPLACE}", "refs/heads/main")
    assert published(desk, forge).operation is Operation.NONE
    assert set(desk.branches()) == {"main", branch, f"reconciler/other{WORKPLACE}"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("signs", False, "git.signing: the forge does not sign what it commits: sign by ssh or gpg"),
        ("commit_author", "ann@example.com", "git.author: the forge commits for ann@example.com, not "),
    ],
)
def test_a_forge_that_commits_otherwise_is_refused(
    desk: Desk, hosted: tuple[Forge, Any], field: str, value: object, words: str
) -> None:
    forge, server = hosted
    setattr(server, field, value)
    outcome = published(desk, forge)
    assert (outcome.operation, outcome.reason.startswith(words)) == (Operation.FAILED, True), outcome.reason
    assert server.repositories[NAME].pull_requests == {}
    setattr(server, field, True if field == "signs" else "reconciler@noreply.invalid")
    assert published(desk, forge).operation is Operation.CREATED


def test_other_files_than_were_drafted_are_never_proposed(
    desk: Desk, hosted: tuple[Forge, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forge, server = hosted
    commit_files = server.commit_files
    monkeypatch.setattr(
        server, "commit_files", lambda place, name, files, *more: commit_files(place, name, {**files, "x": b""}, *more)
    )
    outcome = published(desk, forge)
    assert outcome.operation is Operation.FAILED
    assert "other files" in outcome.reason
    assert server.repositories[NAME].pull_requests == {}


def test_a_commit_that_a_person_amended_and_signed_is_left_alone(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, server = hosted
    published(desk, forge)
    branch, tip = head_of(desk)
    repository = server.repositories[NAME]
    run_git(repository.directory, "update-ref", f"refs/heads/{branch}", tip.parents[0])
    server.commit_files(repository, branch, {"prod/a.yaml": b""}, tip.message, "ann@example.com")
    desk.now_s += 1200.0
    outcome = published(desk, forge, PEAK)
    assert outcome.operation is Operation.LEFT
    assert "ann@example.com pushed commits" in outcome.reason


def update_branch(desk: Desk, branch: str, by: str) -> str:
    """The base moves on, and a person has the forge merge it into our branch: the forge commits and signs that, too."""
    desk.write("README.md", "later\n")
    remote = desk.workshop.remote
    tree = run_git(remote, "merge-tree", "--write-tree", branch, "main").splitlines()[0]
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={forge_key()}")
    merge = ("commit-tree", "-S", tree, "-p", branch, "-p", "main", "-m", "Merge branch 'main'")
    merged = run_git(remote, *signing, *merge, GIT_COMMITTER_EMAIL=by)
    run_git(remote, "update-ref", f"refs/heads/{branch}", merged)
    return merged


@pytest.mark.parametrize("ask", [BUSY, PEAK], ids=["same load", "more load"])
def test_an_update_of_the_branch_takes_over_no_commit_of_the_forge(
    desk: Desk, hosted: tuple[Forge, Any], ask: Any
) -> None:
    forge, _ = hosted
    published(desk, forge)
    branch, _ = head_of(desk)
    update_branch(desk, branch, COMMITTERS[forge.name])
    desk.now_s += 1200.0
    assert published(desk, forge, ask).operation is Operation.UPDATED
    _, tip = head_of(desk)
    assert (tip.is_signed, tip.parents) == (True, (desk.branches()["main"],))
    assert published(desk, forge, ask).operation is Operation.NONE


def test_an_update_above_a_commit_of_a_person_by_the_forge_is_left_alone(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, server = hosted
    published(desk, forge)
    branch, tip = head_of(desk)
    server.commit_author = "ann@example.com"
    server.commit_files(server.repositories[NAME], branch, {"a.yaml": b""}, tip.message, COMMITTERS[forge.name])
    merged = update_branch(desk, branch, COMMITTERS[forge.name])
    desk.now_s += 1200.0
    outcome = published(desk, forge, PEAK)
    assert outcome.operation is Operation.LEFT
    assert "ann@example.com pushed commits" in outcome.reason
    assert desk.branches()[branch] == merged


def test_a_forge_without_such_commits_says_so(desk: Desk) -> None:
    outcome = published(signed_desk(desk), desk.forge)
    assert outcome.operation is Operation.FAILED
    assert outcome.reason == ("git.signing: local signs no commits of its API: set git.signing.method to ssh or gpg")
    assert set(desk.branches()) == {"main"}


def test_commits_of_before_are_written_anew_once_the_forge_signs(desk: Desk, hosted: tuple[Forge, Any]) -> None:
    forge, _ = hosted
    desk.write("reconciler.yaml", SETTINGS)
    published(desk, forge)
    assert not head_of(desk)[1].is_signed
    signed_desk(desk)
    desk.now_s += 1200.0
    assert published(desk, forge).operation is Operation.UPDATED
    assert head_of(desk)[1].is_signed
