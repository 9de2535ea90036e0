"""Merging on GitLab: what was looked at and nothing else, as the rules of its project allow, and never around them."""

from collections.abc import Mapping

from reconciler.errors import ConfigurationError, RivalRunError, TransientError
from reconciler.forge.answers import find, flag_of, flag_or_none, list_of, needed_text, text_of
from reconciler.forge.failures import NotMergeableError
from reconciler.forge.gitlab.answers import pull_request_of
from reconciler.forge.gitlab.client import GitLabClient
from reconciler.forge.merging import MergeAnswer, MergeState, waiting
from reconciler.forge.pull_requests import PullRequestState

READY = "mergeable"
UNKNOWN = frozenset({"unchecked", "checking", "preparing", "approvals_syncing"})
UNKNOWN_WAITS_S = (1.0, 2.0, 4.0)
"""GitLab finds out whether a merge request can be merged only after somebody asked."""
WAITS: Mapping[str, str] = {
    "draft_status": "it is a draft",
    "conflict": "it conflicts with its base",
    "need_rebase": "its base has moved on, and takes only what is up to date",
    "requested_changes": "a review asks for changes",
}
"""What no time alone will change; whatever else GitLab says are rules of the project that are not met yet."""
PASSED = frozenset({"", "success", "skipped"})
"""States of a pipeline that let pass; empty: there is none."""
FAILED = frozenset({"failed", "canceled", "canceling"})
KINDS: Mapping[str, str] = {"merge": "merge", "rebase_merge": "merge", "ff": "rebase"}
"""What a project's merge method is in our words."""


def merge_one(client: GitLabClient, path: str, number: int, *, head_commit: str, method: str) -> MergeAnswer:
    """Merge a merge request of the project at `path`; see `Forge.merge`."""
    answer = _read(client, path, number)
    found = pull_request_of(answer)
    if not found.is_open:
        is_merged = found.state is PullRequestState.MERGED
        return MergeAnswer(state=MergeState.MERGED) if is_merged else waiting("a person closed it")
    if found.head_commit != head_commit:
        raise RivalRunError(f"merge pull request {number}: somebody pushed to it meanwhile; left alone")
    status = needed_text(answer, "detailed_merge_status")
    if found.is_scheduled or text_of(answer, "state") == "locked":
        return MergeAnswer(state=MergeState.SCHEDULED, words=_rules_of(status))
    if flag_or_none(answer, "user", "can_merge") is False:
        base = found.base_branch
        raise ConfigurationError(
            f"merge pull request {number}: the token may not merge into {base}: let it (Settings, Repository, "
            "Protected branches), or give it a role that may"
        )
    words = _obstacle(client, path, number, answer, status)
    if words:
        return waiting(words)
    project = client.get(path, action="ask how the project merges")
    form = {"sha": head_commit, "squash": _squashes(project, method)}
    is_due = status == READY and _pipeline(answer, head_commit) in PASSED
    if flag_of(project, "merge_trains_enabled"):
        return _board(client, path, number, form)
    return _merge(client, path, number, form) if is_due else _schedule(client, path, number, form, status)


def unschedule_one(client: GitLabClient, path: str, number: int) -> None:
    """Take back that GitLab merges it by itself, where whoever opened it told it to."""
    place = f"{path}/merge_requests/{number}"
    found = pull_request_of(client.get(place, action=f"look at pull request {number}"))
    if found.is_open and found.is_scheduled:
        action = f"keep GitLab from merging pull request {number}"
        client.post(f"{place}/cancel_merge_when_pipeline_succeeds", {}, action=action)


def _read(client: GitLabClient, path: str, number: int) -> object:
    """The merge request as soon as GitLab knows whether it can be merged."""
    for wait_s in (*UNKNOWN_WAITS_S, None):
        answer = client.get(f"{path}/merge_requests/{number}", action=f"look at pull request {number}")
        is_known = text_of(answer, "detailed_merge_status") not in UNKNOWN
        if wait_s is None or text_of(answer, "state") != "opened" or is_known:
            break
        client.wait(wait_s)
    return answer


