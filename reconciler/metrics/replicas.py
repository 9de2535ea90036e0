"""The replicas of each variant: which of them report now, what they report, and whether that is plausible."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Observation, Performance, ReplicaMetrics
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import is_usable, printable
from reconciler.metrics.quantities import WINDOW_S, WORKLOAD_LABELS, Name
from reconciler.metrics.readings import (
    UNKNOWN_CAPACITY,
    Attribution,
    Instance,
    KvCapacity,
    MetricReadings,
    ObjectName,
    ReplicaSeries,
    Served,
    grouped,
    served_by,
    target_of,
    total,
)

STALE_AFTER_S = 300.0
"""Older samples are stale: Prometheus itself drops a silent series after 5 minutes."""
MOST_SURPLUS = 2
MOST_SURPLUS_SHARE = 1.5
"""Pods beyond Git: the surge of a rolling update is as large only for minutes."""

# ---- which replicas report


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """The series of each variant and those `reporting` now; `strangers` are pods that belong to no variant, by model.

    `pods` are all pods by the model they report. Pods that report no model have the empty name and may belong to any
    variant; `unnamed` are the variants with such replicas. `frozen` series never change, and count as not reporting.
    """

    series_of: Mapping[ResourceKey, tuple[ReplicaSeries, ...]]
    reporting: frozenset[ReplicaSeries]
    pods: Mapping[Served, set[ObjectName]]
    strangers: Mapping[Served, set[ObjectName]]
    unnamed: frozenset[ResourceKey] = frozenset()
    frozen: frozenset[ReplicaSeries] = frozenset()

    def reporting_of(self, variant: ResourceKey) -> tuple[ReplicaSeries, ...]:
        """The series of a variant's replicas that report now."""
        return tuple(one for one in self.series_of.get(variant, ()) if one in self.reporting)


def sight(readings: MetricReadings, attribution: Attribution, now_s: float) -> Sightings:
    """Every series of the last hour, each attributed once."""
    last_seen, running = readings.of_pods(Name.LAST_SEEN), readings.of_pods(Name.RUNNING)
    changes, itl = readings.of_pods(Name.CHANGES), readings.of_pods(Name.ITL)
    finished = readings.of_pods(Name.COMPLETIONS)
    # a sample from the future is from a wrong clock
    fresh = frozenset(one for one in running if abs(now_s - last_seen.get(one, 0.0)) <= STALE_AFTER_S)
    # requests run, but for a whole window none started or finished and no token was generated
    idle = {one for one in fresh if finished.get(one, 0.0) == 0 and math.isnan(itl.get(one, math.nan))}
    frozen = frozenset(one for one in idle if changes.get(one) == 0 and running[one] > 0)
    reporting = fresh - frozen
    series_of: dict[ResourceKey, list[ReplicaSeries]] = {}
    strangers: set[ReplicaSeries] = set()
    for series in sorted({*last_seen, *running, *finished}):
        variant = attribution.variant_of(series)
        if variant is not None:
            series_of.setdefault(variant, []).append(series)
        elif series.model or not attribution.is_elsewhere(series):
            strangers.add(series)
    return Sightings(
        series_of={variant: tuple(found) for variant, found in series_of.items()},
        reporting=reporting,
        pods=_pods_by_model(reporting),
        strangers=_pods_by_model(reporting & strangers),
        unnamed=frozenset(variant for variant, found in series_of.items() if not readings.renamed.isdisjoint(found)),
        frozen=frozen,
    )


def _pods_by_model(series: Iterable[ReplicaSeries]) -> dict[Served, set[ObjectName]]:
    pairs = ((Served(one.namespace, one.model), ObjectName(one.namespace, one.pod)) for one in series)
    return {served: set(pods) for served, pods in grouped(pairs).items()}


# ---- what Kubernetes reports of them


def ready_replicas(
    variants: Sequence[Variant], readings: MetricReadings, attribution: Attribution
) -> dict[ResourceKey, int]:
    """Ready replicas of variants with a scale target of their own, of a kind that kube-state-metrics counts."""
    counts = ((variant.key, target_of(variant)) for variant in variants)
    return {
        key: int(readings.ready[target])
        for key, target in counts
        if is_usable(readings.ready.get(target, math.nan)) and attribution.by_target.get(target) == key
    }


