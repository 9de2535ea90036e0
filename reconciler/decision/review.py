"""Somebody else's change compared with a plan, decided on the base with the same answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from reconciler.decision.decide import Solved, solve
from reconciler.decision.staged_plan import StagedPlan
from reconciler.decision.variant_states import Allocations
from reconciler.decision.verdicts import give_verdicts
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Plan, TotalCost, VerdictKind
from reconciler.domain.profiles import PerformanceProfile, SloTarget
from reconciler.domain.reports import AllocationRemark, HeadView, Objection, Review, SettingRemark
from reconciler.domain.rules import AutoMergeRule
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import SETTING_DEFINITIONS
from reconciler.domain.workloads import Workload
from reconciler.policy.judging import NO_LIMITS

KEPT = "its replicas stay as they are, and nobody sizes them"
UNREADABLE = "cannot be read any more"


def is_gone(variant: Variant, head: HeadView) -> bool:
    """Whether merging the head takes away what serves a variant of the base."""
    after = head.variants.get(variant.key)
    if after is None:
        return absence_of(variant, head) is None
    is_missing = after.workload is None and after.is_held_by(HoldKind.SCALE_TARGET_MISSING)
    return is_missing and variant.workload is not None and _unreadable_at([variant.workload.place.path], head) is None


def tells_replicas(variant: Variant) -> bool:
    """Whether its replicas can be read: not those of a target that cannot be, or that somebody else fills in."""
    return variant.workload is not None and variant.workload.replicas is not None


def absence_of(variant: Variant, head: HeadView) -> SettingRemark | None:
    """What is said of a variant that the head does not declare; None where it is gone."""
    place, workload = variant.place, variant.workload
    broken = head.broken.get(variant.key)
    if broken is not None:
        return _remark(variant, f"{UNREADABLE}: {broken.reason}", Objection.REFUSE, broken.place)
    paths = [place.path, *([workload.place.path] if workload is not None else [])]
    if (unreadable := _unreadable_at(paths, head)) is not None:
        return _remark(variant, UNREADABLE, Objection.REFUSE, unreadable)
    cluster = next((each for each in head.settings.clusters if each.name == variant.key.cluster), None)
    if place.path in head.paths and (cluster is None or not cluster.holds(place.path)):
        words = f"is outside of its cluster's paths from then on: {KEPT}"
        return _remark(variant, words, Objection.HOLD, (cluster.place if cluster is not None else None) or place)
    if workload is not None and (heir := _claimant_of(workload, head)) is not None:
        return _remark(variant, f"is declared as {heir.key.label} from then on", Objection.NONE, heir.place)
    if workload is not None and workload.key in head.workloads:
        return _remark(variant, f"is not declared any more: {KEPT}", Objection.HOLD, workload.place)
    return None


def unreadable_target(variant: Variant, head: HeadView) -> SettingRemark | None:
    """That the head has the scale target of a variant in a file that nobody can read; None where that is not so."""
    after = head.variants.get(variant.key)
    if after is None or after.workload is not None or variant.workload is None:
        return None
    place = _unreadable_at([variant.workload.place.path], head)
    return None if place is None else _remark(variant, f"its scale target {UNREADABLE}", Objection.REFUSE, place)


def _claimant_of(workload: Workload, head: HeadView) -> Variant | None:
    """Who declares a scale target in the head."""
    found = (each for each in head.variants.values() if each.workload is not None and each.workload.key == workload.key)
    return next(found, None)


def _unreadable_at(paths: Iterable[str], head: HeadView) -> Place | None:
    """Where one of some files is that the head has, and that nobody can read."""
    for path in paths:
        if path in head.unread:
            return Place(path=path)
        for finding in head.findings:
            if finding.place.path == path and finding.severity is Severity.ERROR:
                return finding.place
    return None


def _remark(variant: Variant, words: str, objection: Objection, place: Place) -> SettingRemark:
    return SettingRemark(subject=variant.key.label, words=words, objection=objection, path=place.path, line=place.line)


def judge_newcomer(variant: Variant, known: Sequence[Variant]) -> AllocationRemark:
    """What is known of a new variant: its price, whose load it shares, and what its profile can keep."""
    profile = next((each.profile for each in variant.options if each.accelerator == variant.current.accelerator), None)
    target = variant.service_class.value.itl if variant.service_class is not None else None
    is_missed = profile is not None and target is not None and itl_s(profile, 1) > target.limit_s
    objection = Objection.SLO if is_missed else Objection.NONE
    price, target_key = variant.current_cost_per_hour, variant.workload.key if variant.workload is not None else None
    is_running = any(each.workload is not None and each.workload.key == target_key for each in known)
    cost = 0.0 if is_running else None if price is None else price * variant.current.replicas
    return AllocationRemark(
        variant=variant.key,
        before=None,
        after=variant.current,
        objection=Objection.HOLD if variant.hold is not None else objection,
        path=variant.place.path,
        line=variant.place.line,
        added_cost_per_hour=cost,
        facts=tuple(_facts(variant, known, profile, target)),
    )


def itl_s(profile: PerformanceProfile, batch: int) -> float:
    """The mean time between tokens of so many requests at once, prompts left out: no load is faster."""
    return profile.alpha_s + profile.beta_s * batch


def _facts(
    variant: Variant, known: Iterable[Variant], profile: PerformanceProfile | None, target: SloTarget | None
) -> Iterator[str]:
    if variant.hold is not None:
        yield f"it is held: {variant.hold.words}"
    beside = sorted(each.key.label for each in known if each.model == variant.model)
    if beside:
        yield f"it shares the load of {beside[0]}" + (f" and {len(beside) - 1} more" if beside[1:] else "")
    else:
        yield "nobody knows its load before it runs"
    if profile is None or target is None:
        return
    limit = f"its target of {1000 * target.limit_s:g} ms between tokens"
    if itl_s(profile, 1) > target.limit_s:
        yield f"by its profile a single request takes {1000 * itl_s(profile, 1):.3g} ms a token: it never keeps {limit}"
    elif itl_s(profile, profile.max_batch_size) <= target.limit_s:
        yield f"by its profile a full replica ({profile.max_batch_size} requests at once) keeps {limit}"
    else:
        most = int((target.limit_s - profile.alpha_s) / profile.beta_s)
        yield f"by its profile a replica keeps {limit} up to {most} requests at once"


GONE = "is gone"
CONFIGURATION_FILE = "reconciler.yaml"
"""Where people look for a setting of which nobody wrote down the line."""
NOT_TRIED = "a review does not try it: the base's stands"


def remark_on_variants(known: Mapping[ResourceKey, Variant], head: HeadView) -> Iterator[SettingRemark]:
    """Holds that the head brings and takes away, and every setting of a variant that becomes another."""
    for key in sorted(known.keys() & head.variants.keys()):
        before, after = known[key], head.variants[key]
        yield from _holds(before, after)
        yield from _class(before, after)
        for setting in SETTING_DEFINITIONS:
            was, now = before.settings[setting].value, after.settings[setting].value
            if was != now:
                source = after.settings[setting].source.place or after.place
                words = f"{setting.name} is {_shown(now)} instead of {_shown(was)}"
                yield _note(key.label, words, source)


def _holds(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    had, has = {hold.kind for hold in before.holds}, {hold.kind for hold in after.holds}
    for hold in after.holds:
        if hold.kind not in had:
            words = f"is held from then on: {hold.words}"
            yield _note(after.key.label, words, hold.place or after.place, Objection.HOLD)
    for hold in before.holds:
        if hold.kind not in has:
            yield _note(after.key.label, f"is not held any more: {hold.words}", after.place)


def _class(before: Variant, after: Variant) -> Iterator[SettingRemark]:
    old = before.service_class.value if before.service_class is not None else None
    new = after.service_class.value if after.service_class is not None else None
    if old is not None and new is not None and replace(old, place=new.place) != new:
        named = f"is {new.name} instead of {old.name}" if old.name != new.name else f"{new.name} changes"
        yield _note(after.key.label, f"its service class {named}", after.place)
    elif old is None and new is not None:
        yield _note(after.key.label, f"its service class is {new.name}, where it had none", after.place)
    elif old is not None and new is None:
        words = f"has no service class any more, and no target: it had {old.name}"
        yield _note(after.key.label, words, after.place, Objection.HOLD)


def remark_on_settings(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    """What becomes of the facts and rules that the configuration states."""
    yield from _prices(base, head)
    yield from _profiles(base, head)
    for old in base.clusters:
        new = next((each for each in head.clusters if each.name == old.name), old)
        yield from _pools(old, new)
    yield from _rules(base, head)


def _prices(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    now = {each.name: each for each in head.accelerators}
    for old in base.accelerators:
        new = now.get(old.name)
        if new is None:
            yield _note(old.name, f"{GONE} from the catalog", _file_of(old.place))
        elif new.cost_per_hour != old.cost_per_hour:
            words = f"costs {_price(new.cost_per_hour, head)} instead of {_price(old.cost_per_hour, base)}"
            yield _note(old.name, words, new.place)
    known = {each.name for each in base.accelerators}
    for new in head.accelerators:
        if new.name not in known:
            yield _note(new.name, f"is new in the catalog: it costs {_price(new.cost_per_hour, head)}", new.place)


def _price(cost_per_hour: float | None, settings: Settings) -> str:
    return "an unknown price" if cost_per_hour is None else f"{cost_per_hour:g} {settings.currency}/h"


def _profiles(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    before, after = _by_model(base), _by_model(head)
    for (model, accelerator), old in before.items():
        new = after.get((model, accelerator))
        if new is None:
            yield _note(model, f"its profile on {accelerator} {GONE}", _file_of(old.place))
        elif replace(old, place=new.place, learning=new.learning) != new:
            yield _note(model, f"its profile on {accelerator} changes", new.place)
    for (model, accelerator), new in after.items():
        if (model, accelerator) not in before:
            yield _note(model, f"has a profile on {accelerator}, where it had none", new.place)


def _by_model(settings: Settings) -> Mapping[tuple[str, str], PerformanceProfile]:
    return {(model.model_id, each.accelerator): each for model in settings.models for each in model.profiles}


def _pools(old: ClusterSettings, new: ClusterSettings) -> Iterator[SettingRemark]:
    before, after = ({pool.name: pool for pool in cluster.pools} for cluster in (old, new))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if now is None:
            yield _note(f"pool {name}", GONE, _file_of(was.place if was is not None else None))
        elif was is None:
            yield _note(f"pool {name}", f"is new: {_devices(now.devices)}", now.place)
        elif replace(was, place=now.place) != now:
            devices = (_devices(now.devices), _devices(was.devices))
            changed = f"has {devices[0]} instead of {devices[1]}" if devices[0] != devices[1] else "changes"
            yield _note(f"pool {name}", changed, now.place)


def _devices(devices: int | None) -> str:
    return "as many devices as are measured" if devices is None else f"{devices} devices"


def _rules(base: Settings, head: Settings) -> Iterator[SettingRemark]:
    """A rule that is gone or asks for something else needs a person: it may be what would have stopped the change."""
    now = {rule.name: rule for rule in head.rules}
    for rule in base.rules:
        new = now.get(rule.name)
        if new is None or (new.asks, new.scope) != (rule.asks, rule.scope):
            words = GONE if new is None else "asks for something else"
            place = _file_of(rule.place) if new is None or not new.place.path else new.place
            words = f"{words}; this change is judged by the base's rules all the same"
            yield _note(f"rule {rule.name}", words, place, Objection.HOLD)
    known = {rule.name for rule in base.rules}
    for rule in head.rules:
        if rule.name not in known:
            merges = isinstance(rule.asks, AutoMergeRule)
            words = "lets changes merge by themselves" if merges else "holds"
            objection = Objection.HOLD if merges else Objection.NONE
            yield _note(f"rule {rule.name}", f"is new: it {words} once this is merged", rule.place, objection)
    if head.pull_requests.auto_merge and not base.pull_requests.auto_merge:
        words = "lets everything that rules allow merge by itself, once this is merged"
        yield _note("pullRequests.autoMerge", words, Place(path=CONFIGURATION_FILE, line=1), Objection.HOLD)


def _file_of(place: Place | None) -> Place | None:
    """The file of what is gone, whose line means nothing any more."""
    return None if place is None else Place(path=place.path)


def _shown(value: object) -> str:
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _note(subject: str, words: str, place: Place | None, objection: Objection = Objection.NONE) -> SettingRemark:
    return SettingRemark(
        subject=subject,
        words=words,
        objection=objection,
        path=place.path if place else "",
        line=place.line if place else 0,
    )


def connections_changed(names: Iterable[str]) -> tuple[SettingRemark, ...]:
    """That a head changes what a review never takes from it."""
    place = Place(path="reconciler.yaml")
    return tuple(_note(name, f"changes; {NOT_TRIED}", place, Objection.HOLD) for name in names)


# Somebody else's change beside what a plan would do, decided on the base with the same answers of Prometheus. The
# head's numbers are put in the place of a plan's and judged by the base's rules: one problem is posed and solved for
# all heads, so what is equal on both sides is worked out once.

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
    # The totals with what new variants cost; None as soon as one price is missing.
    after = judged.totals.cost_after_per_hour
    for remark in newcomers:
        cost = remark.added_cost_per_hour
        after = None if after is None or cost is None else after + cost
    return Review(
        base=snapshot.commit,
        head=head_commit,
        currency=snapshot.settings.currency,
        totals=replace(judged.totals, cost_after_per_hour=after),
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
        # The rules that would not let a plan make the change: those that judge changes, and those that
        # bound them.
        guard, desired = base.solved.situation.formulated.guard, decision.desired
        is_move = desired.replicas > 0 and decision.is_accelerator_change
        said = [guard.limits.get(decision.variant, NO_LIMITS).on(is_move=is_move).stopped(desired.replicas)]
        if is_move and decision.variant in guard.subjects:
            said.append(guard.rules.refuse(guard.subjects[decision.variant], desired.accelerator))
        names = [each.rule.name for each in said if each is not None]
        if decision.verdict.rule and decision.verdict.kind in STOPPING:
            names.append(decision.verdict.rule)
        # The replicas that a plan would give; None where it would not decide, or for another accelerator.
        is_comparable = recommended.desired.accelerator == decision.desired.accelerator
        breaks = tuple(dict.fromkeys(names))
        needed = recommended.desired.replicas if is_comparable and recommended.outcome is not Outcome.HELD else None
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


def _objection(decision: Decision, needed: int | None) -> Objection:
    if decision.outcome is Outcome.HELD or is_unknown(decision):
        return Objection.HOLD
    is_missed = any(slo.is_met_after is False for slo in decision.slos)
    is_overfull = decision.fullness is not None and decision.fullness.is_overfull
    serves_nobody = decision.desired.replicas == 0 and bool(needed)
    return Objection.SLO if is_missed or is_overfull or serves_nobody else Objection.NONE


def _only_in(head: Iterable[Finding], base: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong in the head alone; a line that moved is the same finding."""
    known = {(each.place.path, each.place.field, each.message) for each in base}
    for finding in head:
        is_known = (finding.place.path, finding.place.field, finding.message) in known
        if not is_known and finding.severity is not Severity.NOTE:
            yield finding
