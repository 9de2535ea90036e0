"""One Kubernetes object inside a document, and the pieces of a declaration that are read from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from pydantic import Field

from reconciler.domain.declared.places import DocumentRef
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import name_field
from reconciler.resources.validation import FILLED_IN, LooseShape, is_templated

DEFAULT_NAMESPACE = "default"
# Substitution by Flux, by a Helm chart, by Kustomize's old vars: what stands there is not what is applied.


Piece: TypeAlias = object
"""A record of what an object declares, or a finding about it: every kind has records of its own."""
Name = Annotated[str, Field(min_length=1, max_length=253, description="a name")]


class Metadata(LooseShape):
    """The part of ObjectMeta that is read; the API server takes null for an empty string."""

    name: Name
    namespace: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None


# Not frozen: a frozen one takes three times as long to make, and there is one for every object of a fleet.
@dataclass(slots=True, kw_only=True)
class KubernetesObject:
    """One object: `fields` is the mapping found at `prefix` in its document. Never changed once it is made."""

    cluster: str
    kind: str
    document: Document
    prefix: tuple[str | int, ...]
    fields: Mapping[str, object]
    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    places: Callable[[tuple[str | int, ...]], Place] | None = None
    """Where its fields stand when they are not all written in its document: some were set by a build."""

    @property
    def key(self) -> ResourceKey:
        """What names this object in its cluster."""
        return ResourceKey(cluster=self.cluster, namespace=self.namespace, kind=self.kind, name=self.name)

    @property
    def ref(self) -> DocumentRef:
        """Where edits find this object again."""
        return DocumentRef(path=self.document.path, document=self.document.index, prefix=self.prefix)

    @property
    def place(self) -> Place:
        """The object's first line."""
        line = self.document.line_of(self.prefix) if self.prefix else self.document.first_line
        return Place(path=self.document.path, line=line)

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """The place of a field: its key's line, or the nearest line above it that exists."""
        if self.places is not None:
            return replace(self.places(path), field=name_field(path))
        line = self.document.line_of((*self.prefix, *path))
        return Place(path=self.document.path, line=line, field=name_field(path))

    def broken(self, reason: str) -> BrokenResource:
        """This object as one that cannot be used."""
        return BrokenResource(key=self.key, place=self.place, reason=reason)

    def complain(self, path: tuple[str | int, ...], message: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about one of its fields."""
        return Finding(place=self.locate(path), severity=severity, message=message)


def break_on(source: KubernetesObject, findings: tuple[Finding, ...]) -> Iterator[Piece]:
    """The findings, and the object broken by the first that is an error, or that nobody can read in Git."""
    yield from findings
    for finding in findings:
        if finding.severity is Severity.ERROR or finding.rule == FILLED_IN:
            reason = f"{finding.place.field}: {finding.message}" if finding.place.field else finding.message
            yield source.broken(reason)
            return


def find_templated(value: object) -> tuple[str | int, ...] | None:
    """The path of the first text inside that is filled in later; None when all stands as it is."""
    if isinstance(value, dict):
        members: Iterable[tuple[str | int, object]] = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return () if is_templated(value) else None
    for part, member in members:
        path = find_templated(member)
        if path is not None:
            return (part, *path)
    return None


def read_texts(values: Mapping[str, str | None] | None) -> Mapping[str, str]:
    """Labels or the like; the API server reads null as an empty text."""
    return {key: value or "" for key, value in values.items()} if values else {}
