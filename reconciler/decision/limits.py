"""Limits on pull requests: what is opened and pushed now, what waits, and what several groups propose together."""

import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.decision.groups import HOUR_S, together, with_merge_terms
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.decision.variant_states import Allocations
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import GroupPlan, Plan
from reconciler.domain.proposals import Part, Proposal, ProposalState, collected_groups
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PullRequestSettings
from reconciler.domain.units import utc_minute
from reconciler.optimizer.device_use import DeviceUse

# What may not be opened or pushed while other pull requests stay as they stand, although something else was decided.
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
    """What is left of each pool after all that may be merged, none of which frees anything for another."""

    current: Allocations
    use: DeviceUse
    left: dict[str, int]

    @classmethod
    def beside(cls, situation: Situation, rewritten: Iterable[str]) -> "_Room":
        """What every open pull request leaves, but those that are to say something else."""
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


# Where limits bind, several groups open one pull request together. Each group's part is feasible whichever others are
# merged, so all of them together are, and rules judge each group as before. What is open stays where it stands: the
# next run finds it there by its branch.

BINDING = 0.5
"""From this share of a limit on, what is opened is collected."""
QUIET_S = 3 * HOUR_S
"""So long a time is looked back for what repairs nothing; for repairs an hour. Measured with `tests.bench.day`."""
PACE_S = HOUR_S / 2
"""Between two collected pull requests that repair nothing: fewer are larger."""
MOST_COLLECTED = 40
"""Changes in a collected pull request: more have no room in the marker with what they promise, or for a reviewer."""


def collected(situation: Situation, staged: StagedPlan, plan: Plan) -> Plan:
    """The plan with what is opened once half of a limit is used in one pull request of each cluster and part.

    What merges by itself waits until the last merges of all its groups are settled: what something keeps from that for
    longer goes apart.
    """
    openings = [each.plan for each in _by_urgency(situation, plan.groups) if each.proposal is None]
    joined = dict(_joined(situation, plan.groups, _beyond(situation, openings)))
    if not joined:
        return plan
    moved = {each.head_branch for plans in joined.values() for each in plans}
    made = [together(situation.collected[branch][0], branch, plans) for branch, plans in joined.items()]
    made = [_paced(situation, each) for each in with_merge_terms(situation, staged, made, plan.decisions)]
    groups = (*(each for each in plan.groups if each.head_branch not in moved), *made)
    return replace(plan, groups=tuple(sorted(groups, key=lambda each: (each.name, PARTS.index(each.part)))))


def _beyond(situation: Situation, openings: Iterable[GroupPlan]) -> Iterator[GroupPlan]:
    """Those of pull requests to be opened, the most urgent first, that are beyond half of a limit."""
    settings = situation.snapshot.settings.pull_requests
    used = {within_s: _counted(situation, within_s) for within_s in (HOUR_S, QUIET_S)}
    for number, each in enumerate(openings):
        opened, are_open = used[HOUR_S if each.part is Part.URGENT else QUIET_S]
        counts = [(settings.created_per_hour, len(opened)), (settings.open_at_once, are_open)]
        if each.merges is not None:
            counts.append((each.merges.per_hour, each.merges.per_hour - each.merges.left))
        if each.part is not Part.STATUS and any(most and number + now >= BINDING * most for most, now in counts):
            yield each


def _joined(
    situation: Situation, plans: Iterable[GroupPlan], openings: Iterable[GroupPlan]
) -> Iterator[tuple[str, list[GroupPlan]]]:
    """The branches of collected pull requests that are to hold more, each with all that it holds then."""
    standing = {plan.head_branch: plan for plan in plans if plan.head_branch in situation.collected}
    held = {branch: [plan] for branch, plan in standing.items()}
    for each in openings:
        branches = _lanes(situation, each)
        branch = next((lane for lane in branches if _takes(situation, lane, held.get(lane, ()), each)), None)
        if branch is not None:
            held.setdefault(branch, []).append(each)
    yield from ((branch, found) for branch, found in held.items() if len(found) > 1)


def _lanes(situation: Situation, plan: GroupPlan) -> list[str]:
    """The branches on which a plan may be collected; none for what concerns several clusters."""
    clusters = {change.variant.cluster for change in plan.changes}
    names = collected_groups(clusters.pop()) if len(clusters) == 1 else ()
    return [branch for branch, (name, part) in situation.collected.items() if part is plan.part and name in names]


def _takes(situation: Situation, branch: str, held: Sequence[GroupPlan], more: GroupPlan) -> bool:
    """Whether a collected pull request takes what one more group proposes, in addition to what it holds."""
    if sum(len(each.changes) for each in (*held, more)) > MOST_COLLECTED:
        return False
    if held and _way_to_merge(held[0]) != _way_to_merge(more):
        return False
    proposal = _open_on(situation, branch)
    if proposal is None:  # what a person left on a closed one's branch is never overwritten
        ours = situation.proposals[situation.collected[branch][0]]
        return not any(each.touched_by for each in ours if each.head_branch == branch)
    settings, now_s = situation.snapshot.settings.pull_requests, situation.snapshot.now_s
    if not held or proposal.is_left_alone or _pushed_too_often(proposal, settings, now_s):
        return False
    return held[0].blocked is None and (held[0].merges is None or bool(held[0].merges.waits))


