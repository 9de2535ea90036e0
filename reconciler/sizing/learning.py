"""Learns a performance profile from history, or says why there is none.

Formulas and defaults: rules/learning.md.
"""

import math
from itertools import chain

import numpy as np

from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning_lines import (
    BUSY,
    FEWEST_SAMPLES,
    UNKNOWN_LIMITS,
    EngineLimits,
    FittedLine,
    Samples,
    SerialPrefill,
    cached_of,
    calm_prefill,
    fit_line,
    fit_serial,
    measured,
    tokens_per_step_of,
)
from reconciler.sizing.queueing_laws import SPREAD, TOKEN_BUDGET

# A window with a request waiting throughout, on average; enough of them to believe a replica was full.
_WAITING, _FEWEST_FULL = 1.0, 30
# Of the batches seen, so that one reading of a hundred may be nonsense.
_LARGEST_QUANTILE = 0.99
# Requests that wait with so much of the limit running wait for a place, with so full a KV cache for memory.
_NEAR_LIMIT, _FULL_CACHE = 0.9, 0.9
# Emptier, a KV cache says too little of what a request takes.
_LEAST_CACHE = 0.01
# Of a normal distribution, what one in twenty exceeds.
_ONE_IN_TWENTY = 1.645


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """Requests that run at once at most, and that were `seen` to; `is_full` when others waited for a place.

    Unless it `is_known` the engine may run fewer: only what was seen is sure.
    """

    size: int
    seen: int
    is_full: bool
    note: str
    is_known: bool = True


def find_largest_batch(samples: Samples, limit: int | None = None) -> LargestBatch:
    """Return the full batch, or the engine's own `limit`, or four times what was seen; some sample must be busy.

    Requests also wait for room in an iteration for their prompts, and for memory. So a batch far below the limit is
    full only where its KV caches were.

    The full batch is the median of `num_running` in the half of the full windows that had most waiting: at the edges
    of a rush a window is full for a part only, and a high quantile would find the noise.
    """
    running = samples.num_running
    full = (samples.num_waiting >= _WAITING) & (running >= 1)
    seen = max(int(np.nanquantile(running, _LARGEST_QUANTILE)), 1)
    if np.count_nonzero(full) >= _FEWEST_FULL:
        size = max(round(_typical(running[full], samples.num_waiting[full])), 1)
        cached = samples.kv_cache_usage[full]
        is_out_of_memory = bool(np.nanmedian(cached) >= _FULL_CACHE) if np.isfinite(cached).any() else False
        if limit is None or size >= _NEAR_LIMIT * limit or is_out_of_memory:
            note = f"requests waited while {size} ran: that is the full batch"
            return LargestBatch(size=size, seen=size, is_full=True, note=note)
    if limit is not None:
        size = max(_fits_in_memory(samples, limit), seen)
        why = "the engine allows" if size == limit else "as requests differ in length, its KV cache has room for"
        return LargestBatch(size=size, seen=seen, is_full=False, note=f"{why} {size} at once, {seen} were seen")
    size = max(_fits_in_memory(samples, round(_FARTHEST * seen)), seen)
    note = f"nothing waited often enough to see a full batch, nor is the engine's limit known: {seen} is sure"
    return LargestBatch(size=size, seen=seen, is_full=False, is_known=False, note=note)


def _fits_in_memory(samples: Samples, limit: int) -> int:
    """Return how many requests find room in the KV cache without waiting for it, `limit` where nothing tells.

    Requests differ in length, so what holds N of the mean turns a long prompt away before. In the mean of those who run
    (rho, of Poisson arrivals) what they hold has the variance rho * (1 + spread), in requests of the mean. Where one in
    twenty finds no room for a prompt that one in twenty exceeds, as many equal requests need rho + 1.645 * sqrt(rho)
    places (the equivalent system of blocking with a peakedness of 1 + spread: Hayward, Fredericks 1980).
    """
    told = (samples.kv_cache_usage >= _LEAST_CACHE) & (samples.num_running >= 1)
    if np.count_nonzero(told) < _FEWEST_FULL:
        return limit
    mean = float(np.median(samples.num_running[told] / samples.kv_cache_usage[told]))
    prompts = samples.input_tokens / (samples.input_tokens + np.nan_to_num(samples.output_tokens) / 2)
    share = float(np.nanmedian(prompts)) if np.isfinite(prompts).any() else 1.0
    root = math.sqrt(math.log1p(SPREAD))
    room = max(mean - share * math.exp(_ONE_IN_TWENTY * root - root * root / 2), 0.0)
    half = _ONE_IN_TWENTY * math.sqrt(1 + SPREAD) / 2
    deviation = math.sqrt(half * half + room) - half
    return min(max(int(deviation * deviation + _ONE_IN_TWENTY * deviation), 1), limit)


