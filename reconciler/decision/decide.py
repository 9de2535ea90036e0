"""The pure heart: a snapshot in, a plan out. Same snapshot, same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.decision.assessment import assess_variants
from reconciler.decision.context import DecisionContext
from reconciler.decision.engines.port import EngineAnswer, SizingInput
from reconciler.decision.engines.registry import size_models
from reconciler.decision.explanation.chain import FiguresOnDemand
from reconciler.decision.explanation.decisions import decision_for
from reconciler.decision.problem.devices import Devices, scarcity_assumed
from reconciler.decision.problem.formulation import FormulatedProblem, formulate
from reconciler.decision.problem.model_problem import ModelProblem, load_variations
from reconciler.decision.projection import Projection
from reconciler.decision.staging.devices import wait_for_devices
from reconciler.decision.staging.draining import keep_serving
from reconciler.decision.staging.groups import head_branch
from reconciler.decision.staging.independence import make_independent
from reconciler.decision.staging.proposals import blocked_group, open_by_group, settle_with_open
from reconciler.decision.variant_states import VariantState, is_counted
from reconciler.domain.allocations import Allocation
from reconciler.domain.declared.declarations import BrokenResource
from reconciler.domain.engines import Engine
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import Decision, GroupPlan, Outcome, Plan, Totals, Verdict, VerdictKind
from reconciler.domain.proposals import ProposalState
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.solutions import Solution
from reconciler.domain.variant_settings import GROUP
from reconciler.optimizer import SOLVERS

SOLVER = "auto"


def decide(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold] | None = None) -> Plan:
    """A decision for every variant of the snapshot.

    `refused` are changes that a draft could not write, with the reason: those variants stay as they are, so that
    the plan that is shown is the plan that is written. Reads no clock, no file and no network.
    """
    states = assess_variants(snapshot, refused or {})
    variations = load_variations((state.variant for state in states), snapshot)
    devices = Devices.of(snapshot)
    answers = size_models(SizingInput(snapshot=snapshot, devices=devices, variations=variations), states)
    formulated = formulate(states, _models(answers), devices, snapshot.settings.objective)
    solution = SOLVERS[SOLVER].solve(formulated.problem)
    allocations = {state.variant.key: _allocation(solution, state) for state in states}
    groups = {state.variant.settings[GROUP].value for state in states}
    proposals = open_by_group(snapshot.proposals, groups, snapshot.settings.git.branch_prefix)
    staged = keep_serving(formulated, settle_with_open(states, formulated, allocations, proposals))
    staged = make_independent(states, formulated.needs, staged)
    staged = wait_for_devices(states, formulated, staged, proposals)
    context = DecisionContext(
        snapshot=snapshot,
        answers=answers,
        formulated=formulated,
        variations=variations,
        solution=solution,
        staged=staged,
        before=Projection(formulated.needs, answers.values(), formulated.problem.current),
        after=Projection(formulated.needs, answers.values(), staged.allocations),
        shortfalls={shortfall.model: shortfall for shortfall in solution.shortfalls},
        held=_held(formulated, solution),
    )
    decisions = [
        *(decision_for(context, state) for state in states),
        *(_broken(snapshot, broken) for broken in snapshot.broken),
    ]
    return _plan(context, states, decisions)


def _models(answers: Mapping[Engine, EngineAnswer]) -> dict[ModelKey, ModelProblem]:
    return {model: problem for answer in answers.values() for model, problem in answer.problems.items()}


def _held(formulated: FormulatedProblem, solution: Solution) -> dict[ResourceKey, Hold]:
    """What nothing could be chosen for: for itself, for rules that contradict each other, or for lack of any plan."""
    unsolved = solution.reasons if solution.is_unsolved else {}
    held = {key: Hold(kind=HoldKind.SEARCH_UNFINISHED, words=words) for key, words in unsolved.items()}
    for conflict in solution.conflicts:
        members = (key for model in conflict.models for key in formulated.needs.variants_of.get(model, ()))
        held |= dict.fromkeys(members, Hold(kind=HoldKind.RULES_CONFLICT, words=conflict.reason))
    return {**held, **formulated.holds}


def _allocation(solution: Solution, state: VariantState) -> Allocation:
    """What the solution says; where it is silent, what stands in Git."""
    return solution.allocations.get(state.variant.key, state.variant.current)


def _broken(snapshot: Snapshot, broken: BrokenResource) -> Decision:
    """A resource that could not be read is shown as held, in the group its namespace suggests."""
    nothing = Allocation(accelerator="", replicas=0)
    return Decision(
        variant=broken.key,
        model=ModelKey(cluster=broken.key.cluster, namespace=broken.key.namespace, model_id=""),
        group=_group_of_broken(snapshot, broken.key),
        outcome=Outcome.HELD,
        current=nothing,
        desired=nothing,
        verdict=Verdict(kind=VerdictKind.HOLD, reason=broken.reason),
        steps=(),
        hold=Hold(kind=HoldKind.RESOURCE_UNREADABLE, words=broken.reason, place=broken.place),
        place=str(broken.place),
    )


def _group_of_broken(snapshot: Snapshot, key: ResourceKey) -> str:
    subject = {"cluster": key.cluster, "namespace": key.namespace}
    values = (subject.get(name, "none") for name in snapshot.settings.pull_requests.group_by)
    return "/".join(values) or "all"


def _plan(context: DecisionContext, states: Sequence[VariantState], decisions: Sequence[Decision]) -> Plan:
    snapshot = context.snapshot
    lacking = _lacking(context, states)
    return Plan(
        now_s=snapshot.now_s,
        repository=snapshot.repository,
        branch=snapshot.branch,
        commit=snapshot.commit,
        recording=snapshot.fingerprint,
        currency=snapshot.settings.currency,
        groups=tuple(_group(context, name, members, lacking) for name, members in _by_group(decisions).items()),
        totals=_totals(snapshot, decisions),
        solver=context.solution.solver or SOLVER,
        solve_status=context.solution.status,
        gap=context.solution.gap,
        objective=snapshot.settings.objective,
        assumptions=_assumptions(snapshot, decisions),
        findings=snapshot.findings,
        failures=snapshot.observed.failures,
        warnings=snapshot.observed.warnings,
        notes=tuple(dict.fromkeys(decision.caution for decision in decisions if decision.caution)),
        value=context.solution.value,
        shared=context.solution.shared,
        greedy_value=context.solution.greedy_value,
        sensitivity=context.solution.sensitivity,
        figures=FiguresOnDemand(context, states),
    )


def _lacking(context: DecisionContext, states: Sequence[VariantState]) -> dict[str, Hold]:
    """Why an open pull request keeps what it says of a resource, by str of the resource's key.

    Its metrics are missing, or its live replicas stay away from Git. Where only a part of its load was seen, only a
    pull request that asks for more than the part does is kept.
    """
    snapshot = context.snapshot
    proposed = {
        change.resource: change.replicas_after
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for change in proposal.changes
    }
    lowered = {
        key: hold
        for key, hold in context.formulated.partial.items()
        if context.staged.allocations[key].replicas < proposed.get(str(key), 0)
    }
    unread = {
        broken.key: Hold(kind=HoldKind.RESOURCE_UNREADABLE, words=broken.reason, place=broken.place)
        for broken in snapshot.broken
    }
    kept = {state.variant.key: hold for state in states for hold in reversed(state.holds) if hold.kind.keeps_proposals}
    return {str(key): _in_short(key, hold) for key, hold in {**lowered, **unread, **kept}.items()}


def _in_short(key: ResourceKey, hold: Hold) -> Hold:
    is_drifted = hold.kind is HoldKind.DRIFTED
    words = f"live replicas of {key} stay away from Git" if is_drifted else f"metrics of {key} are missing"
    return replace(hold, words=words)


def _by_group(decisions: Sequence[Decision]) -> dict[str, list[Decision]]:
    groups: dict[str, list[Decision]] = {}
    for decision in sorted(decisions, key=lambda each: (each.group, each.variant)):
        groups.setdefault(decision.group, []).append(decision)
    return groups


def _group(
    context: DecisionContext, name: str, decisions: Sequence[Decision], lacking: Mapping[str, Hold]
) -> GroupPlan:
    settings = context.snapshot.settings
    changes = [decision for decision in decisions if decision.outcome is Outcome.CHANGE]
    branch = head_branch(settings.git.branch_prefix, name)
    proposals = [proposal for proposal in context.snapshot.proposals if proposal.head_branch == branch]
    return GroupPlan(
        name=name,
        head_branch=branch,
        decisions=tuple(decisions),
        kept_proposal=context.staged.kept.get(name),
        blocked=blocked_group(
            changes, proposals, lacking, context.snapshot.now_s, settings.pull_requests.reopen_after_s
        ),
    )


def _totals(snapshot: Snapshot, decisions: Sequence[Decision]) -> Totals:
    """Sums over every variant whose replicas Git tells; None as soon as one price is missing."""
    counted = {variant.key for variant in snapshot.variants if is_counted(variant)}
    before = [each.cost_before_per_hour for each in decisions if each.variant in counted]
    after = [each.cost_after_per_hour for each in decisions if each.variant in counted]
    return Totals(cost_before_per_hour=_sum(before), cost_after_per_hour=_sum(after))


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 6) if len(known) == len(costs) else None


def _assumptions(snapshot: Snapshot, decisions: Sequence[Decision]) -> tuple[str, ...]:
    unpriced = [each for each in decisions if each.cost_before_per_hour is None]
    models = {variant.model for variant in snapshot.variants}
    without_slo = {variant.model for variant in snapshot.variants if variant.service_class is None}
    words = [str(each) for each in snapshot.settings.assumed]
    if unpriced:
        words.append(f"cost of {len(unpriced)} of {len(decisions)} variants unknown")
    if without_slo:
        words.append(f"{len(without_slo)} of {len(models)} models have no SLO")
    words.extend(scarcity_assumed(snapshot))
    return tuple(words)
