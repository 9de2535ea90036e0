"""What the repository declares, resource by resource, before anything is joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.declared.inference import Inference
from reconciler.domain.declared.kthena import KthenaResources
from reconciler.domain.declared.llmaz import Llmaz
from reconciler.domain.declared.workloads import ReplicaOwner, Workload
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding
from reconciler.resources.llmd.entries import SaturationEntry, ZeroEntry
from reconciler.resources.variants import IgnoredNamespace, ListedClass, ListedCost, VariantResource


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
    """Cluster and name of each Namespace that upstream leaves alone; it means nothing to us."""
    ignored_namespaces: tuple[IgnoredNamespace, ...] = ()
    llmaz: Llmaz = field(default_factory=Llmaz)
    inference: Inference = field(default_factory=Inference)
    kthena: KthenaResources = field(default_factory=KthenaResources)
    broken: tuple[BrokenResource, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    """What is worth telling whoever looks at the files, and no matter for a plan."""
    shared_paths: frozenset[str] = frozenset()
    """Files that two clusters reach: read, never edited."""
    files: int = 0
