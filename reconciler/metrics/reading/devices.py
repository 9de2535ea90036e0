"""Devices that nodes of a cluster offer and pods hold, by kube-state-metrics; a doubtful number is None."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.answers import Absence, NoAnswer, Sample
from reconciler.domain.measured.observed import ClusterNode, DevicesSeen, Holding
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.devices import CORDONED, FACT, LABELS, NOT_READY, OFFERS, SEEN, SETTLED_S
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.attribution import Attribution, target_of
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.readings import MetricReadings, ObjectName, ReplicaSeries


def devices_seen(variants: Iterable[Variant], readings: MetricReadings, names: LabelNames, now_s: float) -> DevicesSeen:
    """What the answers of one cluster say at `now_s` (Unix seconds)."""
    nodes, requests = _answered(Name.NODES, readings), _answered(Name.DEVICE_REQUESTS, readings)
    variant_of = _membership(variants, readings)
    return DevicesSeen(
        nodes=nodes if isinstance(nodes, NoAnswer) else _read_nodes(nodes, now_s),
        holdings=requests
        if isinstance(requests, NoAnswer)
        else tuple(_holding(sample, names, variant_of) for sample in requests),
    )


def _answered(name: Name, readings: MetricReadings) -> Sequence[Sample] | NoAnswer:
    if name in readings.failed:
        return readings.failed[name]
    if name not in readings.answered:
        return NoAnswer(absence=Absence.FAILED, reason=f"Prometheus was not asked for {name}")
    return readings.devices.get(name, ())


def _read_nodes(samples: Sequence[Sample], now_s: float) -> tuple[ClusterNode, ...] | NoAnswer:
    told: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        facts = told.setdefault(sample.labels.get(FACT, ""), {})
        facts.setdefault(sample.labels.get("node", ""), []).append(sample)
    offers, seen = told.get(OFFERS, {}), told.get(SEEN, {})
    doubt = _doubt(offers, seen, now_s)
    if doubt is not None:
        return doubt
    return tuple(_node(name, told, now_s) for name in sorted({*offers, *seen}))


def _doubt(offers: Mapping[str, object], seen: Mapping[str, Sequence[Sample]], now_s: float) -> NoAnswer | None:
    """Why the nodes that are known may not be all there are; None when they are."""
    for metric, found in (("kube_node_info", seen), ("kube_node_status_allocatable", offers)):
        if not found:
            reason = f"no series of {metric}: this Prometheus scrapes no kube-state-metrics that exports it"
            return NoAnswer(absence=Absence.MISSING, reason=reason)
    times_s = {name: samples[0].value for name, samples in seen.items()}
    broken = sorted(name for name, time_s in times_s.items() if not is_usable(time_s))
    if broken:
        reason = f"kube_node_info of node {printable(broken[0])} has no time that could be read"
        return NoAnswer(absence=Absence.NAN, reason=reason)
    silent_s = now_s - max(times_s.values())
    if silent_s > SETTLED_S:
        reason = f"kube-state-metrics told nothing of any node for {silent_s / 60:.0f} min"
        return NoAnswer(absence=Absence.STALE, reason=reason)
    return None


def _node(name: str, told: Mapping[str, Mapping[str, Sequence[Sample]]], now_s: float) -> ClusterNode:
    def of(fact: str) -> Sequence[Sample]:
        return told.get(fact, {}).get(name, ())

    labels: dict[str, set[str]] = {}
    for sample in of(LABELS):
        for label, value in sample.labels.items():
            if label.startswith("label_") and value:
                labels.setdefault(label, set()).add(value)
    return ClusterNode(
        name=printable(name),
        offers={sample.labels.get("resource", ""): _count(sample.value) for sample in of(OFFERS)},
        labels={label: min(values) for label, values in labels.items() if len(values) == 1},
        is_changed=any(len(values) > 1 for values in labels.values()),
        closed=" and ".join(fact for fact in (CORDONED, NOT_READY) if of(fact)),
        is_silent=all(now_s - sample.value > SETTLED_S for sample in of(SEEN)) and bool(of(SEEN)),
    )


def _holding(sample: Sample, names: LabelNames, variant_of: Callable[[ObjectName], ResourceKey | None]) -> Holding:
    label = sample.labels.get
    pod = ObjectName(label(names.namespace, ""), label(names.pod, ""))
    return Holding(
        namespace=printable(pod.namespace),
        node=printable(label("node", "")),
        resource=label("resource", ""),
        devices=_count(sample.value),
        variant=variant_of(pod),
    )


def _count(value: float) -> int | None:
    return int(value) if is_usable(value) else None


def _membership(variants: Iterable[Variant], readings: MetricReadings) -> Callable[[ObjectName], ResourceKey | None]:
    """Finds a pod's variant; where two variants share a scale target either will do: its devices are ours."""
    ours = list(variants)
    attribution = Attribution(
        by_name={ObjectName(variant.key.namespace, variant.key.name): variant.key for variant in ours},
        by_target={target_of(variant): variant.key for variant in ours},
        by_model={},
        readings=readings,
    )

    def variant_of(pod: ObjectName) -> ResourceKey | None:
        # of a replica that is a group of pods, only the first is named as the others are found by
        group, _, number = pod.name.rpartition("-")
        names = (pod.name, f"{group}-0") if number.isdecimal() else (pod.name,)
        found = (attribution.variant_of(ReplicaSeries(pod.namespace, name, "", "")) for name in names)
        return next(filter(None, found), None)

    return variant_of
