"""From the pieces of single files to one declaration: patches resolved, duplicates and contradictions found."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.domain.declarations import (
    BrokenResource,
    Declaration,
    IgnoredNamespace,
    ListedClass,
    ListedCost,
    ReplicaOwner,
    VariantResource,
    Workload,
)
from reconciler.domain.findings import Finding, Severity
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.kthena import ModelResource, ServingResource
from reconciler.domain.saturation_settings import UpstreamNamespace
from reconciler.resources.duplicates import report_duplicate, split_duplicates
from reconciler.resources.inference.folding import fold_inference
from reconciler.resources.kthena.folding import fold_kthena
from reconciler.resources.kustomize import own_workload
from reconciler.resources.llmaz.folding import fold_llmaz
from reconciler.resources.objects import Patch, Piece, UpstreamSettings
from reconciler.resources.scopes import settle

Kind = TypeVar("Kind", bound=Piece)
Listed = TypeVar("Listed", ListedClass, ListedCost)

# A person's pattern runs against every name of a cluster: no backtracking that a hostile one could drive.
_TAME_PATTERN = re.compile(r"[A-Za-z0-9.|^$-]*(?:[.][*+][A-Za-z0-9.|^$-]*){0,3}")
_LONGEST_PATTERN = 512
_LITERAL = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeclaration:
    """What one file declares in one cluster: pieces in the file's order."""

    cluster: str
    path: str
    pieces: tuple[Piece, ...] = ()


def merge(files: Iterable[FileDeclaration]) -> Declaration:
    """Fold the files of all clusters into what the commit declares, the same for any order of files.

    Files that kustomizations name as patches declare nothing of their own. Objects of one kind and name are broken
    in all their places; entries of ConfigMaps that disagree are dropped.
    """
    ordered = sorted(files, key=lambda file: (file.cluster, file.path))
    files_of_objects, patches = _set_patches_apart(ordered)
    whole = _sort_by_type(files_of_objects)
    variants, broken_variants = split_duplicates(_pick(whole, VariantResource))
    workloads, broken_workloads = split_duplicates(_pick(whole, Workload))
    targets = {_target_of(variant) for variant in variants} if broken_workloads else set()
    classes, class_findings = _agree(_by_cluster(files_of_objects, ListedClass), _name_class, _place_of_class)
    costs, cost_findings = _agree(_by_cluster(files_of_objects, ListedCost), _name_cost, lambda cost: cost.place)
    namespaces = _pick(whole, UpstreamNamespace)
    settled = settle(_pick(whole, UpstreamSettings), namespaces)
    broken = [*_pick(whole, BrokenResource), *broken_variants, *broken_workloads]
    llmaz = fold_llmaz([piece for pieces in whole.values() for piece in pieces], broken)
    inference = fold_inference([piece for pieces in whole.values() for piece in pieces], broken)
    broken += (*llmaz.broken, *inference.broken)
    targets |= llmaz.targets
    kthena = fold_kthena([piece for pieces in whole.values() for piece in pieces], broken)
    workloads += kthena.declared.workloads
    broken += kthena.broken
    findings = [
        *_pick(whole, Finding),
        *(report_duplicate(found) for found in broken_variants),
        *(report_duplicate(found, _severity_of(found, targets)) for found in broken_workloads),
        *class_findings,
        *cost_findings,
        *settled.findings,
        *llmaz.findings,
        *inference.findings,
        *kthena.findings,
    ]
    return Declaration(
        variants=tuple(variants),
        workloads=tuple(workloads),
        owners=(*_pick(whole, ReplicaOwner), *llmaz.owners, *_resolve_patches(patches, [*workloads, *variants])),
        classes=classes,
        costs=costs,
        saturation=settled.saturation,
        zero=settled.zero,
        opted_in_namespaces=frozenset((each.cluster, each.name) for each in namespaces if each.is_opted_in),
        excluded_namespaces=frozenset((each.cluster, each.name) for each in namespaces if each.is_excluded),
        ignored_namespaces=tuple(_pick(whole, IgnoredNamespace)),
        llmaz=llmaz.declared,
        inference=inference.declared,
        kthena=kthena.declared,
        broken=tuple(dict.fromkeys(broken)),
        findings=tuple(sorted(set(findings))),
        shared_paths=_find_shared_paths(ordered),
        files=len({file.path for file in ordered}),
    )


def _sort_by_type(files: Iterable[FileDeclaration]) -> dict[type, list[Piece]]:
    by_type: dict[type, list[Piece]] = {}
    for file in files:
        for piece in file.pieces:
            by_type.setdefault(type(piece), []).append(piece)
    return by_type


def _pick(by_type: Mapping[type, list[Piece]], kind: type[Kind]) -> list[Kind]:
    return [piece for piece in by_type.get(kind, ()) if isinstance(piece, kind)]


