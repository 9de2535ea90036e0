"""A person who takes back a merge of ours by hand is believed like one who closes a pull request."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.proposals import ProposalState
from reconciler.domain.settings import Settings
from reconciler.errors import TransientError
from reconciler.git.clone import Clone
from reconciler.pipeline.observe import note_reverts, observe
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult
from tests.servers.desk import BUSY, NOW_S, PEAK, QUIET, Desk
from tests.servers.git_workshop import run_git

CHAT = "reconciler/prod-chat-urgent-705ae555"
DAY_S = 86400.0
WORDS = "a person reverted the merge of pull request #1 for this decision"


@pytest.fixture
def merged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose first pull request a person merged by git, with a merge commit; git's time is the desk's."""
    desk.run(BUSY)
    at(desk, monkeypatch)
    fetched(desk, CHAT)
    desk.workshop.git("merge", "-q", "--no-ff", "-m", "Merge it", "FETCH_HEAD")
    push(desk)
    assert happened(desk.run(BUSY)) == {}, "it is merged, and its replicas start"
    assert [each.is_open for each in desk.pull_requests()] == [False]
    at(desk, monkeypatch)
    return desk


def at(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person commit an hour later, by the desk's clock."""
    desk.now_s += 3600
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(desk.now_s)} +0000")


def fetched(desk: Desk, branch: str = "main") -> None:
    """A person's clone at the base, with `branch` beside it."""
    desk.workshop.git("fetch", "-q", "origin", "main")
    desk.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
    desk.workshop.git("fetch", "-q", "origin", branch)


def push(desk: Desk) -> None:
    desk.workshop.git("push", "-q", "origin", "HEAD:refs/heads/main")


def revert(desk: Desk, *arguments: str) -> None:
    """Revert by hand, and push."""
    fetched(desk)
    desk.workshop.git("revert", "--no-edit", *arguments)
    push(desk)


def happened(result: RunResult) -> dict[str, tuple[Operation, str]]:
    found = (each for each in result.published if each.operation is not Operation.NONE)
    return {each.group: (each.operation, each.reason) for each in found}


def test_what_a_person_reverted_is_not_proposed_again(merged: Desk) -> None:
    revert(merged, "-m", "1", "HEAD")
    before = merged.state()
    for _ in range(2):
        assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}
    assert merged.state() == before


def test_it_returns_with_another_value_and_after_a_week(merged: Desk) -> None:
    revert(merged, "-m", "1", "HEAD")
    assert happened(merged.run(PEAK)) == {"prod/chat": (Operation.CREATED, "")}
    merged.run(QUIET)
    merged.now_s += 6.9 * DAY_S
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}
    merged.now_s += 0.1 * DAY_S
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.CREATED, "")}


