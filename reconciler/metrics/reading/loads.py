"""Every model's load, and the part of it that each of its variants has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.answers import Absence, NoAnswer
from reconciler.domain.measured.loads import Load, Observation
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.attribution import served_by
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.demand import Lengths, load_of
from reconciler.metrics.reading.readings import MetricReadings, ObjectName, Served, grouped, total
from reconciler.metrics.reading.sightings import Sightings


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model with its variants and served names; `obstacle` says why its replicas must not be counted.

    `share` is the fraction of what is counted under these names that its variants get.
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
    claims = _claims(variants)
    routed = grouped((variant.model.whole, variant) for variant in variants if variant.share is not None)
    for key, members in grouped((variant.model, variant) for variant in variants).items():
        share = members[0].share
        counted = members if share is None else routed[key.whole]
        served = tuple(sorted({one for variant in counted for one in served_by(variant)}))
        obstacle = (
            _silent(counted, sightings, observations)
            or _misnamed(counted, served, sightings)
            or _claimed_twice(served, claims)
        )
        yield Model(
            key=key, members=tuple(members), served=served, obstacle=obstacle, share=1.0 if share is None else share
        )


def loads_of(
    models: Sequence[Model], readings: MetricReadings, before: Mapping[ModelKey, Lengths]
) -> dict[ModelKey, Load | NoAnswer]:
    """The load of each model, or why it is not known; `before` is how long its requests were within `payback`."""
    return {model.key: model.obstacle or _load(model, readings, before[model.key]) for model in models}


def _load(model: Model, readings: MetricReadings, before: Lengths) -> Load | NoAnswer:
    whole = load_of(model.served, sum(variant.current.replicas for variant in model.members), readings, before)
    if isinstance(whole, NoAnswer):
        return whole
    told = {
        readings.alternatives.get(ObjectName(series.namespace, series.pod), "")
        for one in model.served
        for series in readings.members(Name.COMPLETIONS, one)
    }
    whole = replace(whole, alternatives=tuple(sorted(told - {""})))
    if model.share == 1:
        return whole
    if model.share == 0:
        return replace(whole, arrival_rate_per_s=0.0, output_tokens=0.0, input_tokens=0.0)
    return replace(whole, arrival_rate_per_s=whole.arrival_rate_per_s * model.share)


def requests_of(models: Sequence[Model], readings: MetricReadings) -> dict[ModelKey, float | NoAnswer]:
    """How many requests each model finished within the retention period; empty when nobody asked."""
    if Name.REQUESTS_IN_RETENTION not in readings.answered:
        return {}
    return {model.key: model.obstacle or _requests(model.served, readings) for model in models}


def _requests(served: Sequence[Served], readings: MetricReadings) -> float | NoAnswer:
    if Name.REQUESTS_IN_RETENTION in readings.failed:
        return readings.failed[Name.REQUESTS_IN_RETENTION]
    found = [readings.of_model(Name.REQUESTS_IN_RETENTION, one) for one in served]
    counted = [value for value in found if value is not None]
    names = " or ".join(f'"{printable(one.model)}"' for one in served)
    if not counted:
        return NoAnswer(absence=Absence.MISSING, reason=f"no series counted requests of model {names}")
    if not is_usable(total(counted)):
        return NoAnswer(absence=Absence.NAN, reason=f"the requests of model {names} are not a finite number")
    return total(counted)


def _silent(
    members: Sequence[Variant], sightings: Sightings, observations: Mapping[ResourceKey, Observation]
) -> NoAnswer | None:
    """Why a variant does not report: without its part the load would look smaller than it is."""
    for variant in sorted(members, key=lambda variant: variant.key):
        absence = observations[variant.key].absence
        # pods of no variant are counted by their model all the same, unless they name none
        if absence and (absence.absence is not Absence.UNATTRIBUTED or variant.key in sightings.unnamed):
            whose = "" if len(members) == 1 else f"{printable(variant.key.name)}: "
            return NoAnswer(absence=absence.absence, reason=f"{whose}{absence.reason}")
    return None


def _misnamed(members: Sequence[Variant], served: Sequence[Served], sightings: Sightings) -> NoAnswer | None:
    """Why requests would go uncounted: replicas of the model report a name that it is not served under."""
    for variant in members:
        for one in sightings.series_of.get(variant.key, ()):
            if one in sightings.reporting and Served(one.namespace, one.model) not in served:
                reason = (
                    f'replicas of {printable(variant.key.name)} report model "{printable(one.model)}", which is none '
                    f"of its served names: set models[].servedNames"
                )
                return NoAnswer(absence=Absence.MISSING, reason=reason)
    return None


def _claims(variants: Sequence[Variant]) -> Mapping[Served, set[str]]:
    claims: dict[Served, set[str]] = {}
    for variant in variants:
        for served in served_by(variant):
            claims.setdefault(served, set()).add(variant.model.model_id)
    return claims


def _claimed_twice(served: Sequence[Served], claims: Mapping[Served, set[str]]) -> NoAnswer | None:
    for one in served:
        if len(claims[one]) > 1:
            models = " and ".join(printable(model) for model in sorted(claims[one]))
            reason = f'name "{printable(one.model)}" in namespace {printable(one.namespace)} is served by {models}'
            return NoAnswer(absence=Absence.UNATTRIBUTED, reason=f"{reason}: give each its own served name")
    return None


def with_arrivals(
    variants: Sequence[Variant],
    readings: MetricReadings,
    sightings: Sightings,
    observations: Mapping[ResourceKey, Observation],
    loads: Mapping[ModelKey, Load | NoAnswer],
) -> Iterator[tuple[ResourceKey, Observation]]:
    """The observations with each variant's part of its model's arrivals, in proportion to what it finished."""
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
