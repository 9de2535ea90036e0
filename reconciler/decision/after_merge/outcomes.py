"""After the merge: whether replicas came up and promises are kept, once a change has had the time to act.

A change is judged at the earliest when what was merged must serve, and not at all a day later: then it is no longer its
doing. What somebody changed again meanwhile is not judged either, and nothing is while any of its metrics is missing.
"""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.decision.after_merge.comparing import (
    NOISE,
    ComparedLatency,
    compared,
    is_covered,
    load_of,
)
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.loads import Observation
from reconciler.domain.plan import RATE, Decision, Plan, SloProjection
from reconciler.domain.promises import Promise
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.reported.outcomes import ChangeOutcome, MergedOutcome
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import START_DELAY_S, SYNC_DELAY_S

WINDOW_S = 300.0
"""Metrics speak of so long a time."""
PATIENCE_S = 600.0
"""What a rollout may take longer, before replicas that are missing break a promise."""
TOO_LATE_S = 86_400.0
DEARER = 0.01
"""So far a cost may lie from its forecast before that is told."""


def acts_after_s(variant: Variant) -> float:
    """How long after a merge metrics tell what it does."""
    return variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + WINDOW_S


def judge_merges(snapshot: Snapshot, plan: Plan) -> Iterator[MergedOutcome]:
    """The outcome of each pull request that was merged, where all that it changed can be judged now."""
    variants, decisions = _by_resource(snapshot, plan.decisions)
    for proposal in snapshot.proposals:
        if proposal.state is not ProposalState.MERGED or proposal.closed_at_s is None or not proposal.changes:
            continue
        age_s = snapshot.now_s - proposal.closed_at_s
        if not 0 <= age_s < TOO_LATE_S:
            continue
        judged = list(_judged(snapshot, proposal, variants, decisions, age_s))
        changes = tuple(each for each in judged if each is not None)
        if len(changes) == len(judged):
            yield MergedOutcome(number=proposal.number, group=proposal.group, changes=changes)


def why_unsettled(snapshot: Snapshot, merged: Iterable[Proposal], decisions: Iterable[Decision]) -> str:
    """Why nothing more is to be merged by itself after these merges; empty where each did what it was merged for.

    What somebody changed again since, and what was merged a day ago, speaks of nothing any more.
    """
    variants, decided = _by_resource(snapshot, decisions)
    for proposal in merged:
        age_s = 0.0 if proposal.closed_at_s is None else snapshot.now_s - proposal.closed_at_s
        if age_s >= TOO_LATE_S:
            continue
        if not proposal.changes:
            return f"nobody knows what pull request #{proposal.number} changed, which was merged"
        outcomes = _judged(snapshot, proposal, variants, decided, age_s)
        for change, outcome in zip(proposal.changes, outcomes, strict=True):
            variant = variants.get(change.resource)
            if variant is None or change.merged(variant.current) != variant.current:
                continue
            if outcome is None:
                return f"what pull request #{proposal.number} changed has not rolled out yet"
            if outcome.broken:
                return f"pull request #{proposal.number} did not do what it was merged for: {outcome.words}"
    return ""


def _by_resource(
    snapshot: Snapshot, decisions: Iterable[Decision]
) -> tuple[Mapping[str, Variant], Mapping[str, Decision]]:
    """Variants and decisions as proposals name their resources."""
    return {str(each.key): each for each in snapshot.variants}, {str(each.variant): each for each in decisions}


def _judged(
    snapshot: Snapshot,
    proposal: Proposal,
    variants: Mapping[str, Variant],
    decisions: Mapping[str, Decision],
    age_s: float,
) -> Iterator[ChangeOutcome | None]:
    promises = {each.resource: each for each in proposal.promises}
    for change in proposal.changes:
        variant, decision = variants.get(change.resource), decisions.get(change.resource)
        if variant is None or decision is None:
            yield None
        else:
            yield _judge(snapshot, change, promises.get(change.resource), variant, decision, age_s)


