"""The passes that a plan goes through between the optimizer and its pull requests, and how deadlocks among them end."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from reconciler.decision.assessment import HOUR_S, room_in_quotas
from reconciler.decision.formulation import FormulatedProblem
from reconciler.decision.independence import keep_serving, make_independent
from reconciler.decision.load_variation import reach_of
from reconciler.decision.staged_plan import Pass, Situation, StagedPlan
from reconciler.decision.tuning import tune_autoscalers
from reconciler.decision.variant_states import TOLERANCE, Allocations, VariantState, written_minimum
from reconciler.decision.verdicts import give_verdicts, keep_to_limits, obey_rules
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load
from reconciler.domain.proposals import BrokenPromise, Part, Proposal
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Problem, Solution
from reconciler.domain.snapshot import Variant
from reconciler.optimizer.device_use import DeviceUse


def prove_growth(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Leave models as they are that would grow without proof; before what waits for their new replicas."""
    unproven = dict(_unproven(situation, staged))
    as_now = {key: situation.current[key] for key in unproven}
    staged = replace(staged, allocations={**staged.allocations, **as_now}, holds={**staged.holds, **unproven})
    return _within_quotas(situation, staged)


def _unproven(situation: Situation, staged: StagedPlan) -> Iterator[tuple[ResourceKey, Hold]]:
    reasons: dict[ModelKey, Hold] = {}
    for state in situation.states:
        if state.unproven is not None and not _may_grow_further(situation, state.variant):
            reasons.setdefault(state.variant.model, state.unproven)
    for model, hold in reasons.items():
        members = [state.variant for state in situation.states if state.variant.model == model]
        if any(_added(situation, staged, member) > 0 for member in members):
            yield from ((key, hold) for key in _changed(situation, staged, members))


def _may_grow_further(situation: Situation, variant: Variant) -> bool:
    """Whether replicas may be added to others that only start: a forecast does not depend on how these do.

    The load of now does, as requests that fail or wait come again.
    """
    demand = situation.formulated.demands.get(variant.model)
    is_stuck = situation.snapshot.observed.unschedulable.get(variant.key, 0) > 0
    return demand is not None and demand.forecast is not None and not is_stuck


