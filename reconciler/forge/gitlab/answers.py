"""Pull requests from GitLab's JSON, where they are called merge requests."""

import re

from reconciler.forge.answers import find, flag_of, list_of, needed_text, number_of, number_or_none, text_of, time_of
from reconciler.forge.pull_requests import PullRequest, PullRequestState
from reconciler.forge.schedules import PipelineSchedule

DRAFT = "Draft: "
DRAFTS = re.compile(r"(?:\s*(?:\[draft\]|\(draft\)|draft:)\s*)+", re.IGNORECASE)
"""How a title begins that makes a draft."""

OPEN_STATES = ("opened", "locked")
"""`locked` is what is being merged at this moment."""
CLOSED_STATES = ("closed", "merged")
STATES = {
    "opened": PullRequestState.OPEN,
    "locked": PullRequestState.OPEN,
    "merged": PullRequestState.MERGED,
    "closed": PullRequestState.CLOSED,
}


def pull_request_of(answer: object) -> PullRequest:
    """The merge request in an answer; TransientError when a field is missing or wrong.

    One that a person has GitLab merge by itself, in a train or when its pipeline succeeds, is in the merge queue, and
    so is what is being merged at this moment; where we did it, it is scheduled.
    """
    number = number_of(answer, "iid")
    state = STATES.get(needed_text(answer, "state"), PullRequestState.CLOSED)
    is_open = state is PullRequestState.OPEN
    is_draft = flag_of(answer, "draft")
    title = needed_text(answer, "title")
    merges_later = flag_of(answer, "merge_when_pipeline_succeeds")
    is_scheduled = merges_later and _is_told_by_author(answer)
    is_queued = text_of(answer, "state") == "locked" or (merges_later and not is_scheduled)
    return PullRequest(
        number=number,
        state=state,
        head_branch=needed_text(answer, "source_branch"),
        base_branch=needed_text(answer, "target_branch"),
        title=DRAFTS.sub("", title, count=1) if is_draft and DRAFTS.match(title) else title,
        body=text_of(answer, "description"),
        labels=tuple(label for label in list_of(find(answer, "labels")) if isinstance(label, str)),
        head_commit=text_of(answer, "sha"),
        is_draft=is_draft,
        is_from_fork=not is_ours(answer),
        in_merge_queue=is_open and is_queued,
        is_scheduled=is_open and is_scheduled,
        closed_at_s=None if is_open else time_of(answer, "merged_at") or time_of(answer, "closed_at"),
        opened_at_s=time_of(answer, "created_at"),
        merged_as=tuple(filter(None, (text_of(answer, f"{name}_commit_sha") for name in ("merge", "squash")))),
        url=needed_text(answer, "web_url"),
    )


def _is_told_by_author(answer: object) -> bool:
    """Whether who opened it is who told GitLab to merge it; a person's doing so is none of ours."""
    told_by = number_or_none(answer, "merge_user", "id")
    return told_by is not None and told_by == number_or_none(answer, "author", "id")


def is_ours(answer: object) -> bool:
    """Whether the head branch is in the project itself; a deleted fork has no number."""
    source = number_or_none(answer, "source_project_id")
    return source is not None and source == number_or_none(answer, "target_project_id")


def schedule_of(answer: object) -> PipelineSchedule:
    """The pipeline schedule in an answer; GitLab names its branch whole or in short."""
    return PipelineSchedule(
        name=text_of(answer, "description"),
        cron=needed_text(answer, "cron"),
        branch=needed_text(answer, "ref").removeprefix("refs/heads/"),
        is_active=flag_of(answer, "active"),
    )


def reviewers_of(answer: object) -> tuple[int, ...]:
    """The numbers of the users who are asked for a review."""
    numbers = (number_or_none(each, "id") for each in list_of(find(answer, "reviewers")))
    return tuple(number for number in numbers if number is not None)
