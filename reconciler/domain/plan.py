"""Plan: a decision for every variant, grouped as pull requests, each number with the steps that led to it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.canaries import CanaryOrder
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Figure, Finding, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Performance
from reconciler.domain.priors import Trial
from reconciler.domain.proposals import ConditionFlip, MovedFile, Part, ProposedChange
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import ModelCoverage, Sensitivity, SharedUse, SolveStatus
from reconciler.domain.scalers import ScalerSetting, SettingChange, TuningEvidence, TuningScore
from reconciler.domain.snapshot import StatusShape
from reconciler.domain.units import utc_minute
from reconciler.domain.written import WrittenField

HOME = "inference-reconciler/reconciler"
"""Where the project is published: code, action and image."""
DOCUMENTATION = f"https://github.com/{HOME}/blob/main/.github/docs"
RULES = f"https://github.com/{HOME}/blob/main/policies/README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What a text may link, and what its reader can see; the default links no file and draws with characters.

    `files_at` is the address of the base commit's files, to which a path is added; `commit_at` that of the commit.
    `recording` is the name of the file that the run was recorded in.
    """

    files_at: str = ""
    commit_at: str = ""
    draws_mermaid: bool = False
    recording: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrometheus:
    """Where people open a cluster's Prometheus, and the PromQL of each quantity."""

    address: str
    queries: Mapping[str, str] = field(default_factory=dict)


RATE = "req/s"
"""The unit of demand and capacity where a queue sizes a model; saturation counts tokens or replicas."""


class Evidence(StrEnum):
    """Which metrics a variant is sized from; PENDING: none of its replicas run, and requests wait for one."""

    LOAD = "load"
    SATURATION = "saturation"
    QUEUE = "queue"
    PENDING = "pending"


class Outcome(StrEnum):
    """What a decision comes to."""

    CHANGE = "change"
    UNCHANGED = "unchanged"
    HELD = "held"


