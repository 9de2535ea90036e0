"""What came of a promise: latencies as they are measured beside their forecast, at a load that it covers or not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.domain.measured.loads import Load, Observation
from reconciler.domain.plan import RATE
from reconciler.domain.promises import Promise, PromisedLatency
from reconciler.domain.snapshot import Snapshot, Variant

NOISE = 0.10
"""So far a mean may lie beyond a number, and a load beyond another, before that counts."""
DEVIATIONS = 3.0
"""Standard errors of a mean that may be chance; requests differ as those of the exponential law do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLatency:
    """The mean of a latency that was measured beside what was promised of it; times in seconds."""

    promised: PromisedLatency
    measured_s: float
    noise: float

    def against(self, target_s: float) -> "ComparedLatency":
        """The same, held against another target."""
        return replace(self, promised=replace(self.promised, target_s=target_s))

    @property
    def is_missed(self) -> bool:
        """Whether the target is missed beyond noise: a mean above the limit of a percentile says enough, too."""
        return self.measured_s > self.promised.target_s * (1 + self.noise)

    @property
    def is_slower(self) -> bool:
        """Whether it takes longer than was forecast, beyond noise."""
        forecast_s = self.promised.mean_s
        return forecast_s is not None and self.measured_s > forecast_s * (1 + self.noise)


def compared(promise: Promise, observation: Observation, load: Load | None) -> Iterator[ComparedLatency]:
    """Each promised latency that is measured now."""
    noise = noise_of(observation, load)
    for latency in promise.latencies:
        measured_s = observation.performance.mean_s(latency.name)
        if measured_s is not None and math.isfinite(measured_s):
            yield ComparedLatency(promised=latency, measured_s=measured_s, noise=noise)


def noise_of(observation: Observation, load: Load | None) -> float:
    """The fraction that a mean over what a variant got lately may be off by chance; infinite where nobody knows."""
    if load is None or observation.arrival_rate_per_s is None:
        return math.inf
    requests = observation.arrival_rate_per_s * load.window_s
    return max(NOISE, DEVIATIONS / math.sqrt(requests)) if requests > 0 else math.inf


def is_covered(promise: Promise, observation: Observation, load: Load | None) -> bool | None:
    """Whether the load is one that was promised to be served; None where that is not known."""
    if load is None:
        return None
    lengths = ((load.input_tokens, promise.input_tokens), (load.output_tokens, promise.output_tokens))
    grown = [_is_beyond(now, promised) for now, promised in lengths if (now, promised) != (None, None)]
    if promise.unit == RATE and promise.demand is not None:
        arrivals = observation.arrival_rate_per_s
        grown.append(None if arrivals is None else arrivals > promise.demand)
    else:
        grown.append(_is_beyond(load.arrival_rate_per_s, promise.arrival_rate_per_s))
    if True in grown:
        return False
    return None if None in grown else True


def load_of(snapshot: Snapshot, variant: Variant) -> Load | None:
    """The load of a variant's model; None where it is not known."""
    load = snapshot.observed.loads.get(variant.model)
    return load if isinstance(load, Load) else None


def _is_beyond(now: float | None, promised: float | None) -> bool | None:
    return None if now is None or promised is None else now > promised * (1 + NOISE)
