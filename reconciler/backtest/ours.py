"""The product over a recorded day: the real `decide` at every run, with its rules and limits, merges that come late."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from reconciler.backtest.pull_requests import PullRequests
from reconciler.backtest.replayed import LEAD_S, STEP_S, WARM_UP_S, Replayed, loads_at
from reconciler.decision.decide import Solved, solve
from reconciler.decision.limits import collected, within_limits
from reconciler.decision.worth import worth_opening
from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import LiveReplicas, Observation, Observed, Performance
from reconciler.domain.plan import Decision, GroupPlan, VerdictKind
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.forecast.series import DAY_S, Floats, Integers
from reconciler.simulation.draws import random_generator
from reconciler.simulation.policies import Way

WINDOW_S = 300.0
"""A load is the mean of so long."""
PAST_POINTS = LIVE_POINTS = 61
REVERSED_WITHIN_S = 3 * 3600.0
STOPPING = (HoldKind.RULE, HoldKind.REFUSED, HoldKind.PUT_BACK, HoldKind.POOL_FULL, HoldKind.GROWTH_UNPROVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A number that reached its cluster at a step of the day's fleet."""

    variant: int
    step: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OurDay:
    """What the product did: `replicas` (variants x steps) that scale targets ask for, warm-up included.

    `opened`, `pushed` and `merged` count pull requests of the day itself. `quantiles` are, for each model and level,
    the forecast at each run (models x runs of the day), NaN where none decided; `runs` the steps at which they decide,
    `windows` the first and the last step after its run in which the load of each forecast lies (models x runs x 2).
    """

    replicas: Floats
    moves: tuple[Move, ...]
    opened: int
    pushed: int
    merged: int
    stopped: Mapping[str, int]
    quantiles: Mapping[float, Floats]
    runs: Integers
    windows: Integers

    @property
    def reversals(self) -> int:
        """The moves of the day that take away within three hours what another brought."""
        raised: dict[int, int] = {}
        count = 0
        for move in sorted(self.moves, key=lambda each: each.step):
            if move.after > move.before:
                raised[move.variant] = move.step
            elif (move.step - raised.get(move.variant, -(10**9))) * STEP_S <= REVERSED_WITHIN_S:
                count += move.step * STEP_S >= WARM_UP_S
        return count


