"""Service classes as ConfigMap keys list them: YAML in a string, milliseconds, and priority 1 first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from reconciler.domain.declarations import ListedClass
from reconciler.domain.findings import Finding, Severity, finding_of
from reconciler.domain.identity import Place
from reconciler.domain.service_classes import ServiceClass, SloTarget
from reconciler.domain.units import seconds_from_ms
from reconciler.errors import InputError
from reconciler.manifests import Document, parse_documents
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import Shape, validate
from reconciler.resources.wording import describe, name_field

CLASSES_CONFIG_MAP = "service-classes-config"
_MARK = "slo-"
_WAIT_PERCENTILE = 95.0

_Slo = Annotated[float, Field(ge=0, le=1e9, description="a number")]


class _Entry(Shape):
    """The targets of one model; 0 is not set."""

    model: Annotated[str, Field(min_length=1)]
    itl_ms: Annotated[_Slo | None, Field(alias="slo-itl")] = None
    tpot_ms: Annotated[_Slo | None, Field(alias="slo-tpot")] = None
    ttw_ms: Annotated[_Slo | None, Field(alias="slo-ttw")] = None
    ttft_ms: Annotated[_Slo | None, Field(alias="slo-ttft")] = None
    tokens_per_s: Annotated[_Slo | None, Field(alias="slo-tps")] = None


class _Class(Shape):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    priority: Annotated[int, Field(ge=-(10**9), le=10**9)] = 0
    entries: Annotated[list[_Entry], Field(alias="data")]


@dataclass(frozen=True, slots=True)
class _Text:
    """A class's YAML inside a ConfigMap value, and where its lines are in the file."""

    source: KubernetesObject
    key: str
    document: Document
    has_lines: bool

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """The field's own line in a block of text, else the line of the ConfigMap's key."""
        place = self.source.locate(("data", self.key))
        line = place.line + self.document.line_of(path) if self.has_lines else place.line
        return Place(path=place.path, line=line, field=name_field(("data", self.key, *path)))


def read_classes(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """Every class of one ConfigMap, priority p turned into (largest p of the ConfigMap) - p.

    A ConfigMap of another name may hold anything: only what has the shape of a class is looked at there.
    """
    classes: list[tuple[_Text, _Class]] = []
    for key, value in entries.items():
        try:
            text = _parse_text(source, key, value)
        except InputError as error:
            if source.name == CLASSES_CONFIG_MAP:
                yield finding_of(error)
            continue
        validated = validate(_Class, text.document.value, locate=text.locate, unknown=Severity.WARNING)
        findings = [*validated.findings, *(_find_contradictions(text, validated.value) if validated.value else ())]
        yield from findings
        if validated.value is not None and not any(finding.severity is Severity.ERROR for finding in findings):
            classes.append((text, validated.value))
    largest = max((listed.priority for _, listed in classes), default=0)
    for text, listed in classes:
        yield from _list_models(text, listed, largest - listed.priority)


def _parse_text(source: KubernetesObject, key: str, value: object) -> _Text:
    """The YAML under one key; InputError when it is nothing that could be a class."""
    place = source.locate(("data", key))
    if not isinstance(value, str):
        raise InputError(place.path, place.line, place.field, f"expected text, got {describe(value)}")
    is_expected = source.name == CLASSES_CONFIG_MAP
    documents: Sequence[Document] = ()
    if is_expected or _MARK in value:
        try:
            documents = parse_documents(place.path, value.encode(errors="replace"))
        except InputError as error:
            raise InputError(place.path, place.line, place.field, error.message) from error
    if len(documents) != 1 or not (is_expected or _has_class_shape(documents[0].value)):
        raise InputError(place.path, place.line, place.field, "expected one service class in YAML")
    return _Text(source, key, documents[0], _stands_in_block(source, place.line, value))


def _has_class_shape(value: object) -> bool:
    entries = value.get("data") if isinstance(value, dict) else None
    return isinstance(entries, list) and any(isinstance(entry, dict) and "model" in entry for entry in entries)


def _stands_in_block(source: KubernetesObject, line: int, value: str) -> bool:
    """Whether the text's lines are lines of the file: a quoted text with `\\n` has none of its own."""
    num_lines = value.count("\n")
    siblings = source.fields.get("data")
    paths = [("data", key) for key in siblings] if isinstance(siblings, dict) else []
    taken = (source.locate(path).line for path in [*paths, *((name,) for name in source.fields)])
    return num_lines > 0 and not any(line < other <= line + num_lines for other in taken)


def _find_contradictions(text: _Text, listed: _Class) -> Iterator[Finding]:
    for index, entry in enumerate(listed.entries):
        pairs = (
            ("slo-itl", entry.itl_ms, "slo-tpot", entry.tpot_ms),
            ("slo-ttw", entry.ttw_ms, "slo-ttft", entry.ttft_ms),
        )
        for left_name, left, right_name, right in pairs:
            if left and right and left != right:
                message = f"{left_name} {left:g} contradicts {right_name} {right:g}, which means the same: remove one"
                yield Finding(place=text.locate(("data", index)), severity=Severity.ERROR, message=message)


def _list_models(text: _Text, listed: _Class, priority: int) -> Iterator[ListedClass]:
    for index, entry in enumerate(listed.entries):
        service_class = ServiceClass(
            name=listed.name,
            priority=priority,
            wait=_as_target(entry.ttw_ms or entry.ttft_ms, _WAIT_PERCENTILE),
            itl=_as_target(entry.itl_ms or entry.tpot_ms, None),
            throughput_tokens_per_s=entry.tokens_per_s or None,
            place=text.locate(("data", index)),
        )
        yield ListedClass(
            namespace=text.source.namespace,
            config_map=text.source.name,
            key=text.key,
            model_id=entry.model,
            service_class=service_class,
        )


def _as_target(limit_ms: float | None, percentile: float | None) -> SloTarget | None:
    return SloTarget(limit_s=seconds_from_ms(limit_ms), percentile=percentile) if limit_ms else None
