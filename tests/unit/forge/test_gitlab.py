"""What is peculiar to GitLab: quick actions, drafts by title, refusals, limits, paging, forks, trains."""

import re
from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.gitlab import pull_request_of
from reconciler.forge.pull_requests import Assignment, PullRequestState
from tests.servers.forge_server import Answer, Fault
from tests.servers.git_workshop import run_git
from tests.servers.gitlab import OWN_ID, schedule
from tests.unit.forge.conftest import HEAD, PROJECT, ServedStage, create, listed, opened, warnings_of

LIST = r"/merge_requests$"
CREATE = r"/merge_requests$"


def stored(gitlab: ServedStage, number: int = 1) -> Any:
    return gitlab.server.repositories[PROJECT].pull_requests[number]


# Access


def test_a_wrong_token_says_which_token_to_check(gitlab: ServedStage) -> None:
    with pytest.raises(
        ConfigurationError, match=r"401 Unauthorized; check that variable FORGE_TOKEN.*a CI_JOB_TOKEN may"
    ):
        gitlab.open(token="wrong").check_access()


@pytest.mark.parametrize(
    ("token", "kind"), [("glcbt-64_abcdefgh", "a CI_JOB_TOKEN"), ("gldt-abcdefgh", "a deploy token")]
)
def test_a_token_that_could_never_open_one_is_refused_before_any_request(
    gitlab: ServedStage, token: str, kind: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"variable FORGE_TOKEN holds {kind}, .*make a project access token"
    ) as caught:
        gitlab.open(token=token)
    assert token not in str(caught.value)
    assert gitlab.server.requests == []


def test_an_unknown_project_says_what_to_check(gitlab: ServedStage) -> None:
    with pytest.raises(
        ConfigurationError, match=r"gitlab\.com/acme/other.*404 Project Not Found; check the project's path"
    ):
        gitlab.open(remote="acme/other").check_access()


def test_a_project_that_moved_may_answer_with_a_redirect_on_its_own_host(gitlab: ServedStage) -> None:
    gitlab.server.add_repository("acme/clusters", gitlab.repository)
    headers = {"Location": f"{gitlab.server.url}/projects/acme%2Fclusters"}
    gitlab.server.fail("GET", "^/projects/acme%2Fplatform%2Ffleet$", status=301, headers=headers)
    with pytest.raises(ConfigurationError, match="is now acme/clusters"):
        gitlab.open().check_access()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"archived": True}, "archived"),
        ({"merge_requests_enabled": False}, "merge requests are switched off"),
        ({"merge_requests_access_level": "disabled"}, "merge requests are switched off"),
    ],
)
def test_a_project_without_merge_requests_is_refused_before_anything_is_pushed(
    gitlab: ServedStage, told: dict[str, Any], words: str
) -> None:
    gitlab.server.project = told
    with pytest.raises(ConfigurationError, match=words):
        gitlab.open().check_access()


def test_pages_are_of_the_project_on_its_own_host(gitlab: ServedStage) -> None:
    forge = gitlab.open()
    assert forge.commit_address("abc") == f"{gitlab.server.host}/{PROJECT}/-/commit/abc"
    assert forge.files_address("abc") == f"{gitlab.server.host}/{PROJECT}/-/blob/abc/"


# Author


def test_the_author_is_the_tokens_user_with_the_address_that_its_commits_are_known_by(gitlab: ServedStage) -> None:
    expected = Identity(name="Reconciler Bot", email="reconciler-bot@noreply.gitlab.example.com")
    assert gitlab.open().author() == expected


def test_without_an_address_the_author_has_a_private_one(gitlab: ServedStage) -> None:
    gitlab.server.commit_email = ""
    assert gitlab.open().author().email == f"{OWN_ID}-reconciler-bot@users.noreply.gitlab.com"


# Lists


def test_a_full_last_page_is_known_as_the_last(gitlab: ServedStage) -> None:
    for number in range(100):
        gitlab.server.open_pull_request(PROJECT, head=f"reconciler/{number}")
    assert len(listed(gitlab.open())) == 100
    assert [each.query["page"] for each in gitlab.server.requests if each.query.get("state") == "opened"] == ["1"]


