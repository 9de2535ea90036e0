"""Tells one variant's decision: its numbers, its verdict and the steps that led to it."""

from reconciler.decision.case import Case
from reconciler.decision.outlook import cost_of, slo_outlooks
from reconciler.decision.standing import Standing
from reconciler.domain.allocations import Allocation
from reconciler.domain.plan import Decision, Outcome, Step, Verdict, VerdictKind
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.variants import Variant


def decision_for(case: Case, standing: Standing) -> Decision:
    """The decision of one variant, numbers rounded before they enter the plan."""
    variant = standing.variant
    desired = case.settled.allocations[variant.key]
    reason = standing.reason or case.posed.stuck.get(variant.key, "")
    outcome = _outcome(variant, desired, reason)
    before, after = case.before.performance(variant), case.after.performance(variant)
    observation = case.snapshot.observations.get(variant.key)
    key = CandidateKey(variant=variant.key, accelerator=variant.current.accelerator)
    capacity = case.capacities.of.get(key)
    return Decision(
        variant=variant.key,
        model=variant.model,
        group=variant.settings.group.value,
        outcome=outcome,
        current=variant.current,
        desired=desired,
        verdict=_verdict(outcome, reason),
        steps=_steps(case, standing, desired, outcome, reason),
        reason=reason,
        place=str(variant.place),
        load=standing.load,
        demand_per_s=_rounded(case.after.demand_per_s(variant)),
        capacity_before_per_s=_rounded(case.before.capacity_per_s(variant)),
        capacity_after_per_s=_rounded(case.after.capacity_per_s(variant)),
        slos=slo_outlooks(variant.service_class.value, before, after) if variant.service_class else (),
        cost_before_per_hour=_rounded(cost_of(variant, variant.current)),
        cost_after_per_hour=_rounded(cost_of(variant, desired)),
        expected=after,
        observed=observation.performance if observation is not None else None,
        max_batch_size=capacity.max_batch_size if capacity is not None else None,
        status_shape=variant.status_shape,
        metrics_available=observation is not None and observation.absence is None and standing.load is not None,
    )


def _outcome(variant: Variant, desired: Allocation, reason: str) -> Outcome:
    if reason:
        return Outcome.HELD
    return Outcome.UNCHANGED if desired == variant.current else Outcome.CHANGE


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    """Until policies say otherwise nothing merges itself."""
    if outcome is Outcome.HELD:
        return Verdict(kind=VerdictKind.HOLD, reason=reason)
    if outcome is Outcome.UNCHANGED:
        return Verdict(kind=VerdictKind.ALLOW)
    return Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")


def _rounded(value: float | None) -> float | None:
    """Ten significant digits: float noise of a platform must not reach the plan."""
    return None if value is None else float(f"{value:.10g}")


def _steps(case: Case, standing: Standing, desired: Allocation, outcome: Outcome, reason: str) -> tuple[Step, ...]:
    variant = standing.variant
    steps = [*_load_steps(case, standing), *_capacity_steps(case, variant)]
    notes = case.posed.notes.get(variant.key, ())
    steps += [Step(stage="options", before="", after="", reason=note) for note in notes]
    current = _words(variant.current)
    if reason:
        steps.append(Step(stage="hold", before=current, after=current, reason=reason))
        return tuple(steps)
    steps.append(Step(stage="allocation", before=current, after=_words(desired), reason=_why(case, variant, desired)))
    if outcome is Outcome.CHANGE:
        steps.append(
            Step(stage="policy", before=_words(desired), after=_words(desired), reason=str(VerdictKind.NEEDS_APPROVAL))
        )
    return tuple(steps)


def _load_steps(case: Case, standing: Standing) -> list[Step]:
    load = standing.load
    demand = case.posed.demands.get(standing.variant.model)
    if load is None or demand is None:
        return []
    observed = f"{load.arrival_rate_per_s:.4g} req/s"
    return [
        Step(
            stage="load",
            before="",
            after=observed,
            reason=f"arrivals from {load.arrivals_from}, {load.window_s / 60:g}m window; "
            f"{load.output_tokens:.4g} output tokens a request",
        ),
        Step(
            stage="demand",
            before=observed,
            after=f"{demand.rate_per_s:.4g} req/s",
            reason=f"load and {demand.headroom * 100:g} % headroom",
        ),
    ]


def _capacity_steps(case: Case, variant: Variant) -> list[Step]:
    steps = []
    for option in variant.options:
        capacity = case.capacities.of.get(CandidateKey(variant=variant.key, accelerator=option.accelerator))
        if capacity is None:
            continue
        profile = option.profile
        parameters = (
            f"alpha {profile.alpha_s * 1000:g} ms, beta {profile.beta_s * 1000:g} ms, batch {capacity.max_batch_size}"
        )
        steps.append(
            Step(
                stage="capacity",
                before="",
                after=f"{capacity.rate_per_s:.4g} req/s",
                reason=f"one replica on {option.accelerator}: {capacity.words} ({parameters})",
            )
        )
    return steps


def _why(case: Case, variant: Variant, desired: Allocation) -> str:
    if variant.key in case.settled.reasons:
        return case.settled.reasons[variant.key]
    shortfall = case.shortfalls.get(variant.model)
    if shortfall is not None:
        return f"covers {shortfall.covered:.4g} of {shortfall.wanted:.4g} req/s: {shortfall.reason}"
    if variant.key in case.solution.reasons:
        return case.solution.reasons[variant.key]
    if desired.replicas:
        return "no arrivals: the fewest replicas allowed"
    return "no arrivals, and none run"


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"
