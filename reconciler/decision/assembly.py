"""The plan put together from its decisions: groups, totals, and what was taken for granted."""

from collections.abc import Sequence

from reconciler.decision.context import DecisionContext
from reconciler.decision.explanation.chain import FiguresOnDemand
from reconciler.decision.problem.devices import scarcity_assumed
from reconciler.decision.staging.staged_plan import head_branch
from reconciler.decision.variant_states import is_counted
from reconciler.domain.plan import Decision, GroupPlan, Plan, TotalCost
from reconciler.domain.snapshot import Snapshot

DIGITS = 6
"""Of sums of money, in the plan: what is left of them differs from machine to machine."""


def assemble(context: DecisionContext, decisions: Sequence[Decision], *, solver: str) -> Plan:
    """The plan of these decisions, which `solver` made."""
    snapshot, solution = context.snapshot, context.solution
    return Plan(
        now_s=snapshot.now_s,
        repository=snapshot.repository,
        branch=snapshot.branch,
        commit=snapshot.commit,
        recording=snapshot.fingerprint,
        currency=snapshot.settings.currency,
        groups=_groups(context, decisions),
        totals=_totals(snapshot, decisions),
        solver=solver,
        solve_status=solution.status,
        gap=solution.gap,
        objective=snapshot.settings.objective,
        assumptions=_assumptions(snapshot, decisions),
        findings=snapshot.findings,
        failures=snapshot.observed.failures,
        refusals=snapshot.observed.refusals,
        warnings=snapshot.observed.warnings,
        notes=tuple(dict.fromkeys(decision.caution for decision in decisions if decision.caution)),
        value=round(solution.value, DIGITS),
        shared=solution.shared,
        greedy_value=None if solution.greedy_value is None else round(solution.greedy_value, DIGITS),
        sensitivity=solution.sensitivity,
        coverages=solution.coverages,
        figures=FiguresOnDemand(context, context.situation.states),
    )


def _groups(context: DecisionContext, decisions: Sequence[Decision]) -> tuple[GroupPlan, ...]:
    groups: dict[str, list[Decision]] = {}
    for decision in sorted(decisions, key=lambda each: (each.group, each.variant)):
        groups.setdefault(decision.group, []).append(decision)
    prefix = context.snapshot.settings.git.branch_prefix
    return tuple(
        GroupPlan(
            name=name,
            head_branch=head_branch(prefix, name),
            decisions=tuple(members),
            kept_proposal=context.staged.kept.get(name),
            blocked=context.staged.blocked.get(name),
        )
        for name, members in groups.items()
    )


def _totals(snapshot: Snapshot, decisions: Sequence[Decision]) -> TotalCost:
    """Sums over every variant whose replicas Git tells; None as soon as one price is missing."""
    counted = {variant.key for variant in snapshot.variants if is_counted(variant)}
    before = [each.cost_before_per_hour for each in decisions if each.variant in counted]
    after = [each.cost_after_per_hour for each in decisions if each.variant in counted]
    return TotalCost(cost_before_per_hour=_sum(before), cost_after_per_hour=_sum(after))


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), DIGITS) if len(known) == len(costs) else None


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
