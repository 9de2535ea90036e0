"""The known forges, the forge of a remote, and opening it."""

import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from re import fullmatch
from typing import cast
from urllib.parse import unquote, urlsplit

from reconciler.domain.records import dataclass
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import Forge, ForgeToken, host_and_path
from reconciler.http.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeKind:
    """The configuration of a forge, whose module is loaded only when it is opened.

    `variable` has the forge's own token, which is never sent to another. `hosts` is a pattern of hosts that are surely
    this forge; `api_prefix` and such a host are the host of its API. In a CI job of the forge `job_host` and `job_api`
    are the variables with its host and its API's URL.
    """

    variable: str = ""
    hosts: str = ""
    api_prefix: str = ""
    job_host: str = ""
    job_api: str = ""


FORGES: Mapping[str, ForgeKind] = {
    "github": ForgeKind(variable="GITHUB_TOKEN", hosts=r"github\.com|[a-z0-9-]+\.ghe\.com", api_prefix="api."),
    "gitlab": ForgeKind(
        variable="GITLAB_TOKEN", hosts=r"gitlab\..*", job_host="CI_SERVER_HOST", job_api="CI_API_V4_URL"
    ),
    "gitea": ForgeKind(variable="GITEA_TOKEN", hosts=r"gitea\..*|forgejo\..*|codeberg\.org"),
    "local": ForgeKind(),
    "push": ForgeKind(hosts=r"bitbucket\.org|(ssh\.)?dev\.azure\.com|.*\.visualstudio\.com"),
}
"""By `forge.kind`; `reconciler/forge/NAME.py` has the function `open_forge`."""
TOKEN_USERS: Mapping[str, str] = {"bitbucket.org": "x-token-auth"}
"""The user names that hosts expect with a token of git."""
TOKEN_USER = "x-access-token"  # noqa: S105  # what other hosts expect, or any name
TOKEN_VARIABLES = tuple(kind.variable for kind in FORGES.values() if kind.variable)


def forge_for(remote: str, settings: ForgeSettings, token: ForgeToken | None, *, run_ends_s: float = math.inf) -> Forge:
    """The forge of `remote` (a URL or a directory), by `forge.kind`, else by the remote, see `kind_of`.

    No request is sent here, and none after `run_ends_s`, in monotonic seconds. Raises ConfigurationError that names the
    setting.
    """
    kind, known = settings.kind or kind_of(remote), ", ".join(sorted(FORGES))
    if not kind:
        host = host_and_path(remote)[0] or Redactor().show(remote)
        raise ConfigurationError(f"{host}: the forge of this host is unknown: set forge.kind ({known})")
    if kind not in FORGES:
        raise ConfigurationError(f"forge.kind: expected one of {known}, found {kind!r}")
    module = import_module(f"reconciler.forge.{kind}")
    return cast(Forge, module.open_forge(remote, settings, token, run_ends_s))


def kind_of(remote: str) -> str:
    """The forge of a remote: local for a directory, GitHub for github.com, GitLab for gitlab.*; else empty."""
    if directory_of(remote) is not None:
        return "local"
    host, _ = host_and_path(remote)
    return next((name for name, kind in FORGES.items() if kind.hosts and fullmatch(kind.hosts, host)), "")


def token_user(remote: str) -> str:
    """The user name that goes with a token for git."""
    return TOKEN_USERS.get(host_and_path(remote)[0], TOKEN_USER)


def directory_of(remote: str) -> Path | None:
    """The directory of a local remote; None for any other."""
    if remote.startswith("file://"):
        return Path(unquote(urlsplit(remote).path))
    if "://" in remote:
        return None
    path = Path(remote).expanduser()
    return path if path.is_absolute() or path.is_dir() else None
