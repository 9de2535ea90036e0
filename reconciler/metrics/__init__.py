"""PURE. What to ask Prometheus (PromQL as data), whose a series is, and what the answers mean.

`queries_for` says what to ask of the present, and by `Needs` what more, `device_queries` what of nodes; `read_observed`
what came back: a value with its unit, or why there is none. `history_queries` and `read_traces` do the same for any
stretch of time, and `live_queries` asks what scale targets are to have in their cluster.
"""

from reconciler.metrics.decoding import decode, warnings_of
from reconciler.metrics.device_queries import DeviceNames, device_queries
from reconciler.metrics.devices import DevicesSeen, Holding, Node
from reconciler.metrics.history_quantities import (
    HISTORY,
    LEARNING_HISTORY,
    LEARNING_WINDOW_S,
    LIVE_WINDOW_S,
    SATURATION_HISTORY,
    TRACED_HISTORY,
)
from reconciler.metrics.live import live_queries, watched_target
from reconciler.metrics.load_quantities import QUANTITIES
from reconciler.metrics.observed import Observed, read_observed
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES, OWNERSHIP, Name
from reconciler.metrics.queries import Needs, clusters_seen, queries_for
from reconciler.metrics.ranges import history_queries
from reconciler.metrics.saturation_quantities import SATURATION_QUANTITIES
from reconciler.metrics.traces import read_traces

__all__ = [
    "CONFIGURABLE_QUANTITIES",
    "HISTORY",
    "LEARNING_HISTORY",
    "LEARNING_WINDOW_S",
    "LIVE_WINDOW_S",
    "OWNERSHIP",
    "QUANTITIES",
    "SATURATION_HISTORY",
    "SATURATION_QUANTITIES",
    "TRACED_HISTORY",
    "DeviceNames",
    "DevicesSeen",
    "Holding",
    "Name",
    "Needs",
    "Node",
    "Observed",
    "clusters_seen",
    "decode",
    "device_queries",
    "history_queries",
    "live_queries",
    "queries_for",
    "read_observed",
    "read_traces",
    "warnings_of",
    "watched_target",
]
