"""A variant's latencies and requests as its replicas report them, or why they cannot be trusted."""

from collections.abc import Mapping, Sequence

from reconciler.domain.measured.answers import Absence, NoAnswer
from reconciler.domain.measured.loads import Observation, Performance
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.kubernetes import WORKLOAD_LABELS
from reconciler.metrics.quantities.quantity import WINDOW_S, Name
from reconciler.metrics.reading.attribution import served_by
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.plausibility import why_implausible
from reconciler.metrics.reading.readings import MetricReadings, ReplicaSeries, Served, total
from reconciler.metrics.reading.sightings import STALE_AFTER_S, Sightings

UNSEEN = Performance()
MOST_SURPLUS = 2
MOST_SURPLUS_SHARE = 1.5
"""Pods beyond Git: a surge of a rolling update is as large only for minutes."""


def observe(variant: Variant, readings: MetricReadings, sightings: Sightings, now_s: float) -> Observation:
    """The variant as its own replicas report it; means are weighted by the requests each replica finished."""
    series = sightings.series_of.get(variant.key, ())
    fresh = tuple(one for one in series if one in sightings.reporting)
    last_seen = readings.of_pods(Name.LAST_SEEN)
    times_s = [last_seen[one] for one in series if one in last_seen]
    seen_s = max((time_s for time_s in times_s if is_usable(time_s) and time_s <= now_s + STALE_AFTER_S), default=None)
    absence = (
        _of_several_clusters(variant, readings)
        or _unattributed(variant, sightings)
        or _surplus(variant, fresh)
        or _unusable(fresh, readings)
        or why_implausible(fresh, readings)
    )
    if absence is None and variant.current.replicas > 0 and not fresh:
        absence = _frozen(series, sightings, readings) or _unseen(
            variant, seen_s, now_s, _strangers(variant, sightings)
        )
    return Observation(
        performance=Performance(
            itl_s=_mean(Name.ITL, fresh, readings),
            wait_s=_mean(Name.WAIT, fresh, readings),
            ttft_s=_mean(Name.TTFT, fresh, readings),
        ),
        num_running=_sum(Name.RUNNING, fresh, readings),
        num_waiting=_sum(Name.WAITING, fresh, readings),
        replicas_reporting=len({one.pod for one in fresh}),
        age_s=None if seen_s is None else max(now_s - seen_s, 0.0),
        absence=absence,
    )


def unobserved(absence: NoAnswer) -> Observation:
    """A variant of which nothing is known, and why."""
    return Observation(performance=UNSEEN, absence=absence)


