"""Our own gauges of a run. Those of upstream's name carry the value on the base branch, for autoscalers follow them.

A proposal must not act before it is merged, so what is proposed has a name of its own.
"""

from collections.abc import Iterator

from reconciler.domain.holds import HoldKind
from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.domain.reports import Labels, OwnGauge, RunOutcome

UNRESOLVED = "unresolved"
"""Upstream's name for an unknown accelerator."""
LAST_SUCCESS = "reconciler_last_success_timestamp_seconds"


def gauges_of(run: RunOutcome) -> tuple[OwnGauge, ...]:
    """All gauges of a run; of one that failed only those about itself."""
    return (*_of_run(run), *(_of_plan(run, run.plan) if run.plan is not None else ()))


def _of_run(run: RunOutcome) -> Iterator[OwnGauge]:
    yield _one("reconciler_info", "The version that runs.", 1.0, {"version": run.version})
    if run.is_success:
        yield _one(LAST_SUCCESS, "When a run last did all that there was to do, in Unix seconds.", run.ended_s)
    yield _one("reconciler_last_run_timestamp_seconds", "When a run last ended, in Unix seconds.", run.ended_s)
    yield _one("reconciler_last_run_exit_code", "The exit code of the last run.", float(run.exit_code))
    yield _one("reconciler_run_interval_seconds", "How often a run is started, as configured.", run.run_interval_s)
    yield _one("reconciler_paused", "Whether writing is paused.", float(run.is_paused))
    yield OwnGauge(
        name="reconciler_act_seconds",
        words="How long each act of the last run took.",
        series=tuple(({"act": act}, seconds) for act, seconds in run.acts.items()),
    )
    for name, words, part in (
        ("reconciler_requests", "HTTP requests of the last run and what git asked of a remote, by host.", 0),
        ("reconciler_request_failures", "Those of them that brought nothing, by host.", 1),
    ):
        yield OwnGauge(
            name=name,
            words=words,
            series=tuple(({"host": host}, float(counts[part])) for host, counts in sorted(run.traffic.items())),
        )


def _of_plan(run: RunOutcome, plan: Plan) -> Iterator[OwnGauge]:
    yield from _upstream(run, plan)
    decisions = sorted(plan.decisions, key=lambda each: each.variant)
    yield OwnGauge(
        name="reconciler_proposed_replicas",
        words="Replicas that the last run proposes or keeps.",
        series=tuple((_labels(each), float(each.desired.replicas)) for each in decisions),
    )
    # what one run a day finds of an autoscaler is no state of it: it would come and go
    outcomes = [
        Outcome.UNCHANGED if each.hold is not None and each.hold.is_daily else each.outcome for each in decisions
    ]
    yield OwnGauge(
        name="reconciler_variants",
        words="Variants by what the last run decided.",
        series=tuple(({"outcome": str(outcome)}, float(outcomes.count(outcome))) for outcome in Outcome),
    )
    held = [each.hold.kind for each in decisions if each.hold is not None and not each.hold.is_daily]
    yield OwnGauge(
        name="reconciler_held",
        words="Variants that are held, by kind.",
        series=tuple(({"kind": str(kind)}, float(held.count(kind))) for kind in HoldKind),
    )
    costs = (("base", plan.totals.cost_before_per_hour), ("proposed", plan.totals.cost_after_per_hour))
    yield OwnGauge(
        name="reconciler_cost_per_hour",
        words="What all variants cost in an hour, on the base branch and as proposed; none while a price is missing.",
        series=tuple(
            ({"allocation": name, "currency": plan.currency}, cost) for name, cost in costs if cost is not None
        ),
    )
    yield from _proposals(run)
    yield from _after_merges(run, plan)


def _after_merges(run: RunOutcome, plan: Plan) -> Iterator[OwnGauge]:
    yield OwnGauge(
        name="reconciler_promise_broken",
        words="Whether a merge of the last day broke what its pull request promised, where that is known now.",
        series=tuple(({"group": each.group, "number": str(each.number)}, float(each.is_broken)) for each in run.judged),
    )
    yield OwnGauge(
        name="reconciler_forecast_ratio",
        words="What is measured of a variant by what was forecast when its last change was merged.",
        series=tuple(({**_labels(each.decision), "quantity": each.quantity}, each.ratio) for each in run.forecasts),
    )
    labels, saved = {"currency": plan.currency}, run.savings
    how = "by replicas on the base branch at today's prices; below 0 they cost more."
    yield OwnGauge(
        name="reconciler_saved_per_hour",
        words=f"What merges of the last 30 days save in an hour now, {how}",
        series=() if saved is None else ((labels, saved.per_hour),),
    )
    yield OwnGauge(
        name="reconciler_saved",
        words=f"What merges of the last 30 days have saved so far, {how}",
        series=() if saved is None else ((labels, saved.so_far),),
    )


def _upstream(run: RunOutcome, plan: Plan) -> Iterator[OwnGauge]:
    """An autoscaler that reads its own bound as what is wanted would never leave it: those variants have none."""
    exported = sorted(
        (each for each in plan.decisions if each.variant not in run.bounded), key=lambda each: each.variant
    )
    yield OwnGauge(
        name="wva_desired_replicas",
        words="Replicas on the base branch.",
        series=tuple((_labels(each), float(each.current.replicas)) for each in exported),
    )
    live = [(each, run.live[each.variant]) for each in exported if each.variant in run.live]
    yield OwnGauge(
        name="wva_current_replicas",
        words="Replicas that the scale target asks for in its cluster.",
        series=tuple((_labels(each), count) for each, count in live),
    )
    yield OwnGauge(
        name="wva_desired_ratio",
        words="Replicas on the base branch by those in the cluster; the former where there are none.",
        series=tuple((_labels(each), each.current.replicas / (count or 1.0)) for each, count in live),
    )


def _proposals(run: RunOutcome) -> Iterator[OwnGauge]:
    yield _one("reconciler_open_proposals", "Pull requests of ours that are open.", float(len(run.pull_requests)))
    ages = (
        ({"group": each.group, "number": str(each.number)}, max(run.ended_s - each.opened_s, 0.0))
        for each in sorted(run.pull_requests, key=lambda each: each.number)
        if each.opened_s is not None
    )
    yield OwnGauge(
        name="reconciler_proposal_age_seconds",
        words="How long each pull request of ours has been open.",
        series=tuple(ages),
    )
    yield _one("reconciler_merges_last_hour", "Pull requests of ours merged within an hour.", float(run.merges))


def _labels(decision: Decision) -> Labels:
    """As upstream's, and the cluster."""
    variant = decision.variant
    return {
        "cluster": variant.cluster,
        "namespace": variant.namespace,
        "variant_name": variant.name + (f"/{variant.part}" if variant.part else ""),
        "accelerator_type": decision.current.accelerator or UNRESOLVED,
    }


def _one(name: str, words: str, value: float, labels: Labels | None = None) -> OwnGauge:
    return OwnGauge(name=name, words=words, series=((labels or {}, value),))
