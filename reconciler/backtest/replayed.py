"""What of a snapshot can be replayed: its models with their past load, capacities, prices and delays, as arrays."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from reconciler.decision.actuation import ActuationDelays, DelayPart
from reconciler.decision.decide import solve
from reconciler.decision.engines.port import Basis, EngineAnswer
from reconciler.decision.engines.registry import ENGINES, way_of
from reconciler.decision.forecasting import joined
from reconciler.decision.variant_states import VariantState
from reconciler.domain.history import Bools, DemandHistory
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.observed import LiveReplicas, Load
from reconciler.domain.plan import RATE
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import ENGINE, GROUP, Engine
from reconciler.forecast.series import DAY_S, Floats, Integers
from reconciler.simulation.draws import Arrivals, OfficeHours, Spread, random_generator
from reconciler.simulation.faults import LATE_S, LATE_SHARE, Faults, draw_faults
from reconciler.simulation.fleet import Fleet, batch_of
from reconciler.simulation.policies import Past, Way

STEP_S = 60.0
WARM_UP_S = 3 * 3600.0
"""Before each day: what it begins with is forgotten by then, so days are replayed apart and in any order."""
LEAD_S = 3900.0
"""Before that, which the first decisions look back at."""
MODELS_AT_ONCE = 64
FEWEST_KNOWN = 0.5
"""Of a day's moments: a day with fewer is not replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A fleet to be replayed: columns are `variants`, those of a model side by side, rows `models`.

    `per_s` (models x moments) is the mean rate over the `step_s` before `start_s + j * step_s`; NaN is not known.
    `snapshot` keeps every variant on its accelerator, and holds those that are not replayed.
    """

    snapshot: Snapshot
    models: tuple[ModelKey, ...]
    variants: tuple[Variant, ...]
    classes: tuple[str, ...]
    model_of: Integers
    capacity_per_s: Floats
    batches: Floats
    """Of a replica of each variant at capacity (4 x variants): requests in its batch, what of the time that they stay
    grows with it, the largest batch in units of that one, and the prompt's part of a request's tokens."""
    weight: Floats
    unit: str
    start_s: float
    step_s: float
    per_s: Floats
    way: Way
    phase_s: float
    demand: DemandHistory
    """The same history as it is asked for; one object, so that what is learned of it is learned once."""
    written: Mapping[ResourceKey, WrittenCounts] = field(default_factory=dict)
    unsure: tuple[ModelKey, ...] = ()
    """Models whose replicas would carry more inside their targets than learned profiles are sure of."""
    ran: Mapping[ResourceKey, LiveReplicas] = field(default_factory=dict)
    """What scale targets asked for, as far as it is known."""
    left_out: Mapping[ModelKey, str] = field(default_factory=dict)
    with_faults: bool = False
    """Whether things go wrong: `simulation.faults`."""

    def days(self, most: int) -> tuple[float, ...]:
        """The beginnings of the last whole UTC days of which enough is known, at most so many, the oldest first."""
        end_s = self.start_s + (self.per_s.shape[1] - 1) * self.step_s
        last = math.floor(min(end_s, self.snapshot.now_s) / DAY_S)
        days = [day * DAY_S for day in range(last - most, last)]
        return tuple(day_s for day_s in days if self.known(day_s) >= FEWEST_KNOWN)

    def known(self, day_s: float) -> float:
        """The share of a day's moments that are known."""
        columns = self._columns(
            day_s + (np.arange(round(DAY_S / self.step_s), dtype=np.float64) + 0.5) * self.step_s, 0.0
        )
        inside = (columns >= 0) & (columns < self.per_s.shape[1])
        return float(np.isfinite(self.per_s[:, columns[inside]]).sum() / max(len(self.per_s) * len(columns), 1))

    def offered(self, from_s: float, steps: int) -> Floats:
        """What arrives in each step of `STEP_S` from a moment on (models x steps); what is not known is as before it.

        A recorded mean is replayed as a step, `phase_s` later than it was: a slope within it would give away
        what comes, and so would runs that begin when it does.
        """
        columns = self._columns(from_s + (np.arange(steps, dtype=np.float64) + 0.5) * STEP_S, self.phase_s)
        inside = np.clip(columns, 0, self.per_s.shape[1] - 1)
        known = np.isfinite(self.per_s)
        last = np.maximum.accumulate(np.where(known, np.arange(self.per_s.shape[1]), -1), axis=1)
        first = known.argmax(axis=1)
        filled = np.where(last >= 0, last, first[:, None])[:, inside]
        return np.nan_to_num(np.take_along_axis(self.per_s, filled, axis=1))

    def are_known(self, from_s: float, steps: int) -> Bools:
        """Whether what is offered in each of these steps was recorded (models x steps)."""
        columns = self._columns(from_s + (np.arange(steps, dtype=np.float64) + 0.5) * STEP_S, self.phase_s)
        inside = (columns >= 0) & (columns < self.per_s.shape[1])
        return np.asarray(inside & np.isfinite(self.per_s[:, np.where(inside, columns, 0)]))

    def _columns(self, times_s: Floats, phase_s: float) -> Integers:
        return np.floor((times_s - phase_s - self.start_s) / self.step_s).astype(np.int64) + 1

    def fleet(self, day_s: float, seed: int) -> Fleet:
        """A day and what comes before it, with start-up times of its own."""
        steps = round((WARM_UP_S + DAY_S) / STEP_S)
        starts_s = self.way.start.draw(random_generator(seed, "start", day_s), (len(self.variants), steps))
        offered = self.offered(day_s - WARM_UP_S, steps)
        faults = self.faults(day_s, seed)
        return Fleet(
            start_s=day_s - WARM_UP_S,
            step_s=STEP_S,
            offered_per_s=offered,
            arrivals=Arrivals.drawn(random_generator(seed, "requests", day_s), offered, STEP_S),
            model_of=self.model_of,
            capacity_per_s=self.capacity_per_s,
            weight=self.weight,
            start_steps=np.rint(starts_s / STEP_S).astype(np.int64) + (0 if faults is None else faults.waits),
            silent=None if faults is None else faults.silent,
            lost_share=None if faults is None else faults.lost_share,
            in_batches=self.batches[0],
            batch_share=self.batches[1],
            full=self.batches[2],
            prompt_share=self.batches[3],
        )

    def faults(self, day_s: float, seed: int) -> Faults | None:
        """What goes wrong in that day, if anything is to."""
        steps = round((WARM_UP_S + DAY_S) / STEP_S)
        return draw_faults(seed, day_s, len(self.variants), steps, STEP_S) if self.with_faults else None

    def before(self, day_s: float) -> Past:
        """What arrived in the week before a day's warm-up, some models at a time: the steps of 1,000 take 80 MiB."""
        steps = round(7 * DAY_S / STEP_S)
        from_s = day_s - WARM_UP_S - steps * STEP_S
        columns = self._columns(from_s + (np.arange(steps, dtype=np.float64) + 0.5) * STEP_S, self.phase_s)
        inside = (columns >= 0) & (columns < self.per_s.shape[1])
        places = np.where(inside, columns, 0)
        parts = [
            Past.of(np.where(inside, self.per_s[first : first + MODELS_AT_ONCE][:, places], np.nan), STEP_S)
            for first in range(0, len(self.per_s), MODELS_AT_ONCE)
        ]
        return Past(
            hourly_per_s=np.concatenate([each.hourly_per_s for each in parts]),
            most_per_s=np.concatenate([each.most_per_s for each in parts]),
        )


