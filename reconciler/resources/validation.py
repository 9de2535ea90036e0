"""Validates specs of custom resources, amounts with units included, and reports what is wrong at its line."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Generic, Literal, TypeAlias, TypeGuard, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic import Field as PydanticField
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.records import dataclass
from reconciler.domain.units import seconds_from_ms
from reconciler.manifests.wording import MAX_SHOWN, describe, join_words, quote

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_LONGEST_DELAY_S = 86400.0

# Milliseconds take the same route as those of resources, so that equal numbers are equal floats.
SECONDS: Mapping[str, Callable[[float], float]] = {
    "ms": seconds_from_ms,
    "s": lambda amount: amount,
    "m": lambda amount: amount * 60.0,
    "h": lambda amount: amount * 3600.0,
    "d": lambda amount: amount * 86400.0,
}
FRACTIONS: Mapping[str, Callable[[float], float]] = {"%": lambda amount: amount / 100.0}


def pattern_of(units: Iterable[str]) -> str:
    """The regular expression of a number with one of these units."""
    return f"({_NUMBER})({'|'.join(units)})"


def read_duration(value: object, example: str, *, may_be_zero: bool = False) -> float:
    """Seconds of a duration; ValueError says what was expected, with an example, and what was found."""
    return _read(value, f"a duration like {example}", SECONDS, zero="" if may_be_zero else "a duration above zero")


def read_delay(value: object) -> float:
    """Seconds of a duration of at most a day."""
    delay_s = read_duration(value, "3m")
    if delay_s > _LONGEST_DELAY_S:
        raise ValueError(f"expected a duration of at most 1d, got {delay_s / _LONGEST_DELAY_S:g}d")
    return delay_s


def read_rating(value: object, example: str, units: Mapping[str, Callable[[float], float]]) -> float:
    """What a data sheet rates, in the base unit of `units`, above zero."""
    return _read(value, f"an amount like {example}", units, zero="an amount above zero")


def read_percentage(value: object) -> float:
    """The fraction that a percentage means."""
    return _read(value, "a percentage like 20%", FRACTIONS)


def _read(value: object, expected: str, units: Mapping[str, Callable[[float], float]], zero: str = "") -> float:
    """A number in the base unit of `units`; `zero` is what is expected instead of none at all."""
    match = re.fullmatch(pattern_of(units), value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected {expected}, got {describe(value)}")
    amount = units[match[2]](float(match[1]))
    if amount == 0.0 and zero:
        raise ValueError(f"expected {zero}, got {describe(value)}")
    return amount


@cache
def described_fields(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of a model by the names that a file gives them, each with its description or the text below it."""
    return {info.alias or name: _described(model, name, info) for name, info in model.model_fields.items()}


def _described(model: type[BaseModel], name: str, info: FieldInfo) -> FieldInfo:
    if info.description is None:
        owner = next(base for base in model.__mro__ if name in inspect.get_annotations(base))
        info = copy(info)
        info.description = _texts_of(owner).get(name)
    return info


@cache
def _texts_of(owner: type) -> Mapping[str, str]:
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # made by a function, from definitions that describe themselves
        return {}
    (body,) = (node.body for node in ast.parse(dedent(source)).body if isinstance(node, ast.ClassDef))
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


_WORDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_DEFAULT = re.compile(r" \(= .*\)$")


def describe_expected(model: type[BaseModel], field: Sequence[str | int]) -> str:
    """What stands at `field` in a valid document: its description, else the words for its type."""
    words = dict.fromkeys(word for annotation in _resolve(model, field) for word in _describe(annotation))
    return join_words(tuple(words)) or "another value"


def list_names(model: type[BaseModel], field: Sequence[str | int]) -> tuple[str, ...]:
    """The names of the fields that may stand in the mapping at `field`."""
    models = (inner for annotation in _resolve(model, field) for inner, _ in _unwrap(annotation))
    return tuple(name for inner in models if _is_model(inner) for name in described_fields(inner))


def is_secret(model: type[BaseModel], field: Sequence[str | int]) -> bool:
    """Whether a field on the way to `field` is declared with `repr=False`: what was found is not shown."""
    return any(
        info is not None and not info.repr
        for depth in range(1, len(field) + 1)
        for annotation in _resolve(model, field[:depth])
        for _, info in _unwrap(annotation)
    )


def _resolve(model: type[BaseModel], field: Sequence[str | int]) -> tuple[object, ...]:
    annotations: tuple[object, ...] = (model,)
    for part in field:
        inner = (inner for annotation in annotations for inner, _ in _unwrap(annotation))
        annotations = tuple(child for annotation in inner for child in _children(annotation, part))
    return annotations


