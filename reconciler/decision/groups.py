"""The decisions of a plan as pull requests: group by group, part by part, and within the limits on pull requests."""

import math
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.aftermerge import why_unsettled
from reconciler.decision.independence import DeviceRoom
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import Allocations
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import AllocationChange, Decision, GroupPlan, MergeTerms, Outcome, decision_fingerprint
from reconciler.domain.proposals import Part, Proposal, ProposalState, ProposedChange
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PullRequestSettings
from reconciler.domain.units import utc_minute
from reconciler.optimizer.device_use import DeviceUse

CLOSED_BAND = 0.1
"""A closed value returns only when the new one leaves it by more than this fraction, and by more than one."""


def why_declined(situation: Situation, group: str, changes: Sequence[AllocationChange]) -> Hold | None:
    """That a person closed a pull request of the group that said the same, or reverted it; None where nobody did.

    A person's word against a change is held against its verdict, too.
    """
    for proposal in situation.proposals[group] if changes else ():
        if _is_rejection(proposal, situation) and _is_like(changes, proposal):
            did = "closed" if proposal.state is ProposalState.CLOSED else "reverted the merge of"
            words = f"a person {did} pull request #{proposal.number} for this decision"
            return Hold(kind=HoldKind.DECLINED, words=words)
    return None


def why_kept(situation: Situation, proposals: Iterable[Proposal], kept: Mapping[str, Hold]) -> Hold | None:
    """Why an open one of these pull requests stays as it is; None where none has to. `kept` is by resource."""
    for proposal in proposals:
        if not _is_in_git(proposal, situation):
            holds = [kept[change.resource] for change in proposal.changes if change.resource in kept]
            if holds:
                words = f"open pull request #{proposal.number} stays as it is: {holds[0].words}"
                return replace(holds[0], words=words)
    return None


def kept_resources(situation: Situation, staged: StagedPlan) -> dict[str, Hold]:
    """Why an open pull request keeps what it says of a resource, by str of the resource's key.

    Its metrics are missing, its live replicas stay away from Git, or those it has do not serve yet. Where only a part
    of its load was seen, only a pull request that asks for more than the part does is kept.
    """
    snapshot = situation.snapshot
    proposed = {
        change.resource: change.replicas_after
        for proposal in snapshot.proposals
        if proposal.state is ProposalState.OPEN
        for change in proposal.changes
    }
    holds = {
        key: hold
        for key, hold in situation.formulated.partial.items()
        if hold.kind.keeps_proposals and staged.allocations[key].replicas < proposed.get(str(key), 0)
    }
    holds |= {key: hold for key, hold in staged.holds.items() if hold.kind is HoldKind.GROWTH_UNPROVEN}
    holds |= {broken.key: broken.hold for broken in snapshot.broken}
    for state in situation.states:
        keeping = next((hold for hold in state.holds if hold.kind.keeps_proposals), None)
        if keeping is not None:
            holds[state.variant.key] = keeping
    return {str(key): replace(hold, words=_in_short(key, hold)) for key, hold in holds.items()}


def _is_in_git(proposal: Proposal, situation: Situation) -> bool:
    """Whether Git says all that it says: merged by hand, it holds nothing that could be lost."""
    told = {change.resource for change in proposal.changes}
    named = {key: now for key, now in situation.current.items() if str(key) in told}
    return len(named) == len(told) and proposal.merged(named) == named


def _in_short(key: ResourceKey, hold: Hold) -> str:
    if hold.kind is HoldKind.GROWTH_UNPROVEN:
        return hold.words
    is_drifted = hold.kind is HoldKind.DRIFTED
    return f"live replicas of {key} stay away from Git" if is_drifted else f"metrics of {key} are missing"


def _is_rejection(proposal: Proposal, situation: Situation) -> bool:
    """Whether a person said no not long ago, before the merge or after it; at an unknown time counts as now."""
    is_closed = proposal.state is ProposalState.CLOSED
    if not is_closed and proposal.reverted_at_s is None:
        return False
    reopen_after_s = situation.snapshot.settings.pull_requests.reopen_after_s
    at_s = proposal.closed_at_s if is_closed else proposal.reverted_at_s
    return at_s is None or situation.snapshot.now_s - at_s < reopen_after_s