def test_a_page_that_is_not_full_need_not_be_the_last(gitlab: ServedStage) -> None:
    """GitLab may take out of a page what the token may not see."""
    for number in range(2):
        gitlab.server.open_pull_request(PROJECT, head=f"reconciler/{number}")
    page = Answer(status=200, body=[], headers={"X-Next-Page": "2"})
    gitlab.server.faults.append(Fault(method="GET", path=re.compile(LIST), answer=page))
    listed(gitlab.open())
    assert [each.query["page"] for each in gitlab.server.requests if each.query.get("state") == "opened"] == ["1", "2"]


def test_what_merges_by_itself_or_at_this_moment_is_in_the_merge_queue(gitlab: ServedStage) -> None:
    forge = gitlab.open()
    for number in range(1, 4):
        gitlab.push(f"reconciler/{number}")
        create(forge, head=f"reconciler/{number}")
    stored(gitlab, 2).in_merge_queue = True
    stored(gitlab, 3).state = "locked"
    found = listed(forge)
    assert [each.in_merge_queue for each in found] == [False, True, True]
    assert all(each.is_open for each in found)


def test_a_merged_one_that_was_to_merge_by_itself_is_in_no_queue_any_more(gitlab: ServedStage) -> None:
    opened(gitlab)
    stored(gitlab).in_merge_queue = True
    gitlab.server.merge(PROJECT, 1)
    (merged,) = listed(gitlab.open())
    assert (merged.state, merged.in_merge_queue) == (PullRequestState.MERGED, False)


# Drafts


@pytest.mark.parametrize("title", ["Draft: A title", "[Draft] A title", "(draft) A title", "DRAFT: draft: A title"])
def test_the_beginning_that_makes_a_draft_is_no_part_of_its_title(gitlab: ServedStage, title: str) -> None:
    opened(gitlab, draft=True)
    assert stored(gitlab).title == "Draft: A title"
    stored(gitlab).title = title
    (shown,) = listed(gitlab.open())
    assert (shown.title, shown.is_draft) == ("A title", True)


def test_a_draft_stays_one_when_its_title_changes_and_a_person_can_make_it_ready(gitlab: ServedStage) -> None:
    forge = opened(gitlab, draft=True)
    forge.update(1, title="Another title")
    assert stored(gitlab).title == "Draft: Another title"
    stored(gitlab).title = "Another title"
    before = len(gitlab.server.writes)
    assert not forge.update(1, title="Another title").is_draft
    assert len(gitlab.server.writes) == before


def test_a_draft_with_a_long_title_is_written_once(gitlab: ServedStage) -> None:
    gitlab.push(HEAD)
    forge = gitlab.open()
    title = "Scale llama " * 60
    create(forge, draft=True, title=title)
    before = len(gitlab.server.writes)
    forge.update(1, title=title)
    assert (len(stored(gitlab).title), len(gitlab.server.writes)) == (255, before)


# Quick actions

ORDERS = "Words\n/merge\n/close\r\n\r/assign @mallory\n\n/label ~x\nin /merge words\n```\n/close\n```\n"


def test_a_line_that_gitlab_would_obey_stays_a_line(gitlab: ServedStage) -> None:
    forge = opened(gitlab, body=ORDERS)
    assert gitlab.server.commands == []
    assert stored(gitlab).body.count("/") == ORDERS.count("/")
    forge.update(1, body=f"Other {ORDERS}")
    gitlab.server.merge(PROJECT, 1)
    forge.amend_merged(1, body=f"At last {ORDERS}")
    assert gitlab.server.commands == []
    assert stored(gitlab).body.startswith("At last Words\n /merge")


def test_a_text_that_gitlab_keeps_otherwise_is_written_once(gitlab: ServedStage) -> None:
    forge = opened(gitlab, body=ORDERS)
    before = len(gitlab.server.writes)
    forge.update(1, body=ORDERS)
    gitlab.server.merge(PROJECT, 1)
    forge.amend_merged(1, body=ORDERS)
    assert len(gitlab.server.writes) == before


# Creating


def test_labels_and_reviewers_travel_with_the_create(gitlab: ServedStage) -> None:
    gitlab.push(HEAD)
    created = create(gitlab.open(), labels=("reconciler", "two words"), assignment=Assignment(reviewers=("alice",)))
    assert (stored(gitlab).labels, stored(gitlab).reviewers) == (["reconciler", "two words"], ["alice"])
    assert created.labels == ("reconciler", "two words")
    assert [each.method for each in gitlab.server.writes] == ["POST"]