def _children(annotation: object, part: str | int) -> Iterator[object]:
    if _is_model(annotation):
        info = described_fields(annotation).get(str(part))
        if info is not None:
            yield Annotated[info.annotation, info]
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and arguments:
        if issubclass(origin, Mapping):
            yield arguments[1]
        elif issubclass(origin, Sequence):
            yield arguments[0]


def _unwrap(annotation: object, info: FieldInfo | None = None) -> Iterator[tuple[object, FieldInfo | None]]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        infos = [extra for extra in extras if isinstance(extra, FieldInfo)]
        yield from _unwrap(inner, _prefer_described(info, infos))
    elif origin is Union or origin is UnionType:
        for member in get_args(annotation):
            yield from _unwrap(member, info)
    elif annotation is not NoneType:
        yield annotation, info


def _prefer_described(outer: FieldInfo | None, infos: list[FieldInfo]) -> FieldInfo | None:
    candidates = [*infos, *([outer] if outer is not None else [])]
    return next((info for info in candidates if info.description or not info.repr), outer)


def _describe(annotation: object) -> Iterator[str]:
    for inner, info in _unwrap(annotation):
        described = info.description if info is not None else None
        # What a missing one defaults to is for an editor's help; it does not mend a wrong one.
        yield _DEFAULT.sub("", described) if described else _describe_type(inner)


def _describe_type(annotation: object) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return join_words([describe(value) for value in get_args(annotation)])
    base = origin if isinstance(origin, type) else annotation
    if not isinstance(base, type):
        return "another value"
    if base in _WORDS:
        return _WORDS[base]
    return "a list" if issubclass(base, Sequence) else "a mapping"


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


Field: TypeAlias = tuple[str | int, ...]
Locate: TypeAlias = Callable[[Field], Place]
NonEmpty: TypeAlias = Annotated[str, PydanticField(min_length=1)]
Model = TypeVar("Model", bound=BaseModel)

# A file may hold as many mistakes as it has bytes: of one object no more than this are shown.
MAX_FINDINGS = 50
FILLED_IN = "filled-in"
"""The rule of what stands as a template in Git where something else is expected: no mistake, and nothing to go by."""
FILLED_IN_WORDS = "filled in by a substitution"
_TEMPLATE = re.compile(r"\$[({]|\{\{")
_UNKNOWN = "extra_forbidden"
_MISSING = "missing"


def is_templated(text: object) -> bool:
    """Whether a text is filled in later, by a substitution or a chart."""
    return isinstance(text, str) and ("$" in text or "{{" in text) and _TEMPLATE.search(text) is not None


class Shape(BaseModel):
    """Base of what is read: camel case as Kubernetes writes it, nothing converted, unknown fields are found."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # until the first one is read: few repositories have all kinds
    )


class LooseShape(Shape):
    """Base of what is read in part: fields that are not declared are somebody else's."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class Validated(Generic[Model]):
    """A model, or None when a finding is an error; and the findings."""

    value: Model | None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Complaint:
    """One error of pydantic at a real field path; `expected` empty: `found` is the whole message.

    `is_filled_in`: what stands there is a text that somebody fills in later, so that it is no mistake.
    """

    field: Field
    kind: str
    expected: str
    found: str
    is_filled_in: bool = False


def validate(
    model: type[Model],
    value: object,
    *,
    locate: Locate,
    unknown: Severity = Severity.ERROR,
    severity: Severity = Severity.ERROR,
    notes: Mapping[str, str] | None = None,
) -> Validated[Model]:
    """Validate a plain value and find everything that is wrong with it at once.

    `locate` turns a field path inside `value` into a place. Unknown fields are findings of severity `unknown`; as
    warnings they are left out of the value; `notes` say of some, by name, what became of them. All else is of
    `severity`. A field declared with a description is described by it (`expected a decimal number`), one declared with
    `repr=False` is never shown. A validator of a model raises ValueError with the words `expected ..., got ...`.
    """
    try:
        return Validated(model.model_validate(value))
    except ValidationError as error:
        details = error.errors(include_url=False)
    complaints = _complain(model, value, details, notes or {})
    findings = _as_findings(complaints, locate, {True: unknown, False: severity})
    if unknown is Severity.ERROR or any(complaint.kind != _UNKNOWN for complaint in complaints):
        return Validated(None, findings)
    # A copy without some fields; only the collections on the way to them are copied (others may be shared).
    copies: dict[Field, object] = {(): _copy(value)}
    for field in [complaint.field for complaint in complaints]:
        for depth in range(1, len(field)):
            if field[:depth] not in copies:
                parent = _as_mutable(copies[field[: depth - 1]])
                parent[field[depth - 1]] = copies[field[:depth]] = _copy(parent[field[depth - 1]])
        del _as_mutable(copies[field[:-1]])[field[-1]]
    known = copies[()]
    again = validate(model, known, locate=locate, severity=severity)
    return Validated(again.value, findings + again.findings)


