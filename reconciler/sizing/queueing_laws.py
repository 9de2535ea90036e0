"""The queueing laws: how long a request is served in a batch of n, prompts included, and what a class asks.

Formulas and defaults: rules/prefill.md.
"""

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconciler.domain.observed import Performance
from reconciler.domain.plan import SloProjection
from reconciler.domain.profiles import PREFILL_DECODE, SERIAL_PREFILL, ServiceClass, SloTarget
from reconciler.domain.records import dataclass, replace
from reconciler.sizing.arrays import CandidateRows, Floats, align


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Limits of latencies, and a floor of output tokens per second; shape (candidates,).

    An absent limit is infinite, an absent floor is 0. `wait_s` is a limit of the mean wait; `mean_limit_s` turns a
    percentile into one as upstream does. `itl_s` and `ttft_s` are limits of the mean where their percentile (0-100,
    exclusive) is NaN or None, else of that percentile, by the exact distribution (see `percentiles`).
    """

    itl_s: Floats
    wait_s: Floats
    tokens_per_s: Floats
    ttft_s: Floats | None = None
    itl_percentile: Floats | float | None = None
    ttft_percentile: Floats | float | None = None


def tail_factor(percentile: float | None) -> float:
    """Return the percentile of a wait as a multiple of its mean; without a percentile 1, the mean itself.

    Waits are taken to have an exponential tail, so the p-th percentile is the mean times -ln(1 - p/100).
    Raises `ValueError` unless 0 < percentile < 100.
    """
    if percentile is None:
        return 1.0
    if not 0 < percentile < 100:
        raise ValueError(f"percentile must be between 0 and 100, got {percentile}")
    return -math.log1p(-percentile / 100)


def mean_limit_s(target_s: float, percentile: float | None) -> float:
    """Return the mean that keeps `percentile` percent of waits below `target_s`; without a percentile, `target_s`.

    Raises `ValueError` unless 0 < percentile < 100.
    """
    return target_s / tail_factor(percentile)


class Binding(IntEnum):
    """What stops the rate from being larger, or what no rate at all can attain."""

    CAPACITY = 0
    ITL = 1
    WAIT = 2
    THROUGHPUT = 3
    TTFT = 4


# Prompts as a serial resource: one engine computes them one after the other, with the tokens of all who decode.
# An iteration computes a token for each of n requests that decode and, in what its budget of tokens leaves, chunks of
# prompts, first come first served (chunked prefill). It takes alpha + beta * n and `prompt_s` for every prompt token.
# At a rate r, with prompts of p and answers of o tokens, in the mean iteration = alpha / (1 - r * (prompt_s * p +
# beta * (o - 1))) and n = r * (o - 1) * iteration. Who decodes sees more of them: the prompts are computed with his
# tokens that came while he waited for his own. While prompts queue, each iteration computes budget - n of their
# tokens. So they have one server (M/G/1) that takes p over that speed for each; the tail of their wait is taken to be
# exponential, with the decay that heavy traffic gives it. Lengths of prompts are taken to be lognormal: who has a
# long one waits for it himself. These are means of a replica whose batch has room: places in the batch are the
# business of the chain.
#
# With an `overlap` compute hides behind the memory that an iteration reads: of the time alpha + b * n that the weights
# and the context of n take, that share is free for computing tokens, and only what is beyond adds up (a roofline: 1;
# all of it adds up: 0). Prompts of one iteration share it. beta is b and the compute of a request's tokens.

# Lengths of prompts that stand for all: the normal deviate of each, and the share of prompts that it stands for. Dense
# where percentiles are asked for.
_SHARES = np.array([0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.03, 0.01, 0.01])
_MIDDLES = np.cumsum(_SHARES) - _SHARES / 2
_MOST_STEPS = 60
# Of an iteration whose compute hides: to a millionth.
_MOST_HALVINGS = 24
_NARROWEST = 1e-11
_TINY = 1e-300
# No prompt takes less than a nanosecond, and doubling must begin somewhere.
_SHORTEST_S = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQueue(CandidateRows):
    """What the queue of prompts depends on, arrays of shape (candidates,).

    `prompt_s` is the time that a prompt token adds to an iteration, `token_budget` the tokens an iteration computes at
    most. `spread` is the variance of prompt lengths over their squared mean. `step_tokens` of a request are computed a
    step, and `overlap` is the share of an iteration's memory time in which compute is free.
    """

    alpha_s: Floats
    beta_s: Floats
    prompt_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    token_budget: Floats
    spread: Floats
    step_tokens: Floats
    overlap: Floats

    @property
    def steps(self) -> Floats:
        """Return the iterations of a request behind its first token."""
        return np.maximum(self.output_tokens - 1, 0.0)

    @property
    def work_s(self) -> Floats:
        """Return the time of the engine that a request takes at least, however many run with it."""
        return self.prompt_s * self.input_tokens + self.beta_s * self.steps

    def at(self, rate_per_s: Floats) -> "PromptState":
        """Return the state of the queue at arrival rates (0 or more)."""
        nothing = np.zeros_like(rate_per_s)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            iteration_s = self.iteration_s(rate_per_s, nothing, nothing)
            decoding = rate_per_s * self.steps * iteration_s
            room = np.maximum(self.token_budget - decoding, 1.0)
            lone_s = self.alpha_s + self.beta_s * decoding
            service_s = self.input_tokens * ((lone_s - self.hidden_s(decoding, room)) / room + self.prompt_s)
            load = np.where(np.isfinite(iteration_s), rate_per_s * service_s, np.inf)
        return PromptState(
            queue=self,
            rate_per_s=rate_per_s,
            iteration_s=iteration_s,
            lone_s=lone_s,
            room=room,
            service_s=service_s,
            load=load,
        )

    def hidden_s(self, decoding: Floats, prompt_tokens: Floats) -> Floats:
        """Return the compute of an iteration that hides behind its memory."""
        tokens_s = self.prompt_s * self.step_tokens
        with np.errstate(invalid="ignore"):  # without end where more comes than is computed
            free_s = self.overlap * (self.alpha_s + np.maximum(self.beta_s - tokens_s, 0.0) * decoding)
            hidden_s = np.minimum(free_s, tokens_s * decoding + self.prompt_s * prompt_tokens)
        return np.where((self.overlap > 0) & np.isfinite(hidden_s), hidden_s, 0.0)

    def mean_hidden_s(self, decoding: Floats, prompts: Floats) -> Floats:
        """Return the mean of that where so many prompts come with an iteration, at random."""
        some = -np.expm1(-prompts)
        together = np.where(some > 0, prompts / np.maximum(some, _TINY), 1.0)
        with_prompts_s = sum(share * self.hidden_s(decoding, together * each) for share, each in self.lengths())
        return some * with_prompts_s + (1 - some) * self.hidden_s(decoding, np.zeros_like(decoding))

    def iteration_s(self, rate_per_s: Floats, others: Floats, prompts: Floats) -> Floats:
        """Return the mean iteration with so many who decode and prompts beside those that a rate brings in the mean.

        Infinite from the rate on at which more comes than is computed.
        """
        idle = 1 - rate_per_s * self.work_s
        alone_s = self.alpha_s + self.beta_s * others + self.prompt_s * self.input_tokens * prompts
        high_s = np.where(idle > 0, alone_s / idle, np.inf)
        index = np.flatnonzero((self.overlap > 0) & np.isfinite(high_s))
        if not index.size:
            return high_s
        some, rate, beside, more = self.take(index), rate_per_s[index], others[index], prompts[index]
        low, high = np.zeros(index.size), high_s[index]
        for _ in range(_MOST_HALVINGS):
            middle = (low + high) / 2
            hidden_s = some.mean_hidden_s(beside + rate * some.steps * middle, more + rate * middle)
            over = middle * idle[index] > alone_s[index] - hidden_s
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        high_s[index] = high
        return high_s

    def lengths(self) -> list[tuple[float, Floats]]:
        """Return prompt lengths that stand for all, each with its share."""
        from reconciler.sizing.special import ndtri

        variance = np.log1p(self.spread)
        deviation = np.sqrt(variance)
        deviates = ndtri(_MIDDLES)
        return [
            (float(share), self.input_tokens * np.exp(deviation * deviate - variance / 2))
            for share, deviate in zip(_SHARES, deviates, strict=True)
        ]

    def largest_rate(self, itl_s: Floats, ttft_s: Floats, outside: Floats) -> "PromptLimits":
        """Return the largest rate at which prompts are computed as fast as they come, and inside the targets.

        `itl_s` limits the mean gap between tokens, `ttft_s` what a share of `outside` may exceed (NaN: the mean);
        infinite limits are absent. Everything grows with the rate. 0 where even a lone prompt takes too long.
        """
        rows = _LimitedQueue(queue=self, itl_s=itl_s, ttft_s=ttft_s, outside=outside)
        by_load = _largest_inside(rows, _LimitedQueue.log_load, 1 / np.maximum(self.work_s, _TINY))
        by_itl = _largest_inside(rows, _LimitedQueue.log_itl, by_load)
        by_ttft = _largest_inside(rows, _LimitedQueue.log_ttft, by_itl)
        by_others = np.where(by_itl < by_load, Binding.ITL, Binding.CAPACITY)
        binding = np.where(by_ttft < by_itl, Binding.TTFT, by_others)
        return PromptLimits(rate_per_s=by_ttft, binding=binding.astype(np.int8))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitedQueue(CandidateRows):
    """Queues with their targets, and how far each is from one of them at a rate: logarithms, above 0 outside."""

    queue: PromptQueue
    itl_s: Floats
    ttft_s: Floats
    outside: Floats

    def log_load(self, rate_per_s: Floats) -> Floats:
        """Return how far prompts are from coming faster than they are computed."""
        with np.errstate(divide="ignore"):
            return np.log(self.queue.at(rate_per_s).load)

    def log_itl(self, rate_per_s: Floats) -> Floats:
        """Return how far the mean gap between tokens is from its limit."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.queue.at(rate_per_s).itl_s / self.itl_s)

    def log_ttft(self, rate_per_s: Floats) -> Floats:
        """Return how far the share of late first tokens is from what is allowed, or their mean from its limit."""
        state = self.queue.at(rate_per_s)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_mean = np.log(state.ttft_s / self.ttft_s)
            return np.where(np.isnan(self.outside), by_mean, np.log(state.share_later(self.ttft_s) / self.outside))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLimits:
    """The largest rates that the queue of prompts allows, and what stops them from being larger (`Binding`)."""

    rate_per_s: Floats
    binding: NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """The queue of prompts at a rate, arrays of shape (candidates,).

    `iteration_s` is the mean time of an iteration, `lone_s` that of one without prompts, with `room` for tokens of
    them; a prompt takes `service_s` of the server, which is busy for `load` of the time. Waits are infinite from a load
    of 1 on.
    """

    queue: PromptQueue
    rate_per_s: Floats
    iteration_s: Floats
    lone_s: Floats
    room: Floats
    service_s: Floats
    load: Floats

    @property
    def ttft_s(self) -> Floats:
        """Return the mean time to first token of those who find a place."""
        with np.errstate(divide="ignore", invalid="ignore"):
            wait_s = self.load * self.service_s * (1 + self.queue.spread) / (2 * (1 - self.load))
        return np.where(self.load < 1, self._own_s(self.queue.input_tokens) + wait_s, np.inf)

    @property
    def itl_s(self) -> Floats:
        """Return the mean time between tokens of those who decode.

        Prompts that come while one waits and is computed are computed while he decodes, as are those that come then.
        """
        queue, met = self.queue, np.where(self.load < 1, self.rate_per_s * self.ttft_s, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            itl_s = queue.iteration_s(self.rate_per_s, np.ones_like(met), met / np.maximum(queue.steps, 1.0))
        return np.where(self.load < 1, itl_s, np.inf)

    def share_later(self, ttft_s: Floats) -> Floats:
        """Return the share of those who find a place whose first token comes later than `ttft_s`."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            decay = 2 * (1 - self.load) / (self.service_s * (1 + self.queue.spread))
            later = np.zeros_like(ttft_s)
            for share, tokens in self.queue.lengths():
                spare_s = ttft_s - self._own_s(tokens)
                waiting = np.minimum(self.load * np.exp(-decay * np.maximum(spare_s, 0.0)), 1.0)
                later += share * np.where(spare_s < 0, 1.0, waiting)
        return np.where(self.load < 1, later, 1.0)

    def ttft_quantile_s(self, outside: Floats) -> Floats:
        """Return the time to first token that a share of `outside` exceeds."""
        own_s = np.maximum(self._own_s(self.queue.input_tokens), _SHORTEST_S)
        low, high = np.zeros_like(self.load), np.where(self.load < 1, own_s, 0.0)
        while (grows := (self.load < 1) & (self.share_later(high) > outside)).any():
            high = np.where(grows, 2 * high, high)
        for _ in range(_MOST_STEPS):
            middle = (low + high) / 2
            late = self.share_later(middle) > outside
            low, high = np.where(late, middle, low), np.where(late, high, middle)
        return np.where(self.load < 1, high, np.inf)

    def _own_s(self, tokens: Floats) -> Floats:
        """Return what a prompt takes alone, with the rest of the iterations that it arrives in and ends in.

        The next prompt, where one waits, fills what is left of the last iteration.
        """
        next_s = np.minimum(self.load, 1.0) * self.queue.prompt_s * np.minimum(tokens, self.room) / 2
        chunks = np.ceil(tokens / self.room)
        decoding = self.rate_per_s * self.queue.steps * self.iteration_s
        chunk_s = self.lone_s - self.queue.hidden_s(decoding, tokens / np.maximum(chunks, 1.0))
        return chunks * chunk_s + self.queue.prompt_s * tokens + self.iteration_s / 2 + next_s


def _largest_inside(rows: _LimitedQueue, excess: Callable[[_LimitedQueue, Floats], Floats], most: Floats) -> Floats:
    """Return the largest rates up to `most` where a growing function is not above 0; 0 where there is none.

    The false position method, with the halving of Illinois where an end does not move; candidates leave as they finish.
    """
    rate_per_s = most.copy()
    index = np.flatnonzero(most > 0)
    high, low, rows = most[index] * (1 - _NARROWEST), most[index] * _NARROWEST, rows.take(index)
    high_value, low_value = excess(rows, high), excess(rows, low)
    rate_per_s[index[low_value > 0]] = 0.0
    rest = (high_value > 0) & (low_value <= 0)
    index, low, high, rows = index[rest], low[rest], high[rest], rows.take(rest)
    low_value, high_value = low_value[rest], high_value[rest]
    side = np.zeros_like(low)
    for step in range(_MOST_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            point = (low * high_value - high * low_value) / (high_value - low_value)
        is_usable = np.isfinite(point) & (point > low) & (point < high) & (step < _MOST_STEPS // 2)
        point = np.where(is_usable, point, (low + high) / 2)
        value = excess(rows, point)
        outside = value > 0
        low_value = np.where(outside, np.where(side > 0, low_value / 2, low_value), value)
        high_value = np.where(outside, value, np.where(side < 0, high_value / 2, high_value))
        low, high, side = np.where(outside, low, point), np.where(outside, point, high), np.where(outside, 1.0, -1.0)
        rate_per_s[index] = low
        onward = high - low > _NARROWEST * high
        if not onward.any():
            break
        if not onward.all():
            index, low, high, side, rows = index[onward], low[onward], high[onward], side[onward], rows.take(onward)
            low_value, high_value = low_value[onward], high_value[onward]
    return rate_per_s


# How long a request stays in service in a batch of n, and what a law reads off that: its latencies. Every law knows
# them as piecewise linear functions of the mean service time, so how fast they grow with the load follows from how
# fast that does.

# Rounding of parameters and targets to float64 must not decide what is attainable.
ROUNDING = 1e-12
# Stands for a slope of zero in quotients: small enough to decide nothing, large enough not to overflow.
_SMALLEST_DIVISOR = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """What a request sees once it is served, arrays of shape (candidates,).

    `first_token_s` runs from the start of service to the first token: waiting comes on top.
    """

    itl_s: Floats
    first_token_s: Floats


class Reading(Protocol):
    """How a law turns the means of a chain into latencies."""

    def read(self, service_s: Floats, /) -> Latencies:
        """Return the latencies at a mean service time."""

    def first_token_growth_s(self, service_s: Floats, growth_s: Floats, /) -> Floats:
        """Return how much the time to the first token grows, to first order, while the service time grows."""

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the longest mean service time that keeps the inter-token latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOnly(CandidateRows):
    """A request is nothing but its output tokens: the first one comes with the service."""

    output_tokens: Floats

    def read(self, service_s: Floats, /) -> Latencies:
        """Return the service time spread over the tokens."""
        return Latencies(itl_s=service_s / self.output_tokens, first_token_s=np.zeros_like(service_s))

    def first_token_growth_s(self, _service_s: Floats, growth_s: Floats, /) -> Floats:
        """Return zero: the first token does not wait for others."""
        return np.zeros_like(growth_s)

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the service time of which each token takes `itl_s`."""
        return itl_s * self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDecode(CandidateRows):
    """Prefill and an iteration at the batch that the mean service time stands for, cut to 0..N.

    The batch is (service - `base_s`) / `per_request_s`. `prefill_s` and `prefill_per_request_s` are 0 without a
    prompt, while the published model keeps gamma in `base_s`: there the batch comes out too small, by gamma's share.
    """

    alpha_s: Floats
    beta_s: Floats
    prefill_s: Floats
    prefill_per_request_s: Floats
    base_s: Floats
    per_request_s: Floats
    max_batch: Floats

    def read(self, service_s: Floats, /) -> Latencies:
        """Return iteration and prefill at the batch that the service time stands for."""
        batch = np.clip(self._batch(service_s), 0.0, self.max_batch)
        return Latencies(
            itl_s=self.alpha_s + self.beta_s * batch,
            first_token_s=self.prefill_s + self.prefill_per_request_s * batch,
        )

    def first_token_growth_s(self, service_s: Floats, growth_s: Floats, /) -> Floats:
        """Return the growth with the batch, none where that is cut."""
        batch = self._batch(service_s)
        inside = (batch > 0) & (batch < self.max_batch)
        by_batch = np.where(inside, growth_s / np.maximum(self.per_request_s, _SMALLEST_DIVISOR), 0.0)
        return self.prefill_per_request_s * by_batch

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the service time of the batch whose iteration takes `itl_s`: 0 below alpha, infinite from N on."""
        spare_s = itl_s - self.alpha_s * (1 - ROUNDING)
        batch = np.minimum(spare_s / np.maximum(self.beta_s, _SMALLEST_DIVISOR), self.max_batch)
        limit_s = np.where(batch >= self.max_batch, np.inf, self.base_s + self.per_request_s * batch)
        return np.where(spare_s < 0, 0.0, limit_s)

    def _batch(self, service_s: Floats) -> Floats:
        # Without a slope the service time says nothing of the batch, and nothing depends on it.
        spare_s = np.where(self.per_request_s > 0, service_s - self.base_s, 0.0)
        return spare_s / np.maximum(self.per_request_s, _SMALLEST_DIVISOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCurves(CandidateRows):
    """Service time `base_s + per_request_s * n` of a whole request in a batch of n, one element per candidate.

    `max_batch` (1 or more) requests run at once, `occupancy_limit` (at least `max_batch`) are in the system at most:
    whole numbers, kept as float64 because every formula needs them so. All arrays have shape (candidates,).
    `reading` is what the law makes of the means of a chain; `prompts` is the queue of prompts under a law that computes
    them one after the other.
    """

    base_s: Floats
    per_request_s: Floats
    max_batch: Floats
    occupancy_limit: Floats
    reading: Reading
    prompts: PromptQueue | None = None

    def service_s(self, batch: Floats | float) -> Floats:
        """Return the service time of a request that spends it in a batch of `batch`."""
        return self.base_s + self.per_request_s * batch

    def service_rate_per_s(self, batch: Floats | float) -> Floats:
        """Return how many requests complete per second while `batch` of them run."""
        return batch / self.service_s(batch)

    def latencies_at(self, batch: Floats | float) -> Latencies:
        """Return what a request sees that spends its service in a batch of `batch`."""
        return self.reading.read(self.service_s(batch))


# The queueing laws: how long a request is served at batch n, and what it sees of that. Arguments of every law
# broadcast against each other; service times must come out positive. `decode_only` and `prefill_decode` are the
# inferno optimizer of 2025; `serial_prefill` is ours.

# The published queues: of `decode_only` ten batches with the running one, of `prefill_decode` ten beside it.
_DECODE_ONLY_BATCHES = 10
_PREFILL_DECODE_BATCHES = 11
TOKEN_BUDGET = 8192
"""Tokens of an iteration, prompts included, where it is not given: vLLM's own default with chunked prefill."""
# Lengths of prompts vary by about their mean in public traces of conversations; what a histogram tells goes first.
SPREAD = 1.0


def decode_only(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `decode_only`: a request is `output_tokens` steps of alpha + beta * n seconds each.

    The time to first token is the wait. `occupancy_limit` defaults to ten times `max_batch` in all.
    """
    limit = _occupancy(max_batch, occupancy_limit, _DECODE_ONLY_BATCHES)
    alpha, beta, tokens, batch, limit = align(alpha_s, beta_s, output_tokens, max_batch, limit)
    return ServiceCurves(
        base_s=tokens * alpha,
        per_request_s=tokens * beta,
        max_batch=batch,
        occupancy_limit=limit,
        reading=DecodeOnly(output_tokens=tokens),
    )


def prefill_decode(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    gamma_s: ArrayLike,
    delta_s: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `prefill_decode`: a prefill, then a step for every further output token.

    Prefill takes gamma + delta * input tokens * n seconds (nothing without a prompt) and yields the first token; a
    step takes alpha + beta * n. A request that would take no time (one token and no prefill) takes one step.
    `occupancy_limit` defaults to `max_batch` and ten times as many waiting.
    """
    limit = _occupancy(max_batch, occupancy_limit, _PREFILL_DECODE_BATCHES)
    alpha, beta, gamma, delta, prompt, output, batch, limit = align(
        alpha_s, beta_s, gamma_s, delta_s, input_tokens, output_tokens, max_batch, limit
    )
    prefill, prefill_per_request = np.where(prompt > 0, gamma, 0.0), delta * prompt
    steps = np.maximum(output - 1, 0.0)
    timeless = (steps == 0) & (prefill + prefill_per_request == 0)
    steps = np.where(timeless, 1.0, steps)
    per_request = prefill_per_request + beta * steps
    return ServiceCurves(
        base_s=prefill + alpha * steps,
        per_request_s=per_request,
        max_batch=batch,
        occupancy_limit=limit,
        reading=PrefillDecode(
            alpha_s=alpha,
            beta_s=beta,
            prefill_s=prefill,
            prefill_per_request_s=prefill_per_request,
            base_s=np.where(timeless, 0.0, gamma) + alpha * steps,
            per_request_s=per_request,
            max_batch=batch,
        ),
    )


def serial_prefill(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    prompt_s: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    token_budget: ArrayLike = TOKEN_BUDGET,
    spread: ArrayLike = SPREAD,
    step_tokens: ArrayLike = 1.0,
    overlap: ArrayLike = 0.0,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `serial_prefill`: prompts are computed one after the other, among the tokens.

    An iteration takes alpha + beta * n and `prompt_s` for each prompt token in it, `token_budget` tokens at most. In
    the mean a batch of n brings n * input / output prompt tokens with every iteration, so inter-token latency is a line
    whose slope is beta + prompt_s * input / output; `prompts` is the queue of the prompts themselves. `spread` is the
    variance of prompt lengths over their squared mean. Of an iteration's memory time the share `overlap` is free for
    compute, of prompts and of the `step_tokens` of each who decodes. `occupancy_limit` defaults as that of
    `prefill_decode`.
    """
    limit = _occupancy(max_batch, occupancy_limit, _PREFILL_DECODE_BATCHES)
    alpha, beta, prompt, inputs, output, batch, budget, cv, tokens, free, limit = align(
        alpha_s,
        beta_s,
        prompt_s,
        input_tokens,
        output_tokens,
        max_batch,
        token_budget,
        spread,
        step_tokens,
        overlap,
        limit,
    )
    prompts = PromptQueue(
        alpha_s=alpha,
        beta_s=beta,
        prompt_s=prompt,
        input_tokens=inputs,
        output_tokens=output,
        token_budget=budget,
        spread=cv,
        step_tokens=tokens,
        overlap=free,
    )
    chunks = np.ceil(inputs / budget)
    # What hides grows ever more slowly with the batch: a line to what hides in the full one is below it throughout.
    hidden_s = prompts.mean_hidden_s(batch, batch / np.maximum(output, 1.0)) / batch
    curves = prefill_decode(
        alpha_s=alpha,
        beta_s=beta + prompt * inputs / np.maximum(output, 1.0) - hidden_s,
        gamma_s=chunks * (alpha - prompts.hidden_s(np.zeros_like(batch), inputs / np.maximum(chunks, 1.0)))
        + prompt * inputs,
        delta_s=0.0,
        input_tokens=inputs,
        output_tokens=output,
        max_batch=batch,
        occupancy_limit=limit,
    )
    return replace(curves, prompts=prompts)


def _occupancy(max_batch: ArrayLike, occupancy_limit: ArrayLike | None, batches: int) -> ArrayLike:
    if occupancy_limit is not None:
        return occupancy_limit
    return batches * np.asarray(max_batch, dtype=np.float64)


LISTED_WAIT_PERCENTILE = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LawTargets:
    """The limits of one class under one law.

    `is_prefill_known` is whether the law models prefill: without, a time to first token is nothing but the wait.
    """

    is_prefill_known: bool
    waits: tuple[SloTarget, ...]
    ttft: SloTarget | None
    itl: SloTarget | None
    tokens_per_s: float


def targets_under(law: str, service_class: ServiceClass) -> LawTargets:
    """The class's targets as `law` can keep them.

    Without prefill a time to first token is limited as far as it is waiting. Upstream's `slo-ttft` is the 95th
    percentile of the wait there, and the mean time to first token where prefill is modelled: see
    rules/prefill.md#percentiles.
    """
    listed_s = service_class.listed_ttft_s
    waits: tuple[SloTarget | None, ...]
    is_prefill_known = law in (PREFILL_DECODE, SERIAL_PREFILL)
    if is_prefill_known:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s)
        waits, ttft = (service_class.wait,), service_class.ttft or listed
    else:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s, percentile=LISTED_WAIT_PERCENTILE)
        waits, ttft = (service_class.wait, listed), service_class.ttft
    known = [target for target in waits if target is not None]
    return LawTargets(
        is_prefill_known=is_prefill_known,
        waits=tuple(known) if len(known) < 2 else tuple(dict.fromkeys(known)),
        ttft=ttft,
        itl=service_class.itl,
        tokens_per_s=service_class.throughput_tokens_per_s or 0.0,
    )


def slo_projections(
    targets: LawTargets, before: Performance | None, after: Performance | None
) -> tuple[SloProjection, ...]:
    """Each target with what is expected, in the target's own statistic."""
    return tuple(
        SloProjection(
            name=name,
            statistic=target.statistic,
            target_s=target.limit_s,
            before_s=_expected(target, targets, before),
            after_s=_expected(target, targets, after),
        )
        for name, target in _named(targets)
    )


def _named(targets: LawTargets) -> Iterator[tuple[str, SloTarget]]:
    for target in targets.waits:
        yield "wait", target
    if targets.ttft is not None:
        yield "ttft" if targets.is_prefill_known else "wait", targets.ttft
    if targets.itl is not None:
        yield "itl", targets.itl


def _expected(target: SloTarget, targets: LawTargets, performance: Performance | None) -> float | None:
    """What is expected in the target's statistic; upstream's waits keep their tail, -ln(1 - p) times the mean."""
    if performance is None:
        return None
    if target is targets.itl:
        return performance.itl_s if target.percentile is None else performance.itl_percentile_s
    if target is targets.ttft:
        if target.percentile is not None:
            return performance.ttft_percentile_s
        return performance.ttft_s if targets.is_prefill_known else performance.wait_s
    return None if performance.wait_s is None else performance.wait_s * tail_factor(target.percentile)
