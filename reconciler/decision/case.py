"""Everything that a single decision is told from."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.decision.capacities import Capacities
from reconciler.decision.outlook import Outlook
from reconciler.decision.problems import Posed
from reconciler.decision.proposals import Settled
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.solutions import Shortfall, Solution


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The snapshot, what was asked of the optimizer and answered, and what is expected before and after."""

    snapshot: Snapshot
    capacities: Capacities
    posed: Posed
    solution: Solution
    settled: Settled
    before: Outlook
    after: Outlook
    shortfalls: Mapping[ModelKey, Shortfall]
    held: Mapping[ResourceKey, str]
    """Why a variant that was free stays as it is: nothing could be chosen for it, or rules contradict each other."""
