"""The pure heart: a snapshot in, a plan out. The same snapshot gives the same bytes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.decision.assessment import assess_variants
from reconciler.decision.canaries import why_not_tried, with_orders
from reconciler.decision.devices import Devices, scarcity_assumed
from reconciler.decision.engines.port import EngineAnswer, SizingInput
from reconciler.decision.engines.registry import size_models, way_of
from reconciler.decision.engines.trials import find_trials, size_trials
from reconciler.decision.explanation import (
    DecisionContext,
    FiguresOnDemand,
    HistoriesOnDemand,
    Projection,
    asked_prometheus,
    brief_decision,
    broken_decision,
    decision_for,
)
from reconciler.decision.formulation import ModelDemand, formulate, past_variations, with_shared_rules
from reconciler.decision.groups import Bonds, group_plans
from reconciler.decision.guarding import Guard
from reconciler.decision.load_variation import LoadVariation
from reconciler.decision.passes import stage_reachable
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.verdicts import tell_what_is_full
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import Decision, Outcome, Plan, TotalCost
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Solution, Solver
from reconciler.domain.rules import Rule
from reconciler.domain.snapshot import Form, Snapshot
from reconciler.domain.units import significant
from reconciler.domain.variant_settings import Engine
from reconciler.manifests.wording import join_words, name_first
from reconciler.optimizer.fleet import COLUMNS, DIRECT, AutoSolver
from reconciler.optimizer.separable import SeparableSolver
from reconciler.policy.judging import unreadable
from reconciler.snapshot.canaries import is_canary
from reconciler.upstream.inferno import OptimalSolver, PriorityGreedySolver, WeightedGreedySolver

# The solvers by name. `auto` decides each model alone where that fits into what they share (`separable`, exact), else
# all together by prices (`columns`); `milp` is one program over all; `inferno-weighted` and `inferno-priority`
# reproduce what inferno decided where devices are scarce, `inferno-optimal` is the optimum that these approach.

SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        *(AutoSolver(inferno=OptimalSolver()), SeparableSolver(), COLUMNS, DIRECT),
        *(WeightedGreedySolver(), PriorityGreedySolver(), OptimalSolver()),
    )
}


SOLVER = "auto"
SHOWN = 3
"""Of names in one sentence."""
DIGITS = 6
"""Of sums of money, in the plan: what is left of them differs from machine to machine."""


def decide(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold] | None = None, bonds: Bonds = ()) -> Plan:
    """A decision for every variant of the snapshot.

    `refused` are changes that a draft could not write, with the reason: those variants stay as they are, so that
    the plan that is shown is the plan that is written. `bonds` are changes whose edits touch each other, which one
    pull request must hold. Reads no clock, no file and no network.
    """
    solved = solve(snapshot, refused or {})
    return solved.plan_of(solved.staged, bonds)


def decide_under(snapshot: Snapshot, rules: Iterable[Rule]) -> Mapping[ResourceKey, Decision]:
    """What would be decided under other rules."""
    plan = decide(replace(snapshot, settings=replace(snapshot.settings, rules=tuple(rules))))
    return {each.variant: each for each in plan.decisions}


def find_stopping(
    snapshot: Snapshot, rules: Sequence[Rule], variants: Iterable[ResourceKey]
) -> Iterator[tuple[ResourceKey, Rule]]:
    """The first rule without which each of the variants would change; it takes a plan for each rule."""
    left = list(variants)
    for rule in rules:
        if not left:
            return
        without = decide_under(snapshot, (each for each in rules if each is not rule))
        found = [key for key in left if without[key].outcome is Outcome.CHANGE]
        yield from ((key, rule) for key in found)
        left = [key for key in left if key not in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A snapshot with its problem and what solves it: every plan of the same snapshot begins here."""

    situation: Situation
    answers: Mapping[Engine, EngineAnswer]
    variations: Mapping[ModelKey, LoadVariation]
    solution: Solution
    staged: StagedPlan
    """What may be proposed of it."""

    def plan_of(self, staged: StagedPlan, bonds: Bonds = ()) -> Plan:
        """The plan that gives every variant what is staged."""
        context = self._context(staged)
        solver = self.solution.solver or SOLVER
        decisions = list(self._decisions(context))
        plan = assemble(context, decisions, solver=solver, bonds=bonds)
        snapshot = self.situation.snapshot
        trials = find_trials(size_trials(snapshot, decisions), snapshot)
        return replace(plan, trials=tuple(replace(each, obstacle=why_not_tried(snapshot, each)) for each in trials))

    def brief_plan_of(self, staged: StagedPlan) -> Plan:
        """The same without explanations and totals, for replays: only what changes has all its numbers."""
        states = self.situation.states
        changed = {
            each.variant.model for each in states if staged.outcome(self.situation, each.variant.key) is Outcome.CHANGE
        }
        context = self._context(staged, changed)
        decisions = [brief_decision(context, state) for state in states]
        broken = [broken_decision(context, broken) for broken in self.situation.snapshot.broken]
        return assemble(context, [*decisions, *broken], solver=self.solution.solver or SOLVER)

    def decisions_of(self, staged: StagedPlan) -> "DecisionsOnDemand":
        """The decisions of that plan alone."""
        return DecisionsOnDemand(self._context(staged))

    def _decisions(self, context: DecisionContext) -> Iterator[Decision]:
        yield from (decision_for(context, state) for state in self.situation.states)
        yield from (broken_decision(context, broken) for broken in self.situation.snapshot.broken)

    def _context(self, staged: StagedPlan, models: Collection[ModelKey] | None = None) -> DecisionContext:
        """With what is expected of `models`, None for all."""
        needs, answers = self.situation.formulated.needs, self.answers.values()
        asked = needs.requirements if models is None else models
        return DecisionContext(
            situation=self.situation,
            answers=self.answers,
            variations=self.variations,
            solution=self.solution,
            staged=staged,
            before=Projection(needs, answers, self.situation.current, asked),
            after=Projection(needs, answers, staged.allocations, asked),
            shortfalls={shortfall.model: shortfall for shortfall in self.solution.shortfalls},
        )


