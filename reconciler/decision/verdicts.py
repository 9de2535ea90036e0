"""What rules say about the finished plan: refused changes are dropped, the others get their verdict."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from reconciler.decision.formulation import is_short
from reconciler.decision.guarding import spot_changes
from reconciler.decision.independence import keep_serving, make_independent
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import TOLERANCE, Allocations
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import Load
from reconciler.domain.plan import Outcome, Verdict, VerdictKind
from reconciler.domain.records import replace
from reconciler.policy.judging import NO_LIMITS, STRICTNESS, strictest
from reconciler.policy.port import Change, Counted, FleetChange, Share, SharedLimit, Spoken

STOPPING = {VerdictKind.REFUSE: HoldKind.REFUSED, VerdictKind.HOLD: HoldKind.RULE}
"""Verdicts after which a change is not proposed, and the hold that tells it."""
STANDING = Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")
"""The verdict of every change where there are no rules."""


def keep_to_limits(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Cut what a variant gets to what rules leave it where it stays: the optimizer may have meant to move it.

    After open pull requests, which may be older than a rule; before what is drained and what waits.
    """
    guard, held = situation.formulated.guard, staged.holds
    cut = {
        key: guard.admitted(key, each)
        for key, each in staged.allocations.items()
        if key not in held and each != situation.current[key]
    }
    return replace(staged, allocations={**staged.allocations, **cut})


