"""What a refusal of GitHub means: by its status and headers, never by its English text.

The one exception is documented: a 422 has several meanings that only its `errors` tell apart.
"""

import json
from collections.abc import Callable, Mapping

from reconciler.errors import ConfigurationError, RivalRunError, TransientError
from reconciler.http.failures import Advice, Failure, FailureKind, FailurePlace
from reconciler.http.messages import Response

PATIENT_WAIT_S = 60.0
"""What GitHub advises at least, when it limits without saying for how long."""
LONGEST_WAIT_S = 60.0
"""A longer wait is left to the next run."""

ADVICE: Advice = {
    FailureKind.REDIRECTED: "credentials never follow there: name the repository's present address",
    FailureKind.TOO_LARGE: "is this GitHub's API?",
}


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


def judge(response: Response, place: FailurePlace, *, token_name: str, now_s: Callable[[], float]) -> Failure | None:
    """What to raise for an answer, and whether asking again may help; `token_name` is where the token was read from."""
    if response.is_success:
        return None
    status = response.status
    content = _json_of(response)
    said = response.redactor.show(messages_of(content)) or "no message"
    shown = f"{place.action}: GitHub answered {status}: {said}"
    if status == 429 or (status == 403 and _is_limit(response, content)):
        return _limit(shown, _wait_s(response, now_s()))
    if status >= 500:
        return _failure(TransientError(shown), wait_s=0.0)
    if status == 409:
        return _failure(RivalRunError(f"{shown} (somebody changed it at the same time)"))
    if status == 422:
        return _failure(UnprocessableError(shown, _errors_of(content)))
    advice = _advice(status, token_name)
    if status == 403:
        return _failure(ForbiddenError(f"{shown}; {advice}"))
    return _failure(ConfigurationError(f"{shown}; {advice}") if advice else TransientError(shown))


def messages_of(content: object) -> str:
    """GitHub's own words in an answer that is no success, as they came."""
    message = content.get("message") if isinstance(content, dict) else None
    reasons = [message, *(error.get("message") or error.get("code") for error in _errors_of(content))]
    return "; ".join(str(reason) for reason in reasons if reason)


def _failure(error: ConfigurationError | TransientError, wait_s: float | None = None) -> Failure:
    return Failure(kind=FailureKind.REJECTED, error=error, wait_s=wait_s)


def _limit(shown: str, wait_s: float) -> Failure:
    error = TransientError(f"{shown} (it asks to wait for {wait_s:.0f} s)")
    return _failure(error, wait_s if wait_s <= LONGEST_WAIT_S else None)


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


def _is_limit(response: Response, content: object) -> bool:
    documentation = content.get("documentation_url") if isinstance(content, dict) else None
    return (
        "Retry-After" in response.headers
        or response.headers.get("X-RateLimit-Remaining") == "0"
        or "rate-limit" in str(documentation)
    )


def _wait_s(response: Response, now_s: float) -> float:
    if response.retry_after_s is not None:
        return response.retry_after_s
    reset = response.headers.get("X-RateLimit-Reset", "")
    if response.headers.get("X-RateLimit-Remaining") == "0" and reset.isascii() and reset.isdigit() and len(reset) < 16:
        return max(0.0, float(reset) - now_s)
    return PATIENT_WAIT_S


def _json_of(response: Response) -> object:
    try:
        content: object = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return content


def _errors_of(content: object) -> tuple[Mapping[str, object], ...]:
    listed = content.get("errors") if isinstance(content, dict) else None
    return tuple(error for error in listed if isinstance(error, dict)) if isinstance(listed, list) else ()
