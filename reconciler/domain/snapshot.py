"""Snapshot: the typed, immutable input of decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.accelerators import Catalog
from reconciler.domain.answers import NoAnswer
from reconciler.domain.declarations import BrokenResource
from reconciler.domain.findings import Finding
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.loads import Load, Observation
from reconciler.domain.proposals import Proposal
from reconciler.domain.settings import Settings
from reconciler.domain.variants import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known at `now_s` (Unix seconds), each absence with its reason."""

    now_s: float
    repository: str
    branch: str
    commit: str
    fingerprint: str
    settings: Settings
    variants: tuple[Variant, ...]
    broken: tuple[BrokenResource, ...] = ()
    loads: Mapping[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    proposals: tuple[Proposal, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[str, ...] = ()
    """What failed outside, in words, one per cluster: the next run may succeed."""
    warnings: tuple[str, ...] = ()
    """What Prometheus itself warned of, in its words."""
