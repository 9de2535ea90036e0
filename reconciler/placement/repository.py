"""The files of one commit as builds see them: by path, by directory, parsed already."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import InputError
from reconciler.manifests.documents import Document
from reconciler.placement.flux_sources import FluxSources
from reconciler.placement.paths import (
    KUSTOMIZATION_NAMES,
    OwnAddress,
    compare_addresses,
    directory_of,
    is_address,
    join,
    name_of,
    normalise_url,
    split_address,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRepository:
    """Every YAML file of a commit: `files` by path, and why those in `unreadable` could not be parsed.

    A file that holds nothing we read may have no documents, but its path must be there. With `is_whole` every document
    of every file is given, so that what is missing is missing; else a patch without a target is no mistake.
    `remote` is where it comes from: the address under which deployers call it, or a path that tells its name alone.
    """

    files: Mapping[str, Sequence[Document]]
    unreadable: Mapping[str, InputError] = field(default_factory=dict)
    is_whole: bool = True
    remote: str = ""
    paths: Sequence[str] = field(default=(), init=False, repr=False)
    """Every path, sorted."""
    directories: Sequence[str] = field(default=(), init=False, repr=False)
    """Every directory, sorted; the empty one is the root."""
    flux_sources: FluxSources = field(init=False, repr=False, compare=False)
    """What Flux deploys from, as far as it is declared here."""
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
        sources = FluxSources(compare=self._compare, remote_name=name_of(normalise_url(self.remote)))
        for path, documents in self.files.items():
            sources.add(path, documents)
        object.__setattr__(self, "flux_sources", sources)

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
        return self._compare(url) is not False

    def find_own(self, text: str) -> OwnAddress | None:
        """What an address means in this repository; None where it means another one, or nothing that is here."""
        found = split_address(text) if self.remote and is_address(text) else None
        if found is None or not self.is_ours(found.repository):
            return None
        return found if self.has_file(found.path) or self.kustomizations_in(found.path) else None

    def _compare(self, url: str) -> bool | None:
        return compare_addresses(url, self.remote)
