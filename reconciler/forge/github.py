"""Pull requests of GitHub and GitHub Enterprise Server."""

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.hosted import (
    WRITE_PAUSE_S,
    ForbiddenError,
    ForgeClient,
    Judge,
    NotFoundError,
    NotMergeableError,
    create_once,
    find,
    flag_of,
    flag_or_none,
    list_of,
    needed_text,
    number_of,
    redirect_advice,
    text_of,
    time_of,
)
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    Comment,
    CommitStatus,
    Cures,
    MergeAnswer,
    MergeState,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    Rights,
    Verdict,
    check_commit,
    ours_among,
    waiting,
)
from reconciler.http.messages import Clock, Credentials, Response, bearer, check_sendable
from reconciler.http.redaction import Redactor

# --- was reconciler/forge/github/answers.py:
# Pull requests from GitHub's JSON.


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


# --- was reconciler/forge/github/failures.py:
# What a refusal of GitHub means. Its English text says nothing to us, with one exception that is documented: a 422
# has several meanings that only its `errors` tell apart.


class UnprocessableError(TransientError):
    """Raised for a 422; `errors` are GitHub's own reasons, still to be told apart."""

    def __init__(self, message: str, errors: tuple[Mapping[str, object], ...]) -> None:
        super().__init__(message)
        self.errors = errors

    def concerns(self, field: str) -> bool:
        """Whether GitHub calls the value of `field` invalid."""
        return any(error.get("field") == field and error.get("code") == "invalid" for error in self.errors)

    def says(self, phrase: str) -> bool:
        """Whether one of the reasons holds `phrase`."""
        return any(phrase in str(error.get("message", "")) for error in self.errors)


class GitHubJudge(Judge):
    """Judges GitHub's answers."""

    forge = "GitHub"
    limit_headers = "X-RateLimit"

    def messages(self, content: object) -> str:
        """See `Judge`."""
        return messages_of(content)

    def is_limit(self, response: Response, content: object) -> bool:
        """See `Judge`; a 403 may be a limit too."""
        documentation = content.get("documentation_url") if isinstance(content, dict) else None
        is_told = "Retry-After" in response.headers or self.is_spent(response) or "rate-limit" in str(documentation)
        return response.status == 429 or (response.status == 403 and is_told)

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `Judge`."""
        if status == 422:
            return UnprocessableError(shown, _errors_of(content))
        return super().refusal(status, content, shown)

    def advice(self, status: int) -> str:
        """See `Judge`."""
        return redirect_advice(status) or {
            401: f"check that {self.token_name} holds a token that is valid, not expired, and for this host",
            403: f"{self.token_name} needs to read and write contents and pull requests of this repository; "
            "for a workflow's token, the repository must allow Actions to create pull requests",
            404: f"check the repository's name, and that {self.token_name} may see it",
            410: "the repository has this switched off",
            451: "the repository is blocked",
        }.get(status, "")


def messages_of(content: object) -> str:
    """GitHub's own words in an answer that is no success, as they came."""
    message = content.get("message") if isinstance(content, dict) else None
    reasons = [message, *(error.get("message") or error.get("code") for error in _errors_of(content))]
    return "; ".join(str(reason) for reason in reasons if reason)


def _errors_of(content: object) -> tuple[Mapping[str, object], ...]:
    listed = content.get("errors") if isinstance(content, dict) else None
    return tuple(error for error in listed if isinstance(error, dict)) if isinstance(listed, list) else ()


# --- was reconciler/forge/github/client.py:
# Requests to GitHub's REST and GraphQL API.

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHubClient(ForgeClient):
    """One GitHub API through one token; see `ForgeClient`, and `token_name` says where the token was read from."""

    def __init__(
        self,
        root: str,
        token: str,
        *,
        token_name: str,
        write_pause_s: float = WRITE_PAUSE_S,
        run_ends_s: float = math.inf,
        clock: Clock | None = None,
    ) -> None:
        check_sendable(token, token_name)
        clock = clock or Clock()
        redactor = Redactor((token, f"x-access-token:{token}"))
        super().__init__(
            root,
            Credentials(headers={"Authorization": bearer(token)}, redactor=redactor),
            GitHubJudge(token_name, clock.now_s),
            headers=HEADERS,
            write_pause_s=write_pause_s,
            run_ends_s=run_ends_s,
            clock=clock,
        )

    def ask_graphql(self, query: str, variables: Mapping[str, object], *, action: str) -> object:
        """The `data` of a GraphQL answer; ConfigurationError when this API does not know what is asked, or refuses."""
        url = f"{self.root.removesuffix('/v3')}/graphql"
        answer = self.ask("POST", url, action=action, body={"query": query, "variables": dict(variables)})
        if isinstance(answer, dict) and not answer.get("errors"):
            return answer.get("data")
        shown = f"{action}: {self.credentials.redactor.show(messages_of(answer) or 'no data')}"
        raise TransientError(shown) if _is_limited(answer) else ConfigurationError(shown)


