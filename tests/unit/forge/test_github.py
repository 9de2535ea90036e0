"""What is peculiar to GitHub: refusals, retries, limits, paging, forks, queues."""

from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.github import pull_request_of
from reconciler.forge.pull_requests import Assignment, CommitStatus, PullRequestState, Verdict
from tests.servers.git_workshop import run_git
from tests.unit.forge.conftest import HEAD, create, listed, opened, warnings_of

CREATE = r"/pulls$"


def refusal_422(**error: Any) -> dict[str, Any]:
    return {
        "message": "Validation Failed",
        "documentation_url": "https://docs.github.com/rest/pulls/pulls",
        "errors": [{"resource": "PullRequest", **error}],
    }


# Access


def test_a_wrong_token_says_which_token_to_check(github: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"401.*variable FORGE_TOKEN.*valid, not expired"):
        github.open(token="wrong").check_access()


def test_an_unknown_repository_says_what_to_check(github: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"github\.com/acme/other.*404.*check the repository's name"):
        github.open(remote="acme/other").check_access()


def test_an_archived_repository_is_refused_before_anything_is_pushed(github: Any) -> None:
    github.server.repositories["acme/fleet"].archived = True
    with pytest.raises(ConfigurationError, match="archived"):
        github.open().check_access()


# Author


def test_the_author_is_the_tokens_user_with_a_private_address(github: Any) -> None:
    expected = Identity(name="Reconciler Bot", email="99+reconciler-bot@users.noreply.github.com")
    assert github.open().author() == expected


def test_an_author_that_cannot_be_read_is_not_guessed(github: Any) -> None:
    github.server.fail("GET", "^/user$", status=500, times=4)
    with pytest.raises(TransientError):
        github.open().author()
    with pytest.raises(ConfigurationError, match="401"):
        github.open(token="wrong").author()


# Lists


def test_only_our_open_ones_are_looked_up_in_a_merge_queue(github: Any) -> None:
    github.push(HEAD)
    github.push("reconciler/second")
    forge = github.open()
    create(forge)
    second = create(forge, head="reconciler/second")
    github.server.repositories["acme/fleet"].pull_requests[second.number].in_merge_queue = True
    assert [each.in_merge_queue for each in listed(forge)] == [False, True]


@pytest.mark.parametrize(("count", "queries"), [(50, 1), (51, 2)])
def test_fifty_pull_requests_cost_one_query(github: Any, count: int, queries: int) -> None:
    """It says which are queued and whose token this is; the lists of open and closed ones are a request each."""
    for number in range(count):
        github.server.open_pull_request("acme/fleet", head=f"reconciler/{number}", fork="acme/fleet")
    assert len(listed(github.open())) == count
    asked = [each.path for each in github.server.requests]
    assert (asked.count("/graphql"), len(asked)) == (queries, queries + 2)


def test_without_graphql_nothing_is_queued(github: Any) -> None:
    forge = opened(github)
    github.server.has_graphql = False
    assert [each.in_merge_queue for each in listed(forge)] == [False]


def test_a_server_that_knows_no_merge_queue_answers_with_an_error_which_means_not_queued(github: Any) -> None:
    forge = opened(github)
    body = {"errors": [{"message": "Field 'isInMergeQueue' doesn't exist on type 'PullRequest'"}]}
    github.server.fail("POST", "/graphql", status=200, body=body)
    assert [each.in_merge_queue for each in listed(forge)] == [False]


def test_three_requests_read_fifty_open_pull_requests_and_nothing_is_written(github: Any) -> None:
    for number in range(50):
        github.open_one(f"reconciler/{number}")
    found = listed(github.open())
    assert len(found) == 50
    asked = [(each.method, each.path.rpartition("/")[2]) for each in github.server.requests]
    assert asked == [("GET", "pulls"), ("GET", "pulls"), ("POST", "graphql")]
    assert github.server.writes == []


def test_a_merge_queue_that_could_not_be_read_stops_the_run(github: Any) -> None:
    forge = opened(github)
    github.server.fail("POST", "/graphql", status=502, times=9)
    with pytest.raises(TransientError):
        listed(forge)


# Creating


def test_labels_and_reviewers_are_requested_after_the_create(github: Any) -> None:
    github.push(HEAD)
    created = create(
        github.open(),
        labels=("reconciler",),
        assignment=Assignment(reviewers=("alice", "team:inference", "team:acme/sre")),
    )
    stored = github.server.repositories["acme/fleet"].pull_requests[created.number]
    assert stored.labels == ["reconciler"]
    assert stored.reviewers == ["alice", "inference", "sre"]


