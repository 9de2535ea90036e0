"""Hosted forges: requests to a REST API, untrusted answers, refusals, and the lifecycle of a pull request."""

import contextlib
import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from reconciler.domain.answers import parse_json
from reconciler.domain.records import replace
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    NO_ASSIGNMENT,
    Assignment,
    Comment,
    CommitStatus,
    ForgeToken,
    MergeAnswer,
    MergeState,
    PlainForge,
    PullRequest,
    PullRequestState,
    RepositoryAddress,
    Rights,
    Verdict,
    check_commit,
    check_same,
    host_and_path,
    ours_among,
    parse_nested_remote,
    waiting,
)
from reconciler.http.door import Door
from reconciler.http.messages import (
    MIB,
    Clock,
    Credentials,
    Failure,
    FailureKind,
    FailurePlace,
    Limits,
    Request,
    Response,
    check_sendable,
)
from reconciler.http.redaction import Redactor, checked_root, sends_in_the_clear

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 60.0
"""Longer waits that a forge requests are left to the next run."""
PATIENT_WAIT_S = 60.0
"""How long to wait when a forge limits requests without a time."""
LIMITS = Limits(total_s=300.0, body_bytes=64 * MIB, backoff_s=1.0, retry_after_s=LONGEST_WAIT_S, parallel=1)
PAGE_SIZE = 100
MAX_PAGES = 500
MAX_VALUES = 1_000_000
"""Values of JSON in one answer: a page of a hundred pull requests has some ten thousand."""
WRITE_PAUSE_S = 1.0
"""GitHub's advice against its secondary limits, and polite elsewhere."""
MAX_DIGITS = 15
SETTLING_WAITS_S = (1.0, 2.0, 4.0)
"""A new branch or pull request, and whether it can be merged, takes time to appear."""
TITLE_LIMIT = 255


# Values from a forge's JSON, which may differ from its documentation.


def text_of(answer: object, *path: str) -> str:
    """The text at `path`; empty when there is none."""
    value = find(answer, *path)
    return value if isinstance(value, str) else ""


def needed_text(answer: object, *path: str) -> str:
    """The text at `path`; TransientError when there is none."""
    text = text_of(answer, *path)
    if not text:
        raise _unexpected("a text", path)
    return text


def flag_of(answer: object, *path: str) -> bool:
    """Whether `path` holds true."""
    return find(answer, *path) is True


def flag_or_none(answer: object, *path: str) -> bool | None:
    """The truth value at `path`; None when there is none."""
    value = find(answer, *path)
    return value if isinstance(value, bool) else None


def number_or_none(answer: object, *path: str) -> int | None:
    """The whole number at `path`; None when there is none."""
    value = find(answer, *path)
    return value if type(value) is int else None


def number_of(answer: object, *path: str) -> int:
    """The whole number at `path`; TransientError when there is none."""
    number = number_or_none(answer, *path)
    if number is None:
        raise _unexpected("a whole number", path)
    return number


def list_of(answer: object) -> list[object]:
    """A list; empty for anything else."""
    return answer if isinstance(answer, list) else []


def time_of(answer: object, *path: str) -> float | None:
    """The time at `path` in Unix seconds, UTC without a zone; None when there is none, TransientError if invalid."""
    text = text_of(answer, *path)
    try:
        moment = datetime.fromisoformat(text) if text else None
        return None if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _unexpected("a time", path) from None


def find(answer: object, *path: str) -> object:
    """The value at `path`; None when there is none."""
    for name in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def _unexpected(expected: str, path: tuple[str, ...]) -> TransientError:
    return TransientError(f"the forge's answer: expected {expected} at {'.'.join(path)}; is this its API?")


class ForbiddenError(ConfigurationError):
    """Raised for a 403 that is not a limit: the token is known, but may not do this."""


class NotFoundError(ConfigurationError):
    """Raised for a 404: it does not exist, or the token may not see it."""


