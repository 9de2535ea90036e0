"""What a job was started for, by the event file of GitHub and the variables of GitLab."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ConfigurationError
from reconciler.forge.events import Event, find_event

HEAD = "a" * 40


def event_of(folder: Path, content: Any) -> Event | None:
    path = folder / "event.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return find_event({"GITHUB_EVENT_PATH": str(path)})


def pull_request(head: Any) -> Any:
    base = {"ref": "main", "repo": {"full_name": "acme/fleet"}}
    return {"pull_request": {"number": 7, "head": {"sha": HEAD, "repo": head}, "base": base}}


@pytest.mark.parametrize(
    ("head", "is_from_fork"),
    [({"full_name": "acme/fleet"}, False), ({"full_name": "mallory/fleet"}, True), (None, True)],
)
def test_a_pull_request(tmp_path: Path, head: Any, is_from_fork: bool) -> None:
    event = event_of(tmp_path, pull_request(head))
    assert event == Event(
        head_commit=HEAD, base_branch="main", head_ref="refs/pull/7/head", number=7, is_from_fork=is_from_fork
    )
    assert (event.base_in(is_directory=True), event.head_in(is_directory=True)) == ("origin/main", HEAD)
    assert (event.base_in(is_directory=False), event.head_in(is_directory=False)) == ("main", "refs/pull/7/head")
    assert event.only == ""


def test_a_merge_queue(tmp_path: Path) -> None:
    ref = "refs/heads/gh-readonly-queue/main/pr-7-b"
    group = {"head_sha": HEAD, "head_ref": ref, "base_ref": "refs/heads/main"}
    assert event_of(tmp_path, {"merge_group": group}) == Event(head_commit=HEAD, base_branch="main", head_ref=ref)


def test_a_job_after_another_knows_its_commit_alone(tmp_path: Path) -> None:
    event = event_of(tmp_path, {"workflow_run": {"head_sha": HEAD, "head_branch": "evil", "pull_requests": []}})
    assert event == Event(head_commit=HEAD)
    assert event.only == HEAD


@pytest.mark.parametrize("content", [{}, [], {"pull_request": None}, {"schedule": "*/10 * * * *"}, 3])
def test_any_other_job_is_about_no_change(tmp_path: Path, content: Any) -> None:
    assert event_of(tmp_path, content) is None


def test_no_job_is_about_no_change() -> None:
    assert find_event({}) is None


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000])
def test_a_broken_event_says_which_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigurationError, match=r"GITHUB_EVENT_PATH: .*event.json is not JSON"):
        event_of(tmp_path, content)


def test_an_event_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        find_event({"GITHUB_EVENT_PATH": str(tmp_path / "none")})


def test_a_merge_request() -> None:
    variables = {
        "CI_MERGE_REQUEST_IID": "12",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_COMMIT_SHA": "c" * 40,
        "CI_MERGE_REQUEST_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2",
    }
    event = find_event(variables)
    expected = Event(
        head_commit="c" * 40, base_branch="main", head_ref="refs/merge-requests/12/head", number=12, is_from_fork=True
    )
    assert event == expected
    merged = find_event({**variables, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD})
    assert merged is not None
    assert merged.head_commit == HEAD, "a pipeline for the merged result has a commit of its own"


@pytest.mark.parametrize("number", ["x", "-1", "1;id", "１"])
def test_a_merge_request_has_a_number(number: str) -> None:
    with pytest.raises(ConfigurationError, match="CI_MERGE_REQUEST_IID: expected a number"):
        find_event({"CI_MERGE_REQUEST_IID": number})