def read_replayed(
    snapshot: Snapshot,
    *,
    seed: int,
    hours: OfficeHours | None = None,
    loads: DemandHistory | None = None,
    with_faults: bool = False,
) -> Replayed:
    """What of a snapshot can be replayed; `loads` stand for what its Prometheus answered."""
    histories = snapshot.observed.demand if loads is None else (loads,)
    rows, history = joined(histories) if histories else ({}, None)
    known = {} if history is None else _known_shares(rows, history.per_s)
    solved = solve(snapshot, {})
    formulated = solved.situation.formulated
    needs = {each.model: each for each in formulated.problem.requirements}
    states = {state.variant.key: state for state in solved.situation.states}
    members: dict[ModelKey, list[Variant]] = {}
    for variant in sorted(snapshot.variants, key=lambda each: each.key):
        members.setdefault(variant.model, []).append(variant)
    left_out: dict[ModelKey, str] = {}
    chosen: dict[ModelKey, list[tuple[Variant, float]]] = {}
    for model, each in sorted(members.items()):
        need = needs.get(model)
        carried = [] if need is None else list(_carried(each, need.per_replica))
        is_other = need is None or need.fixed is not None or need.unit != RATE
        other = _other_way(states[each[0].key], formulated.holds.get(each[0].key)) if is_other else ""
        words = _why_not(each, other, carried, known.get(model))
        if words:
            left_out[model] = words
        else:
            chosen[model] = list(zip(each, carried, strict=True))
    models = tuple(chosen)
    pairs = [pair for each in chosen.values() for pair in each]
    variants, capacity = tuple(variant for variant, _ in pairs), np.array([carried for _, carried in pairs])
    prices = [_price(variant) for variant in variants]
    is_priced = bool(prices) and all(price is not None for price in prices)
    per_s = np.empty((0, 0)) if history is None else history.per_s[[rows[model] for model in models]]
    start_s, step_s = (0.0, 600.0) if history is None else (history.start_s, history.step_s)
    phase_s = float(random_generator(seed, "phase").uniform(0.0, step_s))
    return Replayed(
        snapshot=_held(snapshot, {variant.key: states[variant.key].engine for variant in variants}, left_out),
        models=models,
        variants=variants,
        classes=tuple(_class_of(each) for each in (members[model] for model in models)),
        model_of=np.repeat(np.arange(len(models)), [len(each) for each in chosen.values()]).astype(np.int64),
        capacity_per_s=capacity,
        batches=_batches(snapshot, variants, capacity),
        weight=np.array([price if is_priced else 1.0 for price in prices], dtype=np.float64),
        unit=snapshot.settings.currency if is_priced else "replica-hours",
        start_s=start_s,
        step_s=step_s,
        phase_s=phase_s,
        demand=DemandHistory(models=models, start_s=start_s + phase_s, step_s=step_s, per_s=per_s),
        per_s=per_s,
        way=_way(snapshot, variants, seed, hours, with_faults=with_faults),
        written={each.variant: each for each in snapshot.written.values()},
        unsure=tuple(sorted({each.model for each in variants if _is_unsure(solved.answers, states[each.key])})),
        ran=snapshot.observed.ran,
        left_out=left_out,
        with_faults=with_faults,
    )


