"""The replicas of each variant: which report, what each reports, and whether it can be true."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Observation, Performance, ReplicaMetrics
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import is_usable, printable
from reconciler.metrics.quantities import WINDOW_S, WORKLOAD_LABELS, Name
from reconciler.metrics.readings import (
    UNSAID,
    Attribution,
    Instance,
    KvCapacity,
    MetricReadings,
    ObjectName,
    ReplicaSeries,
    Served,
    served_by,
    target_of,
    total,
)

# --- was reconciler/metrics/reading/sightings.py:
# Which replicas reported lately, and which variant each belongs to.

STALE_AFTER_S = 300.0
"""Older samples are stale: Prometheus itself drops a silent series after 5 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattributedPods:
    """How many of the pods that report a model belong to no variant we know."""

    unattributed: int
    pods: int

    def __str__(self) -> str:
        percent = 100 * self.unattributed / self.pods
        return f"{self.unattributed} of {self.pods} pods ({percent:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """`series_of` each variant, `reporting` now and fresh, and the `shares` of models with unattributed pods.

    Under the empty name is the share of pods that report no model and may be anybody's; `unnamed` are the variants
    with replicas of that sort. `frozen` are scraped and stand still, which is as good as silent.
    """

    series_of: Mapping[ResourceKey, tuple[ReplicaSeries, ...]]
    reporting: frozenset[ReplicaSeries]
    shares: Mapping[Served, UnattributedPods]
    unnamed: frozenset[ResourceKey] = frozenset()
    frozen: frozenset[ReplicaSeries] = frozenset()


def sight(readings: MetricReadings, attribution: Attribution, now_s: float) -> Sightings:
    """Every series of the last hour, each attributed once."""
    last_seen = readings.of_pods(Name.LAST_SEEN)
    running = readings.of_pods(Name.RUNNING)
    fresh = frozenset(series for series in running if is_fresh(last_seen.get(series, 0.0), now_s))
    frozen = frozenset(series for series in fresh if _is_frozen(series, readings))
    reporting = fresh - frozen
    series_of: dict[ResourceKey, list[ReplicaSeries]] = {}
    strangers: set[ReplicaSeries] = set()
    for series in sorted({*last_seen, *running, *readings.of_pods(Name.COMPLETIONS)}):
        variant = attribution.variant_of(series)
        if variant is not None:
            series_of.setdefault(variant, []).append(series)
        elif series.model or not attribution.is_elsewhere(series):
            strangers.add(series)
    return Sightings(
        series_of={variant: tuple(found) for variant, found in series_of.items()},
        reporting=reporting,
        shares=_shares(reporting, strangers),
        unnamed=frozenset(variant for variant, found in series_of.items() if not readings.renamed.isdisjoint(found)),
        frozen=frozen,
    )


def _is_frozen(series: ReplicaSeries, readings: MetricReadings) -> bool:
    """Whether requests run in a replica, and for a whole window none came, none went and no token was made."""
    if readings.of_pods(Name.CHANGES).get(series) != 0 or not readings.of_pods(Name.RUNNING)[series] > 0:
        return False
    is_decoding = not math.isnan(readings.of_pods(Name.ITL).get(series, math.nan))
    return not is_decoding and readings.of_pods(Name.COMPLETIONS).get(series, 0.0) == 0


def is_fresh(seen_s: float, now_s: float) -> bool:
    """Whether a sample of `seen_s` is recent; one from the future comes of a wrong clock and is not."""
    return abs(now_s - seen_s) <= STALE_AFTER_S


def pods_in(series: frozenset[ReplicaSeries] | set[ReplicaSeries]) -> dict[Served, set[ObjectName]]:
    """The pods behind `series`, by the model they report."""
    pods: dict[Served, set[ObjectName]] = {}
    for one in series:
        pods.setdefault(Served(one.namespace, one.model), set()).add(ObjectName(one.namespace, one.pod))
    return pods


def _shares(reporting: frozenset[ReplicaSeries], strangers: set[ReplicaSeries]) -> dict[Served, UnattributedPods]:
    everyone = pods_in(reporting)
    unknown = pods_in(reporting & strangers)
    return {
        served: UnattributedPods(unattributed=len(pods), pods=len(everyone[served])) for served, pods in unknown.items()
    }


# --- was reconciler/metrics/reading/instances.py:
# KV cache, queue and lengths of each replica: of a pod, or of each data-parallel rank of one.

Reasoned = tuple[float | None, str]
"""A value, or None and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """One cluster's instances: the data-parallel ranks of each pod, and how much each holds."""

    ranks: Mapping[ObjectName, tuple[str, ...]]
    capacities: Mapping[ObjectName, Mapping[str, KvCapacity]]


