"""Merging on GitLab: what is mergeable is merged, what waits for rules is scheduled, and nothing goes around them."""

from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.errors import ConfigurationError
from reconciler.forge.gitlab import GitLab
from reconciler.forge.pull_requests import MergeAnswer, MergeState, PullRequest, PullRequestState
from tests.servers.forge_server import LoggedRequest, StoredPullRequest, StoredRepository
from tests.servers.gitlab import GitLabServer
from tests.unit.forge.conftest import PROJECT, ServedStage, listed, order, proposal_on

MERGED = MergeAnswer(state=MergeState.MERGED)


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """A GitLab with one merge request of ours, and its head commit."""

    server: GitLabServer
    project: StoredRepository
    forge: GitLab
    stored: StoredPullRequest
    head: str

    @property
    def orders(self) -> list[LoggedRequest]:
        """What it was told after its creation."""
        return self.server.writes[1:]

    def merge(self, method: str = "") -> MergeAnswer:
        answer = order(self.forge, self.head, method=method)
        assert isinstance(answer, MergeAnswer)
        return answer

    def shown(self) -> PullRequest:
        (found,) = listed(self.forge)
        assert isinstance(found, PullRequest)
        return found


@pytest.fixture
def proposed(gitlab: ServedStage) -> Proposed:
    _, forge, stored, head = proposal_on(gitlab)
    project = gitlab.server.repositories[PROJECT]
    return Proposed(server=gitlab.server, project=project, forge=forge, stored=stored, head=head)


@pytest.mark.parametrize("pipeline", ["", "success", "skipped"])
def test_what_is_mergeable_is_merged_at_the_commit_that_was_looked_at(proposed: Proposed, pipeline: str) -> None:
    if pipeline:
        proposed.server.pipelines[1] = (proposed.head, pipeline)
    assert proposed.merge() == MERGED
    assert proposed.shown().state is PullRequestState.MERGED
    assert [each.body for each in proposed.orders] == [{"sha": proposed.head, "squash": False}]
    assert proposed.merge() == MERGED, "asking again changes nothing"
    assert len(proposed.orders) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("conflict", "conflicts with its base"),
        ("need_rebase", "accepts only branches that are up to date"),
        ("requested_changes", "a review asks for changes"),
        ("checking", "has not found out yet"),
    ],
)
def test_what_time_does_not_change_waits_with_a_reason(proposed: Proposed, status: str, words: str) -> None:
    proposed.stored.mergeable_state = status
    answer = proposed.merge()
    assert answer.state is MergeState.WAITING
    assert words in answer.words
    assert proposed.orders == []


@pytest.mark.parametrize("state", ["failed", "canceled"])
def test_a_failed_pipeline_is_obeyed_where_gitlab_itself_would_merge(proposed: Proposed, state: str) -> None:
    proposed.server.pipelines[1] = (proposed.head, state)
    assert proposed.merge() == MergeAnswer(state=MergeState.WAITING, words="its pipeline failed")
    assert proposed.orders == []


def test_a_review_that_asks_for_changes_is_obeyed_where_gitlab_itself_would_merge(proposed: Proposed) -> None:
    proposed.stored.reviews = [("ann", "approved"), ("bob", "requested_changes")]
    assert proposed.merge() == MergeAnswer(state=MergeState.WAITING, words="a review asks for changes")
    proposed.stored.reviews = [("ann", "approved"), ("bob", "reviewed")]
    assert proposed.merge() == MERGED


@pytest.mark.parametrize("commit", ["", "0" * 40])
def test_a_pipeline_that_has_not_finished_or_not_begun_is_waited_for_by_gitlab(proposed: Proposed, commit: str) -> None:
    proposed.server.pipelines[1] = (commit, "running")
    assert proposed.merge() == MergeAnswer(state=MergeState.SCHEDULED, words="its pipeline has not finished")
    assert proposed.shown().is_scheduled
    assert not proposed.shown().in_merge_queue


def test_rules_that_are_not_met_are_scheduled_once(proposed: Proposed) -> None:
    proposed.stored.mergeable_state = "not_approved"
    answer = proposed.merge()
    assert answer == MergeAnswer(state=MergeState.SCHEDULED, words="rules of the project are not met (not approved)")
    (order,) = proposed.orders
    assert order.body["auto_merge"] is True
    assert order.body["merge_when_pipeline_succeeds"] is True, "the name of GitLab before 17.11"
    assert proposed.merge().state is MergeState.SCHEDULED
    assert len(proposed.orders) == 1
    proposed.server.meet_rules(PROJECT, 1)
    assert proposed.shown().state is PullRequestState.MERGED


def test_a_gitlab_that_schedules_nothing_waits_for_the_rules(proposed: Proposed) -> None:
    proposed.project.allows_auto_merge = False
    proposed.stored.mergeable_state = "not_approved"
    answer = proposed.merge()
    assert answer.state is MergeState.WAITING
    assert answer.words.startswith("rules of the project are not met (not approved) (have GitLab merge pull request 1")


def test_a_merge_train_is_never_gone_around(proposed: Proposed) -> None:
    proposed.project.has_queue = True
    assert proposed.merge() == MergeAnswer(state=MergeState.SCHEDULED, words="the merge train takes it")
    assert [each.path.rpartition("/projects/")[2].partition("/")[2] for each in proposed.orders] == [
        "merge_trains/merge_requests/1"
    ]
    assert proposed.merge().state is MergeState.SCHEDULED
    assert len(proposed.orders) == 1


def test_a_token_that_may_not_merge_says_where_to_let_it(proposed: Proposed) -> None:
    proposed.server.can_merge = False
    with pytest.raises(ConfigurationError, match=r"the token may not merge into main: let it \(Settings, Repository"):
        proposed.merge()
    assert proposed.orders == []


@pytest.mark.parametrize(
    ("allowed", "asked", "squashes"),
    [
        (("merge", "squash"), "", False),
        (("merge", "squash"), "squash", True),
        (("squash",), "", True),
        (("rebase",), "rebase", False),
        (("merge",), "merge", False),
    ],
)
def test_the_method_is_the_settings_or_the_first_that_is_allowed(
    proposed: Proposed, allowed: Any, asked: str, *, squashes: bool
) -> None:
    proposed.project.methods = allowed
    assert proposed.merge(asked) == MERGED
    assert proposed.orders[0].body["squash"] is squashes


@pytest.mark.parametrize(
    ("allowed", "asked", "words"),
    [
        (("merge",), "squash", "the project allows merge, not squash"),
        (("rebase", "squash"), "merge", "the project allows rebase, squash, not merge"),
        (("squash",), "rebase", "the project allows squash, not rebase"),
    ],
)
def test_a_method_that_the_project_does_not_allow_is_refused(
    proposed: Proposed, allowed: Any, asked: str, words: str
) -> None:
    proposed.project.methods = allowed
    with pytest.raises(ConfigurationError, match=f"pullRequests.mergeMethod: {words}"):
        proposed.merge(asked)
    assert proposed.orders == []