def _is_like(changes: Sequence[AllocationChange], closed: Proposal) -> bool:
    """Whether every change is one that a person declined: same direction and accelerator, a value in its band."""
    if closed.decision == decision_fingerprint(changes):
        return True
    declined = {change.resource: change for change in closed.changes}
    proposed = (change.proposed for change in changes)
    return all(each.resource in declined and _is_in_band(each, declined[each.resource]) for each in proposed)


def _is_in_band(change: ProposedChange, declined: ProposedChange) -> bool:
    band = max(1.0, CLOSED_BAND * declined.replicas_after)
    return (
        abs(change.replicas_after - declined.replicas_after) <= band
        and _direction(change) == _direction(declined)
        and change.accelerator_after == declined.accelerator_after
    )


def _direction(change: ProposedChange) -> int:
    difference = change.replicas_after - change.replicas_before
    return (difference > 0) - (difference < 0)


Bonds = Collection[frozenset[ResourceKey]]
"""Sets of variants of one group whose changes one pull request holds."""

_LAX_TO_STRICT = (Part.AUTO, Part.URGENT, Part.APPROVAL)


def part_of(change: Decision) -> Part:
    """Where a change belongs by itself: what repairs a target before all else, then what a person must agree to."""
    # Whether it adds capacity to what lacks it: a target missed, replicas too full, or less than is asked for.
    before, after = change.capacity_before, change.capacity_after
    is_known = before is not None and after is not None
    is_more = _exceeds(after, before) if is_known else change.desired.replicas > change.current.replicas
    is_late = any(slo.is_met_before is False for slo in change.slos)
    is_full = change.fullness is not None and (change.fullness.before or 0.0) > change.fullness.limit
    if (is_more and (is_late or is_full or _exceeds(change.demand, before))) or change.reverts is not None:
        return Part.URGENT
    return Part.AUTO if change.verdict.may_merge_itself else Part.APPROVAL


def split_into_parts(
    situation: Situation, staged: StagedPlan, changes: Collection[Decision], bonds: Bonds, kept: Mapping[str, Hold]
) -> dict[ResourceKey, Part]:
    """The part of every change: its own, or the strictest of those that it cannot be parted from.

    These are the same model's, the ones that `bonds` name, and the ones in a pool of devices that could not hold every
    part if it were merged alone. What an open pull request says already stays in it; `kept` is why some must stay.
    """
    parts = {change.variant: part_of(change) for change in changes}
    bonds = [*_models(changes), *(frozenset(bond & parts.keys()) for bond in bonds)]
    standing = dict(_standing(situation, changes, kept))
    while True:
        parts = _joined(parts, bonds, standing)
        shared = [bond for bond in _sharing_devices(situation, staged, parts) if len({parts[key] for key in bond}) > 1]
        if not shared:
            return parts
        bonds += shared


def _exceeds(amount: float | None, other: float | None) -> bool:
    return amount is not None and other is not None and amount > other


def _models(changes: Iterable[Decision]) -> list[frozenset[ResourceKey]]:
    members: dict[tuple[str, ModelKey], set[ResourceKey]] = {}
    for change in changes:
        members.setdefault((change.group, change.model), set()).add(change.variant)
    return [frozenset(each) for each in members.values()]


def _standing(
    situation: Situation, changes: Collection[Decision], kept: Mapping[str, Hold]
) -> Iterator[tuple[ResourceKey, tuple[Part, bool]]]:
    """Where changes are proposed already: the part, and whether nothing may be written to that pull request."""
    groups = {change.group for change in changes}
    told = {
        (group, each.resource): (part, _is_fixed(situation, proposal, kept), each)
        for group in groups
        for part, proposal in situation.open_proposals(group).items()
        for each in proposal.changes
    }
    for change in changes:
        if (change.group, str(change.variant)) in told:
            part, is_fixed, proposed = told[change.group, str(change.variant)]
            if is_fixed or proposed.merged(change.current) == change.desired:
                yield change.variant, (part, is_fixed)


def _is_fixed(situation: Situation, proposal: Proposal, kept: Mapping[str, Hold]) -> bool:
    return proposal.is_left_alone or why_kept(situation, [proposal], kept) is not None


