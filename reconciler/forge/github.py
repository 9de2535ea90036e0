"""Pull requests of GitHub and GitHub Enterprise Server."""

import contextlib
import logging
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from reconciler.domain.records import replace
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.forge.hosted import (
    PAGE_SIZE,
    SETTLING_WAITS_S,
    ForbiddenError,
    ForgeClient,
    HostedForge,
    NotFoundError,
    NotMergeableError,
    UnprocessableError,
    checked_api_url,
    find,
    flag_of,
    flag_or_none,
    list_of,
    needed_text,
    needed_token,
    number_of,
    number_or_none,
    text_of,
    time_of,
)
from reconciler.forge.pull_requests import (
    BEHIND,
    Assignment,
    Cures,
    ForgeToken,
    MergeAnswer,
    MergeState,
    PullRequest,
    PullRequestState,
    Rights,
    parse_remote,
    waiting,
)
from reconciler.http.messages import Response, bearer
from reconciler.http.redaction import Redactor

logger = logging.getLogger(__name__)

QUEUE_BATCH = 50
METHODS: Mapping[str, str] = {
    "merge": "allow_merge_commit",
    "squash": "allow_squash_merge",
    "rebase": "allow_rebase_merge",
}
"""Merge methods, the preferred first, with the fields that say whether a repository allows them."""
READY = ("clean", "has_hooks")
BLOCKED = "blocked"
WAITS: Mapping[str, str] = {
    "draft": "it is a draft",
    "dirty": "it conflicts with its base",
    "behind": BEHIND,
    "unstable": "a check failed or has not finished",
}
ENABLE = (
    "mutation($id: ID!, $head: GitObjectID!, $method: PullRequestMergeMethod!) { enablePullRequestAutoMerge(input: "
    "{pullRequestId: $id, expectedHeadOid: $head, mergeMethod: $method}) { clientMutationId } }"
)
DISABLE = "mutation($id: ID!) { disablePullRequestAutoMerge(input: {pullRequestId: $id}) { clientMutationId } }"


COMMIT = "mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid } } }"
VIEWER = "viewer { databaseId }"
WHO = f"query {{ {VIEWER} }}"
"""`GET /user` fails for an App or a workflow; this works for every token."""
REFUSING: Mapping[str, str] = {
    "creation": "such branches may not be created",
    "update": "such branches may not be pushed to",
    "deletion": "such branches may not be deleted",
    "non_fast_forward": "no forced pushes",
    "pull_request": "changes only by pull request",
    "required_signatures": "signed commits only",
    "commit_message_pattern": "commit messages of a pattern",
    "commit_author_email_pattern": "commit authors of a pattern",
    "branch_name_pattern": "branch names of a pattern",
}
"""Rules that prevent us from creating, updating or deleting a head branch."""
CURES = Cures(
    scheduling="allow auto-merge (Settings, General, Pull Requests)",
    opening='let TOKEN write "Pull requests"; for a workflow\'s token, set `permissions: pull-requests: write` and '
    "allow Actions to create pull requests (Settings, Actions, General)",
    labelling='let TOKEN write "Pull requests" and "Issues"',
    refusals="let our account bypass the ruleset (Settings, Rules)",
    protection="make a ruleset for such branches that restricts creations, updates and deletions, with our account "
    "alone on its bypass list (Settings, Rules)",
    signatures="merge by squash, which the forge signs, or let our account bypass the rule (Settings, Rules)",
)


class InvalidError(UnprocessableError):
    """Raised for a 422; `errors` are GitHub's own reasons."""

    def __init__(self, message: str, errors: tuple[Mapping[str, object], ...]) -> None:
        super().__init__(message)
        self.errors = errors

    def concerns(self, field: str) -> bool:
        """Whether GitHub reports the value of `field` as invalid."""
        return any(error.get("field") == field and error.get("code") == "invalid" for error in self.errors)

    def says(self, phrase: str) -> bool:
        """Whether one of the reasons contains `phrase`."""
        return any(phrase in str(error.get("message", "")) for error in self.errors)


