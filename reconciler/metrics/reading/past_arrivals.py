"""Each model's arrivals before now, from the source that its load is taken from, and how long requests were."""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.answers import Absence, Answer, NoAnswer
from reconciler.domain.measured.loads import ArrivalSource, Load, PastArrivals, UsualLoad
from reconciler.metrics.grids import Grid, grid_over
from reconciler.metrics.quantities.history import UNNAMED_POD
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.attribution import Attribution
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.demand import Lengths
from reconciler.metrics.reading.folding import picked_model, written_model
from reconciler.metrics.reading.loads import Model
from reconciler.metrics.reading.matrices import decode_matrix
from reconciler.metrics.reading.readings import ReplicaSeries, Served

Rates = dict[Served, "array[float]"]
ServedOf = Callable[[Mapping[str, str], LabelNames], Served]
FirstNames = Mapping[ResourceKey, Served]
"""The name that a variant's model is served under, where its series tell none."""


@dataclass(slots=True, kw_only=True)
class PastReadings:
    """One cluster's rates by quantity and served model on one grid, NaN where nothing is known."""

    grid: Grid | None = None
    rates: dict[Name, Rates] = field(default_factory=dict)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def is_asked(self, name: Name) -> bool:
        """Whether there is any answer, be it that it failed."""
        return name in self.rates or name in self.failed


def read_past(
    answers: Iterable[Answer],
    names: LabelNames,
    attribution: Attribution,
    first_names: FirstNames,
    served_of: Mapping[str, ServedOf],
) -> PastReadings:
    """The answers of one cluster to the quantities of `served_of`, put together on one grid; what failed is left out.

    What a pod tells without a model is of the first served name of its variant.
    """
    asked = [answer for answer in answers if answer.query.quantity in served_of and answer.query.step_s is not None]
    readings = PastReadings(grid=grid_over([answer.query for answer in asked]))

    def owner_of(labels: Mapping[str, str], name: Name) -> Served | None:
        served = served_of[name](labels, names)
        pod = labels.get(UNNAMED_POD, "")
        if served.model or not pod:
            return served
        variant = attribution.variant_of(ReplicaSeries(served.namespace, pod, "", ""))
        return None if variant is None else first_names[variant]

    for answer in asked:
        _read_one(answer, owner_of, readings)
    return readings


def past_of(
    models: Iterable[Model], loads: Mapping[ModelKey, Load | NoAnswer], readings: PastReadings
) -> dict[ModelKey, PastArrivals | NoAnswer]:
    """The arrivals of each model whose load is known, or why they are not; no key where nobody asked for them."""
    found: dict[ModelKey, PastArrivals | NoAnswer] = {}
    for model in models:
        load = loads[model.key]
        if isinstance(load, Load) and readings.grid is not None:
            found[model.key] = _past_of(model, load, readings, readings.grid)
    return found


def lengths_in(model: Model, readings: PastReadings) -> Lengths:
    """How long the requests of a model were that were finished in all this time."""
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings, is_usable) or ()
    return Lengths(
        output_tokens=_mean_length(Name.PAST_OUTPUT_TOKENS, finished, model.served, readings),
        input_tokens=_mean_length(Name.PAST_INPUT_TOKENS, finished, model.served, readings),
    )


def _mean_length(
    name: Name, finished: Sequence[float], served: Sequence[Served], readings: PastReadings
) -> float | None:
    tokens = _summed(name, served, readings, is_usable) or ()
    known = [pair for pair in zip(tokens, finished, strict=False) if all(map(is_usable, pair))]
    count = math.fsum(each for _, each in known)
    return math.fsum(told for told, _ in known) / count if count > 0 else None


def usual_of(models: Iterable[Model], readings: PastReadings) -> dict[ModelKey, UsualLoad]:
    """What a day of each model was like; one of which nothing was finished in all of it has no key."""
    found: dict[ModelKey, UsualLoad] = {}
    grid = readings.grid
    for model in models if grid is not None else ():
        finished = _summed(Name.USUAL_COMPLETIONS, model.served, readings, is_usable)
        if finished is None or grid is None:
            continue
        found[model.key] = UsualLoad(
            start_s=grid.start_s,
            step_s=grid.step_s,
            rates_per_s=tuple(rate * model.share for rate in finished),
            output_tokens=_lengths(Name.USUAL_OUTPUT_TOKENS, finished, model.served, readings),
            input_tokens=_lengths(Name.USUAL_INPUT_TOKENS, finished, model.served, readings),
        )
    return found