def _joined(
    parts: Mapping[ResourceKey, Part], bonds: Bonds, standing: Mapping[ResourceKey, tuple[Part, bool]]
) -> dict[ResourceKey, Part]:
    """Bonds first, for nobody undoes them; a whole one stays where it stands, if all of it is proposed there."""
    joined = dict(parts)
    for members in _components(parts, bonds):
        part = max((parts[key] for key in members), key=_LAX_TO_STRICT.index)
        places = {standing.get(key) for key in members}
        fixed = sorted({place[0] for place in places if place is not None and place[1]})
        whole = next(iter(places)) if len(places) == 1 else None
        if fixed:
            part = fixed[0]
        elif whole is not None and (whole[0] is not Part.AUTO or part is Part.AUTO):
            part = whole[0]
        joined.update(dict.fromkeys(members, part))
    return joined


def _components(keys: Iterable[ResourceKey], bonds: Bonds) -> list[frozenset[ResourceKey]]:
    """The keys in the smallest sets that no bond crosses."""
    component = {key: frozenset({key}) for key in keys}
    for bond in bonds:
        union = frozenset().union(*(component[key] for key in bond))
        component.update(dict.fromkeys(union, union))
    return list(dict.fromkeys(component.values()))


def _sharing_devices(
    situation: Situation, staged: StagedPlan, parts: Mapping[ResourceKey, Part]
) -> Iterator[frozenset[ResourceKey]]:
    """The changes of each group in a pool that could not hold all parts, were each merged without the others."""
    by_group: dict[str, set[Part]] = {}
    for key, part in parts.items():
        by_group.setdefault(situation.group_of[key], set()).add(part)
    if not situation.formulated.problem.pools or all(len(each) == 1 for each in by_group.values()):
        return
    apart = {key: f"{group}\0{parts.get(key, '')}" for key, group in situation.group_of.items()}
    room = DeviceRoom(situation, staged, apart)
    for pool in room.overfull():
        for group, each in by_group.items():
            if len(each) > 1:
                yield frozenset(key for key in parts if situation.group_of[key] == group and room.holds(pool, key))


HOUR_S = 3600.0


def with_merge_terms(
    situation: Situation, staged: StagedPlan, plans: Iterable[GroupPlan], decisions: Collection[Decision]
) -> tuple[GroupPlan, ...]:
    """The plans of all groups, with how those merge that need no person."""
    # Pull requests of ours that were merged in the last hour, whoever merged them.
    now_s = situation.snapshot.now_s
    merged = (each for each in situation.snapshot.proposals if each.state is ProposalState.MERGED)
    left = sum(each.closed_at_s is None or now_s - each.closed_at_s < HOUR_S for each in merged)
    found = ((plan, _terms(situation, staged, plan, left)) for plan in plans)
    return tuple(
        plan if terms is None else replace(plan, merges=_with_waits(situation, plan, terms, decisions))
        for plan, terms in found
    )


def _terms(situation: Situation, staged: StagedPlan, plan: GroupPlan, lately: int) -> MergeTerms | None:
    """How a part merges by itself: nothing in it needs a person, and the settings or a rule want each change to.

    Of a change with a caution a person should know, who is about to merge it; and of one that serves a model worse, for
    a rule or somebody more urgent has its replicas.
    """
    settings = situation.snapshot.settings.pull_requests
    changes = plan.changes
    needs_person = plan.part not in (Part.URGENT, Part.AUTO) or any(
        not each.verdict.may_merge_itself or each.caution or _takes_what_is_needed(each) for each in changes
    )
    if not changes or needs_person or settings.auto_merge is False:
        return None
    said = [[each for each in staged.said.get(change.variant, ()) if each.merges_per_hour] for change in changes]
    if not settings.auto_merge and not all(said):
        return None
    limits = {str(each.rule): each.merges_per_hour or 0.0 for spoken in said for each in spoken}
    per_hour = int(min([settings.merges_per_hour, *limits.values()]))
    return MergeTerms(rules=tuple(limits), per_hour=per_hour, left=max(per_hour - lately, 0))


def _takes_what_is_needed(change: Decision) -> bool:
    """Whether less is carried than now, and less than the demand or without keeping a target that is kept now."""
    before, after = change.capacity_before, change.capacity_after
    if after is None or (before is not None and after >= before):
        return False
    is_missed = any(slo.is_met_after is False and slo.is_met_before is not False for slo in change.slos)
    return is_missed or (change.demand is not None and change.demand > after)


