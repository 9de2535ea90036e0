"""The load of one model: its arrivals, who counted them and how long requests are, or why it is not known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.domain.measured.answers import Absence, NoAnswer
from reconciler.domain.measured.loads import ArrivalSource, Load
from reconciler.metrics.quantities.quantity import WINDOW_S, Name
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.plausibility import is_beyond_noise
from reconciler.metrics.reading.readings import MetricReadings, ReplicaSeries, Served, total
from reconciler.metrics.reading.spreads import spread_of

SEEN_BY_PICKER = 0.5
"""When the picker counts less than this part of completions, most requests reach replicas around it."""
NEGLIGIBLE_PER_S = 1e-9
Arrivals = tuple[float, ArrivalSource]
"""Requests per second, and who counted them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean tokens of a request, None where nobody told them."""

    output_tokens: float | None = None
    input_tokens: float | None = None


UNKNOWN_LENGTHS = Lengths()


def load_of(
    served: Sequence[Served], replicas: int, readings: MetricReadings, before: Lengths = UNKNOWN_LENGTHS
) -> Load | NoAnswer:
    """The load of a model over all its served names, on `replicas` in Git; an unknown part makes all unknown.

    Where none of its requests has finished lately, as of a few that take long, they are as long as those of `before`.
    """
    counted = _arrivals(served, replicas, readings)
    if isinstance(counted, NoAnswer):
        return counted
    rate_per_s, source = counted
    if rate_per_s <= NEGLIGIBLE_PER_S:
        return _idle(served, replicas, readings, source, before)
    output = mean_length(Name.OUTPUT_TOKENS, served, readings)
    read_input = mean_length(Name.INPUT_TOKENS, served, readings)
    if output is None:
        return _no(
            Absence.MISSING, f"{rate_per_s:.3g} req/s arrive for {_named(served)} but no series tells output tokens"
        )
    if before.output_tokens is not None and _sum(Name.COMPLETIONS, served, readings) == 0:
        output, read_input = before.output_tokens, before.input_tokens
    if not is_usable(output) or output == 0:
        reason = f"{rate_per_s:.3g} req/s arrive for {_named(served)} but none finished in 5m: output length unknown"
        return _no(Absence.NAN, reason)
    return Load(
        arrival_rate_per_s=rate_per_s,
        output_tokens=output,
        input_tokens=read_input if read_input is not None and is_usable(read_input) else None,
        input_spread=_input_spread(served, readings),
        window_s=WINDOW_S,
        arrivals_from=source,
    )


def mean_length(name: Name, served: Sequence[Served], readings: MetricReadings) -> float | None:
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


def _input_spread(served: Sequence[Served], readings: MetricReadings) -> float | None:
    told: dict[float, float] = {}
    for one in served:
        for bound, rate in readings.buckets.get(one, {}).items():
            told[bound] = told.get(bound, 0.0) + rate
    return spread_of(told, WINDOW_S)


def _finished(series: ReplicaSeries, readings: MetricReadings) -> float:
    # a series without a pod speaks for all replicas of its model, as those of older recordings do
    finished = (
        readings.of_pods(Name.COMPLETIONS).get(series)
        if series.pod
        else readings.of_model(Name.COMPLETIONS, Served(series.namespace, series.model))
    )
    return finished or 0.0


def _arrivals(served: Sequence[Served], replicas: int, readings: MetricReadings) -> Arrivals | NoAnswer:
    return (
        _configured(served, readings)
        or _endpoint_picker(served, replicas, readings)
        or _completions_and_growth(served, replicas, readings)
    )


def _configured(served: Sequence[Served], readings: MetricReadings) -> Arrivals | NoAnswer | None:
    # whoever wrote the query trusts it more than ours: while it fails, ours must not quietly take its place
    if Name.ARRIVALS_CONFIGURED in readings.failed:
        return readings.failed[Name.ARRIVALS_CONFIGURED]
    return _counted(Name.ARRIVALS_CONFIGURED, served, readings, ArrivalSource.CONFIGURED)


def _endpoint_picker(served: Sequence[Served], replicas: int, readings: MetricReadings) -> Arrivals | NoAnswer | None:
    counted = _counted(Name.ARRIVALS_ENDPOINT_PICKER, served, readings, ArrivalSource.ENDPOINT_PICKER)
    completed = _sum(Name.COMPLETIONS, served, readings)
    if not isinstance(counted, tuple) or completed is None or not is_usable(completed):
        return counted
    if counted[0] < SEEN_BY_PICKER * completed:
        return None
    return _disagreement(counted[0], completed, served, replicas, readings) or counted


def _disagreement(
    picked_per_s: float, completed_per_s: float, served: Sequence[Served], replicas: int, readings: MetricReadings
) -> NoAnswer | None:
    """Why the picker is not believed beside replicas that all report; more is told by it where requests wait."""
    growths = [readings.of_model(Name.QUEUE_GROWTH, one) or 0.0 for one in served]
    growth = max(0.0, sum(growths)) if all(is_usable(abs(each)) for each in growths) else 0.0
    taken_per_s = completed_per_s + (growth if picked_per_s > completed_per_s else 0.0)
    reporting = {series.pod for one in served for series in readings.members(Name.RUNNING, one)}
    queued = _sum(Name.WAITING, served, readings)
    if picked_per_s > taken_per_s and (len(reporting) < replicas or queued is None or queued >= len(reporting)):
        return None
    if not is_beyond_noise(picked_per_s, taken_per_s):
        return None
    reason = (
        f"the endpoint picker counts {picked_per_s:.4g} req/s for {_named(served)} and its replicas "
        f"{taken_per_s:.4g} req/s, which is more than noise: one of them counts something else"
    )
    return _no(Absence.CONTRADICTORY, reason)


def _counted(
    name: Name, served: Sequence[Served], readings: MetricReadings, source: ArrivalSource
) -> Arrivals | NoAnswer | None:
    rate_per_s = _sum(name, served, readings)
    if rate_per_s is None:
        return None
    if not is_usable(rate_per_s):
        return _no(Absence.NAN, f"{source} of {_named(served)} is not a finite rate")
    return rate_per_s, source


def _completions_and_growth(served: Sequence[Served], replicas: int, readings: MetricReadings) -> Arrivals | NoAnswer:
    finished = _sum(Name.COMPLETIONS, served, readings)
    if finished is None:
        return _no(Absence.MISSING, _why_uncounted(served, replicas))
    if Name.QUEUE_GROWTH in readings.failed:
        return readings.failed[Name.QUEUE_GROWTH]
    completing = [one for one in served if readings.of_model(Name.COMPLETIONS, one) is not None]
    growths = [readings.of_model(Name.QUEUE_GROWTH, one) for one in completing]
    known = [growth for growth in growths if growth is not None]
    if len(known) < len(growths):
        return _no(Absence.MISSING, f"completions of {_named(served)} are there, running and waiting requests are not")
    if not is_usable(finished) or not all(is_usable(abs(growth)) for growth in known):
        return _no(Absence.NAN, f"completions or queue growth of {_named(served)} are not finite rates")
    # a queue that shrinks is served by the replicas of now: counting it as absent demand would stretch the wait
    return finished + max(0.0, sum(known)), ArrivalSource.REPLICAS


def _why_uncounted(served: Sequence[Served], replicas: int) -> str:
    if replicas == 0:
        return f"no replica of {_named(served)} runs and no endpoint picker counts its requests"
    return f"no series counts the requests of {_named(served)}: is that the name its replicas report?"


def _idle(
    served: Sequence[Served], replicas: int, readings: MetricReadings, source: ArrivalSource, before: Lengths
) -> Load | NoAnswer:
    """No arrivals: zero load, unless requests are under way that began before the window, or series are missing."""
    under_way = total([_sum(name, served, readings) or 0.0 for name in (Name.RUNNING, Name.WAITING)])
    if not is_usable(under_way) or under_way > 0:
        reason = f"{under_way:.3g} requests of {_named(served)} are under way and none arrived or finished in 5m"
        return _no(Absence.NAN, reason)
    output = mean_length(Name.OUTPUT_TOKENS, served, readings)
    if output is None and replicas > 0:
        return _no(Absence.MISSING, f"no series tells output tokens of {_named(served)}")
    return Load(
        arrival_rate_per_s=0.0,
        output_tokens=before.output_tokens or 0.0,
        input_tokens=before.input_tokens if before.output_tokens else 0.0,
        window_s=WINDOW_S,
        arrivals_from=source,
    )


def _sum(name: Name, served: Sequence[Served], readings: MetricReadings) -> float | None:
    found = [readings.of_model(name, one) for one in served]
    values = [value for value in found if value is not None]
    return total(values) if values else None


def _named(served: Sequence[Served]) -> str:
    return "model " + " or ".join(f'"{printable(one.model)}"' for one in served)


def _no(absence: Absence, reason: str) -> NoAnswer:
    return NoAnswer(absence=absence, reason=reason)