def unschedulable_pods(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, int]:
    """How many pods of each variant cannot be scheduled."""
    pods = (ReplicaSeries(pod.namespace, pod.name, "", "") for pod in sorted(readings.unschedulable))
    return dict(Counter(variant for pod in pods if (variant := attribution.variant_of(pod)) is not None))


def stored_capacities(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, float]:
    """The smallest KV cache of an instance of each variant within the last day, in tokens."""
    stored: dict[ResourceKey, float] = {}
    for series, ranks in readings.capacities.get(Name.STORED_KV_TOKENS, {}).items():
        variant = attribution.variant_of(series)
        tokens = [capacity.tokens for capacity in ranks.values() if capacity.tokens is not None]
        if variant is not None and tokens:
            stored[variant] = min(stored.get(variant, tokens[0]), *tokens)
    return stored


# ---- KV cache, queue and lengths of each replica: of a pod, or of each data-parallel rank of one


def replicas_of(
    variants: Sequence[Variant], readings: MetricReadings, sightings: Sightings
) -> dict[ResourceKey, tuple[ReplicaMetrics, ...]]:
    """The fresh replicas of each variant, sorted; empty when their KV cache was not queried."""
    if Name.KV_CACHE_USAGE not in readings.answered:
        return {}
    reported = [readings.per_instance.get(name, {}) for name in (Name.KV_CACHE_USAGE, Name.NUM_WAITING)]
    seen = grouped((ObjectName(one.namespace, one.pod), one.rank) for one in chain(*reported))
    # an engine either reports ranks or it does not: a series without a rank is not another rank
    ranks_of = {pod: sorted(filter(None, set(found))) or [""] for pod, found in seen.items()}
    capacities: dict[ObjectName, dict[str, KvCapacity]] = {}
    for series, of_ranks in sorted(readings.capacities.get(Name.KV_TOKENS, {}).items()):
        capacities.setdefault(ObjectName(series.namespace, series.pod), {}).update(of_ranks)
    replicas: dict[ResourceKey, tuple[ReplicaMetrics, ...]] = {}
    for variant in variants:
        fresh = {ObjectName(one.namespace, one.pod): one for one in sorted(sightings.reporting_of(variant.key))}
        found = []
        for pod, series in fresh.items():
            ranks = ranks_of.get(pod, [""])
            for rank in ranks:
                replica = _replica(variant.key, series, rank, capacities.get(pod, {}), readings)
                found.append(replica if len(ranks) > 1 else replace(replica, instance=""))
        replicas[variant.key] = tuple(found)
    return replicas


def _replica(
    variant: ResourceKey,
    series: ReplicaSeries,
    rank: str,
    capacities: Mapping[str, KvCapacity],
    readings: MetricReadings,
) -> ReplicaMetrics:
    pod, reasons = printable(series.pod), dict[str, str]()

    def silent(name: Name) -> str:
        absence = readings.absence_of(name)
        return absence.reason if absence is not None else f"no series of {name} for pod {pod}"

    def known(name: Name, value: float | None, field: str) -> float | None:
        if value is not None and is_usable(value):
            return value
        if value is None:
            reasons[field] = silent(name)
        else:
            idle = "NaN as {}: it was idle" if math.isnan(value) else f"{value} as {{}}"
            reasons[field] = f"pod {pod} reports {idle.format(name)}"
        return None

    def of_instance(name: Name) -> float | None:
        values, instance = readings.per_instance.get(name, {}), Instance(series.namespace, series.pod, rank)
        return known(name, values.get(instance, values.get(instance._replace(rank=""))), name)

    running = readings.of_pods(Name.RUNNING).get(series, math.nan)
    capacity = capacities.get(rank) or capacities.get("") or UNKNOWN_CAPACITY
    if capacity.tokens is None:
        is_reported = rank in capacities or "" in capacities
        unknown = f"pod {pod} reports no number of blocks and tokens for its KV cache"
        reasons["total_kv_tokens"] = unknown if is_reported else silent(Name.KV_TOKENS)
    return ReplicaMetrics(
        pod=series.pod,
        variant=variant,
        instance=rank,
        kv_cache_usage=of_instance(Name.KV_CACHE_USAGE),
        num_waiting=of_instance(Name.NUM_WAITING),
        num_running=running if is_usable(running) else None,
        input_tokens=known(Name.INPUT_TOKENS, readings.of_pods(Name.INPUT_TOKENS).get(series), "input_tokens"),
        output_tokens=known(Name.OUTPUT_TOKENS, readings.of_pods(Name.OUTPUT_TOKENS).get(series), "output_tokens"),
        num_blocks=capacity.num_blocks,
        block_tokens=capacity.block_tokens,
        total_kv_tokens=capacity.total,
        prefix_hit_rate=of_instance(Name.PREFIX_HIT_RATE),
        reasons=reasons,
    )


