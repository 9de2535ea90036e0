"""The files of one commit as builds see them: by path, by directory, parsed already."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.documents import Document

KUSTOMIZATION_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_YAML_ENDINGS: Final = (".yaml", ".yml", ".json")
CHART_NAME: Final = "Chart.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRepository:
    """Every YAML file of a commit: `files` by path, and why those in `unreadable` could not be parsed.

    A file that holds nothing we read may have no documents, but its path must be there. With `is_whole` every document
    of every file is given, so that what is missing is missing; else a patch without a target is no mistake.
    `urls` are the addresses under which deployers call this repository; none known: any address may be it.
    """

    files: Mapping[str, Sequence[Document]]
    unreadable: Mapping[str, InputError] = field(default_factory=dict)
    is_whole: bool = True
    urls: frozenset[str] = frozenset()
    paths: Sequence[str] = field(default=(), init=False, repr=False)
    """Every path, sorted."""
    directories: Sequence[str] = field(default=(), init=False, repr=False)
    """Every directory, sorted; the empty one is the root."""
    _directories: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", sorted({*self.files, *self.unreadable}))
        for path in self.paths:
            self._directories.setdefault(directory_of(path), []).append(path)
        for leaf in list(self._directories):
            directory = leaf
            while directory:
                directory = directory_of(directory)
                self._directories.setdefault(directory, [])
        object.__setattr__(self, "directories", sorted(self._directories))

    def has_file(self, path: str) -> bool:
        """Whether the commit has this file."""
        return path in self.files or path in self.unreadable

    def has_directory(self, directory: str) -> bool:
        """Whether any file lies in or below a directory; the empty one is the root."""
        return directory in self._directories

    def read(self, path: str) -> Sequence[Document]:
        """The documents of a file; raises the InputError that it could not be parsed with."""
        if path in self.unreadable:
            raise self.unreadable[path]
        return self.files[path]

    def files_in(self, directory: str) -> Iterator[str]:
        """The files of a directory, not below it, in order."""
        yield from self._directories.get(directory, ())

    def files_below(self, directory: str) -> Iterator[str]:
        """The files in and below a directory, in order."""
        prefix = f"{directory}/" if directory else ""
        if directory:
            yield from self.files_in(directory)
        for index in range(bisect_left(self.directories, prefix), len(self.directories)):
            if not self.directories[index].startswith(prefix):
                return
            yield from self._directories[self.directories[index]]

    def kustomizations_in(self, directory: str) -> tuple[str, ...]:
        """The kustomization files of a directory: one, unless somebody made a mistake."""
        found = (join(directory, name) for name in KUSTOMIZATION_NAMES)
        return tuple(path for path in found if self.has_file(path))

    def is_ours(self, url: str) -> bool:
        """Whether a deployer's address may mean this repository."""
        return not self.urls or not url or normalise_url(url) in {normalise_url(each) for each in self.urls}


def is_kustomization(path: str) -> bool:
    """Whether a file is a kustomization by its name: it may leave out its kind."""
    return name_of(path) in KUSTOMIZATION_NAMES


def directory_of(path: str) -> str:
    """The directory of a path; empty at the root."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def is_yaml(path: str) -> bool:
    """Whether deployers take a file for manifests, by its name."""
    return path.endswith(_YAML_ENDINGS)


def join(directory: str, name: str) -> str:
    """A path below a directory; the empty one is the root."""
    return f"{directory}/{name}" if directory else name


def resolve(directory: str, relative: str) -> str | None:
    """The path that `relative` means in a directory; None outside of the repository."""
    if relative.startswith("/") or "\0" in relative:
        return None
    parts = directory.split("/") if directory else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def normalise_url(url: str) -> str:
    """Host and path of a repository's address in lower case, however it is spelled."""
    text = url.strip().lower().rstrip("/").removesuffix(".git")
    if "://" in text:
        text = text.partition("://")[2]
    elif ":" in text:
        text = text.replace(":", "/", 1)
    host, slash, path = text.partition("/")
    return host.rpartition("@")[2].partition(":")[0] + slash + path