def _with_waits(
    situation: Situation, plan: GroupPlan, terms: MergeTerms, decisions: Collection[Decision]
) -> MergeTerms:
    merged = (each for each in situation.proposals[plan.name] if each.state is ProposalState.MERGED)
    waits = why_unsettled(situation.snapshot, merged, decisions)
    if not waits and not terms.left:
        waits = f"at most {terms.per_hour} of our pull requests are merged in an hour"
    return replace(terms, waits=waits)


def group_plans(
    situation: Situation, staged: StagedPlan, decisions: Iterable[Decision], bonds: Bonds
) -> tuple[GroupPlan, ...]:
    """Every group with a plan for each part that changes something or is open; at least one.

    `bonds` are changes that only one pull request may hold, besides those that are found here.
    """
    decided = tuple(decisions)
    groups: dict[str, list[Decision]] = {}
    for decision in sorted(decided, key=lambda each: (each.group, each.variant)):
        groups.setdefault(decision.group, []).append(decision)
    changes = [each for members in groups.values() for each in members if each.outcome is Outcome.CHANGE]
    kept = kept_resources(situation, staged)
    parts = split_into_parts(situation, staged, changes, bonds, kept)
    plans = (
        plan for name, members in groups.items() for plan in _plans_of(situation, staged, name, members, parts, kept)
    )
    return with_merge_terms(situation, staged, plans, decided)


def _plans_of(
    situation: Situation,
    staged: StagedPlan,
    name: str,
    members: Sequence[Decision],
    parts: Mapping[ResourceKey, Part],
    kept: Mapping[str, Hold],
) -> Iterator[GroupPlan]:
    open_proposals = situation.open_proposals(name)
    changing = {parts[each.variant] for each in members if each.variant in parts}
    present = [part for part in Part if part in changing or part in open_proposals] or [Part.APPROVAL]
    first = next((part for part in present if part in changing), present[0])
    places = _places(members, parts, first)
    for part in present:
        decisions = tuple(each for each in members if places[each.variant] is part)
        changes = [each.change for each in decisions if each.outcome is Outcome.CHANGE]
        proposals = [open_proposals[part]] if part in open_proposals else []
        numbers = (staged.kept[each.variant] for each in decisions if each.variant in staged.kept)
        yield GroupPlan(
            name=name,
            part=part,
            head_branch=situation.head_branch(name, part),
            decisions=decisions,
            kept_proposal=next(numbers, None),
            blocked=why_kept(situation, proposals, kept) or why_declined(situation, name, changes),
        )


def _places(members: Collection[Decision], parts: Mapping[ResourceKey, Part], first: Part) -> dict[ResourceKey, Part]:
    """The part of every decision: what does not change stands beside what changes of its model, else in the first."""
    of_model = {each.model: parts[each.variant] for each in members if each.variant in parts}
    return {each.variant: of_model.get(each.model, first) for each in members}


# What may not be opened or pushed beside pull requests that stay as they stand, although something else was decided.
# Of a model whose replicas such a one changes, nothing else may: together they were never looked at. And devices that
# it takes are no room for others, whichever are merged.


@dataclass(frozen=True, slots=True)
class Written:
    """A pull request that is to be opened, or pushed: where one is open `proposal` is what stands there."""

    plan: GroupPlan
    proposal: Proposal | None

    @property
    def branch(self) -> str:
        """Its head branch."""
        return self.plan.head_branch


def put_back_beside(situation: Situation, written: Sequence[Written], late: Mapping[str, str]) -> Mapping[str, str]:
    """Why each is put back, by branch: those that are `late` themselves, and what does not go with them as they stand.

    The first of `written` have the devices that are left. What is put back because of another may put back more, so all
    is looked at again; each turn puts back at least one, so they end.
    """
    causes = {each.branch: (each, late[each.branch]) for each in written if each.branch in late}
    put_back = {branch: f"#{_number(each)} {words}" for branch, (each, words) in causes.items()}
    models = {state.variant.key: state.variant.model for state in situation.states}
    while True:
        staying = {
            each.branch: _models_in(situation, models, each.proposal) for each in written if each.branch in causes
        }
        room = _Room.beside(situation, (each.branch for each in written if each.branch not in put_back))
        found: dict[str, tuple[Written, str]] = {}
        for each in written:
            if each.branch not in put_back:
                own = {models[change.variant] for change in each.plan.changes}
                own |= _models_in(situation, models, each.proposal)
                near = next((branch for branch, others in staying.items() if others & own), None)
                if near is None and not room.takes({change.variant: change.desired for change in each.plan.changes}):
                    near = next(iter(staying))
                if near is not None:
                    found[each.branch] = causes[near]
        if not found:
            return put_back
        for branch, (cause, words) in found.items():
            put_back[branch] = f"does not go with what #{_number(cause)} says now, which {words}"
        causes |= {each.branch: found[each.branch] for each in written if each.branch in found and each.proposal}


