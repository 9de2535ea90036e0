"""What is asked over time, by range queries: the same candidates as for the present, gauges as means of the window."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.metrics.quantities.kubernetes import LIVE_REPLICAS, POD_OWNERS
from reconciler.metrics.quantities.loads import QUANTITIES, RUNNING, WAITING
from reconciler.metrics.quantities.quantity import Name, Quantity
from reconciler.metrics.quantities.saturation import SATURATION_QUANTITIES

SATURATION_HISTORY = (Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS)
"""What replicas reported when they were full: it tells how much they can hold at work."""
LEARNING_HISTORY = (
    *(Name.RUNNING, Name.WAITING, Name.ITL, Name.TTFT, Name.WAIT),
    *(Name.INPUT_TOKENS, Name.OUTPUT_TOKENS),
)
"""What a performance profile is learned from, and corrected by."""
TRACED_HISTORY = (*LEARNING_HISTORY, Name.COMPLETIONS)
"""What a run looks at of the last hour: for that correction, and as the samples of upstream's throughput analyzer."""
LEARNING_WINDOW_S = 120.0
"""One window for all that is learned from together: two scrapes a minute apart are in it, and little else."""

_PRESENT: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in (*QUANTITIES, *SATURATION_QUANTITIES)}
_UNCHANGED = (
    *(Name.COMPLETIONS, Name.ITL, Name.TTFT, Name.WAIT, Name.INPUT_TOKENS, Name.OUTPUT_TOKENS),
    *(Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.KV_TOKENS),
)

HISTORY: Mapping[Name, Quantity] = {
    Name.RUNNING: replace(_PRESENT[Name.RUNNING], candidates=tuple(gauge.average() for gauge in RUNNING)),
    Name.WAITING: replace(_PRESENT[Name.WAITING], candidates=tuple(gauge.average() for gauge in WAITING)),
    **{name: _PRESENT[name] for name in _UNCHANGED},
}
"""Every quantity that has a history."""

OWNERS: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in POD_OWNERS}
"""Whose the pods are; asked once, over all the time that a history covers."""


def _over_pods(name: Name, past: Name) -> Quantity:
    """A quantity of the present, added up by model: nobody asks a history which replica it was."""
    present = _PRESENT[name]
    return replace(present, name=past, candidates=(f"sum by ($served) ({' or '.join(present.candidates)})",))


PAST: Mapping[Name, Quantity] = {
    Name.PAST_ENDPOINT_PICKER: replace(_PRESENT[Name.ARRIVALS_ENDPOINT_PICKER], name=Name.PAST_ENDPOINT_PICKER),
    Name.PAST_COMPLETIONS: _over_pods(Name.COMPLETIONS, Name.PAST_COMPLETIONS),
    Name.PAST_QUEUE_GROWTH: _over_pods(Name.QUEUE_GROWTH, Name.PAST_QUEUE_GROWTH),
}
"""What the arrivals of models were, by each of those who may have counted their load."""

OBJECTS: Mapping[Name, Quantity] = {Name.LIVE_REPLICAS: LIVE_REPLICAS}
"""What Kubernetes' objects say over time; no replica reports it."""
