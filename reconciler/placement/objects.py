"""Objects during and after a build, and the places that their values come from."""

from collections.abc import Iterator
from dataclasses import field
from enum import StrEnum
from typing import Final, TypeAlias

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.written import DocumentRef, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, text_at, value_at
from reconciler.manifests.wording import Field, describe, name_field

# The document number of objects that are read as built or from a template: they have no place to edit.
AS_BUILT: Final = -1

Address: TypeAlias = tuple[str, int, Field, Field | None]


class OriginKind(StrEnum):
    """How a value came into a built object."""

    MARKER = "marker"
    REPLICAS = "overlay replicas"
    PATCH = "patch"
    COMPONENT = "component"
    BASE = "base"
    PLAIN = "plain"
    HELM = "helm values"
    DEPLOYER = "deployer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The text field that holds a whole document: an inline patch inside of a kustomization."""

    document: Document
    field: Field


def overlap(one: Field, other: Field) -> bool:
    """Whether one field is, holds or lies in the other."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


@dataclass(frozen=True, slots=True)
class SourceField:
    """One place in one document, readable as a tree: `get` and `items` go down, errors name the place."""

    document: Document
    field: Field = ()
    kind: OriginKind = OriginKind.PLAIN
    embedding: Embedding | None = None

    @property
    def value(self) -> Value:
        """The value there; None when the field is not set."""
        return value_at(self.document.value, self.field)

    @property
    def place(self) -> Place:
        """File, line and field path, for people."""
        shown = self.field if self.embedding is None else self.embedding.field
        return Place(path=self.document.path, line=self.document.line_of(self.field), field=name_field(shown))

    @property
    def exists(self) -> bool:
        """Whether the field is set, even to null."""
        if not self.field:
            return True
        parent, part = value_at(self.document.value, self.field[:-1]), self.field[-1]
        if isinstance(parent, dict):
            return part in parent
        return isinstance(parent, list) and isinstance(part, int) and 0 <= part < len(parent)

    @property
    def address(self) -> Address:
        """File, document, field, and the text that it lies in."""
        if self.embedding is None:
            return self.document.path, self.document.index, self.field, None
        return self.document.path, self.embedding.document.index, self.field, self.embedding.field

    def below(self, *parts: str | int) -> "SourceField":
        """A place further down, set or not."""
        return SourceField(self.document, (*self.field, *parts), self.kind, self.embedding)

    def of_kind(self, kind: OriginKind) -> "SourceField":
        """This place with another kind of origin."""
        return SourceField(self.document, self.field, kind, self.embedding)

    def get(self, key: str) -> "SourceField | None":
        """A member that is set and not null."""
        value = self.value
        return self.below(key) if isinstance(value, dict) and value.get(key) is not None else None

    def items(self, key: str) -> Iterator["SourceField"]:
        """The items of a member list; none when it is not set."""
        member = self.get(key)
        if member is not None and not isinstance(member.value, list):
            raise member.error(f"expected a list, got {describe(member.value)}")
        yield from () if member is None else member.members()

    def mapping(self) -> dict[str, Value]:
        """The value as a mapping."""
        value = self.value
        if not isinstance(value, dict):
            raise self.error(f"expected a mapping, got {describe(value)}")
        return value

    def text(self, key: str) -> str:
        """A member text, empty when it is not set; numbers are not texts."""
        member = self.get(key)
        return "" if member is None else member.as_text()

    def as_text(self) -> str:
        """The value as a text."""
        value = self.value
        if not isinstance(value, str):
            raise self.error(f"expected a text, got {describe(value)}")
        return value

    def leaves(self, key: str) -> dict[str, "SourceField"]:
        """The members of a mapping of texts such as labels; InputError where one is not a text."""
        member = self.get(key)
        leaves = {} if member is None else {name: member.below(name) for name in member.mapping()}
        for leaf in leaves.values():
            leaf.as_label()
        return leaves

    def members(self) -> list["SourceField"]:
        """The items of a list; none where the value is not a list."""
        value = self.value
        return [self.below(index) for index in range(len(value) if isinstance(value, list) else 0)]

    def as_label(self) -> str:
        """The value of a label or annotation: Kustomize takes booleans and numbers for texts, null for empty."""
        value = self.value
        if isinstance(value, dict | list):
            raise self.error(f"expected a text, got {describe(value)}")
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    def flag(self, key: str) -> bool:
        """A member switch, off when it is not set."""
        member = self.get(key)
        if member is not None and not isinstance(member.value, bool):
            raise member.error(f"expected true or false, got {describe(member.value)}")
        return member is not None and member.value is True

    def error(self, message: str) -> InputError:
        """An error at this place."""
        place = self.place
        return InputError(place.path, place.line, place.field, message)

    def warning(self, message: str) -> Finding:
        """A warning about this place."""
        return Finding(place=self.place, severity=Severity.WARNING, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One link of the chain of a value: its place, the kind of source, and the value there.

    `document` and `field` address the scalar in the file `place.path`. With `embedding`, a text field of that document,
    `field` is inside the text, in its document number `inner_document`.
    """

    place: Place
    kind: OriginKind
    value: Value
    document: int
    field: Field
    embedding: Field | None = None
    inner_document: int = 0

    @property
    def address(self) -> Address:
        """File, document, field, and the text that it lies in."""
        return self.place.path, self.document, self.field, self.embedding

    @property
    def written(self) -> WrittenField:
        """Where edits find it."""
        return WrittenField(
            document=DocumentRef(path=self.place.path, document=self.document),
            field=self.field,
            place=self.place,
            embedding=self.embedding,
            inner_document=self.inner_document,
        )

    def __str__(self) -> str:
        return f"{self.place} {self.place.field}".rstrip()


