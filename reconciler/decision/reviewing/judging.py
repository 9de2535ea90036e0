"""Somebody else's change beside what a plan would do, decided on the base with the same answers of Prometheus.

The head's numbers are put in the place of a plan's and judged by the base's rules: one problem is posed and solved for
all heads, so what is equal on both sides is worked out once.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from reconciler.decision.decide import Solved, solve
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.reviewing.absences import absence_of, is_gone, tells_replicas, unreadable_target
from reconciler.decision.reviewing.newcomers import judge_newcomer
from reconciler.decision.reviewing.setting_remarks import connections_changed, remark_on_settings, remark_on_variants
from reconciler.decision.staging.staged_plan import StagedPlan
from reconciler.decision.staging.verdicts import give_verdicts
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Plan, TotalCost, VerdictKind
from reconciler.domain.reported.review import AllocationRemark, HeadView, Objection, Review
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.policy.judging import NO_LIMITS

STOPPING = (VerdictKind.REFUSE, VerdictKind.HOLD, VerdictKind.CLAMP)
HELD = -1
"""Stands for the replicas of a variant that a plan holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedBase:
    """A base, decided once for all heads that are judged beside it."""

    snapshot: Snapshot
    solved: Solved
    recommended: Mapping[ResourceKey, Decision]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "ReviewedBase":
        """Decide on the base as a plan does."""
        solved = solve(snapshot, {})
        decisions = solved.plan_of(solved.staged).decisions
        return cls(snapshot=snapshot, solved=solved, recommended={each.variant: each for each in decisions})

    def needed(self, variants: Iterable[str]) -> dict[str, int]:
        """The replicas that a plan would give variants of these names; HELD for one that it would not decide."""
        named = {str(key): decision for key, decision in self.recommended.items()}
        known = [(name, named[name]) for name in variants if name in named]
        return {name: HELD if each.outcome is Outcome.HELD else each.desired.replicas for name, each in known}


def review(base: ReviewedBase, head: HeadView, *, head_commit: str) -> Review:
    """What the head does to the fleet that `base` declares."""
    snapshot, solved = base.snapshot, base.solved
    known = {variant.key: variant for variant in snapshot.variants}
    gone = {key for key, variant in known.items() if is_gone(variant, head)}
    judged = judge_allocations(solved, dict(_wanted(known, gone, head)))
    added = [head.variants[key] for key in sorted(head.variants.keys() - known.keys())]
    newcomers = [judge_newcomer(each, tuple(known.values())) for each in added]
    absences = (absence_of(known[key], head) for key in sorted(known.keys() - head.variants.keys()))
    return Review(
        base=snapshot.commit,
        head=head_commit,
        currency=snapshot.settings.currency,
        totals=_with_added(judged.totals, newcomers),
        allocations=(
            *_changed(judged, base, head, gone),
            *newcomers,
        ),
        others=(
            *filter(None, absences),
            *filter(None, (unreadable_target(known[key], head) for key in sorted(known))),
            *remark_on_variants({key: known[key] for key in known.keys() - gone}, head),
            *remark_on_settings(snapshot.settings, head.settings),
            *connections_changed(head.untried),
        ),
        failures=snapshot.observed.failures,
        refusals=snapshot.observed.refusals,
        findings=tuple(_only_in(head.findings, snapshot.findings)),
        notes=head.notes,
    )


def unreviewed(base: ReviewedBase, head_commit: str, reason: str) -> Review:
    """What is said of a head that cannot be judged."""
    currency = base.snapshot.settings.currency
    unknown = TotalCost(cost_before_per_hour=None, cost_after_per_hour=None)
    return Review(base=base.snapshot.commit, head=head_commit, currency=currency, totals=unknown, unreviewed=reason)


def judge_allocations(solved: Solved, wanted: Allocations) -> Plan:
    """The plan in which variants get what somebody else wants: no pass changes it, rules have their say."""
    aimed = StagedPlan.aimed_at(solved.situation, solved.solution)
    allocations = {key: wanted.get(key, now) for key, now in solved.situation.current.items()}
    staged = StagedPlan(allocations=allocations, holds=aimed.holds)
    return solved.plan_of(give_verdicts(solved.situation, staged))


def _wanted(
    known: Mapping[ResourceKey, Variant], gone: Set[ResourceKey], head: HeadView
) -> Iterator[tuple[ResourceKey, Allocation]]:
    """What the head gives each variant of the base: nothing to one that is gone, the same where it does not tell."""
    for key, variant in known.items():
        after = head.variants.get(key)
        if key in gone:
            yield key, replace(variant.current, replicas=0)
        else:
            yield key, after.current if after is not None and tells_replicas(after) else variant.current


