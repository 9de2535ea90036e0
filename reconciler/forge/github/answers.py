"""Pull requests from GitHub's JSON."""

from reconciler.forge.answers import find, flag_of, list_of, needed_text, number_of, text_of, time_of
from reconciler.forge.pull_requests import PullRequest, PullRequestState


def pull_request_of(answer: object, full_name: str) -> PullRequest:
    """The pull request of `full_name` in an answer (full or simple form).

    TransientError when a field is missing or wrong.
    """
    number = number_of(answer, "number")
    return PullRequest(
        number=number,
        state=_state(answer),
        head_branch=needed_text(answer, "head", "ref"),
        base_branch=needed_text(answer, "base", "ref"),
        title=needed_text(answer, "title"),
        body=text_of(answer, "body"),
        labels=_labels(answer),
        head_commit=needed_text(answer, "head", "sha"),
        is_draft=flag_of(answer, "draft"),
        is_from_fork=not is_from(answer, full_name),
        is_scheduled=_is_scheduled(answer),
        closed_at_s=time_of(answer, "closed_at"),
        opened_at_s=time_of(answer, "created_at"),
        merged_as=_merged_as(answer),
        url=needed_text(answer, "html_url"),
    )


def is_from(answer: object, full_name: str) -> bool:
    """Whether a pull request's head branch is in the repository `full_name`; a deleted fork has none at all."""
    return text_of(answer, "head", "repo", "full_name").lower() == full_name.lower()


def _state(answer: object) -> PullRequestState:
    if text_of(answer, "merged_at"):
        return PullRequestState.MERGED
    return PullRequestState.OPEN if needed_text(answer, "state") == "open" else PullRequestState.CLOSED


def _merged_as(answer: object) -> tuple[str, ...]:
    """The merge, the squashed commit, or the last of those that were rebased; before the merge it is only tried."""
    commit = text_of(answer, "merge_commit_sha")
    return (commit,) if commit and text_of(answer, "merged_at") else ()


def _is_scheduled(answer: object) -> bool:
    """Whether auto-merge was switched on by who opened it; a person's doing so is none of ours."""
    told_by = text_of(answer, "auto_merge", "enabled_by", "login")
    return bool(told_by) and told_by == text_of(answer, "user", "login")


def _labels(answer: object) -> tuple[str, ...]:
    names = (text_of(label, "name") for label in list_of(find(answer, "labels")))
    return tuple(name for name in names if name)