def instances_in(readings: MetricReadings) -> Instances:
    """All instances that report KV cache usage or queue length."""
    ranks: dict[ObjectName, set[str]] = {}
    for name in (Name.KV_CACHE_USAGE, Name.NUM_WAITING):
        for one in readings.per_instance.get(name, {}):
            ranks.setdefault(ObjectName(one.namespace, one.pod), set()).add(one.rank)
    capacities: dict[ObjectName, dict[str, KvCapacity]] = {}
    for series, said in sorted(readings.capacities.get(Name.KV_TOKENS, {}).items()):
        capacities.setdefault(ObjectName(series.namespace, series.pod), {}).update(said)
    return Instances(
        # an engine tells its ranks apart or does not: a series without a rank is of no further one
        ranks={pod: tuple(sorted(filter(None, found))) or ("",) for pod, found in ranks.items()},
        capacities=capacities,
    )


def replicas_of(
    variants: Sequence[Variant], instances: Instances, readings: MetricReadings, sightings: Sightings
) -> dict[ResourceKey, tuple[ReplicaMetrics, ...]]:
    """The fresh replicas of each variant, sorted; empty when nobody asked how full they are."""
    if Name.KV_CACHE_USAGE not in readings.answered:
        return {}
    return {variant.key: _replicas(variant.key, instances, readings, sightings) for variant in variants}


def stored_capacities(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, float]:
    """Tokens that an instance of each variant held within the last day; the fewest, when several were told."""
    stored: dict[ResourceKey, float] = {}
    for series, ranks in readings.capacities.get(Name.STORED_KV_TOKENS, {}).items():
        variant = attribution.variant_of(series)
        told = [capacity.tokens for capacity in ranks.values() if capacity.tokens is not None]
        if variant is not None and told:
            stored[variant] = min(stored.get(variant, told[0]), *told)
    return stored


def ready_replicas(
    variants: Sequence[Variant], readings: MetricReadings, attribution: Attribution
) -> dict[ResourceKey, int]:
    """Replicas that Kubernetes calls ready, of variants whose scale target is their own and is a kind it counts."""
    ready: dict[ResourceKey, int] = {}
    for variant in variants:
        count = readings.ready.get(target_of(variant))
        if count is not None and is_usable(count) and attribution.by_target.get(target_of(variant)) == variant.key:
            ready[variant.key] = int(count)
    return ready


def unschedulable_pods(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, int]:
    """How many pods of each variant find no node."""
    pods: dict[ResourceKey, int] = {}
    for pod in sorted(readings.unschedulable):
        variant = attribution.variant_of(ReplicaSeries(pod.namespace, pod.name, "", ""))
        if variant is not None:
            pods[variant] = pods.get(variant, 0) + 1
    return pods


def _replicas(
    variant: ResourceKey, instances: Instances, readings: MetricReadings, sightings: Sightings
) -> tuple[ReplicaMetrics, ...]:
    fresh = {
        ObjectName(series.namespace, series.pod): series
        for series in sorted(sightings.series_of.get(variant, ()))
        if series in sightings.reporting
    }
    return tuple(
        _replica(variant, series, rank, instances, readings)
        for pod, series in fresh.items()
        for rank in instances.ranks.get(pod, ("",))
    )