def test_labels_wait_for_reviews_that_can_be_asked_for_later(github: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Labels say that a pull request is complete: the next run would not ask again."""
    github.push(HEAD)
    github.server.fail("POST", "/requested_reviewers", status=500, times=9)
    created = create(github.open(), labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    assert created.labels == ()
    assert len(warnings_of(caplog)) == 1


@pytest.mark.parametrize("status", [403, 404, 422])
def test_labels_and_reviewers_that_are_refused_are_only_warnings(
    github: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    github.push(HEAD)
    body = refusal_422(code="invalid") if status == 422 else None
    for path in ("/labels", "/requested_reviewers"):
        github.server.fail("POST", path, status=status, body=body, times=9)
    created = create(github.open(), labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    assert created.state is PullRequestState.OPEN
    assert created.labels == ()
    warnings = warnings_of(caplog)
    assert len(warnings) == 2
    assert all(f"pull request {created.number}" in warning for warning in warnings)


LABELS = r"/issues/\d+/labels/"


def test_a_label_whose_removal_was_not_answered_is_gone(github: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The second attempt finds it no more, which is what was wanted."""
    forge = opened(github, labels=("saving", "looked at", "move"))
    github.server.cut("DELETE", LABELS, applied=True)
    assert forge.update(1, unlabel=("saving", "move")).labels == ("looked at",)
    assert listed(forge)[0].labels == ("looked at",)
    assert warnings_of(caplog) == []


def test_a_label_that_may_not_be_removed_is_reported_and_those_before_it_are_gone(
    github: Any, caplog: pytest.LogCaptureFixture
) -> None:
    forge = opened(github, labels=("saving", "move"))
    github.server.fail("DELETE", rf"{LABELS}move", status=403)
    assert forge.update(1, unlabel=("saving", "move")).labels == ("move",)
    assert listed(forge)[0].labels == ("move",)
    (warning,) = warnings_of(caplog)
    assert warning.startswith("pull request 1 keeps an outdated label")


def test_a_branch_that_is_not_visible_yet_is_waited_for_a_few_times(github: Any) -> None:
    github.push(HEAD)
    github.server.fail("POST", CREATE, status=422, body=refusal_422(field="head", code="invalid"), times=2)
    assert create(github.open()).number == 1
    assert github.waits_s == [1.0, 2.0]


def test_a_branch_that_never_shows_ends_in_githubs_own_words(github: Any) -> None:
    with pytest.raises(TransientError, match=r"propose reconciler/prod-llm.*422.*Validation Failed"):
        create(github.open())
    assert len([request for request in github.server.requests if request.method == "POST"]) == 4


def test_another_refusal_is_shown_and_not_repeated(github: Any) -> None:
    github.push(HEAD)
    body = refusal_422(code="custom", message="Body is too long")
    github.server.fail("POST", CREATE, status=422, body=body, times=9)
    with pytest.raises(TransientError, match="Body is too long"):
        create(github.open())
    assert len(github.server.writes) == 1


def test_a_workflow_token_that_may_not_create_says_where_to_allow_it(github: Any) -> None:
    github.push(HEAD)
    github.server.fail("POST", CREATE, status=403)
    with pytest.raises(ConfigurationError, match="allow Actions to create pull requests"):
        create(github.open())
    assert github.waits_s == []


# Updating


def test_a_branch_that_was_deleted_has_closed_its_pull_request(github: Any) -> None:
    forge = opened(github)
    run_git(github.repository, "update-ref", "-d", f"refs/heads/{HEAD}")
    assert forge.update(1, body="Other").state is PullRequestState.CLOSED


# Patience


def test_writes_are_a_second_apart_and_reads_are_not(github: Any) -> None:
    github.write_pause_s = 1.0
    forge = opened(github, labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    listed(forge)
    assert github.waits_s == [1.0, 1.0]
    github.clock.time_s += 0.25
    forge.update(1, title="Other")
    assert github.waits_s == [1.0, 1.0, 0.75]


def test_a_server_that_stays_broken_is_left_to_the_next_run(github: Any) -> None:
    github.server.fail("GET", "^/repos", status=500, times=99)
    with pytest.raises(TransientError, match=r"look for github\.com/acme/fleet: GitHub answered 500"):
        github.open().check_access()
    assert len(github.server.requests) == 4


def test_a_cut_connection_is_tried_again(github: Any) -> None:
    github.server.cut("GET", "^/repos", times=2)
    github.open().check_access()


def test_a_server_that_is_not_there_is_left_to_the_next_run(github: Any) -> None:
    with pytest.raises(TransientError, match=r"look for github\.com/acme/fleet"):
        github.open(url="http://127.0.0.1:9").check_access()


def test_a_403_may_be_a_limit_too(github: Any) -> None:
    github.server.fail("GET", "^/repos", status=403, headers={"Retry-After": "17"})
    github.open().check_access()
    assert github.waits_s == [17.0]


def test_a_spent_hourly_limit_is_waited_for_until_its_reset(github: Any) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(github.server.now_s) + 30)}
    github.server.fail("GET", "^/repos", status=403, headers=headers)
    github.open().check_access()
    assert github.waits_s == [30.0]