def origin_of_source(source: SourceField) -> ValueOrigin:
    """The source as one link of a chain."""
    held, place = source.embedding, source.place
    return ValueOrigin(
        place=place if held is None else replace(place, field=f"{place.field}: {name_field(source.field)}"),
        kind=source.kind,
        value=source.value,
        document=source.address[1],
        field=source.field,
        embedding=None if held is None else held.field,
        inner_document=0 if held is None else source.document.index,
    )


@dataclass(slots=True)
class SourceTrace:
    """The sources of a built object's values, the winning one first; sparse.

    A node without sources has those of its parent, one step further down. Only changes make nodes.
    """

    sources: tuple[SourceField, ...] = ()
    members: "dict[str | int, SourceTrace]" = field(default_factory=dict)

    def sources_at(self, path: Field) -> tuple[SourceField, ...]:
        """Every source of a field, the winning one first; not all of them write it."""
        node: SourceTrace = self
        current, depth = self.sources, 0
        for position, part in enumerate(path):
            member = node.members.get(part)
            if member is None:
                break
            node = member
            if node.sources:
                current, depth = node.sources, position + 1
        rest = path[depth:]
        return tuple(source.below(*rest) for source in current) if rest else current

    def chain(self, path: Field) -> tuple[SourceField, ...]:
        """The sources that write a field, the winning one first."""
        return tuple(source for source in self.sources_at(path) if source.exists)

    def record(self, path: Field, source: SourceField) -> None:
        """The whole value at a path comes from `source` now, which displaces earlier sources."""
        self.place(path, SourceTrace((source, *self.chain(path))))

    def place(self, path: Field, subtree: "SourceTrace") -> None:
        """Put another subtree's sources at a path."""
        if not path:
            self.sources, self.members = subtree.sources, subtree.members
            return
        node = self
        for part in path[:-1]:
            node = node.members.setdefault(part, SourceTrace())
        node.members[path[-1]] = subtree

    def subtree(self, path: Field) -> "SourceTrace":
        """A copy of the node at a path with explicit sources, to be put elsewhere."""
        node: SourceTrace | None = self
        for part in path:
            node = None if node is None else node.members.get(part)
        return SourceTrace(self.sources_at(path), {} if node is None else node.copy().members)

    def copy(self) -> "SourceTrace":
        """An independent copy."""
        return SourceTrace(self.sources, {part: member.copy() for part, member in self.members.items()})

    def recorded(self) -> Iterator[SourceField]:
        """All recorded sources."""
        yield from self.sources
        for member in self.members.values():
            yield from member.recorded()