def _changed(judged: Plan, base: ReviewedBase, head: HeadView, gone: Set[ResourceKey]) -> Iterator[AllocationRemark]:
    known = {variant.key: variant for variant in base.snapshot.variants}
    for decision in judged.decisions:
        key = decision.variant
        if key not in known or (decision.desired == known[key].current and key not in gone):
            continue
        after = None if key in gone else head.variants[key]
        place = _place_of(after or known[key])
        recommended = base.recommended[key]
        breaks, needed = _broken_rules(base.solved, decision), _needed(recommended, decision)
        yield AllocationRemark(
            variant=key,
            before=known[key].current,
            after=None if after is None else after.current,
            objection=Objection.REFUSE if breaks else _objection(decision, needed),
            path=place.path,
            line=place.line,
            judged=decision,
            demand=recommended.demand,
            needed=needed,
            breaks=breaks,
            added_cost_per_hour=_added_by_move(decision, after, base, head) if is_unknown(decision) else None,
            facts=(f"nobody knows how fast {decision.desired.accelerator} is for it",) if is_unknown(decision) else (),
        )


def _added_by_move(decision: Decision, after: Variant | None, base: ReviewedBase, head: HeadView) -> float | None:
    """What a move to an accelerator without a profile adds, at a price that the base knows too; None otherwise."""
    name, before = decision.desired.accelerator, decision.cost_before_per_hour
    prices = [
        next((each.cost_per_hour for each in settings.accelerators if each.name == name), None)
        for settings in (base.snapshot.settings, head.settings)
    ]
    if after is None or before is None or after.current_cost_per_hour is None or prices[0] != prices[1]:
        return None
    return after.current_cost_per_hour * after.current.replicas - before


def is_unknown(decision: Decision) -> bool:
    """Whether it is moved to what the base has no measure for."""
    is_serving = decision.desired.replicas > 0 and decision.hold is None
    return is_serving and decision.is_accelerator_change and decision.capacity_after is None


def _place_of(variant: Variant) -> Place:
    """Where its replicas are written, else where it is declared."""
    workload = variant.workload
    return (workload.replicas_place if workload is not None else None) or variant.place


def _with_added(totals: TotalCost, added: Iterable[AllocationRemark]) -> TotalCost:
    """The totals with what new variants cost; None as soon as one price is missing."""
    after = totals.cost_after_per_hour
    for remark in added:
        cost = remark.added_cost_per_hour
        after = None if after is None or cost is None else after + cost
    return replace(totals, cost_after_per_hour=after)


def _broken_rules(solved: Solved, decision: Decision) -> tuple[str, ...]:
    """The rules that would not let a plan make the change: those that judge changes, and those that bound them."""
    guard, desired = solved.situation.formulated.guard, decision.desired
    is_move = desired.replicas > 0 and decision.is_accelerator_change
    said = [guard.limits.get(decision.variant, NO_LIMITS).on(is_move=is_move).stopped(desired.replicas)]
    if is_move and decision.variant in guard.subjects:
        said.append(guard.rules.refuse(guard.subjects[decision.variant], desired.accelerator))
    names = [each.rule.name for each in said if each is not None]
    if decision.verdict.rule and decision.verdict.kind in STOPPING:
        names.append(decision.verdict.rule)
    return tuple(dict.fromkeys(names))


def _objection(decision: Decision, needed: int | None) -> Objection:
    if decision.outcome is Outcome.HELD or is_unknown(decision):
        return Objection.HOLD
    is_missed = any(slo.is_met_after is False for slo in decision.slos)
    is_overfull = decision.fullness is not None and decision.fullness.is_overfull
    serves_nobody = decision.desired.replicas == 0 and bool(needed)
    return Objection.SLO if is_missed or is_overfull or serves_nobody else Objection.NONE


def _needed(recommended: Decision, judged: Decision) -> int | None:
    """The replicas that a plan would give; None where it would not decide, or for another accelerator."""
    is_comparable = recommended.desired.accelerator == judged.desired.accelerator
    return recommended.desired.replicas if is_comparable and recommended.outcome is not Outcome.HELD else None


def _only_in(head: Iterable[Finding], base: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong in the head alone; a line that moved is the same finding."""
    known = {(each.place.path, each.place.field, each.message) for each in base}
    for finding in head:
        is_known = (finding.place.path, finding.place.field, finding.message) in known
        if not is_known and finding.severity is not Severity.NOTE:
            yield finding
