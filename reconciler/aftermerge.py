"""PURE. After the merge: what our merges promised, what came of them, and which are proposed to be reverted.

Formulas and defaults: rules/merging.md.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Observation, Performance
from reconciler.domain.plan import RATE, Decision, ExpectedLoad, Plan, SloProjection
from reconciler.domain.proposals import (
    BrokenPromise,
    ChangeOutcome,
    MergedOutcome,
    Promise,
    PromisedLatency,
    Proposal,
    ProposalState,
    ProposedChange,
)
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import ForecastRatio, Savings
from reconciler.domain.scalers import TuningEvidence
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import AUTO, ENGINE, PAYBACK_S, START_DELAY_S, SYNC_DELAY_S, Engine
from reconciler.metrics.queries import duration
from reconciler.sizing.queueing_laws import slo_projections, targets_under

NOISE = 0.10
"""So far a mean may lie beyond a number, and a load beyond another, before that counts."""
DEVIATIONS = 3.0
"""Standard errors of a mean that may be chance; requests differ as those of the exponential law do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLatency:
    """The measured mean of a latency, with the mean that was promised; times in seconds."""

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
    """The fraction that a mean over what a variant got lately may be off by chance; infinite where it is not known."""
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
            accelerator=self.change.accelerator_before or current.accelerator,
            replicas=self.change.replicas_before,
            scaling=current.scaling,
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
    return merges_among(snapshot.proposals, snapshot.now_s)


def merges_among(proposals: Iterable[Proposal], now_s: float) -> Mapping[str, Sequence[Merge]]:
    """The same of proposals, until `now_s` (Unix seconds)."""
    found: dict[str, list[Merge]] = {}
    for proposal in proposals:
        at_s, promises = proposal.closed_at_s, {each.resource: each for each in proposal.promises}
        if proposal.state is not ProposalState.MERGED or at_s is None or at_s > now_s:
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
KNOWN_AFTER_S = 600.0
"""After the time of a forecast the whole of it is in the history: means of ten minutes."""
PATIENCE_S = 600.0
"""What a rollout may take longer, before replicas that are missing break a promise."""
TOO_LATE_S = 86_400.0
SCORED_S = 7 * 86_400.0
"""For so long an autoscaler's setting is scored, on whole days since its merge."""
DEARER = 0.01
"""A cost may differ from its forecast by this fraction before it is reported."""


def acts_after_s(variant: Variant) -> float:
    """How long after a merge metrics tell what it does."""
    return variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + WINDOW_S


def judge_merges(snapshot: Snapshot, plan: Plan) -> Iterator[MergedOutcome]:
    """The outcome of each pull request that was merged, where all that it changed can be judged now.

    What is broken does not wait for the rest longer than a rollout may take.
    """
    variants, decisions = _by_resource(snapshot, plan.decisions)
    for proposal in snapshot.own_proposals:
        if proposal.state is not ProposalState.MERGED or proposal.closed_at_s is None or not proposal.changes:
            continue
        age_s = snapshot.now_s - proposal.closed_at_s
        is_scored = all(each.is_tuning for each in proposal.changes)
        if not 0 <= age_s < (SCORED_S if is_scored else TOO_LATE_S):
            continue
        judged = list(_judged(snapshot, proposal, variants, decisions, age_s, is_scored=is_scored))
        changes = tuple(each for each in judged if each is not None)
        acts_s = [acts_after_s(variants[each.resource]) for each in proposal.changes if each.resource in variants]
        is_late = age_s >= max(acts_s, default=0.0) + PATIENCE_S
        is_over = all((each.expected_until_s or 0.0) + KNOWN_AFTER_S <= snapshot.now_s for each in proposal.promises)
        if (is_over and len(changes) == len(judged)) or (is_late and any(each.broken for each in changes)):
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
            return f"it is not known what pull request #{proposal.number} changed, which was merged"
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


def is_young(snapshot: Snapshot, proposal: Proposal) -> bool:
    """Whether it was merged so lately that it cannot have rolled out yet."""
    told = {change.resource for change in proposal.changes}
    age_s = 0.0 if proposal.closed_at_s is None else snapshot.now_s - proposal.closed_at_s
    return any(age_s < acts_after_s(each) for each in snapshot.variants if str(each.key) in told)


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
    *,
    is_scored: bool = False,
) -> Iterator[ChangeOutcome | None]:
    """Of each change what it came to; with `is_scored` by the scores of settings and not by what rolled out."""
    promises = {each.resource: each for each in proposal.promises}
    for change in proposal.changes:
        variant, decision = variants.get(change.resource), decisions.get(change.resource)
        if variant is None or decision is None:
            yield None
        elif is_scored:
            yield _scored(promises.get(change.resource), decision, proposal.number)
        else:
            yield _judge(snapshot, change, promises.get(change.resource), variant, decision, age_s)


