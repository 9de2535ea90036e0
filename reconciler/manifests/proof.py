"""The proof behind every edit: what is read afterwards differs from before in the wanted fields, and nowhere else."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.errors import InputError
from reconciler.manifests.composer import ComposingBudget, Value
from reconciler.manifests.documents import compose_section
from reconciler.manifests.edits import ObstacleError
from reconciler.manifests.sections import Section, SourceText, decode_source, split_sections
from reconciler.manifests.wording import Field, format_field


def prove(before: SourceText, sections: Sequence[Section], data: bytes, expected: Mapping[int, list[Value]]) -> None:
    """Read the bytes that are about to be returned, and compare.

    `expected` holds, by section, the values that the edited documents must have. All other sections must be equal
    byte for byte, which proves their values: a section depends on nothing outside it.
    Raises ObstacleError naming the first difference.
    """
    try:
        after = decode_source(before.path, data)
        new_sections = split_sections(after)
        if len(new_sections) != len(sections) or after.has_bom != before.has_bom:
            raise ObstacleError("the edit would change the number of documents")
        budget = ComposingBudget()
        for position, (old, new) in enumerate(zip(sections, new_sections, strict=True)):
            if position in expected:
                composed = compose_section(after, new, budget)
                _compare_documents(expected[position], [document.value for document in composed])
            elif before.text[old.start : old.end] != after.text[new.start : new.end]:
                raise ObstacleError("the edit would change another document")
    except InputError as error:
        raise ObstacleError(f"the edited file could not be read: {error.message}") from error


def _compare_documents(expected: list[Value], found: list[Value]) -> None:
    if len(expected) != len(found):
        raise ObstacleError("the edit would change the number of documents")
    for wanted, value in zip(expected, found, strict=True):
        place = find_difference(wanted, value)
        if place is not None:
            where = format_field(place) or "the root"
            raise ObstacleError(f"the edited file would not be read as wanted, see {where}")


def find_difference(wanted: Value, found: Value) -> Field | None:
    """Find the first place where two values differ, in type too: 5 is neither "5" nor 5.0. None: they are equal."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            return (min(wanted.keys() ^ found.keys()),)
        return _first_difference((key, wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return (min(len(wanted), len(found)),)
        return _first_difference((index, wanted[index], found[index]) for index in range(len(wanted)))
    if type(wanted) is not type(found):
        return ()
    # repr tells -0.0 from 0.0, and lets NaN equal itself.
    is_equal = repr(wanted) == repr(found) if isinstance(wanted, float) else wanted == found
    return None if is_equal else ()


def _first_difference(members: Iterable[tuple[str | int, Value, Value]]) -> Field | None:
    for part, wanted, found in members:
        place = find_difference(wanted, found)
        if place is not None:
            return (part, *place)
    return None