def obey_rules(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Leave as they are what rules stop, and what was to give way to it; after every pass that changes allocations.

    What stays changes what others may do, so all is looked at again until no rule stops anything more: each turn
    holds or ends one change more, so they end. What was said last is kept for the verdicts.
    """
    while True:
        heard = _said_of_changes(situation, staged)
        stopped = {
            key: Hold(kind=STOPPING[said.kind], words=f"rule {said.rule}: {said.words}", place=said.rule.place)
            for key, each in heard.items()
            for said in each[:1]
            if said.kind in STOPPING
        }
        ended = {key: said for key, each in heard.items() if key not in stopped for said in _ends(each, staged, key)}
        if not stopped and not ended:
            return replace(staged, said=heard)
        as_now = {key: situation.current[key] for key in stopped}
        cut = {key: replace(staged.allocations[key], replicas=said.replicas or 0) for key, said in ended.items()}
        staged = replace(
            staged,
            allocations={**staged.allocations, **as_now, **cut},
            holds={**staged.holds, **stopped},
            clamped={**staged.clamped, **ended},
        )
        staged = make_independent(situation, keep_serving(situation, staged))


def _ends(said: Iterable[Spoken], staged: StagedPlan, key: ResourceKey) -> Iterator[Spoken]:
    """What ends a change before it gets where it was to."""
    for each in said:
        if each.replicas is not None and each.replicas != staged.allocations[key].replicas:
            yield each


def give_verdicts(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Give every resource its verdict; after all passes that change what one gets.

    What would change and may not at all says what it waits for.
    """
    used_up = tuple(each for each in situation.formulated.guard.shared if _is_used_up(each, situation, staged))
    waiting = {
        key: Hold(kind=HoldKind.RULE, words=f"rule {said.rule}: {said.words}", place=said.rule.place)
        for key in situation.formulated.guard.limits
        if key not in staged.waiting
        and staged.outcome(situation, key) is Outcome.UNCHANGED
        and (said := _stopped(situation, staged, key, used_up)) is not None
    }
    staged = replace(staged, waiting={**waiting, **staged.waiting})
    verdicts = {key: _verdict(situation, staged, key) for key in situation.group_of}
    return replace(staged, verdicts=verdicts)


def _is_used_up(shared: SharedLimit, situation: Situation, staged: StagedPlan) -> bool:
    """Whether as many variants change as a limit on changes admits."""
    if shared.counts is not Counted.CHANGES:
        return False
    return sum(staged.outcome(situation, key) is Outcome.CHANGE for key in shared.members) >= shared.limit


def _stopped(
    situation: Situation, staged: StagedPlan, key: ResourceKey, used_up: Sequence[SharedLimit]
) -> Spoken | None:
    """The rule that keeps a variant as it is; None where it has what it needs."""
    said = _clamp(situation, staged, key) or staged.clamped.get(key)
    if said is not None or not used_up:
        return said
    limit = next((each for each in used_up if key in each.members), None)
    wanted = _wanted(situation, staged, key)
    if limit is None or wanted is None or wanted <= staged.allocations[key].replicas:
        return None
    words = f"{limit.words}, {wanted} would be needed"
    return Spoken(rule=limit.rule, kind=VerdictKind.HOLD, words=words)


def _verdict(situation: Situation, staged: StagedPlan, key: ResourceKey) -> Verdict:
    if key in staged.holds:
        return verdict_of(staged.holds[key])
    if staged.outcome(situation, key) is Outcome.UNCHANGED:
        return Verdict(kind=VerdictKind.ALLOW)
    return strictest(staged.said.get(key, ())) if situation.formulated.guard.rules.rules else STANDING


def verdict_of(hold: Hold) -> Verdict:
    """What is said of a resource that is held."""
    return Verdict(kind=VerdictKind.REFUSE if hold.kind is HoldKind.REFUSED else VerdictKind.HOLD, reason=hold.words)


def _said_of_changes(situation: Situation, staged: StagedPlan) -> dict[ResourceKey, tuple[Spoken, ...]]:
    """What rules say of each change, the strictest first."""
    said = {}
    for key, judged in judge_changes(situation, staged).items():
        clamps = filter(None, (_clamp(situation, staged, key), staged.clamped.get(key)))
        said[key] = tuple(sorted((*judged, *clamps), key=lambda each: STRICTNESS.index(each.kind)))
    return said


def judge_changes(situation: Situation, staged: StagedPlan) -> dict[ResourceKey, tuple[Spoken, ...]]:
    """What the rules say of each change that is staged, by a plan or by a person."""
    rules = situation.formulated.guard.rules
    if not rules.rules:
        return {}
    return {change.subject.variant.key: rules.judge(change) for change in _changes(situation, staged)}


def _changes(situation: Situation, staged: StagedPlan) -> Iterator[Change]:
    """Every change of a variant, with what it costs and what its pull request does."""
    guard, needs = situation.formulated.guard, situation.formulated.needs
    changing = [
        state.variant
        for state in situation.states
        if state.variant.key in guard.subjects and staged.outcome(situation, state.variant.key) is Outcome.CHANGE
    ]
    before, added = _group_costs(situation, staged)
    shares = _shares(situation, staged, [variant.key for variant in changing])
    turns: defaultdict[ModelKey, int] = defaultdict(int)
    spot_of = spot_changes(guard.subjects, staged.allocations, situation.group_of, partial(_urgency, situation))
    fleet = FleetChange(
        variants=len(situation.states),
        changes=len(changing),
        cost_before=_total(before),
        cost_added=_total(added),
    )
    for variant in changing:
        key, desired, group = variant.key, staged.allocations[variant.key], situation.group_of[variant.key]
        in_model, in_fleet = spot_of(key)
        model, load = needs.owner_of.get(key), situation.snapshot.observed.loads.get(variant.model)
        found = (each.profile.learning for each in variant.options if each.accelerator == desired.accelerator)
        learning = next(found, None)
        yield Change(
            subject=guard.subjects[key],
            desired=desired,
            cost_before=situation.cost_before(variant),
            cost_after=variant.cost_of(desired),
            group_cost_before=before[group],
            group_cost_added=added[group],
            learned_on="" if learning is None else learning.on,
            is_repair=is_short(situation.formulated, key) or key in staged.reverts,
            shares=shares.get(key, {}),
            load_per_s=load.arrival_rate_per_s if isinstance(load, Load) else None,
            needed=None if model is None else needs.requirements[model].amount,
            carried_before=None if model is None else needs.total(model, situation.current),
            carried_after=None if model is None else needs.total(model, staged.allocations),
            fleet=fleet,
            turn=turns[variant.model],
            of_model=1 if model is None else len(needs.variants_of[model]),
            spot_in_model=in_model,
            spot_in_fleet=in_fleet,
        )
        turns[variant.model] += 1


def _shares(
    situation: Situation, staged: StagedPlan, changing: Sequence[ResourceKey]
) -> Mapping[ResourceKey, Mapping[str, Share]]:
    """By variant and rule, what the plan makes of the limits that the variant shares."""
    found: defaultdict[ResourceKey, dict[str, Share]] = defaultdict(dict)
    for shared in situation.formulated.guard.shared:
        if shared.counts is Counted.COST:
            share = shared.share(_cost(shared, situation, staged.allocations))
            for key in shared.members:
                found[key][shared.rule.name] = share
        else:  # repairs first, then by priority: each counts with those before it
            members = (key for key in changing if key in shared.members)
            for rank, key in enumerate(sorted(members, key=partial(_urgency, situation)), 1):
                found[key][shared.rule.name] = shared.share(rank)
    return found


def _cost(shared: SharedLimit, situation: Situation, allocations: Allocations) -> float:
    """What the members of a limit cost per hour; an unknown price counts as too much."""
    subjects = situation.formulated.guard.subjects
    costs = [subjects[key].variant.cost_of(allocations[key]) for key in shared.members]
    return math.inf if None in costs else math.fsum(cost or 0.0 for cost in costs)


def _urgency(situation: Situation, key: ResourceKey) -> tuple[bool, int, ResourceKey]:
    """Repairs first, then by priority."""
    return not is_short(situation.formulated, key), -situation.formulated.guard.subjects[key].priority, key


Costs: TypeAlias = Mapping[str, float | None]


def _group_costs(situation: Situation, staged: StagedPlan) -> tuple[Costs, Costs]:
    """What each group's variants cost an hour, and what is added by those that will cost more; None without a price."""
    before: defaultdict[str, float | None] = defaultdict(float)
    added: defaultdict[str, float | None] = defaultdict(float)
    for state in situation.states:
        group = situation.group_of[state.variant.key]
        now = situation.cost_before(state.variant)
        then = state.variant.cost_of(staged.allocations[state.variant.key])
        before[group] = _sum(before[group], now)
        added[group] = _sum(added[group], None if now is None or then is None else max(then - now, 0.0))
    return before, added


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _total(costs: Costs) -> float | None:
    return None if None in costs.values() else math.fsum(cost or 0.0 for cost in costs.values())


def _clamp(situation: Situation, staged: StagedPlan, key: ResourceKey) -> Spoken | None:
    """The rule that keeps a variant from what it would have got; None where none does."""
    desired, current = staged.allocations[key], situation.current[key]
    limits = situation.formulated.guard.limits.get(key, NO_LIMITS)
    limits = limits.on(is_move=desired.replicas > 0 and desired.accelerator != current.accelerator)
    replicas, wanted = desired.replicas, _wanted(situation, staged, key)
    if wanted is None:
        return None
    if limits.admitted(wanted) == replicas:
        return limits.stopped(wanted)
    return _over_budget(situation, staged, key, wanted) if wanted > replicas else None


def _over_budget(situation: Situation, staged: StagedPlan, key: ResourceKey, wanted: int) -> Spoken | None:
    """The budget that has nothing left for one more replica of a variant; None where each has."""
    guard = situation.formulated.guard
    more = {**staged.allocations, key: replace(staged.allocations[key], replicas=staged.allocations[key].replicas + 1)}
    for shared in guard.shared:
        if key in shared.members and shared.counts is Counted.COST:
            share = shared.share(_cost(shared, situation, more))
            if share.is_exceeded:
                words = f"{share.words}, {wanted} would be needed"
                return Spoken(rule=shared.rule, kind=VerdictKind.CLAMP, words=words)
    return None


def _wanted(situation: Situation, staged: StagedPlan, key: ResourceKey) -> int | None:
    """What a variant would have beside the others of its model, were there no rules; None where nobody can tell."""
    formulated = situation.formulated
    if key in formulated.unguarded:
        return formulated.unguarded[key]
    model, needs = formulated.needs.owner_of.get(key), formulated.needs
    allocation = staged.allocations[key]
    each = needs.carried(key, replace(allocation, replicas=1))
    if model is None or not each:
        return None
    others = needs.total(model, staged.allocations) - each * allocation.replicas
    missing = needs.requirements[model].amount - others
    wanted = max(-int(-missing * (1 - TOLERANCE) // each), 0)
    return formulated.own_bounds[key].nearest(wanted) if key in formulated.own_bounds else wanted