def _scored(promise: Promise | None, decision: Decision, number: int) -> ChangeOutcome | None:
    """What an autoscaler's setting came to; None in runs that do not look, and where no whole day since is known."""
    score = decision.scored
    if score is None or score.number != number:
        return None
    words = (
        f"simulated on {score.days} whole day{'s' * (score.days > 1)} since the merge: "
        f"{100 * score.cost_change:+.0f} % cost, attainment "
        f"{100 * score.attainment[0]:.1f} -> {100 * score.attainment[1]:.1f} %"
    )
    if promise is not None and promise.cost_ratio is not None and promise.attainment is not None:
        words += f" ({100 * (promise.cost_ratio - 1):+.0f} % and {100 * promise.attainment:.1f} % promised)"
    if score.broken:
        words += f", but {score.broken}: the setting before it is proposed again"
    return ChangeOutcome(resource=decision.variant.label, words=words, broken=bool(score.broken))


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
    if decision.hold is not None and decision.hold.kind is HoldKind.DRIFTED:
        late = f"{age_s / 60:.0f} minutes after the merge the cluster has not followed"
        look = "look whether Argo CD or Flux has applied this commit, and at their errors"
        return ChangeOutcome(resource=variant.key.label, words=f"{late}: {look}; {decision.hold.words}", broken=True)
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
    pending = ": look whether this commit was applied, and at the events of its pods"
    if stuck:
        pending = f", {stuck} find no node: nothing is added until they do"
    words = f"only {reporting} of {asked} replicas serve{pending}"
    return ChangeOutcome(resource=key.label, words=words, broken=True)


def _against(
    promise: Promise, snapshot: Snapshot, variant: Variant, observation: Observation, decision: Decision
) -> tuple[tuple[str, ...], bool]:
    """What was measured against what was forecast, and whether a target is missed at a load that was promised."""
    load = load_of(snapshot, variant)
    covered, found = is_covered(promise, observation, load), tuple(compared(promise, observation, load))
    is_broken = covered is True and any(each.is_missed for each in found)
    words = [told_latency(each, is_broken=is_broken) for each in found]
    arrivals = observation.arrival_rate_per_s
    if arrivals is not None and promise.unit == RATE and promise.demand is not None:
        more = "" if covered is not False else ": more load, or longer requests, than was forecast"
        words.append(f"{arrivals:.3g} req/s measured, up to {promise.demand:.3g} forecast{more}")
    return (*words, *_load_as_expected(promise, snapshot, variant), *_cost(promise, decision)), is_broken


def _load_as_expected(promise: Promise, snapshot: Snapshot, variant: Variant) -> Iterator[str]:
    """What arrived in the time that the change was for, where a forecast decided and all of that time is known."""
    most, since_s, until_s = promise.expected_per_s, promise.expected_since_s, promise.expected_until_s
    if most is None or since_s is None or until_s is None:
        return
    for history in snapshot.observed.demand:
        if variant.model not in history.models:
            continue
        ends_s = history.start_s + history.step_s * np.arange(history.per_s.shape[1])
        rates = history.per_s[history.models.index(variant.model), (ends_s > since_s) & (ends_s <= until_s)]
        if rates.size and np.isfinite(rates).all():
            when = ExpectedLoad(since_s=since_s, until_s=until_s, per_s={}).told_window
            words = f"at most {most:.3g} were expected, nine times in ten"
            yield f"{rates.max():.3g} req/s at most arrived {when}, {words}"


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


NINE_IN_TEN = 0.9
DIGITS = 4
"""Of every number that is kept: what is left of them is noise, and differs from machine to machine."""


def promise_of(decision: Decision, expected: ExpectedLoad | None = None) -> Promise:
    """What is forecast of a change, with what was measured when it was; `expected` is the load of its model."""
    load = decision.load
    return Promise(
        resource=str(decision.variant),
        unit=decision.unit,
        demand=_promised(decision.demand),
        capacity=_promised(decision.capacity_after),
        cost_per_hour=_promised(decision.cost_after_per_hour),
        arrival_rate_per_s=None if load is None else _promised(load.arrival_rate_per_s),
        input_tokens=None if load is None else _promised(load.input_tokens),
        output_tokens=None if load is None else _promised(load.output_tokens),
        latencies=tuple(
            PromisedLatency(
                name=slo.name,
                statistic=slo.statistic,
                target_s=slo.target_s,
                expected_s=_promised(slo.after_s),
                mean_s=_mean(slo.name, decision.expected),
                measured_s=_mean(slo.name, decision.observed),
            )
            for slo in decision.slos
        ),
        reverts=decision.reverts,
        expected_per_s=None if expected is None else _promised(expected.per_s[NINE_IN_TEN]),
        expected_since_s=None if expected is None else round(expected.since_s),
        expected_until_s=None if expected is None else round(expected.until_s),
        **({} if decision.tuning is None else _tuned(decision.tuning)),
    )


