"""Finds a field of a file again in an older version of the file, by the names around it: places move, names stay."""

from collections.abc import Iterator, Sequence

from reconciler.domain.places import FieldPath, WrittenField
from reconciler.manifests.documents import parse_readable

MISSING = object()
"""Stands for a field that is not there; None is a value."""


class FileVersion:
    """One version of a file, to look for fields in."""

    def __init__(self, path: str, data: bytes) -> None:
        documents, _ = parse_readable(path, data)
        self._documents = {document.index: document.value for document in documents}

    def object_at(self, place: WrittenField) -> object:
        """The object that holds a field, by its position; MISSING where none is there."""
        return _follow(self._documents.get(place.document.document, MISSING), place.document.prefix)

    def object_like(self, now: object, place: WrittenField) -> object:
        """The object of the same kind, name and namespace; of one that says none the one at its position."""
        identity = _identity(now)
        if not any(identity):
            return self.object_at(place)
        return next((each for each in self._objects() if _identity(each) == identity), MISSING)

    def _objects(self) -> Iterator[object]:
        for value in self._documents.values():
            yield value
            items = value.get("items") if isinstance(value, dict) else None
            yield from items if isinstance(items, list) else ()


def count_then(now: object, then: object, place: WrittenField) -> int | None:
    """The number that an older version of an object has in a field; None where it has none there."""
    if place.embedding is not None:
        now, then = (_embedded(each, now, place) for each in (now, then))
    found = _follow_alike(now, then, place.field)
    if isinstance(found, str) and found.isascii() and found.isdigit():
        found = int(found[:9])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _embedded(outer: object, now: object, place: WrittenField) -> object:
    text = _follow_alike(now, outer, place.embedding or ())
    if not isinstance(text, str):
        return MISSING
    documents, _ = parse_readable(place.document.path, text.encode())
    return next((each.value for each in documents if each.index == place.inner_document), MISSING)


def _identity(value: object) -> tuple[object, ...]:
    if not isinstance(value, dict):
        return ()
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return (value.get("kind"), named.get("name"), named.get("namespace")) if named.get("name") else ()


def _follow(value: object, path: Sequence[str | int]) -> object:
    for part in path:
        value = _member(value, part)
    return value


def _follow_alike(now: object, then: object, path: FieldPath) -> object:
    """The field of an older object: items of lists are found by the `name` that they have now."""
    for part in path:
        item = _member(now, part)
        then = _item_like(item, then, part) if isinstance(part, int) else _member(then, part)
        now = item
    return then


def _item_like(item: object, items: object, index: int) -> object:
    name = item.get("name") if isinstance(item, dict) else None
    if name is None or not isinstance(items, list):
        return _member(items, index)
    return next((each for each in items if isinstance(each, dict) and each.get("name") == name), MISSING)


def _member(value: object, part: str | int) -> object:
    if isinstance(value, dict) and isinstance(part, str):
        return value.get(part, MISSING)
    if isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
        return value[part]
    return MISSING
