"""Sizing by how full replicas are: KV cache, queue and tokens, for models without a stated SLO.

Formulas and defaults: rules/saturation.md.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from statistics import fmean

from reconciler.domain.identity import Figure, ModelKey, ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role, UpstreamQueue, is_usual_churn
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation_readings import (
    PERCENT_UNITS,
    TOKEN_UNITS,
    BoundHistory,
    LayeredThresholds,
    Origin,
    ReplicaTokens,
    Screened,
    Thresholds,
    VariantFacts,
    by_role,
    clear_labels,
    derived_bound,
    find_lacking,
    forget_exceeded,
    layer_thresholds,
    number_fault,
    obstacle_of,
    remembered_bound,
    replica_tokens,
    screen,
    screen_queue,
    sort_pods,
    threshold_figures,
    tokens_in_use,
    workload_of,
)

# What one token of a prompt takes in a queue that counts bytes.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTokens:
    """A variant in tokens: `per_instance_tokens` is the median capacity of its instances, None when it is not known.

    Supply and pending count instances: where a replica has several (data-parallel ranks), `instances_per_replica`
    of them.
    """

    variant: VariantFacts
    per_instance_tokens: float | None
    origin: Origin
    instances: int
    pending_instances: int
    demand_tokens: float
    instances_per_replica: float = 1.0

    @property
    def key(self) -> ResourceKey:
        """The variant's key."""
        return self.variant.key

    @property
    def supply_tokens(self) -> float:
        """What its instances hold."""
        return self.instances * (self.per_instance_tokens or 0.0)

    @property
    def anticipated_tokens(self) -> float:
        """What they hold once the pending ones serve."""
        return (self.instances + self.pending_instances) * (self.per_instance_tokens or 0.0)

    @property
    def per_replica_tokens(self) -> float | None:
        """What one replica holds, all its instances together."""
        return None if self.per_instance_tokens is None else self.per_instance_tokens * self.instances_per_replica


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLengths:
    """How long the requests of a model are, in tokens (None: unknown), and the part of prompts in the cache (0-1)."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    prefix_hit_rate: float = 0.0


def mean_lengths(replicas: Sequence[ReplicaMetrics], before: MeanLengths) -> MeanLengths:
    """Return the mean of each length over the replicas that report it; `before` where no replica does."""

    def mean(name: str, otherwise: float | None) -> float | None:
        return fmean(values) if (values := [each for own in replicas if (each := getattr(own, name))]) else otherwise

    rates = [each.prefix_hit_rate for each in replicas if each.prefix_hit_rate is not None and each.input_tokens]
    return MeanLengths(
        input_tokens=mean("input_tokens", before.input_tokens),
        output_tokens=mean("output_tokens", before.output_tokens),
        prefix_hit_rate=fmean(rates) if rates else before.prefix_hit_rate,
    )


def variant_tokens(
    variants: Sequence[VariantFacts],
    replicas: Mapping[ResourceKey, Sequence[ReplicaTokens]],
    lengths: MeanLengths,
    thresholds: Thresholds,
) -> tuple[VariantTokens, ...]:
    """Return every variant in tokens, in the order given: from its replicas, else from what is remembered of it."""
    live = {
        variant.key: _median([each.capacity_tokens for each in replicas[variant.key]])
        for variant in variants
        if replicas.get(variant.key)
    }
    records = {**{each.key: record for each in variants if (record := _record(each)) is not None}, **live}
    described = []
    for variant in variants:
        own = replicas.get(variant.key, ())
        if own:
            capacity: float | None = live[variant.key]
            origin = own[0].origin
        else:
            capacity, origin = _without_replicas(variant, variants, records, lengths, thresholds)
        described.append(_describe(variant, own, capacity, origin))
    return tuple(described)


def _describe(
    variant: VariantFacts, own: Sequence[ReplicaTokens], capacity: float | None, origin: Origin
) -> VariantTokens:
    ready, instances = variant.ready_replicas, len(own) or variant.ready_replicas
    ratio = instances / ready if ready and instances > ready else 1.0
    pods = len({each.replica.pod for each in own})
    return VariantTokens(
        variant=variant,
        per_instance_tokens=capacity or None,
        origin=origin if capacity else Origin.NO_DATA,
        instances=instances,
        pending_instances=int(variant.pending_replicas * ratio),
        demand_tokens=sum(each.demand_tokens for each in own),
        instances_per_replica=len(own) / pods if pods else 1.0,
    )


def _without_replicas(
    variant: VariantFacts,
    variants: Sequence[VariantFacts],
    records: Mapping[ResourceKey, float],
    lengths: MeanLengths,
    thresholds: Thresholds,
) -> tuple[float | None, Origin]:
    """Its own live record, else what its launch settings promise, else what a compatible variant holds."""
    if variant.key in records:
        return records[variant.key], Origin.STORED
    compatible = _compatible_capacity(variant, variants, records)
    if variant.launch is None:
        return compatible, Origin.STORED
    if not lengths.output_tokens:
        return float(variant.launch.batched_tokens), Origin.STORED
    inputs, outputs = lengths.input_tokens or 0.0, lengths.output_tokens
    bounds = [float(derived_bound(variant.launch, input_tokens=inputs, output_tokens=outputs))]
    if variant.stored is not None and _is_positive(variant.stored.total_kv_tokens):
        bounds.append(float(int((variant.stored.total_kv_tokens or 0.0) * thresholds.kv_cache_usage.value)))
    if compatible is not None:
        bounds.append(compatible)
    return min(bounds), Origin.DERIVED


def _compatible_capacity(
    variant: VariantFacts, variants: Sequence[VariantFacts], records: Mapping[ResourceKey, float]
) -> float | None:
    for other in variants:
        if (
            other.key in records
            and variant.accelerator
            and (other.accelerator, other.devices) == (variant.accelerator, variant.devices)
            and _is_launched_alike(variant.launch, other.launch)
        ):
            return records[other.key]
    return None


def _is_launched_alike(one: LaunchSettings | None, other: LaunchSettings | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.is_compatible(other)


def _record(variant: VariantFacts) -> float | None:
    stored = variant.stored.capacity_tokens if variant.stored is not None else None
    return stored if _is_positive(stored) else None


def _is_positive(value: float | None) -> bool:
    return value is not None and value > 0 and not number_fault(value)


def _median(values: Sequence[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return float((ordered[middle - 1] + ordered[middle]) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTokens:
    """What an upstream queue will ask for: prompts that are not cached, and outputs."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def for_role(self, role: Role) -> float:
        """The share that a role will hold: prefill no outputs, decode all of it."""
        return self.input_tokens if role is Role.PREFILL else self.input_tokens + self.output_tokens