def _is_limited(answer: object) -> bool:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") == "RATE_LIMITED" for error in errors
    )


# --- was reconciler/forge/github/merging.py:
# Merging on GitHub: what was looked at and nothing else, as the rules of its base allow, and never around them.

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


# --- was reconciler/forge/github/reviews.py:
# Comments and commit statuses on GitHub, of which only those by our own credential are ever read.

WORDS_LIMIT = 140
"""Characters of a status."""
STATES = {Verdict.SUCCESS: "success", Verdict.FAILURE: "failure", Verdict.NEUTRAL: "success"}
WHO = "query { viewer { databaseId } }"
"""`GET /user` has no answer for an App or a workflow; this has one for every token."""


class GitHubReviews:
    """What reviews leave on one repository, whose REST path is `path`."""

    def __init__(self, client: GitHubClient, path: str) -> None:
        self._client = client
        self._path = path
        self._author = 0

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Reviews`."""
        found = {number_of(each, "id"): each for each in self._comments(number) if self._is_ours(each)}
        return tuple(Comment(key=str(key), body=text_of(found[key], "body")) for key in sorted(found))

    def write_comment(self, number: int, body: str) -> None:
        """See `Reviews`."""
        path = f"{self._path}/issues/{number}/comments"
        self._client.post(path, {"body": body}, action=f"comment on pull request {number}")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Reviews`; GitHub numbers the comments of a whole repository."""
        del number
        with contextlib.suppress(NotFoundError):
            self._client.patch(f"{self._path}/issues/comments/{int(key)}", {"body": body}, action="edit a comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Reviews`."""
        del number
        with contextlib.suppress(NotFoundError):
            self._client.delete(f"{self._path}/issues/comments/{int(key)}", action="delete a comment")

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Reviews`; a commit status of GitHub knows no neutral."""
        check_commit(commit)
        words = status.words[:WORDS_LIMIT]
        wanted = {"state": STATES[status.verdict], "description": words, "context": status.context}
        for shown in self._statuses(commit):
            if text_of(shown, "context") == status.context:
                if all(text_of(shown, name) == text for name, text in wanted.items()) and self._is_by_us(shown):
                    return
                break
        self._client.post(f"{self._path}/statuses/{commit}", wanted, action=f"set the status of {commit[:7]}")

    def _comments(self, number: int) -> Iterator[object]:
        path, action = f"{self._path}/issues/{number}/comments", f"read the comments on pull request {number}"
        for page in self._client.pages(path, action=action, query={}):
            yield from page

    def _statuses(self, commit: str) -> Iterator[object]:
        """The newest first."""
        path, action = f"{self._path}/commits/{commit}/statuses", f"read the status of {commit[:7]}"
        for page in self._client.pages(path, action=action, query={}):
            yield from page

    def _is_ours(self, comment: object) -> bool:
        return number_of(comment, "user", "id") == self._own_id() if text_of(comment, "user", "login") else False

    def _is_by_us(self, status: object) -> bool:
        login = text_of(status, "creator", "login")
        return number_of(status, "creator", "id") == self._own_id() if login else False

    def _own_id(self) -> int:
        if not self._author:
            answer = self._client.ask_graphql(WHO, {}, action="ask whose token this is")
            self._author = number_of(answer, "viewer", "databaseId")
        return self._author


# --- was reconciler/forge/github/rights.py:
# What a token may do on GitHub, and what the rules of a repository forbid: asked without changing anything.

logger = logging.getLogger(__name__)

REFUSING: Mapping[str, str] = {
    "creation": "nobody may create such branches",
    "update": "nobody may push to such branches",
    "deletion": "nobody may delete such branches",
    "non_fast_forward": "no forced pushes",
    "pull_request": "changes only by pull request",
    "required_signatures": "signed commits only",
    "commit_message_pattern": "commit messages of a pattern",
    "commit_author_email_pattern": "commit authors of a pattern",
    "branch_name_pattern": "branch names of a pattern",
}
"""Rules that, on a head branch, keep us from creating, updating or deleting it."""
CURES = Cures(
    scheduling="allow auto-merge (Settings, General, Pull Requests)",
    opening='let TOKEN write "Pull requests"; for a workflow\'s token, set `permissions: pull-requests: write` and '
    "allow Actions to create pull requests (Settings, Actions, General)",
    labelling='let TOKEN write "Pull requests" and "Issues"',
    refusals="let our account bypass the ruleset (Settings, Rules)",
    signatures="merge by squash, which the forge signs, or let our account bypass the rule (Settings, Rules)",
)
DROPS_APPROVALS = "dismiss_stale_reviews_on_push"


def read_rights(client: GitHubClient, path: str, *, base: str, head: str) -> Rights:
    """The rights in the repository at `path`.

    A workflow's or App's token has no role, so what the repository says of one means nothing there.
    """
    repository = client.get(path, action="ask what the token may do")
    has_role = flag_of(repository, "permissions", "pull") or flag_of(repository, "permissions", "push")
    may_push = flag_of(repository, "permissions", "push") if has_role else None
    on_base = list(_rules(client, path, base))
    on_head = {text_of(rule, "type") for rule in _rules(client, path, head)}
    protection = _protection(client, path, base)
    return Rights(
        may_open=_may_open(client, path, base),
        may_label=None if may_push is None else may_push or flag_of(repository, "permissions", "triage"),
        may_merge=may_push,
        allows_auto_merge=flag_or_none(repository, "allow_auto_merge"),
        drops_approvals=any(flag_of(rule, "parameters", DROPS_APPROVALS) for rule in on_base)
        or flag_of(protection, "required_pull_request_reviews", "dismiss_stale_reviews"),
        needs_signatures=any(text_of(rule, "type") == "required_signatures" for rule in on_base)
        or flag_of(protection, "required_signatures", "enabled"),
        refusals=tuple(words for rule, words in REFUSING.items() if rule in on_head),
        cures=CURES,
    )


def _may_open(client: GitHubClient, path: str, base: str) -> bool:
    """Whether a pull request may be opened: one from a branch to itself is refused to all, but for another reason."""
    form = {"title": "May pull requests be opened?", "head": base, "base": base}
    try:
        client.post(f"{path}/pulls", form, action="ask whether pull requests may be opened")
    except UnprocessableError:
        return True
    except ForbiddenError as error:
        logger.debug("no pull request may be opened: %s", error)
        return False
    return True


def _rules(client: GitHubClient, path: str, branch: str) -> Iterator[object]:
    """The rules on a branch, which need not exist; none where GitHub knows of no rules."""
    try:
        yield from list_of(client.get(f"{path}/rules/branches/{quote(branch, safe='')}", action="ask for rules"))
    except ConfigurationError as error:
        logger.debug("no rules of %s are known: %s", branch, error)


def _protection(client: GitHubClient, path: str, branch: str) -> object:
    """The older kind of protection, which only an administrator's token may see."""
    try:
        return client.get(f"{path}/branches/{quote(branch, safe='')}/protection", action="ask for protections")
    except ReconcilerError as error:
        logger.debug("no protection of %s is known: %s", branch, error)
        return None


# --- was reconciler/forge/github/pull_requests.py:
# Pull requests on GitHub and GitHub Enterprise Server.

PUBLIC_HOST = "github.com"
PUBLIC_API = "https://api.github.com"

TITLE_LIMIT = 255
NO_COMMITS = "No commits between"
SETTLING = ("already exists", "ould not resolve to a node")
QUEUE_BATCH = 50


def api_url(host: str) -> str:
    """The REST root of a GitHub host."""
    return PUBLIC_API if host == PUBLIC_HOST else f"https://{host}/api/v3"


class GitHub:
    """One repository on GitHub, through a token."""

    name = "github"
    body_limit = 58_000  # GitHub takes 65,536; the rest is for people
    draws_mermaid = True

    def __init__(self, address: RepositoryAddress, client: GitHubClient) -> None:
        self._address = address
        self._client = client
        self.reviews = GitHubReviews(client, self._path())

    def check_access(self) -> None:
        """Ask for the repository itself, which needs the token and the name to be right."""
        action = f"look for {self._address}"
        repository = self._client.get(self._path(), action=action)
        found = text_of(repository, "full_name")
        if found.lower() != self._address.full_name.lower():
            raise ConfigurationError(f"{action}: the repository is now {found or 'another one'}: name it so")
        if flag_of(repository, "archived"):
            raise ConfigurationError(f"{action}: the repository is archived, which makes it read-only")

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`."""
        return read_rights(self._client, self._path(), base=base, head=head)

    def schedules(self) -> None:
        """See `Forge`: workflows say it."""

    def commit_address(self, commit: str) -> str:
        """A page of the repository."""
        return f"https://{self._address}/commit/{commit}"

    def files_address(self, commit: str) -> str:
        """A page of the repository."""
        return f"https://{self._address}/blob/{commit}/"

    def author(self) -> Identity:
        """The token's user with GitHub's no-reply address; neutral for a workflow's or App's token: it has no user."""
        try:
            user = self._client.get("/user", action="ask whose token this is")
        except ForbiddenError as error:
            logger.debug("commits get a neutral author: %s", error)
            return NEUTRAL_IDENTITY
        login = text_of(user, "login")
        if not login:
            return NEUTRAL_IDENTITY
        email = f"{number_of(user, 'id')}+{login}@users.noreply.{self._address.host}"
        return Identity(name=text_of(user, "name") or login, email=email)

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`; the merge queue is asked for open ones only."""
        # Open ones first: one that is closed in between is then seen twice, and the later word counts.
        answers = (*self._open(base), *self._closed_since(base, closed_since_s))
        shown = (self._shown(answer) for answer in answers if is_from(answer, self._address.full_name))
        recent = ours_among(shown, head_prefix=head_prefix, base=base, closed_since_s=closed_since_s)
        queued = self._queued([each.number for each in recent if each.is_open])
        return tuple(replace(each, in_merge_queue=each.number in queued) for each in recent)

    def create(
        self,
        *,
        head: str,
        base: str,
        title: str,
        body: str,
        draft: bool = False,
        labels: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest | None:
        """See `Forge`. A create whose answer was lost is found again by its head branch."""
        form = {"title": title[:TITLE_LIMIT], "head": head, "base": base, "body": body, "draft": draft}
        try:
            created = create_once(
                lambda: self._shown(self._client.post(self._path("pulls"), form, action=f"propose {head}")),
                lambda: self._find_open(head, base),
                refusals=(UnprocessableError,),
                may_settle=_may_settle,
                wait=self._client.wait,
            )
        except UnprocessableError as refusal:
            if refusal.says(NO_COMMITS):
                return None
            raise _explain_unprocessable(refusal, base) from None
        self._request_reviews(created.number, reviewers)
        return self._label(created, labels)

    def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        close: bool = False,
        labels: tuple[str, ...] = (),
        unlabel: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest:
        """See `Forge`. Text and closing travel in one request, so that nobody sees one without the other."""
        action = f"update pull request {number}"
        path = self._path(f"pulls/{number}")
        current = self._shown(self._client.get(path, action=action))
        if not current.is_open:
            logger.info("pull request %d is %s, left as it is", number, current.state.value)
            return current
        wanted = {"title": title if title is None else title[:TITLE_LIMIT], "body": body}
        present = {"title": current.title, "body": current.body}
        form = {name: value for name, value in wanted.items() if value is not None and value != present[name]}
        if close:
            form["state"] = "closed"
        updated = self._shown(self._client.patch(path, form, action=action)) if form else current
        self._request_reviews(number, reviewers)
        return self._label(self._unlabel(updated, unlabel), labels)

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`."""
        action, path = f"update pull request {number}", self._path(f"pulls/{number}")
        current = self._shown(self._client.get(path, action=action))
        if current.state is PullRequestState.MERGED and current.body != body:
            self._client.patch(path, {"body": body}, action=action)

    def note_merge(self, number: int) -> None:
        """See `Forge`: GitHub marks it a moment after the push."""

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        found = {each.number: each for each in map(self._shown, self._open(base))}
        return tuple(found[number] for number in sorted(found) if found[number].is_open)

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`; GitHub keeps it up to date for every pull request."""
        return f"refs/pull/{pull_request.number}/head"

    def merge(self, number: int, *, head_commit: str, method: str = "") -> MergeAnswer:
        """See `Forge`."""
        return merge_one(self._client, self._path(), number, head_commit=head_commit, method=method)

    def unschedule(self, number: int) -> None:
        """See `Forge`."""
        unschedule_one(self._client, self._path(), number)

    def _open(self, base: str) -> Iterator[object]:
        # The oldest first: what is opened while we read comes at the end and moves nothing to another page.
        query = {"state": "open", "base": base, "sort": "created", "direction": "asc"}
        for page in self._client.pages(self._path("pulls"), action="list open pull requests", query=query):
            yield from page

    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        """Closed ones, the last touched first: a pull request is never touched before it is closed."""
        query = {"state": "closed", "base": base, "sort": "updated", "direction": "desc"}
        for page in self._client.pages(self._path("pulls"), action="list closed pull requests", query=query):
            yield from page
            if page and _touched_at_s(page[-1]) < since_s:
                return

    def _find_open(self, head: str, base: str) -> PullRequest | None:
        query = {"state": "open", "head": f"{self._address.owner}:{head}", "base": base}
        for page in self._client.pages(self._path("pulls"), action=f"look for {head}", query=query):
            for answer in page:
                if is_from(answer, self._address.full_name) and text_of(answer, "head", "ref") == head:
                    return self._shown(answer)
        return None

    def _queued(self, numbers: list[int]) -> frozenset[int]:
        """Those in a merge queue, which only GraphQL tells; none where there is no such thing to ask."""
        queued: set[int] = set()
        for start in range(0, len(numbers), QUEUE_BATCH):
            batch = numbers[start : start + QUEUE_BATCH]
            try:
                answer = self._client.ask_graphql(_queue_query(batch), self._variables(), action="ask for merge queues")
            except ConfigurationError as error:
                logger.debug("no merge queue is known: %s", error)
                return frozenset()
            queued |= {number for number in batch if flag_of(answer, "repository", f"p{number}", "isInMergeQueue")}
        return frozenset(queued)

    def _variables(self) -> Mapping[str, object]:
        return {"owner": self._address.owner, "name": self._address.name}

    def _label(self, pull_request: PullRequest, labels: tuple[str, ...]) -> PullRequest:
        missing = [label for label in labels if label not in pull_request.labels]
        if not missing:
            return pull_request
        path = self._path(f"issues/{pull_request.number}/labels")
        try:
            self._client.post(path, {"labels": missing}, action=f"label pull request {pull_request.number}")
        except ReconcilerError as error:
            logger.warning("pull request %d stays without its labels: %s", pull_request.number, error)
            return pull_request
        return replace(pull_request, labels=(*pull_request.labels, *missing))

    def _unlabel(self, pull_request: PullRequest, labels: tuple[str, ...]) -> PullRequest:
        gone = []
        try:
            for label in [each for each in labels if each in pull_request.labels]:
                path = self._path(f"issues/{pull_request.number}/labels/{quote(label, safe='')}")
                with contextlib.suppress(NotFoundError):  # it is gone: an answer was lost, or a person was faster
                    self._client.delete(path, action=f"take label {label} from pull request {pull_request.number}")
                gone.append(label)
        except ReconcilerError as error:
            logger.warning("pull request %d keeps a label that fits no more: %s", pull_request.number, error)
        return replace(pull_request, labels=tuple(label for label in pull_request.labels if label not in gone))

    def _request_reviews(self, number: int, reviewers: tuple[str, ...]) -> None:
        if not reviewers:
            return
        teams = [name.removeprefix("team:").rpartition("/")[2] for name in reviewers if name.startswith("team:")]
        people = [name for name in reviewers if not name.startswith("team:")]
        form = {name: value for name, value in (("reviewers", people), ("team_reviewers", teams)) if value}
        path = self._path(f"pulls/{number}/requested_reviewers")
        try:
            self._client.post(path, form, action=f"ask for reviews of pull request {number}")
        except ReconcilerError as error:
            logger.warning("nobody was asked to review pull request %d: %s", number, error)

    def _shown(self, answer: object) -> PullRequest:
        return pull_request_of(answer, self._address.full_name)

    def _path(self, rest: str = "") -> str:
        return f"/repos/{self._address.full_name}" + (f"/{rest}" if rest else "")


def _touched_at_s(answer: object) -> float:
    needed_text(answer, "updated_at")
    return time_of(answer, "updated_at") or 0.0


def _may_settle(refusal: ReconcilerError) -> bool:
    if not isinstance(refusal, UnprocessableError):
        return False
    return refusal.concerns("head") or any(refusal.says(phrase) for phrase in SETTLING)


def _explain_unprocessable(refusal: UnprocessableError, base: str) -> ReconcilerError:
    if refusal.concerns("base"):
        return ConfigurationError(f"{refusal}; check that the base branch {base} exists")
    return refusal


def _queue_query(numbers: list[int]) -> str:
    fields = " ".join(f"p{number}: pullRequest(number: {number}) {{ isInMergeQueue }}" for number in numbers)
    return f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
