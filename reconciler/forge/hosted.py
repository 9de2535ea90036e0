"""What hosted forges share: requests to a REST API, untrusted answers, refusals."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from reconciler.domain.answers import parse_json
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.pull_requests import PullRequest
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
)

# --- was reconciler/forge/answers.py:
# Values from a forge's JSON, which is not trusted to be what its description says.


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
    """The time at `path` in Unix seconds; None when there is none, TransientError for what is no time.

    One without a zone, such as a day, is UTC.
    """
    text = text_of(answer, *path)
    try:
        moment = datetime.fromisoformat(text) if text else None
        return None if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _unexpected("a time", path) from None


def find(answer: object, *path: str) -> object:
    """What is at `path`; None when there is nothing."""
    for name in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def _unexpected(expected: str, path: tuple[str, ...]) -> TransientError:
    return TransientError(f"the forge's answer: expected {expected} at {'.'.join(path)}; is this its API?")


# --- was reconciler/forge/failures.py:
# What a refusal of a forge means: by its status and headers, never by its English text.

PATIENT_WAIT_S = 60.0
"""What is given to a forge that limits without saying for how long."""
LONGEST_WAIT_S = 60.0
"""A longer wait is left to the next run."""
MAX_DIGITS = 15


class ForbiddenError(ConfigurationError):
    """Raised for a 403 that is no limit: the token is known, and may not do this."""


class NotFoundError(ConfigurationError):
    """Raised for a 404: it is not there, or the token may not see it."""


class NotMergeableError(TransientError):
    """Raised for a 405: a pull request cannot be merged as it stands, or rules of its base forbid it."""


class Judge(ABC):
    """Says what to raise for an answer, and whether asking again may help; `token_name` is where the token is from."""

    forge: str
    """Its name, for people."""
    limit_headers: str
    """How the names of the headers begin that tell of its limits."""

    def __init__(self, token_name: str, now_s: Callable[[], float]) -> None:
        self.token_name = token_name
        self._now_s = now_s

    def __call__(self, response: Response, place: FailurePlace) -> Failure | None:
        """What is wrong with an answer; None: it can be used."""
        if response.is_success:
            return None
        content = _json_of(response)
        said = response.redactor.show(self.messages(content)) or "no message"
        shown = f"{place.action}: {self.forge} answered {response.status}: {said}"
        if self.is_limit(response, content):
            return _limit(shown, self._wait_s(response))
        if response.status >= 500:
            return Failure(kind=FailureKind.REJECTED, error=TransientError(shown), wait_s=0.0)
        return Failure(kind=FailureKind.REJECTED, error=self.refusal(response.status, content, shown))

    @abstractmethod
    def messages(self, content: object) -> str:
        """The forge's own words in an answer that is no success, as they came."""

    @abstractmethod
    def advice(self, status: int) -> str:
        """What to do about a status; empty where nobody can."""

    def is_limit(self, response: Response, content: object) -> bool:
        """Whether the forge asks to be left alone for a while."""
        del content
        return response.status == 429

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """What to raise for an answer that will be the same if it is asked for again."""
        del content
        if status == 409:
            return RivalRunError(f"{shown} (somebody changed it at the same time)")
        if status == 405:
            return NotMergeableError(shown)
        advice = self.advice(status)
        kinds: dict[int, type[ConfigurationError]] = {403: ForbiddenError, 404: NotFoundError}
        return kinds.get(status, ConfigurationError)(f"{shown}; {advice}") if advice else TransientError(shown)

    def is_spent(self, response: Response) -> bool:
        """Whether its headers say that nothing is left of a limit."""
        return response.headers.get(f"{self.limit_headers}-Remaining") == "0"

    def _wait_s(self, response: Response) -> float:
        if response.retry_after_s is not None:
            return response.retry_after_s
        reset = response.headers.get(f"{self.limit_headers}-Reset", "")
        if self.is_spent(response) and reset.isascii() and reset.isdigit() and len(reset) <= MAX_DIGITS:
            return max(0.0, float(reset) - self._now_s())
        return PATIENT_WAIT_S


def redirect_advice(status: int) -> str:
    """What to do about a redirect; empty for any other status."""
    is_redirect = 300 <= status < 400
    return "credentials never follow a redirect: name the repository's present address" if is_redirect else ""


def _limit(shown: str, wait_s: float) -> Failure:
    error = TransientError(f"{shown} (it asks to wait for {wait_s:.0f} s)")
    return Failure(kind=FailureKind.REJECTED, error=error, wait_s=wait_s if wait_s <= LONGEST_WAIT_S else None)


def _json_of(response: Response) -> object:
    try:
        content: object = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return content


# --- was reconciler/forge/client.py:
# Requests to a forge's REST API, one after the other.

LIMITS = Limits(total_s=300.0, body_bytes=64 * MIB, backoff_s=1.0, retry_after_s=LONGEST_WAIT_S, parallel=1)
PAGE_SIZE = 100
MAX_PAGES = 500
MAX_VALUES = 1_000_000
"""Values of JSON in one answer: a page of a hundred pull requests has some ten thousand."""
WRITE_PAUSE_S = 1.0
"""GitHub's advice against its secondary limits, and polite elsewhere."""