def _is_unsure(answers: Mapping[Engine, EngineAnswer], state: VariantState) -> bool:
    return answers[state.engine].is_unsure(state.variant.key.on(state.variant.current.accelerator))


def _carried(members: Sequence[Variant], per_replica: Mapping[CandidateKey, float]) -> Iterator[float]:
    for variant in members:
        yield per_replica.get(variant.key.on(variant.current.accelerator), 0.0)


def _batches(snapshot: Snapshot, variants: Sequence[Variant], capacity_per_s: Floats) -> Floats:
    loads = (snapshot.observed.loads.get(variant.model) for variant in variants)
    batches = [
        batch_of(variant.current_option, load if isinstance(load, Load) else None, float(capacity))
        for variant, load, capacity in zip(variants, loads, capacity_per_s, strict=True)
    ]
    return np.reshape(np.array(batches, dtype=np.float64), (-1, 4)).T


def _other_way(state: VariantState, hold: Hold | None) -> str:
    """Why it is not known how many requests a replica of a model carries."""
    if ENGINES[state.engine].basis is Basis.LOAD:
        return str(state.hold or hold or "its load is not known now")
    way = way_of(state.engine, is_learned=False)
    return f"it is sized by {way} ({state.choice.reason})" if state.choice.reason else f"it is sized by {way}"


def _why_not(members: Sequence[Variant], other: str, carried: Sequence[float], known: float | None) -> str:
    """Why a model is not replayed; empty where it is."""
    held = next((each.hold for each in members if each.hold is not None), None)
    if held is not None:
        return str(held)
    if other:
        return other
    if any(not each.is_counted for each in members):
        return "Git does not say how many replicas run"
    if known is None:
        return "what arrived before is not known"
    if known < FEWEST_KNOWN:
        return f"of what arrived before only {known * 100:.0f} % is known"
    if min(carried, default=0.0) <= 0:
        return "what its replicas carry is not known, or nothing inside their targets"
    return ""


def _known_shares(rows: Mapping[ModelKey, int], per_s: Floats) -> dict[ModelKey, float]:
    """Of the moments since any model's load is known, the share at which each one's is."""
    is_known = np.isfinite(per_s)
    since = is_known[:, is_known.any(axis=0).argmax() :]
    return {model: float(since[row].mean()) for model, row in rows.items()}


def _price(variant: Variant) -> float | None:
    """What one replica costs an hour where it runs now."""
    return variant.current_cost_per_hour


