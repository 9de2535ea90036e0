"""What is asked over time, by range queries: the same candidates as for the present, gauges as means of the window."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.metrics.engines import SOURCES, ServingEngine
from reconciler.metrics.engines.serving_engine import CounterRatio
from reconciler.metrics.quantities.kubernetes import LIVE_REPLICAS, POD_OWNERS
from reconciler.metrics.quantities.loads import QUANTITIES, RUNNING, WAITING
from reconciler.metrics.quantities.quantity import PER_POD, Name, Quantity
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


UNNAMED_POD = "unnamed_pod"
"""The label of a sum over pods that tells the pod where its series name no model; empty where they do."""


def _over_pods(name: Name, candidates: Sequence[str], unit: str, reason: str) -> Quantity:
    """What pods tell, added up by model; of those that name none, pod by pod."""
    each = f'label_replace({" or ".join(candidates)}, "{UNNAMED_POD}", "$$1", "$pod", "(.*)")'
    told = f'label_replace({each}, "{UNNAMED_POD}", "", "$model", ".+")'
    text = f"sum by ($served, {UNNAMED_POD}) ({told})"
    return Quantity(name=name, unit=unit, reason=reason, by=PER_POD, candidates=(text,))


def _past(present: Name, past: Name) -> Quantity:
    quantity = _PRESENT[present]
    return _over_pods(past, quantity.candidates, quantity.unit, quantity.reason)


def _tokens(name: Name, ratios: Callable[[ServingEngine], Iterable[CounterRatio]], reason: str) -> Quantity:
    """Tokens in a second: by what was finished then, they are those of a request; both count each series once."""
    counters = (
        replace(ratio.numerator, apart=engine.finished[0].apart) for engine in SOURCES for ratio in ratios(engine)
    )
    return _over_pods(name, [counter.gain() for counter in counters], "tokens/s", reason)


PAST: Mapping[Name, Quantity] = {
    Name.PAST_ENDPOINT_PICKER: replace(_PRESENT[Name.ARRIVALS_ENDPOINT_PICKER], name=Name.PAST_ENDPOINT_PICKER),
    Name.PAST_COMPLETIONS: _past(Name.COMPLETIONS, Name.PAST_COMPLETIONS),
    Name.PAST_QUEUE_GROWTH: _past(Name.QUEUE_GROWTH, Name.PAST_QUEUE_GROWTH),
    Name.PAST_OUTPUT_TOKENS: _tokens(
        Name.PAST_OUTPUT_TOKENS, lambda engine: engine.output_tokens, "how long requests were: tokens generated"
    ),
    Name.PAST_INPUT_TOKENS: _tokens(
        Name.PAST_INPUT_TOKENS, lambda engine: engine.input_tokens, "how long requests were: tokens of prompts"
    ),
}
"""What the arrivals of models were, by each of those who may have counted their load, and how long they were."""
USUAL: Mapping[Name, Quantity] = {
    name: replace(PAST[past], name=name)
    for name, past in (
        (Name.USUAL_COMPLETIONS, Name.PAST_COMPLETIONS),
        (Name.USUAL_OUTPUT_TOKENS, Name.PAST_OUTPUT_TOKENS),
        (Name.USUAL_INPUT_TOKENS, Name.PAST_INPUT_TOKENS),
    )
}
"""The same of a whole day: what now is held against, where it looks like no other hour."""

OBJECTS: Mapping[Name, Quantity] = {Name.LIVE_REPLICAS: LIVE_REPLICAS}
"""What Kubernetes' objects say over time; no replica reports it."""
