"""The product in a loop: a fleet under a load of weeks, the real `decide` every ten minutes, merges that come late.

`python -m tests.bench.closed_loop [--load smooth] [--days 7] [--seed 1] [--models 100] [--groups 1]` prints, for the
rule of now and for forecasts, cost against somebody who knows the future and has the same delay, attainment, what the
best peer whose numbers come by pull request costs at this attainment (with as many pull requests as it likes, with
the same `pullRequests.worth` as ours, and with that and as few reversals), pull requests a day, and reversals (up, then
down within three hours) as a share of changes.
"""

import argparse
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reconciler.backtest.comparison import cost_at
from reconciler.backtest.pull_requests import PullRequests
from reconciler.decision import forecasting
from reconciler.decision.decide import solve
from reconciler.decision.limits import collected, within_limits
from reconciler.decision.worth import BY_FORECAST, worth_opening
from reconciler.domain.history import DemandHistory, LoadHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import Observation, Performance
from reconciler.domain.proposals import ProposalState
from reconciler.domain.scalers import Behavior, MetricKind, RatePolicy, ScalingRules
from reconciler.domain.settings import PullRequestSettings, Worth
from reconciler.forecast.series import Rates, Window, largest_within
from reconciler.simulation import rehearsal
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import TENTH, Spread
from reconciler.simulation.fleet import Fleet as SimulatedFleet
from reconciler.simulation.fleet import simulate
from reconciler.simulation.fluid import Delay, follow, serve
from reconciler.simulation.rehearsal import LEVEL
from reconciler.simulation.through_git import ThroughGit
from tests.bench.loads import DAY_S, Floats, Offered, bursty, smooth
from tests.bench.table import table
from tests.unit.decision.conftest import CLUSTER, Fleet, key, new_fleet

PER_REPLICA, MADE_FOR = 9.99, 2.0
"""Requests a second that a replica of the fleet carries, and that the loads are made for."""
MINUTE_S, RUN_S, HISTORY_STEP_S = 60.0, 600.0, 600.0
SYNC_MIN, START_MIN = 3, 6
TARGETS = tuple(np.linspace(0.5, 1.0, 11))
"""Of what a replica carries: what a peer gives each. Between settings far apart it would seem better than it is."""
WINDOWS_S = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0)
"""For how long a peer's higher number holds back a lower one."""
REVERSED_WITHIN_S = 3 * 3600.0
FEW_REVERSALS = 0.05
"""Of changes: so many at most are asked of ours, and of the peer that moves as seldom."""
MERGED_BEFORE = 40
"""Merges of the days before."""
TIMES = {5: (1.0, 0.4), 20: (10.0, 0.6), 60: (50.0, 0.5)}
"""By delay in minutes: the median of the time until a merge, and the standard deviation of its logarithm."""