def _as_findings(
    complaints: Sequence[_Complaint], locate: Locate, severities: dict[bool, Severity]
) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for complaint in complaints[:MAX_FINDINGS]:
        message = f"expected {complaint.expected}, {complaint.found}" if complaint.expected else complaint.found
        severity, rule = severities[complaint.kind == _UNKNOWN], ""
        if complaint.is_filled_in:
            severity, message, rule = Severity.WARNING, f"{FILLED_IN_WORDS}: it cannot be read from Git", FILLED_IN
        findings.append(Finding(place=locate(complaint.field), severity=severity, message=message, rule=rule))
    if len(complaints) > MAX_FINDINGS:
        message = f"{len(complaints) - MAX_FINDINGS} more findings are not shown"
        findings.append(Finding(place=locate(()), severity=severities[False], message=message))
    return tuple(findings)


def _complain(
    model: type[BaseModel], value: object, details: Sequence[ErrorDetails], notes: Mapping[str, str]
) -> list[_Complaint]:
    """One complaint per field path: members of a union complain together, about the deepest place."""
    complaints: dict[Field, _Complaint] = {}
    for detail in details:
        field = _real_field(value, detail)
        complaints.setdefault(field, _as_complaint(model, field, detail, notes))
    parents = {field[:depth] for field in complaints for depth in range(len(field))}
    return [complaint for field, complaint in complaints.items() if field not in parents]


def _real_field(value: object, detail: ErrorDetails) -> Field:
    """The path without what pydantic adds to it: names of union members, `[key]`."""
    field: list[str | int] = []
    parts = detail["loc"]
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        if isinstance(value, dict) and (part in value or (is_last and detail["type"] == _MISSING)):
            field.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            field.append(part)
            value = value[part]
    return tuple(field)


def _as_complaint(model: type[BaseModel], field: Field, detail: ErrorDetails, notes: Mapping[str, str]) -> _Complaint:
    kind = detail["type"]
    if kind == _UNKNOWN:
        return _Complaint(field, kind, "", describe_unknown(str(field[-1]), list_names(model, field[:-1]), notes=notes))
    if kind == "value_error":
        message = str(detail.get("ctx", {}).get("error", detail["msg"]))
        return _Complaint(field, kind, "", message)
    expected = _describe_limit(detail) or describe_expected(model, field)
    if kind == _MISSING or detail["input"] is None:
        return _Complaint(field, kind, expected, "found nothing")
    if is_secret(model, field):
        return _Complaint(field, kind, expected, "got a value that is not shown")
    found = detail["input"]
    unquoted = kind == "string_type" and isinstance(found, int | float)
    return _Complaint(
        field,
        kind,
        expected,
        f"got {describe(found)}" + (" without quotes: put it in quotes" if unquoted else ""),
        is_filled_in=is_templated(found),
    )


def _describe_limit(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "greater_than_equal":
            return f"at least {context['ge']:g}"
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "less_than_equal":
            return f"at most {context['le']:.12g}"
        case "less_than":
            return f"less than {context['lt']:.12g}"
        case "string_too_short":
            return _count(context["min_length"], "character")
        case "string_too_long":
            return f"at most {context['max_length']} characters"
        case "too_short":
            return _count(context["min_length"], "item")
        case "too_long":
            return f"at most {context['max_length']} items"
        case "finite_number":
            return "a finite number"
        case _:
            return ""


def _count(minimum: int, noun: str) -> str:
    if minimum == 1:
        return "text that is not empty" if noun == "character" else f"at least one {noun}"
    return f"at least {minimum} {noun}s"


def describe_unknown(
    name: str, known: Sequence[str], noun: str = "field", notes: Mapping[str, str] | None = None, advice: str = ""
) -> str:
    """`unknown field, did you mean "accelerator"?`, or what `notes` say of it; else it is unknown, with `advice`."""
    if notes and name in notes:
        return f"unknown {noun}: {notes[name]}"
    nearest = get_close_matches(name[:MAX_SHOWN], known, n=1)
    return f"unknown {noun}, did you mean {quote(nearest[0])}?" if nearest else f"unknown {noun}{advice}"


def _copy(value: object) -> object:
    return list(value) if isinstance(value, list) else dict(cast(dict[str, object], value))


def _as_mutable(value: object) -> dict[str | int, object]:
    return cast(dict[str | int, object], value)
