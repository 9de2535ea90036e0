"""What WVA's controller would remember by now: replayed from the replicas' history."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import LARGEST_COUNT, ReplicaMetrics, Trace, kv_cache_tokens
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Floats
from reconciler.sizing.saturation_readings import (
    BUCKET_LIMITS_TOKENS,
    BUCKETS,
    PLATEAU,
    REMEMBERED,
    UNKNOWN_BUCKET,
    BoundHistory,
    StoredCapacity,
    Thresholds,
    VariantFacts,
    WorkloadKey,
    replica_tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodHistory:
    """One replica's history where its KV cache usage is known, arrays of shape (ticks,); NaN is not known."""

    pod: str
    variant: VariantFacts
    kv_tokens: float
    at_s: Floats
    kv_cache_usage: Floats
    num_waiting: Floats
    input_tokens: Floats
    output_tokens: Floats

    @property
    def in_use_tokens(self) -> Floats:
        """Tokens that its KV cache held."""
        return np.minimum(np.rint(self.kv_cache_usage * self.kv_tokens), self.kv_tokens)

    @property
    def buckets(self) -> NDArray[np.intp]:
        """Which of the buckets its outputs were in; an unknown length is behind the last."""
        codes = np.searchsorted(BUCKET_LIMITS_TOKENS, self.output_tokens, side="right")
        return np.where(np.isnan(self.output_tokens), len(BUCKETS), codes)


def replay_bounds(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantFacts],
    thresholds: Thresholds,
    *,
    corrects_history: bool = False,
) -> BoundHistory:
    """Return the compute bounds that one model's replicas showed in these traces, the newest ten of each workload.

    A pod whose KV cache is not known has that of its variant's others. With `corrects_history`, as the engine
    `saturation` reads it, only bounds that no replica exceeded later count, a length that is missing for a while is the
    last one known, and bounds of outputs of unknown length have a workload of their own; without it, as upstream does,
    such a length is 0 and nothing is forgotten.
    """
    seen = sorted(
        _seen(traces, kv_tokens_by_pod, variants, fills_lengths=corrects_history),
        key=lambda each: (each.variant.key, each.pod, each.at_s[0]),
    )
    history = {}
    for (accelerator, devices), group in _by_devices(seen).items():
        in_use = np.concatenate([each.in_use_tokens for each in group])
        waiting = np.concatenate([each.num_waiting for each in group])
        buckets = np.concatenate([each.buckets for each in group])
        if not corrects_history:
            buckets[buckets == len(BUCKETS)] = 0
        in_time = np.argsort(np.concatenate([each.at_s for each in group]), kind="stable")
        is_shown = (waiting >= int(thresholds.num_waiting.value)) & (in_use > 0)
        for code in np.unique(buckets[is_shown]):
            own = in_time[buckets[in_time] == code]
            counts = is_shown[own] & _never_exceeded(in_use[own]) if corrects_history else is_shown[own]
            if counts.any():
                key = WorkloadKey(accelerator=accelerator, devices=devices, bucket=(*BUCKETS, UNKNOWN_BUCKET)[code])
                history[key] = tuple(in_use[own][counts][-REMEMBERED:].tolist())
    return history


def replay_capacities(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantFacts],
    thresholds: Thresholds,
    history: BoundHistory,
) -> dict[ResourceKey, StoredCapacity]:
    """Return what a replica of each variant held when the variant was last seen; variants never seen are left out."""
    by_variant: dict[ResourceKey, list[_PodHistory]] = {}
    for seen in _seen(traces, kv_tokens_by_pod, variants, fills_lengths=True):
        by_variant.setdefault(seen.variant.key, []).append(seen)
    return {key: _stored(own, thresholds, history) for key, own in sorted(by_variant.items())}


def _by_devices(seen: Iterable[_PodHistory]) -> dict[tuple[str, int], list[_PodHistory]]:
    groups: dict[tuple[str, int], list[_PodHistory]] = {}
    for each in seen:
        groups.setdefault((each.variant.accelerator, each.variant.devices), []).append(each)
    return groups


