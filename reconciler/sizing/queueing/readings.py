"""What a law reads off a solved chain: inter-token latency and time to the first token.

Every law knows them as functions of two means, the service time and the number in service. All are piecewise linear,
so how fast they grow with the load follows from how fast the means do.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.chunks import Chunks

# Rounding of parameters and targets to float64 must not decide what is attainable.
ROUNDING = 1e-12
# Stands for a slope of zero in quotients: small enough to decide nothing, large enough not to overflow.
_TINY = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the laws read: mean service time and mean number in service, or the growth of both."""

    service_s: Floats
    in_service: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """What a request sees once it is served, arrays of shape (candidates,).

    `first_token_s` runs from the start of service to the first token: waiting comes on top.
    """

    itl_s: Floats
    first_token_s: Floats


class Reading(Protocol):
    """How a law turns the means of a chain into latencies."""

    def read(self, means: Means, /) -> Latencies:
        """Return the latencies at the means."""

    def grow(self, means: Means, growth: Means, /) -> Latencies:
        """Return how much the latencies grow, to first order, while the means grow."""

    def service_limit_s(self, itl_s: Floats, /) -> Floats | None:
        """Return the longest mean service time that keeps the inter-token latency; None if it alone does not tell."""

    def take(self, index: Integers | Bools) -> Self:
        """Return the reading of the candidates that `index` selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOnly:
    """A request is nothing but its output tokens: the first one comes with the service."""

    output_tokens: Floats

    def read(self, means: Means, /) -> Latencies:
        """Return the service time spread over the tokens."""
        return Latencies(itl_s=means.service_s / self.output_tokens, first_token_s=np.zeros_like(means.service_s))

    def grow(self, _means: Means, growth: Means, /) -> Latencies:
        """Return the growth of the service time spread over the tokens."""
        return self.read(growth)

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the service time of which each token takes `itl_s`."""
        return itl_s * self.output_tokens

    def take(self, index: Integers | Bools) -> "DecodeOnly":
        """Return the reading of the candidates that `index` selects."""
        return DecodeOnly(output_tokens=self.output_tokens[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDecode:
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

    def read(self, means: Means, /) -> Latencies:
        """Return iteration and prefill at the batch that the service time stands for."""
        batch = np.clip(self._batch(means.service_s), 0.0, self.max_batch)
        return Latencies(
            itl_s=self.alpha_s + self.beta_s * batch,
            first_token_s=self.prefill_s + self.prefill_per_request_s * batch,
        )

    def grow(self, means: Means, growth: Means, /) -> Latencies:
        """Return the growth with the batch, none where that is cut."""
        batch = self._batch(means.service_s)
        inside = (batch > 0) & (batch < self.max_batch)
        by_batch = np.where(inside, growth.service_s / np.maximum(self.per_request_s, _TINY), 0.0)
        return Latencies(itl_s=self.beta_s * by_batch, first_token_s=self.prefill_per_request_s * by_batch)

    def service_limit_s(self, itl_s: Floats, /) -> Floats:
        """Return the service time of the batch whose iteration takes `itl_s`: 0 below alpha, infinite from N on."""
        spare_s = itl_s - self.alpha_s * (1 - ROUNDING)
        batch = np.minimum(spare_s / np.maximum(self.beta_s, _TINY), self.max_batch)
        limit_s = np.where(batch >= self.max_batch, np.inf, self.base_s + self.per_request_s * batch)
        return np.where(spare_s < 0, 0.0, limit_s)

    def take(self, index: Integers | Bools) -> "PrefillDecode":
        """Return the reading of the candidates that `index` selects."""
        return PrefillDecode(**{name: getattr(self, name)[index] for name in PrefillDecode.__slots__})

    def _batch(self, service_s: Floats) -> Floats:
        # Without a slope the service time says nothing of the batch, and nothing depends on it.
        spare_s = np.where(self.per_request_s > 0, service_s - self.base_s, 0.0)
        return spare_s / np.maximum(self.per_request_s, _TINY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWork:
    """Prefill in chunks beside the other requests in service; what is left of the service time are the tokens."""

    alpha_s: Floats
    chunks: Chunks

    def read(self, means: Means, /) -> Latencies:
        """Return the latencies with the chunks of the whole batch next to the number in service."""
        chunk_count = self.chunks.count_near(means.in_service)
        iteration_s = self._prefill_iteration_s(chunk_count, means.in_service)
        prefill_s = chunk_count * np.maximum(iteration_s, 0.0) + self.chunks.prefill_work_s(chunk_count)
        itl_s = (means.service_s - prefill_s) / self.chunks.output_tokens
        return Latencies(itl_s=itl_s, first_token_s=prefill_s + itl_s)

    def grow(self, means: Means, growth: Means, /) -> Latencies:
        """Return the growth while the number of chunks stays."""
        chunk_count = self.chunks.count_near(means.in_service)
        alongside = self._prefill_iteration_s(chunk_count, means.in_service) > 0
        share_s = self.chunks.iteration_share_s(chunk_count)
        prefill_s = np.where(alongside, chunk_count * share_s * growth.in_service, 0.0)
        itl_s = (growth.service_s - prefill_s) / self.chunks.output_tokens
        return Latencies(itl_s=itl_s, first_token_s=prefill_s + itl_s)

    def service_limit_s(self, _itl_s: Floats, /) -> None:
        """Return None: the service time holds prefill too, and how much depends on the number in service."""
        return None  # noqa: RET501 -- an answer, not its absence

    def take(self, index: Integers | Bools) -> "TokenWork":
        """Return the reading of the candidates that `index` selects."""
        return TokenWork(alpha_s=self.alpha_s[index], chunks=self.chunks.take(index))

    def _prefill_iteration_s(self, chunk_count: Floats, in_service: Floats) -> Floats:
        """What an iteration takes beside the others, without the request's own work; negative below a lone one."""
        return self.alpha_s + (in_service - 1) * self.chunks.iteration_share_s(chunk_count)
