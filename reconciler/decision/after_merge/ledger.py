"""What our merges came to so far, for gauges: what came by what was forecast, and the money that they save."""

import math
from collections.abc import Iterator, Sequence

from reconciler.decision.after_merge.comparing import compared, load_of
from reconciler.decision.after_merge.merges import Merge, merges_of
from reconciler.decision.costs import cost_of
from reconciler.domain.plan import RATE, Decision, Plan
from reconciler.domain.promises import Promise
from reconciler.domain.reported.gauges import ForecastRatio, Savings
from reconciler.domain.snapshot import Snapshot, Variant

HOUR_S = 3600.0


def forecast_ratios(snapshot: Snapshot, plan: Plan) -> Iterator[ForecastRatio]:
    """What came by what was forecast, of every variant whose last merge of ours stands on the base branch."""
    merges, decisions = merges_of(snapshot), {each.variant: each for each in plan.decisions}
    for variant in snapshot.variants:
        own, decision = merges.get(str(variant.key)), decisions.get(variant.key)
        if not own or decision is None or own[-1].change.merged(variant.current) != variant.current:
            continue
        promise = own[-1].promise
        for quantity, came, forecast in () if promise is None else _pairs(snapshot, variant, decision, promise):
            if forecast and math.isfinite(ratio := came / forecast):
                yield ForecastRatio(decision=decision, quantity=quantity, ratio=ratio)


def _pairs(
    snapshot: Snapshot, variant: Variant, decision: Decision, promise: Promise
) -> Iterator[tuple[str, float, float | None]]:
    """Each quantity as it is now and as it was forecast."""
    if promise.unit == decision.unit and decision.capacity_before is not None:
        yield "capacity", decision.capacity_before, promise.capacity
    observation = snapshot.observed.observations.get(variant.key)
    if observation is None or observation.absence is not None:
        return
    if promise.unit == RATE and observation.arrival_rate_per_s is not None:
        yield "demand", observation.arrival_rate_per_s, promise.demand
    told = {each.promised.name: each for each in compared(promise, observation, load_of(snapshot, variant))}
    yield from ((name, each.measured_s, each.promised.mean_s) for name, each in told.items())


def savings(snapshot: Snapshot) -> Savings | None:
    """What our merges save, by the replicas on the base branch at today's prices; None without any that has a price.

    A change counts from its merge to the next one of its variant, or to now. Where a person wrote another number in
    between, nobody knows when: then it counts for nothing, and what was saved before it no further.
    """
    merges = merges_of(snapshot)
    found = [_saved(snapshot, each, own) for each in snapshot.variants if (own := merges.get(str(each.key)))]
    known = [each for each in found if each is not None]
    if not known:
        return None
    return Savings(per_hour=sum(each.per_hour for each in known), so_far=sum(each.so_far for each in known))


def _saved(snapshot: Snapshot, variant: Variant, merges: Sequence[Merge]) -> Savings | None:
    """What the merges of one variant save; None where a price is missing."""
    per_hour, so_far, stood = 0.0, 0.0, None
    now = variant.current
    for merge, following in zip(merges, (*merges[1:], None), strict=True):
        before, after = merge.before(now), merge.change.merged(now)
        costs = cost_of(variant, before), cost_of(variant, after)
        if costs[0] is None or costs[1] is None:
            return None
        per_hour = costs[0] - costs[1] + (per_hour if stood == before else 0.0)
        found, until_s = (now, snapshot.now_s) if following is None else (following.before(now), following.at_s)
        if found == after:
            so_far += per_hour * (until_s - merge.at_s) / HOUR_S
        stood = after
    return Savings(per_hour=per_hour if stood == now else 0.0, so_far=so_far)