def _way_to_merge(plan: GroupPlan) -> tuple[bool, bool]:
    """Whether it merges by itself, and whether something keeps it from that for longer."""
    return plan.merges is not None, plan.merges is not None and plan.merges.is_stuck


def _open_on(situation: Situation, branch: str) -> Proposal | None:
    ours = situation.proposals[situation.collected[branch][0]]
    return next((each for each in ours if each.head_branch == branch and each.state is ProposalState.OPEN), None)


def _paced(situation: Situation, plan: GroupPlan) -> GroupPlan:
    """A collected pull request, put back where it repairs nothing and the last such was opened not long ago."""
    if plan.part is Part.URGENT or _open_on(situation, plan.head_branch) is not None:
        return plan
    now_s, lanes = situation.snapshot.now_s, _lanes(situation, plan)
    ours = (each for lane in lanes for each in situation.proposals[situation.collected[lane][0]])
    last_s = max((_opened_by_s(each, now_s) for each in ours if each.head_branch in lanes), default=-math.inf)
    if now_s - last_s >= PACE_S:
        return plan
    words = f"goes with others, of which a pull request was opened less than {PACE_S / 60:.0f} minutes ago"
    words = f"{words}: until {_moment(last_s + PACE_S)}"
    return replace(plan, blocked=Hold(kind=HoldKind.PUT_BACK, words=words))


MINUTE_S = 60
PARTS = tuple(Part)


def within_limits(situation: Situation, plans: Sequence[GroupPlan]) -> tuple[GroupPlan, ...]:
    """The plans of all pull requests, some of them put back: never repairs, of the rest first what saves most.

    What is not pushed stays as it stands, and may no longer go with what else was decided: that is put back with it.
    """
    written = _by_urgency(situation, plans)
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


def recent(times_s: Iterable[float], now_s: float, within_s: float = HOUR_S) -> list[float]:
    """Those of the last hour, or so long, in their order; what a clock that runs ahead calls later is of it, too."""
    return sorted(each for each in times_s if abs(now_s - each) < within_s)


def _urgency(situation: Situation, plan: GroupPlan) -> tuple[bool, float, float, int, int, str]:
    """Repairs, then by what is saved an hour, then whose group has waited longest since its last pull request."""
    needs = (situation.formulated.needs.of_variant(change.variant) for change in plan.changes)
    priority = max((need.priority for need in needs if need is not None), default=0)
    costs = [(each.cost_before_per_hour, each.cost_after_per_hour) for each in plan.changes]
    saved = sum(before - after for before, after in costs if before is not None and after is not None)
    is_repair = plan.part is Part.URGENT
    ours = (each for group in plan.groups for each in situation.proposals[group])
    last_s = max((each.closed_at_s or 0.0 for each in ours), default=0.0)
    gain = 0.0 if is_repair else max(saved, 0.0)
    return not is_repair, -gain, last_s, PARTS.index(plan.part), -priority, plan.name


def _by_urgency(situation: Situation, plans: Iterable[GroupPlan]) -> list[Written]:
    """What is to be opened, or pushed, the most urgent first."""
    return sorted(_written(situation, plans), key=lambda each: _urgency(situation, each.plan))


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
    opened, are_open = _counted(situation)
    lately, shard = len(opened), situation.snapshot.settings.shard
    of_shard = "" if shard is None else f" of shard {shard}"
    most, per_hour = settings.open_at_once, settings.created_per_hour
    for each in openings:
        comes_s = now_s
        is_repair = each.plan.part is Part.URGENT
        if most and are_open >= most and not is_repair:
            are = "of our pull requests are open, or are opened before it"
            limit = f"open{of_shard}"
            yield each.branch, _words(f"{are_open} {are}", limit, most, "one of them is merged or closed")
            continue
        if per_hour and len(opened) >= per_hour and not is_repair:
            comes_s = max(opened[-per_hour] + HOUR_S, now_s)
            words = f"{max(lately, per_hour)} of our pull requests were opened in an hour, or are before it"
            yield each.branch, _words(words, f"createdPerHour{of_shard}", per_hour, _moment(comes_s))
        else:
            are_open += 1
        insort(opened, comes_s)


def _counted(situation: Situation, within_s: float = HOUR_S) -> tuple[list[float], int]:
    """When those of the last hour were opened, and how many of ours are open."""
    now_s = situation.snapshot.now_s
    ours = [each for each in situation.snapshot.own_proposals if each.decision or each.branch_decision]
    opened = recent((_opened_by_s(each, now_s) for each in ours), now_s, within_s)
    return opened, sum(each.state is ProposalState.OPEN for each in ours)


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
