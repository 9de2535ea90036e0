"""Files that we write into a person's work tree: never through a link, and whole or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

from reconciler.errors import ConfigurationError
from reconciler.git.repository import is_bare

MODE = 0o644


def find_work_tree(repo: str, wish: str) -> Path:
    """The root of the work tree that a directory is in; the directory itself where git keeps it somewhere else.

    Raises ConfigurationError, beginning with `wish`, for a repository without one: a URL, a bare directory.
    """
    if not Path(repo).is_dir() or is_bare(repo):
        raise ConfigurationError(
            f"{wish}: the repository {repo} has no work tree to write to: clone it and give its directory"
        )
    whole = Path(repo).resolve()
    return next((each for each in (whole, *whole.parents) if (each / ".git").exists()), whole)


def refuse_links(root: Path, path: str, wish: str) -> None:
    """Raise ConfigurationError, beginning with `wish`, where a link or something unexpected is in a path's way."""
    parts = PurePosixPath(path).parts
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        shown = "/".join(parts[:depth])
        if place.is_symlink():
            raise ConfigurationError(f"{wish}: {shown} is a symbolic link, which is never written to")
        if place.exists() and not (place.is_file() if depth == len(parts) else place.is_dir()):
            expected = "a file" if depth == len(parts) else "a directory"
            raise ConfigurationError(f"{wish}: expected {expected} at {shown}")


def read_content(root: Path, path: str) -> bytes | None:
    """What a file holds; None where there is none."""
    try:
        return (root / path).read_bytes()
    except FileNotFoundError:
        return None


def write_content(root: Path, path: str, content: bytes, wish: str) -> None:
    """The whole new content or the whole old one, whenever the machine stops; ConfigurationError begins with `wish`."""
    location = root / path
    try:
        location.parent.mkdir(parents=True, exist_ok=True)
        write_whole(location, content)
    except OSError as error:
        raise ConfigurationError(f"{wish}: {error.strerror or error}") from error


def write_whole(location: Path, content: bytes) -> None:
    """Replace what a file holds in one step, readable for everybody; OSError where that cannot be."""
    descriptor, name = tempfile.mkstemp(prefix=f".{location.name}.", dir=location.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, MODE)
            os.fsync(descriptor)
        Path(name).replace(location)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    _sync_folder(location.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