class DecisionsOnDemand(Mapping[ResourceKey, Decision]):
    """The decisions of a plan by resource, each made when it is read; replicas and costs are known without that."""

    def __init__(self, context: DecisionContext) -> None:
        self._context = context
        self._states = {state.variant.key: state for state in context.situation.states}
        self._broken = {broken.key: broken for broken in context.situation.snapshot.broken}
        self._made: dict[ResourceKey, Decision] = {}

    def __getitem__(self, key: ResourceKey) -> Decision:
        made = self._made.get(key)
        if made is None:
            broken = self._broken.get(key)
            context = self._context
            made = decision_for(context, self._states[key]) if broken is None else broken_decision(context, broken)
            self._made[key] = made
        return made

    def __iter__(self) -> Iterator[ResourceKey]:
        return iter({**self._states, **self._broken})

    def __len__(self) -> int:
        return len(self._states.keys() | self._broken.keys())

    def replicas_on(self, key: ResourceKey, accelerator: str) -> int | None:
        """The replicas that a variant gets there; None where it is held, or gets another accelerator."""
        staged = self._context.staged
        is_held = key in self._broken or staged.outcome(self._context.situation, key) is Outcome.HELD
        given = staged.allocations.get(key)
        return None if is_held or given is None or given.accelerator != accelerator else given.replicas

    def costs_of(self, key: ResourceKey) -> tuple[float | None, float | None]:
        """What a variant costs per hour before and after, as its decision says it."""
        if key in self._broken:
            return None, None
        variant = self._states[key].variant
        costs = variant.cost_of(variant.current), variant.cost_of(self._context.staged.allocations[key])
        before, after = (None if cost is None else significant(cost) for cost in costs)
        return before, after


def solve(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold]) -> Solved:
    """Pose the problem of a snapshot, in which `refused` stay as they are, and solve it."""
    states = assess_variants(snapshot, refused)
    devices = Devices.of(snapshot)
    guard = Guard.of(snapshot, states, devices)
    states = guard.held(states)
    variations = past_variations((state.variant for state in states), snapshot)
    answers = size_models(SizingInput(snapshot=snapshot, devices=devices, variations=variations), states)
    models = {model: problem for answer in answers.values() for model, problem in answer.problems.items()}
    formulated = with_shared_rules(formulate(states, models, devices, guard, snapshot.settings.objective))
    situation = Situation.of(snapshot, states, formulated)
    solution, staged = stage_reachable(situation, SOLVERS[SOLVER].solve)
    staged = tell_what_is_full(situation, solution, staged)
    return Solved(situation=situation, answers=answers, variations=variations, solution=solution, staged=staged)


