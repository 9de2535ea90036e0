"""One Kubernetes object inside a document, and the common steps of reading it."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Annotated, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, Field

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.written import DocumentRef, FieldPath
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import MOST_NAMED, describe, name_field, name_first
from reconciler.resources.validation import (
    FILLED_IN,
    MAX_FINDINGS,
    LooseShape,
    Validated,
    describe_unknown,
    is_templated,
    validate,
)

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
    places: Callable[[tuple[str | int, ...]], Place] | None = field(default=None, compare=False)
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
    """The findings, and the object as broken by the first that is an error or cannot be read from Git."""
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


Listed = TypeVar("Listed")
Spec_co = TypeVar("Spec_co", bound=BaseModel, covariant=True)


class Declared:
    """A record of a resource, by its object. Its places are looked up when they are needed."""

    __slots__ = ()
    source: KubernetesObject

    @property
    def key(self) -> ResourceKey:
        """What names it in its cluster."""
        return self.source.key

    @property
    def group(self) -> str:
        """The API group that it is written in."""
        return group_of(self.source)

    @property
    def place(self) -> Place:
        """Its first line."""
        return self.source.place

    def place_of(self, *path: str | int) -> Place:
        """Where a field of its spec stands."""
        return self.source.locate(("spec", *path))


@dataclass(frozen=True, slots=True)
class Record(Declared, Generic[Spec_co]):
    """A custom resource with its spec as it was validated."""

    source: KubernetesObject
    spec: Spec_co


def group_of(source: KubernetesObject) -> str:
    """The API group that an object is written in."""
    return str(source.fields.get("apiVersion")).rpartition("/")[0]


def repeated(names: Iterable[Listed]) -> Iterator[tuple[int, Listed]]:
    """The names that are listed further up too, each with its index."""
    seen: set[object] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield index, name
        seen.add(name)


def read_texts(values: Mapping[str, str | None] | None) -> Mapping[str, str]:
    """Labels or the like; the API server reads null as an empty text."""
    return {key: value or "" for key, value in values.items()} if values else {}


Model = TypeVar("Model", bound=BaseModel)
_TOP_LEVEL = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def read_resource(
    source: KubernetesObject,
    model: type[Model],
    build: Callable[[KubernetesObject, Model], Piece | Iterator[Piece]],
    *,
    named: Sequence[str],
    check: Callable[[KubernetesObject, Model], Iterable[Finding]] = lambda *_: (),
    ignored: Sequence[str] = (),
    braced: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> Iterator[Piece]:
    """The record or records that `build` makes of a valid spec, or the broken resource; and all findings.

    `named` are the fields that must not be filled in later, `ignored` those that the caller reads itself, `braced`
    those whose `{{ }}` are the resource's own; `notes` explain unknown fields by name.
    """
    validated = _read_spec(source, model, ignored, notes or {})
    path = _find_filled_in(source, validated, named, (*ignored, *braced))
    if path:
        yield from hold_templated(source, path)
        return
    checked = check(source, validated.value) if validated.value is not None else ()
    findings = (*validated.findings, *checked)
    broken = tuple(break_on(source, findings))
    yield from broken
    if validated.value is not None and len(broken) == len(findings):
        built = build(source, validated.value)
        yield from built if isinstance(built, Iterator) else (built,)


def _read_spec(
    source: KubernetesObject, model: type[Model], ignored: Sequence[str], notes: Mapping[str, str]
) -> Validated[Model]:
    """The spec as a model, without the fields that the caller reads itself; unknown fields are warnings."""
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        return Validated(None, (*find_unknown_top(source, notes), complain_of_spec(source)))
    fields = {name: value for name, value in spec.items() if name not in ignored} if ignored else spec
    found = validate(
        model, fields, locate=lambda path: source.locate(("spec", *path)), unknown=Severity.WARNING, notes=notes
    )
    return Validated(found.value, (*find_unknown_top(source, notes), *found.findings))


def complain_of_spec(source: KubernetesObject) -> Finding:
    """The finding about a spec that is no mapping."""
    spec = source.fields.get("spec")
    return source.complain(("spec",), f"expected a mapping, {'found' if spec is None else 'got'} {describe(spec)}")


def check_status(source: KubernetesObject, model: type[BaseModel]) -> tuple[Finding, ...]:
    """What the resource's own version would refuse in its status: only warnings, since it has no effect."""
    status, warning = source.fields.get("status"), Severity.WARNING
    if status is None:
        return ()
    return validate(
        model, status, locate=lambda path: source.locate(("status", *path)), unknown=warning, severity=warning
    ).findings


