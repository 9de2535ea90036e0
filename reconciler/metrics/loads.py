"""The load of each model, the share of each variant, and the requests queued before its replicas."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.history import Floats, LoadHistory
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ArrivalSource, Load, Observation, UpstreamQueue
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import is_usable, printable
from reconciler.metrics.quantities import WINDOW_S, Name
from reconciler.metrics.readings import MetricReadings, ObjectName, Served, grouped, served_by, total
from reconciler.metrics.replicas import Sightings, is_beyond_noise

SEEN_BY_PICKER = 0.5
"""Below this share of completions most requests bypass the picker."""
NEGLIGIBLE_PER_S = 1e-9

# ---- models, and why their requests cannot be counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model with its variants and served names; `obstacle` says why its requests cannot be counted.

    `share` is the fraction of the requests under these names that its variants get.
    """

    key: ModelKey
    members: tuple[Variant, ...]
    served: tuple[Served, ...]
    obstacle: NoAnswer | None
    share: float = 1.0


def models_of(
    variants: Sequence[Variant], sightings: Sightings, observations: Mapping[ResourceKey, Observation]
) -> Iterator[Model]:
    """Every model that has a variant."""
    claims: dict[Served, set[str]] = {}
    for variant in variants:
        for served in served_by(variant):
            claims.setdefault(served, set()).add(variant.model.model_id)
    routed = grouped((variant.model.whole, variant) for variant in variants if variant.share is not None)
    for key, members in grouped((variant.model, variant) for variant in variants).items():
        share = members[0].share
        counted = members if share is None else routed[key.whole]
        names = tuple(sorted({one for variant in counted for one in served_by(variant)}))
        yield Model(
            key=key,
            members=tuple(members),
            served=names,
            obstacle=_silent(counted, sightings, observations) or _misnamed(counted, names, sightings, claims),
            share=1.0 if share is None else share,
        )


def _silent(
    members: Sequence[Variant], sightings: Sightings, observations: Mapping[ResourceKey, Observation]
) -> NoAnswer | None:
    """Why a variant does not report: without it the load would be underestimated."""
    for variant in sorted(members, key=lambda variant: variant.key):
        absence = observations[variant.key].absence
        # pods of no variant still count for their model, unless they name none
        if absence and (absence.absence is not Absence.UNATTRIBUTED or variant.key in sightings.unnamed):
            whose = "" if len(members) == 1 else f"{printable(variant.key.name)}: "
            return NoAnswer(absence.absence, f"{whose}{absence.reason}")
    return None


def _misnamed(
    members: Sequence[Variant], served: Sequence[Served], sightings: Sightings, claims: Mapping[Served, set[str]]
) -> NoAnswer | None:
    """Why requests would be missed or counted twice: replicas report another name, or two models share one."""
    for variant in members:
        for one in sightings.reporting_of(variant.key):
            if Served(one.namespace, one.model) not in served:
                return NoAnswer(
                    Absence.MISSING,
                    f'replicas of {printable(variant.key.name)} report model "{printable(one.model)}", which is not '
                    f"one of its served names: set models[].servedNames",
                )
    for name in served:
        if len(claims[name]) > 1:
            models = " and ".join(printable(model) for model in sorted(claims[name]))
            named = f'name "{printable(name.model)}" in namespace {printable(name.namespace)}'
            return NoAnswer(Absence.UNATTRIBUTED, f"{named} is served by {models}: give each its own served name")
    return None


