"""What tuning gains on days it did not see: `python -m tests.bench.tuning [--seeds 10] [--load NAME]`.

Settings are chosen on one week of a load and judged on the next. Every seed has other loads (smooth) or other clients
and phases (public traces, see tests/testdata/traces), and other starts. Ten models in one group, replicas of 2 req/s
that start in about 4 minutes; the present setting is 80 % of capacity with a window of 300 s.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from reconciler.backtest.comparison import cost_at
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    MetricSetting,
    RatePolicy,
    ScalingRules,
    Signal,
)
from reconciler.simulation.draws import Spread
from reconciler.tuning.choice import SLOW, WINDOWS_S, Choice, Goal, choose
from reconciler.tuning.groups import Group, TargetHistory, TunedTarget
from reconciler.tuning.trial import Days, Request, recorded_days, run
from tests.bench.figures import Bench, Figure, seconds_of
from tests.bench.loads import DAY_S, START_S, Floats, bursty, smooth
from tests.bench.table import table

TOGETHER = {"50 targets in six groups": (50, 6), "10 targets in three groups": (10, 3)}
MODELS, CAPACITY_PER_S, IN_BATCHES, BATCH_SHARE, WEEK = 10, 2.0, 32.0, 0.6, 7
START = Spread(low_s=200.0, median_s=240.0, high_s=330.0)
LOADS: dict[str, Callable[[int], Floats]] = {
    "smooth": lambda seed: smooth(MODELS, seed).per_s,
    "m-large": lambda seed: bursty(MODELS, "m_large", seed=seed, shuffles=True).per_s,
    "m-mid": lambda seed: bursty(MODELS, "m_mid", seed=seed, shuffles=True).per_s,
}
GOALS = {"smooth": 0.99, "m-large": 0.98, "m-mid": 0.98}
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, *(round(0.3 + 0.1 * each, 1) for each in range(8)))
METRICS = {
    "rate": (MetricSetting(kind=MetricKind.EXTERNAL_AVERAGE, signal=Signal.ARRIVALS, target=1.6), CAPACITY_PER_S),
    "running": (MetricSetting(kind=MetricKind.PODS, signal=Signal.RUNNING, target=25.6), IN_BATCHES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One load, metric and seed: shares of requests inside targets, and costs an hour, on the unseen week.

    `best` is the cheapest swept setting of that week at what the tuned one attained there, `window` the cheapest with a
    window of 300 s; NaN where none attains it.
    """

    load: str
    metric: str
    seed: int
    chosen: str
    goal: float
    kept: float
    cost: float
    starts: float
    present_kept: float
    present_cost: float
    present_starts: float
    best: float
    window: float
    has_setting: bool
    processor_s: float


def group_of(per_s: Floats, metric: str, days: slice, batch_share: float = BATCH_SHARE) -> Group:
    """A group on some days of a load (models x minutes), before which the load is as it was then."""
    setting_of, whole = METRICS[metric]
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(setting_of,), least=1, most=1e4)
    first = round(days.start * DAY_S / 60)
    offered = per_s[:, max(first - 180, 0) : round(days.stop * DAY_S / 60)]
    offered = np.concatenate((np.repeat(offered[:, :1], 180 - min(first, 180), axis=1), offered), axis=1)
    start_s = START_S + days.start * DAY_S - 180 * 60 + 60

    def built(desired: Sequence[float]) -> Group:
        return Group(
            targets=tuple(
                TunedTarget(
                    name=f"m{row}",
                    setting=setting,
                    history=TargetHistory(
                        start_s=start_s,
                        step_s=60.0,
                        offered_per_s=rates,
                        totals=np.full((1, rates.size), np.nan),
                        desired=np.full(rates.size, desired[row]),
                        ready=np.full(rates.size, desired[row]),
                    ),
                    capacity_per_s=CAPACITY_PER_S,
                    at_capacity=(whole,),
                    in_batches=IN_BATCHES,
                    batch_share=batch_share,
                    start=START,
                )
                for row, rates in enumerate(offered)
            )
        )

    blind = built([1.0] * len(offered))
    (ran,) = run([_request(recorded_days(blind), [_with_share(setting, 0.8)], 0)])
    return built((ran.cost[0].mean(axis=1) / 24).tolist())


def _request(days: Days, settings: Sequence[AutoscalerSetting], seed: int) -> Request:
    """Settings that all targets have."""
    return Request(days=days, settings=[[each] * len(days.group.targets) for each in settings], seed=seed)


def _with_share(setting: AutoscalerSetting, share: float) -> AutoscalerSetting:
    return replace(setting, metrics=(replace(setting.metrics[0], target=share),))


