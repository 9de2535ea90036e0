"""What a change promises, and after its merge whether replicas came up and the promise is kept."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Observation, Performance
from reconciler.domain.plan import RATE, Decision, Plan, SloProjection
from reconciler.domain.proposals import (
    ChangeOutcome,
    MergedOutcome,
    Promise,
    PromisedLatency,
    Proposal,
    ProposalState,
    ProposedChange,
)
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import START_DELAY_S, SYNC_DELAY_S

NOISE = 0.10
"""So far a mean may lie beyond a number, and a load beyond another, before that counts."""
DEVIATIONS = 3.0
"""Standard errors of a mean that may be chance; requests differ as those of the exponential law do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLatency:
    """The mean of a latency that was measured beside what was promised of it; times in seconds."""

    promised: PromisedLatency
    measured_s: float
    noise: float

    def against(self, target_s: float) -> "ComparedLatency":
        """The same, held against another target."""
        return replace(self, promised=replace(self.promised, target_s=target_s))

    @property
    def is_missed(self) -> bool:
        """Whether the target is missed beyond noise: a mean above the limit of a percentile says enough, too."""
        return self.measured_s > self.promised.target_s * (1 + self.noise)

    @property
    def is_slower(self) -> bool:
        """Whether it takes longer than was forecast, beyond noise."""
        forecast_s = self.promised.mean_s
        return forecast_s is not None and self.measured_s > forecast_s * (1 + self.noise)


def compared(promise: Promise, observation: Observation, load: Load | None) -> Iterator[ComparedLatency]:
    """Each promised latency that is measured now."""
    noise = noise_of(observation, load)
    for latency in promise.latencies:
        measured_s = observation.performance.mean_s(latency.name)
        if measured_s is not None and math.isfinite(measured_s):
            yield ComparedLatency(promised=latency, measured_s=measured_s, noise=noise)


def noise_of(observation: Observation, load: Load | None) -> float:
    """The fraction that a mean over what a variant got lately may be off by chance; infinite where nobody knows."""
    if load is None or observation.arrival_rate_per_s is None:
        return math.inf
    requests = observation.arrival_rate_per_s * load.window_s
    return max(NOISE, DEVIATIONS / math.sqrt(requests)) if requests > 0 else math.inf


def is_covered(promise: Promise, observation: Observation, load: Load | None) -> bool | None:
    """Whether the load is one that was promised to be served; None where that is not known."""
    if load is None:
        return None
    lengths = ((load.input_tokens, promise.input_tokens), (load.output_tokens, promise.output_tokens))
    grown = [_is_beyond(now, promised) for now, promised in lengths if (now, promised) != (None, None)]
    if promise.unit == RATE and promise.demand is not None:
        arrivals = observation.arrival_rate_per_s
        grown.append(None if arrivals is None else arrivals > promise.demand)
    else:
        grown.append(_is_beyond(load.arrival_rate_per_s, promise.arrival_rate_per_s))
    if True in grown:
        return False
    return None if None in grown else True


def load_of(snapshot: Snapshot, variant: Variant) -> Load | None:
    """The load of a variant's model; None where it is not known."""
    load = snapshot.observed.loads.get(variant.model)
    return load if isinstance(load, Load) else None


def _is_beyond(now: float | None, promised: float | None) -> bool | None:
    return None if now is None or promised is None else now > promised * (1 + NOISE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a merged pull request did to one variant at `at_s` (Unix seconds), and what it promised, if anything."""

    number: int
    at_s: float
    change: ProposedChange
    promise: Promise | None

    def before(self, current: Allocation) -> Allocation:
        """What the variant had; an accelerator that was not known is the one that it runs on."""
        return Allocation(
            accelerator=self.change.accelerator_before or current.accelerator, replicas=self.change.replicas_before
        )

    @property
    def is_move(self) -> bool:
        """Whether it went from one known accelerator to another."""
        names = self.change.accelerator_before, self.change.accelerator_after
        return all(names) and names[0] != names[1]

    @property
    def takes_away(self) -> bool:
        """Whether it may have left less capacity, and something that is measured."""
        return self.change.replicas_after > 0 and (
            self.is_move or self.change.replicas_after < self.change.replicas_before
        )


def merges_of(snapshot: Snapshot) -> Mapping[str, Sequence[Merge]]:
    """By str of a variant's key, its merges, the newest last."""
    found: dict[str, list[Merge]] = {}
    for proposal in snapshot.proposals:
        at_s, promises = proposal.closed_at_s, {each.resource: each for each in proposal.promises}
        if proposal.state is not ProposalState.MERGED or at_s is None or at_s > snapshot.now_s:
            continue
        for change in proposal.changes:
            promise = promises.get(change.resource)
            merge = Merge(number=proposal.number, at_s=at_s, change=change, promise=promise)
            found.setdefault(change.resource, []).append(merge)
    return {key: sorted(each, key=lambda merge: (merge.at_s, merge.number)) for key, each in found.items()}


# After the merge: whether replicas came up and promises are kept, once a change has had the time to act. A change is
# judged at the earliest when what was merged must serve, and not at all a day later: then it is no longer its doing.
# What somebody changed again meanwhile is not judged either, and nothing is while any of its metrics is missing.

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


DIGITS = 4
"""Of every number that is kept: what is left of them is noise, and differs from machine to machine."""


def promise_of(decision: Decision) -> Promise:
    """What is forecast of a change, with what was measured when it was."""
    load = decision.load
    return Promise(
        resource=str(decision.variant),
        unit=decision.unit,
        demand=_kept_of_promising(decision.demand),
        capacity=_kept_of_promising(decision.capacity_after),
        cost_per_hour=_kept_of_promising(decision.cost_after_per_hour),
        arrival_rate_per_s=None if load is None else _kept_of_promising(load.arrival_rate_per_s),
        input_tokens=None if load is None else _kept_of_promising(load.input_tokens),
        output_tokens=None if load is None else _kept_of_promising(load.output_tokens),
        latencies=tuple(
            PromisedLatency(
                name=slo.name,
                statistic=slo.statistic,
                target_s=slo.target_s,
                expected_s=_kept_of_promising(slo.after_s),
                mean_s=_mean(slo.name, decision.expected),
                measured_s=_mean(slo.name, decision.observed),
            )
            for slo in decision.slos
        ),
        reverts=decision.reverts,
    )


def _mean(name: str, performance: Performance | None) -> float | None:
    return None if performance is None else _kept_of_promising(performance.mean_s(name))


def _kept_of_promising(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else float(f"{value:.{DIGITS}g}")
