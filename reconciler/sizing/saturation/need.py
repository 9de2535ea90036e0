"""What a role needs, in whatever unit its replicas can be counted: the seam between analyzers and the engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import ReplicaMetrics, Role, UpstreamQueue
from reconciler.sizing.saturation.answer import ModelReadings
from reconciler.sizing.saturation.capacities import MeanLengths, VariantTokens, queued_tokens, variant_tokens
from reconciler.sizing.saturation.compute_bound import BoundHistory, forget_exceeded, workload_of
from reconciler.sizing.saturation.pods import clear_labels, sort_pods
from reconciler.sizing.saturation.replicas import Screened, screen_queue
from reconciler.sizing.saturation.thresholds import Thresholds
from reconciler.sizing.saturation.tokens import ReplicaTokens, replica_tokens, tokens_in_use
from reconciler.sizing.saturation.variants import VariantFacts

# A full queue says that more is needed, not how much: one replica's queue asks for one more at most.
_MOST_PER_QUEUE = 2.0
_QUEUE_UNKNOWN = "the upstream queue is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a role needs in `unit`, against what it has.

    `demand` is what its replicas work on, `full` the part of what they carry up to which that may grow (0-1).
    `wanted` is needed at once; `kept` must stay after a removal. `has` is what all replicas carry, `has_ready` those
    that serve already. A replica that nobody can judge counts as exactly as loaded as it may be: it neither asks nor
    gives. `doubts` says in words what is not known: then nothing may shrink.
    """

    unit: str
    demand: float
    full: float
    wanted: float
    kept: float
    has: float
    has_ready: float
    per_replica: Mapping[ResourceKey, float]
    doubts: tuple[str, ...]
    unsized: Mapping[ResourceKey, str]
    is_loaded: bool = True


def filled_in(replicas: Sequence[ReplicaMetrics], lengths: MeanLengths | None) -> tuple[ReplicaMetrics, ...]:
    """Return the replicas with the model's mean lengths where one that just started has none of its own."""
    if lengths is None:
        return tuple(replicas)
    return tuple(
        each
        if each.input_tokens is not None and each.output_tokens is not None
        else replace(
            each,
            input_tokens=lengths.input_tokens if each.input_tokens is None else each.input_tokens,
            output_tokens=lengths.output_tokens if each.output_tokens is None else each.output_tokens,
        )
        for each in replicas
    )


def described_in_tokens(
    readings: ModelReadings, screened: Screened, lengths: MeanLengths | None
) -> tuple[Mapping[ResourceKey, tuple[ReplicaTokens, ...]], tuple[VariantTokens, ...]]:
    """Return every replica that has a capacity in tokens, and every variant, running or not."""
    variants = readings.sound_variants()
    filled = {variant: filled_in(screened.of(variant.key), lengths) for variant in variants}
    history = _believed(readings.history, filled)
    tokens = {
        variant.key: tuple(
            each
            for replica in replicas
            if (each := _in_tokens(replica, variant, readings.thresholds, history)) is not None
        )
        for variant, replicas in filled.items()
    }
    return tokens, variant_tokens(variants, tokens, lengths, readings.thresholds)


def need_in_tokens(
    role: Role,
    group: Sequence[VariantTokens],
    tokens: Mapping[ResourceKey, Sequence[ReplicaTokens]],
    screened: Screened,
    readings: ModelReadings,
    lengths: MeanLengths | None,
) -> Need:
    """Return the need of a role whose running variants all have a capacity in tokens."""
    up, down = readings.thresholds.scale_up.value, readings.thresholds.scale_down.value
    queued, queue_doubts = _queued(readings.queue, lengths, role)
    wanted, demand, doubts, unsized = [queued / up], [queued], list(queue_doubts), {}
    for each in group:
        capacity = each.per_replica_tokens
        if capacity is None:
            unsized[each.key] = "nobody knows what one replica of it holds"
            continue
        pods = sort_pods(each.variant, screened, clear_labels(each.variant, tokens[each.key], screened))
        doubts.extend(pods.words)
        asked = dict.fromkeys((*pods.judged, *pods.doubtful), 0.0)
        for token in tokens[each.key]:
            asked[token.replica.pod] += token.demand_tokens
        demand.extend((*asked.values(), pods.silent * capacity * up))
        wanted.extend(asked[pod] / up for pod in pods.judged)
        wanted.extend(max(asked[pod] / up, capacity) for pod in pods.doubtful)
        wanted.append(pods.silent * capacity)
    sized = [(each.variant, each.per_replica_tokens) for each in group if each.per_replica_tokens is not None]
    return Need(
        unit="tokens",
        demand=math.fsum(demand),
        full=up,
        wanted=math.fsum(wanted),
        kept=math.fsum(demand) / down,
        has=math.fsum(variant.current_replicas * capacity for variant, capacity in sized),
        has_ready=math.fsum(variant.ready_replicas * capacity for variant, capacity in sized),
        per_replica={variant.key: capacity for variant, capacity in sized},
        doubts=tuple(doubts),
        unsized=unsized,
        is_loaded=any(demand),
    )