class VerdictKind(StrEnum):
    """What the guard rails say of a change."""

    ALLOW = "allow"
    CLAMP = "clamp"
    HOLD = "hold"
    REFUSE = "refuse"
    NEEDS_APPROVAL = "needs approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The strictest guard rail's answer with the rule that gave it (empty: no rule, the default).

    `needs_person`: a rule leaves the change to a person, even if a stricter one also applies. Where one does,
    `approval` is the rule that asks, and `approval_reason` why.
    """

    kind: VerdictKind
    rule: str = ""
    reason: str = ""
    needs_person: bool = False
    approval: str = ""
    approval_reason: str = ""

    @property
    def awaits_approval(self) -> bool:
        """Whether a change is proposed that a person has to approve."""
        return self.kind is VerdictKind.NEEDS_APPROVAL or (self.kind is VerdictKind.CLAMP and self.needs_person)

    @property
    def may_merge_itself(self) -> bool:
        """Whether no rule asks for a person to merge the change."""
        return self.kind in (VerdictKind.ALLOW, VerdictKind.CLAMP) and not self.needs_person


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One stage's effect on a value, in the words that explain and the pull request print."""

    stage: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SloProjection:
    """A target with what is expected before and after the change, same statistic, in seconds; None is unknown.

    `name` is itl, wait or ttft; `statistic` is `p95` or `mean`. `before_s` infinite: the load exceeds the capacity.
    """

    name: str
    statistic: str
    target_s: float
    before_s: float | None
    after_s: float | None

    @property
    def is_met_before(self) -> bool | None:
        """Whether the current allocation keeps the target; None when that is unknown."""
        return None if self.before_s is None else self.before_s <= self.target_s

    @property
    def is_met_after(self) -> bool | None:
        """Whether the desired allocation keeps the target; None when that is unknown."""
        return None if self.after_s is None else self.after_s <= self.target_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fullness:
    """How full replicas are before and after a change, and how full they may be: fractions; above 1 requests wait."""

    before: float | None
    after: float | None
    limit: float

    @property
    def is_overfull(self) -> bool:
        """Whether replicas are fuller than they may be before or after the change."""
        return any(value is not None and value > self.limit for value in (self.before, self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationChange:
    """What a plan does to one variant, with the verdict of the guard rails.

    `reverts` numbers the merged pull request whose change it takes back.
    """

    variant: ResourceKey
    current: Allocation
    desired: Allocation
    verdict: Verdict
    reverts: int | None = None

    @property
    def proposed(self) -> ProposedChange:
        """The change as a pull request carries it."""
        return ProposedChange(
            resource=str(self.variant),
            replicas_before=self.current.replicas,
            replicas_after=self.desired.replicas,
            accelerator_before=self.current.accelerator,
            accelerator_after=self.desired.accelerator,
            scaling_before=self.current.scaling if self.is_tuning else "",
            scaling_after=self.desired.scaling if self.is_tuning else "",
        )

    @property
    def is_tuning(self) -> bool:
        """Whether it changes the setting of an autoscaler."""
        return self.current.scaling != self.desired.scaling


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens to one variant, why, and what it is expected to change.

    `demand` is its share of its model's, `capacity_before` and `capacity_after` its replicas' together, in `unit`.
    Costs are per hour, None when a price is unknown. `hold` is why a held variant stays as it is. `written_at` are the
    places that take the number of replicas; with `bounds_of` that is the lower bound of an autoscaler. `moved_in` are
    the files that take another accelerator, and `status_omitted` why the change writes no status with it, which only
    edits can tell. `caution` is for who is about to merge.
    """

    variant: ResourceKey
    model: ModelKey
    group: str
    outcome: Outcome
    current: Allocation
    desired: Allocation
    verdict: Verdict
    steps: tuple[Step, ...]
    hold: Hold | None = None
    place: str = ""
    written_at: tuple[str, ...] = ()
    moved_in: tuple[MovedFile, ...] = ()
    bounds_of: str = ""
    load: Load | None = None
    engine: str = ""
    engine_reason: str = ""
    unit: str = RATE
    demand: float | None = None
    capacity_before: float | None = None
    capacity_after: float | None = None
    slos: tuple[SloProjection, ...] = ()
    fullness: Fullness | None = None
    cost_before_per_hour: float | None = None
    cost_after_per_hour: float | None = None
    expected: Performance | None = None
    observed: Performance | None = None
    max_batch_size: int | None = None
    status_shape: StatusShape | None = None
    metrics_available: bool = False
    evidence: Evidence | None = None
    is_applied: bool | None = None
    """Whether the cluster runs what is desired; None where no metric says it."""
    waiting: Hold | None = None
    """What must happen before all of its change is proposed; None for nothing."""
    caution: str = ""
    status_omitted: str = ""
    reverts: int | None = None
    """The merged pull request whose change it takes back."""
    labels: tuple[str, ...] = ()
    """The labels of its pull request that rules want, and `reviewers` the reviewers that they request."""
    reviewers: tuple[str, ...] = ()
    tuning: TuningEvidence | None = field(default=None, compare=False)
    """What speaks for another setting of its autoscaler."""
    canary: CanaryOrder | None = None
    """That it starts or ends an experiment, and what that is."""
    tried: tuple[str, ...] = ()
    """What it measured as an experiment, of one that has ended well, a sentence each."""
    scored: TuningScore | None = field(default=None, compare=False)
    """What its last merged setting came to, in the runs that look."""
    metric: str = field(default="", compare=False)
    """The name of the metric that its autoscaler scales by; empty without one."""

    @property
    def change(self) -> AllocationChange:
        """What it does to its variant, if anything."""
        return AllocationChange(
            variant=self.variant,
            current=self.current,
            desired=self.desired,
            verdict=self.verdict,
            reverts=self.reverts,
        )

    @property
    def is_accelerator_change(self) -> bool:
        """Whether the variant moves to another accelerator."""
        return self.current.accelerator != self.desired.accelerator

    @property
    def is_tuning(self) -> bool:
        """Whether its autoscaler gets another setting."""
        return self.outcome is Outcome.CHANGE and self.current.scaling != self.desired.scaling

    def written_in(self, field: WrittenField) -> int | None:
        """The number that it writes into a field of its variant's replicas or bounds; None where that stays."""
        return written_in(field, self.current, self.desired)

    @property
    def setting_changes(self) -> tuple[SettingChange, ...]:
        """The fields of its autoscaler that change."""
        before, after = ScalerSetting.parse(self.current.scaling), ScalerSetting.parse(self.desired.scaling)
        return () if before is None or after is None else before.changes(after, self.metric)

    @property
    def worst_slo(self) -> SloProjection | None:
        """The target that is or would be used up most, relative to its limit; None without targets."""

        def used(slo: SloProjection) -> float:
            return max(value for value in (slo.before_s, slo.after_s, 0.0) if value is not None) / slo.target_s

        return max(self.slos, key=used, default=None)


def written_in(field: WrittenField, current: Allocation, desired: Allocation) -> int | None:
    """The number that a change writes into a field of replicas or of an autoscaler's bounds; None where that stays."""
    replicas = None if desired.replicas == current.replicas else desired.replicas
    setting = None if desired.scaling == current.scaling else ScalerSetting.parse(desired.scaling)
    return field.wanted(replicas, None if setting is None else setting.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTerms:
    """How a pull request merges by itself.

    `rules` are those that let it, each with its place; none: the setting `pullRequests.autoMerge`. `per_hour` of ours
    are merged in an hour, of which `left` are left and `kept` are for repairs of an SLO alone. `waits` says what keeps
    it from it for now; empty: nothing. `is_stuck`: that is more than an earlier merge that has had no time to roll out
    yet.
    """

    rules: tuple[str, ...]
    per_hour: int
    left: int
    kept: int = 0
    waits: str = ""
    is_stuck: bool = False

    @property
    def limit(self) -> str:
        """How many are merged in an hour, in words."""
        kept = f", {self.kept} of these only for repairs" if self.kept else ""
        return f"at most {self.per_hour} of our pull requests are merged in an hour{kept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The decisions of one pull request, a part of its group's; `fingerprint` alone triggers a push or a body edit.

    What does not change stands with what changes of its model, else in the first part. `kept_proposal` numbers the
    open pull request whose values were kept because the new ones would save too little. `blocked` says why nothing is
    published of this part although it may have changes. `flips` are what part STATUS tells, which only edits can know.
    `merges` is None where a person merges it.
    """

    name: str
    head_branch: str
    decisions: tuple[Decision, ...]
    part: Part = Part.APPROVAL
    kept_proposal: int | None = None
    blocked: Hold | None = None
    flips: tuple[ConditionFlip, ...] = ()
    merges: MergeTerms | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose changes it holds: one, unless limits had several collected."""
        return tuple(sorted({decision.group for decision in self.decisions})) or (self.name,)

    @property
    def put_back(self) -> str:
        """Why it is not opened or pushed now; empty where it may be."""
        return self.blocked.words if self.blocked is not None and self.blocked.kind is HoldKind.PUT_BACK else ""

    @property
    def changes(self) -> tuple[Decision, ...]:
        """The decisions that change something."""
        return tuple(decision for decision in self.decisions if decision.outcome is Outcome.CHANGE)

    @property
    def fingerprint(self) -> str:
        """sha256 over the sorted (resource, field, value, verdict) of the changes, or flips; empty without any."""
        changed = decision_fingerprint(decision.change for decision in self.changes)
        return changed or flips_fingerprint(self.flips)


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalCost:
    """Running cost per hour over all variants of the plan; None while a price is missing."""

    cost_before_per_hour: float | None
    cost_after_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLoad:
    """Quantiles (req/s by level, ascending) of the largest load of a model between two times (Unix seconds)."""

    since_s: float
    until_s: float
    per_s: Mapping[float, float]

    @property
    def told_window(self) -> str:
        """`between 14:11 and 14:33 UTC`."""
        first, last = utc_minute(self.since_s), utc_minute(self.until_s)
        return f"between {first[-9:-4]} and {last[-9:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of one run, in the order it is printed; a group appears once for each of its parts."""

    now_s: float
    repository: str
    branch: str
    commit: str
    recording: str
    currency: str
    groups: tuple[GroupPlan, ...]
    totals: TotalCost
    solver: str
    solve_status: SolveStatus
    gap: float
    objective: str
    shortage_gap: float | None = None
    """As in `Solution`; then `gap` compares with plans that serve as much."""
    assumptions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
    unmanaged: tuple[ResourceKey, ...] = ()
    """The workloads that serve models and that nothing wants managed."""
    is_part: bool = False
    """Whether other shards decide the rest of the fleet."""
    value: float = 0.0
    """What the solver's whole plan is worth under the objective, which other pull requests may yet lead to."""
    shared: tuple[SharedUse, ...] = ()
    greedy_value: float | None = None
    sensitivity: tuple[Sensitivity, ...] = ()
    coverages: tuple[ModelCoverage, ...] = ()
    """By model what it needs and what the solution gives it, before passes hold anything back."""
    histories: Mapping[ModelKey, tuple[tuple[float, float], ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What was measured of a model's load: how many seconds ago, and req/s; the oldest first."""
    expected: Mapping[ModelKey, ExpectedLoad] = field(default_factory=dict, compare=False, repr=False)
    """What is forecast of the models whose demand that is."""
    trials: tuple[Trial, ...] = ()
    """Untried accelerators that are worth a trial: what is proposed never depends on them."""
    asked: Mapping[str, AskedPrometheus] = field(default_factory=dict, compare=False, repr=False)
    """The queries of each cluster whose Prometheus people can open."""
    figures: Mapping[ResourceKey, tuple[Figure, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Every number behind the decision of a variant, inputs first; of what could not be read there is none."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision of every group."""
        return tuple(decision for group in self.groups for decision in group.decisions)

    def with_outcome(self, outcome: Outcome) -> tuple[Decision, ...]:
        """The decisions that came to `outcome`."""
        return tuple(decision for decision in self.decisions if decision.outcome is outcome)

    @property
    def tally(self) -> Mapping[str, int]:
        """How many variants change, are held, stay because something must happen first, and stay: each in one."""
        patient = sum(each.waiting is not None for each in self.with_outcome(Outcome.UNCHANGED))
        counts = {str(outcome): len(self.with_outcome(outcome)) for outcome in Outcome}
        return {**counts, str(Outcome.UNCHANGED): counts[Outcome.UNCHANGED] - patient, "waiting": patient}

    @property
    def proposes(self) -> bool:
        """Whether there is anything to open a pull request for."""
        return any(group.changes or group.flips for group in self.groups)

    @property
    def is_all_held(self) -> bool:
        """Whether there are variants, and every one of them is held."""
        decisions = self.decisions
        return bool(decisions) and all(each.outcome is Outcome.HELD for each in decisions)


def decision_fingerprint(changes: Iterable[AllocationChange]) -> str:
    """sha256 over the sorted (resource, field, value, verdict): no observation in it; empty for no change."""
    return _digest(row for change in changes for row in _fingerprint_rows(change))


def flips_fingerprint(flips: Iterable[ConditionFlip]) -> str:
    """The same over conditions that flipped: when and why is not in it."""
    return _digest((str(flip.variant), f"conditions.{flip.type}", flip.after, "") for flip in flips)


def _digest(rows: Iterable[tuple[str, str, str, str]]) -> str:
    text = "\n".join("\0".join(row) for row in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def _fingerprint_rows(change: AllocationChange) -> Iterable[tuple[str, str, str, str]]:
    verdict = f"{change.verdict.kind} {change.verdict.rule}".strip()
    yield str(change.variant), "replicas", str(change.desired.replicas), verdict
    if change.current.accelerator != change.desired.accelerator:
        yield str(change.variant), "accelerator", change.desired.accelerator, verdict
    if change.is_tuning:
        yield str(change.variant), "scaling", change.desired.scaling, verdict
    if change.reverts is not None:  # a proposal that was made for another reason must record this one
        yield str(change.variant), "reverts", str(change.reverts), verdict
