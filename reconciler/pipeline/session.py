"""The doors of a run: everything outside that it touches, opened from what command line and environment say."""

import logging
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from reconciler.config.environment import Environment, Flags, SecretReader
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import LoadedSettings, load_settings
from reconciler.domain.answers import Answer, Query, no_prometheus
from reconciler.domain.identity import Finding
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Assumption, ClusterSettings, GaugeSettings, Identity, SecretRef, Settings
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, Forge, ForgeToken
from reconciler.forge.registry import forge_for, kind_of, token_user
from reconciler.git.clone import Clone, clone_base
from reconciler.git.command import GitToken, open_remote, without_user
from reconciler.git.repository import CommitRecord, Repository, is_bare, open_directory, origin_url
from reconciler.git.signing import prepare_signer
from reconciler.http.messages import RUN_S, Clock
from reconciler.prometheus.client import PrometheusClient
from reconciler.rendering.renderer import Renderer

if TYPE_CHECKING:
    from reconciler.forge.push import Push

Ask = Callable[[ClusterSettings, Sequence[Query]], tuple[Answer, ...]]
"""Answers the queries of one cluster, in their order; failures are answers too."""

AskTime = Callable[[ClusterSettings], Answer]
"""What time it is at the Prometheus of a cluster, which must have one."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much; for people who wait."""
logger = logging.getLogger(__name__)


