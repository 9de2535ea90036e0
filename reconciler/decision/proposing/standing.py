"""What may not be opened or pushed beside pull requests that stay as they stand, although something else was decided.

Of a model whose replicas such a one changes, nothing else may: together they were never looked at. And devices that it
takes are no room for others, whichever are merged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.staged_plan import Situation
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.optimizer.device_use import DeviceUse


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
