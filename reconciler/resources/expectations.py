"""What a pydantic model expects at a place, in words; taken from the model, so that it is written once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reconciler.manifests.wording import describe, join_words
from reconciler.resources.field_texts import described_fields

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