def _by_cluster(files: Iterable[FileDeclaration], kind: type[Kind]) -> dict[str, list[Kind]]:
    pieces: dict[str, list[Kind]] = {}
    for file in files:
        for piece in file.pieces:
            if isinstance(piece, kind):
                pieces.setdefault(file.cluster, []).append(piece)
    return pieces


def _find_shared_paths(files: Iterable[FileDeclaration]) -> frozenset[str]:
    clusters: dict[str, set[str]] = {}
    for file in files:
        clusters.setdefault(file.path, set()).add(file.cluster)
    return frozenset(path for path, names in clusters.items() if len(names) > 1)


def _set_patches_apart(files: list[FileDeclaration]) -> tuple[list[FileDeclaration], list[Patch]]:
    """The files that are no patches, and every patch; one that is a file without target names what the file holds."""
    patches = [piece for file in files for piece in file.pieces if isinstance(piece, Patch)]
    by_file = {(patch.cluster, patch.path): patch for patch in patches if patch.path}
    resolved = [patch for patch in patches if patch.is_pattern or patch.name or not patch.path]
    for file in files:
        patch = by_file.get((file.cluster, file.path))
        if patch is not None:
            resolved += [replace(patch, kind=key.kind, name=key.name, is_pattern=False) for key in _keys_in(file)]
    return [file for file in files if (file.cluster, file.path) not in by_file], resolved


def _keys_in(file: FileDeclaration) -> Iterator[ResourceKey]:
    for piece in file.pieces:
        if isinstance(piece, VariantResource | Workload | BrokenResource | ServingResource | ModelResource):
            yield piece.key


def _resolve_patches(
    patches: Iterable[Patch], resources: Iterable[Workload | VariantResource]
) -> Iterator[ReplicaOwner]:
    names: dict[str, set[tuple[str, str]]] = {}
    for resource in resources:
        names.setdefault(resource.key.cluster, set()).add((resource.key.kind, resource.key.name))
    for patch in patches:
        if not patch.is_pattern or (_LITERAL.fullmatch(patch.kind) and _LITERAL.fullmatch(patch.name)):
            yield own_workload(patch.cluster, patch.kind, patch.name, patch.place)
            continue
        for kind, name in sorted(names.get(patch.cluster, ())):
            if _matches(patch.kind, kind) and _matches(patch.name, name):
                yield own_workload(patch.cluster, kind, name, patch.place)


def _matches(pattern: str, text: str) -> bool:
    """As Kustomize anchors a target's pattern; one too clever to run safely matches everything: better held."""
    if not pattern or len(pattern) > _LONGEST_PATTERN or not _TAME_PATTERN.fullmatch(pattern):
        return True
    return re.fullmatch(pattern, text) is not None


def _target_of(variant: VariantResource) -> ResourceKey:
    return replace(variant.key, kind=variant.target_kind, name=variant.target_name)


def _severity_of(found: BrokenResource, targets: set[ResourceKey]) -> Severity:
    # Namespaces may come from a kustomization: equal names that nobody scales are no mistake yet.
    return Severity.ERROR if found.key in targets else Severity.WARNING


def _name_class(listed: ListedClass) -> Hashable:
    return listed.namespace, listed.config_map, listed.key, listed.model_id


def _place_of_class(listed: ListedClass) -> Place:
    return listed.service_class.place or Place(path="")


def _name_cost(listed: ListedCost) -> Hashable:
    return listed.accelerator


def _agree(
    by_cluster: Mapping[str, list[Listed]], name: Callable[[Listed], Hashable], place: Callable[[Listed], Place]
) -> tuple[dict[str, tuple[Listed, ...]], list[Finding]]:
    """Entries of one name once when they say the same, else not at all."""
    agreed: dict[str, tuple[Listed, ...]] = {}
    findings: list[Finding] = []
    for cluster, entries in by_cluster.items():
        by_name: dict[Hashable, list[Listed]] = {}
        for entry in entries:
            by_name.setdefault(name(entry), []).append(entry)
        alike = {key: len({_without_place(entry) for entry in same}) == 1 for key, same in by_name.items()}
        agreed[cluster] = tuple(same[0] for key, same in by_name.items() if alike[key])
        for key, same in by_name.items():
            findings += [] if alike[key] else _report_disagreement([place(entry) for entry in same])
    return agreed, findings


def _without_place(entry: ListedClass | ListedCost) -> ListedClass | ListedCost:
    nowhere = Place(path="")
    if isinstance(entry, ListedCost):
        return replace(entry, place=nowhere)
    return replace(entry, service_class=replace(entry.service_class, place=nowhere))


def _report_disagreement(places: list[Place]) -> Iterator[Finding]:
    for here in places:
        others = ", ".join(str(other) for other in places if other is not here)
        message = f"says otherwise than {others}: neither is used"
        yield Finding(place=here, severity=Severity.ERROR, message=message)
