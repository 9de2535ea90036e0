"""What only Gitea and Forgejo do: labels by number, drafts by title, and merges that are not bound to a commit."""

import re
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.forge.pull_requests import Assignment, CommitStatus, MergeState, PullRequestState, Rights, Verdict
from tests.servers.forge_server import Answer, Fault
from tests.servers.git_workshop import run_git
from tests.unit.forge.conftest import (
    FULL_NAME,
    HEAD,
    ServedStage,
    create,
    listed,
    opened,
    order,
    proposal_on,
    warnings_of,
)


def test_a_label_that_exists_nowhere_is_created_once(gitea: ServedStage) -> None:
    gitea.server.organization_labels = {"reconciler": 7}
    forge = opened(gitea, labels=("reconciler", "scale-up"))
    created = [each.body for each in gitea.server.writes if each.path.endswith(f"{FULL_NAME}/labels")]
    assert created == [{"name": "scale-up", "color": "#ededed"}], "that of the organization is used as it is"
    forge.update(1, labels=("scale-up", "saving"), unlabel=("reconciler",))
    assert listed(forge)[0].labels == ("scale-up", "saving")
    assert len([each for each in gitea.server.writes if each.path.endswith(f"{FULL_NAME}/labels")]) == 2


def test_a_label_after_many_others_is_not_created_twice(gitea: ServedStage) -> None:
    gitea.server.labels = {f"label {number}": number for number in range(1, 131)}
    opened(gitea, labels=("label 130",))
    assert not [each for each in gitea.server.writes if each.path.endswith(f"{FULL_NAME}/labels")]


def test_a_pull_request_without_a_branch_is_not_ours_and_stops_nothing(gitea: ServedStage) -> None:
    """Whoever may read the repository can push to `refs/for/main`."""
    forge = opened(gitea)
    real = gitea.server.route

    def without_branch(method: str, path: str, *rest: Any) -> Any:
        answer = real(method, path, *rest)
        if path.endswith("/pulls") and method == "GET":
            for each in answer.body:
                each["head"] |= {"label": "", "ref": f"refs/pull/{each['number']}/head"}
        return answer

    gitea.server.route = without_branch
    assert listed(forge) == ()
    assert [each.number for each in forge.list_open(base="main")] == [1]


def test_labels_that_the_token_may_not_write_are_a_warning(
    gitea: ServedStage, caplog: pytest.LogCaptureFixture
) -> None:
    gitea.server.scopes = {"repository"}
    forge = opened(gitea, labels=("reconciler",))
    assert listed(forge)[0].labels == ()
    assert "write:issue" in "".join(warnings_of(caplog))


def test_a_reviewer_who_does_not_exist_is_a_warning(gitea: ServedStage, caplog: pytest.LogCaptureFixture) -> None:
    opened(gitea, assignment=Assignment(reviewers=("nobody",)))
    (warning,) = warnings_of(caplog)
    assert "no reviews were requested" in warning
    assert "user does not exist [uid: 0, name: nobody]" in warning


def test_a_pull_request_whose_branch_was_deleted_keeps_its_name(gitea: ServedStage) -> None:
    forge = opened(gitea)
    commit = listed(forge)[0].head_commit
    run_git(gitea.repository, "update-ref", "-d", f"refs/heads/{HEAD}")
    (shown,) = listed(forge)
    assert (shown.state, shown.head_branch, shown.head_commit) == (PullRequestState.CLOSED, HEAD, commit)


def test_the_author_has_the_address_of_its_account(gitea: ServedStage) -> None:
    author = gitea.open().author()
    assert author == Identity(name="reconciler-bot", email="reconciler-bot@noreply.gitea.com")


