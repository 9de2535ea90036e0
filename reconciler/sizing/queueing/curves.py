"""How long a request stays in service in a batch of n, and what a law reads off that: its latencies.

Every law knows them as piecewise linear functions of the mean service time, so how fast they grow with the load follows
from how fast that does.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reconciler.sizing.arrays import CandidateRows, Floats
from reconciler.sizing.queueing.prompts import PromptQueue

# Rounding of parameters and targets to float64 must not decide what is attainable.
ROUNDING = 1e-12
# Stands for a slope of zero in quotients: small enough to decide nothing, large enough not to overflow.
_TINY = 1e-200


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
        by_batch = np.where(inside, growth_s / np.maximum(self.per_request_s, _TINY), 0.0)
        return self.prefill_per_request_s * by_batch

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the service time of the batch whose iteration takes `itl_s`: 0 below alpha, infinite from N on."""
        spare_s = itl_s - self.alpha_s * (1 - ROUNDING)
        batch = np.minimum(spare_s / np.maximum(self.beta_s, _TINY), self.max_batch)
        limit_s = np.where(batch >= self.max_batch, np.inf, self.base_s + self.per_request_s * batch)
        return np.where(spare_s < 0, 0.0, limit_s)

    def _batch(self, service_s: Floats) -> Floats:
        # Without a slope the service time says nothing of the batch, and nothing depends on it.
        spare_s = np.where(self.per_request_s > 0, service_s - self.base_s, 0.0)
        return spare_s / np.maximum(self.per_request_s, _TINY)


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
