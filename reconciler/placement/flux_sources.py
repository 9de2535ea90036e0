"""What Flux deploys from: whether a source is this repository, and where in it the files of an artifact lie."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document
from reconciler.placement.origins import value_at
from reconciler.placement.paths import is_within, join, normalise_url, resolve

GROUP: Final = "source.toolkit.fluxcd.io"
GENERATOR_GROUP: Final = "source.extensions.fluxcd.io"
GIT: Final = "GitRepository"
ARTIFACT: Final = "ExternalArtifact"
KINDS: Final = frozenset({GIT, "OCIRepository", "Bucket", "ArtifactGenerator"})
BOOTSTRAPPED: Final = "flux-system"
"""What Flux calls the source that it was installed from."""
_DEPLOYER: Final = "kustomize.toolkit.fluxcd.io"
_ALL_BELOW: Final = "/**"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceName:
    """A reference to a source, as a Kustomization or a generator writes it."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Artifact:
    """One artifact of a generator: what it is copied from, by the generator's aliases, and the copies themselves."""

    sources: Mapping[str, SourceName]
    copies: tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class FluxSources:
    """The sources that a repository declares. `compare` says of an address whether it is this repository's, if known.

    `own_names` are Git sources that something deploys itself from: only this repository can be meant.
    """

    compare: Callable[[str], bool | None]
    remote_name: str = ""
    urls: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    artifacts: dict[str, list[tuple[str, _Artifact]]] = field(default_factory=dict)
    own_names: set[str] = field(default_factory=set)
    referenced: set[str] = field(default_factory=set)

    def add(self, path: str, documents: Iterable[Document]) -> None:
        """Learn what a file says of sources."""
        for document in documents:
            value = document.value
            if not isinstance(value, dict):
                continue
            group = _text(value, "apiVersion").partition("/")[0]
            if group == GROUP:
                key = _text(value, "kind"), _text(value, "metadata", "name")
                url = _text(value, "spec", "url")
                self.urls.setdefault(key, []).append((_text(value, "metadata", "namespace"), url))
            elif group == GENERATOR_GROUP:
                for name, artifact in _artifacts(value):
                    self.artifacts.setdefault(name, []).append((_text(value, "metadata", "namespace"), artifact))
            elif group == _DEPLOYER and _text(value, "spec", "sourceRef", "kind") == GIT:
                self._learn(path, _text(value, "spec", "sourceRef", "name"), _text(value, "spec", "path"))

    def _learn(self, path: str, name: str, deployed: str) -> None:
        self.referenced.add(name)
        directory = resolve("", deployed)
        if directory and is_within(path, directory):
            self.own_names.add(name)

    def is_ours(self, source: SourceName) -> bool | None:
        """Whether a source is this repository; None where nothing tells."""
        written = self._urls_of(source)
        if source.kind != GIT:
            return source.name == BOOTSTRAPPED or self._is_named_like(written)
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

    def _is_named_like(self, urls: Iterable[str]) -> bool:
        """An image's path holds the repository's name, by custom."""
        return bool(self.remote_name) and any(self.remote_name in url.split("/") for url in urls)

    def _urls_of(self, source: SourceName) -> list[str]:
        found = self.urls.get((source.kind, source.name), [])
        named = [url for namespace, url in found if namespace == source.namespace] or [url for _, url in found]
        return [url for url in named if url and "${" not in url]

    def directories_in(self, source: SourceName, path: str) -> tuple[set[str], bool]:
        """Where the files of a path in an artifact lie in this repository, and whether they may lie elsewhere."""
        found = self.artifacts.get(source.name, [])
        near = [each for namespace, each in found if namespace == source.namespace] or [each for _, each in found]
        directories, is_foreign = set(), False
        for artifact in near:
            standing = [self.is_ours(each) for each in artifact.sources.values()]
            is_foreign = is_foreign or (bool(standing) and all(each is False for each in standing))
            base = _base_of(artifact)
            if base is not None and False not in standing and _covers(artifact, path):
                directories.add(join(base, path) if path else base)
        return directories, is_foreign


def _artifacts(value: dict[str, Value]) -> Iterator[tuple[str, _Artifact]]:
    namespace = _text(value, "metadata", "namespace")
    sources = {
        _text(each, "alias"): SourceName(
            kind=_text(each, "kind"), namespace=_text(each, "namespace") or namespace, name=_text(each, "name")
        )
        for each in _list(value, "spec", "sources")
    }
    for each in _list(value, "spec", "artifacts"):
        copies = tuple((_text(copy, "from"), _text(copy, "to")) for copy in _list(each, "copy"))
        used = {alias: source for alias, source in sources.items() if any(_is_from(text, alias) for text, _ in copies)}
        yield _text(each, "name"), _Artifact(sources=used, copies=copies)


def _is_from(text: str, alias: str) -> bool:
    return text == f"@{alias}" or text.startswith(f"@{alias}/")


def _moves(artifact: _Artifact) -> Iterator[tuple[str, str] | None]:
    """Directories of the source with where they go; None for a copy that is not a whole directory."""
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
    """The directory that is the artifact's root; None where its files do not lie in it as they do here."""
    bases = set()
    for move in _moves(artifact):
        if move is None:
            return None
        source, goal = move
        if goal and source != goal and not source.endswith(f"/{goal}"):
            return None
        bases.add(source.removesuffix(goal).rstrip("/") if goal else source)
    return bases.pop() if len(bases) == 1 else None


def _covers(artifact: _Artifact, path: str) -> bool:
    return any(move is not None and is_within(path, move[1]) for move in _moves(artifact))


def _text(value: Value, *path: str) -> str:
    found = value_at(value, path)
    return found if isinstance(found, str) else ""


def _list(value: Value, *path: str) -> Sequence[Value]:
    found = value_at(value, path)
    return found if isinstance(found, list) else []
