"""What a refusal of a forge means: by its status and headers, never by its English text."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable

from reconciler.errors import ConfigurationError, RivalRunError, TransientError
from reconciler.http.failures import Failure, FailureKind, FailurePlace
from reconciler.http.messages import Response

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
