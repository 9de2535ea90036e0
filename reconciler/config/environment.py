"""The process environment and the command line's part of the settings, as values; secrets, read when they are used."""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from reconciler.domain.records import dataclass
from reconciler.domain.settings import SecretRef
from reconciler.domain.shards import Shard
from reconciler.errors import ConfigurationError
from reconciler.forge.registry import FORGES, TOKEN_VARIABLES
from reconciler.http.redaction import origin_of

DEFAULT_SECRETS_DIRECTORY = "/var/run/secrets/reconciler"
SECRETS_DIRECTORY = "RECONCILER_SECRETS_DIR"
TRUSTED_ORIGINS = "RECONCILER_TRUSTED_ORIGINS"
PROMETHEUS_TOKEN = "RECONCILER_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable
FORGE_TOKEN = "RECONCILER_FORGE_TOKEN"  # noqa: S105 - the name of a variable
GITHUB_APP_ID = "RECONCILER_GITHUB_APP_ID"
GITHUB_APP_KEY = "RECONCILER_GITHUB_APP_KEY"
PAUSED = "RECONCILER_PAUSED"

_SEPARATOR = re.compile(r"[,\s]+")
MAX_SECRET_BYTES = 1024 * 1024
"""A CA bundle is the largest: a system's own has about 220 KB."""

REPOSITORY_PREFIX = "RECONCILER_"
_NOT_SET = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says of repository, configuration and Prometheus.

    `repo` is `--repo` as written; `remote` the URL of the remote `origin` when `repo` is a directory: naming
    the directory names its remote too. `clusters` empty is all of them, so is no `shard`.
    """

    repo: str = "."
    remote: str = ""
    base: str = ""
    config_files: tuple[Path, ...] = ()
    prometheus: str = ""
    clusters: tuple[str, ...] = ()
    shard: Shard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Environment variables at one moment; an empty one counts as not set, as in a CI job without the secret."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> str:
        """A variable's text; empty when it is not set."""
        return self.variables.get(name, "")

    @property
    def prometheus_token(self) -> SecretRef | None:
        """The bearer token for `--prometheus`."""
        return self._token(PROMETHEUS_TOKEN)

    @property
    def own_forge_token(self) -> SecretRef | None:
        """The forge's token as our own variable gives it."""
        return self._token(FORGE_TOKEN)

    def forge_token(self, kind: str) -> SecretRef | None:
        """The forge's token: ours, else the one that is named after a forge of this kind, or of any if `kind` is none.

        Raises ConfigurationError where there are several of those.
        """
        if token := self.own_forge_token:
            return token
        own = FORGES[kind].variable if kind in FORGES else ""
        given = [name for name in ([own] if own else TOKEN_VARIABLES) if self.get(name)]
        if len(given) > 1:
            raise ConfigurationError(f"{' and '.join(given)}: which is for this forge? set {FORGE_TOKEN}")
        return SecretRef(env=given[0]) if given else None

    @property
    def github_app(self) -> tuple[str, SecretRef] | None:
        """The number of a GitHub App with its private key; ConfigurationError for one of both alone."""
        number, key = self.get(GITHUB_APP_ID), self._token(GITHUB_APP_KEY)
        if bool(number) != (key is not None):
            raise ConfigurationError(f"{GITHUB_APP_ID}: set it together with {GITHUB_APP_KEY}_FILE")
        if key is None:
            return None
        if not (number.isascii() and number.replace("-", "").replace(".", "").isalnum()):
            raise ConfigurationError(f"{GITHUB_APP_ID}: expected the App's number or client ID")
        return number, key

    def forge_of_job(self, host: str) -> tuple[str, str]:
        """Kind and API of the forge that this is a CI job of, when that is on `host`; empty for anything else.

        The host's name need not say what it is, and the API may be below a path.
        """
        for name, kind in FORGES.items():
            if kind.job_host and host and self.get(kind.job_host).lower() == host and self.get(kind.job_api):
                return name, self.get(kind.job_api)
        return "", ""

    @property
    def secrets_directory(self) -> str:
        """The directory that the repository's own files may refer to."""
        return self.get(SECRETS_DIRECTORY) or DEFAULT_SECRETS_DIRECTORY

    @property
    def trusted_origins(self) -> tuple[str, ...]:
        """The origins of RECONCILER_TRUSTED_ORIGINS; ConfigurationError when one is not `scheme://host[:port]`."""
        return tuple(_parse_origin(text) for text in _SEPARATOR.split(self.get(TRUSTED_ORIGINS)) if text)

    @property
    def is_paused(self) -> bool:
        """Whether RECONCILER_PAUSED stops all writing: any text does that does not plainly say no."""
        return self.get(PAUSED).strip().lower() not in _NOT_SET

    @property
    def wants_color(self) -> bool | None:
        """What NO_COLOR and FORCE_COLOR ask for; None when neither is set. NO_COLOR wins."""
        if self.get("NO_COLOR"):
            return False
        return True if self.get("FORCE_COLOR") else None

    def _token(self, name: str) -> SecretRef | None:
        file, text = self.get(f"{name}_FILE"), self.get(name)
        if file and text:
            raise ConfigurationError(f"{name}: set together with {name}_FILE: unset one of them")
        if file:
            return SecretRef(file=file)
        return SecretRef(env=name) if text else None