class ForgeClient:
    """One API through one credential.

    `root` is its REST root; `judge` knows what its answers mean, and the forge's name. Between two writes lie
    `write_pause_s`; nothing is asked after `run_ends_s`, in the clock's own seconds.
    """

    def __init__(
        self,
        root: str,
        credentials: Credentials,
        judge: Judge,
        *,
        headers: Mapping[str, str],
        write_pause_s: float = WRITE_PAUSE_S,
        run_ends_s: float = math.inf,
        clock: Clock,
    ) -> None:
        self.root = root
        self.credentials = credentials
        self._judge = judge
        self._headers = headers
        self._write_pause_s = write_pause_s
        self._wrote_s = float("-inf")
        self._clock = clock
        advice = {
            FailureKind.REDIRECTED: "credentials never follow there: name the repository's present address",
            FailureKind.TOO_LARGE: self._is_this_it,
        }
        self._door = Door(replace(LIMITS, run_ends_s=run_ends_s), judge, advice=advice, clock=clock)

    def get(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> object:
        """What `path` holds, as JSON; `action` says in errors what it is asked for."""
        return self.ask("GET", f"{self.root}{path}", action=action, query=query)

    def pages(self, path: str, *, action: str, query: Mapping[str, str | int]) -> Iterator[list[object]]:
        """The pages of a list, by number: no address that the server names is ever followed."""
        for number in range(1, MAX_PAGES + 1):
            numbered = {**query, "per_page": PAGE_SIZE, "page": number}
            response = self._send("GET", f"{self.root}{path}", action=action, query=numbered)
            page = self._parse(response, action)
            if not isinstance(page, list):
                raise TransientError(f"{action}: expected a list, found {type(page).__name__}")
            yield page
            if self.is_last(page, response):
                return
        raise TransientError(f"{action}: more than {MAX_PAGES * PAGE_SIZE} entries")

    def is_last(self, page: list[object], response: Response) -> bool:
        """Whether no page of a list comes after this one."""
        del response
        return len(page) < PAGE_SIZE

    def post(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Create something."""
        return self.write("POST", path, body, action=action)

    def patch(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Change something."""
        return self.write("PATCH", path, body, action=action)

    def write(self, method: str, path: str, body: Mapping[str, object] | None, *, action: str) -> object:
        """Write something, and not at once after the last."""
        pause_s = self._wrote_s + self._write_pause_s - self._clock.monotonic()
        if pause_s > 0:
            self._clock.sleep(pause_s)
        try:
            return self.ask(method, f"{self.root}{path}", action=action, body=body, is_write=True)
        finally:
            self._wrote_s = self._clock.monotonic()

    def delete(self, path: str, *, action: str) -> object:
        """Take something away."""
        return self.write("DELETE", path, None, action=action)

    def put(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Change something, or do what the path stands for."""
        return self.write("PUT", path, body, action=action)

    def ask(
        self,
        method: str,
        url: str,
        *,
        action: str,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
        is_write: bool = False,
    ) -> object:
        """The answer to any request, as JSON; None where it is empty."""
        response = self._send(method, url, action=action, query=query, body=body, is_write=is_write)
        return self._parse(response, action)

    def wait(self, seconds: float) -> None:
        """Give the forge time until everybody there sees what was just written."""
        self._clock.sleep(seconds)

    def _send(
        self,
        method: str,
        url: str,
        *,
        action: str,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
        is_write: bool = False,
    ) -> Response:
        request = Request(
            method=method,
            url=url,
            action=action,
            query=query or {},
            json=body,
            headers=self._headers,
            is_write=is_write,
        )
        answer = self._door.ask(request, lambda: self.credentials)
        if isinstance(answer, Failure):
            raise answer.error
        return answer

    def _parse(self, response: Response, action: str) -> object:
        try:
            return parse_json(response.content, most_values=MAX_VALUES) if response.content.strip() else None
        except ValueError:
            raise TransientError(f"{action}: the answer is not JSON; {self._is_this_it}") from None

    @property
    def _is_this_it(self) -> str:
        return f"is this {self._judge.forge}'s API?"


# --- was reconciler/forge/creating.py:
# Opening a pull request once, although a forge may lose an answer, or not see yet what was just pushed.

SETTLING_WAITS_S = (1.0, 2.0, 4.0)
"""A branch that was just pushed, or a pull request just created, is not visible everywhere at once."""


def create_once(
    create: Callable[[], PullRequest],
    find_open: Callable[[], PullRequest | None],
    *,
    refusals: tuple[type[ReconcilerError], ...],
    may_settle: Callable[[ReconcilerError], bool],
    wait: Callable[[float], None],
) -> PullRequest:
    """What `create` opens, or what is open already: a create whose answer was lost is found again.

    One of `refusals` is looked behind, and what `may_settle` by itself is tried again; what stays is raised.
    """
    waits_s = iter(SETTLING_WAITS_S)
    while True:
        try:
            return create()
        except refusals as refusal:
            if found := find_open():
                return found
            wait_s = next(waits_s, None)
            if wait_s is None or not may_settle(refusal):
                raise
            wait(wait_s)
