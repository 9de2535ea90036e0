"""The mean length of a model's requests, over all replicas that finished some."""

import math
from collections.abc import Sequence

from reconciler.metrics.decoding import is_usable
from reconciler.metrics.quantities import Name
from reconciler.metrics.readings import PodSeries, Readings, Served, total


def mean_length(name: Name, served: Sequence[Served], readings: Readings) -> float | None:
    """Mean over the replicas, weighted by what each finished; NaN when all are idle, None without a series."""
    values = readings.of_pods(name)
    known = {series: values[series] for one in served for series in readings.members(name, one)}
    if not known:
        return None
    busy = {series: mean for series, mean in known.items() if not math.isnan(mean)}
    if not all(map(is_usable, busy.values())):
        return math.nan
    if len(busy) < 2:
        return next(iter(busy.values()), math.nan)
    weights = {series: _finished(series, readings) for series in busy}
    weight = total(list(weights.values()))
    return math.fsum(mean * weights[series] for series, mean in busy.items()) / weight if weight else math.nan


def _finished(series: PodSeries, readings: Readings) -> float:
    # a series without a pod speaks for all replicas of its model, as those of older recordings do
    finished = (
        readings.of_pods(Name.COMPLETIONS).get(series)
        if series.pod
        else readings.of_model(Name.COMPLETIONS, Served(series.namespace, series.model))
    )
    return finished or 0.0
