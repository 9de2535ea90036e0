"""A number where it is written in the end, and the chain of places that it was chosen from, in words."""

from dataclasses import replace

from reconciler.domain.declared.places import WrittenField
from reconciler.placement.origins import ValueOrigin


def moved(written: WrittenField, origin: ValueOrigin) -> WrittenField:
    """The field that decides a number, which is its own where nothing else sets it."""
    own = written.document
    if origin.address == (own.path, own.document, (*own.prefix, *written.field), None):
        return written
    number = int(origin.value) if isinstance(origin.value, int | str) else None
    return replace(origin.written, is_ceiling=written.is_ceiling, written=number, value=number)


def describe(origin: ValueOrigin) -> str:
    """`patch: prod/kustomization.yaml:8 patches[0].patch: [0].value = 7`."""
    return f"{origin.kind}: {origin} = {origin.value}"
