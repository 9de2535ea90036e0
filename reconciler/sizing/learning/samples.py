"""What a profile is learned from: moments of replicas, all alike, without pods or clocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.measured.replicas import Trace
from reconciler.sizing.arrays import Bools, Floats

# Beyond these a number is no measurement, and squares of it would overflow: a nanosecond, eleven days, a billion.
SHORTEST_S, LONGEST_S = 1e-9, 1e6
MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """What replicas of one model on one accelerator reported, arrays of shape (samples,), NaN where unknown.

    A sample is a window of one replica: mean latencies of its requests (`ttft_s` includes `wait_s`), mean counts over
    time, mean tokens of a request, the mean share of the KV cache that is in use (0-1).
    """

    itl_s: Floats
    ttft_s: Floats
    wait_s: Floats
    num_running: Floats
    num_waiting: Floats
    input_tokens: Floats
    output_tokens: Floats
    kv_cache_usage: Floats

    def chosen(self, which: Bools | NDArray[np.intp]) -> "Samples":
        """Return the samples that `which` says, a mask or an order."""
        return Samples(
            itl_s=self.itl_s[which],
            ttft_s=self.ttft_s[which],
            wait_s=self.wait_s[which],
            num_running=self.num_running[which],
            num_waiting=self.num_waiting[which],
            input_tokens=self.input_tokens[which],
            output_tokens=self.output_tokens[which],
            kv_cache_usage=self.kv_cache_usage[which],
        )


def samples_of(traces: Sequence[Trace]) -> Samples:
    """Return the moments of all traces, one after the other; a series that is absent or ends early is unknown."""
    return Samples(
        itl_s=_joined(traces, "itl"),
        ttft_s=_joined(traces, "ttft"),
        wait_s=_joined(traces, "wait"),
        num_running=_joined(traces, "running"),
        num_waiting=_joined(traces, "waiting"),
        input_tokens=_joined(traces, "input_tokens"),
        output_tokens=_joined(traces, "output_tokens"),
        kv_cache_usage=_joined(traces, "kv_cache_usage"),
    )


def series_of(trace: Trace, name: str) -> Floats:
    """Return one series of a trace, as long as its longest one, NaN where unknown; shape (moments,)."""
    known = np.asarray(trace.series.get(name, ()), dtype=np.float64)
    moments = max(map(len, trace.series.values()), default=0)
    return np.concatenate([known, np.full(moments - known.size, np.nan)])


def plausible(values: Floats, least: float, most: float) -> Floats:
    """Return the values with NaN for all that cannot have been measured; shape kept."""
    return np.where((values >= least) & (values <= most), values, np.nan)


def measured(samples: Samples) -> Samples:
    """Return only what can have been measured, in an order that depends on nothing but the values.

    Sums of floats depend on their order: the same samples shuffled would give another last digit.
    """
    columns = (
        plausible(samples.itl_s, SHORTEST_S, LONGEST_S),
        plausible(samples.ttft_s, SHORTEST_S, LONGEST_S),
        plausible(samples.wait_s, 0.0, LONGEST_S),
        plausible(samples.num_running, 0.0, MOST),
        plausible(samples.num_waiting, 0.0, MOST),
        plausible(samples.input_tokens, 1.0, MOST),
        plausible(samples.output_tokens, 1.0, MOST),
        plausible(samples.kv_cache_usage, 0.0, 1.0),
    )
    itl_s, ttft_s, wait_s, num_running, num_waiting, input_tokens, output_tokens, kv_cache_usage = columns
    return Samples(
        itl_s=itl_s,
        ttft_s=ttft_s,
        wait_s=wait_s,
        num_running=num_running,
        num_waiting=num_waiting,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        kv_cache_usage=kv_cache_usage,
    ).chosen(np.lexsort(columns))


def _joined(traces: Sequence[Trace], name: str) -> Floats:
    return np.concatenate([np.empty(0), *(series_of(trace, name) for trace in traces)])


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Requests that run at once at most, and tokens that an iteration computes at most; None is not known."""

    max_batch_size: int | None = None
    token_budget: int | None = None


UNKNOWN_LIMITS = EngineLimits()