@pytest.mark.parametrize(
    "headers", [{"Retry-After": "3600"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1790001800"}]
)
def test_a_long_limit_is_left_to_the_next_run_at_once(github: Any, headers: dict[str, str]) -> None:
    github.server.fail("GET", "^/repos", status=403, headers=headers, times=9)
    with pytest.raises(TransientError, match=r"asks to wait for \d+ s"):
        github.open().check_access()
    assert github.waits_s == []


def test_a_secondary_limit_without_a_time_is_given_a_minute(github: Any) -> None:
    body = {"message": "slow down", "documentation_url": "https://docs.github.com/rest/rate-limit#secondary"}
    github.server.fail("GET", "^/repos", status=403, body=body)
    github.open().check_access()
    assert github.waits_s == [60.0]


@pytest.mark.parametrize("value", ["soon", "-5", "1e99", "", "９"])
def test_an_invalid_time_is_given_a_minute(github: Any, value: str) -> None:
    github.server.fail("GET", "^/repos", status=429, headers={"Retry-After": value.encode().decode("latin-1")})
    github.open().check_access()
    assert github.waits_s == [60.0]


# Secrets


def test_an_update_can_ask_for_what_the_create_could_not(github: Any) -> None:
    forge = opened(github)
    forge.update(1, labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    stored = github.server.repositories["acme/fleet"].pull_requests[1]
    assert (stored.labels, stored.reviewers) == (["reconciler"], ["alice"])


# Reviews


def test_a_comment_of_another_user_is_never_taken_for_ours(github: Any) -> None:
    reviews = opened(github)
    theirs = github.server.comment("acme/fleet", 1, "<!-- reconciler-review: {} -->")
    assert reviews.own_comments(1) == ()
    reviews.write_comment(1, "Ours")
    assert [comment.body for comment in reviews.own_comments(1)] == ["Ours"]
    assert theirs in github.server.repositories["acme/fleet"].comments


def test_our_comment_is_found_behind_a_hundred_of_others(github: Any) -> None:
    reviews = opened(github)
    for index in range(120):
        github.server.comment("acme/fleet", 1, f"Comment {index}")
    reviews.write_comment(1, "Ours")
    assert [comment.body for comment in reviews.own_comments(1)] == ["Ours"]


def test_pull_requests_of_forks_are_listed_as_such(github: Any) -> None:
    opened(github)
    github.server.open_pull_request("acme/fleet", head=HEAD, fork="mallory/fleet")
    forge = github.open()
    assert [each.is_from_fork for each in forge.list_open(base="main")] == [False, True]
    assert [forge.head_ref(each) for each in forge.list_open(base="main")][1] == "refs/pull/2/head"


def test_a_status_that_another_user_set_under_our_name_is_set_again(github: Any) -> None:
    commit = github.push(HEAD)
    status = CommitStatus(verdict=Verdict.SUCCESS, words="x" * 200)
    github.open().set_status(commit, status)
    statuses = github.server.repositories["acme/fleet"].statuses[commit]
    assert len(statuses[0]["description"]) == 140
    statuses[0]["creator"]["id"] = 666
    github.open().set_status(commit, status)
    assert len(statuses) == 2


def test_what_a_merge_came_to_is_known_once_it_is_merged() -> None:
    """Before, GitHub names a merge that it only tried."""
    answer = {
        "number": 1,
        "state": "closed",
        "title": "A title",
        "html_url": "https://github.com/acme/fleet/pull/1",
        "head": {"ref": HEAD, "sha": "a" * 40},
        "base": {"ref": "main"},
        "merge_commit_sha": "b" * 40,
    }
    assert pull_request_of(answer, "acme/fleet").merged_as == ()
    assert pull_request_of(answer | {"merged_at": "2026-11-20T12:00:00Z"}, "acme/fleet").merged_as == ("b" * 40,)
    answer |= {"merged_at": "2026-11-20T12:00:00Z", "merge_commit_sha": None}
    assert pull_request_of(answer, "acme/fleet").merged_as == ()
