"""Merge requests of GitLab.com and self-managed GitLab, as pull requests."""

import contextlib
import logging
import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import cast
from urllib.parse import quote

from reconciler.domain.records import replace
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.hosted import (
    PAGE_SIZE,
    SETTLING_WAITS_S,
    TITLE_LIMIT,
    ForbiddenError,
    ForgeClient,
    HostedForge,
    NotFoundError,
    NotMergeableError,
    find,
    flag_of,
    flag_or_none,
    list_of,
    locate,
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
    CommitStatus,
    Cures,
    ForgeToken,
    MergeAnswer,
    MergeState,
    PipelineSchedule,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    Rights,
    waiting,
)
from reconciler.http.messages import Response

logger = logging.getLogger(__name__)

API = "/api/v4"
DRAFT = "Draft: "
DRAFTS = re.compile(r"(?:\s*(?:\[draft\]|\(draft\)|draft:)\s*)+", re.IGNORECASE)
"""The beginnings of titles of drafts."""
STATES = {
    "opened": PullRequestState.OPEN,
    "locked": PullRequestState.OPEN,
    "merged": PullRequestState.MERGED,
    "closed": PullRequestState.CLOSED,
}
"""One that is `locked` is being merged right now."""
COMMAND = re.compile(r"^(?=\r*/)", re.MULTILINE)
"""GitLab executes a line like `/merge` with our token, but not with a space before it."""
SEPARATOR = ","
"""Separates labels, so no label can contain it."""
ACCOUNTS: Mapping[str, str] = {"reviewer_ids": "reviewers", "assignee_ids": "assignees"}
"""The fields that a merge request is written and read by."""
READY = "mergeable"
UNKNOWN = frozenset({"unchecked", "checking", "preparing", "approvals_syncing"})
WAITS: Mapping[str, str] = {
    "draft_status": "it is a draft",
    "conflict": "it conflicts with its base",
    "need_rebase": BEHIND,
    "requested_changes": "a review asks for changes",
}
"""States that do not change with time; other states are rules of the project that are not met yet."""
PASSED = frozenset({"", "success", "skipped"})
"""States of a pipeline that allow a merge; empty without one."""
FAILED = frozenset({"failed", "canceled", "canceling"})
KINDS: Mapping[str, str] = {"merge": "merge", "rebase_merge": "merge", "ff": "rebase"}
"""Our names for a project's merge method."""
NO_ONE, REPORTER, DEVELOPER, MAINTAINER = 0, 20, 30, 40
PUSH_RULES: Mapping[str, str] = {
    "commit_message_regex": "commit messages of a pattern",
    "commit_message_negative_regex": "no commit messages of a pattern",
    "author_email_regex": "commit authors of a pattern",
    "branch_name_regex": "branch names of a pattern",
    "member_check": "commits by users of this GitLab only",
    "commit_committer_check": "commits with a verified address of the token's user only: remove git.author",
    "commit_committer_name_check": "commits with the name of the token's user only: remove git.author",
    "reject_unsigned_commits": "signed commits only",
    "reject_non_dco_commits": "signed-off commits only: set git.signOff",
}
"""Push rules of a Premium project or its group that our commits may break, by their fields."""
CURES = Cures(
    opening="give TOKEN the role Developer and the scopes api and write_repository (Settings, Access tokens)",
    labelling="give TOKEN the role Reporter",
    protection="protect such branches, with our account alone (in GitLab Free: Maintainers) allowed to push and to "
    "merge, and forced pushes allowed (Settings, Repository, Protected branches)",
    refusals="let our account push to such branches, by force too, and change the push rule (Settings, Repository)",
    expiry="rotate TOKEN (Settings, Access tokens): a new one would be another user, who does not own our branches",
)
NEEDED = "the scope api and at least the role Developer in this project"
USELESS_TOKENS = {"glcbt-": "a CI_JOB_TOKEN", "gldt-": "a deploy token"}
"""Prefixes of tokens that may not write merge requests."""
NEXT_PAGE = "X-Next-Page"


class ConflictError(RivalRunError):
    """Raised for a 409: it exists already, or somebody changed it at the same time."""


