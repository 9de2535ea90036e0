"""Somebody else's change beside what a plan would do, decided on the base with the same answers of Prometheus.

The head's numbers are put in the place of a plan's and judged by the base's rules: one problem is posed and solved for
both, so what is equal on both sides is worked out once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.decision.decide import Solved, solve
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.staged_plan import StagedPlan
from reconciler.decision.staging.verdicts import give_verdicts
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Plan, VerdictKind
from reconciler.domain.reported.review import AllocationRemark, HeadView, Objection, Review, SettingRemark
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import SETTING_DEFINITIONS
from reconciler.policy.judging import NO_LIMITS

STOPPING = (VerdictKind.REFUSE, VerdictKind.HOLD, VerdictKind.CLAMP)


def review(base: Snapshot, head: HeadView, *, head_commit: str) -> Review:
    """What the head does to the fleet that `base` declares."""
    solved = solve(base, {})
    known = {variant.key: variant for variant in base.variants}
    recommended = solved.plan_of(solved.staged)
    judged = judge_allocations(solved, _wanted(known, head))
    wanted = {decision.variant: decision for decision in recommended.decisions}
    return Review(
        base=base.commit,
        head=head_commit,
        currency=base.settings.currency,
        totals=judged.totals,
        allocations=(*_changed(judged, wanted, solved, head), *_new(known, head)),
        others=(*_of_variants(known, head), *_of_settings(base.settings, head.settings)),
        failures=base.observed.failures,
        refusals=base.observed.refusals,
        findings=tuple(_only_in(head.findings, base.findings)),
    )


def judge_allocations(solved: Solved, wanted: Allocations) -> Plan:
    """The plan in which variants get what somebody else wants: no pass changes it, rules have their say."""
    aimed = StagedPlan.aimed_at(solved.situation, solved.solution)
    allocations = {key: wanted.get(key, now) for key, now in solved.situation.current.items()}
    staged = StagedPlan(allocations=allocations, holds=aimed.holds)
    return solved.plan_of(give_verdicts(solved.situation, staged))


def _wanted(known: Mapping[ResourceKey, Variant], head: HeadView) -> dict[ResourceKey, Allocation]:
    """What the head gives each variant of the base; one that is gone serves nothing."""
    return {
        key: head.variants[key].current if key in head.variants else replace(variant.current, replicas=0)
        for key, variant in known.items()
    }


def _changed(
    judged: Plan, wanted: Mapping[ResourceKey, Decision], solved: Solved, head: HeadView
) -> Iterator[AllocationRemark]:
    known = {variant.key: variant for variant in solved.situation.snapshot.variants}
    for decision in judged.decisions:
        key = decision.variant
        if key not in known or (decision.desired == known[key].current and key in head.variants):
            continue
        after = head.variants.get(key)
        place = (after or known[key]).place
        breaks, needed = _broken_rules(solved, decision), _needed(wanted[key], decision)
        yield AllocationRemark(
            variant=key,
            before=known[key].current,
            after=None if after is None else after.current,
            objection=Objection.REFUSE if breaks else _objection(decision, needed),
            path=place.path,
            line=place.line,
            judged=decision,
            demand=wanted[key].demand,
            needed=needed,
            breaks=breaks,
        )


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
    if decision.outcome is Outcome.HELD:
        return Objection.HOLD
    is_missed = any(slo.is_met_after is False for slo in decision.slos)
    is_overfull = decision.fullness is not None and decision.fullness.is_overfull
    serves_nobody = decision.desired.replicas == 0 and bool(needed)
    return Objection.SLO if is_missed or is_overfull or serves_nobody else Objection.NONE


def _needed(recommended: Decision, judged: Decision) -> int | None:
    """The replicas that a plan would give; None where it would not decide, or for another accelerator."""
    is_comparable = recommended.desired.accelerator == judged.desired.accelerator
    return recommended.desired.replicas if is_comparable and recommended.outcome is not Outcome.HELD else None


def _new(known: Mapping[ResourceKey, Variant], head: HeadView) -> Iterator[AllocationRemark]:
    for key in sorted(head.variants.keys() - known.keys()):
        variant = head.variants[key]
        yield AllocationRemark(
            variant=key,
            before=None,
            after=variant.current,
            objection=Objection.HOLD if variant.hold is not None else Objection.NONE,
            path=variant.place.path,
            line=variant.place.line,
        )


def _of_variants(known: Mapping[ResourceKey, Variant], head: HeadView) -> Iterator[SettingRemark]:
    """Holds that the head brings: another owner, a class that is not there, a number that can no longer be written."""
    for key in sorted(known.keys() & head.variants.keys()):
        before, after = known[key], head.variants[key]
        kinds = {hold.kind for hold in before.holds}
        for hold in after.holds:
            if hold.kind not in kinds:
                place = hold.place or after.place
                words = f"is held from then on: {hold.words}"
                yield SettingRemark(
                    subject=key.label, words=words, objection=Objection.HOLD, path=place.path, line=place.line
                )
        old, new = before.service_class, after.service_class
        if old is not None and new is not None and old.value != new.value:
            is_other = old.value.name != new.value.name
            named = f"is {new.value.name} instead of {old.value.name}" if is_other else f"{new.value.name} changes"
            words = f"its service class {named}"
            yield SettingRemark(subject=key.label, words=words, path=after.place.path, line=after.place.line)
        for setting in SETTING_DEFINITIONS:
            was, now = before.settings[setting].value, after.settings[setting].value
            if was != now:
                words = f"{setting.name} is {now} instead of {was}"
                yield SettingRemark(subject=key.label, words=words, path=after.place.path, line=after.place.line)


def _of_settings(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    prices = {each.name: each.cost_per_hour for each in base.accelerators}
    for each in head.accelerators:
        if prices.get(each.name, each.cost_per_hour) != each.cost_per_hour:
            place = each.place
            words = f"costs {each.cost_per_hour} {head.currency}/h instead of {prices[each.name]}"
            yield SettingRemark(
                subject=each.name, words=words, path=place.path if place else "", line=place.line if place else 0
            )
    profiles = {(model.model_id, each.accelerator): each for model in base.models for each in model.profiles}
    for model in head.models:
        for profile in model.profiles:
            old = profiles.get((model.model_id, profile.accelerator), profile)
            if replace(old, place=profile.place, learning=profile.learning) != profile:
                place = profile.place
                yield SettingRemark(
                    subject=model.model_id,
                    words=f"its profile on {profile.accelerator} changes",
                    path=place.path if place else "",
                    line=place.line if place else 0,
                )
    kept = {rule.name: rule for rule in head.rules}
    for rule in base.rules:
        now = kept.get(rule.name)
        if now is None or (now.asks, now.scope) != (rule.asks, rule.scope):
            words = "is gone" if now is None else "asks for something else"
            place = rule.place if now is None or not now.place.path else now.place
            yield SettingRemark(
                subject=f"rule {rule.name}",
                words=f"{words}; this change is judged by the base's rules all the same",
                objection=Objection.HOLD,
                path=place.path,
                line=place.line,
            )


def _only_in(head: Iterable[Finding], base: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong in the head alone; a line that moved is the same finding."""
    known = {(each.place.path, each.place.field, each.message) for each in base}
    for finding in head:
        is_known = (finding.place.path, finding.place.field, finding.message) in known
        if not is_known and finding.severity is not Severity.NOTE:
            yield finding
