"""Merging on GitHub: what it calls clean is merged, what waits for rules is scheduled, and nothing goes around them."""

import re
from typing import Any

import pytest

from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import MergeAnswer, MergeState, PullRequestState
from tests.servers.git_workshop import run_git
from tests.unit.forge.conftest import listed, order, proposal_on

MERGED = MergeAnswer(state=MergeState.MERGED)


@pytest.fixture
def proposed(github: Any) -> Any:
    return proposal_on(github)


def shown(forge: Any) -> Any:
    (found,) = listed(forge)
    return found


def puts(github: Any) -> list[Any]:
    return [each for each in github.server.requests if each.method == "PUT"]


@pytest.mark.parametrize("state", ["clean", "has_hooks"])
def test_what_is_clean_is_merged_at_the_commit_that_was_looked_at(proposed: Any, state: str) -> None:
    github, forge, stored, head = proposed
    stored.mergeable_state = state
    assert order(forge, head) == MERGED
    assert shown(forge).state is PullRequestState.MERGED
    assert [each.body for each in puts(github)] == [{"sha": head, "merge_method": "merge"}]
    assert run_git(github.repository, "rev-list", "--parents", "-1", "main").split()[2:] == [head]
    assert order(forge, head) == MERGED, "asking again changes nothing"
    assert len(puts(github)) == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("draft", "it is a draft"),
        ("dirty", "conflicts with its base"),
        ("behind", "accepts only branches that are up to date"),
        ("unstable", "a check failed or has not finished"),
        ("something new", "has not found out yet"),
    ],
)
def test_any_other_state_waits_with_a_reason(proposed: Any, state: str, words: str) -> None:
    github, forge, stored, head = proposed
    stored.mergeable_state = state
    answer = order(forge, head)
    assert answer.state is MergeState.WAITING
    assert words in answer.words
    assert puts(github) == []
    assert shown(forge).is_open


def test_what_github_does_not_find_out_waits(proposed: Any) -> None:
    _, forge, stored, head = proposed
    stored.unknown_for = 9
    assert order(forge, head).state is MergeState.WAITING


@pytest.mark.parametrize("role", ["push", "admin"])
def test_rules_of_the_base_are_waited_for_and_never_gone_around(proposed: Any, role: str) -> None:
    github, forge, stored, head = proposed
    github.server.repositories["acme/fleet"].role = role
    stored.mergeable_state = "blocked"
    answer = order(forge, head)
    assert answer.state is MergeState.SCHEDULED
    assert (puts(github), shown(forge).is_scheduled, shown(forge).is_open) == ([], True, True)
    writes = len(github.server.requests)
    assert order(forge, head).state is MergeState.SCHEDULED
    told = [
        each for each in github.server.requests[writes:] if each.path == "/graphql" and "mutation" in each.body["query"]
    ]
    assert told == [], "it is told once"
    github.server.meet_rules("acme/fleet", 1)
    assert shown(forge).state is PullRequestState.MERGED


def test_without_auto_merge_it_waits_for_the_rules(proposed: Any) -> None:
    github, forge, stored, head = proposed
    github.server.repositories["acme/fleet"].allows_auto_merge = False
    stored.mergeable_state = "blocked"
    answer = order(forge, head)
    assert answer.state is MergeState.WAITING
    assert re.search("rules of its base are not met .*Auto merge is not allowed", answer.words)
    assert not shown(forge).is_scheduled


def test_a_merge_queue_takes_what_is_clean(proposed: Any) -> None:
    github, forge, _, head = proposed
    github.server.repositories["acme/fleet"].has_queue = True
    assert order(forge, head).state is MergeState.SCHEDULED
    assert shown(forge).is_scheduled


@pytest.mark.parametrize(
    ("reviews", "is_merged"),
    [
        ([("ann", "COMMENTED")], True),
        ([("ann", "CHANGES_REQUESTED")], False),
        ([("ann", "CHANGES_REQUESTED"), ("ann", "COMMENTED"), ("bob", "APPROVED")], False),
        ([("ann", "CHANGES_REQUESTED"), ("ann", "APPROVED")], True),
        ([("ann", "CHANGES_REQUESTED"), ("ann", "DISMISSED")], True),
    ],
)
def test_a_review_that_asks_for_changes_is_obeyed(proposed: Any, reviews: Any, *, is_merged: bool) -> None:
    _, forge, stored, head = proposed
    stored.reviews = reviews
    answer = order(forge, head)
    assert answer == (MERGED if is_merged else MergeAnswer(state=MergeState.WAITING, words=answer.words))


@pytest.mark.parametrize(
    ("allowed", "asked", "used"),
    [
        (("merge", "squash", "rebase"), "", "merge"),
        (("squash", "rebase"), "", "squash"),
        (("rebase",), "", "rebase"),
        (("merge", "squash"), "squash", "squash"),
    ],
)
def test_the_method_is_the_settings_or_the_first_that_is_allowed(
    proposed: Any, allowed: tuple[str, ...], asked: str, used: str
) -> None:
    github, forge, _, head = proposed
    github.server.repositories["acme/fleet"].methods = allowed
    assert order(forge, head, method=asked) == MERGED
    assert puts(github)[0].body["merge_method"] == used


def test_a_method_that_is_not_allowed_names_the_setting(proposed: Any) -> None:
    github, forge, _, head = proposed
    github.server.repositories["acme/fleet"].methods = ("squash",)
    with pytest.raises(ConfigurationError, match=r"pullRequests.mergeMethod: the repository allows squash, not rebase"):
        order(forge, head, method="rebase")
