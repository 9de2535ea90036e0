"""What guard rails leave the optimizer: the numbers each variant may have, shared limits, spot shares."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from reconciler.aftermerge import Merge, compared, is_covered, load_of, merges_of
from reconciler.decision.devices import Devices
from reconciler.decision.variant_states import Allocations, VariantState
from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import LiveReplicas, Observation
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds, Requirement
from reconciler.domain.rules import FreezeRule, MetricsRule, Rule
from reconciler.domain.settings import SPOT, Settings
from reconciler.domain.snapshot import Snapshot, Variant, priority_of
from reconciler.domain.variant_settings import PAYBACK_S
from reconciler.policy.judging import NO_LIMITS, ReplicaLimits, RuleBook
from reconciler.policy.port import (
    NO_EVIDENCE,
    NO_SPOT,
    NO_SPOT_CHANGE,
    Evidence,
    Forecast,
    SharedLimit,
    Spoken,
    SpotChange,
    SpotCount,
    Subject,
    Subjects,
)
from reconciler.policy.port import Merge as PastMerge


def evidence_of(snapshot: Snapshot, rules: Iterable[Rule]) -> Mapping[ResourceKey, Evidence]:
    """By variant; nothing where no rule asks for it."""
    asked = [rule.asks for rule in rules if isinstance(rule.asks, MetricsRule)]
    if not any(asks != MetricsRule(reporting=asks.reporting) for asks in asked):
        return {}
    merges = merges_of(snapshot)
    return {each.key: _of_variant(snapshot, each, merges.get(str(each.key), ())[-1:]) for each in snapshot.variants}


def _of_variant(snapshot: Snapshot, variant: Variant, last: Iterable[Merge]) -> Evidence:
    observation, load = snapshot.observed.observations.get(variant.key), load_of(snapshot, variant)
    past, past_s = snapshot.observed.past.get(variant.model), variant.settings[PAYBACK_S].value
    return Evidence(
        age_s=None if observation is None else observation.age_s,
        requests=None if load is None else load.arrival_rate_per_s * load.window_s,
        window_s=0.0 if load is None else load.window_s,
        known=None if past is None else _known(past, snapshot.now_s, past_s) if isinstance(past, LoadHistory) else 0.0,
        past_s=past_s,
        forecasts=tuple(each for merge in last for each in _forecasts(snapshot, variant, merge, observation)),
    )


def _known(past: LoadHistory, now_s: float, past_s: float) -> float:
    """The share of the moments of this time that have a rate; what is beyond the answer has none."""
    known = np.isfinite(past.rates_per_s) & (past.times_s > now_s - past_s) & (past.times_s <= now_s)
    return min(int(np.count_nonzero(known)) / max(math.floor(past_s / past.step_s), 1), 1.0)


def _forecasts(
    snapshot: Snapshot, variant: Variant, merge: Merge, observation: Observation | None
) -> Iterator[Forecast]:
    """What the last merge was to bring, while it stands and the load is one that it was made for."""
    promise, load = merge.promise, load_of(snapshot, variant)
    if promise is None or observation is None or observation.absence is not None:
        return
    if merge.change.merged(variant.current) != variant.current or not is_covered(promise, observation, load):
        return
    for each in compared(promise, observation, load):
        forecast_s = each.promised.mean_s
        if forecast_s:
            yield Forecast(
                number=merge.number,
                name=each.promised.name,
                forecast_s=forecast_s,
                measured_s=each.measured_s,
                noise=each.noise,
            )


def spot_accelerators(settings: Settings) -> dict[str, frozenset[str]]:
    """By cluster the accelerators of which any pool has the tier `spot`: which device a replica gets is not known."""
    found: dict[str, frozenset[str]] = {}
    for cluster in settings.clusters:
        devices = {pool.device for pool in cluster.pools if pool.tier == SPOT}
        names = {each.name for each in settings.accelerators if each.device in devices}
        found[cluster.name] = frozenset(devices | names)
    return found


def with_spot(subjects: Subjects, settings: Settings) -> dict[ResourceKey, Subject]:
    """The subjects with what is spot for them, and how many other replicas run."""
    spot = spot_accelerators(settings)
    if not any(spot.values()):
        return dict(subjects)
    told = {key: replace(each, spot=spot.get(key.cluster, frozenset())) for key, each in subjects.items()}
    counts = {key: each.spot_of(each.current) for key, each in told.items()}
    fleet = sum(counts.values(), NO_SPOT)
    models: defaultdict[object, SpotCount] = defaultdict(SpotCount)
    for key, each in told.items():
        models[each.variant.model.whole] += counts[key]
    return {
        key: replace(
            each,
            beside_in_model=models[each.variant.model.whole] - counts[key],
            beside_in_fleet=fleet - counts[key],
        )
        for key, each in told.items()
    }


def spot_changes(
    subjects: Subjects,
    allocations: Allocations,
    group_of: Mapping[ResourceKey, str],
    urgency: Callable[[ResourceKey], tuple[object, ...]],
) -> Callable[[ResourceKey], tuple[SpotChange, SpotChange]]:
    """What a plan makes of the spot replicas of a variant's model, and of all, the most urgent parts first."""
    if not any(each.spot for each in subjects.values()):
        return lambda _: (NO_SPOT_CHANGE, NO_SPOT_CHANGE)
    members: defaultdict[object, list[ResourceKey]] = defaultdict(list)
    for key, each in subjects.items():
        members[each.variant.model.whole].append(key)

    def change(keys: Iterable[ResourceKey]) -> SpotChange:
        now, by_part = NO_SPOT, defaultdict[tuple[str, str], SpotCount](SpotCount)
        for key in sorted(keys, key=urgency):
            subject = subjects[key]
            before, after = subject.spot_of(subject.current), subject.spot_of(allocations[key])
            now += before
            if after != before:
                by_part[group_of[key], str(subject.variant.model.whole)] += after - before
        return SpotChange(now=now, by_part=by_part)

    models, fleet = {model: change(keys) for model, keys in members.items()}, change(subjects)

    def of(key: ResourceKey) -> tuple[SpotChange, SpotChange]:
        model = subjects[key].variant.model.whole
        part = (group_of[key], str(model))
        return replace(models[model], part=part), replace(fleet, part=part)

    return of


