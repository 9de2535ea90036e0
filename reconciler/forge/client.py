"""Requests to a forge's REST API, one after the other."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.domain.json_text import parse_json
from reconciler.errors import TransientError
from reconciler.forge.failures import LONGEST_WAIT_S, Judge
from reconciler.http.door import Door
from reconciler.http.failures import Failure, FailureKind
from reconciler.http.limits import MIB, Clock, Limits
from reconciler.http.messages import Credentials, Request, Response

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
