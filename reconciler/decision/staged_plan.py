"""A plan on its way to pull requests, the situation that it is in, and what a pass over it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from reconciler.decision.formulation import FormulatedProblem
from reconciler.decision.variant_states import Allocations, VariantState
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Outcome, Verdict
from reconciler.domain.proposals import Part, Proposal, ProposalState, branches_of, collected_groups, head_branch
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Solution
from reconciler.domain.scalers import TuningEvidence, TuningScore
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import GROUP
from reconciler.policy.port import Spoken
from reconciler.snapshot.effective_settings import group_of_broken

LAX_TO_STRICT = (Part.AUTO, Part.URGENT, Part.APPROVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What no pass changes: the snapshot, its variants, the problem that was solved, and who is in which group.

    `group_of` names the group of every resource, those among them that could not be read. `proposals` are our pull
    requests by group, open and closed: found by head branch, for what a body says of its group anybody can edit. One
    that several groups share is there under its own name, and for each of these groups with what it says of it;
    `collected` are the name and part of each branch of such.
    `paid` is what variants cost per hour before a change of what a replica is; such a change needs no other allocation.
    """

    snapshot: Snapshot
    states: Sequence[VariantState]
    formulated: FormulatedProblem
    group_of: Mapping[ResourceKey, str]
    proposals: Mapping[str, tuple[Proposal, ...]]
    collected: Mapping[str, tuple[str, Part]] = field(default_factory=dict)
    paid: Mapping[ResourceKey, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, states: Sequence[VariantState], formulated: FormulatedProblem) -> "Situation":
        """The situation of these variants in `snapshot`."""
        group_of = {broken.key: group_of_broken(broken.key, snapshot.settings) for broken in snapshot.broken}
        group_of |= {state.variant.key: state.variant.settings[GROUP].value for state in states}
        by_branch: dict[str, list[Proposal]] = {}
        for proposal in snapshot.proposals:
            by_branch.setdefault(proposal.head_branch, []).append(proposal)
        prefix = snapshot.settings.git.branch_prefix
        proposals = {
            group: tuple(each for branch in branches_of(prefix, group) for each in by_branch.get(branch, ()))
            for group in set(group_of.values())
        }
        clusters = {key.cluster for key in group_of} - (frozenset() if snapshot.share is None else snapshot.share.split)
        names = {name for cluster in clusters for name in collected_groups(cluster)}
        collected = {
            head_branch(prefix, name, part): (name, part)
            for name in sorted(names - proposals.keys())
            for part in LAX_TO_STRICT
        }
        of_resource = {str(key): group for key, group in group_of.items()}
        for branch, (name, _) in collected.items():
            found = tuple(by_branch.get(branch, ()))
            proposals[name] = (*proposals.get(name, ()), *found)
            for proposal in found:
                for group, each in _by_group(proposal, of_resource).items():
                    proposals[group] = (*proposals[group], each)
        return cls(
            snapshot=snapshot,
            states=states,
            formulated=formulated,
            group_of=group_of,
            proposals=proposals,
            collected=collected,
        )

    @property
    def current(self) -> Allocations:
        """What every variant has now."""
        return self.formulated.problem.current

    def cost_before(self, variant: Variant) -> float | None:
        """What a variant costs per hour before its change; None without a price."""
        key = variant.key
        return self.paid[key] if key in self.paid else variant.cost_of(self.current.get(key, variant.current))

    def open_proposals(self, group: str) -> Mapping[Part, Proposal]:
        """The open pull requests of a group that change something, in the order of parts.

        One from before groups had parts needs approval until it is closed, unless that part has one of its own. One
        that several groups share is the group's where it has none of its own.
        """
        found = {each.head_branch: each for each in self.proposals[group] if each.state is ProposalState.OPEN}
        if not found:
            return {}
        by_part = {part: found.pop(self.own_branch(group, part), None) for part in Part}
        shared = {self.collected[branch][1]: found.pop(branch) for branch in (*found,) if branch in self.collected}
        by_part |= {part: by_part[part] or each for part, each in shared.items()}
        undivided = next(iter(found.values()), None)
        by_part[Part.APPROVAL] = by_part[Part.APPROVAL] or undivided
        return {part: each for part, each in by_part.items() if each is not None and part is not Part.STATUS}

    def head_branch(self, group: str, part: Part) -> str:
        """Where a part of a group is proposed: on the branch of its open pull request, where there is one."""
        proposal = self.open_proposals(group).get(part)
        return self.own_branch(group, part) if proposal is None else proposal.head_branch

    def if_merged(self) -> dict[ResourceKey, Allocation]:
        """What every variant would have, were all open pull requests merged."""
        groups: dict[str, dict[ResourceKey, Allocation]] = {}
        for key, now in self.current.items():
            groups.setdefault(self.group_of[key], {})[key] = now
        merged: dict[ResourceKey, Allocation] = {}
        for group, current in groups.items():
            then = current
            for proposal in self.open_proposals(group).values():
                then = proposal.merged(then)
            merged |= then
        return merged

    def own_branch(self, group: str, part: Part) -> str:
        """Where a part of a group is proposed by itself."""
        return head_branch(self.snapshot.settings.git.branch_prefix, group, part)


