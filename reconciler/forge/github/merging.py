"""Merging on GitHub: what was looked at and nothing else, as the rules of its base allow, and never around them."""

from collections.abc import Mapping

from reconciler.errors import ConfigurationError, RivalRunError
from reconciler.forge.answers import flag_or_none, text_of
from reconciler.forge.failures import NotMergeableError
from reconciler.forge.github.answers import pull_request_of
from reconciler.forge.github.client import GitHubClient
from reconciler.forge.merging import MergeAnswer, MergeState, waiting
from reconciler.forge.pull_requests import PullRequest, PullRequestState

METHODS: Mapping[str, str] = {
    "merge": "allow_merge_commit",
    "squash": "allow_squash_merge",
    "rebase": "allow_rebase_merge",
}
"""How GitHub says that a repository allows a method, the first that we take first."""
READY = ("clean", "has_hooks")
BLOCKED = "blocked"
WAITS: Mapping[str, str] = {
    "draft": "it is a draft",
    "dirty": "it conflicts with its base",
    "behind": "its base has moved on, and takes only what is up to date",
    "unstable": "a check failed or has not finished",
}
UNKNOWN_WAITS_S = (1.0, 2.0, 4.0)
"""GitHub finds out whether a pull request can be merged only after somebody asked."""
ENABLE = (
    "mutation($id: ID!, $head: GitObjectID!, $method: PullRequestMergeMethod!) { enablePullRequestAutoMerge(input: "
    "{pullRequestId: $id, expectedHeadOid: $head, mergeMethod: $method}) { clientMutationId } }"
)
DISABLE = "mutation($id: ID!) { disablePullRequestAutoMerge(input: {pullRequestId: $id}) { clientMutationId } }"


def merge_one(client: GitHubClient, path: str, number: int, *, head_commit: str, method: str) -> MergeAnswer:
    """Merge a pull request of the repository at `path`; see `Forge.merge`.

    An administrator's token could merge what rules forbid: so only what GitHub calls clean is merged by us.
    """
    answer = _read(client, f"{path}/pulls/{number}", number)
    found = _shown(answer, path)
    if not found.is_open:
        is_merged = found.state is PullRequestState.MERGED
        return MergeAnswer(state=MergeState.MERGED) if is_merged else waiting("a person closed it")
    if found.head_commit != head_commit:
        raise RivalRunError(f"merge pull request {number}: somebody pushed to it meanwhile; left alone")
    if _asks_for_changes(client, f"{path}/pulls/{number}/reviews", number):
        return waiting("a review asks for changes")
    state = text_of(answer, "mergeable_state")
    if state not in (*READY, BLOCKED):
        return waiting(WAITS.get(state, "GitHub has not found out yet whether it can be merged"))
    chosen = _method(client, path, method)
    if state == BLOCKED:
        return _schedule(client, path, answer, head_commit, chosen, "rules of its base are not met")
    form = {"sha": head_commit, "merge_method": chosen}
    try:
        client.put(f"{path}/pulls/{number}/merge", form, action=f"merge pull request {number}")
    except NotMergeableError as refusal:
        if _shown(_read(client, f"{path}/pulls/{number}", number), path).state is PullRequestState.MERGED:
            return MergeAnswer(state=MergeState.MERGED)  # the answer to the first attempt was lost
        return _schedule(client, path, answer, head_commit, chosen, str(refusal))
    return MergeAnswer(state=MergeState.MERGED)


def unschedule_one(client: GitHubClient, path: str, number: int) -> None:
    """Switch auto-merge off where whoever opened the pull request switched it on."""
    answer = client.get(f"{path}/pulls/{number}", action=f"look at pull request {number}")
    found = _shown(answer, path)
    if found.is_open and found.is_scheduled:
        variables = {"id": text_of(answer, "node_id")}
        client.ask_graphql(DISABLE, variables, action=f"keep GitHub from merging pull request {number}")


def _shown(answer: object, path: str) -> PullRequest:
    return pull_request_of(answer, path.removeprefix("/repos/"))


def _read(client: GitHubClient, path: str, number: int) -> object:
    """The pull request as soon as GitHub knows whether it can be merged."""
    for wait_s in (*UNKNOWN_WAITS_S, None):
        answer = client.get(path, action=f"look at pull request {number}")
        if wait_s is None or text_of(answer, "state") != "open" or text_of(answer, "mergeable_state") != "unknown":
            break
        client.wait(wait_s)
    return answer


def _asks_for_changes(client: GitHubClient, path: str, number: int) -> bool:
    """Whether the last word of one who reviewed it is that it must change; a mere comment takes no word back."""
    last: dict[str, str] = {}
    for page in client.pages(path, action=f"ask for reviews of pull request {number}", query={}):
        for review in page:
            state = text_of(review, "state")
            if state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                last[text_of(review, "user", "login")] = state
    return "CHANGES_REQUESTED" in last.values()


def _method(client: GitHubClient, path: str, method: str) -> str:
    """The method that is asked for, else the first that the repository allows; it need not tell all tokens."""
    repository = client.get(path, action="ask how the repository merges")
    allowed = [name for name, field in METHODS.items() if flag_or_none(repository, field) is not False]
    if method and method not in allowed:
        raise ConfigurationError(f"pullRequests.mergeMethod: the repository allows {', '.join(allowed)}, not {method}")
    return method or next(iter(allowed), "merge")


def _schedule(
    client: GitHubClient, path: str, answer: object, head_commit: str, method: str, words: str
) -> MergeAnswer:
    """Have GitHub merge it once rules of the base are met, or what its queue takes; where it does not, it waits."""
    if _shown(answer, path).is_scheduled:
        return MergeAnswer(state=MergeState.SCHEDULED, words=words)
    variables = {"id": text_of(answer, "node_id"), "head": head_commit, "method": method.upper()}
    try:
        client.ask_graphql(ENABLE, variables, action=f"have GitHub merge pull request {_shown(answer, path).number}")
    except ConfigurationError as refusal:
        return waiting(f"{words} ({refusal})")
    return MergeAnswer(state=MergeState.SCHEDULED, words=words)
