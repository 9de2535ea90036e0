"""Merge requests of GitLab.com and self-managed GitLab, as pull requests."""

import contextlib
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from urllib.parse import quote

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.hosted import (
    PAGE_SIZE,
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
    number_or_none,
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
    PipelineSchedule,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    Rights,
    Verdict,
    check_commit,
    host_and_path,
    ours_among,
    waiting,
)
from reconciler.http.messages import Clock, Credentials, Response, check_sendable
from reconciler.http.redaction import Redactor

# --- was reconciler/forge/gitlab/answers.py:
# Pull requests from GitLab's JSON, where they are called merge requests.

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


# --- was reconciler/forge/gitlab/failures.py:
# What a refusal of GitLab means.

NEEDED = "the scope api and at least the role Developer in this project"


class ConflictError(RivalRunError):
    """Raised for a 409: such a thing is there already, or somebody changed it at the same time."""


class GitLabJudge(Judge):
    """Judges GitLab's answers."""

    forge = "GitLab"
    limit_headers = "RateLimit"

    def messages(self, content: object) -> str:
        """See `Judge`; a message is a text, a list of them, or both by field."""
        if not isinstance(content, dict):
            return ""
        said = (content.get(name) for name in ("message", "error", "error_description"))
        return "; ".join(text for each in said for text in _texts(each))

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `Judge`."""
        if status == 409:
            return ConflictError(f"{shown} (somebody changed it at the same time)")
        return super().refusal(status, content, shown)

    def advice(self, status: int) -> str:
        """See `Judge`."""
        return redirect_advice(status) or {
            401: f"check that {self.token_name} holds a personal, project or group access token that is valid, not "
            "expired, and for this host; a CI_JOB_TOKEN may not do this",
            403: f"{self.token_name} needs {NEEDED}",
            404: f"check the project's path, and that {self.token_name} may see it: it needs {NEEDED}",
        }.get(status, "")


def _texts(said: object) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, list):
        for each in said:
            yield from _texts(each)
    elif isinstance(said, dict):
        for name, each in said.items():
            yield from (f"{name} {text}" for text in _texts(each))


# --- was reconciler/forge/gitlab/client.py:
# Requests to GitLab's REST API.

USELESS_TOKENS = {"glcbt-": "a CI_JOB_TOKEN", "gldt-": "a deploy token"}
"""What begins like this is known by GitLab, and may not write merge requests."""
NEXT_PAGE = "X-Next-Page"


class GitLabClient(ForgeClient):
    """One GitLab API through one access token; see `ForgeClient`, and `token_name` says where the token was read from.

    Raises ConfigurationError for a token that could never open a merge request.
    """

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
        _check_kind(token, token_name)
        clock = clock or Clock()
        super().__init__(
            root,
            Credentials(headers={"PRIVATE-TOKEN": token}, redactor=Redactor((token, f"x-access-token:{token}"))),
            GitLabJudge(token_name, clock.now_s),
            headers={},
            write_pause_s=write_pause_s,
            run_ends_s=run_ends_s,
            clock=clock,
        )

    def is_last(self, page: list[object], response: Response) -> bool:
        """See `ForgeClient`; a page may hold less than was asked for and not be the last, which a header tells."""
        if NEXT_PAGE in response.headers:
            return not response.headers[NEXT_PAGE].strip()
        return super().is_last(page, response)


def _check_kind(token: str, token_name: str) -> None:
    for beginning, kind in USELESS_TOKENS.items():
        if token.startswith(beginning):
            raise ConfigurationError(
                f"{token_name} holds {kind}, with which GitLab lets nobody open merge requests: make a project access "
                f"token with {NEEDED}, and scope write_repository"
            )


# --- was reconciler/forge/gitlab/attached.py:
# Labels and reviewers of a merge request: what is refused of them is a warning, the merge request stands.

logger = logging.getLogger(__name__)

TEAM = "team:"
SEPARATOR = ","
"""Stands between labels, and so in none."""


class LabelsAndReviewers:
    """Adds them to merge requests of the project at `path`; reviewers are users by name."""

    def __init__(self, client: GitLabClient, path: str) -> None:
        self._client = client
        self._path = path
        self._users: dict[str, int | None] = {}

    def form(self, labels: tuple[str, ...], reviewers: tuple[str, ...]) -> dict[str, object]:
        """The fields that a new merge request gets them by."""
        return _filled(labels=labels, reviewer_ids=self._user_ids(reviewers))

    def complete(
        self,
        shown: PullRequest,
        labels: tuple[str, ...],
        reviewers: tuple[str, ...],
        *,
        unlabel: tuple[str, ...] = (),
    ) -> PullRequest:
        """Add those that are not there, and take away the labels of `unlabel` that are.

        GitLab passes over what it does not take, and so do we with a warning.
        """
        gone = [label for label in unlabel if label in shown.labels]
        missing = [label for label in _fitting(labels) if label not in shown.labels]
        for label in set(labels) - set(_fitting(labels)):
            logger.warning("pull request %d stays without %s: GitLab's labels hold no comma", shown.number, label)
        path = f"{self._path}/merge_requests/{shown.number}"
        action = f"label pull request {shown.number} and ask for its reviews"
        try:
            asked = self._user_ids(reviewers)
            present = reviewers_of(self._client.get(path, action=action)) if asked else ()
            added = [each for each in asked if each not in present]
            form = _filled(add_labels=missing, remove_labels=gone, reviewer_ids=[*present, *added] if added else [])
            if not form:
                return shown
            completed = self._client.put(path, form, action=action)
            taken = pull_request_of(completed).labels
        except ReconcilerError as error:
            logger.warning("pull request %d stays without its labels or reviewers: %s", shown.number, error)
            return shown
        left = [label for label in missing if label not in taken]
        if left:
            logger.warning("pull request %d stays without %s: GitLab did not take it", shown.number, ", ".join(left))
        if not set(added) <= set(reviewers_of(completed)):
            logger.warning("pull request %d: GitLab did not ask all reviewers; Free asks one", shown.number)
        return replace(shown, labels=taken)

    def _user_ids(self, names: tuple[str, ...]) -> list[int]:
        """The numbers of users by name; who is not found, or a team, is a warning."""
        for name in names:
            if name not in self._users:
                self._users[name] = self._user_id(name)
        found = (self._users[name] for name in names)
        return [number for number in dict.fromkeys(found) if number is not None]

    def _user_id(self, name: str) -> int | None:
        if name.startswith(TEAM):
            logger.warning("%s: GitLab asks people for reviews, not groups: name them, or use approval rules", name)
            return None
        try:
            users = self._client.get("/users", action=f"look for the user {name}", query={"username": name})
            found = next((number_of(user, "id") for user in list_of(users)), None)
        except ReconcilerError as error:
            logger.warning("%s is not asked for reviews: %s", name, error)
            return None
        if found is None:
            logger.warning("%s: GitLab knows no such user, who is not asked for reviews", name)
        return found


def _fitting(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if SEPARATOR not in label]


def _filled(*, reviewer_ids: Sequence[int], **labels: Sequence[str]) -> dict[str, object]:
    """The fields of a form that hold anything; `labels` are those of one field."""
    joined = {field: SEPARATOR.join(_fitting(names)) for field, names in labels.items()}
    fields = {**joined, "reviewer_ids": list(reviewer_ids)}
    return {name: value for name, value in fields.items() if value}


# --- was reconciler/forge/gitlab/merging.py:
# Merging on GitLab: what was looked at and nothing else, as the rules of its project allow, and never around them.

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


# --- was reconciler/forge/gitlab/rights.py:
# What a token may do in a GitLab project, and what the project's rules forbid: asked without changing anything.

REPORTER, DEVELOPER, MAINTAINER = 20, 30, 40
PUSH_RULES: Mapping[str, str] = {
    "commit_message_regex": "commit messages of a pattern",
    "commit_message_negative_regex": "no commit messages of a pattern",
    "author_email_regex": "commit authors of a pattern",
    "branch_name_regex": "branch names of a pattern",
    "member_check": "commits by users of this GitLab only",
    "commit_committer_check": "commits with a verified address of the token's user only: take git.author out",
    "commit_committer_name_check": "commits with the name of the token's user only: take git.author out",
    "reject_unsigned_commits": "signed commits only",
    "reject_non_dco_commits": "signed-off commits only: set git.signOff",
}
"""Push rules that a commit of ours may break, by their fields; the ones of a Premium project or its group."""
CURES = Cures(
    opening="give TOKEN the role Developer and the scopes api and write_repository (Settings, Access tokens)",
    labelling="give TOKEN the role Reporter",
    refusals="let our account push to such branches, by force too, and change the push rule (Settings, Repository)",
    expiry="rotate TOKEN (Settings, Access tokens): a new one is another user, to whom our branches are strange",
)


def read_rights(client: GitLabClient, path: str, *, base: str, head: str) -> Rights:
    """The rights in the project at `path`; much of it is told to maintainers alone, or in paid tiers."""
    project = client.get(path, action="ask what the token may do")
    level = _level(client, path, project)
    push_rule = _ask(client, f"{path}/push_rule")
    return Rights(
        may_open=None if level is None else level >= DEVELOPER,
        may_label=None if level is None else level >= REPORTER,
        may_merge=_may_merge(client, path, base, level),
        allows_auto_merge=True,
        drops_approvals=flag_of(_ask(client, f"{path}/approvals"), "reset_approvals_on_push"),
        refusals=(*_protections(client, path, head, level), *_broken_rules(push_rule)),
        expires_at_s=time_of(_ask(client, "/personal_access_tokens/self"), "expires_at"),
        cures=CURES,
    )


def _level(client: GitLabClient, path: str, project: object) -> int | None:
    """The highest access level of the token's user: of the project, of its groups, or by another group's invitation."""
    told = (number_or_none(project, "permissions", each, "access_level") for each in ("project_access", "group_access"))
    levels = [level for level in told if level is not None]
    if levels:
        return max(levels)
    user = _ask(client, "/user")
    if number_or_none(user, "id") is None:
        return None
    if flag_of(user, "is_admin"):
        return MAINTAINER
    return number_or_none(_ask(client, f"{path}/members/all/{number_of(user, 'id')}"), "access_level")


def _may_merge(client: GitLabClient, path: str, base: str, level: int | None) -> bool | None:
    if level is None or level < DEVELOPER:
        return None if level is None else False
    branch = _ask(client, f"{path}/repository/branches/{quote(base, safe='')}")
    is_protected = flag_or_none(branch, "protected")
    if is_protected is None or level >= MAINTAINER:
        return None if is_protected is None else True
    return not is_protected or flag_of(branch, "developers_can_merge")


def _protections(client: GitLabClient, path: str, head: str, level: int | None) -> list[str]:
    """Protected branches whose pattern covers our head branches: each push of ours but the first is a forced one."""
    found = []
    for protection in list_of(_ask(client, f"{path}/protected_branches", {"per_page": PAGE_SIZE})):
        name = text_of(protection, "name")
        if not fnmatchcase(head, name.replace("[", "[[]").replace("?", "[?]")):
            continue
        allowed = [number_or_none(each, "access_level") for each in list_of(find(protection, "push_access_levels"))]
        least = min((each for each in allowed if each), default=None)
        if least is None or (level is not None and level < least):
            found.append(f"{name} is protected, and the token may not push to it")
        elif not flag_of(protection, "allow_force_push"):
            found.append(f"{name} is protected: no forced pushes")
    return found


def _broken_rules(push_rule: object) -> list[str]:
    return [words for field, words in PUSH_RULES.items() if find(push_rule, field) not in (None, False, "")]


def _ask(client: GitLabClient, path: str, query: Mapping[str, int] | None = None) -> object:
    """What is told only to some tokens or in some tiers; None where it is not."""
    try:
        return client.get(path, action="ask for the project's rules", query=query)
    except ConfigurationError as error:
        logger.debug("not told: %s", error)
        return None


# --- was reconciler/forge/gitlab/texts.py:
# Titles and texts as GitLab takes them: it acts on some of what a text holds, and keeps some of it otherwise.

TITLE_LIMIT = 255
COMMAND = re.compile(r"^(?=\r*/)", re.MULTILINE)
"""A line like `/merge` is an order to GitLab, given with our token; with a space before it, it is a text."""


def title_of(title: str, *, is_draft: bool) -> str:
    """A title as it is kept: a draft is one by how it begins, and spaces around it are dropped."""
    prefix = DRAFT if is_draft else ""
    return prefix + title[: TITLE_LIMIT - len(prefix)].strip()


def text_to_send(text: str) -> str:
    """`text` without anything that GitLab would take for an order."""
    return COMMAND.sub(" ", text)


def is_kept_as(text: str, kept: str) -> bool:
    """Whether GitLab, given `text`, shows `kept`: carriage returns and spaces at the end get lost."""
    return text_to_send(text).replace("\r", "").rstrip() == kept.replace("\r", "").rstrip()


# --- was reconciler/forge/gitlab/reviews.py:
# Comments (notes) and commit statuses on GitLab, of which only those by our own credential are ever read.

WORDS_LIMIT = 255
"""Characters of a status."""
_STATUS_STATES = {Verdict.SUCCESS: "success", Verdict.FAILURE: "failed", Verdict.NEUTRAL: "success"}


class GitLabReviews:
    """What reviews leave on the project at the REST path `path`."""

    def __init__(self, client: GitLabClient, path: str) -> None:
        self._client = client
        self._path = path
        self._author = 0

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Reviews`; what GitLab notes by itself in our name is no comment."""
        action, path = f"read the comments on pull request {number}", self._notes(number)
        query = {"sort": "asc", "order_by": "created_at"}
        notes = [note for page in self._client.pages(path, action=action, query=query) for note in page]
        found = {number_of(note, "id"): note for note in notes if self._is_ours(note, "author")}
        return tuple(
            Comment(key=str(key), body=text_of(found[key], "body"))
            for key in sorted(found)
            if not flag_of(found[key], "system")
        )

    def write_comment(self, number: int, body: str) -> None:
        """See `Reviews`."""
        form = {"body": text_to_send(body)}
        self._client.post(self._notes(number), form, action=f"comment on pull request {number}")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Reviews`."""
        path = f"{self._notes(number)}/{int(key)}"
        with contextlib.suppress(NotFoundError):
            self._client.put(path, {"body": text_to_send(body)}, action="edit a comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Reviews`."""
        with contextlib.suppress(NotFoundError):
            self._client.delete(f"{self._notes(number)}/{int(key)}", action="delete a comment")

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Reviews`; a status of GitLab knows no neutral, and a commit that no branch holds may get none."""
        check_commit(commit)
        wanted = {
            "state": _STATUS_STATES[status.verdict],
            "description": status.words[:WORDS_LIMIT],
            "name": status.context,
        }
        if self._is_shown(commit, wanted):
            return
        try:
            path = f"{self._path}/statuses/{commit}"
            self._client.post(path, wanted, action=f"set the status of {commit[:7]}")
        except NotFoundError as error:
            logger.warning("%s: a fork's commit has no status on GitLab", error)

    def _is_shown(self, commit: str, wanted: dict[str, str]) -> bool:
        """Whether the newest of its name says so already, and is ours."""
        path, action = f"{self._path}/repository/commits/{commit}/statuses", f"read the status of {commit[:7]}"
        query = {"name": wanted["name"]}
        found = [each for page in self._client.pages(path, action=action, query=query) for each in page]
        newest = max(found, key=lambda each: number_of(each, "id"), default=None)
        if newest is None or any(
            text_of(newest, {"state": "status"}.get(name, name)) != text for name, text in wanted.items()
        ):
            return False
        return self._is_ours(newest, "author")

    def _is_ours(self, answer: object, role: str) -> bool:
        return number_or_none(answer, role, "id") == self._own_id()

    def _own_id(self) -> int:
        if not self._author:
            self._author = number_of(self._client.get("/user", action="ask whose token this is"), "id")
        return self._author

    def _notes(self, number: int) -> str:
        return f"{self._path}/merge_requests/{number}/notes"


