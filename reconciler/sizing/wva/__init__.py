"""PURE. What llm-d's workload variant autoscaler (WVA) decides, row by row the same, its flaws included.

`reproduce_percent` is the mode `wva-v1` (how far replicas are from full), `reproduce_tokens` the mode `wva-v2` (demand
against supply in tokens, where the analyzer `throughput` may vote too). Each decides all models of a cluster together,
under a `Quota` or a `DeviceBudget` where there is one, and gives finished answers.
"""

from reconciler.sizing.wva.budgets import DeviceBudget
from reconciler.sizing.wva.latency_windows import ThroughputSample
from reconciler.sizing.wva.percent_targets import TransitionTest
from reconciler.sizing.wva.quotas import Quota
from reconciler.sizing.wva.reproduction import reproduce_percent, reproduce_tokens
from reconciler.sizing.wva.throughput import ThroughputReadings
from reconciler.sizing.wva.votes import UpstreamReadings

__all__ = [
    "DeviceBudget",
    "Quota",
    "ThroughputReadings",
    "ThroughputSample",
    "TransitionTest",
    "UpstreamReadings",
    "reproduce_percent",
    "reproduce_tokens",
]
