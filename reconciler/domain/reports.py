"""What people read besides a plan: a check-up, a review, gauges, links."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Plan, TotalCost
from reconciler.domain.proposals import MergedOutcome
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.errors import ReconcilerError


class Level(StrEnum):
    """How something is: FAIL keeps us from working, WARN makes us work worse."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


class Cause(StrEnum):
    """Whose it is to mend a failure."""

    INPUT = "input"
    """an author of the repository: a resource, an annotation"""
    OUTSIDE = "outside"
    """perhaps nothing: Prometheus, git or the forge failed, and the next run may succeed"""
    CONFIGURATION = "configuration"
    """the operator: command line, configuration, credentials, rights"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    `subject` is `git`, `forge`, `settings` or a cluster, `rule` names in kebab case what was looked at, `words` say
    what was found, `cure` the exact thing to do (empty: nothing), `place` where to do it, and `manifest` what to add to
    a cluster for it.
    """

    level: Level
    subject: str
    rule: str
    words: str
    cure: str = ""
    place: Place | None = None
    cause: Cause = Cause.INPUT
    manifest: str = ""


def well(subject: str, rule: str, words: str) -> Check:
    """What is as it should be."""
    return Check(level=Level.OK, subject=subject, rule=rule, words=words)


def warning(subject: str, rule: str, words: str, cure: str, place: Place | None = None) -> Check:
    """What works worse than it could."""
    return Check(level=Level.WARN, subject=subject, rule=rule, words=words, cure=cure, place=place)


Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGauge:
    """One metric with its series; `words` say what it is."""

    name: str
    words: str
    series: tuple[tuple[Labels, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPullRequest:
    """A pull request of ours that is open when a run ends; `opened_s` None where the forge does not say."""

    group: str
    number: int
    opened_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRatio:
    """What came by what was forecast of a variant when its last change was merged; `quantity` says of what.

    `capacity` is by what its replicas are expected to carry now, `demand` by arrivals that are measured; `itl`, `ttft`
    and `wait` are measured means.
    """

    decision: Decision
    quantity: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What merges save in an hour now, and have saved so far; below 0 they cost more."""

    per_hour: float
    so_far: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What there is to tell of a run that ended at `ended_s` (Unix seconds) with `exit_code`.

    A run that failed has no `plan`. `live` are replicas that scale targets ask for in their cluster, `bounded` variants
    whose numbers in Git are bounds of an autoscaler. `merges` of the last hour; `acts` and `traffic` are seconds by act
    and (requests, failures) by host. `judged` are merges whose promise can be judged now; `savings` None: no merges.
    """

    ended_s: float
    exit_code: int
    run_interval_s: float
    version: str
    plan: Plan | None = None
    live: Mapping[ResourceKey, float] = field(default_factory=dict)
    bounded: frozenset[ResourceKey] = frozenset()
    is_paused: bool = False
    pull_requests: tuple[OpenPullRequest, ...] = ()
    merges: int = 0
    judged: tuple[MergedOutcome, ...] = ()
    forecasts: tuple[ForecastRatio, ...] = ()
    savings: Savings | None = None
    acts: Mapping[str, float] = field(default_factory=dict)
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """Whether all of it was done: what an author must mend fails a command, and no run."""
        return self.plan is not None and self.exit_code in (0, 2, 3)


class Objection(StrEnum):
    """The severity of a remark, the gravest first; NONE only informs."""

    REFUSE = "refuse"
    """a rule would not let it happen, or it cannot be read any more"""
    SLO = "slo"
    """a target would be missed"""
    HOLD = "hold"
    """what it does is not known, or a person must look"""
    APPROVAL = "approval"
    """a rule asks for a person's approval"""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOn:
    """What fails a review: objections, and that all costs rise by more than `cost_fraction` (None: by any amount)."""

    objections: frozenset[Objection]
    cost_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChange:
    """What a head changes of a release of a chart; `words` hold no secret, `targets` are what the release makes."""

    cluster: str
    namespace: str
    release: str
    targets: tuple[ResourceKey, ...]
    words: str
    place: Place
    selects: bool = False
    """Whether it says which pods are selected."""
    is_rendered: bool = False
    """Whether Kustomize renders the chart, so that it is not known what it makes."""


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
    snapshot: Snapshot | None = None
    """What a plan of it is decided from, with what runs by the base; None where that is the base's."""
    releases: tuple[ReleaseChange, ...] = ()
    changed_at: Mapping[ResourceKey, Place] = field(default_factory=dict)
    """Where it changes the scale target of a variant."""
    untried: tuple[str, ...] = ()
    """What it changes that is never taken from a head, such as connections."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRemark:
    """A variant whose replicas, accelerator or cost change, or what a plan gives it.

    `before` None: it is new; `after` None: it is gone; `renamed` is what it is called from then on. `judged` is the
    change as a decision, None where the base does not know the variant; `needed` are the replicas that a plan of the
    head would give it for its `demand`, `needed_before` one of the base where that is another number. `breaks` names
    the rules that would not let it happen, `approvals` those that ask for a person. `added_cost_per_hour` None is not
    known. `facts` are what else is known of it, `scaled_by` the autoscaler with its bounds that it gets.
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
    needed_before: int | None = None
    renamed: ResourceKey | None = None
    breaks: tuple[str, ...] = ()
    approvals: tuple[str, ...] = ()
    added_cost_per_hour: float | None = None
    facts: tuple[str, ...] = ()
    scaled_by: str = ""
    carried: float | None = None
    carried_before: float | None = None
    """How much of its demand its replicas carry inside its targets, as fractions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRemark:
    """Anything else that changes and that decisions rest on: a price, a class, a profile, a bound, a rule, an owner."""

    subject: str
    words: str
    cluster: str = ""
    """Of a variant its cluster; empty of anything else."""
    objection: Objection = Objection.NONE
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that a head does to what the base declares; `findings` are only in the head.

    `totals` are of what has a price; `unpriced` counts changes without. `clusters` is how many the base configures.
    """

    base: str
    head: str
    currency: str
    totals: TotalCost
    unpriced: int = 0
    clusters: int = 1
    allocations: tuple[AllocationRemark, ...] = ()
    others: tuple[SettingRemark, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What could not be looked at."""
    failures: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why a Prometheus did not answer, or cannot be asked: what rests on it is held."""
    unreviewed: str = ""
    """Why the head was not judged; then all else is empty."""

    @property
    def objections(self) -> frozenset[Objection]:
        """All that there are."""
        found = {each.objection for each in self.allocations} | {each.objection for each in self.others}
        return frozenset(found | ({Objection.HOLD} if self.unreviewed else set()))

    def fails(self, asked: FailOn) -> bool:
        """Whether it is what a review was asked to fail for, or cannot be read; a change of unknown cost may be."""
        before, after = self.totals.cost_before_per_hour, self.totals.cost_after_per_hour
        is_dearer = asked.cost_fraction is not None and (
            bool(self.unpriced)
            or before is None
            or after is None
            or after - before > asked.cost_fraction * before + 1e-9
        )
        return bool(asked.objections & self.objections) or is_dearer or self.is_broken

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