class UnprocessableError(TransientError):
    """Raised for a 422: a field has a value that does not fit, or nothing differs."""


class NotMergeableError(TransientError):
    """Raised for a 405: a pull request cannot be merged now, or rules of its base forbid it."""


_REFUSALS = (ForbiddenError, NotFoundError, UnprocessableError)
"""Errors that another run would meet again."""


class ForgeClient(ABC):
    """One REST API through one token; `token_name` is the source of the token.

    `root` is the address of the API. Writes are `write_pause_s` apart; no request is sent after `run_ends_s`, in the
    clock's own seconds.
    """

    forge: str
    """Its name, for people."""
    limit_headers: str
    """The prefix of the headers that describe its limits."""
    advice: Mapping[int, str]
    """What to do about a status; `{token}` is the source of the token. A status without advice is temporary."""
    headers: Mapping[str, str] = {}
    page_size_name = "per_page"

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
        self.root = root
        self.token_name = token_name
        redactor = Redactor((token, f"x-access-token:{token}"))
        self.credentials = Credentials(headers=self.authorization(token), redactor=redactor)
        self._write_pause_s = write_pause_s
        self._wrote_s = float("-inf")
        self._clock = clock or Clock()
        advice = {
            FailureKind.REDIRECTED: "credentials never follow there: name the repository's present address",
            FailureKind.TOO_LARGE: f"is this {self.forge}'s API?",
        }
        self._door = Door(replace(LIMITS, run_ends_s=run_ends_s), self._judge, advice=advice, clock=self._clock)

    @abstractmethod
    def authorization(self, token: str) -> Mapping[str, str]:
        """The headers with the token; ConfigurationError for a kind of token that never works."""

    @abstractmethod
    def messages(self, content: object) -> str:
        """The forge's own words in an unsuccessful answer, unchanged."""

    def is_limit(self, response: Response, content: object) -> bool:
        """Whether the forge, or what is before it, asks to wait."""
        del content
        return response.status == 429 or (response.status == 403 and "Retry-After" in response.headers)

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """The error for an answer that is not retried."""
        del content
        if status == 409:
            return RivalRunError(f"{shown} (somebody changed it at the same time)")
        if status == 405:
            return NotMergeableError(shown)
        advice = self.advice.get(status, "").format(token=self.token_name)
        if 300 <= status < 400:
            advice = "credentials never follow a redirect: name the repository's present address"
        kinds: dict[int, type[ConfigurationError]] = {403: ForbiddenError, 404: NotFoundError}
        return kinds.get(status, ConfigurationError)(f"{shown}; {advice}") if advice else TransientError(shown)

    def is_spent(self, response: Response) -> bool:
        """Whether its headers say that a limit is used up."""
        return response.headers.get(f"{self.limit_headers}-Remaining") == "0"

    def is_last(self, page: list[object], response: Response, seen: int) -> bool:
        """Whether a page of a list is the last one; `seen` counts all entries so far, its own too."""
        del response, seen
        return len(page) < PAGE_SIZE

    def get(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> object:
        """The JSON at `path`; errors name the `action`."""
        return self.send("GET", f"{self.root}{path}", action=action, query=query)[0]

    def pages(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> Iterator[list[object]]:
        """The pages of a list, by number: addresses from the server are never followed."""
        seen = 0
        for number in range(1, MAX_PAGES + 1):
            numbered = {**(query or {}), self.page_size_name: PAGE_SIZE, "page": number}
            page, response = self.send("GET", f"{self.root}{path}", action=action, query=numbered)
            if not isinstance(page, list):
                raise TransientError(f"{action}: expected a list, found {type(page).__name__}")
            yield page
            seen += len(page)
            if self.is_last(page, response, seen):
                return
        raise TransientError(f"{action}: more than {MAX_PAGES * PAGE_SIZE} entries")

    def entries(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> Iterator[object]:
        """The entries of all pages of a list; a page is read when its first entry is needed."""
        for page in self.pages(path, action=action, query=query):
            yield from page

    def write(self, method: str, path: str, body: Mapping[str, object] | None, *, action: str) -> object:
        """Send a write, after a pause since the last one."""
        pause_s = self._wrote_s + self._write_pause_s - self._clock.monotonic()
        if pause_s > 0:
            self._clock.sleep(pause_s)
        try:
            return self.send(method, f"{self.root}{path}", action=action, body=body, is_write=True)[0]
        finally:
            self._wrote_s = self._clock.monotonic()

    def send(
        self,
        method: str,
        url: str,
        *,
        action: str,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
        is_write: bool = False,
    ) -> tuple[object, Response]:
        """Any request; its answer as JSON (None if it is empty), and the response."""
        request = Request(
            method=method,
            url=url,
            action=action,
            query=query or {},
            json=body,
            headers=self.headers,
            is_write=is_write,
        )
        response = self._door.ask(request, lambda: self.credentials)
        if isinstance(response, Failure):
            raise response.error
        try:
            content = response.content
            return parse_json(content, most_values=MAX_VALUES) if content.strip() else None, response
        except ValueError:
            raise TransientError(f"{action}: the answer is not JSON; is this {self.forge}'s API?") from None

    def wait(self, seconds: float) -> None:
        """Give the forge time until the last write is visible everywhere."""
        self._clock.sleep(seconds)

    def _judge(self, response: Response, place: FailurePlace) -> Failure | None:
        """The error of an answer, by its status and headers, never by its English text; None for a success."""
        if response.is_success:
            return None
        try:
            content: object = json.loads(response.content)
        except (ValueError, RecursionError):
            content = None
        words = response.redactor.show(self.messages(content)) or "no message"
        shown = f"{place.action}: {self.forge} answered {response.status}: {words}"
        if self.is_limit(response, content):
            wait_s = self._wait_s(response)
            error = TransientError(f"{shown} (it asks to wait for {wait_s:.0f} s)")
            patience_s = wait_s if wait_s <= LONGEST_WAIT_S else None
            return Failure(kind=FailureKind.REJECTED, error=error, wait_s=patience_s)
        if response.status >= 500:
            return Failure(kind=FailureKind.REJECTED, error=TransientError(shown), wait_s=0.0)
        return Failure(kind=FailureKind.REJECTED, error=self.refusal(response.status, content, shown))

    def _wait_s(self, response: Response) -> float:
        if response.retry_after_s is not None:
            return response.retry_after_s
        reset = response.headers.get(f"{self.limit_headers}-Reset", "")
        if self.is_spent(response) and reset.isascii() and reset.isdigit() and len(reset) <= MAX_DIGITS:
            return max(0.0, float(reset) - self._clock.now_s())
        return PATIENT_WAIT_S


Client = TypeVar("Client", bound=ForgeClient)


class HostedForge(PlainForge, ABC, Generic[Client]):
    """One repository on a hosted forge, through a token; `Forge` describes the methods.

    A forge defines names of fields and paths, and its own features.
    """

    body_limit: int
    draws_mermaid = True
    keeps_pull_requests = True

    noun = "repository"
    pulls = "pulls"
    head_ref_folder: str
    full_name_field = "full_name"
    login_field = "login"
    email_separator = "+"
    body_field = "body"
    update_method = "PATCH"
    closing: Mapping[str, object] = {"state": "closed"}
    create_refusals: tuple[type[ReconcilerError], ...]
    """Errors of a create if the pull request may be open already, or the branch not visible yet."""
    author_role = "user"
    """Where the author of a pull request or comment stands."""
    comment_query: Mapping[str, str] = {}
    issue_number = "number"
    issue_query: Mapping[str, str] = {"state": "all"}
    milestone_number = "number"
    milestone_query: Mapping[str, str] = {"state": "open"}
    status_author = "creator"
    status_limit = 140
    """Characters of a commit status."""
    status_failure = "failure"

    def __init__(self, address: RepositoryAddress, client: Client) -> None:
        self._address = address
        self._client = client
        self._own_id = 0

    @abstractmethod
    def _path(self, rest: str = "") -> str:
        """The path of the repository in the API, followed by `rest`."""

    @abstractmethod
    def _web(self, page: str) -> str:
        """The address of a page of the repository."""

    @abstractmethod
    def _shown(self, answer: object) -> PullRequest:
        """The pull request in an answer; TransientError when a field is missing or wrong."""

    @abstractmethod
    def _is_from_here(self, answer: object) -> bool:
        """Whether a pull request's head branch is in the repository itself; a deleted fork is not."""

    @abstractmethod
    def _open(self, base: str = "") -> Iterator[object]:
        """The open ones (to `base`), the oldest first: new ones then move nothing to another page."""

    @abstractmethod
    def _closed_since(self, base: str, since_s: float) -> Iterator[object]:
        """The closed ones to `base`; a pull request is never touched before it is closed."""

    @abstractmethod
    def _find_open(self, head: str, base: str) -> PullRequest | None:
        """The open one from `head`."""

    @abstractmethod
    def _propose(self, wanted: PullRequest, assignment: Assignment) -> object:
        """Open a pull request once; raises one of `create_refusals`."""

    @abstractmethod
    def _may_settle(self, refusal: ReconcilerError) -> bool:
        """Whether a refused create may succeed a moment later."""

    @abstractmethod
    def _create_error(self, refusal: ReconcilerError, base: str) -> ReconcilerError | None:
        """The error for a refused create; None if the head has nothing that the base lacks."""

    @abstractmethod
    def _attach(
        self, shown: PullRequest, labels: tuple[str, ...], assignment: Assignment, unlabel: tuple[str, ...] = ()
    ) -> PullRequest:
        """Assign, add labels, remove `unlabel`; refusals are warnings."""

    @abstractmethod
    def _look(self, number: int) -> object:
        """The pull request, once the forge knows whether it can be merged."""

    @abstractmethod
    def _merge(self, answer: object, found: PullRequest, method: str) -> MergeAnswer:
        """Merge an open one whose head is as expected, or schedule that; see `Forge.merge`."""

    @abstractmethod
    def _unschedule(self, answer: object, number: int) -> None:
        """Cancel a scheduled merge."""

    @abstractmethod
    def _comments(self, number: int) -> str:
        """The path of the comments on a pull request."""

    @abstractmethod
    def _comment(self, number: int, key: str) -> str:
        """The path of one comment."""

    @abstractmethod
    def _shown_status(self, commit: str, context: str) -> Mapping[str, object] | None:
        """The newest status of a commit under that name."""

    @abstractmethod
    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`."""

    def _title_to_send(self, title: str, *, is_draft: bool) -> str:
        del is_draft
        return title[:TITLE_LIMIT]

    def _full_title(self, shown: PullRequest) -> str:
        return shown.title

    def _text_to_send(self, text: str) -> str:
        return text

    def _is_kept_as(self, text: str, kept: str) -> bool:
        """Whether the forge, given `text`, shows `kept`."""
        return text == kept

    def _email_of(self, user: object, login: str) -> str:
        return f"{number_of(user, 'id')}{self.email_separator}{login}@users.noreply.{self._address.host}"

    def _check_usable(self, repository: object, action: str) -> None:
        """Raise other reasons why pull requests cannot be opened there."""

    def _user_id(self) -> int:
        return number_of(self._client.get("/user", action="ask whose token this is"), "id")

    def _is_comment(self, answer: object) -> bool:
        del answer
        return True

    def _post_status(self, commit: str, form: Mapping[str, object]) -> None:
        action = f"set the status of {commit[:7]}"
        self._client.write("POST", self._path(f"statuses/{commit}"), form, action=action)

    def _status_form(self, status: CommitStatus) -> dict[str, str]:
        state = self.status_failure if status.verdict is Verdict.FAILURE else "success"
        return {"state": state, "description": status.words[: self.status_limit], "context": status.context}

    def check_access(self) -> None:
        """See `Forge`."""
        action = f"look for {self._address}"
        repository = self._client.get(self._path(), action=action)
        found = text_of(repository, self.full_name_field)
        if found.lower() != self._address.full_name.lower():
            raise ConfigurationError(f"{action}: the {self.noun} is now {found or 'another one'}: name it so")
        if flag_of(repository, "archived"):
            raise ConfigurationError(f"{action}: the {self.noun} is archived, which makes it read-only")
        self._check_usable(repository, action)

    def commit_address(self, commit: str) -> str:
        """See `Forge`."""
        return self._web(f"commit/{commit}")

    def files_address(self, commit: str) -> str:
        """See `Forge`."""
        return self._web(f"blob/{commit}/")

    def author(self) -> Identity:
        """The token's user with an address that the forge recognizes; neutral for a token without a user."""
        try:
            user = self._client.get("/user", action="ask whose token this is")
        except ForbiddenError as error:
            logger.debug("commits get a neutral author: %s", error)
            return NEUTRAL_IDENTITY
        login = text_of(user, self.login_field)
        if not login:
            return NEUTRAL_IDENTITY
        return Identity(name=text_of(user, "name") or login, email=self._email_of(user, login))

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        # Open ones first: one that is closed in between appears twice, and the later answer counts.
        listed = (*self._open(), *self._closed_since(base, closed_since_s))
        answers = [answer for answer in listed if self._is_from_here(answer)]
        self._look_up(answers, head_prefix)
        found = ((answer, self._shown(answer)) for answer in answers)
        ours = (
            replace(shown, opened_by=self._other_author(answer)) if shown.head_branch.startswith(head_prefix) else shown
            for answer, shown in found
        )
        return ours_among(ours, head_prefix=head_prefix, base=base, closed_since_s=closed_since_s)

    def _look_up(self, answers: Sequence[object], head_prefix: str) -> None:
        """Ask for what a list of pull requests does not show."""

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        found = {each.number: each for each in map(self._shown, self._open(base))}
        return tuple(found[number] for number in sorted(found) if found[number].is_open)

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`; the forge keeps it up to date for every pull request."""
        return f"refs/{self.head_ref_folder}/{pull_request.number}/head"

    def create(
        self,
        *,
        head: str,
        base: str,
        title: str,
        body: str,
        draft: bool = False,
        labels: tuple[str, ...] = (),
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest | None:
        """See `Forge`. If the answer was lost, the pull request is found by its head branch."""
        wanted = PullRequest(
            number=0,
            state=PullRequestState.OPEN,
            head_branch=head,
            base_branch=base,
            title=self._title_to_send(title, is_draft=draft),
            body=self._text_to_send(body),
            labels=labels,
            is_draft=draft,
        )
        waits_s = iter(SETTLING_WAITS_S)
        created: PullRequest | None = None
        while created is None:
            try:
                created = self._shown(self._propose(wanted, assignment))
            except self.create_refusals as refusal:
                created = self._find_open(head, base)
                wait_s = next(waits_s, None) if created is None else None
                if wait_s is not None and self._may_settle(refusal):
                    self._client.wait(wait_s)
                elif created is None:
                    error = self._create_error(refusal, base)
                    if error is None:
                        return None
                    raise error from None
        return self._attach(created, labels, assignment)

    def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        close: bool = False,
        labels: tuple[str, ...] = (),
        unlabel: tuple[str, ...] = (),
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest:
        """See `Forge`. Text and closing are one request, so that neither is visible without the other."""
        action, path = f"update pull request {number}", self._path(f"{self.pulls}/{number}")
        current = self._shown(self._client.get(path, action=action))
        if not current.is_open:
            logger.info("pull request %d is %s, left as it is", number, current.state.value)
            return current
        form: dict[str, object] = {}
        if title is not None:
            title = self._title_to_send(title, is_draft=current.is_draft)
            form |= {"title": title} if title != self._full_title(current) else {}
        if body is not None and not self._is_kept_as(body, current.body):
            form[self.body_field] = self._text_to_send(body)
        if close:
            form |= self.closing
        updated = self._shown(self._client.write(self.update_method, path, form, action=action)) if form else current
        return self._attach(updated, labels, assignment, unlabel)

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`."""
        action, path = f"update pull request {number}", self._path(f"{self.pulls}/{number}")
        current = self._shown(self._client.get(path, action=action))
        if current.state is PullRequestState.MERGED and not self._is_kept_as(body, current.body):
            form = {self.body_field: self._text_to_send(body)}
            self._client.write(self.update_method, path, form, action=action)

    def merge(self, wanted: PullRequest, *, method: str = "") -> MergeAnswer:
        """See `Forge`. Only the commit that was checked is merged."""
        answer = self._look(wanted.number)
        found = self._shown(answer)
        if not found.is_open:
            is_merged = found.state is PullRequestState.MERGED
            return MergeAnswer(state=MergeState.MERGED) if is_merged else waiting("a person closed it")
        check_same(found, wanted)
        return self._merge(answer, found, method)

    def unschedule(self, number: int) -> None:
        """See `Forge`."""
        path = self._path(f"{self.pulls}/{number}")
        answer = self._client.get(path, action=f"look at pull request {number}")
        found = self._shown(answer)
        if found.is_open and found.is_scheduled:
            self._unschedule(answer, number)

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Forge`."""
        action = f"read the comments on pull request {number}"
        listed = self._client.entries(self._comments(number), action=action, query=self.comment_query)
        ours = {number_of(each, "id"): each for each in listed if self._is_by_us(each, self.author_role)}
        found = [(str(key), ours[key]) for key in sorted(ours) if self._is_comment(ours[key])]
        return tuple(Comment(key=key, body=text_of(answer, "body")) for key, answer in found)

    def write_comment(self, number: int, body: str) -> None:
        """See `Forge`."""
        form = {"body": self._text_to_send(body)}
        self._client.write("POST", self._comments(number), form, action=f"comment on pull request {number}")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Forge`."""
        form = {"body": self._text_to_send(body)}
        with contextlib.suppress(NotFoundError):
            self._client.write(self.update_method, self._comment(number, key), form, action="edit a comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Forge`."""
        with contextlib.suppress(NotFoundError):
            self._client.write("DELETE", self._comment(number, key), None, action="delete a comment")

    def keep_issue(
        self, *, label: str, title: str, body: str, is_current: Callable[[str], bool], opens: bool = True
    ) -> None:
        """See `Forge`; it is found by its label, and ours by its author: anybody may write such a text."""
        form: dict[str, object] = {"title": title, self.body_field: self._text_to_send(body)}
        listed = self._client.entries(
            self._path("issues"), action="look for the dashboard issue", query={**self.issue_query, "labels": label}
        )
        found = {number_of(each, self.issue_number): each for each in listed if self._is_issue(each)}
        ours = [number for number in sorted(found) if self._is_by_us(found[number], self.author_role)]
        opened = [number for number in ours if text_of(found[number], "state") in ("open", "opened")]
        if opens and not ours:
            labelled = {**form, "labels": self._labels_to_send(label)}
            made = self._client.write("POST", self._path("issues"), labelled, action="open the dashboard issue")
            if label not in str(find(made, "labels")):  # it would not be found again, and opened by each run
                self._edit_issue(number_of(made, self.issue_number), self.closing)
                raise ConfigurationError(f"open the dashboard issue: {self.name} did not set its label {label}")
        for number in opened[:1]:
            if not is_current(text_of(found[number], self.body_field)):
                self._edit_issue(number, form)
        for number in opened[1:]:  # an answer was lost, or two runs were started
            self._edit_issue(number, self.closing)

    def _is_issue(self, answer: object) -> bool:
        return find(answer, "pull_request") is None

    def _labels_to_send(self, label: str) -> object:
        return [label]

    def _edit_issue(self, number: int, form: Mapping[str, object]) -> None:
        path = self._path(f"issues/{number}")
        self._client.write(self.update_method, path, form, action=f"write the dashboard issue {number}")

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Forge`; a hosted forge has no neutral status."""
        check_commit(commit)
        form = self._status_form(status)
        shown = self._shown_status(commit, status.context)
        is_same = shown is not None and all(text_of(shown, name) == text for name, text in form.items())
        if not is_same or not self._is_by_us(shown, self.status_author):
            self._post_status(commit, form)

    def _closed(self, query: Mapping[str, str], since_s: float) -> Iterator[object]:
        """The closed ones that `query` lists by their last change, back to a time; where GitHub's API is followed."""
        for page in self._client.pages(self._path(self.pulls), action="list closed pull requests", query=query):
            yield from page
            if page and needed_text(page[-1], "updated_at") and (time_of(page[-1], "updated_at") or 0.0) < since_s:
                return

    def _assign(self, number: int, assignment: Assignment) -> bool:
        """Request reviews of people and, by `team:NAME`, of teams, and assign; where GitHub's API is followed.

        False if that is to be tried again: labels, which say that a pull request is complete, must wait for it.
        """
        teams = [each.removeprefix("team:").rpartition("/")[2] for each in assignment.reviewers if _is_team(each)]
        people = [each for each in assignment.reviewers if not _is_team(each)]
        form = {name: value for name, value in (("reviewers", people), ("team_reviewers", teams)) if value}
        path = self._path(f"{self.pulls}/{number}/requested_reviewers")
        try:
            if form:
                self._client.write("POST", path, form, action=f"ask for reviews of pull request {number}")
        except ReconcilerError as error:
            logger.warning("pull request %d: no reviews were requested: %s", number, error)
            if not isinstance(error, _REFUSALS):
                return False
        try:
            self._assign_issue(number, assignment)
        except ReconcilerError as error:
            logger.warning("pull request %d has no assignees or milestone: %s", number, error)
            return isinstance(error, _REFUSALS)
        return True

    def _assign_issue(self, number: int, assignment: Assignment) -> None:
        """Assignees and milestone, which are those of the issue behind a pull request."""
        if not assignment.assignees and not assignment.milestone:
            return
        path, action = self._path(f"issues/{number}"), f"assign pull request {number}"
        present = self._client.get(path, action=action)
        named = [text_of(each, self.login_field) for each in list_of(find(present, "assignees"))]
        known = {each.lower() for each in named}
        missing = [each for each in assignment.assignees if each.lower() not in known]
        form: dict[str, object] = {"assignees": [*named, *missing]} if missing else {}
        if assignment.milestone and find(present, "milestone") is None:
            milestone = self._milestone(assignment.milestone, action)
            form |= {} if milestone is None else {"milestone": milestone}
        if not form:
            return
        assigned = self._client.write("PATCH", path, form, action=action)
        taken = {text_of(each, self.login_field).lower() for each in list_of(find(assigned, "assignees"))}
        for each in missing:
            if each.lower() not in taken:
                logger.warning("pull request %d: %s cannot be assigned there", number, each)

    def _milestone(self, title: str, action: str) -> int | None:
        """The forge's number of an open milestone; None, with a warning, where there is none of this title."""
        listed = self._client.entries(self._path("milestones"), action=action, query=self.milestone_query)
        found = next((each for each in listed if text_of(each, "title") == title), None)
        if found is None:
            logger.warning("%s: there is no open milestone of this title", title)
            return None
        return number_of(found, self.milestone_number)

    def _has_objection(self, number: int, objection: str) -> bool:
        """Whether the last verdict of any reviewer is `objection`; comments and requests change no verdict."""
        last: dict[str, str] = {}
        action = f"ask for reviews of pull request {number}"
        for review in self._client.entries(self._path(f"{self.pulls}/{number}/reviews"), action=action):
            state = "DISMISSED" if flag_of(review, "dismissed") else text_of(review, "state")
            if state in ("APPROVED", objection, "DISMISSED"):
                last[text_of(review, "user", self.login_field)] = state
        return objection in last.values()

    def _merge_method(self, asked: str, fields: Mapping[str, str]) -> str:
        """The method to merge by: `asked`, else the first whose field says that the repository allows it."""
        repository = self._client.get(self._path(), action="ask how the repository merges")
        allowed = [name for name, field in fields.items() if flag_or_none(repository, field) is not False]
        if asked and asked not in allowed:
            known = ", ".join(allowed)
            raise ConfigurationError(f"pullRequests.mergeMethod: the repository allows {known}, not {asked}")
        return asked or next(iter(allowed), "merge")

    def _is_by_us(self, answer: object, *role: str) -> bool:
        author = number_or_none(answer, *role, "id")
        if author is None:
            return False
        self._own_id = self._own_id or self._user_id()
        return author == self._own_id

    def _scheduled(self, found: PullRequest, answer: object, *role: str) -> PullRequest:
        """The same with whose order to merge it the forge has: ours, or that of somebody else."""
        try:
            is_ours = self._is_by_us(answer, *role)
        except ConfigurationError as error:
            logger.debug("it is not known whose order it is to merge pull request %d: %s", found.number, error)
            is_ours = False
        return replace(found, is_scheduled=is_ours, in_merge_queue=found.in_merge_queue or not is_ours)

    def _other_author(self, answer: object) -> str:
        try:
            is_ours = self._is_by_us(answer, self.author_role)
        except ConfigurationError as error:
            logger.debug("the authors of pull requests are not compared with our account: %s", error)
            return ""
        return "" if is_ours else text_of(answer, self.author_role, self.login_field) or "an unknown account"


def _is_team(reviewer: str) -> bool:
    return reviewer.startswith("team:")


def needed_token(token: ForgeToken | None, address: RepositoryAddress, variable: str) -> ForgeToken:
    """The token; ConfigurationError without one."""
    if token is None or not token.text.strip():
        raise ConfigurationError(f"{address}: pull requests need a token: set RECONCILER_FORGE_TOKEN or {variable}")
    return token


def locate(remote: str, url: str, api: str, *, kind: str, shape: str, nests: bool) -> tuple[str, RepositoryAddress]:
    """The REST root, which ends with `api`, and the address of a repository on a forge that may be below a path.

    `url` is the setting, empty for the host of the remote; `shape` is what a path should look like, and `nests` says
    whether groups hold groups. ConfigurationError names the setting that does not fit.
    """
    root = checked_api_url(url or _api_of(remote, api))
    if not root.endswith(api):
        raise ConfigurationError(f"forge.url: expected a URL that ends with {api}, found {root}")
    address = parse_nested_remote(remote, below=urlsplit(root).path.removesuffix(api))
    if address is None or ("/" in address.owner and not nests):
        raise ConfigurationError(
            f"{Redactor().show(remote)}: expected https://HOST/{shape} or git@HOST:{shape} where forge.url is, "
            f"for forge.kind {kind}"
        )
    return root, address


def _api_of(remote: str, api: str) -> str:
    """The REST root on the host of a remote; a port is used only from an http remote."""
    if remote.startswith(("https://", "http://")):
        scheme, _, rest = remote.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}{api}"
    return f"https://{host_and_path(remote)[0]}{api}"


def checked_api_url(url: str) -> str:
    """`url` if a token may be sent there; ConfigurationError otherwise."""
    root = checked_root(url, "forge.url")
    if sends_in_the_clear(root):
        raise ConfigurationError(f"forge.url: {root} would send the token unencrypted; use https://")
    return root