def test_a_server_with_shorter_pages_is_read_to_the_end(gitea: ServedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.servers.gitea.MOST_ON_A_PAGE", 3)
    for number in range(8):
        gitea.open_one(f"reconciler/{number}")
    assert len(listed(gitea.open())) == 8


def test_the_push_of_another_account_is_not_ours(gitea: ServedStage) -> None:
    commit = gitea.push(HEAD)
    gitea.server.pushed_by[commit] = "mallory"
    assert gitea.open().pushed_s(HEAD, commit, since_s=0.0) is None


def test_a_push_is_found_by_branch_and_commit_back_to_a_time(gitea: ServedStage) -> None:
    commit = gitea.push(HEAD)
    forge = gitea.open()
    at_s = forge.pushed_s(HEAD, commit, since_s=0.0)
    assert at_s is not None
    assert forge.pushed_s(HEAD, commit, since_s=at_s + 3600) == at_s, "clocks differ"
    assert forge.pushed_s(HEAD, commit, since_s=at_s + 2 * 86_400) is None
    assert forge.pushed_s("main", commit, since_s=0.0) is None
    for number in range(70):
        gitea.push(f"person/{number}")
        forge.pushed_s("main", commit, since_s=at_s)
    assert forge.pushed_s(HEAD, commit, since_s=0.0) == at_s, "however much was pushed since"
    later = run_git(gitea.repository, "commit-tree", "main^{tree}", "-p", commit, "-m", "Later")
    run_git(gitea.repository, "update-ref", f"refs/heads/{HEAD}", later)
    assert forge.pushed_s(HEAD, commit, since_s=0.0) is None, "another commit is the newest"


@pytest.mark.parametrize("content", ["", "no JSON", "[" * 9000, "[]", '{"HeadCommit": null}'])
def test_an_activity_that_names_no_commit_is_no_push(gitea: ServedStage, content: str) -> None:
    commit = gitea.push(HEAD)
    activity = {
        "op_type": "commit_repo",
        "ref_name": f"refs/heads/{HEAD}",
        "content": content,
        "act_user": {"id": 99},
        "created": "2026-11-20T14:05:00+01:00",
    }
    answer = Answer(status=200, body=[activity])
    gitea.server.faults.append(Fault(method="GET", path=re.compile("feeds"), answer=answer))
    assert gitea.open().pushed_s(HEAD, commit, since_s=0.0) is None


# Merging: nothing is scheduled, for a push after that would be merged as well.


@pytest.mark.parametrize("state", ["pending", "failure", "error", "warning"])
def test_a_check_that_is_not_fine_waits_for_the_next_run(gitea: ServedStage, state: str) -> None:
    hosted, forge, _, head = proposal_on(gitea)
    hosted.server.checks[head] = [*["success"] * 60, state]
    before = len(hosted.server.writes)
    answer = order(forge, head)
    assert (answer.state, answer.words) == (MergeState.WAITING, "a check failed or has not finished")
    assert len(hosted.server.writes) == before
    hosted.server.checks[head] = [*["success"] * 60, "skipped"]
    assert order(forge, head).state is MergeState.MERGED


def test_rules_that_are_not_met_wait_for_the_next_run(gitea: ServedStage) -> None:
    hosted, forge, stored, head = proposal_on(gitea)
    stored.mergeable_state = "blocked"
    answer = order(forge, head)
    assert answer.state is MergeState.WAITING
    assert "Not all required status checks successful" in answer.words
    hosted.server.meet_rules(FULL_NAME, 1)
    assert listed(forge)[0].is_open, "nothing was scheduled"


def test_a_conflict_waits(gitea: ServedStage) -> None:
    _, forge, stored, head = proposal_on(gitea)
    stored.mergeable_state = "dirty"
    assert order(forge, head).words.startswith("it conflicts with its base")


@pytest.mark.parametrize(
    ("reviews", "merges"),
    [
        ([("ann", "REQUEST_CHANGES")], False),
        ([("ann", "REQUEST_CHANGES"), ("ann", "COMMENT")], False),
        ([("ann", "REQUEST_CHANGES"), ("ann", "APPROVED")], True),
        ([("ann", "REQUEST_CHANGES"), ("bob", "APPROVED")], False),
        ([("ann", "DISMISSED")], True),
        ([*[("bob", "COMMENT")] * 120, ("ann", "REQUEST_CHANGES")], False),
    ],
)
def test_the_last_verdict_of_each_reviewer_counts(
    gitea: ServedStage, reviews: list[tuple[str, str]], *, merges: bool
) -> None:
    _, forge, stored, head = proposal_on(gitea)
    stored.reviews = reviews
    assert (order(forge, head).state is MergeState.MERGED) is merges


def test_a_method_that_the_repository_does_not_allow_is_named(gitea: ServedStage) -> None:
    hosted, forge, stored, head = proposal_on(gitea)
    hosted.server.repositories[FULL_NAME].methods = ("squash",)
    with pytest.raises(Exception, match=r"pullRequests\.mergeMethod: the repository allows squash, not merge"):
        order(forge, head, method="merge")
    assert order(forge, head).state is MergeState.MERGED
    assert stored.merged_by == "squash"


def test_a_commit_that_was_pushed_after_the_check_is_not_merged(gitea: ServedStage) -> None:
    hosted, forge, stored, head = proposal_on(gitea)
    evil = run_git(gitea.repository, "commit-tree", "main^{tree}", "-p", head, "-m", "Evil")
    hosted.server.faults.append(
        Fault(method="GET", path=re.compile("/reviews$"), answer=Answer(status=200, body=[]), applied=True)
    )
    wanted = replace(listed(forge)[0], head_commit=head)
    real = hosted.server.route

    def push_meanwhile(method: str, path: str, *rest: Any) -> Any:
        if path.endswith("/merge"):
            run_git(gitea.repository, "update-ref", f"refs/heads/{HEAD}", evil)
        return real(method, path, *rest)

    hosted.server.route = push_meanwhile
    with pytest.raises(Exception, match="head out of date"):
        forge.merge(wanted)
    assert stored.state == "open"


# Rights


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("admin", Rights(may_open=True, may_label=True, may_merge=True)),
        ("push", Rights(may_open=True, may_label=True, may_merge=True)),
        ("pull", Rights(may_open=True, may_label=False, may_merge=False)),
    ],
)
def test_rights_follow_the_permissions(gitea: ServedStage, role: str, expected: Rights) -> None:
    gitea.server.repositories[FULL_NAME].role = role
    forge = gitea.open()
    assert forge.rights(base="main", head=HEAD) == expected
    assert gitea.server.repositories[FULL_NAME].pull_requests == {}


