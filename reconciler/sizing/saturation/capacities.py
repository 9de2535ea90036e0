"""The analyzer `tokens`, one variant: what a replica of it holds, running or not (wva.md 4.2)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import ReplicaMetrics, Role, UpstreamQueue
from reconciler.domain.provenance import Figure
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation.compute_bound import Origin, derived_bound
from reconciler.sizing.saturation.replicas import number_fault, screen_queue
from reconciler.sizing.saturation.thresholds import Thresholds
from reconciler.sizing.saturation.tokens import ReplicaTokens
from reconciler.sizing.saturation.variants import VariantFacts

# What one token of a prompt takes in a queue that counts bytes.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTokens:
    """A variant in tokens: `per_instance_tokens` is the median capacity of its instances, None when nobody knows.

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
    """Plain means over the replicas that report any length: tokens, tokens, and a fraction 0-1."""

    input_tokens: float
    output_tokens: float
    prefix_hit_rate: float


def mean_lengths(replicas: Iterable[ReplicaMetrics]) -> MeanLengths | None:
    """Return the mean lengths of a model's requests; None when no replica reports any."""
    seen = [each for each in replicas if (each.input_tokens or 0.0) > 0 or (each.output_tokens or 0.0) > 0]
    if not seen:
        return None
    return MeanLengths(
        input_tokens=sum(each.input_tokens or 0.0 for each in seen) / len(seen),
        output_tokens=sum(each.output_tokens or 0.0 for each in seen) / len(seen),
        prefix_hit_rate=sum(each.prefix_hit_rate or 0.0 for each in seen) / len(seen),
    )


def variant_tokens(
    variants: Sequence[VariantFacts],
    replicas: Mapping[ResourceKey, Sequence[ReplicaTokens]],
    lengths: MeanLengths | None,
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
    lengths: MeanLengths | None,
    thresholds: Thresholds,
) -> tuple[float | None, Origin]:
    """Its own live record, else what its launch settings promise, else what a compatible variant holds."""
    if variant.key in records:
        return records[variant.key], Origin.STORED
    compatible = _compatible_capacity(variant, variants, records)
    if variant.launch is None:
        return compatible, Origin.STORED
    if lengths is None or lengths.output_tokens <= 0:
        return float(variant.launch.batched_tokens), Origin.STORED
    bounds = [
        float(derived_bound(variant.launch, input_tokens=lengths.input_tokens, output_tokens=lengths.output_tokens))
    ]
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


def queued_tokens(queue: UpstreamQueue | None, lengths: MeanLengths | None) -> QueuedTokens:
    """Return the tokens of a queue: in = max(bytes / 4, size * I) * (1 - h), out = size * O."""
    if queue is None:
        return QueuedTokens()
    sound = screen_queue(queue)
    size = sound.num_waiting or 0.0
    known = lengths or MeanLengths(input_tokens=0.0, output_tokens=0.0, prefix_hit_rate=0.0)
    prompts = max((sound.waiting_bytes or 0.0) / _BYTES_PER_TOKEN, size * known.input_tokens)
    return QueuedTokens(input_tokens=prompts * (1 - known.prefix_hit_rate), output_tokens=size * known.output_tokens)


def capacity_figures(variants: Iterable[VariantTokens]) -> Iterator[Figure]:
    """Yield what a replica of each variant holds, and where that is known from."""
    for each in variants:
        yield Figure(
            subject=each.key.label,
            name="capacity of a replica",
            value=each.per_replica_tokens,
            unit="tokens",
            reason=each.origin if each.per_replica_tokens is not None else "no replica and no record says",
        )
        yield Figure(subject=each.key.label, name="demand", value=each.demand_tokens, unit="tokens")
