"""A smooth fleet in closed loop, with the default limits: no model waits for what a limit keeps back."""

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.decision.decide import solve
from reconciler.decision.groups import within_limits
from reconciler.domain.identity import ModelKey
from reconciler.domain.plan import GroupPlan, Outcome
from reconciler.domain.proposals import Proposal, ProposalState
from tests.histories import load_history
from tests.unit.decision.conftest import CLUSTER, Fleet, new_fleet

MODELS, NAMESPACES, STEP_S, HOURS = 60, 10, 600.0, 8
PER_REPLICA = 9.99
"""Requests a second that a replica of the fleet carries inside its target."""


@dataclass(kw_only=True)
class Day:
    """Models whose load rises from the quietest hour on, each a little before or after the others."""

    delay_s: float
    """How long people take to merge."""
    fleet: Fleet = field(default_factory=new_fleet)
    served: list[list[bool]] = field(default_factory=lambda: [[] for _ in range(NAMESPACES)])
    opened: int = 0

    def __post_init__(self) -> None:
        draw = random.Random(1)  # noqa: S311 - the same fleet in every run
        self.fleet.default(headroom=0.1)
        self.peaks = [(draw.uniform(20, 120), draw.uniform(-2, 2)) for _ in range(MODELS)]
        for number in range(MODELS):
            replicas = math.ceil(self.rate(number, 0.0) * 1.1 / PER_REPLICA)
            self.fleet.add(f"m{number}", model_id=f"m{number}", namespace=self.namespace(number), replicas=replicas)
        self.start_s = self.fleet.now_s

    def rate(self, number: int, hours: float) -> float:
        """Requests a second at so many hours."""
        peak, shift = self.peaks[number]
        return peak * (0.3 + 0.35 * (1 - math.cos(2 * math.pi * (hours + shift) / 24)))

    def namespace(self, number: int) -> str:
        """Ten in all, by name."""
        return f"ns{number % NAMESPACES}"

    def step(self, hours: float) -> None:
        """Merge what is due, look, and publish what the limits let."""
        fleet = self.fleet
        fleet.now_s = self.start_s + 3600 * hours
        self._merge()
        replicas = {each.key.name: each.replicas or 0 for each in fleet.workloads}
        for number in range(MODELS):
            namespace = self.namespace(number)
            fleet.offer(self.rate(number, hours), f"m{number}", namespace=namespace)
            past = tuple(self.rate(number, hours - minutes / 60) for minutes in range(59, -1, -1))
            fleet.past[ModelKey(cluster=CLUSTER, namespace=namespace, model_id=f"m{number}")] = load_history(
                past, last_s=fleet.now_s
            )
            is_served = self.rate(number, hours) <= PER_REPLICA * replicas[f"m{number}"]
            self.served[number % NAMESPACES].append(is_served)
        solved = solve(fleet.snapshot(), {})
        for plan in within_limits(solved.situation, solved.plan_of(solved.staged).groups):
            if plan.blocked is None:
                self._publish(plan)
        self._merge()

    def _publish(self, plan: GroupPlan) -> None:
        changes = tuple(each.change.proposed for each in plan.decisions if each.outcome is Outcome.CHANGE)
        found = [each for each in self.fleet.proposals if each.state is ProposalState.OPEN]
        standing = next((each for each in found if each.head_branch == plan.head_branch), None)
        if standing is not None:
            self.fleet.proposals.remove(standing)
        if changes:
            self.opened += standing is None
            now_s = self.fleet.now_s
            proposal = Proposal(
                group=plan.name,
                number=self.opened if standing is None else standing.number,
                state=ProposalState.OPEN,
                head_branch=plan.head_branch,
                decision=plan.fingerprint,
                branch_decision=plan.fingerprint,
                changes=changes,
                opened_at_s=now_s if standing is None else standing.opened_at_s,
                pushes_s=(now_s,),
            )
            self.fleet.proposals.append(proposal)

    def _merge(self) -> None:
        now_s = self.fleet.now_s
        for index, each in enumerate(self.fleet.proposals):
            if each.state is ProposalState.OPEN and now_s - (each.opened_at_s or 0.0) >= self.delay_s:
                for change in each.changes:
                    self.fleet.set_replicas(change.resource.rpartition("/")[2], change.replicas_after)
                self.fleet.proposals[index] = replace(each, state=ProposalState.MERGED, closed_at_s=now_s)


@pytest.mark.parametrize("delay_s", [0.0, 1200.0])
def test_the_default_limits_cost_no_target(delay_s: float) -> None:
    day = Day(delay_s=delay_s)
    steps = int(HOURS * 3600 / STEP_S)
    for step in range(steps):
        day.step(step * STEP_S / 3600)
    served: list[Any] = [sum(each) / len(each) for each in day.served]
    assert min(served) > 0.995, served
    assert day.opened > HOURS * day.fleet.settings.pull_requests.created_per_hour / 2, "the limits were never tight"