# ---- the load of a model


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean tokens of a request, None if unknown."""

    output_tokens: float | None = None
    input_tokens: float | None = None


Arrivals = tuple[float, ArrivalSource]
"""Requests per second, and their source."""


def loads_of(
    models: Sequence[Model], readings: MetricReadings, before: Callable[[Model], Lengths]
) -> dict[ModelKey, Load | NoAnswer]:
    """The load of each model, or why it is not known; `before` finds the lengths of its requests within `payback`."""
    loads: dict[ModelKey, Load | NoAnswer] = {}
    for model in models:
        replicas = sum(variant.current.replicas for variant in model.members)
        load = model.obstacle or _load_of(model, replicas, readings, before)
        if isinstance(load, Load):
            if readings.alternatives:
                alternatives = {
                    readings.alternatives.get(ObjectName(series.namespace, series.pod), "")
                    for one in model.served
                    for series in readings.members(Name.COMPLETIONS, one)
                }
                load = replace(load, alternatives=tuple(sorted(alternatives - {""})))
            if model.share == 0:
                load = replace(load, arrival_rate_per_s=0.0, output_tokens=0.0, input_tokens=0.0)
            elif model.share != 1:
                load = replace(load, arrival_rate_per_s=load.arrival_rate_per_s * model.share)
        loads[model.key] = load
    return loads


def _load_of(
    model: Model, replicas: int, readings: MetricReadings, before: Callable[[Model], Lengths]
) -> Load | NoAnswer:
    """The load over all served names, on `replicas` in Git; if any part is unknown, the load is.

    If no request has finished lately, which happens with few and long ones, their lengths are those of `before`.
    """
    served = model.served
    counted = (
        _configured(served, readings)
        or _endpoint_picker(served, replicas, readings)
        or _completions_and_growth(served, replicas, readings)
    )
    if isinstance(counted, NoAnswer):
        return counted
    rate_per_s, source = counted
    if rate_per_s <= NEGLIGIBLE_PER_S:
        return _idle(served, replicas, readings, source, before(model))
    output = mean_length(Name.OUTPUT_TOKENS, served, readings)
    read_input = mean_length(Name.INPUT_TOKENS, served, readings)
    if not (replicas or (output or 0.0) > 0):
        return Load(
            arrival_rate_per_s=rate_per_s,
            output_tokens=0.0,
            input_tokens=None,
            window_s=WINDOW_S,
            arrivals_from=source,
        )
    if output is None:
        return NoAnswer(Absence.MISSING, f"{_arriving(rate_per_s, served)} but no series reports output tokens")
    if _sum(Name.COMPLETIONS, served, readings) == 0 and (lengths := before(model)).output_tokens is not None:
        output, read_input = lengths.output_tokens, lengths.input_tokens
    if not is_usable(output) or output == 0:
        words = f"{_arriving(rate_per_s, served)} but none finished in 5m: output length unknown"
        return NoAnswer(Absence.NAN, words)
    buckets: dict[float, float] = {}
    for one in served:
        for bound, rate in readings.buckets.get(one, {}).items():
            buckets[bound] = buckets.get(bound, 0.0) + rate
    return Load(
        arrival_rate_per_s=rate_per_s,
        output_tokens=output,
        input_tokens=read_input if read_input is not None and is_usable(read_input) else None,
        input_spread=spread_of(buckets, WINDOW_S),
        window_s=WINDOW_S,
        arrivals_from=source,
        completions_per_s=_sum(Name.COMPLETIONS, served, readings),
    )


def with_lengths(
    models: Sequence[Model], loads: Mapping[ModelKey, Load | NoAnswer], usual: Mapping[ModelKey, LoadHistory]
) -> dict[ModelKey, Load | NoAnswer]:
    """The loads, those of models at zero with lengths from their last day, else from models that are measured.

    The median of those of the same service class counts, else that of all in the cluster.
    """
    measured = [(model, load) for model in models if isinstance(load := loads[model.key], Load) and load.has_lengths]
    filled = dict(loads)
    for model in models:
        load = loads[model.key]
        if not isinstance(load, Load) or load.has_lengths or load.arrival_rate_per_s <= 0:
            continue
        alike = [other for each, other in measured if _class_of(each) == _class_of(model)]
        everyone = [other for _, other in measured]
        for lengths, words in (
            (_usual_lengths(usual.get(model.key)), "its requests of the last day"),
            (_median_lengths(alike), f"the median of service class {_class_of(model)}" if _class_of(model) else ""),
            (_median_lengths(everyone), f"the median of the models of cluster {model.key.cluster}"),
        ):
            if lengths.output_tokens and words:
                filled[model.key] = replace(
                    load,
                    output_tokens=lengths.output_tokens,
                    input_tokens=lengths.input_tokens,
                    lengths_from=words,
                )
                break
    return filled


def _class_of(model: Model) -> str:
    return next((each.service_class.value.name for each in model.members if each.service_class is not None), "")


def _usual_lengths(usual: LoadHistory | None) -> Lengths:
    if usual is None:
        return Lengths()
    rates = usual.rates_per_s

    def mean(tokens: Floats) -> float | None:
        if not len(tokens):
            return None
        known = np.isfinite(tokens) & np.isfinite(rates) & (rates > 0)
        return float(np.average(tokens[known], weights=rates[known])) if known.any() else None

    return Lengths(output_tokens=mean(usual.output_tokens), input_tokens=mean(usual.input_tokens))


def _median_lengths(loads: Sequence[Load]) -> Lengths:
    inputs = [load.input_tokens for load in loads if load.input_tokens]
    return Lengths(
        output_tokens=median(load.output_tokens for load in loads) if loads else None,
        input_tokens=median(inputs) if inputs else None,
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
    finished, of_model = readings.of_pods(Name.COMPLETIONS), Name.COMPLETIONS
    weights = {
        # a series without a pod counts for all replicas of its model, as those of older recordings do
        one: (finished.get(one) if one.pod else readings.of_model(of_model, Served(one.namespace, one.model))) or 0.0
        for one in busy
    }
    weight = total(list(weights.values()))
    return math.fsum(mean * weights[series] for series, mean in busy.items()) / weight if weight else math.nan


def _configured(served: Sequence[Served], readings: MetricReadings) -> Arrivals | NoAnswer | None:
    # a configured query takes precedence: while it fails, ours must not silently replace it
    if Name.ARRIVALS_CONFIGURED in readings.failed:
        return readings.failed[Name.ARRIVALS_CONFIGURED]
    return _counted(Name.ARRIVALS_CONFIGURED, served, readings, ArrivalSource.CONFIGURED)


def _endpoint_picker(served: Sequence[Served], replicas: int, readings: MetricReadings) -> Arrivals | NoAnswer | None:
    counted = _counted(Name.ARRIVALS_ENDPOINT_PICKER, served, readings, ArrivalSource.ENDPOINT_PICKER)
    completed = _sum(Name.COMPLETIONS, served, readings)
    if not isinstance(counted, tuple) or completed is None or not is_usable(completed):
        return counted
    picked_per_s = counted[0]
    if picked_per_s < SEEN_BY_PICKER * completed:
        return None
    # the counts of the picker and of all replicas must agree, but the picker's may be higher while requests wait
    growths = [readings.of_model(Name.QUEUE_GROWTH, one) or 0.0 for one in served]
    growth = max(0.0, sum(growths)) if all(is_usable(abs(each)) for each in growths) else 0.0
    taken_per_s = completed + (growth if picked_per_s > completed else 0.0)
    reporting = {series.pod for one in served for series in readings.members(Name.RUNNING, one)}
    queued = _sum(Name.WAITING, served, readings)
    may_wait = len(reporting) < replicas or queued is None or queued >= len(reporting)
    if (picked_per_s > taken_per_s and may_wait) or not is_beyond_noise(picked_per_s, taken_per_s):
        return counted
    return NoAnswer(
        Absence.CONTRADICTORY,
        f"the endpoint picker counts {picked_per_s:.4g} req/s for {_named(served)} and its replicas "
        f"{taken_per_s:.4g} req/s, which is more than noise: one of them counts something else",
    )


def _counted(
    name: Name, served: Sequence[Served], readings: MetricReadings, source: ArrivalSource
) -> Arrivals | NoAnswer | None:
    rate_per_s = _sum(name, served, readings)
    if rate_per_s is None:
        return None
    if not is_usable(rate_per_s):
        return NoAnswer(Absence.NAN, f"{source} of {_named(served)} is not a finite rate")
    return rate_per_s, source


def _completions_and_growth(served: Sequence[Served], replicas: int, readings: MetricReadings) -> Arrivals | NoAnswer:
    finished = _sum(Name.COMPLETIONS, served, readings)
    if finished is None:
        reason = f"no series counts the requests of {_named(served)}: is that the name its replicas report?"
        if replicas == 0:
            reason = f"no replica of {_named(served)} runs and no endpoint picker counts its requests"
        return NoAnswer(Absence.MISSING, reason)
    if Name.QUEUE_GROWTH in readings.failed:
        return readings.failed[Name.QUEUE_GROWTH]
    completing = [one for one in served if readings.of_model(Name.COMPLETIONS, one) is not None]
    growths = [readings.of_model(Name.QUEUE_GROWTH, one) for one in completing]
    known = [growth for growth in growths if growth is not None]
    if len(known) < len(growths):
        return NoAnswer(Absence.MISSING, f"{_named(served)} reports completions, but not running and waiting requests")
    if not is_usable(finished) or not all(is_usable(abs(growth)) for growth in known):
        return NoAnswer(Absence.NAN, f"completions or queue growth of {_named(served)} are not finite rates")
    # the present replicas work off a shrinking queue: subtracting it from the load would make requests wait longer
    return finished + max(0.0, sum(known)), ArrivalSource.REPLICAS


def _idle(
    served: Sequence[Served], replicas: int, readings: MetricReadings, source: ArrivalSource, before: Lengths
) -> Load | NoAnswer:
    """No arrivals: zero load, unless requests from before the window are in progress, or series are missing."""
    under_way = total([_sum(name, served, readings) or 0.0 for name in (Name.RUNNING, Name.WAITING)])
    if not is_usable(under_way) or under_way > 0:
        return NoAnswer(
            Absence.NAN,
            f"{under_way:.3g} requests of {_named(served)} are under way and none arrived or finished in 5m",
        )
    if replicas > 0 and mean_length(Name.OUTPUT_TOKENS, served, readings) is None:
        return NoAnswer(Absence.MISSING, f"no series reports output tokens of {_named(served)}")
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


def _arriving(rate_per_s: float, served: Sequence[Served]) -> str:
    return f"{rate_per_s:.3g} req/s arrive for {_named(served)}"


def _named(served: Sequence[Served]) -> str:
    return "model " + " or ".join(f'"{printable(one.model)}"' for one in served)


# ---- how far the lengths of prompts vary

USUAL_SPREAD = 1.0
"""Expected before any request was seen; conversations and code of public traces have 0.9, long ones 1.7."""
WORTH = 1000.0
"""Weight of the expectation, in requests: fewer say little about heavy tails, and a changing spread moves replicas."""
LARGEST_SPREAD = 20.0


def spread_of(buckets: Mapping[float, float], window_s: float) -> float | None:
    """The variance of lengths over their squared mean; None without observations or with contradictory buckets.

    `buckets` are cumulative observations per second by upper bound, the last one infinite. Lengths are assumed to be
    uniform inside a bucket, and at the last bound beyond it. For a bucket of width h, in logarithms, that adds h^2 / 6
    of variance: half of it by the grouping (Sheppard), half by the uniformity.
    """
    bounds = sorted(bound for bound, rate in buckets.items() if bound >= 0 and is_usable(rate))
    whole = buckets.get(math.inf, math.nan)
    if not bounds or bounds[-1] != math.inf or not 0 < whole < math.inf:
        return None
    first = second = widths = 0.0
    for low, high in pairwise((0.0, *bounds)):
        part = buckets[high] - buckets.get(low, 0.0)
        if part < 0:
            return None
        top = high if math.isfinite(high) else low
        first += part * (low + top) / 2
        second += part * (low * low + low * top + top * top) / 3
        widths += part * math.log(top / low) ** 2 if low > 0 else 0.0
    if not (0 < first * first < math.inf and second * whole < math.inf):
        return None
    seen = min(max(second * whole / (first * first) * math.exp(-widths / whole / 6) - 1, 0.0), LARGEST_SPREAD)
    return (seen * whole * window_s + USUAL_SPREAD * WORTH) / (whole * window_s + WORTH)


# ---- other values of models, and the shares of variants


def requests_of(models: Sequence[Model], readings: MetricReadings) -> dict[ModelKey, float | NoAnswer]:
    """The requests that each model finished within the retention period; empty when they were not queried."""
    if Name.REQUESTS_IN_RETENTION not in readings.answered:
        return {}
    requests: dict[ModelKey, float | NoAnswer] = {}
    for model in models:
        counted = _sum(Name.REQUESTS_IN_RETENTION, model.served, readings)
        failed = model.obstacle or readings.failed.get(Name.REQUESTS_IN_RETENTION)
        if failed is None and counted is None:
            reason = f"no series counted requests of {_named(model.served)}"
            failed = NoAnswer(Absence.MISSING, reason)
        elif failed is None and counted is not None and not is_usable(counted):
            reason = f"the requests of {_named(model.served)} are not a finite number"
            failed = NoAnswer(Absence.NAN, reason)
        requests[model.key] = failed or counted or 0.0
    return requests


def with_arrivals(
    variants: Sequence[Variant],
    readings: MetricReadings,
    sightings: Sightings,
    observations: Mapping[ResourceKey, Observation],
    loads: Mapping[ModelKey, Load | NoAnswer],
) -> Iterator[tuple[ResourceKey, Observation]]:
    """The observations with each variant's part of the arrivals, in proportion to the requests it finished."""
    finished = readings.of_pods(Name.COMPLETIONS)
    finished_by = {
        variant.key: total([finished[one] for one in sightings.series_of.get(variant.key, ()) if one in finished])
        for variant in variants
    }
    finished_of: dict[ModelKey, float] = {}
    for variant in variants:
        finished_of[variant.model] = finished_of.get(variant.model, 0.0) + finished_by[variant.key]
    for variant in variants:
        load, observation = loads[variant.model], observations[variant.key]
        whole = finished_of[variant.model]
        if isinstance(load, Load) and is_usable(whole) and (whole > 0 or load.arrival_rate_per_s == 0):
            part = finished_by[variant.key] / whole if whole > 0 else 0.0
            observation = replace(observation, arrival_rate_per_s=load.arrival_rate_per_s * part)
        yield variant.key, observation


