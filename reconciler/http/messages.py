"""What is asked of a server, what lets it in (nothing of that in any text), and what is answered."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reconciler.errors import ConfigurationError
from reconciler.http.redaction import Redactor

UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
SUCCESS = range(200, 300)
HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
MAX_DATE_CHARACTERS = 40
MAX_DIGITS = 9


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
    """ConfigurationError for what no header can carry; it names where that comes from, never its text."""
    if UNSENDABLE.search(value) or value != value.strip():
        raise ConfigurationError(f"{name}: expected one line without spaces around it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question; `form` is sent as an HTML form, `json` as JSON, `content` as it is (all None: no body).

    `action` says what it is asked for in errors ("list branches"). A redirect on the same origin is followed only where
    asking twice changes nothing: not for a write.
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

    The names of `headers` are found in any case. `content` is decompressed; that of an answer which is no success may
    be cut. `redactor` knows what neither may be quoted with. `retry_after_s` is for how long the server asks to be left
    alone.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    redactor: Redactor = field(default_factory=Redactor)
    retry_after_s: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the server did what it was asked for."""
        return self.status in SUCCESS

    @property
    def content_type(self) -> str:
        """`application/json`: in lower case, without parameters, and short."""
        written = self.headers.get("Content-Type", "").split(";")[0].strip().lower()
        return written[:60].encode("ascii", "replace").decode("ascii")


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """For how long a server asks to be left alone; None when it does not say.

    Its header is a number of seconds, or a date on its own clock, which its header Date shows.
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
    """Unix seconds of an HTTP date; None for anything else."""
    if len(text) > MAX_DATE_CHARACTERS:
        return None
    try:
        return datetime.strptime(text, HTTP_DATE).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
