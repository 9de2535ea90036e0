"""After the merge: whether replicas came up and targets are kept, once a change has had the time to act.

A change is judged at the earliest when what was merged must serve, and not at all a day later: then it is no longer its
doing. What somebody changed again meanwhile is not judged either, and nothing is while any of its metrics is missing.
"""

from collections.abc import Iterator

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Plan, SloProjection
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
NOISE = 0.10
"""So far a latency may lie above its target before the target counts as missed."""


def judge_merges(snapshot: Snapshot, plan: Plan) -> Iterator[MergedOutcome]:
    """The outcome of each pull request that was merged, where all that it changed can be judged now."""
    variants = {str(each.key): each for each in snapshot.variants}
    decisions = {str(each.variant): each for each in plan.decisions}
    for proposal in snapshot.proposals:
        if proposal.state is not ProposalState.MERGED or proposal.closed_at_s is None or not proposal.changes:
            continue
        age_s = snapshot.now_s - proposal.closed_at_s
        if not 0 <= age_s < TOO_LATE_S:
            continue
        judged = [
            _judge(snapshot, change, variants.get(change.resource), decisions.get(change.resource), age_s)
            for change in proposal.changes
        ]
        changes = tuple(each for each in judged if each is not None)
        if len(changes) == len(judged):
            yield _outcome(proposal, changes)


def _outcome(proposal: Proposal, changes: tuple[ChangeOutcome, ...]) -> MergedOutcome:
    return MergedOutcome(number=proposal.number, group=proposal.group, changes=changes)


def _judge(
    snapshot: Snapshot, change: ProposedChange, variant: Variant | None, decision: Decision | None, age_s: float
) -> ChangeOutcome | None:
    """What a change came to; None while that cannot be said."""
    if variant is None or decision is None or change.merged(variant.current) != variant.current:
        return None
    acts_s = variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + WINDOW_S
    observation = snapshot.observed.observations.get(variant.key)
    if age_s < acts_s or observation is None or observation.absence is not None:
        return None
    asked, reporting = change.replicas_after, observation.replicas_reporting
    if reporting < asked:
        return _unfinished(snapshot, variant.key, reporting, asked) if age_s >= acts_s + PATIENCE_S else None
    missed = tuple(_missed(decision))
    words = ", ".join((f"{asked} of {asked} replicas serve", *(missed or _kept(decision))))
    return ChangeOutcome(resource=variant.key.label, words=words, broken=bool(missed))


def _unfinished(snapshot: Snapshot, key: ResourceKey, reporting: int, asked: int) -> ChangeOutcome:
    stuck = snapshot.observed.unschedulable.get(key, 0)
    pending = f", {stuck} find no node: nothing is added until they do" if stuck else ""
    words = f"only {reporting} of {asked} replicas serve{pending}"
    return ChangeOutcome(resource=key.label, words=words, broken=True)


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
    observed = decision.observed
    for slo in decision.slos if observed is not None else ():
        value = getattr(observed, f"{slo.name}_s", None)
        if isinstance(value, float):
            yield slo, value


def _words(slo: SloProjection, measured_s: float) -> str:
    measured, target = (f"{ms_from_seconds(each):.0f} ms" for each in (measured_s, slo.target_s))
    name = slo.name.upper() if slo.name in ("itl", "ttft") else slo.name
    return f"mean {name} is {measured} (target {target})"