def test_who_is_not_found_and_teams_are_warnings(gitlab: ServedStage, caplog: pytest.LogCaptureFixture) -> None:
    opened(gitlab, assignment=Assignment(reviewers=("alice", "nobody", "team:inference")))
    assert stored(gitlab).reviewers == ["alice"]
    first, second = warnings_of(caplog)
    assert first.startswith("nobody: there is no such user on GitLab")
    assert second.startswith("team:inference: GitLab asks people for reviews, not groups")


def test_reviewers_that_gitlab_passes_over_are_a_warning(gitlab: ServedStage, caplog: pytest.LogCaptureFixture) -> None:
    opened(gitlab, assignment=Assignment(reviewers=("alice", "bob")))
    (warning,) = warnings_of(caplog)
    assert warning == "pull request 1: GitLab did not take all reviewers; Free takes one"


def test_reviewers_that_a_person_requested_are_kept(gitlab: ServedStage) -> None:
    gitlab.server.most_reviewers = 9
    forge = opened(gitlab)
    stored(gitlab).reviewers = ["bob"]
    forge.update(1, assignment=Assignment(reviewers=("alice",)))
    assert stored(gitlab).reviewers == ["bob", "alice"]
    before = len(gitlab.server.writes)
    forge.update(1, assignment=Assignment(reviewers=("alice", "bob")))
    assert len(gitlab.server.writes) == before


def test_labels_that_are_not_taken_are_a_warning(gitlab: ServedStage, caplog: pytest.LogCaptureFixture) -> None:
    gitlab.server.creates_labels = False
    gitlab.push(HEAD)
    assert create(gitlab.open(), labels=("reconciler",)).labels == ()
    assert warnings_of(caplog) == ["pull request 1 stays without reconciler: GitLab ignored it"]


def test_a_label_with_a_comma_is_never_two_labels(gitlab: ServedStage, caplog: pytest.LogCaptureFixture) -> None:
    opened(gitlab, labels=("reconciler", "a,b"))
    assert stored(gitlab).labels == ["reconciler"]
    assert warnings_of(caplog) == ["pull request 1 stays without a,b: labels on GitLab have no comma"]


