"""From days to one comparison: at equal attainment, with intervals by blocks of days."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reconciler.backtest.replayed import Replayed
from reconciler.domain.backtests import (
    AT_ONCE,
    DELAYED,
    OURS,
    RAN,
    Backtest,
    BacktestDay,
    Interval,
    Point,
    PolicyResult,
    Tally,
)
from reconciler.domain.identity import ModelKey
from reconciler.forecast.series import Floats, Integers
from reconciler.manifests.wording import name_first
from reconciler.simulation.draws import Spread, random_generator
from reconciler.simulation.faults import LATE_S, LATE_SHARE, LOST, LOST_SHARE, SHORT, SILENT
from reconciler.simulation.policies import POLICIES, Setting

DRAWS, TENTHS = 1000, (0.05, 0.95)
LEAST_MISS = 1e-6
SHOWN = 3
REPRODUCES = {
    OURS: "this configuration, with its rules and limits",
    RAN: "the replicas that ran; where that is not known, those that Git asked for",
    DELAYED: "knows what comes; decides, merges, syncs and starts as everybody",
    AT_ONCE: "knows what comes, and replicas are there at once",
}


def compare(
    days: Sequence[BacktestDay], replayed: Replayed, left_out: Mapping[ModelKey, str], recording: str, seed: int
) -> Backtest:
    """The whole of some days, at least one."""
    blocks = random_generator(seed, "blocks").integers(0, len(days), (DRAWS, len(days)))
    sums = {name: _Sums.of(days, name) for name in days[0].tallies}
    ours, ran, best = sums[OURS], sums[RAN], sums[DELAYED]
    aimed = float(ours.attainment()[0])
    cost, paid = float(ours.cost.sum()), float(ran.cost.sum())
    drawn = 1 - ours.cost[0, blocks].sum(axis=1) / np.maximum(ran.cost[0, blocks].sum(axis=1), 1e-12)
    judged = sum(each.judged for each in days)
    changes = sum(each.all_changes for each in days)
    stopped: Counter[str] = Counter()
    for each in days:
        stopped.update(each.stopped)
    return Backtest(
        days=tuple(days),
        models=len(replayed.models),
        unit=replayed.unit,
        ran_from=_ran_from(replayed),
        policies=tuple(_result(name, each, aimed, blocks) for name, each in sums.items()),
        saving=_interval(1 - cost / paid, drawn) if paid > 0 else None,
        possible=1 - float(best.cost.sum()) / paid if paid > 0 else None,
        regret=cost / float(best.cost.sum()) - 1 if best.cost.sum() > 0 else None,
        coverage=sum(each.covered for each in days) / judged if judged else None,
        opened=sum(each.opened for each in days) / len(days),
        pushed=sum(each.pushed for each in days) / len(days),
        reversals=sum(each.reversed_changes for each in days) / changes if changes else None,
        stopped=dict(sorted(stopped.items(), key=lambda item: (-item[1], item[0]))),
        left_out={str(each): words for each, words in left_out.items()},
        assumptions=_assumptions(replayed),
        recording=recording,
    )


def _ran_from(replayed: Replayed) -> str:
    git = "Git's history" if replayed.written else "Git as it is now: its history is not known"
    known = sum(variant.key in replayed.ran for variant in replayed.variants)
    if not known:
        return git
    return (
        "the clusters"
        if known == len(replayed.variants)
        else f"the clusters for {known} of {len(replayed.variants)} variants, else {git}"
    )


class _Sums:
    """The tallies of a policy as arrays (settings x days)."""

    def __init__(self, tallies: Sequence[Sequence[Tally]]) -> None:
        def over(part: str) -> Floats:
            return np.array([[sum(getattr(each, part).values()) for each in day] for day in tallies]).T

        self.tallies = tallies
        self.offered, self.kept, self.unserved, self.cost = map(over, ("offered", "kept", "unserved", "cost"))
        self.starts = np.array([[each.starts for each in day] for day in tallies]).T
        self.changes = np.array([[each.changes for each in day] for day in tallies]).T

    @classmethod
    def of(cls, days: Sequence[BacktestDay], name: str) -> "_Sums":
        return cls([day.tallies[name] for day in days])

    def attainment(self, blocks: Integers | slice = slice(None)) -> Floats:
        """Of all days (settings,), or of draws of days (settings x draws)."""
        kept, offered = self.kept[:, blocks].sum(axis=-1), self.offered[:, blocks].sum(axis=-1)
        return np.asarray(np.divide(kept, offered, out=np.ones(offered.shape), where=offered > 0))

    def by_class(self, row: int) -> dict[str, float]:
        found = {}
        for name in sorted(self.tallies[0][row].offered):
            offered = sum(day[row].offered[name] for day in self.tallies)
            found[name] = sum(day[row].kept[name] for day in self.tallies) / offered if offered > 0 else 1.0
        return found


def _result(name: str, sums: _Sums, aimed: float, blocks: Integers) -> PolicyResult:
    attained, cost = sums.attainment(), sums.cost.mean(axis=1)
    enough = attained >= aimed - LEAST_MISS
    row = int(np.where(enough, cost, np.inf).argmin()) if enough.any() else int(np.lexsort((cost, -attained))[0])
    settings = POLICIES[name].settings if name in POLICIES else ()
    offered = float(sums.offered[row].sum())
    order = np.lexsort((attained, cost))
    return PolicyResult(
        name=name,
        reproduces=REPRODUCES.get(name, ""),
        setting=_words(settings[row]) if settings else "",
        cost=_interval(float(cost[row]), sums.cost[row, blocks].mean(axis=1)),
        attainment=_interval(float(attained[row]), sums.attainment(blocks)[row]),
        by_class=sums.by_class(row),
        unserved=float(sums.unserved[row].sum()) / offered if offered > 0 else 0.0,
        starts=float(sums.starts[row].mean()),
        changes=float(sums.changes[row].mean()),
        equal_cost=cost_at(cost, attained, aimed) if settings else None,
        points=tuple(
            Point(words=_words(settings[each]), cost=float(cost[each]), attainment=float(attained[each]))
            for each in order.tolist()
        )
        if settings
        else (),
    )


def cost_at(cost: Floats, attained: Floats, aimed: float) -> float | None:
    """What a policy costs at an attainment, between the best of its settings; None where none reaches it.

    Between two the logarithm of misses is nearly straight in the cost.
    """
    order = np.argsort(cost, kind="stable")
    costs, best = cost[order], np.maximum.accumulate(attained[order])
    is_better = np.concatenate(([True], np.diff(best) > 0))
    costs, best = costs[is_better], best[is_better]
    if best[-1] < aimed - LEAST_MISS:
        return None
    misses = -np.log(np.maximum(1 - best, LEAST_MISS))
    return float(np.interp(-math.log(max(1 - aimed, LEAST_MISS)), misses, costs))


def _interval(value: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, TENTHS)
    return Interval(value=value, low=float(low), high=float(high))


def _words(setting: Setting) -> str:
    window = "" if setting.window_s is None else f", window {setting.window_s / 60:g} min"
    return f"target {setting.target:g}{window}"


_FAULTS = (
    f"a day has {SILENT.per_day:g} outage of Prometheus of {SILENT.lasts.median_s / 60:g} min in the middle",
    f"in {LOST.per_day:g} of days a variant loses a node with {LOST_SHARE:.0%} of its replicas",
    f"in {SHORT.per_day:g} of days nothing is free to start on for {SHORT.lasts.median_s / 60:g} min in the middle",
    f"{LATE_SHARE:.0%} of merges take {LATE_S / 3600:g} h longer",
)


def _unsure(replayed: Replayed) -> Iterator[str]:
    """What counts as missed without being known to be: attainment, also of what ran, may be better than it says."""
    if replayed.unsure:
        names = name_first([*map(str, replayed.unsure[:SHOWN])], len(replayed.unsure))
        yield (
            f"{names}: larger batches than its learned profile has seen count as missed targets, also of what "
            "ran, which may have kept them"
        )


def _assumptions(replayed: Replayed) -> tuple[str, ...]:
    way = replayed.way

    def span(time: Spread) -> str:
        low, median, high = (f"{each / 60:.3g}" for each in (time.low_s, time.median_s, time.high_s))
        return f"{median} min" if low == high else f"{median} min ({low} to {high})"

    return (
        "requests are a fluid in steps of a minute that fills batches as profiles say; targets are those of means",
        "requests are as long, and a replica carries as much, as when it was recorded",
        *_unsure(replayed),
        f"a merge takes {span(way.merge)}, sync {way.sync_s / 60:.3g} min, start {span(way.start)}",
        *(_FAULTS if replayed.with_faults else ()),
        "replicas stay on their accelerators; each day begins with what the load before it needed",
    )
