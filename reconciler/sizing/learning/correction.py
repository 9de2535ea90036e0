"""A profile held against what its replicas do now: how much more or less they carry than it says."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.measured.replicas import Trace
from reconciler.domain.profiles import PerformanceProfile
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning.samples import LONGEST_S, MOST, SHORTEST_S, plausible, series_of

# A profile is corrected, not replaced: beyond these somebody has to look.
LEAST_FACTOR, MOST_FACTOR = 0.7, 1.2
_HALF_LIFE_S = 900.0
_FEWEST_SAMPLES = 5
# Of a clock: the year 33,658.
_LATEST_S = 1e12
# High load: at least this share of the full batch, and more than a lone request.
_HIGH_SHARE, _HIGH_LEAST = 0.5, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What capacity is multiplied by, from that many samples at high load, and why."""

    factor: float
    samples: int
    reason: str


def correct(traces: Sequence[Trace], profile: PerformanceProfile) -> Correction:
    """Return how much of the profile's capacity its replicas show: expected over observed inter-token latency.

    Only high load counts, where capacity is decided: half of the full batch and two requests at least. All pods share
    one average, in which a sample weighs half of one that is 15 minutes younger. It is geometric, for ratios, and no
    sample says more than the factor may, so that nonsense moves it little.
    """
    if not _is_usable(profile):
        return Correction(factor=1.0, samples=0, reason="the profile has no usable parameters to compare with")
    usable = [trace for trace in traces if _has_clock(trace)]
    skipped = len(traces) - len(usable)
    suffix = f"; {skipped} of {len(traces)} pods left out, their clock does not run forward" if skipped else ""
    times_s, ratios = _at_high_load(usable, profile)
    if times_s.size < _FEWEST_SAMPLES:
        why = f"{times_s.size} samples with at least {_high(profile):g} requests running, {_FEWEST_SAMPLES} are needed"
        return Correction(factor=1.0, samples=times_s.size, reason=why + suffix)
    factor = _recent_mean(times_s, ratios)
    return Correction(factor=factor, samples=times_s.size, reason=_words(factor, times_s.size, profile) + suffix)


def _is_usable(profile: PerformanceProfile) -> bool:
    numbers = profile.alpha_s, profile.beta_s, profile.max_batch_size
    return all(0 <= number <= MOST for number in numbers) and profile.alpha_s + profile.beta_s > 0


def _has_clock(trace: Trace) -> bool:
    return abs(trace.start_s) <= _LATEST_S and 0 < trace.step_s <= LONGEST_S


def _high(profile: PerformanceProfile) -> float:
    return max(profile.max_batch_size * _HIGH_SHARE, _HIGH_LEAST)


def _at_high_load(traces: Sequence[Trace], profile: PerformanceProfile) -> tuple[Floats, Floats]:
    """Return when there was high load and how fast it ran against the profile, in order; shapes (samples,)."""
    pods = [np.empty((2, 0)), *_ratios_by_pod(traces, profile)]
    times_s, ratios = np.concatenate(pods, axis=1)
    order = np.lexsort((ratios, times_s))
    return times_s[order], ratios[order]


def _ratios_by_pod(traces: Sequence[Trace], profile: PerformanceProfile) -> Iterator[Floats]:
    for trace in traces:
        running = plausible(series_of(trace, "running"), _high(profile), MOST)
        itl_s = plausible(series_of(trace, "itl"), SHORTEST_S, LONGEST_S)
        ratios = (profile.alpha_s + profile.beta_s * running) / itl_s
        times_s = trace.start_s + np.arange(ratios.size) * trace.step_s
        known = np.isfinite(times_s) & np.isfinite(ratios)
        yield np.stack([times_s[known], ratios[known]])


def _recent_mean(times_s: Floats, ratios: Floats) -> float:
    weights = np.exp2((times_s - times_s[-1]) / _HALF_LIFE_S)
    bounded = np.log(np.clip(ratios, LEAST_FACTOR, MOST_FACTOR))
    mean = math.exp(float(weights @ bounded / weights.sum()))
    return min(max(mean, LEAST_FACTOR), MOST_FACTOR)


def _words(factor: float, samples: int, profile: PerformanceProfile) -> str:
    percent = round(100 * (factor - 1))
    speed = f"{abs(percent)} % {'slower' if percent < 0 else 'faster'} than" if percent else "as fast as"
    return f"{speed} the profile says, by {samples} samples with at least {_high(profile):g} requests running"
