"""The way of every resource of Kthena: the form of its spec told, then read as one of that form, with its status."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from reconciler.domain.declared.places import Annotation, FieldPath, WrittenField
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import describe
from reconciler.resources.annotations import check_annotations
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import validate

Spec = TypeVar("Spec", bound=BaseModel)
Settings = Mapping[str, Annotation]


class SpecReader(Protocol):
    """One form of a spec, whatever its model is."""

    def read(self, source: KubernetesObject) -> Iterator[Piece]:
        """The noun, or the broken resource, and all that must be said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader(Generic[Spec]):
    """How a spec of one form becomes a noun.

    `check` says what the schema does not express. `build` is called when nothing found is an error. `decides` are the
    fields of a valid spec whose text must not be filled in later.
    """

    model: type[Spec]
    check: Callable[[KubernetesObject, Spec], Iterable[Finding]]
    build: Callable[[KubernetesObject, Spec, Settings], Piece]
    status: type[BaseModel]
    decides: tuple[str, ...]

    def read(self, source: KubernetesObject) -> Iterator[Piece]:
        """The noun, or the broken resource, and all that must be said about it."""
        annotations = check_annotations(source)

        def check(spec: Spec) -> tuple[Finding, ...]:
            return (*annotations.findings, *_check_status(source, self.status), *self.check(source, spec))

        def build(spec: Spec) -> Iterator[Piece]:
            yield self.build(source, spec, annotations.settings)

        yield from read_resource(source, self.model, named=self.decides, check=check, build=build)


def read_with(
    source: KubernetesObject, tell: Callable[[KubernetesObject, Mapping[str, object]], SpecReader | Finding]
) -> Iterator[Piece]:
    """The pieces of a resource; `tell` finds the form of its spec, or a contradiction in it."""
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        message = f"expected a mapping, {'found' if spec is None else 'got'} {describe(spec)}"
        yield from break_on(source, (source.complain(("spec",), message),))
        return
    reader = tell(source, spec)
    yield from break_on(source, (reader,)) if isinstance(reader, Finding) else reader.read(source)


def field_of(source: KubernetesObject, path: FieldPath) -> WrittenField:
    """A field of the object that holds a number of replicas."""
    return WrittenField(document=source.ref, field=path, place=source.locate(path))


def _check_status(source: KubernetesObject, model: type[BaseModel]) -> tuple[Finding, ...]:
    """Only warnings: a status belongs to the live controller, and nothing decides by it."""
    status = source.fields.get("status")
    if status is None:
        return ()
    return validate(
        model,
        status,
        locate=lambda path: source.locate(("status", *path)),
        unknown=Severity.WARNING,
        severity=Severity.WARNING,
    ).findings
