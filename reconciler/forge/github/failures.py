"""What a refusal of GitHub means.

Its English text says nothing to us, with one exception that is documented: a 422 has several meanings that only its
`errors` tell apart.
"""

from collections.abc import Mapping

from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.failures import Judge, redirect_advice
from reconciler.http.messages import Response


class UnprocessableError(TransientError):
    """Raised for a 422; `errors` are GitHub's own reasons, still to be told apart."""

    def __init__(self, message: str, errors: tuple[Mapping[str, object], ...]) -> None:
        super().__init__(message)
        self.errors = errors

    def concerns(self, field: str) -> bool:
        """Whether GitHub calls the value of `field` invalid."""
        return any(error.get("field") == field and error.get("code") == "invalid" for error in self.errors)

    def says(self, phrase: str) -> bool:
        """Whether one of the reasons holds `phrase`."""
        return any(phrase in str(error.get("message", "")) for error in self.errors)


class GitHubJudge(Judge):
    """Judges GitHub's answers."""

    forge = "GitHub"
    limit_headers = "X-RateLimit"

    def messages(self, content: object) -> str:
        """See `Judge`."""
        return messages_of(content)

    def is_limit(self, response: Response, content: object) -> bool:
        """See `Judge`; a 403 may be a limit too."""
        documentation = content.get("documentation_url") if isinstance(content, dict) else None
        is_told = "Retry-After" in response.headers or self.is_spent(response) or "rate-limit" in str(documentation)
        return response.status == 429 or (response.status == 403 and is_told)

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `Judge`."""
        if status == 422:
            return UnprocessableError(shown, _errors_of(content))
        return super().refusal(status, content, shown)

    def advice(self, status: int) -> str:
        """See `Judge`."""
        return redirect_advice(status) or {
            401: f"check that {self.token_name} holds a token that is valid, not expired, and for this host",
            403: f"{self.token_name} needs to read and write contents and pull requests of this repository; "
            "for a workflow's token, the repository must allow Actions to create pull requests",
            404: f"check the repository's name, and that {self.token_name} may see it",
            410: "the repository has this switched off",
            451: "the repository is blocked",
        }.get(status, "")


def messages_of(content: object) -> str:
    """GitHub's own words in an answer that is no success, as they came."""
    message = content.get("message") if isinstance(content, dict) else None
    reasons = [message, *(error.get("message") or error.get("code") for error in _errors_of(content))]
    return "; ".join(str(reason) for reason in reasons if reason)


def _errors_of(content: object) -> tuple[Mapping[str, object], ...]:
    listed = content.get("errors") if isinstance(content, dict) else None
    return tuple(error for error in listed if isinstance(error, dict)) if isinstance(listed, list) else ()
