"""What arrived before, counted in requests as long as those of now: longer ones take more of a replica."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from reconciler.decision.engines.port import Models, SizingInput
from reconciler.decision.engines.queueing.capacities import Capacities, SizingRow
from reconciler.decision.problem.load_variation import LoadVariation, load_variation
from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.loads import Load, PastArrivals
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning.correction import Correction

ALIKE = 1.01
"""Requests that are longer by less weigh the same."""
HEAVIEST = 1000.0
"""What a request weighs with which no replica keeps its targets."""
LIGHTEST = 0.01
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
    weighed = dict(given.variations)
    for model in {*outputs, *inputs}:
        now, past = models[model][0].load, given.snapshot.observed.past[model]
        carried = _carried(models[model], capacities)
        if carried <= 0 or now is None or not isinstance(past, PastArrivals):
            continue
        weights = np.ones(len(past.rates_per_s))
        if model in outputs:
            more = _more(carried, _carried(models[model], longer[0]))
            weights += more * _part(past.output_tokens, now.output_tokens, outputs[model].output_tokens)
        if model in inputs:
            more = _more(carried, _carried(models[model], longer[1]))
            weights += more * _part(past.input_tokens, now.input_tokens or 0.0, inputs[model].input_tokens or 0.0)
        rates = np.array(past.rates_per_s) * np.maximum(weights, LIGHTEST)
        found = load_variation(
            replace(past, rates_per_s=tuple(rates.tolist())), given.snapshot.now_s, given.variations[model].payback_s
        )
        weighed[model] = given.variations[model] if found is None else found
    return weighed


def _longest(
    given: SizingInput,
    models: Models,
    lengths_of: Callable[[PastArrivals], Sequence[float]],
    length_of: Callable[[Load], float | None],
) -> Iterator[tuple[ModelKey, Load, float]]:
    """Models whose requests were longer within `payback` than now: their load, and the longest."""
    for model, variation in given.variations.items():
        past = given.snapshot.observed.past.get(model)
        load = models[model][0].load if model in models else None
        if load is None or not isinstance(past, PastArrivals) or not load.has_lengths:
            continue
        lengths, now = np.array(lengths_of(past)), length_of(load)
        ages_s = given.snapshot.now_s - past.start_s - past.step_s * np.arange(len(lengths))
        known = lengths[np.isfinite(lengths) & (ages_s >= 0) & (ages_s <= variation.payback_s)]
        if known.size and now and known.max() > ALIKE * now:
            yield model, load, float(known.max())


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


def _part(lengths: Sequence[float], now: float, longest: float) -> Floats:
    """Where each length is between that of now (0) and the longest (1); one that is not known is that of before."""
    known = np.array(lengths)
    (places,) = np.nonzero(np.isfinite(known))
    before = np.searchsorted(places, np.arange(known.size), side="right") - 1
    filled = known[places[np.maximum(before, 0)]]
    return np.asarray((filled - now) / (longest - now))
