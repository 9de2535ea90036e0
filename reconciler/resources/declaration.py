"""All that one commit declares: the files of all clusters merged, duplicates and contradictions found."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TypeVar

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import AdapterRule
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.manifests.wording import MOST_NAMED, name_first
from reconciler.resources.inference.gateway import Inference
from reconciler.resources.inference.priorities import fold_inference
from reconciler.resources.kthena import KthenaResources
from reconciler.resources.llmaz import Llmaz
from reconciler.resources.llmd.saturation import SaturationEntry, UpstreamSettings, ZeroEntry, choose_in_force
from reconciler.resources.objects import (
    Folded,
    Piece,
    first_of_each,
    of_kind,
    report_duplicate,
    split_duplicates,
)
from reconciler.resources.registry import FAMILIES
from reconciler.resources.variants import IgnoredNamespace, ListedClass, ListedCost, UpstreamNamespace, VariantResource


@dataclass(frozen=True, slots=True)
class Owners:
    """What else sets replicas, by the object whose they are.

    Of an HPA and a ScaledObject on one target the latter counts: KEDA generates an HPA from it. What is followed here
    counts where nothing else sets them.
    """

    by_target: Mapping[tuple[str, str, str, str, str], ReplicaOwner]
    rivals: Mapping[tuple[str, str, str, str, str], tuple[str, ...]]
    """Of several autoscalers that act on one target, what each is called."""

    @classmethod
    def of(cls, owners: Iterable[ReplicaOwner]) -> "Owners":
        """The index of some owners."""
        found: dict[tuple[str, str, str, str, str], ReplicaOwner] = {}
        names: dict[tuple[str, str, str, str, str], list[str]] = {}
        for owner in sorted(owners, key=lambda each: (each.is_followed, not each.makes_autoscaler)):
            target = (owner.cluster, owner.namespace, owner.target_kind, owner.target_name, owner.target_part)
            first = found.setdefault(target, owner)
            acts = owner.scaler is not None and (
                owner.makes_autoscaler or owner.is_followed or not first.makes_autoscaler
            )
            if acts and owner.owner not in names.setdefault(target, []):
                names[target].append(owner.owner)
        return cls(found, {target: tuple(each) for target, each in names.items() if len(each) > 1})

    def owner_of(self, target: ResourceKey, workload: Workload | None) -> ReplicaOwner | None:
        """What else sets the replicas of a target, of the part that it is, or of what a controller makes of it."""
        return next((self.by_target[each] for each in _named(target, workload) if each in self.by_target), None)

    def rivals_of(self, target: ResourceKey, workload: Workload | None) -> tuple[str, ...]:
        """The names of several autoscalers that act on a target; empty where one does, or none."""
        place = next((each for each in _named(target, workload) if each in self.by_target), None)
        return () if place is None else self.rivals.get(place, ())


def _named(target: ResourceKey, workload: Workload | None) -> Iterator[tuple[str, str, str, str, str]]:
    """How owners may name a target: as the part that it is or whole, and what a controller makes of it first."""
    keys = [target] if workload is None or workload.becomes is None else [workload.becomes, target]
    return (
        (key.cluster, namespace, key.kind, key.name, part)
        for key in keys
        for namespace in (key.namespace, "")
        for part in dict.fromkeys((key.part, ""))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that one commit declares, in every cluster, with what must be fixed."""

    variants: tuple[VariantResource, ...] = ()
    workloads: tuple[Workload, ...] = ()
    owners: tuple[ReplicaOwner, ...] = ()
    classes: Mapping[str, tuple[ListedClass, ...]] = field(default_factory=dict)
    """By cluster."""
    costs: Mapping[str, tuple[ListedCost, ...]] = field(default_factory=dict)
    """By cluster."""
    saturation: Mapping[str, tuple[SaturationEntry, ...]] = field(default_factory=dict)
    """By cluster."""
    zero: Mapping[str, tuple[ZeroEntry, ...]] = field(default_factory=dict)
    """By cluster."""
    opted_in_namespaces: frozenset[tuple[str, str]] = frozenset()
    """Cluster and name of each Namespace whose own ConfigMaps hold for it instead of the global ones."""
    ignored_namespaces: tuple[IgnoredNamespace, ...] = ()
    llmaz: Llmaz = field(default_factory=Llmaz)
    inference: Inference = field(default_factory=Inference)
    kthena: KthenaResources = field(default_factory=KthenaResources)
    adapter_rules: tuple[AdapterRule, ...] = ()
    alternatives: tuple[Workload, ...] = ()
    """The first of each group of workloads with one name: broken, unless different clusters get them."""
    broken: tuple[BrokenResource, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    """Remarks for readers of the files; they change no plan."""
    shared_paths: frozenset[str] = frozenset()
    """Files that two clusters reach: read, never edited."""
    files: int = 0


Kind = TypeVar("Kind", bound=Piece)
Listed = TypeVar("Listed", ListedClass, ListedCost)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeclaration:
    """What one file declares in one cluster: pieces in the file's order."""

    cluster: str
    path: str
    pieces: tuple[Piece, ...] = ()


def merge(files: Iterable[FileDeclaration]) -> Declaration:
    """Fold the files of all clusters into what the commit declares, the same for any order of files.

    Objects of one kind and name are broken in all their places; entries of ConfigMaps that disagree are dropped.
    """
    ordered = sorted(files, key=lambda file: (file.cluster, file.path))
    pieces = [piece for file in ordered for piece in file.pieces]
    pieces += [piece for family in FAMILIES for piece in family.join(pieces)]
    variants, broken_variants = split_duplicates(of_kind(pieces, VariantResource))
    workloads, broken_workloads = split_duplicates(of_kind(pieces, Workload))
    broken = [*of_kind(pieces, BrokenResource), *broken_variants, *broken_workloads]
    llmaz, servings, made_owners = _fold_llmaz(pieces, broken)
    inference = fold_inference(pieces, broken)
    known = (*broken, *llmaz.broken, *inference.broken)
    kthena = _fold_kthena(pieces, known)
    classes, class_findings = _agree(_by_cluster(ordered, ListedClass), _name_class, _place_of_class)
    costs, cost_findings = _agree(_by_cluster(ordered, ListedCost), _name_cost, lambda cost: cost.place)
    namespaces = of_kind(pieces, UpstreamNamespace)
    in_force = choose_in_force(of_kind(pieces, UpstreamSettings), namespaces)
    # Namespaces may come from a kustomization: equal names of which nothing is scaled are no mistake yet.
    targets = {replace(each.key, kind=each.target_kind, name=each.target_name) for each in variants}
    targets |= servings
    found = [
        *of_kind(pieces, Finding),
        *map(report_duplicate, broken_variants),
        *(
            report_duplicate(each, Severity.ERROR if each.key in targets else Severity.WARNING)
            for each in broken_workloads
        ),
        *class_findings,
        *cost_findings,
        *in_force.findings,
        *llmaz.findings,
        *inference.findings,
        *kthena.findings,
    ]
    clusters: dict[str, set[str]] = {}
    for file in ordered:
        clusters.setdefault(file.path, set()).add(file.cluster)
    return Declaration(
        variants=tuple(variants),
        workloads=(*workloads, *kthena.declared.workloads),
        alternatives=tuple(first_of_each(of_kind(pieces, Workload), {each.key for each in broken_workloads})),
        owners=(*of_kind(pieces, ReplicaOwner), *made_owners),
        classes=classes,
        costs=costs,
        saturation=in_force.saturation,
        zero=in_force.zero,
        opted_in_namespaces=frozenset((each.cluster, each.name) for each in namespaces),
        ignored_namespaces=tuple(of_kind(pieces, IgnoredNamespace)),
        llmaz=llmaz.declared,
        inference=inference.declared,
        kthena=kthena.declared,
        adapter_rules=tuple(of_kind(pieces, AdapterRule)),
        broken=tuple(dict.fromkeys((*known, *kthena.broken))),
        findings=tuple(sorted({each for each in found if each.severity is not Severity.NOTE})),
        notes=tuple(sorted({each for each in found if each.severity is Severity.NOTE})),
        shared_paths=frozenset(path for path, names in clusters.items() if len(names) > 1),
        files=len(clusters),
    )


def _is_met(pieces: Iterable[Piece], container: type[object]) -> bool:
    """Whether an object was read of the family whose package has this container."""
    return any(name.startswith(container.__module__) for name in {type(piece).__module__ for piece in pieces})


def _fold_llmaz(
    pieces: Sequence[Piece], broken: Sequence[BrokenResource]
) -> tuple[Folded[Llmaz], set[ResourceKey], tuple[ReplicaOwner, ...]]:
    """What llmaz declares, whatever it serves, and the autoscalers that it makes."""
    if not _is_met(pieces, Llmaz):
        return Folded(Llmaz(), (), ()), set(), ()
    from reconciler.resources.llmaz.servings import Serving, find_owners, fold_llmaz

    folded = fold_llmaz(pieces, broken)
    return folded, {each.key for each in of_kind(pieces, Serving)}, tuple(find_owners(folded.declared))


def _fold_kthena(pieces: Sequence[Piece], broken: Sequence[BrokenResource]) -> Folded[KthenaResources]:
    if not _is_met(pieces, KthenaResources):
        return Folded(KthenaResources(), (), ())
    from reconciler.resources.kthena.tracked_targets import fold_kthena

    return fold_kthena(pieces, broken)


def _by_cluster(files: Iterable[FileDeclaration], kind: type[Kind]) -> dict[str, list[Kind]]:
    pieces: dict[str, list[Kind]] = {}
    for file in files:
        for piece in file.pieces:
            if isinstance(piece, kind):
                pieces.setdefault(file.cluster, []).append(piece)
    return pieces


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
        first = islice((other for other in places if other is not here), MOST_NAMED)
        others = name_first([str(other) for other in first], len(places) - 1)
        message = f"differs from {others}: neither is used"
        yield Finding(place=here, severity=Severity.ERROR, message=message)
