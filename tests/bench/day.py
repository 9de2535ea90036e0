"""A day of a smooth fleet in closed loop: what limits on pull requests cost, `python -m tests.bench.day`.

Each model's load rises and falls once a day. Every ten minutes a run decides and opens what limits admit; people merge
after a delay. A minute on this machine for 100 models in ten namespaces, without limits and with the default ones.
"""

import argparse
import math
import random
from dataclasses import dataclass, field, replace

from reconciler.backtest.pull_requests import PullRequests
from reconciler.decision.decide import solve
from reconciler.decision.limits import collected, within_limits
from reconciler.domain.identity import ModelKey
from reconciler.policy.files import read_policy
from tests.bench.table import table
from tests.histories import load_history
from tests.unit.decision.conftest import CLUSTER, Fleet, new_fleet

NAMESPACES, STEP_S, HEADROOM, PAYBACK_H = 10, 600.0, 0.1, 1.0
ALLOW = b"""apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: itself, autoMerge: {}}
"""
PER_REPLICA = 9.99
"""Requests a second that a replica of the fleet carries inside its target."""


@dataclass(kw_only=True)
class Day:
    """Models whose load rises from the quietest hour on, each a little before or after the others."""

    delay_s: float
    """How long people take to merge."""
    models: int = 100
    since: float = 0.0
    """The hour at which it begins; 0 is the quietest."""
    merges_itself: bool = False
    """Whether each pull request is merged by the first run that finds it as it was, not by people."""
    fleet: Fleet = field(default_factory=new_fleet)
    served: list[list[bool]] = field(default_factory=lambda: [[] for _ in range(NAMESPACES)])
    replica_hours: float = 0.0
    needed_hours: float = 0.0
    """What the load of the last `payback` needs."""
    pull_requests: PullRequests = field(init=False)

    def __post_init__(self) -> None:
        draw = random.Random(1)  # noqa: S311 - the same fleet in every run
        self.fleet.default(headroom=HEADROOM)
        self.pull_requests = PullRequests(
            merged_by_people=lambda _plan, _number, now_s: math.inf if self.merges_itself else now_s + self.delay_s,
            proposals=self.fleet.proposals,
        )
        if self.merges_itself:
            self.fleet.set(rules=read_policy("p.yaml", ALLOW).rules)
        self.peaks = [(draw.uniform(20, 120), draw.uniform(-2, 2)) for _ in range(self.models)]
        for number in range(self.models):
            namespace, replicas = self.namespace(number), self.needed(number, self.since)
            self.fleet.add(f"m{number}", model_id=f"m{number}", namespace=namespace, replicas=replicas)
        self.start_s = self.fleet.now_s

    @property
    def attainment(self) -> float:
        """The share of the models' time in which their load was carried."""
        return sum(map(sum, self.served)) / sum(map(len, self.served))

    @property
    def least(self) -> float:
        """The same of the namespace where it is lowest."""
        return min(sum(each) / len(each) for each in self.served)

    def rate(self, number: int, hours: float) -> float:
        """Requests a second at so many hours."""
        peak, shift = self.peaks[number]
        return peak * (0.3 + 0.35 * (1 - math.cos(2 * math.pi * (hours + shift) / 24)))

    def needed(self, number: int, hours: float) -> int:
        """Replicas of a model at so many hours."""
        return math.ceil(self.rate(number, hours) * (1 + HEADROOM) / PER_REPLICA)

    def namespace(self, number: int) -> str:
        """Ten in all, by name."""
        return f"ns{number % NAMESPACES}"

    def live(self, hours: float) -> None:
        """So many hours, run by run."""
        for step in range(round(hours * 3600 / STEP_S)):
            self._step(self.since + step * STEP_S / 3600)

    def _step(self, hours: float) -> None:
        """Merge what is due, look, and publish what the limits admit."""
        fleet = self.fleet
        fleet.now_s = self.start_s + 3600 * hours
        self._merge()
        replicas = {each.key.name: each.replicas or 0 for each in fleet.workloads}
        self.replica_hours += sum(replicas.values()) * STEP_S / 3600
        lately = (max(self.needed(number, hours - ago) for ago in (0.0, PAYBACK_H)) for number in range(self.models))
        self.needed_hours += sum(lately) * STEP_S / 3600
        for number in range(self.models):
            namespace = self.namespace(number)
            fleet.offer(self.rate(number, hours), f"m{number}", namespace=namespace)
            past = tuple(self.rate(number, hours - minutes / 60) for minutes in range(59, -1, -1))
            fleet.past[ModelKey(cluster=CLUSTER, namespace=namespace, model_id=f"m{number}")] = load_history(
                past, last_s=fleet.now_s
            )
            is_served = self.rate(number, hours) <= PER_REPLICA * replicas[f"m{number}"]
            self.served[number % NAMESPACES].append(is_served)
        solved = solve(fleet.snapshot(), {})
        groups = collected(solved.situation, solved.staged, solved.plan_of(solved.staged)).groups
        self.pull_requests.publish(within_limits(solved.situation, groups), fleet.now_s)
        self._merge()

    def _merge(self) -> None:
        for each in self.pull_requests.merge(self.fleet.now_s):
            for change in each.changes:
                self.fleet.set_replicas(change.resource.rpartition("/")[2], change.replicas_after)


def main() -> None:
    """Print a row for each way of merging, without limits and with the default ones."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.day", description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--delay", type=float, nargs="*", default=[0.0, 20.0], help="minutes until people merge")
    arguments = parser.parse_args()
    rows = []
    for minutes in (*arguments.delay, None):
        for words in ("default", "none"):
            day = Day(delay_s=60 * (minutes or 0.0), models=arguments.models, merges_itself=minutes is None)
            if words == "none":
                own = day.fleet.settings.pull_requests
                unlimited = replace(own, open_at_once=0, created_per_hour=0, pushes_per_hour=0, merges_per_hour=10**6)
                day.fleet.set(pull_requests=unlimited)
            day.live(arguments.hours)
            merged = "by itself" if minutes is None else f"after {minutes:g} min"
            figures = day.attainment, day.least, round(day.replica_hours)
            rows.append((merged, words, *figures, day.pull_requests.opened, day.pull_requests.pushed))
    columns = ("merged", "limits", "attainment", "least", "replica-hours", "opened", "pushed again")
    print(table(columns, rows))


if __name__ == "__main__":
    main()