# --- was reconciler/forge/gitlab/merge_requests.py:
# Pull requests on GitLab.com and self-managed GitLab, where they are called merge requests.

API = "/api/v4"


def api_url(remote: str) -> str:
    """The REST root of the GitLab that a remote is on; a port counts where the remote is reached by http."""
    if remote.startswith(("https://", "http://")):
        scheme, _, rest = remote.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}{API}"
    return f"https://{host_and_path(remote)[0]}{API}"


class GitLab:
    """One project on GitLab, through an access token."""

    name = "gitlab"
    body_limit = 1_000_000  # GitLab takes 1,048,576; the rest is for people
    draws_mermaid = True

    def __init__(self, address: RepositoryAddress, client: GitLabClient) -> None:
        self._address = address
        self._client = client
        self._attached = LabelsAndReviewers(client, self._path())
        self.reviews = GitLabReviews(client, self._path())

    def check_access(self) -> None:
        """Ask for the project itself, which needs the token and the path to be right."""
        action = f"look for {self._address}"
        project = self._client.get(self._path(), action=action)
        found = text_of(project, "path_with_namespace")
        if found.lower() != self._address.full_name.lower():
            raise ConfigurationError(f"{action}: the project is now {found or 'another one'}: name it so")
        if flag_of(project, "archived"):
            raise ConfigurationError(f"{action}: the project is archived, which makes it read-only")
        is_off = flag_or_none(project, "merge_requests_enabled") is False
        if is_off or text_of(project, "merge_requests_access_level") == "disabled":
            raise ConfigurationError(f"{action}: merge requests are switched off (Settings, General, Visibility)")

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`."""
        return read_rights(self._client, self._path(), base=base, head=head)

    def schedules(self) -> tuple[PipelineSchedule, ...] | None:
        """See `Forge`; told from the role Developer on, and not where pipelines are switched off."""
        try:
            pages = self._client.pages(self._path("pipeline_schedules"), action="ask for pipeline schedules", query={})
            return tuple(schedule_of(answer) for page in pages for answer in page)
        except (ForbiddenError, NotFoundError) as error:
            logger.debug("no pipeline schedules are told: %s", error)
            return None

    def commit_address(self, commit: str) -> str:
        """A page of the project."""
        return f"{self._web}/-/commit/{commit}"

    def files_address(self, commit: str) -> str:
        """A page of the project."""
        return f"{self._web}/-/blob/{commit}/"

    def author(self) -> Identity:
        """The token's user, a bot for a project's or group's token, with the address that its commits are known by."""
        try:
            user = self._client.get("/user", action="ask whose token this is")
        except ForbiddenError as error:
            logger.debug("commits get a neutral author: %s", error)
            return NEUTRAL_IDENTITY
        username = text_of(user, "username")
        if not username:
            return NEUTRAL_IDENTITY
        private = f"{number_of(user, 'id')}-{username}@users.noreply.{self._address.host}"
        return Identity(name=text_of(user, "name") or username, email=text_of(user, "commit_email") or private)

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        # Open ones first: one that is closed in between is then seen twice, and the later word counts.
        answers = (*self._open(base), *self._closed_since(base, closed_since_s))
        shown = (pull_request_of(answer) for answer in answers if is_ours(answer))
        return ours_among(shown, head_prefix=head_prefix, base=base, closed_since_s=closed_since_s)

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
        form: dict[str, object] = {
            "source_branch": head,
            "target_branch": base,
            "title": title_of(title, is_draft=draft),
            "description": text_to_send(body),
            **self._attached.form(labels, reviewers),
        }
        action = f"propose {head}"

        def create() -> PullRequest:
            self._check_ahead(head, base, action)
            return pull_request_of(self._client.post(self._path("merge_requests"), form, action=action))

        try:
            created = create_once(
                create,
                lambda: self._find_open(head, base),
                refusals=(_NothingToProposeError, _UnseenBranchError, ConflictError),
                may_settle=lambda refusal: not isinstance(refusal, _NothingToProposeError),
                wait=self._client.wait,
            )
        except _NothingToProposeError:
            return None
        except _UnseenBranchError as refusal:
            raise self._explain_unseen(refusal, base) from None
        return self._attached.complete(created, labels, reviewers)

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
        action, path = f"update pull request {number}", self._path(f"merge_requests/{number}")
        current = pull_request_of(self._client.get(path, action=action))
        if not current.is_open:
            logger.info("pull request %d is %s, left as it is", number, current.state.value)
            return current
        form: dict[str, object] = {}
        if title is not None and title_of(title, is_draft=current.is_draft) != _full_title(current):
            form["title"] = title_of(title, is_draft=current.is_draft)
        if body is not None and not is_kept_as(body, current.body):
            form["description"] = text_to_send(body)
        if close:
            form["state_event"] = "close"
        updated = pull_request_of(self._client.put(path, form, action=action)) if form else current
        return self._attached.complete(updated, labels, reviewers, unlabel=unlabel)

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`."""
        action, path = f"update pull request {number}", self._path(f"merge_requests/{number}")
        current = pull_request_of(self._client.get(path, action=action))
        if current.state is PullRequestState.MERGED and not is_kept_as(body, current.body):
            self._client.put(path, {"description": text_to_send(body)}, action=action)

    def note_merge(self, number: int) -> None:
        """See `Forge`: GitLab marks it a moment after the push."""

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        found = {each.number: each for each in map(pull_request_of, self._open(base))}
        return tuple(found[number] for number in sorted(found) if found[number].is_open)

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`; GitLab keeps it up to date for every merge request."""
        return f"refs/merge-requests/{pull_request.number}/head"

    def _open(self, base: str) -> Iterator[object]:
        # The oldest first: what is opened while we read comes at the end and moves nothing to another page.
        for state in OPEN_STATES:
            query = {"state": state, "target_branch": base, "order_by": "created_at", "sort": "asc"}
            yield from self._listed("list open pull requests", query)

    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        """Closed ones: a pull request is never touched before it is closed."""
        since = datetime.fromtimestamp(max(0, int(since_s)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for state in CLOSED_STATES:
            query = {"state": state, "target_branch": base, "updated_after": since}
            ordered = {**query, "order_by": "updated_at", "sort": "desc"}
            yield from self._listed("list closed pull requests", ordered)

    def _find_open(self, head: str, base: str) -> PullRequest | None:
        query = {"state": "opened", "source_branch": head, "target_branch": base}
        for answer in self._listed(f"look for {head}", query):
            if is_ours(answer) and text_of(answer, "source_branch") == head:
                return pull_request_of(answer)
        return None

    def _listed(self, action: str, query: dict[str, str]) -> Iterator[object]:
        for page in self._client.pages(self._path("merge_requests"), action=action, query=query):
            yield from page

    def merge(self, number: int, *, head_commit: str, method: str = "") -> MergeAnswer:
        """See `Forge`."""
        return merge_one(self._client, self._path(), number, head_commit=head_commit, method=method)

    def unschedule(self, number: int) -> None:
        """See `Forge`."""
        unschedule_one(self._client, self._path(), number)

    def _check_ahead(self, head: str, base: str, action: str) -> None:
        """Raise where `head` holds nothing that `base` lacks: GitLab would open a pull request all the same."""
        query = {"from": base, "to": head, "straight": "false"}
        try:
            compared = self._client.get(self._path("repository/compare"), action=action, query=query)
        except NotFoundError as error:
            raise _UnseenBranchError(str(error)) from None
        if not list_of(find(compared, "commits")):
            raise _NothingToProposeError(f"{action}: {base} holds all of it")

    def _explain_unseen(self, refusal: "_UnseenBranchError", base: str) -> ReconcilerError:
        """What a comparison could not find: the base, or a head that is not visible yet."""
        try:
            self._client.get(self._path(f"repository/branches/{quote(base, safe='')}"), action="look for the base")
        except NotFoundError:
            return ConfigurationError(f"{refusal}; check that the base branch {base} exists")
        return refusal

    @property
    def _web(self) -> str:
        return f"{self._client.root.removesuffix(API)}/{self._address.full_name}"

    def _path(self, rest: str = "") -> str:
        return f"/projects/{quote(self._address.full_name, safe='')}" + (f"/{rest}" if rest else "")


class _NothingToProposeError(ReconcilerError):
    """Raised when a head branch holds nothing that its base lacks."""


class _UnseenBranchError(TransientError):
    """Raised when the head or base branch is not there, or not visible everywhere yet."""


def _full_title(shown: PullRequest) -> str:
    return title_of(shown.title, is_draft=shown.is_draft)