def _tuned(evidence: TuningEvidence) -> dict[str, float | None]:
    before, after = evidence.attainment
    promised = {"cost_ratio": 1 + evidence.cost_change, "attainment_before": before, "attainment": after}
    return {name: _promised(value) for name, value in {"days": evidence.days, **promised}.items()}


def _mean(name: str, performance: Performance | None) -> float | None:
    return None if performance is None else _promised(performance.mean_s(name))


def _promised(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else float(f"{value:.{DIGITS}g}")


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
    between, at an unknown time: then it counts for nothing, and what was saved before it no further.
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


def broken_promises(snapshot: Snapshot, engines: Collection[Engine]) -> dict[ResourceKey, BrokenPromise]:
    """By variant, the merge of ours that broke its promise, or did and was reverted.

    Promises count for variants that one of `engines` sizes: others follow upstream or somebody's targets to the letter.
    """
    merges = merges_of(snapshot)
    proposed = {
        (promise.reverts, promise.resource)
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for promise in proposal.promises
    }
    found = (
        (variant.key, _standing(snapshot, variant, own, proposed) or _remembered(snapshot, variant, own))
        for variant in snapshot.variants
        if (own := merges.get(str(variant.key)))
        and (variant.settings[ENGINE].value == AUTO or variant.settings[ENGINE].value in engines)
        and not variant.is_autoscaled
        and variant.tracked_by is None
    )
    return {key: broken for key, broken in found if broken is not None}


def _standing(
    snapshot: Snapshot, variant: Variant, merges: Sequence[Merge], proposed: Collection[tuple[int | None, str]]
) -> BrokenPromise | None:
    """The newest merge of a variant, where it stands in Git and breaks its promise now.

    `proposed` has the merges, by number and resource, that open pull requests take back.
    """
    last, now = merges[-1], variant.current
    merge = _half_taken_back(merges, now) or last
    if merge.promise is None or not merge.takes_away or last.change.merged(now) != now:
        return None
    is_proposed = (merge.number, str(variant.key)) in proposed
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


def _why_broken(snapshot: Snapshot, variant: Variant, merge: Merge, promise: Promise, *, is_proposed: bool) -> str:
    """How a merge breaks its promise; empty where it does not, or where that is not known.

    What is proposed already stays until it is known that the target is kept, and not only within noise.
    """
    observation, load = snapshot.observed.observations.get(variant.key), load_of(snapshot, variant)
    if observation is None or observation.absence is not None:
        return ""
    covered = is_covered(promise, observation, load)
    if covered is False:
        return ""
    found = list(_judged_now(variant, promise, observation, load))
    missed = [each for each in found if each.is_missed]
    is_sure = covered is True and observation.replicas_reporting == variant.current.replicas
    if missed and is_sure:
        return _told(merge, promise, missed, observation)
    is_kept = is_sure and found and all(each.measured_s <= each.promised.target_s for each in found)
    return "" if not is_proposed or is_kept else _told(merge, promise, found, observation)


def _judged_now(
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
    option = variant.current_option
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
            f"pull request #{number} changed {_spelled(before)} to {_spelled(after)}, broke its promise, and was "
            f"reverted by #{merge.number}: scale-down is suppressed for {duration(reopen_after_s)}"
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


def _spelled(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"


def _least(snapshot: Snapshot, variant: Variant, before: int, promise: Promise | None) -> int:
    """How many replicas serve the load of now, each no more than one of those `before`; never more than run."""
    current, load = variant.current.replicas, load_of(snapshot, variant)
    if load is None or promise is None or not promise.arrival_rate_per_s:
        return current
    peak_per_s = max(load.arrival_rate_per_s, _past_peak_per_s(snapshot, variant))
    pairs = ((load.input_tokens, promise.input_tokens), (load.output_tokens, promise.output_tokens))
    longer = max((min(now / then, MOST_LONGER) for now, then in pairs if now and then), default=1.0)
    share = peak_per_s / promise.arrival_rate_per_s * max(longer, 1.0)
    return math.ceil(min(before * min(share, current), current))


def _past_peak_per_s(snapshot: Snapshot, variant: Variant) -> float:
    """The most that arrived for its model within `payback`, as far as it is known."""
    past = snapshot.observed.past.get(variant.model)
    if not isinstance(past, LoadHistory):
        return 0.0
    is_recent = past.times_s >= snapshot.now_s - variant.settings[PAYBACK_S].value
    return float(np.max(past.rates_per_s, where=is_recent & np.isfinite(past.rates_per_s), initial=0.0))