def _within_quotas(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Each variant is held against what quotas leave now: what others of its namespace would get is not there yet."""
    allocations, holds, waiting = dict(staged.allocations), dict(staged.holds), dict(staged.waiting)
    for state in situation.states:
        variant = state.variant
        added, workload = _added(situation, staged, variant), variant.workload
        if added <= 0 or workload is None:
            continue
        room = room_in_quotas(situation.snapshot, workload.key, workload.devices)
        if room is not None and room[0] < added:
            admitted, quota = room
            words = (
                f"{added} more replicas of {variant.key.label} are needed, and quota {quota.name} of namespace "
                f"{workload.key.namespace} leaves {quota.left:g} {quota.resource}, enough for {admitted}"
            )
            current = situation.current[variant.key]
            allocations[variant.key] = replace(current, replicas=current.replicas + admitted)
            (waiting if admitted else holds)[variant.key] = Hold(kind=HoldKind.GROWTH_UNPROVEN, words=words)
    return replace(staged, allocations=allocations, holds=holds, waiting=waiting)


def _changed(situation: Situation, staged: StagedPlan, members: Iterable[Variant]) -> Iterator[ResourceKey]:
    for member in members:
        if member.key not in staged.holds and staged.allocations[member.key] != situation.current[member.key]:
            yield member.key


def _added(situation: Situation, staged: StagedPlan, variant: Variant) -> int:
    """Replicas that a variant would get in addition to those it has, where they stay what they are."""
    if variant.key in staged.holds:
        return 0
    before, after = situation.current[variant.key], staged.allocations[variant.key]
    return after.replicas - before.replicas if before.accelerator == after.accelerator else 0


def tell_what_is_kept(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Let what may not shrink say so, where it would have; after all passes that change allocations."""
    kept = {
        state.variant.key: state.kept
        for state in situation.states
        if state.kept is not None and _would_shrink(situation, staged, state)
    }
    return replace(staged, waiting={**kept, **staged.waiting})


def _would_shrink(situation: Situation, staged: StagedPlan, state: VariantState) -> bool:
    key, needs = state.variant.key, situation.formulated.needs
    before, after = situation.current[key], staged.allocations[key]
    model = needs.owner_of.get(key)
    if key in staged.holds or after != before or model is None or before.replicas <= written_minimum(state.variant):
        return False
    each = (needs.carried(key, before) or 0.0) / before.replicas if before.replicas else 0.0
    return before.replicas > 1 and needs.total(model, staged.allocations) - each >= needs.asked(model)


PASSING_RUNS = 2
"""For so many runs after it was opened, or first pushed in an hour, a pull request that merges by itself is pushed only
where it is wrong."""
KEEP_BELOW = 0.05
"""A new plan must save this fraction of an open proposal's cost to replace it: load noise never pushes.

Nor does it where one replica is more than that: see `_is_noise`."""


def keep_open_proposals(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Keep what an open pull request says of a model while it meets the model's need and costs nearly as little.

    Before any pass that changes what the optimizer aims at: that is what the pull request is compared with.
    """
    formulated, optimum = situation.formulated, staged.allocations
    allocations = dict(optimum)
    kept, reasons = dict(staged.kept), dict(staged.reasons)
    weights = _weights(formulated.problem)
    for model, keys in formulated.needs.variants_of.items():
        groups = {situation.group_of[key] for key in keys}
        proposal = _proposal_of(situation, min(groups), keys) if len(groups) == 1 else None
        if proposal is None or any(situation.current[key].scaling for key in keys):  # of these a pass of their own does
            continue
        free = {key: situation.current[key] for key in keys if key not in formulated.problem.pinned}
        proposed = proposal.merged(free)
        merged = {**situation.current, **proposed}
        if all(optimum[key] == allocation for key, allocation in proposed.items()):
            continue
        passing = _passing(model, situation, min(groups), proposal, optimum)
        if passing is not None:
            allocations.update({key: passing.merged({key: situation.current[key]})[key] for key in free})
            kept.update(dict.fromkeys(free, passing.number))
            words = f"as of open pull request #{passing.number}, which merges first: the rest follows"
            reasons.update(dict.fromkeys(free, words))
            continue
        if not _serves(model, merged, optimum, formulated):
            continue
        saving = _saving(proposed, optimum, weights)
        is_noise = _is_noise(model, proposed, optimum, situation)
        if saving is None or (saving >= KEEP_BELOW and not is_noise):
            continue
        allocations.update(proposed)
        kept.update(dict.fromkeys(proposed, proposal.number))
        reasons.update(dict.fromkeys(proposed, _words(proposal, proposed, saving)))
    return replace(staged, allocations=allocations, kept=kept, reasons=reasons)


def _passing(
    model: ModelKey, situation: Situation, group: str, proposal: Proposal, optimum: Allocations
) -> Proposal | None:
    """The open pull request that is about to merge by itself with what it says of a model; None where there is none.

    A push would have all that it holds wait for another run. So it goes first where each of its numbers is on the way
    to what is wanted now, or it does not name the model. Only the first push of an hour counts: later ones delay none.
    """
    snapshot, formulated = situation.snapshot, situation.formulated
    keys = [key for key in formulated.needs.variants_of[model] if key not in formulated.problem.pinned]
    named = {change.resource for change in proposal.changes}
    is_repair = any(optimum[key].replicas > situation.current[key].replicas for key in keys)
    if not any(str(key) in named for key in keys):
        found = situation.open_proposals(group).get(Part.URGENT if is_repair else Part.AUTO)
        if found is None:
            return None
        proposal = found
    pushes_s = [
        at_s for at_s in (proposal.opened_at_s or 0.0, *proposal.pushes_s) if abs(snapshot.now_s - at_s) < HOUR_S
    ]
    is_fresh = snapshot.now_s - min(pushes_s, default=0.0) <= PASSING_RUNS * snapshot.settings.run_interval_s
    if not proposal.merges or not is_fresh or proposal.is_left_alone:
        return None
    after = proposal.merged({key: situation.current[key] for key in keys})
    bounds = formulated.problem.bounds
    is_within = all(key not in bounds or bounds[key].admits(each.replicas) for key, each in after.items())
    is_on_the_way = all(_is_between(situation.current[key], each, optimum[key]) for key, each in after.items())
    return proposal if is_within and is_on_the_way else None


def _is_between(before: Allocation, step: Allocation, after: Allocation) -> bool:
    """Whether a step leads towards `after` and not beyond it, on one accelerator."""
    least, most = sorted((before.replicas, after.replicas))
    return before.accelerator == step.accelerator == after.accelerator and least <= step.replicas <= most


def _proposal_of(situation: Situation, group: str, keys: Collection[ResourceKey]) -> Proposal | None:
    """The group's open pull request that names one of the variants, else any: what noise adds is pushed to none."""
    names = {str(key) for key in keys}
    proposals = tuple(situation.open_proposals(group).values())
    naming = (each for each in proposals if any(change.resource in names for change in each.changes))
    return next(naming, proposals[0] if proposals else None)


def _weights(problem: Problem) -> dict[CandidateKey, float]:
    """What a replica of everything that may be chosen now weighs; without load replicas are counted."""
    weights = {
        variant.on(problem.current[variant].accelerator): 1.0
        for requirement in problem.requirements
        for variant in requirement.fixed or ()
    }
    first: dict[ResourceKey, int] = {}
    for candidate in problem.candidates:
        variant = candidate.key.variant
        first[variant] = min(candidate.order, first.get(variant, candidate.order))
    for candidate in problem.candidates:
        variant = candidate.key.variant
        if variant not in problem.in_order or candidate.order == first[variant]:
            weights[candidate.key] = candidate.weight
    return weights


def _serves(model: ModelKey, allocations: Allocations, optimum: Allocations, formulated: FormulatedProblem) -> bool:
    """Whether what is needed is met, or as much of it as the optimum meets, and every bound is kept."""
    bounds = formulated.problem.bounds
    bounded = (key for key in formulated.needs.variants_of[model] if key in bounds)
    is_within = all(bounds[key].admits(allocations[key].replicas) for key in bounded)
    return is_within and formulated.needs.is_met(model, allocations, formulated.least(model), like=optimum)


def _is_noise(
    model: ModelKey, proposed: Mapping[ResourceKey, Allocation], optimum: Allocations, situation: Situation
) -> bool:
    """Whether the optimum only lacks replicas each of which the load of now, as noisy as it is, may need again.

    What was to grow and need not any more goes with its demand.
    """
    needs, reached = situation.formulated.needs, _reach(model, situation)
    if needs.requirements[model].fixed is not None:
        return False
    differing = {key: each for key, each in proposed.items() if optimum[key] != each}
    is_fewer = all(_is_fewer(optimum[key], each) for key, each in differing.items())
    is_over = all(optimum[key] == situation.current[key] for key in differing)
    merged = {**situation.current, **proposed}
    return (
        is_fewer
        and not is_over
        and all(
            needs.total(model, {**merged, key: replace(each, replicas=each.replicas - 1)}) < reached
            for key, each in differing.items()
        )
    )


def _reach(model: ModelKey, situation: Situation) -> float:
    """What noise may have the model need again, in the unit of its requirement; 0 where that is not known."""
    demand, load = situation.formulated.demands.get(model), situation.snapshot.observed.loads.get(model)
    filling = situation.formulated.needs.fillings.get(model)
    if demand is None or not isinstance(load, Load):
        return 0.0 if filling is None else filling.reach
    rate_per_s = demand.rate_per_s / (1 + demand.headroom)
    return (1 + demand.headroom) * reach_of(rate_per_s, demand.variation, load.window_s)


def _is_fewer(allocation: Allocation, than: Allocation) -> bool:
    return allocation.accelerator == than.accelerator and allocation.replicas < than.replicas


def _words(proposal: Proposal, proposed: Mapping[ResourceKey, Allocation], saving: float) -> str:
    told = {change.resource for change in proposal.changes}
    stands = "as in" if any(str(variant) in told for variant in proposed) else "as now, next to"
    why = f"under {KEEP_BELOW * 100:.0f} %" if saving < KEEP_BELOW else "which noise may need again"
    return (
        f"{stands} open pull request #{proposal.number}: the new optimum would save "
        f"{max(saving, 0.0) * 100:.1f} %, {why}"
    )


def _saving(
    proposed: Mapping[ResourceKey, Allocation], optimum: Allocations, weights: Mapping[CandidateKey, float]
) -> float | None:
    """What the optimum saves of the proposal, as a fraction of what decides between them; free replicas by count.

    None when the proposal holds an accelerator that may not be chosen any more.
    """
    keys = {variant: _candidate_key(variant, allocation) for variant, allocation in proposed.items()}
    if any(key not in weights for key in keys.values()):
        return None
    before = sum(weights[keys[variant]] * allocation.replicas for variant, allocation in proposed.items())
    after = sum(weights[_candidate_key(variant, optimum[variant])] * optimum[variant].replicas for variant in proposed)
    if before <= 0 and after <= 0:
        before = sum(allocation.replicas for allocation in proposed.values())
        after = sum(optimum[variant].replicas for variant in proposed)
    return (before - after) / before if before > 0 else 0.0


def _candidate_key(variant: ResourceKey, allocation: Allocation) -> CandidateKey:
    return variant.on(allocation.accelerator)


MOST_REPLICAS = 1000
"""Of one variant: with 8 devices each they fill a cluster of a thousand nodes. A pool that is counted limits sooner."""
MOST_GROWTH = 10
"""Whoever has more than a hundred may still grow so many times."""


def hold_implausible(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Keep every model as it is of which a variant would get more; before any pass that speaks of its changes."""
    allocations, holds = dict(staged.allocations), dict(staged.holds)
    for keys in situation.formulated.needs.variants_of.values():
        found = _most_implausible(situation, staged, keys)
        if found is None:
            continue
        replicas, most = allocations[found].replicas, _most(situation, found)
        words = f"{found.label} would need {replicas} replicas, more than {most}: what is measured must be wrong"
        for key in keys:
            allocations[key] = situation.current[key]
            holds.setdefault(key, Hold(kind=HoldKind.COUNT_IMPLAUSIBLE, words=words))
    return replace(staged, allocations=allocations, holds=holds)


def _most_implausible(situation: Situation, staged: StagedPlan, keys: Iterable[ResourceKey]) -> ResourceKey | None:
    beyond = [key for key in keys if staged.allocations[key].replicas > _most(situation, key)]
    return max(beyond, key=lambda key: (staged.allocations[key].replicas, key), default=None)


def _most(situation: Situation, key: ResourceKey) -> int:
    return max(MOST_REPLICAS, MOST_GROWTH * situation.current[key].replicas)


MOST_NEEDED = 2.0
"""A move is taken back with at most so many times the replicas that the load needs: texts may lie."""


def keep_promises(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Give variants whose merge broke its promise at least what they had before; keep what was taken back.

    After open pull requests, which may say the opposite; before what judges, drains and waits for devices: what is
    taken back is a change as any other.
    """
    for state in situation.states:
        key, broken = state.variant.key, state.promise
        hold = staged.holds.get(key)
        if broken is None or (hold is not None and hold.kind is not HoldKind.PROFILE_CONTRADICTED):
            continue
        staged = (
            _remember(situation, staged, key, broken) if broken.reverted_by else _revert(situation, staged, key, broken)
        )
    return staged


def _revert(situation: Situation, staged: StagedPlan, key: ResourceKey, broken: BrokenPromise) -> StagedPlan:
    now, aimed = situation.current[key], staged.allocations[key]
    before = _before(situation, key, broken)
    if before is None or before == now:
        words = f"{broken.words}; what was before cannot be chosen now"
        return replace(staged, waiting={key: _hold(words), **staged.waiting})
    if aimed.accelerator != before.accelerator or aimed.replicas < before.replicas:
        aimed = before
    return replace(
        staged,
        allocations={**staged.allocations, key: aimed},
        holds={other: hold for other, hold in staged.holds.items() if other != key},
        kept={other: number for other, number in staged.kept.items() if other != key},
        reasons={**staged.reasons, key: f"goes back to what it had: {broken.words}"},
        reverts={**staged.reverts, key: broken.number},
    )


def _before(situation: Situation, key: ResourceKey, broken: BrokenPromise) -> Allocation | None:
    """What a variant had, as far as its bounds admit it now; None where it may not go back."""
    problem, needs = situation.formulated.problem, situation.formulated.needs
    bounds, replicas = problem.bounds.get(key), broken.least
    if bounds is None:
        return None
    if broken.is_move:
        candidate = key.on(broken.before.accelerator)
        requirement = needs.of_variant(key)
        each = 0.0 if requirement is None else requirement.per_replica.get(candidate, 0.0)
        if requirement is None or each <= 0 or all(offered.key != candidate for offered in problem.candidates):
            return None
        replicas = min(broken.before.replicas, math.ceil(MOST_NEEDED * requirement.amount / each))
    return Allocation(
        accelerator=broken.before.accelerator,
        replicas=bounds.nearest(replicas),
        scaling=situation.current[key].scaling,
    )


def _remember(situation: Situation, staged: StagedPlan, key: ResourceKey, broken: BrokenPromise) -> StagedPlan:
    now, aimed = situation.current[key], staged.allocations[key]
    kept = aimed
    if broken.is_move and aimed.accelerator == broken.after.accelerator != now.accelerator:
        kept = now
    elif (
        not broken.is_move and aimed.accelerator == now.accelerator and aimed.replicas < min(broken.least, now.replicas)
    ):
        kept = replace(now, replicas=broken.least)
    allocations = {**staged.allocations, key: kept}
    if kept == aimed or _is_in_the_way(situation, allocations, key):
        return staged
    return replace(
        staged,
        allocations=allocations,
        waiting={**staged.waiting, key: _hold(broken.words)},
    )


def _is_in_the_way(situation: Situation, allocations: Allocations, key: ResourceKey) -> bool:
    """Whether what is kept takes devices that something more urgent was to get."""
    problem, needs = situation.formulated.problem, situation.formulated.needs
    use = DeviceUse.of(problem)
    taken, own = use.pools(allocations), use.devices(key, allocations[key].accelerator)
    full = {pool.name for pool in problem.pools if pool.name in own and taken[pool.name] > pool.devices}
    urgency = {each: 0 if (need := needs.of_variant(each)) is None else need.priority for each in allocations}
    return any(
        urgency[other] > urgency[key] and full & use.devices(other, after.accelerator).keys()
        for other, after in (allocations.items() if full else ())
        if after.replicas > situation.current[other].replicas
        or after.accelerator != situation.current[other].accelerator
    )


def _hold(words: str) -> Hold:
    return Hold(kind=HoldKind.PROMISE_BROKEN, words=words)


PASSES: tuple[Pass, ...] = (
    hold_implausible,
    tune_autoscalers,
    keep_open_proposals,
    keep_promises,
    keep_to_limits,
    prove_growth,
    keep_serving,
    make_independent,
    obey_rules,
    tell_what_is_kept,
    give_verdicts,
)


def stage(situation: Situation, solution: Solution) -> StagedPlan:
    """What may be proposed of a solution."""
    staged = StagedPlan.aimed_at(situation, solution)
    for each in PASSES:
        staged = each(situation, staged)
    return staged


PLANS, MANY = 4, 1_000
"""How many more plans are made at most, each of which leaves more variants as they are; one of a fleet of so many
variants, whose plans take long."""

DIGITS = 6
"""Of shares that are compared: what is left of them is noise."""

RUNS = 20
"""How many runs a plan is followed; it takes few to its end."""


def stage_reachable(situation: Situation, solve: Callable[[Problem], Solution]) -> tuple[Solution, StagedPlan]:
    """The best solution, and what may be proposed of it; where it never comes to that, of the one that serves most."""
    problem, left = situation.formulated.problem, dict[ResourceKey, Hold]()
    solution = _with_scaling(problem, solve(problem))
    staged = stage(situation, solution)
    best = solution, staged
    if not any(hold.kind is HoldKind.WAITING_FOR_DEVICES for hold in staged.waiting.values()):
        return best
    end = _End.of(situation, solution, staged)
    most = end.served()
    for _ in range(PLANS if len(situation.current) < MANY else 1):
        stuck = end.stuck()
        if not stuck:
            break
        left |= {key: end.waiting[key] for key in stuck}
        # The problem in which some variants stay as they are.
        pinned = {**problem.pinned, **{key: problem.current[key] for key in left}}
        solution = _with_cost_of(
            left,
            problem,
            _with_scaling(
                problem,
                solve(
                    replace(
                        problem,
                        pinned=pinned,
                        candidates=tuple(each for each in problem.candidates if each.key.variant not in pinned),
                        in_order=problem.in_order - pinned.keys(),
                    )
                ),
            ),
        )
        staged = stage(situation, solution)
        end = _End.of(situation, solution, staged)
        served = end.served()
        if served > most:
            most, best = served, (solution, replace(staged, waiting={**left, **staged.waiting}))
    return best


def _with_scaling(problem: Problem, solution: Solution) -> Solution:
    """The solution with the settings of autoscalers as they are, of which solvers know nothing."""
    scaled = {key: now.scaling for key, now in problem.current.items() if now.scaling}
    if not scaled:
        return solution
    kept = {key: replace(each, scaling=scaled.get(key, "")) for key, each in solution.allocations.items()}
    return replace(solution, allocations=kept)


def _with_cost_of(left: Iterable[ResourceKey], problem: Problem, solution: Solution) -> Solution:
    """The solution with what those cost that it leaves as they are, so that it compares with others."""
    cost = math.fsum(problem.current_weights.get(key, 0.0) * problem.current[key].replicas for key in left)
    usual = solution.greedy_value
    return replace(
        solution,
        value=solution.value + cost,
        lower_bound=solution.lower_bound + cost,
        greedy_value=None if usual is None else usual + cost,
    )


@dataclass(frozen=True, slots=True)
class _End:
    """What everybody aims at, what it comes to once nothing moves any more, and who waits then."""

    situation: Situation
    aimed: Allocations
    allocations: Allocations
    waiting: Mapping[ResourceKey, Hold]

    @classmethod
    def of(cls, situation: Situation, solution: Solution, staged: StagedPlan) -> "_End":
        """Where a solution leads: what is held stays, and all new replicas serve one run after their merge."""
        aimed = {
            key: now if key in staged.holds else solution.allocations.get(key, now)
            for key, now in situation.current.items()
        }
        at, waiting = situation.current, staged.waiting
        for _ in range(RUNS):
            there = _at(situation, at)
            after = make_independent(there, keep_serving(there, StagedPlan(allocations=aimed, holds={})))
            waiting = after.waiting
            if after.allocations == at:
                break
            at = after.allocations
        return cls(situation, aimed, at, waiting)

    def stuck(self) -> set[ResourceKey]:
        """Who waits for devices while others are short: those of models that have enough, else the least urgent."""
        needs = self.situation.formulated.needs
        if not any(self._is_short(model) for model in needs.requirements):
            return set()
        waiting = {
            key
            for key, hold in self.waiting.items()
            if hold.kind is HoldKind.WAITING_FOR_DEVICES
            and key in needs.owner_of
            and _adds(self.allocations[key], self.aimed[key])
        }
        enough = {key for key in waiting if not self._is_short(needs.owner_of[key])}
        least = min((needs.requirements[needs.owner_of[key]].priority for key in waiting), default=0)
        return enough or {key for key in waiting if needs.requirements[needs.owner_of[key]].priority == least}

    def served(self) -> tuple[float, ...]:
        """What the models get of what they need, the most urgent level first: by level its least share, and all."""
        needs, shares = self.situation.formulated.needs, dict[int, list[float]]()
        for model, requirement in needs.requirements.items():
            share = needs.total(model, self.allocations) / requirement.amount if requirement.amount > 0 else 1.0
            shares.setdefault(requirement.priority, []).append(round(min(share, 1.0), DIGITS))
        levels = (shares[priority] for priority in sorted(shares, reverse=True))
        return tuple(each for level in levels for each in (min(level), round(sum(level), DIGITS)))

    def _is_short(self, model: ModelKey) -> bool:
        """Whether a model gets less than it needs, and was meant to get more."""
        needs = self.situation.formulated.needs
        wanted = min(needs.requirements[model].amount, needs.total(model, self.aimed))
        return needs.total(model, self.allocations) < wanted * (1 - TOLERANCE)


def _adds(before: Allocation, after: Allocation) -> bool:
    return after.replicas > (before.replicas if after.accelerator == before.accelerator else 0)


def _at(situation: Situation, current: Allocations) -> Situation:
    """The situation in which all of that runs and serves, and nothing is proposed."""
    problem = replace(situation.formulated.problem, current=current, ready={})
    nothing = dict.fromkeys(situation.proposals, ())
    return replace(situation, formulated=replace(situation.formulated, problem=problem), proposals=nothing)
