"""Requests to GitHub's REST and GraphQL API, one after the other, with our own patience.

PyGithub's requester gives the connection, authentication and the pause between writes. Its objects are not used: they
fetch what is missing behind one's back and follow the addresses that a server writes into its Link header.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from requests import RequestException
from requests.exceptions import SSLError

from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.github_failures import Failure, Refusal, explain_refusal
from reconciler.http.redaction import Redactor

if TYPE_CHECKING:
    from github.Requester import Requester

logger = logging.getLogger(__name__)

API_VERSION = "2022-11-28"
TIMEOUT_S = 30
SECONDS_BETWEEN_WRITES = 1.0
"""GitHub's advice against its secondary limits."""
PAGE_SIZE = 100
MAX_PAGES = 500

RETRY_WAITS_S = (1.0, 2.0, 4.0)
MAX_WAIT_S = 60.0
"""A longer wait is left to the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait and with which clock; tests have neither time nor a clock."""

    seconds_between_writes: float = SECONDS_BETWEEN_WRITES
    sleep: Callable[[float], None] = time.sleep
    now_s: Callable[[], float] = time.time


class GitHubClient:
    """A door to one GitHub API; `base_url` is its REST root, `token_name` says where the token was read from."""

    def __init__(self, base_url: str, token: str, *, token_name: str, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._redactor = Redactor((token, f"x-access-token:{token}"))
        self._token_name = token_name
        self._requester = _open_requester(base_url, token, self._patience)

    def get(self, path: str, *, action: str, query: Mapping[str, str | int] | None = None) -> object:
        """What `path` holds, as JSON."""
        return self._request("GET", path, action, query=query)

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
        return self._request("POST", path, action, body=body)

    def patch(self, path: str, body: Mapping[str, object], *, action: str) -> object:
        """Change something."""
        return self._request("PATCH", path, action, body=body)

    def ask_graphql(self, query: str, variables: Mapping[str, object], *, action: str) -> object:
        """The `data` of a GraphQL answer; ConfigurationError when this API does not know what is asked."""
        body = {"query": query, "variables": dict(variables)}
        answer = self._request("POST", self._requester.graphql_url, action, body=body)
        if isinstance(answer, dict) and not answer.get("errors"):
            return answer.get("data")
        shown = f"{action}: {self._redactor.show(json.dumps(answer))}"
        raise TransientError(shown) if _is_limited(answer) else ConfigurationError(shown)

    def _request(
        self,
        verb: str,
        path: str,
        action: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> object:
        for wait_s in (*RETRY_WAITS_S, None):
            answer = self._attempt(verb, path, action, query, body)
            if not isinstance(answer, Failure):
                return answer[0]
            if wait_s is None or answer.wait_s is None or answer.wait_s > MAX_WAIT_S:
                raise answer.error
            pause_s = max(wait_s, answer.wait_s)
            logger.info("%s, trying again in %.0f s", answer.error, pause_s)
            self._patience.sleep(pause_s)
        raise TransientError(f"{action}: gave up")  # the loop's last round has raised

    def _attempt(
        self,
        verb: str,
        path: str,
        action: str,
        query: Mapping[str, str | int] | None,
        body: Mapping[str, object] | None,
    ) -> tuple[object] | Failure:
        try:
            status, headers, text = self._requester.requestJson(
                verb, path, parameters=dict(query or {}), input=None if body is None else dict(body)
            )
        except SSLError as error:
            return Failure(error=ConfigurationError(self._certificate_advice(action, error)))
        except RequestException as error:
            return Failure(error=TransientError(self._shown(action, error)), wait_s=0.0)
        except RuntimeError as error:  # PyGithub's own, for a redirect to another host or in a circle
            return Failure(error=ConfigurationError(self._shown(action, error)))
        except (ValueError, TypeError) as error:  # headers or bytes that PyGithub cannot read
            return Failure(error=TransientError(self._shown(action, error)), wait_s=0.0)
        content = _parse(text)
        if 200 <= status < 300:
            return self._accepted(action, text, content)
        refusal = self._refusal(status, headers, content)
        now_s = self._patience.now_s()
        return explain_refusal(action, refusal, token_name=self._token_name, now_s=now_s)

    def _accepted(self, action: str, text: str, content: object) -> tuple[object] | Failure:
        if content is None and text.strip() not in {"", "null"}:
            return Failure(error=TransientError(f"{action}: the answer is not JSON; is this GitHub's API?"))
        return (content,)

    def _refusal(self, status: int, headers: Mapping[str, str], content: object) -> Refusal:
        fields = content if isinstance(content, dict) else {}
        listed = fields.get("errors")
        errors = tuple(error for error in listed if isinstance(error, dict)) if isinstance(listed, list) else ()
        reasons = [fields.get("message"), *(error.get("message") or error.get("code") for error in errors)]
        message = "; ".join(str(reason) for reason in reasons if reason)
        return Refusal(
            status=status,
            headers=headers,
            message=self._redactor.show(message),
            errors=errors,
            documentation_url=str(fields.get("documentation_url", "")),
        )

    def _shown(self, action: str, error: Exception) -> str:
        return f"{action}: {self._redactor.show(str(error) or type(error).__name__)}"

    def _certificate_advice(self, action: str, error: Exception) -> str:
        return f"{self._shown(action, error)}; set REQUESTS_CA_BUNDLE to your certificate authority's file"


def _is_limited(answer: object) -> bool:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") == "RATE_LIMITED" for error in errors
    )


def _open_requester(base_url: str, token: str, patience: Patience) -> "Requester":
    from github import Auth, Github

    github = Github(
        auth=Auth.Token(token),
        base_url=base_url,
        timeout=TIMEOUT_S,
        retry=None,  # its own retries hide failures and wait for as long as a server says
        seconds_between_requests=None,
        seconds_between_writes=patience.seconds_between_writes or None,
        user_agent="reconciler",
        lazy=True,
        api_version=API_VERSION,
    )
    return github.requester


def _parse(text: str) -> object:
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content