def stale_reason(age_s: float) -> str:
    """The hold's words for metrics whose newest sample is `age_s` old."""
    minutes = int(age_s // 60)
    age = f"{minutes} min" if minutes > STALE_AFTER_S // 60 else f"{age_s:.0f} s"
    return f"metrics stale: last sample {age} ago, limit {STALE_AFTER_S // 60:.0f}m"


def _of_several_clusters(variant: Variant, readings: MetricReadings) -> NoAnswer | None:
    """Why the pods of a namespace may be another cluster's: their series name more than one."""
    namespace = variant.model.namespace
    clusters = sorted(filter(None, readings.clusters.get(namespace, ())))
    if len(clusters) < 2:
        return None
    named = ", ".join(map(printable, clusters))
    reason = (
        f"pods of {len(clusters)} clusters ({named}) report in namespace {printable(namespace)}: say which is meant by "
        f"clusters[].prometheus.matchLabels, as in {{cluster: {printable(clusters[0])}}}"
    )
    return NoAnswer(absence=Absence.UNATTRIBUTED, reason=reason)


def _surplus(variant: Variant, fresh: Sequence[ReplicaSeries]) -> NoAnswer | None:
    """Why so many pods cannot be the variant's alone: no rolling update has half as many again for long."""
    pods, asked = len({one.pod for one in fresh}), variant.current.replicas
    workload = variant.workload
    if workload is None or workload.key.kind not in WORKLOAD_LABELS or variant.is_autoscaled:
        return None
    if pods < asked + MOST_SURPLUS or pods <= asked * MOST_SURPLUS_SHARE:
        return None
    reason = (
        f"{pods} pods report for {variant.key.label} and Git asks for {asked}: a deployment under way, pods of another "
        "cluster (clusters[].prometheus.matchLabels), or replicas that somebody set by hand"
    )
    return NoAnswer(absence=Absence.CONTRADICTORY, reason=reason)


def _unattributed(variant: Variant, sightings: Sightings) -> NoAnswer | None:
    for served in served_by(variant):
        share = sightings.shares.get(served)
        if share:
            reason = (
                f'{share} that report model "{printable(served.model)}" belong to no variant in Git: '
                "label them llm-d.ai/variant, or scrape kube-state-metrics"
            )
            return NoAnswer(absence=Absence.UNATTRIBUTED, reason=reason)
    # a pod that reports no model may be one of a variant whose replicas report none either
    strangers = _strangers(variant, sightings) if variant.key in sightings.unnamed else ""
    return NoAnswer(absence=Absence.UNATTRIBUTED, reason=strangers) if strangers else None


def _strangers(variant: Variant, sightings: Sightings) -> str:
    share = sightings.shares.get(Served(variant.model.namespace, ""))
    if share is None:
        return ""
    return (
        f"no variant in Git has the pods that report no model, as TGI and Triton do ({share.unattributed} seen): "
        "label them llm-d.ai/variant, or scrape kube-state-metrics"
    )


def _unusable(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> NoAnswer | None:
    for name in (Name.RUNNING, Name.WAITING):
        values = readings.of_pods(name)
        for one in fresh:
            if one in values and not is_usable(values[one]):
                reason = f"pod {printable(one.pod)} reports {values[one]} requests {name}"
                return NoAnswer(absence=Absence.NAN, reason=reason)
    return None


def _frozen(series: Sequence[ReplicaSeries], sightings: Sightings, readings: MetricReadings) -> NoAnswer | None:
    frozen = [one for one in series if one in sightings.frozen]
    if not frozen:
        return None
    running = sum(readings.of_pods(Name.RUNNING)[one] for one in frozen)
    reason = (
        f"metrics stale: nothing that its {len(frozen)} replicas report has changed for {WINDOW_S // 60:.0f}m, "
        f"while {running:.6g} requests run in them"
    )
    return NoAnswer(absence=Absence.STALE, reason=reason)


def _unseen(variant: Variant, seen_s: float | None, now_s: float, strangers: str) -> NoAnswer:
    if seen_s is None:
        names = " or ".join(f'"{printable(served.model)}"' for served in served_by(variant))
        reason = (
            f"no series for model {names} in namespace {printable(variant.model.namespace)} within an hour: "
            "are its pods running and scraped, and is this the name they serve?"
        )
        if strangers:
            reason = f"no series for model {names} in namespace {printable(variant.model.namespace)}: {strangers}"
        return NoAnswer(absence=Absence.MISSING, reason=reason)
    age_s = now_s - seen_s
    if age_s > STALE_AFTER_S:
        return NoAnswer(absence=Absence.STALE, reason=stale_reason(age_s))
    return NoAnswer(
        absence=Absence.MISSING, reason=f"metrics missing: its replicas stopped reporting {age_s:.0f} s ago"
    )


def _sum(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> float | None:
    values = readings.of_pods(name)
    found = [values[one] for one in fresh if one in values]
    summed = total(found) if found else None
    return summed if summed is not None and is_usable(summed) else None


def _mean(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> float | None:
    values = readings.of_pods(name)
    finished = readings.of_pods(Name.COMPLETIONS)
    found = {one: values[one] for one in fresh if is_usable(values.get(one, -1.0))}
    weights = {one: finished[one] if is_usable(finished.get(one, -1.0)) else 0.0 for one in found}
    if not any(weights.values()):
        weights = dict.fromkeys(found, 1.0)
    return _weighted_mean(found, weights) if found else None


def _weighted_mean(values: Mapping[ReplicaSeries, float], weights: Mapping[ReplicaSeries, float]) -> float:
    return sum(values[one] * weights[one] for one in values) / sum(weights.values())