def _replica(
    variant: ResourceKey, series: ReplicaSeries, rank: str, instances: Instances, readings: MetricReadings
) -> ReplicaMetrics:
    pod = ObjectName(series.namespace, series.pod)
    instance = Instance(series.namespace, series.pod, rank)
    ranks, capacities = instances.ranks.get(pod, ("",)), instances.capacities.get(pod, {})
    said = {
        "kv_cache_usage": _of_instance(Name.KV_CACHE_USAGE, instance, readings),
        "num_waiting": _of_instance(Name.NUM_WAITING, instance, readings),
        "prefix_hit_rate": _of_instance(Name.PREFIX_HIT_RATE, instance, readings),
        "input_tokens": _of_pod(Name.INPUT_TOKENS, series, readings),
        "output_tokens": _of_pod(Name.OUTPUT_TOKENS, series, readings),
    }
    running = readings.of_pods(Name.RUNNING).get(series, math.nan)
    capacity = capacities.get(rank) or capacities.get("") or UNSAID
    reasons = {field: reason for field, (_, reason) in said.items() if reason}
    if capacity.tokens is None:
        reasons["total_kv_tokens"] = _why_no_capacity(instance, capacities, readings)
    return ReplicaMetrics(
        pod=series.pod,
        variant=variant,
        instance=rank if len(ranks) > 1 else "",
        kv_cache_usage=said["kv_cache_usage"][0],
        num_waiting=said["num_waiting"][0],
        num_running=running if is_usable(running) else None,
        input_tokens=said["input_tokens"][0],
        output_tokens=said["output_tokens"][0],
        num_blocks=capacity.num_blocks,
        block_tokens=capacity.block_tokens,
        total_kv_tokens=capacity.total,
        prefix_hit_rate=said["prefix_hit_rate"][0],
        reasons=reasons,
    )


def _of_instance(name: Name, instance: Instance, readings: MetricReadings) -> Reasoned:
    values = readings.per_instance.get(name, {})
    value = values.get(instance)
    if value is None:
        value = values.get(instance._replace(rank=""))
    return _reasoned(name, instance.pod, value, readings)


def _of_pod(name: Name, series: ReplicaSeries, readings: MetricReadings) -> Reasoned:
    return _reasoned(name, series.pod, readings.of_pods(name).get(series), readings)


def _reasoned(name: Name, pod: str, value: float | None, readings: MetricReadings) -> Reasoned:
    if value is not None and is_usable(value):
        return value, ""
    if value is None:
        return None, _why_silent(name, pod, readings)
    if math.isnan(value):
        return None, f"pod {printable(pod)} reports NaN as {name}: it was idle"
    return None, f"pod {printable(pod)} reports {value} as {name}"


def _why_silent(name: Name, pod: str, readings: MetricReadings) -> str:
    if name in readings.failed:
        return readings.failed[name].reason
    if name not in readings.answered:
        return f"Prometheus was not asked for {name}"
    return f"no series tells {name} of pod {printable(pod)}"


def _why_no_capacity(instance: Instance, capacities: Mapping[str, KvCapacity], readings: MetricReadings) -> str:
    if instance.rank in capacities or "" in capacities:
        return f"pod {printable(instance.pod)} reports no number of blocks and tokens for its KV cache"
    return _why_silent(Name.KV_TOKENS, instance.pod, readings)


# --- was reconciler/metrics/reading/plausibility.py:
# What cannot be: a replica that says more than it can do, and counts of the same requests that differ.

FEW_REQUESTS = 32.0
"""So many at once are never held against a replica: scrapes may miss a short burst."""
BEYOND_OWN = 100.0
"""Times what a replica had in its batch at most, whatever a step of a batch makes of a request at once."""
BEYOND_PEERS = 4.0
"""Times what its peers need for theirs: whatever makes the two differ is the same for all of them."""
FEWEST_PEERS = 3
LONGER_THAN_PEERS = 30.0
FEWEST_FINISHED = 100.0
"""Requests whose mean length says something of a replica."""
LONGEST_QUEUE_S = 4 * 3600.0
SHORT_QUEUE = 1000.0
"""What may wait in a replica: four hours of what it finishes, or as many as these when it finishes little.

Clients of batches do wait for hours in an overload, and that is when replicas are needed most. Where peers say how much
waits in them, a replica is held against these as well: a balancer spreads what comes.
"""
NOISE = 5.0
"""Standard deviations of counts that are independent of each other."""
TOLERATED = 0.1
"""Of the larger of two counts: probes, retries and requests that are under way. Half of the built-in headroom."""


