"""What guard rails leave the optimizer: the numbers each variant may have, before anything is chosen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decision.problem.devices import Devices
from reconciler.decision.problem.evidence import evidence_of
from reconciler.decision.problem.shared_rules import SharedLimit, shared_rules
from reconciler.decision.problem.spot import with_spot
from reconciler.decision.problem.terms import priority_of
from reconciler.decision.variant_states import VariantState
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.requirements import Bounds, Requirement
from reconciler.domain.snapshot import Snapshot
from reconciler.policy.judging import NO_LIMITS, ReplicaLimits, RuleBook
from reconciler.policy.subjects import NO_EVIDENCE, Merge, Spoken, Subject

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
                live=live if isinstance(live := snapshot.observed.live.get(state.variant.key), LiveReplicas) else None,
                pools=pools,
                devices=devices.taken(state.variant),
            )
            for state in states
        }
        subjects = with_spot(subjects, snapshot.settings)
        free = {state.variant.key: subjects[state.variant.key] for state in states if state.is_free}
        stopped = {key: said for key, each in free.items() if (said := rules.broken(each)) is not None}
        limits = {key: rules.limits(each) for key, each in free.items() if key not in stopped}
        shared = shared_rules(rules.rules, subjects)
        return cls(rules=rules, subjects=subjects, limits=limits, stopped=stopped, shared=shared)

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


def _merges(proposals: Iterable[Proposal]) -> dict[str, tuple[Merge, ...]]:
    """Our merges of each resource, by str of its key."""
    found: dict[str, list[Merge]] = {}
    for proposal in proposals:
        if proposal.state is not ProposalState.MERGED or proposal.closed_at_s is None:
            continue
        for change in proposal.changes:
            found.setdefault(change.resource, []).append(
                Merge(at_s=proposal.closed_at_s, replicas_before=change.replicas_before)
            )
    return {key: tuple(sorted(each, key=lambda merge: merge.at_s)) for key, each in found.items()}
