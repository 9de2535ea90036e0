"""What is asked over time, by range queries: the same candidates as for the present, gauges as means of the window."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

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
    **{name: replace(_PRESENT[name], tells_alternative=False) for name in _UNCHANGED},
}
"""Every quantity that has a history."""

OWNERS: Mapping[Name, Quantity] = {quantity.name: quantity for quantity in POD_OWNERS}
"""Whose the pods are; asked once, over all the time that a history covers."""


UNNAMED_POD = "unnamed_pod"
"""The label of a sum over pods that tells the pod where its series name no model; empty where they do."""


def _added_up(text: str) -> str:
    """What pods tell, added up by model; of those that name none, pod by pod."""
    each = f'label_replace({text}, "{UNNAMED_POD}", "$$1", "$pod", "(.*)")'
    told = f'label_replace({each}, "{UNNAMED_POD}", "", "$model", ".+")'
    return f"sum by ($served, {UNNAMED_POD}) ({told})"


def _tokens(ratios: Callable[[ServingEngine], Iterable[CounterRatio]]) -> str:
    """Tokens in a second: by what was finished then, they are those of a request; both count each series once."""
    counters = (
        replace(ratio.numerator, apart=engine.finished[0].apart) for engine in SOURCES for ratio in ratios(engine)
    )
    return " or ".join(counter.gain() for counter in counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summed:
    """What is asked of the past as a sum over pods: which present quantity it is the past of, and what pods tell."""

    present: Name
    unit: str
    told: str

    def quantity(self, name: Name) -> Quantity:
        reason = f"what it was before: {_PRESENT[self.present].reason}"
        return Quantity(name=name, unit=self.unit, reason=reason, by=PER_POD, candidates=(_added_up(self.told),))


def _same(present: Name) -> _Summed:
    return _Summed(present=present, unit=_PRESENT[present].unit, told=" or ".join(_PRESENT[present].candidates))


_FINISHED = _same(Name.COMPLETIONS)
_OUTPUT = _Summed(present=Name.OUTPUT_TOKENS, unit="tokens/s", told=_tokens(lambda engine: engine.output_tokens))
_INPUT = _Summed(present=Name.INPUT_TOKENS, unit="tokens/s", told=_tokens(lambda engine: engine.input_tokens))
_SUMS_OF_PAST = {
    Name.PAST_COMPLETIONS: _FINISHED,
    Name.PAST_QUEUE_GROWTH: _same(Name.QUEUE_GROWTH),
    Name.PAST_OUTPUT_TOKENS: _OUTPUT,
    Name.PAST_INPUT_TOKENS: _INPUT,
}
_SUMS_OF_DAYS = {
    Name.USUAL_COMPLETIONS: _FINISHED,
    Name.USUAL_OUTPUT_TOKENS: _OUTPUT,
    Name.USUAL_INPUT_TOKENS: _INPUT,
}

PAST: Mapping[Name, Quantity] = {
    Name.PAST_ENDPOINT_PICKER: replace(_PRESENT[Name.ARRIVALS_ENDPOINT_PICKER], name=Name.PAST_ENDPOINT_PICKER),
    **{name: each.quantity(name) for name, each in _SUMS_OF_PAST.items()},
}
"""What the arrivals of models were, by each of those who may have counted their load, and how long they were."""
USUAL: Mapping[Name, Quantity] = {name: each.quantity(name) for name, each in _SUMS_OF_DAYS.items()}
"""The same of a whole day: what now is held against, where it looks like no other hour."""


def in_own_words(quantity: Quantity, own: Mapping[Name, str]) -> Quantity:
    """A sum over pods of the past where a person says what it is the past of, in these words first; else unchanged.

    `own` are PromQL by quantity. Who says how long a request is, is asked for tokens by what was finished.
    """
    past = (_SUMS_OF_PAST | _SUMS_OF_DAYS).get(quantity.name)
    if past is None or past.present not in own:
        return quantity
    words = {name: f"({text})".replace("$", "$$") for name, text in own.items()}
    said = words[past.present]
    if past in (_OUTPUT, _INPUT):
        finished = [words[Name.COMPLETIONS]] if Name.COMPLETIONS in words else []
        said = f"{said} * on ($by) ({' or on ($by) '.join((*finished, _FINISHED.told))})"
    return replace(quantity, candidates=(_added_up(f"{said} or on ($by) {past.told}"),))


OBJECTS: Mapping[Name, Quantity] = {Name.LIVE_REPLICAS: LIVE_REPLICAS}
"""What Kubernetes' objects say over time; no replica reports it."""