def queued_tokens(queue: UpstreamQueue | None, lengths: MeanLengths) -> QueuedTokens:
    """Return the tokens of a queue: in = max(bytes / 4, size * I) * (1 - h), out = size * O; unknown lengths are 0."""
    if queue is None:
        return QueuedTokens()
    sound = screen_queue(queue)
    size = sound.num_waiting or 0.0
    prompts = max((sound.waiting_bytes or 0.0) / _BYTES_PER_TOKEN, size * (lengths.input_tokens or 0.0))
    return QueuedTokens(
        input_tokens=prompts * (1 - lengths.prefix_hit_rate), output_tokens=size * (lengths.output_tokens or 0.0)
    )


_KNOWN_FROM: Mapping[Origin, str] = {
    Origin.STORED: "as last seen, or as it was started",
    Origin.OBSERVED: "what a full one holds now",
    Origin.HISTORY: "what full ones held before",
    Origin.DERIVED: "by its batch size and the lengths of its requests",
    Origin.MEMORY: "what its KV cache holds",
    Origin.NO_DATA: "nothing says",
}


def capacity_figures(variants: Iterable[VariantTokens]) -> Iterator[Figure]:
    """Yield what a replica of each variant holds, and where that is known from."""
    for each in variants:
        yield Figure(
            subject=each.key.label,
            name="capacity of a replica",
            value=each.per_replica_tokens,
            unit="tokens",
            reason=_KNOWN_FROM[each.origin] if each.per_replica_tokens is not None else "no replica and no record says",
        )
        yield Figure(subject=each.key.label, name="demand", value=each.demand_tokens, unit="tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroRule:
    """Whether a model may go to zero, and the requests it got in the window that decides it.

    `requests` None is not known, for `reason`: then nothing goes to zero. `is_countable` is false where an engine
    does not count requests in a way that upstream reads (anything but vLLM).
    """

    is_enabled: bool = False
    requests: float | None = None
    reason: str = ""
    is_countable: bool = True

    @property
    def is_idle(self) -> bool:
        """Whether the window is known to have been without a single request."""
        return self.requests is not None and not number_fault(self.requests) and self.requests == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests of a model per second: `arriving` and `finished`. What waits shall be gone within `drain_s`."""

    arriving: float
    finished: float
    drain_s: float


@dataclass(frozen=True, kw_only=True)
class ModelReadings:
    """Everything that sizing one model needs; `history` is what earlier runs remembered, nothing is kept here.

    `lengths_before` are those of the last hour's requests: each is used while no replica reports it. `arriving_per_s`
    is of a model of which no replica runs.
    """

    model: ModelKey
    variants: tuple[VariantFacts, ...]
    replicas: tuple[ReplicaMetrics, ...] = ()
    queue: UpstreamQueue | None = None
    zero_rule: ZeroRule = field(default_factory=ZeroRule)
    history: BoundHistory = field(default_factory=dict)
    lengths_before: MeanLengths = MeanLengths()
    layered: LayeredThresholds = field(default_factory=layer_thresholds)
    flow: Flow | None = None
    arriving_per_s: float = 0.0

    @property
    def thresholds(self) -> Thresholds:
        """The effective thresholds."""
        return self.layered.thresholds

    def sound_variants(self) -> tuple[VariantFacts, ...]:
        """The variants whose own numbers can be used, sorted; of two with one key, none."""
        obstacles = self.obstacles()
        return tuple(sorted((each for each in self.variants if each.key not in obstacles), key=lambda each: each.key))

    def obstacles(self) -> dict[ResourceKey, str]:
        """In words, why the other variants cannot be sized."""
        declared = Counter(variant.key for variant in self.variants)
        return {
            each.key: obstacle_of(each) or "it is declared more than once"
            for each in self.variants
            if declared[each.key] > 1 or obstacle_of(each)
        }

    def screened(self) -> Screened:
        """Its replicas as far as they can be believed."""
        return screen(self.replicas, {variant.key for variant in self.variants})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What replicas work on in their requirement's unit, and the part of what they carry that it may fill (0-1).

    `least` is what a proposal that is open must carry to stay; None is all that is required. `reach` is what noise may
    have them need again; 0 where the past tells nothing of it.
    """

    demand: float
    full: float
    least: float | None = None
    reach: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationAnswer:
    """What saturation asks for a model: requirements for the optimizer, and what keeps variants from shrinking.

    `fillings` say how full the replicas of a requirement are. `floors` are replicas below which a variant must not go
    on this evidence, `held` says why a variant must stay as it is, `lacking` which of its metrics no replica reports,
    and `reasons` says per requirement why its amount is what it is.
    """

    requirements: tuple[Requirement, ...]
    reasons: Mapping[ModelKey, str]
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)
    floors: Mapping[ResourceKey, int] = field(default_factory=dict)
    held: Mapping[ResourceKey, str] = field(default_factory=dict)
    lacking: Mapping[ResourceKey, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()


# A full queue says that more is needed, not how much: where nothing tells what arrives, a replica's queue asks for one
# more at most.
_MOST_PER_QUEUE = 2.0
# Times the mean: replicas so much fuller than others get more than their part of the load.
UNEVEN = 1.2
_QUEUE_UNKNOWN = "the upstream queue is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a role needs in `unit`, against what it has.

    `demand` is what its replicas work on, `full` the part of what they carry up to which that may grow (0-1).
    `wanted` is needed at once; `kept` must stay after a removal. `has` is what all replicas carry, `has_ready` those
    that serve already. A replica that cannot be judged counts as exactly as loaded as it may be: it neither asks nor
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


def filled_in(replicas: Sequence[ReplicaMetrics], lengths: MeanLengths) -> tuple[ReplicaMetrics, ...]:
    """Return the replicas with the model's mean lengths where one that just started has none of its own."""
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
    readings: ModelReadings, screened: Screened, lengths: MeanLengths
) -> tuple[Mapping[ResourceKey, tuple[ReplicaTokens, ...]], tuple[VariantTokens, ...]]:
    """Return every replica that has a capacity in tokens, and every variant, running or not."""
    variants = readings.sound_variants()
    filled = {variant: filled_in(screened.of(variant.key), lengths) for variant in variants}
    history = _believed(readings.history, filled)
    tokens = {
        variant.key: _in_tokens(variant, screened.of(variant.key), replicas, readings.thresholds, history)
        for variant, replicas in filled.items()
    }
    return tokens, variant_tokens(variants, tokens, lengths, readings.thresholds)


