"""What a fleet could be scaled by, each with its targets and windows swept: one simulation a policy."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from reconciler.domain.metric_targets import LONGEST_WINDOW_S
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import Behavior, MetricKind, RatePolicy, ScalingRules
from reconciler.domain.settings import Worth
from reconciler.forecast.series import HOUR_S, Floats, Integers
from reconciler.simulation.autoscalers.dynamo import (
    CACHE_DOWN,
    CACHE_UP,
    CachePlanner,
    LatencyPlanner,
    ThroughputPlanner,
)
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.keda import CronTrigger, PrometheusTrigger, ScaledObject
from reconciler.simulation.autoscalers.kthena import AutoscalingPolicy
from reconciler.simulation.autoscalers.port import Autoscaler
from reconciler.simulation.autoscalers.wva import SCALE_DOWN, SCALE_UP, PercentSaturation, TokenSaturation
from reconciler.simulation.draws import OfficeHours, Spread
from reconciler.simulation.fleet import Fleet, Planned
from reconciler.simulation.fluid import follow
from reconciler.simulation.through_git import ThroughGit

TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of what a replica carries inside its targets: what each is to get."""
WINDOWS_S = (300.0, 900.0, 1800.0, 3600.0)
"""For how long a higher recommendation holds back a lower one."""
PEAKS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
"""Of the largest load of the days before: what a fleet that never changes is made for."""
_TARGET_ROWS = np.array([[each] for each in TARGETS])
DOWN_PERCENT, DOWN_PERIOD_S = 10.0, 60.0
"""A metric that saturates cycles unless it shrinks slowly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a number that is decided becomes replicas: by pull requests, one a group, and by the cluster's own steps."""

    run_s: float
    merge: Spread
    sync_s: float
    start: Spread
    group_of: Integers
    hours: OfficeHours | None = None
    worth: Worth | None = None
    """What a group's pull request must change before it opens; None where any change opens it."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a policy in a sweep: its target or margin, and its window where it has one."""

    target: float
    window_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What arrived before a fleet's first step, in requests a second.

    `hourly_per_s` (models x whole hours) are means of what is known, 0 where nothing is; `most_per_s` (models,) is the
    largest of all steps.
    """

    hourly_per_s: Floats
    most_per_s: Floats

    @classmethod
    def of(cls, per_s: Floats, step_s: float) -> "Past":
        """That of rates in steps of `step_s` (models x steps); NaN is not known."""
        steps = round(HOUR_S / step_s)
        hours = per_s.shape[1] // steps
        is_known = np.isfinite(per_s)
        known = np.where(is_known, per_s, 0.0)
        whole = slice(per_s.shape[1] - hours * steps, None)
        sums, counts = (each[:, whole].reshape(len(each), hours, steps).sum(axis=2) for each in (known, is_known))
        return cls(hourly_per_s=sums / np.maximum(counts, 1), most_per_s=known.max(axis=1, initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to scale: its settings, in the order of rows, and what makes its autoscaler for a fleet and its past."""

    name: str
    settings: tuple[Setting, ...]
    build: Callable[[Fleet, Past, Way], Autoscaler]


def _swept(most_s: float = math.inf) -> tuple[tuple[Setting, ...], Floats, Floats]:
    """Every target with every window (none longer than `most_s`), and both as columns."""
    windows_s = [each for each in WINDOWS_S if each <= most_s]
    settings = tuple(Setting(target=target, window_s=window_s) for target in TARGETS for window_s in windows_s)
    targets = np.array([[each.target] for each in settings])
    return settings, targets, np.array([[each.window_s or 0.0] for each in settings])


def _hpa(signal: str, *, sync_s: float, shrinks_slowly: bool) -> Autoscaler:
    _, targets, windows_s = _swept()
    value, period_s = (DOWN_PERCENT, DOWN_PERIOD_S) if shrinks_slowly else (100.0, 15.0)
    down = ScalingRules(window_s=windows_s, policies=(RatePolicy(value=value, period_s=period_s, is_percent=True),))
    kind = MetricKind.PODS if signal == "running" else MetricKind.EXTERNAL_AVERAGE
    return HorizontalPodAutoscaler(
        metrics=[Metric(signal=signal, kind=kind, target=targets)], behavior=Behavior(down=down), sync_s=sync_s
    )


