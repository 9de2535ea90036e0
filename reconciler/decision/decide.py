"""The pure heart: a snapshot in, a plan out. Same snapshot, same bytes."""

from collections.abc import Mapping, Sequence

from reconciler.decision.answers import answer
from reconciler.decision.capacities import Capacities
from reconciler.decision.case import Case
from reconciler.decision.draining import keep_serving
from reconciler.decision.groups import head_branch
from reconciler.decision.independence import make_independent
from reconciler.decision.narration import decision_for
from reconciler.decision.outlook import Outlook
from reconciler.decision.problems import Posed, pose, rows_of
from reconciler.decision.proposals import blocked_group, open_by_group, settle_with_open
from reconciler.decision.scarcity import scarcity_assumed
from reconciler.decision.standing import Standing, is_counted, standings_of
from reconciler.decision.waiting import wait_for_devices
from reconciler.domain.allocations import Allocation
from reconciler.domain.declarations import BrokenResource
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import Decision, GroupPlan, Outcome, Plan, Totals, Verdict, VerdictKind
from reconciler.domain.proposals import ProposalState
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.solutions import Solution
from reconciler.optimizer import SOLVERS

SOLVER = "auto"


def decide(snapshot: Snapshot, refused: Mapping[ResourceKey, str] | None = None) -> Plan:
    """A decision for every variant of the snapshot.

    `refused` are changes that a draft could not write, with the reason: those variants stay as they are, so that
    the plan that is shown is the plan that is written. Reads no clock, no file and no network.
    """
    standings = standings_of(snapshot, refused or {})
    capacities = Capacities(rows_of(standings))
    posed = pose(standings, capacities, answer(snapshot, standings), snapshot)
    solution = SOLVERS[SOLVER].solve(posed.problem)
    allocations = {standing.variant.key: _allocation(solution, standing) for standing in standings}
    groups = {standing.variant.settings.group.value for standing in standings}
    proposals = open_by_group(snapshot.proposals, groups, snapshot.settings.git.branch_prefix)
    settled = keep_serving(posed, settle_with_open(standings, posed, allocations, proposals))
    settled = make_independent(standings, posed.needs, settled)
    settled = wait_for_devices(standings, posed, settled, proposals)
    case = Case(
        snapshot=snapshot,
        capacities=capacities,
        posed=posed,
        solution=solution,
        settled=settled,
        before=Outlook(posed.needs, capacities, posed.problem.current),
        after=Outlook(posed.needs, capacities, settled.allocations),
        shortfalls={shortfall.model: shortfall for shortfall in solution.shortfalls},
        held=_held(posed, solution),
    )
    decisions = [
        *(decision_for(case, standing) for standing in standings),
        *(_broken(snapshot, broken) for broken in snapshot.broken),
    ]
    return _plan(case, standings, decisions)


def _held(posed: Posed, solution: Solution) -> dict[ResourceKey, str]:
    """What nothing could be chosen for: for itself, for rules that contradict each other, or for lack of any plan."""
    held = dict(solution.reasons) if solution.is_unsolved else {}
    for conflict in solution.conflicts:
        members = (key for model in conflict.models for key in posed.needs.variants_of.get(model, ()))
        held |= dict.fromkeys(members, conflict.reason)
    return {**held, **posed.stuck}


def _allocation(solution: Solution, standing: Standing) -> Allocation:
    """What the solution says; where it is silent, what stands in Git."""
    return solution.allocations.get(standing.variant.key, standing.variant.current)


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
        reason=broken.reason,
        place=str(broken.place),
    )


def _group_of_broken(snapshot: Snapshot, key: ResourceKey) -> str:
    subject = {"cluster": key.cluster, "namespace": key.namespace}
    values = (subject.get(name, "none") for name in snapshot.settings.pull_requests.group_by)
    return "/".join(values) or "all"


def _plan(case: Case, standings: Sequence[Standing], decisions: Sequence[Decision]) -> Plan:
    snapshot = case.snapshot
    lacking = _lacking(case, standings)
    return Plan(
        now_s=snapshot.now_s,
        repository=snapshot.repository,
        branch=snapshot.branch,
        commit=snapshot.commit,
        recording=snapshot.fingerprint,
        currency=snapshot.settings.currency,
        groups=tuple(_group(case, name, members, lacking) for name, members in _by_group(decisions).items()),
        totals=_totals(snapshot, decisions),
        solver=case.solution.solver or SOLVER,
        solve_status=case.solution.status,
        gap=case.solution.gap,
        objective=snapshot.settings.objective,
        assumptions=_assumptions(snapshot, decisions),
        findings=snapshot.findings,
        failures=snapshot.failures,
        warnings=snapshot.warnings,
        notes=tuple(dict.fromkeys(decision.caution for decision in decisions if decision.caution)),
        value=case.solution.value,
        shared=case.solution.shared,
        greedy_value=case.solution.greedy_value,
        sensitivity=case.solution.sensitivity,
    )


def _lacking(case: Case, standings: Sequence[Standing]) -> dict[str, str]:
    """Resources that an open proposal must not lose a value of, with what is wrong with what was seen of them.

    Where only a part of the load was seen, that is a value which that part alone would lower.
    """
    snapshot = case.snapshot
    proposed = {
        change.resource: change.replicas_after
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for change in proposal.changes
    }
    lowered = (key for key in case.posed.partial if case.settled.allocations[key].replicas < proposed.get(str(key), 0))
    unknown = (standing.variant.key for standing in standings if standing.lacks_metrics)
    unread = (broken.key for broken in snapshot.broken)
    missing = {str(key): f"metrics of {key} are missing" for key in (*unknown, *unread, *lowered)}
    astray = (standing.variant.key for standing in standings if standing.is_stray)
    return missing | {str(key): f"live replicas of {key} stay away from Git" for key in astray}


def _by_group(decisions: Sequence[Decision]) -> dict[str, list[Decision]]:
    groups: dict[str, list[Decision]] = {}
    for decision in sorted(decisions, key=lambda each: (each.group, each.variant)):
        groups.setdefault(decision.group, []).append(decision)
    return groups


def _group(case: Case, name: str, decisions: Sequence[Decision], lacking: Mapping[str, str]) -> GroupPlan:
    settings = case.snapshot.settings
    changes = [decision for decision in decisions if decision.outcome is Outcome.CHANGE]
    branch = head_branch(settings.git.branch_prefix, name)
    proposals = [proposal for proposal in case.snapshot.proposals if proposal.head_branch == branch]
    return GroupPlan(
        name=name,
        head_branch=branch,
        decisions=tuple(decisions),
        kept_proposal=case.settled.kept.get(name),
        blocked=blocked_group(changes, proposals, lacking, case.snapshot.now_s, settings.pull_requests.reopen_after_s),
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
    words = list(snapshot.settings.assumed)
    if unpriced:
        words.append(f"cost of {len(unpriced)} of {len(decisions)} variants unknown")
    if without_slo:
        words.append(f"{len(without_slo)} of {len(models)} models have no SLO")
    words.extend(scarcity_assumed(snapshot))
    return tuple(words)
