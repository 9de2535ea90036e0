"""A number where it is written in the end, and the chain of places that it was chosen from, in words."""

from dataclasses import replace

from reconciler.domain.declared.objects import DocumentRef
from reconciler.domain.declared.places import ReplicaField
from reconciler.placement import Origin


def moved(written: ReplicaField, origin: Origin) -> ReplicaField:
    """The field that decides a number, which is its own where nothing else sets it."""
    own = written.document
    if origin.address == (own.path, own.document, (*own.prefix, *written.field), None):
        return written
    number = int(origin.value) if isinstance(origin.value, int | str) else None
    return replace(
        written,
        document=DocumentRef(path=origin.place.path, document=origin.document),
        field=origin.field,
        place=origin.place,
        embedding=origin.embedding,
        inner_document=origin.inner_document,
        written=number,
        value=number,
    )


def describe(origin: Origin) -> str:
    """`patch: prod/kustomization.yaml:8 patches[0].patch: [0].value = 7`."""
    return f"{origin.kind}: {origin} = {origin.value}"
