"""Pull requests of Gitea and Forgejo.

Neither binds an automatic merge to the commit that it was scheduled for: what is pushed later is merged as well. So
nothing is scheduled here. A pull request whose checks or reviews are not finished waits for the next run.
"""

import contextlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from reconciler.domain.records import replace
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.hosted import (
    MAX_DIGITS,
    SETTLING_WAITS_S,
    TITLE_LIMIT,
    ForbiddenError,
    ForgeClient,
    HostedForge,
    NotFoundError,
    NotMergeableError,
    UnprocessableError,
    find,
    flag_of,
    flag_or_none,
    list_of,
    locate,
    needed_text,
    needed_token,
    number_of,
    text_of,
    time_of,
)
from reconciler.forge.pull_requests import (
    Assignment,
    Cures,
    ForgeToken,
    MergeAnswer,
    MergeState,
    PullRequest,
    PullRequestState,
    Rights,
    waiting,
)
from reconciler.http.messages import Response

logger = logging.getLogger(__name__)

API = "/api/v1"
DAY_S = 86_400.0
GLOBS: Mapping[str, str] = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
DRAFT = "WIP: "
LABEL_COLOR = "#ededed"
METHODS: Mapping[str, str] = {
    "merge": "allow_merge_commits",
    "squash": "allow_squash_merge",
    "rebase": "allow_rebase",
}
"""Merge methods, the preferred first, with the fields that say whether a repository allows them."""
DELETED = "refs/pull/"
"""Begins the head's ref of a pull request without a branch: where it was deleted, its label still has it.

One that was pushed without a branch (`refs/for/BASE`, AGit) never had any.
"""
FINE = frozenset({"success", "skipped"})
"""States of a check that is done."""
CURES = Cures(
    opening="give TOKEN the scope write:repository and its account write access to pull requests",
    labelling="give TOKEN the scope write:issue",
    merging="let our account merge into the base branch (Settings, Branches)",
    scheduling="nothing: Gitea would merge later pushes too, so each run merges what is ready",
    refusals="let our account push to these branches (Settings, Branches)",
    protection="protect such branches, with our account alone allowed to push, also by force (Settings, Branches)",
    signatures="let the server sign merges, or allow unsigned ones (Settings, Branches)",
)


class NothingToProposeError(TransientError):
    """Raised where a head has no commit that its base lacks; Gitea itself would open an empty pull request."""