def no_progress(what: str, done: int, total: int) -> None:
    """Shows nothing."""
    del what, done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The repository at its base commit, Prometheus, and the forge (None: a plan without one)."""

    repository: Repository
    ask: Ask
    forge: Forge | None
    author: Identity
    renderer: Renderer
    needs_forge: bool = True
    """Whether nothing may be decided while the forge does not answer; a plan that only reads goes on."""
    progress: Progress = no_progress
    settings_of: Callable[[Repository], Settings] | None = None
    """The settings of another commit; None: those of the base hold for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Open doors with the settings they were opened by; `repository` is a name without credentials."""

    doors: Doors
    settings: Settings
    repository: str
    findings: tuple[Finding, ...]
    directory: str
    """Where the base is read as it lies, at HEAD; empty for a clone, or another base."""
    ask_time: AskTime
    ask_retention: Callable[[ClusterSettings], str]
    """For how long the Prometheus of a cluster keeps samples, in its own words."""
    run_interval_s: float
    """How often a run is started, as configured."""
    gauges: GaugeSettings | None
    """Where our own gauges go after a run; None: nowhere."""
    read_secret: Callable[[SecretRef], str]
    paused: str = ""
    """Who says that nothing may be written: a variable, or a line of the configuration; empty when it may."""


@contextmanager
def open_session(
    flags: Flags,
    environment: Environment,
    *,
    writes: bool,
    with_forge: bool = True,
    progress: Progress = no_progress,
) -> Iterator[Session]:
    """The doors of `run` (`writes`: a private clone of the remote, a forge) or of a plan that only reads.

    `with_forge` false leaves the forge alone: its pull requests are not read.
    Raises ConfigurationError for whatever is wrong with the command line, the files or the credentials.
    """
    source = _base_source(flags, writes=writes)
    run_ends_s = Clock().monotonic() + RUN_S
    # A git that ran out of time may have children that still write.
    with tempfile.TemporaryDirectory(prefix="reconciler-", ignore_cleanup_errors=True) as directory:
        repository, loaded = _open_base(flags, environment, source, Path(directory), run_ends_s)
        settings = loaded.settings
        secrets = SecretReader(environment=environment)
        signing = settings.git.signing
        if writes and signing is not None and signing.key is not None and isinstance(repository, Clone):
            signer = prepare_signer(signing.method, secrets.read(signing.key), Path(directory))
            repository = replace(repository, signer=signer)
        forge, author = None, settings.git.author or NEUTRAL_IDENTITY
        if with_forge:
            forge, author = open_forge(source.remote, settings, secrets, writes=writes, run_ends_s=run_ends_s)
            if forge is not None and not forge.keeps_pull_requests and isinstance(repository, Clone):
                forge = cast("Push", forge).reading(partial(read_tips, repository))
        doors = Doors(
            repository=repository,
            ask=_asker(secrets, progress, run_ends_s),
            forge=forge,
            author=author,
            renderer=Renderer(),
            needs_forge=writes,
            progress=progress,
            settings_of=lambda then: _load(flags, environment, source, then).settings,
        )
        yield Session(
            doors=doors,
            settings=settings,
            repository=without_user(source.remote or flags.repo),
            findings=loaded.findings,
            directory="" if flags.base else source.directory,
            ask_time=_time_asker(secrets, run_ends_s),
            ask_retention=_retention_asker(secrets, run_ends_s),
            run_interval_s=loaded.settings.run_interval_s,
            gauges=loaded.gauges,
            read_secret=secrets.read,
            paused=loaded.paused,
        )


def read_tips(clone: Clone, prefix: str) -> Mapping[str, CommitRecord]:
    """The newest commits of the remote's branches with a prefix."""
    return clone.fetch_branches(clone.remote_branches(prefix).keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class _BaseSource:
    """Where the base is read from: a directory as it lies, or a remote that is cloned."""

    directory: str
    remote: str

    @property
    def is_cloned(self) -> bool:
        return not self.directory


def _base_source(flags: Flags, *, writes: bool) -> _BaseSource:
    """A URL is cloned. A directory is read as it lies, unless we write: then its remote is what counts."""
    if not Path(flags.repo).exists():
        return _BaseSource(directory="", remote=open_remote(flags.repo).url)
    remote = str(Path(flags.repo).resolve()) if is_bare(flags.repo) else origin_url(flags.repo) or ""
    if not writes:
        return _BaseSource(directory=flags.repo, remote=remote)
    if not remote:
        raise ConfigurationError(f"--repo {flags.repo}: has no remote origin to push to; add one, or give its URL")
    return _BaseSource(directory="", remote=remote)


def _open_base(
    flags: Flags, environment: Environment, source: _BaseSource, directory: Path, run_ends_s: float
) -> tuple[Repository, LoadedSettings]:
    """The repository at its base commit, and the settings that commit holds.

    `git.baseBranch` is written in the base itself: the default branch is read first, and left when it names another.
    """
    if not source.is_cloned:
        repository = open_directory(source.directory, base=flags.base or None)
        return repository, _load(flags, environment, source, repository)
    clone = _clone(flags.base, environment, source, directory / "base", run_ends_s)
    loaded = _load(flags, environment, source, clone)
    base = loaded.settings.git.base_branch
    if flags.base or not base or base == clone.branch:
        return clone, loaded
    clone = _clone(base, environment, source, directory / "named-base", run_ends_s)
    return clone, _load(flags, environment, source, clone)


def _clone(base: str, environment: Environment, source: _BaseSource, directory: Path, run_ends_s: float) -> Clone:
    return clone_base(
        source.remote,
        base=base or None,
        credentials=_credentials(source.remote, environment, run_ends_s),
        directory=directory,
        run_ends_s=run_ends_s,
    )


def _credentials(remote: str, environment: Environment, run_ends_s: float) -> GitToken | None:
    """The forge's token, for a remote that is reached by https; the operator named both."""
    if not open_remote(remote).url.startswith(("https://", "http://")):
        return None
    reference = environment.forge_token(kind_of(remote))
    token = _token_of(remote, "", reference, SecretReader(environment=environment), run_ends_s)
    return None if token is None else GitToken(username=token_user(remote), token=token.text)


def _token_of(
    remote: str, url: str, reference: SecretRef | None, secrets: SecretReader, run_ends_s: float
) -> ForgeToken | None:
    """The token that is given, else one of the GitHub App whose key is; `url` is that of the API, if it is set."""
    if reference is not None:
        return ForgeToken(text=secrets.read(reference), source=str(reference))
    app = secrets.environment.github_app
    if app is None or kind_of(remote) not in ("", "github"):
        return None
    from reconciler.forge.github_app import make_token  # few have one

    number, key = app
    return make_token(remote, url, number, secrets.read(key), source=str(key), run_ends_s=run_ends_s)


def _load(flags: Flags, environment: Environment, source: _BaseSource, repository: Repository) -> LoadedSettings:
    return load_settings(
        repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
        read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
        list_repository_folder=repository.files_below,
        operator_files=flags.config_files,
        flags=replace(flags, remote=source.remote),
        environment=environment,
    )


def open_forge(
    remote: str, settings: Settings, secrets: SecretReader, *, writes: bool, run_ends_s: float = math.inf
) -> tuple[Forge | None, Identity]:
    """The forge and the identity behind its credential; a plan does without one that it has no way to."""
    reference = settings.forge.token
    author = settings.git.author
    try:
        token = _token_of(remote, settings.forge.url, reference, secrets, run_ends_s)
        forge = forge_for(remote, settings.forge, token, run_ends_s=run_ends_s)
        return forge, author or (token and token.author) or forge.author()
    except ReconcilerError as error:
        if writes:
            raise
        level = logging.INFO if reference is None else logging.WARNING  # a token that is given is meant to work
        logger.log(level, "%s: %s", Assumption.WITHOUT_FORGE, error)
        return None, author or NEUTRAL_IDENTITY


def _asker(secrets: SecretReader, progress: Progress, run_ends_s: float) -> Ask:
    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        if cluster.prometheus is None:
            return ()
        what = f"asking Prometheus of {cluster.name}"
        with closing(PrometheusClient(cluster.prometheus, secrets.read, run_ends_s=run_ends_s)) as client:
            return client.ask_all(queries, progress=lambda done, total: progress(what, done, total))

    return ask


def _time_asker(secrets: SecretReader, run_ends_s: float) -> AskTime:
    def ask_time(cluster: ClusterSettings) -> Answer:
        if cluster.prometheus is None:
            raise ConfigurationError(no_prometheus(cluster.name))
        with closing(PrometheusClient(cluster.prometheus, secrets.read, run_ends_s=run_ends_s)) as client:
            return client.ask_time(cluster.name)

    return ask_time


def _retention_asker(secrets: SecretReader, run_ends_s: float) -> Callable[[ClusterSettings], str]:
    def ask_retention(cluster: ClusterSettings) -> str:
        if cluster.prometheus is None:
            return ""
        with closing(PrometheusClient(cluster.prometheus, secrets.read, run_ends_s=run_ends_s)) as client:
            return client.ask_retention()

    return ask_retention