def need_in_tokens(
    role: Role,
    group: Sequence[VariantTokens],
    tokens: Mapping[ResourceKey, Sequence[ReplicaTokens]],
    screened: Screened,
    readings: ModelReadings,
    lengths: MeanLengths,
) -> Need:
    """Return the need of a role whose running variants all have a capacity in tokens."""
    up, down = readings.thresholds.scale_up.value, readings.thresholds.scale_down.value
    queued, queue_doubts = _queued(readings.queue, lengths, role)
    wanted, demand, doubts, unsized = [queued / up], [queued], list(queue_doubts), {}
    served, silent = [0.0], [0.0]
    for each in group:
        capacity = each.per_replica_tokens
        if capacity is None:
            unsized[each.key] = "it is not known what one replica of it holds"
            continue
        pods = sort_pods(each.variant, screened, clear_labels(each.variant, tokens[each.key], screened))
        doubts.extend(pods.words)
        asked = dict.fromkeys((*pods.judged, *pods.doubtful), 0.0)
        used = dict(asked)
        for token in tokens[each.key]:
            asked[token.replica.pod] += token.demand_tokens
            used[token.replica.pod] += min(token.in_use_tokens, token.capacity_tokens)
        served.extend(used[pod] for pod in pods.judged)
        served.extend(max(used[pod], capacity * up) for pod in pods.doubtful)
        silent.append(pods.silent * capacity * up)
        demand.extend((*asked.values(), pods.silent * capacity * up))
        wanted.extend(asked[pod] / up for pod in pods.judged)
        wanted.extend(max(asked[pod] / up, capacity) for pod in pods.doubtful)
        wanted.append(pods.silent * capacity)
    sized = [(each.variant, each.per_replica_tokens) for each in group if each.per_replica_tokens is not None]
    needs, works_on = math.fsum(wanted), math.fsum(demand)
    has = math.fsum(variant.current_replicas * capacity for variant, capacity in sized)
    has_ready = math.fsum(variant.ready_replicas * capacity for variant, capacity in sized)
    backlog = _backlog([each.variant for each in group], screened, readings)
    if backlog is not None:
        asked_for, needs = needs, backlog.limited(needs, math.fsum(served), math.fsum(silent), has_ready, up)
        works_on = max(min(works_on, needs * up), math.fsum((*served, *silent)))
        if backlog.is_uneven or asked_for > has >= needs:
            doubts.append(backlog.words)
    return Need(
        unit="tokens",
        demand=works_on,
        full=up,
        wanted=needs,
        kept=works_on / down,
        has=has,
        has_ready=has_ready,
        per_replica={variant.key: capacity for variant, capacity in sized},
        doubts=tuple(doubts),
        unsized=unsized,
        is_loaded=any(demand),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backlog:
    """Requests that wait in long queues of replicas, or upstream, and what is known of how they came."""

    num_waiting: float
    flow: Flow | None
    is_uneven: bool
    """Whether they wait in replicas that are fuller than others: what all have together is no room for them."""

    @property
    def words(self) -> str:
        return f"{self.num_waiting:.4g} requests wait{', in replicas fuller than others' if self.is_uneven else ''}"

    def limited(self, needed: float, served: float, silent: float, has_ready: float, full: float) -> float:
        """What is needed for what arrives while replicas that report work on `served`, and others perhaps on `silent`.

        A backlog is no standing demand: replicas serve what arrives with room to spare (they may be used up to `full`),
        and what waits within a while. Where nothing tells what arrives, no more than as much again is asked for.
        """
        if self.flow is None:
            return min(needed, (served + silent + has_ready) / full)
        arriving = max(self.flow.arriving, self.flow.finished)
        draining = arriving + self.num_waiting / self.flow.drain_s
        return max(served / self.flow.finished * max(arriving / full, draining), (served + silent) / full)


def _backlog(group: Sequence[VariantFacts], screened: Screened, readings: ModelReadings) -> _Backlog | None:
    """What waits in more than the usual few replicas, or upstream; None where that is nothing."""
    queue = readings.queue and screen_queue(readings.queue).num_waiting
    waiting, ready, usages, full = queue or 0.0, 0, list[float](), list[float]()
    for variant in group:
        ready += variant.ready_replicas
        for instances in screened.by_pod(variant.key).values():
            own = math.fsum(each.num_waiting or 0.0 for each in instances)
            waiting += own
            usages.append(fmean(each.kv_cache_usage or 0.0 for each in instances))
            if own >= readings.thresholds.num_waiting.value:
                full.append(usages[-1])
    is_long = full and not is_usual_churn(len(full), ready)
    if not is_long and not (queue and ready):
        return None
    is_uneven = bool(is_long) and max(full) > UNEVEN * fmean(usages)
    return _Backlog(num_waiting=waiting, flow=readings.flow, is_uneven=is_uneven)


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
    silent = 0
    for variant in group:
        pods = sort_pods(variant, screened)
        silent += pods.silent
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
    by_queue, backlog = math.fsum(waiting_shares), _backlog(group, screened, readings)
    if backlog is not None and (backlog.is_uneven or backlog.num_waiting > has * waiting_full):
        doubts.append(backlog.words)
    if backlog is not None and backlog.flow is not None and waiting_full > 0:
        served = math.fsum(min(max(shares), 1.0) for shares in zip(kv_shares, waiting_shares, strict=True)) - silent
        by_queue = backlog.limited(by_queue, served, silent, has, 1.0)
    # A queue that no replica has yet is counted in requests of unknown size: it asks for one more, no number does.
    wanted = max(math.fsum(kv_shares), by_queue, has + 1.0 if queue.num_waiting else 0.0)
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


def _queued(queue: UpstreamQueue | None, lengths: MeanLengths, role: Role) -> tuple[float, tuple[str, ...]]:
    if queue is None:
        return 0.0, ()
    sound = screen_queue(queue)
    doubts = [sound.reason or _QUEUE_UNKNOWN] if sound.num_waiting is None else []
    has_lengths = lengths.input_tokens and (lengths.output_tokens or role is Role.PREFILL)
    if sound.num_waiting and not has_lengths:
        doubts.append("requests wait upstream, and their lengths are not known")
    if sound.num_waiting and sound.waiting_bytes is None:
        doubts.append("requests wait upstream, and their bytes are not known")
    return queued_tokens(sound, lengths).for_role(role), tuple(doubts)


def _in_tokens(
    variant: VariantFacts,
    reported: Sequence[ReplicaMetrics],
    filled: Sequence[ReplicaMetrics],
    thresholds: Thresholds,
    history: BoundHistory,
) -> tuple[ReplicaTokens, ...]:
    """Put replicas, with lengths filled in, into tokens; a mean length of the model proves no larger bound.

    A replica that works on requests of unknown length has the smallest bound that is known of any length; an idle one
    has the capacity of those that work.
    """
    keys = [key for key in history if (key.accelerator, key.devices) == (variant.accelerator, variant.devices)]
    smallest = min(filter(None, (remembered_bound(history, key) for key in keys)), default=math.inf)
    working, idle = [], []
    for before, replica in zip(reported, filled, strict=True):
        if replica.kv_cache_usage is None and replica.num_waiting is None:
            continue
        tokens = replica_tokens(replica, variant, thresholds, history, corrects_history=True)
        if tokens is None:
            continue
        if before.output_tokens is not None:
            working.append(tokens)
        elif replica.kv_cache_usage or replica.num_waiting:
            capacity = min(tokens.capacity_tokens, max(smallest, tokens.in_use_tokens))
            working.append(replace(tokens, capacity_tokens=capacity))
        else:
            idle.append(tokens)
    if working:
        typical = _median([each.capacity_tokens for each in working])
        idle = [replace(each, capacity_tokens=typical) for each in idle]
    return (*working, *idle)


def _believed(history: BoundHistory, replicas: Mapping[VariantFacts, Sequence[ReplicaMetrics]]) -> BoundHistory:
    """The history without the bounds that a replica exceeds right now."""
    for variant, own in replicas.items():
        for each in own:
            if each.kv_cache_usage is not None and each.kv_tokens is not None and each.output_tokens is not None:
                in_use = tokens_in_use(each.kv_cache_usage, each.kv_tokens)
                history = forget_exceeded(history, workload_of(variant, each.output_tokens), in_use)
    return history


# The engine `saturation`: what a model needs when its SLO is not stated, without the flaws of what it replaces.
# Against the reproduction modes: all that is needed in one step, every replica counted (saturated ones, lone ones),
# missing is unknown and never idle, pending replicas count and do not block, variants at zero are candidates, and of
# a model at zero only the cheapest variant wakes. The choice itself is the optimizer's.

# Sums of capacities in another order differ by this much: no reason to add a replica.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScreenedModel:
    """A model's readings, screened and put into tokens once for all its roles."""

    readings: ModelReadings
    screened: Screened
    lengths: MeanLengths
    tokens: Mapping[ResourceKey, Sequence[ReplicaTokens]]
    described: Mapping[ResourceKey, VariantTokens]
    has_obstacles: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoleAnswer:
    """A role's amount (None: hold everything), why, and which variants must not shrink or move."""

    amount: float | None
    reason: str
    need: Need | None = None
    may_shrink: bool = True

    @property
    def grows(self) -> bool:
        """Whether it asks for more than there is."""
        return self.need is not None and self.amount is not None and self.amount > self.need.has


def size_saturation(readings: ModelReadings) -> SaturationAnswer:
    """Return what a model needs, one requirement per role, and what must not shrink or move for want of evidence."""
    screened = readings.screened()
    lengths = mean_lengths(screened.replicas, readings.lengths_before)
    tokens, described = described_in_tokens(readings, screened, lengths)
    seen = _ScreenedModel(
        readings=readings,
        screened=screened,
        lengths=lengths,
        tokens=tokens,
        described={each.key: each for each in described},
        has_obstacles=bool(readings.obstacles()),
    )
    groups = by_role(readings.sound_variants())
    is_split = set(groups) - {Role.BOTH} != set()
    answers = {role: _answer_role(role, group, seen) for role, group in groups.items()}
    models = {role: replace(readings.model, role=role.value) if is_split else readings.model for role in groups}
    requirements = tuple(
        _requirement(models[role], groups[role], answer)
        for role, answer in answers.items()
        if answer.amount is not None
    )
    # Nothing may hold what the other metric asks for; without that, what is not reported leaves nothing to say.
    still = (role for role, answer in answers.items() if answer.need is not None and not answer.grows)
    return SaturationAnswer(
        requirements=requirements,
        reasons={models[role]: answer.reason for role, answer in answers.items()}
        or {readings.model: "none of its variants can be sized"},
        fillings={
            models[role]: Filling(demand=answer.need.demand, full=answer.need.full)
            for role, answer in answers.items()
            if answer.need is not None and answer.amount is not None
        },
        floors={
            variant.key: variant.current_replicas
            for role, answer in answers.items()
            if not answer.may_shrink
            for variant in groups[role]
        },
        held=_held(readings, groups, answers),
        lacking=find_lacking(screened, (variant.key for role in still for variant in groups[role])),
        figures=_figures(readings, described, answers),
        findings=(*readings.layered.findings, *screened.findings),
    )


def _answer_role(role: Role, group: Sequence[VariantFacts], seen: _ScreenedModel) -> _RoleAnswer:
    if not any(variant.current_replicas for variant in group):
        # A role at zero: one replica, of the optimizer's choice, as soon as a request is known to wait.
        if seen.readings.arriving_per_s > 0:
            arriving = f"{seen.readings.arriving_per_s:.4g} req/s arrive"
            return _RoleAnswer(amount=1.0, reason=f"{arriving} for a model at zero: one replica wakes")
        if seen.readings.queue is None or (waiting := screen_queue(seen.readings.queue).num_waiting) is None:
            return _RoleAnswer(amount=None, reason="at zero, and it is not known whether requests wait")
        if waiting > 0:
            return _RoleAnswer(amount=1.0, reason=f"{waiting:g} requests wait for a model at zero: one replica wakes")
        return _RoleAnswer(amount=0.0, reason="at zero, and no request waits")
    need = _need(role, group, seen)
    if not any(seen.screened.of(variant.key) for variant in group if variant.current_replicas):
        return _RoleAnswer(amount=None, reason="no replica reports: it is unknown, not idle", need=need)
    if need.unsized and not need.per_replica:
        return _RoleAnswer(amount=None, reason="it is not known what one replica holds", need=need)
    return _settle(need, group, seen)


def _settle(need: Need, group: Sequence[VariantFacts], seen: _ScreenedModel) -> _RoleAnswer:
    """More than it has, exactly what it has, or less: less only when everything is known and nothing is on its way."""
    pending = sum(variant.pending_replicas for variant in group)
    running_unsized = [each.key.label for each in group if each.current_replicas and each.key in need.unsized]
    doubts = [*need.doubts, *(f"{label} is not sized" for label in running_unsized)]
    if seen.has_obstacles:
        doubts.append("a variant of the model cannot be read")
    if need.wanted > need.has * (1 + _ROUNDING):
        reason = f"{need.wanted:.6g} {need.unit} needed, {need.has:.6g} there or pending"
        return _RoleAnswer(amount=need.wanted, reason=reason, need=need, may_shrink=not (doubts or pending))
    if doubts:
        return _RoleAnswer(amount=need.has, reason=f"held: {'; '.join(doubts)}", need=need, may_shrink=False)
    if pending:
        reason = f"enough once {pending} pending replicas serve"
        return _RoleAnswer(amount=need.has, reason=reason, need=need, may_shrink=False)
    if not need.is_loaded and seen.readings.zero_rule.is_enabled and seen.readings.zero_rule.is_idle:
        return _RoleAnswer(amount=0.0, reason="no request in the window: to zero", need=need)
    least = min(need.per_replica.values())
    if need.has_ready > need.kept:
        reason = f"{need.kept:.6g} {need.unit} must stay, {need.has_ready:.6g} are there"
        return _RoleAnswer(amount=max(need.kept, least), reason=reason, need=need)
    reason = f"{need.has:.6g} {need.unit} are enough, and not too many"
    return _RoleAnswer(amount=need.has, reason=reason, need=need)


def _need(role: Role, group: Sequence[VariantFacts], seen: _ScreenedModel) -> Need:
    """In tokens where every variant that runs has a capacity in tokens, else in replicas."""
    described = [seen.described[variant.key] for variant in group]
    if all(each.per_replica_tokens is not None for each in described if each.variant.current_replicas):
        return need_in_tokens(role, described, seen.tokens, seen.screened, seen.readings, seen.lengths)
    return need_in_replicas(group, seen.screened, seen.readings)


def _requirement(model: ModelKey, group: Sequence[VariantFacts], answer: _RoleAnswer) -> Requirement:
    carried = answer.need.per_replica if answer.need is not None else {variant.key: 1.0 for variant in group}
    return Requirement(
        model=model,
        unit=answer.need.unit if answer.need is not None else "replicas",
        segments=(Segment(amount=answer.amount or 0.0),),
        per_replica={
            variant.key.on(variant.accelerator): carried[variant.key] for variant in group if variant.key in carried
        },
    )


def _held(
    readings: ModelReadings,
    groups: Mapping[Role, Sequence[VariantFacts]],
    answers: Mapping[Role, _RoleAnswer],
) -> dict[ResourceKey, str]:
    held = readings.obstacles()
    for role, answer in answers.items():
        if answer.amount is None:
            held |= {variant.key: answer.reason for variant in groups[role]}
        elif answer.need is not None:
            held |= dict(answer.need.unsized)
    return held


def _figures(
    readings: ModelReadings, described: Sequence[VariantTokens], answers: Mapping[Role, _RoleAnswer]
) -> tuple[Figure, ...]:
    units = {each.need.unit for each in answers.values() if each.need is not None}
    names = {**(PERCENT_UNITS if "replicas" in units else {}), **(TOKEN_UNITS if "tokens" in units else {})}
    figures = [*threshold_figures(readings.thresholds, names)]
    if "tokens" in units:
        figures.extend(capacity_figures(described))
    for role, answer in answers.items():
        if answer.need is not None:
            figures.extend(
                Figure(subject=role, name=name, value=getattr(answer.need, name), unit=answer.need.unit)
                for name in ("wanted", "kept", "has", "has_ready")
            )
    return tuple(figures)
