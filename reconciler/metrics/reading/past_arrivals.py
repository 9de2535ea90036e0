"""Each model's arrivals before now, from the source that its load is taken from."""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.domain.measured.loads import ArrivalSource, Load, PastArrivals
from reconciler.metrics.grids import Grid, grid_over
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.decoding import is_usable
from reconciler.metrics.reading.folding import picked_model, written_model
from reconciler.metrics.reading.loads import Model
from reconciler.metrics.reading.matrices import decode_matrix
from reconciler.metrics.reading.readings import Served

Rates = dict[Served, "array[float]"]


@dataclass(slots=True, kw_only=True)
class PastReadings:
    """One cluster's rates by quantity and served model on one grid, NaN where nothing is known."""

    grid: Grid | None = None
    rates: dict[Name, Rates] = field(default_factory=dict)
    failed: list[NoAnswer] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)


def read_past(answers: Iterable[Answer], names: LabelNames) -> PastReadings:
    """The answers of one cluster to `past_queries`, put together on one grid; what failed is left out."""
    asked = [answer for answer in answers if answer.query.quantity in _SERVED and answer.query.step_s is not None]
    readings = PastReadings(grid=grid_over([answer.query for answer in asked]))
    for answer in asked:
        _read_one(answer, names, readings)
    return readings


def past_of(
    models: Iterable[Model], loads: Mapping[ModelKey, Load | NoAnswer], readings: PastReadings
) -> dict[ModelKey, PastArrivals]:
    """The arrivals of each model whose load is known; a model without any series has no key."""
    found: dict[ModelKey, PastArrivals] = {}
    for model in models:
        load = loads[model.key]
        rates = _rates_of(model, load, readings) if isinstance(load, Load) else None
        if isinstance(load, Load) and readings.grid is not None and rates is not None:
            found[model.key] = PastArrivals(
                start_s=readings.grid.start_s,
                step_s=readings.grid.step_s,
                window_s=load.window_s,
                rates_per_s=tuple(rate * model.share for rate in rates),
            )
    return found


def _rates_of(model: Model, load: Load, readings: PastReadings) -> list[float] | None:
    """The rates by the source of the load, None without any series of it."""
    if load.is_by_replicas:
        finished = _summed(Name.PAST_COMPLETIONS, model.served, readings, is_usable)
        growth = _summed(Name.PAST_QUEUE_GROWTH, model.served, readings, _is_usable_growth)
        if finished is None or growth is None:
            return None
        pairs = zip(finished, growth, strict=True)
        return [math.nan if math.isnan(more) else rate + max(0.0, more) for rate, more in pairs]
    is_configured = load.arrivals_from is ArrivalSource.CONFIGURED
    name = Name.PAST_CONFIGURED if is_configured else Name.PAST_ENDPOINT_PICKER
    return _summed(name, model.served, readings, is_usable)


def _summed(
    name: Name, served: Sequence[Served], readings: PastReadings, is_known: Callable[[float], bool]
) -> list[float] | None:
    """The sum over served names that have series, NaN where one of them has a gap."""
    told = [rates for one in served if (rates := readings.rates.get(name, {}).get(one)) is not None]
    if not told:
        return None
    return [math.fsum(parts) if all(map(is_known, parts)) else math.nan for parts in zip(*told, strict=True)]


def _is_usable_growth(rate: float) -> bool:
    return is_usable(abs(rate))


def _read_one(answer: Answer, names: LabelNames, readings: PastReadings) -> None:
    matrix = decode_matrix(answer)
    if isinstance(matrix, NoAnswer):
        readings.failed.append(matrix)
        return
    name, grid = Name(answer.query.quantity), readings.grid
    readings.warnings.update(dict.fromkeys(matrix.warnings))
    rates = readings.rates.setdefault(name, {})
    for row in matrix.rows:
        served = _SERVED[name](row.labels, names)
        if grid is not None:
            _add_up(rates.setdefault(served, array("d", [math.nan]) * grid.count), row.times_s, row.values, grid)


def _add_up(held: "array[float]", times_s: "array[float]", values: "array[float]", grid: Grid) -> None:
    for time_s, value in zip(times_s, values, strict=True):
        index = grid.index_of(time_s)
        if index is not None:
            known = value if math.isfinite(value) else math.inf  # infinite it stays, whatever is added
            held[index] = known if math.isnan(held[index]) else held[index] + known


def _reported_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    return Served(labels.get(names.namespace, ""), labels.get(names.model, ""))


_SERVED: Mapping[str, Callable[[Mapping[str, str], LabelNames], Served]] = {
    Name.PAST_COMPLETIONS: _reported_model,
    Name.PAST_QUEUE_GROWTH: _reported_model,
    Name.PAST_ENDPOINT_PICKER: picked_model,
    Name.PAST_CONFIGURED: written_model,
}
"""Whose a series is, by quantity."""
