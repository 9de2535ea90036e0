"""The engine `queueing`: replicas as queues, sized from a profile so that each keeps its service class."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from reconciler.decision.devices import Devices
from reconciler.decision.engines.port import (
    Admission,
    Basis,
    EngineAnswer,
    EngineQuestion,
    Lacks,
    Models,
    Safeguards,
    SizingEngine,
    SizingInput,
    has_learned,
)
from reconciler.decision.engines.queueing_capacities import Capacities, ReplicaCapacity, SizingRow, find_contradictions
from reconciler.decision.forecasting import Forecasts, forecast_loads
from reconciler.decision.formulation import FormulatedProblem, ModelDemand, ModelProblem, Spread, demand_of
from reconciler.decision.load_variation import KnownEvent, LoadForecast, LoadVariation, load_variations, why_not_whole
from reconciler.decision.variant_states import (
    Allocations,
    VariantState,
    ago,
    beside_unknown,
    bounds_of,
    current_weight,
    idle_replicas,
    lacks_profile,
    load_partial,
    relative_weight,
    span,
    start_share,
    unserved_price,
)
from reconciler.domain.answers import NoAnswer
from reconciler.domain.history import NOTHING, Bools, LoadHistory, known_lengths
from reconciler.domain.holds import NOT_ASKED, Hold, HoldKind, hold_of
from reconciler.domain.identity import CandidateKey, Figure, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Observation, Performance, is_usual_churn
from reconciler.domain.plan import RATE, Step
from reconciler.domain.profiles import DECODE_ONLY, PerformanceProfile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds, Candidate, Requirement
from reconciler.domain.settings import SaturationRules
from reconciler.domain.snapshot import Option, Snapshot, Variant
from reconciler.domain.units import ms_from_seconds, significant
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, HEADROOM, START_DELAY_S, SYNC_DELAY_S, Engine
from reconciler.metrics.quantities import LIVE_WINDOW_S, Name
from reconciler.simulation.rehearsal import TRIAL_DAYS
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning import why_outside
from reconciler.sizing.profile_checks import Correction, correct

ALIKE = 1.01
"""Requests that are longer by less weigh the same."""
HEAVIEST = 1000.0
"""What a request weighs with which no replica keeps its targets."""
LIGHTEST = 0.01
SPREAD_S, SEEN = 1800.0, 0.8
"""Over how long it is looked at how replicas were loaded, and the part of it in which one must have served."""
CHANCE = 3.0
"""Standard deviations of a count of requests."""
Corrections = Mapping[ResourceKey, Correction]


def weigh_variations(
    given: SizingInput, models: Models, corrections: Corrections, capacities: Capacities
) -> Mapping[ModelKey, LoadVariation]:
    """How much the load of each model varied, requests that took more of its replicas counted as more of them.

    What a request takes is nearly linear in its lengths: it is looked at where outputs, and where prompts, were
    longest.
    """
    outputs = {
        model: replace(load, output_tokens=most)
        for model, load, most in _longest(
            given, models, lambda past: past.output_tokens, lambda load: load.output_tokens
        )
    }
    inputs = {
        model: replace(load, input_tokens=most)
        for model, load, most in _longest(given, models, lambda past: past.input_tokens, lambda load: load.input_tokens)
    }
    longer = [
        Capacities([row for model, load in loads.items() for row in _rows(models[model], load, corrections)])
        for loads in (outputs, inputs)
    ]
    pasts: dict[ModelKey, tuple[LoadHistory, float]] = {}
    for model in {*outputs, *inputs}:
        now, past = models[model][0].load, given.snapshot.observed.past[model]
        carried = _carried(models[model], capacities)
        if carried <= 0 or now is None or not isinstance(past, LoadHistory):
            continue
        weights = np.ones(len(past.times_s))
        if model in outputs:
            more = _more(carried, _carried(models[model], longer[0]))
            weights += more * _part(past.output_tokens, now.output_tokens, outputs[model].output_tokens)
        if model in inputs:
            more = _more(carried, _carried(models[model], longer[1]))
            weights += more * _part(past.input_tokens, now.input_tokens or 0.0, inputs[model].input_tokens or 0.0)
        heavier = replace(past, rates_per_s=past.rates_per_s * np.maximum(weights, LIGHTEST))
        pasts[model] = heavier, given.variations[model].payback_s
    return {**given.variations, **load_variations(pasts, given.snapshot.now_s)}


def _longest(
    given: SizingInput,
    models: Models,
    lengths_of: Callable[[LoadHistory], Floats],
    length_of: Callable[[Load], float | None],
) -> Iterator[tuple[ModelKey, Load, float]]:
    """Models whose requests were longer within `payback` than now: their load, and the longest."""
    pasts: dict[ModelKey, LoadHistory] = {}
    for model in given.variations:
        past, load = given.snapshot.observed.past.get(model), models[model][0].load if model in models else None
        if load is not None and load.has_lengths and isinstance(past, LoadHistory):
            pasts[model] = past

    def is_within_payback(times_s: Floats, asked: Sequence[ModelKey]) -> Bools:
        ages_s = given.snapshot.now_s - times_s
        return (ages_s >= 0) & (ages_s <= np.array([[given.variations[model].payback_s] for model in asked]))

    found = known_lengths(pasts, lengths_of, is_within_payback)
    for model, (_, longest) in ((model, found[model]) for model in pasts if model in found):
        load = models[model][0].load
        now = None if load is None else length_of(load)
        if load is not None and now and longest > ALIKE * now:
            yield model, load, longest


def _rows(members: Sequence[VariantState], load: Load, corrections: Corrections) -> Iterator[SizingRow]:
    """What runs now, under another load."""
    for variant in (state.variant for state in members if state.gap is None):
        correction = corrections.get(variant.key)
        for option in variant.options:
            if option.accelerator == variant.current.accelerator and variant.service_class is not None:
                yield SizingRow(
                    key=variant.key.on(option.accelerator),
                    profile=option.profile,
                    load=load,
                    service_class=variant.service_class.value,
                    correction=1.0 if correction is None else correction.factor,
                )


def _carried(members: Sequence[VariantState], capacities: Capacities) -> float:
    """What all that runs now carries, in requests a second."""
    keys = [(state.variant.key.on(state.variant.current.accelerator), state.variant.current) for state in members]
    return sum(capacities.of[key].rate_per_s * each.replicas for key, each in keys if key in capacities.of)


def _more(now_per_s: float, longest_per_s: float) -> float:
    """By how much the longest request weighs more than one of now."""
    return min(now_per_s / longest_per_s, HEAVIEST) - 1 if longest_per_s > 0 else HEAVIEST


def _part(known: Floats, now: float, longest: float) -> Floats:
    """Where each length is between that of now (0) and the longest (1); one that is not known is that of before."""
    (places,) = np.nonzero(np.isfinite(known))
    before = np.searchsorted(places, np.arange(known.size), side="right") - 1
    filled = known[places[np.maximum(before, 0)]]
    return np.asarray((filled - now) / (longest - now))


@dataclass(kw_only=True)
class QueueProblem:
    """Collects the problem of one model, variant by variant.

    `capacities` are those of all candidates that were sized; `variation` is what the model's load did before.
    """

    model: ModelKey
    members: Sequence[VariantState]
    capacities: Mapping[CandidateKey, ReplicaCapacity]
    devices: Devices
    variation: LoadVariation | None
    spread: Spread | None = None
    forecast: LoadForecast | None = None
    event: KnownEvent | None = None
    holds: dict[ResourceKey, Hold] = field(default_factory=dict)
    notes: dict[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: str = field(init=False)
    kept: str = field(init=False)
    keeps_accelerator: bool = field(init=False)

    def __post_init__(self) -> None:
        self.partial = "; ".join(state.partial.words for state in self.members if state.partial is not None)
        kept = [state.kept for state in self.members if state.kept is not None]
        self.kept = kept[0].words if kept else ""
        # What misses its target on one accelerator may keep it on another.
        self.keeps_accelerator = any(each.kind is not HoldKind.TARGET_MISSED for each in kept)

    def problem(self, load: Load) -> ModelProblem:
        """The model's problem under its load."""
        if self.partial:
            for state in self.members:
                self.notes[state.variant.key] = (f"{self.partial}: nothing is scaled down until all do",)
        demand = self._demand(load.arrival_rate_per_s)
        candidates: list[Candidate] = []
        weights: dict[ResourceKey, float] = {}
        if load.has_lengths:
            offered = self._offered()
            is_priced = all(option.cost_per_hour is not None for options in offered.values() for option in options)
            variants = {state.variant.key: state.variant for state in self.members}
            for key, options in offered.items():
                weights[key] = current_weight(variants[key], is_priced=is_priced)
                candidates += self._candidates(variants[key], options, is_priced=is_priced)
            requirement = self._loaded(demand, is_priced=is_priced)
        else:
            requirement = self._idle(load.arrival_rate_per_s)
        return ModelProblem(
            requirements=[requirement],
            candidates=candidates,
            current_weights=weights,
            holds=self.holds,
            notes=self.notes,
            partial={each.variant.key: load_partial(self.partial) for each in self.members} if self.partial else {},
            demand=demand,
        )

    def _demand(self, load_per_s: float) -> ModelDemand:
        shrinking = [each for each in self._free() if each.current.replicas > self._bounds(each).minimum]
        members = [state.variant for state in self.members]
        found, carried = (self.spread, self.forecast, self.event), self._carried()
        return demand_of(members, load_per_s, self.variation, carried, shrinking, *found)

    def _free(self) -> list[Variant]:
        return [state.variant for state in self.members if state.is_free]

    def _bounds(self, variant: Variant) -> Bounds:
        return bounds_of(variant, keeps_current=bool(self.partial or self.kept))

    def _carried(self) -> dict[CandidateKey, float]:
        keys = (_key(state.variant, option) for state in self.members for option in state.variant.options)
        return {key: self.capacities[key].rate_per_s for key in keys if key in self.capacities}

    def _loaded(self, demand: ModelDemand, *, is_priced: bool) -> Requirement:
        price = unserved_price(self.members) if is_priced else None
        return Requirement(model=self.model, unit=RATE, segments=demand.segments(price), per_replica=self._carried())

    def _idle(self, load_per_s: float) -> Requirement:
        """Without lengths there is no capacity: the answer is the fewest replicas, where they are.

        While some arrived within `payback`, it is not known how many replicas that took, so none goes. Requests that
        arrive where no replica runs wake one, on the cheapest variant, which then reports their lengths.
        """
        is_paused = self.variation is not None and self.variation.peak_per_s > 0
        fixed = {
            variant.key: self._paused(variant)
            if is_paused
            else max(idle_replicas(variant), self._bounds(variant).minimum)
            for variant in self._free()
        }
        runs = any(state.variant.current.replicas for state in self.members)
        may_wake = [each for each in self._free() if self._bounds(each).maximum != 0]
        if load_per_s > 0 and may_wake and not (runs or any(fixed.values())):
            is_priced = all(each.current_cost_per_hour is not None for each in may_wake)
            waking = min(may_wake, key=lambda each: (current_weight(each, is_priced=is_priced), each.key))
            fixed[waking.key] = 1
        return Requirement(model=self.model, unit="replicas", segments=(), per_replica={}, fixed=fixed)

    def _paused(self, variant: Variant) -> int:
        bounds = self._bounds(variant)
        replicas = max(idle_replicas(variant), variant.current.replicas, bounds.minimum)
        return replicas if bounds.maximum is None else min(replicas, bounds.maximum)

    def _offered(self) -> dict[ResourceKey, tuple[Option, ...]]:
        """The options that the optimizer may choose from, for the variants that one of them fits."""
        free = self._free()
        usable = [(variant, self._usable(variant)) for variant in free]
        unpriced = sorted({each.accelerator for _, group in usable for each in group if each.cost_per_hour is None})
        chosen = {variant.key: self._rankable(variant, options, unpriced) for variant, options in usable}
        self._stop_beside_unknown(free)
        return {key: options for key, options in chosen.items() if key not in self.holds}

    def _usable(self, variant: Variant) -> tuple[Option, ...]:
        """The options that meet the SLO and can be written; a variant without any stays, with the reasons."""
        obstacles = {option.accelerator: self._obstacle(variant, option) for option in variant.options}
        usable = tuple(option for option in variant.options if not obstacles[option.accelerator])
        if not usable:
            reasons = "; ".join(f"{accelerator}: {reason}" for accelerator, reason in obstacles.items())
            self.holds[variant.key] = self._hold(variant, reasons)
        else:
            words = tuple(f"not {accelerator}: {reason}" for accelerator, reason in obstacles.items() if reason)
            self.notes[variant.key] = (*self.notes.get(variant.key, ()), *words)
        return usable

    def _hold(self, variant: Variant, reasons: str) -> Hold:
        """Why none of a variant's options can be chosen."""
        if any(self.capacities[_key(variant, option)].rate_per_s > 0 for option in variant.options):
            return Hold(kind=HoldKind.ACCELERATOR_UNAVAILABLE, words=f"no accelerator can be chosen: {reasons}")
        return Hold(kind=HoldKind.SLO_UNATTAINABLE, words=f"SLO unattainable: {reasons}")

    def _obstacle(self, variant: Variant, option: Option) -> str:
        capacity = self.capacities[_key(variant, option)]
        if capacity.rate_per_s <= 0:
            return capacity.words
        if self.partial and option.accelerator != variant.current.accelerator:
            return f"{self.partial}: the accelerator is kept until all do"
        if self.keeps_accelerator and option.accelerator != variant.current.accelerator:
            return f"{self.kept}, and the accelerator is kept"
        return str(option.unwritable or "")

    def _stop_beside_unknown(self, variants: Iterable[Variant]) -> None:
        """What nothing can be chosen for stays: without a profile there, what the others must carry is unknown."""
        variants = list(variants)
        kept = [each for each in variants if each.key in self.holds and each.current.replicas > 0]
        unknown = [each for each in kept if each.key.on(each.current.accelerator) not in self.capacities]
        for variant in variants if unknown else ():
            words = f"{unknown[0].current.accelerator} has no profile"
            self.holds.setdefault(variant.key, beside_unknown(unknown[0], words))

    def _rankable(self, variant: Variant, options: tuple[Option, ...], unpriced: list[str]) -> tuple[Option, ...]:
        """Options among which a price or an order decides; while the model misses a price accelerators are kept."""
        kept = tuple(option for option in options if option.accelerator == variant.current.accelerator)
        is_ranked = len(options) > 1 or any(option.cost_per_hour is None for option in options)
        if variant.settings[ACCELERATOR].value != CHOOSE or not unpriced or options == kept or not is_ranked:
            return options
        words = f"cost of {', '.join(unpriced)} is unknown"
        if kept:
            self.notes[variant.key] += (f"{words}: the accelerator is kept",)
        else:
            others = "; ".join((words, *self.notes[variant.key]))
            words = f"no accelerator can be chosen: {others}: set accelerators[].costPerHour"
            self.holds[variant.key] = Hold(kind=HoldKind.PRICE_MISSING, words=words)
        return kept

    def _candidates(self, variant: Variant, options: Iterable[Option], *, is_priced: bool) -> Iterable[Candidate]:
        for order, option in enumerate(options):
            price = option.cost_per_hour if is_priced else None
            weight = relative_weight(variant) if price is None else price
            yield Candidate(
                key=_key(variant, option),
                weight=weight,
                cost_per_hour=option.cost_per_hour,
                start_weight=weight * start_share(variant),
                devices=self.devices.drawn(variant, option.accelerator, option.devices_per_replica),
                order=order,
            )


