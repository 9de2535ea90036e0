"""What every forge promises, the same for each of them."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.proposals import ProposalState
from reconciler.forge.marker import Marker, MarkerState, proposal_of, read_marker, with_outcome, withdrawn, write_marker
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    CommitStatus,
    MergeState,
    PullRequest,
    PullRequestState,
    Verdict,
)
from tests.servers.git_workshop import run_git

HEAD = "reconciler/prod-llm-0a1b2c3d"
DECISION = "a" * 64
BODY = "| a | b |\r\n→ **5**\n\n" + write_marker(Marker(group="prod/llm", decision=DECISION))


def propose(stage: Any, head: str = HEAD, **changes: Any) -> PullRequest:
    stage.push(head)
    form: dict[str, Any] = {"base": "main", "title": "Scale llama (+$3.10/h)", "body": BODY, **changes}
    created = stage.forge.create(head=head, **form)
    assert isinstance(created, PullRequest)
    return created


def listed(stage: Any, closed_since_s: float = 0.0, base: str = "main") -> tuple[PullRequest, ...]:
    found = stage.forge.list_pull_requests(head_prefix="reconciler/", base=base, closed_since_s=closed_since_s)
    return tuple(found)


def head_commit_of(stage: Any) -> str:
    return run_git(stage.repository, "rev-parse", f"refs/heads/{HEAD}")


def test_access_to_an_existing_repository_is_granted(stage: Any) -> None:
    stage.forge.check_access()


def test_a_created_pull_request_is_listed_as_it_was_written(stage: Any) -> None:
    created = propose(stage, labels=("reconciler", "two words"), draft=True)
    assert (created.number, created.state, created.head_branch, created.base_branch) == (
        1,
        PullRequestState.OPEN,
        HEAD,
        "main",
    )
    assert (created.title, created.body) == ("Scale llama (+$3.10/h)", stage.kept(BODY))
    assert created.is_draft
    assert created.labels == ("reconciler", "two words")
    assert created.closed_at_s is None
    assert created.url
    assert listed(stage) == (created,)


def test_the_time_of_opening_never_changes(stage: Any) -> None:
    opened_at_s = propose(stage).opened_at_s
    assert opened_at_s is not None
    assert stage.forge.update(1, title="Another title").opened_at_s == opened_at_s
    stage.forge.update(1, close=True)
    assert [each.opened_at_s for each in listed(stage)] == [opened_at_s]


def test_creating_again_finds_the_open_one_and_adds_only_missing_labels(stage: Any) -> None:
    first = propose(stage, labels=("a",))
    second = propose(stage, labels=("a", "b"), title="Another title")
    assert second.number == first.number
    assert second.title == first.title
    assert second.labels == ("a", "b")
    assert len(listed(stage)) == 1


def test_only_branches_under_the_prefix_towards_the_base_are_ours(stage: Any) -> None:
    stage.push("release")
    ours = propose(stage)
    propose(stage, "person/feature")
    propose(stage, "reconciler/for-release", base="release")
    assert [each.number for each in listed(stage)] == [ours.number]
    assert [each.head_branch for each in listed(stage, base="release")] == ["reconciler/for-release"]


def test_an_update_without_a_difference_writes_nothing(stage: Any) -> None:
    created = propose(stage, labels=("a",))
    before = stage.trace()
    updated = stage.forge.update(created.number, title=created.title, body=created.body, labels=("a",))
    assert updated == created
    assert stage.trace() == before


def test_labels_that_fit_no_more_are_taken_away_and_no_other(stage: Any) -> None:
    created = propose(stage, labels=("reconciler", "saving", "two words/é", "a person's"))
    updated = stage.forge.update(created.number, labels=("scale-up",), unlabel=("two words/é", "saving", "move"))
    assert updated.labels == ("reconciler", "a person's", "scale-up")
    assert listed(stage) == (updated,)


def test_an_update_changes_what_differs_and_nothing_else(stage: Any) -> None:
    created = propose(stage)
    updated = stage.forge.update(created.number, body="Other words")
    assert (updated.title, updated.body, updated.state) == (created.title, "Other words", PullRequestState.OPEN)
    assert listed(stage) == (updated,)


def test_a_title_that_a_forge_shortens_or_straightens_is_written_only_once(stage: Any) -> None:
    title = "Scale\tllama " * 60
    created = propose(stage, title=title)
    before = stage.trace()
    stage.forge.update(created.number, title=title)
    assert stage.trace() == before


def test_what_a_person_closed_is_left_alone_and_counts_as_closed_by_a_person(stage: Any) -> None:
    created = propose(stage)
    stage.close(created.number)
    before = stage.trace()
    left = stage.forge.update(created.number, body=withdrawn(BODY), close=True)
    assert stage.trace() == before
    assert (left.state, left.body) == (PullRequestState.CLOSED, stage.kept(BODY))
    (closed,) = listed(stage)
    assert closed.closed_at_s is not None
    assert proposal_of(closed, None, NEUTRAL_IDENTITY).state is ProposalState.CLOSED


def test_what_we_withdrew_does_not_count_as_closed_by_a_person(stage: Any) -> None:
    created = propose(stage)
    stage.forge.update(created.number, body=withdrawn(created.body), close=True)
    (closed,) = listed(stage)
    assert closed.state is PullRequestState.CLOSED
    assert proposal_of(closed, None, NEUTRAL_IDENTITY).state is ProposalState.WITHDRAWN


def test_a_merged_pull_request_is_neither_open_nor_closed(stage: Any) -> None:
    created = propose(stage)
    stage.merge(created.number)
    (merged,) = listed(stage)
    assert merged.state is PullRequestState.MERGED
    assert proposal_of(merged, None, NEUTRAL_IDENTITY).state is ProposalState.MERGED


def test_closed_ones_are_listed_back_to_the_given_time_and_open_ones_always(stage: Any) -> None:
    closed = propose(stage, "reconciler/closed")
    still_open = propose(stage, "reconciler/open")
    stage.close(closed.number)
    (seen, _) = listed(stage)
    closed_at_s = seen.closed_at_s
    assert closed_at_s is not None
    assert [each.number for each in listed(stage, closed_at_s)] == [closed.number, still_open.number]
    assert [each.number for each in listed(stage, closed_at_s + 1)] == [still_open.number]


def test_after_a_close_the_same_branch_can_be_proposed_again(stage: Any) -> None:
    first = propose(stage)
    stage.close(first.number)
    second = propose(stage)
    assert second.number == first.number + 1
    assert [each.state for each in listed(stage)] == [PullRequestState.CLOSED, PullRequestState.OPEN]


def test_a_body_of_the_greatest_length_is_kept(stage: Any) -> None:
    marker = write_marker(Marker(group="g", decision=DECISION))
    body = "è" * (stage.forge.body_limit - len(marker)) + marker
    assert propose(stage, body=body).body == body


def test_a_merged_one_gets_its_outcome_and_keeps_its_time_of_merging(stage: Any) -> None:
    created = propose(stage)
    stage.forge.amend_merged(created.number, body="Too early")
    assert listed(stage) == (created,)
    stage.merge(created.number)
    (merged,) = listed(stage)
    told = with_outcome(merged.body, "It serves.")
    stage.forge.amend_merged(created.number, body=told)
    assert listed(stage) == (replace(merged, body=told),)
    before = stage.trace()
    stage.forge.amend_merged(created.number, body=told)
    assert stage.trace() == before
    marker = read_marker(told)
    assert marker is not None
    assert (marker.decision, marker.state) == (DECISION, MarkerState.REPORTED)


@pytest.mark.parametrize("text", ["---", "---\n---", "\n\nstate: merged\n", "", " \n", "\u2028---\u2028"])
def test_a_body_that_looks_like_something_else_stays_a_body(stage: Any, text: str) -> None:
    created = propose(stage, body=text, title="state: merged", labels=("---", "a: b", "[c]"))
    assert created.body == stage.kept(text)
    assert created.state is PullRequestState.OPEN
    assert created.labels == ("---", "a: b", "[c]")
    assert listed(stage) == (created,)


def bodies(stage: Any, number: int) -> list[str]:
    return [comment.body for comment in stage.forge.own_comments(number)]


def test_a_comment_of_ours_is_found_edited_and_deleted(stage: Any) -> None:
    number, reviews = propose(stage).number, stage.forge
    assert bodies(stage, number) == []
    reviews.write_comment(number, "First: → **5**")
    reviews.write_comment(number, "Second")
    first, second = reviews.own_comments(number)
    reviews.edit_comment(number, first.key, "Other words")
    reviews.delete_comment(number, second.key)
    assert bodies(stage, number) == ["Other words"]


def test_a_comment_that_is_gone_is_left_alone(stage: Any) -> None:
    number, reviews = propose(stage).number, stage.forge
    reviews.write_comment(number, "Words")
    (comment,) = reviews.own_comments(number)
    reviews.delete_comment(number, comment.key)
    reviews.delete_comment(number, comment.key)
    reviews.edit_comment(number, comment.key, "Other words")
    assert bodies(stage, number) == []


def test_all_open_ones_are_listed_with_where_git_has_their_heads(stage: Any) -> None:
    stage.push("release")
    ours, persons, closed = propose(stage), propose(stage, "person/feature"), propose(stage, "person/closed")
    propose(stage, "person/for-release", base="release")
    stage.close(closed.number)
    assert [each.number for each in stage.forge.list_open(base="main")] == [ours.number, persons.number]
    kept = {f"refs/{name}/{persons.number}/head" for name in ("pull", "merge-requests")}
    assert stage.forge.head_ref(persons) in {*kept, "refs/heads/person/feature"}


def test_a_status_that_is_shown_already_is_not_set_again(stage: Any) -> None:
    commit = stage.push("person/feature")
    status = CommitStatus(verdict=Verdict.FAILURE, words="1 misses a target")
    stage.forge.set_status(commit, status)
    before = stage.trace()
    stage.forge.set_status(commit, status)
    assert stage.trace() == before


def test_a_status_is_set_on_a_commit_alone(stage: Any) -> None:
    with pytest.raises(ValueError, match="expected a commit"):
        stage.forge.set_status("../../x", CommitStatus(verdict=Verdict.SUCCESS, words=""))


def test_an_order_to_merge_is_obeyed_or_left_to_git(stage: Any) -> None:
    created = propose(stage)
    answer = stage.forge.merge(replace(created, head_commit=head_commit_of(stage)))
    assert answer.state in (MergeState.MERGED, MergeState.LEFT_TO_GIT)
    if answer.state is MergeState.LEFT_TO_GIT:
        stage.forge.note_merge(created.number)
    assert listed(stage)[0].state is PullRequestState.MERGED
    before = stage.trace()
    assert stage.forge.merge(created).state is MergeState.MERGED
    assert stage.trace() == before


@pytest.mark.parametrize("why", ["draft", "closed"])
def test_what_is_a_draft_or_closed_is_not_merged(stage: Any, why: str) -> None:
    created = propose(stage, draft=why == "draft")
    if why == "closed":
        stage.close(created.number)
    before = stage.trace()
    assert stage.forge.merge(replace(created, head_commit=head_commit_of(stage))).state is MergeState.WAITING
    assert stage.trace() == before


def test_nothing_is_unscheduled_that_was_never_scheduled(stage: Any) -> None:
    created = propose(stage)
    before = stage.trace()
    stage.forge.unschedule(created.number)
    assert stage.trace() == before
    assert listed(stage) == (created,)
