"""What hosted forges have in common: lists, refusals, lost answers, limits, secrets, merging. Each on both."""

import json
import logging
import re
from typing import Any

import pytest

from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, Assignment, MergeAnswer, MergeState, PullRequestState
from tests.servers.forge_server import Answer, Fault
from tests.servers.git_workshop import run_git
from tests.servers.scripted import reply, serve_script
from tests.unit.forge.conftest import HEAD, create, listed, opened, order, proposal_on, warnings_of

MERGED = MergeAnswer(state=MergeState.MERGED)


def test_the_repository_name_is_compared_without_case(hosted: Any) -> None:
    hosted.open(remote=hosted.full_name.upper()).check_access()


def test_a_renamed_repository_must_be_named_anew(hosted: Any) -> None:
    hosted.server.repositories[hosted.full_name].renamed_to = "acme/clusters"
    with pytest.raises(ConfigurationError, match="is now acme/clusters"):
        hosted.open().check_access()


def test_an_address_that_is_no_api_is_named_as_such(hosted: Any) -> None:
    hosted.server.fail("GET", hosted.top, status=200, body=b"<html>Log in</html>")
    with pytest.raises(TransientError, match=r"is not JSON; is this Git\w+'s API"):
        hosted.open().check_access()


def test_a_token_without_a_user_gets_a_neutral_author(hosted: Any) -> None:
    hosted.server.has_user = False
    assert hosted.open().author() == NEUTRAL_IDENTITY


# Lists


def test_a_fork_with_a_branch_of_the_same_name_is_not_ours(hosted: Any) -> None:
    hosted.server.open_pull_request(hosted.full_name, head=HEAD, fork="mallory/fleet")
    assert listed(hosted.open()) == ()
    hosted.push(HEAD)
    created = create(hosted.open())
    assert [each.number for each in listed(hosted.open())] == [created.number], "and keeps us from nothing"


def test_a_deleted_fork_is_not_ours(hosted: Any) -> None:
    hosted.server.open_pull_request(hosted.full_name, head=HEAD, fork="")
    assert listed(hosted.open()) == ()
    # GitHub answers null for its repository; its description does not say so.
    hosted.server.violations = [each for each in hosted.server.violations if "head.repo: None" not in each]


def pages(hosted: Any, *states: str) -> list[str]:
    return [each.query["page"] for each in hosted.server.requests if each.query.get("state") in states]


