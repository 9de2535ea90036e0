"""Requests to GitHub's REST and GraphQL API."""

import math
from collections.abc import Mapping

from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.client import WRITE_PAUSE_S, ForgeClient
from reconciler.forge.github.failures import GitHubJudge, messages_of
from reconciler.http.limits import Clock
from reconciler.http.messages import Credentials, bearer, check_sendable
from reconciler.http.redaction import Redactor

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHubClient(ForgeClient):
    """One GitHub API through one token; see `ForgeClient`, and `token_name` says where the token was read from."""

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
        clock = clock or Clock()
        redactor = Redactor((token, f"x-access-token:{token}"))
        super().__init__(
            root,
            Credentials(headers={"Authorization": bearer(token)}, redactor=redactor),
            GitHubJudge(token_name, clock.now_s),
            headers=HEADERS,
            write_pause_s=write_pause_s,
            run_ends_s=run_ends_s,
            clock=clock,
        )

    def ask_graphql(self, query: str, variables: Mapping[str, object], *, action: str) -> object:
        """The `data` of a GraphQL answer; ConfigurationError when this API does not know what is asked, or refuses."""
        url = f"{self.root.removesuffix('/v3')}/graphql"
        answer = self.ask("POST", url, action=action, body={"query": query, "variables": dict(variables)})
        if isinstance(answer, dict) and not answer.get("errors"):
            return answer.get("data")
        shown = f"{action}: {self.credentials.redactor.show(messages_of(answer) or 'no data')}"
        raise TransientError(shown) if _is_limited(answer) else ConfigurationError(shown)


def _is_limited(answer: object) -> bool:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") == "RATE_LIMITED" for error in errors
    )