def _typical(running: Floats, waiting: Floats) -> float:
    return float(np.median(running[waiting >= np.median(waiting)]))


NEVER_SEEN = (0.0, 0.0)
# One percent at either end may be nonsense.
_ENDS = (0.01, 0.99)
_MARGIN = 0.25


def range_of(values: Floats) -> tuple[float, float]:
    """Return the smallest and largest of the values without a percent at either end; `NEVER_SEEN` when all are NaN."""
    known = values[np.isfinite(values)]
    if not known.size:
        return NEVER_SEEN
    low, high = np.quantile(known, _ENDS)
    return float(low), float(high)


def why_outside(learning: Learning, *, input_tokens: float | None, output_tokens: float | None) -> str:
    """Return why nothing was learned about requests of such mean lengths, empty when they are inside.

    Inside is what was seen and a quarter less or more. A length that is None, or 0 as without load, asks for nothing.
    """
    return "; ".join(
        why
        for why in (
            _why_outside("input tokens", learning.input_tokens, input_tokens),
            _why_outside("output tokens", learning.output_tokens, output_tokens),
        )
        if why
    )


def _why_outside(name: str, seen: tuple[float, float], tokens: float | None) -> str:
    if tokens is None or tokens == 0:
        return ""
    if seen == NEVER_SEEN:
        return f"{name} were not measured when the profile was learned, a request now has {tokens:.4g}"
    low, high = seen
    if low * (1 - _MARGIN) <= tokens <= high * (1 + _MARGIN):  # false for NaN, which is outside of everything
        return ""
    return f"{tokens:.4g} {name} are outside of the {low:.4g} to {high:.4g} that the profile was learned from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Iteration time alpha + beta * batch, prefill gamma + delta * input tokens * batch (None: not learned).

    With `prompt_s` prompts are computed one after the other, `token_budget` tokens an iteration at most; then alpha and
    beta are those of iterations without prompts. `reach` is the largest batch up to which the iteration time is sure.
    A step makes `tokens_per_step` tokens of a request, and the prefix cache held the share `cached` of prompts.

    `error` is the median of |observed / fitted - 1| of the inter-token latency, `prefill_error` that of the time to
    first token without waiting. `batch`, `input_tokens` and `output_tokens` are the smallest and largest values seen,
    without one percent at either end; (0, 0) was never seen. `max_batch_size` is the full batch when
    `is_full_batch_seen`, else only the largest that was seen. `notes` say what a reader must know of it.
    """

    alpha_s: float
    beta_s: float
    gamma_s: float | None
    delta_s: float | None
    prompt_s: float | None
    token_budget: int | None
    overlap: float
    tokens_per_step: float
    step_tokens: float
    max_batch_size: int
    cached: float
    reach: int
    is_full_batch_seen: bool
    samples: int
    error: float
    prefill_error: float | None
    batch: tuple[float, float]
    input_tokens: tuple[float, float]
    output_tokens: tuple[float, float]
    notes: tuple[str, ...]

    def profile(self, accelerator: str, on: str, margin: float = 1.0) -> PerformanceProfile:
        """Return what was learned as a profile of the accelerator, learned on that day (ISO)."""
        return PerformanceProfile(
            accelerator=accelerator,
            alpha_s=self.alpha_s,
            beta_s=self.beta_s,
            gamma_s=self.gamma_s,
            delta_s=self.delta_s,
            prompt_s=self.prompt_s,
            token_budget=self.token_budget,
            overlap=self.overlap,
            tokens_per_step=self.tokens_per_step,
            step_tokens=self.step_tokens,
            max_batch_size=self.max_batch_size,
            learning=Learning(
                on=on,
                samples=self.samples,
                error=self.error,
                batch=self.batch,
                reach=self.reach,
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                cached=self.cached,
                margin=margin,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Nothing was learned, for the `reason`, from that many usable samples."""

    reason: str
    samples: int


