"""What one replica of every candidate carries inside its SLO, sized all at once, and what to expect at a rate."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.allocations import Performance
from reconciler.domain.loads import Load
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.service_classes import ServiceClass, SloTarget
from reconciler.sizing.queueing import (
    Binding,
    RateLimits,
    ServiceCurves,
    Targets,
    analyze,
    decode_only,
    largest_rate,
    mean_limit_s,
)

_BINDING_WORDS = {
    Binding.CAPACITY: "the full batch binds",
    Binding.ITL: "ITL binds",
    Binding.WAIT: "wait binds",
    Binding.THROUGHPUT: "throughput binds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A candidate to size: a profile under a load for a service class."""

    key: CandidateKey
    profile: PerformanceProfile
    load: Load
    service_class: ServiceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The largest arrival rate of one replica inside its SLO (0: unattainable), and what stops it from being larger."""

    rate_per_s: float
    max_batch_size: int
    words: str


class Capacities:
    """The sized candidates: a capacity each, and the expected performance at any rate."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row.key: position for position, row in enumerate(rows)}
        self._curves = _curves(rows)
        limits = largest_rate(self._curves, _targets(rows)) if rows else None
        self.of: Mapping[CandidateKey, Capacity] = {} if limits is None else _capacities(rows, self._curves, limits)

    def expect(self, wanted: Iterable[tuple[CandidateKey, float]]) -> dict[CandidateKey, Performance]:
        """The expected performance of each candidate at its arrival rate (req/s of one replica).

        Beyond the full batch's rate the wait is infinite: the law's queue ends, a real one grows as long as it lasts.
        """
        pairs = [(key, rate) for key, rate in wanted if key in self._rows]
        if not pairs:
            return {}
        index = np.array([self._rows[key] for key, _ in pairs])
        curves, rates = self._curves.take(index), np.array([rate for _, rate in pairs])
        state = analyze(curves, rates)
        wait_s = np.where(rates >= curves.service_rate_per_s(curves.max_batch), np.inf, state.wait_s)
        utilization = state.mean_in_service / curves.max_batch
        return {
            key: Performance(itl_s=float(itl), wait_s=float(wait), utilization=float(share))
            for (key, _), itl, wait, share in zip(pairs, state.itl_s, wait_s, utilization, strict=True)
        }


def wait_targets(service_class: ServiceClass) -> tuple[SloTarget, ...]:
    """The targets that limit waiting under a law without prefill: `wait`, and `ttft` as far as it is waiting."""
    return tuple(target for target in (service_class.wait, service_class.ttft) if target is not None)


def _curves(rows: Sequence[Row]) -> ServiceCurves:
    return decode_only(
        alpha_s=[row.profile.alpha_s for row in rows],
        beta_s=[row.profile.beta_s for row in rows],
        output_tokens=[row.load.output_tokens for row in rows],
        max_batch=[_batch(row) for row in rows],
    )


def _batch(row: Row) -> int:
    """A batch measured at a length shrinks with longer requests (inferno: product first, then whole division)."""
    profile = row.profile
    if profile.at_tokens is None:
        return profile.max_batch_size
    return max(math.floor(profile.max_batch_size * profile.at_tokens / row.load.output_tokens), 1)


def _targets(rows: Sequence[Row]) -> Targets:
    return Targets(
        itl_s=np.array([_mean_limit(row.service_class.itl) for row in rows]),
        wait_s=np.array([min(map(_mean_limit, wait_targets(row.service_class)), default=np.inf) for row in rows]),
        tokens_per_s=np.array([row.service_class.throughput_tokens_per_s or 0.0 for row in rows]),
    )


def _mean_limit(target: SloTarget | None) -> float:
    return np.inf if target is None else mean_limit_s(target.limit_s, target.percentile)


def _capacities(rows: Sequence[Row], curves: ServiceCurves, limits: RateLimits) -> dict[CandidateKey, Capacity]:
    return {
        row.key: Capacity(rate_per_s=float(rate), max_batch_size=int(batch), words=_words(row, rate, Binding(binding)))
        for row, rate, batch, binding in zip(rows, limits.rate_per_s, curves.max_batch, limits.binding, strict=True)
    }


def _words(row: Row, rate: float, binding: Binding) -> str:
    if rate > 0:
        return f"{_BINDING_WORDS[binding]}, {row.load.output_tokens:.4g} output tokens"
    lone_s = row.profile.alpha_s + row.profile.beta_s
    if binding is Binding.ITL and row.service_class.itl is not None:
        limit_ms = row.service_class.itl.limit_s * 1000
        return f"even a lone request takes ITL {lone_s * 1000:.4g} ms, the target is {limit_ms:.4g} ms"
    return "even the smallest load waits longer than the target"