def judge(load: str, metric: str, seed: int) -> Row:
    """Choose on the first week and look at the second."""
    per_s, goal = LOADS[load](seed), GOALS[load]
    begun_s = time.process_time()
    (found,) = choose([(group_of(per_s, metric, slice(0, WEEK)), Goal(attainment=goal, seed=seed))])
    processor_s = time.process_time() - begun_s
    unseen = group_of(per_s, metric, slice(WEEK, 2 * WEEK))
    days, setting = recorded_days(unseen), unseen.targets[0].setting
    (present,) = run([_request(days, [_with_share(setting, 0.8)], seed + 100)])
    tuned, words = present, f"kept: {getattr(found, 'words', '')}"
    if isinstance(found, Choice):
        chosen = found.settings["m0"]
        words = found.steps[-1].words
        whole = METRICS[metric][1]
        as_share = _with_share(chosen, float(chosen.metrics[0].target) / whole)
        (tuned,) = run([_request(days, [as_share], seed + 100)])
        words = f"{float(chosen.metrics[0].target) / whole:.2f}, {float(chosen.window_s) / 60:.0f} min"
        words += ", slow" if isinstance(chosen.behavior, Behavior) and SLOW in chosen.behavior.down.policies else ""
    kept = float(tuned.attainment()[0])
    cost, attained, is_plain = _swept(days, setting, metric, seed)
    return Row(
        load=load,
        metric=metric,
        seed=seed,
        chosen=words,
        goal=goal,
        kept=kept,
        cost=float(tuned.cost_per_hour()[0]),
        starts=float(tuned.starts_per_day()[0]),
        present_kept=float(present.attainment()[0]),
        present_cost=float(present.cost_per_hour()[0]),
        present_starts=float(present.starts_per_day()[0]),
        best=cost_at(cost, attained, kept) or float("nan"),
        window=cost_at(cost[is_plain], attained[is_plain], kept) or float("nan"),
        has_setting=(isinstance(found, Choice) and found.reaches_goal) or "goal" not in words,
        processor_s=processor_s,
    )


def _swept(days: Days, setting: AutoscalerSetting, metric: str, seed: int) -> tuple[Floats, Floats, Floats]:
    """Costs and attainments of every target with every window and both ways down, and which have 300 s and no limit."""
    settings, is_plain = [], []
    for is_slow in (False, True) if metric == "running" else (False,):
        policy = SLOW if is_slow else RatePolicy(value=100.0, period_s=15.0, is_percent=True)
        for share in SHARES:
            for window_s in WINDOWS_S:
                behavior = Behavior(down=ScalingRules(window_s=window_s, policies=(policy,)))
                settings.append(replace(_with_share(setting, share), behavior=behavior))
                is_plain.append(window_s == WINDOWS_S[0] and not is_slow)
    (trial,) = run([_request(days, settings, seed + 100)])
    return trial.cost_per_hour(), trial.attainment(), np.array(is_plain)


COLUMNS = (
    "load",
    "metric",
    "seed",
    "chosen",
    "kept",
    "goal",
    "to best",
    "to 300 s",
    "cost",
    "more kept",
    "starts",
    "s",
)


def cases_of(targets: int, groups: int) -> list[tuple[Group, Goal]]:
    """So many targets in groups on two weeks each, which take every load and metric in turn."""
    kinds = [(load, metric) for load in LOADS for metric in METRICS]
    found = []
    for number in range(groups):
        load, metric = kinds[number % len(kinds)]
        whole = group_of(LOADS[load](number + 1), metric, slice(0, 2 * WEEK))
        count = targets // groups + (number < targets % groups)
        found.append((Group(targets=whole.targets[:count]), Goal(attainment=GOALS[load])))
    return found


def line(row: Row) -> Sequence[str | int | float]:
    """As the table shows it."""
    return (
        *(row.load, row.metric, row.seed, row.chosen, row.kept, row.goal),
        *(row.cost / row.best - 1, row.cost / row.window - 1, row.cost / row.present_cost - 1),
        *(row.kept - row.present_kept, row.starts / row.present_starts - 1, row.processor_s),
    )


def measure(bench: Bench) -> Iterator[Figure]:
    """Groups that are swept together, in processor seconds a target; then every load and metric alone.

    Of those alone there is one seed, with all two, and processor seconds are of choosing for ten targets.
    """
    for name, (targets, groups) in TOGETHER.items():
        cases = cases_of(targets, groups)
        least_s = min(seconds_of(partial(choose, cases)) for _ in range(3 if bench.is_all else 1))
        yield Figure(part="tuning", name=name, processor_s=least_s / targets, more={"targets": float(targets)})
    for load in LOADS:
        for metric in METRICS:
            rows = [judge(load, metric, seed) for seed in range(1, 3 if bench.is_all else 2)]
            yield Figure(
                part="tuning",
                name=f"a setting for {MODELS} targets, {load}, {metric}",
                processor_s=fmean(row.processor_s for row in rows),
                more={
                    "seeds": float(len(rows)),
                    "goal kept": fmean(row.kept >= row.goal for row in rows),
                    "kept": fmean(row.kept for row in rows),
                    "to best": fmean(row.cost / row.best - 1 for row in rows),
                    "cost": fmean(row.cost / row.present_cost - 1 for row in rows),
                    "more kept": fmean(row.kept - row.present_kept for row in rows),
                    "starts": fmean(row.starts / row.present_starts - 1 for row in rows),
                },
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--load", choices=list(LOADS), action="append")
    parser.add_argument("--metric", choices=list(METRICS), action="append")
    given = parser.parse_args()
    for load in given.load or LOADS:
        for metric in given.metric or METRICS:
            for seed in range(1, given.seeds + 1):
                print(table(COLUMNS, [line(judge(load, metric, seed))]), flush=True)


if __name__ == "__main__":
    main()