# ---- queues of endpoint pickers: their series may lack a namespace, and in old versions a model

ModelName = tuple[str, str]
"""Namespace and id of a model; prefill and decode share a queue."""


@dataclass(slots=True, kw_only=True)
class _Part:
    """The sum of a model's series, or why it is not known."""

    value: float = 0.0
    reason: str = ""


def queues_of(
    variants: Sequence[Variant], readings: MetricReadings, beside: Iterable[Variant] = ()
) -> dict[ModelKey, UpstreamQueue]:
    """The queue of each model that a picker reports; the same reason for all if that query failed.

    It may as well be that of a model `beside` them in the cluster.
    """
    keys = sorted({variant.model for variant in variants})
    if Name.FLOW_CONTROL_QUEUE_SIZE in readings.failed:
        return dict.fromkeys(keys, UpstreamQueue(reason=readings.failed[Name.FLOW_CONTROL_QUEUE_SIZE].reason))
    if not any(readings.per_model.get(each) for each in (Name.FLOW_CONTROL_QUEUE_SIZE, Name.FLOW_CONTROL_QUEUE_BYTES)):
        return {}
    meant: dict[Served, set[ModelName]] = {}  # the models that a series may be about: it may lack either label
    for variant in (*variants, *beside):
        for namespace, model in served_by(variant):
            for alike in (Served(namespace, model), Served("", model), Served(namespace, ""), Served("", "")):
                meant.setdefault(alike, set()).add((variant.model.namespace, variant.model.model_id))
    sizes = _parts(Name.FLOW_CONTROL_QUEUE_SIZE, meant, readings)
    lengths = _parts(Name.FLOW_CONTROL_QUEUE_BYTES, meant, readings)
    unread = readings.failed.get(Name.FLOW_CONTROL_QUEUE_BYTES)
    shares = {variant.model: variant.share for variant in variants if variant.share is not None}
    queues = {}
    for key in keys:
        name = key.namespace, key.model_id
        if name in sizes or name in lengths:
            size, share = sizes.get(name), shares.get(key, 1.0)
            length = lengths.get(name) or (_Part(reason=unread.reason) if unread else None)
            reasons = [part.reason for part in (size, length) if part and part.reason]
            queues[key] = UpstreamQueue(
                num_waiting=size.value * share if size and not size.reason else None,
                waiting_bytes=length.value * share if length and not length.reason else None,
                reason="; ".join(dict.fromkeys(reasons)),
            )
    return queues


def _parts(name: Name, meant: Mapping[Served, set[ModelName]], readings: MetricReadings) -> dict[ModelName, _Part]:
    parts: dict[ModelName, _Part] = {}
    for series, value in sorted(readings.per_model.get(name, {}).items()):
        models = meant.get(series, set())
        reason = ""
        if not is_usable(value):
            reason = f"the endpoint picker reports {value} as {name}"
        elif len(models) > 1 and value > 0:  # an empty queue is empty for each of them
            lacks = "namespace" if series.model else "model"
            whose = " and ".join(printable(f"{namespace}/{model}") for namespace, model in sorted(models))
            reason = f"the endpoint picker's queue names no {lacks}: it may be that of {whose}, so it counts for none"
        for model in models:
            part = parts.setdefault(model, _Part())
            part.reason = part.reason or reason
            part.value += 0.0 if reason else value
    return parts
