"""Every model's load and every variant's observation, from all answers of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.domain.answers import Absence, Answer, NoAnswer
from reconciler.domain.history import Trace
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.loads import Load, Observation
from reconciler.domain.replicas import ReplicaMetrics, UpstreamQueue
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.variants import Variant
from reconciler.metrics.attribution import attribution_of, served_by
from reconciler.metrics.decoding import is_usable, printable
from reconciler.metrics.demand import load_of
from reconciler.metrics.expressions import LabelNames, label_names
from reconciler.metrics.folding import read
from reconciler.metrics.grouping import grouped
from reconciler.metrics.observations import observe, unobserved
from reconciler.metrics.quantities import Name
from reconciler.metrics.readings import Readings, Served, total
from reconciler.metrics.sightings import Sightings, sight


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What Prometheus says, or why it says nothing, for every model and variant asked about.

    `failures` has one sentence for each cluster where something failed outside; `warnings` are Prometheus' own.
    `queries` is what was asked: by cluster, then by quantity, its PromQL (the first of several).

    The rest is there only where it was asked for. `replicas` are those that report now; `queues` wait before an
    endpoint picker, and a model without any has no key; `ready` replicas are those of Kubernetes; `requests` were
    finished within the retention period; `stored_kv_tokens` is what an instance of a variant held within the last
    day; `traces` are the replicas' histories, one for each grid that was asked.
    """

    loads: Mapping[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    replicas: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]] = field(default_factory=dict)
    queues: Mapping[ModelKey, UpstreamQueue] = field(default_factory=dict)
    ready: Mapping[ResourceKey, int] = field(default_factory=dict)
    requests: Mapping[ModelKey, float | NoAnswer] = field(default_factory=dict)
    stored_kv_tokens: Mapping[ResourceKey, float] = field(default_factory=dict)
    traces: Mapping[ResourceKey, tuple[Trace, ...]] = field(default_factory=dict)
    queries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_observed(variants: Sequence[Variant], answers: Sequence[Answer], now_s: float, settings: Settings) -> Observed:
    """Loads and observations at `now_s` (Unix seconds), cluster by cluster, one answer in memory at a time."""
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    variants_of = grouped((variant.key.cluster, variant) for variant in variants)
    configured = {cluster.name: cluster for cluster in settings.clusters}
    parts = [
        _read_cluster(name, variants_of.get(name, []), answers_of.get(name, []), now_s, configured.get(name))
        for name in sorted({*variants_of, *answers_of})
    ]
    return Observed(
        loads={model: load for part in parts for model, load in part.loads.items()},
        observations={key: observation for part in parts for key, observation in part.observations.items()},
        failures=tuple(failure for part in parts for failure in part.failures),
        warnings=tuple(warning for part in parts for warning in part.warnings),
    )


def _read_cluster(
    name: str,
    variants: Sequence[Variant],
    answers: Sequence[Answer],
    now_s: float,
    cluster: ClusterSettings | None,
) -> Observed:
    if not answers:
        return _blind(variants, _unasked(name, cluster))
    readings = read(answers, _names_of(cluster))
    failures = tuple(_failures(name, readings))
    warnings = tuple(f"{name}: {warning}" for warning in readings.warnings)
    if readings.obstacle:
        return replace(_blind(variants, readings.obstacle), failures=failures, warnings=warnings)
    sightings = sight(readings, attribution_of(variants, readings), now_s)
    observations = {variant.key: observe(variant, readings, sightings, now_s) for variant in variants}
    loads = dict(_loads(variants, readings, sightings, observations))
    shared = dict(_with_arrivals(variants, readings, sightings, observations, loads))
    return Observed(loads=loads, observations=shared, failures=failures, warnings=warnings)


def _names_of(cluster: ClusterSettings | None) -> LabelNames:
    return label_names(cluster.prometheus) if cluster and cluster.prometheus else LabelNames()


def _unasked(name: str, cluster: ClusterSettings | None) -> NoAnswer:
    if cluster is None or cluster.prometheus is None:
        reason = f"cluster {name} has no Prometheus: give --prometheus, or clusters[].prometheus in reconciler.yaml"
        return NoAnswer(absence=Absence.MISSING, reason=reason)
    return NoAnswer(absence=Absence.FAILED, reason=f"the Prometheus of cluster {name} was not asked")


def _blind(variants: Sequence[Variant], absence: NoAnswer) -> Observed:
    return Observed(
        loads={variant.model: absence for variant in variants},
        observations={variant.key: unobserved(absence) for variant in variants},
    )


def _failures(name: str, readings: Readings) -> Iterator[str]:
    reasons = [readings.failed[quantity].reason for quantity in sorted(readings.failed)]
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        yield f"{name}: {reasons[0]}{more}"


def _loads(
    variants: Sequence[Variant],
    readings: Readings,
    sightings: Sightings,
    observations: Mapping[ResourceKey, Observation],
) -> Iterator[tuple[ModelKey, Load | NoAnswer]]:
    claims = _claims(variants)
    for model, members in grouped((variant.model, variant) for variant in variants).items():
        served = sorted({one for variant in members for one in served_by(variant)})
        obstacle = (
            _silent(members, observations) or _misnamed(members, served, sightings) or _claimed_twice(served, claims)
        )
        replicas = sum(variant.current.replicas for variant in members)
        yield model, obstacle or load_of(served, replicas, readings)


def _silent(members: Sequence[Variant], observations: Mapping[ResourceKey, Observation]) -> NoAnswer | None:
    """A variant that does not report hides its part of the load, and without it the rest looks like less."""
    for variant in sorted(members, key=lambda variant: variant.key):
        absence = observations[variant.key].absence
        if absence and absence.absence is not Absence.UNATTRIBUTED:
            whose = "" if len(members) == 1 else f"{printable(variant.key.name)}: "
            return NoAnswer(absence=absence.absence, reason=f"{whose}{absence.reason}")
    return None


def _misnamed(members: Sequence[Variant], served: Sequence[Served], sightings: Sightings) -> NoAnswer | None:
    """Replicas of ours that report a name we do not know serve requests that would not be counted."""
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


def _with_arrivals(
    variants: Sequence[Variant],
    readings: Readings,
    sightings: Sightings,
    observations: Mapping[ResourceKey, Observation],
    loads: Mapping[ModelKey, Load | NoAnswer],
) -> Iterator[tuple[ResourceKey, Observation]]:
    """Each variant's part of its model's arrivals, in proportion to what it finished."""
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