def test_a_revert_counts_from_its_own_time(merged: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The merge itself may be older than a week."""
    merged.now_s += 10 * DAY_S
    at(merged, monkeypatch)
    revert(merged, "-m", "1", "HEAD")
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}


@pytest.mark.parametrize("is_short", [False, True])
def test_the_commit_that_was_merged_may_be_reverted_itself(merged: Desk, *, is_short: bool) -> None:
    """And git may have written the beginning of its name, as with --reference."""
    fetched(merged)
    commit = merged.workshop.git("rev-parse", "HEAD^2")
    merged.workshop.git("revert", "--no-commit", "HEAD^2")
    named = f"{commit[:9]} (Scale up llama, 2026-09-21)" if is_short else commit
    merged.workshop.git("commit", "-q", "-m", f"Not now\n\nThis reverts commit {named}.\n")
    push(merged)
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}


def test_a_revert_that_came_by_a_merge_counts(merged: Desk) -> None:
    fetched(merged)
    merged.workshop.git("switch", "-q", "-c", "undo")
    merged.workshop.git("revert", "--no-edit", "-m", "1", "HEAD")
    merged.workshop.git("switch", "-q", "--detach", "HEAD~1")
    merged.workshop.git("merge", "-q", "--no-ff", "-m", "Merge pull request #9 from acme/undo", "undo")
    push(merged)
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}


@pytest.mark.parametrize(
    "words",
    ["Reverts acme/fleet#1", "Reverts #1", "This reverts merge request !1", "This reverts merge request ml/f!1"],
)
def test_a_forge_may_name_the_pull_request(merged: Desk, words: str) -> None:
    fetched(merged)
    merged.workshop.git("revert", "--no-commit", "-m", "1", "HEAD")
    merged.workshop.git("commit", "-q", "-m", f'Revert "Scale up llama (#1)" (#9)\n\n{words}\n')
    push(merged)
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}


@pytest.mark.parametrize(
    "words",
    ["See `This reverts commit HERE`", "Reverts #2", "Reverts #1, and more", "This reverts commit HE", "Reverts"],
)
def test_other_words_say_nothing(merged: Desk, words: str) -> None:
    fetched(merged)
    told = words.replace("HERE", merged.workshop.git("rev-parse", "HEAD")).replace("HE", "0" * 40)
    merged.workshop.git("revert", "--no-commit", "-m", "1", "HEAD")
    merged.workshop.git("commit", "-q", "-m", f"Back\n\n{told}\n")
    push(merged)
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.CREATED, "")}


def test_who_takes_the_revert_back_has_not_said_no(merged: Desk) -> None:
    revert(merged, "-m", "1", "HEAD")
    revert(merged, "HEAD")
    result = merged.run(BUSY)
    assert [each.reverted_at_s for each in result.prepared.recording.proposals] == [None]
    revert(merged, "HEAD")
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.LEFT, WORDS)}


def test_the_same_that_was_merged_again_later_stands(merged: Desk) -> None:
    """What was reverted is the earlier one."""
    revert(merged, "-m", "1", "HEAD")
    merged.now_s += 8 * DAY_S
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.CREATED, "")}
    fetched(merged, CHAT)
    merged.workshop.git("merge", "-q", "--no-ff", "-m", "Merge it again", "FETCH_HEAD")
    push(merged)
    merged.run(BUSY)
    proposals = merged.run(BUSY).prepared.recording.proposals
    assert [(each.number, each.state) for each in proposals] == [(1, ProposalState.MERGED), (2, ProposalState.MERGED)]
    assert {each.reverted_at_s for each in proposals} == {None}


def test_the_commit_of_a_forge_that_squashed_is_known_from_it(merged: Desk) -> None:
    """Its message may say anything, and no branch leads to what was merged."""
    fetched(merged)
    merged.workshop.git("reset", "-q", "--hard", "HEAD^1")
    merged.workshop.git("commit", "-q", "--allow-empty", "-m", "Squashed")
    squashed = merged.workshop.git("rev-parse", "HEAD")
    merged.workshop.git("commit", "-q", "--allow-empty", "-m", f"Back\n\nThis reverts commit {squashed}.")
    merged.workshop.git("push", "-q", "--force", "origin", "HEAD:refs/heads/main")
    view = observe(merged.doors(BUSY), Settings(), merged.now_s, "fleet").forge
    (shown,) = (replace(each, merged_as=(squashed,)) for each in merged.pull_requests())
    for known, at_s in (({}, None), ({1: shown}, merged.now_s)):
        found = note_reverts(
            merged.clone(), view.proposals, known, since_s=NOW_S, listed_since_s=0.0, now_s=merged.now_s
        )
        assert [each.reverted_at_s for each in found] == [at_s]


def test_without_history_the_run_goes_on_and_says_what_it_does_not_know(
    merged: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TransientError("fetch the history of main: no route to host")

    revert(merged, "-m", "1", "HEAD")
    monkeypatch.setattr(Clone, "fetch_history", fail)
    assert happened(merged.run(BUSY)) == {"prod/chat": (Operation.CREATED, "")}
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith(
        "Git's history is not known: what a person took back by hand may be proposed again: fetch"
    )


def test_a_replay_knows_it(merged: Desk, tmp_path: Path) -> None:
    revert(merged, "-m", "1", "HEAD")
    prepared = merged.plan(BUSY, record=tmp_path / "recording.zip")
    assert [str(each.blocked or "") for each in prepared.plan.groups if each.changes] == [WORDS]
    assert run_git(merged.workshop.remote, "rev-parse", "main") == prepared.plan.commit