@pytest.mark.parametrize("status", [400, 403, 404, 422, 500])
def test_labels_and_reviewers_that_are_refused_later_are_only_warnings(
    gitlab: ServedStage, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    forge = opened(gitlab)
    gitlab.server.fail("PUT", "/merge_requests/1$", status=status, times=9)
    assert forge.update(1, labels=("reconciler",), assignment=Assignment(reviewers=("alice",))).is_open
    (warning,) = warnings_of(caplog)
    assert warning.startswith("pull request 1 stays without its labels or reviewers: ")


def test_a_branch_that_is_not_visible_yet_is_waited_for_a_few_times(gitlab: ServedStage) -> None:
    gitlab.push(HEAD)
    gitlab.server.fail("GET", "/repository/compare", status=404, times=2)
    assert create(gitlab.open()).number == 1
    assert gitlab.waits_s == [1.0, 2.0]


def test_a_branch_that_never_shows_is_left_to_the_next_run(gitlab: ServedStage) -> None:
    with pytest.raises(TransientError, match=r"propose reconciler/prod-llm.*404 Ref Not Found"):
        create(gitlab.open())
    assert gitlab.waits_s == [1.0, 2.0, 4.0]
    assert gitlab.server.writes == []


def test_another_refusal_is_shown_and_not_repeated(gitlab: ServedStage) -> None:
    gitlab.push(HEAD)
    body = {"message": {"title": ["is too long (maximum is 255 characters)"], "base": ["no"]}}
    gitlab.server.fail("POST", CREATE, status=400, body=body, times=9)
    with pytest.raises(TransientError, match=r"400: title is too long \(maximum is 255 characters\); base no"):
        create(gitlab.open())
    assert len(gitlab.server.writes) == 1


def test_a_token_that_may_not_create_says_what_it_needs(gitlab: ServedStage) -> None:
    gitlab.push(HEAD)
    gitlab.server.access_level = 20
    with pytest.raises(
        ConfigurationError, match="variable FORGE_TOKEN needs the scope api and at least the role Developer"
    ):
        create(gitlab.open())
    assert gitlab.waits_s == []


def test_a_missing_scope_is_reported_in_gitlabs_words(gitlab: ServedStage) -> None:
    body = {"error": "insufficient_scope", "error_description": "needs higher privileges", "scope": "api"}
    gitlab.server.fail("GET", "^/projects", status=403, body=body)
    with pytest.raises(
        ConfigurationError, match="403: insufficient_scope; needs higher privileges; variable FORGE_TOKEN"
    ):
        gitlab.open().check_access()


# Updating


def test_a_branch_that_was_deleted_leaves_its_pull_request_open(gitlab: ServedStage) -> None:
    forge = opened(gitlab)
    run_git(gitlab.repository, "update-ref", "-d", f"refs/heads/{HEAD}")
    (shown,) = listed(forge)
    assert shown.is_open
    assert forge.update(1, close=True).state is PullRequestState.CLOSED


# Patience


def test_writes_are_a_second_apart_and_reads_are_not(gitlab: ServedStage) -> None:
    gitlab.write_pause_s = 1.0
    forge = opened(gitlab)
    listed(forge)
    assert gitlab.waits_s == []
    forge.update(1, title="Other")
    assert gitlab.waits_s == [1.0]


def test_a_spent_limit_is_waited_for_until_its_reset(gitlab: ServedStage) -> None:
    headers = {"RateLimit-Remaining": "0", "RateLimit-Reset": str(int(gitlab.server.now_s) + 30)}
    gitlab.server.fail("GET", "^/projects", status=429, body=b"Retry later\n", headers=headers)
    gitlab.open().check_access()
    assert gitlab.waits_s == [30.0]


def test_a_403_is_no_limit_with_any_headers(gitlab: ServedStage) -> None:
    gitlab.server.fail("GET", "^/projects", status=403, headers={"RateLimit-Remaining": "0"})
    with pytest.raises(ConfigurationError):
        gitlab.open().check_access()


# Secrets


@pytest.mark.parametrize(
    ("told", "merged_as"),
    [
        ({}, ()),
        ({"merge_commit_sha": "b" * 40, "squash_commit_sha": None}, ("b" * 40,)),
        ({"merge_commit_sha": "b" * 40, "squash_commit_sha": "c" * 40}, ("b" * 40, "c" * 40)),
        ({"merge_commit_sha": None, "squash_commit_sha": "c" * 40}, ("c" * 40,)),
    ],
)
def test_what_a_merge_came_to_is_known(told: dict[str, object], merged_as: tuple[str, ...]) -> None:
    answer = {
        "iid": 1,
        "state": "merged",
        "title": "A title",
        "source_branch": HEAD,
        "target_branch": "main",
        "web_url": "https://gitlab.example.com/acme/fleet/-/merge_requests/1",
    }
    assert pull_request_of(answer | told).merged_as == merged_as


def test_developers_see_pipeline_schedules(gitlab: Any) -> None:
    gitlab.server.schedules = [schedule("*/10 * * * *"), schedule("0 3 * * *", ref="dev", active=False)]
    told = gitlab.open().schedules()
    assert [(each.cron, each.branch, each.is_active) for each in told] == [
        ("*/10 * * * *", "main", True),
        ("0 3 * * *", "dev", False),
    ]
    gitlab.server.access_level = 20
    assert gitlab.open().schedules() is None


def test_labels_wait_for_reviewers_that_could_not_be_looked_up(gitlab: Any) -> None:
    """Labels say that a merge request is complete: the next run would not ask again."""
    gitlab.push(HEAD)
    gitlab.server.fail("GET", "/users$", status=500, times=99)
    assert create(gitlab.open(), labels=("reconciler",), assignment=Assignment(reviewers=("alice",))).labels == ()
    gitlab.server.faults.clear()
    updated = gitlab.open().update(1, labels=("reconciler",), assignment=Assignment(reviewers=("alice",)))
    assert updated.labels == ("reconciler",)
    assert gitlab.server.repositories[gitlab.full_name].pull_requests[1].reviewers == ["alice"]
