"""The plan as one document in base units, for programs: what is unknown or infinite is null."""

import math
from collections.abc import Mapping

from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Performance
from reconciler.domain.plan import Decision, Fullness, GroupPlan, MergeTerms, Plan, SloProjection, Step
from reconciler.domain.priors import Trial
from reconciler.domain.proposals import ConditionFlip
from reconciler.domain.requirements import Sensitivity, SharedUse
from reconciler.report.findings import finding_json

VERSION = 1

Json = Mapping[str, object]


def plan_json(plan: Plan) -> dict[str, object]:
    """Everything in the plan, in its own order; equal plans give equal documents."""
    return {**plan_members(plan), "groups": [_group(group) for group in plan.groups]}


def plan_members(plan: Plan) -> dict[str, object]:
    """The same with an iterator for the groups, which makes each when it is written."""
    return {
        "version": VERSION,
        "now_s": _number(plan.now_s),
        "repository": plan.repository,
        "branch": plan.branch,
        "commit": plan.commit,
        "recording": plan.recording,
        "currency": plan.currency,
        "counts": dict(plan.tally),
        "cost_before_per_hour": _number(plan.totals.cost_before_per_hour),
        "cost_after_per_hour": _number(plan.totals.cost_after_per_hour),
        "solver": solver_json(plan),
        "assumptions": list(plan.assumptions),
        "findings": [finding_json(finding) for finding in plan.findings],
        "failures": list(plan.failures),
        "refusals": list(plan.refusals),
        "warnings": list(plan.warnings),
        "notes": list(plan.notes),
        **({"trials": [_trial(each) for each in plan.trials]} if plan.trials else {}),
        "unmanaged": [str(each) for each in plan.unmanaged],
        "groups": map(_group, plan.groups),
    }


def solver_json(plan: Plan) -> Json:
    """What decided, what is proven of it, what is shared, and how the plan bears surprises."""
    return {
        "name": plan.solver,
        "status": str(plan.solve_status),
        "gap": _number(plan.gap),
        "shortage_gap": _number(plan.shortage_gap),
        "objective": plan.objective,
        "value": _number(plan.value),
        "greedy_value": _number(plan.greedy_value),
        "shared": [_shared(each) for each in plan.shared],
        "sensitivity": [_sensitivity(each) for each in plan.sensitivity],
    }


def decision_json(decision: Decision) -> Json:
    """One decision with its steps."""
    return {
        "variant": _key(decision.variant),
        "model": {"id": decision.model.model_id, "role": decision.model.role},
        "outcome": str(decision.outcome),
        "reason": "" if decision.hold is None else decision.hold.words,
        "hold": _hold(decision.hold),
        "waiting": None if decision.waiting is None else decision.waiting.words,
        "wait": _hold(decision.waiting),
        "place": decision.place,
        "written_at": list(decision.written_at),
        "moved_in": [each.path for each in decision.moved_in],
        **({"status_omitted": decision.status_omitted} if decision.status_omitted else {}),
        **({"reverts": decision.reverts} if decision.reverts is not None else {}),
        "bounds_of": decision.bounds_of or None,
        **({"tuning": _tuning(decision)} if decision.is_tuning else {}),
        "current": _allocation(decision.current),
        "desired": _allocation(decision.desired),
        "verdict": {
            "kind": str(decision.verdict.kind),
            "rule": decision.verdict.rule,
            "reason": decision.verdict.reason,
            **({"approval": decision.verdict.approval} if decision.verdict.approval else {}),
        },
        "engine": decision.engine,
        "engine_reason": decision.engine_reason,
        "unit": decision.unit,
        "demand": _number(decision.demand),
        "capacity_before": _number(decision.capacity_before),
        "capacity_after": _number(decision.capacity_after),
        "cost_before_per_hour": _number(decision.cost_before_per_hour),
        "cost_after_per_hour": _number(decision.cost_after_per_hour),
        "max_batch_size": decision.max_batch_size,
        "metrics_available": decision.metrics_available,
        "load": _load(decision.load),
        "slos": [_slo(slo) for slo in decision.slos],
        "fullness": _fullness(decision.fullness),
        "observed": _performance(decision.observed),
        "expected": _performance(decision.expected),
        "steps": [_step(step) for step in decision.steps],
    }


def _trial(trial: Trial) -> Json:
    """Savings at the slow edge of the band, the median and the fast edge."""
    least, median, most = trial.saves_per_hour
    return {
        "model": trial.model.model_id,
        "cluster": trial.model.cluster,
        "namespace": trial.model.namespace,
        "accelerator": trial.accelerator,
        "replicas": trial.replicas,
        "replica_cost_per_hour": trial.replica_cost_per_hour,
        "planned_cost_per_hour": _number(trial.planned_cost_per_hour),
        "saves_per_hour": {"low": _number(least), "median": _number(median), "high": _number(most)},
        "evidence": trial.evidence,
        **({"obstacle": trial.obstacle} if trial.obstacle else {}),
    }


