"""Which repository of which host a remote is, read from its URL."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")  # an underscore stands in managed users of an enterprise
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^:]+)")

SCHEMES = frozenset({"https", "http", "ssh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAddress:
    """A repository on a host, as in `https://HOST/OWNER/NAME.git`; `host` is in lower case and without a port."""

    host: str
    owner: str
    name: str

    @property
    def full_name(self) -> str:
        """OWNER/NAME."""
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        return f"{self.host}/{self.full_name}"


def parse_remote(url: str) -> RepositoryAddress | None:
    """The address in an https, ssh or scp-like URL; None when it is none (a path, or more or less than OWNER/NAME)."""
    host, path = _host_and_path(url)
    parts = path.strip("/").removesuffix(".git").split("/")
    if len(parts) != 2 or not HOST.fullmatch(host):
        return None
    owner, name = parts
    if not OWNER.fullmatch(owner) or not NAME.fullmatch(name) or name in {".", ".."}:
        return None
    return RepositoryAddress(host=host, owner=owner, name=name)


def _host_and_path(url: str) -> tuple[str, str]:
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            _ = parts.port  # urllib checks the port only when it is asked for
        except ValueError:
            return "", ""
        plain = parts.scheme in SCHEMES and not parts.query and not parts.fragment
        return (host.lower(), parts.path) if plain else ("", "")
    match = SCP_LIKE.fullmatch(url)
    return (match["host"].lower(), match["path"]) if match else ("", "")