def _number(each: Written) -> int:
    return 0 if each.proposal is None else each.proposal.number


def _models_in(
    situation: Situation, models: Mapping[ResourceKey, ModelKey], proposal: Proposal | None
) -> set[ModelKey]:
    """The models whose replicas an open pull request changes."""
    told = set() if proposal is None else {change.resource for change in proposal.changes}
    return {models[key] for key in situation.current if key in models and str(key) in told}


@dataclass(slots=True)
class _Room:
    """What is left of each pool beside all that may be merged, none of which frees anything for another."""

    current: Allocations
    use: DeviceUse
    left: dict[str, int]

    @classmethod
    def beside(cls, situation: Situation, rewritten: Iterable[str]) -> "_Room":
        """Beside every open pull request but those that are to say something else."""
        problem, others = situation.formulated.problem, set(rewritten)
        room = cls(situation.current, DeviceUse.of(problem), {pool.name: pool.devices for pool in problem.pools})
        room._take(room.use.pools(room.current))
        for proposal in situation.snapshot.proposals:
            if proposal.state is ProposalState.OPEN and proposal.head_branch not in others:
                told = {change.resource: change for change in proposal.changes}
                named = {key: now for key, now in room.current.items() if str(key) in told}
                room._take(room._added(proposal.merged(named)))
        return room

    def takes(self, after: Allocations) -> bool:
        """Whether there is room for what a pull request adds, and then it is taken."""
        added = self._added(after)
        if any(count > max(self.left[pool], 0) for pool, count in added.items() if count > 0):
            return False
        self._take(added)
        return True

    def _added(self, after: Allocations) -> Counter[str]:
        """What a pull request adds to pools by itself; what moves away holds its devices meanwhile."""
        added = Counter({pool: count for pool, count in self.use.pools(after).items() if pool in self.left})
        for key, each in after.items():
            now = self.current[key]
            taken = self.use.devices(key, each.accelerator) if each.replicas else {}
            for pool, count in self.use.devices(key, now.accelerator).items():
                if pool in self.left and (each.accelerator == now.accelerator or not each.replicas or pool in taken):
                    added[pool] -= count * now.replicas
        return added

    def _take(self, added: Mapping[str, int]) -> None:
        for pool, count in added.items():
            if pool in self.left:
                self.left[pool] -= max(count, 0)


MINUTE_S = 60
PARTS = tuple(Part)


def within_limits(situation: Situation, plans: Sequence[GroupPlan]) -> tuple[GroupPlan, ...]:
    """The plans of all pull requests, some of them put back: never repairs, of the rest first what saves most.

    What is not pushed stays as it stands, and may no longer go with what else was decided: that is put back with it.
    """
    urgency = {plan.head_branch: _urgency(situation, plan) for plan in plans}
    written = sorted(_written(situation, plans), key=lambda each: urgency[each.plan.head_branch])
    settings, now_s = situation.snapshot.settings.pull_requests, situation.snapshot.now_s
    late = {
        each.branch: words
        for each in written
        if each.proposal is not None
        and each.plan.part is not Part.URGENT
        and (words := _pushed_too_often(each.proposal, settings, now_s))
    }
    put_back = dict(put_back_beside(situation, written, late) if late else ())
    if any(each.branch in put_back and each.plan.part is Part.URGENT for each in written):
        put_back = {}  # what is late stands in the way of a repair
    openings = [each for each in written if each.proposal is None and each.branch not in put_back]
    put_back |= dict(_without_slot(situation, openings))
    return tuple(
        replace(plan, blocked=Hold(kind=HoldKind.PUT_BACK, words=put_back[plan.head_branch]))
        if plan.head_branch in put_back
        else plan
        for plan in plans
    )