def _rate(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    return _hpa("load", sync_s=fleet.step_s, shrinks_slowly=False)


def _running(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    return _hpa("running", sync_s=fleet.step_s, shrinks_slowly=True)


def _kthena(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    _, targets, windows_s = _swept(LONGEST_WINDOW_S)
    return AutoscalingPolicy(signal="load", target=targets, stabilization_s=windows_s, sync_s=fleet.step_s)


def _full(fleet: Fleet) -> Floats:
    """The requests of a replica from which on others wait, in units of those that it has at capacity."""
    return fleet.batching().full


def _shrinking_after(windows_s: Floats) -> Behavior:
    policies = (RatePolicy(value=100.0, period_s=15.0, is_percent=True),)
    return Behavior(down=ScalingRules(window_s=windows_s, policies=policies))


def _percent(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    _, targets, windows_s = _swept()
    return PercentSaturation(
        model_of=fleet.model_of,
        cost=fleet.weight,
        full=_full(fleet),
        kv_limit=targets,
        behavior=_shrinking_after(windows_s),
        sync_s=fleet.step_s,
    )


def _tokens(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    """A cache holds what a full batch holds; a request that waits will hold its prompt and all that it asks for."""
    _, targets, windows_s = _swept()
    return TokenSaturation(
        model_of=fleet.model_of,
        cost=fleet.weight,
        full=_full(fleet),
        cache=fleet.batching().requests * _full(fleet),
        queued=2.0 / (1.0 + np.asarray(fleet.prompt_share)),
        scale_up=targets,
        scale_down=targets * (SCALE_DOWN / SCALE_UP),
        behavior=_shrinking_after(windows_s),
        sync_s=fleet.step_s,
    )


def _planned_by_throughput(fleet: Fleet, _past: Past, _way: Way) -> ThroughputPlanner:
    return ThroughputPlanner(capacity_per_s=fleet.capacity_per_s, target=_TARGET_ROWS, step_s=fleet.step_s)


def _planned_by_cache(fleet: Fleet, _past: Past, _way: Way) -> Autoscaler:
    down = _TARGET_ROWS * (CACHE_DOWN / CACHE_UP)
    return CachePlanner(full=_full(fleet), queued=_prompts(fleet), up=_TARGET_ROWS, down=down)


def _planned_by_latency(fleet: Fleet, past: Past, way: Way) -> Autoscaler:
    return LatencyPlanner(
        _planned_by_throughput(fleet, past, way),
        capacity_per_s=fleet.capacity_per_s,
        batch_share=fleet.batching().share,
        full=_full(fleet),
        target=_TARGET_ROWS,
        queued=_prompts(fleet),
    )


def _prompts(fleet: Fleet) -> Floats:
    """What the prompt of a waiting request will hold, over what one that runs holds in the mean."""
    share = np.asarray(fleet.prompt_share, dtype=np.float64)
    return np.asarray(2.0 * share / (1.0 + share))


def _by_pull_request(fleet: Fleet, _past: Past, way: Way) -> Autoscaler:
    return ThroughGit(
        _hpa("load", sync_s=way.run_s, shrinks_slowly=False),
        run_s=way.run_s,
        step_s=fleet.step_s,
        merge=way.merge,
        sync_s=way.sync_s,
        group_of=way.group_of,
        seed=way.seed,
        hours=way.hours,
        worth=way.worth,
    )


def _schedule(fleet: Fleet, past: Past, _way: Way) -> Autoscaler:
    """A floor in the busier half of the day, as the days before had it, and the arrival rate."""
    _, targets, windows_s = _swept()
    starts_s, ends_s, level = (each[fleet.model_of] for each in _busy_hours(past, fleet))
    desired = np.ceil(level * _even_share(fleet) / fleet.capacity_per_s / targets)
    cron = CronTrigger(start_s=starts_s, end_s=ends_s, desired=desired)
    trigger = PrometheusTrigger(signal="load", threshold=targets)
    return ScaledObject(
        triggers=(trigger, cron), least=1.0, most=math.inf, behavior=_shrinking_after(windows_s), sync_s=fleet.step_s
    )


BUSY_H = 12


def _busy_hours(past: Past, fleet: Fleet) -> tuple[Floats, Floats, Floats]:
    """When the busy hours of each model begin and end (seconds of the day), and their mean load; each (models,)."""
    models, hours = past.hourly_per_s.shape
    if not hours:
        return np.zeros(models), np.full(models, BUSY_H * HOUR_S), np.zeros(models)
    of_day = (int(fleet.start_s // HOUR_S) - hours + np.arange(hours)) % 24
    counted = of_day[:, None] == np.arange(24)
    profile = past.hourly_per_s @ counted / np.maximum(counted.sum(axis=0), 1)
    sums = sliding_window_view(np.concatenate((profile, profile[:, : BUSY_H - 1]), axis=1), BUSY_H, axis=1).sum(axis=2)
    begins = sums.argmax(axis=1)
    return begins * HOUR_S, (begins + BUSY_H) % 24 * HOUR_S, sums.max(axis=1) / BUSY_H


def _static(fleet: Fleet, past: Past, _way: Way) -> Autoscaler:
    peaks = np.where(past.most_per_s > 0, past.most_per_s, fleet.offered_per_s[:, 0])
    need = np.array(PEAKS)[:, None] * peaks[fleet.model_of] * _even_share(fleet) / fleet.capacity_per_s
    return Planned(np.maximum(np.ceil(need), 1.0)[..., None], fleet.start_s, math.inf)  # one number for all time


def _even_share(fleet: Fleet) -> Floats:
    """The part of its model's load that each variant gets where all get the same number of replicas."""
    whole = np.bincount(fleet.model_of, weights=fleet.capacity_per_s)
    return np.asarray(fleet.capacity_per_s / whole[fleet.model_of])


def clairvoyant(fleet: Fleet, way: Way, *, delayed: bool) -> Planned:
    """The fewest replicas of a clairvoyant who keeps targets in 99 of 100 steps: with everybody's delay or none.

    With it, each run decides for all that comes until what the next run decides serves; all parts are as long as
    usual. What differs from the usual it does not know.
    """
    rates, cheapest = fleet.offered_per_s, _cheapest(fleet)
    step_s, count = fleet.step_s, fleet.offered_per_s.shape[1]
    run = max(round(way.run_s / step_s), 1) if delayed else 1
    wait = round((way.merge.median_s + way.sync_s) / step_s) if delayed else 0
    start = round(way.start.median_s / step_s) if delayed else 0
    known = np.concatenate((rates, np.repeat(rates[:, -1:], wait + start + run, axis=1)), axis=1)
    reach = sliding_window_view(known[:, wait:], start + run, axis=1).max(axis=2)[:, :count:run]
    capacity = fleet.capacity_per_s[cheapest]
    allowed = _allowed(fleet, cheapest, np.ceil(reach / capacity[:, None]))
    reach = reach / _allowed(fleet, cheapest, np.ceil(reach / capacity[:, None] / allowed))
    decided = np.repeat(follow(reach, reach, capacity), run, axis=1)[:, :count]
    asked = np.concatenate((np.repeat(decided[:, :1], wait, axis=1), decided), axis=1)[:, :count]
    replicas = np.zeros((len(fleet.model_of), count))
    replicas[cheapest] = asked
    return Planned(replicas, fleet.start_s, step_s)


def _allowed(fleet: Fleet, chosen: Integers, replicas: Floats) -> Floats:
    """What of its capacity each of so many replicas (models x moments) of chosen variants may be loaded with."""
    every = np.zeros((replicas.shape[1], len(fleet.model_of)))
    every[:, chosen] = replicas.T
    return fleet.batching().allowed(every)[:, chosen].T


def _cheapest(fleet: Fleet) -> Integers:
    """The variant of each model that carries a request for the least."""
    order = np.lexsort((np.arange(len(fleet.model_of)), fleet.weight / fleet.capacity_per_s, fleet.model_of))
    return np.asarray(order[np.searchsorted(fleet.model_of[order], np.arange(len(fleet.offered_per_s)))])


_TARGETS_ALONE = tuple(Setting(target=each) for each in TARGETS)
POLICIES: Mapping[str, Policy] = {
    each.name: each
    for each in (
        Policy(name="static peak", settings=tuple(Setting(target=each) for each in PEAKS), build=_static),
        Policy(name="HPA on arrival rate", settings=_swept()[0], build=_rate),
        Policy(name="HPA on running requests", settings=_swept()[0], build=_running),
        Policy(name="KEDA with a schedule", settings=_swept()[0], build=_schedule),
        Policy(name="Kthena on arrival rate", settings=_swept(LONGEST_WINDOW_S)[0], build=_kthena),
        Policy(name="WVA on percentages", settings=_swept()[0], build=_percent),
        Policy(name="WVA on tokens", settings=_swept()[0], build=_tokens),
        Policy(name="Dynamo on throughput", settings=_TARGETS_ALONE, build=_planned_by_throughput),
        Policy(name="Dynamo on caches", settings=_TARGETS_ALONE, build=_planned_by_cache),
        Policy(name="Dynamo on latencies", settings=_TARGETS_ALONE, build=_planned_by_latency),
        Policy(name="HPA's rule by pull request", settings=_swept()[0], build=_by_pull_request),
    )
}
