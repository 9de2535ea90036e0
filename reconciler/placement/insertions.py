"""A place of its own for a number that has none: an entry under `replicas` of the overlay that builds the object."""

from dataclasses import dataclass

from reconciler.domain.identity import Place
from reconciler.errors import InputError
from reconciler.manifests import InsertBlock
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.placement.transformers import SCALED_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Where an overlay can be given a count for one of its objects."""

    path: str
    document: int
    name: str

    @property
    def place(self) -> Place:
        """The kustomization as a whole: the line is not there yet."""
        return Place(path=self.path, field="replicas")

    def edit(self, value: int) -> InsertBlock:
        """The edit that adds the entry."""
        text = f"- name: {self.name}\n  count: {value}\n"
        return InsertBlock(document=self.document, parent=(), key="replicas", text=text)


def overlay_insertion(fleet: Fleet, built: BuiltObject) -> Insertion | None:
    """The entry that would set the count of this object and of no other; None where there is no safe one.

    The kustomization at the root must be this cluster's alone, deployed once, with no `replicas` yet.
    """
    root = built.root
    found = fleet.repository.kustomizations_in(root.path)
    if built.key.kind not in SCALED_KINDS or len(found) != 1 or built.obstacles:
        return None
    try:
        documents = [document for document in fleet.repository.read(found[0]) if document.value is not None]
    except InputError:
        return None
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict) or "replicas" in value or found[0] in fleet.shared_paths:
        return None
    cluster = fleet.clusters[built.key.cluster]
    bearers = [
        each
        for each in cluster.objects
        if each.root == root and each.key.kind in SCALED_KINDS and built.key.name in each.names
    ]
    if cluster.roots_reading[found[0]] != 1 or len(bearers) != 1:
        return None
    return Insertion(path=found[0], document=documents[0].index, name=built.key.name)
