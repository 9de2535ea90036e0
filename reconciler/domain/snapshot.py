"""Snapshot: the typed, immutable input of decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.accelerators import Catalog
from reconciler.domain.declared.declarations import BrokenResource
from reconciler.domain.declared.saturation_settings import SaturationRules, ZeroRules
from reconciler.domain.declared.tracking import TrackedHistory, TrackedTarget
from reconciler.domain.findings import Finding
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Inventory
from reconciler.domain.measured.observed import Observed
from reconciler.domain.proposals import Proposal
from reconciler.domain.settings import Settings
from reconciler.domain.variants import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known at `now_s` (Unix seconds), each absence with its reason.

    `committed_s` is when `commit` was made, None where nobody recorded it.
    """

    now_s: float
    repository: str
    branch: str
    commit: str
    fingerprint: str
    settings: Settings
    variants: tuple[Variant, ...]
    broken: tuple[BrokenResource, ...] = ()
    observed: Observed = field(default_factory=Observed)
    saturation: Mapping[ModelKey, SaturationRules] = field(default_factory=dict)
    """What upstream's ConfigMaps say of a model's saturation, where they say anything."""
    zero: Mapping[ModelKey, ZeroRules] = field(default_factory=dict)
    """What upstream's ConfigMap says of scaling a model to zero, where it says anything."""
    tracked: tuple[TrackedTarget, ...] = ()
    """What policies with metric targets scale."""
    histories: Mapping[ResourceKey, TrackedHistory] = field(default_factory=dict)
    """What was seen of each tracked target, by its key."""
    committed_s: float | None = None
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    """How many devices there are of each type in each cluster, and who holds them."""
    proposals: tuple[Proposal, ...] = ()
    findings: tuple[Finding, ...] = ()
