"""Where a repository is: what a source may look like, over which protocol it is reached, and with which token."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from reconciler.errors import ConfigurationError
from reconciler.http.addresses import sends_in_the_clear
from reconciler.http.messages import basic
from reconciler.http.redaction import Redactor

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
SCP_LIKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-:].*")

MAX_SHOWN = 200
SAFE_UPLOAD_PACK = "git -c safe.directory='*' upload-pack"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitToken:
    """User name and token of a remote; the token never shows in `repr`."""

    username: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.token:
            raise ConfigurationError("the git token is empty: set it, or leave its setting out")
        if CONTROL_CHARACTERS.search(self.username + self.token):
            raise ConfigurationError("the git token or its user name holds a line break or control character")
        if ":" in self.username:
            raise ConfigurationError("the user name of a git token cannot hold a colon")

    @property
    def authorization(self) -> str:
        """The HTTP header that carries them."""
        return f"Authorization: {basic(self.username, self.token)}"

    @property
    def redactor(self) -> Redactor:
        """Takes the token out of what git says, in every spelling."""
        return Redactor((self.token, f"{self.username}:{self.token}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A checked place of a repository.

    `url` is what git gets (a directory is an absolute path), `protocol` the only one git may speak while it talks to it
    (`https`, `http`, `ssh`, `file`), `origin` the `scheme://host[:port]` that credentials go to (empty without HTTP).
    """

    url: str
    protocol: str
    origin: str = ""

    def __str__(self) -> str:
        return Redactor().show(self.url)

    @property
    def host(self) -> str:
        """The host that is talked to, with its port where the address names one; empty for a directory."""
        if self.protocol == "file":
            return ""
        address = urlsplit(self.url).netloc if "://" in self.url else self.url.partition(":")[0]
        return address.rpartition("@")[2]

    @property
    def upload_pack(self) -> tuple[str, ...]:
        """Options for reading from this remote.

        A volume in a container often belongs to another user, which git refuses to read. Reading is safe here: nothing
        that the directory's own configuration names is run by upload-pack (its hook is read from protected
        configuration only, and lazy fetching is off). There is no such option for pushing: receive-pack runs hooks.
        """
        return (f"--upload-pack={SAFE_UPLOAD_PACK}",) if self.protocol == "file" else ()


def open_remote(source: str) -> Remote:
    """Check a URL or directory as a person wrote it; ConfigurationError says what is wrong with it."""
    if not source or CONTROL_CHARACTERS.search(source):
        raise ConfigurationError(f"repository {Redactor().show(source)!r}: expected a URL or a directory")
    if "://" in source:
        return _open_url(source)
    if SCP_LIKE.fullmatch(source):
        return Remote(url=source, protocol="ssh")
    return _open_directory(source)


def without_user(source: str) -> str:
    """A URL without the user name and password that a person's clone may have in it; anything else as it is."""
    scheme, separator, rest = source.partition("://")
    address, slash, path = rest.partition("/")
    return f"{scheme}{separator}{address.rpartition('@')[2]}{slash}{path}" if separator else source


def resolve_directory(source: str | Path) -> Path:
    """An existing directory as an absolute path without symbolic links; else ConfigurationError."""
    try:
        directory = Path(source).expanduser().resolve(strict=True)
        if directory.is_dir():
            return directory
    except (OSError, ValueError, RuntimeError):  # unreadable, too long, or a home directory of nobody
        pass
    raise ConfigurationError(
        f"repository {str(source)[:MAX_SHOWN]}: no such directory; expected a clone, a bare repository, "
        "or a URL with https:// or ssh://"
    )


def _open_directory(source: str) -> Remote:
    return Remote(url=str(resolve_directory(source)), protocol="file")


def _open_url(url: str) -> Remote:
    shown = Redactor().show(url)
    parts = _split(url, shown)
    if parts.scheme == "file":
        return _open_directory(unquote(parts.path))
    if parts.scheme not in {"https", "http", "ssh"}:
        raise ConfigurationError(
            f"repository {shown}: expected https://, ssh://, user@host:path or a directory, found {parts.scheme}://"
        )
    if not HOST.fullmatch(parts.hostname or ""):
        raise ConfigurationError(f"repository {shown}: no valid host name")
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ConfigurationError(
            f"repository {shown}: the URL holds credentials, which would end up in argument lists and logs; "
            "take them out and set RECONCILER_FORGE_TOKEN"
        )
    if (parts.username or "").startswith("-"):
        raise ConfigurationError(f"repository {shown}: no valid user name")
    if sends_in_the_clear(url):
        raise ConfigurationError(f"repository {shown}: http:// sends tokens in the clear; use https://")
    origin = "" if parts.scheme == "ssh" else f"{parts.scheme}://{parts.netloc}"
    return Remote(url=url, protocol=parts.scheme, origin=origin)


def _split(url: str, shown: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # urllib checks the port only when it is asked for
    except ValueError as error:
        raise ConfigurationError(f"repository {shown}: {error}") from None
    return parts
