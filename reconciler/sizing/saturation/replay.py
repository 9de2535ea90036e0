"""What upstream's controller would remember by now, had it run all along: replayed from the replicas' history.

Every point of the grid is one of its periods. What a run remembers thus follows from what can be asked again.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from reconciler.domain.history import Trace
from reconciler.domain.identity import ResourceKey
from reconciler.domain.replicas import LARGEST_COUNT, ReplicaMetrics
from reconciler.sizing.saturation.compute_bound import (
    BoundHistory,
    WorkloadKey,
    forget_exceeded,
    observe_bound,
    remember,
    workload_of,
)
from reconciler.sizing.saturation.replicas import number_fault
from reconciler.sizing.saturation.thresholds import Thresholds
from reconciler.sizing.saturation.tokens import replica_tokens, tokens_in_use
from reconciler.sizing.saturation.variants import StoredCapacity, VariantState

_USAGE, _WAITING, _INPUTS, _OUTPUTS = "kv_cache_usage", "num_waiting", "input_tokens", "output_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tick:
    """What one replica reported at one time, without the numbers that are none."""

    at_s: float
    pod: str
    variant: VariantState
    kv_tokens: float
    kv_cache_usage: float
    num_waiting: float | None
    input_tokens: float | None
    output_tokens: float | None

    @property
    def in_use_tokens(self) -> float:
        """Tokens that its KV cache held."""
        return tokens_in_use(self.kv_cache_usage, self.kv_tokens)

    @property
    def workload(self) -> WorkloadKey:
        """What a bound that it showed holds for."""
        return workload_of(self.variant, self.output_tokens)


def replay_bounds(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantState],
    thresholds: Thresholds,
    *,
    corrects_history: bool = False,
) -> BoundHistory:
    """Return the compute bounds that one model's replicas showed in these traces, the newest ten of each workload.

    A pod whose KV cache nobody knows has that of its variant's others. With `corrects_history`, as the engine
    `saturation` reads it, bounds that a replica exceeded later are forgotten, and a length that is missing for a
    while is the last one known; without it, as upstream does, such a length is 0 and nothing is forgotten.
    """
    history: BoundHistory = {}
    ticks = _ticks(traces, kv_tokens_by_pod, variants, fills_lengths=corrects_history)
    for tick in sorted(ticks, key=lambda each: (each.at_s, each.variant.key, each.pod)):
        if corrects_history:
            history = forget_exceeded(history, tick.workload, tick.in_use_tokens)
        observed = observe_bound(
            tick.workload,
            in_use_tokens=tick.in_use_tokens,
            num_waiting=tick.num_waiting or 0.0,
            full_queue=thresholds.num_waiting.value,
        )
        if observed is not None:
            history = remember(history, [observed])
    return {key: bounds for key, bounds in history.items() if bounds}


def replay_capacities(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantState],
    thresholds: Thresholds,
    history: BoundHistory,
) -> dict[ResourceKey, StoredCapacity]:
    """Return what a replica of each variant held when the variant was last seen; variants never seen are left out."""
    last: dict[ResourceKey, list[_Tick]] = {}
    for tick in _ticks(traces, kv_tokens_by_pod, variants, fills_lengths=True):
        seen = last.setdefault(tick.variant.key, [])
        if seen and tick.at_s > seen[0].at_s:
            seen.clear()
        if not seen or tick.at_s == seen[0].at_s:
            seen.append(tick)
    return {key: _stored(ticks, thresholds, history) for key, ticks in sorted(last.items())}


def _stored(ticks: Sequence[_Tick], thresholds: Thresholds, history: BoundHistory) -> StoredCapacity:
    capacities = []
    for tick in ticks:
        reported = ReplicaMetrics(
            pod=tick.pod,
            variant=tick.variant.key,
            kv_cache_usage=tick.kv_cache_usage,
            num_waiting=tick.num_waiting,
            input_tokens=tick.input_tokens,
            output_tokens=tick.output_tokens,
            total_kv_tokens=tick.kv_tokens,
        )
        tokens = replica_tokens(reported, tick.variant, thresholds, history)
        if tokens is not None:
            capacities.append(tokens.capacity_tokens)
    return StoredCapacity(
        capacity_tokens=float(int(median(capacities))) if capacities else None,
        total_kv_tokens=float(int(median(tick.kv_tokens for tick in ticks))),
    )


def _ticks(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantState],
    *,
    fills_lengths: bool,
) -> Iterator[_Tick]:
    known = {variant.key: variant for variant in variants}
    own = [trace for trace in traces if trace.variant in known and math.isfinite(trace.start_s + trace.step_s)]
    sizes = _sizes(own, kv_tokens_by_pod)
    for trace in own:
        kv_tokens = sizes.get(trace.pod)
        if kv_tokens is not None:
            yield from _of_pod(trace, known[trace.variant], kv_tokens, fills_lengths=fills_lengths)


def _of_pod(trace: Trace, variant: VariantState, kv_tokens: float, *, fills_lengths: bool) -> Iterator[_Tick]:
    inputs, outputs = trace.series.get(_INPUTS, ()), trace.series.get(_OUTPUTS, ())
    if fills_lengths:
        inputs, outputs = _filled(inputs), _filled(outputs)
    waiting = trace.series.get(_WAITING, ())
    for index, usage in enumerate(trace.series.get(_USAGE, ())):
        if not number_fault(usage, is_fraction=True):
            yield _Tick(
                at_s=trace.start_s + index * trace.step_s,
                pod=trace.pod,
                variant=variant,
                kv_tokens=kv_tokens,
                kv_cache_usage=usage,
                num_waiting=_at(waiting, index),
                input_tokens=_at(inputs, index),
                output_tokens=_at(outputs, index),
            )


def _sizes(traces: Sequence[Trace], kv_tokens_by_pod: Mapping[str, float]) -> dict[str, float]:
    """The KV tokens of every pod: its own, else the median of its variant's."""
    own = {pod: float(tokens) for pod, tokens in kv_tokens_by_pod.items() if 0 < tokens <= LARGEST_COUNT}
    by_variant: dict[ResourceKey, dict[str, float]] = {}
    for trace in traces:
        if trace.pod in own:
            by_variant.setdefault(trace.variant, {})[trace.pod] = own[trace.pod]
    typical = {variant: median(sizes.values()) for variant, sizes in by_variant.items()}
    return {
        trace.pod: own[trace.pod] if trace.pod in own else typical[trace.variant]
        for trace in traces
        if trace.pod in own or trace.variant in typical
    }


def _filled(values: Sequence[float]) -> tuple[float, ...]:
    """Gaps take the value before them, those at the start the first one known."""
    last = next((value for value in values if not number_fault(value)), math.nan)
    filled = []
    for value in values:
        last = last if number_fault(value) else value
        filled.append(last)
    return tuple(filled)


def _at(values: Sequence[float], index: int) -> float | None:
    value = values[index] if index < len(values) else math.nan
    return None if number_fault(value) else value
