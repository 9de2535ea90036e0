"""The common steps of reading a custom resource: its spec validated, what is filled in later held, the rest told."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel

from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import describe
from reconciler.resources.objects import KubernetesObject, Piece, break_on, find_templated
from reconciler.resources.validation import MAX_FINDINGS, Validated, describe_unknown, validate

Model = TypeVar("Model", bound=BaseModel)
_TOP_LEVEL = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def read_resource(
    source: KubernetesObject,
    model: type[Model],
    *,
    named: Sequence[str],
    check: Callable[[Model], Iterable[Finding]],
    build: Callable[[Model], Iterator[Piece]],
    ignored: Sequence[str] = (),
    braced: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> Iterator[Piece]:
    """What `build` makes of the spec, or the broken resource, and all that must be said about it.

    `named` are the fields that must not be filled in later, `ignored` those that the caller reads itself, `braced`
    those whose `{{ }}` are the resource's own; `notes` say of unknown fields, by name, what became of them.
    """
    validated = _read_spec(source, model, ignored, notes or {})
    path = _find_filled_in(source, validated, named, (*ignored, *braced))
    if path:
        yield from hold_templated(source, path)
        return
    checked = check(validated.value) if validated.value is not None else ()
    findings = (*validated.findings, *checked)
    broken = tuple(break_on(source, findings))
    yield from broken
    if validated.value is not None and len(broken) == len(findings):
        yield from build(validated.value)


def _read_spec(
    source: KubernetesObject, model: type[Model], ignored: Sequence[str], notes: Mapping[str, str]
) -> Validated[Model]:
    """The spec as a model, without the fields that the caller reads itself; unknown fields are warnings."""
    spec = source.fields.get("spec")
    if not isinstance(spec, dict):
        message = f"expected a mapping, {'found' if spec is None else 'got'} {describe(spec)}"
        return Validated(None, (*find_unknown_top(source, notes), source.complain(("spec",), message)))
    fields = {name: value for name, value in spec.items() if name not in ignored} if ignored else spec
    found = validate(
        model, fields, locate=lambda path: source.locate(("spec", *path)), unknown=Severity.WARNING, notes=notes
    )
    return Validated(found.value, (*find_unknown_top(source, notes), *found.findings))


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

    In a valid spec only the fields `named` matter, whose text is valid whatever it says; in another one any may be
    the reason.
    """
    spec = source.fields.get("spec")
    fields: Mapping[str, object] = spec if isinstance(spec, dict) else {}
    if validated.value is not None:
        fields = {name: value for name, value in fields.items() if name in named}
    path = find_templated({name: value for name, value in fields.items() if name not in exempt})
    return () if path is None else ("spec", *path)
