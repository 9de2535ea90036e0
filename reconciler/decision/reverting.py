"""Our merges: which broke their promise and are proposed back, and what all of them came to so far."""

import math
from collections.abc import Iterator, Sequence

from reconciler.decision.engines.registry import ENGINES
from reconciler.decision.outcomes import (
    NOISE,
    TOO_LATE_S,
    ComparedLatency,
    Merge,
    acts_after_s,
    compared,
    is_covered,
    load_of,
    merges_of,
    told_latency,
)
from reconciler.decision.variant_states import slo_projections, targets_under
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Observation, PastArrivals
from reconciler.domain.plan import RATE, Decision, Plan, SloProjection
from reconciler.domain.proposals import BrokenPromise, Promise, ProposalState
from reconciler.domain.reports import ForecastRatio, Savings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import AUTO, ENGINE, PAYBACK_S, Engine
from reconciler.metrics.queries import duration

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
        costs = variant.cost_of(before), variant.cost_of(after)
        if costs[0] is None or costs[1] is None:
            return None
        per_hour = costs[0] - costs[1] + (per_hour if stood == before else 0.0)
        found, until_s = (now, snapshot.now_s) if following is None else (following.before(now), following.at_s)
        if found == after:
            so_far += per_hour * (until_s - merge.at_s) / HOUR_S
        stood = after
    return Savings(per_hour=per_hour if stood == now else 0.0, so_far=so_far)


# Which merged changes of ours broke their promise, so that what was before is proposed again, and not given up again.
# Only what took capacity away is taken back: fewer replicas, or another accelerator. A promise counts as broken while
# a target that was kept before, and that was to be kept, is missed at a load that was promised. More load than that
# is sized as ever, and missing metrics break no promise. What was taken back is remembered for
# `pullRequests.reopenAfter`. Promises come from pull requests' texts, which anybody may have edited. So the target
# that is missed is the one in Git at least, what is measured comes from Prometheus, and replicas are at most doubled.

MOST_GROWTH = 2
"""So many times the replicas that run are proposed at most."""
MOST_LONGER = 1e6
"""Requests are at most so many times as long as those of a promise: its text may say anything."""


def broken_promises(snapshot: Snapshot) -> dict[ResourceKey, BrokenPromise]:
    """By variant, the merge of ours that broke its promise, or did and was taken back."""
    merges = merges_of(snapshot)
    found = (
        (variant.key, _standing(snapshot, variant, own) or _remembered(snapshot, variant, own))
        for variant in snapshot.variants
        if (own := merges.get(str(variant.key))) and _is_followed(variant)
    )
    return {key: broken for key, broken in found if broken is not None}


def _is_followed(variant: Variant) -> bool:
    """Whether a promise counts beside its engine's answer: some follow upstream or somebody's targets to the letter."""
    engine = variant.settings[ENGINE].value
    is_ours = engine == AUTO or ENGINES[Engine(engine)].remembers
    return is_ours and not variant.is_autoscaled and variant.tracked_by is None


def _standing(snapshot: Snapshot, variant: Variant, merges: Sequence[Merge]) -> BrokenPromise | None:
    """The newest merge of a variant, where it stands in Git and breaks its promise now."""
    last, now = merges[-1], variant.current
    merge = _half_taken_back(merges, now) or last
    if merge.promise is None or not merge.takes_away or last.change.merged(now) != now:
        return None
    is_proposed = _is_proposed(snapshot, variant, merge)
    age_s = snapshot.now_s - last.at_s
    most_s = snapshot.settings.pull_requests.reopen_after_s if is_proposed else TOO_LATE_S
    if not acts_after_s(variant) <= age_s < max(most_s, TOO_LATE_S):
        return None
    words = _why_broken(snapshot, variant, merge, merge.promise, is_proposed=is_proposed)
    if not words:
        return None
    before, number = merge.before(now), merge.number
    least = min(before.replicas, MOST_GROWTH * now.replicas)
    return BrokenPromise(number=number, before=before, after=now, least=least, words=words)


def _half_taken_back(merges: Sequence[Merge], now: Allocation) -> Merge | None:
    """The merge that the newest one took back in part, as far as rules or devices let it; None where it did not."""
    promise = merges[-1].promise
    number = None if promise is None else promise.reverts
    found = next((each for each in merges[:-1] if each.number == number), None)
    is_half = found is not None and not found.is_move and now.replicas < found.change.replicas_before
    return found if is_half else None


def _is_proposed(snapshot: Snapshot, variant: Variant, merge: Merge) -> bool:
    """Whether an open pull request takes the merge back."""
    return any(
        promise.reverts == merge.number and promise.resource == str(variant.key)
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for promise in proposal.promises
    )


