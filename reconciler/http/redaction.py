"""Addresses of servers, and texts and logs without secrets."""

import base64
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from urllib.parse import SplitResult, quote, quote_plus, urljoin, urlsplit, urlunsplit

from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError

logger = logging.getLogger(__name__)

REDACTED = "***"
LIBRARIES = ("urllib3", "requests")
"""Whose logs are taken over."""
MAX_SHOWN = 600

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")

# GitHub's installation tokens hold dots and dashes, GitLab's tokens have a prefix for each kind. What begins in the
# middle of a word is no web token: else a long hostile word would be read again from each of its characters.
TOKENS = re.compile(
    r"(?:gh[a-z]_|github_pat_)[A-Za-z0-9._-]{6,}"
    r"|gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|imt|agent|wt|oas|ffct)-[A-Za-z0-9._-]{10,}"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"]{1,2000}@")
HEADERS = re.compile(
    r"((?:authorization|private-token|job-token|x-api-key|cookie)['\"]?\s{0,9}[:=]\s{0,9}['\"]?)[^\r\n'\"]+",
    re.IGNORECASE,
)
SCHEMES = re.compile(r"\b(Basic|basic|Bearer|bearer)(\s{1,9})(?=[!-~]{0,99}[A-Z0-9+/=])[A-Za-z0-9._~+/-]{16,}=*")
PARAMETERS = re.compile(r"(?<=[?&])((?:access_|private_|job_)?token|password|client_secret|api_?key)=[^&\s'\"]+")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Takes secrets out of texts; without `secrets` it knows them by their shape alone. They show in no `repr`."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    def hide(self, text: str) -> str:
        """`text` without secrets and otherwise as it was, line breaks included."""
        for form in secret_forms(*self.secrets):
            text = text.replace(form, REDACTED)
        text = USER_INFO.sub(f"{REDACTED}@", text)
        text = TOKENS.sub(REDACTED, text)
        text = HEADERS.sub(rf"\1{REDACTED}", text)
        text = SCHEMES.sub(rf"\1\2{REDACTED}", text)
        return PARAMETERS.sub(rf"\1={REDACTED}", text)

    def show(self, text: str) -> str:
        """`text` for a person: without secrets, on one short line, without control and invisible characters."""
        shown = UNPRINTABLE.sub(" ", self.hide(text))
        return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."

    def hide_bytes(self, content: bytes) -> bytes:
        """`hide` for bytes in UTF-8 or Latin 1."""
        utf8 = tuple(secret.encode("utf-8", "surrogatepass").decode("latin-1") for secret in self.secrets)
        return Redactor((*self.secrets, *utf8)).hide(content.decode("latin-1")).encode("latin-1")


def secret_forms(*secrets: str) -> tuple[str, ...]:
    """Every way in which the secrets may be spelled in a text, longest first; none for an empty one."""
    forms: set[str] = set()
    for secret in filter(None, secrets):
        content = secret.encode("utf-8", "surrogatepass")
        forms |= {secret, quote(content, safe=""), quote_plus(content), json.dumps(secret)[1:-1]}
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(content).decode("ascii")
            forms |= {encoded, encoded.rstrip("=")}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


class _LibraryLogHandler(logging.Handler):
    """Says a library's record in our log; its traceback is left out, it holds what a server sent."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        logger.log(record.levelno, "%s: %s", record.name, _REDACTOR.get().show(record.getMessage()))


_HANDLER = _LibraryLogHandler()
_SHAPES_ONLY = Redactor()
_REDACTOR: ContextVar[Redactor] = ContextVar("redactor", default=_SHAPES_ONLY)
"""That of the exchange which this thread is in: the libraries know nothing of what must not be said."""


def take_over_library_logs() -> None:
    """From now on nothing of the libraries reaches a log but through us; called again it changes nothing."""
    for name in LIBRARIES:
        library = logging.getLogger(name)
        library.handlers = [_HANDLER]
        library.propagate = False


@contextmanager
def redacting_logs(redactor: Redactor) -> Iterator[None]:
    """Keep the secrets that `redactor` knows out of what the libraries log in this block."""
    token = _REDACTOR.set(redactor)
    try:
        yield
    finally:
        _REDACTOR.reset(token)


LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
PORTS = {"http": 80, "https": 443}
SHOWN_CHARACTERS = 200

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[!-~]*)?",
    re.IGNORECASE,
)
_LARGEST_PORT = 65535


def origin_of(url: str) -> str:
    """`scheme://host[:port]` of a server's URL, lower case, without the scheme's own port.

    Raises ValueError, whose text never repeats the URL (it may hold a password). The pattern is narrow because two
    readers of a URL must not see two hosts in it: no user name, backslash, query, fragment or letter beyond ASCII.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(_explain_refusal(url))
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"] or PORTS[scheme])
    if not 0 < port <= _LARGEST_PORT or ".." in host or any(mark in (match["path"] or "") for mark in "\\?#"):
        raise ValueError("expected a URL with a valid host and port, and without `?`, `#` or a backslash")
    return f"{scheme}://{host}" + ("" if port == PORTS[scheme] else f":{port}")


def checked_root(url: str, setting: str) -> str:
    """`url` without slashes at its end, when it can be the root of an API; ConfigurationError names `setting`."""
    try:
        origin_of(url)
    except ValueError as error:
        raise ConfigurationError(f"{setting}: {error}") from None
    return url.rstrip("/")


def sends_in_the_clear(url: str) -> bool:
    """Whether what is sent to `url` can be read on its way: plain HTTP that leaves this machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS


def place_of(url: str) -> str:
    """The origin and path of `url` for people: no user, no query, nothing that hides."""
    parts = _split(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = _port_of(parts)
    shown = f"{parts.scheme}://{host}" + ("" if port == PORTS.get(parts.scheme) else f":{port}") + parts.path
    return Redactor().show(shown)[:SHOWN_CHARACTERS].encode("ascii", "replace").decode("ascii")


def same_origin(url: str, location: str) -> str:
    """Where `location`, as `url` named it, leads on the same origin; empty when it leads elsewhere.

    Only path and query are taken from it: the rest cannot change which server is asked.
    """
    try:
        ours, theirs = urlsplit(url), urlsplit(urljoin(url, location))
        is_same = (theirs.scheme, theirs.hostname, _port_of(theirs)) == (ours.scheme, ours.hostname, _port_of(ours))
    except ValueError:
        return ""
    if not location or not is_same or "@" in theirs.netloc:
        return ""
    return urlunsplit((ours.scheme, ours.netloc, theirs.path or "/", theirs.query, ""))


def _explain_refusal(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator == "" or scheme.lower() not in PORTS:
        return "expected a URL that begins with http:// or https://"
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        return "the URL holds a user name or password: take it out and refer to it as {file: PATH} or {env: NAME}"
    if not url.isascii():
        return "expected a URL in ASCII: write an international host name in its xn-- form"
    return "expected a URL like https://prometheus.example.com, without blanks, `?`, `#` or a backslash"


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _port_of(parts: SplitResult) -> int | None:
    try:
        return parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
