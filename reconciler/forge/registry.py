"""Which forge a remote belongs to, and how each is opened."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import Forge, host_and_path, parse_nested_remote, parse_remote
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

    `forge.kind` decides, else the remote, see `kind_of`. Nothing is asked here, and nothing after `run_ends_s`, in
    monotonic seconds.
    Raises ConfigurationError that names the setting.
    """
    kind, known = settings.kind or kind_of(remote), ", ".join(sorted(FORGES))
    if not kind:
        host = host_and_path(remote)[0] or Redactor().show(remote)
        raise ConfigurationError(f"{host}: no forge is known by this host: set forge.kind ({known})")
    open_forge = FORGES.get(kind)
    if open_forge is None:
        raise ConfigurationError(f"forge.kind: expected one of {known}, found {kind!r}")
    return open_forge(remote, settings, token, run_ends_s)


def kind_of(remote: str) -> str:
    """The forge that a remote says by itself: a directory is local, github.com GitHub, gitlab.* GitLab; else empty."""
    if _directory(remote) is not None:
        return "local"
    host, _ = host_and_path(remote)
    if host == "github.com":
        return "github"
    return "gitlab" if host.startswith("gitlab.") else ""


def _open_github(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Forge:
    from reconciler.forge.github.client import GitHubClient
    from reconciler.forge.github.pull_requests import GitHub, api_url

    address = parse_remote(remote)
    if address is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: expected https://HOST/OWNER/NAME or git@HOST:OWNER/NAME for forge.kind github"
        )
    given = _given(token, str(address), "GITHUB_TOKEN")
    base_url = _checked_api_url(settings.url or api_url(address.host))
    client = GitHubClient(base_url, given.text.strip(), token_name=given.source, run_ends_s=run_ends_s)
    return GitHub(address, client)


def _open_gitlab(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Forge:
    from reconciler.forge.gitlab.client import GitLabClient
    from reconciler.forge.gitlab.merge_requests import API, GitLab, api_url

    root = _checked_api_url(settings.url or api_url(remote))
    if not root.endswith(API):
        raise ConfigurationError(f"forge.url: expected a URL that ends with {API}, found {root}")
    address = parse_nested_remote(remote, below=urlsplit(root).path.removesuffix(API))
    if address is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: expected https://HOST/GROUP/PROJECT or git@HOST:GROUP/PROJECT where forge.url "
            "is, for forge.kind gitlab"
        )
    given = _given(token, str(address), "GITLAB_TOKEN")
    client = GitLabClient(root, given.text.strip(), token_name=given.source, run_ends_s=run_ends_s)
    return GitLab(address, client)


def _given(token: ForgeToken | None, address: str, variable: str) -> ForgeToken:
    if token is None or not token.text.strip():
        raise ConfigurationError(f"{address}: pull requests need a token: set RECONCILER_FORGE_TOKEN or {variable}")
    return token


def _open_local(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Forge:
    from reconciler.forge.local.pull_requests import Local

    del settings, token, run_ends_s  # a directory needs none of them
    directory = _directory(remote)
    if directory is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: forge.kind local works only with a bare repository on this machine"
        )
    return Local(directory)


FORGES: Mapping[str, Callable[[str, ForgeSettings, ForgeToken | None, float], Forge]] = {
    "github": _open_github,
    "gitlab": _open_gitlab,
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