# ---- implausible reports: a replica that does more than it can, and counts of the same requests that differ

FEW_REQUESTS = 32.0
"""Fewer requests at once are never implausible: scrapes may miss a short burst."""
BEYOND_OWN = 100.0
"""Times the largest batch of a replica, however much one step of a batch does for a request."""
BEYOND_PEERS = 4.0
"""Times what its peers need for theirs: any other difference is the same for all of them."""
FEWEST_PEERS = 3
LONGER_THAN_PEERS = 30.0
FEWEST_FINISHED = 100.0
"""Requests whose mean length describes a replica."""
LONGEST_QUEUE_S = 4 * 3600.0
SHORT_QUEUE = 1000.0
"""The longest plausible queue of a replica: what it finishes in four hours, and a number for one that finishes little.

Batch clients do wait for hours under overload, which is when replicas are needed most. A queue is also compared with
those of peers, as a balancer spreads requests.
"""
NOISE = 5.0
"""Standard deviations of counts that are independent of each other."""
TOLERATED = 0.1
"""Of the larger of two counts, for probes, retries and requests in progress. Half of the built-in headroom."""


def is_beyond_noise(one_per_s: float, other_per_s: float) -> bool:
    """Whether two rates of the same requests over one window differ by more than chance and tolerance."""
    by_chance = NOISE * math.sqrt((one_per_s + other_per_s) / WINDOW_S)
    return abs(one_per_s - other_per_s) > by_chance + TOLERATED * max(one_per_s, other_per_s)


