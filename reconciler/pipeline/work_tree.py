"""Files that we write into a person's work tree: never through a link, and whole or not at all."""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from reconciler.config.files import REPOSITORY_FILE, read_layers
from reconciler.config.layers import find_path_flaw
from reconciler.config.loading import read_learned, render_learned
from reconciler.domain.profiles import KeptProfiles, PerformanceProfile
from reconciler.domain.recording import ManifestFile
from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError
from reconciler.git.repository import Repository, is_bare, untracked, work_tree
from reconciler.pipeline.files import is_manifest

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


NAMED = 3


def uncommitted(directory: str, repository: Repository, manifests: Iterable[ManifestFile]) -> str:
    """A sentence about what in the work tree of `directory` differs from what was read; empty when nothing does.

    Files are compared byte by byte but for line ends, and links are not followed: no filter of the repository runs.
    """
    top = work_tree(directory)
    if top is None:
        return ""
    read = {each.path: each.body for each in manifests}
    if (configuration := repository.read_file_at(repository.commit, REPOSITORY_FILE)) is not None:
        read[REPOSITORY_FILE] = configuration
    changed = (path for path, body in read.items() if _differs(top / path, body))
    names = sorted({*changed, *filter(is_manifest, untracked(top))})
    if not names:
        return ""
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"work tree is dirty: planned HEAD, without what is not committed ({shown})"


def _differs(path: Path, body: bytes) -> bool:
    try:
        return path.is_symlink() or _unix(path.read_bytes()) != _unix(body)
    except OSError:
        return True


def _unix(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n")


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
        is_changed = bool(kept or learned) and text.encode() != read_content(self.root, self.path)
        if is_changed:
            write_content(self.root, self.path, text.encode(), f"--write {self.path}")
        return KeptProfiles(
            path=self.path, text=text, is_changed=is_changed, is_extended=is_extended(repository, self.path)
        )

    def read(self) -> Profiles:
        """What was kept; ConfigurationError when the file is not ours or is reached by a link."""
        refuse_links(self.root, self.path, f"--write {self.path}")
        return read_learned(self.location)


def find_profiles_file(repo: str, path: str) -> ProfilesFile:
    """The file that `--write` names, before anything is asked.

    Raises ConfigurationError for a repository without a work tree (a URL, a bare directory), for a path that leads
    outside of it or through a link, and for a file that is somebody's own.
    """
    root = find_work_tree(repo, f"--write {path}")
    flaw = find_path_flaw(path) or _find_refusal(PurePosixPath(path))
    if flaw:
        raise ConfigurationError(f"--write: {flaw}")
    file = ProfilesFile(root=root, path=PurePosixPath(path).as_posix())
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
    return f"expected a file next to {REPOSITORY_FILE}, which people write" if str(path) == REPOSITORY_FILE else ""
