"""JSON patches (RFC 6902) on a draft, operation by operation."""

from collections.abc import Callable, Mapping
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.proof import find_difference
from reconciler.manifests.wording import Field, quote
from reconciler.placement.objects import ObjectDraft, Obstacle
from reconciler.placement.origins import SourceField, SourceTrace, value_at, with_value

MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 100
_APPEND: Final = "-"
_ANNOTATIONS: Final = ("metadata", "annotations")
"""Kustomize keeps notes of its own there while it builds, so that they exist in every object."""


def apply_operations(draft: ObjectDraft, operations: SourceField) -> None:
    """Apply every operation of a list; InputError at the first that Kustomize would fail at."""
    value = operations.value
    if not isinstance(value, list):
        raise operations.error("expected a list of operations")
    for index in range(len(value)):
        operation = operations.below(index)
        try:
            _apply(draft, operation)
        except InputError:
            path = tuple(_unescape(part) for part in operation.text("path").split("/")[1:])
            if all(not each.covers(path) for each in draft.obstacles):
                raise
            reason = "a patch changes what is not read here"
            draft.obstacles.append(Obstacle(reason=reason, place=operation.place, field=path))


def _apply(draft: ObjectDraft, operation: SourceField) -> None:
    name = operation.text("op")
    act = _OPERATIONS.get(name)
    if act is None:
        raise operation.error(f"expected add, remove, replace, move, copy or test, got {quote(name)}")
    act(draft, operation, _pointer(draft, operation, "path"))


def _pointer(draft: ObjectDraft, operation: SourceField, key: str) -> Field:
    """A JSON pointer as a field path: parts that meet a list are indexes."""
    text = operation.text(key)
    if text and not text.startswith("/"):
        raise operation.error(f"expected a pointer that begins with /, got {quote(text)}")
    path: list[str | int] = []
    value: Value = draft.fields
    for raw in text.split("/")[1:]:
        part: str | int = _unescape(raw)
        if isinstance(value, list) and part != _APPEND:
            part = _index(str(part), len(value), operation)
        path.append(part)
        value = value_at(value, (part,))
    return tuple(path)


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _index(text: str, length: int, operation: SourceField) -> int:
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > len("1000000"):
        raise operation.error(f"expected the index of a list item, got {quote(text)}")
    index = int(text)
    if index < 0:
        index += length
    if not 0 <= index <= length:
        raise operation.error(f"expected the index of one of {length} list items, got {text}")
    return index


def _require(draft: ObjectDraft, operation: SourceField, path: Field) -> Value:
    parent = value_at(draft.fields, path[:-1])
    is_there = not path or (
        path[-1] in parent
        if isinstance(parent, dict)
        else isinstance(parent, list) and isinstance(path[-1], int) and path[-1] < len(parent)
    )
    if not is_there:
        raise operation.error(f"there is nothing at {quote(operation.text('path'))} of {draft.identity}")
    return value_at(draft.fields, path)


def _add(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    _insert(draft, operation, path, value_at(operation.value, ("value",)), SourceTrace((operation.below("value"),)))


def _insert(draft: ObjectDraft, operation: SourceField, path: Field, value: Value, trace: SourceTrace) -> None:
    parent = value_at(draft.fields, path[:-1])
    if isinstance(parent, list) and path:
        index = len(parent) if path[-1] == _APPEND else path[-1]
        if not isinstance(index, int):
            raise operation.error(f"expected the index of a list item, got {quote(str(index))}")
        traces = [draft.trace.subtree((*path[:-1], each)) for each in range(len(parent))]
        _set_list(
            draft, path[:-1], [*parent[:index], value, *parent[index:]], [*traces[:index], trace, *traces[index:]]
        )
        return
    if path[:-1] == _ANNOTATIONS and parent is None:
        parent = {}
    if path and not isinstance(parent, dict):
        raise operation.error(f"there is nothing to add to at {quote(operation.text('path'))} of {draft.identity}")
    displaced = draft.trace.chain(path)
    draft.set(path, value)
    draft.trace.place(path, SourceTrace((*trace.sources, *displaced), trace.members))


def _set_list(draft: ObjectDraft, path: Field, items: list[Value], traces: list[SourceTrace]) -> None:
    sources = draft.trace.sources_at(path)
    draft.set(path, items)
    draft.trace.place(path, SourceTrace(sources, dict(enumerate(traces))))


def _replace(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    # The library that Kustomize uses lets a member be replaced that is not there.
    if path[:-1] != _ANNOTATIONS and not isinstance(value_at(draft.fields, path[:-1]), dict):
        _require(draft, operation, path)
    draft.set(path, value_at(operation.value, ("value",)), operation.below("value"))


def _remove(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    _require(draft, operation, path)
    if not path:
        raise operation.error("the whole object cannot be removed by an operation")
    parent = value_at(draft.fields, path[:-1])
    if isinstance(parent, list) and isinstance(path[-1], int):
        traces = [draft.trace.subtree((*path[:-1], each)) for each in range(len(parent))]
        index = path[-1]
        _set_list(draft, path[:-1], [*parent[:index], *parent[index + 1 :]], [*traces[:index], *traces[index + 1 :]])
    elif isinstance(parent, dict):
        kept = {key: value for key, value in parent.items() if key != path[-1]}
        draft.fields = _as_fields(with_value(draft.fields, path[:-1], kept), draft)
        draft.trace.record(path, operation)


def _as_fields(value: Value, draft: ObjectDraft) -> dict[str, Value]:
    return value if isinstance(value, dict) else draft.fields


def _copy(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    origin = _pointer(draft, operation, "from")
    value = _require(draft, operation, origin)
    _refuse_growth(draft, operation, [(value, len(path)), (draft.fields, 0)])
    _insert(draft, operation, path, value, draft.trace.subtree(origin))


def _refuse_growth(draft: ObjectDraft, operation: SourceField, waiting: list[tuple[Value, int]]) -> None:
    """A copy may hold the object itself: a few dozen of them would be more than anybody can walk through."""
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            break
        if isinstance(value, dict | list):
            waiting += [(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)]
    raise operation.error(f"{draft.identity} grows beyond {MAX_VALUES} values or {MAX_DEPTH} levels: it is not read")


def _move(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    origin = _pointer(draft, operation, "from")
    value, trace = _require(draft, operation, origin), draft.trace.subtree(origin)
    _remove(draft, operation, origin)
    _insert(draft, operation, path, value, trace)


def _test(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    wanted = value_at(operation.value, ("value",))
    if find_difference(wanted, value_at(draft.fields, path)) is not None:
        raise operation.error(f"the test at {quote(operation.text('path'))} fails on {draft.identity}")


_OPERATIONS: Final[Mapping[str, Callable[[ObjectDraft, SourceField, Field], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
