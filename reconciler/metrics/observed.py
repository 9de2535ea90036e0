"""Reads a run's answers into one record of models, variants, replicas and devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, TypeVar

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, no_prometheus
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import DevicesSeen, Observed, Trace
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import says_partial
from reconciler.metrics.devices import devices_seen
from reconciler.metrics.history import (
    Histories,
    PastReadings,
    histories_by_grid,
    lengths_in,
    live_of,
    past_of,
    read_live,
    read_past,
    trace,
    usual_of,
)
from reconciler.metrics.loads import loads_of, models_of, queues_of, requests_of, with_arrivals
from reconciler.metrics.quantities import PAST, USUAL, Name
from reconciler.metrics.queries import LabelNames, names_in
from reconciler.metrics.readings import (
    Attribution,
    MetricReadings,
    attribution_of,
    grouped,
    name_models,
    read,
    served_by,
)
from reconciler.metrics.replicas import (
    observe,
    ready_replicas,
    replicas_of,
    sight,
    stored_capacities,
    unobserved,
    unschedulable_pods,
)

Key = TypeVar("Key")
Item = TypeVar("Item")


def read_observed(variants: Sequence[Variant], answers: Sequence[Answer], now_s: float, settings: Settings) -> Observed:
    """What was observed at `now_s` (Unix seconds), cluster by cluster, one answer in memory at a time."""
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    variants_of = grouped((variant.key.cluster, variant) for variant in variants)
    configured = {cluster.name: cluster for cluster in settings.clusters}
    parts = [Observed()]
    for name in sorted({*variants_of, *answers_of}):
        mine, asked = variants_of.get(name, []), answers_of.get(name, [])
        if asked:
            parts.append(_read_cluster(name, mine, asked, now_s, names_in(settings, name)))
        else:
            parts.append(_unasked(name, mine, configured.get(name)))
    values: dict[str, Any] = {}  # each field is a mapping or a tuple
    for name in (field.name for field in fields(Observed)):
        found = [getattr(part, name) for part in parts]
        values[name] = tuple(chain(*found)) if isinstance(found[0], tuple) else _merged(found)
    return Observed(**values)


def _merged(parts: Iterable[Mapping[Key, Item]]) -> dict[Key, Item]:
    return dict(chain.from_iterable(part.items() for part in parts))


def _unasked(name: str, variants: Sequence[Variant], cluster: ClusterSettings | None) -> Observed:
    absence = NoAnswer(absence=Absence.FAILED, reason=f"the Prometheus of cluster {name} was not asked")
    if cluster is None or cluster.prometheus is None:
        absence = NoAnswer(absence=Absence.MISSING, reason=no_prometheus(name))
    refusals = (f"{name}: {absence.reason}",) if variants and absence.absence is Absence.MISSING else ()
    devices = {name: DevicesSeen(nodes=absence, holdings=absence)}
    return replace(_blind(variants, absence), devices=devices, refusals=refusals)


def _blind(variants: Sequence[Variant], absence: NoAnswer) -> Observed:
    return Observed(
        loads={variant.model: absence for variant in variants},
        observations={variant.key: unobserved(absence) for variant in variants},
    )


def _read_cluster(
    name: str, variants: Sequence[Variant], answers: Sequence[Answer], now_s: float, names: LabelNames
) -> Observed:
    readings = read(answers, names)
    attribution = attribution_of(variants, readings)
    first_names = {variant.key: served_by(variant)[0] for variant in variants}
    name_models(readings, attribution, first_names)
    histories, live = histories_by_grid(answers, names), read_live(answers, names)
    past, usual = (
        read_past(answers, names, attribution, first_names, asked)
        for asked in ({*PAST, Name.PAST_CONFIGURED}, frozenset(USUAL))
    )
    seen = _look(variants, readings, attribution, past, usual, now_s)
    failed = [
        *(readings.failed[quantity] for quantity in sorted(readings.failed)),
        *(each for history in histories for each in history.failed),
        *(*live.failed, *past.failed.values(), *usual.failed.values()),
    ]
    refused = [answer.reason for answer in answers if answer.status is AnswerStatus.REFUSED]
    over_time = (*(history.warnings for history in histories), live.warnings, past.warnings, usual.warnings)
    warnings = _merged([readings.warnings, *over_time])
    lost = [each for history in histories if history.has_fullness for each in history.failed]
    partial = next(filter(says_partial, warnings), "")
    texts: dict[str, str] = {}
    for answer in answers:
        texts.setdefault(answer.query.quantity, answer.query.text)
    return replace(
        seen,
        failures=_first(name, [each.reason for each in failed if each.reason not in refused]),
        refusals=_first(name, refused),
        warnings=tuple(f"{name}: {warning}" for warning in warnings),
        incomplete={name: partial} if partial else {},
        lost={name: lost[0]} if lost else {},
        queues=queues_of(variants, readings),
        quotas={(name, namespace): tuple(quotas) for namespace, quotas in sorted(readings.quotas.items())},
        traces=_traces(variants, histories, attribution),
        live=live_of(variants, live),
        queries={name: texts},
        devices={name: devices_seen(variants, readings, names, now_s)},
    )


def _look(
    variants: Sequence[Variant],
    readings: MetricReadings,
    attribution: Attribution,
    past: PastReadings,
    usual: PastReadings,
    now_s: float,
) -> Observed:
    if readings.obstacle:
        return _blind(variants, readings.obstacle)
    sightings = sight(readings, attribution, now_s)
    observations = {variant.key: observe(variant, readings, sightings, now_s) for variant in variants}
    models = tuple(models_of(variants, sightings, observations))
    loads = loads_of(models, readings, {model.key: lengths_in(model, past) for model in models})
    return Observed(
        loads=loads,
        observations=dict(with_arrivals(variants, readings, sightings, observations, loads)),
        past=past_of(models, loads, past),
        usual=usual_of(models, usual),
        replicas=replicas_of(variants, readings, sightings),
        ready=ready_replicas(variants, readings, attribution),
        unschedulable=unschedulable_pods(readings, attribution),
        requests=requests_of(models, readings),
        stored_kv_tokens=stored_capacities(readings, attribution),
    )


def _first(name: str, reasons: Sequence[str]) -> tuple[str, ...]:
    """One sentence for a cluster: its first reason, and how many more there are."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return tuple(f"{name}: {reason}{more}" for reason in reasons[:1])


def _traces(
    variants: Sequence[Variant], histories: Sequence[Histories], attribution: Attribution
) -> dict[ResourceKey, tuple[Trace, ...]]:
    """The traces of every variant that was asked about; a variant without traces was asked about and has none."""
    asked = {variant.key for variant in variants} if any(history.has_fullness for history in histories) else set()
    found = [trace(history, attribution) for history in histories]
    keys = sorted(asked | {variant for traces in found for variant in traces})
    return {key: tuple(chain.from_iterable(traces.get(key, ()) for traces in found)) for key in keys}
