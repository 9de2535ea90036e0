"""A prior after its accelerator was tried: prior and hours weighted by their variances, on the scale of logarithms.

The formulas are in rules/prior.md#canary.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from reconciler.domain.canaries import Measured
from reconciler.domain.observed import Trace
from reconciler.domain.priors import BAND_DEVIATIONS, Band, Prior
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.records import replace
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning_lines import samples_of

HOUR_S = 3600.0
FEWEST_IN_HOUR = 2
"""Windows with load: fewer say nothing of an hour."""
LEAST_RUNNING = 0.2
"""Requests at once, on average: below, a window has hardly a token to time."""
HOURS_ALIKE = 3.0
"""Neighbouring hours have the same load and the same errors: so many count as one."""
LEAST_NOISE = 0.03
"""Of an hour: no clock and no window is more exact."""
FARTHEST = 4
"""Times the largest batch that was seen: beyond, nothing is known, as of learned profiles."""


def update(prior: Prior, traces: Sequence[Trace], now_s: float) -> Measured:
    """What is believed of an accelerator after replicas on it reported `traces`, all on one grid.

    Each hour with load is one point: the median of measured gaps between tokens over those that the prior expects at
    the same batch and lengths. Steps and prompts are corrected alike: the first token of a request takes other things.

    The band is that of an hour, not of the mean of hours, and its slow edge is never faster than that mean.
    """
    shifts, batches, inputs, outputs, last_s = _hours(prior, traces, now_s)
    hours, seen_s = len(shifts), _seen_s(traces)
    if not hours:
        return Measured(prior=prior, posterior=prior, seen_s=seen_s)
    mean, points = float(np.mean(shifts)), math.ceil(hours / HOURS_ALIKE)
    noise = _noise(shifts, points)
    # A prior whose band does not hold the mean is made wide enough to hold it, so that it cannot talk it down.
    weight = 1.0 / max(prior.deviation, abs(mean) / BAND_DEVIATIONS) ** 2
    center = mean * points / (points + weight * noise)
    deviation = math.sqrt(noise / (points + weight * noise) + noise)
    profile = prior.slower(math.exp(center))
    least, most = (float(each) for each in np.quantile(batches, (0.05, 0.95)))
    profile = replace(profile, learning=_learning(profile, shifts, (least, most), inputs, outputs, now_s))
    return Measured(
        prior=prior,
        posterior=replace(
            prior,
            profile=profile,
            deviation=deviation,
            itl_s=Band(median=prior.itl_s.median * math.exp(center), deviation=deviation),
            throughput_tokens_per_s=Band(
                median=prior.throughput_tokens_per_s.median * math.exp(-center), deviation=deviation
            ),
            evidence=f"measured in {hours} hours with load, up to {most:.3g} requests at once",
        ),
        hours=hours,
        batch=(least, most),
        shift=math.exp(mean),
        prompt_share=(profile.prompt_s or 0.0) * float(np.median(inputs / outputs)),
        last_hour_itl_s=last_s,
        seen_s=seen_s,
    )


def _noise(shifts: Floats, points: int) -> float:
    """The variance of an hour, of so many that are independent: all others only look as if they agreed."""
    independent = max(points, 2)
    return max(float(np.var(shifts)) * independent / (independent - 1), LEAST_NOISE**2)


def _seen_s(traces: Sequence[Trace]) -> float | None:
    """When a replica last reported anything, with load or without; None where none did."""
    last_s = None
    for each in traces:
        known = np.flatnonzero(np.isfinite(np.asarray(each.series.get("running", ()))))
        if known.size:
            last_s = max(last_s or 0.0, each.start_s + each.step_s * float(known[-1]))
    return last_s


def expected_gap_s(profile: PerformanceProfile, batches: Floats, inputs: Floats, outputs: Floats) -> Floats:
    """The gap between tokens at each batch, with the prompts of others in it."""
    steps = profile.alpha_s + profile.beta_s * batches
    return steps + (profile.prompt_s or 0.0) * batches * inputs / outputs


def _hours(prior: Prior, traces: Sequence[Trace], now_s: float) -> tuple[Floats, Floats, Floats, Floats, float | None]:
    """The shift of each hour with load; batches and lengths of all windows; the gap in the last hour.

    Hours are those of the clock, whatever replicas ran in them: a later run counts the same ones and more.
    """
    columns = np.concatenate([np.empty((5, 0)), *map(_windows, traces)], axis=1)
    shifts: list[float] = []
    kept: list[Floats] = [np.empty((5, 0))]
    last_s = None
    hours = np.floor(columns[4] / HOUR_S)
    for hour in np.unique(hours):
        mine = columns[:, hours == hour]
        if mine.shape[1] < FEWEST_IN_HOUR:
            continue
        expected_s = expected_gap_s(prior.profile, mine[0], mine[1], mine[2])
        shifts.append(float(np.median(np.log(mine[3] / expected_s))))
        kept.append(mine)
        if hour >= math.floor(now_s / HOUR_S) - 1:
            last_s = float(np.median(mine[3]))
    whole = np.concatenate(kept, axis=1)
    return np.array(shifts), whole[0], whole[1], whole[2], last_s


def _windows(trace: Trace) -> Floats:
    """Of each window with load: requests at once, tokens of a prompt and of an answer, the gap, and when it was."""
    samples = samples_of([trace])
    times_s = trace.start_s + trace.step_s * np.arange(samples.itl_s.size)
    told = (samples.itl_s > 0) & (samples.num_running >= LEAST_RUNNING)
    told &= (samples.input_tokens >= 1) & (samples.output_tokens >= 1)
    lengths = samples.input_tokens, samples.output_tokens
    columns: Floats = np.stack([samples.num_running, *lengths, samples.itl_s, times_s])[:, told]
    # A batch of less than one is a lone request for a part of the time.
    columns[0] = np.maximum(columns[0], 1.0)
    return columns


def _learning(
    profile: PerformanceProfile,
    shifts: Floats,
    batch: tuple[float, float],
    inputs: Floats,
    outputs: Floats,
    now_s: float,
) -> Learning:
    return Learning(
        on=datetime.fromtimestamp(now_s, tz=UTC).date().isoformat(),
        samples=inputs.size,
        error=float(np.median(np.abs(np.expm1(shifts - np.median(shifts))))),
        batch=batch,
        input_tokens=_range(inputs),
        output_tokens=_range(outputs),
        reach=min(max(int(FARTHEST * batch[1]), 1), profile.max_batch_size),
    )


def _range(values: Floats) -> tuple[float, float]:
    least, most = (float(each) for each in np.quantile(values, (0.01, 0.99)))
    return least, most
