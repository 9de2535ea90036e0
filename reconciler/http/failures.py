"""What can go wrong between us and a server, each in one sentence: what, where, what to do."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import requests
from urllib3.exceptions import DecodeError, InvalidHeader, NewConnectionError, ReadTimeoutError

from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.http.redaction import Redactor


class FailureKind(StrEnum):
    """Why a question brought no answer that can be used."""

    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    UNSENDABLE = "unsendable"
    SILENT = "silent"
    BROKEN = "broken"
    TOO_LARGE = "too large"
    REDIRECTED = "redirected"
    REFUSED = "refused"
    """the server lets us ask nothing at all: a wrong credential or address"""
    REJECTED = "rejected"
    """the server answers this question with an error"""


Advice = Mapping[FailureKind, str]
"""What to do about a failure; a door's own words go before these."""

ADVICE: Advice = {
    FailureKind.UNREACHABLE: "is the address right, and is the server up?",
    FailureKind.UNTRUSTED: "set REQUESTS_CA_BUNDLE to your certificate authority's file",
    FailureKind.SILENT: "is the server overloaded?",
    FailureKind.BROKEN: "is something between us and the server cutting connections?",
    FailureKind.TOO_LARGE: "is this the right server?",
    FailureKind.REDIRECTED: "set the URL that answers itself",
}
PERMANENT = frozenset(
    {FailureKind.UNTRUSTED, FailureKind.UNSENDABLE, FailureKind.TOO_LARGE, FailureKind.REDIRECTED, FailureKind.REFUSED}
)
"""What somebody must change something about."""
RECOVERABLE = frozenset({FailureKind.UNREACHABLE, FailureKind.BROKEN})
"""What may have passed a moment later."""
SILENCE = "no complete answer in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error to raise, and how long to wait at least before asking again; None: asking again is of no use."""

    kind: FailureKind
    error: ReconcilerError
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePlace:
    """Where failures happen: what was tried and at which address begins every sentence, `advice` ends it."""

    action: str
    address: str
    advice: Advice
    redactor: Redactor

    @property
    def where(self) -> str:
        """The beginning of a sentence."""
        return f"{self.action}: {self.address}" if self.action else self.address

    def failure(self, kind: FailureKind, what: str, *, wait_s: float | None = None) -> Failure:
        """A failure of a kind."""
        advice = self.advice.get(kind, ADVICE.get(kind, ""))
        words = self.redactor.show(f"{self.where}: {what}" + (f": {advice}" if advice else ""))
        error = ConfigurationError(words) if kind in PERMANENT else TransientError(words)
        return Failure(kind=kind, error=error, wait_s=wait_s)

    def silence(self) -> Failure:
        """A server that is reached and does not answer in time; asking the same again would take as long."""
        return self.failure(FailureKind.SILENT, SILENCE)

    def failure_of(self, error: Exception) -> Failure:
        """The failure behind an exception of the libraries; its own text is not repeated, it may hold what was sent."""
        kind, what = _kind_of(error)
        return self.failure(kind, what, wait_s=0.0 if kind in RECOVERABLE else None)


def _kind_of(error: Exception) -> tuple[FailureKind, str]:
    links = tuple(_chain(error))
    cause = _cause(links)
    is_cut = any(isinstance(link, ssl.SSLEOFError) for link in links)
    if isinstance(error, requests.exceptions.SSLError) and not is_cut:
        return FailureKind.UNTRUSTED, f"no trust in the connection ({cause})"
    if isinstance(error, requests.exceptions.ProxyError):
        return FailureKind.UNREACHABLE, f"the proxy of HTTPS_PROXY or HTTP_PROXY did not connect ({cause})"
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return FailureKind.UNREACHABLE, "no connection in time"
    if any(isinstance(link, NewConnectionError) for link in links):
        return FailureKind.UNREACHABLE, f"no connection ({cause})"
    if isinstance(error, requests.exceptions.ReadTimeout | ReadTimeoutError):
        return FailureKind.SILENT, SILENCE
    if isinstance(error, DecodeError):
        return FailureKind.BROKEN, "the answer's compression is broken"
    if isinstance(error, ValueError) and not any(isinstance(link, InvalidHeader) for link in links):
        return FailureKind.UNSENDABLE, f"the request cannot be sent ({type(error).__name__})"
    if type(error) is OSError and error.errno is None:  # what requests raises for a PEM file that is not there
        return FailureKind.UNTRUSTED, "a PEM file (of REQUESTS_CA_BUNDLE?) cannot be read"
    return FailureKind.BROKEN, f"the answer broke off ({cause})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it wraps, outermost first: the libraries use arguments, `reason` and causes alike."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        reason = getattr(current, "reason", None)
        arguments = [part for part in (reason, *current.args) if isinstance(part, BaseException)]
        current = arguments[0] if arguments else current.__cause__ or current.__context__


def _cause(links: Sequence[BaseException]) -> str:
    """The operating system's or TLS library's own short words, from the innermost exception that has some."""
    words = [link.strerror for link in links if isinstance(link, OSError) and link.strerror]
    return words[-1] if words else type(links[-1]).__name__
