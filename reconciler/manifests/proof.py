"""The proof behind every edit: what is read afterwards differs from before in the wanted fields, and nowhere else."""

from collections.abc import Mapping, Sequence

from reconciler.errors import InputError
from reconciler.manifests.composer import Budget, Value
from reconciler.manifests.differences import find_difference
from reconciler.manifests.documents import compose_section
from reconciler.manifests.edits import ObstacleError
from reconciler.manifests.fields import format_field
from reconciler.manifests.sections import Section, Source, decode_source, split_sections


def prove(before: Source, sections: Sequence[Section], data: bytes, expected: Mapping[int, list[Value]]) -> None:
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
        budget = Budget()
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
