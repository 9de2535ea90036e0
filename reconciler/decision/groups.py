"""The decisions of a plan as pull requests: group by group, part by part, and within the limits on pull requests."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.aftermerge import is_young, why_unsettled
from reconciler.decision.independence import DeviceRoom
from reconciler.decision.staged_plan import LAX_TO_STRICT, Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import AllocationChange, Decision, GroupPlan, MergeTerms, Outcome, decision_fingerprint
from reconciler.domain.proposals import Part, Proposal, ProposalState, ProposedChange
from reconciler.domain.records import replace

CLOSED_BAND = 0.1
"""A closed value returns only when the new one leaves it by more than this fraction, and by more than one."""


def why_declined(situation: Situation, group: str, changes: Sequence[AllocationChange]) -> Hold | None:
    """That a person closed a pull request of the group that said the same, or reverted it; else None.

    A person's word against a change is held against its verdict, too.
    """
    for proposal in situation.proposals[group] if changes else ():
        if _is_rejection(proposal, situation) and _is_like(changes, proposal):
            did = "closed" if proposal.state is ProposalState.CLOSED else "reverted the merge of"
            words = f"a person {did} pull request #{proposal.number} for this decision"
            return Hold(kind=HoldKind.DECLINED, words=words)
    return None


def why_kept(situation: Situation, proposals: Iterable[Proposal], kept: Mapping[str, Hold]) -> Hold | None:
    """Why an open one of these pull requests stays as it is; None where none has to. `kept` is by resource.

    What a person has written over since is not kept: it would stay in conflict with its base.
    """
    for proposal in proposals:
        changes = {change.resource: change for change in proposal.changes if change.resource in kept}
        # Merged by hand, it holds nothing that could be lost.
        if changes and not proposal.says({}, situation.current):
            gone = {
                str(key)
                for key, now in situation.current.items()
                if str(key) in changes and not changes[str(key)].begins_at(now)
            }
            holds = [kept[resource] for resource in changes if resource not in gone]
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
        and change.is_tuning is declined.is_tuning
    )


def _direction(change: ProposedChange) -> int:
    difference = change.replicas_after - change.replicas_before
    return (difference > 0) - (difference < 0)


Bonds = Collection[frozenset[ResourceKey]]
"""Sets of variants of one group whose changes one pull request holds."""


def part_of(change: Decision) -> Part:
    """Where a change belongs by itself: what repairs a target before all else, then what a person must agree to."""
    if change.canary is not None:
        return Part.URGENT if change.canary.is_repair else Part.CANARY
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
    part if it were merged alone. What an open pull request says already stays in it; `kept` is why some must stay. An
    experiment stands alone: there is room for it beside all else.
    """
    alone = {change.variant: Part.CANARY for change in changes if part_of(change) is Part.CANARY}
    changes = [change for change in changes if change.variant not in alone]
    parts = {change.variant: part_of(change) for change in changes}
    bonds = [*_models(changes), *(frozenset(bond & parts.keys()) for bond in bonds)]
    standing = dict(_standing(situation, changes, kept))
    loose = {key for key, part in parts.items() if part is Part.AUTO and _is_merged_by_us(situation, staged, key)}
    while True:
        parts = _joined(parts, bonds, standing, loose)
        shared = [bond for bond in _sharing_devices(situation, staged, parts) if len({parts[key] for key in bond}) > 1]
        if not shared:
            return parts | alone
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


def _is_merged_by_us(situation: Situation, staged: StagedPlan, key: ResourceKey) -> bool:
    """Whether the settings or a rule want a change to merge by itself."""
    setting = situation.snapshot.settings.pull_requests.auto_merge
    return bool(setting) or (setting is None and any(each.merges_per_hour for each in staged.said.get(key, ())))


def _joined(
    parts: Mapping[ResourceKey, Part],
    bonds: Bonds,
    standing: Mapping[ResourceKey, tuple[Part, bool]],
    loose: Collection[ResourceKey],
) -> dict[ResourceKey, Part]:
    """Bonds first, for they are never undone; a whole one stays where it stands, if all of it is proposed there.

    Not where it waits for a person and all of it is `loose`: it may merge by itself by now.
    """
    joined = dict(parts)
    for members in _components(parts, bonds):
        part = max((parts[key] for key in members), key=LAX_TO_STRICT.index)
        places = {standing.get(key) for key in members}
        fixed = sorted({place[0] for place in places if place is not None and place[1]})
        whole = next(iter(places)) if len(places) == 1 else None
        if fixed:
            part = fixed[0]
        elif whole is not None and (whole[0] is not Part.AUTO or part is Part.AUTO):
            is_free = whole[0] is Part.APPROVAL and members.issubset(loose)
            part = part if is_free else whole[0]
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
    merged = (each for each in situation.snapshot.own_proposals if each.state is ProposalState.MERGED)
    left = sum(each.closed_at_s is None or now_s - each.closed_at_s < HOUR_S for each in merged)
    found = ((plan, _terms(situation, staged, plan, left)) for plan in plans)
    return tuple(
        plan if terms is None else replace(plan, merges=_with_waits(situation, plan, terms, decisions))
        for plan, terms in found
    )


