"""Prompts as a serial resource: one engine computes them one after the other, beside the tokens of all who decode.

An iteration computes a token for each of n requests that decode and, in what its budget of tokens leaves, chunks of
prompts, first come first served (chunked prefill). It takes alpha + beta * n and `prompt_s` for every prompt token. At
a rate r, with prompts of p and answers of o tokens, in the mean

    iteration = alpha / (1 - r * (prompt_s * p + beta * (o - 1)))        n = r * (o - 1) * iteration

Who decodes sees more of them: also the prompts are computed beside his tokens that came while he waited for his own.
While prompts queue, each iteration computes budget - n of their tokens. So they have one server (M/G/1) that takes
p over that speed for each; the tail of their wait is taken to be exponential, with the decay that heavy traffic gives
it. Lengths of prompts are taken to be lognormal: who has a long one waits for it himself. These are means of a replica
whose batch has room: places in the batch are the business of the chain.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import CandidateRows, Floats
from reconciler.sizing.queueing.targets import Binding

# Lengths of prompts that stand for all: the normal deviate of each, and the share of prompts that it stands for. Dense
# where percentiles are asked for.
_SHARES = np.array([0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.03, 0.01, 0.01])
_MIDDLES = np.cumsum(_SHARES) - _SHARES / 2
_MOST_STEPS = 60
_NARROWEST = 1e-11
_TINY = 1e-300
# No prompt takes less than a nanosecond, and doubling must begin somewhere.
_SHORTEST_S = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQueue(CandidateRows):
    """What the queue of prompts depends on, arrays of shape (candidates,).

    `prompt_s` is the time that a prompt token adds to an iteration, `token_budget` the tokens an iteration computes at
    most. `spread` is the variance of prompt lengths over their squared mean.
    """

    alpha_s: Floats
    beta_s: Floats
    prompt_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    token_budget: Floats
    spread: Floats

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
        idle = 1 - rate_per_s * self.work_s
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            iteration_s = np.where(idle > 0, self.alpha_s / idle, np.inf)
            decoding = rate_per_s * self.steps * iteration_s
            room = np.maximum(self.token_budget - decoding, 1.0)
            lone_s = self.alpha_s + self.beta_s * decoding
            service_s = self.input_tokens * (lone_s / room + self.prompt_s)
            load = np.where(idle > 0, rate_per_s * service_s, np.inf)
        return PromptState(
            queue=self,
            rate_per_s=rate_per_s,
            iteration_s=iteration_s,
            lone_s=lone_s,
            room=room,
            service_s=service_s,
            load=load,
        )

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
        queue = self.queue
        steps, prompts = np.maximum(queue.steps, 1.0), self.rate_per_s * queue.prompt_s * queue.input_tokens
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            alone_s = queue.alpha_s + queue.beta_s + prompts * self.ttft_s / steps
            itl_s = alone_s / (1 - self.rate_per_s * queue.work_s)
        return np.where(self.load < 1, itl_s, np.inf)

    def share_later(self, ttft_s: Floats) -> Floats:
        """Return the share of those who find a place whose first token comes later than `ttft_s`."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            decay = 2 * (1 - self.load) / (self.service_s * (1 + self.queue.spread))
            later = np.zeros_like(ttft_s)
            for share, tokens in self._lengths():
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
        return np.ceil(tokens / self.room) * self.lone_s + self.queue.prompt_s * tokens + self.iteration_s / 2 + next_s

    def _lengths(self) -> list[tuple[float, Floats]]:
        """Return prompt lengths that stand for all, each with its share."""
        from scipy.special import ndtri

        variance = np.log1p(self.queue.spread)
        deviation = np.sqrt(variance)
        deviates = ndtri(_MIDDLES)
        return [
            (float(share), self.queue.input_tokens * np.exp(deviation * deviate - variance / 2))
            for share, deviate in zip(_SHARES, deviates, strict=True)
        ]


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