def _obstacle(client: GitLabClient, path: str, number: int, answer: object, status: str) -> str:
    """Why it is neither merged nor scheduled now; empty when it may be.

    GitLab itself merges what a check failed for, where the project does not ask for checks, and in its Free tier what
    a review asks to change.
    """
    if status in UNKNOWN:
        return "GitLab has not found out yet whether it can be merged"
    if flag_of(answer, "draft"):
        return WAITS["draft_status"]
    if status in WAITS:
        return WAITS[status]
    if _pipeline(answer, text_of(answer, "sha")) in FAILED:
        return "its pipeline failed"
    reviews = client.get(f"{path}/merge_requests/{number}/reviewers", action=f"ask for reviews of {number}")
    if any(text_of(review, "state") == "requested_changes" for review in list_of(reviews)):
        return WAITS["requested_changes"]
    return ""


def _pipeline(answer: object, head_commit: str) -> str:
    """The state of the newest pipeline; that of an older commit says that none ran yet, and so `created`."""
    pipeline = find(answer, "head_pipeline")
    if pipeline is None:
        return ""
    return text_of(pipeline, "status") if text_of(pipeline, "sha") == head_commit else "created"


def _squashes(project: object, method: str) -> bool:
    """Whether its commits become one: as asked for, else as the project says; ConfigurationError where it must not."""
    squashing = text_of(project, "squash_option")
    kind = KINDS.get(text_of(project, "merge_method"), "merge")
    allowed = [name for name, is_one in ((kind, squashing != "always"), ("squash", squashing != "never")) if is_one]
    if method and method not in allowed:
        raise ConfigurationError(f"pullRequests.mergeMethod: the project allows {', '.join(allowed)}, not {method}")
    return (method or allowed[0]) == "squash"


def _merge(client: GitLabClient, path: str, number: int, form: Mapping[str, object]) -> MergeAnswer:
    place = f"{path}/merge_requests/{number}"
    try:
        client.put(f"{place}/merge", form, action=f"merge pull request {number}")
    except (NotMergeableError, TransientError) as refusal:
        found = pull_request_of(client.get(place, action=f"look at pull request {number}"))
        if found.state is PullRequestState.MERGED:
            return MergeAnswer(state=MergeState.MERGED)  # the answer to the first attempt was lost
        if not isinstance(refusal, NotMergeableError):
            raise
        return waiting(str(refusal))
    return MergeAnswer(state=MergeState.MERGED)


def _schedule(client: GitLabClient, path: str, number: int, form: Mapping[str, object], status: str) -> MergeAnswer:
    """Have GitLab merge it once rules are met; where it does not, it waits.

    A GitLab that knew neither name of the order would merge at once, so it gets the old one and the new.
    """
    told = {**form, "auto_merge": True, "merge_when_pipeline_succeeds": True}
    words = _rules_of(status)
    try:
        action = f"have GitLab merge pull request {number}"
        found = pull_request_of(client.put(f"{path}/merge_requests/{number}/merge", told, action=action))
    except NotMergeableError as refusal:
        return waiting(f"{words} ({refusal})")
    is_merged = found.state is PullRequestState.MERGED
    return MergeAnswer(state=MergeState.MERGED) if is_merged else MergeAnswer(state=MergeState.SCHEDULED, words=words)


def _rules_of(status: str) -> str:
    """What GitLab waits for."""
    if status == READY:
        return "its pipeline has not finished"
    return f"rules of the project are not met ({status.replace('_', ' ')})"


def _board(client: GitLabClient, path: str, number: int, form: Mapping[str, object]) -> MergeAnswer:
    """Put it on the merge train, which no order of ours goes around."""
    action = f"put pull request {number} on the merge train"
    try:
        client.post(f"{path}/merge_trains/merge_requests/{number}", {**form, "auto_merge": True}, action=action)
    except NotMergeableError as refusal:
        return waiting(str(refusal))
    return MergeAnswer(state=MergeState.SCHEDULED, words="the merge train takes it")