def _judge(
    snapshot: Snapshot,
    change: ProposedChange,
    promise: Promise | None,
    variant: Variant,
    decision: Decision,
    age_s: float,
) -> ChangeOutcome | None:
    """What a change came to; None while that cannot be said."""
    observation, acts_s = snapshot.observed.observations.get(variant.key), acts_after_s(variant)
    if change.merged(variant.current) != variant.current or age_s < acts_s:
        return None
    if observation is None or observation.absence is not None:
        return None
    asked, reporting = change.replicas_after, observation.replicas_reporting
    if reporting < asked:
        return _unfinished(snapshot, variant.key, reporting, asked) if age_s >= acts_s + PATIENCE_S else None
    if promise is None:  # from before pull requests kept theirs
        missed = tuple(_missed(decision))
        words, is_broken = missed or tuple(_kept(decision)), bool(missed)
    else:
        words, is_broken = _against(promise, snapshot, variant, observation, decision)
    told = ", ".join((f"{asked} of {asked} replicas serve", *words))
    return ChangeOutcome(resource=variant.key.label, words=told, broken=is_broken)


def _unfinished(snapshot: Snapshot, key: ResourceKey, reporting: int, asked: int) -> ChangeOutcome:
    stuck = snapshot.observed.unschedulable.get(key, 0)
    pending = f", {stuck} find no node: nothing is added until they do" if stuck else ""
    words = f"only {reporting} of {asked} replicas serve{pending}"
    return ChangeOutcome(resource=key.label, words=words, broken=True)


def _against(
    promise: Promise, snapshot: Snapshot, variant: Variant, observation: Observation, decision: Decision
) -> tuple[tuple[str, ...], bool]:
    """What is measured beside what was forecast, and whether a target is missed at a load that was promised."""
    load = load_of(snapshot, variant)
    covered, found = is_covered(promise, observation, load), tuple(compared(promise, observation, load))
    is_broken = covered is True and any(each.is_missed for each in found)
    words = [told_latency(each, is_broken=is_broken) for each in found]
    arrivals = observation.arrival_rate_per_s
    if arrivals is not None and promise.unit == RATE and promise.demand is not None:
        more = "" if covered is not False else ": more load, or longer requests, than was forecast"
        words.append(f"{arrivals:.3g} req/s measured, up to {promise.demand:.3g} forecast{more}")
    return (*words, *_cost(promise, decision)), is_broken


def _cost(promise: Promise, decision: Decision) -> Iterator[str]:
    cost, forecast = decision.cost_before_per_hour, promise.cost_per_hour
    if cost is not None and forecast is not None and abs(cost - forecast) > DEARER * forecast:
        yield f"costs {cost:.2f} an hour by Git and today's prices, {forecast:.2f} forecast"


def told_latency(found: ComparedLatency, *, is_broken: bool) -> str:
    """One latency in words: what is measured, what was forecast, and the target."""
    forecast_s, slower = found.promised.mean_s, ""
    if found.is_slower and not found.is_missed:
        slower = ", slower than forecast"
    forecast = "" if forecast_s is None else f", {_time(forecast_s)} forecast{slower}"
    but = "but " if is_broken and found.is_missed else ""
    words = f"{but}mean {_name(found.promised.name)} is {_time(found.measured_s)} measured{forecast}"
    return f"{words} (target {_target(found.promised.statistic, found.promised.target_s)})"


def _missed(decision: Decision) -> Iterator[str]:
    """Targets that are missed at a load which the replicas were to carry: more load than that promises nothing."""
    if decision.demand is None or decision.capacity_before is None or decision.demand > decision.capacity_before:
        return
    for slo, measured_s in _measured(decision):
        if measured_s > slo.target_s * (1 + NOISE):
            yield f"but {_words(slo, measured_s)}"


def _kept(decision: Decision) -> Iterator[str]:
    yield from (_words(slo, measured_s) for slo, measured_s in _measured(decision) if measured_s <= slo.target_s)


def _measured(decision: Decision) -> Iterator[tuple[SloProjection, float]]:
    """Means alone are measured: of a percentile a mean above it says enough, too."""
    for slo in decision.slos if decision.observed is not None else ():
        value = decision.observed.mean_s(slo.name) if decision.observed is not None else None
        if value is not None:
            yield slo, value


def _words(slo: SloProjection, measured_s: float) -> str:
    return f"mean {_name(slo.name)} is {_time(measured_s)} (target {_time(slo.target_s)})"


def _target(statistic: str, target_s: float) -> str:
    return _time(target_s) if statistic == "mean" else f"{statistic} {_time(target_s)}"


def _time(time_s: float) -> str:
    return f"{time_s:.3g} s" if time_s >= 1 else f"{ms_from_seconds(time_s):.0f} ms"


def _name(name: str) -> str:
    return name.upper() if name in ("itl", "ttft") else name