def need_in_replicas(group: Sequence[VariantFacts], screened: Screened, readings: ModelReadings) -> Need:
    """Return the need of a role in replicas loaded as far as `percent` lets them be.

    One replica's share is its KV cache usage over (limit - spare), or its queue over (limit - spare), whichever asks
    for more over all replicas. All replicas count, saturated ones most of all. What must stay is more than what is
    needed by the band between `scale_down` and `scale_up`: without it a replica would come and go with every ripple.
    """
    thresholds = readings.thresholds
    kv_full = thresholds.kv_cache_usage.value - thresholds.kv_spare.value
    waiting_full = thresholds.num_waiting.value - thresholds.waiting_spare.value
    kv_shares: list[float] = []
    waiting_shares: list[float] = []
    doubts: list[str] = []
    for variant in group:
        pods = sort_pods(variant, screened)
        doubts.extend(pods.words)
        instances = screened.by_pod(variant.key)
        for own in (instances[pod] for pod in (*pods.judged, *pods.doubtful)):
            kv_shares.append(_share([each.kv_cache_usage for each in own], kv_full))
            waiting_shares.append(min(_share([each.num_waiting for each in own], waiting_full), _MOST_PER_QUEUE))
        kv_shares.extend([1.0] * pods.silent)
        waiting_shares.extend([1.0] * pods.silent)
    if kv_full <= 0 or waiting_full <= 0:
        doubts.append("the thresholds leave no room between spare and saturated")
    queue = UpstreamQueue(num_waiting=0.0) if readings.queue is None else screen_queue(readings.queue)
    if queue.num_waiting is None:
        doubts.append(queue.reason or _QUEUE_UNKNOWN)
    has = sum(variant.current_replicas for variant in group)
    # A queue that no replica has yet is counted in requests of unknown size: it asks for one more, no number does.
    wanted = max(math.fsum(kv_shares), math.fsum(waiting_shares), has + 1.0 if queue.num_waiting else 0.0)
    return Need(
        unit="replicas",
        demand=wanted,
        full=1.0,
        wanted=wanted,
        kept=wanted * thresholds.scale_up.value / thresholds.scale_down.value,
        has=float(has),
        has_ready=float(sum(variant.ready_replicas for variant in group)),
        per_replica={variant.key: 1.0 for variant in group},
        doubts=tuple(doubts),
        unsized={},
        is_loaded=wanted > 0,
    )


def _share(values: Sequence[float | None], full: float) -> float:
    """A pod's part of what it may carry; 1 where it does not say, or where the thresholds leave no measure."""
    known = [value for value in values if value is not None]
    if full <= 0 or not known:
        return 1.0
    share = fmean(known) / full
    return share if len(known) == len(values) else max(share, 1.0)


def _queued(queue: UpstreamQueue | None, lengths: MeanLengths | None, role: Role) -> tuple[float, tuple[str, ...]]:
    if queue is None:
        return 0.0, ()
    sound = screen_queue(queue)
    doubts = [sound.reason or _QUEUE_UNKNOWN] if sound.num_waiting is None else []
    has_lengths = lengths is not None and lengths.input_tokens and (lengths.output_tokens or role is Role.PREFILL)
    if sound.num_waiting and not has_lengths:
        doubts.append("requests wait upstream, and nobody knows their lengths")
    if sound.num_waiting and sound.waiting_bytes is None:
        doubts.append("requests wait upstream, and nobody knows their bytes")
    return queued_tokens(sound, lengths).for_role(role), tuple(doubts)


def _in_tokens(
    replica: ReplicaMetrics, variant: VariantFacts, thresholds: Thresholds, history: BoundHistory
) -> ReplicaTokens | None:
    if replica.kv_cache_usage is None and replica.num_waiting is None:
        return None
    return replica_tokens(replica, variant, thresholds, history, corrects_history=True)


def _believed(history: BoundHistory, replicas: Mapping[VariantFacts, Sequence[ReplicaMetrics]]) -> BoundHistory:
    """The history without the bounds that a replica exceeds right now."""
    for variant, own in replicas.items():
        for each in own:
            if each.kv_cache_usage is not None and each.kv_tokens is not None:
                in_use = tokens_in_use(each.kv_cache_usage, each.kv_tokens)
                history = forget_exceeded(history, workload_of(variant, each.output_tokens), in_use)
    return history