# From history to a profile: which samples say something, two lines through them, and when to say nothing. Samples of
# the iteration time are windows with requests running. Prometheus gives two kinds of mean over a window: a latency
# weighs every token alike, `num_running` every second. As tokens come fastest when much runs, the latency belongs to
# a somewhat larger batch: to n + v / n at a mean of n and a variance of v inside the window. Random arrivals have v
# <= n, so the law learned is late by one request at most, its alpha too large by beta at most. A full batch has v =
# 0. Samples of prefill are windows in which waiting was known, or absent, and at most half of the time to first
# token: the rest of a long wait says more about the wait. The batch that a prefill meets is the mean, which arrivals
# see too (Poisson arrivals see time averages), and itself, up to the full batch.

# A line through points that lie closer says nothing of its slope, least of all when x is noisy.
_SPREAD, _COMPARED_ENDS = 2.0, (0.05, 0.95)
_LARGEST_ERROR, _LARGEST_UNCERTAINTY = 0.25, 0.10
# An engine that is known to cut prompts into chunks is believed to, unless its times say otherwise.
_LEAST_GAIN, _GOOD_ENOUGH = 4.0, 0.09
# Of the largest batch seen: further, engines may turn from reading weights to computing, which no small batch shows.
_FARTHEST = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Points:
    """What a line is fitted to: `what` it is, over `over`; shapes (points,)."""

    what: str
    over: str
    x: Floats
    y: Floats


def fit_profile(samples: Samples, limits: EngineLimits = UNKNOWN_LIMITS) -> Fit | Unfit:
    """Return the profile that the samples follow, or why they follow none; never more than they say.

    `limits` are what the engine was started with. With a token budget prompts are computed one after the other, unless
    they say otherwise; without, where that explains more. With a largest batch that is the profile's, however few
    requests were ever seen at once.

    Prefill is left out, with a note, when it cannot be told: the profile then is one of `decode_only`. That goes for
    prefill that was always seen with the same batch times prompt, where gamma and delta * x are one number; a time to
    first token that does not grow with the batch, over a range of it, is an answer, and delta is 0.
    """
    kept = measured(samples)
    busy = kept.chosen((kept.num_running >= BUSY) & np.isfinite(kept.itl_s))
    decode = _Points(what="inter-token latency", over="requests running", x=_batch(busy), y=busy.itl_s)
    if why := _too_few(decode, samples.itl_s.size) or _too_alike(decode):
        return Unfit(reason=why, samples=decode.x.size)
    full = find_largest_batch(kept)
    line = fit_line(decode.x, decode.y)
    if why := _too_loose(decode, line, 1.0, float(full.seen)):
        return Unfit(reason=why, samples=decode.x.size)
    prefill, why = _fit_prefill(kept, full)
    allowed = find_largest_batch(kept, limits.max_batch_size)
    serial = fit_serial(kept, limits.token_budget or TOKEN_BUDGET, limits.step_tokens)
    if isinstance(serial, SerialPrefill):
        if limits.token_budget is None:
            is_better = serial.is_sure and prefill is not None and serial.error < prefill.error
        else:
            is_better = prefill is None or serial.error <= max(prefill.error * _LEAST_GAIN, _GOOD_ENOUGH)
        if is_better:
            return _fit_of(busy, allowed, line, None, serial, _compared(serial, prefill))
    # Where prompts do not wait for each other, requests that wait do so for a place.
    largest = full if full.is_full else allowed
    compared = _compared(serial, prefill) if isinstance(serial, SerialPrefill) else ""
    return _fit_of(busy, largest, line, prefill, None, why and f"prefill is not learned: {why}", compared)


def _fit_prefill(kept: Samples, largest: LargestBatch) -> tuple[FittedLine | None, str]:
    """Return the line of prefill, or why there is none."""
    first_s, calm = calm_prefill(kept)
    most = largest.size if largest.is_full else np.inf
    work = kept.input_tokens * np.clip(kept.num_running + 1, 1.0, most)
    points = _Points(
        what="time to first token without waiting",
        over="input tokens times requests running",
        x=work[calm],
        y=first_s[calm],
    )
    if why := _too_few(points, kept.ttft_s.size) or _too_alike(points):
        return None, why
    line = fit_line(points.x, points.y)
    why = _too_loose(points, line, float(points.x.min()), float(points.x.max()))
    return (None, why) if why else (line, "")


def _batch(busy: Samples) -> Floats:
    # of less than one, too: who comes at random then finds one less than he runs with, as at any mean
    return busy.num_running


