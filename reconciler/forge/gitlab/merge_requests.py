"""Pull requests on GitLab.com and self-managed GitLab, where they are called merge requests."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.forge.answers import find, flag_of, flag_or_none, list_of, number_of, text_of
from reconciler.forge.creating import create_once
from reconciler.forge.failures import ForbiddenError, NotFoundError
from reconciler.forge.gitlab.answers import CLOSED_STATES, OPEN_STATES, is_ours, pull_request_of, schedule_of
from reconciler.forge.gitlab.attached import LabelsAndReviewers
from reconciler.forge.gitlab.client import GitLabClient
from reconciler.forge.gitlab.failures import ConflictError
from reconciler.forge.gitlab.merging import merge_one, unschedule_one
from reconciler.forge.gitlab.reviews import GitLabReviews
from reconciler.forge.gitlab.rights import read_rights
from reconciler.forge.gitlab.texts import is_kept_as, text_to_send, title_of
from reconciler.forge.merging import MergeAnswer
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    host_and_path,
    ours_among,
)
from reconciler.forge.rights import Rights
from reconciler.forge.schedules import PipelineSchedule

logger = logging.getLogger(__name__)

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
