"""Pull requests on GitHub and GitHub Enterprise Server."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.answers import flag_of, needed_text, number_of, text_of, time_of
from reconciler.forge.creating import create_once
from reconciler.forge.failures import ForbiddenError, NotFoundError
from reconciler.forge.github.answers import is_from, pull_request_of
from reconciler.forge.github.client import GitHubClient
from reconciler.forge.github.failures import UnprocessableError
from reconciler.forge.github.merging import merge_one, unschedule_one
from reconciler.forge.github.reviews import GitHubReviews
from reconciler.forge.github.rights import read_rights
from reconciler.forge.merging import MergeAnswer
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    ours_among,
)
from reconciler.forge.rights import Rights

logger = logging.getLogger(__name__)

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