def _by_group(proposal: Proposal, group_of: Mapping[str, str]) -> dict[str, Proposal]:
    """What a pull request says of each group whose resources it names."""
    named = {group for each in proposal.changes if (group := group_of.get(each.resource)) is not None}
    return {
        group: replace(
            proposal,
            changes=tuple(each for each in proposal.changes if group_of.get(each.resource) == group),
            promises=tuple(each for each in proposal.promises if group_of.get(each.resource) == group),
        )
        for group in sorted(named)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPlan:
    """What every variant gets, and why that is not what was aimed at.

    `holds` keep a resource as it is; `waiting` is what must happen before the rest of a variant's change may be
    proposed, `reasons` is what else made its allocation. `kept` numbers the open pull request whose values stand,
    `reverts` the merged one that a change takes back. `said` is what every rule says of a change, the strictest first;
    `clamped` what ended a change after the optimizer, `stopped` what held one.
    """

    allocations: Allocations
    holds: Mapping[ResourceKey, Hold]
    waiting: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    reasons: Mapping[ResourceKey, str] = field(default_factory=dict)
    kept: Mapping[ResourceKey, int] = field(default_factory=dict)
    reverts: Mapping[ResourceKey, int] = field(default_factory=dict)
    verdicts: Mapping[ResourceKey, Verdict] = field(default_factory=dict)
    said: Mapping[ResourceKey, tuple[Spoken, ...]] = field(default_factory=dict)
    clamped: Mapping[ResourceKey, Spoken] = field(default_factory=dict)
    stopped: Mapping[ResourceKey, Spoken] = field(default_factory=dict)
    tunings: Mapping[ResourceKey, TuningEvidence] = field(default_factory=dict)
    """What speaks for other settings of autoscalers."""
    scores: Mapping[ResourceKey, TuningScore] = field(default_factory=dict)
    """What merged settings came to."""

    @classmethod
    def aimed_at(cls, situation: Situation, solution: Solution) -> "StagedPlan":
        """What the optimizer aims at, before any pass; where it is silent, what stands in Git."""
        return cls(
            allocations={key: solution.allocations.get(key, now) for key, now in situation.current.items()},
            holds=dict(_holds(situation, solution)),
        )

    def outcome(self, situation: Situation, key: ResourceKey) -> Outcome:
        """What the plan comes to for a resource."""
        if key in self.holds:
            return Outcome.HELD
        is_same = self.allocations[key] == situation.current[key] and key not in situation.paid
        return Outcome.UNCHANGED if is_same else Outcome.CHANGE


Pass: TypeAlias = Callable[[Situation, StagedPlan], StagedPlan]
"""One thought about a whole plan before it is proposed; a later one sees what earlier ones changed."""


def _holds(situation: Situation, solution: Solution) -> Iterator[tuple[ResourceKey, Hold]]:
    """What keeps resources as they are, the most telling of each last."""
    formulated = situation.formulated
    yield from ((broken.key, broken.hold) for broken in situation.snapshot.broken)
    for key, words in solution.reasons.items() if solution.is_unsolved else ():
        yield key, Hold(kind=HoldKind.SEARCH_UNFINISHED, words=words)
    for conflict in solution.conflicts:
        hold = Hold(kind=HoldKind.RULES_CONFLICT, words=conflict.reason)
        yield from ((key, hold) for model in conflict.models for key in formulated.needs.variants_of.get(model, ()))
    for state in situation.states:
        key, now = state.variant.key, state.variant.current
        if state.contradiction is not None and solution.allocations.get(key, now) == now:
            yield key, state.contradiction
    yield from formulated.holds.items()
    yield from ((state.variant.key, state.hold) for state in situation.states if state.hold is not None)