class GiteaClient(ForgeClient):
    """The REST API of Gitea 1.20 and later, and of Forgejo."""

    forge = "Gitea"
    limit_headers = "X-RateLimit"  # of a proxy in front: Gitea has no limits of its own
    page_size_name = "limit"
    advice: Mapping[int, str] = {
        401: "check that {token} holds a token that is valid and for this host",
        403: "{token} needs the scopes write:repository, write:issue and read:user, "
        "and its account write access to this repository",
        404: "check the repository's name, and that {token} may see it",
        423: "the repository is archived",
    }

    def authorization(self, token: str) -> Mapping[str, str]:
        """See `ForgeClient`."""
        return {"Authorization": f"token {token}"}

    def messages(self, content: object) -> str:
        """See `ForgeClient`."""
        return text_of(content, "message")

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `ForgeClient`."""
        return UnprocessableError(shown) if status == 422 else super().refusal(status, content, shown)

    def is_last(self, page: list[object], response: Response, seen: int) -> bool:
        """See `ForgeClient`; the server's own limit on a page may be below ours, so its headers say what follows.

        Most lists say how many entries there are, some which page is next, and what is not paged neither.
        """
        total = response.headers.get("X-Total-Count", "")
        if total.isascii() and total.isdigit() and len(total) <= MAX_DIGITS:
            return not page or seen >= int(total)
        return 'rel="next"' not in response.headers.get("Link", "")


class Gitea(HostedForge[GiteaClient]):
    """One repository on a Gitea or Forgejo server."""

    name = "gitea"
    body_limit = 58_000  # its database holds more; the rest is for people
    head_ref_folder = "pull"
    issue_query: Mapping[str, str] = {"state": "all", "type": "issues"}
    milestone_number = "id"
    create_refusals = (UnprocessableError, NotFoundError, RivalRunError, NothingToProposeError)

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`. Rules of branches are shown to administrators of the repository only."""
        repository = self._client.get(self._path(), action="ask what the token may do")
        may_push = flag_of(repository, "permissions", "push")
        branch: object = None
        with contextlib.suppress(NotFoundError):
            path = self._path(f"branches/{quote(base, safe='')}")
            branch = self._client.get(path, action=f"look at {base}")
        rules = list(self._protections())
        of_base = next((rule for rule in rules if _covers(rule, base)), None)
        of_head = next((rule for rule in rules if _covers(rule, head)), None)
        refusals = (
            ("such branches may not be pushed to", of_head is not None and not flag_of(of_head, "enable_push")),
            ("signed commits only", flag_of(of_head, "require_signed_commits")),
        )
        return Rights(
            may_open=self._may_write("pulls", {"head": base, "base": base, "title": "May pull requests be opened?"}),
            may_label=may_push and self._may_write("issues/0/labels", {"labels": []}),
            may_merge=flag_or_none(branch, "user_can_merge"),
            allows_auto_merge=None,
            drops_approvals=flag_of(of_base, "dismiss_stale_approvals"),
            is_strict=flag_of(of_base, "block_on_outdated_branch"),
            only_ours=None if not rules else flag_of(of_head, "enable_push_whitelist"),
            needs_signatures=flag_of(of_base, "require_signed_commits"),
            refusals=tuple(words for words, applies in refusals if applies),
            cures=CURES,
        )

    def is_strict(self, base: str) -> bool:
        """See `Forge`."""
        of_base = next((rule for rule in self._protections() if _covers(rule, base)), None)
        return flag_of(of_base, "block_on_outdated_branch")

    def _may_write(self, path: str, form: Mapping[str, object]) -> bool:
        """Whether the token's scope allows a write; this one changes nothing, and is refused for another reason."""
        try:
            with contextlib.suppress(UnprocessableError, NotFoundError):
                self._client.write("POST", self._path(path), form, action="ask what the token may do")
        except ForbiddenError as error:
            logger.debug("%s may not be written: %s", path, error)
            return False
        return True

    def _protections(self) -> Iterator[object]:
        """The rules of protected branches; empty where the token may not see them."""
        try:
            listed = self._client.get(self._path("branch_protections"), action="ask for rules of branches")
        except ConfigurationError as error:
            logger.debug("no rules of branches are known: %s", error)
            return
        yield from list_of(listed)

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`; the clock that dated the commit may be a day ahead of the server's."""
        activities = self._client.entries(self._path("activities/feeds"), action=f"ask who pushed {branch}")
        for activity in activities:  # the newest first
            at_s = time_of(activity, "created")
            if at_s is None or at_s < since_s - DAY_S:
                return None
            is_push = text_of(activity, "op_type") == "commit_repo"
            if is_push and text_of(activity, "ref_name").removeprefix("refs/heads/") == branch:
                return at_s if _head_of_push(activity) == commit and self._is_by_us(activity, "act_user") else None
        return None

    def _open(self, base: str = "") -> Iterator[object]:
        query = {"state": "open", "sort": "oldest"} | ({"base_branch": base} if base else {})
        answers = self._client.entries(self._path("pulls"), action="list open pull requests", query=query)
        return (each for each in answers if not base or text_of(each, "base", "ref") == base)

    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        query = {"state": "closed", "sort": "recentupdate", "base_branch": base}
        return self._closed(query, since_s)

    def _find_open(self, head: str, base: str) -> PullRequest | None:
        for answer in self._open(base):
            if self._is_from_here(answer) and _head_branch(answer) == head:
                return self._shown(answer)
        return None

    def _propose(self, wanted: PullRequest, assignment: Assignment) -> object:
        del assignment  # what is refused of it, or a label, must not refuse the rest
        action = f"propose {wanted.head_branch}"
        between = f"{quote(wanted.base_branch, safe='')}...{quote(wanted.head_branch, safe='')}"
        compared = self._client.get(self._path(f"compare/{between}"), action=action)
        if number_of(compared, "total_commits") == 0:
            raise NothingToProposeError(f"{action}: {wanted.base_branch} has all its commits")
        form = {"title": wanted.title, "head": wanted.head_branch, "base": wanted.base_branch, "body": wanted.body}
        return self._client.write("POST", self._path("pulls"), form, action=action)

    def _may_settle(self, refusal: ReconcilerError) -> bool:
        return isinstance(refusal, NotFoundError | RivalRunError)

    def _create_error(self, refusal: ReconcilerError, base: str) -> ReconcilerError | None:
        if isinstance(refusal, NothingToProposeError):
            return None
        if isinstance(refusal, NotFoundError):
            return ConfigurationError(f"{refusal}; check that the base branch {base} exists")
        return refusal

    def _attach(
        self, shown: PullRequest, labels: tuple[str, ...], assignment: Assignment, unlabel: tuple[str, ...] = ()
    ) -> PullRequest:
        number, present = shown.number, shown.labels
        if not self._assign(number, assignment):
            return replace(shown, is_asked=False)
        gone = [label for label in unlabel if label in present]
        missing = [label for label in labels if label not in present]
        if not gone and not missing:
            return shown
        try:
            self._relabel(number, gone, missing)
        except ReconcilerError as error:
            logger.warning("pull request %d keeps its labels as they are: %s", number, error)
            return shown
        return replace(shown, labels=(*(label for label in present if label not in gone), *missing))

    def _relabel(self, number: int, gone: Iterable[str], missing: Sequence[str]) -> None:
        """Change the labels of a pull request."""
        path, action = self._path(f"issues/{number}/labels"), f"label pull request {number}"
        ids = self._label_ids(missing, action)
        for label in gone:
            if label in ids:
                with contextlib.suppress(NotFoundError, UnprocessableError):  # a person was faster
                    self._client.write("DELETE", f"{path}/{ids[label]}", None, action=action)
        wanted = [ids[label] for label in missing]
        if wanted:
            self._client.write("POST", path, {"labels": wanted}, action=action)

    def _label_ids(self, wanted: Iterable[str], action: str) -> dict[str, int]:
        """The labels by name; one of `wanted` that neither repository nor organization has is created."""
        ids: dict[str, int] = {}
        with contextlib.suppress(NotFoundError):  # a user's repository
            organization = f"/orgs/{quote(self._address.owner, safe='')}/labels"
            ids |= _by_name(self._client.entries(organization, action=action))
        ids |= _by_name(self._client.entries(self._path("labels"), action=action))
        for label in wanted:
            if label not in ids:
                form = {"name": label, "color": LABEL_COLOR}
                created = self._client.write("POST", self._path("labels"), form, action=f"create label {label}")
                ids[label] = number_of(created, "id")
        return ids

    def _labels_to_send(self, label: str) -> object:
        return [self._label_ids([label], "label the dashboard issue")[label]]

    def _look(self, number: int) -> object:
        for wait_s in (*SETTLING_WAITS_S, None):
            answer = self._client.get(self._path(f"pulls/{number}"), action=f"look at pull request {number}")
            is_settled = flag_of(answer, "mergeable") or text_of(answer, "state") != "open" or _is_draft(answer)
            if wait_s is None or is_settled:
                break
            self._client.wait(wait_s)
        return answer

    def _merge(self, answer: object, found: PullRequest, method: str) -> MergeAnswer:
        """See `HostedForge`; checks and reviews must be fine at this moment, as nothing is scheduled."""
        if found.is_draft:
            return waiting("it is a draft")
        if not flag_of(answer, "mergeable"):
            return waiting("it conflicts with its base, or Gitea has not found out yet whether it can be merged")
        action, newest = f"ask for checks of {found.head_commit[:7]}", dict[str, str]()
        path = self._path(f"commits/{found.head_commit}/statuses")  # the combined one is of its first page alone
        for each in self._client.entries(path, action=action, query={"sort": "highestindex"}):
            newest.setdefault(text_of(each, "context"), text_of(each, "status"))
        if not FINE.issuperset(newest.values()):
            return waiting("a check failed or has not finished")
        if self._has_objection(found.number, "REQUEST_CHANGES"):
            return waiting("a review asks for changes")
        form = {"Do": self._merge_method(method, METHODS), "head_commit_id": found.head_commit}
        path, action = self._path(f"pulls/{found.number}/merge"), f"merge pull request {found.number}"
        try:
            self._client.write("POST", path, form, action=action)
        except NotMergeableError as refusal:
            if self._shown(self._look(found.number)).state is not PullRequestState.MERGED:
                return waiting(str(refusal))
            # merged: the answer to the first attempt was lost
        return MergeAnswer(state=MergeState.MERGED)

    def _unschedule(self, answer: object, number: int) -> None:
        """See `HostedForge`; nothing is ever scheduled."""

    def _comments(self, number: int) -> str:
        return self._path(f"issues/{number}/comments")

    def _comment(self, number: int, key: str) -> str:
        del number  # Gitea numbers the comments of a whole server
        return self._path(f"issues/comments/{int(key)}")

    def _shown_status(self, commit: str, context: str) -> Mapping[str, object] | None:
        path, action = self._path(f"commits/{commit}/statuses"), f"read the status of {commit[:7]}"
        listed = self._client.entries(path, action=action, query={"sort": "highestindex"})  # the newest first
        found = next((each for each in listed if isinstance(each, Mapping) and each.get("context") == context), None)
        return None if found is None else {**found, "state": found.get("status")}

    def _is_from_here(self, answer: object) -> bool:
        return text_of(answer, "head", "repo", "full_name").lower() == self._address.full_name.lower()

    def _shown(self, answer: object) -> PullRequest:
        number, is_merged = number_of(answer, "number"), flag_of(answer, "merged")
        state = PullRequestState.MERGED if is_merged else PullRequestState.CLOSED
        if not is_merged and needed_text(answer, "state") == "open":
            state = PullRequestState.OPEN
        title, merge_commit = needed_text(answer, "title"), text_of(answer, "merge_commit_sha")
        return PullRequest(
            number=number,
            state=state,
            head_branch=_head_branch(answer),
            base_branch=needed_text(answer, "base", "ref"),
            title=title.removeprefix(DRAFT) if _is_draft(answer) else title,
            body=text_of(answer, "body"),
            labels=tuple(filter(None, (text_of(label, "name") for label in list_of(find(answer, "labels"))))),
            head_commit=needed_text(answer, "head", "sha"),
            is_draft=_is_draft(answer),
            is_from_fork=not self._is_from_here(answer),
            closed_at_s=time_of(answer, "closed_at"),
            opened_at_s=time_of(answer, "created_at"),
            merged_as=(merge_commit,) if merge_commit and is_merged else (),
            url=needed_text(answer, "html_url"),
        )

    def _title_to_send(self, title: str, *, is_draft: bool) -> str:
        prefix = DRAFT if is_draft else ""
        return prefix + title[: TITLE_LIMIT - len(prefix)]

    def _full_title(self, shown: PullRequest) -> str:
        return self._title_to_send(shown.title, is_draft=shown.is_draft)

    def _email_of(self, user: object, login: str) -> str:
        return text_of(user, "email") or f"{login}@noreply.{self._address.host}"

    def _path(self, rest: str = "") -> str:
        return f"/repos/{self._address.full_name}" + (f"/{rest}" if rest else "")

    def _web(self, page: str) -> str:
        return f"{self._client.root.removesuffix(API)}/{self._address.full_name}/{page}"

    def files_address(self, commit: str) -> str:
        """See `Forge`."""
        return self._web(f"src/commit/{commit}/")


def _is_draft(answer: object) -> bool:
    return flag_of(answer, "draft") or text_of(answer, "title").startswith(DRAFT)


def _head_branch(answer: object) -> str:
    """The branch of a pull request, also of one whose branch is gone."""
    ref = needed_text(answer, "head", "ref")
    return (text_of(answer, "head", "label") or ref) if ref.startswith(DELETED) else ref


def _by_name(labels: Iterable[object]) -> dict[str, int]:
    return {text_of(label, "name"): number_of(label, "id") for label in labels}


def _head_of_push(activity: object) -> str:
    """The newest commit of a push, which an activity holds as JSON in a text."""
    try:
        content: object = json.loads(text_of(activity, "content"))
    except (ValueError, RecursionError):
        return ""
    return text_of(content, "HeadCommit", "Sha1")


def _covers(rule: object, branch: str) -> bool:
    """Whether a rule is about a branch: its name, or a pattern in which `**` passes slashes and `*` does not."""
    words = re.split(r"(\*\*|\*|\?)", text_of(rule, "rule_name") or text_of(rule, "branch_name"))
    pattern = "".join(GLOBS.get(word) or re.escape(word) for word in words)
    return re.fullmatch(pattern, branch) is not None


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Gitea:
    """The forge of a remote; ConfigurationError names the setting that does not fit."""
    root, address = locate(remote, settings.url, API, kind="gitea", shape="OWNER/NAME", nests=False)
    given = needed_token(token, address, "GITEA_TOKEN")
    return Gitea(address, GiteaClient(root, given.text.strip(), token_name=given.source, run_ends_s=run_ends_s))
