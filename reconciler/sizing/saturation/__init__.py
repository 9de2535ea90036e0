"""PURE. Sizing by how full replicas are: KV cache, queue and tokens, for models whose SLO nobody states.

Two analyzers look at replicas: `percent` (how far from full) and `tokens` (demand against supply). The engine
`saturation` (`size_saturation`) turns them into requirements for the optimizer; the reproduction modes `wva-v1`
(`reproduce_percent`) and `wva-v2` (`reproduce_tokens`, where `throughput` may vote too) give upstream's finished
answers, row by row the same.

Nothing is kept between calls: what earlier runs remembered is an argument, what should be remembered is returned, and
whoever keeps nothing replays it from the history of the metrics (`replay_bounds`, `replay_capacities`). Missing values
are None with a reason; whatever comes in, an answer with reasons comes out, never an exception.
"""

from reconciler.sizing.saturation.answer import Filling, ModelReadings, SaturationAnswer
from reconciler.sizing.saturation.budgets import Budget
from reconciler.sizing.saturation.compute_bound import BoundHistory, ObservedBound, WorkloadKey, remember
from reconciler.sizing.saturation.enforcer import ZeroRule
from reconciler.sizing.saturation.engine import size_saturation
from reconciler.sizing.saturation.latency_windows import ThroughputSample
from reconciler.sizing.saturation.percent_targets import TransitionTest
from reconciler.sizing.saturation.quotas import Quota
from reconciler.sizing.saturation.replay import replay_bounds, replay_capacities
from reconciler.sizing.saturation.reproduction import reproduce_percent, reproduce_tokens
from reconciler.sizing.saturation.thresholds import LayeredThresholds, Thresholds, layer_thresholds
from reconciler.sizing.saturation.throughput import ThroughputAnalysis, ThroughputReadings, analyze_throughput
from reconciler.sizing.saturation.variants import StoredCapacity, VariantFacts

__all__ = [
    "BoundHistory",
    "Budget",
    "Filling",
    "LayeredThresholds",
    "ModelReadings",
    "ObservedBound",
    "Quota",
    "SaturationAnswer",
    "StoredCapacity",
    "Thresholds",
    "ThroughputAnalysis",
    "ThroughputReadings",
    "ThroughputSample",
    "TransitionTest",
    "VariantFacts",
    "WorkloadKey",
    "ZeroRule",
    "analyze_throughput",
    "layer_thresholds",
    "remember",
    "replay_bounds",
    "replay_capacities",
    "reproduce_percent",
    "reproduce_tokens",
    "size_saturation",
]
