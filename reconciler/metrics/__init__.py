"""PURE. What to ask Prometheus (PromQL as data), whose a series is, and what the answers mean.

`queries_for` asks about the present and, by `QueryNeeds`, more; `device_queries` about nodes, `live_queries` about
scale targets, `history_queries` about any stretch of time. `read_observed` reads the answers: a value with its unit, or
why there is none. What is asked of each serving engine stands in `engines`.
"""

from reconciler.metrics.quantities.history import (
    HISTORY,
    LEARNING_HISTORY,
    LEARNING_WINDOW_S,
    SATURATION_HISTORY,
    TRACED_HISTORY,
)
from reconciler.metrics.quantities.kubernetes import LIVE_WINDOW_S, OWNERSHIP
from reconciler.metrics.quantities.loads import QUANTITIES
from reconciler.metrics.quantities.quantity import CONFIGURABLE_QUANTITIES, Name
from reconciler.metrics.quantities.saturation import SATURATION_QUANTITIES
from reconciler.metrics.queries.cluster import QueryNeeds, queries_for
from reconciler.metrics.queries.devices import DeviceNames, device_queries
from reconciler.metrics.queries.ranges import history_queries, live_queries
from reconciler.metrics.reading.decoding import clusters_seen, decode, warnings_of
from reconciler.metrics.reading.live import watched_target
from reconciler.metrics.reading.observed import read_observed

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
    "Name",
    "QueryNeeds",
    "clusters_seen",
    "decode",
    "device_queries",
    "history_queries",
    "live_queries",
    "queries_for",
    "read_observed",
    "warnings_of",
    "watched_target",
]