def with_value(root: Value, path: Field, value: Value) -> Value:
    """A copy with one field set, and with missing mappings on the way; the rest is shared."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(root, list) and isinstance(part, int) and 0 <= part < len(root):
        return [*root[:part], with_value(root[part], rest, value), *root[part + 1 :]]
    members = root if isinstance(root, dict) else {}
    return {**members, str(part): with_value(members.get(str(part)), rest, value)}


def texts_in(value: Value, path: Field = ()) -> Iterator[tuple[Field, str]]:
    """Every text in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from texts_in(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_in(item, (*path, index))


DEFAULT_NAMESPACE: Final = "default"
# Cluster-scoped kinds of Kustomize's built-in schema; it puts unknown kinds into namespaces.
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
    """The names of an object at one moment of a build."""

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
        """The same with the default namespace for an object without one."""
        namespace = (self.namespace or DEFAULT_NAMESPACE) if self.is_namespaced else ""
        return ObjectIdentity(self.group, self.version, self.kind, namespace, self.name)

    def __str__(self) -> str:
        namespace = self.effective.namespace
        return f"{self.kind} {namespace}/{self.name}" if namespace else f"{self.kind} {self.name}"


def split_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`."""
    group, _, version = api_version.rpartition("/")
    return group, version


def identify(fields: dict[str, Value]) -> ObjectIdentity:
    """The names of an object; those that are not texts are empty."""
    group, version = split_version(text_at(fields, "apiVersion"))
    kind, namespace = text_at(fields, "kind"), text_at(fields, "metadata", "namespace")
    return ObjectIdentity(group, version, kind, namespace, text_at(fields, "metadata", "name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a field of a built object, and all below it, cannot be read or changed."""

    reason: str
    place: Place | None = None
    field: Field = ()

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason

    def covers(self, path: Field) -> bool:
        """Whether it concerns a field: its own, or one below or above it."""
        return overlap(self.field, path)


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
        """The object at a source."""
        fields = source.mapping()
        return cls(fields=fields, source=source, trace=SourceTrace((source,)), identity=identify(fields))

    @property
    def original(self) -> ObjectIdentity:
        """Its name as written."""
        return self.earlier[0] if self.earlier else self.identity

    @property
    def identities(self) -> tuple[ObjectIdentity, ...]:
        """All its names, the first one first."""
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
        """Give it another name or namespace; references may still use the former one."""
        now = self.identity
        name, namespace = now.name if name is None else name, now.namespace if namespace is None else namespace
        if (name, namespace) != (now.name, now.namespace):
            self.become(replace(now, name=name, namespace=namespace), now)

    def become(self, identity: ObjectIdentity, before: ObjectIdentity) -> None:
        """Take another identity, and write its name and namespace into the object."""
        if identity != before:
            self.earlier.append(before)
        if identity != identify(self.fields):
            metadata = self.fields.get("metadata")
            names: dict[str, Value] = dict(metadata) if isinstance(metadata, dict) else {}
            names["name"] = identity.name
            if identity.namespace:
                names["namespace"] = identity.namespace
            else:
                names.pop("namespace", None)
            self.fields = {**self.fields, "metadata": names}
        self.identity = identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The root of a build: a kustomization's directory or a plain file, and its deployer, if it is in Git."""

    cluster: str
    path: str
    deployer: str = ""

    def __str__(self) -> str:
        return f"{self.path or '.'} ({self.deployer})" if self.deployer else self.path or "."


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltObject:
    """An object as built for a cluster. `fields` are shared with the documents it was built from: never change them.

    `names` are all its names during the build: a kustomization may use any of them.
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
        """The places that set a field, the effective one first."""
        return tuple(origin_of_source(source) for source in self.trace.chain(path))

    def place_of(self, path: Field) -> Place:
        """The line of a field's effective key, or of the nearest ancestor."""
        sources = self.trace.sources_at(path)
        return sources[0].place if sources else self.place

    def address_of(self, path: Field) -> Address | None:
        """The place that a field's value comes from; None when it has no value."""
        sources = self.trace.sources_at(path)
        return sources[0].address if sources and self.value_at(*path) is not None else None

    def obstacle_at(self, path: Field) -> Obstacle | None:
        """The first obstacle of a field, if there is one."""
        return next((obstacle for obstacle in self.obstacles if obstacle.covers(path)), None)

    @property
    def is_as_written(self) -> bool:
        """Whether all values stand in its own manifest: no path through a build is to be looked for then."""
        sources = self.trace.sources
        return not self.trace.members and len(sources) == 1 and sources[0] is self.source and not self.source.embedding

    @property
    def documents(self) -> frozenset[tuple[str, int]]:
        """The documents that it is built of, by path and number."""
        return frozenset(source.address[:2] for source in self.trace.recorded())