def test_scopes_that_a_token_lacks_are_found_without_writing(gitea: ServedStage) -> None:
    gitea.server.scopes = {"issue"}
    assert gitea.open().rights(base="main", head=HEAD).may_open is False
    gitea.server.scopes = {"repository"}
    assert gitea.open().rights(base="main", head=HEAD).may_label is False


def test_rules_of_branches_are_reported_where_they_are_shown(gitea: ServedStage) -> None:
    rule = {"enable_push": True, "require_signed_commits": False, "dismiss_stale_approvals": False}
    gitea.server.repositories[FULL_NAME].role = "admin"
    gitea.server.protections = [
        {**rule, "rule_name": "main", "require_signed_commits": True, "dismiss_stale_approvals": True},
        {**rule, "rule_name": "reconciler/**", "enable_push": False},
        {**rule, "rule_name": "release/*", "require_signed_commits": True},
        {**rule, "rule_name": "*-archive", "dismiss_stale_approvals": False},
    ]
    rights = gitea.open().rights(base="main", head=HEAD)
    assert (rights.drops_approvals, rights.needs_signatures) == (True, True)
    assert rights.refusals == ("such branches may not be pushed to",)


def test_a_status_of_another_state_is_set_anew(gitea: ServedStage) -> None:
    forge, commit = gitea.open(), gitea.push(HEAD)
    forge.set_status(commit, CommitStatus(verdict=Verdict.FAILURE, words="1 error"))
    forge.set_status(commit, CommitStatus(verdict=Verdict.FAILURE, words="1 error"))
    forge.set_status(commit, CommitStatus(verdict=Verdict.SUCCESS, words="fine"))
    states = [each["status"] for each in gitea.server.repositories[FULL_NAME].statuses[commit]]
    assert states == ["success", "failure"]


def test_a_draft_is_marked_in_its_title_alone(gitea: ServedStage) -> None:
    gitea.push(HEAD)
    forge = gitea.open()
    created = create(forge, draft=True, title="Scale llama")
    stored = gitea.server.repositories[FULL_NAME].pull_requests[1]
    assert (stored.title, created.title, created.is_draft) == ("WIP: Scale llama", "Scale llama", True)
    assert forge.update(1, title="Scale qwen").title == "Scale qwen"
    assert stored.title == "WIP: Scale qwen"