TRACES = {"bursty": "m_small", "bursty-large": "m_large", "bursty-mid": "m_mid", "bursty-both": "m_large+m_mid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What a rule made of a load; `by_day` is attainment, `cost` in mean replicas.

    `coverage` is the share of forecasts whose 90 % quantile was not exceeded, NaN where none decided.
    """

    attainment: float
    cost: float
    cost_over_clairvoyant: float
    peer_over_clairvoyant: float
    gated_peer_over_clairvoyant: float
    steady_peer_over_clairvoyant: float
    pull_requests_a_day: float
    reversals: float
    by_day: tuple[float, ...]
    forecast_share: float
    coverage: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What each of a peer's settings came to."""

    cost: Floats
    attainment: Floats
    reversals: Floats

    def at(self, kept: float, most_reversals: float = 1.0) -> float:
        """The mean replicas of the setting that suits these days best and keeps as much; NaN where none does."""
        is_steady = self.reversals <= most_reversals
        found = cost_at(self.cost[is_steady], self.attainment[is_steady], kept) if is_steady.any() else None
        return math.nan if found is None else found


def reversals(changes: Iterable[tuple[float, int, int]]) -> float:
    """The share of changes (Unix seconds, model, replicas more) that take away in three hours what another brought."""
    raised: dict[int, float] = {}
    count = reversed_ = 0
    for at_s, number, more in sorted(changes):
        count += 1
        if more > 0:
            raised[number] = at_s
        elif at_s - raised.get(number, -math.inf) <= REVERSED_WITHIN_S:
            reversed_ += 1
    return reversed_ / max(count, 1)


def _reversed(replicas: Floats) -> float:
    """The same of replicas by model and minute."""
    more = np.diff(replicas, axis=1)
    numbers, minutes = np.nonzero(more)
    return reversals(zip((minutes * MINUTE_S).tolist(), numbers.tolist(), more[numbers, minutes].tolist(), strict=True))


class Remembered:
    """A rule with what it decided, step by step: it is served as ours is, by the same law."""

    def __init__(self, rule: Autoscaler) -> None:
        self._rule = rule
        self.decided: list[Any] = []

    @property
    def reproduces(self) -> str:
        """As the rule says."""
        return self._rule.reproduces

    def decide(self, seen: Seen) -> Any:
        """As the port says."""
        self.decided.append(np.broadcast_to(self._rule.decide(seen), seen.replicas.shape))
        return self.decided[-1]


@dataclass(slots=True, kw_only=True)
class Loop:
    """A fleet whose Git, cluster and metrics follow what is merged."""

    load: Offered
    first_day: int
    days: int
    groups: int
    delay_min: int = 20
    forecasts: bool = True
    limits: bool = False
    seed: int = 1
    fleet: Fleet = field(default_factory=new_fleet)
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    decided: int = 0
    quantiles: dict[Window, list[tuple[int, int, float]]] = field(default_factory=dict)
    """Of each window, as the delays that are measured change it: the model, the moment and the 90 % quantile."""
    draw: random.Random = field(init=False)
    pull_requests: PullRequests = field(init=False)
    git: Any = field(init=False)
    cluster: Any = field(init=False)

    def __post_init__(self) -> None:
        fleet, models = self.fleet, len(self.rates)
        fleet.default(headroom=0.2, **{"actuationDelay.start": START_MIN * MINUTE_S})
        if not self.limits:
            fleet.set(pull_requests=PullRequestSettings(open_at_once=0, created_per_hour=0, pushes_per_hour=0))
        self.draw = random.Random(self.seed)  # noqa: S311 - the same merges in every run
        self._merged_before()
        self.pull_requests = PullRequests(
            merged_by_people=lambda _plan, _number, at_s: at_s + self._until_merged_s(), proposals=fleet.proposals
        )
        self.git = np.ceil(self.rates[:, self.minute(0.0)] * 1.2 / PER_REPLICA).astype(int)
        self.cluster = np.repeat(self.git[:, np.newaxis], self.days * 1440, axis=1)
        for number in range(models):
            fleet.add(
                f"m{number}", model_id=f"m{number}", namespace=self.namespace(number), replicas=int(self.git[number])
            )
        coarse = replace(self.load, per_s=self.rates).coarse(HISTORY_STEP_S)
        history = DemandHistory(
            models=tuple(map(self.model, range(models))),
            start_s=coarse.start_s + HISTORY_STEP_S,
            step_s=HISTORY_STEP_S,
            per_s=coarse.per_s,
        )
        if self.forecasts:
            fleet.observed = replace(fleet.observed, demand=(history,))

    @property
    def rates(self) -> Any:
        """Requests a second by model and minute."""
        return self.load.per_s * (PER_REPLICA / MADE_FOR)

    def namespace(self, number: int) -> str:
        """One for each group."""
        return f"ns{number % self.groups}"

    def model(self, number: int) -> ModelKey:
        """Named by its number."""
        return ModelKey(cluster=CLUSTER, namespace=self.namespace(number), model_id=f"m{number}")

    def minute(self, at_s: float) -> int:
        """The minute of the load at so many seconds after the start."""
        return int(self.first_day * 1440 + at_s // MINUTE_S)

    def run(self) -> Outcomes:
        """All days."""
        begun_s = time.process_time()
        rates = self.rates
        start_s = self.load.start_s + self.first_day * DAY_S
        for step in range(int(self.days * DAY_S / RUN_S)):
            at_s = step * RUN_S
            self.fleet.now_s = start_s + at_s
            self._merge(at_s)
            self._look(rates, at_s)
            solved = solve(self.fleet.snapshot(), {})
            demands = solved.situation.formulated.demands.values()
            self.decided += len(demands)
            for model, each in solved.situation.formulated.demands.items():
                if each.forecast is not None:
                    told = (int(model.model_id[1:]), self.minute(at_s) // 10 - 1, each.forecast.quantiles[LEVEL])
                    self.quantiles.setdefault(each.forecast.window, []).append(told)
            plan = collected(solved.situation, solved.staged, solved.plan_of(solved.staged))
            plans = worth_opening(solved.situation, plan.groups)
            self.pull_requests.publish(within_limits(solved.situation, plans), self.fleet.now_s)
        first = self.minute(0.0)
        offered = rates[:, first : first + self.days * 1440]
        capacity = np.full(len(rates), PER_REPLICA)
        delay = Delay(sync=0, start=START_MIN)
        served = serve(offered, self.cluster[np.newaxis].astype(float), capacity, delay, MINUTE_S)
        best, reversed_share = self._clairvoyant(rates, capacity), reversals(self.changes)
        kept = float(served.attainment[0])
        peer = self._peer(offered, None).at(kept)
        gated = self._peer(offered, BY_FORECAST)
        by_day = [
            float(
                serve(
                    offered[:, day * 1440 : (day + 1) * 1440],
                    self.cluster[np.newaxis, :, day * 1440 : (day + 1) * 1440].astype(float),
                    capacity,
                    delay,
                    MINUTE_S,
                ).attainment[0]
            )
            for day in range(self.days)
        ]
        return Outcomes(
            attainment=kept,
            cost=float(served.cost[0]),
            cost_over_clairvoyant=float(served.cost[0]) / best,
            peer_over_clairvoyant=peer / best,
            gated_peer_over_clairvoyant=gated.at(kept) / best,
            steady_peer_over_clairvoyant=gated.at(kept, max(reversed_share, FEW_REVERSALS)) / best,
            pull_requests_a_day=self.pull_requests.opened / self.days,
            reversals=reversed_share,
            by_day=tuple(by_day),
            forecast_share=sum(map(len, self.quantiles.values())) / max(self.decided, 1),
            coverage=self._coverage(),
            seconds=time.process_time() - begun_s,
        )

    def _look(self, rates: Any, at_s: float) -> None:
        """What Prometheus would say now."""
        minute, here = self.minute(at_s), int(at_s // MINUTE_S)
        smoothed = np.cumsum(np.pad(rates[:, minute - 66 : minute], ((0, 0), (1, 0))), axis=1)
        windows = (smoothed[:, 5:] - smoothed[:, :-5]) / 5
        asked = self.cluster[:, max(here - START_MIN, 0) : here + 1]
        ready = asked.min(axis=1)
        times_s = self.fleet.now_s - MINUTE_S * np.arange(60.0, -1.0, -1.0)
        for number, model in enumerate(map(self.model, range(len(rates)))):
            row = windows[number, -61:]
            self.fleet.offer(float(row[-1]), model.model_id, model.namespace)
            self.fleet.past[model] = LoadHistory(times_s=times_s, step_s=MINUTE_S, window_s=300.0, rates_per_s=row)
            self.fleet.observations[key(f"m{number}", namespace=model.namespace)] = Observation(
                performance=Performance(itl_s=0.01), replicas_reporting=int(ready[number])
            )

    def _merge(self, at_s: float) -> None:
        fleet, start_s = self.fleet, self.fleet.now_s - at_s
        for each in self.pull_requests.merge(fleet.now_s):
            merged_s = (each.closed_at_s or 0.0) - start_s
            for change in each.changes:
                number = int(change.resource.rpartition("/m")[2])
                self.changes.append((merged_s, number, change.replicas_after - int(self.git[number])))
                self.git[number] = change.replicas_after
                fleet.set_replicas(f"m{number}", change.replicas_after)
                self.cluster[number, int(merged_s // MINUTE_S) + SYNC_MIN :] = change.replicas_after
            fleet.committed_s = start_s + merged_s

    def _merged_before(self) -> None:
        """Merges of the days before: how long they take is known."""
        start_s = self.load.start_s + self.first_day * DAY_S
        for number in range(-MERGED_BEFORE, 0):
            closed_s = start_s + number * 3600.0
            self.fleet.propose(
                number=number,
                state=ProposalState.MERGED,
                opened_at_s=closed_s - self._until_merged_s(),
                closed_at_s=closed_s,
            )

    def _until_merged_s(self) -> float:
        median, spread = TIMES[self.delay_min]
        return MINUTE_S * median * math.exp(self.draw.gauss(0.0, spread))

    def _coverage(self) -> float:
        """The share of forecasts that were not exceeded."""
        coarse = replace(self.load, per_s=self.rates).coarse(HISTORY_STEP_S)
        rates = Rates(start_s=coarse.start_s + HISTORY_STEP_S, step_s=HISTORY_STEP_S, per_s=coarse.per_s)
        below: list[Any] = []
        for window, told in self.quantiles.items():
            numbers, moments, most = (np.array(each) for each in zip(*told, strict=True))
            came = largest_within(rates, numbers, moments, window)
            below.append((came <= most)[np.isfinite(came)])
        return float(np.concatenate(below).mean()) if below else math.nan

    def _peer(self, offered: Any, worth: Worth | None) -> "Peer":
        """An HPA's rule by pull request under each of its settings on these days.

        Its pull requests are in the same groups, merge as late, and are updated by each run, as ours are. Without
        `worth` it may open as many as it likes.
        """
        median_s, deviation = TIMES[self.delay_min][0] * MINUTE_S, TIMES[self.delay_min][1] * TENTH
        fleet = SimulatedFleet(
            start_s=self.load.start_s + self.first_day * DAY_S,
            step_s=MINUTE_S,
            offered_per_s=offered,
            model_of=np.arange(len(offered)),
            capacity_per_s=np.full(len(offered), PER_REPLICA),
            weight=np.ones(len(offered)),
            start_steps=np.full(offered.shape, START_MIN),
        )
        targets, windows_s = (each.reshape(-1, 1) for each in np.meshgrid(TARGETS, WINDOWS_S))
        down = ScalingRules(window_s=windows_s, policies=(RatePolicy(value=100.0, period_s=15.0, is_percent=True),))
        rule = HorizontalPodAutoscaler(
            metrics=[Metric(signal="load", kind=MetricKind.EXTERNAL_AVERAGE, target=targets)],
            behavior=Behavior(down=down),
            sync_s=RUN_S,
        )
        scaler = Remembered(
            ThroughGit(
                rule,
                run_s=RUN_S,
                step_s=MINUTE_S,
                merge=Spread(
                    low_s=median_s * math.exp(-deviation), median_s=median_s, high_s=median_s * math.exp(deviation)
                ),
                sync_s=SYNC_MIN * MINUTE_S,
                group_of=np.arange(len(offered)) % self.groups,
                seed=self.seed,
                worth=worth,
            )
        )
        first = np.tile(self.cluster[:, 0].astype(float), (len(targets), 1))
        simulate(fleet, scaler, first, np.zeros(offered.shape[1], dtype=np.int64))
        replicas = np.stack(scaler.decided, axis=2)
        served = serve(offered, replicas, fleet.capacity_per_s, Delay(sync=0, start=START_MIN), MINUTE_S)
        return Peer(cost=served.cost, attainment=served.attainment, reversals=np.array([*map(_reversed, replicas)]))

    def _clairvoyant(self, rates: Any, capacity: Any) -> float:
        """The mean replicas of one who knows what comes until what the next run decides serves."""
        first, merge = self.minute(0.0), round(TIMES[self.delay_min][0])
        until = SYNC_MIN + merge + START_MIN + int(RUN_S / MINUTE_S)
        runs = range(first, first + self.days * 1440, int(RUN_S / MINUTE_S))
        known = np.concatenate((rates, np.repeat(rates[:, -1:], until, axis=1)), axis=1)
        need = np.stack([known[:, run + SYNC_MIN + merge : run + until + 1].max(axis=1) for run in runs], axis=1)
        decided = np.repeat(follow(need, need, capacity), int(RUN_S / MINUTE_S), axis=1)
        offered = rates[:, first : first + self.days * 1440]
        delay = Delay(sync=SYNC_MIN + merge, start=START_MIN)
        return float(serve(offered, decided[np.newaxis], capacity, delay, MINUTE_S).cost[0])


def load_of(name: str, models: int, seed: int) -> Offered:
    """A load by its name."""
    if name == "smooth":
        return smooth(models, seed)
    return bursty(name=TRACES[name], seed=seed)


def compare(load: Offered, **settings: Any) -> Iterator[tuple[str, Outcomes]]:
    """The rule of now, and forecasts where they prove better."""
    for name, forecasts in (("rule of now", False), ("forecasts", True)):
        yield name, Loop(load=load, forecasts=forecasts, **settings).run()


def rows(found: Sequence[tuple[str, Outcomes]]) -> Iterator[Sequence[Any]]:
    """As a table shows them."""
    for name, each in found:
        yield (
            name,
            f"{each.attainment:.2%}",
            each.cost_over_clairvoyant,
            each.peer_over_clairvoyant,
            each.gated_peer_over_clairvoyant,
            each.steady_peer_over_clairvoyant,
            each.cost,
            each.pull_requests_a_day,
            f"{each.reversals:.1%}",
            f"{min(each.by_day):.2%}",
            f"{each.forecast_share:.0%}",
            f"{each.coverage:.1%}",
            each.seconds,
        )


HEADINGS = (
    *("", "kept", "cost", "peer", "same worth", "as steady", "replicas", "PRs/day"),
    *("reversed", "worst day", "forecast", "below 90 %", "seconds"),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.closed_loop", description=__doc__)
    parser.add_argument("--load", default="smooth", choices=("smooth", *TRACES))
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--first-day", type=int, default=7)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--delay", type=int, default=20, choices=tuple(TIMES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limits", action="store_true", help="with the default limits on pull requests")
    parser.add_argument("--hold", type=float, help="hours for which few replicas go after a merge that added some")
    given = parser.parse_args()
    if given.hold is not None:
        for module in (rehearsal, forecasting):
            vars(module)["HOLD_S"] = given.hold * 3600.0
    found = list(
        compare(
            load_of(given.load, given.models, given.seed),
            first_day=given.first_day,
            days=given.days,
            groups=given.groups,
            delay_min=given.delay,
            limits=given.limits,
            seed=given.seed,
        )
    )
    print(table(HEADINGS, list(rows(found))))


if __name__ == "__main__":
    main()
