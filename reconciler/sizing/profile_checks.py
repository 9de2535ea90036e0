"""A profile compared with what its replicas did: correction factors and contradictions."""

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import numpy as np

from reconciler.domain.observed import Trace
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Bools, Floats
from reconciler.sizing.learning_lines import LONGEST_S, MOST, SHORTEST_S, plausible, series_of
from reconciler.sizing.queueing_laws import serial_prefill

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
    weights = np.exp2((times_s - times_s[-1]) / _HALF_LIFE_S)
    bounded = np.log(np.clip(ratios, LEAST_FACTOR, MOST_FACTOR))
    mean = math.exp(float(weights @ bounded / weights.sum()))
    factor = min(max(mean, LEAST_FACTOR), MOST_FACTOR)
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
        ratios = (profile.alpha_s + profile.beta_s * running + _prompts_s(trace, profile, running)) / itl_s
        times_s = trace.start_s + np.arange(ratios.size) * trace.step_s
        known = np.isfinite(times_s) & np.isfinite(ratios)
        yield np.stack([times_s[known], ratios[known]])


def _prompts_s(trace: Trace, profile: PerformanceProfile, running: Floats) -> Floats | float:
    """What prompts add to an iteration in the mean, 0 where the law computes none among tokens."""
    if profile.prompt_s is None:
        return 0.0
    inputs, outputs = (plausible(series_of(trace, name), 1.0, MOST) for name in ("input_tokens", "output_tokens"))
    cached = 0.0 if profile.learning is None else profile.learning.cached
    steps, computed = np.maximum((outputs - 1) / profile.tokens_per_step, 1.0), inputs * (1 - cached)
    prompts = running / steps
    added_s: Floats = profile.prompt_s * computed * prompts
    curves = serial_prefill(
        alpha_s=profile.alpha_s,
        beta_s=profile.beta_s,
        prompt_s=profile.prompt_s,
        input_tokens=computed,
        output_tokens=steps,
        max_batch=profile.max_batch_size,
        step_tokens=profile.step_tokens,
        overlap=profile.overlap,
    )
    return added_s if curves.prompts is None else added_s - curves.prompts.mean_hidden_s(running, prompts)


def _words(factor: float, samples: int, profile: PerformanceProfile) -> str:
    percent = round(100 * (factor - 1))
    speed = f"{abs(percent)} % {'slower' if percent < 0 else 'faster'} than" if percent else "as fast as"
    return f"{speed} the profile says, by {samples} samples with at least {_high(profile):g} requests running"


# A profile held against what its replicas did: whether what it expects contradicts what was measured. The history is
# cut into stretches of ten minutes (batch means: neighbouring moments share their queue, so they are not independent,
# stretches nearly are). In each, what was measured is compared with what the law expects at the rate that the same
# replicas completed. A profile is believed within the bounds of a correction (`LEAST_FACTOR`): were replicas so much
# faster or slower, the same load would be a smaller or larger part of what they carry, and all take less or more
# time. Beyond, it is contradicted when the mean over the stretches lies there in all but one of a thousand samples of
# noise (Student's t). Completions, not arrivals: what a replica cannot carry waits, and says nothing of its speed.

STRETCH_S = 600.0
FEWEST_STRETCHES = 4
MOST_REPLICAS = 8
"""Replicas of a variant that are looked at: more of them tell hardly more, and a fleet has thousands."""
CERTAIN = 0.999
_TOLERANCE = -math.log(LEAST_FACTOR)
# Logarithms are kept within: beyond, infinitely more is no more.
_MOST_LOG = 10.0
# Of the moments of a stretch, what must be known, and requests of one replica that a stretch has at least.
_KNOWN, _FEWEST_REQUESTS = 0.5, 3.0


