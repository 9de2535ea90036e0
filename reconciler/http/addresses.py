"""URLs of servers: which are accepted, what origin they have, and how they are shown."""

import re
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from reconciler.errors import ConfigurationError
from reconciler.http.redaction import Redactor

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
