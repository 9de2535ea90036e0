"""The file that `fit --write` keeps: where it may lie, what stays in it, and how it is replaced in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.config.files import REPOSITORY_FILE, read_layers
from reconciler.config.learned_file import read_learned, render_learned
from reconciler.config.values import find_path_flaw
from reconciler.domain.profiles import KeptProfiles, PerformanceProfile
from reconciler.errors import ConfigurationError
from reconciler.git.repository import Repository
from reconciler.pipeline.work_tree import find_work_tree, read_content, refuse_links, write_content

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
    return f"expected a file beside {REPOSITORY_FILE}, which people write" if str(path) == REPOSITORY_FILE else ""
