"""How a status can reach the cluster: it is no part of what is applied, so a Job beside the object must bring it."""

from reconciler.domain.places import DeliveryPlace, DocumentRef
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.placement.overlays import own_kustomization
from reconciler.placement.paths import directory_of


def find_delivery(fleet: Fleet, built: BuiltObject) -> DeliveryPlace:
    """Where the manifests that deliver an object's status go, or why there is no such place."""
    deployer = fleet.deployer_of(built)
    if deployer is None:
        return DeliveryPlace(reason=f"no Application and no Flux Kustomization in Git deploys {built.root}")
    document = own_kustomization(fleet, built.root)
    if document is None:
        return DeliveryPlace(reason=f"{built.root} has no kustomization of its own")
    if deployer.is_flux and not deployer.spec.flag("wait"):
        return DeliveryPlace(reason=f"{deployer} does not wait until all is healthy: set spec.wait: true")
    value = document.value if isinstance(document.value, dict) else {}
    listed = value.get("resources")
    return DeliveryPlace(
        directory=directory_of(document.path),
        kustomization=document.path,
        kustomization_document=document.index,
        resources=tuple(str(each) for each in listed) if isinstance(listed, list) else (),
        deployer=_reference(deployer),
        deployer_name=deployer.identity.name,
        deployer_namespace=deployer.identity.namespace,
        source_name=_source_name(deployer),
        is_flux=deployer.is_flux,
    )


def _reference(deployer: Deployer) -> DocumentRef:
    document = deployer.spec.document
    return DocumentRef(path=document.path, document=document.index)


def _source_name(deployer: Deployer) -> str:
    reference = deployer.spec.get("sourceRef") if deployer.is_flux else None
    return "" if reference is None else reference.text("name")
