"""What rules say about the finished plan: refused changes are dropped, the others get their verdict."""

import math
from collections import Counter, defaultdict
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
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Pool, Solution
from reconciler.domain.snapshot import Variant
from reconciler.optimizer.device_use import DeviceUse
from reconciler.optimizer.separable import SeparableSolver
from reconciler.policy.judging import NO_LIMITS, STRICTNESS, strictest
from reconciler.policy.port import Change, Counted, FleetChange, Share, SharedLimit, Spoken

STOPPING = {VerdictKind.REFUSE: HoldKind.REFUSED, VerdictKind.HOLD: HoldKind.RULE}
"""Verdicts after which a change is not proposed, and the hold that tells it."""
STANDING = Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")
"""The verdict of every change where there are no rules."""


def keep_to_limits(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Cut what a variant gets to what rules leave it where it stays: the optimizer may have meant to move it.

    After open pull requests, which may be older than a rule; before what is drained and what waits. A setting of an
    autoscaler is not cut: what speaks for it is of its bounds as well.
    """
    guard, held = situation.formulated.guard, staged.holds
    cut = {
        key: guard.admitted(key, each)
        for key, each in staged.allocations.items()
        if key not in held and each != situation.current[key]
    }
    stopped = {
        key: _hold(said)
        for key in cut
        if _is_tuned(situation, staged, key)
        and (said := guard.limits.get(key, NO_LIMITS).stopped(staged.allocations[key].replicas)) is not None
    }
    as_now = {key: situation.current[key] for key in stopped}
    return replace(staged, allocations={**staged.allocations, **cut, **as_now}, holds={**held, **stopped})


def obey_rules(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Leave as they are what rules stop, and what was to give way to it; after every pass that changes allocations.

    What stays changes what others may do, so all is looked at again until no rule stops anything more: each turn
    holds or ends one change more, so they end. What was said last is kept for the verdicts. Nor is a setting of an
    autoscaler ended on its way.
    """
    while True:
        heard = _said_of_changes(situation, staged)
        stopped = {key: said for key, each in heard.items() for said in each[:1] if said.kind in STOPPING}
        ended = {key: said for key, each in heard.items() if key not in stopped for said in _ends(each, staged, key)}
        stopped |= {key: ended.pop(key) for key in [*ended] if _is_tuned(situation, staged, key)}
        if not stopped and not ended:
            return replace(staged, said=heard)
        as_now = {key: situation.current[key] for key in stopped}
        cut = {key: replace(staged.allocations[key], replicas=said.replicas or 0) for key, said in ended.items()}
        staged = replace(
            staged,
            allocations={**staged.allocations, **as_now, **cut},
            holds={**staged.holds, **{key: _hold(said) for key, said in stopped.items()}},
            clamped={**staged.clamped, **ended},
            stopped={**staged.stopped, **stopped},
        )
        staged = make_independent(situation, keep_serving(situation, staged))


def _is_tuned(situation: Situation, staged: StagedPlan, key: ResourceKey) -> bool:
    """Whether an autoscaler would get another setting."""
    return staged.allocations[key].scaling != situation.current[key].scaling


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
    stopped = {
        key: said
        for key in situation.formulated.guard.limits
        if key not in staged.waiting
        and staged.outcome(situation, key) is Outcome.UNCHANGED
        and (said := _stopped(situation, staged, key, used_up)) is not None
    }
    waiting = {key: _hold(said) for key, said in stopped.items()}
    staged = replace(staged, waiting={**waiting, **staged.waiting})
    verdicts = {key: _verdict(situation, staged, key, stopped.get(key)) for key in situation.group_of}
    return replace(staged, verdicts=verdicts)


def _hold(said: Spoken) -> Hold:
    return Hold(
        kind=STOPPING.get(said.kind, HoldKind.RULE), words=f"rule {said.rule}: {said.words}", place=said.rule.place
    )


def tell_what_is_full(situation: Situation, solution: Solution, staged: StagedPlan) -> StagedPlan:
    """Let models that stay as they are name the pool or limit that keeps them from what they would have alone.

    Nothing is said where every model has that anyway, nor of models whose roles or finished answers bind each other.
    """
    problem = situation.formulated.problem
    if solution.solver == SeparableSolver.name or solution.is_unsolved or not (problem.pools or problem.change_limits):
        return staged
    full = _Full.of(situation, solution)
    silent = {
        model: members for model, members in _silent(situation, solution, staged) if full.may_lack(model, members)
    }
    keys = {key for members in silent.values() for key in members}
    alone = replace(
        problem,
        requirements=tuple(each for each in problem.requirements if each.model in silent),
        candidates=tuple(each for each in problem.candidates if each.key.variant in keys),
        pinned={key: each for key, each in problem.pinned.items() if key in keys},
        pools=(),
        budgets=(),
        change_limits=(),
    )
    best = SeparableSolver().solve(alone).allocations
    variants = {state.variant.key: state.variant for state in situation.states}
    waiting, verdicts = dict(staged.waiting), dict(staged.verdicts)
    for members in silent.values():
        wanted = {key: best[key] for key in members if best.get(key, problem.current[key]) != problem.current[key]}
        limit = full.limit(wanted) if wanted else None
        for key in wanted if limit is not None else ():
            words = _instead(situation, variants, key, wanted)
            if isinstance(limit, SharedLimit):
                said = Spoken(rule=limit.rule, kind=VerdictKind.HOLD, words=f"{limit.words}: {words}")
                waiting[key], verdicts[key] = _hold(said), strictest([said])
            elif limit is not None:
                words = f"pool {limit.name} has {limit.devices} devices: {words}"
                waiting[key] = Hold(kind=HoldKind.POOL_FULL, words=words)
    return replace(staged, waiting=waiting, verdicts=verdicts)


def _silent(
    situation: Situation, solution: Solution, staged: StagedPlan
) -> Iterator[tuple[ModelKey, tuple[ResourceKey, ...]]]:
    """Models that the optimizer leaves as they are, of which nothing says why, with their variants that may change."""
    needs, problem = situation.formulated.needs, situation.formulated.problem
    bound = {side for ratio in problem.ratios for side in ratio.sides}
    for model, members in needs.variants_of.items():
        requirement = needs.requirements[model]
        is_priced = any(segment.price is not None for segment in requirement.segments)
        if is_priced or requirement.fixed is not None or model in bound or problem.objective != "cost":
            continue
        is_kept = all(
            staged.outcome(situation, key) is not Outcome.CHANGE
            and key not in staged.waiting
            and solution.allocations.get(key, problem.current[key]) == problem.current[key]
            for key in members
        )
        if is_kept and not all(key in staged.holds or key in problem.pinned for key in members):
            yield model, members


@dataclass(frozen=True, slots=True, kw_only=True)
class _Full:
    """What a solution takes of pools and of limits on changes."""

    situation: Situation
    use: DeviceUse
    taken: Counter[str]
    changed: Mapping[str, int]
    limits: Mapping[str, SharedLimit]

    @classmethod
    def of(cls, situation: Situation, solution: Solution) -> "_Full":
        problem = situation.formulated.problem
        allocations = {**problem.current, **solution.allocations}
        use = DeviceUse.of(problem)
        return cls(
            situation=situation,
            use=use,
            taken=use.pools(allocations),
            changed={
                each.name: sum(allocations[key] != problem.current[key] for key in each.variants)
                for each in problem.change_limits
            },
            limits={each.name: each for each in situation.formulated.guard.shared},
        )

    def may_lack(self, model: ModelKey, members: Iterable[ResourceKey]) -> bool:
        """Whether something may not admit what a model would have alone: no candidate has more than covers it all."""
        problem, requirement = self.situation.formulated.problem, self.situation.formulated.needs.requirements[model]
        amount, most = requirement.amount, defaultdict[str, float](float)
        for key, carried in requirement.per_replica.items():
            candidate = self.use.offered(key)
            if candidate is not None and carried > 0:
                replicas = max(problem.bounds[key.variant].minimum, amount / carried + 1)
                for name, devices in candidate.devices.items():
                    most[name] += devices * replicas
        return any(most[pool.name] > pool.devices - self.taken[pool.name] for pool in problem.pools) or any(
            self.changed[each.name] + len(each.variants.intersection(members)) > each.changes
            for each in problem.change_limits
        )

    def limit(self, wanted: Allocations) -> SharedLimit | Pool | None:
        """The first that does not admit it together with what the others get."""
        problem = self.situation.formulated.problem
        for each in problem.change_limits:
            if self.changed[each.name] + len(wanted.keys() & each.variants) > each.changes:
                return self.limits[each.name]
        before = self.use.pools({key: problem.current[key] for key in wanted})
        after = self.use.pools(wanted)
        for pool in problem.pools:
            added = after[pool.name] - before[pool.name]
            if added > 0 and self.taken[pool.name] + added > pool.devices:
                return pool
        return None


def _instead(
    situation: Situation, variants: Mapping[ResourceKey, Variant], key: ResourceKey, wanted: Allocations
) -> str:
    """`4 x L4 instead of 4 x H100 would save 23.6 USD/h`."""
    current, after = situation.current[key], wanted[key]
    is_move = after.replicas > 0 and current.accelerator != after.accelerator
    now = f"{current.replicas} x {current.accelerator or 'unknown'}" if is_move else f"{current.replicas}"
    words = f"{after.replicas} x {after.accelerator or 'unknown'} instead of {now} would"
    pairs = [
        (variants[each].cost_of(situation.current[each]), variants[each].cost_of(to)) for each, to in wanted.items()
    ]
    if is_short(situation.formulated, key):
        return f"{words} be needed"
    if any(before is None or then is None for before, then in pairs):
        return f"{words} be enough"
    saved = math.fsum((before or 0.0) - (then or 0.0) for before, then in pairs)
    if saved <= 0:
        return f"{words} be needed"
    return f"{words} save {round(saved, 2):g} {situation.snapshot.settings.currency}/h"


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


def _verdict(situation: Situation, staged: StagedPlan, key: ResourceKey, stopped: Spoken | None) -> Verdict:
    """What rules say of a resource; what one leaves nothing of a change is held by it."""
    if key in staged.holds:
        verdict = verdict_of(staged.holds[key])
        return replace(verdict, rule=staged.stopped[key].rule.name) if key in staged.stopped else verdict
    if stopped is not None:
        return strictest([replace(stopped, kind=VerdictKind.HOLD)])
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
            is_repair=(is_short(situation.formulated, key) and desired != situation.current[key])
            or guard.subjects[key].is_harmful
            or key in staged.reverts,
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
    """What a variant would have, with the others of its model, were there no rules; None where that is not known."""
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
