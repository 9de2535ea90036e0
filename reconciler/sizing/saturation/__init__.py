"""PURE. Sizing by how full replicas are: KV cache, queue and tokens, for models whose SLO nobody states.

`size_saturation` turns what replicas report into requirements for the optimizer, in tokens where their capacity in
tokens is known, else in replicas.

Nothing is kept between calls: what earlier runs would have remembered is replayed from the history of the metrics
(`replay_bounds`, `replay_capacities`). Missing values are None with a reason; whatever comes in, an answer with reasons
comes out, never an exception.
"""

from reconciler.sizing.saturation.answer import Filling, ModelReadings, SaturationAnswer, ZeroRule
from reconciler.sizing.saturation.compute_bound import BoundHistory, WorkloadKey
from reconciler.sizing.saturation.engine import size_saturation
from reconciler.sizing.saturation.replay import replay_bounds, replay_capacities
from reconciler.sizing.saturation.thresholds import LayeredThresholds, Thresholds, layer_thresholds
from reconciler.sizing.saturation.variants import DEFAULT_COST, StoredCapacity, VariantFacts

__all__ = [
    "DEFAULT_COST",
    "BoundHistory",
    "Filling",
    "LayeredThresholds",
    "ModelReadings",
    "SaturationAnswer",
    "StoredCapacity",
    "Thresholds",
    "VariantFacts",
    "WorkloadKey",
    "ZeroRule",
    "layer_thresholds",
    "replay_bounds",
    "replay_capacities",
    "size_saturation",
]