def _key(variant: Variant, option: Option) -> CandidateKey:
    return variant.key.on(option.accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer(EngineAnswer):
    """The sized candidates, what learned profiles were corrected by, and what the models need."""

    capacities: Capacities
    corrections: Mapping[ResourceKey, Correction]
    problems: Mapping[ModelKey, ModelProblem]
    forecasts: Forecasts = field(default_factory=Forecasts)

    def expect(self, rates: Collection[tuple[CandidateKey, float]]) -> Mapping[CandidateKey, Performance]:
        return self.capacities.expect(rates)

    def max_batch_size(self, candidate: CandidateKey) -> int | None:
        capacity = self.capacities.of.get(candidate)
        return None if capacity is None else capacity.max_batch_size

    def is_unsure(self, candidate: CandidateKey) -> bool:
        capacity = self.capacities.of.get(candidate)
        return capacity is not None and capacity.is_bound_by_reach

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterator[Step]:
        yield from _load_steps(state, formulated.demands.get(state.variant.model))
        for option in state.variant.options:
            key = state.variant.key.on(option.accelerator)
            capacity = self.capacities.of.get(key)
            if capacity is not None:
                words = f"one replica on {_taken(option)}: {capacity.words} ({_parameters(option.profile, capacity)})"
                yield Step(stage="capacity", before="", after=f"{capacity.rate_per_s:.4g} req/s", reason=words)
                yield from _learned_steps(option)
        correction = self.corrections.get(state.variant.key)
        if correction is not None and self.capacities.of:
            yield Step(stage="correction", before="", after=f"x {correction.factor:.2f}", reason=correction.reason)

    def figures(self, variant: Variant) -> Iterator[Figure]:
        """What is forecast, or why the load of now decides; nothing where no history was asked for."""
        model = variant.model
        forecast, subject = self.forecasts.of.get(model), model.model_id
        if forecast is not None:
            for level, per_s in forecast.quantiles.items():
                yield Figure(
                    subject=subject,
                    name=f"forecast, {level * 100:.0f} % quantile",
                    value=per_s,
                    unit="req/s",
                    reason=f"the most that arrives {forecast.told_window}",
                )
            yield Figure(subject=subject, name="margin", value=forecast.margin, reason=forecast.why)
            yield Figure(
                subject=subject,
                name="below 90 % quantile",
                value=None if forecast.covered is None else round(100 * forecast.covered, 1),
                unit="%",
                reason=f"of its loads in the last {TRIAL_DAYS} days, forecast from the days before; "
                f"{forecast.covered_of_all:.1%} of all models'",
            )
        elif model in self.forecasts.why_not:
            reason = self.forecasts.why_not[model]
            yield Figure(subject=subject, name="forecast", value=None, unit="req/s", reason=reason)

    def why(self, variant: Variant, desired: Allocation) -> str:
        demand = self.problems[variant.model].demand
        if demand is not None and demand.rate_per_s > 0:
            return "requests arrive, and their lengths are not known: one replica wakes to measure them"
        return "no arrivals: the fewest replicas allowed" if desired.replicas else "no arrivals, and none run"

    def why_kept(self, variant: Variant, desired: Allocation, formulated: FormulatedProblem, after: Allocations) -> str:
        demand, needs = formulated.demands.get(variant.model), formulated.needs
        if demand is not None and demand.forecast is not None and desired == variant.current and desired.replicas:
            is_spare = demand.stabilized.amount_per_s > demand.rate_per_s
            return demand.forecast.why_kept if is_spare else ""
        if demand is None or demand.variation is None or desired != variant.current or not desired.replicas:
            return ""
        variation, requirement = demand.variation, needs.of_variant(variant.key)
        if requirement is None or requirement.fixed is not None:
            is_paused = (
                requirement is not None and variation.peak_per_s > 0 and desired.replicas > idle_replicas(variant)
            )
            return _was_asked(variation) if is_paused else ""
        each = (needs.carried(variant.key, desired) or 0.0) / desired.replicas
        rest = needs.total(variant.model, after) - each
        bounds = formulated.problem.bounds.get(variant.key)
        is_least = bounds is not None and desired.replicas <= bounds.minimum
        if each <= 0 or rest < demand.rate_per_s or rest >= demand.stabilized.amount_per_s or is_least:
            return ""
        if rest < demand.stabilized.kept_per_s:
            return _was_asked(variation)
        return _may_come_back(variation, rest / (1 + demand.headroom))


def _load_steps(state: VariantState, demand: ModelDemand | None) -> Iterator[Step]:
    load = state.load
    if load is None or demand is None:
        return
    observed, share = f"{load.arrival_rate_per_s:.4g} req/s", state.variant.share
    routed = "" if share is None else f"; {share * 100:.4g} % of its model's, by route weight"
    origin = f" ({load.lengths_from})" if load.lengths_from else ""
    yield Step(
        stage="load",
        before="",
        after=observed,
        reason=f"arrivals from {load.arrivals_from}, {load.window_s / 60:g}m window; "
        f"{load.output_tokens:.4g} output tokens a request{origin}{routed}",
    )
    also = "; ".join(filter(None, (demand.spread, demand.event)))
    if demand.forecast is not None:
        words = "; ".join(filter(None, (demand.forecast.words, also)))
        yield Step(stage="demand", before=observed, after=f"{demand.rate_per_s:.4g} req/s", reason=words)
        if demand.stabilized.amount_per_s > demand.rate_per_s:
            after = f"{demand.stabilized.amount_per_s:.4g} req/s"
            yield Step(
                stage="kept", before=f"{demand.rate_per_s:.4g} req/s", after=after, reason=demand.forecast.why_kept
            )
        return
    yield Step(
        stage="demand",
        before=observed,
        after=f"{demand.rate_per_s:.4g} req/s",
        reason=f"load and {demand.headroom * 100:.3g} % headroom{f': {also}' if also else ''}",
    )
    if demand.variation is not None:
        # What must be carried beyond the demand of now, for what the load did before.
        variation = demand.variation
        words = (
            f"peak {variation.peak_per_s:.4g} req/s {ago(variation.peak_age_s)} "
            f"in the last {span(variation.payback_s)}; "
            f"mean {variation.mean_per_s:.4g}, standard deviation {variation.deviation_per_s:.2g}"
        )
        before, after = f"{demand.rate_per_s:.4g} req/s", f"{demand.stabilized.amount_per_s:.4g} req/s"
        yield Step(stage="variation", before=before, after=after, reason=words)


def _taken(option: Option) -> str:
    """`H100`, or `2 x H100` where a replica takes several."""
    several = option.accelerators_per_replica > 1
    return f"{option.accelerators_per_replica} x {option.accelerator}" if several else option.accelerator


def _parameters(profile: PerformanceProfile, capacity: ReplicaCapacity) -> str:
    """The profile's times in words: what an iteration takes, and a prompt."""
    alpha, beta = ms_from_seconds(profile.alpha_s), ms_from_seconds(profile.beta_s)
    known = [f"an iteration takes {alpha:.4g} ms and {beta:.4g} ms a request"]
    if profile.gamma_s is not None:
        each = f" and {ms_from_seconds(profile.delta_s):.4g} ms a token" if profile.delta_s is not None else ""
        known.append(f"a prompt {ms_from_seconds(profile.gamma_s):.4g} ms{each}")
    if profile.prompt_s is not None:
        known.append(f"{ms_from_seconds(profile.prompt_s):.4g} ms a prompt token, {profile.token_budget} an iteration")
    if profile.overlap > 0:
        known.append(f"{profile.overlap:.0%} of an iteration is free for them")
    if profile.tokens_per_step > 1:
        known.append(f"{profile.tokens_per_step:.3g} tokens a step")
    return ", ".join((*known, f"at most {capacity.max_batch_size} requests"))


def _learned_steps(option: Option) -> list[Step]:
    """How good a learned profile is, and what it covers."""
    learning = option.profile.learning
    if learning is None:
        return []
    ranges = (
        f"batch {_range(learning.batch)}, {_range(learning.input_tokens)} input and "
        f"{_range(learning.output_tokens)} output tokens"
    )
    words = f"from {learning.samples} samples, median error {learning.error * 100:.3g} %, {ranges}"
    words += f", {learning.cached:.0%} of prompts in the prefix cache" if learning.cached else ""
    words += f"; sized for {learning.margin:.3g} times the load" if learning.margin > 1 else ""
    return [Step(stage="learned", before="", after=learning.on, reason=words)]


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _was_asked(variation: LoadVariation) -> str:
    asked = f"{variation.peak_per_s:.4g} req/s were asked for {ago(variation.peak_age_s)}"
    return f"kept: {asked}; payback {span(variation.payback_s)}"


def _may_come_back(variation: LoadVariation, rest_per_s: float) -> str:
    return (
        f"kept: without it {rest_per_s:.4g} req/s would be carried, too near to the mean of {variation.mean_per_s:.4g} "
        f"for a standard deviation of {variation.deviation_per_s:.2g}; payback {span(variation.payback_s)}"
    )


class ArrivalSafeguards(Safeguards):
    """What queueing knows of the past from arrivals, and of profiles from what was measured."""

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """As long as they may still be starting: how many are needed does not hang on how many report."""
        return variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + LIVE_WINDOW_S

    def forgets(self, snapshot: Snapshot, members: Sequence[Variant], payback_s: float) -> str:
        past = snapshot.observed.past.get(members[0].model)
        if isinstance(past, NoAnswer):
            return f"what arrived before is not known: {past.reason}"
        return "" if past is None else why_not_whole(past, snapshot.now_s, payback_s)

    def contradictions(self, snapshot: Snapshot, variants: Iterable[Variant]) -> Mapping[ResourceKey, Hold]:
        return find_contradictions(snapshot, variants)

    def why_capacity_unknown(self, state: VariantState) -> str:
        variant = state.variant
        if state.gap is None and not any(
            option.accelerator == variant.current.accelerator for option in variant.options
        ):
            return f"{variant.current.accelerator} has no profile"
        return str(state.gap or "")


class QueueingEngine(SizingEngine):
    """Sizes every option of every free variant, all at once."""

    name = Engine.QUEUEING
    basis = Basis.LOAD
    safeguards = ArrivalSafeguards()

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        obstacles = (words for member in members if (words := _against(member, load)))
        obstacle = next(obstacles, "") or _out_of_reach(members, load)
        return Admission(is_admitted=not obstacle, reason=obstacle or _profiled(members))

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        """A profile may turn out wrong, or not to reach the load: then saturation must answer in the same run."""
        return frozenset(EngineQuestion)

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        load, observation = snapshot.observed.loads.get(variant.model), snapshot.observed.observations.get(variant.key)
        known = load if isinstance(load, Load) else None
        return Lacks(
            metrics=_absence(load, observation),
            means=_missing_means(variant, known),
            replicas=_unreported(variant, known, observation),
        )

    def size(self, given: SizingInput, models: Models) -> QueueAnswer:
        states = [state for members in models.values() for state in members]
        corrections = {
            state.variant.key: correction
            for state in states
            if (correction := _correction(given.snapshot, state.variant)) is not None
        }
        capacities = Capacities(
            [
                row
                for state in states
                for row in _rows_of(state, corrections.get(state.variant.key), _hit_rate(given.snapshot, state.variant))
            ]
        )
        variations = weigh_variations(given, models, corrections, capacities)
        forecasts = _forecasts(given.snapshot, models, capacities)
        problems = {
            model: QueueProblem(
                model=model,
                members=members,
                capacities=capacities.of,
                devices=given.devices,
                variation=variations.get(model),
                spread=_spread(given.snapshot, members, capacities.of),
                forecast=forecasts.of.get(model),
                event=forecasts.events.get(model),
            ).problem(load)
            for model, members in models.items()
            if (load := members[0].load) is not None
        }
        return QueueAnswer(capacities=capacities, corrections=corrections, problems=problems, forecasts=forecasts)


def _forecasts(snapshot: Snapshot, models: Models, capacities: Capacities) -> Forecasts:
    """What is forecast of the models whose replicas' capacity is known; a model of several has that of their mean."""
    members = {model: [state.variant for state in states] for model, states in models.items()}
    carried = {
        model: significant(_carried(states, capacities) / replicas)  # the same whatever the number of equal replicas
        for model, states in models.items()
        if (replicas := sum(state.variant.current.replicas for state in states)) > 0
    }
    return forecast_loads(snapshot, members, carried)


def _spread(
    snapshot: Snapshot, members: Sequence[VariantState], capacities: Mapping[CandidateKey, ReplicaCapacity]
) -> Spread | None:
    """How replicas that served all the time were loaded lately, against what each carries; None for fewer than two."""
    rates, carried = list[float](), list[float]()
    for variant in (state.variant for state in members):
        capacity, by_pod = capacities.get(variant.key.on(variant.current.accelerator)), dict[str, float]()
        for trace in snapshot.observed.traces.get(variant.key, ()):
            recent = trace.series.get(Name.COMPLETIONS, NOTHING)[-int(SPREAD_S / trace.step_s) :]
            if recent.size and np.isfinite(recent).mean() >= SEEN and trace.step_s * recent.size >= SEEN * SPREAD_S:
                by_pod[trace.pod] = by_pod.get(trace.pod, 0.0) + float(np.nanmean(recent))
        if capacity is not None and capacity.rate_per_s > 0:
            rates += by_pod.values()
            carried += [capacity.rate_per_s] * len(by_pod)
    if len(rates) < 2 or not sum(rates):
        return None
    served, usual = np.array(rates), sum(rates) / sum(carried)
    # Chance makes some replica the fullest of any that are loaded alike.
    sure = (served - CHANCE * np.sqrt(served / SPREAD_S)) / np.array(carried) / usual
    factor = float(sure.max())
    full = sure >= (1 + factor) / 2
    words = f"{full.sum()} of {len(rates)} replicas carry {served[full].sum() / served.sum() * 100:.0f} % of the load"
    return Spread(factor=factor, words=words)


def _rows_of(state: VariantState, correction: Correction | None, hit_rate: float | None) -> Iterable[SizingRow]:
    """The candidates to size: all options of a free variant, the current accelerator's of a held one.

    What is observed on the current accelerator corrects nothing on the others.
    """
    variant, load = state.variant, state.load
    if variant.service_class is None or load is None or not load.has_lengths or state.gap is not None:
        return
    for option in variant.options:
        is_current = option.accelerator == variant.current.accelerator
        if state.is_free or is_current:
            yield SizingRow(
                key=variant.key.on(option.accelerator),
                profile=option.profile,
                load=load,
                service_class=variant.service_class.value,
                correction=correction.factor if correction is not None and is_current else 1.0,
                hit_rate=hit_rate,
            )


def _hit_rate(snapshot: Snapshot, variant: Variant) -> float | None:
    """The share of prompts that the warmest replica's prefix cache holds: one that has just started is still cold."""
    rates = [each.prefix_hit_rate for each in snapshot.observed.replicas.get(variant.key, ())]
    return max((rate for rate in rates if rate is not None and 0 <= rate <= 1), default=None)


def _correction(snapshot: Snapshot, variant: Variant) -> Correction | None:
    """A learned profile is held against what its replicas do now; one that somebody gave is taken at its word."""
    running = (option.profile for option in variant.options if option.accelerator == variant.current.accelerator)
    profile = next(running, None)
    if profile is None or profile.learning is None:
        return None
    return correct(snapshot.observed.traces.get(variant.key, ()), profile)


def _absence(load: Load | NoAnswer | None, observation: Observation | None) -> Hold | None:
    if isinstance(load, NoAnswer):
        return hold_of(load)
    if observation is not None and observation.absence is not None:
        return hold_of(observation.absence)
    return NOT_ASKED if load is None else None


def _unreported(variant: Variant, load: Load | None, observation: Observation | None) -> Hold | None:
    """Replicas that start or are not scraped carry load that was not counted.

    Among many one always does: what a twentieth of them carries is within the headroom.
    """
    if load is None or observation is None or not load.is_by_replicas:
        return None
    reporting, expected = observation.replicas_reporting, variant.current.replicas
    words = f"{reporting} of {expected} replicas of {variant.key.label} report"
    return None if is_usual_churn(expected - reporting, expected) else load_partial(words)


def _missing_means(variant: Variant, load: Load | None) -> Hold | None:
    if not variant.current.accelerator:
        words = (
            "accelerator unknown: no node selector, affinity or label "
            "inference.optimization/acceleratorName says what it runs on"
        )
        return Hold(kind=HoldKind.ACCELERATOR_UNKNOWN, words=words)
    if not variant.options:
        words = "queueing needs a profile: give one under models[].profiles, or learn it by fit"
        return lacks_profile(variant) or Hold(kind=HoldKind.PROFILE_MISSING, words=words)
    if variant.service_class is None:
        return Hold(kind=HoldKind.SERVICE_CLASS_MISSING, words="queueing needs a service class")
    return _lacks_prompt(variant, load)


def _against(variant: Variant, load: Load | None) -> str:
    """Why a variant cannot be sized by a queue; empty when it can, or when somebody must first mend its class."""
    if variant.is_held_by(HoldKind.SERVICE_CLASS_MISSING):
        return ""
    if not variant.options:
        return f"{variant.key.label} has no profile, given or learned"
    if variant.service_class is None:
        return f"{variant.key.label} has no service class"
    if not variant.current.accelerator:
        return f"{variant.key.label} runs on an unknown accelerator"
    return _beyond_learned(variant, load)


def _beyond_learned(variant: Variant, load: Load | None) -> str:
    """What was learned says nothing of requests unlike those it was learned from."""
    if load is None or load.arrival_rate_per_s <= 0:
        return ""
    for option in variant.options:
        learning = option.profile.learning
        if learning is None:
            continue
        words = why_outside(learning, input_tokens=load.input_tokens, output_tokens=load.output_tokens)
        if words:
            return f"the learned profile of {variant.key.label} on {option.accelerator} does not reach: {words}"
    return ""


def _out_of_reach(members: Sequence[Variant], load: Load | None) -> str:
    """Why batches that were never seen would have to carry the load; empty where those that are sure can.

    Held against what runs now: where that carries the load inside what is sure, what is not seen is only not used.
    """
    if load is None or load.arrival_rate_per_s <= 0 or not has_learned(members):
        return ""
    rows = [row for member in members for row in _current_rows(member, load)]
    capacities = Capacities(rows).of
    carried = sum(
        capacities[key].rate_per_s * member.current.replicas
        for member in members
        if (key := member.key.on(member.current.accelerator)) in capacities
    )
    unsure = [capacity for capacity in capacities.values() if capacity.is_bound_by_reach]
    headroom = max(member.settings[HEADROOM].value for member in members)
    if not unsure or carried >= load.arrival_rate_per_s * (1 + headroom):
        return ""
    row = unsure[0].row
    return (
        f"the learned profile of {row.key.variant.label} on {row.key.accelerator} does not reach: it is sure up to a "
        f"batch of {row.profile.reach}, with which {carried:.4g} req/s are carried"
    )


def _current_rows(variant: Variant, load: Load) -> Iterable[SizingRow]:
    if variant.service_class is None or (_lacks_prompt(variant, load) is not None):
        return
    for option in variant.options:
        if option.accelerator == variant.current.accelerator:
            yield SizingRow(
                key=variant.key.on(variant.current.accelerator),
                profile=option.profile,
                load=load,
                service_class=variant.service_class.value,
            )


def _profiled(members: Iterable[Variant]) -> str:
    profiles = [option.profile for member in members for option in member.options]
    if not profiles:
        return "waits for its service class"
    learned = [profile for profile in profiles if profile.learning is not None]
    profile, word = (learned[0], "learned") if learned else (profiles[0], "given")
    return f"profile {word} at {profile.place}" if profile.place is not None else f"profile {word}"


def _lacks_prompt(variant: Variant, load: Load | None) -> Hold | None:
    """Why a law with prefill has no answer: the length of the prompts is not known."""
    if load is None or load.input_tokens is not None or not load.has_lengths:
        return None
    if all(option.profile.law == DECODE_ONLY for option in variant.options):
        return None
    words = "no series has the input tokens of its requests, which a profile with prefill needs"
    return Hold(kind=HoldKind.PROMPTS_UNKNOWN, words=words)
