"""A variant's latencies and requests as its replicas report them, or why they cannot be trusted."""

from collections.abc import Mapping, Sequence

from reconciler.domain.measured.answers import Absence, NoAnswer
from reconciler.domain.measured.loads import Observation, Performance
from reconciler.domain.variants import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.attribution import served_by
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.plausibility import why_implausible
from reconciler.metrics.reading.readings import MetricReadings, ReplicaSeries, Served, total
from reconciler.metrics.reading.sightings import STALE_AFTER_S, Sightings

UNSEEN = Performance()


def observe(variant: Variant, readings: MetricReadings, sightings: Sightings, now_s: float) -> Observation:
    """The variant as its own replicas report it; means are weighted by the requests each replica finished."""
    series = sightings.series_of.get(variant.key, ())
    fresh = tuple(one for one in series if one in sightings.reporting)
    last_seen = readings.of_pods(Name.LAST_SEEN)
    times_s = [last_seen[one] for one in series if one in last_seen]
    seen_s = max((time_s for time_s in times_s if is_usable(time_s) and time_s <= now_s + STALE_AFTER_S), default=None)
    absence = _unattributed(variant, sightings) or _unusable(fresh, readings) or why_implausible(fresh, readings)
    if absence is None and variant.current.replicas > 0 and not fresh:
        absence = _unseen(variant, seen_s, now_s, _strangers(variant, sightings))
    return Observation(
        performance=Performance(
            itl_s=_mean(Name.ITL, fresh, readings),
            wait_s=_mean(Name.WAIT, fresh, readings),
            ttft_s=_mean(Name.TTFT, fresh, readings),
        ),
        num_running=_sum(Name.RUNNING, fresh, readings),
        num_waiting=_sum(Name.WAITING, fresh, readings),
        replicas_reporting=len({one.pod for one in fresh}),
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