def _shared(each: SharedUse) -> Json:
    return {
        "name": each.name,
        "used": _number(each.used),
        "limit": _number(each.limit),
        "price": _number(each.price),
    }


def _sensitivity(each: Sensitivity) -> Json:
    return {
        "demand_factor": each.demand_factor,
        "capacity_factor": each.capacity_factor,
        "short": each.short,
        "worst": str(each.worst) if each.worst is not None else None,
        "worst_covered": _number(each.worst_covered),
    }


def _group(group: GroupPlan) -> Json:
    return {
        "name": group.name,
        "part": str(group.part),
        "head_branch": group.head_branch,
        "fingerprint": group.fingerprint,
        "kept_proposal": group.kept_proposal,
        "blocked": _hold(group.blocked),
        **({} if group.merges is None else {"merges": _merges(group.merges)}),
        "decisions": [decision_json(decision) for decision in group.decisions],
        **({"conditions": [_flip(flip) for flip in group.flips]} if group.flips else {}),
    }


def _flip(flip: ConditionFlip) -> Json:
    return {
        "variant": str(flip.variant),
        "type": flip.type,
        "before": flip.before,
        "after": flip.after,
        "reason": flip.reason,
    }


def _merges(terms: MergeTerms) -> Json:
    return {"rules": list(terms.rules), "per_hour": terms.per_hour, "waits": terms.waits or None}


def _hold(hold: Hold | None) -> Json | None:
    if hold is None:
        return None
    return {"kind": str(hold.kind), "words": hold.words, "place": None if hold.place is None else str(hold.place)}


def _key(key: ResourceKey) -> Json:
    return {
        "cluster": key.cluster,
        "namespace": key.namespace,
        "kind": key.kind,
        "name": key.name,
        "part": key.part,
    }


def _tuning(decision: Decision) -> Json:
    """What changes of an autoscaler's setting, and what that would have done on its last days."""
    fields = [
        {
            "field": each.field,
            **({"metric": each.metric} if each.metric else {}),
            "before": each.before,
            "after": each.after,
        }
        for each in decision.setting_changes
    ]
    evidence = decision.tuning
    if evidence is None:
        return {"fields": fields}
    return {
        "fields": fields,
        "days": _number(evidence.days),
        "cost_change": _number(evidence.cost_change),
        "attainment": [_number(each) for each in evidence.attainment],
        "starts_per_day": [_number(each) for each in evidence.starts_per_day],
        "left_out_days": evidence.left_out,
        "left_out_cost_change": _number(evidence.left_out_cost_change),
        "left_out_attainment": [_number(each) for each in evidence.left_out_attainment],
        "saves_per_hour": _number(evidence.saves_per_hour),
        "is_repair": evidence.is_repair,
        "autoscalers": evidence.members,
        "steps": list(evidence.steps),
        "tried": list(evidence.tried),
        **({"limit": evidence.limit} if evidence.limit else {}),
        **({"shortage": evidence.shortage} if evidence.shortage else {}),
    }


def _allocation(allocation: Allocation) -> Json:
    return {"accelerator": allocation.accelerator or None, "replicas": allocation.replicas}


def _slo(slo: SloProjection) -> Json:
    # An infinite time is null like an unknown one; whether the target is met tells them apart.
    return {
        "name": slo.name,
        "statistic": slo.statistic,
        "target_s": _number(slo.target_s),
        "before_s": _number(slo.before_s),
        "after_s": _number(slo.after_s),
        "is_met_before": slo.is_met_before,
        "is_met_after": slo.is_met_after,
    }


def _load(load: Load | None) -> Json | None:
    if load is None:
        return None
    return {
        "arrival_rate_per_s": _number(load.arrival_rate_per_s),
        "input_tokens": _number(load.input_tokens),
        "output_tokens": _number(load.output_tokens),
        "window_s": _number(load.window_s),
        "arrivals_from": str(load.arrivals_from),
    }


def _fullness(fullness: Fullness | None) -> Json | None:
    if fullness is None:
        return None
    return {"before": _number(fullness.before), "after": _number(fullness.after), "limit": fullness.limit}


def _performance(performance: Performance | None) -> Json | None:
    if performance is None:
        return None
    return {
        "itl_s": _number(performance.itl_s),
        "wait_s": _number(performance.wait_s),
        "ttft_s": _number(performance.ttft_s),
        "utilization": _number(performance.utilization),
    }


def _step(step: Step) -> Json:
    return {"stage": step.stage, "before": step.before, "after": step.after, "reason": step.reason}


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    # Negative zero is a number that no reader expects.
    return value + 0.0