class Measure(StrEnum):
    """What is compared, in words for people."""

    ITL = "ITL"
    TTFT = "TTFT"
    WAIT = "wait"
    RATE = "rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one replica did in the stretch `number`: means over its requests, NaN where unknown."""

    number: int
    rate_per_s: float
    itl_s: float
    ttft_s: float
    wait_s: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a law expects, one element a stretch: means, NaN of what it does not know, infinite beyond its full batch.

    `most_per_s` is what completes with the full batch.
    """

    itl_s: Floats
    ttft_s: Floats
    wait_s: Floats
    most_per_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """What was expected and what was measured over so many stretches, in seconds (of the rate in requests a second)."""

    measure: Measure
    expected: float
    measured: float
    stretches: int


def stretches_of(traces: Sequence[Trace]) -> tuple[Stretch, ...]:
    """Return what replicas did, stretch by stretch, where they completed requests; of `MOST_REPLICAS` of them."""
    told: dict[str, Trace] = {}
    for trace in traces:
        if "completions" in trace.series and 0 < trace.step_s <= STRETCH_S / 2:
            told.setdefault(trace.pod, trace)
    return tuple(each for pod in sorted(told)[:MOST_REPLICAS] for each in _stretches(told[pod]))


def loads_beside(rates_per_s: Floats) -> tuple[Floats, Floats]:
    """Return the rates that mean as much to replicas that are as fast, and as slow, as a profile may be wrong."""
    return rates_per_s * LEAST_FACTOR, rates_per_s / LEAST_FACTOR


def find_contradiction(
    stretches: Sequence[Stretch], expected: Forecast, fast: Forecast, slow: Forecast, *, limits_first_token: bool
) -> Contradiction | None:
    """Return the first measure that contradicts its forecast, None where none does.

    `fast` and `slow` are forecasts at the rates of `loads_beside`. That requests wait longer than expected matters
    where somebody `limits_first_token`; that they do not wait as long matters always.
    """
    for found in _compared(stretches, expected, fast, slow, limits_first_token=limits_first_token):
        if found is not None:
            return found
    return None


def _stretches(trace: Trace) -> Iterator[Stretch]:
    rates = plausible(series_of(trace, "completions"), 0.0, MOST)
    columns = [
        plausible(series_of(trace, name), least, most)
        for name, least, most in (
            ("itl", SHORTEST_S, LONGEST_S),
            ("ttft", SHORTEST_S, LONGEST_S),
            ("wait", 0.0, LONGEST_S),
            ("input_tokens", 1.0, MOST),
            ("output_tokens", 1.0, MOST),
        )
    ]
    moments = round(STRETCH_S / trace.step_s)
    for number in range(rates.size // moments):
        # the newest stretch is number 0, and whole
        part = slice(rates.size - (number + 1) * moments, rates.size - number * moments)
        inner = rates[part]
        known = np.isfinite(inner)
        mean = float(inner[known].mean()) if known.mean() >= _KNOWN else 0.0
        if mean * STRETCH_S >= _FEWEST_REQUESTS:
            itl_s, ttft_s, wait_s, inputs, outputs = (_weighted(each[part], inner) for each in columns)
            yield Stretch(
                number=number,
                rate_per_s=mean,
                itl_s=itl_s,
                ttft_s=ttft_s,
                wait_s=wait_s,
                input_tokens=inputs,
                output_tokens=outputs,
            )


def _weighted(values: Floats, weights: Floats) -> float:
    known = np.isfinite(values) & (weights > 0)
    return float(values[known] @ weights[known] / weights[known].sum()) if known.any() else math.nan


def _compared(
    stretches: Sequence[Stretch], expected: Forecast, fast: Forecast, slow: Forecast, *, limits_first_token: bool
) -> Iterator[Contradiction | None]:
    """A measure is compared where it is known of enough stretches; replicas of one stretch count by their requests."""
    over = _Comparison(stretches)
    nothing = np.zeros(len(stretches))
    itl_s, ttft_s, wait_s = (over.column(name) for name in ("itl_s", "ttft_s", "wait_s"))
    yield over.compare(Measure.RATE, over.rates, expected.most_per_s, (None, expected.most_per_s), nothing)
    yield over.compare(Measure.ITL, itl_s, expected.itl_s, (fast.itl_s, slow.itl_s), nothing)
    # An arrival waits for the iteration that runs, in which prompts may be computed that the law knows nothing of.
    knows_prompts = ~np.isnan(expected.ttft_s)
    prompts_s = np.where(knows_prompts, 0.0, np.nan_to_num(np.fmax(ttft_s - np.nan_to_num(wait_s), 0.0)))
    iteration_s = expected.itl_s + prompts_s
    slow_ttft_s = slow.ttft_s if limits_first_token else None
    # Who waits for room in an iteration waits, as engines count: in a law of prompts that is part of the first token.
    slow_wait_s = np.fmax(slow.wait_s, slow.ttft_s) if limits_first_token else None
    yield over.compare(Measure.TTFT, ttft_s, expected.ttft_s, (fast.ttft_s, slow_ttft_s), iteration_s)
    yield over.compare(Measure.WAIT, wait_s, expected.wait_s, (fast.wait_s, slow_wait_s), iteration_s)
    # Where waiting is not told, it is no longer than the time to first token.
    yield over.compare(Measure.TTFT, ttft_s, expected.wait_s, (fast.wait_s, None), iteration_s)


class _Comparison:
    """The stretches as columns, and the means over the replicas of each."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self._stretches = stretches
        self.rates = self.column("rate_per_s")
        self._numbers = np.array([each.number for each in stretches])

    def column(self, name: str) -> Floats:
        """Return one value of all stretches."""
        return np.array([getattr(each, name) for each in self._stretches])

    def compare(
        self,
        measure: Measure,
        measured: Floats,
        expected: Floats,
        bounds: tuple[Floats | None, Floats | None],
        unresolved: Floats,
    ) -> Contradiction | None:
        """Return the contradiction where what was measured is below or above its bound, and further than the tolerance.

        What is `unresolved` may be in what was measured, and need not be.
        """
        known = np.isfinite(measured) & ~np.isnan(expected)
        if not known.any():
            return None
        numbers = sorted(set(self._numbers[known].tolist()))
        for bound, sign in zip(bounds, (1.0, -1.0), strict=True):
            if bound is None or len(numbers) < FEWEST_STRETCHES:
                continue
            parts = [known & (self._numbers == each) for each in numbers]
            told = measured + unresolved if sign > 0 else measured
            above, below = self._means(parts, told), self._means(parts, bound + unresolved)
            if _is_below(sign * _log(above / np.maximum(below, SHORTEST_S)) + _TOLERANCE):
                mean_expected, mean_measured = (float(self._means([known], each)[0]) for each in (expected, measured))
                return Contradiction(
                    measure=measure, expected=mean_expected, measured=mean_measured, stretches=len(numbers)
                )
        return None

    def _means(self, parts: Iterable[Bools], column: Floats) -> Floats:
        return np.array([np.average(column[part], weights=self.rates[part]) for part in parts])


def _log(ratio: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.clip(np.log(ratio), -_MOST_LOG, _MOST_LOG)


def _is_below(gaps: Floats) -> bool:
    """Return whether the mean of the gaps is below zero, whatever the noise."""
    from reconciler.sizing.special import stdtrit

    error = float(gaps.std(ddof=1)) / math.sqrt(gaps.size)
    return float(gaps.mean()) + float(stdtrit(gaps.size - 1, CERTAIN)) * error < 0
