"""PURE. What a cluster's repository builds, and in which file, line and field a value of a built object stands.

`build_fleet` builds every cluster of a commit: Kustomize, and what Flux and Argo CD change on the way.
`effective_place` says where an edit changes a number, or why there is no such place.
"""

from reconciler.placement.entries import EntryPlaces
from reconciler.placement.fleet import Fleet, build_fleet
from reconciler.placement.helm import DEPLOYING_KINDS, helm_place, is_switched_off
from reconciler.placement.markers import MarkerComment, read_markers
from reconciler.placement.objects import BuiltObject, Obstacle, Root
from reconciler.placement.origins import OriginKind, ValueOrigin
from reconciler.placement.overlays import overlay_insertion
from reconciler.placement.ownership import Owner, owners_of
from reconciler.placement.places import EffectivePlace, NoPlace, effective_place, marked_place
from reconciler.placement.repository import ManifestRepository, is_kustomization
from reconciler.placement.roots import find_used

__all__ = [
    "DEPLOYING_KINDS",
    "BuiltObject",
    "EffectivePlace",
    "EntryPlaces",
    "Fleet",
    "ManifestRepository",
    "MarkerComment",
    "NoPlace",
    "Obstacle",
    "OriginKind",
    "Owner",
    "Root",
    "ValueOrigin",
    "build_fleet",
    "effective_place",
    "find_used",
    "helm_place",
    "is_kustomization",
    "is_switched_off",
    "marked_place",
    "overlay_insertion",
    "owners_of",
    "read_markers",
]
