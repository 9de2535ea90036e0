"""Where a second object can be written beside one: a file of its own that the same root applies."""

from collections.abc import Iterator, Mapping

from reconciler.domain.canaries import CopyPlace
from reconciler.domain.records import replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, mapping_of, value_at
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.placement.places import own_kustomization
from reconciler.placement.repository import directory_of, is_within

_SET_ELSEWHERE = (("metadata", "namespace"), ("spec", "replicas"))
"""What may differ from the manifest: a copy in the same root gets the same namespace, and a count of its own."""


def find_copy_place(fleet: Fleet, built: BuiltObject) -> CopyPlace:
    """Where a copy of an object goes, or why there is no place for one.

    The manifest is copied, so it must be what the cluster gets: a patch or an image that an overlay sets for this
    object alone would be missing in the copy.
    """
    source, build = built.source, fleet.clusters[built.key.cluster]
    if source.field or source.document.index < 0:
        return CopyPlace(reason=f"{built.path} does not hold it as a document of its own")
    if built.path in fleet.shared_paths or build.roots_reading[built.path] > 1:
        return CopyPlace(reason=f"{built.path} is built more than once")
    try:
        written = source.mapping()
    except InputError as error:
        return CopyPlace(reason=str(error))
    reason = _why_not_applied(written)
    if reason:
        return CopyPlace(reason=f"{built.path} may not be what runs: {reason}")
    if built.obstacles or _without(built.fields, _SET_ELSEWHERE) != _without(written, _SET_ELSEWHERE):
        return CopyPlace(reason=f"{built.root} changes what {built.path} says of it, which a copy would lack")
    claims = tuple(_claims(built))
    lone = next((each for each in claims if _is_for_one_node(fleet, built, each)), "")
    if lone:
        return CopyPlace(
            reason=f"accessModes of claim {lone} let one node mount it: a copy could take it from its pods"
        )
    caution = "; ".join(f"the canary mounts claim {each}, too: it needs access from several nodes" for each in claims)
    if built.path in build.plain or _is_deployed_with_its_directory(fleet, built):
        return CopyPlace(directory=directory_of(built.path), caution=caution)
    document = own_kustomization(fleet, built.root)
    if document is None:
        return CopyPlace(reason=f"{built.root} has no kustomization of its own that could list a copy")
    listed = value_at(document.value, ("resources",))
    return CopyPlace(
        directory=directory_of(document.path),
        kustomization=document.path,
        kustomization_document=document.index,
        listed=tuple(str(each) for each in listed) if isinstance(listed, list) else (),
        caution=caution,
    )


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
