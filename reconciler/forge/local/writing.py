"""Files of the local forge: written whole beside their place, then moved or linked there in one step."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.errors import TransientError

MAX_NUMBER_TRIES = 1000
FILE_MODE = 0o644  # a temporary file is its owner's alone, and people are to read this one


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in the place of what `path` holds."""
    with _written(path.parent, content) as temporary:
        temporary.replace(path)


def claim_number(folder: Path, first: int, render: Callable[[int], bytes]) -> Path:
    """Write `N.md` under the first free number from `first` on, and return its path.

    A link appears complete or not at all, and never over another file.
    """
    for number in range(first, first + MAX_NUMBER_TRIES):
        path = folder / f"{number}.md"
        with _written(folder, render(number)) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                continue
        return path
    raise TransientError(f"{folder}: no free number near {first}")


@contextmanager
def _written(folder: Path, content: bytes) -> Iterator[Path]:
    """A complete file, safe on the disk, to be moved or linked to its place; what is left of it is removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, FILE_MODE)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            yield Path(name)
            _sync(folder)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise TransientError(f"{folder}: cannot be written: {error.strerror}") from None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
