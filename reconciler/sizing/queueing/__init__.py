"""PURE. Sizing by a queue: one replica as a birth-death chain, solved for all candidates at once.

A queueing law says how long a request stays in service at batch n. It becomes `ServiceCurves`; everything behind
them (`analyze`, `largest_rate`) is the same for every law. The law here is `decode_only`: inter-token latency
alpha + beta * n, a request is its output tokens. `size` goes from a demand to replicas, cost and expected latency.

Struct of arrays everywhere: element i of every array belongs to candidate i. SI units.
"""

from reconciler.sizing.queueing.analysis import QueueState, analyze
from reconciler.sizing.queueing.curves import Floats, ServiceCurves, decode_only
from reconciler.sizing.queueing.demand import Demand, Profiles, Sizes, Terms, size
from reconciler.sizing.queueing.rates import Binding, RateLimits, largest_rate, rate_range
from reconciler.sizing.queueing.targets import Targets, mean_limit_s

__all__ = [
    "Binding",
    "Demand",
    "Floats",
    "Profiles",
    "QueueState",
    "RateLimits",
    "ServiceCurves",
    "Sizes",
    "Targets",
    "Terms",
    "analyze",
    "decode_only",
    "largest_rate",
    "mean_limit_s",
    "rate_range",
    "size",
]
