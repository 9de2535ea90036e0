"""URLs of servers: which ones are accepted, and the origin that decides where a secret may go."""

import re

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[!-~]*)?",
    re.IGNORECASE,
)
_SCP_LIKE = re.compile(r"[A-Za-z0-9._-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!//).+")
_SSH = re.compile(r"ssh://(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?/.*")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_API_HOSTS = {"github.com": "api.github.com"}
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
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port <= _LARGEST_PORT or ".." in host or any(mark in (match["path"] or "") for mark in "\\?#"):
        raise ValueError("expected a URL with a valid host and port, and without `?`, `#` or a backslash")
    return f"{scheme}://{host}" + ("" if port == _DEFAULT_PORTS[scheme] else f":{port}")


def _explain_refusal(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator == "" or scheme.lower() not in _DEFAULT_PORTS:
        return "expected a URL that begins with http:// or https://"
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        return "the URL holds a user name or password: take it out and refer to it as {file: PATH} or {env: NAME}"
    if not url.isascii():
        return "expected a URL in ASCII: write an international host name in its xn-- form"
    return "expected a URL like https://prometheus.example.com, without blanks, `?`, `#` or a backslash"


def origins_of_remote(remote: str) -> frozenset[str]:
    """The origins that naming a Git remote names: its own, and its forge's API; none for a directory.

    A remote reached by ssh names the https origin of its host.
    """
    ssh = _SCP_LIKE.fullmatch(remote) or _SSH.fullmatch(remote)
    try:
        origin = origin_of(f"https://{ssh['host']}" if ssh else remote)
    except ValueError:
        return frozenset()
    scheme, _, authority = origin.partition("://")
    return frozenset({origin, f"{scheme}://{_API_HOSTS.get(authority, authority)}"})