def read_environment() -> Environment:
    """The environment of this process: the only place that reads it."""
    return Environment(variables=MappingProxyType(dict(os.environ)))


def join_origins(origins: Iterable[str]) -> str:
    """The line that trusts these origins, as an operator would write it."""
    return f"{TRUSTED_ORIGINS}={','.join(dict.fromkeys(origins))}"


def _parse_origin(text: str) -> str:
    try:
        origin = origin_of(text)
    except ValueError as error:
        raise ConfigurationError(f"{TRUSTED_ORIGINS}: {error}") from None
    if "/" in text.partition("://")[2].removesuffix("/"):
        raise ConfigurationError(f"{TRUSTED_ORIGINS}: expected an origin like {origin}, without a path")
    return origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReader:
    """Reads what references name. Nothing is kept, so that a rotated secret is seen."""

    environment: Environment

    def read(self, reference: SecretRef) -> str:
        """The secret without one trailing line break.

        Raises ConfigurationError naming the reference when it is missing, empty, unreadable, not UTF-8 or too large.
        """
        text = self._read_file(reference) if reference.file else self.environment.get(reference.env)
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ConfigurationError(f"secret {reference}: {'the file is empty' if reference.file else 'not set'}")
        return text

    def _read_file(self, reference: SecretRef) -> str:
        path = Path(reference.file)
        try:
            self._refuse_escape(reference, path)
            if not stat.S_ISREG(path.stat().st_mode):
                raise ConfigurationError(f"secret {reference}: expected a regular file")
            with path.open("rb") as file:
                content = file.read(MAX_SECRET_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(f"secret {reference}: {error.strerror or 'cannot be read'}") from None
        if len(content) > MAX_SECRET_BYTES:
            raise ConfigurationError(f"secret {reference}: expected at most {MAX_SECRET_BYTES} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ConfigurationError(f"secret {reference}: expected UTF-8 text") from None

    def _refuse_escape(self, reference: SecretRef, path: Path) -> None:
        """A reference below the secrets directory must stay there: the repository may be its author."""
        directory = Path(self.environment.secrets_directory)
        if lies_below(reference.file, str(directory)) and not path.resolve().is_relative_to(directory.resolve()):
            raise ConfigurationError(f"secret {reference}: a symbolic link leads out of {directory}")


def lies_below(path: str, directory: str) -> bool:
    """Whether an absolute path without `..` lies below a directory, by components."""
    parts = PurePosixPath(path).parts
    below = PurePosixPath(directory).parts
    return path.startswith("/") and ".." not in parts and len(parts) > len(below) and parts[: len(below)] == below


def find_refusal(reference: SecretRef, secrets_directory: str) -> str:
    """Why a file of the repository may not use this reference; empty when it may."""
    if reference.file and not lies_below(reference.file, secrets_directory):
        return (
            f"in the repository a secret's file must lie below {secrets_directory} ({SECRETS_DIRECTORY}), without `..`"
        )
    if reference.env and not reference.env.startswith(REPOSITORY_PREFIX):
        return f"in the repository a secret's variable must begin with {REPOSITORY_PREFIX}"
    return ""
