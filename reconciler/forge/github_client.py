"""Requests to GitHub's REST and GraphQL API, one after the other."""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.domain.json_text import parse_json
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.github_failures import ADVICE, LONGEST_WAIT_S, judge, messages_of
from reconciler.http.door import Door
from reconciler.http.failures import Failure
from reconciler.http.limits import MIB, Clock, Limits
from reconciler.http.messages import Credentials, Request, bearer, check_sendable
from reconciler.http.redaction import Redactor

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
LIMITS = Limits(total_s=300.0, body_bytes=64 * MIB, backoff_s=1.0, retry_after_s=LONGEST_WAIT_S, parallel=1)
PAGE_SIZE = 100
MAX_PAGES = 500
MAX_VALUES = 1_000_000
"""Values of JSON in one answer: a page of a hundred pull requests has some ten thousand."""
WRITE_PAUSE_S = 1.0
"""GitHub's advice against its secondary limits."""


class GitHubClient:
    """One GitHub API through one token.

    `root` is its REST root, `token_name` says where the token was read from. Between two writes lie
    `write_pause_s`; nothing is asked after `run_ends_s`, in the clock's own seconds.
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
        self._root = root
        self._credentials = Credentials(
            headers={"Authorization": bearer(token)}, redactor=Redactor((token, f"x-access-token:{token}"))
        )
        self._write_pause_s = write_pause_s
        self._wrote_s = float("-inf")
        self._clock = clock or Clock()
        judged = functools.partial(judge, token_name=token_name, now_s=self._clock.now_s)
        self._door = Door(replace(LIMITS, run_ends_s=run_ends_s), judged, advice=ADVICE, clock=self._clock)

    def get(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> object:
        """What `path` holds, as JSON; `action` says in errors what it is asked for."""
        url = f"{self._root}{path}"
        return self._ask(Request(method="GET", url=url, action=action, query=query or {}, headers=HEADERS))

    def pages(self, path: str, *, action: str, query: Mapping[str, str | int]) -> Iterator[list[object]]:
        """The pages of a list, by number: no address that the server names is ever followed."""
        for number in range(1, MAX_PAGES + 1):
            page = self.get(path, action=action, query={**query, "per_page": PAGE_SIZE, "page": number})
            if not isinstance(page, list):
                raise TransientError(f"{action}: expected a list, found {type(page).__name__}")
            yield page
            if len(page) < PAGE_SIZE:
                return
        raise TransientError(f"{action}: more than {MAX_PAGES * PAGE_SIZE} entries")

    def post(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Create something."""
        return self._write("POST", path, body, action)

    def patch(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Change something."""
        return self._write("PATCH", path, body, action)

    def ask_graphql(self, query: str, variables: Mapping[str, object], *, action: str) -> object:
        """The `data` of a GraphQL answer; ConfigurationError when this API does not know what is asked."""
        url = f"{self._root.removesuffix('/v3')}/graphql"
        body = {"query": query, "variables": dict(variables)}
        answer = self._ask(Request(method="POST", url=url, action=action, json=body, headers=HEADERS))
        if isinstance(answer, dict) and not answer.get("errors"):
            return answer.get("data")
        shown = f"{action}: {self._credentials.redactor.show(messages_of(answer) or 'no data')}"
        raise TransientError(shown) if _is_limited(answer) else ConfigurationError(shown)

    def wait(self, seconds: float) -> None:
        """Give GitHub time until everybody there sees what was just written."""
        self._clock.sleep(seconds)

    def _write(self, method: str, path: str, body: Mapping[str, object], action: str) -> object:
        pause_s = self._wrote_s + self._write_pause_s - self._clock.monotonic()
        if pause_s > 0:
            self._clock.sleep(pause_s)
        url = f"{self._root}{path}"
        request = Request(method=method, url=url, action=action, json=body, headers=HEADERS, is_write=True)
        try:
            return self._ask(request)
        finally:
            self._wrote_s = self._clock.monotonic()

    def _ask(self, request: Request) -> object:
        answer = self._door.ask(request, lambda: self._credentials)
        if isinstance(answer, Failure):
            raise answer.error
        try:
            return parse_json(answer.content, most_values=MAX_VALUES) if answer.content.strip() else None
        except ValueError:
            raise TransientError(f"{request.action}: the answer is not JSON; is this GitHub's API?") from None


def _is_limited(answer: object) -> bool:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") == "RATE_LIMITED" for error in errors
    )