NO_RULES = RuleBook(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The rules of a run, what they are asked about, and the numbers that they leave what may change.

    `stopped` says which rule keeps a variant from changing at all, `shared` are budgets and limits on changes.
    """

    rules: RuleBook = NO_RULES
    subjects: Mapping[ResourceKey, Subject] = field(default_factory=dict)
    limits: Mapping[ResourceKey, ReplicaLimits] = field(default_factory=dict)
    stopped: Mapping[ResourceKey, Spoken] = field(default_factory=dict)
    shared: tuple[SharedLimit, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot, states: Iterable[VariantState], devices: Devices) -> "Guard":
        """What the rules of a snapshot's settings say of variants that may change."""
        rules = RuleBook(snapshot.settings.rules)
        if not rules.rules:
            return cls()
        merges, pools = _merges(snapshot.proposals), {pool.name: pool.devices for pool in devices.pools}
        evidence = evidence_of(snapshot, rules.rules)
        subjects = {
            state.variant.key: Subject(
                now_s=snapshot.now_s,
                variant=state.variant,
                priority=priority_of(state.variant),
                reporting=state.replicas_reporting,
                evidence=evidence.get(state.variant.key, NO_EVIDENCE),
                merges=merges.get(str(state.variant.key), ()),
                written=snapshot.written.get(state.variant.key),
                paid=snapshot.paid.get(state.variant.key),
                live=live if isinstance(live := snapshot.observed.live.get(state.variant.key), LiveReplicas) else None,
                pools=pools,
                devices=devices.taken(state.variant),
                is_harmful=any(each.is_repair for each in filter(None, [snapshot.canaries.get(state.variant.key)])),
            )
            for state in states
        }
        subjects = with_spot(subjects, snapshot.settings)
        free = {state.variant.key: subjects[state.variant.key] for state in states if state.is_free}
        stopped = {key: said for key, each in free.items() if (said := rules.broken(each)) is not None}
        limits = {key: rules.limits(each) for key, each in free.items() if key not in stopped}
        shared = rules.shared(subjects)
        return cls(rules=rules, subjects=subjects, limits=limits, stopped=stopped, shared=shared)

    def repairing(self, short: Iterable[ResourceKey]) -> "Guard":
        """The same once it is known of which variants the load exceeds what runs: a freeze may let these grow."""
        if not any(isinstance(rule.asks, FreezeRule) for rule in self.rules.rules):
            return self
        subjects = {key: replace(self.subjects[key], is_short=True) for key in short if key in self.limits}
        limits = {key: self.rules.limits(each) for key, each in subjects.items()}
        return replace(self, subjects={**self.subjects, **subjects}, limits={**self.limits, **limits})

    def held(self, states: Sequence[VariantState]) -> tuple[VariantState, ...]:
        """The states, with a hold where rules leave no change."""
        return tuple(
            state if (hold := self._hold(state.variant.key)) is None else replace(state, holds=(*state.holds, hold))
            for state in states
        )

    def _hold(self, key: ResourceKey) -> Hold | None:
        said = self.stopped.get(key)
        if said is not None:
            return Hold(kind=HoldKind.RULE_UNREADABLE, words=f"rule {said.rule} {said.words}", place=said.rule.place)
        conflict = self.limits.get(key, NO_LIMITS).conflict
        if not conflict:
            return None
        words = f"rules {' and '.join(map(str, conflict))} leave no number of replicas"
        return Hold(kind=HoldKind.RULES_CONFLICT, words=words, place=conflict[0].place)

    def bounds(self, key: ResourceKey, own: Bounds, *, may_shrink: bool, may_move: bool) -> Bounds:
        """The bounds of a variant within what rules leave; who may not shrink keeps its own minimum.

        Of one that may move both numbers are left: those on its accelerator, and those on another.
        """
        if key not in self.limits:
            return own
        limits, least = self.limits[key], 0 if may_shrink else own.minimum
        found = [_within(own, each) for each in (limits, limits.on(is_move=may_move))]
        most = None if any(each.maximum is None for each in found) else max(each.maximum or 0 for each in found)
        minimum = max(min(each.minimum for each in found), least)
        is_ruled = limits.cap is not None and most is not None and (own.maximum is None or most < own.maximum)
        ruled_by = str(limits.cap.rule) if limits.cap is not None and is_ruled else ""
        return Bounds(minimum=minimum, maximum=None if most is None else max(most, minimum), ruled_by=ruled_by)

    def admitted(self, key: ResourceKey, desired: Allocation) -> Allocation:
        """What rules leave of an allocation, where it would be another."""
        subject = self.subjects.get(key)
        if subject is None or key not in self.limits:
            return desired
        is_move = desired.replicas > 0 and desired.accelerator != subject.current.accelerator
        return replace(desired, replicas=self.limits[key].on(is_move=is_move).admitted(desired.replicas))

    def why_not(self, candidate: CandidateKey) -> str:
        """Why rules keep a variant from moving to an accelerator; empty where none does, or it runs there."""
        subject = self.subjects.get(candidate.variant)
        if subject is None or candidate.accelerator == subject.current.accelerator:
            return ""
        anchor = self.limits.get(candidate.variant, NO_LIMITS).anchor
        if anchor is not None:
            return f"rule {anchor.rule}: {anchor.range.words}"
        said = self.rules.refuse(subject, candidate.accelerator)
        return "" if said is None else f"rule {said.rule}: {said.words}"

    def requirement(self, asked: Requirement) -> Requirement:
        """A finished answer as far as rules leave it; what is asked otherwise is cut by bounds."""
        if asked.fixed is None or not self.limits:
            return asked
        fixed = {key: self.limits.get(key, NO_LIMITS).admitted(count) for key, count in asked.fixed.items()}
        return asked if fixed == asked.fixed else replace(asked, fixed=fixed)


def _within(own: Bounds, limits: ReplicaLimits) -> Bounds:
    most = limits.most if own.maximum is None else limits.admitted(own.maximum)
    return Bounds(minimum=limits.admitted(own.minimum), maximum=most)


def _merges(proposals: Iterable[Proposal]) -> dict[str, tuple[PastMerge, ...]]:
    """Our merges of each resource, by str of its key."""
    found: dict[str, list[PastMerge]] = {}
    for proposal in proposals:
        if proposal.state is not ProposalState.MERGED or proposal.closed_at_s is None:
            continue
        for change in proposal.changes:
            found.setdefault(change.resource, []).append(
                PastMerge(at_s=proposal.closed_at_s, replicas_before=change.replicas_before)
            )
    return {key: tuple(sorted(each, key=lambda merge: merge.at_s)) for key, each in found.items()}