class GitHubClient(ForgeClient):
    """GitHub's REST and GraphQL API. A 422 has several meanings, which only its `errors` distinguish."""

    forge = "GitHub"
    limit_headers = "X-RateLimit"
    headers: Mapping[str, str] = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    advice: Mapping[int, str] = {
        401: "check that {token} holds a token that is valid, not expired, and for this host",
        403: "{token} needs to read and write contents and pull requests of this repository; "
        "for a workflow's token, the repository must allow Actions to create pull requests",
        404: "check the repository's name, and that {token} may see it",
        410: "the repository has this switched off",
        451: "the repository is blocked",
    }

    def authorization(self, token: str) -> Mapping[str, str]:
        """See `ForgeClient`."""
        return {"Authorization": bearer(token)}

    def messages(self, content: object) -> str:
        """See `ForgeClient`."""
        errors = _errors_of(content)
        reasons = [find(content, "message"), *(error.get("message") or error.get("code") for error in errors)]
        return "; ".join(str(reason) for reason in reasons if reason)

    def is_limit(self, response: Response, content: object) -> bool:
        """See `ForgeClient`; a 403 may also be a limit."""
        documentation = str(find(content, "documentation_url"))
        is_spent = self.is_spent(response) or "rate-limit" in documentation
        return super().is_limit(response, content) or (response.status == 403 and is_spent)

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `ForgeClient`."""
        if status == 422:
            return InvalidError(shown, _errors_of(content))
        return super().refusal(status, content, shown)

    def ask_graphql(self, query: str, variables: Mapping[str, object], *, action: str) -> object:
        """The `data` of a GraphQL answer; ConfigurationError when this API does not know or allow the query."""
        url = f"{self.root.removesuffix('/v3')}/graphql"
        answer, _ = self.send("POST", url, action=action, body={"query": query, "variables": dict(variables)})
        if isinstance(answer, dict) and not answer.get("errors"):
            return answer.get("data")
        shown = f"{action}: {self.credentials.redactor.show(self.messages(answer) or 'no data')}"
        is_limited = any(error.get("type") == "RATE_LIMITED" for error in _errors_of(answer))
        raise TransientError(shown) if is_limited else ConfigurationError(shown)


def _errors_of(content: object) -> tuple[Mapping[str, object], ...]:
    return tuple(error for error in list_of(find(content, "errors")) if isinstance(error, dict))


def pull_request_of(answer: object, full_name: str) -> PullRequest:
    """The pull request of `full_name` in an answer (full or simple form).

    `merged_as` is the merge, the squashed commit, or the last rebased one; before the merge that is only a test merge.
    TransientError when a field is missing or wrong.
    """
    is_merged, merge_commit = bool(text_of(answer, "merged_at")), text_of(answer, "merge_commit_sha")
    number = number_of(answer, "number")
    state = PullRequestState.MERGED if is_merged else PullRequestState.CLOSED
    if not is_merged and needed_text(answer, "state") == "open":
        state = PullRequestState.OPEN
    return PullRequest(
        number=number,
        state=state,
        head_branch=needed_text(answer, "head", "ref"),
        base_branch=needed_text(answer, "base", "ref"),
        title=needed_text(answer, "title"),
        body=text_of(answer, "body"),
        labels=tuple(filter(None, (text_of(label, "name") for label in list_of(find(answer, "labels"))))),
        head_commit=needed_text(answer, "head", "sha"),
        is_draft=flag_of(answer, "draft"),
        is_from_fork=not is_from(answer, full_name),
        closed_at_s=time_of(answer, "closed_at"),
        opened_at_s=time_of(answer, "created_at"),
        merged_as=(merge_commit,) if merge_commit and is_merged else (),
        url=needed_text(answer, "html_url"),
    )


def is_from(answer: object, full_name: str) -> bool:
    """Whether a pull request's head branch is in the repository `full_name`, unlike one of a deleted fork."""
    return text_of(answer, "head", "repo", "full_name").lower() == full_name.lower()