def _class_of(members: Sequence[Variant]) -> str:
    return next((each.service_class.value.name for each in members if each.service_class is not None), "none")


def _held(snapshot: Snapshot, replayed: Mapping[ResourceKey, Engine], left_out: Mapping[ModelKey, str]) -> Snapshot:
    """Every variant on its accelerator; one that is not replayed stays as it is, and holds the devices that it has."""
    variants = tuple(
        _kept(each, replayed[each.key])
        if each.key in replayed
        else replace(each, holds=each.holds or (Hold(kind=HoldKind.IGNORED, words=left_out.get(each.model, "")),))
        for each in snapshot.variants
    )
    return replace(snapshot, variants=variants, proposals=(), moved=None, measured=snapshot)


def _kept(variant: Variant, engine: Engine) -> Variant:
    """A replayed variant on its accelerator, sized by the engine that sizes it now whatever its load.

    Where a load is beyond what a learned profile is sure of, a run turns to saturation, which would find replicas
    here as full as when they were recorded.
    """
    chosen = replace(variant.settings[ENGINE], value=engine)
    return replace(
        variant,
        options=tuple(one for one in variant.options if one.accelerator == variant.current.accelerator),
        settings=replace(variant.settings, values={**variant.settings.values, ENGINE.name: chosen}),
    )


def _way(
    snapshot: Snapshot, variants: Sequence[Variant], seed: int, hours: OfficeHours | None, *, with_faults: bool
) -> Way:
    """The slowest of the variants' delays, for all: what differs between them is far less than what varies."""
    delays = ActuationDelays(snapshot)
    ways = [delays.of(variant) for variant in variants]
    groups = sorted({variant.settings[GROUP].value for variant in variants})

    def slowest(parts: Iterator[DelayPart]) -> Spread:
        part = max(parts, key=lambda each: each.median_s, default=DelayPart.always(0.0, ""))
        return Spread(low_s=part.low_s, median_s=part.median_s, high_s=part.high_s)

    merge = slowest(way.merge for way in ways)
    return Way(
        run_s=snapshot.settings.run_interval_s,
        merge=replace(merge, late_share=LATE_SHARE, late_s=LATE_S) if with_faults else merge,
        sync_s=slowest(way.sync for way in ways).median_s,
        start=slowest(way.start for way in ways),
        group_of=np.array([groups.index(each.settings[GROUP].value) for each in variants], dtype=np.int64),
        hours=hours,
        seed=seed,
    )


def _without_forecasts(replayed: Replayed) -> Replayed:
    nothing = replace(replayed.demand, models=(), per_s=np.empty((0, replayed.per_s.shape[1])))
    return replace(replayed, demand=nothing)


def _without_limits(replayed: Replayed) -> Replayed:
    settings = replayed.snapshot.settings
    own = settings.pull_requests
    free = replace(own, open_at_once=0, created_per_hour=0, pushes_per_hour=0, merges_per_hour=UNLIMITED, worth=None)
    return _set(replayed, replace(settings, pull_requests=free))


def _without_rules(replayed: Replayed) -> Replayed:
    return _set(replayed, replace(replayed.snapshot.settings, rules=()))


def _merged_at_once(replayed: Replayed) -> Replayed:
    return replace(replayed, way=replace(replayed.way, merge=Spread.always(AT_ONCE_S), hours=None))


def _set(replayed: Replayed, settings: Settings) -> Replayed:
    return replace(replayed, snapshot=replace(replayed.snapshot, settings=settings))


AT_ONCE_S = 60.0
UNLIMITED = 10**6
ABLATIONS: Mapping[str, Callable[[Replayed], Replayed]] = {
    "ours without forecasts": _without_forecasts,
    "ours without limits": _without_limits,
    "ours without rules": _without_rules,
    "ours, merged in a minute": _merged_at_once,
}
"""What ours would be with one thing changed; forecasts reckon with the same delays in all of them."""


def loads_at(replayed: Replayed, rates_per_s: Floats) -> dict[ModelKey, Load]:
    """The models' loads at a moment; lengths of requests are those of the recording."""
    observed = replayed.snapshot.observed.loads
    found = {}
    for model, rate in zip(replayed.models, rates_per_s.tolist(), strict=True):
        load = observed[model]
        if isinstance(load, Load):
            found[model] = replace(load, arrival_rate_per_s=rate, completions_per_s=None)
    return found
