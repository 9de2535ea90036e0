"""One recorded day under every policy."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from reconciler.backtest.ours import DayReplay, Move, OurDay, first_replicas
from reconciler.backtest.replayed import ABLATIONS, LEAD_S, STEP_S, WARM_UP_S, Replayed
from reconciler.domain.backtests import AT_ONCE, DELAYED, OURS, RAN, BacktestDay, Course, Courses, Tally
from reconciler.domain.records import replace
from reconciler.forecast.series import DAY_S, Floats
from reconciler.simulation.autoscalers.port import Autoscaler
from reconciler.simulation.fleet import Fleet, Ledger, Planned, simulate
from reconciler.simulation.policies import POLICIES, clairvoyant

COURSE_STEP_S = 600.0
DIGITS = 6
"""Significant ones of what is kept: the rest differs from machine to machine."""
JUDGED_LEVEL = 0.9


def replay_day(
    replayed: Replayed,
    day_s: float,
    seed: int,
    policies: Sequence[str] = tuple(POLICIES),
    ablations: Sequence[str] = (),
) -> BacktestDay:
    """What became of a day (UTC, from `day_s`) under what ran, ours, the peers and those who know what comes."""
    fleet = replayed.fleet(day_s, seed)
    warm, steps = round(WARM_UP_S / STEP_S), fleet.offered_per_s.shape[1]
    block_of = np.where(np.arange(steps) >= warm, 0, -1)
    first = first_replicas(replayed, replayed.offered(fleet.start_s - LEAD_S, round(LEAD_S / STEP_S)))
    ours = DayReplay(replayed, day_s, seed).run()
    ran = what_ran(replayed, fleet)
    known = clairvoyant(fleet, replayed.way, delayed=True), clairvoyant(fleet, replayed.way, delayed=False)
    at_once = replace(fleet, start_steps=np.zeros_like(fleet.start_steps))

    def alone(scaler: Autoscaler, subject: Fleet, replicas: Floats) -> Ledger:
        return simulate(subject, scaler, replicas[None], block_of)

    ledgers = {
        OURS: alone(Planned(ours.replicas, fleet.start_s, STEP_S), fleet, ours.replicas[:, 0]),
        RAN: alone(Planned(ran, fleet.start_s, STEP_S), fleet, ran[:, 0]),
        DELAYED: alone(known[0], fleet, known[0].at(0)),
        AT_ONCE: alone(known[1], at_once, known[1].at(0)),
    }
    for name in ablations:
        changed = DayReplay(ABLATIONS[name](replayed), day_s, seed).run().replicas
        ledgers[name] = alone(Planned(changed, fleet.start_s, STEP_S), fleet, changed[:, 0])
    # An HPA is off at zero: peers begin with a replica of each variant of a model that has none.
    counts = np.bincount(replayed.model_of, weights=first)[replayed.model_of]
    begun = np.where(counts > 0, first, 1.0)
    before = replayed.before(day_s)
    for name in policies:
        policy = POLICIES[name]
        scaler = policy.build(fleet, before, replayed.way)
        ledgers[name] = simulate(fleet, scaler, np.tile(begun, (len(policy.settings), 1)), block_of)
    covered, judged = coverage(fleet, ours)
    return BacktestDay(
        day=datetime.fromtimestamp(day_s, tz=UTC).date().isoformat(),
        known=_rounded(replayed.known(day_s)),
        tallies={name: _tallies(replayed, ledger) for name, ledger in ledgers.items()},
        opened=ours.opened,
        pushed=ours.pushed,
        merged=ours.merged,
        reversed_changes=ours.reversals,
        all_changes=sum(move.step >= warm for move in ours.moves),
        covered=covered,
        judged=judged,
        stopped=dict(sorted(ours.stopped.items())),
        courses=Courses.of(_courses(replayed, fleet, ours, ran)),
    )


def what_ran(replayed: Replayed, fleet: Fleet) -> Floats:
    """What ran of each variant (variants x steps), else what Git said, else what it says now."""
    steps = fleet.offered_per_s.shape[1]
    now_s = fleet.start_s + np.arange(steps) * STEP_S
    times_s = now_s - replayed.way.sync_s
    rows = np.empty((len(replayed.variants), steps))
    for row, variant in enumerate(replayed.variants):
        now = float(variant.current.replicas)
        rows[row] = now
        written = replayed.written.get(variant.key)
        if written is not None:
            begun_s = np.array([at_s for at_s, _ in written.counts])
            counts = np.array([math.nan if count is None else count for _, count in written.counts])
            place = np.searchsorted(begun_s, times_s, side="right") - 1
            found = counts[np.maximum(place, 0)]
            oldest = counts[0] if np.isfinite(counts[0]) else now
            rows[row] = np.where((place >= 0) & np.isfinite(found), found, oldest)
        ran = replayed.ran.get(variant.key)
        if ran is not None and len(ran.counts):
            place = np.floor((now_s - ran.start_s) / ran.step_s).astype(np.int64)
            is_inside = (place >= 0) & (place < len(ran.counts))
            found = ran.counts[np.where(is_inside, place, 0)]
            rows[row] = np.where(is_inside & np.isfinite(found), found, rows[row])
    return rows


def _tallies(replayed: Replayed, ledger: Ledger) -> tuple[Tally, ...]:
    """One a setting, by service class."""
    names = sorted(set(replayed.classes))
    rows = {name: np.array([each == name for each in replayed.classes]) for name in names}

    def summed(values: Floats) -> list[dict[str, float]]:
        by_class = {name: values[:, chosen, 0].sum(axis=1) for name, chosen in rows.items()}
        return [{name: _rounded(float(each[row])) for name, each in by_class.items()} for row in range(len(values))]

    columns = [summed(each) for each in (ledger.offered, ledger.kept, ledger.unserved, ledger.cost)]
    return tuple(
        Tally(
            offered=offered,
            kept=kept,
            unserved=unserved,
            cost=cost,
            starts=_rounded(float(ledger.starts[row, :, 0].sum())),
            changes=_rounded(float(ledger.changes[row, :, 0].sum())),
        )
        for row, (offered, kept, unserved, cost) in enumerate(zip(*columns, strict=True))
    )


def coverage(fleet: Fleet, ours: OurDay) -> tuple[int, int]:
    """How many forecasts were not exceeded within their window, of how many."""
    quantile = ours.quantiles.get(JUDGED_LEVEL)
    if quantile is None:
        return 0, 0
    covered = judged = 0
    models, runs = np.nonzero(np.isfinite(quantile))
    windows, which = np.unique(ours.windows[models, runs], axis=0, return_inverse=True)
    for place, (first, last) in enumerate(windows.tolist()):
        asked = which.ravel() == place
        rows, steps = models[asked], ours.runs[runs[asked]] + first
        largest = sliding_window_view(fleet.offered_per_s, last - first + 1, axis=1).max(axis=2)
        inside = steps < largest.shape[1]
        found = largest[rows[inside], steps[inside]] <= quantile[rows, runs[asked]][inside]
        covered, judged = covered + int(found.sum()), judged + len(found)
    return covered, judged


def _courses(replayed: Replayed, fleet: Fleet, ours: OurDay, ran: Floats) -> Iterator[Course]:
    """Every model's day, thinned to ten minutes: loads and misses as means, capacities as the least of them."""
    warm, size = round(WARM_UP_S / STEP_S), round(COURSE_STEP_S / STEP_S)
    count = round(DAY_S / COURSE_STEP_S)

    def thinned(values: Floats, how: str) -> Floats:
        parts = values[:, warm : warm + count * size].reshape(len(values), count, size)
        return np.asarray(parts.mean(axis=2) if how == "mean" else parts.min(axis=2))

    def carried(replicas: Floats) -> Floats:
        start = round(replayed.way.start.median_s / STEP_S)
        ready = replicas.copy()
        for ago in range(1, start + 1):
            ready[:, ago:] = np.minimum(ready[:, ago:], replicas[:, :-ago])
        whole = np.zeros((len(replayed.models), replicas.shape[1]))
        np.add.at(whole, replayed.model_of, ready * replayed.capacity_per_s[:, None])
        return whole

    of_ours, of_ran = carried(ours.replicas), carried(ran)
    missed = np.clip((fleet.offered_per_s / np.maximum(of_ours, 1e-9) - 1.0) / 0.15, 0.0, 1.0)
    is_known = replayed.are_known(fleet.start_s, fleet.offered_per_s.shape[1]).astype(np.float64)
    load, mine, theirs, misses = (
        np.where(thinned(is_known, "least") > 0, thinned(fleet.offered_per_s, "mean"), np.nan),
        thinned(of_ours, "least"),
        thinned(of_ran, "least"),
        thinned(missed, "mean"),
    )
    moved: list[list[Move]] = [[] for _ in replayed.models]
    for move in ours.moves:
        if move.step >= warm:
            moved[replayed.model_of[move.variant]].append(move)
    for row, model in enumerate(replayed.models):
        yield Course(
            model=str(model),
            service_class=replayed.classes[row],
            load=_known(load[row]),
            ours=tuple(map(_rounded, mine[row].tolist())),
            ran=tuple(map(_rounded, theirs[row].tolist())),
            missed=tuple(map(_rounded, misses[row].tolist())),
            forecast=_fan(ours.quantiles, row),
            changes=tuple((move.step * STEP_S - WARM_UP_S, move.before, move.after) for move in moved[row]),
        )


def _fan(quantiles: Mapping[float, Floats], row: int) -> Mapping[str, tuple[float | None, ...]]:
    """The quantiles of a model by level; empty where no forecast decided."""
    return {
        f"{level:g}": _known(of_level[row])
        for level, of_level in sorted(quantiles.items())
        if np.isfinite(of_level[row]).any()
    }


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(each) else _rounded(each) for each in values.tolist())


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