def _past_of(model: Model, load: Load, readings: PastReadings, grid: Grid) -> PastArrivals | NoAnswer:
    names = _counting(load)
    needed = (*names, Name.PAST_COMPLETIONS, Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
    failed = next((readings.failed[name] for name in needed if name in readings.failed), None)
    rates = _rates_of(names, model.served, readings)
    if rates is None:
        named = " or ".join(f'"{printable(one.model)}"' for one in model.served)
        missing = NoAnswer(absence=Absence.MISSING, reason=f"no series tells what arrived for model {named} before")
        return failed or missing
    finished = _summed(Name.PAST_COMPLETIONS, model.served, readings, is_usable) or [math.nan] * grid.count
    outputs, inputs = (
        _lengths(name, finished, model.served, readings) for name in (Name.PAST_OUTPUT_TOKENS, Name.PAST_INPUT_TOKENS)
    )
    return PastArrivals(
        start_s=grid.start_s,
        step_s=grid.step_s,
        window_s=load.window_s,
        rates_per_s=tuple(rate * model.share for rate in rates),
        output_tokens=outputs,
        input_tokens=() if load.input_tokens is None else inputs,
        reason="" if failed is None else failed.reason,
    )


def _counting(load: Load) -> tuple[Name, ...]:
    """What the arrivals of before are counted by: whoever counts those of now."""
    if load.is_by_replicas:
        return Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH
    is_configured = load.arrivals_from is ArrivalSource.CONFIGURED
    return (Name.PAST_CONFIGURED if is_configured else Name.PAST_ENDPOINT_PICKER,)


def _rates_of(names: Sequence[Name], served: Sequence[Served], readings: PastReadings) -> list[float] | None:
    """The rates by the source of the load, None without any series of it."""
    rates = _summed(names[0], served, readings, is_usable)
    if len(names) == 1 or rates is None:
        return rates
    growth = _summed(names[1], served, readings, _is_usable_growth)
    if growth is None:
        return None
    pairs = zip(rates, growth, strict=True)
    return [math.nan if math.isnan(more) else rate + max(0.0, more) for rate, more in pairs]


def _lengths(
    name: Name, finished: Sequence[float], served: Sequence[Served], readings: PastReadings
) -> tuple[float, ...]:
    """Tokens of a request; NaN where none was finished or nothing is known, nothing where nobody asked."""
    if not readings.is_asked(name):
        return ()
    tokens = _summed(name, served, readings, is_usable)
    if tokens is None:
        return tuple(math.nan for _ in finished)
    return tuple(told / count if count > 0 else math.nan for told, count in zip(tokens, finished, strict=True))


def _summed(
    name: Name, served: Sequence[Served], readings: PastReadings, is_known: Callable[[float], bool]
) -> list[float] | None:
    """The sum over served names that have series, NaN where one of them has a gap.

    A name that nobody had asked for yet, while others were, is no gap: its counter begins with its first request.
    """
    told = [rates for one in served if (rates := readings.rates.get(name, {}).get(one)) is not None]
    if len(told) < 2:
        return [rate if is_known(rate) else math.nan for rate in told[0]] if told else None
    firsts = [next((at for at, rate in enumerate(rates) if not math.isnan(rate)), len(rates)) for rates in told]
    sums = []
    for at, parts in enumerate(zip(*told, strict=True)):
        begun = [part for part, first in zip(parts, firsts, strict=True) if at >= first]
        sums.append(math.fsum(begun) if begun and all(map(is_known, begun)) else math.nan)
    return sums


def _is_usable_growth(rate: float) -> bool:
    return is_usable(abs(rate))


def _read_one(
    answer: Answer, owner_of: Callable[[Mapping[str, str], Name], Served | None], readings: PastReadings
) -> None:
    matrix = decode_matrix(answer)
    name, grid = Name(answer.query.quantity), readings.grid
    if isinstance(matrix, NoAnswer):
        readings.failed.setdefault(name, matrix)
        return
    readings.warnings.update(dict.fromkeys(matrix.warnings))
    rates = readings.rates.setdefault(name, {})
    for row in matrix.rows:
        served = owner_of(row.labels, name)
        if grid is not None and served is not None:
            _add_up(rates.setdefault(served, array("d", [math.nan]) * grid.count), row.times_s, row.values, grid)


def _add_up(held: "array[float]", times_s: "array[float]", values: "array[float]", grid: Grid) -> None:
    for time_s, value in zip(times_s, values, strict=True):
        index = grid.index_of(time_s)
        if index is not None:
            known = value if math.isfinite(value) else math.inf  # infinite it stays, whatever is added
            held[index] = known if math.isnan(held[index]) else held[index] + known


def _reported_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    return Served(labels.get(names.namespace, ""), labels.get(names.model, ""))


PAST_SERVED: Mapping[str, ServedOf] = {
    Name.PAST_COMPLETIONS: _reported_model,
    Name.PAST_QUEUE_GROWTH: _reported_model,
    Name.PAST_OUTPUT_TOKENS: _reported_model,
    Name.PAST_INPUT_TOKENS: _reported_model,
    Name.PAST_ENDPOINT_PICKER: picked_model,
    Name.PAST_CONFIGURED: written_model,
}
"""Whose a series of the past is, by quantity."""
USUAL_SERVED: Mapping[str, ServedOf] = {
    Name.USUAL_COMPLETIONS: _reported_model,
    Name.USUAL_OUTPUT_TOKENS: _reported_model,
    Name.USUAL_INPUT_TOKENS: _reported_model,
}
"""The same of a whole day."""
