"""What Prometheus reports of models, replicas and devices, from the answers of all clusters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, Query, Sample, no_prometheus
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import (
    ArrivalSource,
    ClusterNode,
    DevicesSeen,
    Holding,
    LiveReplicas,
    Load,
    Observed,
    Trace,
    UpstreamQueue,
)
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import is_usable, printable, says_partial
from reconciler.metrics.history import (
    FINE_SOURCES,
    PastReadings,
    demand_of,
    histories_by_grid,
    lengths_in,
    live_of,
    past_of,
    ran_of,
    read_live,
    read_past,
    trace,
    usual_of,
)
from reconciler.metrics.loads import Model, loads_of, models_of, queues_of, requests_of, with_arrivals, with_lengths
from reconciler.metrics.quantities import DEMAND, FINE, PAST, USUAL, WINDOW_S, Name, Quantity
from reconciler.metrics.queries import (
    LabelNames,
    exported_label,
    instant_query,
    label_names,
    matchers,
    names_in,
    render,
)
from reconciler.metrics.readings import (
    Attribution,
    MetricReadings,
    ObjectName,
    ReplicaSeries,
    attribution_of,
    grouped,
    name_models,
    read,
    served_by,
    target_of,
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

# The devices that nodes of a cluster offer and pods hold, from kube-state-metrics, by two queries. Series with labels
# that a scrape renamed (`exported_node`) are left out: with the labels of their target they would all be one node.

SETTLED_S = 600.0
"""How long a node must be silent, cordoned or not ready to count as such: plugins and scrapes restart."""
FACT = "fact"
OFFERS, LABELS, CORDONED, NOT_READY, SEEN = "offers", "labels", "cordoned", "not ready", "seen"
"""The values of the label `fact` in the answer about nodes."""
EVERY_NODE_OFFERS = "cpu"
"""Queried together with devices: a node without devices still reports this."""
EXPORTED_NAMESPACE = "exported_namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNames:
    """Resources of containers (regular expressions, spelled as exported) and labels of nodes to query."""

    resources: tuple[str, ...]
    labels: tuple[str, ...]


def device_queries(cluster: ClusterSettings, names: DeviceNames, now_s: float) -> tuple[Query, ...]:
    """The two queries, at `now_s` (Unix seconds); empty without a Prometheus. ConfigurationError for wrong labels."""
    settings = cluster.prometheus
    if settings is None:
        return ()
    spelled = label_names(settings)
    where = ",".join(filter(None, (matchers(settings), 'exported_node=""')))
    held = where if spelled.namespace == EXPORTED_NAMESPACE else f'{where},{EXPORTED_NAMESPACE}=""'
    return (
        instant_query(cluster.name, Name.NODES, render(_nodes(names), spelled, where), now_s),
        instant_query(cluster.name, Name.DEVICE_REQUESTS, render(_requests(names), spelled, held), now_s),
    )


def _nodes(names: DeviceNames) -> Quantity:
    """Five facts of each node; values of the last hour count until a node reports others."""
    resources = "|".join(dict.fromkeys((*names.resources, EVERY_NODE_OFFERS)))
    offered = f'kube_node_status_allocatable{{resource=~"{resources}",$where}}'
    labels = ", ".join(("node", *dict.fromkeys(map(exported_label, names.labels))))
    ready = 'kube_node_status_condition{condition="Ready",status="true",$where}'
    lasting = "group by ({}) (last_over_time(kube_node_labels{{$where}}[{}]))"
    facts = (
        (
            OFFERS,
            f"max by (node, resource) (max_over_time({offered}[$window]))",
            f"max by (node, resource) (last_over_time({offered}[1h]))",
        ),
        (LABELS, lasting.format(labels, "$window"), lasting.format(labels, "1h")),
        (CORDONED, "min by (node) (min_over_time(kube_node_spec_unschedulable{$where}[$window])) == 1"),
        (NOT_READY, f"max by (node) (max_over_time({ready}[$window])) == 0"),
        (SEEN, "max by (node) (max_over_time(timestamp(kube_node_info{$where})[1h:1m]))"),
    )
    return Quantity(
        name=Name.NODES,
        by=("node",),
        candidates=tuple(
            f'label_replace({" or on (node) ".join(alternatives)}, "{FACT}", "{fact}", "", "")'
            for fact, *alternatives in facts
        ),
        window_s=SETTLED_S,
    )


def _requests(names: DeviceNames) -> Quantity:
    """What each pod on a node holds; two exporters of the same series count once."""
    resources = "|".join(dict.fromkeys(names.resources))
    requests = f'kube_pod_container_resource_requests{{resource=~"{resources}",node!="",$where}}'
    over = 'kube_pod_status_phase{phase=~"Failed|Succeeded",$where} == 1'
    held = f"sum by ($place, node, resource) (max by ($place, container, node, resource) ({requests}))"
    return Quantity(
        name=Name.DEVICE_REQUESTS,
        by=("namespace", "pod", "node", "resource"),
        candidates=(f"{held} unless on ($place) ({over})",),
    )


def devices_seen(variants: Iterable[Variant], readings: MetricReadings, names: LabelNames, now_s: float) -> DevicesSeen:
    """The devices of one cluster at `now_s` (Unix seconds); implausible numbers are None."""
    nodes, requests = (
        readings.absence_of(name) or readings.devices.get(name, ()) for name in (Name.NODES, Name.DEVICE_REQUESTS)
    )
    variant_of = _membership(variants, readings)

    def holding(sample: Sample) -> Holding:
        label = sample.labels.get
        pod = ObjectName(label(names.namespace, ""), label(names.pod, ""))
        return Holding(
            namespace=printable(pod.namespace),
            node=printable(label("node", "")),
            resource=label("resource", ""),
            devices=_count(sample.value),
            variant=variant_of(pod),
        )

    return DevicesSeen(
        nodes=nodes if isinstance(nodes, NoAnswer) else _read_nodes(nodes, now_s),
        holdings=requests if isinstance(requests, NoAnswer) else tuple(map(holding, requests)),
    )


def _read_nodes(samples: Sequence[Sample], now_s: float) -> tuple[ClusterNode, ...] | NoAnswer:
    facts: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        of_nodes = facts.setdefault(sample.labels.get(FACT, ""), {})
        of_nodes.setdefault(sample.labels.get("node", ""), []).append(sample)
    offers, seen = facts.get(OFFERS, {}), facts.get(SEEN, {})
    for metric, found in (("kube_node_info", seen), ("kube_node_status_allocatable", offers)):
        if not found:
            reason = f"no series of {metric}: this Prometheus scrapes no kube-state-metrics that exports it"
            return NoAnswer(Absence.MISSING, reason)
    times_s = {name: of_node[0].value for name, of_node in seen.items()}
    broken = sorted(name for name, time_s in times_s.items() if not is_usable(time_s))
    if broken:
        return NoAnswer(Absence.NAN, f"kube_node_info of node {printable(broken[0])} has no readable time")
    silent_s = now_s - max(times_s.values())
    if silent_s > SETTLED_S:
        return NoAnswer(Absence.STALE, f"kube-state-metrics reported no node for {silent_s / 60:.0f} min")
    return tuple(_node(name, facts, now_s) for name in sorted({*offers, *seen}))


def _node(name: str, facts: Mapping[str, Mapping[str, Sequence[Sample]]], now_s: float) -> ClusterNode:
    def of(fact: str) -> Sequence[Sample]:
        return facts.get(fact, {}).get(name, ())

    exported = grouped(item for sample in of(LABELS) for item in sample.labels.items())
    labels = {label: set(filter(None, values)) for label, values in exported.items() if label.startswith("label_")}
    return ClusterNode(
        name=printable(name),
        offers={sample.labels.get("resource", ""): _count(sample.value) for sample in of(OFFERS)},
        labels={label: min(values) for label, values in labels.items() if len(values) == 1},
        is_changed=any(len(values) > 1 for values in labels.values()),
        closed=" and ".join(fact for fact in (CORDONED, NOT_READY) if of(fact)),
        is_silent=all(now_s - sample.value > SETTLED_S for sample in of(SEEN)) and bool(of(SEEN)),
    )


def _count(value: float) -> int | None:
    return int(value) if is_usable(value) else None


def _membership(variants: Iterable[Variant], readings: MetricReadings) -> Callable[[ObjectName], ResourceKey | None]:
    """Find the variant of a pod; of two with one scale target either will do, as both are ours."""
    ours = list(variants)
    attribution = Attribution(
        by_name={ObjectName(variant.key.namespace, variant.key.name): variant.key for variant in ours},
        by_target={target_of(variant): variant.key for variant in ours},
        by_model={},
        readings=readings,
    )

    def variant_of(pod: ObjectName) -> ResourceKey | None:
        # in a replica of several pods only the name of the first leads to the variant
        group, _, number = pod.name.rpartition("-")
        names = (pod.name, f"{group}-0") if number.isdecimal() else (pod.name,)
        found = (attribution.variant_of(ReplicaSeries(pod.namespace, name, "", "")) for name in names)
        return next(filter(None, found), None)

    return variant_of


def read_observed(
    variants: Sequence[Variant],
    answers: Sequence[Answer],
    now_s: float,
    settings: Settings,
    beside: Iterable[Variant] = (),
) -> Observed:
    """What was observed at `now_s` (Unix seconds), cluster by cluster, one answer in memory at a time.

    `beside` are variants that others decide: a series that lacks a label may be about them.
    """
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    variants_of = grouped((variant.key.cluster, variant) for variant in variants)
    beside_of = grouped((variant.key.cluster, variant) for variant in beside)
    configured = {cluster.name: cluster for cluster in settings.clusters}
    parts = [Observed()]
    for name in sorted({*variants_of, *answers_of}):
        mine, asked = variants_of.get(name, []), answers_of.get(name, [])
        if asked:
            parts.append(_read_cluster(name, mine, beside_of.get(name, ()), asked, now_s, names_in(settings, name)))
        else:
            cluster = configured.get(name)
            absence = NoAnswer(Absence.FAILED, f"the Prometheus of cluster {name} was not queried")
            if cluster is None or cluster.prometheus is None:
                absence = NoAnswer(Absence.MISSING, no_prometheus(name))
            refusals = (f"{name}: {absence.reason}",) if mine and absence.absence is Absence.MISSING else ()
            devices = {name: DevicesSeen(nodes=absence, holdings=absence)}
            parts.append(replace(_blind(mine, absence), devices=devices, refusals=refusals))
    values: dict[str, Any] = {}  # each field is a mapping or a tuple
    for name in (field.name for field in fields(Observed)):
        found = [getattr(part, name) for part in parts]
        is_tuple = isinstance(found[0], tuple)
        values[name] = tuple(chain(*found)) if is_tuple else {key: part[key] for part in found for key in part}
    return Observed(**values)


def _blind(variants: Sequence[Variant], absence: NoAnswer) -> Observed:
    return Observed(
        loads={variant.model: absence for variant in variants},
        observations={variant.key: unobserved(absence) for variant in variants},
    )


def _read_cluster(
    name: str,
    variants: Sequence[Variant],
    beside: Sequence[Variant],
    answers: Sequence[Answer],
    now_s: float,
    names: LabelNames,
) -> Observed:
    readings = read(answers, names)
    attribution = attribution_of(variants, readings)
    first_names = {variant.key: served_by(variant)[0] for variant in variants}
    name_models(readings, attribution, first_names)
    histories, live = histories_by_grid(answers, names), read_live(answers, names)
    usual, past, demand, fine = (  # largest answers first, while little else is in memory
        read_past(answers, names, attribution, first_names, asked)
        for asked in (
            frozenset(USUAL),
            {*PAST, Name.PAST_CONFIGURED},
            {*DEMAND, Name.DEMAND_CONFIGURED},
            {*FINE, Name.FINE_CONFIGURED},
        )
    )
    partial_demand = next(filter(says_partial, demand.warnings), "")  # a part of what arrived looks like less load
    lost_demand = [NoAnswer(Absence.FAILED, partial_demand)] if partial_demand else list(demand.failed.values())
    demand = PastReadings() if partial_demand else demand
    queues = queues_of(variants, readings, beside)
    seen = _look(variants, readings, attribution, queues, past, usual, demand, fine, now_s)
    failed = [
        *(readings.failed[quantity] for quantity in sorted(readings.failed)),
        *(each for history in histories for each in history.failed),
        *(*live.failed, *past.failed.values(), *usual.failed.values()),
    ]
    refused = [answer.reason for answer in answers if answer.status is AnswerStatus.REFUSED]
    warned = [readings.warnings, *(history.warnings for history in histories)]
    warnings = dict.fromkeys(chain(*warned, live.warnings, past.warnings, usual.warnings))
    lost = [each for history in histories if history.has_fullness for each in history.failed]
    partial = next(filter(says_partial, warnings), "")
    # each variant whose replicas' fullness was queried has traces, though perhaps none
    has_traces = any(history.has_fullness for history in histories)
    traces: dict[ResourceKey, list[Trace]] = {variant.key: [] for variant in variants if has_traces}
    for history in histories:
        for key, of_variant in trace(history, attribution).items():
            traces.setdefault(key, []).extend(of_variant)
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
        demand_lost={name: lost_demand[0]} if lost_demand else {},
        queues=queues,
        quotas={(name, namespace): tuple(quotas) for namespace, quotas in sorted(readings.quotas.items())},
        traces={key: tuple(traces[key]) for key in sorted(traces)},
        live=live_of(variants, live),
        merged=_counted(variants, answers, names, Name.MERGED_REPLICAS),
        ran=ran_of(variants, read_live(answers, names, Name.RAN_REPLICAS)),
        started=_counted(variants, answers, names, Name.STARTED_REPLICAS),
        queries={name: texts},
        devices={name: devices_seen(variants, readings, names, now_s)},
    )


def _counted(
    variants: Sequence[Variant], answers: Sequence[Answer], names: LabelNames, quantity: Name
) -> dict[ResourceKey, LiveReplicas]:
    """The counts of scale targets around our merges; what is not known measures nothing, and nothing is wrong."""
    found = live_of(variants, read_live(answers, names, quantity))
    return {key: each for key, each in found.items() if isinstance(each, LiveReplicas)}


def _look(
    variants: Sequence[Variant],
    readings: MetricReadings,
    attribution: Attribution,
    queues: Mapping[ModelKey, UpstreamQueue],
    past: PastReadings,
    usual: PastReadings,
    demand: PastReadings,
    fine: PastReadings,
    now_s: float,
) -> Observed:
    if readings.obstacle:
        return _blind(variants, readings.obstacle)
    sightings = sight(readings, attribution, now_s)
    observations = {variant.key: observe(variant, readings, sightings, now_s) for variant in variants}
    models = tuple(models_of(variants, sightings, observations))
    usually = usual_of(models, usual)
    usual.rates.clear()  # the sums are made: they and their parts would be the most that is in memory
    loads = loads_of(models, readings, lambda model: lengths_in(model, past))
    loads = with_lengths(models, _queued(models, loads, queues), usually)
    return Observed(
        loads=loads,
        observations=dict(with_arrivals(variants, readings, sightings, observations, loads)),
        past=past_of(models, loads, past),
        usual=usually,
        demand=demand_of(models, loads, demand),
        fine=demand_of(models, loads, fine, FINE_SOURCES),
        replicas=replicas_of(variants, readings, sightings),
        ready=ready_replicas(variants, readings, attribution),
        unschedulable=unschedulable_pods(readings, attribution),
        requests=requests_of(models, readings),
        stored_kv_tokens=stored_capacities(readings, attribution),
    )


def _queued(
    models: Sequence[Model], loads: Mapping[ModelKey, Load | NoAnswer], queues: Mapping[ModelKey, UpstreamQueue]
) -> dict[ModelKey, Load | NoAnswer]:
    """The loads; where no replica runs and nothing counts arrivals, what waits before them has arrived at least."""
    known = dict(loads)
    for model in models:
        load, queue = loads[model.key], queues.get(model.key)
        is_uncounted = isinstance(load, NoAnswer) and load.absence is Absence.MISSING
        if is_uncounted and queue is not None and queue.num_waiting and not _runs(model):
            known[model.key] = Load(
                arrival_rate_per_s=queue.num_waiting / WINDOW_S,
                output_tokens=0.0,
                input_tokens=None,
                window_s=WINDOW_S,
                arrivals_from=ArrivalSource.ENDPOINT_PICKER,
            )
    return known


def _runs(model: Model) -> bool:
    return any(member.current.replicas for member in model.members)


def _first(name: str, reasons: Sequence[str]) -> tuple[str, ...]:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return tuple(f"{name}: {reason}{more}" for reason in reasons[:1])
