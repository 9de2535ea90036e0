"""Requests, responses and what can go wrong between us and a server; limits and traffic counts."""

import base64
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import urlsplit

from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.http.redaction import Redactor

MIB = 1024 * 1024
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
SUCCESS = range(200, 300)
HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
MAX_DATE_CHARACTERS = 40
MAX_DIGITS = 9
RUN_S = 1800.0
"""How long a run waits for servers and remotes altogether: what is not done by then is left to the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one question, in seconds and bytes; `body_bytes` holds before and after decompression,
    `kept_bytes` for the answers that one client keeps, together.

    `total_s` holds for a question with its attempts, pauses and redirects, however slowly a server drips. A pause
    doubles from `backoff_s`; `retry_after_s` is the longest that a server may ask for. An answer that is no success is
    cut at `error_bytes`. `parallel` questions are asked at once. `run_ends_s` is when the run has no more time, on the
    clock's own seconds.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 60.0
    body_bytes: int = 128 * MIB
    kept_bytes: int = 1024 * MIB
    error_bytes: int = 64 * 1024
    attempts: int = 4
    backoff_s: float = 0.5
    retry_after_s: float = 20.0
    redirects: int = 5
    parallel: int = 4
    run_ends_s: float = math.inf


class Clock:
    """Time as it passes on this machine; a test passes one of its own."""

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def now_s(self) -> float:
        """Unix seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraffic:
    """Attempts, retries among them, and those that failed."""

    requests: int
    failures: int


@dataclass(slots=True)
class Traffic:
    """Counts that only grow; may be used by several threads."""

    _requests: Counter[str] = field(default_factory=Counter)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, url: str, *, failed: bool) -> None:
        """Count one request to the host of a URL."""
        host = urlsplit(url).netloc.rpartition("@")[2]
        with self._lock:
            self._requests[host] += 1
            self._failures[host] += failed

    def by_host(self) -> Mapping[str, HostTraffic]:
        """What was counted so far."""
        with self._lock:
            counts = self._requests.items()
            return {host: HostTraffic(requests=count, failures=self._failures[host]) for host, count in counts}


TRAFFIC = Traffic()
"""The traffic of all doors of this process."""


class FailureKind(StrEnum):
    """Why there is no usable answer."""

    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    UNSENDABLE = "unsendable"
    SILENT = "silent"
    BROKEN = "broken"
    TOO_LARGE = "too large"
    REDIRECTED = "redirected"
    REFUSED = "refused"
    """the server accepts no request: a wrong credential or address"""
    REJECTED = "rejected"
    """the server answers this request with an error"""


Advice = Mapping[FailureKind, str]
"""What to do about a failure; a door's own advice takes precedence."""

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
"""Failures that a person must fix."""
RECOVERABLE = frozenset({FailureKind.UNREACHABLE, FailureKind.BROKEN})
"""Failures that may be temporary."""
SILENCE = "no complete answer in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error to raise, and the shortest wait before another attempt; None if a retry is useless."""

    kind: FailureKind
    error: ReconcilerError
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePlace:
    """The place of failures: every sentence begins with action and address, and ends with `advice`."""

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
        """A server that can be reached but does not answer in time; a retry would take as long."""
        return self.failure(FailureKind.SILENT, SILENCE)

    def failure_of(self, error: Exception) -> Failure:
        """The failure of an exception of the libraries, without its text, which may have secrets."""
        kind, what = _kind_of(error)
        return self.failure(kind, what, wait_s=0.0 if kind in RECOVERABLE else None)


def _kind_of(error: Exception) -> tuple[FailureKind, str]:
    # Only what has asked a server needs them: git's runner comes to this module for its clock.
    import ssl

    import requests
    from urllib3.exceptions import DecodeError, InvalidHeader, NewConnectionError, ReadTimeoutError

    links = list[BaseException]()  # what it wraps, outermost first: in arguments, `reason` or causes
    current: BaseException | None = error
    while current is not None and not any(current is link for link in links):
        links.append(current)
        reason = getattr(current, "reason", None)
        wrapped = [part for part in (reason, *current.args) if isinstance(part, BaseException)]
        current = wrapped[0] if wrapped else current.__cause__ or current.__context__
    # the short words of the operating system or TLS library, from the innermost exception that has some
    words = [link.strerror for link in links if isinstance(link, OSError) and link.strerror]
    cause = words[-1] if words else type(links[-1]).__name__
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Headers of one request, and the paths of PEM files; `redactor` knows the secrets among them.

    `ca` is a bundle to trust instead of the system's, `cert` and `key` are the client's own.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    redactor: Redactor = field(default_factory=Redactor)
    ca: str = ""
    cert: str = ""
    key: str = ""


def bearer(token: str) -> str:
    """The value of the header Authorization for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The value of the header Authorization for a user and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode('ascii')}"


def check_sendable(value: str, name: str) -> None:
    """ConfigurationError for an invalid header value, with its source but never its text."""
    if UNSENDABLE.search(value) or value != value.strip():
        raise ConfigurationError(f"{name}: expected one line without spaces around it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `form` is sent as an HTML form, `json` as JSON, `content` unchanged (all None: no body).

    `action` is its purpose in errors ("list branches"). Redirects on the same origin are followed except for writes.
    """

    method: str
    url: str
    action: str = ""
    query: Mapping[str, str | int] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    json: Mapping[str, object] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete answer.

    The names of `headers` ignore case. `content` is decompressed; that of an error may be cut. `redactor` knows the
    secrets that may not be quoted. `retry_after_s` is how long the server asks to wait.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    redactor: Redactor = field(default_factory=Redactor)
    retry_after_s: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return self.status in SUCCESS

    @property
    def content_type(self) -> str:
        """`application/json`: in lower case, without parameters, and short."""
        written = self.headers.get("Content-Type", "").split(";")[0].strip().lower()
        return written[:60].encode("ascii", "replace").decode("ascii")


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """How long a server asks to wait; None if it does not say.

    Its header is a number of seconds, or a date by its own clock, which its header Date shows.
    """
    written = headers.get("Retry-After", "")
    if written.isascii() and written.isdigit() and len(written) <= MAX_DIGITS:
        return float(written)
    until_s = _date_of(written)
    if until_s is None:
        return None
    server_s = _date_of(headers.get("Date", ""))
    return max(0.0, until_s - (now_s if server_s is None else server_s))


def _date_of(text: str) -> float | None:
    if len(text) > MAX_DATE_CHARACTERS:
        return None
    try:
        return datetime.strptime(text, HTTP_DATE).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
