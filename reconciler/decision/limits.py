"""How many pull requests are opened and pushed: what is deferred, why, and until when."""

import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.decision.groups import HOUR_S
from reconciler.decision.needs import Allocations
from reconciler.decision.staged_plan import Situation
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import Part, Proposal, ProposalState
from reconciler.domain.settings import PullRequestSettings
from reconciler.domain.units import utc_minute
from reconciler.optimizer.device_use import DeviceUse

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
        staying = {each.branch: _models(situation, models, each.proposal) for each in written if each.branch in causes}
        room = _Room.beside(situation, (each.branch for each in written if each.branch not in put_back))
        found: dict[str, tuple[Written, str]] = {}
        for each in written:
            if each.branch not in put_back:
                own = {models[change.variant] for change in each.plan.changes}
                own |= _models(situation, models, each.proposal)
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


def _models(situation: Situation, models: Mapping[ResourceKey, ModelKey], proposal: Proposal | None) -> set[ModelKey]:
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
    """The plans of all pull requests, some of them put back: repairs go first, then whose model is most urgent.

    What is not pushed stays as it stands, and may no longer go with what else was decided: that is put back with it.
    """
    urgency = {plan.head_branch: _urgency(situation, plan) for plan in plans}
    written = sorted(_written(situation, plans), key=lambda each: urgency[each.plan.head_branch])
    settings, now_s = situation.snapshot.settings.pull_requests, situation.snapshot.now_s
    late = {
        each.branch: words
        for each in written
        if each.proposal is not None and (words := _pushed_too_often(each.proposal, settings, now_s))
    }
    put_back = dict(put_back_beside(situation, written, late) if late else ())
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


def _urgency(situation: Situation, plan: GroupPlan) -> tuple[int, int, str]:
    needs = (situation.formulated.needs.of_variant(change.variant) for change in plan.changes)
    priority = max((need.priority for need in needs if need is not None), default=0)
    return PARTS.index(plan.part), -priority, plan.name


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
        if most and are_open >= most:
            are = "of our pull requests are open, or are opened before it"
            yield each.branch, _words(f"{are_open} {are}", "open", most, "one of them is merged or closed")
            continue
        if per_hour and len(opened) >= per_hour:
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
