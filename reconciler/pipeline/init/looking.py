"""What a repository says of itself: who deploys which of its directories, and where kustomizations stand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_readable
from reconciler.placement.deployers import ARGO_GROUP, FLUX_GROUP, try_read
from reconciler.placement.flux_sources import GENERATOR_GROUP, GROUP
from reconciler.placement.kustomize.build import objects_in
from reconciler.placement.objects import ObjectIdentity, identify
from reconciler.placement.origins import SourceField
from reconciler.placement.paths import directory_of, is_kustomization
from reconciler.placement.repository import ManifestRepository

_WORDS = frozenset(group.encode() for group in (ARGO_GROUP, FLUX_GROUP, GROUP, GENERATOR_GROUP))
APPLICATION_SET = "ApplicationSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One directory that somebody deploys: by which object, written in which file, to which cluster (Argo CD)."""

    kind: str
    name: str
    namespace: str
    path: str
    directory: str
    destination: str = ""
    source_name: str = ""
    """What Flux calls this repository."""

    @property
    def is_flux(self) -> bool:
        """Whether it is a Flux Kustomization."""
        return self.kind == "Kustomization"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """What was found in a commit: deployments of its directories, ApplicationSets (by file), kustomizations' places."""

    paths: tuple[str, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    application_sets: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()

    @property
    def applications(self) -> tuple[Deployment, ...]:
        """Those of Argo CD."""
        return tuple(each for each in self.deployments if not each.is_flux)

    @property
    def flux(self) -> tuple[Deployment, ...]:
        """Those of Flux."""
        return tuple(each for each in self.deployments if each.is_flux)


def look(files: Mapping[str, bytes], remote: str = "") -> FoundFiles:
    """Look at all manifests of a commit; `remote` is the repository's address, as far as it is known."""
    parsed = {path: _parse(path, body) for path, body in files.items()}
    repository = ManifestRepository(files=parsed, remote=remote)
    objects = [(path, identity, source) for path in repository.paths for identity, source in _objects(parsed[path])]
    return FoundFiles(
        paths=tuple(repository.paths),
        deployments=tuple(
            each for path, identity, source in objects for each in _deployments(repository, path, identity, source)
        ),
        application_sets=tuple(path for path, identity, _ in objects if identity.kind == APPLICATION_SET),
        overlays=tuple(sorted(directory_of(path) or "." for path in repository.paths if is_kustomization(path))),
    )


def _parse(path: str, body: bytes) -> tuple[Document, ...]:
    return parse_readable(path, body, kinds=_WORDS)[0]


def _objects(documents: Iterable[Document]) -> Iterator[tuple[ObjectIdentity, SourceField]]:
    for document in documents:
        try:
            sources = list(objects_in(SourceField(document)))
        except InputError:
            continue
        for source in sources:
            yield identify(source.value if isinstance(source.value, dict) else {}), source


def _deployments(
    repository: ManifestRepository, path: str, identity: ObjectIdentity, source: SourceField
) -> Iterator[Deployment]:
    for deployer in try_read(repository, identity, source)[0]:
        yield Deployment(
            kind=identity.kind,
            name=identity.name,
            namespace=identity.namespace,
            path=path,
            directory=deployer.directory,
            destination=_text(deployer.spec, "destination", "name") or _text(deployer.spec, "destination", "server"),
            source_name=_text(deployer.spec, "sourceRef", "name"),
        )


def _text(source: SourceField, *keys: str) -> str:
    value = source.value
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