def ordered(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot with the canaries that its plan wants started or taken back; the same one without any."""
    is_open = any(not each.replicas_before for one in snapshot.proposals if one.is_open for each in one.changes)
    if not plan.trials and not is_open and not any(map(is_canary, snapshot.variants)):
        return snapshot
    return with_orders(snapshot, size_trials(snapshot, plan.decisions), plan.decisions)


def assemble(context: DecisionContext, decisions: Sequence[Decision], *, solver: str, bonds: Bonds = ()) -> Plan:
    """The plan of these decisions, which `solver` made."""
    snapshot, solution = context.snapshot, context.solution
    # Sums over every variant whose replicas Git tells; None as soon as one price is missing.
    counted = {variant.key for variant in snapshot.variants if variant.is_counted}
    before = [each.cost_before_per_hour for each in decisions if each.variant in counted]
    after = [each.cost_after_per_hour for each in decisions if each.variant in counted]
    return Plan(
        now_s=snapshot.now_s,
        repository=snapshot.repository,
        branch=snapshot.branch,
        commit=snapshot.commit,
        recording=snapshot.fingerprint,
        currency=snapshot.settings.currency,
        groups=group_plans(context.situation, context.staged, decisions, bonds),
        totals=TotalCost(cost_before_per_hour=_sum(before), cost_after_per_hour=_sum(after)),
        solver=solver,
        solve_status=solution.status,
        gap=significant(solution.gap),
        shortage_gap=None if solution.shortage_gap is None else significant(solution.shortage_gap),
        objective=snapshot.settings.objective,
        assumptions=_assumptions(snapshot, decisions),
        findings=(*snapshot.findings, *unreadable(snapshot.settings.rules)),
        failures=snapshot.observed.failures,
        refusals=snapshot.observed.refusals,
        warnings=snapshot.observed.warnings,
        notes=(
            *(() if snapshot.share is None else (snapshot.share.words,)),
            *_forecasts(context.formulated.demands),
            *dict.fromkeys(decision.caution for decision in decisions if decision.caution),
        ),
        unmanaged=tuple(each.key for each in snapshot.unmanaged),
        is_part=snapshot.share is not None,
        value=round(solution.value, DIGITS),
        shared=solution.shared,
        greedy_value=None if solution.greedy_value is None else round(solution.greedy_value, DIGITS),
        sensitivity=solution.sensitivity,
        coverages=solution.coverages,
        histories=HistoriesOnDemand(snapshot),
        expected={
            model: demand.forecast.expected
            for model, demand in context.formulated.demands.items()
            if demand.forecast is not None
        },
        asked=asked_prometheus(snapshot),
        figures=FiguresOnDemand(context, context.situation.states),
    )


def _forecasts(demands: Mapping[ModelKey, ModelDemand]) -> Iterator[str]:
    """Of how many models demand is a load that is expected, and when."""
    found = Counter(
        f"{each.forecast.told_window}, from {each.forecast.days:.0f} days"
        for each in demands.values()
        if each.forecast is not None
    )
    for words, models in found.items():
        yield f"Demand of {models} of {len(demands)} models is the load expected {words}."


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), DIGITS) if len(known) == len(costs) else None


def _relative_costs(snapshot: Snapshot) -> Iterator[str]:
    """Which costs are no money, and the line that gives them a price."""
    relative = [each for each in snapshot.variants if each.relative_cost is not None]
    unpriced = [each for each in relative if each.current_cost_per_hour is None]
    if not unpriced:
        return
    first = [f"{each.key.label} {each.relative_cost:g}" for each in unpriced[:SHOWN]]
    names = sorted({each.current.accelerator for each in unpriced} - {""})[:SHOWN] or ["H100"]
    line = ", ".join(f"{{name: {name}, costPerHour: ...}}" for name in names)
    yield (
        f"relative costs ({name_first(first, len(unpriced))}) rank variants of one model and are no money: "
        f"accelerators: [{line}] in reconciler.yaml makes them money"
    )


def _assumptions(snapshot: Snapshot, decisions: Sequence[Decision]) -> tuple[str, ...]:
    unpriced = [each for each in decisions if each.cost_before_per_hour is None]
    models = {variant.model for variant in snapshot.variants}
    without_slo = {variant.model for variant in snapshot.variants if variant.service_class is None}
    words = [str(each) for each in snapshot.settings.assumed]
    if unpriced:
        words.append(f"cost of {len(unpriced)} of {len(decisions)} variants unknown")
    words.extend(_relative_costs(snapshot))
    if without_slo:
        words.append(f"{len(without_slo)} of {len(models)} models have no SLO")
    words.extend(_how_adopted_are_sized(snapshot, decisions))
    words.extend(scarcity_assumed(snapshot))
    return tuple(words)


def _how_adopted_are_sized(snapshot: Snapshot, decisions: Sequence[Decision]) -> Iterator[str]:
    """Of the workloads that nobody gave anything to be sized by: which way each is sized now."""
    learned = {
        each.key: any(option.profile.learning is not None for option in each.options)
        for each in snapshot.variants
        if each.form is Form.ADOPTED and not is_canary(each)
    }
    sized = [each for each in decisions if each.variant in learned and each.outcome is not Outcome.HELD]
    ways = Counter(way_of(each.engine, is_learned=learned[each.variant]) for each in sized)
    if ways:
        shares = join_words([f"{way} ({number})" for way, number in sorted(ways.items())], "and")
        yield f"adopted workloads are sized by {shares}"
