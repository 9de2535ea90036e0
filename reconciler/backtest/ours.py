"""The product over a recorded day: the real `decide` at every run, with its rules and limits, merges that come late."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from reconciler.backtest.replayed import LEAD_S, STEP_S, WARM_UP_S, Replayed, loads_at
from reconciler.decision.decide import Solved, solve
from reconciler.decision.limits import collected, within_limits
from reconciler.decision.worth import worth_opening
from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Observation, Performance
from reconciler.domain.plan import Decision, GroupPlan, Outcome, VerdictKind
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Snapshot
from reconciler.forecast.series import DAY_S, Floats, Integers
from reconciler.simulation.draws import random_generator

WINDOW_S = 300.0
"""A load is the mean of so long."""
PAST_POINTS = 61
PUSHES_S = 3600.0
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


@dataclass(slots=True, kw_only=True)
class _Forge:
    """Pull requests and what they say, as the snapshots of a day have them."""

    git: dict[ResourceKey, int]
    counts: dict[ResourceKey, list[tuple[float, int]]]
    proposals: list[Proposal] = field(default_factory=list)
    due_s: dict[int, float] = field(default_factory=dict)
    committed_s: float = 0.0
    opened: int = 0


class DayReplay:
    """One day of a fleet under the product."""

    def __init__(self, replayed: Replayed, day_s: float, seed: int) -> None:
        self._replayed, self._day_s, self._seed = replayed, day_s, seed
        self._from_s = day_s - WARM_UP_S
        self._steps = round((WARM_UP_S + DAY_S) / STEP_S)
        self._lead = round(LEAD_S / STEP_S)
        self._offered = replayed.offered(self._from_s - LEAD_S, self._steps + self._lead)
        self._sums = np.cumsum(np.pad(self._offered, ((0, 0), (1, 0))), axis=1)
        self._sync = round(replayed.way.sync_s / STEP_S)
        self._start = round(replayed.way.start.median_s / STEP_S)
        self._numbers = {variant.key: number for number, variant in enumerate(replayed.variants)}
        self._named = {str(key): key for key in self._numbers}
        self._rows = {model: row for row, model in enumerate(replayed.models)}

    def run(self) -> OurDay:
        """Decide, publish and merge until the day ends."""
        way, first = self._replayed.way, first_replicas(self._replayed, self._offered[:, : self._lead])
        forge = _Forge(
            git={variant.key: int(first[number]) for number, variant in enumerate(self._replayed.variants)},
            counts={variant.key: [] for variant in self._replayed.variants},
            committed_s=self._from_s - DAY_S,
        )
        replicas = np.repeat(first[:, None], self._steps, axis=1)
        run, warm = max(round(way.run_s / STEP_S), 1), round(WARM_UP_S / STEP_S)
        runs = np.arange(-(-warm // run) * run, self._steps, run)
        windows = np.zeros((len(self._rows), len(runs), 2), dtype=np.int64)
        quantiles: dict[float, Floats] = {}
        moves: list[Move] = []
        stopped: Counter[str] = Counter()
        counted = {"opened": 0, "pushed": 0, "merged": 0}
        for step in range(0, self._steps, run):
            at_s = self._from_s + step * STEP_S
            counts = step * STEP_S >= WARM_UP_S
            counted["merged"] += counts * self._merge(forge, at_s, replicas, moves)
            solved = solve(self._snapshot(forge, at_s, step, replicas), {})
            for model, demand in solved.situation.formulated.demands.items():
                if demand.forecast is not None and counts and model in self._rows:
                    place = self._rows[model], (step - int(runs[0])) // run
                    begins, ends = demand.forecast.window.offsets(STEP_S)
                    windows[place] = begins - 1, ends - 1  # an offset names the moment at which a step ends
                    for level, rate in demand.forecast.quantiles.items():
                        of_level = quantiles.setdefault(level, np.full(windows.shape[:2], np.nan))
                        of_level[place] = rate
            opened, pushed = self._publish(forge, solved, at_s, stopped if counts else Counter())
            counted["opened"] += counts * opened
            counted["pushed"] += counts * pushed
        self._merge(forge, self._from_s + self._steps * STEP_S, replicas, moves)
        return OurDay(
            replicas=replicas,
            moves=tuple(moves),
            stopped=stopped,
            quantiles=quantiles,
            runs=runs,
            windows=windows,
            **counted,
        )

    def _snapshot(self, forge: _Forge, at_s: float, step: int, replicas: Floats) -> Snapshot:
        """What a run would see: the load until now, what Git says, the replicas that serve, our pull requests."""
        replayed, here = self._replayed, self._lead + step
        window = round(WINDOW_S / STEP_S)
        ends = here - np.arange(PAST_POINTS - 1, -1, -1)
        rates = (self._sums[:, ends] - self._sums[:, ends - window]) / window
        times_s = at_s - STEP_S * np.arange(PAST_POINTS - 1, -1, -1.0)
        base = replayed.snapshot
        ready = replicas[:, max(step - self._start, 0) : step + 1].min(axis=1)
        variants = tuple(
            replace(
                each,
                current=replace(each.current, replicas=forge.git[each.key]),
                workload=None if each.workload is None else replace(each.workload, replicas=forge.git[each.key]),
            )
            if each.key in forge.git
            else each
            for each in base.variants
        )
        past = {
            model: LoadHistory(times_s=times_s, step_s=STEP_S, window_s=WINDOW_S, rates_per_s=rates[row])
            for model, row in self._rows.items()
        }
        observations = {
            key: Observation(performance=Performance(), replicas_reporting=int(ready[number]), age_s=0.0)
            for key, number in self._numbers.items()
        }
        return replace(
            base,
            now_s=at_s,
            variants=variants,
            observed=replace(
                base.observed,
                loads={**base.observed.loads, **loads_at(replayed, rates[:, -1])},
                observations={**base.observed.observations, **observations},
                past={**base.observed.past, **past},
                usual={},
                demand=(replayed.demand,) if replayed.demand.models else (),
                queues={},
                live={},
                unschedulable={},
                ready={key: int(ready[number]) for key, number in self._numbers.items()},
                # what replicas did corrects profiles: it was as it was recorded, and ends now
                traces={
                    key: tuple(replace(each, start_s=each.start_s + at_s - base.now_s) for each in traces)
                    for key, traces in base.observed.traces.items()
                },
            ),
            proposals=tuple(forge.proposals),
            committed_s=forge.committed_s,
            written={
                key: WrittenCounts(variant=key, counts=((0.0, int(replicas[number, 0])), *forge.counts[key]))
                for key, number in self._numbers.items()
            },
        )

    def _publish(self, forge: _Forge, solved: Solved, at_s: float, stopped: Counter[str]) -> tuple[int, int]:
        """Open, update and close; how many were opened and pushed."""
        plan = collected(solved.situation, solved.staged, solved.plan_of(solved.staged))
        before, pushed = forge.opened, 0
        for decision in plan.decisions:
            if decision.variant in self._numbers:
                stopped.update(_stops(decision))
        for group in within_limits(solved.situation, worth_opening(solved.situation, plan.groups)):
            if group.blocked is None:
                pushed += self._propose(forge, group, at_s)
            elif group.changes:
                stopped[f"pull requests: {_limit_of(group.blocked.words)}"] += 1
        return forge.opened - before, pushed

    def _propose(self, forge: _Forge, group: GroupPlan, at_s: float) -> bool:
        """Whether something that stood was pushed again."""
        changes = tuple(each.change.proposed for each in group.decisions if each.outcome is Outcome.CHANGE)
        found = (each for each in forge.proposals if each.state is ProposalState.OPEN)
        standing = next((each for each in found if each.head_branch == group.head_branch), None)
        if standing is not None:
            if standing.decision == group.fingerprint:
                return False
            forge.proposals.remove(standing)
        if not changes:
            return False
        if standing is None:
            forge.opened += 1
            generator = random_generator(self._seed, "merge", self._day_s, group.head_branch, forge.opened)
            due = np.array([at_s]) + self._replayed.way.merge.draw(generator, (1,))
            hours = self._replayed.way.hours if group.merges is None else None
            forge.due_s[forge.opened] = float((due if hours is None else hours.next_open(due))[0])
        pushes_s = () if standing is None else tuple(each for each in standing.pushes_s if at_s - each < PUSHES_S)
        forge.proposals.append(
            Proposal(
                group=group.name,
                number=forge.opened if standing is None else standing.number,
                state=ProposalState.OPEN,
                head_branch=group.head_branch,
                decision=group.fingerprint,
                branch_decision=group.fingerprint,
                changes=changes,
                opened_at_s=at_s if standing is None else standing.opened_at_s,
                pushes_s=(*pushes_s, at_s),
            )
        )
        return standing is not None

    def _merge(self, forge: _Forge, at_s: float, replicas: Floats, moves: list[Move]) -> int:
        """Merge what is due; how many."""
        merged = 0
        for index, each in enumerate(forge.proposals):
            due_s = forge.due_s[each.number]
            if each.state is not ProposalState.OPEN or due_s > at_s:
                continue
            step = int((due_s - self._from_s) // STEP_S) + self._sync
            for change in each.changes:
                key = self._named.get(change.resource)
                if key is None:
                    continue
                number, before = self._numbers[key], forge.git[key]
                forge.git[key] = change.replicas_after
                forge.counts[key].append((due_s, change.replicas_after))
                replicas[number, step:] = change.replicas_after
                if change.replicas_after != before and step < self._steps:
                    moves.append(Move(variant=number, step=step, before=before, after=change.replicas_after))
            forge.proposals[index] = replace(each, state=ProposalState.MERGED, closed_at_s=due_s)
            forge.committed_s = max(forge.committed_s, due_s)
            merged += 1
        since_s = at_s - DAY_S
        forge.proposals = [each for each in forge.proposals if each.closed_at_s is None or each.closed_at_s > since_s]
        return merged


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
