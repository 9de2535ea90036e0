"""The load that a change will serve: forecast, where that would have done better than the load of now."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np

from reconciler.decision.actuation import ActuationDelay, ActuationDelays
from reconciler.decision.load_variation import KnownEvent, LoadForecast
from reconciler.domain.history import DemandHistory, LoadHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import Load
from reconciler.domain.proposals import ProposalState
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Event
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import last_midnight_s, significant
from reconciler.domain.variant_settings import HEADROOM
from reconciler.forecast.forecaster import Forecaster, told_features
from reconciler.forecast.series import LOOKS_BACK_S, RECENT_S, Rates, Window
from reconciler.simulation.rehearsal import HOLD_S, LEVEL, LEVELS, Rehearsal, Rules, learn, lingering, rehearse

DRAINED_IN_S = 600.0
"""What waits now must be served within so long, in addition to what arrives."""
COARSE_S = 1800.0
"""Windows that end an hour or later end at a multiple of this: fewer of them are learned."""
ON_GRID = 0.01
"""Of a step: so late is not late."""
MOST_WINDOWS = 3
"""More would be learned one after the other: then all models take the widest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """The forecasts that decide, by model, and why the load of now does of others; neither where nothing was asked."""

    of: Mapping[ModelKey, LoadForecast] = field(default_factory=dict)
    why_not: Mapping[ModelKey, str] = field(default_factory=dict)
    events: Mapping[ModelKey, KnownEvent] = field(default_factory=dict)
    """Of models for which one comes, forecast or not."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """What models must have in common to be rehearsed together; times in seconds."""

    window: Window
    sync_s: float
    start_s: float
    goal: float
    headroom: float


def forecast_loads(
    snapshot: Snapshot, members: Mapping[ModelKey, Sequence[Variant]], capacities: Mapping[ModelKey, float]
) -> Forecasts:
    """What is forecast of the models, of which a replica carries `capacities` (requests a second)."""
    lost = snapshot.observed.demand_lost
    why_not = {
        model: f"the last two weeks are not known: {lost[model.cluster].reason}"
        for model in members
        if model.cluster in lost
    }
    events = dict(_events(snapshot, members)) if snapshot.settings.events else {}
    if not snapshot.observed.demand:
        return Forecasts(why_not=why_not, events=events)
    rows, rates = joined(snapshot.observed.demand)
    present = _until_now(snapshot, rows, rates.since(snapshot.now_s - LOOKS_BACK_S))
    found: dict[ModelKey, LoadForecast] = {}
    added = _added(snapshot)
    until_s = last_midnight_s(snapshot.now_s)
    for terms, models in _by_terms(snapshot, members, rows, capacities).items():
        rehearsal = rehearse(
            rates,
            tuple(rows[model] for model in models),
            tuple(capacities[model] for model in models),
            terms.window,
            (terms.sync_s, terms.start_s),
            Rules(goal=terms.goal, headroom=terms.headroom),
            until_s,
        )
        if rehearsal.margin is None:
            why_not |= dict.fromkeys(models, rehearsal.words)
            continue
        for model, forecast in _forecasts(
            snapshot, present, rows, models, learn(rates, terms.window, until_s), terms, rehearsal
        ):
            if forecast is None:
                why_not[model] = "too little of its last day is known"
            else:
                why_not.pop(model, None)
                waiting = _waiting(snapshot, members[model])
                found[model] = replace(
                    forecast,
                    grow_per_s=forecast.grow_per_s + waiting,
                    keep_per_s=forecast.keep_per_s + waiting,
                    waiting_per_s=waiting,
                    added_s=max(filter(None, (added.get(str(each.key)) for each in members[model])), default=None),
                )
    return Forecasts(of=found, why_not=why_not, events=events)


def _forecasts(
    snapshot: Snapshot,
    present: Rates,
    rows: Mapping[ModelKey, int],
    models: Sequence[ModelKey],
    learned: tuple[Forecaster | None, Forecaster | None],
    terms: _Terms,
    rehearsal: Rehearsal,
) -> Iterator[tuple[ModelKey, LoadForecast | None]]:
    """The forecast of each model, None where too little is known; what was learned ends at the last midnight."""
    grow_by, keep_by = learned
    if grow_by is None or keep_by is None or rehearsal.margin is None:
        yield from ((model, None) for model in models)
        return
    series = np.array([rows[model] for model in models])
    grow = grow_by.forecast(present, series, snapshot.now_s)
    keep = keep_by.forecast(present, series, snapshot.now_s)
    for place, model in enumerate(models):
        if not grow.known[place]:
            yield model, None
            continue
        quantiles = {level: significant(float(each)) for level, each in zip(LEVELS, grow.per_s[place], strict=True)}
        needed = significant(rehearsal.margin * quantiles[LEVEL])
        kept = significant(float(keep.per_s[place, -1]))
        load = snapshot.observed.loads.get(model)
        now_per_s = load.arrival_rate_per_s if isinstance(load, Load) else 0.0
        yield (
            model,
            LoadForecast(
                grow_per_s=needed,
                keep_per_s=max(needed, kept, now_per_s),
                quantiles=quantiles,
                window=grow_by.window,
                margin=significant(rehearsal.margin),
                goal=terms.goal,
                at_s=snapshot.now_s,
                days=rehearsal.days,
                moved_by=told_features(grow, place, LEVELS.index(LEVEL)),
                why=rehearsal.words,
                covered=rehearsal.covered.get(rows[model]),
                covered_of_all=rehearsal.coverage,
            ),
        )


def _by_terms(
    snapshot: Snapshot,
    members: Mapping[ModelKey, Sequence[Variant]],
    rows: Mapping[ModelKey, int],
    capacities: Mapping[ModelKey, float],
) -> Mapping[_Terms, Sequence[ModelKey]]:
    """The models that can be forecast, those of equal terms together."""
    delays, run_interval_s = ActuationDelays(snapshot), snapshot.settings.run_interval_s
    found: dict[ModelKey, _Terms] = {}
    for model in sorted(members.keys() & rows.keys(), key=rows.__getitem__):
        classes = [each.service_class.value for each in members[model] if each.service_class is not None]
        if capacities.get(model, 0.0) > 0 and classes:
            ways = [delays.of(variant) for variant in members[model]]
            found[model] = _Terms(
                window=_window(ways, run_interval_s),
                sync_s=max(way.merge.median_s + way.sync.median_s for way in ways),
                start_s=max(way.start.median_s for way in ways),
                goal=max(each.attainment for each in classes),
                headroom=max(variant.settings[HEADROOM].value for variant in members[model]),
            )
    windows = {terms.window for terms in found.values()}
    if len(windows) > MOST_WINDOWS:
        widest = Window(from_s=min(each.from_s for each in windows), until_s=max(each.until_s for each in windows))
        found = {model: replace(terms, window=widest) for model, terms in found.items()}
    together: dict[_Terms, list[ModelKey]] = {}
    for model, terms in found.items():
        together.setdefault(terms, []).append(model)
    return together


def _window(ways: Sequence[ActuationDelay], run_interval_s: float) -> Window:
    """From the first replicas that this decision may start until the last that the next one does, on a coarse grid."""
    from_s, until_s = min(way.low_s for way in ways), run_interval_s + max(way.high_s for way in ways)
    step_s = RECENT_S if until_s < 2 * COARSE_S else COARSE_S
    return Window(from_s=math.floor(from_s / RECENT_S) * RECENT_S, until_s=math.ceil(until_s / step_s) * step_s)


@lru_cache(maxsize=2)
def joined(histories: tuple[DemandHistory, ...]) -> tuple[Mapping[ModelKey, int], Rates]:
    """All models of all clusters that were asked on the same grid, the largest such; histories compare by identity."""
    grids: dict[tuple[float, float, int], list[DemandHistory]] = {}
    for each in histories:
        grids.setdefault((each.start_s, each.step_s, each.per_s.shape[1]), []).append(each)
    (start_s, step_s, _), alike = max(grids.items(), key=lambda item: sum(len(each.models) for each in item[1]))
    per_s = alike[0].per_s if len(alike) == 1 else np.concatenate([each.per_s for each in alike])
    models = (model for each in alike for model in each.models)
    return {model: row for row, model in enumerate(models)}, Rates(start_s=start_s, step_s=step_s, per_s=per_s)


def _until_now(snapshot: Snapshot, rows: Mapping[ModelKey, int], rates: Rates) -> Rates:
    """The same rates on a grid that ends now: the last one is what the last ten minutes were like.

    A mean over a step that lies across two of the grid is the mean of both, by how much of each it covers.
    """
    count = rates.moments_until(snapshot.now_s)
    late = (snapshot.now_s - rates.start_s) / rates.step_s - (count - 1)
    if late < ON_GRID or count < 2:
        return rates
    per_s = (1 - late) * rates.per_s[:, : count - 1] + late * rates.per_s[:, 1:count]
    newest = np.full((len(per_s), 1), np.nan)
    for model, row in rows.items():
        newest[row] = _recent(snapshot, model)
    return Rates(
        start_s=rates.start_s + late * rates.step_s,
        step_s=rates.step_s,
        per_s=np.concatenate((per_s, newest), axis=1),
    )


def _recent(snapshot: Snapshot, model: ModelKey) -> float:
    """The mean rate of the last ten minutes, from the windows that lie in them; NaN where it is not known."""
    past, load = snapshot.observed.past.get(model), snapshot.observed.loads.get(model)
    if isinstance(past, LoadHistory) and past.rates_per_s.size:
        recent = past.rates_per_s[past.times_s > snapshot.now_s - (RECENT_S - past.window_s) - past.step_s]
        if recent.size and np.isfinite(recent).all():
            return float(recent.mean())
    return load.arrival_rate_per_s if isinstance(load, Load) else math.nan


def _events(snapshot: Snapshot, members: Mapping[ModelKey, Sequence[Variant]]) -> Iterator[tuple[ModelKey, KnownEvent]]:
    """By model what comes that history cannot know, against what is on now: that is in the load of now already."""
    delays, settings, now_s = ActuationDelays(snapshot), snapshot.settings, snapshot.now_s
    for model, variants in members.items():
        window = _window([delays.of(variant) for variant in variants], settings.run_interval_s)
        events = [each for each in settings.events if each.until_s > now_s and fnmatchcase(model.model_id, each.model)]

        def times(after_s: float, events: Sequence[Event] = events) -> float:
            on = (each.factor for each in events if each.from_s <= now_s + after_s < each.until_s)
            return math.prod(on)

        def most(until: Window, events: Sequence[Event] = events) -> float:
            begun = (each.from_s - now_s for each in events)
            moments = [until.from_s, *(at_s for at_s in begun if until.from_s < at_s <= until.until_s)]
            return max(map(times, moments)) / times(0.0)

        grow, keep = most(window), most(lingering(window))
        if keep > 1:
            names = ", ".join(each.name for each in events if now_s < each.from_s <= now_s + lingering(window).until_s)
            yield model, KnownEvent(grow=max(grow, 1.0), keep=keep, words=f"event {names}: {keep:.4g} times as much")


def _added(snapshot: Snapshot) -> Mapping[str, float]:
    """By resource when (Unix seconds) a merge added replicas to it, within the time that they stay for."""
    found: dict[str, float] = {}
    for each in snapshot.proposals:
        at_s = each.closed_at_s if each.state is ProposalState.MERGED and each.reverted_at_s is None else None
        if at_s is not None and 0 <= snapshot.now_s - at_s < HOLD_S:
            grown = (change.resource for change in each.changes if change.replicas_after > change.replicas_before)
            found |= {resource: max(found.get(resource, 0.0), at_s) for resource in grown}
    return found


def _waiting(snapshot: Snapshot, members: Sequence[Variant]) -> float:
    """What draining the requests that wait takes, in requests a second."""
    seen = (snapshot.observed.observations.get(variant.key) for variant in members)
    return sum(each.num_waiting or 0.0 for each in seen if each is not None) / DRAINED_IN_S