def find_unknown_top(source: KubernetesObject, notes: Mapping[str, str] | None = None) -> list[Finding]:
    """The top-level fields that no custom resource has."""
    names = [name for name in source.fields if name not in _TOP_LEVEL]
    return [
        source.complain((name,), describe_unknown(name, (), notes=notes), Severity.WARNING)
        for name in names[:MAX_FINDINGS]
    ]


def hold_templated(source: KubernetesObject, path: tuple[str | int, ...]) -> Iterator[Piece]:
    """The resource as one that cannot be read from Git: no mistake, but nothing to decide by."""
    message = "filled in by a substitution: it cannot be read from Git"
    finding = source.complain(path, message, Severity.WARNING)
    yield finding
    yield source.broken(f"{finding.place.field} is {message}")


def _find_filled_in(
    source: KubernetesObject, validated: Validated[Model], named: Sequence[str], exempt: Sequence[str]
) -> tuple[str | int, ...]:
    """The path of a text that is filled in later and matters; empty when there is none.

    In a valid spec only the fields `named` matter, for which any text is valid; in another one any may be
    the reason.
    """
    spec = source.fields.get("spec")
    fields: Mapping[str, object] = spec if isinstance(spec, dict) else {}
    if validated.value is not None:
        fields = {name: value for name, value in fields.items() if name in named}
    path = find_templated({name: value for name, value in fields.items() if name not in exempt})
    return () if path is None else ("spec", *path)


RULE = "undecided-field"
MEMBERS = "*"
"""In a pattern: every item of a list, every value of a mapping."""


def find_undecided(
    source: KubernetesObject, undecided: Callable[[Mapping[str, object]], Mapping[str, str]]
) -> Iterator[Finding]:
    """A note for each field of the object that is written and decides nothing.

    `undecided` makes of a spec the patterns of such fields, each with the reason.
    """
    spec = source.fields.get("spec")
    for pattern, why in undecided(spec).items() if isinstance(spec, dict) else ():
        for path in _written(spec, pattern.split("."), ("spec",)):
            message = f"it has no effect: {why}"
            yield Finding(place=source.locate(path), severity=Severity.NOTE, message=message, rule=RULE)


def _written(value: object, pattern: Sequence[str], path: FieldPath) -> Iterator[FieldPath]:
    if not pattern:
        if value is not None:
            yield path
        return
    first, *rest = pattern
    if isinstance(value, dict):
        for key in value if first == MEMBERS else (first,):
            yield from _written(value.get(key), rest, (*path, key))
    elif isinstance(value, list) and first == MEMBERS:
        for index, item in enumerate(value):
            yield from _written(item, rest, (*path, index))


class Keyed(Protocol):
    """A resource as written."""

    @property
    def key(self) -> ResourceKey:
        """What names it."""

    @property
    def place(self) -> Place:
        """Its first line."""


Resource = TypeVar("Resource", bound=Keyed)
Whole = TypeVar("Whole")
Kind = TypeVar("Kind")


def split_duplicates(resources: Iterable[Resource]) -> tuple[list[Resource], list[BrokenResource]]:
    """The resources whose key is unique, and the others in all their places."""
    by_key: dict[ResourceKey, list[Resource]] = {}
    for resource in resources:
        by_key.setdefault(resource.key, []).append(resource)
    single = [same[0] for same in by_key.values() if len(same) == 1]
    broken = [_break_duplicate(here, same) for same in by_key.values() if len(same) > 1 for here in same]
    return single, broken


def first_of_each(resources: Iterable[Resource], keys: Container[ResourceKey]) -> list[Resource]:
    """The first resource of each of some keys."""
    found: dict[ResourceKey, Resource] = {}
    for resource in resources:
        if resource.key in keys:
            found.setdefault(resource.key, resource)
    return list(found.values())


def _break_duplicate(here: Resource, same: list[Resource]) -> BrokenResource:
    places = dict.fromkeys(each.place for each in same if each.place != here.place)
    others = name_first([str(place) for place in islice(places, MOST_NAMED)], len(places))
    where = f"again at {others}" if places else f"{len(same)} times in one place"
    reason = f"{here.key.kind} {here.key.label} is declared {where}: keep one"
    return BrokenResource(key=here.key, place=here.place, reason=reason)


@dataclass(frozen=True, slots=True)
class Folded(Generic[Whole]):
    """What the resources of one system declare together, those that cannot be used, and what is wrong with them."""

    declared: Whole
    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]


def of_kind(pieces: Iterable[Piece], kind: type[Kind]) -> list[Kind]:
    """The pieces of one type."""
    return [piece for piece in pieces if isinstance(piece, kind)]


def report_duplicate(found: BrokenResource, severity: Severity = Severity.ERROR) -> Finding:
    """The finding about one of several resources with one name."""
    return Finding(place=replace(found.place, field="metadata.name"), severity=severity, message=found.reason)