def _terms(situation: Situation, staged: StagedPlan, plan: GroupPlan, lately: int) -> MergeTerms | None:
    """How a part merges by itself: nothing in it needs a person, and the settings or a rule want each change to.

    Of a change with a caution a person should know, who is about to merge it; of a setting of an autoscaler, which is a
    forecast; and of one that serves a model worse, for a rule or somebody more urgent has its replicas.
    """
    settings = situation.snapshot.settings.pull_requests
    changes = plan.changes
    needs_person = plan.part not in (Part.URGENT, Part.AUTO) or any(
        not each.verdict.may_merge_itself or each.caution or each.is_tuning or _takes_what_is_needed(each)
        for each in changes
    )
    if not changes or needs_person or settings.auto_merge is False:
        return None
    if not all(_is_merged_by_us(situation, staged, change.variant) for change in changes):
        return None
    said = [[each for each in staged.said.get(change.variant, ()) if each.merges_per_hour] for change in changes]
    limits = {str(each.rule): each.merges_per_hour or 0.0 for spoken in said for each in spoken}
    per_hour = int(min([settings.merges_per_hour, *limits.values()]))
    kept = 0 if plan.part is Part.URGENT else int(per_hour * KEPT_FOR_REPAIRS)
    return MergeTerms(rules=tuple(limits), per_hour=per_hour, left=max(per_hour - kept - lately, 0), kept=kept)


KEPT_FOR_REPAIRS = 0.25
"""Of the merges of an hour that is for repairs alone, so that what only saves does not use up what they need."""


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
    waits = why_unsettled(situation.snapshot, _merged(situation, plan), decisions)
    is_stuck = bool(waits) and _is_stuck(situation, plan, decisions)
    if not waits and not terms.left:
        waits = terms.limit
    return replace(terms, waits=waits, is_stuck=is_stuck)


def _merged(situation: Situation, plan: GroupPlan) -> list[Proposal]:
    ours = (each for group in plan.groups for each in situation.proposals[group])
    return [each for each in ours if each.state is ProposalState.MERGED]


def _is_stuck(situation: Situation, plan: GroupPlan, decisions: Collection[Decision]) -> bool:
    """Whether it waits for more than merges that are too young to have rolled out."""
    snapshot = situation.snapshot
    older = [each for each in _merged(situation, plan) if not is_young(snapshot, each)]
    return bool(why_unsettled(snapshot, older, decisions))


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
    plans = [
        plan for name, members in groups.items() for plan in _plans_of(situation, staged, name, members, parts, kept)
    ]
    return with_merge_terms(situation, staged, _as_collected(situation, plans, decided), decided)


def together(name: str, head_branch: str, plans: Sequence[GroupPlan]) -> GroupPlan:
    """The plan of one pull request that holds these.

    Each group's part is feasible whichever others are merged, so all of them together are.
    """
    first = next((plan for plan in plans if plan.blocked is not None), plans[0])
    kept = (plan.kept_proposal for plan in plans if plan.kept_proposal is not None)
    decisions = sorted((each for plan in plans for each in plan.decisions), key=lambda each: (each.group, each.variant))
    return replace(
        first,
        name=name,
        head_branch=head_branch,
        decisions=tuple(decisions),
        kept_proposal=next(kept, None),
        merges=None,
    )


def _as_collected(
    situation: Situation, plans: Iterable[GroupPlan], decisions: Collection[Decision]
) -> Iterator[GroupPlan]:
    """The plans of pull requests: what several groups share is one.

    Of one that merges by itself those leave that would have the others wait.
    """
    shared: dict[str, list[GroupPlan]] = {}
    for plan in plans:
        if plan.head_branch in situation.collected:
            shared.setdefault(plan.head_branch, []).append(plan)
        else:
            yield plan
    for branch, found in shared.items():
        leaving = list(_leaving(situation, branch, found, decisions))
        yield from (replace(each, head_branch=situation.own_branch(each.name, each.part)) for each in leaving)
        each = [plan for plan in found if plan not in leaving]
        made = together(situation.collected[branch][0], branch, each)
        # What one group must keep does not keep what the others do not want any more.
        is_kept = all(plan.blocked is not None or _still_says(situation, branch, plan) for plan in each)
        yield made if is_kept else replace(made, blocked=None)


def _leaving(
    situation: Situation, branch: str, plans: Sequence[GroupPlan], decisions: Collection[Decision]
) -> Iterator[GroupPlan]:
    proposals = situation.proposals[situation.collected[branch][0]]
    is_merging = any(
        each.merges for each in proposals if each.head_branch == branch and each.state is ProposalState.OPEN
    )
    if len(plans) > 1 and is_merging and all(each.blocked is None for each in plans):
        stuck = [each for each in plans if _is_stuck(situation, each, decisions)]
        yield from stuck if len(stuck) < len(plans) else ()


def _still_says(situation: Situation, branch: str, plan: GroupPlan) -> bool:
    """Whether the open pull request of a branch says of a group what is decided now."""
    ours = (each for each in situation.open_proposals(plan.name).values() if each.head_branch == branch)
    desired = {change.variant: change.desired for change in plan.changes}
    return any(each.says(desired, situation.current) for each in ours)


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
        branch, blocked = situation.head_branch(name, part), why_kept(situation, proposals, kept)
        if blocked is None:
            blocked = why_declined(situation, name, changes)
            if blocked is not None and branch in situation.collected:  # the others' changes are not declined
                branch = situation.own_branch(name, part)
        yield GroupPlan(
            name=name,
            part=part,
            head_branch=branch,
            decisions=decisions,
            kept_proposal=next(numbers, None),
            blocked=blocked,
        )


def _places(members: Collection[Decision], parts: Mapping[ResourceKey, Part], first: Part) -> dict[ResourceKey, Part]:
    """The part of every decision: what does not change stands with what changes of its model, else in the first."""
    of_model = {each.model: parts[each.variant] for each in members if each.variant in parts}
    return {each.variant: of_model.get(each.model, first) for each in members}
