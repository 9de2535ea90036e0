"""A place of its own for a number that has none: an entry under `replicas` of the overlay that builds the object."""

from reconciler.domain.declared.objects import DocumentRef
from reconciler.domain.declared.places import WrittenField
from reconciler.domain.identity import Place
from reconciler.errors import InputError
from reconciler.manifests import Document
from reconciler.placement.fleet import Fleet
from reconciler.placement.kustomize.transformers import SCALED_KINDS
from reconciler.placement.objects import BuiltObject, Root


def overlay_insertion(fleet: Fleet, built: BuiltObject) -> WrittenField | None:
    """The entry that would set the count of this object and of no other; None where there is no safe one.

    The kustomization at the root must be this cluster's alone, deployed once, with no `replicas` yet.
    """
    if built.key.kind not in SCALED_KINDS or built.obstacles:
        return None
    document = own_kustomization(fleet, built.root)
    if document is None or (isinstance(document.value, dict) and "replicas" in document.value):
        return None
    bearers = [
        each
        for each in fleet.clusters[built.key.cluster].objects
        if each.root == built.root and each.key.kind in SCALED_KINDS and built.key.name in each.names
    ]
    if len(bearers) != 1:
        return None
    return WrittenField(
        document=DocumentRef(path=document.path, document=document.index),
        field=("replicas",),
        place=Place(path=document.path, field="replicas"),
        entry=built.key.name,
    )


def own_kustomization(fleet: Fleet, root: Root) -> Document | None:
    """The kustomization at a root that is this cluster's alone, and deployed once; None when there is none."""
    found = fleet.repository.kustomizations_in(root.path)
    if len(found) != 1 or found[0] in fleet.shared_paths:
        return None
    try:
        documents = [document for document in fleet.repository.read(found[0]) if document.value is not None]
    except InputError:
        return None
    is_alone = fleet.clusters[root.cluster].roots_reading[found[0]] == 1
    return documents[0] if is_alone and len(documents) == 1 and isinstance(documents[0].value, dict) else None
