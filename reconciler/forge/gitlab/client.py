"""Requests to GitLab's REST API."""

import math

from reconciler.errors import ConfigurationError
from reconciler.forge.client import WRITE_PAUSE_S, ForgeClient
from reconciler.forge.gitlab.failures import NEEDED, GitLabJudge
from reconciler.http.limits import Clock
from reconciler.http.messages import Credentials, Response, check_sendable
from reconciler.http.redaction import Redactor

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
