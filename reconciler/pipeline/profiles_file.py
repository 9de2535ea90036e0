"""The file that `fit --write` keeps: where it may lie, what stays in it, and how it is replaced in one step."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.config.files import REPOSITORY_FILE, read_layers
from reconciler.config.learned_file import read_learned, render_learned
from reconciler.config.values import find_path_flaw
from reconciler.domain.profiles import KeptProfiles, PerformanceProfile
from reconciler.errors import ConfigurationError
from reconciler.git.repository import Repository, is_bare

MODE = 0o644

Profiles = Mapping[str, Sequence[PerformanceProfile]]
"""Performance profiles by model id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesFile:
    """A file of the work tree that is ours, or is not there yet; `path` is relative to the `root` of the work tree."""

    root: Path
    path: str

    @property
    def location(self) -> Path:
        """Where it lies on this machine."""
        return self.root / self.path

    def keep(self, learned: Profiles, repository: Repository) -> KeptProfiles:
        """Write what was learned over what was kept: profiles of other models and accelerators stay as they were.

        Raises ConfigurationError when somebody put something else there meanwhile, or it cannot be written.
        """
        kept = self.read()
        text = render_learned(merge_profiles(kept, learned))
        is_changed = bool(kept or learned) and text.encode() != self._content()
        if is_changed:
            self._replace(text.encode())
        return KeptProfiles(
            path=self.path, text=text, is_changed=is_changed, is_extended=is_extended(repository, self.path)
        )

    def read(self) -> Profiles:
        """What was kept; ConfigurationError when the file is not ours or is reached by a link."""
        self._refuse_links()
        return read_learned(self.location)

    def _refuse_links(self) -> None:
        parts = PurePosixPath(self.path).parts
        for depth in range(1, len(parts) + 1):
            place = self.root.joinpath(*parts[:depth])
            shown = "/".join(parts[:depth])
            if place.is_symlink():
                raise ConfigurationError(f"--write {self.path}: {shown} is a symbolic link, which is never written to")
            if place.exists() and not (place.is_file() if depth == len(parts) else place.is_dir()):
                expected = "a file" if depth == len(parts) else "a directory"
                raise ConfigurationError(f"--write {self.path}: expected {expected} at {shown}")

    def _content(self) -> bytes | None:
        try:
            return self.location.read_bytes()
        except FileNotFoundError:
            return None

    def _replace(self, content: bytes) -> None:
        """The whole new content or the whole old one, whenever the machine stops."""
        folder = self.location.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_whole(folder, self.location, content)
        except OSError as error:
            raise ConfigurationError(f"--write {self.path}: {error.strerror or error}") from error


def find_profiles_file(repo: str, path: str) -> ProfilesFile:
    """The file that `--write` names, before anything is asked.

    Raises ConfigurationError for a repository without a work tree (a URL, a bare directory), for a path that leads
    outside of it or through a link, and for a file that is somebody's own.
    """
    if not Path(repo).is_dir() or is_bare(repo):
        raise ConfigurationError(
            f"--write {path}: the repository {repo} has no work tree to write to: clone it and give its directory"
        )
    flaw = find_path_flaw(path) or _find_refusal(PurePosixPath(path))
    if flaw:
        raise ConfigurationError(f"--write: {flaw}")
    file = ProfilesFile(root=_work_tree(Path(repo)), path=PurePosixPath(path).as_posix())
    file.read()
    return file


def merge_profiles(kept: Profiles, learned: Profiles) -> dict[str, tuple[PerformanceProfile, ...]]:
    """What was learned in place of what was kept of the same model on the same accelerator, and all the rest."""
    merged = {model: {each.accelerator: each for each in profiles} for model, profiles in kept.items()}
    for model, profiles in learned.items():
        merged.setdefault(model, {}).update({each.accelerator: each for each in profiles})
    return {model: tuple(profiles.values()) for model, profiles in merged.items()}


def is_extended(repository: Repository, path: str) -> bool:
    """Whether the configuration of the base commit reads a file of the repository, by way of others too."""
    asked: set[str] = set()

    def read(extended: str) -> bytes | None:
        asked.add(PurePosixPath(extended).as_posix())
        return repository.read_file_at(repository.commit, extended)

    read_layers(repository.read_file_at(repository.commit, REPOSITORY_FILE), read, ())
    return path in asked


def _find_refusal(path: PurePosixPath) -> str:
    """Why a path may never be written to; empty when it may."""
    if ".git" in (part.lower() for part in path.parts):
        return f"expected a path outside of .git, got {path}"
    return f"expected a file beside {REPOSITORY_FILE}, which people write" if str(path) == REPOSITORY_FILE else ""


def _work_tree(folder: Path) -> Path:
    """The root of the work tree that a folder is in; the folder itself where git keeps it somewhere else."""
    whole = folder.resolve()
    return next((each for each in (whole, *whole.parents) if (each / ".git").exists()), whole)


def _write_whole(folder: Path, location: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{location.name}.", dir=folder)
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
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