def why_implausible(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> NoAnswer | None:
    """Why what these replicas of one variant report cannot be, with both numbers; None when it can."""
    reasons = (
        *_beyond_batch(fresh, readings),
        *_beyond_queue(fresh, readings),
        *_beyond_peers(Name.OUTPUT_TOKENS, fresh, readings),
        *_beyond_peers(Name.INPUT_TOKENS, fresh, readings),
    )
    return NoAnswer(absence=Absence.CONTRADICTORY, reason=reasons[0]) if reasons else None


def is_beyond_noise(one_per_s: float, other_per_s: float) -> bool:
    """Whether two rates of the same requests, counted over one window, differ by more than chance and habit."""
    by_chance = NOISE * math.sqrt((one_per_s + other_per_s) / WINDOW_S)
    return abs(one_per_s - other_per_s) > by_chance + TOLERATED * max(one_per_s, other_per_s)


def _beyond_batch(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Little's law: what a replica finishes in a second, times how long each takes, is in its batch at once."""
    most = readings.of_pods(Name.MOST_RUNNING)
    at_once = {one: needed for one in fresh if one in most and (needed := _at_once(one, readings)) is not None}
    shares = {one: needed / max(most[one], 1.0) for one, needed in at_once.items() if is_usable(most[one])}
    busy = [share for share in shares.values() if share > 0]
    usual = max(median(busy), 1.0) if len(busy) >= FEWEST_PEERS else BEYOND_OWN
    for one, share in shares.items():
        if share > min(usual * BEYOND_PEERS, BEYOND_OWN) and at_once[one] > FEW_REQUESTS:
            finished, tokens = readings.of_pods(Name.COMPLETIONS)[one], readings.of_pods(Name.OUTPUT_TOKENS)[one]
            yield (
                f"pod {printable(one.pod)} says that it finishes {finished:.6g} req/s of {tokens:.6g} output tokens: "
                f"that takes {at_once[one]:.4g} requests at once, it has had at most {most[one]:.4g}"
            )


def _at_once(one: ReplicaSeries, readings: MetricReadings) -> float | None:
    told = [readings.of_pods(name).get(one) for name in (Name.COMPLETIONS, Name.OUTPUT_TOKENS, Name.ITL)]
    known = [value for value in told if value is not None and 0 <= value < math.inf]
    return math.prod(known) if len(known) == len(told) else None


def _beyond_queue(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    finished, waiting = readings.of_pods(Name.COMPLETIONS), readings.of_pods(Name.WAITING)
    told = [waiting[one] for one in fresh if is_usable(waiting.get(one, math.nan))]
    usual = median(told) if len(told) >= FEWEST_PEERS else math.inf
    for one in fresh:
        rate, queue = finished.get(one, 0.0), waiting.get(one, 0.0)
        if usual < math.inf and queue > SHORT_QUEUE + LONGER_THAN_PEERS * usual:
            yield (
                f"pod {printable(one.pod)} says that {queue:.6g} requests wait in it, half of its peers say at most "
                f"{usual:.4g}"
            )
        if is_usable(rate) and queue > SHORT_QUEUE + LONGEST_QUEUE_S * rate:
            yield (
                f"pod {printable(one.pod)} says that {queue:.6g} requests wait in it while it finishes {rate:.4g} "
                f"req/s: nobody waits {queue / max(rate, 1 / WINDOW_S) / 60:.3g} min"
            )


def _beyond_peers(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Mean lengths of many requests each, which a balancer spreads over replicas that are alike."""
    values, finished = readings.of_pods(name), readings.of_pods(Name.COMPLETIONS)
    busy = [one for one in fresh if finished.get(one, 0.0) * WINDOW_S >= FEWEST_FINISHED and values.get(one, 0.0) > 0]
    if len(busy) < FEWEST_PEERS:
        return
    usual = median(values[one] for one in busy)
    for one in busy:
        if values[one] > LONGER_THAN_PEERS * usual:
            yield (
                f"pod {printable(one.pod)} says that its requests have {values[one]:.4g} {name.replace('_', ' ')}, "
                f"half of its peers say at most {usual:.4g}"
            )


# --- was reconciler/metrics/reading/observations.py:
# A variant's latencies and requests as its replicas report them, or why they cannot be trusted.

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