class GitHub(HostedForge[GitHubClient]):
    """One repository on GitHub."""

    name = "github"
    body_limit = 58_000  # GitHub takes 65,536; the rest is for people
    head_ref_folder = "pull"
    create_refusals = (InvalidError,)
    writes_commits = True

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`. A workflow's or App's token has no role, so the repository's permissions mean nothing."""
        repository = self._client.get(self._path(), action="ask what the token may do")
        may_push: bool | None = flag_of(repository, "permissions", "push")
        if not may_push and not flag_of(repository, "permissions", "pull"):
            may_push = None
        on_base, shown = self._rules(base) or [], self._rules(head)
        on_head = shown or []
        passed = {each for each in {number_or_none(rule, "ruleset_id") for rule in on_head} if self._may_bypass(each)}
        binding = {text_of(rule, "type") for rule in on_head if number_or_none(rule, "ruleset_id") not in passed}
        protection = self._protection(base)
        return Rights(
            may_open=self._may_open(base),
            may_label=None if may_push is None else may_push or flag_of(repository, "permissions", "triage"),
            may_merge=may_push,
            allows_auto_merge=flag_or_none(repository, "allow_auto_merge"),
            drops_approvals=any(flag_of(rule, "parameters", "dismiss_stale_reviews_on_push") for rule in on_base)
            or flag_of(protection, "required_pull_request_reviews", "dismiss_stale_reviews"),
            is_strict=_is_strict(on_base, protection),
            needs_signatures=any(text_of(rule, "type") == "required_signatures" for rule in on_base)
            or flag_of(protection, "required_signatures", "enabled"),
            refusals=tuple(words for rule, words in REFUSING.items() if rule in binding),
            only_ours=None
            if shown is None
            else any(
                text_of(rule, "type") == "update" and number_or_none(rule, "ruleset_id") in passed for rule in on_head
            ),
            cures=CURES,
        )

    def is_strict(self, base: str) -> bool:
        """See `Forge`."""
        return _is_strict(self._rules(base) or (), None) or _is_strict((), self._protection(base))

    def _may_bypass(self, ruleset: int | None) -> bool:
        """Whether our account is on the list of those that a ruleset lets pass; False where that is not shown."""
        if ruleset is None:
            return False
        try:
            found = self._client.get(self._path(f"rulesets/{ruleset}"), action="ask whom a ruleset lets pass")
        except ConfigurationError as error:
            logger.debug("ruleset %d is not shown: %s", ruleset, error)
            return False
        return text_of(found, "current_user_can_bypass") in ("always", "exempt")

    def _protection(self, base: str) -> object:
        """The older kind of protection, which only administrators see; None where it is not shown."""
        try:
            path = self._path(f"branches/{quote(base, safe='')}/protection")
            return self._client.get(path, action="ask for protections")
        except ReconcilerError as error:
            logger.debug("no protection of %s is known: %s", base, error)
            return None

    def _may_open(self, base: str) -> bool:
        """Whether a pull request may be opened; one from a branch to itself is always refused, for another reason."""
        form = {"title": "May pull requests be opened?", "head": base, "base": base}
        try:
            with contextlib.suppress(UnprocessableError):
                self._client.write("POST", self._path("pulls"), form, action="ask whether pull requests may be opened")
        except ForbiddenError as error:
            logger.debug("no pull request may be opened: %s", error)
            return False
        return True

    def _rules(self, branch: str) -> list[object] | None:
        """The rules on a branch, which need not exist; None where GitHub has no rules."""
        try:
            path = self._path(f"rules/branches/{quote(branch, safe='')}")
            return list_of(self._client.get(path, action="ask for rules"))
        except ConfigurationError as error:
            logger.debug("no rules of %s are known: %s", branch, error)
            return None

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`; which open ones are in the merge queue is shown only by GraphQL."""
        recent = super().list_pull_requests(head_prefix=head_prefix, base=base, closed_since_s=closed_since_s)
        return tuple(
            replace(each, in_merge_queue=each.in_merge_queue or each.number in self._queued) for each in recent
        )

    def _look_up(self, answers: Sequence[object], head_prefix: str) -> None:
        """See `HostedForge`: merge queues, and in the same query whose token this is."""
        ours = (each for each in answers if text_of(each, "head", "ref").startswith(head_prefix))
        numbers = sorted({number_of(each, "number") for each in ours if text_of(each, "state") == "open"})
        self._queued: set[int] = set()
        for start in range(0, len(numbers), QUEUE_BATCH):
            batch = numbers[start : start + QUEUE_BATCH]
            fields = " ".join(f"p{number}: pullRequest(number: {number}) {{ isInMergeQueue }}" for number in batch)
            asked = f"{VIEWER} repository(owner: $owner, name: $name) {{ {fields} }}"
            query = f"query($owner: String!, $name: String!) {{ {asked} }}"
            variables = {"owner": self._address.owner, "name": self._address.name}
            try:
                answer = self._client.ask_graphql(query, variables, action="ask for merge queues")
            except ConfigurationError as error:
                logger.debug("no merge queue is known: %s", error)
                return
            self._own_id = self._own_id or number_or_none(answer, "viewer", "databaseId") or 0
            self._queued |= {
                number for number in batch if flag_of(answer, "repository", f"p{number}", "isInMergeQueue")
            }

    def write_commit(
        self, branch: str, *, parent: str, files: Mapping[str, bytes], created: Collection[str], message: str
    ) -> None:
        """See `Forge`; only GraphQL signs for every kind of token, and it makes no branch."""
        del created  # GitHub finds that out
        headline, _, text = message.partition("\n")
        additions = [{"path": path, "contents": b64encode(files[path]).decode()} for path in sorted(files)]
        wanted = {
            "branch": {"repositoryNameWithOwner": self._address.full_name, "branchName": branch},
            "expectedHeadOid": parent,
            "message": {"headline": headline, "body": text.strip()},
            "fileChanges": {"additions": additions},
        }
        with contextlib.suppress(InvalidError):  # an answer was lost: the branch exists
            form = {"ref": f"refs/heads/{branch}", "sha": parent}
            self._client.write("POST", self._path("git/refs"), form, action=f"create {branch}")
        self._client.ask_graphql(COMMIT, {"input": wanted}, action=f"commit to {branch}")

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`."""
        del since_s  # the newest pushes of one branch are one page
        query: dict[str, str | int] = {"ref": f"refs/heads/{branch}", "per_page": PAGE_SIZE}
        pushes = self._client.get(self._path("activity"), action=f"ask who pushed {branch}", query=query)
        for push in list_of(pushes):
            if text_of(push, "after") == commit:  # the newest first
                return time_of(push, "timestamp") if self._is_by_us(push, "actor") else None
        return None

    def _open(self, base: str = "") -> Iterator[object]:
        query = {"state": "open", "sort": "created", "direction": "asc"} | ({"base": base} if base else {})
        return self._client.entries(self._path("pulls"), action="list open pull requests", query=query)

    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        query = {"state": "closed", "base": base, "sort": "updated", "direction": "desc"}
        return self._closed(query, since_s)

    def _find_open(self, head: str, base: str) -> PullRequest | None:
        query = {"state": "open", "head": f"{self._address.owner}:{head}", "base": base}
        for answer in self._client.entries(self._path("pulls"), action=f"look for {head}", query=query):
            if self._is_from_here(answer) and text_of(answer, "head", "ref") == head:
                return self._shown(answer)
        return None

    def _propose(self, wanted: PullRequest, assignment: Assignment) -> object:
        del assignment  # it and labels need requests of their own
        form = {"title": wanted.title, "head": wanted.head_branch, "base": wanted.base_branch, "body": wanted.body}
        action = f"propose {wanted.head_branch}"
        return self._client.write("POST", self._path("pulls"), {**form, "draft": wanted.is_draft}, action=action)

    def _may_settle(self, refusal: ReconcilerError) -> bool:
        return isinstance(refusal, InvalidError) and (
            refusal.concerns("head") or refusal.says("already exists") or refusal.says("ould not resolve to a node")
        )

    def _create_error(self, refusal: ReconcilerError, base: str) -> ReconcilerError | None:
        if isinstance(refusal, InvalidError) and refusal.says("No commits between"):
            return None
        if isinstance(refusal, InvalidError) and refusal.concerns("base"):
            return ConfigurationError(f"{refusal}; check that the base branch {base} exists")
        return refusal

    def _attach(
        self, shown: PullRequest, labels: tuple[str, ...], assignment: Assignment, unlabel: tuple[str, ...] = ()
    ) -> PullRequest:
        number, present = shown.number, shown.labels
        if not self._assign(number, assignment):
            return replace(shown, is_asked=False)
        path, gone = self._path(f"issues/{number}/labels"), []
        try:
            for label in [each for each in unlabel if each in present]:
                action = f"take label {label} from pull request {number}"
                with contextlib.suppress(NotFoundError):  # an answer was lost, or a person was faster
                    self._client.write("DELETE", f"{path}/{quote(label, safe='')}", None, action=action)
                gone.append(label)
        except ReconcilerError as error:
            logger.warning("pull request %d keeps an outdated label: %s", number, error)
        present = tuple(label for label in present if label not in gone)
        missing = [label for label in labels if label not in present]
        try:
            if missing:
                self._client.write("POST", path, {"labels": missing}, action=f"label pull request {number}")
        except ReconcilerError as error:
            logger.warning("pull request %d stays without its labels: %s", number, error)
            missing = []
        return replace(shown, labels=(*present, *missing))

    def _look(self, number: int) -> object:
        for wait_s in (*SETTLING_WAITS_S, None):
            answer = self._client.get(self._path(f"pulls/{number}"), action=f"look at pull request {number}")
            if wait_s is None or text_of(answer, "state") != "open" or text_of(answer, "mergeable_state") != "unknown":
                break
            self._client.wait(wait_s)
        return answer

    def _merge(self, answer: object, found: PullRequest, method: str) -> MergeAnswer:
        """See `HostedForge`; only clean ones are merged, as an administrator's token could bypass rules."""
        if self._has_objection(found.number, "CHANGES_REQUESTED"):
            return waiting("a review asks for changes")
        state = text_of(answer, "mergeable_state")
        if state not in (*READY, BLOCKED):
            return waiting(WAITS.get(state, "GitHub has not found out yet whether it can be merged"))
        method = self._merge_method(method, METHODS)
        if state == BLOCKED:
            return self._schedule(answer, found, method, "rules of its base are not met")
        form = {"sha": found.head_commit, "merge_method": method}
        path, action = self._path(f"pulls/{found.number}/merge"), f"merge pull request {found.number}"
        try:
            self._client.write("PUT", path, form, action=action)
        except NotMergeableError as refusal:
            if self._shown(self._look(found.number)).state is not PullRequestState.MERGED:
                return self._schedule(answer, found, method, str(refusal))
            # merged: the answer to the first attempt was lost
        return MergeAnswer(state=MergeState.MERGED)

    def _schedule(self, answer: object, found: PullRequest, method: str, words: str) -> MergeAnswer:
        """Ask GitHub to merge it once rules of the base or the queue allow it; if it refuses, it waits."""
        if not found.is_scheduled:
            variables = {"id": text_of(answer, "node_id"), "head": found.head_commit, "method": method.upper()}
            try:
                self._client.ask_graphql(ENABLE, variables, action=f"have GitHub merge pull request {found.number}")
            except ConfigurationError as refusal:
                return waiting(f"{words} ({refusal})")
        return MergeAnswer(state=MergeState.SCHEDULED, words=words)

    def _unschedule(self, answer: object, number: int) -> None:
        variables = {"id": text_of(answer, "node_id")}
        self._client.ask_graphql(DISABLE, variables, action=f"keep GitHub from merging pull request {number}")

    def _comments(self, number: int) -> str:
        return self._path(f"issues/{number}/comments")

    def _comment(self, number: int, key: str) -> str:
        del number  # GitHub numbers the comments of a whole repository
        return self._path(f"issues/comments/{int(key)}")

    def _shown_status(self, commit: str, context: str) -> Mapping[str, object] | None:
        path, action = self._path(f"commits/{commit}/statuses"), f"read the status of {commit[:7]}"
        listed = self._client.entries(path, action=action)  # the newest first
        return next((each for each in listed if isinstance(each, Mapping) and each.get("context") == context), None)

    def _user_id(self) -> int:
        try:
            answer = self._client.ask_graphql(WHO, {}, action="ask whose token this is")
        except ConfigurationError:  # a GitHub without GraphQL
            return super()._user_id()
        return number_of(answer, "viewer", "databaseId")

    def _is_from_here(self, answer: object) -> bool:
        return is_from(answer, self._address.full_name)

    def _shown(self, answer: object) -> PullRequest:
        found = pull_request_of(answer, self._address.full_name)
        if found.is_open and find(answer, "auto_merge") is not None:
            return self._scheduled(found, answer, "auto_merge", "enabled_by")
        return found

    def _path(self, rest: str = "") -> str:
        return f"/repos/{self._address.full_name}" + (f"/{rest}" if rest else "")

    def _web(self, page: str) -> str:
        return f"https://{self._address}/{page}"


def _is_strict(rules: Iterable[object], protection: object) -> bool:
    """Whether rulesets or the older protection want branches to be up to date before they are merged."""
    return flag_of(protection, "required_status_checks", "strict") or any(
        flag_of(rule, "parameters", "strict_required_status_checks_policy") for rule in rules
    )


def api_url(host: str) -> str:
    """The REST root of a GitHub host; on GitHub.com and Enterprise Cloud (`ghe.com`) it has another host."""
    return f"https://api.{host}" if host == "github.com" or host.endswith(".ghe.com") else f"https://{host}/api/v3"


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> GitHub:
    """The forge of a remote; ConfigurationError names the setting that does not fit."""
    address = parse_remote(remote)
    if address is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: expected https://HOST/OWNER/NAME or git@HOST:OWNER/NAME for forge.kind github"
        )
    given = needed_token(token, address, "GITHUB_TOKEN")
    root = checked_api_url(settings.url or api_url(address.host))
    return GitHub(address, GitHubClient(root, given.text.strip(), token_name=given.source, run_ends_s=run_ends_s))
