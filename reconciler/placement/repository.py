"""The files of one commit for builds: paths, addresses, Flux sources."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, text_at, value_at

KUSTOMIZATION_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_YAML_ENDINGS: Final = (".yaml", ".yml", ".json")
CHART_NAME: Final = "Chart.yaml"
_ADDRESS: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/]+/.+|[^/:]{2,}:[^/].*")
_REMOTE: Final = re.compile(r"[a-z+]+://|git@|git::|[\w-]+(?:\.[\w-]+)+[/:]|.*\?ref=", re.IGNORECASE | re.DOTALL)
_RAW_HOST: Final = "raw.githubusercontent.com/"
_LATEST: Final = frozenset({"", "HEAD", "main", "master"})
_LOOPBACK: Final = re.compile(r"localhost|127\.[0-9.]+|\[.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddress:
    """An address in parts: the repository, a path in it, and the commit, empty for the latest."""

    repository: str
    path: str
    revision: str


def is_address(text: str) -> bool:
    """Whether Kustomize fetches what an entry names."""
    return _REMOTE.match(text) is not None


def split_address(text: str) -> OwnAddress | None:
    """The parts of an address that Kustomize fetches from; None if it cannot be parsed."""
    base, _, query = text.removeprefix("git::").partition("?")
    revisions = [value for name, _, value in (each.partition("=") for each in query.split("&")) if name == "ref"]
    scheme, found, rest = base.rpartition("://")
    if rest.startswith(_RAW_HOST):
        owner, name, revision, *parts = [*rest.removeprefix(_RAW_HOST).split("/"), "", "", ""]
        repository, path, revisions = f"github.com/{owner}/{name}", "/".join(parts).strip("/"), [revision]
    elif "//" in rest:
        repository, _, path = rest.partition("//")
    elif ".git/" in rest:
        repository, _, path = rest.partition(".git/")
    else:
        host, *parts = rest.split("/")
        repository, path = "/".join((host, *parts[:2])), "/".join(parts[2:])
    directory = resolve("", path)
    if not repository or directory is None:
        return None
    revision = next((each for each in revisions if each not in _LATEST), "")
    return OwnAddress(repository=scheme + found + repository, path=directory, revision=revision)


def is_kustomization(path: str) -> bool:
    """Whether a file is a kustomization by its name, as its kind is optional."""
    return name_of(path) in KUSTOMIZATION_NAMES


def directory_of(path: str) -> str:
    """The directory of a path; empty at the root."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def is_yaml(path: str) -> bool:
    """Whether a file holds manifests, by its name."""
    return path.endswith(_YAML_ENDINGS)


def join(directory: str, name: str) -> str:
    """A path below a directory; the empty one is the root."""
    return f"{directory}/{name}" if directory else name


def resolve(directory: str, relative: str) -> str | None:
    """A path relative to a directory; None outside of the repository."""
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
    """Host and path of a repository's address in any form, in lower case."""
    text = url.strip().lower().rstrip("/").removesuffix(".git")
    if "://" in text:
        text = text.partition("://")[2]
    elif ":" in text:
        text = text.replace(":", "/", 1)
    host, slash, path = text.partition("/")
    return host.rpartition("@")[2].partition(":")[0] + slash + path


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies below it; all lies below the root."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def compare_addresses(url: str, remote: str) -> bool | None:
    """Whether both are one repository; None if unknown, as for local directories and servers.

    A repository of the same name on another host counts as a mirror.
    """
    own, other = normalise_url(remote), normalise_url(url)
    if not other or "${" in url or "{{" in url:
        return None
    is_namesake = bool(name_of(own)) and name_of(own) == name_of(other)
    host, other_host = own.partition("/")[0], other.partition("/")[0]
    if not _ADDRESS.fullmatch(remote) or _LOOPBACK.fullmatch(host):
        return True if own == other or is_namesake else None
    return own == other or (is_namesake and host != other_host)


