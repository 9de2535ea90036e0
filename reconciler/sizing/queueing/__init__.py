"""PURE. Sizing by a queue: one replica as a birth-death chain, solved for all candidates at once.

A queueing law says how long a request stays in service at batch n, and what latencies follow from the means of the
chain. It becomes `ServiceCurves`; everything behind them (`analyze`, `largest_rate`) is the same for every law. The
laws: `decode_only`, inter-token latency alpha + beta * n and a request is its output tokens; `prefill_decode`, which
adds a prefill of gamma + delta * input tokens * n; `serial_prefill`, where prompts queue for what iterations have room
for.

Struct of arrays everywhere: element i of every array belongs to candidate i. SI units.
"""

from reconciler.sizing.arrays import Floats
from reconciler.sizing.queueing.analysis import QueueState, analyze
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.laws import decode_only, prefill_decode, serial_prefill
from reconciler.sizing.queueing.percentiles import ExpectedPercentiles, expect_percentiles
from reconciler.sizing.queueing.rates import RateLimits, largest_rate, largest_throughput, rate_range
from reconciler.sizing.queueing.targets import Binding, Targets, mean_limit_s, tail_factor

__all__ = [
    "Binding",
    "ExpectedPercentiles",
    "Floats",
    "QueueState",
    "RateLimits",
    "ServiceCurves",
    "Targets",
    "analyze",
    "decode_only",
    "expect_percentiles",
    "largest_rate",
    "largest_throughput",
    "mean_limit_s",
    "prefill_decode",
    "rate_range",
    "serial_prefill",
    "tail_factor",
]