def _beyond_batch(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Little's law: what a replica finishes in a second, times how long each takes, is in its batch at once."""
    most, finished = readings.of_pods(Name.MOST_RUNNING), readings.of_pods(Name.COMPLETIONS)
    tokens, itl = readings.of_pods(Name.OUTPUT_TOKENS), readings.of_pods(Name.ITL)
    at_once: dict[ReplicaSeries, float] = {}
    for one in fresh:
        factors = [values.get(one, math.nan) for values in (finished, tokens, itl)]
        if one in most and all(0 <= factor < math.inf for factor in factors):
            at_once[one] = math.prod(factors)
    shares = {one: needed / max(most[one], 1.0) for one, needed in at_once.items() if is_usable(most[one])}
    busy = [share for share in shares.values() if share > 0]
    usual = max(median(busy), 1.0) if len(busy) >= FEWEST_PEERS else BEYOND_OWN
    for one, share in shares.items():
        if share > min(usual * BEYOND_PEERS, BEYOND_OWN) and at_once[one] > FEW_REQUESTS:
            yield (
                f"pod {printable(one.pod)} reports {finished[one]:.6g} finished req/s of {tokens[one]:.6g} output "
                f"tokens: that takes {at_once[one]:.4g} requests at once, it has had at most {most[one]:.4g}"
            )


def _beyond_queue(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    finished, waiting = readings.of_pods(Name.COMPLETIONS), readings.of_pods(Name.WAITING)
    known = [waiting[one] for one in fresh if is_usable(waiting.get(one, math.nan))]
    usual = median(known) if len(known) >= FEWEST_PEERS else math.inf
    for one in fresh:
        rate, queue = finished.get(one, 0.0), waiting.get(one, 0.0)
        reports = f"pod {printable(one.pod)} reports {queue:.6g} waiting requests"
        if usual < math.inf and queue > SHORT_QUEUE + LONGER_THAN_PEERS * usual:
            yield f"{reports}, half of its peers report at most {usual:.4g}"
        if is_usable(rate) and queue > SHORT_QUEUE + LONGEST_QUEUE_S * rate:
            minutes = queue / max(rate, 1 / WINDOW_S) / 60
            yield f"{reports} and finishes {rate:.4g} req/s: no client waits {minutes:.3g} min"


def _beyond_peers(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Mean lengths over many requests, which a balancer spreads evenly."""
    values, finished = readings.of_pods(name), readings.of_pods(Name.COMPLETIONS)
    busy = [one for one in fresh if finished.get(one, 0.0) * WINDOW_S >= FEWEST_FINISHED and values.get(one, 0.0) > 0]
    if len(busy) < FEWEST_PEERS:
        return
    usual = median(values[one] for one in busy)
    for one in busy:
        if values[one] > LONGER_THAN_PEERS * usual:
            yield (
                f"pod {printable(one.pod)} reports requests of {values[one]:.4g} {name.replace('_', ' ')}, "
                f"half of its peers report at most {usual:.4g}"
            )


# ---- the latencies and requests of a variant, or why they cannot be trusted


def observe(variant: Variant, readings: MetricReadings, sightings: Sightings, now_s: float) -> Observation:
    """What a variant's replicas report; means are weighted by the requests that each finished."""
    series, fresh = sightings.series_of.get(variant.key, ()), sightings.reporting_of(variant.key)
    last_seen = readings.of_pods(Name.LAST_SEEN)
    times_s = [last_seen[one] for one in series if one in last_seen]
    seen_s = max((time_s for time_s in times_s if is_usable(time_s) and time_s <= now_s + STALE_AFTER_S), default=None)
    age_s = None if seen_s is None else max(now_s - seen_s, 0.0)
    absence = (
        _of_several_clusters(variant, readings)
        or _unattributed(variant, sightings)
        or _surplus(variant, fresh)
        or _unusable(fresh, readings)
    )
    if absence is None:
        implausible = chain(
            _beyond_batch(fresh, readings),
            _beyond_queue(fresh, readings),
            _beyond_peers(Name.OUTPUT_TOKENS, fresh, readings),
            _beyond_peers(Name.INPUT_TOKENS, fresh, readings),
        )
        absence = next((NoAnswer(Absence.CONTRADICTORY, reason) for reason in implausible), None)
    if absence is None and variant.current.replicas > 0 and not fresh:
        absence = _frozen(series, sightings, readings) or _unseen(variant, sightings, seen_s, now_s)
    return Observation(
        performance=Performance(
            itl_s=_mean(Name.ITL, fresh, readings),
            wait_s=_mean(Name.WAIT, fresh, readings),
            ttft_s=_mean(Name.TTFT, fresh, readings),
        ),
        num_running=_sum(Name.RUNNING, fresh, readings),
        num_waiting=_sum(Name.WAITING, fresh, readings),
        replicas_reporting=len({one.pod for one in fresh}),
        age_s=age_s,
        absence=absence,
    )


def unobserved(absence: NoAnswer) -> Observation:
    """A variant without observations, and why."""
    return Observation(performance=Performance(), absence=absence)


def _of_several_clusters(variant: Variant, readings: MetricReadings) -> NoAnswer | None:
    """Why pods of a namespace may belong to another cluster: their series name several."""
    namespace = variant.model.namespace
    clusters = sorted(filter(None, readings.clusters.get(namespace, ())))
    if len(clusters) < 2:
        return None
    named = ", ".join(map(printable, clusters))
    return NoAnswer(
        Absence.UNATTRIBUTED,
        f"pods of {len(clusters)} clusters ({named}) report in namespace {printable(namespace)}: say which is meant by "
        f"clusters[].prometheus.matchLabels, as in {{cluster: {printable(clusters[0])}}}",
    )


def _surplus(variant: Variant, fresh: Sequence[ReplicaSeries]) -> NoAnswer | None:
    """Why so many pods cannot all be the variant's: a rolling update has half as many again only for minutes."""
    pods, wanted = len({one.pod for one in fresh}), variant.current.replicas
    workload = variant.workload
    _, kind, _ = target_of(variant)
    if workload is None or kind not in WORKLOAD_LABELS or variant.is_autoscaled:
        return None
    if pods < wanted + MOST_SURPLUS or pods <= wanted * MOST_SURPLUS_SHARE:
        return None
    return NoAnswer(
        Absence.CONTRADICTORY,
        f"{pods} pods report for {variant.key.label} and Git asks for {wanted}: a deployment under way, pods of "
        "another cluster (clusters[].prometheus.matchLabels), or replicas that somebody set by hand",
    )


def _unattributed(variant: Variant, sightings: Sightings) -> NoAnswer | None:
    for served in served_by(variant):
        pods, everyone = len(sightings.strangers.get(served, ())), len(sightings.pods.get(served, ()))
        if pods:
            return NoAnswer(
                Absence.UNATTRIBUTED,
                f"{pods} of {everyone} pods ({100 * pods / everyone:.0f} %) that report model "
                f'"{printable(served.model)}" belong to no variant in Git: '
                "label them llm-d.ai/variant, or scrape kube-state-metrics",
            )
    # a pod that reports no model may belong to a variant whose replicas report none either
    strangers = _strangers(variant, sightings) if variant.key in sightings.unnamed else ""
    return NoAnswer(Absence.UNATTRIBUTED, strangers) if strangers else None


def _strangers(variant: Variant, sightings: Sightings) -> str:
    pods = sightings.strangers.get(Served(variant.model.namespace, ""))
    if pods is None:
        return ""
    return (
        f"no variant in Git has the pods that report no model, as TGI and Triton do ({len(pods)} seen): "
        "label them llm-d.ai/variant, or scrape kube-state-metrics"
    )


def _unusable(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> NoAnswer | None:
    for name in (Name.RUNNING, Name.WAITING):
        values = readings.of_pods(name)
        for one in fresh:
            if one in values and not is_usable(values[one]):
                return NoAnswer(Absence.NAN, f"pod {printable(one.pod)} reports {values[one]} requests {name}")
    return None


def _frozen(series: Sequence[ReplicaSeries], sightings: Sightings, readings: MetricReadings) -> NoAnswer | None:
    frozen = [one for one in series if one in sightings.frozen]
    if not frozen:
        return None
    running = sum(readings.of_pods(Name.RUNNING)[one] for one in frozen)
    return NoAnswer(
        Absence.STALE,
        f"metrics stale: nothing that its {len(frozen)} replicas report has changed for {WINDOW_S // 60:.0f}m, "
        f"while {running:.6g} requests run in them",
    )


def _unseen(variant: Variant, sightings: Sightings, seen_s: float | None, now_s: float) -> NoAnswer:
    if seen_s is None:
        names = " or ".join(f'"{printable(served.model)}"' for served in served_by(variant))
        strangers = _strangers(variant, sightings)
        hint = strangers or "are its pods running and scraped, and is this the name they serve?"
        when = "" if strangers else " within an hour"
        where = f"namespace {printable(variant.model.namespace)}"
        return NoAnswer(Absence.MISSING, f"no series for model {names} in {where}{when}: {hint}")
    age_s = now_s - seen_s
    if age_s <= STALE_AFTER_S:
        return NoAnswer(Absence.MISSING, f"metrics missing: its replicas stopped reporting {age_s:.0f} s ago")
    minutes = int(age_s // 60)
    age = f"{minutes} min" if minutes > STALE_AFTER_S // 60 else f"{age_s:.0f} s"
    return NoAnswer(Absence.STALE, f"metrics stale: last sample {age} ago, limit {STALE_AFTER_S // 60:.0f}m")


def _sum(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> float | None:
    values = readings.of_pods(name)
    found = [values[one] for one in fresh if one in values]
    summed = total(found) if found else None
    return summed if summed is not None and is_usable(summed) else None


def _mean(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> float | None:
    values, finished = readings.of_pods(name), readings.of_pods(Name.COMPLETIONS)
    found = {one: values[one] for one in fresh if is_usable(values.get(one, -1.0))}
    weights = {one: finished[one] if is_usable(finished.get(one, -1.0)) else 0.0 for one in found}
    if not any(weights.values()):
        weights = dict.fromkeys(found, 1.0)
    return sum(found[one] * weights[one] for one in found) / sum(weights.values()) if found else None