class NothingToProposeError(ReconcilerError):
    """Raised when a head branch has nothing that its base lacks."""


class UnseenBranchError(TransientError):
    """Raised when the head or base branch does not exist, or is not visible everywhere yet."""


class GitLabClient(ForgeClient):
    """GitLab's REST API through one access token."""

    forge = "GitLab"
    limit_headers = "RateLimit"
    advice: Mapping[int, str] = {
        401: "check that {token} holds a personal, project or group access token that is valid, not expired, and for "
        "this host; a CI_JOB_TOKEN may not do this",
        403: f"{{token}} needs {NEEDED}",
        404: f"check the project's path, and that {{token}} may see it: it needs {NEEDED}",
    }

    def authorization(self, token: str) -> Mapping[str, str]:
        """See `ForgeClient`."""
        for beginning, kind in USELESS_TOKENS.items():
            if token.startswith(beginning):
                raise ConfigurationError(
                    f"{self.token_name} holds {kind}, which GitLab does not let open merge requests: make a "
                    f"project access token with {NEEDED}, and scope write_repository"
                )
        return {"PRIVATE-TOKEN": token}

    def messages(self, content: object) -> str:
        """See `ForgeClient`; a message is a text, a list of texts, or either by field."""
        reasons = (find(content, name) for name in ("message", "error", "error_description"))
        return "; ".join(text for each in reasons for text in _texts(each))

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `ForgeClient`."""
        if status == 409:
            return ConflictError(f"{shown} (somebody changed it at the same time)")
        return super().refusal(status, content, shown)

    def is_last(self, page: list[object], response: Response, seen: int) -> bool:
        """See `ForgeClient`; a short page may not be the last, which a header says."""
        if NEXT_PAGE in response.headers:
            return not response.headers[NEXT_PAGE].strip()
        return super().is_last(page, response, seen)


def _texts(message: object) -> Iterator[str]:
    if isinstance(message, str):
        yield message
    elif isinstance(message, list):
        for each in message:
            yield from _texts(each)
    elif isinstance(message, dict):
        for name, each in message.items():
            yield from (f"{name} {text}" for text in _texts(each))


def pull_request_of(answer: object) -> PullRequest:
    """The merge request in an answer; TransientError when a field is missing or wrong.

    It is in the merge queue if it is being merged right now.
    """
    number = number_of(answer, "iid")
    state = STATES.get(needed_text(answer, "state"), PullRequestState.CLOSED)
    is_open = state is PullRequestState.OPEN
    is_draft = flag_of(answer, "draft")
    title = needed_text(answer, "title")
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
        in_merge_queue=text_of(answer, "state") == "locked",
        closed_at_s=None if is_open else time_of(answer, "merged_at") or time_of(answer, "closed_at"),
        opened_at_s=time_of(answer, "created_at"),
        merged_as=tuple(filter(None, (text_of(answer, f"{name}_commit_sha") for name in ("merge", "squash")))),
        url=needed_text(answer, "web_url"),
    )


def is_ours(answer: object) -> bool:
    """Whether the head branch is in the project itself; a deleted fork has no number."""
    source = number_or_none(answer, "source_project_id")
    return source is not None and source == number_or_none(answer, "target_project_id")


class GitLab(HostedForge[GitLabClient]):
    """One project on GitLab."""

    name = "gitlab"
    writes_commits = True
    body_limit = 1_000_000  # GitLab takes 1,048,576; the rest is for people
    noun = "project"
    pulls = "merge_requests"
    head_ref_folder = "merge-requests"
    full_name_field = "path_with_namespace"
    login_field = "username"
    email_separator = "-"
    body_field = "description"
    update_method = "PUT"
    closing: Mapping[str, object] = {"state_event": "close"}
    create_refusals = (NothingToProposeError, UnseenBranchError, ConflictError)
    author_role = "author"
    issue_number = "iid"
    issue_query: Mapping[str, str] = {"scope": "created_by_me"}
    milestone_number = "id"
    milestone_query: Mapping[str, str] = {"state": "active", "include_ancestors": "true"}
    comment_query: Mapping[str, str] = {"sort": "asc", "order_by": "created_at"}
    status_author = "author"
    status_limit = 255
    status_failure = "failed"

    def __init__(self, address: RepositoryAddress, client: GitLabClient) -> None:
        super().__init__(address, client)
        self._users: dict[str, int | None] = {}

    def _check_usable(self, repository: object, action: str) -> None:
        is_off = flag_or_none(repository, "merge_requests_enabled") is False
        if is_off or text_of(repository, "merge_requests_access_level") == "disabled":
            raise ConfigurationError(f"{action}: merge requests are switched off (Settings, General, Visibility)")

    def _email_of(self, user: object, login: str) -> str:
        return text_of(user, "commit_email") or super()._email_of(user, login)

    def schedules(self) -> tuple[PipelineSchedule, ...] | None:
        """See `Forge`; shown to Developers and above, and not if pipelines are disabled."""
        try:
            listed = self._client.entries(self._path("pipeline_schedules"), action="ask for pipeline schedules")
            return tuple(
                PipelineSchedule(
                    name=text_of(answer, "description"),
                    cron=needed_text(answer, "cron"),
                    branch=needed_text(answer, "ref").removeprefix("refs/heads/"),
                    is_active=flag_of(answer, "active"),
                )
                for answer in listed
            )
        except (ForbiddenError, NotFoundError) as error:
            logger.debug("no pipeline schedules are shown: %s", error)
            return None

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`; most are shown only to maintainers, or in paid tiers."""
        project = self._client.get(self._path(), action="ask what the token may do")
        level = self._level(project)
        push_rule = self._ask(self._path("push_rule"))
        broken = (words for field, words in PUSH_RULES.items() if find(push_rule, field) not in (None, False, ""))
        may_merge: bool | None = None if level is None else False
        if level is not None and level >= DEVELOPER:
            branch = self._ask(self._path(f"repository/branches/{quote(base, safe='')}"))
            is_protected = flag_or_none(branch, "protected")
            is_allowed = level >= MAINTAINER or not is_protected or flag_of(branch, "developers_can_merge")
            may_merge = None if is_protected is None else is_allowed
        return Rights(
            may_open=None if level is None else level >= DEVELOPER,
            may_label=None if level is None else level >= REPORTER,
            may_merge=may_merge,
            allows_auto_merge=True,
            drops_approvals=flag_of(self._ask(self._path("approvals")), "reset_approvals_on_push"),
            is_strict=_is_strict(project),
            refusals=(*self._refusals(head, level), *broken),
            only_ours=self._are_only_ours(head),
            expires_at_s=time_of(self._ask("/personal_access_tokens/self"), "expires_at"),
            cures=CURES,
        )

    def is_strict(self, base: str) -> bool:
        """See `Forge`: of projects that merge by fast-forward, or keep a history that is nearly one line."""
        del base
        return _is_strict(self._ask(self._path()))

    def _level(self, project: object) -> int | None:
        """The highest access level of the token's user, from the project, its groups, or an invited group."""
        kinds = ("project_access", "group_access")
        shown = (number_or_none(project, "permissions", each, "access_level") for each in kinds)
        levels = [level for level in shown if level is not None]
        if levels:
            return max(levels)
        user = self._ask("/user")
        if number_or_none(user, "id") is None:
            return None
        if flag_of(user, "is_admin"):
            return MAINTAINER
        return number_or_none(self._ask(self._path(f"members/all/{number_of(user, 'id')}")), "access_level")

    def _protections(self, head: str) -> list[object] | None:
        """Protected branches that match our head branches; None where they are not shown."""
        shown = self._ask(self._path("protected_branches"), {"per_page": PAGE_SIZE})
        names = ((each, text_of(each, "name")) for each in list_of(shown))
        found = [each for each, name in names if fnmatchcase(head, name.replace("[", "[[]").replace("?", "[?]"))]
        return None if shown is None else found

    def _are_only_ours(self, head: str) -> bool | None:
        """Whether developers may not push to our head branches; GitLab lets pass whom any protection lets."""
        protections = self._protections(head)
        if not protections:
            return None if protections is None else False
        levels = [each for one in protections for each in list_of(find(one, "push_access_levels"))]
        open_to = (number_or_none(each, "access_level") for each in levels if find(each, "user_id") is None)
        return all(level is None or level == NO_ONE or level >= MAINTAINER for level in open_to)

    def _refusals(self, head: str, level: int | None) -> Iterator[str]:
        """What protections of our head branches refuse us: all our pushes but the first are forced."""
        for protection in self._protections(head) or ():
            name = text_of(protection, "name")
            allowed = [number_or_none(each, "access_level") for each in list_of(find(protection, "push_access_levels"))]
            least = min((each for each in allowed if each), default=None)
            if least is None or (level is not None and level < least):
                yield f"{name} is protected, and the token may not push to it"
            elif not flag_of(protection, "allow_force_push"):
                yield f"{name} is protected: no forced pushes"

    def _ask(self, path: str, query: Mapping[str, int] | None = None) -> object:
        """Data that is shown only to some tokens or in some tiers; None if it is not."""
        try:
            return self._client.get(path, action="ask for the project's rules", query=query)
        except ConfigurationError as error:
            logger.debug("not shown: %s", error)
            return None

    def write_commit(
        self, branch: str, *, parent: str, files: Mapping[str, bytes], created: Collection[str], message: str
    ) -> None:
        """See `Forge`."""
        actions = [
            {
                "action": "create" if path in created else "update",
                "file_path": path,
                "content": b64encode(files[path]).decode(),
                "encoding": "base64",
            }
            for path in sorted(files)
        ]
        form = {"branch": branch, "start_sha": parent, "commit_message": message, "actions": actions}
        self._client.write("POST", self._path("repository/commits"), form, action=f"commit to {branch}")

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`; the events are those of our account, after a day."""
        day_before = datetime.fromtimestamp(max(0.0, since_s - 2 * 86400.0), UTC).date()
        query = {"action": "pushed", "after": day_before.isoformat(), "sort": "desc"}
        for event in self._client.entries("/events", action=f"ask who pushed {branch}", query=query):
            push = find(event, "push_data")
            if (text_of(push, "ref_type"), text_of(push, "ref"), text_of(push, "commit_to")) == (
                "branch",
                branch,
                commit,
            ):
                return time_of(event, "created_at")
        return None

    def _open(self, base: str = "") -> Iterator[object]:
        for state in ("opened", "locked"):
            query = {"state": state, "order_by": "created_at", "sort": "asc"} | (
                {"target_branch": base} if base else {}
            )
            yield from self._client.entries(self._path(self.pulls), action="list open pull requests", query=query)

    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        since = datetime.fromtimestamp(max(0, int(since_s)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ordered = {"order_by": "updated_at", "sort": "desc"}
        for state in ("closed", "merged"):
            query = {"state": state, "target_branch": base, "updated_after": since, **ordered}
            yield from self._client.entries(self._path(self.pulls), action="list closed pull requests", query=query)

    def _find_open(self, head: str, base: str) -> PullRequest | None:
        query = {"state": "opened", "source_branch": head, "target_branch": base}
        for answer in self._client.entries(self._path(self.pulls), action=f"look for {head}", query=query):
            if is_ours(answer) and text_of(answer, "source_branch") == head:
                return self._shown(answer)
        return None

    def _propose(self, wanted: PullRequest, assignment: Assignment) -> object:
        """See `HostedForge`. GitLab would also open one for a head that has nothing that its base lacks."""
        head, base = wanted.head_branch, wanted.base_branch
        action, attached = f"propose {head}", dict[str, object]()
        with contextlib.suppress(ReconcilerError):  # labels say that it is complete: they wait for the others
            attached = {**_joined(labels=wanted.labels), **self._assigned(assignment, None)}
        query = {"from": base, "to": head, "straight": "false"}
        try:
            compared = self._client.get(self._path("repository/compare"), action=action, query=query)
        except NotFoundError as error:
            raise UnseenBranchError(str(error)) from None
        if not list_of(find(compared, "commits")):
            raise NothingToProposeError(f"{action}: {base} has all of it")
        form = {"source_branch": head, "target_branch": base, "title": wanted.title, "description": wanted.body}
        return self._client.write("POST", self._path(self.pulls), {**form, **attached}, action=action)

    def _may_settle(self, refusal: ReconcilerError) -> bool:
        return not isinstance(refusal, NothingToProposeError)

    def _create_error(self, refusal: ReconcilerError, base: str) -> ReconcilerError | None:
        if isinstance(refusal, UnseenBranchError):  # the base does not exist, or the head is not visible yet
            try:
                self._client.get(self._path(f"repository/branches/{quote(base, safe='')}"), action="look for the base")
            except NotFoundError:
                return ConfigurationError(f"{refusal}; check that the base branch {base} exists")
        return None if isinstance(refusal, NothingToProposeError) else refusal

    def _attach(
        self, shown: PullRequest, labels: tuple[str, ...], assignment: Assignment, unlabel: tuple[str, ...] = ()
    ) -> PullRequest:
        """See `HostedForge`. GitLab silently ignores labels and accounts; each of them is a warning here."""
        gone = [label for label in unlabel if label in shown.labels]
        missing = [label for label in _fitting(labels) if label not in shown.labels]
        for label in set(labels) - set(_fitting(labels)):
            logger.warning("pull request %d stays without %s: labels on GitLab have no comma", shown.number, label)
        path = self._path(f"{self.pulls}/{shown.number}")
        action = f"label pull request {shown.number} and ask for its reviews"
        try:
            present = self._client.get(path, action=action) if assignment else None
            assigned = self._assigned(assignment, present)
            form = {**_joined(add_labels=missing, remove_labels=gone), **assigned}
            if not form:
                return shown
            completed = self._client.write("PUT", path, form, action=action)
            taken = pull_request_of(completed).labels
        except ReconcilerError as error:
            logger.warning("pull request %d stays without its labels or reviewers: %s", shown.number, error)
            return replace(shown, is_asked=False)
        left = [label for label in missing if label not in taken]
        if left:
            logger.warning("pull request %d stays without %s: GitLab ignored it", shown.number, ", ".join(left))
        for field, kept in ACCOUNTS.items():
            if not set(cast(list[int], assigned.get(field, []))) <= set(_accounts_of(completed, kept)):
                logger.warning("pull request %d: GitLab did not take all %s; Free takes one", shown.number, kept)
        return replace(shown, labels=taken)

    def _assigned(self, assignment: Assignment, present: object) -> dict[str, object]:
        """The fields that give a merge request, as it is, what it lacks of an assignment."""
        form: dict[str, object] = {}
        for (field, kept), names in zip(ACCOUNTS.items(), (assignment.reviewers, assignment.assignees), strict=True):
            known, wanted = _accounts_of(present, kept), self._user_ids(names)
            if missing := [each for each in wanted if each not in known]:
                form[field] = [*known, *missing]
        if assignment.milestone and find(present, "milestone") is None:
            milestone = self._milestone(assignment.milestone, "assign a merge request")
            form |= {} if milestone is None else {"milestone_id": milestone}
        return form

    def _user_ids(self, names: tuple[str, ...]) -> list[int]:
        """The numbers of users by name; an unknown one, or a team, is a warning."""
        for name in names:
            if name not in self._users:
                self._users[name] = self._find_user(name)
        found = (self._users[name] for name in names)
        return [number for number in dict.fromkeys(found) if number is not None]

    def _find_user(self, name: str) -> int | None:
        if name.startswith("team:"):
            logger.warning("%s: GitLab asks people for reviews, not groups: name them, or use approval rules", name)
            return None
        try:
            users = self._client.get("/users", action=f"look for the user {name}", query={"username": name})
            found = next((number_of(user, "id") for user in list_of(users)), None)
        except (ForbiddenError, NotFoundError) as error:
            logger.warning("%s is neither asked for reviews nor assigned: %s", name, error)
            return None
        if found is None:
            logger.warning("%s: there is no such user on GitLab to ask for reviews or to assign", name)
        return found

    def _look(self, number: int) -> object:
        for wait_s in (*SETTLING_WAITS_S, None):
            answer = self._client.get(self._path(f"{self.pulls}/{number}"), action=f"look at pull request {number}")
            is_known = text_of(answer, "detailed_merge_status") not in UNKNOWN
            if wait_s is None or text_of(answer, "state") != "opened" or is_known:
                break
            self._client.wait(wait_s)
        return answer

    def _merge(self, answer: object, found: PullRequest, method: str) -> MergeAnswer:
        number, status = found.number, needed_text(answer, "detailed_merge_status")
        rules = f"rules of the project are not met ({status.replace('_', ' ')})"
        words = "its pipeline has not finished" if status == READY else rules
        if found.is_scheduled or text_of(answer, "state") == "locked":
            if found.is_draft or status in WAITS:
                return waiting(WAITS["draft_status" if found.is_draft else status])
            return MergeAnswer(state=MergeState.SCHEDULED, words=words)
        if flag_or_none(answer, "user", "can_merge") is False:
            raise ConfigurationError(
                f"merge pull request {number}: the token may not merge into {found.base_branch}: let it (Settings, "
                "Repository, Protected branches), or give it a role that may"
            )
        pipeline = text_of(answer, "head_pipeline", "status")
        if find(answer, "head_pipeline") is not None and text_of(answer, "head_pipeline", "sha") != found.head_commit:
            pipeline = "created"  # it ran for an older commit: none ran for this one yet
        if obstacle := self._obstacle(answer, number, status, pipeline):
            return waiting(obstacle)
        project = self._client.get(self._path(), action="ask how the project merges")
        form = {"sha": found.head_commit, "squash": _squashes(project, method)}
        place = self._path(f"{self.pulls}/{number}")
        if flag_of(project, "merge_trains_enabled"):  # we never bypass the train
            action, path = f"put pull request {number} on the merge train", f"merge_trains/{self.pulls}/{number}"
            try:
                self._client.write("POST", self._path(path), {**form, "auto_merge": True}, action=action)
            except NotMergeableError as refusal:
                return waiting(str(refusal))
            return MergeAnswer(state=MergeState.SCHEDULED, words="the merge train takes it")
        if status != READY or pipeline not in PASSED:
            # Without a field that it knows GitLab would merge at once, so it gets the old name and the new one.
            order = {**form, "auto_merge": True, "merge_when_pipeline_succeeds": True}
            try:
                action = f"have GitLab merge pull request {number}"
                merged = self._shown(self._client.write("PUT", f"{place}/merge", order, action=action))
            except NotMergeableError as refusal:
                return waiting(f"{words} ({refusal})")
            if merged.state is PullRequestState.MERGED:
                return MergeAnswer(state=MergeState.MERGED)
            return MergeAnswer(state=MergeState.SCHEDULED, words=words)
        try:
            self._client.write("PUT", f"{place}/merge", form, action=f"merge pull request {number}")
        except TransientError as refusal:  # a NotMergeableError is one too
            now = self._shown(self._client.get(place, action=f"look at pull request {number}"))
            if now.state is not PullRequestState.MERGED:
                if not isinstance(refusal, NotMergeableError):
                    raise
                return waiting(str(refusal))
            # merged: the answer to the first attempt was lost
        return MergeAnswer(state=MergeState.MERGED)

    def _obstacle(self, answer: object, number: int, status: str, pipeline: str) -> str:
        """Why it is neither merged nor scheduled now; empty when it may be.

        GitLab itself would merge it with a failed check, if the project does not require checks, and in its Free tier
        with a review that requests changes.
        """
        if status in UNKNOWN:
            return "GitLab has not found out yet whether it can be merged"
        if flag_of(answer, "draft"):
            return WAITS["draft_status"]
        if status in WAITS:
            return WAITS[status]
        if pipeline in FAILED:
            return "its pipeline failed"
        path = self._path(f"{self.pulls}/{number}/reviewers")
        reviews = list_of(self._client.get(path, action=f"ask for reviews of {number}"))
        asks_for_changes = any(text_of(review, "state") == "requested_changes" for review in reviews)
        return WAITS["requested_changes"] if asks_for_changes else ""

    def _unschedule(self, answer: object, number: int) -> None:
        del answer
        path, action = f"{self.pulls}/{number}", f"keep GitLab from merging pull request {number}"
        self._client.write("POST", self._path(f"{path}/cancel_merge_when_pipeline_succeeds"), {}, action=action)

    def _comments(self, number: int) -> str:
        return self._path(f"{self.pulls}/{number}/notes")

    def _comment(self, number: int, key: str) -> str:
        return f"{self._comments(number)}/{int(key)}"

    def _is_comment(self, answer: object) -> bool:
        return not flag_of(answer, "system")  # GitLab's own notes have our name

    def _status_form(self, status: CommitStatus) -> dict[str, str]:
        form = super()._status_form(status)
        return {"state": form["state"], "description": form["description"], "name": form["context"]}

    def _shown_status(self, commit: str, context: str) -> Mapping[str, object] | None:
        path, action = self._path(f"repository/commits/{commit}/statuses"), f"read the status of {commit[:7]}"
        listed = self._client.entries(path, action=action, query={"name": context})
        newest = max(listed, key=lambda each: number_of(each, "id"), default=None)
        return {**newest, "state": newest.get("status")} if isinstance(newest, Mapping) else None

    def _post_status(self, commit: str, form: Mapping[str, object]) -> None:
        try:
            super()._post_status(commit, form)
        except NotFoundError as error:
            logger.warning("%s: a fork's commit has no status on GitLab", error)

    def _is_from_here(self, answer: object) -> bool:
        return is_ours(answer)

    def _shown(self, answer: object) -> PullRequest:
        found = pull_request_of(answer)
        if found.is_open and flag_of(answer, "merge_when_pipeline_succeeds"):
            return self._scheduled(found, answer, "merge_user")
        return found

    def _title_to_send(self, title: str, *, is_draft: bool) -> str:
        """See `HostedForge`: drafts have a prefix, and GitLab strips spaces."""
        prefix = DRAFT if is_draft else ""
        return prefix + title[: TITLE_LIMIT - len(prefix)].strip()

    def _full_title(self, shown: PullRequest) -> str:
        return self._title_to_send(shown.title, is_draft=shown.is_draft)

    def _text_to_send(self, text: str) -> str:
        return COMMAND.sub(" ", text)

    def _labels_to_send(self, label: str) -> object:
        return label

    def _is_kept_as(self, text: str, kept: str) -> bool:
        """See `HostedForge`: GitLab drops carriage returns and trailing spaces."""
        return self._text_to_send(text).replace("\r", "").rstrip() == kept.replace("\r", "").rstrip()

    def _path(self, rest: str = "") -> str:
        return f"/projects/{quote(self._address.full_name, safe='')}" + (f"/{rest}" if rest else "")

    def _web(self, page: str) -> str:
        return f"{self._client.root.removesuffix(API)}/{self._address.full_name}/-/{page}"


def _fitting(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if SEPARATOR not in label]


def _joined(**labels: Sequence[str]) -> dict[str, object]:
    joined = {field: SEPARATOR.join(_fitting(names)) for field, names in labels.items()}
    return {name: value for name, value in joined.items() if value}


def _accounts_of(answer: object, field: str) -> list[int]:
    numbers = (number_or_none(each, "id") for each in list_of(find(answer, field)))
    return [number for number in numbers if number is not None]


def _is_strict(project: object) -> bool:
    """Whether branches must be up to date to be merged; a merge train sees to that by itself."""
    is_linear = text_of(project, "merge_method") in ("ff", "rebase_merge")
    return is_linear and not flag_of(project, "merge_trains_enabled")


def _squashes(project: object, method: str) -> bool:
    """Whether its commits are squashed, by our setting or the project's; ConfigurationError if that is not allowed."""
    squashing = text_of(project, "squash_option")
    kind = KINDS.get(text_of(project, "merge_method"), "merge")
    allowed = [name for name, is_one in ((kind, squashing != "always"), ("squash", squashing != "never")) if is_one]
    if method and method not in allowed:
        raise ConfigurationError(f"pullRequests.mergeMethod: the project allows {', '.join(allowed)}, not {method}")
    return (method or allowed[0]) == "squash"


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> GitLab:
    """The forge of a remote; ConfigurationError names the setting that does not fit."""
    root, address = locate(remote, settings.url, API, kind="gitlab", shape="GROUP/PROJECT", nests=True)
    given = needed_token(token, address, "GITLAB_TOKEN")
    return GitLab(address, GitLabClient(root, given.text.strip(), token_name=given.source, run_ends_s=run_ends_s))
