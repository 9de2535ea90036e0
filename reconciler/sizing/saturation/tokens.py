"""The analyzer `tokens`, one replica: what it holds, what it was asked for, what it can hold (wva.md 4.1)."""

import math
from dataclasses import dataclass

from reconciler.domain.measured.replicas import ReplicaMetrics, Role
from reconciler.sizing.saturation.compute_bound import (
    BoundHistory,
    ComputeBound,
    Origin,
    derived_bound,
    remembered_bound,
    workload_of,
)
from reconciler.sizing.saturation.replicas import number_fault
from reconciler.sizing.saturation.thresholds import Thresholds
from reconciler.sizing.saturation.variants import VariantFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTokens:
    """A replica in tokens: `capacity_tokens` is the smaller of the memory and the compute bound.

    `waiting_tokens` is what its queue will need. None for a bound: the replica did not say, a record speaks for it.
    """

    replica: ReplicaMetrics
    in_use_tokens: float
    waiting_tokens: float
    capacity_tokens: float
    compute_bound_tokens: float | None
    origin: Origin

    @property
    def demand_tokens(self) -> float:
        """Tokens in use and waiting together."""
        return self.in_use_tokens + self.waiting_tokens


def replica_tokens(
    replica: ReplicaMetrics,
    variant: VariantFacts,
    thresholds: Thresholds,
    history: BoundHistory,
    *,
    corrects_history: bool = False,
) -> ReplicaTokens | None:
    """Return a replica in tokens; None when neither it nor a record says how many it holds.

    What is missing reads as 0, which is upstream's reading. With `corrects_history` a replica can hold what it holds
    and what others held, even while its queue fills first; upstream never corrects a bound upward.
    """
    waiting = waiting_tokens(replica, variant.role)
    total = replica.kv_tokens
    if total is None:
        return _from_record(replica, variant, thresholds, waiting)
    in_use = tokens_in_use(replica.kv_cache_usage or 0.0, total)
    memory = float(int(total * thresholds.kv_cache_usage.value))
    compute = _compute_bound(replica, variant, thresholds, history, in_use=in_use, memory=memory)
    bound = compute.tokens
    if corrects_history and compute.origin in (Origin.OBSERVED, Origin.HISTORY):
        bound = max(in_use, remembered_bound(history, workload_of(variant, replica.output_tokens)))
    return ReplicaTokens(
        replica=replica,
        in_use_tokens=in_use,
        waiting_tokens=waiting,
        capacity_tokens=float(int(min(memory, bound))),
        compute_bound_tokens=bound,
        origin=compute.origin,
    )


def tokens_in_use(kv_cache_usage: float, kv_tokens: float) -> float:
    """Return the tokens that a share of a KV cache is."""
    return float(min(max(round(kv_cache_usage * kv_tokens), 0), kv_tokens))


def waiting_tokens(replica: ReplicaMetrics, role: Role) -> float:
    """Return the tokens that a replica's queue will hold: inputs, and outputs where it decodes."""
    length = (replica.input_tokens or 0.0) + (0.0 if role is Role.PREFILL else replica.output_tokens or 0.0)
    tokens = (replica.num_waiting or 0.0) * length
    return float(int(tokens)) if math.isfinite(tokens) and tokens > 0 else 0.0


def _from_record(
    replica: ReplicaMetrics, variant: VariantFacts, thresholds: Thresholds, waiting: float
) -> ReplicaTokens | None:
    stored = variant.stored.total_kv_tokens if variant.stored is not None else None
    if stored is None or stored <= 0 or number_fault(stored):
        return None
    capacity = float(int(stored * thresholds.kv_cache_usage.value))
    return ReplicaTokens(
        replica=replica,
        in_use_tokens=float(int((replica.kv_cache_usage or 0.0) * capacity)),
        waiting_tokens=waiting,
        capacity_tokens=capacity,
        compute_bound_tokens=None,
        origin=Origin.STORED,
    )


def _compute_bound(
    replica: ReplicaMetrics,
    variant: VariantFacts,
    thresholds: Thresholds,
    history: BoundHistory,
    *,
    in_use: float,
    memory: float,
) -> ComputeBound:
    key = workload_of(variant, replica.output_tokens)
    if (replica.num_waiting or 0.0) >= int(thresholds.num_waiting.value) and in_use > 0:
        return ComputeBound(tokens=in_use, origin=Origin.OBSERVED)
    remembered = remembered_bound(history, key)
    if remembered > 0:
        return ComputeBound(tokens=remembered, origin=Origin.HISTORY)
    if variant.launch is not None and replica.output_tokens:
        derived = derived_bound(
            variant.launch, input_tokens=replica.input_tokens or 0.0, output_tokens=replica.output_tokens
        )
        if derived > 0:
            return ComputeBound(tokens=derived, origin=Origin.DERIVED)
    return ComputeBound(tokens=memory, origin=Origin.MEMORY)
