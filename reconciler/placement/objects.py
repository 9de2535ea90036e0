"""Objects while they are being built, and what they are when the build is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.domain.identity import Place, ResourceKey
from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.origins import (
    Address,
    SourceField,
    SourceTrace,
    ValueOrigin,
    origin_of_source,
    value_at,
    with_value,
)

DEFAULT_NAMESPACE: Final = "default"
# What the built-in schema of Kustomize knows to live outside of namespaces; a kind that it does not know lives inside.
CLUSTER_SCOPED: Final = frozenset(
    {"APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding"}
    | {"ComponentStatus", "CustomResourceDefinition", "FlowSchema", "IngressClass", "MutatingWebhookConfiguration"}
    | {"Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "PriorityClass", "PriorityLevelConfiguration"}
    | {"RuntimeClass", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "StorageClass", "SubjectAccessReview"}
    | {"TokenReview", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    | {"ValidatingWebhookConfiguration", "VolumeAttachment"}
)


@dataclass(frozen=True, slots=True)
class ObjectIdentity:
    """What an object is called at one moment of a build."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def is_namespaced(self) -> bool:
        """Whether Kustomize gives it a namespace."""
        return self.kind not in CLUSTER_SCOPED

    @property
    def effective(self) -> "ObjectIdentity":
        """With the namespace that an object without one is in."""
        namespace = (self.namespace or DEFAULT_NAMESPACE) if self.is_namespaced else ""
        return ObjectIdentity(self.group, self.version, self.kind, namespace, self.name)

    def __str__(self) -> str:
        namespace = self.effective.namespace
        return f"{self.kind} {namespace}/{self.name}" if namespace else f"{self.kind} {self.name}"


def split_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`."""
    group, _, version = api_version.rpartition("/")
    return group, version


def identify(fields: Mapping[str, Value]) -> ObjectIdentity:
    """What an object is called; parts that are no text are empty."""
    metadata = fields.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    group, version = split_version(_text(fields.get("apiVersion")))
    return ObjectIdentity(
        group, version, _text(fields.get("kind")), _text(names.get("namespace")), _text(names.get("name"))
    )


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why something of a built object cannot be told or changed: words, where, and below which field."""

    reason: str
    place: Place | None = None
    field: Field = ()

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason

    def covers(self, path: Field) -> bool:
        """Whether it is in the way of a field: of all below its own, and of all that hold it."""
        shorter = min(len(self.field), len(path))
        return self.field[:shorter] == path[:shorter]


@dataclass(slots=True)
class ObjectDraft:
    """One object while it is being built. `fields` is never changed in place: it may be shared with the source."""

    fields: dict[str, Value]
    source: SourceField
    trace: SourceTrace
    identity: ObjectIdentity
    earlier: list[ObjectIdentity] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    affixes: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, source: SourceField) -> "ObjectDraft":
        """The object that stands at a source."""
        fields = source.mapping()
        return cls(fields=fields, source=source, trace=SourceTrace((source,)), identity=identify(fields))

    @property
    def original(self) -> ObjectIdentity:
        """What it is called where it is written."""
        return self.earlier[0] if self.earlier else self.identity

    @property
    def identities(self) -> tuple[ObjectIdentity, ...]:
        """Every name that it ever had, the first one first."""
        return (*self.earlier, self.identity)

    def is_or_was(self, wanted: ObjectIdentity) -> bool:
        """Whether it has or had this name, in its effective form."""
        if self.identity.name == wanted.name and self.identity.effective == wanted:
            return True
        return any(each.name == wanted.name and each.effective == wanted for each in self.earlier)

    def value_at(self, *path: str | int) -> Value:
        """The value at a field as built so far."""
        return value_at(self.fields, path)

    def set(self, path: Field, value: Value, source: SourceField | None = None) -> None:
        """Set one field; with a source it is recorded where the value is written."""
        changed = with_value(self.fields, path, value)
        if isinstance(changed, dict):
            self.fields = changed
        if source is not None:
            self.trace.record(path, source)

    def rename(self, *, name: str | None = None, namespace: str | None = None) -> None:
        """Give it another name or namespace; what it was called is kept for those who still call it so."""
        now = self.identity
        name = now.name if name is None else name
        namespace = now.namespace if namespace is None else namespace
        if (name, namespace) == (now.name, now.namespace):
            return
        self.earlier.append(now)
        self.identity = ObjectIdentity(now.group, now.version, now.kind, namespace, name)
        self.write_names(self.identity)

    def write_names(self, identity: ObjectIdentity) -> None:
        """Write a name and a namespace into the object."""
        metadata = self.fields.get("metadata")
        names: dict[str, Value] = dict(metadata) if isinstance(metadata, dict) else {}
        names["name"] = identity.name
        if identity.namespace:
            names["namespace"] = identity.namespace
        else:
            names.pop("namespace", None)
        self.fields = {**self.fields, "metadata": names}

    def become(self, identity: ObjectIdentity, before: ObjectIdentity) -> None:
        """Take the identity that a patch left it with."""
        if identity != before:
            self.earlier.append(before)
        if identity != identify(self.fields):
            self.write_names(identity)
        self.identity = identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Where a build begins: a kustomization's directory or a plain file, and who deploys it, if Git says so."""

    cluster: str
    path: str
    deployer: str = ""

    def __str__(self) -> str:
        return f"{self.path or '.'} ({self.deployer})" if self.deployer else self.path or "."


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltObject:
    """An object as a cluster gets it. `fields` is shared with the documents it was built from: never change it.

    `names` are all that it had on the way: a kustomization may call it by any of them.
    """

    key: ResourceKey
    api_version: str
    fields: dict[str, Value]
    root: Root
    source: SourceField = field(repr=False)
    trace: SourceTrace = field(repr=False, compare=False)
    obstacles: tuple[Obstacle, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """The first line of the object where it is written."""
        return self.source.place if self.source.field else Place(path=self.path, line=self.source.document.first_line)

    @property
    def path(self) -> str:
        """The file in which the object is written."""
        return self.source.document.path

    def value_at(self, *path: str | int) -> Value:
        """The value at a field as built; None when it is not there."""
        return value_at(self.fields, path)

    def origin_of(self, path: Field) -> tuple[ValueOrigin, ...]:
        """The chain of places that write a field, the effective one first; empty when nobody does."""
        return tuple(origin_of_source(source) for source in self.trace.chain(path))

    def place_of(self, path: Field) -> Place:
        """Where a field stands: the line of its effective key, or the nearest above it that exists."""
        sources = self.trace.sources_at(path)
        return sources[0].place if sources else self.place

    def address_of(self, path: Field) -> Address | None:
        """The written place that decides a field's value; None when it has no value."""
        sources = self.trace.sources_at(path)
        return sources[0].address if sources and self.value_at(*path) is not None else None

    def obstacle_at(self, path: Field) -> Obstacle | None:
        """What makes a field unreadable, if anything does."""
        return next((obstacle for obstacle in self.obstacles if obstacle.covers(path)), None)

    @property
    def documents(self) -> frozenset[tuple[str, int]]:
        """Every file, with the number of the document in it, that something of it is written in."""
        return frozenset(source.address[:2] for source in self.trace.recorded())
