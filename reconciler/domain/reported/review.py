"""Review: what somebody else's change of the fleet would do, as remarks on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, TotalCost
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.errors import ReconcilerError


class Objection(StrEnum):
    """What a remark amounts to, the gravest first; NONE only tells."""

    REFUSE = "refuse"
    """a rule would not let it happen, or it cannot be read any more"""
    SLO = "slo"
    """a target would be missed"""
    HOLD = "hold"
    """nobody can tell what it does, or a person must look"""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadView:
    """What a head declares: data, of which nothing is run, rendered or connected to.

    `paths` are all its files, `unread` those that cannot be read; `notes` say what of it is not looked at.
    """

    variants: Mapping[ResourceKey, Variant]
    settings: Settings
    findings: tuple[Finding, ...]
    broken: Mapping[ResourceKey, BrokenResource] = field(default_factory=dict)
    workloads: frozenset[ResourceKey] = frozenset()
    paths: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    untried: tuple[str, ...] = ()
    """What it changes that is never taken from a head, such as connections."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRemark:
    """A variant whose replicas or accelerator change.

    `before` None: it is new; `after` None: it is gone. `judged` is the change as a decision on the base, None where the
    base does not know the variant; `needed` are the replicas that a plan would give it there for its `demand`. `breaks`
    names the rules that would not let it happen. Of a new one `facts` say what is known of it.
    """

    variant: ResourceKey
    before: Allocation | None
    after: Allocation | None
    objection: Objection
    path: str = ""
    line: int = 0
    judged: Decision | None = None
    demand: float | None = None
    needed: int | None = None
    breaks: tuple[str, ...] = ()
    added_cost_per_hour: float | None = None
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRemark:
    """Anything else that changes and that decisions rest on: a price, a class, a profile, a bound, a rule, an owner."""

    subject: str
    words: str
    objection: Objection = Objection.NONE
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that a head does to what the base declares; `findings` are only in the head."""

    base: str
    head: str
    currency: str
    totals: TotalCost
    allocations: tuple[AllocationRemark, ...] = ()
    others: tuple[SettingRemark, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What could not be looked at."""
    failures: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why a Prometheus did not answer, or cannot be asked: what rests on it is held."""
    unreviewed: str = ""
    """Why the head was not judged at all; then nothing else is told."""

    @property
    def objections(self) -> frozenset[Objection]:
        """All that there are."""
        found = {each.objection for each in self.allocations} | {each.objection for each in self.others}
        return frozenset(found | ({Objection.HOLD} if self.unreviewed else set()))

    @property
    def is_broken(self) -> bool:
        """Whether the head brings what cannot be read."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What became of one open pull request: its review, else the `reason` for none; neither where nothing is new.

    `error` is what forge and we failed in; a head that cannot be reviewed is its author's matter.
    """

    number: int
    review: Review | None = None
    error: ReconcilerError | None = None
    reason: str = ""
