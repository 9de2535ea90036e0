"""Secrets: read anew on each use, from where the reference says, and never repeated in a message."""

import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.config.environment import SECRETS_DIRECTORY, Environment
from reconciler.domain.settings import SecretRef
from reconciler.errors import ConfigurationError

MAX_SECRET_BYTES = 1024 * 1024
"""A CA bundle is the largest: a system's own has about 220 KB."""

REPOSITORY_PREFIX = "RECONCILER_"


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
