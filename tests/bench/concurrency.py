"""An HPA on running requests that cycles, in three plants: `python -m tests.bench.concurrency [--seeds 3]`.

What that costs follows from one number of a profile: which part of the time that a request runs grows with the batch
(`batch_share` in `simulation.fluid`). At a load of r capacities a replica runs r (1 - b) / (1 - r b) of what it runs at
capacity, so a replica more takes more from the batches than its share, the more the larger b is.

- `at once`: what runs follows the load of each step at once, and targets are missed from 100 % of capacity (by nobody)
  to 115 % (by all), or where somebody waits for a second; 100 models, two days.
- `fluid`: the plant of tuning, in which batches fill and drain; ten models, a week.
- `requests`: one by one, with drawn lengths; five models, ten hours.

The present setting is 80 % of what a replica runs at capacity and 5 min; `slow` has a way down of 10 % a minute
besides, `long` 75 % and 60 min as well.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.records import replace
from reconciler.domain.scalers import Behavior, MetricKind, RatePolicy, ScalingRules
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.port import Seen
from reconciler.simulation.fluid import FULL_BATCH, LEAVES_S, LONGEST_WAIT_S
from reconciler.tuning.choice import SLOW
from reconciler.tuning.trial import Request, recorded_days, run
from tests.bench.loads import DAY_S, Floats, smooth
from tests.bench.requests import Model, answer_requests
from tests.bench.table import table
from tests.bench.tuning import CAPACITY_PER_S, IN_BATCHES, group_of

STEP_S, START_STEPS, WARM = 60.0, 4, 180
NONE_KEPT = 1.15
"""Of the capacity: from there on no request keeps its targets in the fluid that is rebuilt."""
FAST = RatePolicy(value=100.0, period_s=STEP_S, is_percent=True)
SETTINGS = {"present": (0.8, 300.0, FAST), "slow": (0.8, 300.0, SLOW), "long": (0.75, 3600.0, SLOW)}
SHARES = (0.5, 0.6, 0.65, 0.7)
ITL_S, TOKENS, MOST = 0.08, 200.0, 53
"""Of the requests that are served one by one: 32 run at a capacity of 2 a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What a setting came to: the share of requests inside targets, replicas in the mean, and starts a day."""

    kept: float
    replicas: float
    starts: float = float("nan")


def _behavior(window_s: float, policy: RatePolicy) -> Behavior:
    return Behavior(down=ScalingRules(window_s=window_s, policies=(policy,)))


def _hpa(target: float, window_s: float, policy: RatePolicy) -> HorizontalPodAutoscaler:
    metric = Metric(signal="running", kind=MetricKind.PODS, target=target)
    return HorizontalPodAutoscaler(metrics=[metric], behavior=_behavior(window_s, policy), sync_s=STEP_S)


def _week_2(models: int, seed: int, minutes: int, first: int = 0) -> Floats:
    begin = round(7 * DAY_S / STEP_S) + first
    return smooth(models, seed).per_s[:, begin - WARM : begin + minutes]


def at_once(share: float, seed: int) -> Iterator[Came]:
    """Batches that follow the load of a step."""
    load = _week_2(100, seed, 2 * 1440) / CAPACITY_PER_S
    for setting in SETTINGS.values():
        scaler = _hpa(*setting)
        asked = np.ceil(load[:, :1].T / 0.8)
        ready, waiting, starting = asked, np.zeros(asked.shape), np.zeros((START_STEPS, *asked.shape))
        running = asked
        kept = replicas = starts = 0.0
        for step, now in enumerate(load.T):
            seen = Seen(
                at_s=step * STEP_S, replicas=asked, ready=ready, load=now[None], running=running, waiting=waiting
            )
            wanted = scaler.decide(seen)
            fewer = np.maximum(asked - wanted, 0.0)
            for slot in reversed(range(START_STEPS)):  # those first that would serve last
                cancelled = np.minimum(starting[slot], fewer)
                starting[slot] -= cancelled
                fewer = fewer - cancelled
            ready = ready - fewer + starting[0]
            starting = np.concatenate((starting[1:], [np.maximum(wanted - asked, 0.0)]))
            carried = np.maximum(ready, 1e-9)
            served = np.minimum(now + waiting / STEP_S, FULL_BATCH * carried)
            waiting = np.clip(waiting + (now - served) * STEP_S, 0.0, LEAVES_S * FULL_BATCH * carried)
            of_each = np.minimum(served / carried, FULL_BATCH)
            running = of_each * (1 - share) / (1 - share * of_each) * ready
            if step >= WARM:
                inside = np.clip((NONE_KEPT - now / carried) / (NONE_KEPT - 1.0), 0.0, 1.0)
                kept += float((inside * (waiting <= LONGEST_WAIT_S * FULL_BATCH * carried) * now).sum())
                replicas += float(wanted.sum())
                starts += float(np.maximum(wanted - asked, 0.0).sum())
            asked = wanted
        counted = load.shape[1] - WARM
        yield Came(
            kept=kept / float(load[:, WARM:].sum()), replicas=replicas / counted, starts=starts / (counted / 1440)
        )


def as_fluid(share: float, seed: int) -> Iterator[Came]:
    """The plant of tuning."""
    days = recorded_days(group_of(smooth(10, seed).per_s, "running", slice(7, 14), share))
    now = days.group.targets[0].setting
    settings = [
        replace(now, metrics=(replace(now.metrics[0], target=target),), behavior=_behavior(window_s, policy))
        for target, window_s, policy in SETTINGS.values()
    ]
    every = [[each] * len(days.group.targets) for each in settings]
    (trial,) = run([Request(days=days, settings=every, seed=seed + 100)])
    for kept, cost, starts in zip(trial.attainment(), trial.cost_per_hour(), trial.starts_per_day(), strict=True):
        yield Came(kept=float(kept), replicas=float(cost), starts=float(starts))


def by_requests(share: float, seed: int) -> Iterator[Came]:
    """Requests one by one."""
    load = _week_2(10, seed, 600, first=480)[:5]
    alpha_s, beta_s = ITL_S * (1 - share), ITL_S * share / IN_BATCHES
    models = [Model(alpha_s=alpha_s, beta_s=beta_s, max_batch=MOST, tokens=TOKENS, itl_s=ITL_S)] * len(load)
    for setting in SETTINGS.values():
        found = answer_requests(models, load, _hpa(*setting), seed, WARM)
        weight = found.arrived_per_s[:, WARM:].sum(axis=1)
        yield Came(kept=float(np.average(found.attainment, weights=weight)), replicas=float(found.cost.sum()) / 10)


PLANTS = {"at once": at_once, "fluid": as_fluid, "requests": by_requests}


def rows(plants: Sequence[str], shares: Sequence[float], seeds: int) -> Iterator[Sequence[str | int | float]]:
    """What the settings come to beside the present one."""
    for plant in plants:
        for share in shares:
            for seed in range(1, seeds + 1):
                present, slow, long = PLANTS[plant](share, seed)
                yield (
                    *(plant, share, seed, present.kept, present.starts),
                    *(slow.kept, slow.replicas / present.replicas - 1),
                    *(long.kept, long.replicas / present.replicas - 1),
                )


COLUMNS = ("plant", "share", "seed", "kept", "starts", "slow: kept", "cost", "long: kept", "cost")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.concurrency", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plant", choices=list(PLANTS), action="append")
    parser.add_argument("--share", type=float, action="append")
    given = parser.parse_args()
    for row in rows(given.plant or list(PLANTS), given.share or SHARES, given.seeds):
        print(table(COLUMNS, [row]), flush=True)


if __name__ == "__main__":
    main()
