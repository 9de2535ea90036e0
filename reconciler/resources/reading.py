"""From a file's documents to their objects, and what each declares."""

import re
from collections.abc import Iterable, Iterator, Sequence

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Severity
from reconciler.domain.records import replace
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.declaration import FileDeclaration
from reconciler.resources.kinds import Kind
from reconciler.resources.kubernetes.autoscalers import read_foreign_scaler, scales_another
from reconciler.resources.kubernetes.served_parts import severity_of
from reconciler.resources.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    Metadata,
    Piece,
    break_on,
    find_undecided,
    hold_templated,
    read_texts,
)
from reconciler.resources.registry import KINDS
from reconciler.resources.validation import LooseShape, is_templated, validate

# What the API server accepts of the kinds above, namespaces included but for their dots.
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


_LIST = "List"


class _Items(LooseShape):
    items: list[object] | None = None


def read_file(cluster: str, path: str, documents: Sequence[Document]) -> FileDeclaration:
    """All that one file declares in one cluster; what is wrong in it becomes findings, never an exception."""
    pieces = tuple(piece for document in documents for piece in _read_document(cluster, document))
    return FileDeclaration(cluster=cluster, path=path, pieces=pieces)


def _read_document(cluster: str, document: Document) -> Iterator[Piece]:
    for each in _objects_in(cluster, document):
        if isinstance(each, Finding):
            yield each
        else:
            yield from read_object(each)


def count_written(documents: Iterable[Document]) -> int:
    """How many objects stand in documents that are of a kind that is read, sound or broken."""
    found = (each for document in documents for each in _objects_in("", document))
    return sum(isinstance(each, KubernetesObject) and is_read(each) for each in found)


def _objects_in(cluster: str, document: Document) -> Iterator[KubernetesObject | Finding]:
    """The objects of a document whose kind bears a name that is read; what is wrong with a list of them."""
    value = document.value
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    if not isinstance(kind, str):
        return
    source = KubernetesObject(cluster=cluster, kind=kind, document=document, prefix=(), fields=value)
    if kind in KINDS or scales_another(value):
        yield source
    elif kind.endswith(_LIST):
        yield from _items_of(source)


def _items_of(source: KubernetesObject) -> Iterator[KubernetesObject | Finding]:
    """The objects of a `List`, or of a typed list, whose items may leave out what the list says."""
    item_kind = source.kind.removesuffix(_LIST)
    if item_kind and item_kind not in KINDS:
        return
    validated = validate(_Items, source.fields, locate=source.locate)
    yield from validated.findings
    for index, item in enumerate((validated.value.items if validated.value else None) or ()):
        if not isinstance(item, dict):
            yield source.complain(("items", index), f"expected a mapping, got {describe(item)}")
            continue
        kind = item.get("kind", item_kind)
        fields = {"apiVersion": source.fields.get("apiVersion"), **item} if item_kind else item
        if isinstance(kind, str) and (kind in KINDS or scales_another(fields)):
            yield replace(source, kind=kind, prefix=("items", index), fields=fields)


def names_kind(kind: object) -> bool:
    """Whether a kind is one that is read."""
    return isinstance(kind, str) and kind in KINDS


def read_object(source: KubernetesObject) -> Iterator[Piece]:
    """What one object declares, as it is written or as it was built; nothing of a kind that is not read."""
    if not is_read(source):
        if scales_another(source.fields):
            yield from _read_foreign(source)
        return
    kind = KINDS[source.kind]
    version = source.fields.get("apiVersion")
    source, findings = _name(source, kind)
    if findings:
        yield from break_on(source, findings) if source.name else findings
        return
    if version not in kind.versions:
        expected = join_words([quote(known) for known in kind.versions])
        message = f"expected {expected}, {'found' if version is None else 'got'} {describe(version)}"
        severity = severity_of(source) if kind.is_foreign else Severity.ERROR
        yield from break_on(source, (source.complain(("apiVersion",), message, severity),))
    elif not kind.reads_templates and (is_templated(source.name) or is_templated(source.namespace)):
        if kind.ours_alone:
            message = "filled in by a substitution: it cannot be read from Git"
            yield source.complain(("metadata", "name"), message, Severity.WARNING)
    elif is_templated(source.fields.get("spec")):
        yield from hold_templated(source, ("spec",))
    else:
        yield from _read_and_note(source, kind)


