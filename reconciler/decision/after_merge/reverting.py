"""Which merged changes of ours broke their promise, so that what was before is proposed again, and not given up again.

Only what took capacity away is taken back: fewer replicas, or another accelerator. A promise counts as broken while a
target that was kept before, and that was to be kept, is missed at a load that was promised. More load than that is
sized as ever, and missing metrics break no promise. What was taken back is remembered for `pullRequests.reopenAfter`.

Promises come from pull requests' texts, which anybody may have edited. So the target that is missed is the one in Git
at least, what is measured comes from Prometheus, and replicas are at most doubled.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.decision.after_merge.comparing import NOISE, ComparedLatency, compared, is_covered, load_of
from reconciler.decision.after_merge.outcomes import TOO_LATE_S, acts_after_s, told_latency
from reconciler.decision.law_targets import slo_projections, targets_under
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Load, Observation, PastArrivals
from reconciler.domain.plan import SloProjection
from reconciler.domain.promises import BrokenPromise, Promise
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import AUTO, ENGINE, PAYBACK_S, Engine
from reconciler.metrics.queries.expressions import duration

FOLLOWED = (AUTO, Engine.QUEUEING, Engine.SATURATION)
"""Engines beside whose answer a promise counts: the others follow upstream or somebody's targets to the letter."""
MOST_GROWTH = 2
"""So many times the replicas that run are proposed at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """What a merged pull request did to one variant, and promised of it."""

    proposal: Proposal
    at_s: float
    change: ProposedChange
    promise: Promise

    def before(self, current: Allocation) -> Allocation:
        return Allocation(
            accelerator=self.change.accelerator_before or current.accelerator, replicas=self.change.replicas_before
        )

    @property
    def is_move(self) -> bool:
        names = self.change.accelerator_before, self.change.accelerator_after
        return all(names) and names[0] != names[1]

    @property
    def takes_away(self) -> bool:
        return self.change.replicas_after > 0 and (
            self.is_move or self.change.replicas_after < self.change.replicas_before
        )


def broken_promises(snapshot: Snapshot) -> dict[ResourceKey, BrokenPromise]:
    """By variant, the merge of ours that broke its promise, or did and was taken back."""
    merges = _merges(snapshot)
    found = (
        (variant.key, _standing(snapshot, variant, own) or _remembered(snapshot, variant, own, merges))
        for variant in snapshot.variants
        if (own := merges.get(str(variant.key))) and _is_followed(variant)
    )
    return {key: broken for key, broken in found if broken is not None}


def _is_followed(variant: Variant) -> bool:
    return not variant.is_autoscaled and variant.tracked_by is None and variant.settings[ENGINE].value in FOLLOWED


def _merges(snapshot: Snapshot) -> Mapping[str, list[_Merge]]:
    """The merges of each resource that promised something, the newest last."""
    found: dict[str, list[_Merge]] = {}
    for proposal in snapshot.proposals:
        at_s, promises = proposal.closed_at_s, {each.resource: each for each in proposal.promises}
        if proposal.state is not ProposalState.MERGED or at_s is None or not snapshot.now_s - at_s >= 0:
            continue
        for change in proposal.changes:
            if (promise := promises.get(change.resource)) is not None:
                merge = _Merge(proposal=proposal, at_s=at_s, change=change, promise=promise)
                found.setdefault(change.resource, []).append(merge)
    return {key: sorted(each, key=lambda merge: (merge.at_s, merge.proposal.number)) for key, each in found.items()}


def _standing(snapshot: Snapshot, variant: Variant, merges: list[_Merge]) -> BrokenPromise | None:
    """The newest merge of a variant, where it stands in Git and breaks its promise now."""
    merge, now = merges[-1], variant.current
    if not merge.takes_away or merge.change.merged(now) != now:
        return None
    is_proposed = _is_proposed(snapshot, variant, merge)
    age_s = snapshot.now_s - merge.at_s
    most_s = snapshot.settings.pull_requests.reopen_after_s if is_proposed else TOO_LATE_S
    if not acts_after_s(variant) <= age_s < max(most_s, TOO_LATE_S):
        return None
    words = _why_broken(snapshot, variant, merge, is_proposed=is_proposed)
    if not words:
        return None
    before, number = merge.before(now), merge.proposal.number
    least = min(before.replicas, MOST_GROWTH * now.replicas)
    return BrokenPromise(number=number, before=before, after=now, least=least, words=words)


def _is_proposed(snapshot: Snapshot, variant: Variant, merge: _Merge) -> bool:
    """Whether an open pull request takes the merge back."""
    return any(
        promise.reverts == merge.proposal.number and promise.resource == str(variant.key)
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for promise in proposal.promises
    )


def _why_broken(snapshot: Snapshot, variant: Variant, merge: _Merge, *, is_proposed: bool) -> str:
    """How a merge breaks its promise; empty where it does not, or nobody knows.

    What is proposed already stays until it is known that the target is kept, and not only within noise.
    """
    observation, load = snapshot.observed.observations.get(variant.key), load_of(snapshot, variant)
    if observation is None or observation.absence is not None:
        return ""
    covered = is_covered(merge.promise, observation, load)
    if covered is False:
        return ""
    found = list(_judged(variant, merge.promise, observation, load))
    missed = [each for each in found if each.is_missed]
    is_sure = covered is True and observation.replicas_reporting == variant.current.replicas
    if missed and is_sure:
        return _told(merge, missed, observation)
    is_kept = is_sure and found and all(each.measured_s <= each.promised.target_s for each in found)
    return "" if not is_proposed or is_kept else _told(merge, found, observation)


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


def _told(merge: _Merge, found: list[ComparedLatency], observation: Observation) -> str:
    change, number = merge.change, merge.proposal.number
    did = (
        f"moved it from {change.accelerator_before} to {change.accelerator_after}"
        if merge.is_move
        else f"took it from {change.replicas_before} to {change.replicas_after} replicas"
    )
    latencies = ", ".join(told_latency(each, is_broken=False) for each in found) or "what came of it is not known now"
    arrivals, demand = observation.arrival_rate_per_s, merge.promise.demand
    load = "" if arrivals is None or demand is None else f", at {arrivals:.3g} req/s measured of {demand:.3g} forecast"
    return f"pull request #{number} {did} and broke its promise: {latencies}{load}"


def _remembered(
    snapshot: Snapshot, variant: Variant, own: list[_Merge], merges: Mapping[str, list[_Merge]]
) -> BrokenPromise | None:
    """The newest change of a variant that was taken back, while that is remembered."""
    reopen_after_s = snapshot.settings.pull_requests.reopen_after_s
    by_number = {each.proposal.number: each for each in merges[str(variant.key)]}
    for merge in reversed(own):
        broken = by_number.get(merge.promise.reverts or 0)
        is_old = snapshot.now_s - merge.at_s >= reopen_after_s
        if broken is None or is_old or not broken.takes_away or broken.at_s > merge.at_s:
            continue
        change, before = broken.change, broken.before(variant.current)
        number, after = broken.proposal.number, change.merged(variant.current)
        words = (
            f"pull request #{number} changed {_words(before)} to {_words(after)}, broke its promise, and was taken "
            f"back by #{merge.proposal.number}: for {duration(reopen_after_s)} no replica is to serve more than before"
        )
        return BrokenPromise(
            number=number,
            before=before,
            after=after,
            least=_least(snapshot, variant, broken),
            words=words,
            reverted_by=merge.proposal.number,
        )
    return None


def _words(allocation: Allocation) -> str:
    return f"{allocation.replicas} x {allocation.accelerator or 'unknown'}"


def _least(snapshot: Snapshot, variant: Variant, broken: _Merge) -> int:
    """How many replicas carry the load of now, each no more than before the promise was broken; never more than run."""
    current, load = variant.current.replicas, load_of(snapshot, variant)
    if load is None:
        return current
    promise, peak_per_s = broken.promise, max(load.arrival_rate_per_s, *_past(snapshot, variant), 0.0)
    pairs = ((load.input_tokens, promise.input_tokens), (load.output_tokens, promise.output_tokens))
    longer = max((now / then for now, then in pairs if now and then), default=1.0)
    if not promise.arrival_rate_per_s:
        return current
    share = peak_per_s / promise.arrival_rate_per_s * max(longer, 1.0)
    return math.ceil(min(broken.change.replicas_before * share, current))


def _past(snapshot: Snapshot, variant: Variant) -> Iterator[float]:
    """What arrived for its model within `payback`, as far as it is known."""
    past = snapshot.observed.past.get(variant.model)
    if isinstance(past, PastArrivals):
        since_s = snapshot.now_s - variant.settings[PAYBACK_S].value
        for index, rate in enumerate(past.rates_per_s):
            if past.start_s + index * past.step_s >= since_s and math.isfinite(rate):
                yield rate