def test_all_of_more_than_a_hundred_pull_requests_are_read_page_by_page(hosted: Any) -> None:
    commit = hosted.push("reconciler/0")
    for number in range(230):
        hosted.open_one(f"reconciler/{number}").head_commit = commit
    assert [each.number for each in listed(hosted.open())] == list(range(1, 231))
    assert pages(hosted, "open", "opened") == [str(page + 1) for page in range(-(-230 // hosted.page_size))]


def test_closed_ones_are_read_no_further_back_than_needed(hosted: Any) -> None:
    for number in range(1, 251):
        hosted.open_one(f"reconciler/{number}")
        hosted.server.close(hosted.full_name, number)
    found = listed(hosted.open(), hosted.server.now_s - 20)
    assert [each.number for each in found] == list(range(240, 251))
    assert pages(hosted, "closed") == ["1"]


def test_no_request_goes_to_an_address_from_a_link_header(hosted: Any) -> None:
    for number in range(101):
        hosted.open_one(f"reconciler/{number}")
    with serve_script(reply(b"[]")) as elsewhere:
        hosted.server.next_page = elsewhere.url
        assert len(listed(hosted.open())) == 101
    assert elsewhere.seen == []


@pytest.mark.parametrize("body", [{"message": "surprise"}, "incomplete", "text", None, 7])
def test_answers_of_another_shape_are_never_taken_for_an_empty_list(hosted: Any, body: Any) -> None:
    method, path = hosted.server.lists
    answer = Answer(status=200, body=[hosted.incomplete] if body == "incomplete" else body)
    hosted.server.faults.append(Fault(method=method, path=re.compile(path), answer=answer))
    with pytest.raises(TransientError, match="expected"):
        listed(hosted.open())


# Creating and updating


def test_a_branch_without_commits_of_its_own_is_nothing_to_propose(hosted: Any) -> None:
    """GitLab itself would open an empty merge request."""
    run_git(hosted.repository, "update-ref", f"refs/heads/{HEAD}", "refs/heads/main")
    assert create(hosted.open()) is None
    assert hosted.server.repositories[hosted.full_name].pull_requests == {}


def test_a_create_whose_answer_was_lost_finds_what_it_created(hosted: Any) -> None:
    hosted.server.cut(*hosted.server.creates, applied=True)
    opened(hosted, labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    ((number, stored),) = hosted.server.repositories[hosted.full_name].pull_requests.items()
    assert (number, stored.labels, stored.reviewers) == (1, ["reconciler"], ["alice"])


ASSIGNED = Assignment(assignees=("alice",), milestone="2026-Q2")


def stored_on(hosted: Any) -> Any:
    return hosted.server.repositories[hosted.full_name].pull_requests[1]


def test_assignees_and_milestone_are_set_once_and_those_of_a_person_stay(hosted: Any) -> None:
    forge = opened(hosted, assignment=ASSIGNED)
    stored = stored_on(hosted)
    assert (stored.assignees, stored.milestone) == (["alice"], "2026-Q2")
    before = len(hosted.server.writes)
    forge.update(1, assignment=ASSIGNED)
    assert len(hosted.server.writes) == before
    stored.assignees, stored.milestone = ["bob"], "2026-Q1"
    hosted.server.most_reviewers = 9
    forge.update(1, assignment=ASSIGNED)
    assert (stored.assignees, stored.milestone) == (["bob", "alice"], "2026-Q1")


def test_nobody_and_a_milestone_that_does_not_exist_are_warnings(hosted: Any, caplog: pytest.LogCaptureFixture) -> None:
    opened(hosted, labels=("reconciler",), assignment=Assignment(assignees=("nobody",), milestone="2099"))
    stored = stored_on(hosted)
    assert (stored.assignees, stored.milestone, stored.labels) == ([], "", ["reconciler"])
    told = " ".join(warnings_of(caplog))
    assert "nobody" in told
    assert "2099: there is no open milestone of this title" in told


def test_labels_wait_for_an_assignment_that_can_be_made_later(hosted: Any) -> None:
    """Labels say that a pull request is complete: the next run would not assign again."""
    hosted.push(HEAD)
    for path in (r"/issues/1$", "/milestones$"):
        hosted.server.fail("GET", path, status=500, times=9)
    created = create(hosted.open(), labels=("reconciler",), assignment=ASSIGNED)
    assert not created.is_asked
    assert created.labels == ()


def test_one_that_exists_but_is_not_visible_yet_is_waited_for(hosted: Any) -> None:
    hosted.push(HEAD)
    hosted.server.hide_new_for = 2
    hosted.server.cut(*hosted.server.creates, applied=True)
    assert create(hosted.open()).number == 1
    assert sum(hosted.waits_s) < 10


def test_a_missing_base_branch_is_a_matter_of_configuration(hosted: Any) -> None:
    hosted.push(HEAD)
    with pytest.raises(ConfigurationError, match="base branch release exists"):
        create(hosted.open(), base="release")


def test_text_and_closing_travel_in_one_request(hosted: Any) -> None:
    forge, before = opened(hosted), len(hosted.server.writes)
    forge.update(1, body="Withdrawn", close=True)
    (write,) = hosted.server.writes[before:]
    assert (write.method, write.body) == hosted.closing


def test_a_second_writer_is_recognised(hosted: Any) -> None:
    forge = opened(hosted)
    hosted.server.fail(*hosted.server.updates, status=409)
    with pytest.raises(RivalRunError, match="at the same time"):
        forge.update(1, title="Other")


def test_a_pull_request_that_is_gone_is_a_matter_of_configuration(hosted: Any) -> None:
    with pytest.raises(ConfigurationError, match="update pull request 7"):
        hosted.open().update(7, title="Other")


# Patience


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failing_server_is_tried_again_a_few_times(hosted: Any, status: int) -> None:
    hosted.server.fail("GET", hosted.top, status=status, times=3)
    hosted.open().check_access()
    assert hosted.waits_s == [1.0, 2.0, 4.0]


def test_a_limit_is_waited_for_as_long_as_the_server_asks(hosted: Any) -> None:
    hosted.server.fail("GET", hosted.top, status=429, headers={"Retry-After": "17"})
    hosted.open().check_access()
    assert hosted.waits_s == [17.0]


def test_a_long_limit_is_left_to_the_next_run_at_once(hosted: Any) -> None:
    hosted.server.fail("GET", hosted.top, status=429, headers={"Retry-After": "3600"}, times=9)
    with pytest.raises(TransientError, match=r"asks to wait for 3600 s"):
        hosted.open().check_access()
    assert hosted.waits_s == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_host_is_never_followed(hosted: Any, status: int) -> None:
    headers = {"Location": "http://evil.invalid/acme/fleet"}
    hosted.server.fail("GET", hosted.top, status=status, headers=headers, body={"message": "Moved"})
    with pytest.raises(ConfigurationError, match="redirect"):
        hosted.open().check_access()


def test_a_write_is_not_repeated_after_a_redirect(hosted: Any) -> None:
    hosted.push(HEAD)
    headers = {"Location": f"{hosted.server.url}/acme/other"}
    hosted.server.fail(*hosted.server.creates, status=307, headers=headers, body={"message": "Moved"})
    with pytest.raises(ConfigurationError, match="never follow a redirect"):
        create(hosted.open())


# Secrets


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 409, 410, 422, 429, 500])
def test_no_error_and_no_log_holds_the_token_even_if_the_server_repeats_it(
    hosted: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    token = hosted.server.token
    body: Any = {"message": f"no luck with {token}", "errors": [{"message": token, "code": "custom"}]}
    if hosted.server.kind == "gitlab":
        body = {"message": {"base": [f"no luck with {token}"]}, "error": json.dumps(token)}
    headers = {301: {"Location": f"http://evil.invalid/{token}"}, 429: {"Retry-After": "7200"}}.get(status, {})
    hosted.server.fail("GET", hosted.top, status=status, body=body, headers=headers, times=9)
    with pytest.raises(ReconcilerError) as caught:
        hosted.open().check_access()
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "canary" not in caplog.text
    if hosted.server.kind == "github":  # the answer that a server repeats is not in its description
        hosted.server.violations.clear()


def test_the_token_is_in_no_representation_and_no_address(hosted: Any) -> None:
    forge = hosted.open()
    forge.check_access()
    assert "canary" not in repr(vars(forge))
    assert all("canary" not in request.path + str(request.query) for request in hosted.server.requests)
    assert any("canary" in str(request.headers) for request in hosted.server.requests)


# Merging


@pytest.fixture
def proposed(hosted: Any) -> Any:
    return proposal_on(hosted)


def test_the_forge_is_given_time_to_find_out(proposed: Any) -> None:
    hosted, forge, stored, head = proposed
    stored.unknown_for = 2
    assert order(forge, head) == MERGED
    assert hosted.waits_s == [1.0, 2.0]


def test_a_push_before_the_merge_is_a_rivals(proposed: Any) -> None:
    hosted, forge, _, head = proposed
    run_git(hosted.repository, "update-ref", f"refs/heads/{HEAD}", "main")
    before = len(hosted.server.writes)
    with pytest.raises(RivalRunError, match="somebody pushed to it meanwhile"):
        order(forge, head)
    assert len(hosted.server.writes) == before


def test_a_push_between_the_look_and_the_merge_is_refused_by_the_forge(proposed: Any) -> None:
    hosted, forge, _, head = proposed
    hosted.server.fail(*hosted.merging, status=409)
    with pytest.raises(RivalRunError, match="409"):
        order(forge, head)
    assert order(forge, head) == MERGED, "and the next run heals it"


def test_a_merge_whose_answer_was_lost_is_found(proposed: Any) -> None:
    hosted, forge, _, head = proposed
    hosted.server.cut(*hosted.merging, applied=True)
    assert order(forge, head) == MERGED


def test_what_a_person_closed_stays_closed(proposed: Any) -> None:
    hosted, forge, _, head = proposed
    hosted.server.close(hosted.full_name, 1)
    assert order(forge, head) == MergeAnswer(state=MergeState.WAITING, words="a person closed it")
    assert listed(forge)[0].state is PullRequestState.CLOSED


def test_what_was_scheduled_is_taken_back(scheduling: Any) -> None:
    hosted, forge, stored, head = proposal_on(scheduling)
    stored.mergeable_state = hosted.unmet
    assert order(forge, head).state is MergeState.SCHEDULED
    forge.unschedule(1)
    assert not listed(forge)[0].is_scheduled
    hosted.server.meet_rules(hosted.full_name, 1)
    assert listed(forge)[0].is_open


def test_what_a_person_scheduled_is_theirs(scheduling: Any) -> None:
    _, forge, stored, _ = proposal_on(scheduling)
    stored.told_by = "ann"
    (shown,) = listed(forge)
    assert (shown.is_scheduled, shown.in_merge_queue) == (False, True)
    forge.unschedule(1)
    assert stored.told_by == "ann"
