"""Fields that are read and by which nothing is decided: whoever writes one is told so, by `validate` alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.domain.declared.places import FieldPath
from reconciler.domain.identity import Finding, Severity
from reconciler.resources.objects import KubernetesObject

RULE = "undecided-field"
MEMBERS = "*"
"""In a pattern: every item of a list, every value of a mapping."""


def find_undecided(
    source: KubernetesObject, undecided: Callable[[Mapping[str, object]], Mapping[str, str]]
) -> Iterator[Finding]:
    """A note for each field of the object that is written and decides nothing.

    `undecided` makes of a spec the patterns of such fields, each with the reason.
    """
    spec = source.fields.get("spec")
    for pattern, why in undecided(spec).items() if isinstance(spec, dict) else ():
        for path in _written(spec, pattern.split("."), ("spec",)):
            message = f"nothing decides by it: {why}"
            yield Finding(place=source.locate(path), severity=Severity.NOTE, message=message, rule=RULE)


def _written(value: object, pattern: Sequence[str], path: FieldPath) -> Iterator[FieldPath]:
    if not pattern:
        if value is not None:
            yield path
        return
    first, *rest = pattern
    if isinstance(value, dict):
        for key in value if first == MEMBERS else (first,):
            yield from _written(value.get(key), rest, (*path, key))
    elif isinstance(value, list) and first == MEMBERS:
        for index, item in enumerate(value):
            yield from _written(item, rest, (*path, index))
