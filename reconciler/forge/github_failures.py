"""What a refusal of GitHub means: by its status and headers, never by its English text.

The one exception is documented: a 422 has several meanings that only its `errors` tell apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError

PATIENT_WAIT_S = 60.0
"""What GitHub advises at least, when it limits without saying for how long."""


class ForbiddenError(ConfigurationError):
    """Raised for a 403 that is no limit: the token is known, and may not do this."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error to raise, and how long to wait before trying again first; None: trying again is of no use."""

    error: ReconcilerError
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer with an error status; header names are in lower case, `message` is redacted."""

    status: int
    headers: Mapping[str, str]
    message: str
    errors: tuple[Mapping[str, object], ...] = ()
    documentation_url: str = ""


def explain_refusal(action: str, refusal: Refusal, *, token_name: str, now_s: float) -> Failure:
    """What to raise for a refusal; `action` says what was tried, `token_name` where the token was read from."""
    shown = f"{action}: GitHub answered {refusal.status}: {refusal.message or 'no message'}"
    if refusal.status == 429 or (refusal.status == 403 and _is_limit(refusal)):
        wait_s = _wait_s(refusal.headers, now_s)
        return Failure(error=TransientError(f"{shown} (it asks to wait for {wait_s:.0f} s)"), wait_s=wait_s)
    if refusal.status >= 500:
        return Failure(error=TransientError(shown), wait_s=0.0)
    if refusal.status == 409:
        return Failure(error=RivalRunError(f"{shown} (somebody changed it at the same time)"))
    if refusal.status == 422:
        return Failure(error=UnprocessableError(shown, refusal.errors))
    if refusal.status == 403:
        return Failure(error=ForbiddenError(f"{shown}; {_advice(403, token_name)}"))
    if advice := _advice(refusal.status, token_name):
        return Failure(error=ConfigurationError(f"{shown}; {advice}"))
    return Failure(error=TransientError(shown))


def _advice(status: int, token_name: str) -> str:
    if 300 <= status < 400:
        return "credentials never follow a redirect: name the repository's present address"
    return {
        401: f"check that {token_name} holds a token that is valid, not expired, and for this host",
        403: f"{token_name} needs to read and write contents and pull requests of this repository; "
        "for a workflow's token, the repository must allow Actions to create pull requests",
        404: f"check the repository's name, and that {token_name} may see it",
        410: "the repository has this switched off",
        451: "the repository is blocked",
    }.get(status, "")


def _is_limit(refusal: Refusal) -> bool:
    return (
        "retry-after" in refusal.headers
        or refusal.headers.get("x-ratelimit-remaining") == "0"
        or "rate-limit" in refusal.documentation_url
    )


def _wait_s(headers: Mapping[str, str], now_s: float) -> float:
    if (retry_after_s := _number(headers.get("retry-after"))) is not None:
        return max(0.0, retry_after_s)
    reset_s = _number(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") == "0" and reset_s is not None:
        return max(0.0, reset_s - now_s)
    return PATIENT_WAIT_S


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None
