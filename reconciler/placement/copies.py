"""Where a second object can be written beside one: a file of its own that the same root applies."""

from collections.abc import Iterator, Mapping

from reconciler.domain.canaries import CopyPlace
from reconciler.domain.records import replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, mapping_of, value_at
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject, Root
from reconciler.placement.places import own_kustomization
from reconciler.placement.repository import directory_of, is_within

_SET_ELSEWHERE = (("metadata", "namespace"), ("spec", "replicas"))
"""What may differ from the manifest: a copy in the same root gets the same namespace, and a count of its own."""


class CopyPlaces:
    """Where copies of a fleet's objects go; each kustomization is read once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lists: dict[Root, CopyPlace] = {}

    def find(self, built: BuiltObject) -> CopyPlace:
        """Where a copy of an object goes, or why there is no place for one.

        The manifest is copied, so it must be what the cluster gets: a patch or an image that an overlay sets for this
        object alone would be missing in the copy.
        """
        fleet = self._fleet
        reason = _why_no_copy(fleet, built)
        if reason:
            return CopyPlace(reason=reason)
        claims = tuple(_claims(built))
        lone = next((each for each in claims if _is_for_one_node(fleet, built, each)), "")
        if lone:
            return CopyPlace(
                reason=f"accessModes of claim {lone} let one node mount it: a copy could take it from its pods"
            )
        words = (f"the canary mounts claim {each}, too: it needs access from several nodes" for each in claims)
        build, caution = fleet.clusters[built.key.cluster], "; ".join(words)
        if built.path in build.plain or _is_deployed_with_its_directory(fleet, built):
            return CopyPlace(directory=directory_of(built.path), caution=caution)
        if built.root not in self._lists:
            self._lists[built.root] = _list_of(fleet, built.root)
        listing = self._lists[built.root]
        return listing if listing.reason or not caution else replace(listing, caution=caution)


def _list_of(fleet: Fleet, root: Root) -> CopyPlace:
    """The kustomization of a root as the one that lists a copy."""
    document = own_kustomization(fleet, root)
    if document is None:
        return CopyPlace(reason=f"{root} has no kustomization of its own that could list a copy")
    listed = value_at(document.value, ("resources",))
    return CopyPlace(
        directory=directory_of(document.path),
        kustomization=document.path,
        kustomization_document=document.index,
        listed=tuple(str(each) for each in listed) if isinstance(listed, list) else (),
    )


def _why_no_copy(fleet: Fleet, built: BuiltObject) -> str:
    """Why an object's manifest is not what the cluster gets of it alone; empty where it is."""
    source, build = built.source, fleet.clusters[built.key.cluster]
    if source.field or source.document.index < 0:
        return f"{built.path} does not hold it as a document of its own"
    if built.path in fleet.shared_paths or build.roots_reading[built.path] > 1:
        return f"{built.path} is built more than once"
    try:
        written = source.mapping()
    except InputError as error:
        return str(error)
    reason = _why_not_applied(written)
    if reason:
        return f"{built.path} may not be what runs: {reason}"
    is_same = built.fields is written or _without(built.fields, _SET_ELSEWHERE) == _without(written, _SET_ELSEWHERE)
    if built.obstacles or not is_same:
        return f"{built.root} changes what {built.path} says of it, which a copy would lack"
    return ""


def _is_deployed_with_its_directory(fleet: Fleet, built: BuiltObject) -> bool:
    """Whether a deployer applies it with all that is beside it, as no kustomization says what that is."""
    deployer, directory = fleet.deployer_of(built), directory_of(built.path)
    if deployer is None or not is_within(built.path, deployer.directory):
        return False
    while not fleet.repository.kustomizations_in(directory):
        if directory == deployer.directory:
            return True
        directory = directory_of(directory)
    return False


_HOOKS = ("argocd.argoproj.io/hook", "helm.sh/hook")
_FLUX = "kustomize.toolkit.fluxcd.io/"
_NOT_APPLIED = ((f"{_FLUX}reconcile", ("disabled",)), (f"{_FLUX}ssa", ("Ignore", "IfNotPresent")))


def _why_not_applied(written: dict[str, Value]) -> str:
    """Which field says that an object is not applied as any other is, on which a copy would measure something else."""
    annotations = mapping_of(value_at(written, ("metadata", "annotations")))
    for key in _HOOKS:
        if key in annotations:
            return f"annotation {key} has it applied only at a moment of a deployment"
    for key, values in _NOT_APPLIED:
        if annotations.get(key) in values:
            return f"annotation {key}: {annotations[key]} has Flux leave it as it is"
    is_paused = value_at(written, ("spec", "paused")) is True
    return "spec.paused keeps its pods as they are" if is_paused else ""


def _without(fields: Mapping[str, Value], paths: tuple[tuple[str, str], ...]) -> dict[str, Value]:
    """The fields without some of them, and without a mapping that is empty then."""
    kept = dict(fields)
    for parent, name in paths:
        members = kept.get(parent)
        if isinstance(members, dict):
            kept[parent] = {key: value for key, value in members.items() if key != name}
    return {key: value for key, value in kept.items() if value != {}}


def _claims(built: BuiltObject) -> Iterator[str]:
    volumes = built.value_at("spec", "template", "spec", "volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        claim = value_at(volume, ("persistentVolumeClaim", "claimName"))
        if isinstance(claim, str):
            yield claim


def _is_for_one_node(fleet: Fleet, built: BuiltObject, claim: str) -> bool:
    """Whether Git has a claim that pods on several nodes cannot mount."""
    found = fleet.find(replace(built.key, kind="PersistentVolumeClaim", name=claim))
    modes = None if found is None else found.value_at("spec", "accessModes")
    return isinstance(modes, list) and bool(modes) and not any(str(mode).endswith("Many") for mode in modes)
