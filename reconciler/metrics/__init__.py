"""PURE. What to ask Prometheus (PromQL as data), whose a series is, and what the answers mean.

`queries_for` says what to ask, `read_observed` what came back: a value with its unit, or why there is none.
"""

from reconciler.metrics.decoding import decode, warnings_of
from reconciler.metrics.loads import Observed, read_observed
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES, QUANTITIES
from reconciler.metrics.queries import clusters_seen, queries_for

__all__ = [
    "CONFIGURABLE_QUANTITIES",
    "QUANTITIES",
    "Observed",
    "clusters_seen",
    "decode",
    "queries_for",
    "read_observed",
    "warnings_of",
]