GROUP: Final = "source.toolkit.fluxcd.io"
GENERATOR_GROUP: Final = "source.extensions.fluxcd.io"
GIT: Final = "GitRepository"
ARTIFACT: Final = "ExternalArtifact"
KINDS: Final = frozenset({GIT, "OCIRepository", "Bucket", "ArtifactGenerator"})
BOOTSTRAPPED: Final = "flux-system"
"""The source that Flux was installed from."""
_DEPLOYER: Final = "kustomize.toolkit.fluxcd.io"
_ALL_BELOW: Final = "/**"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceName:
    """A reference to a source in a Kustomization or a generator."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class _Artifact(NamedTuple):
    """One artifact of a generator: its sources, and its copies."""

    sources: tuple[SourceName, ...]
    copies: tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class FluxSources:
    """The sources that a repository declares; `compare` says whether an address is this repository's, None if unknown.

    `own_names` are Git sources of deployers that deploy their own files: they can only be this repository.
    """

    compare: Callable[[str], bool | None]
    remote_name: str = ""
    urls: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    artifacts: dict[str, list[tuple[str, _Artifact]]] = field(default_factory=dict)
    own_names: set[str] = field(default_factory=set)
    referenced: set[str] = field(default_factory=set)

    def add(self, path: str, documents: Iterable[Document]) -> None:
        """Add the sources in a file."""
        for document in documents:
            value = document.value
            if not isinstance(value, dict):
                continue
            group = text_at(value, "apiVersion").partition("/")[0]
            if group == GROUP:
                key = text_at(value, "kind"), text_at(value, "metadata", "name")
                url = text_at(value, "spec", "url")
                self.urls.setdefault(key, []).append((text_at(value, "metadata", "namespace"), url))
            elif group == GENERATOR_GROUP:
                for name, artifact in _artifacts(value):
                    self.artifacts.setdefault(name, []).append((text_at(value, "metadata", "namespace"), artifact))
            elif group == _DEPLOYER and text_at(value, "spec", "sourceRef", "kind") == GIT:
                name = text_at(value, "spec", "sourceRef", "name")
                directory = resolve("", text_at(value, "spec", "path"))
                self.referenced.add(name)
                if directory and is_within(path, directory):
                    self.own_names.add(name)

    def is_ours(self, source: SourceName) -> bool | None:
        """Whether a source is this repository; None where that is unknown."""
        found = self.urls.get((source.kind, source.name), [])
        named = [url for namespace, url in found if namespace == source.namespace] or [url for _, url in found]
        written = [url for url in named if url and "${" not in url]
        if source.kind != GIT:
            # The path of an image usually has the repository's name.
            is_named_like = bool(self.remote_name) and any(self.remote_name in url.split("/") for url in written)
            return source.name == BOOTSTRAPPED or is_named_like
        compared = [self.compare(url) for url in written]
        if True in compared:
            return True
        if written and all(each is False for each in compared):
            return False
        if self._is_own(source.name):
            return True
        if not written:
            return None
        own = [name for name in {*self.referenced, *(name for _, name in self.urls)} if self._is_own(name)]
        addresses = {normalise_url(url) for name in own for _, url in self.urls.get((GIT, name), ())}
        return any(normalise_url(url) in addresses for url in written) or (False if own else None)

    def _is_own(self, name: str) -> bool:
        return name == BOOTSTRAPPED or name in self.own_names or (bool(name) and name == self.remote_name)

    def directories_in(self, source: SourceName, path: str) -> tuple[set[str], bool]:
        """The directories of this repository for a path in an artifact, and whether it may mean another repository."""
        found = self.artifacts.get(source.name, [])
        near = [each for namespace, each in found if namespace == source.namespace] or [each for _, each in found]
        directories, is_foreign = set(), False
        for artifact in near:
            ours = [self.is_ours(each) for each in artifact.sources]
            is_foreign = is_foreign or (bool(ours) and all(each is False for each in ours))
            base, moves = _base_of(artifact), [move for move in _moves(artifact) if move is not None]
            if base is not None and False not in ours and any(is_within(path, goal) for _, goal in moves):
                directories.add(join(base, path) if path else base)
        return directories, is_foreign


def _artifacts(value: dict[str, Value]) -> Iterator[tuple[str, _Artifact]]:
    namespace = text_at(value, "metadata", "namespace")
    sources = {}
    for each in _list(value, "spec", "sources"):
        kind, name = text_at(each, "kind"), text_at(each, "name")
        source = SourceName(kind=kind, namespace=text_at(each, "namespace") or namespace, name=name)
        sources[text_at(each, "alias")] = source
    for each in _list(value, "spec", "artifacts"):
        copies = tuple((text_at(copy, "from"), text_at(copy, "to")) for copy in _list(each, "copy"))
        aliases = {text.partition("/")[0] for text, _ in copies}
        used = tuple(source for alias, source in sources.items() if f"@{alias}" in aliases)
        yield text_at(each, "name"), _Artifact(sources=used, copies=copies)


def _moves(artifact: _Artifact) -> Iterator[tuple[str, str] | None]:
    """Directories of the source and of the artifact; None for a copy that is not of a whole directory."""
    for origin, target in artifact.copies:
        source, goal = origin.partition("/")[2], resolve("", target.removeprefix("@artifact").lstrip("/"))
        if goal is None:
            yield None
        elif source in ("", "**") or source.endswith((_ALL_BELOW, "/")):
            yield source.removesuffix("**").strip("/"), goal
        elif "*" in source or "?" in source or "[" in source:
            yield None
        else:
            source = source.strip("/")
            yield source, join(goal, source.rpartition("/")[2]) if target.endswith("/") else goal


def _base_of(artifact: _Artifact) -> str | None:
    """The directory that becomes the artifact's root; None if the copies rearrange its files."""
    bases = set()
    for move in _moves(artifact):
        if move is None:
            return None
        source, goal = move
        if goal and source != goal and not source.endswith(f"/{goal}"):
            return None
        bases.add(source.removesuffix(goal).rstrip("/") if goal else source)
    return bases.pop() if len(bases) == 1 else None


def _list(value: Value, *path: str) -> Sequence[Value]:
    found = value_at(value, path)
    return found if isinstance(found, list) else []


@dataclass(frozen=True, kw_only=True)
class ManifestRepository:
    """Every YAML file of a commit: `files` by path, and the errors of those in `unreadable`.

    Files without documents that we read must be included. Only with `is_whole` every document of every file is given,
    and a patch without a target is an error. `remote` is the repository's address in deployers, or a local path.
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
    """The sources of Flux that are declared here."""
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
        remote = self.remote  # the sources must not hold the repository: a cycle keeps every document in memory
        sources = FluxSources(
            compare=lambda url: compare_addresses(url, remote), remote_name=name_of(normalise_url(remote))
        )
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
        """The documents of a file; raises the InputError of an unreadable one."""
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
        """The kustomization files of a directory; more than one is an error."""
        found = (join(directory, name) for name in KUSTOMIZATION_NAMES)
        return tuple(path for path in found if self.has_file(path))

    def is_ours(self, url: str) -> bool:
        """Whether a deployer's address may mean this repository."""
        return compare_addresses(url, self.remote) is not False

    def find_own(self, text: str) -> OwnAddress | None:
        """The place of an address in this repository; None if it is in another one or does not exist."""
        found = split_address(text) if self.remote and is_address(text) else None
        if found is None or not self.is_ours(found.repository):
            return None
        return found if self.has_file(found.path) or self.kustomizations_in(found.path) else None