def _never_exceeded(in_use: Floats) -> NDArray[np.bool_]:
    """Whether no later value is beyond the plateau of each."""
    later = np.append(np.maximum.accumulate(in_use[::-1])[::-1][1:], 0.0)
    return np.asarray(in_use * PLATEAU >= later)


def _stored(seen: Sequence[_PodHistory], thresholds: Thresholds, history: BoundHistory) -> StoredCapacity:
    last_s = max(each.at_s[-1] for each in seen)
    last = [each for each in seen if each.at_s[-1] == last_s]
    tokens = (replica_tokens(_as_reported(each), each.variant, thresholds, history) for each in last)
    capacities = [each.capacity_tokens for each in tokens if each is not None]
    return StoredCapacity(
        capacity_tokens=float(int(median(capacities))) if capacities else None,
        total_kv_tokens=float(int(median(each.kv_tokens for each in last))),
    )


def _as_reported(seen: _PodHistory) -> ReplicaMetrics:
    """What a replica reported last."""

    def last(values: Floats) -> float | None:
        return None if np.isnan(values[-1]) else float(values[-1])

    return ReplicaMetrics(
        pod=seen.pod,
        variant=seen.variant.key,
        kv_cache_usage=last(seen.kv_cache_usage),
        num_waiting=last(seen.num_waiting),
        input_tokens=last(seen.input_tokens),
        output_tokens=last(seen.output_tokens),
        total_kv_tokens=seen.kv_tokens,
    )


def _seen(
    traces: Iterable[Trace],
    kv_tokens_by_pod: Mapping[str, float],
    variants: Iterable[VariantFacts],
    *,
    fills_lengths: bool,
) -> Iterator[_PodHistory]:
    known = {variant.key: variant for variant in variants}
    own = [trace for trace in traces if trace.variant in known]
    sizes = _sizes(own, kv_tokens_by_pod)
    for trace in own:
        if trace.pod in sizes and math.isfinite(trace.start_s) and math.isfinite(trace.step_s) and trace.step_s >= 0:
            seen = _of_pod(trace, known[trace.variant], sizes[trace.pod], fills_lengths=fills_lengths)
            if seen.at_s.size:
                yield seen


def _of_pod(trace: Trace, variant: VariantFacts, kv_tokens: float, *, fills_lengths: bool) -> _PodHistory:
    usage = _sound(trace, "kv_cache_usage", len(trace.series.get("kv_cache_usage", ())), most=1.0)
    waiting, inputs, outputs = (
        _sound(trace, name, usage.size) for name in ("num_waiting", "input_tokens", "output_tokens")
    )
    if fills_lengths:
        inputs, outputs = _filled(inputs), _filled(outputs)
    with np.errstate(over="ignore"):
        at_s = trace.start_s + np.arange(usage.size) * trace.step_s
    is_known = ~np.isnan(usage) & np.isfinite(at_s)
    return _PodHistory(
        pod=trace.pod,
        variant=variant,
        kv_tokens=kv_tokens,
        at_s=at_s[is_known],
        kv_cache_usage=usage[is_known],
        num_waiting=waiting[is_known],
        input_tokens=inputs[is_known],
        output_tokens=outputs[is_known],
    )


def _sound(trace: Trace, name: str, count: int, *, most: float = LARGEST_COUNT) -> Floats:
    """A series as long as asked for, NaN where it is too short or no number."""
    values = np.full(count, np.nan)
    given = np.asarray(trace.series.get(name, ())[:count], dtype=np.float64)
    values[: given.size] = np.where((given >= 0) & (given <= most), given, np.nan)
    return values


def _filled(values: Floats) -> Floats:
    """Gaps take the value before them, those at the start the first one known."""
    (known,) = np.nonzero(~np.isnan(values))
    if not known.size:
        return values
    before = np.searchsorted(known, np.arange(values.size), side="right") - 1
    return values[known[np.maximum(before, 0)]]


def _sizes(traces: Sequence[Trace], kv_tokens_by_pod: Mapping[str, float]) -> dict[str, float]:
    """The KV tokens of every pod: its own, else the median of its variant's."""
    told = {pod: kv_cache_tokens(tokens, None, None) for pod, tokens in kv_tokens_by_pod.items()}
    own = {pod: float(tokens) for pod, tokens in told.items() if tokens is not None}
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
