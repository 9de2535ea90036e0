"""Reads what one commit declares: each file once, in every cluster that it describes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.declarations import BrokenResource, Declaration
from reconciler.domain.findings import Finding, finding_of
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.recording import ManifestFile, WithheldFile
from reconciler.domain.settings import Settings
from reconciler.manifests import Document, parse_readable
from reconciler.resources import KINDS, FileDeclaration, is_kustomization, merge, read_file

SECRET = "Secret"  # noqa: S105 - the name of a kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """What one file declares, and what in it could not be read."""

    path: str
    declarations: tuple[FileDeclaration, ...] = ()
    findings: tuple[Finding, ...] = ()
    holds_secret: bool = False

    @property
    def is_relevant(self) -> bool:
        """Whether anything of it is read, or was meant to be."""
        return bool(self.findings) or any(declaration.pieces for declaration in self.declarations)

    @property
    def keys(self) -> tuple[ResourceKey, ...]:
        """The objects in it that something can be decided about."""
        pieces = (piece for declaration in self.declarations for piece in declaration.pieces)
        return tuple(sorted({key for piece in pieces if isinstance(key := getattr(piece, "key", None), ResourceKey)}))


def read_manifest(path: str, body: bytes, settings: Settings) -> FileReading:
    """Read one file for every cluster that it describes."""
    kinds = None if is_kustomization(path) else KINDS | {SECRET.encode()}
    documents, errors = parse_readable(path, body, kinds=kinds)
    clusters = [cluster.name for cluster in (*settings.clusters, *settings.other_clusters) if cluster.holds(path)]
    return FileReading(
        path=path,
        declarations=tuple(read_file(cluster, path, documents) for cluster in clusters),
        findings=tuple(finding_of(error) for error in errors),
        holds_secret=any(_is_secret(document) for document in documents),
    )


def read_declaration(
    manifests: Iterable[ManifestFile], withheld: Sequence[WithheldFile], settings: Settings
) -> Declaration:
    """What recorded files declare."""
    readings = [read_manifest(manifest.path, manifest.body, settings) for manifest in manifests]
    return fold(readings, withheld, settings)


def fold(readings: Iterable[FileReading], withheld: Sequence[WithheldFile], settings: Settings) -> Declaration:
    """One declaration of all files; the objects of withheld ones are known by name only."""
    readings = list(readings)
    whole = merge(declaration for reading in readings for declaration in reading.declarations)
    chosen = {cluster.name for cluster in settings.clusters}
    unread = tuple(_withheld(key, each.path) for each in withheld for key in each.objects)
    findings = tuple(finding for reading in readings for finding in reading.findings)
    return replace(
        whole,
        variants=tuple(variant for variant in whole.variants if variant.key.cluster in chosen),
        broken=tuple(each for each in (*whole.broken, *unread) if each.key.cluster in chosen),
        findings=tuple(sorted({*whole.findings, *findings})),
    )


def _withheld(key: ResourceKey, path: str) -> BrokenResource:
    reason = f"{path} also holds a Secret, which is never recorded: move the Secret to a file of its own"
    return BrokenResource(key=key, place=Place(path=path), reason=reason)


def _is_secret(document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict):
        return False
    items = value.get("items")
    objects = [value, *(items if isinstance(items, list) else ())]
    return any(isinstance(each, dict) and each.get("kind") == SECRET for each in objects)