class DayReplay:
    """One day of a fleet under the product, to be run once."""

    def __init__(self, replayed: Replayed, day_s: float, seed: int) -> None:
        self._replayed = replayed
        self._from_s = day_s - WARM_UP_S
        self._steps = round((WARM_UP_S + DAY_S) / STEP_S)
        self._lead = round(LEAD_S / STEP_S)
        self._offered = replayed.offered(self._from_s - LEAD_S, self._steps + self._lead)
        self._sums = np.cumsum(np.pad(self._offered, ((0, 0), (1, 0))), axis=1)
        self._sync = round(replayed.way.sync_s / STEP_S)
        self._start = round(replayed.way.start.median_s / STEP_S)
        self._faults = replayed.faults(day_s, seed)
        self._numbers = {variant.key: number for number, variant in enumerate(replayed.variants)}
        self._named = {str(key): key for key in self._numbers}
        self._rows = {model: row for row, model in enumerate(replayed.models)}

        first = first_replicas(replayed, self._offered[:, : self._lead])
        self._git = {variant.key: int(first[number]) for number, variant in enumerate(replayed.variants)}
        self._variants = replayed.snapshot.variants
        self._counts: dict[ResourceKey, list[tuple[float, int]]] = {key: [] for key in self._numbers}
        self._committed_s = self._from_s - DAY_S
        self._replicas = np.repeat(first[:, None], self._steps, axis=1)
        self._moves: list[Move] = []
        # not a bound method: an object that refers to itself waits for a rare garbage collection, with its 50 MiB
        self.pull_requests = PullRequests(merged_by_people=partial(_merged_by_people, replayed.way, day_s, seed))

    def run(self) -> OurDay:
        """Decide, publish and merge until the day ends."""
        way, pull_requests = self._replayed.way, self.pull_requests
        run, warm = max(round(way.run_s / STEP_S), 1), round(WARM_UP_S / STEP_S)
        runs = np.arange(-(-warm // run) * run, self._steps, run)
        windows = np.zeros((len(self._rows), len(runs), 2), dtype=np.int64)
        quantiles: dict[float, Floats] = {}
        stopped: Counter[str] = Counter()
        counted = {"opened": 0, "pushed": 0, "merged": 0}
        for step in range(0, self._steps, run):
            at_s = self._from_s + step * STEP_S
            counts = step * STEP_S >= WARM_UP_S
            counted["merged"] += counts * self._merge(at_s)
            solved = solve(self._snapshot(at_s, step), {})
            for model, demand in solved.situation.formulated.demands.items():
                if demand.forecast is not None and counts and model in self._rows:
                    place = self._rows[model], (step - int(runs[0])) // run
                    begins, ends = demand.forecast.window.offsets(STEP_S)
                    windows[place] = begins - 1, ends - 1  # an offset names the moment at which a step ends
                    for level, rate in demand.forecast.quantiles.items():
                        if level not in quantiles:
                            quantiles[level] = np.full(windows.shape[:2], np.nan)
                        quantiles[level][place] = rate
            before = pull_requests.opened, pull_requests.pushed
            self._publish(solved, at_s, stopped if counts else Counter())
            counted["opened"] += counts * (pull_requests.opened - before[0])
            counted["pushed"] += counts * (pull_requests.pushed - before[1])
            counted["merged"] += counts * self._merge(at_s)
        self._merge(self._from_s + self._steps * STEP_S)
        return OurDay(
            replicas=self._replicas,
            moves=tuple(self._moves),
            stopped=stopped,
            quantiles=quantiles,
            runs=runs,
            windows=windows,
            **counted,
        )

    def _snapshot(self, at_s: float, step: int) -> Snapshot:
        """What a run would see: the load until now, what Git says, the replicas that serve, our pull requests."""
        replayed, here = self._replayed, self._lead + step
        window = round(WINDOW_S / STEP_S)
        ends = here - np.arange(PAST_POINTS - 1, -1, -1)
        rates = (self._sums[:, ends] - self._sums[:, ends - window]) / window
        times_s = at_s - STEP_S * np.arange(PAST_POINTS - 1, -1, -1.0)
        base = replayed.snapshot
        ready = self._ready(step)
        self._variants = tuple(self._as_written(each) for each in self._variants)
        past = {
            model: LoadHistory(times_s=times_s, step_s=STEP_S, window_s=WINDOW_S, rates_per_s=rates[row])
            for model, row in self._rows.items()
        }
        observations = {
            key: Observation(performance=Performance(), replicas_reporting=int(ready[number]), age_s=0.0)
            for key, number in self._numbers.items()
        }
        if self._faults is not None and self._faults.silent[step]:
            return self._in_git(at_s, self._unanswered(base.observed))
        return self._in_git(
            at_s,
            replace(
                base.observed,
                loads={**base.observed.loads, **loads_at(replayed, rates[:, -1])},
                observations={**base.observed.observations, **observations},
                past={**base.observed.past, **past},
                usual={},
                demand=(replayed.demand,) if replayed.demand.models else (),
                queues={},
                live=self._live(at_s, step),
                unschedulable={},
                ready={key: int(ready[number]) for key, number in self._numbers.items()},
                # what replicas did corrects profiles: it was as it was recorded, and ends now
                traces={
                    key: tuple(replace(each, start_s=each.start_s + at_s - base.now_s) for each in traces)
                    for key, traces in base.observed.traces.items()
                },
            ),
        )

    def _in_git(self, at_s: float, observed: Observed) -> Snapshot:
        """The snapshot of what was observed and of what Git and its pull requests say."""
        return replace(
            self._replayed.snapshot,
            now_s=at_s,
            variants=self._variants,
            observed=observed,
            proposals=tuple(self.pull_requests.proposals),
            committed_s=self._committed_s,
            written={
                key: WrittenCounts(variant=key, counts=((0.0, int(self._replicas[number, 0])), *self._counts[key]))
                for key, number in self._numbers.items()
            },
        )

    def _ready(self, step: int) -> Floats:
        """The replicas of each variant that serve (variants,): those asked for until all that started is there."""
        since = max(step - self._start, 0)
        ready = np.asarray(self._replicas[:, since : step + 1].min(axis=1))
        if self._faults is None:
            return ready
        asked_at = np.arange(step + 1)
        waits = asked_at + self._start + self._faults.waits[:, : step + 1] > step
        first = np.where(waits.any(axis=1), np.maximum(waits.argmax(axis=1) - 1, 0), step)  # the last that is there
        held = np.where(asked_at >= first[:, None], self._replicas[:, : step + 1], np.inf).min(axis=1)
        lost = np.ceil(self._replicas * self._faults.lost_share)[:, : step + 1]
        return np.asarray(np.maximum(np.minimum(ready, held) - np.where(waits, lost, 0.0).sum(axis=1), 0.0))

    def _unanswered(self, observed: Observed) -> Observed:
        """What is known of the replayed models while Prometheus is silent: nothing, and why."""
        nothing = NoAnswer(absence=Absence.FAILED, reason="Prometheus does not answer")
        silent = Observation(performance=Performance(), absence=nothing)
        return replace(
            observed,
            loads={**observed.loads, **dict.fromkeys(self._rows, nothing)},
            observations={**observed.observations, **dict.fromkeys(self._numbers, silent)},
            past={model: each for model, each in observed.past.items() if model not in self._rows},
            usual={},
            demand=(),
            queues={},
            live={},
            unschedulable={},
            ready={},
            traces={},
        )

    def _as_written(self, variant: Variant) -> Variant:
        """A variant with the replicas that Git asks for now."""
        replicas = self._git.get(variant.key)
        known = (variant.current.replicas, None if variant.workload is None else variant.workload.replicas)
        if replicas is None or all(each in (None, replicas) for each in known):
            return variant
        return replace(
            variant,
            current=replace(variant.current, replicas=replicas),
            workload=None if variant.workload is None else replace(variant.workload, replicas=replicas),
        )

    def _live(self, at_s: float, step: int) -> Mapping[ResourceKey, LiveReplicas]:
        """What scale targets ask for in the last hour, of those whose counts were known when it was recorded."""
        since = max(step - LIVE_POINTS + 1, 0)
        counts, start_s = self._replicas[:, since : step + 1], at_s - (step - since) * STEP_S
        return {
            key: LiveReplicas(start_s=start_s, step_s=STEP_S, counts=counts[self._numbers[key]])
            for key in self._numbers.keys() & self._replayed.snapshot.observed.live.keys()
        }

    def _publish(self, solved: Solved, at_s: float, stopped: Counter[str]) -> None:
        """Open, update and close, and count what was stopped."""
        plan = collected(solved.situation, solved.staged, solved.brief_plan_of(solved.staged))
        for decision in plan.decisions:
            if decision.variant in self._numbers:
                stopped.update(_stops(decision))
        groups = within_limits(solved.situation, worth_opening(solved.situation, plan.groups))
        for group in groups:
            if group.blocked is not None and group.changes:
                stopped[f"pull requests: {_limit_of(group.blocked.words)}"] += 1
        self.pull_requests.publish(groups, at_s)

    def _merge(self, at_s: float) -> int:
        """Merge what is due; how many."""
        merged = 0
        for each in self.pull_requests.merge(at_s):
            due_s = each.closed_at_s or 0.0
            step = int((due_s - self._from_s) // STEP_S) + self._sync
            for change in each.changes:
                key = self._named.get(change.resource)
                if key is None:
                    continue
                number, before = self._numbers[key], self._git[key]
                self._git[key] = change.replicas_after
                self._counts[key].append((due_s, change.replicas_after))
                self._replicas[number, step:] = change.replicas_after
                if change.replicas_after != before and step < self._steps:
                    self._moves.append(Move(variant=number, step=step, before=before, after=change.replicas_after))
            self._committed_s = max(self._committed_s, due_s)
            merged += 1
        return merged


def _merged_by_people(way: Way, day_s: float, seed: int, group: GroupPlan, number: int, at_s: float) -> float:
    generator = random_generator(seed, "merge", day_s, group.head_branch, number)
    due = np.array([at_s]) + way.merge.draw(generator, (1,))
    return float((due if way.hours is None else way.hours.next_open(due))[0])


def first_replicas(replayed: Replayed, lately_per_s: Floats) -> Floats:
    """What a fleet begins with (variants,): as Git says now, as far as that carries the load of then, else more."""
    counts = np.array([float(each.current.replicas) for each in replayed.variants])
    carried = np.bincount(replayed.model_of, weights=counts * replayed.capacity_per_s, minlength=len(replayed.models))
    needed = 1.2 * lately_per_s.max(axis=1)
    factor = np.divide(needed, carried, out=np.ones(len(carried)), where=carried > 0)
    grown = np.ceil(counts * factor[replayed.model_of] - 1e-9)
    return np.asarray(np.maximum(grown, counts > 0), dtype=np.float64)


def _stops(decision: Decision) -> Iterator[str]:
    """What changed or stopped a decision, if anything did."""
    verdict, hold = decision.verdict, decision.hold
    if verdict.kind in (VerdictKind.CLAMP, VerdictKind.HOLD, VerdictKind.REFUSE):
        yield f"{verdict.rule or 'guard rail'}: {verdict.kind}"
    elif hold is not None and hold.kind in STOPPING:
        yield f"hold: {hold.kind}"


def _limit_of(words: str) -> str:
    """Which limit put a pull request back, without the numbers of the case."""
    for name in ("worth", "createdPerHour", "openAtOnce", "pushesPerHour", "mergesPerHour"):
        if name in words:
            return name
    return "limits"
