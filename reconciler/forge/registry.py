"""Which forge a remote belongs to, and how each is opened."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import Forge, parse_remote
from reconciler.http.addresses import checked_root, sends_in_the_clear
from reconciler.http.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeToken:
    """A credential for an API, and in words where it was read from; its text shows in no repr."""

    text: str
    source: str = "the forge's token"

    def __repr__(self) -> str:
        return f"ForgeToken(source={self.source!r})"


def forge_for(remote: str, settings: ForgeSettings, token: ForgeToken | None, *, run_ends_s: float = math.inf) -> Forge:
    """The forge that holds the pull requests of `remote` (a URL or a directory).

    `forge.kind` decides, else the remote: a directory is local, github.com is GitHub. Nothing is asked here, and
    nothing after `run_ends_s`, in monotonic seconds.
    Raises ConfigurationError that names the setting.
    """
    kind = settings.kind or _kind_of(remote)
    open_forge = FORGES.get(kind)
    if open_forge is None:
        raise ConfigurationError(f"forge.kind: expected one of {', '.join(sorted(FORGES))}, found {kind!r}")
    return open_forge(remote, settings, token, run_ends_s)


def _kind_of(remote: str) -> str:
    if _directory(remote) is not None:
        return "local"
    address = parse_remote(remote)
    if address is not None and address.host == "github.com":
        return "github"
    host = address.host if address else Redactor().show(remote)
    raise ConfigurationError(f"{host}: no forge is known by this host: set forge.kind ({', '.join(sorted(FORGES))})")


def _open_github(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Forge:
    from reconciler.forge.github import GitHub, api_url
    from reconciler.forge.github_client import GitHubClient

    address = parse_remote(remote)
    if address is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: expected https://HOST/OWNER/NAME or git@HOST:OWNER/NAME for forge.kind github"
        )
    if token is None or not token.text.strip():
        raise ConfigurationError(f"{address}: pull requests need a token: set RECONCILER_FORGE_TOKEN or GITHUB_TOKEN")
    base_url = _checked_api_url(settings.url or api_url(address.host))
    client = GitHubClient(base_url, token.text.strip(), token_name=token.source, run_ends_s=run_ends_s)
    return GitHub(address, client)


def _open_local(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Forge:
    from reconciler.forge.local import Local

    del settings, token, run_ends_s  # a directory needs none of them
    directory = _directory(remote)
    if directory is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: forge.kind local works only with a bare repository on this machine"
        )
    return Local(directory)


FORGES: Mapping[str, Callable[[str, ForgeSettings, ForgeToken | None, float], Forge]] = {
    "github": _open_github,
    "local": _open_local,
}


def _directory(remote: str) -> Path | None:
    if remote.startswith("file://"):
        return Path(unquote(urlsplit(remote).path))
    if "://" in remote:
        return None
    path = Path(remote).expanduser()
    return path if path.is_absolute() or path.is_dir() else None


def _checked_api_url(url: str) -> str:
    """`url` when a token may be sent there; ConfigurationError otherwise."""
    root = checked_root(url, "forge.url")
    if sends_in_the_clear(root):
        raise ConfigurationError(f"forge.url: {root} would send the token in the clear; use https://")
    return root