def _too_few(points: _Points, total: int) -> str:
    if points.x.size >= FEWEST_SAMPLES:
        return ""
    return (
        f"{points.x.size} of {total} samples show {points.what} and {points.over}, at least {FEWEST_SAMPLES} are needed"
    )


def _too_alike(points: _Points) -> str:
    low, high = np.quantile(points.x, _COMPARED_ENDS)
    if high >= _SPREAD * low:
        return ""
    return (
        f"{points.over} are too alike to tell how {points.what} grows with them: nine samples of ten lie between "
        f"{low:.4g} and {high:.4g}, the largest must be at least {_SPREAD:g} times the smallest"
    )


def _too_loose(points: _Points, line: FittedLine, least: float, most: float) -> str:
    if line.error > _LARGEST_ERROR:
        return (
            f"{points.what} does not follow a line over {points.over}: the median sample is off by {line.error:.0%}, "
            f"at most {_LARGEST_ERROR:.0%} is taken"
        )
    uncertainty = max(line.uncertainty_at(least), line.uncertainty_at(most))
    if uncertainty <= _LARGEST_UNCERTAINTY:
        return ""
    return (
        f"{points.what} is too noisy for so few samples: its line over {points.over} is uncertain by "
        f"{uncertainty:.0%} between {least:.4g} and {most:.4g}, at most {_LARGEST_UNCERTAINTY:.0%} is taken"
    )


def _fit_of(
    busy: Samples,
    largest: LargestBatch,
    line: FittedLine,
    beside: FittedLine | None,
    serial: SerialPrefill | None,
    *said: str,
) -> Fit:
    batch, input_tokens, output_tokens = map(range_of, (_batch(busy), busy.input_tokens, busy.output_tokens))
    decode = serial.decode if serial else line
    unseen = [
        f"{name} were not measured, so at which lengths this holds is unknown"
        for name, seen in (("input tokens", input_tokens), ("output tokens", output_tokens))
        if seen == NEVER_SEEN
    ]
    # The largest batch up to which the line is certain, which is never less than what was seen.
    batches = np.arange(largest.seen, max(largest.size, largest.seen) + 1)
    near = batches[batches <= _FARTHEST * largest.seen]
    certain = [int(batch) for batch in near if line.uncertainty_at(float(batch)) <= _LARGEST_UNCERTAINTY]
    is_as_seen = not largest.is_known or (serial is not None and not serial.is_sure)
    tokens, cached = tokens_per_step_of(busy), cached_of(busy) if serial else 0.0
    noted = {
        f"a step makes {tokens:.3g} tokens of a request": tokens > 1,
        f"the prefix cache held {cached:.0%} of prompts": cached > 0,
        f"prompts do not show the time of a token: no larger batch than {largest.seen} is sure": serial is not None
        and not serial.is_sure,
    }
    return Fit(
        alpha_s=decode.base,
        beta_s=decode.slope,
        gamma_s=beside.base if beside else None,
        delta_s=beside.slope if beside else None,
        prompt_s=serial.prompt_s if serial else None,
        token_budget=serial.token_budget if serial else None,
        overlap=serial.overlap if serial else 0.0,
        tokens_per_step=tokens,
        step_tokens=serial.step_tokens if serial else tokens,
        cached=cached,
        max_batch_size=largest.size,
        is_full_batch_seen=largest.is_full,
        reach=largest.seen if is_as_seen else max(certain, default=largest.seen),
        samples=busy.itl_s.size,
        error=line.error,
        prefill_error=serial.error if serial else beside.error if beside else None,
        batch=batch,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        notes=tuple(
            chain(
                [largest.note],
                _notes_on(decode, beside),
                filter(None, said),
                unseen,
                (note for note in noted if noted[note]),
            )
        ),
    )


def _compared(serial: SerialPrefill, beside: FittedLine | None) -> str:
    """How well each law explains the time to first token."""
    other = "is not known" if beside is None else f"within {beside.error:.1%}"
    return f"time to first token: prompts one after the other within {serial.error:.1%}, side by side {other}"


def _notes_on(decode: FittedLine, prefill: FittedLine | None) -> list[str]:
    said = {
        "inter-token latency does not grow with the batch, beta is 0": decode.slope == 0,
        "inter-token latency grows from nothing, alpha is 0": decode.base == 0,
        "time to first token does not grow with prompt and batch, delta is 0": prefill and prefill.slope == 0,
        "time to first token grows from nothing, gamma is 0": prefill and prefill.base == 0,
    }
    return [note for note, is_so in said.items() if is_so]