def _read_foreign(source: KubernetesObject) -> Iterator[Piece]:
    """An owner of replicas, of an unknown kind; mistakes in it are not reported."""
    fields = source.fields.get("metadata", {})
    metadata = validate(Metadata, fields, locate=source.locate, severity=Severity.WARNING).value
    if metadata is not None:
        yield from read_foreign_scaler(
            replace(source, name=metadata.name, namespace=metadata.namespace or DEFAULT_NAMESPACE)
        )


def _read_and_note(source: KubernetesObject, kind: Kind) -> Iterator[Piece]:
    """An object that can be used, with what nothing decides by where nothing else is said of it."""
    pieces = tuple(kind.read(source))
    yield from pieces
    if not any(isinstance(piece, BrokenResource) for piece in pieces):
        reported = {piece.place for piece in pieces if isinstance(piece, Finding)}
        yield from (note for note in find_undecided(source, kind.undecided) if note.place not in reported)


def is_read(source: KubernetesObject) -> bool:
    """Whether an object is of a kind that is read, in any version, and not a namesake of another group."""
    kind, version = KINDS.get(source.kind), source.fields.get("apiVersion")
    if kind is None:
        return False
    if version is None:
        return not kind.word and "metadata" in source.fields
    if not isinstance(version, str) or version in kind.versions or kind.ours_alone or version in kind.retired:
        return True
    groups = {known.rpartition("/")[0] for known in kind.versions}
    return version.rpartition("/")[0] in groups


def _name(source: KubernetesObject, kind: Kind) -> tuple[KubernetesObject, tuple[Finding, ...]]:
    """The object with its metadata; what cannot name anything in a cluster leaves the name empty."""
    validated = validate(
        Metadata, source.fields.get("metadata", {}), locate=lambda path: source.locate(("metadata", *path))
    )
    metadata = validated.value
    if metadata is None:
        return _name_broken(source, kind), validated.findings
    namespace = (metadata.namespace or DEFAULT_NAMESPACE) if kind.is_namespaced else ""
    findings = tuple(_check_names(source, metadata.name, namespace))
    # Not `replace`, which is twice as slow: this runs for every object of a fleet.
    named = KubernetesObject(
        cluster=source.cluster,
        kind=source.kind,
        document=source.document,
        prefix=source.prefix,
        fields=source.fields,
        name="" if findings else metadata.name,
        namespace=namespace,
        labels=read_texts(metadata.labels),
        annotations=read_texts(metadata.annotations),
        places=source.places,
    )
    return named, findings


def _name_broken(source: KubernetesObject, kind: Kind) -> KubernetesObject:
    """An object with wrong labels or annotations can still be called by its name."""
    metadata = source.fields.get("metadata")
    known = {key: metadata.get(key) for key in ("name", "namespace")} if isinstance(metadata, dict) else {}
    names = validate(Metadata, known, locate=source.locate).value
    if names is None or any(_check_names(source, names.name, names.namespace or "")):
        return source
    return replace(
        source, name=names.name, namespace=(names.namespace or DEFAULT_NAMESPACE) if kind.is_namespaced else ""
    )


def _check_names(source: KubernetesObject, name: str, namespace: str) -> Iterator[Finding]:
    for field, text in (("name", name), ("namespace", namespace)):
        if text and not _DNS_NAME.fullmatch(text) and not is_templated(text):
            message = f"expected lower-case letters, digits, - and . as in a DNS name, got {quote(text)}"
            yield source.complain(("metadata", field), message)