def why_not_pushed(proposal: Proposal, settings: PullRequestSettings, now_s: float) -> str:
    """Why nothing is pushed to an open pull request now; empty where it may be."""
    words = _pushed_too_often(proposal, settings, now_s)
    return f"#{proposal.number} {words}" if words else ""


def recent(times_s: Iterable[float], now_s: float) -> list[float]:
    """Those of the last hour, in their order; what a clock that runs ahead calls later is of it, too."""
    return sorted(each for each in times_s if abs(now_s - each) < HOUR_S)


def _urgency(situation: Situation, plan: GroupPlan) -> tuple[bool, float, float, int, int, str]:
    """Repairs, then by what is saved an hour, then whose group has waited longest since its last pull request."""
    needs = (situation.formulated.needs.of_variant(change.variant) for change in plan.changes)
    priority = max((need.priority for need in needs if need is not None), default=0)
    costs = [(each.cost_before_per_hour, each.cost_after_per_hour) for each in plan.changes]
    saved = sum(before - after for before, after in costs if before is not None and after is not None)
    is_repair = plan.part is Part.URGENT
    last_s = max((each.closed_at_s or 0.0 for each in situation.proposals[plan.name]), default=0.0)
    gain = 0.0 if is_repair else max(saved, 0.0)
    return not is_repair, -gain, last_s, PARTS.index(plan.part), -priority, plan.name


def _written(situation: Situation, plans: Iterable[GroupPlan]) -> Iterator[Written]:
    """What is to be opened, or pushed."""
    for plan in plans:
        if plan.blocked is None and plan.fingerprint:
            on_branch = (each for each in situation.proposals[plan.name] if each.head_branch == plan.head_branch)
            proposal = next((each for each in on_branch if each.state is ProposalState.OPEN), None)
            is_same = proposal is not None and proposal.branch_decision == plan.fingerprint
            if not is_same and (proposal is None or not proposal.is_left_alone):
                yield Written(plan, proposal)


def _pushed_too_often(proposal: Proposal, settings: PullRequestSettings, now_s: float) -> str:
    pushes, most = recent(proposal.pushes_s, now_s), settings.pushes_per_hour
    if not most or len(pushes) < most:
        return ""
    times = "once" if len(pushes) == 1 else f"{len(pushes)} times"
    return _words(f"was pushed {times} in an hour", "pushesPerHour", most, _moment(pushes[-most] + HOUR_S))


def _without_slot(situation: Situation, openings: Iterable[Written]) -> Iterator[tuple[str, str]]:
    """The branches for which no pull request is opened now, of all that wait for one in this order."""
    settings, now_s = situation.snapshot.settings.pull_requests, situation.snapshot.now_s
    ours = [each for each in situation.snapshot.proposals if each.decision or each.branch_decision]
    opened = recent((_opened_by_s(each, now_s) for each in ours), now_s)
    lately, are_open = len(opened), sum(each.state is ProposalState.OPEN for each in ours)
    most, per_hour = settings.open_at_once, settings.created_per_hour
    for each in openings:
        comes_s = now_s
        is_repair = each.plan.part is Part.URGENT
        if most and are_open >= most and not is_repair:
            are = "of our pull requests are open, or are opened before it"
            yield each.branch, _words(f"{are_open} {are}", "open", most, "one of them is merged or closed")
            continue
        if per_hour and len(opened) >= per_hour and not is_repair:
            comes_s = max(opened[-per_hour] + HOUR_S, now_s)
            words = f"{max(lately, per_hour)} of our pull requests were opened in an hour, or are before it"
            yield each.branch, _words(words, "createdPerHour", per_hour, _moment(comes_s))
        else:
            are_open += 1
        insort(opened, comes_s)


def _opened_by_s(proposal: Proposal, now_s: float) -> float:
    """When it was opened at the latest: where the forge does not say, before its last pushes, and before it closed."""
    if proposal.opened_at_s is not None:
        return proposal.opened_at_s
    closed = () if proposal.closed_at_s is None else (proposal.closed_at_s,)
    return min((*proposal.pushes_s, *closed), default=now_s)


def _words(what: str, setting: str, most: int, until: str) -> str:
    return f"{what}, and pullRequests.limits.{setting} is {most}: until {until}"


def _moment(time_s: float) -> str:
    """The first full minute that is not before a time."""
    return utc_minute(math.ceil(time_s / MINUTE_S) * MINUTE_S)
