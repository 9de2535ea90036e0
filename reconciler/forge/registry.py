"""Which forge a remote belongs to, how each is opened, and which change a CI job was started for."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.domain.answers import parse_json
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.hosted import number_of, text_of
from reconciler.forge.pull_requests import Forge, host_and_path, parse_nested_remote, parse_remote
from reconciler.http.addresses import checked_root, sends_in_the_clear
from reconciler.http.redaction import Redactor

# --- was reconciler/forge/events.py:
# Which change a job was started for: the event file of GitHub, the variables of GitLab. Both are data.

EVENT_FILE = "GITHUB_EVENT_PATH"
MAX_EVENT_BYTES = 32 * 1024 * 1024
MAX_VALUES = 1_000_000
HEADS = "refs/heads/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The change that a job is about.

    `head_ref` is where git finds it in the repository itself, a fork's too. `number` is 0 where it is of no pull
    request (a merge queue's), `base_branch` empty where only the head is known (a job after another).
    """

    head_commit: str
    base_branch: str = ""
    head_ref: str = ""
    number: int = 0
    is_from_fork: bool = False

    @property
    def only(self) -> str:
        """The head whose pull requests alone are meant; empty for a job that is about the change itself."""
        return "" if self.base_branch else self.head_commit

    def base_in(self, *, is_directory: bool) -> str:
        """What it would be merged into: as a checkout last saw its remote, or by the remote's own name."""
        return f"origin/{self.base_branch}" if is_directory and self.base_branch else self.base_branch

    def head_in(self, *, is_directory: bool) -> str:
        """What is reviewed: the commit of a checkout, or the ref of a remote."""
        return self.head_commit if is_directory else self.head_ref


def find_event(variables: Mapping[str, str]) -> Event | None:
    """The change that this job is about; None where it is about none, and outside of a job.

    Raises ConfigurationError for an event file that cannot be read.
    """
    if variables.get("CI_MERGE_REQUEST_IID"):
        return _of_gitlab(variables)
    path = variables.get(EVENT_FILE, "")
    return _of_github(_read(Path(path))) if path else None


def _of_github(event: object) -> Event | None:
    if text_of(event, "pull_request", "head", "sha"):
        number = number_of(event, "pull_request", "number")
        base = text_of(event, "pull_request", "base", "repo", "full_name")
        return Event(
            head_commit=text_of(event, "pull_request", "head", "sha"),
            base_branch=text_of(event, "pull_request", "base", "ref"),
            head_ref=f"refs/pull/{number}/head",
            number=number,
            is_from_fork=text_of(event, "pull_request", "head", "repo", "full_name") != base,
        )
    if text_of(event, "merge_group", "head_sha"):
        return Event(
            head_commit=text_of(event, "merge_group", "head_sha"),
            base_branch=text_of(event, "merge_group", "base_ref").removeprefix(HEADS),
            head_ref=text_of(event, "merge_group", "head_ref"),
        )
    commit = text_of(event, "workflow_run", "head_sha")
    return Event(head_commit=commit) if commit else None


def _of_gitlab(variables: Mapping[str, str]) -> Event:
    number = variables["CI_MERGE_REQUEST_IID"]
    if not number.isascii() or not number.isdigit():
        raise ConfigurationError(f"CI_MERGE_REQUEST_IID: expected a number, found {number[:20]!r}")
    get = variables.get
    return Event(
        # a pipeline for the merged result has a commit of its own, and tells that of the branch beside it
        head_commit=get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or get("CI_COMMIT_SHA", ""),
        base_branch=get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        head_ref=f"refs/merge-requests/{int(number)}/head",
        number=int(number),
        is_from_fork=get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") != get("CI_MERGE_REQUEST_PROJECT_ID"),
    )


def _read(path: Path) -> object:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_EVENT_BYTES)
        return parse_json(content, most_values=MAX_VALUES)
    except OSError as error:
        raise ConfigurationError(f"{EVENT_FILE}: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"{EVENT_FILE}: {path} is not JSON") from None


# --- was reconciler/forge/registry.py:
# Which forge a remote belongs to, and how each is opened.


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
    from reconciler.forge.github import GitHub, GitHubClient, api_url

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
    from reconciler.forge.gitlab import API, GitLab, GitLabClient, api_url

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