def _why_broken(snapshot: Snapshot, variant: Variant, merge: Merge, promise: Promise, *, is_proposed: bool) -> str:
    """How a merge breaks its promise; empty where it does not, or nobody knows.

    What is proposed already stays until it is known that the target is kept, and not only within noise.
    """
    observation, load = snapshot.observed.observations.get(variant.key), load_of(snapshot, variant)
    if observation is None or observation.absence is not None:
        return ""
    covered = is_covered(promise, observation, load)
    if covered is False:
        return ""
    found = list(_judged(variant, promise, observation, load))
    missed = [each for each in found if each.is_missed]
    is_sure = covered is True and observation.replicas_reporting == variant.current.replicas
    if missed and is_sure:
        return _told(merge, promise, missed, observation)
    is_kept = is_sure and found and all(each.measured_s <= each.promised.target_s for each in found)
    return "" if not is_proposed or is_kept else _told(merge, promise, found, observation)


def _judged(
    variant: Variant, promise: Promise, observation: Observation, load: Load | None
) -> Iterator[ComparedLatency]:
    """The latencies whose target was kept before and was to be kept, at the largest of its limits then and in Git."""
    limits = {(each.name, each.statistic): each.target_s for each in _targets(variant)}
    for each in compared(promise, observation, load):
        promised, limit_s = each.promised, limits.get((each.promised.name, each.promised.statistic))
        if limit_s is None:
            continue
        limit_s = max(limit_s, promised.target_s)
        was_kept = promised.measured_s is not None and promised.measured_s <= limit_s * (1 + NOISE)
        if was_kept and (promised.expected_s is None or promised.expected_s <= limit_s):
            yield each.against(limit_s)


def _targets(variant: Variant) -> Iterator[SloProjection]:
    if variant.service_class is None:
        return
    option = next((each for each in variant.options if each.accelerator == variant.current.accelerator), None)
    law = "" if option is None else option.profile.law
    yield from slo_projections(targets_under(law, variant.service_class.value), None, None)


def _told(merge: Merge, promise: Promise, found: list[ComparedLatency], observation: Observation) -> str:
    change, number = merge.change, merge.number
    did = (
        f"moved it from {change.accelerator_before} to {change.accelerator_after}"
        if merge.is_move
        else f"took it from {change.replicas_before} to {change.replicas_after} replicas"
    )
    latencies = ", ".join(told_latency(each, is_broken=False) for each in found) or "what came of it is not known now"
    arrivals, demand = observation.arrival_rate_per_s, promise.demand if promise.unit == RATE else None
    load = "" if arrivals is None or demand is None else f", at {arrivals:.3g} req/s measured of {demand:.3g} forecast"
    return f"pull request #{number} {did} and broke its promise: {latencies}{load}"


def _remembered(snapshot: Snapshot, variant: Variant, merges: Sequence[Merge]) -> BrokenPromise | None:
    """The newest change of a variant that was taken back, while that is remembered."""
    reopen_after_s = snapshot.settings.pull_requests.reopen_after_s
    by_number = {each.number: each for each in merges}
    for merge in reversed(merges):
        broken = None if merge.promise is None else by_number.get(merge.promise.reverts or 0)
        is_old = snapshot.now_s - merge.at_s >= reopen_after_s
        if broken is None or is_old or not broken.takes_away or broken.at_s > merge.at_s:
            continue
        change, before = broken.change, broken.before(variant.current)
        number, after = broken.number, change.merged(variant.current)
        words = (
            f"pull request #{number} changed {_words(before)} to {_words(after)}, broke its promise, and was taken "
            f"back by #{merge.number}: for {duration(reopen_after_s)} no replica is to serve more than before"
        )
        return BrokenPromise(
            number=number,
            before=before,
            after=after,
            least=_least(snapshot, variant, broken.change.replicas_before, broken.promise),
            words=words,
            reverted_by=merge.number,
        )
    return None


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"


def _least(snapshot: Snapshot, variant: Variant, before: int, promise: Promise | None) -> int:
    """How many replicas serve the load of now, each no more than one of those `before`; never more than run."""
    current, load = variant.current.replicas, load_of(snapshot, variant)
    if load is None or promise is None or not promise.arrival_rate_per_s:
        return current
    peak_per_s = max(load.arrival_rate_per_s, *_past(snapshot, variant), 0.0)
    pairs = ((load.input_tokens, promise.input_tokens), (load.output_tokens, promise.output_tokens))
    longer = max((min(now / then, MOST_LONGER) for now, then in pairs if now and then), default=1.0)
    share = peak_per_s / promise.arrival_rate_per_s * max(longer, 1.0)
    return math.ceil(min(before * min(share, current), current))


def _past(snapshot: Snapshot, variant: Variant) -> Iterator[float]:
    """What arrived for its model within `payback`, as far as it is known."""
    past = snapshot.observed.past.get(variant.model)
    if isinstance(past, PastArrivals):
        since_s = snapshot.now_s - variant.settings[PAYBACK_S].value
        for index, rate in enumerate(past.rates_per_s):
            if past.start_s + index * past.step_s >= since_s and math.isfinite(rate):
                yield rate
